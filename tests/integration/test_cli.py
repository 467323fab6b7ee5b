"""The command line: files written, tables printed, mistakes answered in one sentence."""

import csv
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.together import sentence

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.cli.fit_printer import column_lines
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io import read_duels
from sparse_prefgp.io.choices import READERS
from sparse_prefgp.learning.notes import idle_note
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.workflow.fit_metrics import fit_figures
from sparse_prefgp.workflow.holdout import (
    fit_model,
    prepare,
)
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import (
    APPROXIMATION_NAMES,
    ApproximationChoice,
)
from sparse_prefgp.workflow.settings import FitSettings

SCORES = {"accuracy", "nlp_nats", "nlp_bits", "nlp_se", "se_over", "brier", "calibration_error"}
SCORES |= {"duels"}
RANKING_COLUMNS = ["rank", "item_id", "utility", "sd", "lower", "upper", "p_best", "p_top_k"]
RANKING_COLUMNS += ["rank_low", "rank_high", "likely_low", "likely_high", "group", "elo"]
RANKING_COLUMNS += ["comparisons", "outside_range", "copies", "same_as"]
FILES = {"metrics.json", "ranking.csv", "model", "pictures"}
ITEMS = 14


def make_tables(folder: Path) -> tuple[Path, Path]:
    """A small pair of tables: two numbers and a category; a person and a day for each duel."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ITEMS, 2))
    kinds = ["red", "green"] * (ITEMS // 2)
    lines = [
        f"i{i},{a:.6f},{b:.6f},{k}" for i, ((a, b), k) in enumerate(zip(x, kinds, strict=True))
    ]
    items = folder / "items.csv"
    items.write_text("item_id,height,width,colour\n" + "\n".join(lines) + "\n", encoding="utf-8")
    rows = []
    for i in range(90):
        first, second = rng.choice(ITEMS, 2, replace=False)
        if x[first].sum() + rng.normal() < x[second].sum() + rng.normal():
            first, second = second, first
        rows.append(f"i{first},i{second},p{i % 9},{i // 3}")
    duels = folder / "duels.csv"
    duels.write_text("winner,loser,person,day\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return items, duels


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    return make_tables(tmp_path)


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(tables: tuple[Path, Path], out: Path, *more: Any) -> Any:
    items, duels = tables
    return call(
        "fit", "--items", items, "--duels", duels, "--out", out, "--max-iterations", 3, *more
    )


def metrics(out: Path) -> Any:
    return json.loads((out / "metrics.json").read_text(encoding="utf-8"))


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_fit_writes_metrics_ranking_and_model(tables: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    result = fit(tables, out, "--inducing", 6)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for text in ("items (n)", "Duels held out at random", "vfe", "linear probit", "coin"):
        assert text in result.stdout
    assert "\nNumeric features: height, width\n" in result.stdout
    assert "\nCategorical, one-hot encoded: colour (2 levels)\n" in result.stdout

    found = metrics(out)
    assert set(found["held_out"]) == {"model", "linear_probit", "coin"}
    for name, scores in found["held_out"].items():
        # How sure it is that the model is better than a rival; of the model itself there is none.
        assert set(scores) == (SCORES if name == "model" else SCORES | {"gain_se"})
        assert scores["duels"] == 18
    assert found["held_out"]["coin"]["nlp_bits"] == pytest.approx(1.0)
    wanted = {
        "approximation": "vfe",
        "kernel": "linear+matern52",
        "inducing": 6,
        "converged": True,
        "failed_evaluations": 0,
        "jitter": 0.0,
        "negative_variances_set_to_zero": 0,
    }
    assert 0.0 <= found["fit"]["clipped"] < 1e-9
    assert wanted.items() <= found["fit"].items()
    assert {"log_evidence", "sweeps", "seconds", "iterations"} <= set(found["fit"])
    assert found["fit"]["log_evidence_per_duel"] == pytest.approx(found["fit"]["log_evidence"] / 72)
    assert (found["refit"], found["split"], found["seed"]) == (False, "duels", 0)
    assert {"python", "gpflow", "tensorflow"} <= set(found["versions"])
    # So few items meet again and again.
    unseen = found["held_out_unseen_pairs"]
    assert unseen["either_order"]["model"]["duels"] <= unseen["ordered"]["model"]["duels"] < 18

    with (out / "ranking.csv").open(encoding="utf-8", newline="") as file:
        ranking = list(csv.DictReader(file))
    assert list(ranking[0]) == RANKING_COLUMNS
    assert [int(row["rank"]) for row in ranking] == list(range(1, ITEMS + 1))
    assert {row["item_id"] for row in ranking} == {f"i{i}" for i in range(ITEMS)}
    utility, lower = ([float(row[name]) for row in ranking] for name in ("utility", "lower"))
    assert found["ranking"]["order"] == "lower", "some have more duels than others"
    assert np.all(np.diff(lower) <= 0)
    assert abs(np.mean(utility)) < 1e-12
    assert all(float(row["sd"]) > 0 for row in ranking)
    assert sum(int(row["comparisons"]) for row in ranking) == 2 * 72

    model = spg.load(out)
    assert model.inducing_variable.Z.shape == (6, 4)
    means = model.predict_f(model.duels.items)[0].numpy()[:, 0]
    best = model.duels.item_ids[int(np.argmax(means))]
    assert ranking[int(np.argmax(utility))]["item_id"] == best
    assert {path.name for path in out.iterdir()} == FILES
    pictures = {path.name for path in (out / "pictures").iterdir()}
    assert {"reliability.png", "utilities.png", "relevance.png", "evidence.png"} <= pictures
    assert [path.name for path in out.parent.iterdir()] == ["out"], "nothing is left next to it"


@pytest.mark.slow
def test_fit_again_replaces_its_own_files(tables: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()  # an empty folder may be used
    assert fit(tables, out, "--approximation", "exact", "--seed", 1).exit_code == 0
    assert metrics(out)["fit"]["inducing"] is None
    more = ("--approximation", "fitc", "--split", "group:person", "--refit", "--overwrite")
    result = fit(tables, out, *more)
    assert result.exit_code == 0, result.output
    found = metrics(out)
    assert found["fit"]["approximation"] == "fitc"
    assert found["refit"] is True
    assert found["refit_fit"]["duels"] == 90 > found["fit"]["duels"]
    assert "held_out_unseen_pairs" not in found
    # It is about the ranking, so about the fit that was kept.
    assert found["refit_fit"]["negative_variances_set_to_zero"] == 0
    assert "negative_variances_set_to_zero" not in found["fit"]
    assert {path.name for path in tmp_path.iterdir()} == {"items.csv", "duels.csv", "out"}


@pytest.mark.slow
def test_test_fraction_zero_scores_nothing(tables: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--test-fraction", 0, "--kernel", "se", "--features", "height,width", "--max-train", 50)
    result = fit(tables, out, *more, "--fixed-inducing")
    assert result.exit_code == 0, result.output
    assert "linear probit" not in result.stdout
    found = metrics(out)
    assert "held_out" not in found
    assert found["data"]["features"] == ["height", "width"]
    assert found["fit"]["duels"] == 50


@pytest.mark.slow
def test_split_columns_are_no_features(tables: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--split", "group:colour", "--approximation", "subset:20", "--test-fraction", 0.5)
    result = fit(tables, out, *more)
    assert result.exit_code == 0, result.output
    found = metrics(out)
    assert found["data"]["features"] == ["height", "width"]
    assert found["data"]["dropped_rows"] > 0
    assert found["fit"]["duels"] == 20


def test_demo_prints_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("demo", "--duels", 300, "--inducing", 10, "--max-iterations", 2)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "linear probit" in result.stdout
    assert "Numeric features" not in result.stdout, "there is no file that was read"
    assert "sparse-prefgp fit --items" in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_demo_draws(tmp_path: Path) -> None:
    """The best items and the calibration in one picture, which is written over only if asked to."""
    from matplotlib.image import imread

    picture = tmp_path / "demo.png"
    small = ("demo", "--duels", 200, "--inducing", 5, "--max-iterations", 1, "--picture", picture)
    result = call(*small, "--quiet")
    assert result.exit_code == 0, result.output
    pixels = imread(picture)
    assert pixels.shape[:2] == (480, 960)
    halves = pixels[:, :480], pixels[:, 480:]
    assert all((half[..., 2] - half[..., 0] > 0.5).sum() > 500 for half in halves), "blue marks"
    assert picture.stat().st_size < 100_000
    assert list(tmp_path.iterdir()) == [picture]
    refused(call(*small), "demo.png", "--overwrite")
    refused(call("demo", "--picture", tmp_path / "demo.svg"), "demo.svg", ".png")


# ---- mistakes ----------------------------------------------------------------------------------


def refused(result: Any, *words: str) -> None:
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--approximation", "vef"), ("'vef'", "did you mean vfe")),
        (("--approximation", "prior-power:2"), ("prior-power:2", "power")),
        (("--approximation", "subset"), ("subset", "whole number")),
        (("--approximation", "subset:5000"), ("size=5000", "72")),
        (("--approximation", "vfe:3"), ("takes no number",)),
        (
            ("--approximation", "exact", "--inducing", "4"),
            ("exact", sentence("no_inducing", "inducing_variable")),
        ),
        (("--kernel", "matern5"), ("'matern5'", "did you mean matern52")),
        (("--kernel", "linear+"), ("a kernel is missing", "character 8")),
        (("--kernel", "se+se"), ("se twice",)),
        (("--inducing", "99"), ("99", "14 distinct")),
        (("--split", "person"), ("'person'", "group:COLUMN")),
        (("--split", "group:nobody"), ("'nobody'", "choose from", "person")),
        (("--split", "time:colour"), ("'colour'", "give dates")),
        (("--features", "depth"), ("'depth'", "height")),
        (("--ignore", "depth"), ("'depth'", "choose from")),
    ],
)
def test_bad_options_are_refused(
    tables: tuple[Path, Path], tmp_path: Path, more: tuple[str, ...], words: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    refused(fit(tables, out, *more), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("table", "old", "new", "words"),
    [
        ("duels", "winner,loser", "winner,beaten", ("no column 'loser'",)),
        ("duels", "i", "", ("winner",)),
        ("items", "item_id,height", "item_id,width", ("'width' twice",)),
        ("duels", "\ni", "\nz", ("not an item id",)),
        ("items", None, "", ("empty",)),
        ("duels", None, "winner,loser\n", ("no duels",)),
        ("duels", None, "winner,loser\ni1,i1\n", ("i1", "with itself", "row 2")),
        ("items", None, "item_id,height\ni0,1\ni1,\n", ("height", "missing value", "imputation")),
        ("items", None, "item_id,height\ni0,1\ni1,inf\n", ("height", "inf")),
        ("items", None, "item_id,height\ni0,1\ni1,2\ni2,tall\ni3,3\n", ("'tall'", "numbers")),
    ],
)
def test_bad_tables_are_refused(
    tables: tuple[Path, Path],
    tmp_path: Path,
    table: str,
    old: str | None,
    new: str,
    words: tuple[str, ...],
) -> None:
    path = tmp_path / f"{table}.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(new if old is None else text.replace(old, new), encoding="utf-8")
    out = tmp_path / "out"
    refused(fit(tables, out), *words)
    assert not out.exists()


def test_missing_file_is_named(tmp_path: Path) -> None:
    refused(fit((tmp_path / "no.csv", tmp_path / "no.csv"), tmp_path / "out"), "no.csv")


@pytest.mark.slow
def test_a_finished_fit_is_replaced_only_if_asked_to(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert fit(tables, out, "--kernel", "se").exit_code == 0
    before = contents(tmp_path)
    for more in ((), ("--resume",), ("--report", "--seed", 1)):
        result = fit(tables, out, *more)
        refused(result, "holds a finished fit", "--overwrite")
        assert "begins" not in result.output
        assert contents(tmp_path) == before
    refused(call("demo", "--duels", 200, "--out", out), "holds a finished fit", "--overwrite")
    refused(fit(tables, out, "--overwrite", "--features", "depth"), "'depth'")
    assert contents(tmp_path) == before, "what fails leaves the old fit"
    assert fit(tables, out, "--kernel", "linear", "--overwrite").exit_code == 0
    assert metrics(out)["fit"]["kernel"] == "linear"


def test_foreign_folder_is_left_alone(tables: tuple[Path, Path], tmp_path: Path) -> None:
    foreign = tmp_path / "holidays"
    foreign.mkdir()
    (foreign / "photo.txt").write_text("beach", encoding="utf-8")
    before = contents(tmp_path)
    refused(fit(tables, foreign), "holidays", "is no part of a fit")
    (foreign / "metrics.json").write_text('{"speed": 3}', encoding="utf-8")
    refused(fit(tables, foreign), "is no part of a fit")
    refused(fit(tables, tables[0]), "is a file")
    (foreign / "metrics.json").write_text('{"program": "sparse-prefgp"}', encoding="utf-8")
    refused(fit(tables, foreign, "--overwrite"), "photo.txt")
    (foreign / "metrics.json").unlink()
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_foreign_files_within_our_folders_are_kept(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert fit(tables, out).exit_code == 0
    for name in ("pictures/mine.png", "model/notes.txt", "thesis.unfinished"):
        (out / name).write_text("precious", encoding="utf-8")
        refused(fit(tables, out), name, "would be lost")
        assert (out / name).read_text(encoding="utf-8") == "precious"
        (out / name).unlink()
    new = ("--duels", tables[1], "--out", out / "model")
    refused(call("update", "--model", out, *new), "is the model of a fit")


def test_unusable_place_is_refused_before_the_fit(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: Any, **__: Any) -> None:
        raise AssertionError("the tables were read although nothing can be written")

    monkeypatch.setitem(READERS, "duels", too_late)
    before = contents(tmp_path)
    file = tables[0]
    refused(fit(tables, file / "sub"), "items.csv' is a file")
    refused(fit(tables, file / "sub" / "deeper"), "items.csv' is a file")
    if Path("/proc").is_dir():
        refused(fit(tables, Path("/proc/nowhere/out")), "'/proc' is not writable")
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"items.csv", "duels.csv"}


@pytest.mark.slow
def test_full_disk_is_one_sentence(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("sparse_prefgp.disk.saving.write_files", full)
    result = fit(tables, tmp_path / "out")
    refused(result, "No space left on device", "model")
    # What was fitted is not thrown away with what could not be written.
    assert {path.name for path in tmp_path.iterdir()} == {"items.csv", "duels.csv", "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"checkpoint"}
    assert "The fit so far is kept in" in result.stdout


@pytest.mark.slow
def test_a_failure_leaves_the_earlier_fit(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert fit(tables, out).exit_code == 0
    before = contents(tmp_path)
    refused(fit(tables, out, "--kernel", "cubic", "--overwrite"), "cubic")
    assert contents(tmp_path) == before

    def broken(*_: Any) -> None:
        raise PermissionError("the disk is read-only")

    with monkeypatch.context() as patched:
        patched.setattr("sparse_prefgp.disk.saving.write_files", broken)
        refused(fit(tables, out, "--seed", 3, "--overwrite"), "read-only")
    after = contents(tmp_path)
    assert {name for name in after if name not in before} == {
        name for name in after if name.startswith("out/checkpoint/")
    }
    assert {name: after[name] for name in before} == before
    assert fit(tables, out, "--seed", 3, "--resume").exit_code == 0
    assert not (out / "checkpoint").exists()


def test_interruption_is_one_sentence(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sparse_prefgp.workflow.workflow.fit_model", interrupted)
    result = fit(tables, tmp_path / "out")
    assert result.exit_code == 130
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


# ---- pieces ------------------------------------------------------------------------------------


def test_help_and_refusals_load_nothing_slow(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """In a process of its own: TensorFlow comes in only when there is something to fit."""
    items, duels = map(str, tables)
    bad = ["fit", "--items", items, "--duels", duels, "--out", str(tmp_path / "o")]
    bad += ["--inducing", "99"]
    code = f"""
