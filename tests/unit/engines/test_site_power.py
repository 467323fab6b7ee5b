"""Power EP in the sites: against one site after the other by `quad`, and its two limits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import sparse_prefgp as spg
from sparse_prefgp.data.graph import DuelGraph
from tests.cases import DUEL_CASES, ROWS, case_model, random_duels, run_problem
from tests.reference.slow_engines import dense_problem, slow_power_ep
from tests.together import refused
from tests.tolerances import EVIDENCE, FIXED_POINT, GRADIENT_SOLVER, IDENTITY, SMALL_POWER, SOLVER
from tests.unit.engines.test_laplace import NOISE, PLACES, Z, boxed
from tests.unit.models.test_gradients import Case, random_direction, stationary, steepest


@pytest.mark.covering("exact-0.5-wins", "fitc-0.2-wins")
@pytest.mark.parametrize("limits", ["wins", "both"])
@pytest.mark.parametrize(
    ("row", "power"), [("exact", 0.5), ("fitc", 0.2), ("prior_power_0.5", 0.5)]
)
def test_against_one_site_after_the_other(row: str, power: float, limits: str) -> None:
    duels = random_duels(5, items=5, duels=6)
    graph = boxed(duels) if limits == "both" else spg.PreferenceGP(duels, stationary()).graph
    approximation = ROWS[row]()
    inducing = Z if approximation.needs_inducing else None
    engine = spg.ParallelEP(site_power=power, tolerance=SOLVER)
    _, point, value = run_problem(graph, stationary(), approximation, NOISE, inducing, engine)
    dense = dense_problem(graph, stationary(), row.removesuffix("_0.5"), NOISE, Z, PLACES)
    found = slow_power_ep(dense.covariance, dense.factors(), power)
    assert value == pytest.approx(found.log_evidence + dense.correction, rel=FIXED_POINT)
    where = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    for mine, theirs in ((point.found.mean, found.mean), (point.found.variance, found.variance)):
        np.testing.assert_allclose(mine.numpy()[where], theirs, rtol=FIXED_POINT, atol=FIXED_POINT)


def evidence(power: float) -> float:
    engine = spg.ParallelEP(site_power=power, tolerance=SOLVER)
    model = case_model(DUEL_CASES[1], spg.Exact(), engine)
    assert model.infer().converged
    return model.log_evidence()


@pytest.mark.slow
def test_between_ep_and_the_variational_bound() -> None:
    """What is missing to the bound falls in proportion to the power; power 1 is EP."""
    bound = case_model(DUEL_CASES[1], spg.Exact(), spg.Variational(tolerance=SOLVER))
    limit, ep = bound.log_evidence(), case_model(DUEL_CASES[1], spg.Exact()).log_evidence()
    gaps = [evidence(p) - limit for p in (0.02, 0.01, 0.005)]
    assert 0.0 < gaps[0] < 0.1 * (ep - limit)
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 2.0, rtol=0.05)
    assert evidence(1e-4) == pytest.approx(limit, abs=SMALL_POWER)
    assert evidence(1.0) == pytest.approx(ep, rel=GRADIENT_SOLVER)
    # By quadrature in place of the closed form.
    assert evidence(1.0 - 1e-12) == pytest.approx(ep, rel=SOLVER)


@pytest.mark.slow
def test_sequential_and_parallel_agree_with_counts() -> None:
    duels = random_duels(3, items=4, duels=15)
    assert duels.counts.max() > 1
    models = [
        spg.PreferenceGP(
            duels,
            stationary(),
            approximation=spg.VFE(over=over),
            inducing_variable=duels.items[:2].copy(),
            engine=engine(tolerance=SOLVER, site_power=0.5),
            noise_variance=0.1,
        )
        for engine, over in (
            (spg.ParallelEP, "items"),
            (spg.SequentialEP, "items"),
            (spg.SequentialEP, "duels"),
        )
    ]
    assert all(model.infer().converged for model in models)
    values = [model.log_evidence() for model in models]
    np.testing.assert_allclose(values, values[0], rtol=IDENTITY)
    means = [model.predict_f(duels.items)[0] for model in models]
    np.testing.assert_allclose(means[1], means[0], atol=IDENTITY, rtol=IDENTITY)


@pytest.mark.slow
def test_a_sweep_of_single_sites_is_bearable() -> None:
    """A compiled quadrature for each site: some milliseconds, where op by op it takes hundreds."""
    model = case_model(DUEL_CASES[1], spg.VFE(), spg.SequentialEP(site_power=0.5))
    model.infer()  # traces and compiles
    started = time.process_time()
    result = model.infer(restart=True)
    sites = result.sweeps * model.graph.num_sites
    assert (time.process_time() - started) / sites < 0.05


class PowerCase(Case):
    """All parameters free."""

    def __init__(self, name: str, power: float, over: str | None = None) -> None:
        super().__init__(ROWS[name](over=over), stationary())
        self.model.engine = spg.ParallelEP(site_power=power, tolerance=GRADIENT_SOLVER)


@pytest.mark.covering("prior_power_0.5-0.5")
@pytest.mark.parametrize(
    ("name", "power"), [("exact", 0.5), ("vfe", 0.9), ("prior_power_0.5", 0.5)]
)
def test_gradient_at_held_sites(name: str, power: float) -> None:
    PowerCase(name, power).check(steepest)


@pytest.mark.slow
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("power", [0.2, 0.7])
@pytest.mark.parametrize("name", ROWS)
def test_gradient_along_a_random_direction(name: str, power: float, over: str) -> None:
    PowerCase(name, power, over).check(random_direction)


@pytest.mark.slow
def test_with_the_prior_power_it_is_the_family_of_bui_yan_and_turner() -> None:
    """Whose energy for Gaussian observations is in closed form: limits that nearly meet in y.

    log N(y | 0, Q + p diag(k~) + D) - (1 - p) / 2p sum log(1 + p k~ / D) (2017, eq. 15)
    """
    power, width = 0.5, 1e-4
    graph = DuelGraph.from_duels(random_duels(5, items=6, duels=8))
    y = np.random.default_rng(0).normal(size=graph.num_sites)
    graph = replace(graph, lower=y - 0.5 * width, upper=y + 0.5 * width)
    engine = spg.ParallelEP(site_power=power, tolerance=SOLVER)
    _, _, value = run_problem(graph, stationary(), spg.PriorPower(power), NOISE, Z, engine)
    dense = dense_problem(graph, stationary(), "prior_power", NOISE, Z, PLACES, power)
    where = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    density = multivariate_normal.logpdf(y[where], cov=dense.covariance + np.diag(dense.noise))
    wanted = density + dense.correction + len(where) * np.log(width)
    assert value == pytest.approx(wanted, rel=EVIDENCE)


def test_bad_powers_are_refused() -> None:
    for engine in (spg.ParallelEP, spg.SequentialEP):
        for power in (0.0, -0.5, 1.5, float("nan")):
            with pytest.raises(ValueError, match=rf"site_power is {power}; give .*Variational"):
                engine(site_power=power)
        with pytest.raises(ValueError, match="site_power is 'half'; give a number, above 0"):
            engine(site_power="half")


@pytest.mark.slow
@pytest.mark.parametrize("engine", [spg.ParallelEP, spg.SequentialEP])
@pytest.mark.parametrize("others", [0, 1, 128])
def test_items_with_equal_features_are_harmless(engine: Any, others: int) -> None:
    """Their difference has no variance, alone in its chunk or among others."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(24, 2))
    items[1] = items[0]
    pairs = np.stack(np.triu_indices(22, 1), 1)[:others] + 2
    winners, losers = np.append(pairs[:, 0], 0), np.append(pairs[:, 1], 1)
    if others > 1 and engine is spg.SequentialEP:
        winners, losers = winners[-9:], losers[-9:]
    kernel = gpflow.kernels.Matern52(variance=30.0)
    model = spg.PreferenceGP(
        spg.Duels(items, winners, losers), kernel, engine=engine(site_power=0.5), noise_variance=0.1
    )
    assert model.infer().converged
    assert model.predict_duel(items[:1], items[1:2]).numpy() == pytest.approx(0.5)
    rest = len(winners) - 1
    if rest:
        alone = spg.PreferenceGP(
            spg.Duels(items, winners[:rest], losers[:rest]),
            kernel,
            engine=engine(site_power=0.5),
            noise_variance=0.1,
        )
        assert model.log_evidence() == pytest.approx(alone.log_evidence() + np.log(0.5), rel=1e-9)
    else:
        assert model.log_evidence() == pytest.approx(np.log(0.5), rel=1e-9)


