"""Utilities in time by the frontier filter, against dense matrices over items and dates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from sparse_prefgp import markov
from sparse_prefgp.approximations import DuelPrior
from sparse_prefgp.covariances import DenseOverDuels, ItemsInTime
from sparse_prefgp.covariances.kalman_filter import (
    Frontier,
    Moves,
    Plan,
    Seen,
    States,
    filtered,
    smoothed,
)
from sparse_prefgp.engines import Laplace, ParallelEP, SequentialEP, Variational
from sparse_prefgp.evidence import differentiable_log_evidence
from sparse_prefgp.factors.sites import Factors, Sites
from tests.cases import read
from tests.reference import slow_time
from tests.tolerances import GRADIENT_SOLVER, IDENTITY, TIME_CASE, TIME_CASE_GRADIENT

KERNELS: dict[str, tuple[Callable[[], markov.MarkovKernel], slow_time.InTime]] = {
    "wiener": (lambda: markov.Wiener(1.2, 0.3), slow_time.wiener(1.2, 0.3)),
    "matern12": (lambda: markov.Matern12(1.3, 2.0), slow_time.matern12(1.3, 2.0)),
    "constant": (lambda: markov.Constant(0.7), slow_time.constant(0.7)),
    "constant and matern12": (
        lambda: markov.Constant(0.6) + markov.Matern12(0.9, 1.5),
        slow_time.added(slow_time.constant(0.6), slow_time.matern12(0.9, 1.5)),
    ),
    "matern32": (lambda: markov.Matern32(0.8, 2.5), slow_time.matern32(0.8, 2.5)),
    "constant and matern32": (
        lambda: markov.Constant(0.5) + markov.Matern32(0.8, 2.5),
        slow_time.added(slow_time.constant(0.5), slow_time.matern32(0.8, 2.5)),
    ),
}
# Of a slice: fewer duels than items, or more. Items enter late, leave early and pause.
FEW, MANY = "few duels a slice", "many duels a slice"


# Effects of the 7 items on two surfaces, and by a number that the surfaces have.
VARIANCES = np.append(np.linspace(0.3, 0.9, 14), np.linspace(0.2, 0.5, 7))
SPEEDS = -0.8, 1.3
# Sides: the items on the first surface, then on the second one.
STATES = np.hstack(
    [
        np.tile(np.eye(7), (2, 1)),
        np.eye(14),
        np.concatenate([speed * np.eye(7) for speed in SPEEDS]),
    ]
)


def alone(size: int) -> States:
    """Of so many items that have no effects."""
    return States(sparse.identity(size, format="csr"), np.ones(size, bool))


class Case:
    """Duels in slices, some sites, and the same dense.

    :param effects: whether items have effects by surfaces, of one or both sides.
    """

    def __init__(
        self, kernel: str, size: str = FEW, columns: int = 2, effects: bool = False
    ) -> None:
        rng = np.random.default_rng(3)
        self.kernel, self.slow = KERNELS[kernel][0](), KERNELS[kernel][1]
        self.times = np.sort(rng.uniform(0.0, 8.0, 8))
        each = {FEW: 2, MANY: 7}[size]
        there = [
            [0, 1, 2, 3],
            [1, 2, 3],
            [0, 1, 2],
            [2, 3, 4],
            [4, 5, 2],
            [3, 4],
            [4, 5, 3],
            [6, 4],
        ]
        pairs = [rng.permutation(items)[:2] for items in there for _ in range(each)]
        slices = np.repeat(np.arange(8), each)
        shuffled = rng.permutation(len(slices))
        self.losers, self.winners = np.array(pairs)[shuffled].T
        self.slices = slices[shuffled]
        self.columns = rng.normal(size=(len(slices), columns))
        self.states, self.variances = alone(7), np.empty(0)
        self.sides, of_effects = (self.losers, self.winners), np.empty((len(slices), 0))
        if effects:
            self.sides = tuple(x + 7 * rng.integers(0, 2, len(x)) for x in self.sides)
            self.states = States(sparse.csr_matrix(STATES), np.arange(28) < 7)
            self.variances = VARIANCES
            of_effects = (STATES[self.sides[0]] - STATES[self.sides[1]])[:, 7:]
        self.of_effects = of_effects
        self.dense = slow_time.Duels(
            self.losers,
            self.winners,
            self.times[self.slices],
            np.hstack([self.columns, of_effects * np.sqrt(self.variances)]),
        )
        self.precision = rng.gamma(1.0, size=len(slices))
        self.shift = rng.normal(size=len(slices))
        self.precision[2] = self.shift[2] = 0.0

    @property
    def sites(self) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.constant(self.precision), tf.constant(self.shift)

    @property
    def plan(self) -> Plan:
        return self.planned(self.times, self.slices, *self.sides)

    def planned(self, *given: Any) -> Plan:
        return Plan.of(*given[:4], self.states, self.kernel.observed, *given[4:])

    def moves(self, plan: Plan) -> Moves:
        gaps, kernel = tf.constant(plan.spans), self.kernel
        tensors = kernel.start(), kernel.transitions(gaps), kernel.added(gaps)
        return Moves(*(x.numpy() for x in tensors), self.variances)

    def fast(
        self, columns: tf.Tensor | None = None, variances: tf.Tensor | None = None
    ) -> ItemsInTime:
        given = tf.constant(self.columns) if columns is None else columns
        effects = tf.constant(self.variances) if variances is None else variances
        return ItemsInTime(self.plan, self.kernel, given, effects)

    def by_tensors(self, columns: tf.Tensor, variances: tf.Tensor) -> tf.Tensor:
        """K of z, differentiable in the parameters of the kernel, in the columns and in the
        variances of effects."""
        columns = tf.concat([columns, self.of_effects * tf.sqrt(variances)], 1)
        first = self.dense.first_dates()
        ends = np.concatenate([self.losers, self.winners])
        begin = tf.constant([first[item] for item in ends], tf.float64)
        dates = tf.constant(np.tile(self.dense.dates, 2))
        t = len(ends)
        shape = [t, t]
        own = tf.broadcast_to(dates[:, None], shape), tf.broadcast_to(dates[None, :], shape)
        # Of two different items: any dates, for what is not looked at.
        early = tf.broadcast_to(tf.maximum(begin[:, None], begin[None, :]), shape)
        found = self.kernel.covariance(*(tf.maximum(x, early) for x in own), early)
        found = tf.where(ends[:, None] == ends[None, :], found, tf.zeros_like(found))
        half = t // 2
        across = found[:half] - found[half:]
        return across[:, :half] - across[:, half:] + tf.matmul(columns, columns, transpose_b=True)


every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_size = pytest.mark.parametrize("size", [FEW, MANY])
either = pytest.mark.parametrize("effects", [False, True], ids=["alone", "effects"])


@every_kernel
@every_size
@either
def test_marginals_are_those_of_the_dense_covariance(kernel: str, size: str, effects: bool) -> None:
    case = Case(kernel, size, effects=effects)
    found = case.fast().marginals(*case.sites)
    prior = case.dense.covariance(case.slow)
    expected = slow_time.conditioned(prior, case.precision, case.shift)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=IDENTITY)
    spread = np.diag(expected.covariance)
    np.testing.assert_allclose(found.variance, spread, rtol=0, atol=IDENTITY)
    assert float(found.half_log_det) == pytest.approx(expected.half_log_det, rel=IDENTITY)


@every_kernel
@every_size
@either
@pytest.mark.covering(every=8)
def test_the_surrogate_has_the_gradient_of_the_dense_covariance(
    kernel: str, size: str, effects: bool
) -> None:
    case = Case(kernel, size, effects=effects)
    more = tf.constant(case.columns), tf.constant(case.variances)
    variables = [*case.kernel.trainable_variables, *more]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(more)
        fast, dense = case.fast(*more), DenseOverDuels(case.by_tensors(*more))
        values = []
        for covariance in (fast, dense):
            kept = covariance.marginals(*case.sites).kept
            values.append(covariance.surrogate(*case.sites, kept))
    prior = case.dense.covariance(case.slow)
    np.testing.assert_allclose(case.by_tensors(*more), prior, rtol=0, atol=IDENTITY)
    for found, expected in zip(*(tape.gradient(value, variables) for value in values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.parametrize("kernel", ["wiener", "constant and matern32"])
@either
def test_the_quadratic_is_that_of_the_dense_covariance(kernel: str, effects: bool) -> None:
    case = Case(kernel, MANY, effects=effects)
    rng = np.random.default_rng(5)
    left, right = (tf.constant(x) for x in rng.normal(size=(2, len(case.slices))))
    more = tf.constant(case.columns), tf.constant(case.variances)
    variables = [*case.kernel.trainable_variables, *more]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(more)
        found = case.fast(*more).quadratic(left, right)
        expected = DenseOverDuels(case.by_tensors(*more)).quadratic(left, right)
    assert float(found) == pytest.approx(float(expected), rel=IDENTITY)
    for one, other in zip(*(tape.gradient(v, variables) for v in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=IDENTITY, atol=IDENTITY)


def test_without_columns_and_in_a_compiled_function() -> None:
    case = Case("wiener", columns=0)
    expected = slow_time.conditioned(case.dense.covariance(case.slow), case.precision, case.shift)

    @tf.function(autograph=False)
    def mean(precision: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        return case.fast().marginals(precision, shift).mean

    np.testing.assert_allclose(mean(*case.sites), expected.mean, rtol=0, atol=IDENTITY)


def test_extremes_are_harmless() -> None:
    """Steps of no length, items that forget everything, and those that never move."""
    for kernel, slow in (
        (markov.Matern12(1.3, 1e-4), slow_time.matern12(1.3, 1e-4)),
        (markov.Matern12(1.3, 1e10), slow_time.matern12(1.3, 1e10)),
        (markov.Matern32(1.3, 1e8), slow_time.matern32(1.3, 1e8)),
    ):
        case = Case("wiener", MANY)
        case.kernel = kernel
        found = case.fast().marginals(*case.sites)
        expected = slow_time.conditioned(case.dense.covariance(slow), case.precision, case.shift)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=IDENTITY)
        spread = np.diag(expected.covariance)
        np.testing.assert_allclose(found.variance, spread, rtol=0, atol=IDENTITY)


def _by_item(plan: Plan, end: Frontier, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the frontier, states ascending, items of d numbers first."""
    each = [
        plan.places[i] + np.arange(d if plan.frontier[i] < 7 else 1)
        for i in np.argsort(plan.frontier)
    ]
    order = np.concatenate(each)
    return end.mean[order], end.covariance[np.ix_(order, order)]


