"""Streamed models, in one part and in several, against the same duels in memory."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from threadpoolctl import threadpool_info, threadpool_limits

import sparse_prefgp as spg
from sparse_prefgp.approximations import layout
from sparse_prefgp.models.streaming import algebra
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.threads import in_order
from tests.cases import SPARSE, assert_same_scores
from tests.together import apart, refused
from tests.tolerances import (
    FIXED_POINT,
    GRADIENT,
    GRADIENT_SOLVER,
    IDENTITY,
    PARTS,
    ROUNDING,
    SOLVER,
)

N, T, M = 25, 200, 8
SUMMED = [name for name, made in SPARSE.items() if made().summed_over_duels]
NEW = np.random.default_rng(9).normal(size=(6, 2))


class Case:
    """Duels between items two of which have equal features, some repeated, some with a count."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.items = rng.normal(size=(N, 2))
        self.items[1] = self.items[0]
        self.winners = rng.integers(N, size=T)
        self.losers = (self.winners + rng.integers(1, N, size=T)) % N
        self.counts = rng.integers(1, 4, size=T)
        self.z = rng.normal(size=(M, 2))
        ids = {"winner": self.winners, "loser": self.losers, "count": self.counts}
        self.by_ids = _written(folder / "ids", pd.DataFrame(ids))
        keep = np.any(self.items[self.winners] != self.items[self.losers], 1)
        self.distinct = keep
        sides = {"winner": self.winners[keep], "loser": self.losers[keep]}
        inline = {
            f"{side}_x{j}": self.items[rows, j] for side, rows in sides.items() for j in range(2)
        }
        self.inline = _written(
            folder / "inline", pd.DataFrame({**inline, "count": self.counts[keep]})
        )

    def stream(self, schema: str) -> spg.Duels:
        if schema == "ids":
            return spg.stream_duels(self.by_ids, self.items)
        return spg.stream_duels(self.inline, standardise=False)

    def whole(self, schema: str, approximation: Any, **more: Any) -> spg.PreferenceGP:
        keep = self.distinct if schema == "inline" else slice(None)
        duels = spg.Duels(
            self.items, self.winners[keep], self.losers[keep], counts=self.counts[keep]
        )
        engine = spg.ParallelEP(tolerance=more.pop("tolerance", SOLVER))
        model = spg.PreferenceGP(duels, engine=engine, **self.settings(approximation, **more))
        if schema == "inline":  # where sides are known, but not of how many items they are
            model.centre = self.stream(schema).centre
        return model

    def streamed(self, schema: str, approximation: Any, **more: Any) -> spg.StreamedGP:
        engine = spg.PartitionedEP(
            parts=more.pop("parts", 1),
            local_sweeps=more.pop("local_sweeps", 1),
            tolerance=more.pop("tolerance", SOLVER),
        )
        places = {name: more.pop(name) for name in ("sites", "chunk", "scheduler") if name in more}
        return spg.StreamedGP(
            self.stream(schema), engine=engine, **self.settings(approximation, **more), **places
        )

    def settings(self, approximation: Any, mean: bool = False) -> dict[str, Any]:
        kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5])
        kernel += gpflow.kernels.Linear(variance=0.3)
        return {
            "kernel": kernel,
            "approximation": approximation,
            "inducing_variable": self.z,
            "noise_variance": 0.3,
            "mean_function": gpflow.functions.Linear(A=[[0.4], [-0.3]]) if mean else None,
        }


def _written(folder: Path, frame: pd.DataFrame) -> Path:
    """Two files with small row groups."""
    folder.mkdir()
    for number, part in enumerate((frame[:90], frame[90:])):
        part.to_parquet(folder / f"{number}.parquet", row_group_size=37, index=False)
    return folder


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    return Case(tmp_path_factory.mktemp("duels"))


def same_gradient(streamed: Any, whole: Any) -> None:
    with tf.GradientTape() as tape:
        loss = whole.training_loss()
    theirs = tape.gradient(loss, whole.trainable_variables)
    value, mine = streamed.evidence_and_gradient()
    assert value == pytest.approx(-float(loss), rel=PARTS)
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(-one, tf.convert_to_tensor(other), atol=FIXED_POINT)


