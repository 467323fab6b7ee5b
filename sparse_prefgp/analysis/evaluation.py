"""Scores of a model on labelled duels, along with the baselines."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.analysis.answers import (
    ReadAnswers,
    notes_on,
    only_one,
    read_answers,
    refuse_more,
)
from sparse_prefgp.analysis.contexts import bases_of, has_contexts, in_rows
from sparse_prefgp.analysis.forecasts import with_forecasts
from sparse_prefgp.analysis.items import (
    ItemSet,
    features_in_units_of,
    known_items,
    numbers_in_training,
)
from sparse_prefgp.analysis.metrics import GRADES, OUTCOMES
from sparse_prefgp.analysis.rivals import COIN, EQUAL_SHARES, KNOWS_NOTHING, rivals_of
from sparse_prefgp.analysis.roles import OF_STREAMS, Columns, roles_in
from sparse_prefgp.analysis.scoring import (
    Asked,
    asked_of_stream,
    asks_for_outcomes,
    learned_from,
    score_events,
    unseen_pairs,
)
from sparse_prefgp.analysis.trust import (
    CONFIDENCE,
    by_surprise,
    check_risk,
    frame_of,
    threshold_of,
)
from sparse_prefgp.analysis.updating import later_duels
from sparse_prefgp.data.answers import TIE, Answers, Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES
from sparse_prefgp.data.flags import refuse_cells
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.roles import LAST_DATE, NONE, USUAL_NAMES
from sparse_prefgp.data.splits import grouping_of, grouping_of_people
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.forms import Stated
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.streams import columns_of, is_stream, stream_duels
from sparse_prefgp.io.streams.blocks import SIDES, WEIGHTS
from sparse_prefgp.io.streams.contexts import InContexts
from sparse_prefgp.io.streams.items import Met
from sparse_prefgp.io.streams.parquet import Renamed
from sparse_prefgp.models.outcomes import known_blocks, warn_without_blocks
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, IntArray
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import listing


def evaluate(
    model: Predicts,
    duels: Any = None,
    items: Any = None,
    *,
    rng: np.random.Generator | None = None,
    columns: Columns = None,
    ahead: bool = False,
    risk: float | None = None,
    confidence: float = CONFIDENCE,
    task: str | None = None,
    trust: bool = False,
    choices: Any = None,
    rankings: Any = None,
    best_worst: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Score a model on labelled duels, along with a linear probit and a coin; or on answers about
    sets, along with a conditional logit and equal shares.

    Warns of ties that a model without a margin cannot predict, of unknown groups, of duels whose
    block is not known to a model with blocks, and of duels more of which equal those that the model
    has learned from than chance explains.

    :param model: whose predictions are scored. The linear probit is fitted to its training duels; a
        `StreamedGP`, which does not have them, is scored along with the coin alone.
    :param duels: path or data frame with `winner`, `loser` and perhaps `count` and `tie`, or
        `Duels`, also of sets, whose groups count if the model has noise by group. A folder of
        Parquet files is read in chunks, and so is one file for a model whose duels had features of
        their own; or what `stream_duels` gives. The pairs are not told apart then, nor, without
        items, what lies outside the range: None. `Duels` that record another transform than the
        model are converted to its units by way of the raw values; without a recorded one they are
        taken to be in its units. A table is read by the columns that the model has learned from
        (`model.duels.roles`), where they are there; the blocks of a `Duels` are its labels of the
        column of blocks. Duels of a block that the model knows are predicted from what the block
        knows too, all others from the inducing values alone.
    :param items: raw items, as `predict`; not for a `Duels`, which has its own.
    :param rng: of the folds that choose the width of the linear probit's prior.
    :param columns: those of this table that are called otherwise than in training, by their names
        there or by their roles: `{"judge": "rater", "surface": "ground"}`. Roles are judge, person,
        date, count, grade and block.
    :param ahead: where utilities move in time, also score the model updated day by day, each duel
        from the results of all days before it, and Elo (`forecasts.with_forecasts`).
    :param risk: also say from which confidence on verdicts are wrong in at most this share of the
        duels that one side won, such as 0.1 (`trust.threshold`); for duels that are drawn like
        those to come, and that the model has not learned from.
    :param confidence: with which that holds.
    :param task: where votes are on tasks, the column of the task, of a `Duels` among its `labels`:
        then one vote of each task is tested, drawn by `rng`. Votes of one task are not independent.
        By default of a table the column that is called `task`, `question_id` or the like; "none"
        for none.
    :param trust: also return the duels themselves with how probable each was.
    :param choices: in place of duels, choices from sets as `read_choices` takes them.
    :param rankings: the same, as `read_rankings` takes them.
    :param best_worst: the same, as `read_best_worst` takes them.
    :param options: of these readers, such as `at_once=True`.
    :return: `held_out`: for `model`, `linear_probit` and `coin` the figures of `metrics.score`, and
        `held_out_unseen_pairs`: the same over the duels whose pair was not among the training
        duels, `ordered` in this order and `either_order` at all, each left out where there are
        none, and empty when none of the pairs was; both as in `metrics.json`. These are about the
        duels that one side won, given that they were not tied. `held_out_outcomes`, where there are
        ties and the model has a margin: those of `outcomes` over all duels for `model` and
        `constant_shares`, who knows the share of ties in training; else empty. `held_out_grades`,
        of duels with grades: those of `grades` for the same two; else empty.
        `held_out_abstention`: how often the model names the winner if it answers only those of
        which it is surest, by their share. With `risk` a `threshold`, as `trust.Threshold` has it;
        with `trust` a data frame `votes`, the most surprising first. Then `duels`, `ties`,
        `duels_in_blocks` (how many are of a block that the model knows, None for a model without
        blocks), and of the items in them `items_outside_range`, `outside_features` and
        `unknown_levels`. Of answers about sets `held_out`, of choices and of rankings, how many
        `answers` there are, and the same of the items.
    :raises ValueError: no duels, none that one side won, an unknown id (with its row), an item
        against itself, counts that are not whole and positive, ties that are neither 0 nor 1,
        a role that the model has not, a block that is missing (with its row), an `rng` that is
        none, features that cannot be converted to the units of the model, and what `resolve_items`
        raises. With `risk`: duels that the model has learned from, or that are later than those.
    """
    rng = generator(rng)
    if risk is not None:
        check_risk(risk, confidence)
    kind, source = only_one(
        options, duels=duels, choices=choices, rankings=rankings, best_worst=best_worst
    )
    own = source if isinstance(source, Duels) and source.held else None
    sets = kind != "duels" or (own is not None and own.events.has_sets)
    relies = risk is not None
    together.check(
        answers=sets,
        ahead=ahead,
        risk=relies,
        no_risk=not relies,
        task=task is not None,
        trust=trust,
        in_time=relies and model.inputs.layout.dated,
    )
    model.allow(ahead=ahead)
    chunks: Iterable[Asked]
    of_events: dict[str, Any] = {}
    read: ReadAnswers | None = None
    # Of files without items features of their own, which are read in chunks, are all that sides
    # can have where the model has no items.
    alone = isinstance(source, str | os.PathLike) and not model.duels.has_items and items is None
    if not sets and (alone or is_stream(source)):
        together.check(risk=relies, trust=trust, streamed=True)
        stream, named = _in_units_of(model, source, items, columns)
        chunks = asked_of_stream(stream, model)
        number, ties, in_blocks = stream.num_duels, stream.num_ties, 0
        there = None if named is None else named.select(np.flatnonzero(stream.comparisons))
    else:
        read = read_answers(model, kind, source, items, columns, {"dates": relies}, **options)
        events, there = read.events, read.there
        if sets:
            table = read.table if own is None else own
            of_events["grouping"] = grouping_of(table, np.arange(len(events)))
        else:
            events, of_events = _of_duels(model, read, relies)
        chunks = [Asked(events, read.items.inputs, sets=sets)]
        known = np.zeros(len(events), bool) if events.block is None else events.block.numbers >= 0
        number, ties, in_blocks = (
            int(events.counts[some].sum()) for some in (slice(None), events.kind == TIE, known)
        )
    together.check(only_ties=not sets and ties == number, scores=True)
    rivals = {EQUAL_SHARES if sets else COIN: KNOWS_NOTHING}
    # The duels of a stream are not kept, and those of duels know nothing of sets.
    if model.duels.held and (not sets or holding_duels(model).duels.events.has_sets):
        rivals = rivals_of(holding_duels(model).duels, rng)
    outcomes = not sets and asks_for_outcomes(model, ties)
    found = score_events(model, rivals, chunks, outcomes=outcomes, **of_events)
    if ahead:  # which streams are not scored
        assert read is not None
        found = with_forecasts(found, holding_duels(model), later_duels(model, read))
    figures: dict[str, Any] = {"held_out": found.scores()}
    if sets:
        figures["answers"] = number
    else:
        figures |= {
            "held_out_abstention": found.abstention(),
            "held_out_unseen_pairs": found.unseen_scores(),
            "held_out_outcomes": found.table(OUTCOMES),
            "held_out_grades": found.table(GRADES),
            "duels": number,
            "ties": ties,
            "duels_in_blocks": in_blocks if model.approximation.has_blocks else None,
        }
    if risk is not None and read is not None:
        task = _usual_task(model, read) if task is None else task
        tasks = None if task in (None, NONE) else _tasks(read, task)
        figures["threshold"] = threshold_of(found, risk, confidence, tasks, rng).to_dict()
    if trust and read is not None:
        frame = read.table.frame if own is None else frame_of(own)
        figures["votes"] = by_surprise(frame, found)
    of_items = dict.fromkeys(("outside_features", "unknown_levels"))
    return {
        **figures,
        "items_outside_range": None if there is None else int(there.outside.sum()),
        **(of_items if there is None else notes_on(there)),
    }


