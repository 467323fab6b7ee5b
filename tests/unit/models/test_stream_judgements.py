"""Ties and weights of streamed duels, against the same duels in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from tests.cases import assert_same_scores
from tests.together import refused
from tests.tolerances import FIXED_POINT, PARTS, SOLVER

N, T, M = 25, 200, 8
NEW = np.random.default_rng(9).normal(size=(6, 2))
APPROXIMATIONS = {"VFE": spg.VFE, "FITC": spg.FITC}


class Judged:
    """Duels some of which are tied, with weights, in files, in a dataset and in memory."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        self.items = rng.normal(size=(N, 2))
        winners = rng.integers(N, size=T)
        losers = (winners + rng.integers(1, N, size=T)) % N
        counts = rng.integers(1, 4, size=T)
        ties = rng.uniform(size=T) < 0.3
        weights = rng.uniform(0.2, 2.0, size=T)
        # Equal duels are one site in memory and several here: the same, but for powers of a factor.
        ends = np.stack([winners, losers], 1)
        ends[ties] = np.sort(ends[ties], 1)
        label = np.column_stack([ends, ties])
        _, at, equal = np.unique(label, axis=0, return_inverse=True, return_counts=True)
        weights = np.where(equal[at.reshape(-1)] > 1, np.maximum(weights, 1.0), weights)
        assert np.sum(weights * counts < 1.0) > 20
        self.duels = spg.Duels(
            self.items, winners, losers, counts=counts, ties=ties, weights=weights
        )
        self.z = rng.normal(size=(M, 2))
        judged = {"count": counts, "tie": ties.astype(int), "trust": weights}
        self.frame = pd.DataFrame({"winner": winners, "loser": losers, **judged})
        self.by_ids = folder / "ids.parquet"
        self.frame.to_parquet(self.by_ids, row_group_size=37, index=False)
        sides = {"winner": winners, "loser": losers}
        inline = {
            f"{side}_x{j}": self.items[rows, j] for side, rows in sides.items() for j in range(2)
        }
        self.inline = folder / "inline.parquet"
        pd.DataFrame({**inline, **judged}).to_parquet(self.inline, index=False)

    def stream(self, source: str) -> spg.Duels:
        if source == "ids":
            return spg.stream_duels(self.by_ids, self.items, weights="trust")
        if source == "inline":
            return spg.stream_duels(self.inline, weights="trust", standardise=False)
        if source == "memory":
            return spg.stream_duels(self.duels)
        columns = {name: column.to_numpy() for name, column in self.frame.items()}
        return spg.stream_duels(
            tf.data.Dataset.from_tensor_slices(columns), self.items, weights="trust"
        )

    def settings(self, approximation: str) -> dict[str, Any]:
        return {
            "kernel": gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5]),
            "approximation": APPROXIMATIONS[approximation](),
            "inducing_variable": self.z,
            "likelihood": spg.Probit(0.3, margin=0.4),
            "mean_function": gpflow.functions.Linear(A=[[0.4], [-0.3]]),
        }

    def whole(self, approximation: str) -> spg.PreferenceGP:
        engine = spg.ParallelEP(tolerance=SOLVER)
        return spg.PreferenceGP(self.duels, engine=engine, **self.settings(approximation))

    def streamed(self, source: str, approximation: str, **more: Any) -> spg.StreamedGP:
        engine = spg.PartitionedEP(parts=2, tolerance=SOLVER)
        settings = self.settings(approximation)
        return spg.StreamedGP(self.stream(source), engine=engine, **settings, **more)


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Judged:
    return Judged(tmp_path_factory.mktemp("judged"))


@pytest.mark.slow  # streams and memory share their algebra, which test_parts holds
@pytest.mark.parametrize(
    ("source", "approximation"),
    [("ids", "VFE"), ("ids", "FITC"), ("inline", "FITC"), ("memory", "VFE"), ("dataset", "VFE")],
)
def test_posterior_and_gradient_are_those_of_duels_in_memory(
    judged: Judged, source: str, approximation: str
) -> None:
    whole, streamed = judged.whole(approximation), judged.streamed(source, approximation, chunk=64)
    assert streamed.duels.num_ties == whole.duels.num_ties > 0
    assert streamed.duels.num_duels == whole.duels.num_duels
    for one, other in zip(streamed.predict_f(NEW), whole.predict_f(NEW), strict=True):
        np.testing.assert_allclose(one, other, atol=PARTS)
    one, other = (model.predict_outcome(NEW[:3], NEW[3:]) for model in (streamed, whole))
    np.testing.assert_allclose(one, other, atol=PARTS)
    with tf.GradientTape() as tape:
        loss = whole.training_loss()
    theirs = dict(
        zip(
            [v.ref() for v in whole.trainable_variables],
            tape.gradient(loss, whole.trainable_variables),
            strict=True,
        )
    )
    value, mine = streamed.evidence_and_gradient()
    assert value == pytest.approx(-float(loss), rel=PARTS)
    pairs = zip(whole.trainable_variables, mine, strict=True)
    assert any(
        v is whole.likelihood.margin.unconstrained_variable for v in whole.trainable_variables
    )
    for variable, gradient in pairs:
        np.testing.assert_allclose(
            -gradient, tf.convert_to_tensor(theirs[variable.ref()]), atol=FIXED_POINT
        )


