"""What a preference model must beat: rivals that are linear in what is known of the alternatives.

Of a choice the differences d = x_chosen - x_other to all the others count. With probability
1 / (1 + sum exp(-d' w)) it is McFadden (1974), Conditional logit analysis of qualitative choice
behavior, of duels with a column for each item Bradley & Terry (1952), and with Phi(d' w) a linear
probit of duels. Minus log P is convex in w; the square of w, times half a ridge, is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse, special
from scipy.optimize import minimize

from sparse_prefgp.data.answers import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    KINDS,
    RANKING,
    TOP,
    WIN,
    Answers,
    Codes,
    by_appearance,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.forecast import DUELS, FIRST, SECOND, Forecast
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray, first_true, runs
from sparse_prefgp.support.checks import (
    as_numbers,
    check_finite,
    check_number,
    check_shape,
    numbers,
)
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.words import shortened
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table

LINEAR_PROBIT, BRADLEY_TERRY, COIN = "linear_probit", "bradley_terry", "coin"
CONDITIONAL_LOGIT, EQUAL_SHARES = "conditional_logit", "equal_shares"
RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01, 0.001)
# Priors of these standard deviations, on weights of standardised features.
RIDGES_OF_PROBIT = tuple(width**-2 for width in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
MAX_NEWTON_STEPS = 100
_STEP_SIZES = 0.5 ** np.arange(28)
# Of a Newton step of the cross-validation: r D², beyond which some units stand for all.
MOST_WORK = 5e8
# Of the features, a fold's and those times a weight among them; and of the size of the Hessian.
_COPIES, _SQUARES = 6, 4
_FITTED_TO = ", the columns that the rival was fitted to"
_BOTH_ENDS = (BEST_WORST, BEST_WORST_AT_ONCE)
# Without a ridge: curvature that is so small, next to the largest one and next to what it is where
# all weights are 0, is rounding, or the end of a way that leads to infinity.
_FLAT, _ESCAPED = 1e-12, 1e-7
_STRENGTHS = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-8, "ftol": 1e-15}


# ---- the loss and its minimum ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearLoss:
    """-sum of weight log P over s choices of one, a function of a (r,) = x @ weights."""

    x: Any
    """(r, D) of the chosen one less each of the others, those of one choice after those of another;
    an array, or a sparse matrix, of which there is no Hessian."""
    first: IntArray
    """(s,) where the rows of each choice begin; a probit has one row each."""
    weight: FloatArray
    """(s,) as how many choices each counts."""
    unit: IntArray
    """(s,) what each belongs to that folds leave whole, numbers from 0."""
    event: IntArray
    """(s,) the event that each is part of."""
    probit: bool = False

    @property
    def others(self) -> IntArray:
        """(s,) how many were not chosen."""
        return np.diff(self.first, append=self.x.shape[0])

    @property
    def num_units(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def total(self) -> float:
        """The weight of all events."""
        return float(self.weight[np.unique(self.event, return_index=True)[1]].sum())

    def log_probabilities(self, a: FloatArray) -> FloatArray:
        """(s,) of what was chosen."""
        if self.probit:
            return special.log_ndtr(a)
        return -np.logaddexp(0.0, np.logaddexp.reduceat(-a, self.first))

    def value(self, a: FloatArray) -> float:
        """The loss, in nats."""
        return -float(self.weight @ self.log_probabilities(a))

    def slope(self, a: FloatArray) -> FloatArray:
        """(r,) its gradient with respect to a."""
        if self.probit:
            return -self.weight * probit_derivatives(a)[0]
        log_p, weight = (
            np.repeat(x, self.others) for x in (self.log_probabilities(a), self.weight)
        )
        return -weight * np.exp(log_p - a)

    def hessian(self, a: FloatArray) -> FloatArray:
        """(D, D) with respect to the weights."""
        if self.probit:
            return self.x.T @ (self.x * (self.weight * probit_derivatives(a)[1])[:, None])
        weighted = -self.slope(a)[:, None] * self.x
        sums = np.add.reduceat(weighted, self.first)
        return self.x.T @ weighted - sums.T @ (sums / self.weight[:, None])

    def part(self, units: BoolArray) -> LinearLoss:
        """That of some of the units, a mask of them."""
        kept, others = units[self.unit], self.others
        return LinearLoss(
            self.x[np.repeat(kept, others)],
            _starts(others[kept]),
            self.weight[kept],
            self.unit[kept],
            self.event[kept],
            self.probit,
        )

    def spread(self) -> FloatArray:
        """(D,) standard deviations of the columns within choices; 1 where one is the same within
        each."""
        sums, sizes = np.add.reduceat(self.x, self.first), self.others + 1
        squares = np.sum(self.x**2, 0) - np.sum(sums**2 / sizes[:, None], 0)
        return _divisor(np.sqrt(np.maximum(squares, 0.0) / sizes.sum()))


def probit_derivatives(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First derivative of log Phi(a) and minus the second, both safe in the far tail."""
    with np.errstate(over="ignore"):
        ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-a / np.sqrt(2.0))
    curvature = ratio * (ratio + a)
    far = a < -30.0  # ratio + a cancels there; its series does not
    if far.any():
        s = a[far] ** -2
        curvature[far] = 1.0 - s * (1.0 - s * (6.0 - 50.0 * s))
    return ratio, curvature


