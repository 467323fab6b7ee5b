"""One scorer: what a model and its rivals say of events whose outcomes are known."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, poisson

from sparse_prefgp.analysis.metrics import (
    MODEL,
    Score,
    abstention_curve,
    constant_grades,
    constant_shares,
    score_each,
)
from sparse_prefgp.analysis.rivals import LinearRival
from sparse_prefgp.data.answers import CHOICE, WIN, Answers, Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.forecast import (
    CHOICES,
    DUELS,
    GRADES,
    OUTCOMES,
    RANKINGS,
    joined,
)
from sparse_prefgp.data.splits import Grouping
from sparse_prefgp.models.outcomes import LEANS, NOISE, known_codes, label_columns
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

Scores = dict[str, Score]

CONSTANT_SHARES = "constant_shares"
# Of the training duels, and of those that are scored: from these shares on they are the same; and
# how often duels are there on average where chance alone could reach them.
_MOST_LEARNED, _MOST_GIVEN, _OFTEN = 0.9, 0.5, 2.0
# Fewer tested duels than these may equal training duels, whatever chance would have done.
_LEAST_KNOWN = 3
# Chances of so many equal ones below which new duels do not have them: of a random split, and of
# one where next to none are expected, along with that of so many where what is said is independent.
_BEYOND_SPLIT, _SELDOM, _INDEPENDENT = 0.00135, 0.05, 0.001
# Fewer new duels than these may be equal to known ones by chance.
_LEAST_AGAIN = 10
# Of a stream, rows predicted at a time.
ROWS_AT_ONCE = 50_000


class Asked(NamedTuple):
    """Events whose outcomes are known, as questions."""

    events: Answers
    inputs: FloatArray
    """(n, D) rows between which they are, as the model takes them."""
    first: int = 0
    """Number of the first event among all."""
    sets: bool = False
    """Whether they are answers about sets, in place of duels."""


def asked_of_stream(answers: Duels, model: Predicts) -> Iterator[Asked]:
    """Events that are read in chunks, in the units that the stream has.

    Warns of judges and labels that the model does not know, where they matter.
    """
    judged, judges = answers.group_levels, answers.group_names
    if judges is not None and judged is not None and model.likelihood.noise_ratio is not None:
        names = model.duels.group_names or ()
        judges = _known(judges, names, judged.sum(1), "group", NOISE)
    own = {
        column: _known(
            answers.label_names[column],
            model.duels.label_names[column],
            answers.batches.totals.label_counts[column][1:],
            column,
            LEANS,
        )
        for column in label_columns(model, answers.label_names)
    }
    first = 0
    for chunk in answers.chunks(ROWS_AT_ONCE):
        events = chunk.given
        said: dict[str, Any] = {
            "labels": {
                column: events.labels[column]._replace(names=names) for column, names in own.items()
            }
        }
        if events.judge is not None and judges is not None:
            said["judge"] = events.judge._replace(names=judges)
        yield Asked(events.saying(**said), chunk.items, first, sets=answers.has_sets)
        first += len(events)


def _known(
    labels: Sequence[Hashable], names: tuple[Hashable, ...], often: IntArray, one: str, then: str
) -> tuple[Hashable | None, ...]:
    """Labels of a stream, None for those that a model does not know, of which a warning tells.

    :param often: (J,) how often each was said; the others as for `known_codes`.
    """
    said = np.flatnonzero(often)
    codes = Codes(said, tuple(labels))
    place = np.full(len(labels), -1)
    place[said] = known_codes(codes, names, one, then, often[said]).numbers
    return tuple(label if at >= 0 else None for label, at in zip(labels, place, strict=True))


@dataclass(frozen=True, eq=False)
class Scored:
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
        over: dict[str, Any] = {"of": self.of}
        here = grouping and grouping.take(self.event[chosen])
        if here is not None and here.several:
            over |= {"groups": here.codes, "se_over": here.what}
        return score_each(logs, self.happened[chosen], self.counts[chosen], **over)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What predictors said of events whose outcomes are known."""

    forecasts: Mapping[str, Scored]
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

    def scores(self, events: BoolArray | None = None) -> dict[str, Any]:
        """Of duels the scores of every predictor on those that one side won; of answers about sets
        those of `choices` and of `rankings`, as far as there are any.

        :param events: (e,) which count; by default all.
        """
        if DUELS in self.forecasts:
            return self.table(DUELS, events)
        return {of: table for of in (CHOICES, RANKINGS) if (table := self.table(of, events))}

    def table(self, of: str, events: BoolArray | None = None) -> Scores:
        """Scores of all predictors on what is scored; empty without any."""
        if of not in self.forecasts:
            return {}
        rows = None if events is None else events[self.forecasts[of].event]
        return self.forecasts[of].scores(rows, self.grouping)

    def part_scores(self) -> dict[str, dict[str, Any]]:
        """Scores of each part that has any."""
        return {name: own for name, rows in self.parts.items() if (own := self.scores(rows))}

    def unseen_scores(self) -> dict[str, Scores]:
        """Scores over pairs that training did not have, when it had some of the pairs.

        :return: `ordered` (pairs not seen in this order) and `either_order` (not seen at all), each
            left out where there are no such duels; empty when no pair was seen in training.
        """
        if all(mask.all() for mask in self.unseen.values()):
            return {}
        score, over = self.forecasts[DUELS].scores, self.grouping
        return {name: own for name, rows in self.unseen.items() if (own := score(rows, over))}

    def abstention(self) -> dict[str, float]:
        """The share of duels that the model calls right by the share that it answers, the surest
        ones first: `metrics.abstention_curve`; empty where there is none."""
        duels = self.forecasts.get(DUELS)
        if duels is None or not len(duels.counts):
            return {}
        curve = abstention_curve(duels.log_probabilities[MODEL], duels.counts)
        return {f"{share:g}": right for share, right in curve.items()}

    def with_predictor(self, name: str, of: str, values: FloatArray, after: str = "") -> HeldOut:
        """With what another predictor said of the same events, at the end or after another."""
        logs = self.forecasts[of].log_probabilities
        names = list(logs)
        names.insert(names.index(after) + 1 if after in names else len(names), name)
        logs = {other: values if other == name else logs[other] for other in names}
        more = replace(self.forecasts[of], log_probabilities=logs)
        return replace(self, forecasts={**self.forecasts, of: more})

    def with_model(self, other: HeldOut, name: str) -> HeldOut:
        """With what another model said of the same events, next after the model."""
        found = self
        for of in {DUELS, CHOICES, RANKINGS} & {*self.forecasts}:
            values = other.forecasts[of].log_probabilities[MODEL]
            found = found.with_predictor(name, of, values, MODEL)
        return found


