"""One run of a study: its duels, its figures against slow ones, and runs that fail."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

pytest.importorskip("pydantic")

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.lab.ablation import (
    RunSettings,
    Study,
    execution,
    expand,
    reference,
    study_from,
)
from sparse_prefgp.lab.ablation import data as data_module
from sparse_prefgp.lab.ablation.configuration import SplitSettings, SyntheticData
from sparse_prefgp.lab.ablation.data import left_out_group, made_duels, split_rows
from sparse_prefgp.lab.ablation.execution import execute
from sparse_prefgp.lab.ablation.fitting import compared_items, held_out
from sparse_prefgp.lab.ablation.measures import METRICS, PeakMemory
from sparse_prefgp.lab.ablation.parting import parted
from sparse_prefgp.lab.ablation.reference import Reference, make_reference
from sparse_prefgp.lab.ablation.runs import reference_of
from sparse_prefgp.lab.kl import divergences
from tests.tolerances import FIXED_POINT, IDENTITY, MONTE_CARLO_STANDARD_ERRORS, ROUNDING
from tests.unit.lab.test_ablation_configuration import changed

AT = {"se": {"variance": 4.0, "lengthscales": [1.0, 1.5]}}


@pytest.fixture(scope="module")
def study() -> Study:
    """At known hyperparameters, so that nothing has to be learned."""
    return study_from(
        changed(
            at=AT,
            approximations=["exact", "vfe", "subset:30"],
            engines=["ep", "laplace-logit"],
            hyperparameters=["fixed"],
            inducing=[6, 20],
            inducing_inputs=["random"],
            split={"by": "duels", "test_fraction": 0.25},
            seeds=[0],
        )
    )


@pytest.fixture(scope="module")
def exact(study: Study) -> Reference:
    return make_reference(study, reference.ReferenceKey("se", None, 0, at=True))


def one(study: Study, **wanted: Any) -> RunSettings:
    """The run of a study with these settings."""
    runs = [run for run in expand(study) if all(getattr(run, k) == v for k, v in wanted.items())]
    (found,) = runs
    return found


def figures(record: dict[str, Any]) -> dict[str, float]:
    assert record["status"] == "done", record["reason"]
    return {metric["name"]: metric["value"] for metric in record["metrics"]}


@pytest.mark.slow
def test_figures_of_a_run_by_hand(study: Study, exact: Reference) -> None:
    run = one(study, approximation="vfe", engine="ep", inducing=6)
    record = execute(study, run, exact)
    found = figures(record)

    holdout, utilities = held_out(study, run)
    train = holdout.train

    def model(approximation: Any, z: Any) -> spg.PreferenceGP:
        kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=[1.0, 1.5])
        return spg.PreferenceGP(train, kernel, approximation=approximation, inducing_variable=z)

    rng = data_module.stream(0, data_module.INPUTS)
    z = spg.initial_inputs("random", train, gpflow.kernels.SquaredExponential(), 6, rng)
    sparse, full = model(spg.VFE(), z), model(spg.Exact(), None)
    won, lost = holdout.test_sides()
    counts = holdout.counts(holdout.decided_rows)
    p, q = (m.predict_duel(train.items[won], train.items[lost]).numpy() for m in (sparse, full))
    expected = score(np.log(p), counts=counts)
    for name in ("accuracy", "nlp_nats", "nlp_bits", "brier", "calibration_error"):
        assert found[name] == pytest.approx(expected[name], rel=FIXED_POINT)
    assert found["log_evidence"] == pytest.approx(sparse.log_evidence(), rel=IDENTITY)
    assert found["lower_bound"] == pytest.approx(sparse.lower_bound(), rel=IDENTITY)
    gap = sparse.log_evidence() - full.log_evidence()
    assert found["evidence_gap"] == pytest.approx(gap, abs=FIXED_POINT)
    assert found["log_evidence_per_duel"] == found["log_evidence"] / train.num_duels

    rows = compared_items(holdout, 0)
    assert len(rows) == len(np.unique(train.items[np.unique([won, lost])], axis=0))
    mean, cov = (x.numpy() for x in sparse.predict_f(train.items[rows], full_cov=True))
    exact_mean, exact_cov = (x.numpy() for x in full.predict_f(train.items[rows], full_cov=True))
    far = divergences(mean[:, 0], cov[0], exact_mean[:, 0], exact_cov[0], 0.5)
    for name, value in far._asdict().items():
        assert found[name] == pytest.approx(value, rel=FIXED_POINT)
    errors = mean[:, 0] - exact_mean[:, 0]
    assert found["mean_rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=FIXED_POINT)
    assert found["mean_largest"] == pytest.approx(np.abs(errors).max(), rel=FIXED_POINT)
    errors = np.sqrt(np.diag(cov[0])) - np.sqrt(np.diag(exact_cov[0]))
    assert found["sd_rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=FIXED_POINT)
    assert found["sd_largest"] == pytest.approx(np.abs(errors).max(), rel=FIXED_POINT)
    apart = np.repeat(p - q, counts)
    assert found["probability_rmse"] == pytest.approx(np.sqrt(np.mean(apart**2)), rel=FIXED_POINT)
    assert found["probability_largest"] == pytest.approx(np.abs(apart).max(), rel=FIXED_POINT)
    assert utilities is not None and 0.3 < found["kendall_tau"] <= 1.0

    assert set(found) | {"gradient_seconds", "iterations"} == set(METRICS)
    assert found["sweeps"] == record["sweeps"] > 1 and record["converged"] is True
    assert found["fit_seconds"] > 0.0 and found["sweep_seconds"] > 0.0
    assert found["peak_memory_bytes"] == record["peak_memory_bytes"] > 0
    ends = record["largest_memory_bytes"], record["memory_at_start_bytes"]
    assert record["peak_memory_bytes"] == ends[0] - ends[1] and ends[1] > 1e7
    assert "earlier runs in the process" in record["memory_is"]
    assert set(record["phases"]) == {
        "data",
        "start",
        "infer",
        "predict",
        "evidence",
        "exact",
        "cost",
    }
    assert record["duels"] == train.num_duels == 45 and record["test_duels"] == 15
    assert record["settings"]["inducing"] == 6 and record["configuration"]["name"] == "small"
    for name in ("commit", "versions", "hardware", "calibration_bins", "started"):
        assert name in record
    for metric in record["metrics"]:
        about = (metric["unit"], metric["direction"], metric["group"])
        assert about == METRICS[metric["name"]]


@pytest.mark.slow
def test_all_items_as_inducing_inputs_are_exact(study: Study, exact: Reference) -> None:
    holdout, _ = held_out(study, one(study, approximation="exact", engine="ep"))
    m = len(holdout.train.distinct_rows()[0])
    run = replace(one(study, approximation="vfe", engine="ep", inducing=20), inducing=m)
    found = figures(execute(study, run, exact))
    for name in ("evidence_gap", "mean_largest", "sd_largest", "probability_largest"):
        assert abs(found[name]) < FIXED_POINT, name
    assert 0.0 <= found["kl_from_exact"] < FIXED_POINT


@pytest.mark.slow
def test_what_cannot_be_compared_is_left_out(study: Study, exact: Reference) -> None:
    itself = figures(execute(study, one(study, approximation="exact", engine="ep"), exact))
    assert not [name for name in itself if METRICS[name][2] == "against exact"]
    logit = figures(
        execute(study, one(study, approximation="exact", engine="laplace-logit"), exact)
    )
    assert {"probability_rmse", "probability_largest"} <= set(logit)
    assert not {"kl_from_exact", "evidence_gap", "mean_rmse", "lower_bound"} & set(logit)
    part = figures(execute(study, one(study, approximation="subset:30", engine="ep"), exact))
    assert "evidence_gap" not in part and "kl_from_exact" in part


@pytest.mark.slow
def test_what_has_no_divergence_keeps_all_other_figures(study: Study, exact: Reference) -> None:
    assert exact.predictions is not None
    broken = exact.predictions._replace(covariance=-np.asarray(exact.predictions.covariance))
    run = one(study, approximation="vfe", engine="ep", inducing=20)
    record = execute(study, run, replace(exact, predictions=broken))
    assert record["status"] == "done"
    (note,) = (text for text in record["notes"] if "divergence" in text)
    assert "not positive definite" in note
    found = figures(record)
    assert (
        "kl_from_exact" not in found and {"accuracy", "evidence_gap", "mean_rmse"} <= found.keys()
    )


@pytest.mark.slow
def test_inference_that_breaks_down_is_the_reason(study: Study) -> None:
    bad = study.model_copy(update={"at": {"se": {"variance": 1.7e308, "lengthscales": 1.0}}})
    record = execute(bad, one(bad, approximation="vfe", engine="ep", inducing=20))
    assert record["status"] == "failed" and "not finite" in record["reason"]


@pytest.mark.slow
def test_learning_and_its_reference() -> None:
    study = study_from(
        changed(approximations=["exact", "vfe"], inducing=[4], seeds=[0], baselines=False)
    )
    runs = {run.name.removeprefix("made-se-"): run for run in expand(study)}
    found = make_reference(study, reference_of(study, runs["exact-ep-joint-s0"]))
    assert found.reason == "" and found.learning is not None and found.learning.iterations == 3
    assert found.hyperparameters is not None and found.predictions is not None

    back = Reference.from_bytes(found.to_bytes())
    assert back.key == found.key and back.learning == found.learning
    assert back.log_evidence == found.log_evidence and back.predictions is not None
    for old, new in zip(found.predictions, back.predictions, strict=True):
        assert np.array_equal(old, new)
    with pytest.raises(ValueError, match="damaged"):
        Reference.from_bytes(found.to_bytes()[:-100])

    # All learned by exact EP is the reference, and not learned twice.
    record = execute(study, runs["exact-ep-joint-s0"], back)
    assert "fit" not in record["phases"]
    exact = figures(record)
    assert exact["log_evidence"] == pytest.approx(found.log_evidence, rel=FIXED_POINT)
    assert exact["iterations"] == 3 and exact["fit_seconds"] == found.learning.fit_seconds
    # Fixed ones are its own, and nothing moves; learned inducing inputs raise the evidence.
    still = figures(execute(study, runs["vfe-ep-m4-kmeans-fixed-s0"], back))
    moved = figures(execute(study, runs["vfe-ep-m4-learned-fixed-s0"], back))
    assert "in 3 iterations" in record["optimiser"] and record["notes"] == []
    assert "iterations" not in still and moved["iterations"] == 3 and moved["gradient_seconds"] > 0
    assert still["log_evidence"] < moved["log_evidence"] < found.log_evidence

    alone = execute(
        study, runs["vfe-ep-m4-kmeans-fixed-s0"], Reference(back.key, "Too many items.")
    )
    assert alone["status"] == "failed" and "(Too many items); give values" in alone["reason"]


@pytest.mark.slow
def test_joint_runs_meet_the_learned_exact_model(study: Study) -> None:
    """Whatever `at` says, which is for fixed runs alone."""
    both = study.model_copy(update={"hyperparameters": ("fixed", "joint"), "iterations": 8})
    fixed, joint = (
        one(both, approximation="exact", engine="ep", hyperparameters=kind)
        for kind in ("fixed", "joint")
    )
    keys = {run: reference_of(both, run) for run in (fixed, joint)}
    assert [key.name for key in keys.values()] == ["se-at-s0", "se-s0"]
    references = {run: make_reference(both, key) for run, key in keys.items()}
    assert references[fixed].learning and references[fixed].learning.iterations == 0
    given = references[fixed].hyperparameters
    assert given is not None
    variance = 1e-10 + np.log1p(np.exp(given.kernel[".variance"]))  # from what is not constrained
    assert float(variance) == pytest.approx(4.0, rel=ROUNDING)
    # As a study without `at` learns it: from where the kernel starts.
    plain = make_reference(both.model_copy(update={"at": None}), keys[joint])
    assert references[joint].log_evidence == pytest.approx(plain.log_evidence, abs=FIXED_POINT)

    assert "evidence_gap" not in figures(execute(both, joint, references[joint]))
    vfe = one(both, approximation="vfe", engine="ep", inducing=20, hyperparameters="joint")
    found = figures(execute(both, vfe, references[joint]))
    gap = found["log_evidence"] - references[joint].log_evidence
    assert found["evidence_gap"] == pytest.approx(gap) and gap < 0.5


@pytest.mark.slow
def test_an_exact_model_that_is_too_large_is_left_out(study: Study) -> None:
    small = study.model_copy(update={"exact_limit": 5})
    found = make_reference(small, reference.ReferenceKey("se", None, 0, at=True))
    assert "more than exact_limit, 5." in found.reason
    record = execute(small, one(study, approximation="vfe", engine="ep", inducing=6), found)
    assert "kl_from_exact" not in figures(record)
    assert any("more than exact_limit" in note for note in record["notes"])


@pytest.mark.slow
def test_failures_are_records(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    run = replace(one(study, approximation="vfe", engine="ep", inducing=6), inducing=500)
    record = execute(study, run)
    assert record["status"] == "failed" and record["metrics"] == []
    assert "500 inducing inputs are more than" in record["reason"]
    assert "Traceback" in record["traceback"] and record["fault"] is False

    def broken(*_: Any) -> Any:
        raise KeyError("lost")

    monkeypatch.setattr(execution, "held_out", broken)
    record = execute(study, run)
    assert record["reason"] == "KeyError: 'lost'" and record["fault"] is True

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "held_out", stopped)
    with pytest.raises(KeyboardInterrupt):
        execute(study, run)


@pytest.mark.slow
def test_compiled_functions_are_given_back(study: Study) -> None:
    from tensorflow.python.eager import context

    run = one(study, approximation="vfe", engine="ep", inducing=6)
    execute(study, run)
    before = len(context.context().list_function_names())
    execute(study, run)
    assert len(context.context().list_function_names()) == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="the system has no /proc")
def test_memory_is_what_the_block_takes() -> None:
    """Not what was taken and freed before it, in blocks large or small."""
    before = [np.ones(200_000_000 // 8)], [bytearray(10_000) for _ in range(10_000)]
    with PeakMemory() as first:
        pass
    del before
    with PeakMemory() as second:
        held = np.ones(80_000_000 // 8)
        time.sleep(10 * PeakMemory.interval)
        del held
    assert first.growth < 1e7 and first.start - second.start > 2e8
    assert 7.5e7 < second.growth < 1.2e8


def test_every_method_meets_the_same_duels(study: Study) -> None:
    parts = []
    for run in expand(study):
        holdout, _ = held_out(study, run)
        parts.append((holdout.split.train_rows.tolist(), holdout.split.test_rows.tolist()))
        assert np.array_equal(compared_items(holdout, 0), compared_items(holdout, 0))
    assert all(part == parts[0] for part in parts)
    other = parted(study.data, study.split, None, 1)
    assert other.split.train_rows.tolist() != parts[0][0]


def test_learning_curves_are_nested() -> None:
    study = study_from(changed(split__max_train=[10, 30]))
    small, large = (parted(study.data, study.split, size, 0).split for size in (10, 30))
    assert len(small.train_rows) == 10 and len(large.train_rows) == 30
    assert set(small.train_rows) < set(large.train_rows)
    assert np.array_equal(small.test_rows, large.test_rows)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["se", "matern32", "matern52"])
@pytest.mark.parametrize("limit", [2000, 1])
def test_utilities_are_draws_of_the_process(
    kernel: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the Cholesky factor, and by random features."""
    monkeypatch.setattr(data_module, "DRAWN_EXACTLY", limit)
    made = SyntheticData(
        items=4, features=2, duels=2, kernel=kernel, variance=3.0, lengthscale=0.8, noise=0.5
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2))
    draws = np.array(
        [data_module.drawn_utility(made, x, rng) for _ in range(1500 if limit == 1 else 250)]
    )
    r = np.linalg.norm(x[:, None] - x, axis=-1) / 0.8
    expected = (
        3.0
        * {
            "se": np.exp(-0.5 * r**2),
            "matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
            "matern52": (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r),
        }[kernel]
    )
    products = draws[:, :, None] * draws[:, None, :]
    error = products.std(0) / np.sqrt(len(draws))
    assert np.all(np.abs(products.mean(0) - expected) < MONTE_CARLO_STANDARD_ERRORS * error)


