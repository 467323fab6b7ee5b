"""The report of a study: what is averaged, paired, compared, fitted, drawn and written."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from scipy import stats
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.lab.measures import MEASURES
from sparse_prefgp.lab.report import Results, read_results
from sparse_prefgp.lab.report.figures import draw_against_m, facets_of, looks_of
from sparse_prefgp.lab.report.statistics import (
    best_of,
    differences,
    notes_of,
    paired_seeds,
    points_of,
)
from sparse_prefgp.lab.report.tables import metric_table, pairs_table, summary_table
from sparse_prefgp.tell import Table
from tests.reference.made_studies import made_frame, write_study
from tests.tolerances import IDENTITY

HOLES = [("fitc", 64, 3), ("dtc", 128, 0), ("dtc", 128, 1), ("dtc", 128, 2)]
NLP, FIT = MEASURES["nlp_nats"], MEASURES["fit_seconds"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Two studies; in the first some runs failed."""
    place = tmp_path_factory.mktemp("two")
    frames = [made_frame(fails=HOLES), made_frame("second", "kin40k", noise=1, fails=())]
    return [write_study(place / str(i), frame) for i, frame in enumerate(frames)]


@pytest.fixture(scope="module")
def results(folders) -> Results:
    return read_results(folders)


def by_loops(data: str, approximation: str, m: int, metric: str) -> dict[int, float]:
    """Values by seed, straight from the frame."""
    frame = made_frame(fails=HOLES)
    if data == "kin40k":
        frame = made_frame("second", "kin40k", noise=1, fails=())
    values = {}
    for row in frame.to_dict("records"):
        same_m = pd.isna(row["inducing"]) if m == 0 else row["inducing"] == m
        if row["approximation"] == approximation and same_m and row["metric"] == metric:
            values[int(row["seed"])] = row["value"]
    return values


def test_points_are_means_over_the_seeds_that_all_have(results) -> None:
    points = points_of(results, NLP)
    # FITC lacks seed 3; DTC at 128 has but seeds 3 and 4, and must not take 0, 1, 2 from others.
    common = [0, 1, 2, 4]
    for label, name, m in [("VFE", "vfe", 8), ("FITC", "fitc", 64), ("exact", "exact", 0)]:
        numbers = [by_loops("boston", name, m, "nlp_nats")[seed] for seed in common]
        mean = sum(numbers) / 4
        error = math.sqrt(sum((x - mean) ** 2 for x in numbers) / 3 / 4)
        point = points.loc["boston", label, m]
        assert point["seeds"] == tuple(common) and point["paired"]
        assert (point["mean"], point["error"]) == pytest.approx((mean, error), rel=IDENTITY)
    alone = points.loc["boston", "DTC", 128]
    assert alone["seeds"] == (3, 4) and not alone["paired"] and alone["missing"] == (0, 1, 2)
    first, second = notes_of(points)
    assert "without seeds 3, missing for FITC at m = 64" in first and "DTC at m = 128" in second


def test_paired_seeds() -> None:
    def pair(*rows: list[float]) -> Any:
        return paired_seeds(pd.DataFrame(rows, index=list("abc")[: len(rows)]))

    here, nan = 1.0, math.nan
    assert pair([here] * 5, [here] * 5) == ([0, 1, 2, 3, 4], ["a", "b"])
    assert pair([here] * 5, [here, here, here, nan, here]) == ([0, 1, 2, 4], ["a", "b"])
    assert pair([here] * 5, [nan, nan, nan, here, nan]) == ([0, 1, 2, 3, 4], ["a"])
    assert pair([here] * 2, [nan] * 2) == ([0, 1], ["a"])
    assert pair([nan] * 2) == ([], [])


def test_comparison_against_a_slow_loop(results) -> None:
    rows = [row for row in differences(results, NLP, "DTC", "VFE") if "each once" not in row.data]
    assert len(rows) == 10
    for row in rows:
        one, two = (by_loops(row.data, name, row.m, "nlp_nats") for name in ("dtc", "vfe"))
        apart = [one[seed] - two[seed] for seed in range(5) if seed in one and seed in two]
        assert row.pairs == len(apart)
        assert row.mean == pytest.approx(sum(apart) / len(apart), rel=IDENTITY)
        test = stats.ttest_1samp(apart, 0.0).confidence_interval(0.95)
        assert row.interval == pytest.approx((test.low, test.high), rel=IDENTITY)
        assert (row.won, row.lost) == (sum(d < 0 for d in apart), sum(d > 0 for d in apart))
        assert row.unmatched == ((0, 1, 2) if (row.data, row.m) == ("boston", 128) else ())