def score_events(
    model: Predicts,
    rivals: Mapping[str, LinearRival],
    chunks: Iterable[Asked],
    *,
    outcomes: bool = False,
    **of_events: Any,
) -> HeldOut:
    """Let a model and its rivals say how probable what happened was, chunk by chunk.

    :param model: whose predictions are scored.
    :param rivals: by name.
    :param chunks: at least one.
    :param outcomes: also score win, tie and loss of duels, next to the shares of training.
    :param of_events: more fields of `HeldOut`.
    :raises ValueError: grades of more levels than the model has.
    """
    logs: dict[tuple[str, str], list[FloatArray]] = {}
    seen: dict[str, list[tuple[IntArray, IntArray, IntArray]]] = {}
    for events, inputs, first, sets in chunks:
        parts = {DUELS: np.arange(len(events))}
        if sets:
            chosen = np.isin(events.kind, (CHOICE, WIN))
            parts = {CHOICES: np.flatnonzero(chosen), RANKINGS: np.flatnonzero(~chosen)}
        for kind, rows in parts.items():
            if sets and not len(rows):
                continue
            # Duels have the better side first, as their outcomes have.
            asked = events.take(rows) if sets else events.in_order()
            said = {MODEL: model.predict(asked, inputs)}
            for name, rival in rivals.items():
                own = slice(-1, None) if rival.strengths is not None else slice(rival.num_features)
                said[name] = rival.predict(asked, inputs[:, own])
            happened = {kind: (np.arange(len(rows)), np.zeros(len(rows), np.int64))}
            if not sets:
                happened = _happened(asked, model, outcomes)
            for of, (here, place) in happened.items():
                seen.setdefault(of, []).append((place, asked.counts[here], first + rows[here]))
                for name, forecast in said.items():
                    if name == MODEL or of == kind:
                        # Of duels and rankings what happened, else all outcomes.
                        values = forecast.results if of == OUTCOMES else forecast.log_p
                        values = forecast.log_first if of in (DUELS, RANKINGS) else values
                        logs.setdefault((of, name), []).append(values[here])
    forecasts = {}
    for of, told in seen.items():
        columns = list(map(np.concatenate, zip(*told, strict=True)))
        by_name = {name: joined(values) for (kind, name), values in logs.items() if kind == of}
        number, duels = len(columns[0]), model.duels
        if of == OUTCOMES:
            by_name[CONSTANT_SHARES] = constant_shares(duels.num_ties / duels.num_duels, number)
        elif of == GRADES:
            assert duels.grade_counts is not None and duels.levels is not None
            has_ties = len(duels.levels) % 2 == 1
            by_name[CONSTANT_SHARES] = constant_grades(duels.grade_counts, has_ties, number)
        if number or of == DUELS:
            forecasts[of] = Scored(of, by_name, *columns)
    return HeldOut(forecasts, **of_events)


