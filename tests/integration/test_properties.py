"""Any duels at all: finite, converged or honestly reported, and indifferent to order."""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sparse_prefgp as spg
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.factors.sites import Sites
from tests.cases import ALL
from tests.tolerances import GRADIENT_SOLVER, IDENTITY

TOLERANCE = 1e-8  # of inference, the default
QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


class Data(NamedTuple):
    """Duels as a user might hand them over; rows may be equal, duels repeated or contradicted."""

    items: np.ndarray
    winners: np.ndarray
    losers: np.ndarray
    noise: float
    name: str
    over: str | None
    seed: int


@st.composite
def data(draw: Any, most_duels: int = 300) -> Data:
    t = draw(st.sampled_from([s for s in (1, 2, 5, 20, 60, 300) if s <= most_duels]))
    n = draw(st.sampled_from([2, 3, 8, 25]))
    seed = draw(st.integers(0, 2**31 - 1))
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(n, draw(st.sampled_from([1, 3]))))
    items *= draw(st.sampled_from([1e-3, 1.0, 10.0]))
    if draw(st.booleans()):
        items = items[rng.integers(n, size=n)]  # equal rows
    winners = rng.integers(n, size=t)
    losers = (winners + rng.integers(1, n, size=t)) % n
    if draw(st.booleans()):
        half = t // 2  # contradict what was said
        winners[:half], losers[:half] = losers[t - half :].copy(), winners[t - half :].copy()
    noise = 10.0 ** draw(st.sampled_from([-4.0, -2.0, -0.3, 1.0]))
    name = draw(st.sampled_from(sorted(ALL)))
    over = draw(st.sampled_from([None, "items", "duels"]))
    return Data(items, winners, losers, noise, name, over, seed)


def build(d: Data, tolerance: float = TOLERANCE, **changes: Any) -> spg.PreferenceGP:
    d = d._replace(**changes)
    approximation = ALL[d.name](over=d.over)
    z = None
    if approximation.needs_inducing:
        z = np.unique(d.items + 0.0, axis=0)
        z = z[:: max(1, len(z) // 4)]
    return spg.PreferenceGP(
        spg.Duels(d.items, d.winners, d.losers),
        gpflow.kernels.Matern52(variance=2.0),
        approximation=approximation,
        inducing_variable=z,
        noise_variance=d.noise,
        engine=spg.ParallelEP(tolerance=tolerance),
    )


def check_honest(d: Data) -> None:
    model = build(d)
    result = model.infer()
    value = model.log_evidence()
    assert np.isfinite(value), result
    assert value < 0.0
    # Not by its own word: one more sweep from where it stopped, under a prior made afresh.
    prior = model.approximation.prior(model.problem())
    sites = Sites(*map(tf.constant, model.inference.sites()))
    change = float(ParallelEP().evaluate(prior.covariance, prior.factors, sites).change)
    if result.converged:
        assert change < TOLERANCE + IDENTITY, result
    else:
        assert change > TOLERANCE - IDENTITY, result
        assert result.sweeps == 500
    mean, variance = model.predict_f(d.items)
    assert np.all(np.isfinite(mean))
    assert np.all(variance.numpy() >= -IDENTITY)
    p = model.predict_duel(d.items[d.winners], d.items[d.losers]).numpy()
    assert np.all((p >= 0.0) & (p <= 1.0))


def check_same(
    other: spg.PreferenceGP, model: spg.PreferenceGP, items: np.ndarray, sign: float = 1.0
) -> None:
    """Equal evidence, means (times `sign`) and variances, each on its own scale."""
    value = model.log_evidence()
    assert other.log_evidence() == pytest.approx(value, abs=IDENTITY * (1.0 + abs(value)))
    (mean, variance), (other_mean, other_variance) = model.predict_f(items), other.predict_f(items)
    for found, wanted in ((other_mean, sign * mean), (other_variance, variance)):
        scale = 1.0 + np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0.0, atol=IDENTITY * scale)


def check_order(d: Data) -> None:
    model = build(d, GRADIENT_SOLVER)
    rng = np.random.default_rng(d.seed)

    order = rng.permutation(len(d.winners))
    shuffled = build(d, GRADIENT_SOLVER, winners=d.winners[order], losers=d.losers[order])
    check_same(shuffled, model, d.items)

    to = rng.permutation(len(d.items))  # item i is now row to[i]
    items = np.empty_like(d.items)
    items[to] = d.items
    renamed = build(d, GRADIENT_SOLVER, items=items, winners=to[d.winners], losers=to[d.losers])
    check_same(renamed, model, d.items)


def check_swap(d: Data) -> None:
    model = build(d, GRADIENT_SOLVER)
    swapped = build(d, GRADIENT_SOLVER, winners=d.losers, losers=d.winners)
    check_same(swapped, model, d.items, sign=-1.0)


@settings(max_examples=12, **QUICK)
@given(data(most_duels=60))
@pytest.mark.slow
def test_finite_and_honest(d: Data) -> None:
    check_honest(d)


@pytest.mark.slow
@settings(max_examples=6, **QUICK)
@given(data(most_duels=60))
def test_order_of_duels_and_items_changes_nothing(d: Data) -> None:
    check_order(d)


@settings(max_examples=6, **QUICK)
@given(data(most_duels=60))
@pytest.mark.slow
def test_swapping_winners_and_losers_flips_the_mean(d: Data) -> None:
    check_swap(d)


@pytest.mark.parametrize("seed", [16, 17, 26])
def test_thirteen_against_seven_at_low_noise(seed: int) -> None:
    """Over duels, of which there are as many distinct ones as items."""
    items = np.random.default_rng(seed).normal(size=(2, 1)) * (1e-3, 1.0, 10.0)[seed % 3]
    winners = np.array([0] * 13 + [1] * 7)
    check_swap(Data(items, winners, 1 - winners, 1e-4, "Exact", "duels", seed))


@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC"])
def test_three_hundred_duels_at_low_noise(name: str) -> None:
    rng = np.random.default_rng(1)
    winners = rng.integers(25, size=300)
    losers = (winners + rng.integers(1, 25, size=300)) % 25
    check_honest(Data(rng.normal(size=(25, 2)), winners, losers, 1e-4, name, None, 1))


@pytest.mark.slow
@settings(max_examples=150, **{**QUICK, "derandomize": False})
@given(data())
def test_many_finite_and_honest(d: Data) -> None:
    check_honest(d)


@pytest.mark.slow
@settings(max_examples=60, **{**QUICK, "derandomize": False})
@given(data())
def test_many_orders(d: Data) -> None:
    check_order(d)


@pytest.mark.slow
@settings(max_examples=60, **{**QUICK, "derandomize": False})
@given(data())
def test_many_swaps(d: Data) -> None:
    check_swap(d)
