"""Ties, margins, weights and groups: against EP for boxes, central differences and equal data."""

from __future__ import annotations

import warnings
from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from tests.together import refused
from tests.tolerances import (
    EVIDENCE,
    FIXED_POINT,
    GRADIENT,
    GRADIENT_SOLVER,
    IDENTITY,
    ROUNDING,
    SOLVER,
)

ITEMS, PAIRS, GROUPS = 9, 24, 3
MARGIN, NOISE = 0.4, 0.3


def data(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(ITEMS, 2))
    winners = rng.integers(0, ITEMS, PAIRS)
    losers = (winners + rng.integers(1, ITEMS, PAIRS)) % ITEMS
    return {
        "items": items,
        "winners": winners,
        "losers": losers,
        "ties": rng.random(PAIRS) < 0.3,
        "groups": rng.integers(0, GROUPS, PAIRS),
    }


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=0.9)


def build(duels: spg.Duels, approximation: object = None, **options: object) -> spg.PreferenceGP:
    options = {
        "engine": spg.ParallelEP(tolerance=SOLVER),
        "likelihood": spg.Probit(NOISE),
    } | options
    inducing = None if approximation is None else duels.items[:6]
    return spg.PreferenceGP(
        duels,
        kernel(),
        approximation=approximation or spg.Exact(),
        inducing_variable=inducing,
        **options,
    )


def test_ties_are_intervals_and_wins_lie_beyond_the_margin() -> None:
    given = data()
    duels = spg.Duels(**{k: v for k, v in given.items() if k != "groups"})
    model = build(duels, likelihood=spg.Probit(NOISE, margin=MARGIN))
    a = np.zeros((PAIRS, ITEMS))
    a[np.arange(PAIRS), given["losers"]] += 1
    a[np.arange(PAIRS), given["winners"]] -= 1
    k = kernel()(given["items"]).numpy()
    box = spg.truncated_normal_ep(
        0.0,
        a @ k @ a.T + 2 * NOISE * np.eye(PAIRS),
        np.where(given["ties"], -MARGIN, -np.inf),
        np.where(given["ties"], MARGIN, -MARGIN),
        engine=spg.ParallelEP(tolerance=SOLVER),
    )
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(box.log_mass, abs=IDENTITY)
    # E f = K A' (K_vv + 2s²I)⁻¹ E v
    weights = np.linalg.solve(a @ k @ a.T + 2 * NOISE * np.eye(PAIRS), box.mean)
    mean, _ = model.predict_f(given["items"])
    np.testing.assert_allclose(mean[:, 0], k @ a.T @ weights, atol=FIXED_POINT)


ENGINES = [
    spg.ParallelEP(tolerance=GRADIENT_SOLVER),
    spg.ParallelEP(tolerance=GRADIENT_SOLVER, site_power=0.5),
    spg.Variational(tolerance=GRADIENT_SOLVER),
    spg.Laplace(tolerance=GRADIENT_SOLVER),
    spg.Laplace(link="logit", tolerance=GRADIENT_SOLVER),
]


@pytest.mark.covering("ParallelEP0-None", "ParallelEP1-FITC()")
@pytest.mark.parametrize("approximation", [None, spg.VFE(), spg.FITC()], ids=repr)
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: f"{type(e).__name__}{ENGINES.index(e)}")
def test_gradients_of_margin_noise_ratios_and_kernel(engine: object, approximation: object) -> None:
    logit = engine is ENGINES[-1]  # whose noise is its own
    likelihood = spg.Probit(NOISE, by=None if logit else "judge", margin=MARGIN)
    model = build(spg.Duels(**data()), approximation, engine=engine, likelihood=likelihood)
    assert model.likelihood.margin is not None
    if model.likelihood.noise_ratio is not None:
        model.likelihood.noise_ratio.assign([0.5, 1.0, 2.0])
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    variables = model.trainable_variables
    assert any(v is model.likelihood.margin.unconstrained_variable for v in variables)
    for variable, slope in zip(variables, tape.gradient(value, variables), strict=True):
        start, step = variable.numpy(), 1e-5
        direction = np.random.default_rng(1).normal(size=start.shape)
        along = 0.0 if slope is None else float(np.sum(slope * direction))
        values = []
        for sign in (1, -1):
            variable.assign(start + sign * step * direction)
            values.append(model.log_evidence())
        variable.assign(start)
        central = (values[0] - values[1]) / (2 * step)
        assert along == pytest.approx(central, rel=GRADIENT, abs=GRADIENT)


def test_outcomes_add_up_and_a_margin_makes_ties() -> None:
    given = data()
    duels = spg.Duels(**{k: v for k, v in given.items() if k != "groups"})
    model = build(duels, likelihood=spg.Probit(NOISE, margin=MARGIN))
    a, b = given["items"][:4], given["items"][4:8]
    outcomes = model.predict_outcome(a, b).numpy()
    np.testing.assert_allclose(outcomes.sum(1), 1.0, atol=IDENTITY)
    np.testing.assert_allclose(outcomes[:, 0], model.predict_duel(a, b), atol=IDENTITY)
    np.testing.assert_allclose(outcomes[:, ::-1], model.predict_outcome(b, a), atol=IDENTITY)
    assert np.all(outcomes[:, 1] > 0.05)
    plain = build(spg.Duels(given["items"], given["winners"], given["losers"]))
    np.testing.assert_array_equal(plain.predict_outcome(a, b)[:, 1], 0.0)


