"""Kernels on learned directions, against models of features that were projected by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.projection import median_distance
from sparse_prefgp.covariances.projected import ProjectedPoints
from tests.cases import random_duels
from tests.tolerances import GRADIENT, IDENTITY

D, Q = 5, 2
DRAWN = random_duels(3, items=14, duels=40, features=D)
DUELS = spg.Duels(DRAWN.items, DRAWN.winners, DRAWN.losers, DRAWN.counts)
W = np.random.default_rng(4).normal(size=(D, Q))
Z = np.random.default_rng(5).normal(size=(6, Q))
MADE: dict[str, Callable[[], spg.approximations.Approximation]] = {
    "Exact": spg.Exact,
    "VFE": spg.VFE,
    "FITC": spg.FITC,
    "TightVFE": lambda: spg.TightVFE("rank"),
    "PriorPower": lambda: spg.PriorPower(0.5),
    "PITC": lambda: spg.PITC(blocks=np.arange(DUELS.num_pairs) % 3),
    "over duels": lambda: spg.VFE(over="duels"),
}


def kernel(effects: bool = False) -> gpflow.kernels.Kernel:
    made = spg.Projected(gpflow.kernels.Matern52(variance=1.3), W)
    return made + spg.ItemEffect(0.4) if effects else made


def model(name: str, effects: bool = False) -> spg.PreferenceGP:
    approximation = MADE[name]()
    z = Z if approximation.needs_inducing else None
    return spg.PreferenceGP(
        DUELS, kernel(effects), approximation=approximation, inducing_variable=z
    )


def by_hand(name: str, effects: bool = False) -> spg.PreferenceGP:
    approximation = MADE[name]()
    duels = spg.Duels(DUELS.items @ W, DUELS.winners, DUELS.losers, DUELS.counts)
    made: gpflow.kernels.Kernel = gpflow.kernels.Matern52(variance=1.3)
    return spg.PreferenceGP(
        duels,
        made + spg.ItemEffect(0.4) if effects else made,
        approximation=approximation,
        inducing_variable=Z if approximation.needs_inducing else None,
    )


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("name", list(MADE))
def test_it_is_the_model_of_projected_features(name: str, effects: bool) -> None:
    if effects and name == "PITC":
        pytest.skip("PITC has no effects of items")
    ours, theirs = model(name, effects), by_hand(name, effects)
    assert ours.log_evidence() == pytest.approx(theirs.log_evidence(), rel=IDENTITY)
    new = np.random.default_rng(6).normal(size=(7, D))
    for a, b in zip(ours.predict_f(new), theirs.predict_f(new @ W), strict=True):
        np.testing.assert_allclose(a, b, rtol=IDENTITY, atol=IDENTITY)
    np.testing.assert_allclose(
        ours.predict_duel(new[:3], new[3:6]),
        theirs.predict_duel(new[:3] @ W, new[3:6] @ W),
        rtol=IDENTITY,
    )


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC", "PriorPower"])
def test_the_gradient_in_the_directions_is_that_of_differences(name: str, effects: bool) -> None:
    made = model(name, effects)
    projection = made.kernel.kernels[0] if effects else made.kernel
    w = projection.W.unconstrained_variable
    with tf.GradientTape() as tape:
        loss = made.training_loss()
    slope = tape.gradient(loss, w).numpy()
    start, step = w.numpy(), 1e-4
    size = np.linalg.norm(slope)
    for direction in (slope / size, np.random.default_rng(7).normal(size=slope.shape)):
        values = []
        for sign in (1.0, -1.0):
            w.assign(start + sign * step * direction)
            values.append(float(made.training_loss()))
        w.assign(start)
        found = (values[0] - values[1]) / (2.0 * step)
        assert np.sum(slope * direction) == pytest.approx(found, rel=GRADIENT, abs=GRADIENT * size)


def test_the_prior_holds_the_directions_near_their_start() -> None:
    made = spg.Projected(gpflow.kernels.Matern52(), W, prior_share=0.5)
    scale = 0.5 * np.sqrt(np.mean(W**2))
    assert np.allclose(made.W.prior.loc, W) and float(made.W.prior.scale) == pytest.approx(scale)
    before = float(made.W.log_prior_density())
    made.W.assign(W + scale)
    assert before - float(made.W.log_prior_density()) == pytest.approx(0.5 * W.size)
    assert spg.Projected(gpflow.kernels.Matern52(), W, prior_share=None).W.prior is None
    assert not made.kernel.lengthscales.trainable


def test_learning_moves_the_directions_and_raises_the_evidence() -> None:
    made = model("VFE")
    before = made.log_evidence()
    report = spg.optimise(made, 5)
    assert report.log_evidence > before
    assert not np.allclose(made.kernel.W.numpy(), W)


@pytest.mark.parametrize("effects", [False, True])
def test_saved_to_the_bit(tmp_path: Path, effects: bool) -> None:
    made = model("VFE", effects)
    spg.optimise(made, 3)
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert isinstance(again.inducing_variable, ProjectedPoints)
    new = np.random.default_rng(8).normal(size=(5, D))
    for a, b in zip(made.predict_f(new), again.predict_f(new), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.log_evidence() == made.log_evidence()


def test_inducing_inputs_lie_among_the_directions() -> None:
    whole = np.random.default_rng(9).normal(size=(6, D))
    given = spg.PreferenceGP(DUELS, kernel(), approximation=spg.VFE(), inducing_variable=whole)
    np.testing.assert_allclose(given.inducing_variable.Z, whole @ W)
    by_itself = spg.PreferenceGP(DUELS, kernel(), approximation=spg.VFE())
    assert by_itself.inducing_variable.Z.shape == (14, Q)
    with pytest.raises(ValueError, match=rf"\(m, {Q}\)"):
        spg.PreferenceGP(DUELS, kernel(), approximation=spg.VFE(), inducing_variable=np.eye(3))
    with pytest.raises(ValueError, match="among its directions"):
        spg.greedy_em(by_itself, 20, rng=np.random.default_rng(0))


def test_what_is_no_projection_is_refused() -> None:
    for wrong, words in (
        (np.ones(3), "matrix"),
        (np.full((3, 2), np.nan), "finite"),
        (np.zeros((3, 2)), "all 0"),
    ):
        with pytest.raises(ValueError, match=words):
            spg.Projected(gpflow.kernels.Matern52(), wrong)
    with pytest.raises(ValueError, match="prior_share"):
        spg.Projected(gpflow.kernels.Matern52(), W, prior_share=0.0)


def linear_duels(weights: np.ndarray, spread: np.ndarray) -> spg.Duels:
    rng = np.random.default_rng(10)
    x = rng.normal(size=(200, len(weights))) * spread
    pairs = np.array([rng.choice(200, 2, replace=False) for _ in range(2000)])
    ahead = (x[pairs[:, 0]] - x[pairs[:, 1]]) @ weights + rng.normal(size=2000) > 0.0
    winners, losers = np.where(ahead, pairs.T, pairs.T[::-1])
    return spg.Duels(x, winners, losers)


def test_directions_start_at_what_duels_say_and_where_items_vary() -> None:
    weights, spread = np.array([1.0, 0.0, 0.0, -1.0, 0.0]), np.array([1.0, 3.0, 0.2, 1.0, 2.0])
    duels = linear_duels(weights, spread)
    w = spg.initial_projection(duels, 3)
    first, second, third = (w / np.linalg.norm(w, axis=0)).T
    assert abs(first @ weights) / np.sqrt(2.0) > 0.99
    assert abs(second[1]) > 0.95 and abs(third[4]) > 0.95
    projected = duels.items @ w
    np.testing.assert_allclose(projected.std(0), projected[:, 0].std() * np.ones(3))
    assert median_distance(projected) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="items vary along 5"):
        spg.initial_projection(duels, 6)
    assert spg.initial_projection(duels, 5).shape == (5, 5)


def test_duels_that_say_nothing_leave_the_directions_of_the_items() -> None:
    x = np.random.default_rng(11).normal(size=(30, 3)) * [3.0, 2.0, 1.0]
    ties = spg.Duels(x, [0, 1], [2, 3], ties=[True, True])
    w = spg.initial_projection(ties, 2)
    assert np.argmax(np.abs(w), 0).tolist() == [0, 1]


def test_the_median_distance_is_that_of_all_pairs() -> None:
    x = np.random.default_rng(12).normal(size=(40, 3))
    apart = np.sqrt(((x[:, None] - x) ** 2).sum(-1))[np.triu_indices(40, 1)]
    assert median_distance(x) == pytest.approx(np.median(apart), rel=IDENTITY)
    assert median_distance(x[:1]) == 1.0