import sys
from typer.testing import CliRunner
from sparse_prefgp.cli.app import app
slow = ("tensorflow", "gpflow", "pandas", "sklearn", "scipy", "matplotlib")
for command in ([], ["--help"], ["fit", "--help"], ["--version"]):
    CliRunner().invoke(app, command)
    assert not [name for name in slow if name in sys.modules], command
result = CliRunner().invoke(app, {bad!r})
assert result.exit_code == 2, result.output
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "command", ["fit", "rank", "predict", "evaluate", "explain", "update", "demo"]
)
def test_help_shows_an_example(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"Example: sparse-prefgp {command}" in result.stdout


def test_every_approximation_has_a_name() -> None:
    built = set()
    for name in APPROXIMATION_NAMES:
        choice = ApproximationChoice.parse(f"{name}:10" if name in ("subset", "pitc") else name)
        assert ApproximationChoice.parse(str(choice)) == choice
        approximation = choice.build()
        assert approximation.needs_inducing == choice.needs_inducing
        assert approximation.summed_over_duels == choice.summed_over_duels
        built.add(approximation)
    assert len(built) == len(APPROXIMATION_NAMES)
    assert ApproximationChoice.parse("Prior-Power:0.25").power == 0.25


def test_kernels_by_name() -> None:
    import gpflow

    kernel = KernelChoice.parse("Linear + SE").build(4)
    linear, stationary = kernel.kernels
    assert isinstance(linear, gpflow.kernels.Linear)
    assert isinstance(stationary, gpflow.kernels.SquaredExponential)
    np.testing.assert_allclose(stationary.lengthscales.numpy(), np.full(4, 2.0))
    assert isinstance(KernelChoice.parse("matern32").build(1), gpflow.kernels.Matern32)


@pytest.mark.slow
def test_kernel_terms_without_variance_are_named(tables: tuple[Path, Path]) -> None:
    holdout = prepare(read_duels(*tables), FitSettings(kernel="se+item", max_iterations=1))
    model, report = fit_model(holdout)
    assert fit_figures(holdout, model, report)["idle_kernel_terms"] == []
    model.kernel.kernels[0].variance.assign(1e-9)
    assert fit_figures(holdout, model, report)["idle_kernel_terms"] == ["se"]
    assert "the kernel term se, which is the same as leaving it out" in idle_note(["se"])


def test_long_lists_of_columns_are_shortened() -> None:
    def lines(numeric: int) -> list[str]:
        names = tuple(f"c{i}" for i in range(numeric))
        transform = FeatureTransform(names, (0.0,) * numeric, (1.0,) * numeric)
        return column_lines(transform)

    assert lines(11) == ["Numeric features: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10"]
    assert lines(56) == ["Numeric features: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 46 more"]
    some = {"said": ["one two", "one three", "two three!", "one"] * 2}
    transform = FeatureTransform.fit(some, [], texts=["said"])
    statistics = len(transform.texts[0].transform.statistics)
    assert column_lines(transform) == [
        f"Texts: said ({statistics} statistics, 2 directions of 2 words; no score of words)"
    ]


def test_failed_import_still_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), held_back_stderr():
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'reason')"], check=True)
        raise RuntimeError
    with held_back_stderr():
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'notice')"], check=True)
    assert capfd.readouterr().err == "reason"
