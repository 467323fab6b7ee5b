"""The report of a study: what is averaged, paired, compared, fitted and written."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from scipy import stats
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import calibration_bins, score
from sparse_prefgp.cli.app import app
from sparse_prefgp.lab.layout import COLUMNS
from sparse_prefgp.lab.report import (
    Results,
    arrange,
    compare_methods,
    exponents_of,
    points_of,
    read_results,
)
from sparse_prefgp.lab.report.calibration import pooled_bins, reliabilities
from sparse_prefgp.lab.report.statistics import (
    at_largest_m,
    best_of,
    geometric_means,
    mean_and_error,
    notes_of_comparison,
    notes_of_memory,
    paired_seeds,
    power_law,
)
from sparse_prefgp.lab.report.tables import metric_table, summary_table
from sparse_prefgp.tell import Cell, Table
from tests.reference.made_studies import made_frame, made_predictions, write_study
from tests.tolerances import IDENTITY

HOLES = [("fitc", 64, 3), ("dtc", 128, 0), ("dtc", 128, 1), ("dtc", 128, 2)]


def results_of(frame: pd.DataFrame, folder: Path) -> Results:
    return read_results([write_study(folder / "study", frame)])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return made_frame(fails=HOLES)


@pytest.fixture(scope="module")
def results(frame, tmp_path_factory) -> Results:
    return results_of(frame, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def arrangement(results):
    return arrange(results)


def values(frame: pd.DataFrame, approximation: str, m: int | None, metric: str) -> dict[int, float]:
    """By seed, straight from the frame."""
    found = {}
    for row in frame.to_dict("records"):
        same_m = pd.isna(row["inducing"]) if m is None else row["inducing"] == m
        if row["approximation"] == approximation and same_m and row["metric"] == metric:
            found[int(row["seed"])] = row["value"]
    return found


def point(arrangement, points, label, m):
    (found,) = [p for p in points if p.key.method.label == label and p.key.m == m]
    return found


# Reading.


def test_parquet_and_csv_say_the_same(frame, tmp_path):
    one = results_of(frame, tmp_path / "parquet")
    two = read_results([write_study(tmp_path / "csv", frame, csv_only=True)])
    pd.testing.assert_frame_equal(one.frame, two.frame, rtol=IDENTITY)
    assert [metric.name for metric in one.metrics][:3] == ["accuracy", "nlp_nats", "brier"]
    assert list(one.frame.columns) == list(COLUMNS)
    assert len(one.failures) == len(HOLES)
    assert set(one.runs["run"]) == set(frame["run"])


def test_the_columns_are_those_that_the_runner_writes(frame):
    assert list(frame.columns) == list(COLUMNS)


def test_runs_that_are_not_in_the_table_are_told(frame, tmp_path):
    folder = write_study(tmp_path / "study", frame)
    (folder / "runs" / "new.json").write_text(json.dumps({"name": "new", "study": "made"}))
    (folder / "runs" / "torn.json").write_text("{")
    notes = " ".join(read_results([folder]).notes)
    assert "1 runs" in notes and "not in its table" in notes
    assert "1 records" in notes and "cannot be read" in notes


def test_runs_that_did_not_converge_are_told(frame, tmp_path):
    folder = write_study(tmp_path / "study", frame)
    paths = sorted((folder / "runs").glob("*.json"))[:2]
    for path, jitter in zip(paths, ("1e-06", "2.5e-05"), strict=True):
        record = json.loads(path.read_text())
        odd = {"converged": False, "notes": [f"A jitter of {jitter} was added."]}
        path.write_text(json.dumps({**record, **odd}))
    notes = read_results([folder]).notes
    assert any("did not converge in 2 of" in note and paths[0].stem in note for note in notes)
    assert "A run says: A jitter of 1e-06 was added, 1 more with other numbers." in notes


def edited(column: str, value: Any, rows: slice = slice(0, 1)):
    def edit(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.astype(object)
        frame.iloc[rows, list(frame.columns).index(column)] = value
        return frame

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda f: f.drop(columns="seed"), ["lacks the column 'seed'"]),
        (lambda f: f.iloc[:0], ["no rows"]),
        (edited("value", "high"), ["'high'", "'value'", "row 1", "number"]),
        (edited("status", "maybe"), ["status 'maybe'", "done, failed"]),
        (edited("direction", "up"), ["direction 'up'", "higher, lower, none"]),
        (edited("seed", None), ["no seed in row 1"]),
        (lambda f: pd.concat([f, f.iloc[:1]]), ["'accuracy'", "twice"]),
        (edited("unit", "per cent", slice(0, 1)), ["'accuracy'", "'share'", "'per cent'"]),
        (lambda f: f[f["status"] == "failed"], ["No run of", "factorised", "nothing to report"]),
    ],
)
def test_a_broken_table_is_one_sentence(frame, tmp_path, edit, words):
    study = made_frame() if "study" not in frame else frame
    folder = write_study(tmp_path / "study", study)
    (folder / "results.parquet").unlink()
    edit(frame.copy()).to_csv(folder / "results.csv", index=False)
    with pytest.raises(ValueError) as caught:
        read_results([folder])
    for word in words:
        assert word in str(caught.value)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_broken_folders_are_one_sentence(frame, tmp_path):
    folder = write_study(tmp_path / "study", frame)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No folder was given"):
        read_results([])
    with pytest.raises(ValueError, match="does not exist"):
        read_results([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match=r"holds no study\.json"):
        read_results([tmp_path / "empty"])
    with pytest.raises(ValueError, match="give one of them"):
        read_results([folder, folder])
    (folder / "results.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        read_results([folder])
    for path in folder.glob("results.*"):
        path.unlink()
    with pytest.raises(ValueError, match="has no results"):
        read_results([folder])
    (folder / "study.json").write_text(json.dumps({"layout": 2}))
    with pytest.raises(ValueError, match="layout 2"):
        read_results([folder])
    (folder / "study.json").write_text("{")
    with pytest.raises(ValueError, match="not readable as JSON"):
        read_results([folder])


# Methods and panels.


def test_labels_hold_only_what_differs(tmp_path):
    def labels(name: str, **settings: Any) -> set[str]:
        found = arrange(results_of(made_frame(fails=(), seeds=(0,), **settings), tmp_path / name))
        return {method.label for method in found.methods}

    plain = {"exact", "VFE", "FITC", "DTC", "subset of 200 duels", "linear probit", "coin"}
    assert labels("a") == plain
    assert labels("b", approximations=("vfe", "exact"), inputs=("kmeans", "random")) == {
        *("VFE, k-means", "VFE, random", "exact", "linear probit", "coin")
    }
    both = labels("c", approximations=("vfe", "exact"), hyperparameters=("fixed", "joint"))
    assert both == {*("VFE, fixed", "VFE, joint", "exact, fixed", "exact, joint")} | {
        *("linear probit", "coin")
    }
    only = {"approximations": ("vfe",), "baselines": False}
    assert labels("d", engines=("ep", "laplace"), **only) == {"EP", "Laplace"}
    assert labels("e", **only) == {"VFE"}


def test_a_method_is_found_by_label_or_approximation(arrangement):
    assert arrangement.method("fitc").label == "FITC"
    assert arrangement.method("Subset of 200 duels").label == "subset of 200 duels"
    with pytest.raises(ValueError, match=r"did you mean 'FITC'\? It has .*'VFE'"):
        arrangement.method("fitcc")


def test_a_name_of_several_methods_is_refused(tmp_path):
    frame = made_frame(inputs=("random", "kmeans"), fails=())
    found = arrange(results_of(frame, tmp_path))
    with pytest.raises(ValueError, match="'VFE, random', 'VFE, k-means'"):
        found.method("vfe")


def test_sizes_become_panels_only_where_they_were_varied(tmp_path):
    frame = made_frame(seeds=(0, 1), fails=())
    # Splits by items keep more or fewer duels, by chance.
    frame.loc[frame["seed"] == 1, "duels"] = 700
    assert [p.label for p in arrange(results_of(frame, tmp_path / "a")).panels] == ["boston"]
    varied = made_frame(seeds=(0, 1), sizes=(1000, 8000), fails=())
    varied.loc[(varied["seed"] == 1) & (varied["duels"] == 8000), "duels"] = 8100
    panels = arrange(results_of(varied, tmp_path / "b")).panels
    assert [p.label for p in panels] == ["boston, t = 1,000", "boston, t = 8,050"]


def test_runs_that_nothing_tells_apart_are_averaged_and_told(tmp_path):
    frame = made_frame(seeds=(0,), fails=(), approximations=("vfe",), ms=(8,), baselines=False)
    other = frame.assign(run=frame["run"] + "-again", value=frame["value"] + 1.0)
    found = arrange(results_of(pd.concat([frame, other]), tmp_path))
    assert "1 runs differ from others in nothing" in found.notes[0]
    (cell,) = found.cells["nlp_nats"].values()
    assert cell[0] == pytest.approx(values(frame, "vfe", 8, "nlp_nats")[0] + 0.5)


# Means over paired seeds.


def test_mean_and_error_against_loops():
    numbers = [0.3, 0.1, 0.7, 0.2]
    mean = sum(numbers) / 4
    error = math.sqrt(sum((x - mean) ** 2 for x in numbers) / 3 / 4)
    assert mean_and_error(numbers) == pytest.approx((mean, error), rel=IDENTITY)
    assert mean_and_error([2.0])[0] == 2.0 and math.isnan(mean_and_error([2.0])[1])
    assert all(map(math.isnan, mean_and_error([])))


def test_points_are_means_over_the_seeds_that_all_have(frame, results, arrangement):
    points = points_of(arrangement, results.metric("nlp_nats"))
    # FITC lacks seed 3; DTC at 128 has but seeds 3 and 4, and must not take 0, 1, 2 from others.
    common = [0, 1, 2, 4]
    for label, name, m in [("VFE", "vfe", 8), ("FITC", "fitc", 64), ("exact", "exact", None)]:
        by_seed = values(frame, name, m, "nlp_nats")
        numbers = [by_seed[seed] for seed in common]
        found = point(arrangement, points, label, m)
        assert found.seeds == tuple(common) and found.paired
        assert found.mean == pytest.approx(np.mean(numbers), rel=IDENTITY)
        assert found.error == pytest.approx(np.std(numbers, ddof=1) / 2.0, rel=IDENTITY)
    alone = point(arrangement, points, "DTC", 128)
    assert alone.seeds == (3, 4) and not alone.paired and alone.missing == (0, 1, 2)
    assert alone.mean == pytest.approx(
        np.mean(list(values(frame, "dtc", 128, "nlp_nats").values()))
    )


def test_paired_seeds():
    full = frozenset(range(5))
    assert paired_seeds({"a": full, "b": full}) == (full, frozenset())
    assert paired_seeds({"a": full, "b": full - {3}}) == (full - {3}, frozenset())
    assert paired_seeds({"a": full, "b": frozenset({3})}) == (full, frozenset("b"))
    assert paired_seeds({"a": full, "b": frozenset()}) == (full, frozenset())
    assert paired_seeds({"a": frozenset({0}), "b": frozenset({1})})[0] in ({0}, {1})
    assert paired_seeds({}) == (frozenset(), frozenset())


def test_a_point_without_any_value_is_told(tmp_path):
    from sparse_prefgp.lab.report.statistics import notes_of

    frame = made_frame(fails=[("fitc", 64, seed) for seed in range(5)])
    frame.loc[(frame["approximation"] == "dtc") & (frame["inducing"] == 8), "value"] = np.inf
    results = results_of(frame, tmp_path)
    points = points_of(arrange(results), results.metric("nlp_nats"))
    (note,) = notes_of(points)
    assert "no value for" in note and "FITC at m = 64" in note and "DTC at m = 8" in note
    # Exact has no divergence from itself, and is not missed.
    assert not any("exact" in n for n in notes_of(points_of(arrange(results), results.metrics[4])))


# Paired comparisons.


@pytest.fixture(scope="module")
def two_sets(tmp_path_factory) -> tuple[pd.DataFrame, Results]:
    folder = tmp_path_factory.mktemp("two")
    frames = [made_frame(fails=HOLES), made_frame("second", "kin40k", noise=1, fails=())]
    folders = [write_study(folder / str(i), frame) for i, frame in enumerate(frames)]
    return pd.concat(frames, ignore_index=True), read_results(folders)


def test_comparison_against_a_slow_loop(two_sets):
    frame, results = two_sets
    found = arrange(results)
    first, second = found.method("DTC"), found.method("VFE")
    rows = compare_methods(found, results.metric("nlp_nats"), first, second)
    seen = 0
    for row in rows:
        if "each once" in row.where:
            continue
        seen += 1
        (m, _) = row.m
        own = frame[frame["data"] == row.where]
        one, two = (values(own, name, m, "nlp_nats") for name in ("dtc", "vfe"))
        differences = [one[seed] - two[seed] for seed in range(5) if seed in one and seed in two]
        assert row.pairs == len(differences)
        assert row.mean == pytest.approx(np.mean(differences), rel=IDENTITY)
        test = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
        assert row.interval == pytest.approx((test.low, test.high), rel=IDENTITY)
        assert row.wins == sum(d < 0 for d in differences)
        assert row.losses == sum(d > 0 for d in differences)
        lost = (0, 1, 2) if (row.where, m) == ("boston", 128) else ()
        assert row.unmatched == lost
    assert seen == 10


def test_all_data_sets_count_once_each(two_sets):
    _, results = two_sets
    found = arrange(results)
    rows = compare_methods(
        found, results.metric("nlp_nats"), found.method("FITC"), found.method("VFE")
    )
    for before, both in pairwise([r for r in rows if r.m == (64, 64)][1:]):
        parts = [r.mean for r in rows if r.m == (64, 64) and "each once" not in r.where]
        assert (
            both.where == "2 data sets, each once" and both.pairs == 2 and before.where == "kin40k"
        )
        assert both.mean == pytest.approx(np.mean(parts), rel=IDENTITY)
        assert both.error == pytest.approx(abs(parts[0] - parts[1]) / 2, rel=IDENTITY)


def test_sizes_and_splits_of_one_data_set_are_not_counted_as_data_sets(tmp_path):
    sizes = made_frame(sizes=(40, 80, 120), seeds=(0, 1), fails=())
    splits = made_frame("splits", "abalone", seeds=(0, 1), fails=())
    by_item = splits.assign(split="items", run=splits["run"] + "-items")
    other = made_frame("other", "kin40k", sizes=(40, 80), seeds=(0, 1), fails=(), noise=1)
    frames = {"sizes": sizes, "splits": pd.concat([splits, by_item]), "other": other}
    folders = [write_study(tmp_path / name, frame) for name, frame in frames.items()]

    def over_sets(*read: Path) -> list[Any]:
        results = read_results(read)
        found = arrange(results)
        one, two = found.method("FITC"), found.method("VFE")
        rows = compare_methods(found, results.metric("nlp_nats"), one, two)
        assert any(row.pairs for row in rows)
        return [row for row in rows if "each once" in row.where and row.m == (8, 8)]

    assert over_sets(folders[0]) == [] and over_sets(folders[1]) == []
    assert over_sets(*folders[:2]) == []  # no size and split that both have
    rows = over_sets(*folders)
    assert [row.where for row in rows] == [f"2 data sets, each once, t = {t}" for t in (40, 80)]
    for row, t in zip(rows, (40, 80), strict=True):
        parts = []
        for frame in (sizes, other):
            own = frame[frame["duels"] == t]
            one, two = (values(own, name, 8, "nlp_nats") for name in ("fitc", "vfe"))
            parts.append(np.mean([one[seed] - two[seed] for seed in (0, 1)]))
        assert row.pairs == 2 and row.mean == pytest.approx(np.mean(parts), rel=IDENTITY)


def test_only_metrics_of_one_scale_are_averaged_over_data_sets(two_sets):
    _, results = two_sets
    found = arrange(results)
    pooled = {
        metric.name
        for metric in results.metrics
        for row in compare_methods(found, metric, found.method("FITC"), found.method("VFE"))
        if "each once" in row.where
    }
    assert pooled == {
        *("accuracy", "nlp_nats", "brier", "calibration_error", "probability_rmse"),
        "log_evidence_per_duel",
    }


def test_a_method_without_m_meets_every_m(two_sets):
    _, results = two_sets
    found = arrange(results)
    rows = compare_methods(
        found, results.metric("accuracy"), found.method("exact"), found.method("VFE")
    )
    assert {row.m for row in rows} == {(None, m) for m in (8, 16, 32, 64, 128)}
    last = at_largest_m(rows)
    assert [row.m for row in last] == [(None, 128)] * 3
    assert all(row.wins == row.pairs for row in last)  # higher is better


# Best.


def test_best_and_what_is_within_one_paired_standard_error():
    noise = {0: 0.0, 1: 1.0, 2: -1.0, 3: 0.5}
    best = {seed: value for seed, value in noise.items()}
    # Ever 0.1 above: far below the spread over seeds, yet clear on the same seeds.
    shifted = {seed: value + 0.1 for seed, value in noise.items()}
    swings = {seed: value + 0.05 + (-1) ** seed for seed, value in noise.items()}
    rivals = {"best": best, "shifted": shifted, "swings": swings}
    assert best_of(rivals, "lower") == {"best", "swings"}
    assert best_of(rivals, "higher") == {"shifted", "swings"}
    assert best_of(rivals, "none") == frozenset()
    assert best_of({"a": {0: 1.0}, "b": {0: 1.0}, "c": {0: 2.0}}, "lower") == {"a", "b"}
    assert best_of({"a": {0: 1.0}, "b": {0: math.nan}}, "lower") == frozenset()


# Exponents.


def test_power_law_against_the_normal_equations():
    rng = np.random.default_rng(0)
    x = np.repeat([10.0, 100.0, 1000.0, 5000.0], 3)
    y = 0.2 * x**1.7 * np.exp(0.1 * rng.normal(size=x.size))
    slope, error, constant, points = power_law(x, y)
    design = np.column_stack([np.ones_like(x), np.log(x)])
    coefficients = np.linalg.solve(design.T @ design, design.T @ np.log(y))
    residuals = np.log(y) - design @ coefficients
    covariance = np.linalg.inv(design.T @ design) * (residuals @ residuals) / (x.size - 2)
    assert (math.log(constant), slope) == pytest.approx(tuple(coefficients), rel=IDENTITY)
    assert error == pytest.approx(math.sqrt(covariance[1, 1]), rel=IDENTITY)
    assert points == 12
    assert power_law([1.0, 2.0, 2.0], [1.0, 2.0, 3.0]) is None
    assert power_law([1.0, 2.0, 3.0], [1.0, 2.0, 0.0]) is None


def test_exponents_in_m_and_t(tmp_path):
    frame = made_frame(
        approximations=("vfe",), sizes=(1000, 10_000, 100_000), ms=(32, 128, 512), fails=()
    )
    seconds = frame["metric"] == "fit_seconds"
    m, t = (frame.loc[seconds, name].astype(float) for name in ("inducing", "duels"))
    frame.loc[seconds, "value"] = (2e-6 * t**0.9 * m**1.8).fillna(1e-3)
    results = results_of(frame, tmp_path)
    found = exponents_of(arrange(results), results.metric("fit_seconds"))
    assert [(e.variable, e.where, e.m) for e in found] == [
        *(("m", f"boston, t = {t}", None) for t in ("1,000", "10,000", "100,000")),
        *(("t", "boston", m) for m in (32, 128, 512)),
    ]
    for exponent in found:
        wanted = 1.8 if exponent.variable == "m" else 0.9
        assert exponent.slope == pytest.approx(wanted, rel=IDENTITY) and exponent.points == 15
    assert exponents_of(arrange(results), results.metric("nlp_nats")) == []


def test_geometric_means_against_loops():
    pairs = [(2.0, 1.0), (1.0, 5.0), (2.0, 4.0), (2.0, 0.0), (2.0, 16.0)]
    one, two = geometric_means(pairs)
    assert (one.x, one.mean) == pytest.approx((1.0, 5.0), rel=IDENTITY)
    assert math.isnan(one.low) and math.isnan(one.high)
    error = math.log(4.0) / math.sqrt(3)  # the logs are 0, log 4 and 2 log 4
    wanted = (2.0, 4.0, 4.0 * math.exp(-error), 4.0 * math.exp(error))
    assert two == pytest.approx(wanted, rel=IDENTITY)


@pytest.mark.slow
def test_memory_that_may_be_all_of_graphs_is_told_and_not_ranked(tmp_path):
    frame = made_frame(approximations=("exact", "vfe", "fitc"), sizes=(40, 80, 120), fails=())
    memory = frame["metric"] == "peak_memory_bytes"
    m = frame["inducing"].astype(float)
    # All of FITC is below 256 MiB; VFE leaves that at m = 128.
    frame.loc[memory, "value"] = 8e7 * (1.0 + 0.01 * (frame["seed"] % 5).astype(float))
    frame.loc[memory & (frame["approximation"] == "vfe") & (m == 128), "value"] = 1.6e9
    results = results_of(frame, tmp_path)
    found, metric = arrange(results), results.metric("peak_memory_bytes")
    exponents = exponents_of(found, metric)
    assert {(e.variable, e.method.label, e.m) for e in exponents} == {
        ("m", "VFE", None),
        ("t", "VFE", 128),
    }
    told = " ".join(notes_of_memory(found, metric))
    assert (
        "boston, t = 40; boston, t = 80; boston, t = 120: memory taken has no exponent in m" in told
    )
    assert "in m for FITC (76 to 79 MiB)" in told
    assert "boston: memory taken has no exponent in t for exact; VFE at m = 8" in told
    assert "of each, all values are below 256 MiB, which tracing and comp" in told
    first, second = found.method("FITC"), found.method("VFE")
    rows = compare_methods(found, metric, first, second)
    assert {row.m for row in rows} == {(128, 128)}
    (note,) = notes_of_comparison(found, metric, first, second)
    assert "FITC and VFE are not compared by memory taken at m = 8, 16, 32, 64: all" in note
    table = metric_table(found, metric)
    bold = [
        [cell.best for cell in cells] for _, rows in table.blocks for _, *cells in table.cells(rows)
    ]
    assert not any(any(row[:4]) for row in bold) and any(row[4] for row in bold)
    # Seconds that are as near are compared.
    seconds = results.metric("fit_seconds")
    frame.loc[frame["metric"] == "fit_seconds", "value"] = 3.0
    close = arrange(results_of(frame, tmp_path / "close"))
    assert compare_methods(close, seconds, close.method("FITC"), close.method("VFE"))
    assert notes_of_memory(close, seconds) == []
    frame.loc[memory & (m == 128), "value"] = 8e7
    (note_of_all,) = notes_of_memory(arrange(results_of(frame, tmp_path / "all")), metric)
    assert "boston: memory taken is 76 to 79 MiB whatever the method: all values" in note_of_all
    report = spg.lab.study_report(
        tmp_path / "study", compare=("FITC", "VFE"), metrics=[metric.name]
    )
    assert told.split(". ")[0] in " ".join(report.notes) and note in report.notes


# Reliability.


def test_pooled_bins_are_those_of_all_duels_together(frame, results, arrangement):
    curves = reliabilities(arrangement, results.metric("calibration_error"))
    (curve,) = [c for c in curves if c.key.method.label == "FITC" and c.key.m == 8]
    assert curve.seeds == (0, 1, 2, 4)  # FITC lacks seed 3 at another m
    own = frame[(frame["approximation"] == "fitc") & (frame["inducing"] == 8)]
    runs = dict(zip(own["seed"], own["run"], strict=True))
    together = np.concatenate([made_predictions(runs[seed]) for seed in curve.seeds])
    wanted = calibration_bins(np.log(together))
    assert len(curve.bins) == len(wanted) == 10
    for one, two in zip(curve.bins, wanted, strict=True):
        assert (one.lower, one.upper, one.duels) == (two.lower, two.upper, two.duels)
        assert one.confidence == pytest.approx(two.confidence, rel=IDENTITY)
        assert one.share_won == pytest.approx(two.accuracy, rel=IDENTITY)
        squares, seeds = 0.0, 0
        for seed in curve.seeds:
            parts = calibration_bins(np.log(made_predictions(runs[seed])))
            for part in (part for part in parts if part.lower == one.lower):
                squares += (part.duels * (part.accuracy - one.share_won)) ** 2
                seeds += 1
        error = math.sqrt(squares * seeds / (seeds - 1)) / one.duels
        assert one.error == pytest.approx(error, rel=IDENTITY)
    total = sum(one.duels * abs(one.confidence - one.share_won) for one in curve.bins)
    assert total / len(together) == pytest.approx(
        score(np.log(together))["calibration_error"], rel=IDENTITY
    )


def test_runs_of_one_seed_count_once_and_one_seed_has_no_error():
    bins = calibration_bins(np.log(made_predictions("a")))
    other = calibration_bins(np.log(made_predictions("b")))
    assert pooled_bins({0: [bins, bins], 1: [other]}) == pooled_bins({0: [bins], 1: [other]})
    alone = pooled_bins({0: [bins]})
    assert [one.share_won for one in alone] == pytest.approx([one.accuracy for one in bins])
    assert all(math.isnan(one.error) for one in alone)


def test_runs_without_bins_are_told(frame, tmp_path):
    folder = write_study(tmp_path / "study", frame)
    paths = [p for p in sorted((folder / "runs").glob("*.json")) if "exact" in p.name][:3]
    good = json.loads(paths[0].read_text())["calibration_bins"]
    for path, bins in zip(paths, (None, [{"lower": 0.5}], [good[0] | {"duels": 0}]), strict=True):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "calibration_bins": bins}))
    results = read_results([folder])
    note = f"The records of 3 runs, the first {paths[0].stem!r}, hold no bins"
    assert any(note in one for one in results.notes)
    curves = reliabilities(arrange(results), results.metric("calibration_error"))
    (exact,) = [c for c in curves if c.key.method.label == "exact"]
    assert len(exact.seeds) == 1


# Tables.


def rows_of(table: Table) -> dict[str, list[Cell]]:
    ((_, rows),) = table.blocks
    return {cells[0].plain: cells[1:] for cells in table.cells(rows)}


def test_numbers_in_a_table_are_those_of_the_frame(frame, results, arrangement):
    table = metric_table(arrangement, results.metric("peak_memory_bytes"))
    assert table.headings == [*("method", "m = 8", "m = 16", "m = 32", "m = 64", "m = 128", "no m")]
    assert "(MiB)" in table.title
    rows = rows_of(table)
    megabytes = np.mean([values(frame, "vfe", 16, "peak_memory_bytes")[s] for s in (0, 1, 2, 4)])
    assert rows["VFE"][1].mean == pytest.approx(megabytes / 2**20, rel=IDENTITY)
    assert rows["VFE"][-1].plain == "–" and rows["exact"][0].plain == "–"
    assert rows["DTC"][4].alone and "*" in table.caption
    nats = rows_of(metric_table(arrangement, results.metric("nlp_nats")))
    assert [row[0].best for row in nats.values()].count(True) == 1 and nats["FITC"][0].best


def test_the_summary_is_at_the_largest_shared_m_and_leaves_the_coin_out(results, arrangement):
    table = summary_table(arrangement, [results.metric("nlp_nats"), results.metric("accuracy")])
    rows = rows_of(table)
    assert [rows[name][0].plain for name in ("VFE", "FITC", "exact")] == ["128", "128", "–"]
    assert table.headings[2:] == [
        *("negative log predictive (nats)\u00a0↓", "accuracy (share)\u00a0↑"),
    ]
    assert not any(cell.best for cell in rows["coin"])
    assert any(cell.best for row in rows.values() for cell in row)


# The folder.


class Page(HTMLParser):
    """Tags, addresses and text of a page; complains of tags that do not match."""

    VOID = ("meta", "img", "link", "br", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str | None] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "srcset", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


ATTACK = "<script>alert('x')</script> & {{ 7 * 7 }} $x_1$"


@pytest.fixture(scope="module")
def small() -> pd.DataFrame:
    return made_frame(
        approximations=("exact", "vfe", "fitc"),
        ms=(8, 16, 32),
        seeds=(0, 1, 2),
        fails=[("fitc", 8, 1)],
    )


@pytest.fixture(scope="module")
def written(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    frame = small.assign(data=ATTACK)
    frame["reason"] = frame["reason"].where(frame["reason"] == "", ATTACK)
    write_study(folder / "study", frame, title=ATTACK)
    return spg.lab.study_report(
        folder / "study", compare=("FITC", "vfe"), metrics=["nlp_nats", "fit_seconds"]
    )


def test_the_page_needs_nothing_else_and_escapes_everything(written):
    page = Page((written.folder / "report.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags and "link" not in page.tags
    assert page.addresses and all(str(a).startswith("data:image/png;") for a in page.addresses)
    assert page.text.count(ATTACK) >= 3
    assert "Before you rely on this 1 run failed" in page.text
    for words in ("abc1234", "3.11.7", "some processor", "FITC less VFE", "0123456789ab"):
        assert words in page.text, words
    assert page.text.index("1 run failed") < page.text.index("FITC less VFE")


def test_the_files(written):
    names = {
        str(path.relative_to(written.folder))
        for path in written.folder.rglob("*")
        if path.is_file()
    }
    assert names <= set(written.files)
    pictures = {"nlp_nats", "fit_seconds", "nlp_nats_against_time"}
    assert {name for name in names if name.startswith("figures/")} == {
        f"figures/{name}.{ending}" for name in pictures for ending in ("png", "pdf")
    }
    tables = {"summary", "comparison", "exponents", "pairs", "nlp_nats", "fit_seconds"}
    assert {name for name in names if name.startswith("tables/")} == {
        f"tables/{name}.{ending}" for name in tables for ending in ("tex", "md")
    }
    told = json.loads((written.folder / "report.json").read_text())
    assert {curve["method"] for curve in told["reliability"]} == {
        *("VFE", "FITC", "exact", "linear probit", "coin")
    }
    (exact,) = [curve for curve in told["reliability"] if curve["method"] == "exact"]
    assert exact["seeds"] == [0, 2] and sum(one["duels"] for one in exact["bins"]) == 120
    assert set(exact["bins"][0]) == {
        *("lower", "upper", "duels", "confidence", "share_won", "error")
    }
    assert told["program"] == "sparse-prefgp" and told["compared"] == ["FITC", "VFE"]
    assert "commit abc1234" in (written.folder / "tables" / "summary.tex").read_text()


def test_a_report_is_replaced_and_nothing_foreign_is_lost(small, tmp_path):
    folder = write_study(tmp_path / "study", small)
    first = spg.lab.study_report(folder, metrics=["brier"])
    assert (first.folder / "figures" / "brier.png").is_file()
    pictures = {path.name: path.read_bytes() for path in (first.folder / "figures").iterdir()}
    spg.lab.study_report(folder, metrics=["brier"])
    for path in (first.folder / "figures").iterdir():
        assert path.read_bytes() == pictures[path.name]  # no clock in PNG or PDF
    spg.lab.study_report(folder, metrics=["accuracy"])
    assert not (first.folder / "figures" / "brier.png").exists()
    (first.folder / "figures" / "mine.txt").write_text("keep me")
    with pytest.raises(ValueError, match=r"'figures/mine\.txt'"):
        spg.lab.study_report(folder, metrics=["accuracy"])
    assert (first.folder / "figures" / "mine.txt").read_text() == "keep me"
    with pytest.raises(ValueError, match="holds a study"):
        spg.lab.study_report(folder, folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        spg.lab.study_report(folder, tmp_path / "file")


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.mark.slow
def test_the_command(small, tmp_path):
    folder = write_study(tmp_path / "study", small)
    result = call(folder, "--metric", "nlp_nats", "--compare", "FITC", "VFE")
    assert result.exit_code == 0, result.output
    assert "1 of 27 runs failed" in result.stdout and "nlp nats" in result.stdout
    assert (folder / "report" / "report.html").is_file()
    result = call(folder, "--metric", "nlp_nats", "--out", tmp_path / "other", "--json")
    told = json.loads(result.stdout)
    assert told["runs"] == 27 and told["failed"][0]["runs"].endswith("s1")
    assert call(folder, "--metric", "accuracy", "--quiet").stdout == ""


def test_mistakes_are_one_sentence_and_touch_nothing(small, tmp_path):
    folder = write_study(tmp_path / "study", small)
    other = write_study(tmp_path / "other", made_frame("other", "kin40k", seeds=(0,)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for arguments, words in [
        ((tmp_path / "nowhere",), "does not exist"),
        ((tmp_path,), "holds no study.json"),
        ((folder, "--compare", "FITC", "SVGP"), "'SVGP' is unknown"),
        ((folder, "--compare", "FITC", "fitc"), "compared with itself"),
        ((folder, "--metric", "acuracy"), "did you mean 'accuracy'?"),
        ((folder, "--out", folder), "holds a study"),
        ((folder, "--out", folder / "results.csv"), "is a file"),
        ((folder, other), "give one with --out"),
    ]:
        result = call(*arguments)
        assert result.exit_code == 2, result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ") and words in line and line.endswith("."), line
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
