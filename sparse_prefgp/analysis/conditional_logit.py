"""What a model of choices must beat: a conditional logit, constant shares, equal shares.

McFadden (1974), Conditional logit analysis of qualitative choice behavior: alternative a of a set
is chosen with probability exp(x_a' w) / sum_b exp(x_b' w).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from sparse_prefgp.analysis.linear_losses import (
    LinearLoss,
    ask_for_rows,
    cross_validate,
    newton,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    KINDS,
    RANKING,
    TOP,
    WIN,
    Codes,
    Events,
)
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.words import id_text, shortened
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table

RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01, 0.001)
# Without a ridge: curvature that is so small, next to the largest one and next to what it is where
# all weights are 0, is rounding, or the end of a way that leads to infinity.
_FLAT, _ESCAPED = 1e-12, 1e-7


# ---- what was said, as choices of one ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stages(LinearLoss):
    """Choices of one, each with its chosen row first; -sum of weight log P is the loss."""

    x: FloatArray
    """(r, D) features of the rows, those of one choice after those of another; turned around where
    the worst was chosen.
    """
    first: IntArray
    """(s,) the chosen row of each choice, where its rows begin."""
    weight: FloatArray
    """(s,) as how many choices each counts."""
    unit: IntArray
    """(s,) what each belongs to that folds leave whole, numbers from 0."""
    event: IntArray
    """(s,) the event that each is part of."""

    @property
    def sizes(self) -> IntArray:
        """(s,) how many rows each has."""
        return np.diff(self.first, append=len(self.x))

    def log_probabilities(self, a: FloatArray) -> FloatArray:
        """(s,) of what was chosen, from a = x @ weights."""
        return np.asarray(a[self.first] - _log_sums(a, self.first))

    def value(self, a: FloatArray) -> float:
        return -float(self.weight @ self.log_probabilities(a))

    def slopes(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = np.exp(a - np.repeat(_log_sums(a, self.first), self.sizes))
        weighted = (np.repeat(self.weight, self.sizes) * p)[:, None] * self.x
        sums = np.add.reduceat(weighted, self.first)
        slope = np.repeat(self.weight, self.sizes) * p
        slope[self.first] -= self.weight
        return slope, self.x.T @ weighted - sums.T @ (sums / self.weight[:, None])

    def of_events(self, values: FloatArray, events: int) -> FloatArray:
        """The sum of values (s,) over the choices that each event is made of, (events,)."""
        return np.asarray(np.bincount(self.event, values, minlength=events), dtype=np.float64)

    @property
    def num_units(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def total(self) -> float:
        return float(self.weight[np.unique(self.event, return_index=True)[1]].sum())

    def part(self, units: BoolArray) -> Stages:
        kept = units[self.unit]
        sizes = self.sizes
        ends = np.append(0, np.cumsum(sizes[kept]))
        return Stages(
            self.x[np.repeat(kept, sizes)],
            ends[:-1],
            self.weight[kept],
            self.unit[kept],
            self.event[kept],
        )

    def scaled(self) -> tuple[Stages, FloatArray]:
        """With columns of mean 0 within each choice, over their standard deviations within choices,
        and these, (D,); 1 where a column is the same within each."""
        # Less the chosen row first: what is the same within a choice is 0 then, without rounding.
        inside = self.x - np.repeat(self.x[self.first], self.sizes, axis=0)
        means = np.add.reduceat(inside, self.first) / self.sizes[:, None]
        inside -= np.repeat(means, self.sizes, axis=0)
        scale = np.sqrt(np.mean(inside**2, axis=0))
        scale[scale == 0.0] = 1.0
        return Stages(inside / scale, self.first, self.weight, self.unit, self.event), scale


def _log_sums(a: FloatArray, first: IntArray) -> FloatArray:
    """(s,) log of the sum of exp(a) within each choice."""
    largest = np.maximum.reduceat(a, first)
    shifted = np.exp(a - np.repeat(largest, np.diff(first, append=len(a))))
    return np.asarray(largest + np.log(np.add.reduceat(shifted, first)))


def _parts(kind: int, size: int, ordered: int) -> list[tuple[list[int], float]]:
    """The choices that make an answer of some kind: places, the chosen one first, and a sign.

    A ranking is the choice of the first, of the second from the others, and so on ("exploded";
    Beggs, Cardell & Hausman 1981); best and worst are the best of all and the worst of the others,
    of which the utilities are turned around.
    """
    every = list(range(size))
    if kind in (BEST_WORST, BEST_WORST_AT_ONCE):
        return [(every, 1.0), ([size - 1, *every[1:-1]], -1.0)]
    number = {WIN: 1, CHOICE: 1, RANKING: size - 1, TOP: ordered}[kind]
    return [(every[j:], 1.0) for j in range(number)]


def with_products(x: FloatArray, of_people: FloatArray) -> FloatArray:
    """(..., D + D S), columns (..., D) and their products with those of who answered, (..., S)."""
    products = x[..., :, None] * of_people[..., None, :]
    return np.concatenate([x, products.reshape(*x.shape[:-1], -1)], -1)


def features_of_people(known: PeopleFeatures | None, events: Events) -> FloatArray | None:
    """(e, S) of who gave each answer, standardised, 0 where nothing is known of them; None where
    people have none."""
    person = events.person
    if known is None or person is None:
        return None
    place = {id_text(name): i for i, name in enumerate(known.names)}
    numbers = [place.get(id_text(name), -1) for name in person.names]
    values = np.vstack([known.values, np.zeros(known.values.shape[1])])
    return np.asarray(values[np.append(numbers, -1).astype(np.int64)[person.numbers]])


def stages_of(events: Events, features: FloatArray, of_people: FloatArray | None = None) -> Stages:
    """Answers about sets, and wins, as choices of one.

    :param features: (n, D) of the rows that the events are between. Covariates of the events are
        further columns.
    :param of_people: (e, S) of who gave each answer; its products with all columns are columns too.
    :raises ValueError: ties and grades.
    """
    taken = np.isin(events.kind, (WIN, CHOICE, RANKING, TOP, BEST_WORST, BEST_WORST_AT_ONCE))
    for i in np.flatnonzero(~taken)[:1]:
        raise ValueError(
            f"Event {i} is a {KINDS[events.kind[i]].name}, of which a conditional logit knows "
            "nothing; give choices, rankings, best and worst, or wins alone."
        )
    person = events.person
    units = np.arange(len(events)) if person is None else person.used().numbers
    sizes = np.diff(events.offsets)
    ordered = np.zeros(len(events), np.int64) if events.ordered is None else events.ordered
    forms, number = np.unique(
        np.stack([events.kind, sizes, ordered], 1), axis=0, return_inverse=True
    )
    at, signs, lengths, event = [], [], [], []
    for i, (kind, size, some) in enumerate(forms.tolist()):
        here = np.flatnonzero(number.reshape(-1) == i)
        for places, sign in _parts(kind, size, some):
            at.append((events.offsets[here][:, None] + np.array(places)).reshape(-1))
            signs.append(np.full(len(at[-1]), sign))
            lengths.append(np.full(len(here), len(places)))
            event.append(here)
    rows, of, sides = np.concatenate(at), np.concatenate(event), events.sides
    columns = features.shape[1] + len(events.covariate_names)
    ask_for_rows(len(rows), columns * (1 if of_people is None else 1 + of_people.shape[1]))
    x = features[sides[rows]]
    if events.covariates is not None:
        x = np.column_stack([x, events.covariates[rows]])
    if of_people is not None:
        x = with_products(x, of_people[np.repeat(of, np.concatenate(lengths))])
    ends = np.append(0, np.cumsum(np.concatenate(lengths)))
    return Stages(x * np.concatenate(signs)[:, None], ends[:-1], events.totals[of], units[of], of)


# ---- rivals ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConditionalLogit(Result):
    """P(a is chosen) = exp(x_a' w) / sum_b exp(x_b' w), from `conditional_logit`."""

    coefficients: FloatArray
    """(D,) w, in units of utility per unit of the feature; the noise of an alternative is a
    standard Gumbel, of variance pi²/6.
    """
    covariance: FloatArray
    """(D, D) of the coefficients: the inverse of the Hessian, ridge included."""
    names: tuple[str, ...]
    """D names of the features."""
    log_likelihood: float
    """Of what was fitted to, in nats, without the penalty of the ridge."""
    choices: float
    """How many choices (rankings, …) it was fitted to, weights included."""
    ridge: float
    """r of the penalty ½ r sum_j (scale_j w_j)², `scale_j` the standard deviation of
    feature j within sets.
    """
    cross_validation: tuple[tuple[float, float], ...] = ()
    """(ridge, mean negative log probability of what was left out, in nats) of every ridge tried;
    empty where there was a single one, or a single unit to leave out.
    """

    people: PeopleFeatures | None = None
    """Whose products with the others are the last columns; None without."""

    @property
    def standard_errors(self) -> FloatArray:
        """(D,) of the coefficients."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def predict_choice(
        self, features: npt.ArrayLike, mask: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Probability of each alternative of new sets, (b, k); each row adds up to 1.

        :param features: (b, k, D) of the alternatives.
        :param mask: (b, k) which of them there are; all by default. The others have 0.
        :raises ValueError: arrays of another shape, features that are not finite, a set without
            alternatives.
        """
        x = np.asarray(features, dtype=np.float64)
        if x.ndim != 3 or x.shape[2] != len(self.coefficients):
            raise ValueError(
                f"features has shape {x.shape}; give (sets, alternatives, "
                f"{len(self.coefficients)}), the columns that the logit was fitted to."
            )
        there = _checked_mask(np.ones(x.shape[:2], bool) if mask is None else mask, x.shape[:2])
        bad = np.argwhere(~np.isfinite(x) & there[:, :, None])
        if len(bad):
            i, j, c = bad[0]
            raise ValueError(
                f"features has {x[i, j, c]} in alternative {j} of set {i}; give finite numbers."
            )
        lead = np.where(there, np.where(there[:, :, None], x, 0.0) @ self.coefficients, -np.inf)
        p = np.exp(lead - lead.max(1, keepdims=True))
        return np.asarray(p / p.sum(1, keepdims=True))

    def log_probabilities(self, duels: Duels) -> FloatArray:
        """Log probability, (num_pairs,) in nats, of each thing that was said.

        :param duels: choices, rankings, best and worst, or wins, with features in the same units.
        :raises ValueError: ties and grades; other features than those that it was fitted to.
        """
        return self.log_answers(duels.items, duels.events)

    def columns(self, x: FloatArray, events: Events) -> FloatArray:
        """All columns of the alternatives of some answers, of their own (e, k, D)."""
        of_people = features_of_people(self.people, events)
        return x if of_people is None else with_products(x, of_people[:, None])

    def log_answers(self, features: FloatArray, events: Events) -> FloatArray:
        """`log_probabilities` of events between rows of features (n, D)."""
        stages = stages_of(events, features, features_of_people(self.people, events))
        if stages.x.shape[1] != len(self.coefficients):
            raise ValueError(
                f"The duels have {stages.x.shape[1]} features and covariates, but the logit was "
                f"fitted to {len(self.coefficients)}; give the same."
            )
        return stages.of_events(stages.log_probabilities(stages.x @ self.coefficients), len(events))

    def table(self, most: int | None = None) -> Table:
        """The coefficients."""
        title = (
            f"Conditional logit of {self.choices:,.10g} choices: log-likelihood "
            f"{self.log_likelihood:.3f}, {-self.log_likelihood / self.choices:.4f} nats each, "
            f"ridge {self.ridge:g}"
        )
        columns = [
            Column("feature", "feature", left=True),
            Column("coefficient", "coefficient", ".5g"),
            Column("error", "standard error", ".2g"),
        ]
        each = zip(self.names, self.coefficients, self.standard_errors, strict=True)
        keys = [column.key for column in columns]
        rows = [dict(zip(keys, row, strict=True)) for row in each]
        return Table("coefficients", title, columns, rows[:most])


@dataclass(frozen=True)
class EqualShares:
    """All alternatives of a set are alike."""

    def predict_choice(
        self, features: npt.ArrayLike, mask: npt.ArrayLike | None = None
    ) -> FloatArray:
        """1/k for each of the k alternatives of a set, (b, k), as `ConditionalLogit` gives them."""
        return equal_shares(np.ones(np.shape(features)[:2], bool) if mask is None else mask)

    def columns(self, x: FloatArray, events: Events) -> FloatArray:
        """As of `ConditionalLogit`."""
        return x

    def log_probabilities(self, duels: Duels) -> FloatArray:
        """Of each thing that was said, (num_pairs,) in nats: of a choice -log k.

        :raises ValueError: ties and grades.
        """
        return self.log_answers(duels.items, duels.events)

    def log_answers(self, features: FloatArray, events: Events) -> FloatArray:
        """`log_probabilities` of events between rows of features (n, D)."""
        stages = stages_of(events, features)
        return stages.of_events(-np.log(stages.sizes), len(events))


@dataclass(frozen=True, eq=False)
class LabelShares:
    """Alternatives are told apart by their labels alone, from `label_shares`."""

    labels: tuple[Hashable, ...]
    """L of them, in the order of first appearance."""
    logit: ConditionalLogit
    """On one column for each label."""

    def predict_choice(
        self, labels: npt.ArrayLike, mask: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Probability of each alternative of new sets, (b, k).

        :param labels: (b, k).
        :param mask: (b, k) which of them there are; all by default. The others have 0.
        :raises ValueError: a label that is not among `self.labels`; arrays of another shape; a set
            without alternatives.
        """
        values = np.asarray(labels)
        if values.ndim != 2:
            raise ValueError(f"labels has shape {values.shape}; give (sets, alternatives).")
        there = _checked_mask(np.ones(values.shape, bool) if mask is None else mask, values.shape)
        place = {label: i for i, label in enumerate(self.labels)}
        number = np.array([place.get(label, -1) for label in values.reshape(-1).tolist()])
        number = number.reshape(values.shape)
        bad = np.argwhere((number < 0) & there)
        if len(bad):
            i, j = bad[0]
            known = ", ".join(shortened(label) for label in self.labels[:6])
            raise ValueError(
                f"The label {shortened(values[i, j])} of alternative {j} of set {i} was in no set "
                f"that was fitted to; give one of {known}."
            )
        return self.logit.predict_choice(np.eye(len(self.labels))[number], there)