def test_larger_utilities_win_as_often_as_their_noise_says() -> None:
    from scipy.special import ndtr

    made = SyntheticData(
        items=50, features=2, duels=8000, kernel="se", variance=1.0, lengthscale=1.0, noise=0.3
    )
    table, utility = made_duels(made, np.random.default_rng(0))
    assert table.num_rows == 8000 and np.all(table.winners != table.losers)
    gap = utility[table.winners] - utility[table.losers]
    expected = ndtr(np.abs(gap) / np.sqrt(0.6))
    error = np.sqrt(np.sum(expected * (1 - expected)))
    assert abs(np.sum(gap > 0) - expected.sum()) < MONTE_CARLO_STANDARD_ERRORS * error


def test_one_group_is_left_out() -> None:
    import pandas as pd

    from sparse_prefgp.io import read_table

    items = pd.DataFrame({"item_id": range(6), "a": np.arange(6.0), "debate": [0, 0, 1, 1, 2, 2]})
    duels = pd.DataFrame({"winner": [0, 2, 4, 0, 1], "loser": [1, 3, 5, 2, 0]})
    table = read_table(items, duels, never_features=["debate"])
    split = SplitSettings(by="group:debate", leave_one_out=True)
    found = split_rows(table, split, None, 1)
    assert found.test_rows.tolist() == [1] and found.train_rows.tolist() == [0, 2, 4]
    assert found.dropped == 1 and "1 mixed duels dropped" in found.description
    assert len(split_rows(table, split, 2, 1).train_rows) == 2
    with pytest.raises(ValueError, match="seed 3 is the number of no group: there are 3 values"):
        split_rows(table, split, None, 3)
    assert left_out_group(table, split, 1) == "1"
    with pytest.raises(ValueError, match="seed 3 is the number of no group"):
        left_out_group(table, split, 3)
    with pytest.raises(ValueError, match="column is 'colour'"):
        split_rows(table, SplitSettings(by="group:colour", leave_one_out=True), None, 0)


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (list(range(12)), [str(i) for i in range(12)]),
        ([0.5 * i for i in range(12)], [str(0.5 * i) for i in range(12)]),
        (["2", "10", "b"] * 4, ["10", "2", "b"]),
        (["10", "9", "-1"] * 4, ["-1", "9", "10"]),
    ],
)
@pytest.mark.parametrize("owner", ["items", "duels"])
def test_groups_are_numbered_in_their_order(
    labels: list[Any], order: list[str], owner: str
) -> None:
    import pandas as pd

    from sparse_prefgp.io import read_table

    items = pd.DataFrame({"item_id": range(24), "a": np.arange(24) / 7})
    duels = pd.DataFrame({"winner": range(0, 24, 2), "loser": range(1, 24, 2)})
    if owner == "items":
        items["debate"] = np.repeat(np.array(labels, dtype=object), 2)
    else:
        duels["debate"] = labels
    table = read_table(items, duels, never_features=["debate"])
    split = SplitSettings(by="group:debate", leave_one_out=True)
    for seed, label in enumerate(order):
        assert left_out_group(table, split, seed) == label
        found = split_rows(table, split, None, seed)
        mine = [i for i, one in enumerate(labels) if str(one) == label]
        assert found.test_rows.tolist() == mine
        assert found.description.startswith(f"{label} of 'debate' held out")


