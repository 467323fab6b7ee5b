"""Kernels on learned directions, against models of features that were projected by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.projection import median_distance
from sparse_prefgp.covariances.projected import ProjectedPoints
from sparse_prefgp.plotting.features import feature_relevance
from tests.cases import random_duels
from tests.together import refused
from tests.tolerances import FIXED_POINT, GRADIENT, IDENTITY, PARTS, SOLVER

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


@pytest.mark.covering("Exact-False", "VFE-True", "FITC-False", "TightVFE-True")
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


@pytest.mark.covering("Exact-True", "VFE-False")
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


@pytest.mark.slow
def test_learning_moves_the_directions_and_raises_the_evidence() -> None:
    made = model("VFE")
    before = made.log_evidence()
    report = spg.optimise(made, 5)
    assert report.log_evidence > before
    assert not np.allclose(made.kernel.W.numpy(), W)


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.covering(every=2)
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
    with refused("gain", "projected_inputs"):
        spg.greedy_em(by_itself, 20, rng=np.random.default_rng(0))


def test_inputs_that_are_held_stay_held() -> None:
    for z in (Z, np.random.default_rng(9).normal(size=(6, D))):
        held = gpflow.inducing_variables.InducingPoints(z)
        gpflow.set_trainable(held, False)
        made = spg.PreferenceGP(DUELS, kernel(), approximation=spg.VFE(), inducing_variable=held)
        assert not made.inducing_variable.Z.trainable


@pytest.mark.parametrize("name", ["VFE", "FITC"])
@pytest.mark.covering(every=2)
def test_directions_of_some_features(name: str) -> None:
    """With columns after the features, which effects of items add."""
    seen, w, z = [3, 4], W[:2], Z
    ours: gpflow.kernels.Kernel = spg.Projected(gpflow.kernels.Matern52(), w, active_dims=seen)
    theirs: gpflow.kernels.Kernel = gpflow.kernels.Matern52()
    duels = spg.Duels(DUELS.items[:, seen] @ w, DUELS.winners, DUELS.losers, DUELS.counts)
    for effects in (False, True):
        if effects:
            ours, theirs = ours + spg.ItemEffect(0.4), theirs + spg.ItemEffect(0.4)
        found = [
            spg.PreferenceGP(d, k, approximation=MADE[name](), inducing_variable=z).log_evidence()
            for d, k in ((DUELS, ours), (duels, theirs))
        ]
        assert found[0] == pytest.approx(found[1], rel=IDENTITY)


def test_lengthscales_of_directions_are_no_features() -> None:
    inner = gpflow.kernels.Matern52(lengthscales=[1.0, 1e-6])
    made = spg.Projected(inner, W)
    gpflow.set_trainable(inner.lengthscales, True)
    model = spg.PreferenceGP(DUELS, made, approximation=spg.VFE(), inducing_variable=Z)
    assert "feature" not in " ".join(spg.optimise(model, 1).limits)


def test_contributions_are_those_of_the_directions_by_their_weights() -> None:
    """In each direction the path has a mean slope, which the directions hand on to features."""
    ours, theirs = model("VFE", effects=True), by_hand("VFE", effects=True)
    first, second = DUELS.items[0], DUELS.items[1]
    found = spg.explain(ours, first, second)
    among = spg.explain(theirs, first @ W, second @ W).frame.set_index("feature")["contribution"]
    step = (first - second) @ W
    slopes = [among[f"column {k}"] / step[k] for k in range(Q)]
    expected = (first - second) * (W @ slopes)
    assert found.method == "integrated path" and found.converged
    frame = found.frame.set_index("feature")
    for j in range(D):
        assert frame.loc[f"column {j}", "contribution"] == pytest.approx(expected[j], abs=1e-6)
    assert found.difference == pytest.approx(frame["contribution"].sum(), abs=1e-6)


def test_directions_of_one_feature_explain_exactly() -> None:
    made = spg.Projected(gpflow.kernels.Matern52(), [[1.5]], active_dims=[0])
    model = spg.PreferenceGP(DUELS, made, approximation=spg.Exact())
    assert spg.explain(model, DUELS.items[0], DUELS.items[1]).method.startswith("exact")


def test_relevance_is_that_of_swaps() -> None:
    ours, theirs = model("VFE"), by_hand("VFE")
    _, values = feature_relevance(ours)
    rows = np.unique(DUELS.events.sides)
    first, second = (DUELS.items[rows[k]] for k in np.nonzero(~np.eye(len(rows), dtype=bool)))
    before = theirs.predict_f(first @ W)[0]
    for j in range(D):
        swapped = first.copy()
        swapped[:, j] = second[:, j]
        change = np.asarray(theirs.predict_f(swapped @ W)[0] - before)
        assert values[j] == pytest.approx(np.sqrt(0.5 * np.mean(change**2)), rel=1e-6)


def streamed(folder: Path, z: np.ndarray | None) -> spg.StreamedGP:
    items = pd.DataFrame(DRAWN.items).rename(columns=str).assign(item_id=range(len(DRAWN.items)))
    table = pd.DataFrame(
        {"winner": DUELS.winners, "loser": DUELS.losers, "count": np.asarray(DUELS.counts)}
    )
    table.to_parquet(folder / "duels.parquet", index=False, row_group_size=11)
    stream = spg.stream_duels(folder / "duels.parquet", items)
    engine = spg.PartitionedEP(parts=3, tolerance=SOLVER)
    return spg.StreamedGP(
        stream, kernel(), approximation=spg.VFE(), inducing_variable=z, engine=engine, chunk=13
    )


@pytest.mark.slow
def test_duels_in_chunks_are_those_of_memory(tmp_path: Path) -> None:
    parts = streamed(tmp_path, Z)
    table = spg.read_duels(
        pd.DataFrame(DRAWN.items).rename(columns=str).assign(item_id=range(len(DRAWN.items))),
        tmp_path / "duels.parquet",
    )
    whole = spg.PreferenceGP(
        table,
        kernel(),
        approximation=spg.VFE(),
        inducing_variable=Z,
        engine=spg.ParallelEP(tolerance=SOLVER),
    )
    with tf.GradientTape() as tape:
        value = whole.maximum_log_likelihood_objective()
    w = whole.kernel.W.unconstrained_variable
    slope = tape.gradient(value, w)
    found, slopes = parts.evidence_and_gradient()
    assert found == pytest.approx(float(value), rel=PARTS)
    here = [v is parts.kernel.W.unconstrained_variable for v in parts.trainable_variables]
    np.testing.assert_allclose(slopes[here.index(True)], slope, atol=FIXED_POINT)


@pytest.mark.slow
def test_a_subset_moves_the_inputs_of_the_stream_and_saves_them(tmp_path: Path) -> None:
    made = streamed(tmp_path, None)
    assert made.inducing_variable.Z.shape[1] == Q
    before = made.inducing_variable.Z.numpy().copy()
    report = spg.optimise(made, 3, gradients="subset", subset=30)
    assert report.log_evidence > report.log_evidence_start
    assert not np.allclose(made.inducing_variable.Z, before)
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert isinstance(again.inducing_variable, ProjectedPoints)
    new = np.random.default_rng(8).normal(size=(5, D))
    for a, b in zip(made.predict_f(new), again.predict_f(new), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_no_projection_is_refused() -> None:
    for wrong, words in (
        (np.ones(3), "W has shape"),
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
    assert median_distance(projected, np.random.default_rng(0)) == pytest.approx(1.0)
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
    rng = np.random.default_rng(0)
    assert median_distance(x, rng) == pytest.approx(np.median(apart), rel=IDENTITY)
    assert median_distance(x[:1], rng) == 1.0