def _usual_task(model: Predicts, read: ReadAnswers) -> str | None:
    """The column that is called as that of the task usually is, and is no context; told."""
    if read.table is None:
        return None
    rows = model.duels.item_rows
    contexts = () if rows is None else rows.columns
    names = Header(read.table.frame.columns).every(*USUAL_NAMES["task"])
    found = next((str(name) for name in names if name not in contexts), None)
    if found is not None:
        warnings.warn(
            f"Votes of one {found} are not independent, so that one of each is tested; if these "
            "are no tasks, say so (--task none, task='none').",
            stacklevel=3,
        )
    return found


def _tasks(read: ReadAnswers, task: str) -> Codes:
    """The task of each duel.

    :raises ValueError: no such column, an empty cell.
    """
    if read.table is None:
        check_choice("task", task, read.events.labels, ", the labels of the duels")
        return read.events.labels[task]
    read.table.require(task, remedy=" (task=, --task)")
    cells = read.table.frame[task]
    missing = [not id_text(cell) for cell in cells.tolist()]
    refuse_cells(missing, cells, task, read.table.row, "name the task of each vote")
    return Codes.of([id_text(cell) for cell in cells.tolist()])


def _of_duels(
    model: Predicts, read: ReadAnswers, rely: bool = False
) -> tuple[Answers, dict[str, Any]]:
    """Duels in the blocks that the model knows, and what `HeldOut` has of them.

    :param rely: refuse those of which no threshold can be made.
    """
    events = read.events
    model.allow(duels_without_dates=events.time is None)
    events = events.saying(block=known_blocks(model, events))
    if events.block is None and model.approximation.has_blocks:
        warn_without_blocks(model)
    unseen: dict[str, BoolArray] = {}
    if model.duels.held:
        doors, training = events.pair_doors(), holding_duels(model).duels
        item = numbers_in_training(training, read.items.numbers, read.items.rows)
        unseen = unseen_pairs(training, *item[doors.features[doors.decided].T])
        if events.in_pairs and training.events.in_pairs:
            _look_for_known(training, events, read.items.numbers[events.pairs], rely)
    return events, {"grouping": grouping_of_people(events), "unseen": unseen}