def _happened(
    duels: Answers, model: Predicts, outcomes: bool
) -> dict[str, tuple[IntArray, IntArray]]:
    """The duels that one side won, and where they are asked for all outcomes and the grades that
    the model knows: which they are, and the place of what happened.

    :param duels: the better side first.
    :raises ValueError: grades of more levels than the model has.
    """
    decided = duels.pair_doors().decided
    won = np.flatnonzero(decided)
    found = {DUELS: (won, np.zeros_like(won))}
    if outcomes:
        found[OUTCOMES] = (np.arange(len(duels)), (~decided).astype(np.int64))
    levels, answer = model.duels.levels, duels.answer
    if answer is not None and levels is not None and model.duels.grade_counts is not None:
        grades = np.where(duels.kind == WIN, -1, answer.numbers.astype(np.int64))
        largest, has_ties = len(model.duels.grade_counts) - 1, len(levels) % 2 == 1
        if grades.max(initial=0) > largest or (not has_ties and np.any(grades == 0)):
            raise ValueError(
                f"The duels have grades of {grades.max()} levels, or ties, but the model knows "
                f"{largest} and {'ties' if has_ties else 'no ties'}; give duels with its levels."
            )
        graded = np.flatnonzero(grades >= 0)
        found[GRADES] = (graded, largest + grades[graded] - (0 if has_ties else 1))
    return found


def asks_for_outcomes(model: Any, ties: int) -> bool:
    """Whether win, tie and loss can be scored.

    Warns of ties that a model without a margin cannot predict.
    """
    if ties and model.likelihood.margin is None:
        warnings.warn(
            f"{ties:,} of the duels are ties, which a model without a margin cannot predict; only "
            "the others are scored.",
            stacklevel=3,
        )
    return ties > 0 and model.likelihood.margin is not None


def unseen_pairs(training: Duels, won: IntArray, lost: IntArray) -> dict[str, BoolArray]:
    """Which pairs of items are not among training duels, in this order and at all.

    Wherever they met: an item is the same in all its contexts.

    :param won: (k,) numbers of the items, as `training.item` has them, -1 for others.
    :param lost: (k,) the same.
    """
    n = training.num_items
    doors = training.events.pair_doors()
    sides = training.item[doors.features]
    sides = np.concatenate([sides, sides[~doors.decided, ::-1]])  # a tie is seen in either order

    def seen(first: IntArray, second: IntArray) -> BoolArray:
        known = (first >= 0) & (second >= 0)
        return known & np.isin(first * n + second, sides @ [n, 1])

    this, turned = seen(won, lost), seen(lost, won)
    return {"ordered": ~this, "either_order": ~(this | turned)}


class Repeats(NamedTuple):
    """Tested duels that equal training duels."""

    equal: int
    """How many there are."""
    known: int
    """How many of them were learned from, about; 0 where chance may have made all of them."""
    tested: int
    """Duels between items that training had."""


def learned_from(training: Duels, events: Answers, sides: IntArray) -> Repeats:
    """How many duels equal training duels, and how many of these chance does not explain.

    Equal are duels of the same two rows with the same outcome and grade and, as far as both have
    it, of the same judge, person, labels, covariates and time. Of new duels, some are so by chance:
    as many as where training and tested duels are mixed and parted at random, or as training duels
    equal each other, or as where all these are independent. A file of which a fit held some out has
    all training duels and some more.

    :param events: duels, or grades of them.
    :param sides: (e, 2) rows of `training` that their items are, -1 for others.
    """
    there = (sides >= 0).all(1)
    own, events, sides = training.events, events.take(there), sides[there]
    pieces = _pieces((own, events), (own.pairs, sides))
    learned, given = _numbers_of((own, events), *map(np.column_stack, zip(*pieces, strict=True)))
    n, t = learned.sum(), given.sum()
    crossing, equal = float(learned @ given), int(given[learned > 0].sum())
    if not equal:
        return Repeats(0, 0, int(t))
    found = np.minimum(learned, given).sum()
    mostly = found >= _MOST_LEARNED * n and found >= _MOST_GIVEN * t
    if np.array_equal(learned, given) or (mostly and n <= _OFTEN * np.count_nonzero(learned)):
        return Repeats(int(found), int(found), int(t))
    both, share = learned + given, n * t / (n + t) ** 2
    two, three = both * (both - 1.0), both * (both - 1.0) * (both - 2.0)
    parted = share * two.sum() * (n + t) / (n + t - 1.0)
    variance = share * (1.0 - 2.0 * share) * two.sum() + share * (1.0 - 4.0 * share) * three.sum()
    z = (crossing - parted - 0.5) / np.sqrt(variance)
    of_split = max(norm.sf(z), poisson.sf(crossing - 1.0, parted))
    among = _chance_of_equals(learned)
    alone = np.prod([_chance_of_equals(_numbers_of((own, events), *piece)[0]) for piece in pieces])
    expected = n * t * max(among, alone)
    beyond = of_split < _BEYOND_SPLIT
    if expected < 1.0 and norm.sf(z) < _SELDOM:
        beyond |= poisson.sf(crossing - 1.0, expected) < _INDEPENDENT
    known = min(equal, round(crossing - n * t * among)) if beyond and equal >= _LEAST_KNOWN else 0
    return Repeats(equal, max(known, 0), int(t))


