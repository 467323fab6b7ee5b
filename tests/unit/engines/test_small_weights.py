"""Duels of which less than one counts: against `quad`, grids, one site after the other, sampling.

The factor of a site of count c < 1 is factor^c, and a cavity takes all of it out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate
from scipy.special import log_expit, log_ndtr, logsumexp
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine
from sparse_prefgp.factors.sites import (
    largest_change,
    match_all_moments,
    portions_of,
)
from tests.cases import ROWS, random_duels, run_problem
from tests.reference.slow_engines import Factor, dense_problem, probit_factor, slow_power_ep
from tests.reference.slow_sampling import elliptical_walk
from tests.together import refused
from tests.tolerances import (
    EVIDENCE,
    FIXED_POINT,
    GRADIENT,
    GRADIENT_SOLVER,
    IDENTITY,
    PARTS,
    SOLVER,
)
from tests.unit.engines.test_laplace import NOISE, PLACES, Z, boxed
from tests.unit.models.test_gradients import Case, random_direction, stationary, steepest

ITEMS = np.array([[0.0], [1.0]])
WEIGHTS = np.array([0.05, 0.3, 0.6, 0.999, 1.0, 1.6, 3.0])


# One duel.


def one_duel(
    variance: float,
    weight: float,
    tie: bool = False,
    engine: Engine | None = None,
    noise: float = 0.5,
) -> spg.PreferenceGP:
    """z = f(loser) - f(winner) ~ N(0, variance)."""
    duels = spg.Duels(ITEMS, [0], [1], weights=[weight], ties=[tie] if tie else None)
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(variance=variance),
        approximation=spg.Exact(),
        likelihood=spg.Probit(noise, margin=0.5 if tie else None),
        engine=engine,
    )


def integrals(
    variance: float, weight: float, tie: bool = False, noise: float = 0.5
) -> tuple[float, float, float]:
    """log of the integral of N(z | 0, variance) factor(z)^weight, mean and variance of z."""
    sd = np.sqrt(variance)
    factor = probit_factor(2 * noise, *((-0.5, 0.5) if tie else (-np.inf, 0.0)))

    def density(z: float, k: int) -> float:
        return norm.pdf(z / sd) / sd * np.exp(weight * factor(z)[0]) * z**k

    turns = [-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0]  # about the limits
    edges = np.unique(np.concatenate([np.linspace(-12 * sd, 12 * sd, 25), turns]))
    moments = [
        sum(
            integrate.quad(density, a, b, args=(k,), epsabs=1e-14, epsrel=1e-12)[0]
            for a, b in pairwise(edges)
        )
        for k in range(3)
    ]
    mean = moments[1] / moments[0]
    return np.log(moments[0]), mean, moments[2] / moments[0] - mean**2


@pytest.mark.covering("4.0-0.2-False")
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize(
    ("variance", "weight"), [(4.0, 0.2), (10.0, 0.5), (0.3, 0.9), (1e4, 0.3), (2.0, 1e-6)]
)
def test_one_duel_is_the_integral(variance: float, weight: float, tie: bool) -> None:
    """4 and 0.2: was NaN. 10 and 0.5: -0.515 for -0.542, posterior variance 5.5 for 4.9."""
    model = one_duel(variance, weight, tie)
    log_evidence, mean, spread = integrals(variance, weight, tie)
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(log_evidence, rel=IDENTITY)
    found = model.predict_difference(ITEMS[1:], ITEMS[:1])
    assert float(found[0][0]) == pytest.approx(mean, rel=FIXED_POINT, abs=FIXED_POINT)
    assert float(found[1][0]) == pytest.approx(spread, rel=FIXED_POINT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", [spg.SequentialEP(), spg.ParallelEP(damping=0.3), spg.SequentialEP(damping=0.5)]
)
def test_other_ways_to_the_same_integral(engine: Engine) -> None:
    for weight in (0.2, 0.8):
        model = one_duel(4.0, weight, engine=engine)
        assert model.infer().converged
        assert model.log_evidence() == pytest.approx(integrals(4.0, weight)[0], rel=EVIDENCE)


def test_what_has_not_settled_says_so() -> None:
    duels = random_duels(5, items=7, duels=14)
    duels = spg.Duels(
        duels.items, duels.winners, duels.losers, weights=np.full(duels.num_pairs, 0.4)
    )
    engine = spg.ParallelEP(max_sweeps=2, tolerance=SOLVER)
    model = spg.PreferenceGP(duels, stationary(), engine=engine, noise_variance=0.1)
    with pytest.warns(UserWarning, match="did not converge: stopped at max_sweeps"):
        model.log_evidence()


def test_no_jump_at_one() -> None:
    near, at = one_duel(4.0, 1.0 - 1e-9), one_duel(4.0, 1.0)
    assert near.log_evidence() == pytest.approx(at.log_evidence(), abs=EVIDENCE)


# Several.


def weighted(duels: spg.Duels, limits: str) -> DuelGraph:
    graph = boxed(duels) if limits == "both" else DuelGraph.from_duels(duels)
    return replace(graph, counts=np.resize(WEIGHTS, graph.num_sites))


def correction(row: str, counts: np.ndarray, ratio: np.ndarray) -> float:
    """What is added to log Z, k~ / 2s² = ratio."""
    if row == "vfe":
        return -0.5 * float(counts @ ratio)
    if row == "tight_vfe":
        below = counts < 1.0
        each = np.where(below, np.log1p(counts * ratio), counts * np.log1p(ratio))
        return -0.5 * float(each.sum())
    if row == "prior_power_0.5":
        return -0.5 * float(counts @ np.log1p(0.5 * ratio))
    return 0.0


@pytest.mark.covering("exact-SequentialEP1.0-wins", "exact-ParallelEP1.0-both")
@pytest.mark.parametrize("limits", ["wins", "both"])
@pytest.mark.parametrize(
    ("row", "engine"),
    [
        ("exact", spg.ParallelEP(tolerance=SOLVER)),
        ("exact", spg.SequentialEP(tolerance=SOLVER)),
        ("fitc", spg.ParallelEP(tolerance=SOLVER)),
        ("tight_vfe", spg.SequentialEP(tolerance=SOLVER)),
        ("prior_power_0.5", spg.ParallelEP(tolerance=SOLVER, site_power=0.5)),
        ("vfe", spg.SequentialEP(tolerance=SOLVER, site_power=0.3)),
    ],
    ids=lambda x: x if isinstance(x, str) else f"{type(x).__name__}{x.site_power}",
)
def test_against_one_site_after_the_other(row: str, engine: Any, limits: str) -> None:
    """A count is one factor^c, whose power min(c, 1) / c is taken out."""
    graph = weighted(random_duels(5, items=6, duels=9), limits)
    approximation = ROWS[row]()
    inducing = Z if approximation.needs_inducing else None
    _, point, value = run_problem(graph, stationary(), approximation, NOISE, inducing, engine)
    once = replace(graph, counts=np.ones(graph.num_sites))
    dense = dense_problem(once, stationary(), row.removesuffix("_0.5"), NOISE, Z, PLACES)

    def powered(factor: Factor, c: float) -> Factor:
        return lambda z: tuple(c * x for x in factor(z))  # type: ignore[return-value]

    factors = [powered(f, c) for f, c in zip(dense.factors(), graph.counts, strict=True)]
    powers = engine.site_power * np.minimum(graph.counts, 1.0) / graph.counts
    found = slow_power_ep(dense.covariance, factors, powers)
    added = correction(row, graph.counts, dense.inside / (2 * NOISE))
    assert value == pytest.approx(found.log_evidence + added, rel=FIXED_POINT)
    for mine, theirs in ((point.found.mean, found.mean), (point.found.variance, found.variance)):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=FIXED_POINT, atol=FIXED_POINT)


def test_one_block_is_exact() -> None:
    given = random_duels(5, items=7, duels=21)
    weights = np.resize(WEIGHTS, given.num_pairs)
    duels = spg.Duels(given.items, given.winners, given.losers, weights=weights)
    engine = spg.ParallelEP(tolerance=SOLVER)
    exact = spg.PreferenceGP(duels, stationary(), approximation=spg.Exact(), engine=engine)
    block = spg.PreferenceGP(
        duels, stationary(), approximation=spg.PITC(1), inducing_variable=Z, engine=engine
    )
    assert block.log_evidence() == pytest.approx(exact.log_evidence(), rel=EVIDENCE)


def test_whole_duels_take_no_quadrature() -> None:
    """And those next to smaller ones come out to the last bit."""
    assert portions_of(np.array([1.0, 2.5, 1e5])) is None
    np.testing.assert_array_equal(portions_of(np.array([0.0, 0.4, 7.0])), [1.0, 0.4, 1.0])
    graph = weighted(random_duels(5, items=7, duels=14), "both")
    prior, point, _ = run_problem(graph, stationary(), spg.Exact(), NOISE)
    whole = graph.counts >= 1.0
    closed = match_all_moments(point.found.cavity, prior.factors._replace(portions=None))
    mixed = match_all_moments(point.found.cavity, prior.factors)
    for one, other in zip(tf.nest.flatten(closed), tf.nest.flatten(mixed), strict=True):
        np.testing.assert_array_equal(one.numpy()[whole], other.numpy()[whole])
        assert np.all(one.numpy()[~whole] != other.numpy()[~whole])
    plain = replace(graph, counts=np.ceil(graph.counts))
    assert run_problem(plain, stationary(), spg.Exact(), NOISE)[0].factors.portions is None


def test_a_change_is_of_what_counts() -> None:
    graph = weighted(random_duels(5, items=7, duels=14), "wins")
    prior, point, _ = run_problem(graph, stationary(), spg.VFE(), NOISE, Z)
    counts, shift = prior.factors.counts, tf.ones_like(point.sites.tau)
    moved = point.sites._replace(tau=point.sites.tau + shift)
    found = largest_change(point.sites, moved, point.found.variance, prior.factors.portions)
    expected = np.max(np.minimum(counts, 1.0) * point.found.variance)
    assert float(found) == pytest.approx(expected, rel=IDENTITY)


@pytest.mark.slow
def test_many_vanishing_weights_say_nothing() -> None:
    """Half-lives long past: 1e-23 of a duel."""
    given = random_duels(5, items=7, duels=30)
    age = np.arange(given.num_pairs)
    weights = np.where(age < 10, 1.0, 0.5 ** (60.0 + age))
    old = spg.Duels(given.items, given.winners, given.losers, weights=weights)
    new = spg.Duels(given.items, given.winners[:10], given.losers[:10])
    for approximation in (spg.Exact(), spg.FITC()):
        models = [
            spg.PreferenceGP(
                duels,
                stationary(),
                approximation=approximation,
                inducing_variable=Z if approximation.needs_inducing else None,
                noise_variance=1e-3,
            )
            for duels in (old, new)
        ]
        assert all(m.infer().converged for m in models)
        np.testing.assert_allclose(*[m.log_evidence() for m in models], rtol=IDENTITY)
        np.testing.assert_allclose(*[m.predict_f(given.items)[1] for m in models], rtol=IDENTITY)


# Gradients.


class Weighted(Case):
    """All parameters free, margin and noise of groups among them."""

    def __init__(self, approximation: Approximation, engine: Engine) -> None:
        given = random_duels(5, items=7, duels=21)
        t = given.num_pairs
        duels = spg.Duels(
            given.items,
            given.winners,
            given.losers,
            ties=np.arange(t) % 3 == 0,
            weights=np.resize(WEIGHTS, t),
            groups=np.resize(["a", "b"], t),
        )
        self.model = spg.PreferenceGP(
            duels,
            stationary(),
            approximation=approximation,
            inducing_variable=Z if approximation.needs_inducing else None,
            engine=engine,
            likelihood=spg.Probit(0.2, by="judge", margin=0.4),
            mean_function=gpflow.functions.Linear(A=[[0.3], [-0.4]], b=[0.1]),
        )
        assert np.sum(self.model.graph.counts < 1.0) > 4
        gpflow.set_trainable(self.model.likelihood.noise, True)
        gpflow.set_trainable(self.model.likelihood.noise_ratio, False)
        gpflow.set_trainable(self.model.mean_function.b, False)
        self.model.likelihood.noise_ratio.assign([0.7, 1.6])
        self.model.warned_about_scale = True
        self.model.training_loss()

    def groups(self) -> dict[str, Any]:
        return {**super().groups(), "margin": [self.model.likelihood.margin.unconstrained_variable]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "vfe", "tight_vfe", "fitc", "prior_power_0.5"])
def test_gradients(name: str) -> None:
    engine = spg.ParallelEP(tolerance=GRADIENT_SOLVER)
    Weighted(ROWS[name](), engine).check(steepest)


@pytest.mark.slow
@pytest.mark.parametrize("site_power", [1.0, 0.4])
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("name", ROWS)
def test_gradients_along_a_random_direction(name: str, over: str, site_power: float) -> None:
    engine = spg.ParallelEP(tolerance=GRADIENT_SOLVER, site_power=site_power)
    Weighted(ROWS[name](over=over), engine).check(random_direction)


@pytest.mark.slow
def test_gradient_in_noise_of_groups() -> None:
    case = Weighted(spg.VFE(), spg.ParallelEP(tolerance=GRADIENT_SOLVER))
    ratio = case.model.likelihood.noise_ratio
    gpflow.set_trainable(ratio, True)
    with tf.GradientTape() as tape:
        loss = case.model.training_loss() + case.model.log_prior_density()
    slope = tape.gradient(loss, ratio.unconstrained_variable)
    direction = np.array([0.6, -0.8])
    expected = case.slope([ratio.unconstrained_variable], [direction])
    assert float(np.sum(slope * direction)) == pytest.approx(expected, rel=GRADIENT)


# Bounds.


def alone(weight: float, residual: str, tie: bool, variance: float = 100.0) -> spg.PreferenceGP:
    """One duel of which the inducing input, far away, knows nothing: z ~ N(0, k~)."""
    duels = spg.Duels(ITEMS, [0], [1], weights=[weight], ties=[tie] if tie else None)
    kernel = gpflow.kernels.SquaredExponential(variance=variance)
    return spg.PreferenceGP(
        duels,
        kernel,
        approximation=spg.TightVFE(residual),
        inducing_variable=np.array([[60.0]]),
        likelihood=spg.Probit(0.5, margin=0.5 if tie else None),
    )


@pytest.mark.slow
@pytest.mark.parametrize("tie", [False, True])
def test_bounds_are_below_the_integral(tie: bool) -> None:
    """Tie, weight 0.5, variance 100: -1.57 by c log(1 + k~/2s²), for -2.29."""
    left = 200.0 * (1.0 - np.exp(-0.5))  # of f(loser) - f(winner)
    for weight in (0.02, 0.5, 0.9, 1.5, 4.0):
        truth = integrals(left, weight, tie)[0]
        model = alone(weight, "diagonal", tie)
        rows = model.lower_bounds().rows
        each = weight * np.log1p(left) if weight > 1.0 else np.log1p(weight * left)
        at_zero = weight * (np.log(2 * norm.cdf(0.5) - 1) if tie else np.log(0.5))
        assert rows["diagonal"] == pytest.approx(at_zero - 0.5 * each, rel=EVIDENCE)
        assert model.log_evidence() == pytest.approx(rows["diagonal"], rel=EVIDENCE)
        assert max(rows.values()) < truth
        for residual in ("rank", "logdet"):
            assert alone(weight, residual, tie).log_evidence() < truth


def test_bounds_of_related_duels_are_below_a_grid() -> None:
    """Three utilities, as three independent normals on a grid."""
    rng = np.random.default_rng(4)
    items = np.array([[0.0], [0.7], [1.5]])
    grid = np.linspace(-8.0, 8.0, 71)
    a, b, c = (x.reshape(-1) for x in np.meshgrid(grid, grid, grid, indexing="ij"))
    for _ in range(3):
        variance, lengthscale = rng.uniform(0.5, 3.0), rng.uniform(0.3, 1.5)
        kernel = gpflow.kernels.SquaredExponential(variance=variance, lengthscales=lengthscale)
        weights = rng.uniform(0.05, 2.0, size=4)
        ends = np.array([[0, 1], [1, 2], [2, 0], [1, 0]])
        duels = spg.Duels(items, ends[:, 0], ends[:, 1], weights=weights)
        root = np.linalg.cholesky(kernel(items).numpy() + 1e-12 * np.eye(3))
        f = root @ np.stack([a, b, c])
        log_p = (
            -0.5 * (a**2 + b**2 + c**2) - 1.5 * np.log(2 * np.pi) + 3 * np.log(grid[1] - grid[0])
        )
        for (winner, loser), weight in zip(ends, weights, strict=True):
            log_p = log_p + weight * log_ndtr((f[winner] - f[loser]) / np.sqrt(0.6))
        truth = logsumexp(log_p)
        model = spg.PreferenceGP(
            duels,
            kernel,
            approximation=spg.VFE(),
            inducing_variable=np.array([[0.3]]),
            noise_variance=0.3,
        )
        bounds = model.lower_bounds().rows
        assert max(bounds.values()) < truth
        exact = spg.PreferenceGP(duels, kernel, approximation=spg.Exact(), noise_variance=0.3)
        assert exact.log_evidence() == pytest.approx(truth, abs=0.01)


def test_logistic_ties_lose_twice_as_much() -> None:
    """The curvature of the log factor of a tie reaches -1/2, not -1/4 as that of a win."""
    left, margin = 2.0 * (1.0 - np.exp(-0.5)) * 4.0, 0.05
    for tie in (True, False):
        duels = spg.Duels(ITEMS, [0], [1], ties=[True] if tie else None)
        model = spg.PreferenceGP(
            duels,
            gpflow.kernels.SquaredExponential(variance=4.0),
            approximation=spg.VFE(),
            inducing_variable=np.array([[60.0]]),
            engine=spg.Laplace(link="logit"),
            likelihood=spg.Probit(margin=margin if tie else None),
        )

        def density(z: float, tie: bool = tie) -> float:
            p = np.exp(log_expit(margin - z)) - np.exp(log_expit(-margin - z))
            return (
                norm.pdf(z / np.sqrt(left)) / np.sqrt(left) * (p if tie else np.exp(log_expit(-z)))
            )

        truth = np.log(integrate.quad(density, -40, 40, epsabs=1e-14, limit=400)[0])
        at_zero = np.log(np.tanh(0.5 * margin)) if tie else np.log(0.5)
        expected = at_zero - left / (2.0 * (2.0 if tie else 4.0))
        assert model.log_evidence() == pytest.approx(expected, rel=IDENTITY)
        assert model.log_evidence() < truth
        # What a tie was allowed with the constant of a win.
        assert not tie or at_zero - left / 8.0 > truth


# Streams.


@pytest.mark.slow
@pytest.mark.parametrize("approximation", [spg.TightVFE(), spg.FITC()], ids=repr)
def test_streams_have_the_same_evidence_and_gradient(approximation: Approximation) -> None:
    given = random_duels(2, items=12, duels=60)
    t = given.num_pairs
    duels = spg.Duels(
        given.items,
        given.winners,
        given.losers,
        ties=np.arange(t) % 3 == 0,
        weights=np.random.default_rng(0).uniform(0.1, 1.6, t),
    )
    settings: dict[str, Any] = {
        "approximation": approximation,
        "inducing_variable": Z,
        "likelihood": spg.Probit(0.2, margin=0.3),
    }
    streamed = spg.StreamedGP(
        spg.stream_duels(duels),
        stationary(),
        engine=spg.PartitionedEP(parts=2, tolerance=SOLVER),
        chunk=16,
        **settings,
    )
    whole = spg.PreferenceGP(
        duels, stationary(), engine=spg.ParallelEP(tolerance=SOLVER), **settings
    )
    gpflow.set_trainable(whole.likelihood.noise, True)
    gpflow.set_trainable(streamed.likelihood.noise, True)
    whole.warned_about_scale = True
    with tf.GradientTape() as tape:
        loss = whole.training_loss()
    theirs = tape.gradient(loss, whole.trainable_variables)
    value, mine = streamed.evidence_and_gradient()
    assert value == pytest.approx(-float(loss), rel=PARTS)
    assert len(mine) == len(theirs) >= 5
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(-one, tf.convert_to_tensor(other), atol=FIXED_POINT)
    for one, other in zip(streamed.predict_f(PLACES), whole.predict_f(PLACES), strict=True):
        np.testing.assert_allclose(one, other, atol=PARTS)


# What draws whole duels.


def test_samplers_refuse() -> None:
    model = one_duel(4.0, 0.5)
    with refused("broken_weights", "sampling"):
        spg.exact.importance_sampling(model, 100)
    with refused("broken_weights", "sampling"):
        spg.sample_posterior(model, 100, np.random.default_rng(0))
    with refused("broken_weights", "sampling"):
        spg.check_against_sampling(model, rng=np.random.default_rng(0))


@pytest.mark.slow
def test_beside_elliptical_slices() -> None:
    """Weights from 0.2 to 3, noise of groups and a margin together: means, sd of all utilities."""
    rng = np.random.default_rng(11)
    items = rng.normal(size=(15, 2))
    winners = rng.integers(15, size=90)
    losers = (winners + rng.integers(1, 15, size=90)) % 15
    judges, ratios, margin, noise = rng.integers(3, size=90), np.array([0.4, 1.0, 2.5]), 0.4, 0.5
    ties, weights = rng.random(90) < 0.25, rng.uniform(0.2, 3.0, size=90)
    duels = spg.Duels(
        items, winners, losers, ties=ties, weights=weights, groups=np.array(list("abc"))[judges]
    )
    kernel = gpflow.kernels.SquaredExponential(variance=2.0, lengthscales=[0.8, 1.2])
    model = spg.PreferenceGP(
        duels,
        kernel,
        approximation=spg.Exact(),
        likelihood=spg.Probit(noise, by="judge", margin=margin),
    )
    assert model.likelihood.noise_ratio is not None
    model.likelihood.noise_ratio.assign(ratios)
    centre, covariance = (x.numpy() for x in model.predict_f(items, full_cov=True))

    # Ellipses of the normal that EP found, times what is left of the posterior: the same whatever
    # that normal is, but it moves slowly under ellipses of the prior.
    precision = np.linalg.inv(kernel(items).numpy())
    scale = np.sqrt(2 * noise * ratios[judges])[:, None]
    near = np.where(ties, margin, -margin)[:, None]

    def left(x: np.ndarray) -> np.ndarray:
        f = centre + x
        z = f[losers] - f[winners]
        above, below = log_ndtr((near - z) / scale), log_ndtr((-margin - z) / scale)
        with np.errstate(invalid="ignore", divide="ignore"):
            between = above + np.log1p(-np.exp(below - above))
        likelihood = weights @ np.where(ties[:, None], between, above)
        prior = np.sum(f * (precision @ f), 0)
        return likelihood - 0.5 * prior + 0.5 * np.sum(x * np.linalg.solve(covariance[0], x), 0)

    root = np.linalg.cholesky(covariance[0])
    draws = centre[:, 0, None] + elliptical_walk(root, left, 60, 100, 1000, rng)
    wanted, sd = draws.mean((0, 2)), draws.std((0, 2))
    # Chains are independent: the error of the mean over all, by those of each.
    assert np.max(draws.mean(0).std(1) / np.sqrt(60) / sd) < 0.01
    for engine in (spg.ParallelEP(), spg.ParallelEP(site_power=0.5)):
        model.engine = engine
        assert model.infer().converged
        mean, variance = (x.numpy()[:, 0] for x in model.predict_f(items))
        assert np.max(np.abs(mean - wanted) / sd) < 0.1
        assert np.max(np.abs(np.sqrt(variance) / sd - 1.0)) < 0.1
