"""Covariates, leans and judges of duels that are read in chunks, against the same in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import layout
from tests.cases import assert_same_scores
from tests.together import refused
from tests.tolerances import FIXED_POINT, PARTS, SAME_OPTIMUM, SOLVER

N, T = 12, 160
COVARIATES = ("side", "length")
NEW = np.random.default_rng(9).normal(size=(6, 2))


class Said:
    """Duels with ties, counts, judges and covariates, in two files and in memory."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        self.items = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
        self.items.insert(0, "item_id", [f"i{k}" for k in range(N)])
        winners = rng.integers(N, size=T)
        losers = (winners + rng.integers(1, N, size=T)) % N
        self.frame = pd.DataFrame(
            {
                "winner": [f"i{k}" for k in winners],
                "loser": [f"i{k}" for k in losers],
                "count": rng.integers(1, 3, size=T),
                "tie": (rng.uniform(size=T) < 0.25).astype(int),
                "judge": rng.choice(["Ann", "Bob", "Cem", "Dan"], size=T),
                "side": rng.choice([-1.0, 1.0], size=T),
                "winner_length": rng.normal(size=T),
                "loser_length": rng.normal(size=T),
            }
        )
        self.folder = folder / "duels"
        self.folder.mkdir()
        for k, part in enumerate((self.frame.iloc[:70], self.frame.iloc[70:])):
            part.to_parquet(self.folder / f"{k}.parquet", row_group_size=33, index=False)
        self.duels = spg.read_duels(
            self.items, self.frame, groups="judge", labels=["judge"], covariates=COVARIATES
        )
        self.z = rng.normal(size=(5, 2))

    def stream(self, source: str = "files") -> spg.Duels:
        if source == "memory":
            return spg.stream_duels(self.duels)
        given: Any = self.folder
        if source == "dataset":
            columns = {name: column.to_numpy() for name, column in self.frame.items()}
            given = tf.data.Dataset.from_tensor_slices(columns)
        return spg.stream_duels(
            given, self.items, groups="judge", labels=["judge"], covariates=COVARIATES
        )

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "kernel": gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5]),
            "approximation": spg.FITC(),
            "inducing_variable": self.z,
            "terms": [spg.Coefficients([0.5, 0.2]), spg.Lean("side")],
            "likelihood": spg.Probit(0.3, by="judge", margin=0.4, cuts_by="judge"),
            **more,
        }

    def whole(self, **more: Any) -> spg.PreferenceGP:
        engine = spg.ParallelEP(tolerance=SOLVER)
        return moved(spg.PreferenceGP(self.duels, engine=engine, **self.settings(**more)))

    def streamed(
        self, source: str | spg.Duels = "files", parts: int = 1, **more: Any
    ) -> spg.StreamedGP:
        engine = spg.PartitionedEP(parts=parts, tolerance=SOLVER)
        settings = {"chunk": 37} | self.settings(**more)
        stream = self.stream(source) if isinstance(source, str) else source
        return moved(spg.StreamedGP(stream, engine=engine, **settings))


def moved(model: Any) -> Any:
    """Off the values at which everything begins, by the names of the judges."""
    names = sorted(model.duels.group_names)
    place = np.array([names.index(name) for name in model.duels.group_names])
    for parameter, values in (
        (model.likelihood.noise_ratio, [0.6, 1.0, 1.7, 2.5]),
        (model.likelihood.cut_scale, [1.3, 0.8, 1.0, 1.6]),
    ):
        if parameter is not None:
            parameter.assign(np.array(values)[place])
    for variance in [lean.variance for lean in model.terms.parts(spg.Lean)]:
        variance.assign(0.7)
    return model


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    return Said(tmp_path_factory.mktemp("said"))


def gradient(model: spg.PreferenceGP) -> tuple[float, dict[str, Any]]:
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    variables = model.trainable_variables
    found = tape.gradient(value, variables)
    slopes = map(tf.convert_to_tensor, found)
    return float(value), dict(zip((v.ref() for v in variables), slopes, strict=True))


def parameters(model: Any) -> dict[str, gpflow.Parameter]:
    known = gpflow.utilities.parameter_dict(model)
    return {name: p for name, p in known.items() if p.trainable}


