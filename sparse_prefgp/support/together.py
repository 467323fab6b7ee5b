"""What cannot go together, said once: models, fits and commands are checked by this table, and
`docs/what-goes-together.md` is made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

# What there may be of a model, of a fit and of what is asked of a model, and how it is asked for.
THINGS = {
    # What was said.
    "no_features": "items without features",
    "no_dates": "duels without dates",
    "people": "duels of people",
    "nobody": "duels of nobody in particular",
    "judges": "duels with judges",
    "no_judges": "duels without judges",
    "no_covariates": "duels without covariates",
    "no_ties": "duels without ties or grades",
    "no_tie_level": "levels of grades without a tie in the middle",
    "ties": "ties",
    "grades": "grades",
    "sets": "answers about sets",
    "best_worst": "answers of best and worst at once",
    "shares_of_answers": "weights of answers about sets that are not whole numbers",
    "broken_duels": "weights that are not whole numbers",
    "no_features_of_people": "no tastes of people with features",
    "streamed_tastes": "tastes of people of streamed duels",
    "streamed": "streamed duels (StreamedGP)",
    # Terms.
    "in_time": "utilities that move in time (ItemInTime, --time)",
    "still": "utilities that do not move in time",
    "item_effects": "effects of items (ItemEffect, ItemTimes), in a taste too",
    "item_level": "effects of items in no context (ItemEffect)",
    "effects_by_kernel": "effects of items in contexts by such a kernel (ItemTimes)",
    "only_effects": "a kernel without a term of features",
    "endless": "a term that has no finitely many features, without inducing inputs",
    "tastes": "tastes of people (taste=, --person)",
    "one_utility": "one utility for all",
    "pair_effects": "effects of pairs (PairEffect)",
    "projected": "inducing inputs among the directions of a Projected kernel",
    "noise_by_group": "noise by group (noise_by_group=, --noise-by)",
    "one_noise": "one noise for all",
    "own_cuts": "cuts of each group (cuts_by_group=)",
    "no_noise_by_group": "one noise for all groups",
    "margin": "a margin of ties (margin=)",
    "margin_of_duels": "a margin, ties or grades of duels",
    "no_margin": "no margin of ties",
    "margin_only": 'ties that tell the margin alone (tie_model="margin-only", --tie-model)',
    "covariate_variance": "a variance of coefficients (covariate_variance=)",
    "people_variance": "a variance of coefficients of people (people_variance=)",
    # Approximations and engines.
    "inducing": "an approximation by inducing inputs",
    "no_inducing": "an approximation without inducing inputs",
    "inducing_variable": "inducing inputs (inducing_variable=, --inducing)",
    "no_inducing_variable": "no inducing inputs",
    "blocks": "blocks of duels (PITC)",
    "dated_duels": "a date of each duel",
    "labels": "a label for the block of each duel (PITC)",
    "subset": "a random subset of the duels (SubsetOfData)",
    "whole": "an approximation of all duels at once",
    "single": "single precision",
    "no_form_of_people": "an approximation without a form for people",
    "by_items": 'the form over items (over="items")',
    "by_duels": 'the form over duels (over="duels")',
    "one_by_one": "sites one after the other (SequentialEP)",
    "own_noise": "an engine that needs noise of each row's own",
    "logistic": 'logistic noise (Laplace(link="logit"), --engine laplace-logit)',
    "other_engine": "another engine than PartitionedEP",
    "site_power": "a power of the sites (site_power=)",
    # A fit.
    "chunks": "a fit in chunks (--stream, or a folder)",
    "refit": "--refit",
    "starts": "--starts",
    "tie_model": "--tie-model",
    "person": "--person",
    "taste": "--taste",
    "time": "--time",
    "engine": "--engine",
    "split": "--split",
    "dated_fit": "a fit with dates (--time)",
    "max_train": "--max-train",
    "auto": "a kernel or an approximation that is chosen (auto)",
    "auto_inducing": "--inducing auto",
    "report": "--report",
    "ties_table": "a table of ties (--ties)",
    "subset_gradients": "gradients of a subset (--gradients subset)",
    "noise_variance": "a variance of the noise (--noise-variance)",
    "fixed_margin": "a margin that is held (--fixed-margin)",
    "stated_split": "a split that says itself what is held out (given:COLUMN)",
    "test_fraction": "a share to hold out (--test-fraction)",
    "folds": "a number of folds (--folds)",
    "block_column": "blocks by a column (pitc:COLUMN)",
    "comparison": "a comparison of candidates",
    "scheduler": "a scheduler (--scheduler)",
    "sites": "a file for the sites (--sites)",
    "no_scheduler": "no scheduler",
    "timeout": "a time for answers of parts (timeout=)",
    # What is asked of a model.
    "export": "the export as a SavedModel",
    "bound": "a lower bound",
    "sampling": "sampling the exact posterior",
    "sampling_check": "the check against sampling",
    "truncated": "a truncated normal (truncated_normal_ep)",
    "gain": "the predicted gain of inducing inputs",
    "filter": "a filter",
    "slices": "slices of time",
    "trajectories": "what is told over time: trajectories, speeds, histories",
    "date": "a date (at=, --at)",
    "dates": "a column of dates (time=, --time)",
    "ahead": "scores day by day (ahead=, --ahead)",
    "in_one_pass": "taking duels up in one pass (in_one_pass=, --filter)",
    "of_people": "what is asked of people",
    "suggestion": "the choice of duels to ask next",
    "worth": "what a question is worth",
    "hallucination": "the score 'hallucination'",
    "pairs": "a list of pairs (--pairs)",
    "contexts": "items in contexts",
    "no_contexts": "items in no contexts",
    "context": "a context (--at)",
    "other_score": "another score than 'bald'",
    "set_size": "sets of more than two items (--set-size)",
    "consistency": "the check of consistency",
    "choice": "the probability of an answer about a set",
    "answers": "a table of answers about sets",
    "meeting": "meeting somebody new",
    "groups": "a column of judges (groups=, --noise-by)",
    "no_groups": "new duels without judges",
    "person_column": "a column of people (person=, --person)",
    "no_person_column": "new duels of nobody in particular",
    "block": "blocks of new duels (blocks=, --blocks)",
    "no_block": "new duels without blocks",
    "no_labels": "a model whose blocks were not given",
    "grade": "a column of grades (grade=, --grade)",
    "no_grades": "a model that has learned from no grades",
    "column": "what a table would say of duels or items",
    "items": "items (items=, --items)",
    "duels_object": "duels that say all themselves (Duels, DuelTable or a stream)",
}

LEAVE = "leave one of them out"
OUT_OF_CHUNKS = "leave it out, or leave out stream (and give one table in place of a folder)"
INTO_MEMORY = "leave one of them out, or read the duels into memory"
PROBIT = "use a probit engine, such as ParallelEP() or Laplace()"
FINITE = "take ItemTimes of SameLevel or Linear (item*column, item*linear(column))"


class Apart(NamedTuple):
    """A thing that does not go together with some others."""

    one: str
    others: tuple[str, ...]
    because: str = ""
    remedy: str = LEAVE

    def sentence(self, one: str, other: str) -> str:
        """:param one: what the first is called, and so the other."""
        reason = self.because and f", as {self.because}"
        return f"{one[:1].upper()}{one[1:]} and {other} do not go together{reason}; {self.remedy}."


TABLE = {
    "A model": (
        Apart("in_time", ("streamed",), "a filter needs all duels", INTO_MEMORY),
        Apart("in_time", ("no_dates",), remedy="name their dates (times=, --time)"),
        Apart(
            "in_time",
            ("item_level",),
            "both are a level of each item",
            "for a level next to form take ItemInTime(spg.markov.Constant() + "
            "spg.markov.Matern12())",
        ),
        Apart("in_time", ("effects_by_kernel",), remedy=FINITE),
        Apart(
            "in_time",
            ("blocks", "subset"),
            "a filter needs all duels up to a date, one after the other",
            "take VFE(), FITC() or Exact()",
        ),
        Apart("in_time", ("one_by_one",), "a filter updates all at once", "take ParallelEP()"),
        Apart("in_time", ("endless",), remedy="take VFE() or FITC(), or a Linear kernel"),
        Apart("in_time", ("tastes", "pair_effects", "sets")),
        Apart("tastes", ("nobody",), remedy="name the person of each (people=, --person)"),
        Apart("tastes", ("pair_effects",)),
        Apart("tastes", ("no_form_of_people",), remedy="use Exact(), VFE() or FITC()"),
        Apart(
            "sets", ("margin_of_duels",), "no margin moves them", "give these a model of their own"
        ),
        Apart(
            "sets",
            ("shares_of_answers",),
            "a share of an answer has no likelihood of its own",
            "give whole numbers of answers, or leave weights out",
        ),
        Apart("sets", ("logistic",), "alternatives of a set share normal noise", PROBIT),
        Apart("sets", ("pair_effects",), remedy=f"{LEAVE}, or read duels (as_duels=True)"),
        Apart("sets", ("by_items",), "noises are shared over the rows of their answers"),
        Apart(
            "best_worst", ("own_noise",), remedy="use ParallelEP() or SequentialEP(), without power"
        ),
        Apart(
            "pair_effects",
            ("blocks",),
            "duels of a pair may lie in several blocks",
            "take FITC(), VFE() or Exact()",
        ),
        Apart("pair_effects", ("by_items", "by_duels"), "they are done pair by pair"),
        Apart("logistic", ("noise_by_group", "margin_only"), "these need normal noise", PROBIT),
        Apart("margin_only", ("grades", "no_ties"), "it is of win, tie and loss"),
        Apart("margin_only", ("own_cuts",), "it has one margin, found after the utilities"),
        Apart("margin_only", ("labels",), "it leaves out ties", "give a number of blocks"),
        Apart("ties", ("no_margin",), remedy="give margin=0.3, say, to start learning it from"),
        Apart("margin", ("no_tie_level",), remedy="give an odd number of levels, or no margin"),
        Apart("noise_by_group", ("no_judges",), remedy="name who judged (groups=, --noise-by)"),
        Apart("own_cuts", ("no_noise_by_group", "no_ties")),
        Apart("covariate_variance", ("no_covariates",)),
        Apart("people_variance", ("no_features_of_people",)),
        Apart(
            "only_effects",
            ("inducing", "inducing_variable"),
            "there is nothing that inducing inputs could explain",
            "add a kernel on the features, such as --kernel linear+item, or use Exact() "
            "(--approximation exact)",
        ),
        Apart(
            "effects_by_kernel",
            ("inducing",),
            "no inducing variables hold them",
            f"use Exact() (--approximation exact), or {FINITE}",
        ),
        Apart("no_inducing", ("inducing_variable",), remedy="choose another, such as VFE() (vfe)"),
        Apart("inducing", ("no_inducing_variable",), remedy="give inducing_variable, (m, D)"),
        Apart(
            "streamed",
            ("item_effects", "pair_effects"),
            "rows of chunks do not say which item they are of",
            INTO_MEMORY,
        ),
        Apart(
            "streamed",
            ("whole",),
            "they are never all there",
            'use VFE(), FITC() or TightVFE("diagonal")',
        ),
        Apart("streamed_tastes", ("blocks",), "a block is made of each person", "take VFE()"),
        Apart("streamed", ("single",), "they are summed in float64"),
        Apart("streamed", ("other_engine", "site_power"), remedy="use PartitionedEP(), for EP"),
        Apart("sites", ("scheduler",), "they stay in the memory of the workers"),
        Apart("timeout", ("no_scheduler",), "there is nothing to wait for"),
    ),
    "A fit": (
        Apart(
            "chunks",
            ("blocks",),
            "fit does not read them from a stream",
            f"{OUT_OF_CHUNKS}, or take StreamedGP(duels, kernel, approximation=PITC(labels))",
        ),
        Apart(
            "chunks",
            ("whole",),
            "that needs all duels at once",
            "take vfe, fitc, dtc, tight-vfe, hetero-vfe or prior-power, or leave out stream",
        ),
        Apart("chunks", ("ties_table",), remedy="write ties as rows with 1 in a column tie"),
        Apart(
            "chunks",
            (
                "refit",
                "starts",
                "tie_model",
                "person",
                "taste",
                "time",
                "engine",
                "split",
                "max_train",
                "auto",
                "auto_inducing",
                "report",
            ),
            "that needs all duels in memory",
            OUT_OF_CHUNKS,
        ),
        Apart("chunks", ("no_features",), remedy="leave out stream, for an effect of each item"),
        Apart("subset_gradients", ("noise_by_group",), "a subset may lack some who judge"),
        Apart(
            "dated_fit",
            ("margin_only",),
            "a filter takes a tie as saying that two items are close",
        ),
        Apart("in_time", ("auto",), "no kernel that is compared moves"),
        Apart("logistic", ("noise_variance",), "its noise has a variance of its own"),
        Apart("margin_only", ("fixed_margin",), "it finds the margin after the utilities"),
        Apart("stated_split", ("test_fraction", "folds")),
        Apart("comparison", ("no_features",), "there is one model, an effect of each item"),
        Apart("comparison", ("ties", "grades"), "it scores which side won"),
        Apart("comparison", ("block_column",), remedy="give the number of blocks, such as pitc:20"),
    ),
    "What is asked of a model": (
        Apart("answers", ("block", "grade", "dates", "ahead"), "these go with duels alone"),
        Apart(
            "answers", ("labels", "dated_duels"), "they have none", "make a model of all of them"
        ),
        Apart(
            "logistic",
            (
                "export",
                "bound",
                "sampling",
                "suggestion",
                "hallucination",
                "consistency",
                "choice",
                "truncated",
            ),
            "that needs normal noise",
            PROBIT,
        ),
        Apart(
            "pair_effects",
            (
                "export",
                "sampling_check",
                "choice",
                "worth",
                "hallucination",
                "gain",
            ),
            "that takes duels of a pair for independent given utilities",
            "ask it of a model without them",
        ),
        Apart(
            "margin_only",
            ("sampling", "worth", "filter"),
            "that takes a tie as saying that two utilities are close",
            'make a model with tie_model="box", or leave the ties out',
        ),
        Apart("in_time", ("export",), remedy="use save()"),
        Apart("in_time", ("bound",), remedy="use log_evidence()"),
        Apart("in_time", ("sampling",), remedy="use posterior_in_time()"),
        Apart(
            "still",
            ("filter", "slices", "trajectories", "date", "dates", "ahead", "in_one_pass"),
            remedy="leave it out, or fit with dates (fit --time), or add "
            "ItemInTime(spg.markov.Wiener()) to the kernel",
        ),
        Apart(
            "one_utility",
            ("of_people",),
            remedy="leave it out, or make one with tastes (PreferenceGP(…, taste=kernel), "
            "fit --person)",
        ),
        Apart("tastes", ("bound",), remedy="use log_evidence() of VFE()"),
        Apart(
            "hallucination",
            ("sets", "tastes", "in_time", "pairs", "contexts"),
            "that looks for one best item by duels",
            "take another score, such as 'bald' or 'eubo'",
        ),
        Apart(
            "set_size",
            ("other_score", "pairs", "context", "contexts"),
            "that is for pairs alone",
            "leave it out, or give set_size=2 (--set-size)",
        ),
        Apart("context", ("pairs", "no_contexts"), remedy="leave it out (--at)"),
        Apart(
            "broken_duels",
            ("subset", "sampling"),
            "that draws whole duels",
            "leave the weights out",
        ),
        Apart("gain", ("sets", "blocks"), remedy="choose with VFE(), or place them by k-means"),
        Apart("gain", ("projected",), "they are chosen among items", "place them by k-means"),
        Apart("gain", ("no_inducing",), remedy="make the model with VFE()"),
        Apart(
            "consistency", ("sets",), "it counts duels", "give a pair of items (--first, --second)"
        ),
        Apart("contexts", ("answers",), remedy="give features to model.predict_choice"),
        Apart("contexts", ("meeting",), remedy="fit again with the duels of the person"),
        Apart("streamed", ("block", "dates"), remedy="leave it out, or give a table"),
        Apart("block", ("no_labels",), remedy="leave them out"),
        Apart("grade", ("no_grades",), remedy="leave it out"),
        Apart("labels", ("no_block",), remedy="name their column (blocks=, --blocks)"),
        Apart("judges", ("no_groups",), remedy="name their column (groups=, --noise-by)"),
        Apart("people", ("no_person_column",), remedy="name their column (person=, --person)"),
        Apart("groups", ("no_judges",), remedy="leave it out, or fit with judges of all duels"),
        Apart("person_column", ("nobody",), remedy="leave it out, or fit with the people of all"),
        Apart("groups", ("one_noise",), remedy="leave them out, or take noise_by_group=True"),
        Apart(
            "duels_object",
            ("items", "groups", "grade", "dates", "column"),
            remedy="leave it out, or give tables",
        ),
    ),
}


def check(**there: Any) -> None:
    """Refuse what does not go together.

    :param there: things by their names in `THINGS`, and whether there are any, or what they are
        called here.
    :raises ValueError: two of them that do not go together.
    """
    for sentence in _sentences(there):
        raise ValueError(sentence)


def refused(**there: Any) -> ValueError:
    """What `check` raises of two things that do not go together."""
    return ValueError(next(_sentences(there)))


def _sentences(there: dict[str, Any]) -> Iterator[str]:
    called = {
        name: value if isinstance(value, str) else THINGS[name]
        for name, value in there.items()
        if value
    }
    for row in (row for rows in TABLE.values() for row in rows):
        for other in row.others:
            if row.one in called and other in called:
                yield row.sentence(called[row.one], called[other])