def newton(loss: LinearLoss, ridge: float, start: FloatArray) -> FloatArray:
    """Weights (D,) that minimise the loss + ridge |weights|²/2, from `start` (D,).

    Cost is that of a Hessian and O(D³) a step.
    """

    w, activation = start, loss.x @ start
    value = loss.value(activation) + 0.5 * ridge * float(w @ w)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = ridge * w + loss.x.T @ loss.slope(activation)
        hessian = loss.hessian(activation) + ridge * np.eye(len(w))
        step = linalg.solve(hessian, gradient, assume_a="pos")
        decrement = float(gradient @ step)
        if decrement <= 1e-12 * (1.0 + abs(value)):
            return w - step
        before, move = value, loss.x @ step
        for size in _STEP_SIZES:
            ahead, at = activation - size * move, w - size * step
            value = loss.value(ahead) + 0.5 * ridge * float(at @ at)
            if value <= before - 1e-4 * size * decrement:
                break
        if value >= before:  # nothing left but rounding
            break
        activation, w = ahead, at
    return w


def cross_validate(
    loss: LinearLoss, ridges: Sequence[float], folds: int, rng: np.random.Generator
) -> tuple[tuple[float, float], ...]:
    """Each ridge, and the mean loss of units that were left out of the fit.

    Of as many units, at random, as keep r D² at 5 10^8, which are all of 2 10^6 rows with 16
    columns and 30,000 with 128.

    :param ridges: the largest first: each fit starts from the last and needs few steps.
    :param folds: at most the number of units.
    :param rng: draws the folds.
    """
    rows, columns = loss.x.shape
    most = max(1000, int(MOST_WORK * loss.num_units / (rows * max(columns, 1) ** 2)))
    if loss.num_units > most:
        loss = loss.part(
            np.isin(np.arange(loss.num_units), rng.choice(loss.num_units, most, False))
        )
    fold = rng.permutation(loss.num_units) % folds
    losses = np.zeros(len(ridges))
    for k in range(folds):
        kept, held = loss.part(fold != k), loss.part(fold == k)
        weights = np.zeros(columns)
        for i, ridge in enumerate(ridges):
            weights = newton(kept, ridge, weights)
            losses[i] += held.value(held.x @ weights)
    return tuple(zip(ridges, (losses / loss.total).tolist(), strict=True))