def _look_for_known(training: Duels, events: Answers, sides: IntArray, rely: bool) -> None:
    """Say of duels, some of which are training duels, that they are, see `learned_from`.

    :raises ValueError: some are, or all are later than these, and somebody wants to rely on them.
    """
    time, before, last = events.time, training.events.time, training.roles.get(LAST_DATE)
    end = last if before is None else before.max()
    if end is not None:
        together.check(risk=rely, later_duels=time is not None and bool(time.min() >= float(end)))
        if rely and time is None:
            warnings.warn(
                "The duels have no dates, by which they could be seen to be later than those that "
                "the model has learned from, of which the risk would not hold; name their column "
                "(columns=, --columns date=…).",
                stacklevel=4,
            )
    equal, known, tested = learned_from(training, events, sides)
    of_all = "" if known == equal else f"about {known:,} of the "
    words = f"{of_all}{equal:,} duels that are equal to those that were learned from"
    together.check(risk=rely, known_duels=known and words)
    if known:
        warnings.warn(
            f"{of_all}{equal:,} of these {events.num_events:,} duels are equal to those that the "
            "model has learned from, on which it scores better than on new ones; what tells how "
            "good it is are duels that it has not seen (those that a fit holds out, or later "
            "ones).",
            stacklevel=4,
        )
    elif rely and 2 * equal > tested:
        warnings.warn(
            f"{equal:,} of these {events.num_events:,} duels are equal to those that the model has "
            "learned from, as new ones may be where little but the pair tells duels apart; the "
            "risk holds only if the model has learned from none of them, which you alone know.",
            stacklevel=4,
        )