@either
def test_a_filter_can_stop_and_take_up_again(effects: bool) -> None:
    case = Case("constant and matern12", effects=effects)
    every = np.ones(len(case.states.moving), bool)
    seen = Seen(case.precision, case.shift[:, None], case.columns)
    ends = case.slices, *case.sides

    def some(which: np.ndarray, plan: Plan) -> Seen:
        return Seen(*(x[which][plan.order] for x in seen))

    whole = case.planned(case.times, *ends, every)
    expected = filtered(whole, case.moves(whole), some(case.slices >= 0, whole)).end
    early = case.slices < 4
    first = case.planned(case.times[:4], *(x[early] for x in ends), every)
    middle = filtered(first, case.moves(first), some(early, first)).end
    slices, losers, winners = (x[~early] for x in ends)
    then = case.planned(case.times[4:], slices - 4, losers, winners, every, first)
    found = filtered(then, case.moves(then), some(~early, then), middle).end
    for one, other in zip(_by_item(then, found, 2), _by_item(whole, expected, 2), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=IDENTITY)
    assert found.half_log_det == pytest.approx(expected.half_log_det, rel=IDENTITY)
    np.testing.assert_allclose(found.precision, expected.precision, rtol=0, atol=IDENTITY)


def test_items_leave_after_their_last_slice_unless_they_stay() -> None:
    case = Case("wiener")
    assert len(case.plan.frontier) == 0
    sizes, of_slices = case.plan.sizes
    assert sizes.max() < 7 and np.all(of_slices <= sizes)
    stay = case.planned(case.times, case.slices, case.losers, case.winners, np.arange(7) % 2 == 0)
    assert set(stay.frontier) == {*np.unique([case.losers, case.winners])} & {0, 2, 4, 6}


