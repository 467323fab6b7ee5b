"""One scorer: what a model and its rivals say of events whose outcomes are known.

Events come in chunks: duels as rows with features, which are here, and answers about sets, which
are in `sparse_prefgp.analysis.answers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.metrics import (
    CHOICES,
    DUELS,
    GRADES,
    MODEL,
    OUTCOMES,
    RANKINGS,
    Score,
    constant_grades,
    constant_shares,
    score_each,
)
from sparse_prefgp.analysis.prediction import outcomes_of
from sparse_prefgp.analysis.rivals import LinearRival
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import WIN, Events
from sparse_prefgp.data.splits import Grouping
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.outcomes import label_columns, labelled_for, places_of
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

Scores = dict[str, Score]

CONSTANT_SHARES = "constant_shares"
# Of the training duels, and of those that are scored: from these shares on they are the same; and
# how often duels are there on average where chance alone could reach them.
_MOST_LEARNED, _MOST_GIVEN, _OFTEN = 0.9, 0.5, 2.0
# Fewer new duels than these may be equal to known ones by chance.
_LEAST_AGAIN = 10
# Rows predicted at a time.
ROWS_AT_ONCE = 50_000
# Numbers of these: 64 MB, of which a handful of copies are made.
_NUMBERS_AT_ONCE = 2**23


class ScoredRows(NamedTuple):
    """What some events say, behind their doors, in the units of the model."""

    won: FloatArray
    """(k, D), or (k, D + 1) with the number of the item last."""
    lost: FloatArray
    """(k, D), or (k, D + 1) with the number of the item last."""
    counts: npt.NDArray[Any]
    """(k,)."""
    ties: BoolArray | None = None
    """(k,) which were tied, None for none."""
    groups: npt.NDArray[np.object_] | None = None
    """(k,) labels of who judged."""
    blocks: npt.NDArray[np.object_] | None = None
    """(k,) labels of blocks that the model has, None for one that is not known; None where nobody
    asked.
    """
    grades: IntArray | None = None
    """(k,) by how many levels the winner is better, 0 for ties, -1 where nobody said; None without
    grades.
    """
    covariates: FloatArray | None = None
    """(k, C) of the winner less those of the loser; None where nothing is said of them."""
    covariate_names: tuple[str, ...] = ()
    people: npt.NDArray[np.object_] | None = None
    """(k,) labels of whose preference each is; None where nobody has a taste."""
    dates: FloatArray | None = None
    """(k,) in days since 1970; None where they are not known."""
    labels: Mapping[str, npt.NDArray[np.object_]] = field(default_factory=dict)
    """(k,) more labels of each, by their columns."""
    event: IntArray | None = None
    """(k,) number of the event that each is of."""

    def known(self, model: Predicts | None, outcomes: bool) -> dict[str, Known]:
        """Who won, and where they are asked for the outcomes and the grades that the model knows.

        :raises ValueError: grades of more levels than the model has.
        """
        number = len(self.counts)
        tied = np.zeros(number, dtype=bool) if self.ties is None else self.ties
        event = np.arange(number) if self.event is None else self.event

        def of(mask: BoolArray, happened: IntArray) -> Known:
            rows = np.flatnonzero(mask)
            return Known(rows, happened[rows], self.counts[rows], event[rows])

        found = {DUELS: of(~tied, np.zeros(number, dtype=np.int64))}
        if model is None:
            return found
        if outcomes:
            found[OUTCOMES] = of(np.ones(number, dtype=bool), tied.astype(np.int64))
        levels, grades = model.duels.levels, self.grades
        if grades is not None and levels is not None and model.duels.grade_counts is not None:
            largest, has_ties = len(model.duels.grade_counts) - 1, len(levels) % 2 == 1
            if grades.max(initial=0) > largest or (not has_ties and np.any(grades == 0)):
                raise ValueError(
                    f"The duels have grades of {grades.max()} levels, or ties, but the model knows "
                    f"{largest} and {'ties' if has_ties else 'no ties'}; give duels with its "
                    "levels."
                )
            found[GRADES] = of(grades >= 0, largest + grades - (0 if has_ties else 1))
        return found

    def by_model(self, model: Predicts, known: Mapping[str, Known]) -> dict[str, FloatArray]:
        """Log probabilities of what is known."""
        mean, variance = _differences(model, self)
        said = outcomes_of(model, mean, variance, self.groups)
        every = {DUELS: said.winner, OUTCOMES: said.all_three, GRADES: said.grades}
        return {of: every[of][rows.rows] for of, rows in known.items()}

    def by_rival(self, rival: LinearRival, known: Mapping[str, Known]) -> dict[str, FloatArray]:
        """Log probabilities of the winners."""
        rows = known[DUELS].rows
        said = _covariates_of(self, rival.covariate_names)
        said = None if said is None else said[rows]
        columns = slice(-1, None) if rival.of_items else slice(rival.num_features)
        won, lost = self.won[rows, columns], self.lost[rows, columns]
        return {DUELS: rival.log_wins(won, lost, said)}


def rows_at_once(columns: int) -> int:
    """How many rows of so many columns are scored at a time."""
    return max(1, min(ROWS_AT_ONCE, _NUMBERS_AT_ONCE // max(1, columns)))


def rows_between(
    inputs: FloatArray,
    events: Events,
    groups: npt.NDArray[np.object_] | None = None,
    blocks: npt.NDArray[np.object_] | None = None,
    people: npt.NDArray[np.object_] | None = None,
) -> Iterator[ScoredRows]:
    """Events in memory, between rows of `inputs` (n, D), in bounded chunks."""
    step = rows_at_once(inputs.shape[1])
    for start in range(0, len(events), step):
        part = slice(start, start + step)
        said = (None if x is None else x[part] for x in (groups, blocks, people))
        yield _behind_doors(events.take(part), inputs, start, *said)


def _behind_doors(
    events: Events,
    table: FloatArray,
    first: int,
    groups: npt.NDArray[np.object_] | None = None,
    blocks: npt.NDArray[np.object_] | None = None,
    people: npt.NDArray[np.object_] | None = None,
) -> ScoredRows:
    """:param first: number of the first event."""
    events = events.in_order()  # as the doors turn what is graded below 0, covariates too
    doors = events.pair_doors()
    won, lost = (table[rows] for rows in doors.features.T)
    counts = events.counts[doors.event]
    if len(doors.event) > len(events):
        counts = counts * doors.weight
    tied = ~doors.decided
    labels = (None if x is None else x[doors.event] for x in (groups, blocks, people))
    groups, blocks, people = labels
    grades = None
    if events.answer is not None:
        level = np.abs(events.answer.numbers.astype(np.int64))
        grades = np.where(events.kind == WIN, -1, level)[doors.event]
    said = events.covariate_differences
    return ScoredRows(
        won,
        lost,
        counts,
        tied if tied.any() else None,
        groups,
        blocks,
        grades,
        None if said is None else said[doors.event],
        events.covariate_names,
        people,
        None if events.time is None else events.time[doors.event],
        {column: codes.labels[doors.event] for column, codes in events.labels.items()},
        first + doors.event,
    )


def rows_of_stream(duels: StreamedDuels, model: Any) -> Iterator[ScoredRows]:
    """Duels that are read in chunks, in the units that the stream has.

    Warns of judges and labels that the model does not know, where they matter.
    """
    table, known = duels.items, None
    if duels.judges is not None and model.noise_ratio is not None:
        judged = duels.totals.judged
        assert judged is not None
        then = "noise is averaged over the prior"
        known = _known(duels.judges, model.duels.group_names or (), judged.sum(1), "group", then)
    own = {
        column: _known(
            duels.scan.labels[column],
            model.duels.label_names[column],
            duels.totals.labels[column][1:],
            column,
            "its lean is averaged over the prior",
        )
        for column in label_columns(model, duels.scan.labels)
    }
    first = 0
    for chunk in duels.chunks(ROWS_AT_ONCE):
        features = chunk.features if table is None else table.features
        assert features is not None
        judge = chunk.events.judge
        groups = None if known is None or judge is None else known[judge.numbers]
        labels = {
            column: chunk.events.labels[column]._replace(names=tuple(names))
            for column, names in own.items()
        }
        yield _behind_doors(replace(chunk.events, labels=labels), features, first, groups)
        first += len(chunk.events)


def _known(
    labels: Sequence[Hashable], names: Sequence[Hashable], often: IntArray, one: str, then: str
) -> npt.NDArray[np.object_]:
    """Labels of a stream as the model has them, None for unknown ones, of which a warning tells.

    :param names: those of the model.
    :param often: (J,) how often each was said.
    :param one: of them is, and `then` what is done about unknown ones.
    """
    place = places_of(labels, names)
    unknown = np.flatnonzero((place < 0) & (often > 0))
    if unknown.size:
        warnings.warn(
            f"The {one} {labels[unknown[0]]!r} is unknown to the model ({often[unknown].sum():,} "
            f"of {often.sum():,} duels have unknown ones); {then}.",
            stacklevel=4,
        )
    return np.array([*names, None], dtype=object)[place]


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What predictors said of events of one kind, of which it is known what happened."""

    of: str
    """What they are: as for `metrics.score`."""
    log_probabilities: dict[str, FloatArray]
    """By predictor, (t,) or (t, k), in nats."""
    happened: IntArray
    """(t,) the place of what happened."""
    counts: npt.NDArray[Any]
    """(t,) how often each was seen."""
    event: IntArray
    """(t,) its number among all events."""

    def scores(self, rows: BoolArray | None = None, grouping: Grouping | None = None) -> Scores:
        """As by `metrics.score_each`, of all rows or those of a mask; none without rows.

        :param grouping: of all events.
        """
        chosen = np.arange(len(self.counts)) if rows is None else np.flatnonzero(rows)
        if not len(chosen):
            return {}
        logs = {name: values[chosen] for name, values in self.log_probabilities.items()}
        over: dict[str, Any] = {}
        here = grouping and grouping.take(self.event[chosen])
        if here is not None and here.several:
            over = {"groups": here.codes, "se_over": here.what}
        return score_each(logs, self.happened[chosen], self.counts[chosen], of=self.of, **over)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What predictors said of events whose outcomes are known."""

    forecasts: Mapping[str, Forecasts]
    """By what is scored. Of duels `duels` that one side won, given that they were not tied, and
    where they were asked for `outcomes` of all and `grades` of those that were graded; of answers
    about sets `choices` of one, the chosen alternative first, and `rankings` and all others.
    """
    grouping: Grouping | None = None
    """Of the events, see `splits.grouping_of`."""
    unseen: Mapping[str, BoolArray] = field(default_factory=dict)
    """Masks of the duels that one side won whose pairs training did not have, `ordered` and
    `either_order`; empty where that is not known.
    """
    parts: Mapping[str, BoolArray] = field(default_factory=dict)
    """Masks (e,) of `known_people` and `new_people`; empty where nobody has a taste."""

    @property
    def of_sets(self) -> bool:
        """Whether these are answers about sets of alternatives."""
        return DUELS not in self.forecasts

    def scores(self, events: BoolArray | None = None) -> dict[str, Any]:
        """Of duels the scores of every predictor on those that one side won; of answers about sets
        those of `choices` and of `rankings`, as far as there are any.

        :param events: (e,) which count; by default all.
        """
        if not self.of_sets:
            return self.table(DUELS, events)
        tables = {of: self.table(of, events) for of in (CHOICES, RANKINGS)}
        return {of: table for of, table in tables.items() if table}

    def table(self, of: str, events: BoolArray | None = None) -> Scores:
        """Scores of all predictors on what is scored; empty without any."""
        forecasts = self.forecasts.get(of)
        if forecasts is None:
            return {}
        return forecasts.scores(None if events is None else events[forecasts.event], self.grouping)

    def part_scores(self) -> dict[str, dict[str, Any]]:
        """Scores of each part that has any."""
        found = {name: self.scores(events) for name, events in self.parts.items()}
        return {name: scores for name, scores in found.items() if scores}

    def unseen_scores(self) -> dict[str, Scores]:
        """Scores over pairs that training did not have, when it had some of the pairs.

        :return: `ordered` (pairs not seen in this order) and `either_order` (not seen at all), each
            left out where there are no such duels; empty when no pair was seen in training.
        """
        if all(mask.all() for mask in self.unseen.values()):
            return {}
        duels = self.forecasts[DUELS]
        found = {name: duels.scores(mask, self.grouping) for name, mask in self.unseen.items()}
        return {name: scores for name, scores in found.items() if scores}

    def with_predictor(self, name: str, of: str, values: FloatArray, after: str = "") -> HeldOut:
        """With what another predictor said of the same events, at the end or after another."""
        logs: dict[str, FloatArray] = {}
        for other, theirs in self.forecasts[of].log_probabilities.items():
            logs[other] = theirs
            if other == after:
                logs[name] = values
        logs.setdefault(name, values)
        more = replace(self.forecasts[of], log_probabilities=logs)
        return replace(self, forecasts={**self.forecasts, of: more})

    def with_model(self, other: HeldOut, name: str) -> HeldOut:
        """With what another model said of the same events, next after the model."""
        found = self
        for of in {DUELS, CHOICES, RANKINGS} & {*self.forecasts}:
            values = other.forecasts[of].log_probabilities[MODEL]
            found = found.with_predictor(name, of, values, MODEL)
        return found


class Chunk(Protocol):
    """Some events, and what there is to say of them."""

    def known(self, model: Predicts | None, outcomes: bool) -> dict[str, Known]: ...

    def by_model(self, model: Any, known: Mapping[str, Known]) -> Mapping[str, FloatArray]: ...

    def by_rival(self, rival: Any, known: Mapping[str, Known]) -> Mapping[str, FloatArray]: ...


def score_events(
    model: Predicts | None,
    rivals: Mapping[str, LinearRival],
    chunks: Iterable[Chunk],
    *,
    outcomes: bool = False,
    **of_events: Any,
) -> HeldOut:
    """Let a model and its rivals say how probable what happened was, chunk by chunk.

    :param model: whose predictions are scored; None for the rivals alone.
    :param rivals: by name. Those of duels see differences of features and of covariates, without
        numbers of items, but for those of Bradley and Terry, which see these alone.
    :param chunks: of duels (`rows_between`, `rows_of_stream`) or of answers about sets
        (`answers.sets_between`, `answers.sets_of_stream`), at least one.
    :param outcomes: also score win, tie and loss of duels, next to the shares of training.
    :param of_events: more fields of `HeldOut`.
    :raises ValueError: grades of more levels than the model has.
    """
    logs: dict[str, dict[str, list[FloatArray]]] = {}
    seen: dict[str, list[Known]] = {}
    for chunk in chunks:
        known = chunk.known(model, outcomes)
        said = {} if model is None else {MODEL: chunk.by_model(model, known)}
        said |= {name: chunk.by_rival(rival, known) for name, rival in rivals.items()}
        for of, rows in known.items():
            seen.setdefault(of, []).append(rows)
            for name, values in said.items():
                if of in values:
                    logs.setdefault(of, {}).setdefault(name, []).append(values[of])
    forecasts = {}
    for of, parts in seen.items():
        happened, counts, event = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("happened", "counts", "event")
        )
        by_name = {name: _joined(values) for name, values in logs[of].items()}
        if of in (OUTCOMES, GRADES):
            by_name[CONSTANT_SHARES] = _constant(model, of, len(counts))
        if len(counts) or of == DUELS:
            forecasts[of] = Forecasts(of, by_name, happened, counts, event)
    return HeldOut(forecasts, **of_events)


class Known(NamedTuple):
    """What happened in some rows of a chunk."""

    rows: IntArray
    """(k,) which rows they are."""
    happened: IntArray
    """(k,) the place of what happened."""
    counts: npt.NDArray[Any]
    """(k,) how often each was seen."""
    event: IntArray
    """(k,) its number among all events."""


def _joined(values: Sequence[FloatArray]) -> FloatArray:
    """Of all chunks; rows of fewer alternatives than others have the rest with probability 0."""
    if values[0].ndim == 1:
        return np.concatenate(values)
    width = max(each.shape[1] for each in values)
    ends = [((0, 0), (0, width - each.shape[1])) for each in values]
    return np.concatenate(
        [np.pad(each, end, constant_values=-np.inf) for each, end in zip(values, ends, strict=True)]
    )


def _constant(model: Any, of: str, rows: int) -> FloatArray:
    """What those say who know the shares of the training duels alone."""
    duels = model.duels
    if of == OUTCOMES:
        return constant_shares(duels.num_ties / duels.num_duels, rows)
    return constant_grades(duels.grade_counts, len(duels.levels) % 2 == 1, rows)


def _differences(model: Predicts, rows: ScoredRows) -> tuple[Any, Any]:
    """Mean and variance of each difference of utilities, (k,), from the blocks that are known,
    with what the covariates of the model add."""
    won, lost, names = rows.won, rows.lost, model.duels.covariate_names
    if rows.dates is not None and model.row_layout.dated:
        won, lost = model.dated(won, rows.dates), model.dated(lost, rows.dates)
    said = _covariates_of(rows, names)
    if said is not None:
        labels = {column: rows.labels[column] for column in label_columns(model, rows.labels)}
        won, lost = model.in_duels(won, lost, said, labels)
    if rows.people is not None:
        return model.predict_difference(won, lost, people=rows.people)
    if rows.blocks is None:
        return model.predict_difference(won, lost)
    return holding_duels(model).predict_difference_in_blocks(won, lost, rows.blocks)


def _covariates_of(rows: ScoredRows, names: Sequence[str]) -> FloatArray | None:
    """Those of these names, (k, C); None without names, or where nothing is said."""
    if not names or rows.covariates is None:
        return None
    return rows.covariates[:, [rows.covariate_names.index(name) for name in names]]


def pair_log_probabilities(model: PreferenceGP, won: IntArray, lost: IntArray) -> FloatArray:
    """Log probability, (k,) in nats, that the items of the model in rows `won` (k,) beat those in
    rows `lost` (k,), given that they do not tie."""
    return log_probabilities_of(model, Events.between(won, lost))


def log_probabilities_of(model: PreferenceGP, events: Events) -> FloatArray:
    """Log probability, (k,) in nats, of the winners of duels between items of the model, given that
    they do not tie, or of answers about sets of them: with their covariates, and by the leans of
    their labels."""
    events = labelled_for(model, events)
    if events.has_sets:
        return model.log_answers(model.item_inputs(), events)
    rows = rows_between(model.item_inputs(), events)
    return score_events(model, {}, rows).forecasts[DUELS].log_probabilities[MODEL]


def asks_for_outcomes(model: Any, ties: int) -> bool:
    """Whether win, tie and loss can be scored.

    Warns of ties that a model without a margin cannot predict.
    """
    if ties and model.margin is None:
        warnings.warn(
            f"{ties:,} of the duels are ties, which a model without a margin cannot predict; only "
            "the others are scored.",
            stacklevel=3,
        )
    return ties > 0 and model.margin is not None


def unseen_pairs(training: Duels, won: IntArray, lost: IntArray) -> dict[str, BoolArray]:
    """Which pairs of items are not among training duels, in this order and at all.

    Wherever they met: an item is the same in all its contexts.

    :param won: (k,) numbers of the items, as `training.item` has them, -1 for others.
    :param lost: (k,) the same.
    """
    n = training.num_items
    doors = training.events.pair_doors()
    winners, losers = training.item[doors.features.T]
    pairs = winners * n + losers
    turned_too = (losers * n + winners)[~doors.decided]  # a tie is seen in either order
    pairs = np.concatenate([pairs, turned_too])

    def seen(first: IntArray, second: IntArray) -> BoolArray:
        known = (first >= 0) & (second >= 0)
        return np.asarray(known & np.isin(first * n + second, pairs))

    this, turned = seen(won, lost), seen(lost, won)
    return {"ordered": ~this, "either_order": ~(this | turned)}


def learned_from(training: Duels, events: Events, sides: IntArray) -> int:
    """How many duels are training duels, if they are mostly these; else 0.

    Equal are duels of the same two items with the same outcome and, where times are known, at the
    same time. A file of which a fit held some out has all training duels and some more. Where pairs
    met again and again, chance has equal duels too, and all have to be there as often.

    :param events: duels, or grades of them.
    :param sides: (e, 2) numbers of their items, as `training.item` has them, -1 for others.
    """
    theirs = _keys(events, sides)
    ours = _keys(training.events, training.item[training.events.pairs])
    if events.time is not None and training.events.time is not None:
        theirs = np.column_stack([theirs, events.time])
        ours = np.column_stack([ours, training.events.time])
    keys, number = np.unique(np.concatenate([theirs, ours]), axis=0, return_inverse=True)
    number, t = number.reshape(-1), len(theirs)
    given, learned = (
        np.bincount(some, each.counts, minlength=len(keys))
        for some, each in ((number[:t], events), (number[t:], training.events))
    )
    if learned.sum() > _OFTEN * np.count_nonzero(learned):
        return int(learned.sum()) if np.array_equal(given, learned) else 0
    known = np.minimum(given, learned)[keys[:, 0] >= 0].sum()
    mostly = known >= _MOST_LEARNED * learned.sum() and known >= _MOST_GIVEN * given.sum()
    return int(known) if mostly else 0


def said_before(known: Events, given: Events) -> int:
    """How many duels are among known ones, if nearly all are, and there as often; else 0.

    Equal are duels of the same two rows with the same outcome and, where both have any, the same
    time, judge, person and grade. A few may be equal by chance.

    :param given: of the same table of rows and of the same labels.
    """
    both = (known, given)
    keys = [_keys(events, events.pairs) for events in both]
    for name in ("judge", "person", "answer", "time"):
        values = [getattr(events, name) for events in both]
        if all(value is not None for value in values):
            values = [value if name == "time" else value.numbers for value in values]
            keys = [np.column_stack(pair) for pair in zip(keys, values, strict=True)]
    _, number = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    number, t = number.reshape(-1), len(known)
    before, now = (
        np.bincount(some, events.counts, minlength=number.max() + 1)
        for some, events in zip((number[:t], number[t:]), both, strict=True)
    )
    equal = int(now[before == now].sum())
    return equal if equal >= max(_LEAST_AGAIN, _MOST_LEARNED * now.sum()) else 0


def _keys(events: Events, sides: IntArray) -> FloatArray:
    """The two items of each duel and whether they tied, (e, 3); of a tie the lower one first, and
    -1 first where either is unknown."""
    ties = np.zeros(len(events), dtype=bool) if events.ties is None else events.ties
    pairs = np.where(ties[:, None], np.sort(sides, 1), sides)
    pairs[(sides < 0).any(1)] = -1
    return np.column_stack([pairs, ties]).astype(np.float64)