def same_posterior(mine: Any, theirs: Any) -> None:
    for one, other in zip(mine.predict_f(NEW), theirs.predict_f(NEW), strict=True):
        np.testing.assert_allclose(one, other, atol=PARTS)
    one, other = (model.predict_duel(NEW[:3], NEW[3:]) for model in (mine, theirs))
    np.testing.assert_allclose(one, other, atol=PARTS)
    assert mine.log_evidence() == pytest.approx(theirs.log_evidence(), rel=PARTS)


@pytest.mark.covering("VFE-ids")
@pytest.mark.parametrize(
    ("name", "schema"),
    [*((name, "ids") for name in SUMMED), ("FITC", "inline"), ("TightVFE-diagonal", "inline")],
)
def test_a_stream_has_the_posterior_and_the_gradient_of_duels_in_memory(
    case: Case, name: str, schema: str
) -> None:
    whole = case.whole(schema, SPARSE[name](), mean=True)
    streamed = case.streamed(schema, SPARSE[name](), mean=True, chunk=64)
    one, other = whole.infer(), streamed.infer()
    assert (other.converged, other.sweeps) == (True, one.sweeps)
    assert other.duels == whole.num_duels_used
    same_posterior(streamed, whole)
    same_gradient(streamed, whole)


def _labels(rows: int) -> list[str]:
    """Blocks of one to nine rows, in their order."""
    sizes = np.resize([4, 1, 9, 2], rows)
    return [f"b{i}" for i in np.repeat(np.arange(rows), sizes)[:rows]]


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        pytest.param("ids", 1, marks=pytest.mark.slow),
        pytest.param("inline", 3, marks=pytest.mark.slow),
        pytest.param("ids", 8, marks=pytest.mark.slow),
    ],
)
def test_blocks_in_chunks_and_parts_are_those_in_memory(
    case: Case, schema: str, parts: int
) -> None:
    rows = T if schema == "ids" else int(case.distinct.sum())
    approximation = spg.PITC(_labels(rows))
    whole = case.whole(schema, approximation, mean=True)
    streamed = case.streamed(schema, approximation, mean=True, chunk=100, parts=parts)
    one, other = whole.infer(), streamed.infer()
    assert (other.converged, other.sweeps, other.parts) == (True, one.sweeps, parts)
    same_posterior(streamed, whole)
    same_gradient(streamed, whole)


def test_no_chunk_and_no_part_cuts_a_block(case: Case) -> None:
    labels = _labels(T)
    stream = case.stream("ids").in_blocks(labels)
    for parts in (1, 2, 5, len(set(labels))):
        cut = stream.cut(parts)
        assert sum(part.num_rows for part in cut) == T
        of_part = [part.batches.blocks.numbers for part in cut]
        assert len({b for blocks in of_part for b in np.unique(blocks)}) == len(set(labels))
        assert sum(len(np.unique(blocks)) for blocks in of_part) == len(set(labels))
        for part, blocks in zip(cut, of_part, strict=True):
            chunks = [chunk.given.block.numbers for chunk in part.chunks(8)]
            np.testing.assert_array_equal(np.concatenate(chunks), blocks)
            assert all(len(chunk) <= 8 or len({*chunk}) == 1 for chunk in chunks)
            assert all(a[-1] < b[0] for a, b in pairwise(chunks))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a"] * (T - 1), f"There are blocks for {T - 1} duels, but {T} rows of duels"),
        (["a", "b"] * (T // 2), "The block 'a' begins again at row 2, after rows of other blocks"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(case: Case, labels: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        case.streamed("ids", spg.PITC(labels))
    one = case.streamed("ids", spg.PITC(["a"] * T), parts=2)
    with pytest.raises(ValueError, match="2 parts of 1 blocks of duels"):
        one.infer()


def test_both_forms_of_the_sums_are_taken(case: Case) -> None:
    forms = []
    for schema in ("ids", "inline"):
        model = case.streamed(schema, spg.VFE())
        algebra = model._work.parts(model.hyperparameters())._parts[0].algebra
        forms.append("items" if algebra.over_items else "duels")
    assert forms == ["items", "duels"]


@pytest.mark.covering("4-1-ids")
@pytest.mark.parametrize("schema", ["ids", "inline"])
@pytest.mark.parametrize(
    ("parts", "local_sweeps"),
    [(4, 1), (8, 1), (3, 2), (2, None)],
)
def test_parts_have_the_posterior_of_one(
    case: Case, parts: int, local_sweeps: int | None, schema: str
) -> None:
    one = case.streamed(schema, spg.FITC())
    several = case.streamed(schema, spg.FITC(), parts=parts, local_sweeps=local_sweeps, chunk=60)
    assert several.infer().converged
    same_posterior(several, one)
    if local_sweeps == 1:
        rounds = [r.log_evidence for r in several.infer().rounds]
        assert rounds == pytest.approx([r.log_evidence for r in one.infer().rounds], rel=IDENTITY)


@pytest.mark.slow
def test_messages_hold_a_triangle_and_a_vector(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), parts=3)
    *_, last = model.infer().rounds
    for bytes_ in (*last.bytes_sent, *last.bytes_received):
        assert 8 * numbers_of(M) <= bytes_ <= 8 * numbers_of(M) + 600
    assert len(last.bytes_sent) == 3 and last.seconds > 0.0 and last.rebuilt == ()
    assert "bytes to and" in str(last)


@pytest.mark.slow
def test_gradient_against_central_differences(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), parts=2, mean=True, tolerance=GRADIENT_SOLVER)
    gpflow.set_trainable(model.likelihood.noise, True)
    _, gradients = model.evidence_and_gradient()
    rng, step = np.random.default_rng(1), 1e-4
    direction = [rng.normal(size=v.shape) for v in model.trainable_variables]
    start = [v.numpy() for v in model.trainable_variables]

    def evidence(share: float) -> float:
        for v, x, d in zip(model.trainable_variables, start, direction, strict=True):
            v.assign(x + share * d)
        return model.log_evidence()

    slope = (evidence(step) - evidence(-step)) / (2.0 * step)
    mine = sum(float(np.sum(g * d)) for g, d in zip(gradients, direction, strict=True))
    assert mine == pytest.approx(slope, rel=GRADIENT)