def test_a_weight_of_two_is_two_duels() -> None:
    given = data()
    once = spg.Duels(given["items"], given["winners"], given["losers"], weights=np.full(PAIRS, 2.0))
    twice = spg.Duels(given["items"], given["winners"], given["losers"], counts=np.full(PAIRS, 2))
    assert once.num_duels == PAIRS
    for approximation in (None, spg.VFE(), spg.PITC(3)):
        one, two = build(once, approximation), build(twice, approximation)
        assert one.log_evidence() == pytest.approx(two.log_evidence(), abs=EVIDENCE)
    half = spg.Duels(given["items"], given["winners"], given["losers"], weights=np.full(PAIRS, 0.5))
    assert build(half).log_evidence() > build(once).log_evidence()


@pytest.mark.slow
def test_equal_noise_ratios_are_one_noise_and_others_are_not() -> None:
    given = data()
    plain = {k: v for k, v in given.items() if k not in ("groups", "ties")}
    groups = spg.Duels(**plain, groups=given["groups"])
    for approximation in (None, spg.VFE(), spg.FITC(), spg.TightVFE("rank")):
        one = build(spg.Duels(**plain), approximation)
        several = build(groups, approximation, likelihood=spg.Probit(NOISE, by="judge"))
        assert several.log_evidence() == pytest.approx(one.log_evidence(), abs=EVIDENCE)
        assert several.lower_bound() == pytest.approx(one.lower_bound(), abs=EVIDENCE)
        several.likelihood.noise_ratio.assign([0.2, 1.0, 4.0])
        assert abs(several.log_evidence() - one.log_evidence()) > 0.01


def test_unknown_groups_are_as_none_and_it_is_said() -> None:
    given = data()
    del given["ties"]
    given["groups"] = np.array(["ann", "ben", "cem"])[given["groups"]]
    model = build(spg.Duels(**given), likelihood=spg.Probit(NOISE, by="judge"))
    model.likelihood.noise_ratio.assign([0.2, 1.0, 4.0])
    a, b = given["items"][:2], given["items"][2:4]
    nobody = model.predict_duel(a, b).numpy()
    with pytest.warns(UserWarning, match="'dora' is unknown .* .1 of 2 pairs"):
        found = model.predict_duel(a, b, groups=["dora", model.duels.group_names[2]]).numpy()
    assert found[0] == pytest.approx(nobody[0], rel=ROUNDING)
    assert abs(found[1] - 0.5) < abs(nobody[1] - 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_duel(a, b, groups="ann")


@pytest.mark.slow
def test_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    given = data()
    weights = np.random.default_rng(3).random(PAIRS) + 0.5
    model = build(
        spg.Duels(**given, weights=weights),
        spg.FITC(),
        likelihood=spg.Probit(NOISE, by="judge", margin=MARGIN),
    )
    model.likelihood.noise_ratio.assign([0.5, 1.0, 2.0])
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    a, b = given["items"][:3], given["items"][3:6]
    np.testing.assert_array_equal(model.predict_outcome(a, b, 1), again.predict_outcome(a, b, 1))
    np.testing.assert_array_equal(model.duels.weights, again.duels.weights)
    assert again.duels.group_names == model.duels.group_names
    assert again.infer() == model.infer()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ties": np.full(PAIRS, 2)}, "'ties' has 2 in duel 0; give True"),
        ({"ties": [True]}, r"ties has shape \(1,\); give \(24,\)"),
        ({"weights": np.full(PAIRS, -1.0)}, "weight of duel 0 is -1.0; give a positive"),
        ({"weights": ["x"] * PAIRS}, "weights is .*; give numbers"),
        ({"groups": [None] * PAIRS}, "The judge of duel 0 is None; name each"),
    ],
)
def test_malformed_judgements(change: dict[str, object], message: str) -> None:
    given = data()
    with pytest.raises(ValueError, match=message):
        spg.Duels(given["items"], given["winners"], given["losers"], **change)


def test_malformed_models() -> None:
    given = data()
    duels = spg.Duels(**given)
    with refused("ties", "no_margin"):
        build(duels)
    with pytest.raises(ValueError, match="margin is -1; give a number, above 0, or None"):
        build(duels, likelihood=spg.Probit(margin=-1))
    with refused("logistic", "noise_by_group"):
        build(
            duels,
            likelihood=spg.Probit(by="judge", margin=0.1),
            engine=spg.Laplace(link="logit"),
        )
    del given["groups"], given["ties"]
    with refused("noise_by_group", "duels_without_judges"):
        build(spg.Duels(**given), likelihood=spg.Probit(by="judge"))
    with refused("groups", "one_noise"):
        build(spg.Duels(**given)).predict_duel(given["items"][:1], given["items"][1:2], groups="x")