def fitted(
    loss: LinearLoss,
    scale: FloatArray,
    names: tuple[str, ...],
    ridge: float | Sequence[float],
    folds: int,
    rng: np.random.Generator | None,
) -> LinearRival:
    """The rival that minimises the loss.

    :param scale: (D,) by which each column is divided before the ridge counts.
    :param ridge: 0, or those above 0 of which cross-validation chooses.
    :raises ValueError: what `conditional_logit` raises of ridges and folds.
    """
    grid = np.unique(np.asarray(ridge, dtype=np.float64))[::-1].tolist()
    if grid != [0.0] and not (grid and grid[-1] > 0.0 and np.all(np.isfinite(grid))):
        raise ValueError(f"ridge is {shortened(ridge)}; give 0 alone, or one or more above 0.")
    check_number("folds", folds, least=2, whole=True)
    if not len(scale):
        return replace(KNOWS_NOTHING, probit=loss.probit)
    loss = replace(loss, x=loss.x / scale)
    table: tuple[tuple[float, float], ...] = ()
    best = grid[0] if len(grid) == 1 else 1.0
    if best == 0.0:
        at_start = loss.hessian(np.zeros(loss.x.shape[0]))
        values, vectors = np.linalg.eigh(at_start)
        if values[0] <= _FLAT * max(values[-1], 1.0):
            j = int(np.argmax(np.abs(vectors[:, 0])))
            raise ValueError(
                f"The feature {names[j]!r} differs in no set from a sum of multiples of the "
                "others; leave it out, or give a ridge above 0."
            )
    if len(grid) > 1 and loss.num_units > 1:
        generator = np.random.default_rng(0) if rng is None else rng
        table = cross_validate(loss, grid, min(folds, loss.num_units), generator)
        best = min(table, key=lambda row: row[1])[0]
    weights = newton(loss, best, np.zeros(len(scale)))
    hessian = loss.hessian(loss.x @ weights)
    if best == 0.0 and linalg.eigh(hessian, at_start, eigvals_only=True)[0] < _ESCAPED:
        raise ValueError(
            "The features part the chosen alternatives from others without an error, so that "
            "the coefficients have no finite values; give a ridge above 0."
        )
    covariance = linalg.inv(hessian + best * np.eye(len(scale))) / np.outer(scale, scale)
    likelihood = -loss.value(loss.x @ weights)
    return LinearRival(
        weights / scale, names, covariance, likelihood, loss.total, best, table, loss.probit
    )