def _chance_of_equals(number: IntArray) -> float:
    """That two of some duels are equal, of which there are (k,) of each kind."""
    total = number.sum()
    return float(number @ (number - 1.0)) / (total * max(total - 1.0, 1.0))


def _pieces(
    both: tuple[Answers, Answers], sides: tuple[IntArray, IntArray]
) -> list[list[FloatArray]]:
    """What tells duels apart, in pieces, each of both tables: between whom and with which outcome;
    who said it and labels; covariates; and times."""
    own, events = both
    ends = _outcomes(both, sides)
    said = [{"judge": each.judge, "person": each.person, **each.labels} for each in both]
    codes: list[list[FloatArray]] = [[], []]
    for name, known in said[0].items():
        other = said[1].get(name)
        if known is not None and other is not None:
            numbers = other.among(known.names).numbers.astype(np.float64)
            codes[0].append(known.numbers.astype(np.float64))
            # Labels that nobody knows are others than those that nobody knew.
            codes[1].append(np.where(numbers < 0, numbers - len(own), numbers))
    pieces = [ends, [np.column_stack(each) for each in codes] if codes[0] else []]
    names = [name for name in own.covariate_names if name in events.covariate_names]
    if names:
        pieces.append([])
        for each, pairs, key in zip(both, sides, ends, strict=True):
            values = each.covariate_differences
            assert values is not None
            # Of a tie its lower item may be second.
            turned = np.where(key[:, 0] == pairs[:, 0], 1.0, -1.0)
            which = [each.covariate_names.index(name) for name in names]
            pieces[-1].append(values[:, which] * turned[:, None])
    if own.time is not None and events.time is not None:
        pieces.append([own.time[:, None], events.time[:, None]])
    return [piece for piece in pieces if piece]


def said_before(known: Answers, given: Answers) -> int:
    """How many duels are among known ones, if nearly all are, and there as often; else 0.

    Equal are duels of the same two rows with the same outcome and, where both have any, the same
    time, judge, person and grade. A few may be equal by chance.

    :param given: of the same table of rows and of the same labels.
    """
    ends = _outcomes((known, given), (known.pairs, given.pairs))
    for name in ("judge", "person", "time"):
        values = [getattr(events, name) for events in (known, given)]
        if all(value is not None for value in values):
            values = [value if name == "time" else value.numbers for value in values]
            ends = [np.column_stack(pair) for pair in zip(ends, values, strict=True)]
    before, now = _numbers_of((known, given), *ends)
    equal = int(now[before == now].sum())
    return equal if equal >= max(_LEAST_AGAIN, _MOST_LEARNED * now.sum()) else 0


def _outcomes(both: tuple[Answers, Answers], sides: tuple[IntArray, IntArray]) -> list[FloatArray]:
    """Of both tables, (e, .) between which rows each duel was and how it ended: of a tie the lower
    row first; and its grade where both have any."""
    keys = []
    for events, ends in zip(both, sides, strict=True):
        ties = np.zeros(len(events), dtype=bool) if events.ties is None else events.ties
        pairs = np.where(ties[:, None], np.sort(ends, 1), ends)
        answer = events.answer if all(one.answer is not None for one in both) else None
        grades = [] if answer is None else [answer.numbers]
        keys.append(np.column_stack([pairs, ties, *grades]).astype(np.float64))
    return keys


def _numbers_of(
    both: tuple[Answers, Answers], first: FloatArray, second: FloatArray
) -> tuple[IntArray, IntArray]:
    """How often each of k different duels is there in either table, (k,), by their keys (e, .)."""
    different, number = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    places = np.split(number.reshape(-1), [len(first)])
    before, now = (
        np.bincount(place, events.counts, minlength=len(different))
        for place, events in zip(places, both, strict=True)
    )
    return before, now
