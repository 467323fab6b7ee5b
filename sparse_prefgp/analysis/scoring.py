"""One scorer: what a model, a linear probit and a coin give to duels whose outcomes are known.

Duels come as rows with features, one chunk where they are in memory and many where they are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.baselines import Coin, LinearProbit
from sparse_prefgp.analysis.metrics import (
    constant_grades,
    constant_shares,
    score,
    score_grades,
    score_outcomes,
    with_errors,
)
from sparse_prefgp.analysis.prediction import outcomes_of
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import WIN, Events
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.outcomes import label_columns, labelled_for, places_of
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

Baseline = LinearProbit | Coin
Scores = dict[str, dict[str, float | int]]

MODEL, LINEAR_PROBIT, COIN = "model", "linear_probit", "coin"
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
        labels = (None if x is None else x[part] for x in (groups, blocks, people))
        yield _behind_doors(events.take(part), inputs, *labels)


def _behind_doors(
    events: Events,
    table: FloatArray,
    groups: npt.NDArray[np.object_] | None = None,
    blocks: npt.NDArray[np.object_] | None = None,
    people: npt.NDArray[np.object_] | None = None,
) -> ScoredRows:
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
    for chunk in duels.chunks(ROWS_AT_ONCE):
        features = chunk.features if table is None else table.features
        assert features is not None
        judge = chunk.events.judge
        groups = None if known is None or judge is None else known[judge.numbers]
        labels = {
            column: chunk.events.labels[column]._replace(names=tuple(names))
            for column, names in own.items()
        }
        yield _behind_doors(replace(chunk.events, labels=labels), features, groups)


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
class HeldOut:
    """Log probabilities that each predictor gave to the observed winners of some duels.

    Of the duels that one side won, given that they were not tied.
    """

    log_probabilities: dict[str, FloatArray]
    """Predictor -> (rows,) in nats."""
    counts: npt.NDArray[Any]
    """(rows,)."""
    outcomes: Scores = field(default_factory=dict)
    """Scores of win, tie and loss over all duels by predictor, as by `metrics.score_outcomes`;
    empty where they were not asked for.
    """
    grades: Scores = field(default_factory=dict)
    """Scores of the grades over all that were graded by predictor, as by `metrics.score_grades`;
    empty without.
    """
    unseen: Mapping[str, BoolArray] = field(default_factory=dict)
    """Masks (rows,) of pairs that training did not have, `ordered` and `either_order`; empty where
    that is not known.
    """
    parts: Mapping[str, BoolArray] = field(default_factory=dict)
    """Masks (rows,) of `known_people` and `new_people`; empty where nobody has a taste."""

    def with_model(self, other: HeldOut, name: str) -> HeldOut:
        """With what another model gave to the same duels, next after the model."""
        (first, logs), *rest = self.log_probabilities.items()
        more = {first: logs, name: other.log_probabilities[MODEL], **dict(rest)}
        return replace(self, log_probabilities=more)

    def with_forecasts(
        self, name: str, log_three: FloatArray, ties: BoolArray, counts: npt.NDArray[Any]
    ) -> HeldOut:
        """With what another predictor gave to the same duels, tied ones among them, at the end.

        :param log_three: (k, 3) log probabilities that the winner wins, of a tie, and that the
            winner loses.
        :param ties: (k,) which were tied.
        :param counts: (k,) how often each was seen.
        """
        decided = log_three[~ties]
        winner = decided[:, 0] - np.logaddexp(decided[:, 0], decided[:, 2])
        found = replace(self, log_probabilities={**self.log_probabilities, name: winner})
        if not self.outcomes:
            return found
        all_three = score_outcomes(log_three, ties, counts)
        return replace(found, outcomes={**self.outcomes, name: all_three})

    def part_scores(self) -> dict[str, Scores]:
        """Scores of each part that has rows."""
        return {name: self.scores(mask) for name, mask in self.parts.items() if mask.any()}

    def scores(self, rows: BoolArray | None = None) -> Scores:
        """The scores of every predictor, over all rows or those of a mask; none without rows."""
        chosen = np.ones(len(self.counts), dtype=bool) if rows is None else rows
        if not chosen.any():
            return {}
        logs = {name: values[chosen] for name, values in self.log_probabilities.items()}
        counts = self.counts[chosen]
        found = {name: score(counts=counts, log_probabilities=each) for name, each in logs.items()}
        return with_errors(found, logs, counts)

    def unseen_scores(self) -> dict[str, Scores]:
        """Scores over pairs that training did not have, when it had some of the pairs.

        :return: `ordered` (pairs not seen in this order) and `either_order` (not seen at all), each
            left out where there are no such duels; empty when no pair was seen in training.
        """
        if all(mask.all() for mask in self.unseen.values()):
            return {}
        return {name: self.scores(mask) for name, mask in self.unseen.items() if mask.any()}


def score_rows(
    model: Predicts | None,
    baselines: Mapping[str, Baseline],
    rows: Iterable[ScoredRows],
    *,
    outcomes: bool = False,
    unseen: Mapping[str, BoolArray] | None = None,
) -> HeldOut:
    """Let a model and baselines predict duels, chunk by chunk.

    :param model: whose predictions are scored; None for the baselines alone.
    :param baselines: by name; they see differences of features and of covariates, without
        numbers of items.
    :param rows: the duels, at least one.
    :param outcomes: also score win, tie and loss, next to the shares of the training duels.
    :param unseen: see `HeldOut`.
    """
    found: dict[str, list[FloatArray]] = {} if model is None else {MODEL: []}
    found |= {name: [] for name in baselines}
    three, counts, tied, graded = [], [], [], _Graded.of(model)
    for chunk in rows:
        if model is not None:
            mean, variance = _differences(model, chunk)
            outcome = outcomes_of(model, mean, variance, chunk.groups)
            found[MODEL].append(outcome.winner)
            if graded is not None and chunk.grades is not None:
                logs_of = model.log_grades(mean, variance, chunk.groups).numpy()
                graded.add(logs_of, chunk.grades, chunk.counts)
            if outcomes:
                three.append(outcome.all_three)
        columns = chunk.won.shape[1] if model is None else model.duels.num_features
        differences = (chunk.won - chunk.lost)[:, :columns]
        for name, baseline in baselines.items():
            said = _covariates_of(chunk, baseline.covariate_names)
            found[name].append(baseline.predict_log_proba(differences, said))
        counts.append(chunk.counts)
        number = len(chunk.counts)
        tied.append(np.zeros(number, dtype=bool) if chunk.ties is None else chunk.ties)
    weight, ties = np.concatenate(counts), np.concatenate(tied)
    logs = {name: np.concatenate(values)[~ties] for name, values in found.items()}
    all_three: Scores = {}
    if outcomes and model is not None:
        shares = constant_shares(model.duels.num_ties / model.duels.num_duels, len(ties))
        both_ways = {MODEL: np.concatenate(three), CONSTANT_SHARES: shares}
        all_three = {name: score_outcomes(p, ties, weight) for name, p in both_ways.items()}
    grades = {} if graded is None else graded.scores()
    return HeldOut(logs, weight[~ties], all_three, grades, unseen or {})


@dataclass(frozen=True, eq=False)
class _Graded:
    """Grades that were predicted and seen, chunk by chunk."""

    used: IntArray
    """(K + 1,) how often training duels had each level."""
    has_ties: bool
    log_probabilities: list[FloatArray] = field(default_factory=list)
    places: list[IntArray] = field(default_factory=list)
    counts: list[npt.NDArray[Any]] = field(default_factory=list)

    @classmethod
    def of(cls, model: Predicts | None) -> _Graded | None:
        """None for a model without grades."""
        if model is None or model.duels.levels is None or model.duels.grade_counts is None:
            return None
        return cls(model.duels.grade_counts, len(model.duels.levels) % 2 == 1)

    def add(self, logs: FloatArray, levels: IntArray, counts: npt.NDArray[Any]) -> None:
        """Take those that were graded.

        :raises ValueError: grades of more levels than the model has.
        """
        largest = len(self.used) - 1
        if levels.max(initial=0) > largest or (not self.has_ties and np.any(levels == 0)):
            raise ValueError(
                f"The duels have grades of {levels.max()} levels, or ties, but the model knows "
                f"{largest} and {'ties' if self.has_ties else 'no ties'}; give duels with its "
                "levels."
            )
        said = levels >= 0
        place = largest + levels - (0 if self.has_ties else 1)
        self.log_probabilities.append(logs[said])
        self.places.append(place[said])
        self.counts.append(counts[said])

    def scores(self) -> Scores:
        """Of the model, and of who knows the shares of training; none without grades."""
        if not sum(map(len, self.places)):
            return {}
        places, counts = np.concatenate(self.places), np.concatenate(self.counts)
        both = {
            MODEL: np.concatenate(self.log_probabilities),
            CONSTANT_SHARES: constant_grades(self.used, self.has_ties, len(places)),
        }
        return {name: score_grades(logs, places, counts) for name, logs in both.items()}


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
    return score_rows(model, {}, rows).log_probabilities[MODEL]


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