# ---- rivals ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearRival(Result):
    """P(a is chosen) = exp(x_a' w) / sum_b exp(x_b' w), or of a duel Phi((x_a - x_b)' w)."""

    coefficients: FloatArray
    """(D,) w, in units of utility per unit of the feature; the noise of an alternative is a
    standard Gumbel, of variance pi²/6, that of a duel with a probit standard normal. None at all
    where nothing is known, whatever the columns are.
    """
    names: tuple[str, ...] = ()
    """D names of the features, covariates, and products of these with features of people."""
    covariance: FloatArray | None = None
    """(D, D) of the coefficients: the inverse of the Hessian, ridge included."""
    log_likelihood: float = 0.0
    """Of what was fitted to, in nats, without the penalty of the ridge."""
    choices: float = 0.0
    """How many choices (rankings, duels, …) it was fitted to, weights included."""
    ridge: float = 0.0
    """r of the penalty ½ r sum_j (scale_j w_j)²: `scale_j` is the standard deviation of feature j
    within sets, and of a probit 1, or the root mean square of a covariate.
    """
    cross_validation: tuple[tuple[float, float], ...] = ()
    """(ridge, mean negative log probability of what was left out, in nats) of every ridge tried;
    empty where there was a single one, or a single unit to leave out.
    """
    probit: bool = False
    """Whether noise is normal; it knows duels alone then."""
    covariate_names: tuple[str, ...] = ()
    """Whose coefficients come after those of the features."""
    people: PeopleFeatures | None = None
    """Whose products with the others are the last columns; None without."""
    strengths: FloatArray | None = None
    """(n,) of each item, which is then its one feature, of coefficient 1; None without."""

    @property
    def standard_errors(self) -> FloatArray:
        """(D,) of the coefficients."""
        assert self.covariance is not None
        return np.sqrt(np.diag(self.covariance))

    @property
    def num_features(self) -> int:
        """Columns of features, without covariates and products."""
        of_people = 0 if self.people is None else len(self.people.feature_names)
        return len(self.coefficients) // (1 + of_people) - len(self.covariate_names)

    def predict_choice(
        self, features: npt.ArrayLike, mask: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Probability of each alternative of new sets, (b, k); each row adds up to 1.

        :param features: (b, k, D) of the alternatives.
        :param mask: (b, k) which of them there are; all by default. The others have 0.
        :raises ValueError: arrays of another shape, features that are not finite, a set without
            alternatives.
        """
        x, size = numbers("features", features), len(self.coefficients)
        there = np.ones(x.shape[:2], bool) if mask is None else np.asarray(mask, dtype=bool)
        check_shape("mask", there, *x.shape[:2])
        for i in first_true(~there.any(-1)):
            raise ValueError(f"Set {i} has no alternatives; give it some, or leave it out.")
        width = size or x.shape[-1]  # any where nothing is known
        check_shape("features", x, "sets", "alternatives", width, hint=_FITTED_TO)
        seen = np.where(there[..., None], x, 0.0)[..., :size]
        check_finite("features", seen)
        return special.softmax(np.where(there, seen @ self.coefficients, -np.inf), 1)

    def utilities(self, features: FloatArray, events: Answers) -> FloatArray:
        """(s,) of each side of questions between rows.

        :param features: (n, D); with strengths (n, 1), the number of the item: others than those of
            training are average.
        :param events: of which covariates count, 0 where they have none.
        :raises ValueError: other columns than those that it was fitted to, or not finite ones.
        """
        if not len(self.coefficients):
            return np.zeros(len(events.sides))
        check_shape("features", features, len(features), self.num_features, hint=_FITTED_TO)
        x = features[events.sides]
        check_finite("features", x)
        if self.strengths is not None:
            known = (x >= 0.0) & (x < len(self.strengths))
            x = np.where(known, self.strengths[np.where(known, x, 0.0).astype(np.int64)], 0.0)
        return _columns(x, events, self.covariate_names, self.people) @ self.coefficients

    def predict(self, questions: Answers, features: FloatArray) -> Forecast:
        """What it says of questions, as `PreferenceGP.predict`; it knows neither ties nor grades.

        :param questions: duels, choices, rankings, best and worst, between rows of `features`.
        :param features: as for `utilities`.
        :raises ValueError: ties and grades among answers about sets; what `utilities` raises.
        """
        utility = self.utilities(features, questions)
        if not questions.has_sets:
            lead = utility[questions.offsets[:-1]] - utility[questions.offsets[1:] - 1]
            log_of = special.log_ndtr if self.probit else special.log_expit
            return Forecast(DUELS, np.stack([log_of(lead), log_of(-lead)], 1), (FIRST, SECOND))
        if np.isin(questions.kind, (CHOICE, WIN)).all():
            at, there = questions.padded()
            logs = special.log_softmax(np.where(there, utility[at], -np.inf), 1)
            return Forecast.of_choices(logs)
        loss = loss_of(questions, utility[:, None])
        logs = loss.log_probabilities(loss.x[:, 0])
        return Forecast.of_answers(np.bincount(loss.event, logs, len(questions)).astype(float))

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
        values = zip(self.names, self.coefficients, self.standard_errors, strict=True)
        rows = [dict(zip((column.key for column in columns), row, strict=True)) for row in values]
        return Table("coefficients", title, columns, rows[:most])


# A coin, and equal shares of all alternatives.
KNOWS_NOTHING = LinearRival(np.zeros(0))


def linear_probit(duels: Duels, *, rng: np.random.Generator | None = None) -> LinearRival:
    """P(a beats b) = Phi((x_a - x_b)' w), no intercept, with a ridge chosen by cross-validation.

    Equal duels of different groups are one unit, so that groups change neither the folds nor the
    fit. Covariates are columns next to the features. Cost is O(t D²) a Newton step.

    :param duels: of which those that have a winner count, with their weights.
    :param rng: draws the folds; default a generator with seed 0.
    :raises ValueError: all duels are ties.
    """
    sides, weights, said = decided(duels)
    key, axis = sides[:, 0] * duels.num_items + sides[:, 1], None
    if duels.covariate_names:
        key, axis = np.column_stack([key, said + 0.0]), 0
    _, first, row = np.unique(key, axis=axis, return_index=True, return_inverse=True)
    first, row = by_appearance(first, row)
    _ask_for_rows(len(first), duels.num_features)
    won, lost = duels.items[sides[first].T]
    rival = probit_of(
        np.column_stack([won - lost, said[first]]),
        np.bincount(row, weights),
        scale=np.append(np.ones(duels.num_features), _divisor(np.sqrt(np.mean(said**2, axis=0)))),
        rng=rng,
    )
    return replace(rival, covariate_names=duels.covariate_names)


def probit_of(
    x: FloatArray,
    counts: npt.ArrayLike | None = None,
    *,
    scale: FloatArray | None = None,
    ridge: float | Sequence[float] = RIDGES_OF_PROBIT,
    folds: int = 5,
    rng: np.random.Generator | None = None,
) -> LinearRival:
    """A linear probit of differences.

    :param x: (t, D) of the winner less the loser.
    :param counts: (t,) as how many duels each counts; default all 1.
    :param scale: (D,) as of `fitted`; default all 1.
    """
    every = np.arange(len(x))
    weight = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
    loss = LinearLoss(x, every, weight, every, every, probit=True)
    scale = np.ones(x.shape[1]) if scale is None else scale
    return fitted(loss, scale, _names(None, x.shape[1]), ridge, folds, rng)


def bradley_terry(duels: Duels) -> LinearRival:
    """A strength of each item, with half a win and half a loss of each against the average, and of
    each covariate by itself. Cost is O(t) a step.

    :param duels: of which those that have a winner count, with their weights.
    :raises ValueError: all duels are ties.
    """
    sides, weights, said = decided(duels)
    spread = _divisor(np.sqrt(np.mean(said**2, axis=0)))
    every, columns = np.arange(len(sides)), duels.num_items + said.shape[1]
    ones, shape = np.ones(len(sides)), (len(sides), duels.num_items)
    won, lost = (sparse.csr_matrix((ones, (every, side)), shape) for side in sides.T)
    average = sparse.identity(columns, format="csr")
    x = sparse.vstack([sparse.hstack([won - lost, said / spread]), average, -average]).tocsr()
    row = np.arange(x.shape[0])
    loss = LinearLoss(x, row, np.append(weights, np.full(2 * columns, 0.5)), row, row)

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        a = x @ w
        return loss.value(a), x.T @ loss.slope(a)

    start = np.zeros(columns)
    w = minimize(objective, start, jac=True, method="L-BFGS-B", options=_STRENGTHS).x
    strengths, said = w[: duels.num_items], w[duels.num_items :] / spread
    names = duels.covariate_names
    return LinearRival(np.append(1.0, said), covariate_names=names, strengths=strengths)


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
) -> LinearRival:
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
    if not isinstance(features, Duels):
        if sets is None or chosen is None:
            raise ValueError(
                "sets or chosen is missing; give the set of each row, and which is chosen."
            )
        x = as_numbers("features", features, "rows", "D")
        events, people = _choices(len(x), sets, chosen, people), None
        features = Duels.from_events(x, events, feature_names=names)
    else:
        rows = any(given is not None for given in (sets, chosen, names))
        together.check(duels_object=True, rows_of_sets=rows)
    events = features.events if people is None else features.given
    known = None if events.person is None else features.people_features
    said = features.covariate_names
    columns = (*_names(features.feature_names, features.num_features), *said)
    if known is not None:
        columns += tuple(f"{name} × {of}" for name in columns for of in known.feature_names)
    _ask_for_rows(len(events.sides), len(columns))
    # The products are with those whose preference it is.
    x = _columns(features.items[events.sides], events, said, known)
    if people is not None:
        events = events.saying(person=_coded(people, "people", len(events)))
    loss = loss_of(events, x)
    rival = fitted(loss, loss.spread(), columns, ridge, folds, rng)
    return replace(rival, covariate_names=said, people=known)


def rivals_of(
    train: Duels, rng: np.random.Generator | None, people: npt.ArrayLike | None = None
) -> dict[str, LinearRival]:
    """What a model is scored next to, by name, each learned from its training answers.

    Of duels a linear probit, a coin, and without features and dates the strengths of Bradley and
    Terry; of answers about sets a conditional logit and equal shares, without features these alone.
    Of ties alone a coin.

    :param people: label of who gave each answer about a set, as given: folds leave them whole.
    """
    rivals = {}
    if train.events.has_sets:
        if train.num_features or train.covariate_names:
            rivals[CONDITIONAL_LOGIT] = conditional_logit(train, people=people, rng=rng)
        return {**rivals, EQUAL_SHARES: KNOWS_NOTHING}
    if train.num_ties == train.num_duels:  # of which nothing is learned
        return {COIN: KNOWS_NOTHING}
    rivals[LINEAR_PROBIT] = linear_probit(train, rng=rng)
    if not train.num_features and train.events.time is None:
        rivals[BRADLEY_TERRY] = bradley_terry(train)
    return {**rivals, COIN: KNOWS_NOTHING}


# ---- what was said, as choices of one ----------------------------------------------------------


def loss_of(events: Answers, x: FloatArray) -> LinearLoss:
    """Answers about sets, and wins, as choices of one.

    A ranking is the choice of the first, of the second from the others, and so on ("exploded";
    Beggs, Cardell & Hausman 1981); best and worst are the best of all and the worst of the others,
    of which the utilities are turned around.

    :param x: (s, D) columns of each side of the events.
    :raises ValueError: ties and grades.
    """
    kind, sizes = events.kind, events.sizes
    for i in first_true(~np.isin(kind, (WIN, CHOICE, RANKING, TOP, *_BOTH_ENDS))):
        raise ValueError(
            f"Event {i} is a {KINDS[kind[i]].name}, of which a conditional logit knows "
            "nothing; give choices, rankings, best and worst, or wins alone."
        )
    steps = np.where(kind == RANKING, sizes - 1, 1)
    if events.ordered is not None:
        steps = np.where(kind == TOP, events.ordered, steps)
    event = np.repeat(np.arange(len(events)), steps)
    place = runs(np.zeros_like(steps), steps)
    worst = np.flatnonzero(np.isin(kind, _BOTH_ENDS) & (sizes > 2))
    chosen = np.append(events.offsets[event] + place, events.offsets[worst + 1] - 1)
    others = np.append(sizes[event] - place - 1, sizes[worst] - 2)
    start = np.append(events.offsets[event] + place, events.offsets[worst]) + 1
    sign = np.repeat([1.0, -1.0], [len(event), len(worst)])
    event = np.append(event, worst)
    won, lost = np.repeat(chosen, others), runs(start, others)

    _ask_for_rows(len(won), x.shape[1])
    x = (x[won] - x[lost]) * np.repeat(sign, others)[:, None]
    person = events.person
    units = np.arange(len(events)) if person is None else person.used().numbers
    return LinearLoss(x, _starts(others), events.totals[event], units[event], event)


def _columns(
    x: FloatArray, events: Answers, names: Sequence[str], people: PeopleFeatures | None
) -> FloatArray:
    """(s, D) of each side: its features x, covariates of these names, 0 where there are none, and
    products of these with features of who answered."""
    if names and events.covariates is not None:
        places = [events.covariate_names.index(name) for name in names]
        x = np.column_stack([x, events.covariates[:, places]])
    elif names:
        x = np.column_stack([x, np.zeros((len(x), len(names)))])
    of_people = features_of_people(people, events)
    if of_people is None:
        return x
    whose = np.repeat(of_people, events.sizes, axis=0)
    return np.column_stack([x, (x[:, :, None] * whose[:, None, :]).reshape(len(x), -1)])


def features_of_people(known: PeopleFeatures | None, events: Answers) -> FloatArray | None:
    """(e, S) of who gave each answer, standardised, 0 where nothing is known of them; None where
    people have none."""
    if known is None:
        return None
    size = known.values.shape[1]
    person = Codes.unknown(len(events)) if events.person is None else events.person
    strangers = replace(known, names=person.names, values=np.zeros((len(person.names), size)))
    values = known.followed_by(strangers).of(person.names)
    return np.append(values, np.zeros((1, size)), 0)[np.maximum(person.numbers, -1)]


def decided(duels: Duels) -> tuple[IntArray, FloatArray, FloatArray]:
    """Those of some duels that one side won.

    :return: (t, 2) rows of winner and loser, (t,) weights, and (t, C) covariates.
    :raises ValueError: answers about sets; all duels are ties.
    """
    won = duels.decided
    together.check(only_ties=not won.any(), linear_probit=True)
    sides = np.column_stack([duels.winners, duels.losers])
    said = np.zeros((len(sides), 0)) if duels.covariates is None else duels.covariates
    return sides[won], duels.effective_counts[won], said[won]


def _starts(sizes: IntArray) -> IntArray:
    """Where rows of so many each begin."""
    return np.cumsum(sizes) - sizes


def _divisor(spread: FloatArray) -> FloatArray:
    """The same, 1 where it is 0."""
    return np.where(spread == 0.0, 1.0, spread)


def _ask_for_rows(rows: int, columns: int) -> None:
    """Ask for the memory that a fit to features (rows, columns) takes, before they are made.

    :raises NotEnoughMemory: more than is free.
    """
    ask(
        8 * columns * (_COPIES * rows + _SQUARES * columns),
        f"Linear predictors of {rows:,} rows with {columns:,} features",
        "give fewer features, or hold nothing out (--test-fraction 0), which fits none",
    )


# ---- what people give --------------------------------------------------------------------------


def _choices(
    rows: int, sets: npt.ArrayLike, chosen: npt.ArrayLike, people: npt.ArrayLike | None
) -> Answers:
    """Rows of a table as choices of one."""
    of, flag = _coded(sets, "sets", rows), np.asarray(chosen)
    check_shape("chosen", flag, rows)
    for i in first_true((flag != 0) & (flag != 1)):
        raise ValueError(f"chosen has {flag[i]} in row {i}; give 1 or 0.")
    sizes, number = np.bincount(of.numbers), np.bincount(of.numbers, flag)
    for i in first_true(number != 1):
        raise ValueError(
            f"The set {shortened(of.names[i])} has {int(number[i])} chosen rows; give it one."
        )
    for i in first_true(sizes < 2):
        raise ValueError(
            f"The set {shortened(of.names[i])} has one row, so that nothing was chosen; give it at "
            "least two."
        )
    sides, offsets, person = (
        np.lexsort((flag == 0, of.numbers)),
        np.append(0, np.cumsum(sizes)),
        None,
    )
    if people is not None:
        who = _coded(people, "people", rows)
        person = who.take(sides[offsets[:-1]])
        for i in first_true(who.numbers != person.numbers[of.numbers]):
            raise ValueError(
                f"The set {shortened(of.labels[i])} is of two people; give it one of its own."
            )
    return Answers(sides, offsets, kind=np.full(len(sizes), CHOICE, np.int8), person=person)


def _coded(labels: npt.ArrayLike, name: str, rows: int) -> Codes:
    """Labels, in the order of first appearance."""
    values = np.asarray(labels)
    check_shape(name, values, rows)
    for i in first_true(require_pandas().isna(values)):
        raise ValueError(f"{name} has no value (NaN) in row {i}; fill it in.")
    return Codes.of(values.tolist())


def _names(names: tuple[str, ...] | None, columns: int) -> tuple[str, ...]:
    return tuple(f"column {j}" for j in range(columns)) if names is None else names