def equal_shares(mask: npt.ArrayLike) -> FloatArray:
    """Probabilities (b, k) of who knows nothing: 1 over the number of alternatives of the set.

    :param mask: (b, k) which alternatives there are.
    :raises ValueError: another shape, or a set without alternatives.
    """
    there = _checked_mask(mask, None)
    return np.asarray(there / there.sum(1, keepdims=True))


def conditional_logit(
    features: npt.ArrayLike | Duels,
    sets: npt.ArrayLike | None = None,
    chosen: npt.ArrayLike | None = None,
    *,
    people: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ridge: float | Sequence[float] = RIDGES,
    folds: int = 5,
    rng: np.random.Generator | None = None,
) -> ConditionalLogit:
    """Fit a conditional logit (McFadden 1974) by Newton's method with the exact Hessian.

    The ridge is chosen by cross-validation over whole sets, or over whole people where they are
    known. Features may have any units, and any location; constants of the alternatives are columns
    of 0 and 1. Of `Duels`, rankings are exploded, best and worst are the best of all and then the
    worst of the others with reversed utilities, wins are choices of two, weights are kept,
    covariates are further columns, as are products of all columns with the features of people, and
    equal sets are one unit. Cost is O(r D²) a step.

    :param features: (r, D) of the alternatives, one row each, in any order; or `Duels`, which need
        nothing else.
    :param sets: (r,) labels: the choice set of each row.
    :param chosen: (r,) 1 for the chosen row of each set, 0 for the others.
    :param people: (r,) labels: who chose; by default each set is a person's own. Of `Duels`, a
        label for each event as given (`duels.given`).
    :param names: D names of the features.
    :param ridge: 0, or one or several above 0 to choose from: r of the penalty ½ r sum_j (scale_j
        w_j)², `scale_j` the standard deviation of feature j within sets.
    :param folds: the number of folds, five unless there are fewer sets or people.
    :param rng: draws the folds; default a generator with seed 0.
    :raises ValueError: arrays of the wrong shape or not finite, none or two chosen in a set, a set
        of one row or of two people, a ridge below 0, or 0 with others, fewer than two folds, ties
        or grades; with ridge 0, features that are not told apart within sets, or that part the
        chosen from the others without an error, so that coefficients are not finite.
    """
    if isinstance(features, Duels):
        if sets is not None or chosen is not None or names is not None:
            raise ValueError(
                "Duels say themselves what was chosen, but sets, chosen or names were given too; "
                "leave them out."
            )
        events = features.events if people is None else features.given
        of_people = features_of_people(features.people_features, events)
        if people is not None:
            events = _by_people(events, people)
        columns = _names(features.feature_names, features.num_features) + features.covariate_names
        own = features.people_features
        if of_people is not None and own is not None:
            columns += tuple(f"{name} × {other}" for name in columns for other in own.feature_names)
        stages = stages_of(events, features.items, of_people)
        logit = _fitted(stages, columns, ridge, folds, rng)
        return logit if of_people is None else replace(logit, people=own)
    if sets is None or chosen is None:
        raise ValueError(
            "sets or chosen is missing; give the set of each row, and which is chosen."
        )
    x = _checked_features(features)
    return _fitted(_stages(x, sets, chosen, people), _names(names, x.shape[1]), ridge, folds, rng)


