"""Effects of items in a context: kernels, and models that hold them, against dense arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances import item_in_context
from sparse_prefgp.covariances.kernels import pair_difference_variance, variance_of
from tests.reference.slow_approximations import slow_posterior
from tests.together import apart, refused
from tests.tolerances import FIXED_POINT, GRADIENT, IDENTITY

TIGHT = spg.ParallelEP(tolerance=1e-12)
NAMES = ["Ann", "Ben", "Cem", "Dua"]
ITEMS = pd.DataFrame({"item_id": NAMES, "size": [1.0, 2.5, 0.3, 1.7]})
# The features are size, speed, and three levels of surface; the item's number is column 5.
LEVELS, SPEED = [2, 3, 4], 1


@pytest.fixture(scope="module")
def duels() -> spg.Duels:
    """Four items in three surfaces at two speeds, of which each item likes another."""
    rng = np.random.default_rng(0)
    pairs = rng.permuted(np.tile(np.arange(4), (14, 1)), axis=1)[:, :2]
    frame = pd.DataFrame(
        {
            "winner": np.array(NAMES)[pairs[:, 0]],
            "loser": np.array(NAMES)[pairs[:, 1]],
            "surface": np.resize(["clay", "grass", "hard"], 14),
            "speed": rng.choice([1.0, 3.0], 14),
        }
    )
    return spg.read_duels(ITEMS, frame, context=["surface", "speed"])


def on_features() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=1.3)


def of_levels() -> gpflow.kernels.Kernel:
    return spg.ItemTimes(spg.SameLevel(0.6, active_dims=LEVELS))


def of_slopes() -> gpflow.kernels.Kernel:
    return spg.ItemTimes(gpflow.kernels.Linear([0.8], active_dims=[SPEED]))


def of_curves() -> gpflow.kernels.Kernel:
    return spg.ItemTimes(gpflow.kernels.SquaredExponential(0.9, 1.4, active_dims=[SPEED]))


def slow(rows: str) -> Any:
    """The same kernels on rows with the number of the item, entry by entry."""

    def kernel(x: np.ndarray, y: np.ndarray) -> float:
        value = float(np.exp(-0.5 * np.sum(((x[:5] - y[:5]) / 1.3) ** 2)))
        if x[5] == y[5]:
            value += 0.4
            if rows == "levels":
                value += 0.6 * float(np.all(x[2:5] == y[2:5]))
            elif rows == "slopes":
                value += 0.8 * x[1] * y[1]
            else:
                value += 0.9 * float(np.exp(-0.5 * ((x[1] - y[1]) / 1.4) ** 2))
        return value

    return kernel


IN_CONTEXT = {"levels": of_levels, "slopes": of_slopes, "curves": of_curves}


def model(duels: spg.Duels, kind: str, **options: Any) -> spg.PreferenceGP:
    kernel = on_features() + spg.ItemEffect(0.4) + IN_CONTEXT[kind]()
    return spg.PreferenceGP(duels, kernel, engine=TIGHT, **options)


def test_same_level_is_the_variance_where_all_columns_agree() -> None:
    kernel = spg.SameLevel(0.7, active_dims=[1, 2])
    rows = np.array([[5.0, 0.0, 1.0], [6.0, 1.0, 0.0], [7.0, 0.0, 1.0]])
    expected = 0.7 * np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_allclose(kernel(rows), expected, rtol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, rows[:2]), expected[:, :2], rtol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, full_cov=False), np.full(3, 0.7), rtol=IDENTITY)
    stacked = kernel(np.stack([rows, rows[::-1]]))
    np.testing.assert_allclose(stacked, [expected, expected[::-1, ::-1]], rtol=IDENTITY)


@pytest.mark.parametrize("kind", IN_CONTEXT)
def test_kernel_and_differences_are_those_of_each_item(duels: spg.Duels, kind: str) -> None:
    ours = model(duels, kind)
    rows, kernel = ours.graph.rows, ours.problem().kernel
    wanted = np.array([[slow(kind)(x, y) for y in rows] for x in rows])
    np.testing.assert_allclose(kernel(rows), wanted, atol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, rows[:3]), wanted[:, :3], atol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, full_cov=False), np.diag(wanted), atol=IDENTITY)
    first, second = np.triu_indices(len(rows), 1)
    ends = (tf.constant(rows[side]) for side in (first, second))
    found = pair_difference_variance(kernel, *ends)
    expected = np.diag(wanted)[first] + np.diag(wanted)[second] - 2.0 * wanted[first, second]
    np.testing.assert_allclose(found, expected, atol=IDENTITY)


@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("kind", IN_CONTEXT)
@pytest.mark.covering(every=4)
def test_exact_is_the_dense_reference(duels: spg.Duels, kind: str, over: str) -> None:
    ours = model(duels, kind, approximation=spg.Exact(over=over))
    inputs = ours.inputs.of_items()
    wanted = slow_posterior(
        inputs, duels.winners, duels.losers, slow(kind), 0.5, "exact", tolerance=1e-13
    )
    assert ours.log_evidence() == pytest.approx(wanted.log_evidence, rel=FIXED_POINT)
    mean, covariance = ours.predict_f(inputs, full_cov=True)
    np.testing.assert_allclose(mean[:, 0], wanted.mean, atol=FIXED_POINT)
    np.testing.assert_allclose(covariance[0], wanted.cov, atol=FIXED_POINT)


@pytest.mark.covering("levels-VFE()", "slopes-FITC()")
@pytest.mark.parametrize(
    "approximation",
    [spg.VFE(over="items"), spg.FITC(over="duels"), spg.TightVFE("logdet"), spg.PITC(3)],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["levels", "slopes"])
def test_inducing_inputs_at_all_items_are_exact(
    duels: spg.Duels, kind: str, approximation: Any
) -> None:
    z = np.unique(duels.items, axis=0)
    sparse = model(duels, kind, approximation=approximation, inducing_variable=z)
    exact = model(duels, kind, approximation=spg.Exact())
    assert sparse.log_evidence() == pytest.approx(exact.log_evidence(), abs=FIXED_POINT)
    inputs = np.concatenate([exact.inputs.of_items(), [[0.3, 0.1, 0.0, 1.0, 0.0, -1.0]]])
    for mine, theirs in zip(sparse.predict_f(inputs), exact.predict_f(inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=FIXED_POINT)


@pytest.mark.parametrize("kind", ["levels", "slopes"])
@pytest.mark.covering(every=2)
def test_beside_covariates(duels: spg.Duels, kind: str) -> None:
    """Rows with columns after the number of the item."""
    rows = duels.items, duels.winners, duels.losers
    side = np.resize([1.0, 0.0, -1.0], len(duels.winners))[:, None]
    plain = spg.Duels(*rows, covariates=side)
    z = np.unique(duels.items, axis=0)
    sparse = model(plain, kind, approximation=spg.VFE(), inducing_variable=z)
    exact = model(plain, kind, approximation=spg.Exact())
    assert sparse.log_evidence() == pytest.approx(exact.log_evidence(), abs=FIXED_POINT)
    assert (
        exact.log_evidence()
        != model(spg.Duels(*rows), kind, approximation=spg.Exact()).log_evidence()
    )
    one = sparse.predict_f(sparse.inputs.of_items())
    for mine, theirs in zip(one, exact.predict_f(exact.inputs.of_items()), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=FIXED_POINT)


def test_effects_beyond_the_limit_join_the_residual(
    duels: spg.Duels, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = np.unique(duels.items, axis=0)
    whole = model(duels, "levels", approximation=spg.FITC(), inducing_variable=z)
    seen = len(np.unique(whole.graph.rows[:, [*LEVELS, 5]], axis=0))
    assert f"{4 + seen} of {4 + seen} item effects" in str(whole)
    monkeypatch.setattr(item_in_context, "MAX_EFFECTS_IN_CONTEXT", 3)
    few = model(duels, "levels", approximation=spg.FITC(), inducing_variable=z)
    assert f"7 of {4 + seen} item effects" in str(few)
    # What is unexplained is the variance of each effect that is left out, on either side.
    effects = few.problem().kernel.kernels[2]
    held = effects.own_features(few.graph, tf.constant(few.graph.rows)).numpy()
    left = 0.6 - (held**2).sum(1)
    explained = np.isclose(left, 0.0, atol=IDENTITY)
    np.testing.assert_allclose(left[~explained], 0.6, rtol=IDENTITY)
    keys = few.graph.rows[:, [*LEVELS, 5]]
    compared = {tuple(key): 0 for key in keys}
    for key, number in zip(keys, few.graph.comparisons, strict=True):
        compared[tuple(key)] += number
    kept = {tuple(key) for key in keys[explained]}
    assert len(kept) == 3
    least = min(compared[key] for key in kept)
    assert all(compared[key] <= least for key in compared if key not in kept)


def test_gradient_reaches_the_variance(duels: spg.Duels) -> None:
    for kind, options in (
        ("curves", {"approximation": spg.Exact()}),
        ("levels", {"approximation": spg.VFE(), "inducing_variable": duels.items[:2]}),
    ):
        ours = model(duels, kind, **options)
        variable = ours.kernel.kernels[2].kernel.variance.unconstrained_variable
        with tf.GradientTape() as tape:
            loss = ours.training_loss()
        slope = float(tape.gradient(loss, variable))
        start, step, values = variable.numpy(), 1e-4, []
        for sign in (1, -1):
            variable.assign(start + sign * step)
            values.append(float(ours.training_loss()))
        variable.assign(start)
        assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=GRADIENT)
        assert abs(slope) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_CONTEXT)
def test_optimise_compiles_and_learns(duels: spg.Duels, kind: str) -> None:
    exact = kind == "curves"
    ours = model(
        duels,
        kind,
        approximation=spg.Exact() if exact else spg.VFE(),
        inducing_variable=None if exact else duels.items[:2],
    )
    before = ours.log_evidence()
    spg.optimise(ours, max_iterations=2)
    assert ours.log_evidence() > before


def test_an_unknown_item_has_the_prior_in_every_context(duels: spg.Duels) -> None:
    ours = model(duels, "levels", approximation=spg.Exact())
    one = duels.items[0]
    _, covariance = ours.predict_f(np.stack([one, one]), full_cov=True)
    gap = covariance[0, 0, 0] + covariance[0, 1, 1] - 2 * covariance[0, 0, 1]
    assert float(gap) == pytest.approx(2 * (0.4 + 0.6), rel=IDENTITY)


def test_saved_and_loaded(duels: spg.Duels, tmp_path: Path) -> None:
    made = model(duels, "levels", approximation=spg.VFE(), inducing_variable=duels.items[:2])
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.log_evidence() == made.log_evidence()
    inputs = made.inputs.of_items()
    np.testing.assert_array_equal(again.predict_f(inputs)[0], made.predict_f(inputs)[0])
    np.testing.assert_array_equal(again.kernel.kernels[2].kernel.active_dims, LEVELS)


def test_variances_of_effects_are_those_of_their_kernel() -> None:
    linear = gpflow.kernels.Linear([0.5, 1.5], active_dims=[0, 1])
    product = gpflow.kernels.Product([spg.SameLevel(0.5), linear])
    assert variance_of(spg.ItemTimes(linear)) == pytest.approx((1.0, 2.0))
    assert variance_of(spg.ItemTimes(product)) == pytest.approx((0.5, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["levels", "slopes"])
def test_contributions_sum_to_the_difference_across_contexts(duels: spg.Duels, kind: str) -> None:
    ours = model(duels, kind, approximation=spg.Exact())
    inputs = ours.inputs.of_items()
    across = list(zip(inputs[:3], inputs[-3:], strict=True))
    assert any(np.any(a[1:5] != b[1:5]) for a, b in across)
    for a, b in across:
        told = spg.explain(ours, a, b)
        mean, _ = ours.predict_difference(a[None], b[None])
        assert told.difference == pytest.approx(float(mean[0]), rel=IDENTITY)
        assert told.converged and abs(told.residual) <= told.tolerance
        same = inputs[-1].copy()
        same[5] = a[5]
        effect = spg.explain(ours, same, inputs[-1]).frame.set_index("feature").loc["item effect"]
        mean, variance = ours.predict_difference(same[None], inputs[-1:])
        assert effect["contribution"] == pytest.approx(float(mean[0]), abs=IDENTITY)
        assert effect["sd"] == pytest.approx(float(variance[0]) ** 0.5, abs=IDENTITY)


def test_streams_take_none(duels: spg.Duels) -> None:
    with refused("streamed", "item_effects"):
        spg.StreamedGP(spg.stream_duels(duels), on_features() + of_levels(), inducing_variable=[])


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (lambda: on_features() + of_curves(), {"approximation": spg.VFE()}, "use Exact"),
        (lambda: on_features() * of_levels(), {}, "add it to the others"),
        (lambda: spg.ItemTimes(spg.ItemEffect()), {}, "effects of items already"),
        (lambda: spg.ItemTimes(3.0), {}, "give a GPflow kernel"),
        (of_levels, {"approximation": spg.VFE()}, apart("effects_of_items_alone", "inducing")),
        (lambda: spg.ItemTimes(spg.SameLevel(active_dims=[9])), {}, "cannot be evaluated"),
    ],
)
def test_refusals(duels: spg.Duels, kernel: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spg.PreferenceGP(duels, kernel(), **options)
