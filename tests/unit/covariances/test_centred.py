"""Linear terms about a centre: duels see differences alone, wherever the features are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances.kernels import centred
from tests.tolerances import EVIDENCE, IDENTITY, SOLVER

RNG = np.random.default_rng(0)
# Features that a far centre leaves as they are to the last digit.
ITEMS = np.round(RNG.normal(size=(9, 2)) * 1024.0) / 1024.0
FAR = 2.0**23
WINNERS = RNG.integers(9, size=24)
LOSERS = (WINNERS + RNG.integers(1, 9, size=24)) % 9
PEOPLE = np.sort(RNG.integers(3, size=24))


def linear() -> gpflow.kernels.Kernel:
    return gpflow.kernels.Linear([0.5, 0.7])


def kernel(name: str) -> gpflow.kernels.Kernel:
    return linear() if name == "linear" else linear() + gpflow.kernels.SquaredExponential(0.4)


APPROXIMATIONS = {
    "Exact items": spg.Exact(over="items"),
    "Exact duels": spg.Exact(over="duels"),
    "VFE items": spg.VFE(over="items"),
    "VFE duels": spg.VFE(over="duels"),
    "FITC": spg.FITC(),
    "TightVFE": spg.TightVFE("logdet"),
    "PITC": spg.PITC(3),
}


def model_at(
    centre: float, approximation: spg.Approximation, name: str = "sum", taste: bool = False
) -> spg.PreferenceGP:
    more = {"inducing_variable": ITEMS[:4] + centre} if approximation.needs_inducing else {}
    return spg.PreferenceGP(
        spg.Duels(ITEMS + centre, WINNERS, LOSERS, people=PEOPLE),
        kernel(name),
        approximation=approximation,
        engine=spg.ParallelEP(tolerance=SOLVER),
        terms=[spg.Taste(linear())] if taste else [],
        **more,
    )


def told(model: spg.PreferenceGP, centre: float) -> list[Any]:
    """What a model says of duels, and the slopes of its evidence."""
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    slopes = tape.gradient(value, model.trainable_variables)
    items = ITEMS + centre
    pairs = [model.predict_difference(items[:3], items[3:6])]
    if model.terms.taste is not None:
        pairs.append(model.predict_difference(items[:3], items[3:6], people=[0, 1, None]))
        pairs.append(
            model.meet(spg.Duels(items, [0], [1])).predict_difference(items[:3], items[3:6])
        )
    return [
        float(value),
        *map(np.asarray, pairs),
        *(np.asarray(tf.convert_to_tensor(s)) for s in slopes),
    ]


@pytest.mark.covering("Exact items-False", "VFE items-False")
@pytest.mark.parametrize("taste", [False, True])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_features_far_from_the_origin(approximation: str, taste: bool) -> None:
    row = APPROXIMATIONS[approximation]
    if taste and isinstance(row, spg.TightVFE):
        pytest.skip("it has no form for tastes")
    near, far = (told(model_at(at, row, taste=taste), at) for at in (0.0, FAR))
    for one, other in zip(near, far, strict=True):
        np.testing.assert_allclose(other, one, rtol=EVIDENCE, atol=EVIDENCE)


def test_a_stream_is_the_same_and_is_kept(tmp_path: Path) -> None:
    whole = model_at(FAR, spg.VFE())
    stream = spg.StreamedGP(
        spg.stream_duels(whole.duels),
        kernel("sum"),
        approximation=spg.VFE(),
        inducing_variable=ITEMS[:4] + FAR,
        engine=spg.PartitionedEP(parts=1, tolerance=SOLVER),
        chunk=10,
    )
    assert stream.log_evidence() == pytest.approx(whole.log_evidence(), abs=EVIDENCE)
    pairs = ITEMS[:3] + FAR, ITEMS[3:6] + FAR
    wanted = whole.predict_duel(*pairs)
    for model in (whole, stream):
        spg.save(model, tmp_path / type(model).__name__)
        kept = spg.load(tmp_path / type(model).__name__)
        np.testing.assert_array_equal(kept.centre, model.centre)
        np.testing.assert_array_equal(kept.predict_duel(*pairs), model.predict_duel(*pairs))
        np.testing.assert_allclose(model.predict_duel(*pairs), wanted, rtol=EVIDENCE)


@pytest.mark.slow
def test_what_is_exported_is_the_same(tmp_path: Path) -> None:
    whole, pairs = model_at(FAR, spg.VFE()), (ITEMS[:3] + FAR, ITEMS[3:6] + FAR)
    spg.export_saved_model(whole, tmp_path / "exported")
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    found = exported.predict_duel(*map(tf.constant, pairs))["probability"]
    np.testing.assert_allclose(found, whole.predict_duel(*pairs), rtol=EVIDENCE)


@pytest.mark.parametrize("approximation", ["Exact items", "Exact duels", "VFE items"])
@pytest.mark.covering(every=3)
def test_single_utilities_are_about_the_origin(approximation: str) -> None:
    """As without a centre, where inducing inputs are as many as features."""
    model, before = (model_at(3.0, APPROXIMATIONS[approximation], "linear") for _ in range(2))
    before.centre = None
    assert model.log_evidence() == pytest.approx(before.log_evidence(), abs=IDENTITY)
    for full in (False, True):
        for one, other in zip(
            model.predict_f(ITEMS, full_cov=full),
            before.predict_f(ITEMS, full_cov=full),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=IDENTITY, atol=IDENTITY)


def test_no_factor_and_no_projection_is_centred() -> None:
    centre = np.ones(2)
    for whole in (
        linear() * gpflow.kernels.SquaredExponential(),
        spg.Projected(linear(), np.eye(2)),
        gpflow.kernels.SquaredExponential() + gpflow.kernels.Constant(),
    ):
        assert centred(whole, centre) is whole
    found = centred(linear() + gpflow.kernels.Constant(), centre)
    assert float(found(np.ones((1, 2)), full_cov=False)[0]) == 1.0  # the constant alone