@pytest.mark.slow
def test_gpflow_minimises_it_without_compiling(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), tolerance=1e-6)
    before = model.log_evidence()
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, compile=False, options={"maxiter": 3}
    )
    assert model.log_evidence() > before
    with pytest.raises(ValueError, match="compile=False"):
        tf.function(model.training_loss)()


@pytest.mark.slow
def test_sites_live_in_a_file_where_that_is_asked(case: Case, tmp_path: Path) -> None:
    model = case.streamed("ids", spg.VFE(), sites=tmp_path / "sites.npy", parts=2, chunk=64)
    result = model.infer()
    assert "sites.npy" in str(result)
    sites = np.concatenate([np.load(tmp_path / f"sites.{k}.npy") for k in (0, 1)], 1)
    assert sites.shape == (2, T)
    same_posterior(model, case.whole("ids", spg.VFE()))
    with pytest.raises(ValueError, match="exists already"):
        case.streamed("ids", spg.VFE(), sites=tmp_path / "sites.npy", parts=2).infer()
    with pytest.raises(ValueError, match="lies in no folder"):
        case.streamed("ids", spg.VFE(), sites=tmp_path / "no" / "sites.npy").infer()


def test_it_goes_on_from_its_sites_and_begins_again_when_told(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), parts=2)
    cold = model.infer()
    assert model.infer() is cold
    model.kernel.kernels[0].variance.assign(1.1)
    warm = model.infer()
    assert warm.rounds[0].change < 0.1 * cold.rounds[0].change
    again = model.infer(restart=True)
    # To the bit what it was for other parameters: all change the first round by as much or more.
    assert again.rounds[0].change > 0.5 * cold.rounds[0].change
    assert again.rounds[-1].log_evidence == pytest.approx(warm.rounds[-1].log_evidence, rel=PARTS)


def test_a_failed_run_is_not_gone_on_from(case: Case) -> None:
    model = case.streamed("ids", spg.VFE())
    good = model.log_evidence()
    kept = model.inducing_variable.Z.numpy()
    model.inducing_variable.Z.unconstrained_variable.assign(np.full_like(kept, np.nan))
    assert model.infer().status is spg.results.Status.NOT_FINITE
    value, gradient = model.evidence_and_gradient()
    assert np.isnan(value) and all(np.all(np.isnan(g)) for g in gradient)
    model.inducing_variable.Z.assign(kept)
    assert model.log_evidence() == pytest.approx(good, rel=PARTS)