def test_data_sets_count_once_each(results, tmp_path) -> None:
    rows = [row for row in differences(results, NLP, "FITC", "VFE") if row.m == 64]
    assert [row.data for row in rows] == ["boston", "kin40k", "2 data sets, each once"]
    parts = [row.mean for row in rows[:2]]
    assert rows[2].mean == pytest.approx(np.mean(parts), rel=IDENTITY)
    assert rows[2].error == pytest.approx(abs(parts[0] - parts[1]) / 2, rel=IDENTITY)
    # Sizes of one data set share its duels, and seconds are on no common scale.
    sizes = write_study(tmp_path / "sizes", made_frame(sizes=(40, 80), seeds=(0, 1), fails=()))
    of_sizes = read_results([sizes])
    assert of_sizes.data == ["boston, t = 40", "boston, t = 80"]
    more = [*differences(of_sizes, NLP, "FITC", "VFE"), *differences(results, FIT, "FITC", "VFE")]
    assert not [row for row in more if "each once" in row.data]


def test_a_method_without_m_meets_every_m(results) -> None:
    rows = differences(results, MEASURES["accuracy"], "exact", "VFE")
    assert {(row.first_m, row.second_m) for row in rows} == {(0, m) for m in (8, 16, 32, 64, 128)}
    assert all(row.won == row.pairs for row in rows)  # higher is better


def test_best_and_what_is_within_one_paired_standard_error() -> None:
    noise = np.array([0.0, 1.0, -1.0, 0.5])
    # Ever 0.1 above: far below the spread over seeds, yet clear on the same seeds.
    swings = noise + 0.05 + np.array([1.0, -1.0, 1.0, -1.0])
    rivals = pd.DataFrame({"best": noise, "shifted": noise + 0.1, "swings": swings}).T
    assert best_of(rivals, -1) == {"best", "swings"}
    assert best_of(rivals, 1) == {"shifted", "swings"}
    assert best_of(rivals, 0) == set() and best_of(rivals.iloc[:1], 1) == set()
    assert best_of(pd.DataFrame({0: {"a": 1.0, "b": 1.0, "c": 2.0}}), -1) == {"a", "b"}


def test_tables(results) -> None:
    points = points_of(results, NLP)
    table = metric_table(results, NLP)
    (boston, _) = table.blocks
    row = next(row for row in boston[1] if row["method"] == "VFE")
    assert row["8"].mean == points.loc["boston", "VFE", 8]["mean"]
    summary = summary_table(results, [NLP, FIT])
    assert len(summary.columns) == 4 and summary.columns[2].heading == "nlp, nats\u00a0↓"
    assert summary_table(results, [NLP], more=True).title != summary.title
    first = [NLP, MEASURES["accuracy"], MEASURES["evidence_gap"], FIT]
    assert [column.spare for column in summary_table(results, first).columns[2:]] == [0, 3, 2, 1]
    rows = {row["method"]: row for row in summary.blocks[0][1]}
    assert not rows["coin"]["nlp_nats"].best and rows["DTC"]["nlp_nats"].alone
    assert [row["m"] for row in rows.values()].count("128") == 3
    pairs = {row[""]: row for row in pairs_table(results, NLP).blocks[0][1]}
    assert pairs["VFE"]["FITC"].mean == -pairs["FITC"]["VFE"].mean
    assert pairs["VFE"]["coin"].best and not pairs["coin"]["VFE"].best


def test_labels_hold_only_what_differs(tmp_path) -> None:
    frame = made_frame(approximations=("vfe",), inputs=("kmeans", "random"), baselines=False)
    one = read_results([write_study(tmp_path / "one", frame)])
    assert list(one.methods) == ["k-means", "random"]
    assert one.method("RANDOM") == "random"
    with pytest.raises(ValueError, match="'vfe' can be any of 'k-means', 'random'"):
        one.method("vfe")
    with pytest.raises(ValueError, match="'randm' is unknown; did you mean 'random'"):
        one.method("randm")


def test_figures(results, tmp_path) -> None:
    ((about, figure),) = draw_against_m(results, NLP)
    ax = figure.axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    points = points_of(results, NLP).loc["boston"]
    curve = points.loc["VFE"]["mean"]
    assert list(lines["VFE"].get_ydata()) == list(curve) and len(ax.collections) >= 3
    assert lines["exact"].get_ydata()[0] == points.loc[("exact", 0), "mean"]
    assert "coin 0.693 ↑" in ax.texts[0].get_text() and "seeds 3" in about.caption
    # With many methods settings have axes of their own, and colours tell approximations.
    frame = made_frame(inputs=("kmeans", "random"), hyperparameters=("joint", "fixed"))
    many = read_results([write_study(tmp_path / "many", frame)])
    facets = facets_of(many, points_of(many, NLP))
    assert [facet.label for facet in facets][:2] == [
        "boston, k-means, joint",
        "boston, random, joint",
    ]
    assert len({looks_of(many)[label].color for label in facets[0].methods}) == 6


