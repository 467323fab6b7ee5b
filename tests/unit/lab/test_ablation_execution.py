"""One run of a study: its duels, its figures against slow ones, and runs that fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

pytest.importorskip("pydantic")

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.lab.ablation import Study, duels, execution, expand, study_from
from sparse_prefgp.lab.ablation.duels import made_duels, parted
from sparse_prefgp.lab.ablation.execution import execute
from sparse_prefgp.lab.ablation.fitting import (
    Reference,
    compared_items,
    held_out,
    make_reference,
    read_reference,
)
from sparse_prefgp.lab.ablation.runs import ReferenceKey, RunSettings, reference_of
from sparse_prefgp.lab.ablation.study import SplitSettings, SyntheticData
from sparse_prefgp.lab.kl import divergences
from sparse_prefgp.lab.measures import AGAINST_EXACT, MEASURES
from sparse_prefgp.support import registry
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
    return make_reference(study, ReferenceKey("se", None, 0, at=True))


def one(study: Study, **wanted: Any) -> RunSettings:
    """The run of a study with these settings."""
    runs = [run for run in expand(study) if all(getattr(run, k) == v for k, v in wanted.items())]
    (found,) = runs
    return found


def figures(record: dict[str, Any]) -> dict[str, float]:
    assert record["status"] == "done", record["reason"]
    metrics: dict[str, float] = record["metrics"]
    return metrics


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

    rng = duels.stream(0, duels.INPUTS)
    z = spg.initial_inputs("random", train, gpflow.kernels.SquaredExponential(), 6, rng)
    sparse, full = model(spg.VFE(), z), model(spg.Exact(), None)
    won, lost = holdout.test_wins().pairs.T
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

    unknown = {"gradient_seconds", "iterations"}
    assert set(found) | unknown == set(MEASURES)
    assert found["sweeps"] > 1 and record["converged"] is True and found["fit_seconds"] > 0.0
    assert set(record["seconds"]) == {"data", "start", "infer", "predict"}
    assert record["duels"] == train.num_duels == 45 and record["test_duels"] == 15
    for name in ("commit", "versions", "machine", "started"):
        assert name in record


@pytest.mark.slow
def test_all_items_as_inducing_inputs_are_exact(study: Study, exact: Reference) -> None:
    holdout, _ = held_out(study, one(study, approximation="exact", engine="ep"))
    m = len(holdout.train.distinct_rows()[0])
    run = one(study, approximation="vfe", engine="ep", inducing=20)._replace(inducing=m)
    found = figures(execute(study, run, exact))
    for name in ("evidence_gap", "mean_largest", "sd_largest", "probability_largest"):
        assert abs(found[name]) < FIXED_POINT, name
    assert 0.0 <= found["kl_from_exact"] < FIXED_POINT


@pytest.mark.slow
def test_what_cannot_be_compared_is_left_out(study: Study, exact: Reference) -> None:
    itself = figures(execute(study, one(study, approximation="exact", engine="ep"), exact))
    assert not [name for name in itself if MEASURES[name].group == AGAINST_EXACT]
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


def test_an_approximation_of_ones_own_that_fails(study: Study, monkeypatch: Any) -> None:
    class Broken(spg.InducingApproximation):
        def correction(self, left: Any) -> Any:
            raise KeyError("boom")

    monkeypatch.setitem(registry._CLASSES[registry.APPROXIMATION], "Broken", Broken)
    run = one(study, approximation="vfe", engine="ep", inducing=6)
    record = execute(study, run._replace(approximation="broken"))
    own = "(broken is an approximation of your own.)"
    assert record["reason"] == f"KeyError: 'boom' {own}"


@pytest.mark.slow
def test_learning_and_its_reference(tmp_path: Path) -> None:
    study = study_from(
        changed(approximations=["exact", "vfe"], inducing=[4], seeds=[0], baselines=False)
    )
    runs = {run.name.removeprefix("made-se-"): run for run in expand(study)}
    found = make_reference(study, ReferenceKey("se", None, 0))
    assert (
        found.reason == ""
        and found.learning is not None
        and found.learning.figures["iterations"] == 3
    )
    path = tmp_path / "reference.npz"
    path.write_bytes(found.to_bytes())
    back = read_reference(path)
    assert back is not None and found.predictions is not None
    assert back.key == found.key and back.learning == found.learning
    assert back.log_evidence == found.log_evidence and back.predictions is not None
    for old, new in zip(found.predictions, back.predictions, strict=True):
        assert np.array_equal(old, new)
    path.write_bytes(found.to_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        read_reference(path)

    # All learned by exact EP is the reference, and not learned twice.
    record = execute(study, runs["exact-ep-joint-s0"], back)
    assert "fit" not in record["seconds"]
    exact = figures(record)
    assert exact["log_evidence"] == pytest.approx(found.log_evidence, rel=FIXED_POINT)
    assert (
        exact["iterations"] == 3 and exact["fit_seconds"] == found.learning.figures["fit_seconds"]
    )
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
    keys = {run: key for run in (fixed, joint) if (key := reference_of(both, run))}
    assert [key.name for key in keys.values()] == ["se-at-s0", "se-s0"]
    references = {run: make_reference(both, key) for run, key in keys.items()}
    learning, values = references[fixed].learning, references[fixed].kernel
    assert learning is not None and "iterations" not in learning.figures
    variance = 1e-10 + np.log1p(np.exp(values[".variance"]))  # from what is not constrained
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
    found = make_reference(small, ReferenceKey("se", None, 0, at=True))
    assert "more than exact_limit, 5." in found.reason
    record = execute(small, one(study, approximation="vfe", engine="ep", inducing=6), found)
    assert "kl_from_exact" not in figures(record)
    assert any("more than exact_limit" in note for note in record["notes"])


@pytest.mark.slow
def test_failures_are_records(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    run = one(study, approximation="vfe", engine="ep", inducing=6)._replace(inducing=500)
    record = execute(study, run)
    assert record["status"] == "failed" and record["metrics"] == {}
    assert "500 inducing inputs are more than" in record["reason"]
    assert "Traceback" in record["traceback"] and record["fault"] is False

    def broken(*_: Any) -> Any:
        raise KeyError("lost")

    monkeypatch.setattr(execution.fitting, "held_out", broken)
    record = execute(study, run)
    assert record["reason"] == "KeyError: 'lost'" and record["fault"] is True

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution.fitting, "held_out", stopped)
    with pytest.raises(KeyboardInterrupt):
        execute(study, run)


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
def test_utilities_are_draws_of_the_process(kernel: str) -> None:
    made = SyntheticData(
        items=4, features=2, duels=2, kernel=kernel, variance=3.0, lengthscale=0.8, noise=0.5
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2))
    draws = np.array([duels.drawn_utility(made, x, rng) for _ in range(250)])
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
    assert table.num_rows == 8000 and np.all(table.given.pairs[:, 0] != table.given.pairs[:, 1])
    gap = utility[table.given.pairs[:, 0]] - utility[table.given.pairs[:, 1]]
    expected = ndtr(np.abs(gap) / np.sqrt(0.6))
    error = np.sqrt(np.sum(expected * (1 - expected)))
    assert abs(np.sum(gap > 0) - expected.sum()) < MONTE_CARLO_STANDARD_ERRORS * error


def test_one_group_is_left_out(tmp_path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"item_id": range(24), "a": np.arange(24) / 7}).to_csv(tmp_path / "items.csv")
    pairs = pd.DataFrame({"winner": range(0, 24, 2), "loser": range(1, 24, 2)})
    pairs.assign(debate=[2, 10, 1] * 4).to_csv(tmp_path / "duels.csv", index=False)
    files = {name: str(tmp_path / f"{name}.csv") for name in ("items", "duels")}
    split = {"by": "group:debate", "leave_one_out": True}
    study = study_from(changed(data={"files": files}, split=split))
    for seed, label in enumerate(("1", "2", "10")):  # in the order of numbers
        part = parted(study.data, study.split, None, seed)
        assert part.group == label and len(part.split.test_rows) == 4
    with pytest.raises(ValueError, match="seed 3 is the number of no group: there are 3 values"):
        parted(study.data, study.split, None, 3)
    unknown = SplitSettings(by="group:colour", leave_one_out=True)
    with pytest.raises(ValueError, match="column is 'colour'"):
        parted(study.data, unknown, None, 0)


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
    assert blocks["run"] == "duels-se-pitcone_by-ep-m5-random-fixed-s0"
    apart = figures(blocks)["log_evidence"] - figures(alone)["log_evidence"]
    assert abs(apart) < FIXED_POINT