@pytest.mark.slow
@pytest.mark.parametrize(("schema", "chunks"), [("ids", 1), ("inline", 9)])
def test_a_run_that_was_interrupted_leaves_nothing_behind(
    case: Case, schema: str, chunks: int
) -> None:
    model = case.streamed(schema, spg.FITC(), parts=2, chunk=50)
    before, slopes = model.evidence_and_gradient()
    variance = model.kernel.kernels[0].variance
    start = variance.numpy()
    variance.assign(3.0)
    left = iter(range(chunks))

    def interrupt(at: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.infer(progress=interrupt)
    variance.assign(start)
    after, same = model.evidence_and_gradient()
    assert after == pytest.approx(before, rel=PARTS)
    for one, other in zip(same, slopes, strict=True):
        np.testing.assert_allclose(one, other, atol=FIXED_POINT)
    model.infer(restart=True)
    assert model.log_evidence() == pytest.approx(before, rel=PARTS)


def test_parameters_that_could_not_be_prepared_are_prepared_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = case.streamed("ids", spg.VFE())
    used = model._work.parts(model.hyperparameters())._parts[0].algebra
    first = model.hyperparameters().values()
    used.use(first)
    source = used._source.numpy()

    def fail() -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(used, "_make_source", fail)
        with pytest.raises(MemoryError):
            used.use(first + 0.1)
    used.use(first)
    assert np.array_equal(used.parameters.values(), first)
    assert np.array_equal(used._source, source)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["ids", pytest.param("inline", marks=pytest.mark.slow)])
def test_what_is_put_in_place_of_another_is_followed(
    case: Case, schema: str, tmp_path: Path
) -> None:
    model = case.streamed(schema, spg.VFE(), parts=2, mean=True, sites=tmp_path / "sites.npy")
    whole = case.whole(schema, spg.VFE(), mean=True)
    same_posterior(model, whole)

    def replaced(name: str, make: Any) -> None:
        for one in (model, whole):
            setattr(one, name, make())
        assert model.infer().converged
        same_posterior(model, whole)
        value, _ = model.evidence_and_gradient()
        assert value == pytest.approx(whole.log_evidence(), rel=PARTS)

    replaced("kernel", lambda: gpflow.kernels.Matern32(lengthscales=[0.7, 0.9]))
    replaced("mean_function", lambda: None)
    replaced("inducing_variable", lambda: gpflow.inducing_variables.InducingPoints(case.z[:5]))
    model.kernel = gpflow.kernels.Matern32(lengthscales=[0.7, 0.9])  # equal values
    found = model.infer()
    assert model.infer() is found


@pytest.mark.slow
def test_sites_are_found_anew_after_close(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), parts=2)
    model.infer()
    model.close()
    ordinary = model.in_memory()
    assert ordinary.infer().sweeps == 1
    same_posterior(model, ordinary)


def test_rounds_that_end_too_early_are_told(case: Case) -> None:
    engine = spg.PartitionedEP(parts=2, max_sweeps=2)
    model = spg.StreamedGP(case.stream("ids"), engine=engine, **case.settings(spg.VFE()))
    with pytest.warns(UserWarning, match="did not converge"):
        model.log_evidence()
    assert model.infer().status is spg.results.Status.MAX_SWEEPS


def test_progress_counts_duels(case: Case) -> None:
    model = case.streamed("ids", spg.VFE(), parts=2, chunk=50)
    seen: list[Any] = []
    rounds: list[Any] = []
    result = model.infer(progress=seen.append, report=rounds.append)
    assert len(rounds) == result.sweeps
    assert [p.rows for p in seen[:4]] == [50, 90, 140, 190]
    assert {p.total for p in seen} == {T}
    assert seen[-1].round == result.sweeps and seen[-1].seconds_left == 0.0
    assert all(p.duels_per_second > 0.0 for p in seen)


@pytest.mark.slow
def test_an_ordinary_model_comes_of_it(case: Case) -> None:
    model = case.streamed("ids", spg.FITC(), mean=True)
    ordinary = model.in_memory()
    assert ordinary.infer().sweeps == 1  # it begins where the other one ended
    same_posterior(model, ordinary)
    assert ordinary.lower_bound() < ordinary.log_evidence() + 100.0
    assert len(spg.suggest(model, batch=2, rng=np.random.default_rng(0)).frame) == 2
    assert ordinary.duels.held and not model.duels.held
    assert not hasattr(model, "graph") and not hasattr(model.duels, "winners")
    with pytest.raises(ValueError, match="not in memory"):
        spg.update(model, pd.DataFrame({"winner": [0], "loser": [2]}))


