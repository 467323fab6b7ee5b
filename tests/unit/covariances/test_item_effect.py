"""Item effects: the kernel, and models that hold one, against dense arithmetic."""

from functools import partial
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances import item_effect
from sparse_prefgp.covariances.item_effect import know_effects
from sparse_prefgp.io import read_duels
from sparse_prefgp.models.checks import lost_effects
from sparse_prefgp.workflow.holdout import (
    fit_model,
    predict_held_out,
    prepare,
)
from sparse_prefgp.workflow.settings import FitSettings
from tests.together import apart
from tests.tolerances import FIXED_POINT, GRADIENT, IDENTITY, ROUNDING

TIGHT = spg.ParallelEP(tolerance=1e-12)
N, D = 9, 2


@pytest.fixture(scope="module")
def duels() -> spg.Duels:
    """Nine items, two of them with equal features, and sixty duels."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(N, D))
    items[4] = items[3]
    effect = 1.5 * rng.normal(size=N)
    pairs = rng.permuted(np.tile(np.arange(N), (60, 1)), axis=1)[:, :2]
    ahead = (items[:, 0] + effect)[pairs] + 0.7 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(ahead, 1), 1).T
    return spg.Duels(items, winners, losers)


def features_kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=[1.2, 0.8])


def with_effect(variance: float = 0.7) -> gpflow.kernels.Kernel:
    return features_kernel() + spg.ItemEffect(variance)


def model(duels: spg.Duels, kernel: Any = None, **options: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(duels, kernel or with_effect(), engine=TIGHT, **options)


def one_hot(duels: spg.Duels) -> spg.PreferenceGP:
    """The same prior without item effects: a linear kernel on one indicator per item."""
    inputs = np.hstack([duels.items, np.eye(N)])
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.2, 0.8], active_dims=[0, 1])
    kernel += gpflow.kernels.Linear(0.7, active_dims=range(2, 2 + N))
    same = spg.Duels(inputs, duels.winners, duels.losers, duels.counts)
    return spg.PreferenceGP(same, kernel, approximation=spg.Exact(), engine=TIGHT)


def numbered(duels: spg.Duels) -> np.ndarray:
    return np.column_stack([duels.items, np.arange(N)])


def test_kernel_is_the_variance_for_the_same_number_and_zero_otherwise() -> None:
    kernel = spg.ItemEffect(0.7)
    rows = tf.constant([[5.0, 0.0], [6.0, 1.0], [7.0, 0.0]], tf.float64)
    expected = 0.7 * np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_allclose(kernel(rows), expected, rtol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, rows[:1])[:, 0], expected[:, 0], rtol=IDENTITY)
    np.testing.assert_allclose(kernel(rows, full_cov=False), np.full(3, 0.7), rtol=IDENTITY)


@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.covering(every=2)
def test_exact_equals_a_linear_kernel_on_indicators(duels: spg.Duels, over: str) -> None:
    ours, other = model(duels, approximation=spg.Exact(over=over)), one_hot(duels)
    assert ours.log_evidence() == pytest.approx(other.log_evidence(), rel=IDENTITY)
    for mine, theirs in zip(
        ours.predict_f(numbered(duels), full_cov=True),
        other.predict_f(other.duels.items, full_cov=True),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=FIXED_POINT)


def test_items_with_equal_features_differ_by_their_effects(duels: spg.Duels) -> None:
    assert model(duels).graph.num_rows == N
    plain = spg.PreferenceGP(duels, features_kernel())
    assert plain.graph.num_rows == N - 1 and not plain.inputs.layout.numbered
    mean, _ = model(duels).predict_f(numbered(duels)[3:5])
    assert abs(float(mean[0, 0] - mean[1, 0])) > 0.01


@pytest.mark.covering("items-approximation0", "duels-approximation1")
@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC(), spg.TightVFE("logdet")])
@pytest.mark.parametrize("over", ["items", "duels"])
def test_inducing_inputs_at_all_items_are_exact(
    duels: spg.Duels, approximation: Any, over: str
) -> None:
    z = np.unique(duels.items, axis=0)
    approximation = type(approximation)(
        **{**{k: v for k, v in vars(approximation).items() if k != "over"}, "over": over}
    )
    sparse = model(duels, approximation=approximation, inducing_variable=z)
    exact = model(duels, approximation=spg.Exact())
    assert sparse.log_evidence() == pytest.approx(exact.log_evidence(), abs=FIXED_POINT)
    inputs = np.concatenate([numbered(duels), [[0.3, 0.1, -1.0]]])
    for mine, theirs in zip(sparse.predict_f(inputs), exact.predict_f(inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=FIXED_POINT)


def test_effects_that_a_saved_model_did_not_know_join_the_residual(duels: spg.Duels) -> None:
    kernel = with_effect()
    know_effects(kernel, 4)
    sparse = model(duels, kernel, approximation=spg.FITC(), inducing_variable=duels.items[:3])
    assert "3 inducing inputs and 4 of 9 item effects" in str(sparse)
    most = np.argsort(-sparse.graph.comparisons, kind="stable")[:4]
    _, variance = sparse.predict_f(numbered(duels))
    _, unknown = sparse.predict_f(duels.items)
    known = set(sparse.graph.rows[most, -1].astype(int))
    for item in range(N):
        if item in known:
            assert float(variance[item, 0]) < float(unknown[item, 0]) - 0.01
        else:
            assert float(variance[item, 0]) == pytest.approx(float(unknown[item, 0]), rel=IDENTITY)


APPROXIMATIONS = {
    "VFE": spg.VFE,
    "FITC": spg.FITC,
    "DTC": spg.DTC,
    "TightVFE": spg.TightVFE,
    "TightVFE rank": partial(spg.TightVFE, "rank"),
    "TightVFE logdet": partial(spg.TightVFE, "logdet"),
    "PriorPower": spg.PriorPower,
    "HeteroscedasticVFE": spg.HeteroscedasticVFE,
}


def told_by(ours: spg.PreferenceGP, inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Evidence, its gradient, sites and predictions of all kinds."""
    with tf.GradientTape() as tape:
        loss = ours.training_loss()
    slopes = tape.gradient(loss, ours.trainable_variables)
    won, rest = inputs[:3], inputs[3:6]
    return {
        "gradient": np.concatenate([np.ravel(slope) for slope in slopes]),
        "sites": np.concatenate(ours.inference.sites()),
        "evidence": np.array([ours.log_evidence(), ours.lower_bound()]),
        "joint": np.concatenate([np.ravel(x) for x in ours.predict_f(inputs, full_cov=True)]),
        "marginal": np.concatenate(ours.predict_f(inputs)),
        "difference": np.stack(ours.predict_difference(won, rest)),
        "duel": ours.predict_duel(won, rest).numpy(),
    }