# The report as it is written.


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    frame = made_frame(
        "<b>&", ms=(8, 16, 32), seeds=(0, 1), approximations=("exact", "vfe", "fitc")
    )
    return write_study(tmp_path_factory.mktemp("small") / "small", frame, "100 % of <b>$x_1$</b>")


class Links(HTMLParser):
    """What a page would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("script", "link", "iframe", "b"):
            self.found.append(tag)
        self.found += [v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")]


@pytest.mark.slow
def test_the_files_of_a_report(small, tmp_path) -> None:
    metrics = ["nlp_nats", "accuracy", "brier", "log_evidence_per_duel", "fit_seconds"]
    report = spg.lab.study_report(small, compare=("FITC", "vfe"), metrics=metrics)
    folder = small / "report"
    page = (folder / "report.html").read_text()
    assert Links(page).found == [] and "&lt;b&gt;$x_1$&lt;/b&gt;" in page
    tables = {path.stem for path in (folder / "tables").glob("*.tex")}
    assert tables == {path.stem for path in (folder / "tables").glob("*.md")}
    assert tables == {
        *metrics,
        "summary",
        "summary_more",
        "comparison",
        "comparison_every_m",
        "pairs",
    }
    assert {path.stem for path in (folder / "figures").glob("*.png")} == {
        path.stem for path in (folder / "figures").glob("*.pdf")
    }
    summary = (folder / "tables" / "summary.tex").read_text()
    first = summary.partition("\\toprule\n")[2].partition("\n")[0]
    assert first.count("&") == 5 and "\\begin{tabular}{lrrrrr}" in summary
    assert first.startswith("method & m & nlp, nats") and "$0." in summary
    assert "\\resizebox" in summary and "\\end{tabular}}" in summary
    assert isinstance(report.summary, Table) and len(report.summary.shown) == 6
    told = json.loads((folder / "report.json").read_text())
    assert {row["measure"] for row in told["differences"]} == set(metrics)
    assert told["failed"] == []
    # An earlier report is replaced, what is beside it stays, and nothing foreign is lost.
    (folder / "notes.txt").write_text("mine")
    spg.lab.study_report(small, metrics=["accuracy"])
    assert (folder / "notes.txt").read_text() == "mine"
    assert [path.stem for path in (folder / "tables").glob("*.md")].count("nlp_nats") == 0


def test_mistakes_are_one_sentence_and_touch_nothing(small, tmp_path) -> None:
    (tmp_path / "photo").mkdir()
    (tmp_path / "photo" / "photo.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    for words, message in (
        ([tmp_path / "nowhere"], "does not exist; give a folder that sparse-prefgp ablate wrote"),
        ([tmp_path / "empty"], "holds no study.json; give a folder"),
        ([tmp_path / "photo" / "photo.txt"], "photo.txt' holds no study.json; give a folder"),
        ([small, small, "--out", tmp_path / "new"], "is there twice in"),
        ([small, small], "2 studies were given and no place"),
        ([small, "--metric", "nlp_nat"], "no metric 'nlp_nat'; did you mean 'nlp_nats'"),
        ([small, "--compare", "VFE", "FITCC"], "'FITCC' is unknown; did you mean 'FITC'"),
        ([small, "--compare", "VFE", "vfe"], "compared with itself"),
        ([small, "--compare", "VFE", "--quiet"], "--compare has 'VFE' alone; give two"),
        ([small, "--out", tmp_path / "photo"], "holds 'photo.txt', which is no part of a report"),
        ([small, "--out", small], "holds a study; give another"),
    ):
        result = CliRunner().invoke(app, ["report", *map(str, words)])
        assert result.exit_code == 2, result.output
        assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "photo").iterdir()] == ["photo.txt"]


def test_a_study_without_a_run_that_succeeded(tmp_path) -> None:
    frame = made_frame(approximations=("fitc",), ms=(64,), seeds=(3,), baselines=False)
    with pytest.raises(ValueError, match=r"no run in .* that has succeeded, .* could not be"):
        read_results([write_study(tmp_path / "failed", frame)])