def test_new_duels_are_scored_beside_a_coin_alone(case: Case) -> None:
    model, duels = case.streamed("ids", spg.VFE()), case.whole("ids", spg.VFE()).duels
    found = spg.evaluate(model, duels)
    assert set(found["held_out"]) == {"model", "coin"} and not found["held_out_unseen_pairs"]
    whole = spg.evaluate(model.in_memory(), duels)
    assert set(whole["held_out"]) == {"model", "linear_probit", "coin"}
    own, other = (scores["held_out"]["model"] for scores in (found, whole))
    assert own["duels"] == other["duels"] == duels.num_duels
    assert abs(own["nlp_nats"] - other["nlp_nats"]) < 1e-8
    chunks = spg.evaluate(model.in_memory(), case.by_ids)
    assert chunks["duels"] == duels.num_duels and set(chunks["held_out"]) == set(whole["held_out"])
    for name, scores in whole["held_out"].items():
        assert_same_scores(chunks["held_out"][name], scores, rel=1e-9)
    assert_same_scores(spg.evaluate(model, case.stream("ids"))["held_out"]["model"], own)


@pytest.mark.covering("ids")
@pytest.mark.parametrize("schema", ["ids", "inline"])
def test_it_is_saved_without_its_duels(case: Case, tmp_path: Path, schema: str) -> None:
    model = case.streamed(schema, spg.VFE(), mean=True)
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert isinstance(loaded, spg.StreamedGP)
    assert np.array_equal(loaded.predict_f(NEW)[1], model.predict_f(NEW)[1])
    assert loaded.log_evidence() == model.log_evidence()
    assert loaded.infer().converged and loaded.duels.num_duels == model.duels.num_duels
    pairs = pd.DataFrame({"first": [0, 1], "second": [2, 3]})
    if schema == "ids":
        ranking = spg.rank(loaded, top_k=3)
        order = case.whole("ids", spg.VFE(), mean=True)
        pd.testing.assert_frame_equal(
            ranking.frame[["item_id", "comparisons"]],
            spg.rank(order, top_k=3).frame[["item_id", "comparisons"]],
        )
        assert len(spg.predict(loaded, pairs)) == 2
    else:
        assert len(spg.rank(loaded, NEW, top_k=3).frame) == len(NEW)
        with pytest.raises(ValueError, match="give items"):
            spg.rank(loaded)
    for what in (loaded.in_memory, lambda: loaded.evidence_and_gradient()):
        with refused("loaded", "duels_needed"):
            what()
    with pytest.raises(ValueError, match="loaded without its duels and optimise"):
        spg.optimise(loaded)
    loaded.kernel.kernels[1].variance.assign(2.0)
    with refused("loaded", "duels_needed"):
        loaded.predict_f(NEW)


def test_a_kernel_that_cannot_be_compiled_is_evaluated_all_the_same() -> None:
    double = algebra._Fused(lambda x: tf.numpy_function(lambda y: 2.0 * y, [x], x.dtype), [])
    for _ in range(2):
        assert double(tf.constant([1.0, 2.0], tf.float64)).numpy().tolist() == [2.0, 4.0]


def test_threads_that_meet_such_a_kernel_together_all_go_on() -> None:
    for _ in range(5):
        double = algebra._Fused(lambda x: tf.numpy_function(lambda y: 2.0 * y, [x], x.dtype), [])
        calls = ((k, partial(double, tf.constant([float(k)], tf.float64))) for k in range(8))
        found = [value.numpy().item() for _, value in in_order(calls, 4)]
        assert found == [2.0 * k for k in range(8)]


def test_packing_keeps_every_number() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    size = Size(5, 3, 2)
    numbers = map(rng.normal, [0.0] * 4, [1.0] * 4, [x.shape for x in Natural.zeros(size)[1:]])
    site = Natural(root @ root.T, *numbers)
    packed = site.packed()
    assert len(packed) == numbers_of(size) == 20 + 3 * 2 * 8
    for one, other in zip(Natural.unpacked(packed, site.size), site, strict=True):
        np.testing.assert_array_equal(one, other)
    alone = Natural.zeros(Size(5))._replace(precision=site.precision)
    np.testing.assert_allclose(
        alone.posterior().covariance, np.linalg.inv(site.precision), rtol=IDENTITY
    )
    assert np.isnan(Natural.zeros(Size(2))._replace(precision=-np.eye(2)).posterior().half_log_det)