def test_saved_ordinary_and_learned(judged: Judged, tmp_path: Path) -> None:
    model = judged.streamed("ids", "VFE")
    ordinary = model.in_memory()
    assert ordinary.infer().sweeps == 1 and ordinary.duels.num_ties == model.duels.num_ties
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.duels.num_ties == model.duels.num_ties
    one, other = (m.predict_outcome(NEW[:3], NEW[3:]) for m in (loaded, model))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    scores = spg.evaluate(loaded, judged.duels)
    whole = spg.evaluate(ordinary, judged.duels)
    assert scores["ties"] == whole["ties"] > 0
    found, expected = (each["held_out_outcomes"]["model"] for each in (scores, whole))
    assert_same_scores(found, expected, abs=PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", ["chunks", pytest.param("subset", marks=pytest.mark.slow)])
def test_the_margin_is_learned(judged: Judged, gradients: str) -> None:
    model = judged.streamed("ids", "VFE")
    gpflow.set_trainable(model.inducing_variable, False)
    report = spg.optimise(
        model,
        60,
        gradients=gradients,
        rng=np.random.default_rng(0),
        polish=5 * (gradients != "chunks"),
    )
    whole = judged.whole("VFE")
    gpflow.set_trainable(whole.inducing_variable, False)
    assert report.log_evidence == pytest.approx(spg.optimise(whole, 60).log_evidence, abs=1e-3)
    assert float(model.likelihood.margin.numpy()) == pytest.approx(
        float(whole.likelihood.margin.numpy()), rel=0.02
    )


def test_a_sample_keeps_ties_and_weights(judged: Judged) -> None:
    duels = judged.stream("ids").sample(T, np.random.default_rng(0))
    assert duels.num_ties == judged.duels.num_ties
    np.testing.assert_allclose(np.sort(duels.weights), np.sort(judged.duels.weights))


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({}, {}, "has a column 'weight', which nothing was said of; give weights='weight'"),
        ({}, {"weights": "count"}, "The column 'count' cannot hold weights"),
        ({}, {"weights": "wait"}, "The column of weights is 'wait'"),
        ({"ties": 0}, {"weights": "weight"}, "has a column 'ties'.* call it 'tie' if it has 1 for"),
        ({"tie": 2}, {"weights": "weight"}, "'tie' has 2.* in row 0 of .*; give 1 for a tie"),
        ({"weight": -1.0}, {"weights": "weight"}, "'weight' has -1.0 in row 0 of .*; give a pos"),
        ({"weight": np.nan}, {"weights": "weight"}, "'weight' has a missing value in row 0 of"),
        ({}, {"weights": "weight", "ignore": ["tie"]}, "'tie' of .* cannot be ignored"),
    ],
)
def test_bad_columns_are_named(judged: Judged, tmp_path: Path, change, more, words) -> None:
    path = tmp_path / "duels.parquet"
    frame = judged.frame.rename(columns={"trust": "weight"}).assign(**change)
    frame.to_parquet(path, index=False)
    with pytest.raises(ValueError, match=words):
        spg.stream_duels(path, judged.items, **more)


def test_ties_that_no_margin_was_learned_for_are_told(judged: Judged, tmp_path: Path) -> None:
    won = judged.frame[judged.frame.tie == 0].drop(columns=["tie", "trust"])
    won.to_parquet(tmp_path / "won.parquet", index=False)
    settings = judged.settings("VFE") | {"likelihood": spg.Probit(0.3)}
    model = spg.StreamedGP(spg.stream_duels(tmp_path / "won.parquet", judged.items), **settings)
    (tmp_path / "new").mkdir()
    renamed = judged.frame.rename(columns={"trust": "weight"})
    renamed.to_parquet(tmp_path / "new" / "0.parquet", index=False)
    with pytest.warns(UserWarning, match="of the duels are ties, which a model without a margin"):
        found = spg.evaluate(model, tmp_path / "new")
    assert found["held_out_outcomes"] == {} and found["ties"] == judged.duels.num_ties
    assert found["held_out"]["model"]["duels"] == judged.duels.num_duels - judged.duels.num_ties
    with refused("duels_object", "items"):
        spg.evaluate(model, judged.stream("ids"), judged.items)


def test_ties_need_a_margin(judged: Judged) -> None:
    settings = judged.settings("VFE") | {"likelihood": spg.Probit(0.3)}
    with refused("ties", "no_margin"):
        spg.StreamedGP(judged.stream("ids"), **settings)
    with pytest.raises(ValueError, match=r"margin is -1\.0; give a number, above 0"):
        spg.Probit(margin=-1.0)
    dataset = tf.data.Dataset.from_tensor_slices({"winner": [0, 1], "loser": [1, 2]})
    with pytest.raises(ValueError, match="is 'trust'; choose from"):
        spg.stream_duels(dataset, judged.items, weights="trust")
    with pytest.raises(ValueError, match="and weights do not go together"):
        spg.stream_duels(judged.duels, weights="trust")