def test_a_group_without_a_label() -> None:
    import pandas as pd

    from sparse_prefgp.io import read_table

    items = pd.DataFrame({"item_id": range(3), "a": np.arange(3.0)})
    duels = pd.DataFrame({"winner": [0, 1], "loser": [1, 2], "who": ["x", None]})
    table = read_table(items, duels, never_features=["who"])
    with pytest.raises(ValueError, match="'who' has no value in row 1 of the duels"):
        split_rows(table, SplitSettings(by="group:who", leave_one_out=True), None, 0)


@pytest.mark.slow
def test_blocks_by_a_column(tmp_path: Path) -> None:
    """Each duel a block of its own is FITC."""
    import pandas as pd

    rng = np.random.default_rng(0)
    items = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    items.insert(0, "item_id", range(20))
    items.to_csv(tmp_path / "items.csv", index=False)
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(40)])
    duels = pd.DataFrame({"winner": pairs[:, 0], "loser": pairs[:, 1], "one by": range(40)})
    duels.to_csv(tmp_path / "duels.csv", index=False)
    study = study_from(
        changed(
            data={"files": {"items": "items.csv", "duels": "duels.csv", "ignore": ["one by"]}},
            approximations=["fitc", "pitc:one by"],
            at=AT,
            hyperparameters=["fixed"],
            inducing=[5],
            inducing_inputs=["random"],
            seeds=[0],
        ),
        folder=tmp_path,
    )
    alone, blocks = (execute(study, run) for run in expand(study) if not run.is_baseline)
    assert blocks["name"] == "duels-se-pitcone_by-ep-m5-random-fixed-s0"
    apart = figures(blocks)["log_evidence"] - figures(alone)["log_evidence"]
    assert abs(apart) < FIXED_POINT