def test_levels_apart_are_those_among_all() -> None:
    rng = np.random.default_rng(1)
    size = Size(4, 3, 2)
    whole = np.zeros((size.whole,) * 2)
    for at in range(size.u, size.whole, 2):
        some = np.r_[: size.u, at : at + 2]
        root = rng.normal(size=(6, 6))
        whole[np.ix_(some, some)] += root @ root.T
    dense = Natural.zeros(Size(size.whole))._replace(
        precision=whole + np.eye(size.whole), shift=rng.normal(size=size.whole)
    )
    one, other = dense.posterior(), dense.parted(size).posterior()
    np.testing.assert_allclose(other.covariance, one.covariance, atol=1e-12)
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-12)
    assert float(other.half_log_det) == pytest.approx(float(one.half_log_det), abs=1e-12)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"approximation": spg.TightVFE("rank")}, apart("streamed", "whole")),
        ({"approximation": spg.VFE(single_precision=True)}, apart("streamed", "single_precision")),
        ({"approximation": spg.TightVFE("logdet")}, apart("streamed", "whole")),
        ({"approximation": spg.PITC(3)}, apart("streamed", "whole")),
        ({"approximation": spg.Exact()}, apart("streamed", "whole")),
        ({"engine": spg.ParallelEP()}, apart("streamed", "other_engines")),
        ({"engine": spg.PartitionedEP(site_power=0.5)}, apart("streamed", "powers_of_sites")),
        ({"chunk": 0}, "chunk is 0; give a whole number"),
        ({"chunk": "a"}, "chunk is 'a'; give a whole number"),
        ({"sites": 3}, "sites is of type int; give the path"),
        ({"scheduler": 8786}, "scheduler is of type int; give 'local'"),
        ({"timeout": 3.0}, apart("timeout", "no_scheduler")),
        ({"timeout": "soon"}, "timeout is 'soon'; give a number, above 0"),
        ({"inducing_variable": np.zeros((3, 5))}, r"give \(m, 2\)"),
        ({"inducing_variable": np.zeros((3, 2))}, "equal rows"),
        ({"noise_variance": -1.0}, "noise_variance is -1.0"),
        ({"kernel": "se"}, "kernel is of type"),
        (
            {"kernel": gpflow.kernels.SquaredExponential() + spg.ItemEffect()},
            apart("streamed", "item_effects"),
        ),
        ({"timeout": -1.0}, "timeout is -1.0; give a number, above 0"),
        ({"sites": "x.npy", "scheduler": "local"}, apart("sites", "scheduler")),
    ],
)
def test_what_cannot_be_streamed_is_told_in_one_sentence(
    case: Case, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as error:
        spg.StreamedGP(case.stream("ids"), **{**case.settings(spg.VFE()), **more})
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_more_parts_than_duels_are_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="a part without duels"):
        case.streamed("ids", spg.VFE(), parts=T + 1).infer()
    with pytest.raises(ValueError, match="The duels are in memory; make a PreferenceGP"):
        spg.StreamedGP(case.whole("ids", spg.VFE()).duels, gpflow.kernels.Matern52())


@pytest.mark.slow
def test_hyperparameters_are_learned_from_chunks_and_from_a_subset(case: Case) -> None:
    whole = case.whole("ids", spg.VFE(), tolerance=1e-8)
    reference = spg.optimise(whole, max_iterations=8)
    chunks = case.streamed("ids", spg.VFE(), tolerance=1e-8, chunk=150)
    steps: list[Any] = []
    report = spg.optimise(chunks, max_iterations=8, callback=steps.append)
    assert report.gradients == "chunks" and report.subset is None
    assert report.iterations == len(steps) == len(report.history)
    assert report.log_evidence == pytest.approx(reference.log_evidence, rel=1e-3)
    assert report.log_evidence > report.log_evidence_start

    def enough(progress: Any) -> None:
        if progress.iteration == 2:
            raise StopIteration

    stopped = spg.optimise(case.streamed("ids", spg.VFE()), 8, callback=enough)
    assert stopped.iterations == 2 and stopped.message == "stopped by the callback"

    subset = case.streamed("ids", spg.VFE(), tolerance=1e-8)
    report = spg.optimise(
        subset,
        max_iterations=8,
        gradients="subset",
        subset=120,
        polish=2,
        rng=np.random.default_rng(0),
    )
    assert report.subset == 120 and report.polish == 2 and report.polished > 0.0
    assert report.log_evidence > report.log_evidence_start
    assert report.evidence_left is not None and "The subset cost about" in str(report)
    assert subset.log_evidence() == report.log_evidence