def test_other_dates_are_sites_that_say_nothing() -> None:
    """Their joint covariance comes from a unit shift at each."""
    case = Case("constant and matern32", MANY)
    dates = np.array([0.5 * (case.times[3] + case.times[4]), case.times[-1] + 2.0])
    times = np.insert(np.append(case.times, dates[1]), 4, dates[0])
    slices = np.where(case.slices < 4, case.slices, case.slices + 1)
    items = np.array([2, 3, 2, 3])
    plan = case.planned(
        times,
        np.append(slices, [4, 4, 9, 9]),
        np.append(case.losers, items),
        np.append(case.winners, np.full(4, -1)),
    )
    t, zero = len(case.slices), np.zeros(4)
    shifts = np.zeros((t + 4, 5))
    shifts[:t, 0] = case.shift
    shifts[t:, 1:] = np.eye(4)
    columns = np.concatenate([case.columns, np.zeros((4, 2))])
    seen = Seen(np.append(case.precision, zero), shifts, columns)
    moves = case.moves(plan)
    seen = Seen(*(x[plan.order] for x in seen))
    found = np.empty((t + 4, 5))
    found[plan.order] = smoothed(plan, moves, seen, filtered(plan, moves, seen)).mean
    at = np.repeat(dates, 2)
    prior = case.dense.covariance(case.slow)
    across = case.dense.with_utilities(case.slow, items, at)
    own = slow_time.utilities(case.slow, items, at, case.dense.first_dates())
    whole = np.block([[prior, across], [across.T, own]])
    expected = slow_time.conditioned(
        whole, np.append(case.precision, zero), np.append(case.shift, zero)
    )
    np.testing.assert_allclose(found[t:, 0], expected.mean[t:], rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(found[t:, 1:], expected.covariance[t:, t:], rtol=0, atol=IDENTITY)


CASES = read("time_cases.json")["cases"]
CLASSES = {
    "wiener": markov.Wiener,
    "matern12": markov.Matern12,
    "matern32": markov.Matern32,
    "constant": markov.Constant,
}


def _kernel(case: dict[str, Any]) -> markov.MarkovKernel:
    parts = [
        CLASSES[part["kind"]](**{name: v for name, v in part.items() if name != "kind"})
        for part in case["kernel"]
    ]
    return parts[0] if len(parts) == 1 else markov.MarkovSum(parts)


def _prior(case: dict[str, Any], kernel: markov.MarkovKernel) -> DuelPrior:
    t = len(case["slice"])
    ends = [np.array(case[name]) for name in ("slice", "loser", "winner")]
    items = alone(int(max(map(np.max, ends[1:]))) + 1)
    plan = Plan.of(np.array(case["times"]), *ends, items, kernel.observed)
    columns = tf.constant(np.array(case["columns"]).reshape(t, -1))
    zero = tf.zeros([], tf.float64)
    noise = tf.fill([t], tf.constant(case["noise_variance_of_z"], tf.float64))
    factors = Factors(tf.ones_like(noise), noise, None, tf.zeros_like(noise))
    covariance = ItemsInTime(plan, kernel, columns, tf.zeros([0], tf.float64))
    return DuelPrior(covariance, factors, tf.zeros_like(noise), zero, tf.identity, zero, zero)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_expectation_propagation_of_the_reference_cases(case: dict[str, Any]) -> None:
    kernel = _kernel(case)
    parameters = gpflow.utilities.parameter_dict(kernel)
    variables = [p.unconstrained_variable for p in parameters.values()]
    with tf.GradientTape(persistent=True) as tape:
        prior = _prior(case, kernel)
        engine = ParallelEP(tolerance=GRADIENT_SOLVER)
        start = Sites.zeros(len(case["slice"]), tf.float64)
        point = engine.run(prior.covariance, prior.factors, start)
        value = differentiable_log_evidence(
            prior, point.sites, point.slopes, point.found.kept, point.log_z
        )
        logs = [tf.math.log(tf.convert_to_tensor(p)) for p in parameters.values()]
    for found, name in (
        (point.log_z, "log_evidence"),
        (point.found.mean, "z_mean"),
        (point.found.variance, "z_variance"),
        (point.sites.tau, "site_precision"),
        (point.sites.nu, "site_shift"),
    ):
        np.testing.assert_allclose(found, case[name], rtol=TIME_CASE, atol=TIME_CASE)
    expected = case["gradient_of_log_evidence_in_log_parameters"]
    for name, log, variable in zip(parameters, logs, variables, strict=True):
        number, _, kind = name.rpartition(".")
        key = f"{''.join(c for c in number if c.isdigit()) or 0}.{kind}"
        slope = tape.gradient(value, variable) / tape.gradient(log, variable)
        assert float(slope) == pytest.approx(expected[key], rel=0, abs=TIME_CASE_GRADIENT)


def test_ties_are_boxes_as_anywhere() -> None:
    case = Case("wiener", MANY)
    tied = np.arange(len(case.slices)) % 5 == 0
    lower, upper = np.where(tied, -0.4, -np.inf), np.where(tied, 0.4, -0.4)
    ones = tf.ones([len(tied)], tf.float64)
    factors = Factors(ones, 0.7 * ones, tf.constant(lower), tf.constant(upper))
    start = Sites.zeros(len(tied), tf.float64)
    found = ParallelEP(tolerance=GRADIENT_SOLVER).run(case.fast(), factors, start)
    expected = slow_time.dense_ep(case.dense.covariance(case.slow), 0.7, lower, upper)
    assert float(found.log_z) == pytest.approx(expected.log_evidence, rel=IDENTITY)
    np.testing.assert_allclose(found.sites.tau, expected.precision, rtol=0, atol=IDENTITY)
    with pytest.raises(ValueError, match="ItemsInTime has no columns; use ParallelEP"):
        SequentialEP().run(case.fast(), factors, start)


@pytest.mark.slow
def test_other_engines_take_it_as_any_covariance() -> None:
    case = Case("wiener", MANY)
    ones = tf.ones([len(case.slices)], tf.float64)
    factors = Factors(ones, 0.7 * ones, None, tf.zeros_like(ones))
    start = Sites.zeros(len(case.slices), tf.float64)
    dense = DenseOverDuels(tf.constant(case.dense.covariance(case.slow)))
    for engine in (Laplace(tolerance=1e-11), Variational(tolerance=1e-11)):
        one, other = (engine.run(c, factors, start).log_z for c in (case.fast(), dense))
        assert float(one) == pytest.approx(float(other), rel=IDENTITY)


def test_sums_of_kernels_that_say_nothing_more_are_refused() -> None:
    with pytest.raises(ValueError, match="2 levels of each item"):
        markov.Constant() + markov.Wiener()
    with pytest.raises(ValueError, match="one kernel twice"):
        markov.Matern12() + markov.Matern12()
    with pytest.raises(ValueError, match="which is not Markov"):
        markov.Matern12() + gpflow.kernels.Matern12()  # type: ignore[operator]


def test_kernels_show_their_parameters() -> None:
    assert repr(markov.Wiener(1.2345, 0.01)) == "Wiener(variance=1.23, rate=0.01)"
    both = markov.Constant(2.0) + markov.Matern32(lengthscale=3.0)
    assert repr(both) == "Constant(variance=2) + Matern32(variance=1, lengthscale=3)"


@pytest.mark.parametrize("kernel", [markov.Wiener(), markov.Constant() + markov.Matern12()])
def test_kernels_are_shown_while_they_are_traced(kernel: markov.MarkovKernel) -> None:
    shown: list[str] = []

    @tf.function(autograph=False)
    def start() -> tf.Tensor:
        shown.append(repr(kernel))
        return kernel.start()

    start()
    assert shown[0] in ("Wiener", "Constant + Matern12")


def test_a_compiled_sweep_follows_the_parameters() -> None:
    """At the same sites too, as where an optimiser begins from the last ones."""
    case = Case("wiener", MANY)

    @tf.function(autograph=False)
    def mean() -> tf.Tensor:
        return case.fast().marginals(*case.sites).mean

    before = mean().numpy()
    case.kernel.rate.assign(1.7)  # type: ignore[attr-defined]
    after = mean().numpy()
    prior = case.dense.covariance(slow_time.wiener(1.2, 1.7))
    expected = slow_time.conditioned(prior, case.precision, case.shift)
    np.testing.assert_allclose(after, expected.mean, rtol=0, atol=IDENTITY)
    assert np.max(np.abs(after - before)) > 1e-3