@pytest.mark.covering("files-3")
@pytest.mark.parametrize(
    ("source", "parts"),
    [
        pytest.param("files", 1, marks=pytest.mark.slow),
        pytest.param("files", 3, marks=pytest.mark.slow),
        pytest.param("memory", 1, marks=pytest.mark.slow),
        pytest.param("dataset", 1, marks=pytest.mark.slow),
    ],
)
def test_evidence_and_gradient_are_those_of_memory(said: Said, source: str, parts: int) -> None:
    whole, streamed = said.whole(), said.streamed(source, parts)
    assert streamed.duels.group_names == whole.duels.group_names
    assert streamed.duels.covariate_names == whole.duels.covariate_names
    np.testing.assert_allclose(streamed.duels.covariate_squares, whole.duels.covariate_squares)
    np.testing.assert_array_equal(streamed.duels.group_levels, whole.duels.group_levels)
    value, slopes = gradient(whole)
    found, mine = streamed.evidence_and_gradient()
    assert found == pytest.approx(value, rel=PARTS)
    of_stream = dict(zip((v.ref() for v in streamed.trainable_variables), mine, strict=True))
    theirs, ours = parameters(whole), parameters(streamed)
    assert theirs.keys() == ours.keys()
    assert {
        ".likelihood.noise_ratio",
        ".likelihood.cut_scale",
        ".terms[0].variance",
        ".terms[1].variance",
    } <= ours.keys()
    for name, parameter in ours.items():
        np.testing.assert_allclose(
            of_stream[parameter.unconstrained_variable.ref()],
            slopes[theirs[name].unconstrained_variable.ref()],
            atol=FIXED_POINT,
            err_msg=name,
        )
    one, other = streamed.coefficients(), whole.coefficients()
    assert one.names == other.names and len(one.names) == 2 + 4
    np.testing.assert_allclose(one.mean, other.mean, atol=PARTS)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=PARTS)
    a, b, x = NEW[:3], NEW[3:], np.array([[1.0, 0.3], [-1.0, 0.0], [1.0, -2.0]])
    for groups in (None, ["Ann", "Bob", "Dan"]):
        labels = {} if groups is None else {"judge": groups}
        asked = {"groups": groups, "labels": labels, "covariates": x}
        both = (m.predict_outcome(a, b, **asked) for m in (streamed, whole))
        np.testing.assert_allclose(*both, atol=PARTS)


def test_judges_without_covariates_go_over_items(said: Said) -> None:
    frame = said.frame[["winner", "loser", "tie", "judge"]]
    settings = said.settings(terms=[])
    stream = spg.stream_duels(said.folder, said.items, groups="judge", ignore=["side"])
    assert stream.covariate_names == ()
    counted = spg.read_duels(said.items, frame.assign(count=said.frame["count"]), groups="judge")
    whole = moved(spg.PreferenceGP(counted, engine=spg.ParallelEP(tolerance=SOLVER), **settings))
    streamed = moved(
        spg.StreamedGP(stream, engine=spg.PartitionedEP(parts=2, tolerance=SOLVER), **settings)
    )
    value, slopes = gradient(whole)
    found, mine = streamed.evidence_and_gradient()
    assert found == pytest.approx(value, rel=PARTS)
    of_stream = dict(zip((v.ref() for v in streamed.trainable_variables), mine, strict=True))
    theirs = parameters(whole)
    for name, parameter in parameters(streamed).items():
        np.testing.assert_allclose(
            of_stream[parameter.unconstrained_variable.ref()],
            slopes[theirs[name].unconstrained_variable.ref()],
            atol=FIXED_POINT,
            err_msg=name,
        )


@pytest.mark.slow
def test_saved_ordinary_and_scored(said: Said, tmp_path: Path) -> None:
    model = said.streamed()
    ordinary = model.in_memory()
    assert ordinary.infer().sweeps == 1
    assert ordinary.log_evidence() == pytest.approx(model.log_evidence(), rel=PARTS)
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.duels.group_names == model.duels.group_names
    assert loaded.duels.roles["judge"] == "judge" and loaded.terms.labels == ("judge",)
    np.testing.assert_array_equal(loaded.coefficients().mean, model.coefficients().mean)
    whole = spg.evaluate(ordinary, said.frame)["held_out"]["model"]
    for one in (loaded, ordinary):  # the column is known
        scores = spg.evaluate(one, said.folder)["held_out"]["model"]
        assert_same_scores(scores, whole, rel=1e-7)
    without = said.streamed(terms=[spg.Coefficients([0.5, 0.2])])
    scores = spg.evaluate(without, said.folder)["held_out"]["model"]
    assert scores["nlp_nats"] != pytest.approx(whole["nlp_nats"], rel=1e-4)
    one, other = (m.sample_wins(T, np.random.default_rng(0)) for m in (model, ordinary))
    assert set(np.round(one.noise, 9)) == set(np.round(other.noise, 9))


def test_part_of_a_stream_knows_its_own_judges(said: Said) -> None:
    stream = said.stream()
    late = stream.part(100, 104)
    used = dict.fromkeys(said.frame["judge"].iloc[100:104])
    model = spg.StreamedGP(
        late, **said.settings(likelihood=spg.Probit(0.3, by="judge", margin=0.4))
    )
    assert set(model.duels.group_names) == set(used) < set(said.frame["judge"])
    (chunk,) = model.stream.chunks(T)
    assert list(chunk.given.judge.labels) == list(said.frame["judge"].iloc[100:104])
    names = model.coefficients().names
    assert len(names) == 2 + len(used)
    with pytest.warns(UserWarning, match="is unknown to the model"):
        spg.evaluate(model, stream)