def test_what_cannot_be_learned_is_told(case: Case) -> None:
    model = case.streamed("ids", spg.VFE())
    for more, words in (
        ({"gradients": "some"}, "gradients is"),
        ({"max_iterations": 0}, "max_iterations is 0; give a whole number, at least 1"),
        ({"subset": 0}, "subset is 0"),
        ({"starts": 1}, apart("streamed", "starts")),
        ({"free_scale": True}, apart("streamed", "free_scale")),
    ):
        with pytest.raises(ValueError, match=words):
            spg.optimise(model, **more)
    whole = case.whole("ids", spg.VFE())
    for more, words in (
        ({"gradients": "chunks"}, apart("in_memory", "gradients")),
        ({"subset": 9}, apart("in_memory", "subset_rows")),
        ({"polish": 0}, apart("in_memory", "polish")),
        ({"progress": print}, apart("in_memory", "progress")),
    ):
        with pytest.raises(ValueError, match=words):
            spg.optimise(whole, **more)
    gpflow.set_trainable(model.likelihood.noise, True)
    with refused("free_kernel_variance", "free_noise_variance"):
        spg.optimise(model)
    gpflow.set_trainable(model, False)
    with pytest.raises(ValueError, match="no trainable parameter"):
        spg.optimise(model)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["ids", "inline"])
def test_the_number_of_threads_changes_nothing(case: Case, monkeypatch, schema: str) -> None:
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(layout, "usable_threads", lambda threads=threads: threads)
        model = case.streamed(schema, spg.FITC(), parts=2, chunk=40, mean=True)
        evidence, gradient = model.evidence_and_gradient()
        assert model._work.pool._parts[0].algebra.at_once == threads
        found.append([np.float64(evidence), *gradient, *model._work.pool.sites()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_compiled_kernel_has_the_gradient_of_the_plain_one_held_parameters_too() -> None:
    rng = np.random.default_rng(0)
    rows = tf.constant(rng.normal(size=(7, 3)))
    kernel = gpflow.kernels.Matern52(variance=1.5, lengthscales=[0.5, 1.0, 2.0])
    gpflow.set_trainable(kernel.lengthscales, False)

    def plain(x: tf.Tensor) -> tf.Tensor:
        return kernel.K(x, x[:4])

    upstream = tf.constant(rng.normal(size=(7, 4)))
    found = []
    for function in (plain, algebra._Fused(plain, kernel.variables)):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(kernel.variables)
            value = function(rows)
        found.append((value, *tape.gradient(value, kernel.variables, upstream)))
    assert len(found[0]) == 3
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING)


def test_linear_algebra_has_its_threads_again_when_the_last_is_done() -> None:
    def threads() -> int:
        return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        one, other = (in_order(((k, int) for k in range(5)), 2) for _ in range(2))
        next(one), next(other)
        assert threads() == 1
        assert len(list(one)) == 4 and threads() == 1
        assert len(list(other)) == 4 and threads() == 2


def test_a_change_that_is_no_number_shows() -> None:
    sums = [algebra.SiteSums(change) for change in (0.1, float("nan"), 0.2)]
    assert np.isnan(sums[0].plus(sums[1]).plus(sums[2]).change)
    assert sums[0].plus(sums[2]).change == 0.2


def test_calls_in_threads_come_back_in_order() -> None:
    begun = []

    def calls(number: int):
        for k in range(number):

            def call(k: int = k) -> int:
                begun.append(k)
                time.sleep(0.002 * (k % 3))
                if k == 7:
                    raise ValueError("the eighth")
                return k * k

            yield k, call

    for at_once in (1, 3):
        assert list(in_order(calls(7), at_once)) == [(k, k * k) for k in range(7)]
        begun.clear()
        with pytest.raises(ValueError, match="the eighth"):
            list(in_order(calls(100), at_once))
        assert max(begun) <= 7 + at_once


@pytest.mark.slow
def test_form_and_chunk_are_told_at_debug_level(case, caplog) -> None:
    with caplog.at_level("DEBUG", logger="sparse_prefgp"):
        case.streamed("ids", spg.VFE(), chunk=17).infer()
    assert any("chunks of 17 duels" in message for message in caplog.messages)
