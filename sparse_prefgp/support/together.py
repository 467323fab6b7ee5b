"""What cannot go together, said once: models, fits and commands are checked by this table, and
`docs/what-goes-together.md` is made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Options of a fit that need all duels in memory.
IN_MEMORY: tuple[str, ...] = (
    "refit",
    "starts",
    "tie_model",
    "person",
    "taste",
    "time",
    "day_first",
    "engine",
)
# What a table takes, though its model is in chunks; a stream does not.
OF_TABLES = ("split", "max_train", "report")
OPTIONS = (
    *IN_MEMORY,
    *OF_TABLES,
    "fixed_margin",
    "noise_variance",
    "test_fraction",
    "scheduler",
    "sites",
)
# What things are called, but for those whose name says it, and how they are asked for.
CALLED = {
    **{name: f"the option --{name.replace('_', '-')}" for name in OPTIONS},
    "answers": "a table of answers about sets",
    "sets": "answers about sets",
    "still": "utilities that do not move in time",
    "levels_of_items": "effects of items in no context (ItemEffect)",
    "effects_by_kernel": "effects of items by a kernel without features (ItemTimes)",
    "broken_weights": "weights that are not whole numbers",
    "choice": "the probability of an answer",
    "seeds": "seeds of a study",
    "made_duels": "duels of a study that are made (made:)",
    "split_but_by_items": "a split that is not by items",
    "targets": "duels from targets (regression:)",
    "no_targets": "duels that are not from targets",
    "standard_parts": "the parts of a data set (standard: true)",
    "gold": "gold duels (test: gold)",
    "values_of_terms": "values of kernel terms (at:)",
    "idle_option": "an option of other answers",
    "cuts": "cuts (Probit(cuts=))",
    "ties_in_utilities": "ties that tell of utilities too",
    "tie_margin": "a margin that is found alone (fit_tie_margin)",
    "joining": "what joins a block",
    "sites_here": "a model in this process (in_memory)",
    "audit": "an audit",
    "leaderboard": "a leaderboard",
    "later_duels": "duels that are all later than those that were learned from",
    "features_for_ids": "features in place of ids",
    "plane": "worth on a plane (worth)",
    "unmeasured": "features without units",
    "first_round": "a first round (--first-round)",
    "choosing": "an option of how a model chooses",
    "trajectory": "a trajectory of rows (in_time.trajectories)",
    "judges_apart": "figures of each judge",
    "rows_of_sets": "rows of sets (sets=, chosen=, names=)",
    "partitioned": "the engine PartitionedEP()",
    "beyond_numbers": "features that are made of more than numbers",
    "dataset": "a tf.data.Dataset",
    "features": "a choice of features (features=)",
    "resume": "a comparison that is resumed (resume=True)",
    "view": "a view of a model (of_person, meet, at)",
    "filtered": "sites of a filter",
    "worth": "what a question is worth",
    "gain": "the gain of inducing inputs",
    "contexts": "items in contexts",
    "one_noise": "one noise for all",
    "one_utility": "one utility for all",
    "own_terms": "terms of your own (--term)",
    "integrate": "hyperparameters integrated out (--integrate)",
    "in_time": "utilities that move in time (ItemInTime, --time)",
    "item_effects": "effects of items (ItemEffect, ItemTimes)",
    "pair_effects": "effects of pairs (PairEffect)",
    "tastes": "tastes of people (Taste, --person)",
    "noise_by_group": 'noise by judge (Probit(by="judge"), --noise-by)',
    "own_cuts": 'cuts of each judge (Probit(cuts_by="judge"))',
    "margin": "a margin (Probit(margin=))",
    "margin_only": 'ties that tell the margin alone (Probit(ties="margin-only"), --tie-model)',
    "covariate_variance": "coefficients (Coefficients())",
    "people_variance": "a variance of coefficients of people (Taste(by_features=))",
    "streamed": "streamed duels (StreamedGP)",
    "inducing": "an approximation by inducing inputs",
    "inducing_variable": "inducing inputs (inducing_variable=, --inducing)",
    "blocks": "blocks of duels (PITC)",
    "labels": "a label for the block of each duel (PITC)",
    "subset": "a random subset of the duels (SubsetOfData)",
    "whole": "an approximation of all duels at once",
    "by_items": 'the form over items (over="items")',
    "by_duels": 'the form over duels (over="duels")',
    "one_by_one": "one site after the other (SequentialEP)",
    "own_noise": "an engine that needs noise of each row's own",
    "logistic": 'logistic noise (Laplace(link="logit"), --engine laplace-logit)',
    "chunks": "a fit in chunks (--stream, or a folder)",
    "dated_fit": "a fit with dates (--time)",
    "auto": "a choice of kernel or approximation (auto)",
    "auto_inducing": "the option inducing auto",
    "stated_split": "a split that says itself what is held out (given:COLUMN)",
    "block_column": "blocks by a column (pitc:COLUMN)",
    "export": "the export as a SavedModel",
    "trajectories": "trajectories and histories",
    "date": "a date (at=, --at)",
    "ahead": "scores day by day (ahead=, --ahead)",
    "in_one_pass": "taking duels up in one pass (in_one_pass=, --filter)",
    "pairs": "a list of pairs (--pairs)",
    "no_pairs": "candidates without a list of pairs",
    "risk": "a risk that is borne (risk=, --risk)",
    "no_risk": "no risk that is borne",
    "task": "a column of tasks (task=, --task)",
    "trust": "how probable each vote was (trust=, --trust)",
    "settle": "the score settle (--score)",
    "not_settle": "another score (--score)",
    "top": "a number of first items (top=, --top)",
    "of_prices": "prices of votes (prices=, --prices)",
    "prices": "prices of votes (prices=, --prices)",
    "context": "a context (--at)",
    "set_size": "sets of more than two items (--set-size)",
    "groups": "who judges (groups=)",
    "grade": "a column of grades (grade=, --grade)",
    "duels_object": "duels that say all themselves",
    "compiled": "a prediction that is being compiled (tf.function)",
    "people": "what is asked of people (people=, --person)",
    "stacked": "what is made of GPflow (DuelLikelihood, DuelKernel)",
    "loaded": "a model that was loaded without its duels",
    "gap": "the criterion 'gap'",
    "no_gap": "an approximation whose evidence is a bound, or has no inducing inputs",
    "in_memory": "duels in memory",
    "subset_rows": "subset=",
    "features_of_people": "features of people (people_features=, --people)",
    "no_features_of_people": "a model that knows no features of people",
    "no_transform": "a model that records no feature transform",
    "raw_items": "a raw table of items",
    "with_own": "the model's own items along with others (with_own=, --with-own)",
    "feature_groups": "groups of features (groups=, --groups)",
    "no_additive_kernel": "candidates without an additive kernel",
    "no_columns": "duels that were not read from a table",
    "only_ties": "duels that are all ties",
    "said_by_grades": "ties besides",
    "no_grade": "no column of grades",
    "ties_table": "a table of ties (ties=, --ties)",
    "ties_column": "a column of ties",
    "named_items": "duels that name items",
    "of_pairs": "what takes each duel by itself",
    "no_texts": "no column of texts (text=, --text)",
    "no_kernel": "no kernel (kernel=)",
    "kernel_of_features": "a kernel that looks at features",
    "likelihood": "a likelihood (likelihood=)",
    "shared_parameters": "parameters that are also the kernel's",
    "entry_level": "a level of newcomers (EntryLevel)",
    "free_kernel_variance": "a trainable kernel variance",
    "free_noise_variance": "a trainable noise variance",
}

LEAVE = "leave one of them out"
TAKE_OUT = (
    "that needs all duels in memory; leave it out, or leave out stream (and give one table in "
    "place of a folder)"
)
ORDERED = "a filter takes all duels in their order; take VFE(), FITC() or Exact()"
PROBIT = "that needs normal noise; use a probit engine, such as ParallelEP() or Laplace()"
FINITE = "take ItemTimes of SameLevel or Linear (item*column, item*linear(column))"
NOTHING = (
    "there is nothing that inducing inputs could explain; add a kernel on the features, such as "
    "--kernel linear+item, or use Exact() (--approximation exact)"
)
UNNAMED = "rows of chunks do not say which item they are of; read the duels into memory"
TABLES = "leave it out, or give tables"
STREAMED = "that is for a StreamedGP; leave it out"
IN_CHUNKS = "that is for duels in memory; leave it out"

# Each thing, what it does not go together with, and why or what to do instead.
TABLE: dict[str, dict[str, str]] = {
    "answers": {
        "ahead": f"these are of duels; {LEAVE}",
        "idle_option": "it says nothing of these; leave it out",
        **dict.fromkeys(("labels", "dated_duels"), "make a model of all of them"),
    },
    "in_time": {
        "streamed": "a filter needs all duels; read them into memory",
        "duels_without_dates": "name their dates (times=, --time, columns=, --columns)",
        "levels_of_items": "both are a level of each item; for a level next to form take "
        "ItemInTime(spg.markov.Constant() + spg.markov.Matern12())",
        "effects_by_kernel": FINITE,
        "blocks": ORDERED,
        "subset": ORDERED,
        "one_by_one": "a filter updates all at once; take ParallelEP()",
        "endless_terms": "take VFE() or FITC(), or a Linear kernel",
        **dict.fromkeys(("tastes", "pair_effects", "sets"), LEAVE),
        "auto": f"no kernel that is compared moves; {LEAVE}",
        "export": "use save()",
        "lower_bounds": "use log_evidence()",
        "sampling": "use model.in_time.posterior()",
    },
    "tastes": {
        "duels_of_nobody": "name the person of each (people=, --person)",
        "pair_effects": LEAVE,
        "approximations_of_one_utility": "use Exact(), VFE() or FITC()",
        "shared_parameters": "they would tie what all prefer to what one does; give Taste a kernel "
        "of its own",
        "lower_bounds": "use log_evidence() of VFE()",
    },
    "sets": {
        "margins_or_ties": "no margin moves them; give these a model of their own",
        "shares_of_answers": "give whole numbers of answers, or leave weights out",
        "logistic": PROBIT,
        "pair_effects": f"{LEAVE}, or read duels (as_duels=True)",
        "by_items": LEAVE,
        "of_pairs": "look at events: sides and offsets name the alternatives of each, best first",
        "context_of_sides": "give one column for the whole set",
    },
    "best_and_worst_at_once": {"own_noise": "use ParallelEP() or SequentialEP(), without power"},
    "pair_effects": {
        "blocks": "duels of a pair may lie in several; take FITC(), VFE() or Exact()",
        "by_items": LEAVE,
        "by_duels": LEAVE,
        **dict.fromkeys(
            ("export", "check_against_sampling", "choice", "worth", "gain"),
            "that takes duels of a pair for independent given utilities; ask it of a model without",
        ),
    },
    "logistic": {
        **dict.fromkeys(
            (
                "noise_by_group",
                "margin_only",
                "export",
                "lower_bounds",
                "sampling",
                "suggestion",
                "choice",
                "truncated_normals",
            ),
            PROBIT,
        ),
        "noise_variance": f"that is known of logistic noise; {LEAVE}",
    },
    "margin_only": {
        "grades": f"that is of win, tie and loss; {LEAVE}",
        "duels_without_ties": LEAVE,
        "own_cuts": f"there is one margin, found after the utilities; {LEAVE}",
        "labels": "it leaves out ties; give a number of blocks",
        "fixed_margin": f"the margin is found after the utilities; {LEAVE}",
        "dated_fit": f"a filter takes a tie as saying that two items are close; {LEAVE}",
        **dict.fromkeys(
            ("sampling", "worth", "filter"),
            "that takes a tie as saying that two items are close; make a model with "
            'Probit(ties="box"), or leave the ties out',
        ),
    },
    "ties": {
        "no_margin": "give Probit(margin=0.3), say, to start learning it from",
        "comparison": f"it scores which side won; {LEAVE}",
    },
    "margin": {"levels_without_a_tie": "give an odd number of levels, or no margin"},
    "noise_by_group": {
        "duels_without_judges": "name who judged (groups=, --noise-by)",
        "gradients_of_a_subset": f"a subset may lack some who judge; {LEAVE}",
    },
    "own_cuts": dict.fromkeys(("one_noise", "duels_without_ties"), LEAVE),
    "cuts": {"duels_without_grades": LEAVE},
    "ties_in_utilities": {"tie_margin": 'make the model with Probit(ties="margin-only")'},
    "entry_level": {
        "duels_without_dates": "name their dates (times=, --time, columns=, --columns)",
        "still": "leave it out, or add ItemInTime(spg.markov.Wiener()) to the kernel",
    },
    "likelihood": {
        "noise_variance": "it has noise of its own; give likelihood=Probit(noise, …) alone"
    },
    "covariate_variance": {"duels_without_covariates": LEAVE},
    "coefficients": {"no_covariates": "give them (Duels(…, covariates=…))"},
    "people_variance": {"no_tastes_by_features": LEAVE},
    "integrate": {
        "one_posterior": "ask the model at the mode (model.at_mode)",
        "dated_fit": f"that was not tried; {LEAVE}",
        "in_time": f"that was not tried; {LEAVE}",
    },
    "own_terms": {"auto": f"none is compared; {LEAVE}"},
    "no_kernel": {"features_of_items": "give one, such as gpflow.kernels.Matern52()"},
    "items_without_features": {
        "kernel_of_features": "leave it out, for an effect of each item, or give items with "
        "features",
        "split_of_items": "nothing is known of those held out; use duels, or a column of the duels "
        "(group:COLUMN, time:COLUMN)",
        "picture_of_features": "plot utilities in their place",
    },
    "features_of_contexts": {
        "kernel_of_features": "they tell no items apart; give each an effect too (--kernel "
        "item+linear), or items with features"
    },
    "effects_of_items_alone": {"inducing": NOTHING, "inducing_variable": NOTHING},
    "effects_by_kernel": {"inducing": f"use Exact() (--approximation exact), or {FINITE}"},
    "no_inducing": {
        "inducing_variable": "take another, such as VFE() (vfe)",
        "gain": "make the model with VFE()",
        "picture_of_inputs": "draw them of another, such as VFE()",
    },
    "no_blocks": {
        "joining": "leave them out (predict_f, predict_duel), or make the model with PITC(blocks)"
    },
    "inducing": {"no_inducing_variable": "give inducing_variable, (m, D)"},
    "streamed": {
        "free_scale": IN_CHUNKS,
        "starts": IN_CHUNKS,
        "item_effects": UNNAMED,
        "pair_effects": UNNAMED,
        "whole": 'they are never all there; use VFE(), FITC() or TightVFE("diagonal")',
        "single_precision": f"they are summed in float64; {LEAVE}",
        "other_engines": "use PartitionedEP(), for EP",
        "powers_of_sites": "use PartitionedEP(), for EP",
    },
    "tastes_of_streamed_duels": {"blocks": "a block is made of each person; take VFE()"},
    "scheduler": {
        "sites": f"they stay in the memory of the workers; {LEAVE}",
        "sites_here": "they are in the memory of the workers; leave the scheduler out",
        "held_here": "write the duels to Parquet files, or leave the scheduler out",
    },
    "timeout": {"no_scheduler": f"there is nothing to wait for; {LEAVE}"},
    "chunks": {
        "blocks": "fit reads none from a stream; leave out stream, or take StreamedGP(duels, "
        "kernel, approximation=PITC(labels))",
        "whole": "that needs all duels at once; take vfe, fitc, dtc, tight-vfe, hetero-vfe or "
        "prior-power, or leave out stream",
        "ties_table": "write ties as rows with 1 in a column tie",
        "items_without_features": "leave out stream, for an effect of each item",
        **dict.fromkeys((*IN_MEMORY, *OF_TABLES, "auto", "auto_inducing"), TAKE_OUT),
    },
    "stated_split": {
        **dict.fromkeys(("test_fraction", "folds"), LEAVE),
        "seeds": "it is the same for every seed; give by: duels, items, group:COLUMN or "
        "time:COLUMN",
    },
    "made_duels": {"split_by_a_column": "they have no such column; give by: duels or by: items"},
    "targets": {"split_but_by_items": "give by: items"},
    "standard_parts": {"no_targets": "give test_fraction"},
    "gold": {
        "split_of_the_same_pairs": "the same pairs would be in both parts; give by: items or by: "
        "group:COLUMN"
    },
    "fixed_hyperparameters": {
        "no_exact_reference": "they are those of the exact model; set exact_reference: true, or "
        "give values under at"
    },
    "values_of_terms": {
        "special_kernel": "only kernels without columns, products and additive terms take them; "
        "leave at out"
    },
    "leaderboard": {"sets": "it is of battles of two models each; fit takes the others"},
    "audit": dict.fromkeys(
        (
            "sets",
            "grades",
            "weights",
            "other_terms",
            "in_time",
            "mean_function",
            "margin_only",
            "logistic",
            "no_exact_inference",
            "no_item_effects",
        ),
        "it is of a board: wins and ties between items with effects, with covariates and leans; "
        "fit one (kernel='item')",
    ),
    "comparison": {
        "items_without_features": "there is one model, an effect of each item; fit that",
        "grades": f"it scores which side won; {LEAVE}",
        "block_column": "give the number of blocks, such as pitc:20",
    },
    "still": dict.fromkeys(
        ("filter", "slices", "trajectories", "date", "ahead", "in_one_pass"),
        "leave it out, or fit with dates (fit --time), or add ItemInTime(spg.markov.Wiener()) to "
        "the kernel",
    ),
    "one_utility": {
        "people": "leave it out, or make one with tastes (PreferenceGP(…, terms=[Taste(kernel)]), "
        "fit --person)"
    },
    "set_size": dict.fromkeys(
        ("other_score", "pairs", "context", "contexts"),
        "that is for pairs alone; leave it out, or give set_size=2 (--set-size)",
    ),
    "risk": {
        "answers": f"these are of duels; {LEAVE}",
        "in_time": "a threshold holds for duels drawn like those tested, and later ones are not; "
        "fit without dates, with duels held out at random",
        "streamed": "which duels were learned from is not known of a stream; read them into memory",
        "later_duels": "a threshold holds for duels drawn like those tested; give some that were "
        "held out at random (fit --split duels), or leave the risk out (--risk, risk=)",
        "known_duels": "the model is surer of these than of new ones; give duels that it has not "
        "seen, or leave the risk out (--risk, risk=)",
    },
    "no_risk": {"task": "give the risk that is borne (--risk, risk=)"},
    "trust": {
        "answers": f"these are of duels; {LEAVE}",
        "streamed": "their rows are not kept; read them into memory",
    },
    "not_settle": dict.fromkeys(
        ("top", "of_prices"), "leave it out, or take the score settle (--score settle)"
    ),
    "settle": {
        "contexts": "the first ones are items, whatever the context; leave the list of pairs out, "
        "or take another score"
    },
    "prices": {
        "one_noise": "leave them out, or fit with noise by judge (--noise-by)",
        "one_judge": "name the column that says who judged (--judge), or leave the prices out",
    },
    "context": dict.fromkeys(
        ("pairs", "no_contexts", "context_columns", "features_for_ids"), "leave it out (at=, --at)"
    ),
    "history": {"date": "it is of many; leave it out (--at)"},
    "plane": {"unmeasured": "ask by item (by_item=True, --by-item)"},
    "first_round": {
        "choosing": "a first round is of balanced random pairs; leave it out, or give a model "
        "(--model)"
    },
    "no_pairs": {"column": "leave it out"},
    "broken_weights": dict.fromkeys(
        ("subset", "sampling"), "that draws whole duels; leave the weights out"
    ),
    "gain": dict.fromkeys(
        ("sets", "blocks", "projected_inputs"), "place them by k-means, or choose with VFE()"
    ),
    "consistency": {"sets": "it counts duels; give a pair of items (--first, --second)"},
    "contexts": {
        "answers": "give features to model.predict_choice",
        "meeting": "fit again with the duels of the person",
        "trajectory": "a trajectory is an average of these; take spg.analysis.history.history",
    },
    "one_noise": {
        "groups": 'leave it out, or take Probit(by="judge")',
        "judges_apart": "fit with noise by judge (--noise-by, noise_by=)",
    },
    "duels_object": {
        **dict.fromkeys(("items", "column"), TABLES),
        "rows_of_sets": "they say themselves what was chosen; leave it out",
    },
    "compiled": dict.fromkeys(
        ("people", "choice", "streamed", "in_time", "covariates", "date", "groups"),
        "call it outside of tf.function (compile=False), or export the model (export_saved_model)",
    ),
    "stacked": dict.fromkeys(
        ("ties", "grades", "judges", "covariates", "item_effects"),
        "leave them out, or use PreferenceGP",
    ),
    "loaded": {"duels_needed": "make a StreamedGP of the stream"},
    "gap": {"no_gap": 'use FITC() or DTC(), or the criterion "residual"'},
    "in_memory": {
        **dict.fromkeys(("gradients", "subset_rows", "polish", "progress"), STREAMED),
        "partitioned": "take ParallelEP(), which ends at the same result",
    },
    "gradients_of_a_subset": {"checkpoint": f"nothing is kept of such a run; {LEAVE}"},
    "features_of_people": {
        "no_features_of_people": "leave them out, or fit with features of all (--people)",
        "duels_of_nobody": "name the person of each (people=, --person)",
    },
    "no_transform": {"raw_items": "give an (n, D) array in the units of model.duels.items"},
    "with_own": dict.fromkeys(
        ("no_items", "items_without_ids"), "give a table with ids (items=, --items)"
    ),
    "feature_groups": {
        "no_additive_kernel": "add one, such as additive-se/vfe, or leave the groups out",
        "no_columns": "give duels from read_duels",
    },
    "only_ties": dict.fromkeys(
        ("scores", "consistency", "linear_probit", "margin_only"),
        "give some that one side won",
    ),
    "said_by_grades": {"grade": f"a grade says that too; {LEAVE}"},
    "levels_of_grades": {"no_grade": "name their column (grade=, --grade)"},
    "no_levels": {"grade": "give their levels from worst to best (grades=)"},
    "ties_table": {"ties_column": LEAVE},
    "covariates": {"no_covariates": "leave them out"},
    "items_without_ids": {
        "column": "give a table with ids, or make columns such as winner_home and loser_home "
        "features"
    },
    "no_items": {
        "named_items": "give items=, or features of both sides, such as winner_age and loser_age",
        "texts": "give a table of items with an id and the texts",
    },
    "features_of_sides": {
        "items": "leave the items out, or name them (winner, loser)",
        "own_items": "there are none; give items (items=, --items)",
        "beyond_numbers": "give duels between items",
    },
    "ids_of_items": {"array_of_items": "give a table of raw items with an id column"},
    "dataset": {"features": "choose them with dataset.map"},
    "resume": {"no_checkpoint": "give checkpoint="},
    "report": {"no_folder": "give out, to write it to"},
    "check_against_sampling": {
        "view": "draws are of the model; check that one, with people= where the new pairs are "
        "somebody's"
    },
    "filtered": {
        "log_evidence": "look at the log predictive of the filter, or infer(restart=True) first"
    },
    "asked_features": {"items_without_features": "give a table with that column (--items)"},
    "no_texts": {"text_features": "name one"},
    "free_kernel_variance": {
        "free_noise_variance": "duels determine only their ratio; fix one with "
        "gpflow.set_trainable, or pass free_scale=True for duels in memory"
    },
}


def check(**there: Any) -> None:
    """Refuse what does not go together.

    :param there: things by their names in the table, and whether there are any, or what they are
        called here.
    :raises ValueError: two of them that do not go together.
    """
    for sentence in _sentences(there):
        raise ValueError(sentence)


def refused(**there: Any) -> ValueError:
    """What `check` raises of two things that do not go together."""
    return ValueError(next(_sentences(there)))


def called(name: str) -> str:
    """What a thing is called in sentences."""
    return CALLED.get(name, name.replace("_", " "))


def _sentences(there: dict[str, Any]) -> Iterator[str]:
    names = {k: v if isinstance(v, str) else called(k) for k, v in there.items() if v}
    for one, others in TABLE.items():
        for other, instead in others.items():
            if one in names and other in names:
                first = f"{names[one][:1].upper()}{names[one][1:]}"
                yield f"{first} and {names[other]} do not go together: {instead}."