def test_whole_numbers_and_texts_are_labels_as_in_memory(said: Said, tmp_path: Path) -> None:
    for labels in (np.arange(T) % 3 + 7, [f"0{k % 3}" for k in range(T)], ["7", "x"] * (T // 2)):
        frame = said.frame.assign(judge=labels)
        frame.to_parquet(tmp_path / "duels.parquet", row_group_size=20, index=False)
        stream = spg.stream_duels(tmp_path / "duels.parquet", said.items, groups="judge")
        wanted = spg.read_duels(said.items, frame, groups="judge").group_names
        assert stream.group_names == wanted
    category = frame.assign(judge=pd.Categorical(said.frame["judge"]))
    category.to_parquet(tmp_path / "duels.parquet", index=False)
    stream = spg.stream_duels(tmp_path / "duels.parquet", said.items, groups="judge")
    assert stream.group_names == tuple(dict.fromkeys(said.frame["judge"]))


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({}, {"groups": "who"}, "The column of judges is 'who'"),
        ({}, {"groups": "count"}, "The column 'count' cannot hold judges"),
        (
            {},
            {"covariates": ["slot"]},
            "covariate 'slot' is not a column .*, nor",
        ),
        ({"side": 1.0}, {"covariates": ["side"]}, "'side' is 1, winner less loser, in all duels"),
        (
            {"side": np.nan},
            {"covariates": ["side"]},
            "'side' has a missing value in row 3 of late",
        ),
        (
            {"loser_length": np.inf},
            {"covariates": ["length"]},
            "'loser_length' has inf in row 3",
        ),
        (
            {"judge": None},
            {"groups": "judge"},
            "'judge'. is missing in row 3 of late.parquet",
        ),
    ],
)
def test_what_is_wrong_in_a_later_file_is_named(
    said: Said, tmp_path: Path, change: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    frame = said.frame.assign(**({"side": 1.0} if change.get("side") == 1.0 else {}))
    late = frame.iloc[100:].reset_index(drop=True)
    for name, value in change.items():
        late.loc[3, name] = value
    frame.iloc[:100].to_parquet(tmp_path / "early.parquet", index=False)
    late.to_parquet(tmp_path / "late.parquet", index=False)
    with pytest.raises(ValueError, match=words):
        spg.stream_duels(tmp_path, said.items, **more)


@pytest.mark.slow
def test_a_subset_does_not_learn_the_noise_of_judges(said: Said) -> None:
    with refused("gradients_of_a_subset", "noise_by_group"):
        spg.optimise(said.streamed(), 2, gradients="subset", rng=np.random.default_rng(0))
    model = said.streamed(likelihood=spg.Probit(0.3, margin=0.4))
    before = float(model.terms.parts(spg.Lean)[0].variance.numpy())
    spg.optimise(model, 2, gradients="subset", rng=np.random.default_rng(0))
    assert float(model.terms.parts(spg.Lean)[0].variance.numpy()) != before


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(0, id="all"),
        pytest.param(3, id="judges in another order", marks=pytest.mark.slow),
    ],
)
def test_what_fits_into_memory_is_learned_there(said: Said, first: int) -> None:
    found, passes = [], []
    stream = said.stream().part(first, T)
    for chunk in (37, None):
        model, seen = said.streamed(stream, chunk=chunk), set[str]()
        assert model.fits_in_memory is (chunk is None)
        report = spg.optimise(model, 3, progress=lambda at, seen=seen: seen.add(at.what))
        assert report.evaluations >= 4 and report.log_evidence == model.log_evidence()
        assert report.gradients == ("chunks" if chunk or first else "memory")
        assert ("gradients in memory," in str(report)) is (report.gradients == "memory")
        found.append([*report.history, report.log_prior, report.log_evidence])
        passes.append(seen)
    np.testing.assert_allclose(*found, rtol=SAME_OPTIMUM)
    # Judges are numbered as they appear; those of a part have their noise by other numbers.
    assert passes == [{"sweep", "sums", "gradient"}, passes[0] if first else {"sweep"}]


def test_what_does_not_fit_into_memory_is_learned_from_chunks(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said.streamed(chunk=None).fits_in_memory
    assert not said.streamed(chunk=None, scheduler="local").fits_in_memory
    said.frame.assign(trust=0.5).to_parquet(tmp_path / "weighted.parquet")
    settings = said.settings(terms=(), likelihood=spg.Probit(0.3, margin=0.4))
    for weights in (None, "trust"):
        unused = () if weights else ("trust",)
        stream = spg.stream_duels(
            tmp_path / "weighted.parquet", said.items, weights=weights, ignore=unused
        )
        assert spg.StreamedGP(stream, **settings).fits_in_memory is not bool(weights)
    for free, fits in ((1 << 30, True), (1 << 17, False), (None, True)):
        monkeypatch.setattr(layout, "free_memory", lambda free=free: free)
        assert said.streamed(chunk=None).fits_in_memory is fits
    assert layout.fits_in_memory(60, 140_000, 62, 63)
    assert not layout.fits_in_memory(60, 10_000_000, 62, 63)
    assert not layout.fits_in_memory(9, 8, 2, 1)