@pytest.mark.covering("VFE", "FITC")
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_effects_integrated_out_are_those_that_are_inducing_values(
    duels: spg.Duels, name: str
) -> None:
    inputs = np.concatenate([numbered(duels), [[0.3, 0.1, -1.0]]])
    out, kept = (
        told_by(
            model(
                duels,
                approximation=APPROXIMATIONS[name](over=over),
                inducing_variable=duels.items[:3],
            ),
            inputs,
        )
        for over in ("items", "duels")
    )
    for what, found in out.items():
        np.testing.assert_allclose(found, kept[what], rtol=0, atol=IDENTITY, err_msg=what)


@pytest.mark.covering("ParallelEP")
@pytest.mark.parametrize(
    "engine",
    [
        spg.ParallelEP(tolerance=1e-12),
        spg.SequentialEP(tolerance=1e-12),
        spg.Laplace(tolerance=1e-12),
        spg.Variational(tolerance=1e-12),
    ],
    ids=lambda engine: type(engine).__name__,
)
def test_engines_agree_with_exact_inference(duels: spg.Duels, engine: Any) -> None:
    z = np.unique(duels.items, axis=0)
    sparse = spg.PreferenceGP(
        duels, with_effect(), approximation=spg.VFE(), inducing_variable=z, engine=engine
    )
    exact = spg.PreferenceGP(duels, with_effect(), approximation=spg.Exact(), engine=engine)
    inputs = np.concatenate([numbered(duels), [[0.3, 0.1, -1.0]]])
    ours, other = told_by(sparse, inputs), told_by(exact, inputs)
    for what in ("evidence", "joint", "marginal", "difference", "duel"):
        np.testing.assert_allclose(ours[what], other[what], rtol=0, atol=IDENTITY, err_msg=what)
    size = len(ours["sites"])
    np.testing.assert_allclose(ours["sites"], other["sites"][:size], rtol=0, atol=IDENTITY)