def label_shares(
    labels: npt.ArrayLike,
    sets: npt.ArrayLike,
    chosen: npt.ArrayLike,
    *,
    people: npt.ArrayLike | None = None,
    ridge: float | Sequence[float] = RIDGES,
    rng: np.random.Generator | None = None,
) -> LabelShares:
    """Constant shares of labels, such as the position or the name of an alternative.

    A conditional logit on one column for each label: in sets of all labels, the share of each, and
    in smaller ones these in proportion to each other.

    :param labels: (r,) of the alternatives, one row each.
    :param sets: as for `conditional_logit`.
    :param chosen: as for `conditional_logit`.
    :param people: as for `conditional_logit`.
    :param ridge: as for `conditional_logit`; above 0, as shares have no level.
    :param rng: as for `conditional_logit`.
    :raises ValueError: what `conditional_logit` raises; a missing label.
    """
    code, every = _coded(labels, "labels", np.size(labels))
    logit = conditional_logit(
        np.eye(len(every))[code],
        sets,
        chosen,
        people=people,
        names=[str(label) for label in every],
        ridge=ridge,
        rng=rng,
    )
    return LabelShares(every, logit)


# ---- the fit -----------------------------------------------------------------------------------


def _fitted(
    stages: Stages,
    names: tuple[str, ...],
    ridge: float | Sequence[float],
    folds: int,
    rng: np.random.Generator | None,
) -> ConditionalLogit:
    given = np.atleast_1d(np.asarray(ridge, dtype=np.float64))
    above = np.all((given > 0.0) & np.isfinite(given))
    if not (given.ndim == 1 and given.size and (above or given.tolist() == [0.0])):
        raise ValueError(f"ridge is {shortened(ridge)}; give 0 alone, or one or more above 0.")
    if folds < 2:
        raise ValueError(f"folds is {folds}; give at least 2.")
    grid = np.unique(given)[::-1].tolist()
    loss, scale = stages.scaled()
    table: tuple[tuple[float, float], ...] = ()
    best = grid[0] if len(grid) == 1 else 1.0
    if grid == [0.0]:
        _check_told_apart(loss, names)
    if len(grid) > 1 and loss.num_units > 1:
        generator = np.random.default_rng(0) if rng is None else rng
        losses = cross_validate(loss, grid, min(folds, loss.num_units), generator)
        table = tuple(zip(grid, losses, strict=True))
        best = min(table, key=lambda row: row[1])[0]
    start = np.zeros(len(scale))
    weights = newton(loss, best, start)
    activation = loss.x @ weights
    hessian = loss.slopes(activation)[1]
    if best == 0.0 and len(scale):
        least = linalg.eigh(hessian, loss.slopes(loss.x @ start)[1], eigvals_only=True)[0]
        if least < _ESCAPED:
            raise ValueError(
                "The features part the chosen alternatives from others without an error, so that "
                "the coefficients have no finite values; give a ridge above 0."
            )
    hessian[np.diag_indices_from(hessian)] += best
    covariance = linalg.inv(hessian) / np.outer(scale, scale)
    coefficients = weights / scale
    for array in (coefficients, covariance):
        array.setflags(write=False)
    return ConditionalLogit(
        coefficients, covariance, names, -loss.value(activation), loss.total, best, table
    )