def _in_units_of(
    model: Predicts, duels: Any, items: Any, columns: Columns
) -> tuple[Duels, ItemSet | None]:
    """Duels of files in the units of the model, and the items that they name, if they do.

    :raises ValueError: what `stream_duels` and `resolve_items` raise.
    """
    together.check(streamed=True, in_time=model.inputs.layout.dated)
    if model.approximation.has_blocks:
        warn_without_blocks(model, in_chunks=True)
    own = model.duels
    if isinstance(duels, Duels):
        refuse_more(items, columns)
        together.check(streamed=True, item_effects=model.inputs.layout.numbered)
        return _converted(own, duels), None
    form = Stated.again(own.roles)
    header = columns_of(duels, form)
    roles, called = roles_in(model, header, str(duels), columns, among=OF_STREAMS)
    header, duels = tuple(called), Renamed(duels, called)
    # A score counts duels as they were, whatever weight they had in a fit.
    said: dict[str, Any] = {"ignore": [name for name in WEIGHTS if name in header]}
    said |= {"sides": form.sides, "outcome": form.outcome}
    said |= {"verdicts": form.verdicts, "scores": form.scores, "side": False}
    said |= {"grade": roles.grade, "grades": roles.levels, "counts": roles.count}
    said |= {"groups": roles.codes.get("judge"), "labels": roles.leaning}
    said["covariates"] = roles.covariates
    if not {*SIDES} <= {*header} and items is None:
        beyond = (own.transform or NO_FEATURES).beyond_numbers
        made = beyond and f"features that are made of {beyond}"
        together.check(features_of_sides=True, beyond_numbers=made)
        said["standardise"] = own.transform or False
        return stream_duels(duels, features=own.feature_names, **said), None
    if not has_contexts(model, items):
        found = known_items(model, items)
        table = Items(found.inputs, found.ids, own.feature_names)
        return stream_duels(duels, table, **said), found
    bases, rows = bases_of(model, items), own.item_rows
    assert rows is not None
    sets: list[ItemSet] = []

    def place(there: Met) -> Items:
        sets.append(in_rows(model, bases, there.base, there.contexts()))
        return Items(sets[0].inputs, sets[0].ids, own.feature_names, own.transform)

    stream = stream_duels(duels, InContexts(bases.ids, place), context=rows.columns, **said)
    return stream, sets[0]


def _converted(own: Duels, duels: Duels) -> Duels:
    """The same stream with features in the units of a model's duels."""
    known, transform = duels.known, duels.transform
    if duels.has_items:
        features = features_in_units_of(own, known.features, transform)
        items = Items(features, known.ids, own.feature_names, own.transform)
        return duels.replacing(described=items)
    if transform is None or transform == own.transform:
        return duels
    wanted = None if own.transform is None else own.transform.feature_names
    if wanted != transform.feature_names:
        has = "none" if wanted is None else listing(wanted)
        raise ValueError(
            f"The stream standardises the features {listing(transform.feature_names)}, but those "
            f"that the model standardises are {has}; make the stream with "
            f"standardise={'False' if wanted is None else 'model.duels.transform'}."
        )
    # Of raw values, which are in the stream.
    return duels.replacing(described=replace(known, transform=own.transform))