# Boxes without a model around them.


def box() -> tuple[np.ndarray, spg.LowRankPlusDiagonal, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    prior = spg.LowRankPlusDiagonal(rng.normal(size=(5, 2)), rng.uniform(0.5, 1.5, 5))
    upper = rng.normal(size=5)
    return rng.normal(size=5), prior, np.where(rng.random(5) < 0.5, upper - 1.0, -np.inf), upper


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [
        spg.ParallelEP(site_power=0.5, tolerance=SOLVER),
        spg.SequentialEP(site_power=0.5, tolerance=SOLVER),
        spg.Variational(tolerance=SOLVER),
        spg.Laplace(tolerance=SOLVER),
    ],
    ids=lambda e: type(e).__name__,
)
def test_boxes_with_noise_take_every_engine(engine: spg.Engine) -> None:
    given = box()
    found = spg.truncated_normal_ep(*given, engine=engine)
    ep = spg.truncated_normal_ep(*given)
    assert found.converged
    # Another approximation of the same normal; the mode of skew ones is not their mean.
    assert 0.0 < abs(found.log_mass - ep.log_mass) < 0.3
    assert np.all(np.abs(found.mean - ep.mean) < np.sqrt(ep.variance) / 3.0)
    # Mean and variances are those of one Gaussian, prior times sites on v.
    prior = given[1].dense()
    share = 1.0 - found.tau * given[1].diagonal
    tau, nu = found.tau / share, found.nu / share
    covariance = np.linalg.inv(np.linalg.inv(prior) + np.diag(tau))
    np.testing.assert_allclose(np.diag(covariance), found.variance, rtol=IDENTITY)
    np.testing.assert_allclose(found.covariance, covariance, rtol=IDENTITY, atol=IDENTITY)
    np.testing.assert_allclose(given[0] + covariance @ nu, found.mean, rtol=FIXED_POINT)


@pytest.mark.parametrize(
    "engine", [spg.ParallelEP(site_power=0.5), spg.Variational(), spg.Laplace()], ids=repr
)
def test_boxes_without_noise_take_ep_alone(engine: spg.Engine) -> None:
    refused = r"needs noise in every coordinate.*LowRankPlusDiagonal"
    with pytest.raises(ValueError, match=refused):
        spg.truncated_normal_ep(0.0, np.eye(2), engine=engine)
    bare = spg.LowRankPlusDiagonal(np.ones((2, 1)), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match=refused):
        spg.truncated_normal_ep(0.0, bare, engine=engine)


def test_boxes_have_normal_noise() -> None:
    given = box()
    with refused("logistic", "truncated_normals"):
        spg.truncated_normal_ep(*given, engine=spg.Laplace(link="logit"))