def _check_told_apart(loss: Stages, names: tuple[str, ...]) -> None:
    """Refuse columns that are combinations of the others within all sets."""
    if not names:
        return
    values, vectors = np.linalg.eigh(loss.slopes(np.zeros(len(loss.x)))[1])
    if values[0] <= _FLAT * max(values[-1], 1.0):
        j = int(np.argmax(np.abs(vectors[:, 0])))
        raise ValueError(
            f"The feature {names[j]!r} differs in no set from a sum of multiples of the others; "
            "leave it out, or give a ridge above 0."
        )


# ---- what people give --------------------------------------------------------------------------


def _stages(
    x: FloatArray, sets: npt.ArrayLike, chosen: npt.ArrayLike, people: npt.ArrayLike | None
) -> Stages:
    rows = len(x)
    code, labels = _coded(sets, "sets", rows)
    flag = np.asarray(chosen)
    if flag.shape != (rows,) or flag.dtype.kind not in "buif":
        raise ValueError(
            f"chosen has shape {flag.shape} and type {flag.dtype}; give 1 or 0 for each of the "
            f"{rows} rows."
        )
    for i in np.flatnonzero((flag != 0) & (flag != 1))[:1]:
        raise ValueError(f"chosen has {flag[i]} in row {i}; give 1 or 0.")
    flag = flag.astype(bool)
    sizes, number = np.bincount(code), np.bincount(code, flag)
    for i in np.flatnonzero(number != 1)[:1]:
        raise ValueError(
            f"The set {shortened(labels[i])} has {int(number[i])} chosen rows; give it one."
        )
    for i in np.flatnonzero(sizes < 2)[:1]:
        raise ValueError(
            f"The set {shortened(labels[i])} has one row, so that nothing was chosen; give it at "
            "least two."
        )
    order = np.lexsort((~flag, code))
    first = np.append(0, np.cumsum(sizes))[:-1]
    every = np.arange(len(sizes))
    unit = every
    if people is not None:
        who, _ = _coded(people, "people", rows)
        unit = who[order[first]]
        for i in np.flatnonzero(who != unit[code])[:1]:
            raise ValueError(
                f"The set {shortened(labels[code[i]])} is of two people; give it one of its own."
            )
    return Stages(x[order], first, np.ones(len(sizes)), unit, every)