def test_more_effects_than_matrices_are_held_for_are_refused(
    duels: spg.Duels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_effect, "MAX_ITEM_EFFECTS", 8)
    with pytest.raises(ValueError, match=r"effects of 9 compared items, .* VFE would hold .* GiB"):
        model(duels, approximation=spg.VFE(), inducing_variable=duels.items[:3])
    assert np.isfinite(model(duels, approximation=spg.Exact()).log_evidence())


def test_blocks_share_the_effects_that_are_no_inducing_values(
    duels: spg.Duels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block is exact inference, however few effects are inducing values."""
    monkeypatch.setattr(item_effect, "MAX_IN_BLOCKS", 4)
    monkeypatch.setattr(item_effect, "MAX_ITEM_EFFECTS", 8)
    blocks = spg.PITC(np.zeros(duels.num_duels, int))
    ours = model(duels, approximation=blocks, inducing_variable=duels.items[:3])
    assert "4 of 9 item effects" in str(ours)
    exact = model(duels, approximation=spg.Exact())
    assert ours.log_evidence() == pytest.approx(exact.log_evidence(), abs=FIXED_POINT)


def test_an_unknown_item_has_an_effect_of_its_own(duels: spg.Duels) -> None:
    ours = model(duels)
    mean, variance = ours.predict_f(duels.items[:1])
    as_unknown = ours.predict_f([[*duels.items[0], -1.0]])
    np.testing.assert_array_equal(mean, as_unknown[0])
    _, covariance = ours.predict_f(duels.items[[0, 0]], full_cov=True)
    # Two unknown items with equal features share all but their effects.
    gap = covariance[0, 0, 0] + covariance[0, 1, 1] - 2 * covariance[0, 0, 1]
    assert float(gap) == pytest.approx(2 * 0.7, rel=IDENTITY)
    assert float(variance[0, 0]) == pytest.approx(float(covariance[0, 0, 0]), rel=IDENTITY)
    _, spread = ours.predict_difference(duels.items[:2], duels.items[:2])
    np.testing.assert_allclose(spread, 2 * 0.7, rtol=IDENTITY)
    _, same = ours.predict_difference(numbered(duels)[:2], numbered(duels)[:2])
    np.testing.assert_array_equal(same, 0.0)


def test_gradient_reaches_the_variance_of_the_effect(duels: spg.Duels) -> None:
    for approximation, z in ((spg.Exact(), None), (spg.VFE(), duels.items[:3])):
        ours = model(duels, approximation=approximation, inducing_variable=z)
        variable = ours.kernel.kernels[1].variance.unconstrained_variable
        with tf.GradientTape() as tape:
            loss = ours.training_loss()
        slope = float(tape.gradient(loss, variable))
        start, step, values = variable.numpy(), 1e-4, []
        for sign in (1, -1):
            variable.assign(start + sign * step)
            values.append(float(ours.training_loss()))
        variable.assign(start)
        assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=GRADIENT)
        assert abs(slope) > 1e-3


def test_active_dims_of_the_other_terms_count_features(duels: spg.Duels) -> None:
    kernel = gpflow.kernels.SquaredExponential(active_dims=slice(1, None)) + spg.ItemEffect()
    ours = model(duels, kernel)
    moved = duels.items + np.array([3.0, 0.0])
    np.testing.assert_array_equal(ours.predict_f(duels.items)[0], ours.predict_f(moved)[0])
    # The kernel that was passed in is untouched.
    assert kernel.kernels[0].active_dims == slice(1, None)


def test_mean_function_sees_the_features_only(duels: spg.Duels) -> None:
    mean = gpflow.functions.Linear(A=[[1.0], [0.0]], b=[0.0])
    ours = model(duels, mean_function=mean)
    far = np.array([[100.0, 100.0]])
    assert float(ours.predict_f(far)[0]) == pytest.approx(100.0, rel=FIXED_POINT)


@pytest.mark.slow
def test_optimise_learns_the_variance(duels: spg.Duels) -> None:
    ours = model(duels)
    before = ours.log_evidence()
    spg.optimise(ours, max_iterations=10)
    assert ours.log_evidence() > before
    assert float(ours.kernel.kernels[1].variance.numpy()) != pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (lambda: with_effect() + spg.ItemEffect(), {}, "has 2 ItemEffect terms"),
        (lambda: features_kernel() * spg.ItemEffect(), {}, "add it to the others"),
        (spg.ItemEffect, {"approximation": spg.VFE()}, apart("effects_of_items_alone", "inducing")),
    ],
)
def test_refusals(duels: spg.Duels, kernel: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(duels, kernel(), **options)


def test_row_numbers_that_are_none_are_refused(duels: spg.Duels) -> None:
    for number in (float(N), 0.5):
        with pytest.raises(ValueError, match="not a row number"):
            model(duels).predict_f([[0.0, 0.0, number]])
    with pytest.raises(ValueError, match="2 features, but the new ones have 4"):
        model(duels).predict_f(np.zeros((1, 4)))


@pytest.mark.slow
def test_held_out_duels_are_of_known_items(duels: spg.Duels) -> None:
    """Scores of a fit count the effects of the items, as predictions by row number do."""
    items = pd.DataFrame(duels.items, columns=["a", "b"])
    items.insert(0, "item_id", range(N))
    rows = pd.DataFrame({"winner": duels.winners, "loser": duels.losers, "count": duels.counts})
    table = read_duels(items, rows)
    settings = FitSettings(kernel="se+item", approximation="exact", max_iterations=2)
    holdout = prepare(table, settings)
    fitted, _ = fit_model(holdout)
    won, lost = holdout.test_wins().pairs.T
    rows = np.column_stack([fitted.duels.items, np.arange(N)])
    np.testing.assert_array_equal(fitted.inputs.of_items(), rows)
    expected = np.log(fitted.predict_duel(rows[won], rows[lost]))
    found = predict_held_out(holdout, fitted).forecasts["duels"].log_probabilities["model"]
    np.testing.assert_allclose(found, expected, rtol=ROUNDING)
    unknown = np.log(fitted.predict_duel(rows[won, :-1], rows[lost, :-1]))
    assert np.abs(found - unknown).max() > 0.05


def test_item_effect_alone_is_a_model_of_the_items(duels: spg.Duels) -> None:
    ours = model(duels, spg.ItemEffect(1.0))
    mean, _ = ours.predict_f(numbered(duels))
    wins = np.bincount(duels.winners, duels.counts, N) - np.bincount(duels.losers, duels.counts, N)
    assert np.corrcoef(mean[:, 0], wins)[0, 1] > 0.8
    np.testing.assert_array_equal(ours.predict_f(duels.items)[0], 0.0)


@pytest.mark.slow
def test_no_approximation_takes_the_effects_away(recwarn: pytest.WarningsRecorder) -> None:
    """Their variance is learned beside two inducing inputs; a saved model that knew only some of
    the effects loses it, and says so."""
    rng = np.random.default_rng(0)
    n, t = 60, 900
    x, effect = rng.normal(size=(n, 1)), rng.normal(size=n)
    pairs = rng.permuted(np.tile(np.arange(n), (t, 1)), axis=1)[:, :2]
    ahead = (x[:, 0] + effect)[pairs] @ [1.0, -1.0] + rng.normal(size=t) > 0.0
    duels = spg.Duels(x, np.where(ahead, *pairs.T), np.where(ahead, *pairs.T[::-1]))

    def learned(approximation: Any, most: int | None = None) -> tuple[float, list[str]]:
        kernel = gpflow.kernels.Linear() + spg.ItemEffect(1.0)
        know_effects(kernel, most)
        z = None if not approximation.needs_inducing else x[:2]
        fitted = spg.PreferenceGP(duels, kernel, approximation=approximation, inducing_variable=z)
        recwarn.clear()
        spg.optimise(fitted, 30)
        told = [str(each.message) for each in recwarn]
        assert [lost_effects(fitted)] == (told or [None])
        return float(kernel.kernels[1].variance.numpy()), told

    exact, told = learned(spg.Exact())
    assert exact > 0.3 and not told
    for approximation in (spg.VFE(), spg.FITC(), spg.TightVFE(), spg.HeteroscedasticVFE()):
        variance, told = learned(approximation)
        assert variance == pytest.approx(exact, rel=1e-3) and not told
    variance, told = learned(spg.VFE(), 15)
    assert variance < 0.01
    assert "Of 60 item effects only the 15 of the most compared" in told[0]


def test_what_exact_item_effects_cost(duels: spg.Duels) -> None:
    kernel = with_effect()
    know_effects(kernel, 1)
    told = lost_effects(
        model(duels, kernel, approximation=spg.VFE(), inducing_variable=duels.items[:1])
    )
    # Nine items against one effect and one inducing input: (9 / 2)².
    assert told is not None and "in 20 times the time and with 0.0 GiB" in told
    five = duels.items[[0, 1, 2, 3, 5]]
    told = lost_effects(model(duels, kernel, approximation=spg.VFE(), inducing_variable=five))
    assert told is not None and "in about the time" in told