def _by_people(events: Events, people: npt.ArrayLike) -> Events:
    """What was said, as given, and who said it."""
    code, labels = _coded(people, "people", len(events))
    return replace(events, person=Codes(code, labels))


def _coded(labels: npt.ArrayLike, name: str, rows: int) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Labels as numbers in the order of first appearance, and what they stand for."""
    values = np.asarray(labels)
    if values.shape != (rows,):
        raise ValueError(f"{name} has shape {values.shape}; give a label for each of {rows} rows.")
    code, every = require_pandas().factorize(values)
    for i in np.flatnonzero(code < 0)[:1]:
        raise ValueError(f"{name} has no value (NaN) in row {i}; fill it in.")
    return np.asarray(code, dtype=np.int64), tuple(np.asarray(every).tolist())


def _checked_features(features: npt.ArrayLike) -> FloatArray:
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"features has shape {x.shape}; give (rows, D) with at least one row.")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"features has {x[i, j]} in row {i}, column {j}; give finite numbers.")
    return x


def _names(names: Sequence[str] | None, columns: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"column {j}" for j in range(columns))
    if len(names) != columns:
        raise ValueError(f"There are {len(names)} names for {columns} features; give one each.")
    return tuple(str(name) for name in names)


def _checked_mask(mask: npt.ArrayLike, shape: tuple[int, ...] | None) -> BoolArray:
    there: npt.NDArray[Any] = np.asarray(mask)
    fits = there.ndim == 2 if shape is None else there.shape == shape
    if not fits or there.dtype != bool:
        wanted = "(sets, alternatives)" if shape is None else shape
        raise ValueError(
            f"mask has shape {there.shape} and type {there.dtype}; give truth values of shape "
            f"{wanted}."
        )
    for i in np.flatnonzero(~there.any(1))[:1]:
        raise ValueError(f"Set {i} has no alternatives; give it some, or leave it out.")
    return there
