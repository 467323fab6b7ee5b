"""`sparse-prefgp fit --stream`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.workflow.folder import CHECKPOINTS
from tests.cases import assert_same_scores
from tests.killing import kill_after, run_whole
from tests.together import sentence
from tests.tolerances import SAME_OPTIMUM

N, T = 60, 1500
PLAIN = ["--inducing", "12", "--max-iterations", "3", "--kernel", "se"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    table = pd.DataFrame({"item_id": [f"item {i}" for i in range(N)], "a": x[:, 0], "b": x[:, 1]})
    table.to_csv(folder / "items.csv", index=False)
    first = rng.integers(N, size=T)
    pairs = np.stack([first, (first + rng.integers(1, N, size=T)) % N], 1)
    noisy = (np.sin(2.0 * x[:, 0]) + x[:, 1])[pairs] + 0.5 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, 1), 1).T
    ids = table.item_id.to_numpy()
    duels = pd.DataFrame({"winner": ids[winners], "loser": ids[losers]})
    (folder / "ids").mkdir()
    for k in range(3):
        duels[k * 500 : (k + 1) * 500].to_parquet(folder / "ids" / f"{k}.parquet", index=False)
    sides = {"winner": winners, "loser": losers}
    wide = {
        f"{side}_{name}": table[name].to_numpy()[r] for side, r in sides.items() for name in "ab"
    }
    pd.DataFrame(wide).to_parquet(folder / "wide.parquet", index=False)
    return folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["fit", "--stream", *map(str, arguments)])


@pytest.mark.slow
def test_a_folder_of_ids_is_fitted_scored_ranked_and_saved(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    done = run("--items", data / "items.csv", "--duels", data / "ids", "--out", out, *PLAIN)
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "exact gradients in memory" in text and "last 300 rows" in text
    metrics = json.loads((out / "metrics.json").read_text())
    scores = metrics["held_out"]
    assert scores["model"]["duels"] == 300
    assert scores["model"]["nlp_nats"] < scores["coin"]["nlp_nats"]
    log = metrics["fit"]["round_log"]
    assert len(log) == metrics["fit"]["rounds"] and log[-1]["change"] < log[1]["change"]
    assert {"damping", "log_evidence", "bytes_sent", "bytes_received", "seconds"} <= set(log[0])
    assert metrics["fit"]["converged"] and metrics["data"]["train_duels"] == 1200
    ranking = pd.read_csv(out / "ranking.csv")
    assert len(ranking) == N and ranking.comparisons.sum() == 2 * 1200
    model = spg.load(out)
    assert isinstance(model, spg.StreamedGP) and model.duels.num_duels == 1200
    again = CliRunner().invoke(app, ["rank", "--model", str(out), "--out", str(tmp_path / "r.csv")])
    assert again.exit_code == 0, again.output
    new = pd.read_parquet(data / "ids" / "2.parquet")[-300:]
    new.to_csv(tmp_path / "new.csv", index=False)
    told = ["evaluate", "--model", str(out), "--duels", str(tmp_path / "new.csv")]
    scored = CliRunner().invoke(app, [*told, "--out", str(tmp_path / "scores.json")])
    assert scored.exit_code == 0, scored.output
    assert "whose duels are not kept" in " ".join(scored.output.split())
    again = json.loads((tmp_path / "scores.json").read_text())["held_out"]
    assert_same_scores(again["model"], scores["model"], rel=1e-6)
    whole = CliRunner().invoke(app, [*told[:-1], str(data / "ids"), "--json"])
    assert whole.exit_code == 0, whole.output
    figures = json.loads(whole.stdout)
    assert figures["duels"] == figures["held_out"]["model"]["duels"] == 1500
    assert figures["items_outside_range"] == 0


@pytest.mark.slow
def test_inline_duels_are_evaluated_too(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    done = run("--duels", data / "wide.parquet", "--out", out, *PLAIN, "--json")
    assert done.exit_code == 0, done.output
    held_out = json.loads(done.stdout)["held_out"]["model"]
    new = pd.read_parquet(data / "wide.parquet")[-300:]
    new.to_parquet(tmp_path / "new.parquet", index=False)
    told = ["evaluate", "--model", str(out), "--duels", str(tmp_path / "new.parquet"), "--json"]
    scored = CliRunner().invoke(app, told)
    assert scored.exit_code == 0, scored.output
    found = json.loads(scored.stdout)
    assert_same_scores(found["held_out"]["model"], held_out, rel=1e-6)
    assert found["items_outside_range"] is None
    new.drop(columns=["winner_a", "loser_a"]).to_parquet(tmp_path / "new.parquet", index=False)
    refused = CliRunner().invoke(app, told)
    assert refused.exit_code == 2 and "feature is 'a'; choose from b" in refused.output


@pytest.mark.slow
def test_inline_features_in_parts_with_gradients_from_a_subset(data: Path, tmp_path: Path) -> None:
    out, sites = tmp_path / "fitted", tmp_path / "sites.npy"
    more = ["--parts", "2", "--gradients", "subset:400", "--sites", sites, "--test-fraction", "0"]
    more += ["--local-sweeps", "2", "--chunk", "100"]
    more += ["--polish", "2"]
    done = run("--duels", data / "wide.parquet", "--out", out, *PLAIN, *more, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["fit"]["gradients"] == "subset" and figures["fit"]["subset"] == 400
    assert figures["fit"]["polish"] == 2 and figures["fit"]["polished"] > 0.0
    assert figures["fit"]["evidence_left"] is not None and figures["fit"]["parts"] == 2
    assert "sites.npy" in figures["fit"]["sites"] and "held_out" not in figures
    assert not (out / "ranking.csv").exists()
    assert (tmp_path / "sites.0.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--duels", "{}/ids"], "go together: give items="),
        (["--duels", "{}/wide.parquet", "--items", "{}/items.csv"], "leave the items out"),
        (["--duels", "{}/no.parquet"], "does not exist"),
        ([], "no answers to fit to"),
        (["--items", "{}/items.csv"], "no answers to fit to"),
        (["--items", "{}/items.csv", "--duels", "{}/none.csv"], "does not exist"),
        (["--duels", "{}/wide.parquet", "--ties", "t.csv"], sentence("chunks", "ties_table")),
        (["--duels", "{}/ids", "--report"], sentence("chunks", "report")),
        (["--duels", "{}/wide.parquet", "--weight", "no"], "column of weights is 'no'"),
        (
            ["--duels", "{}/wide.parquet", "--noise-by", "who"],
            "column of judges is 'who'",
        ),
        (["--duels", "{}/wide.parquet", "--checkpoint-every", "0"], "--checkpoint-every is 0"),
        (["--duels", "{}/wide.parquet", "--gradients", "chunks:5"], "did you mean chunks"),
        (["--duels", "{}/wide.parquet", "--sites", "{}/no/s.npy"], "lies in no folder"),
        (["--duels", "{}/wide.parquet", "--sites", "s.txt"], "is not a .npy file"),
        (
            ["--duels", "{}/wide.parquet", "--split", "items"],
            sentence("chunks", "split"),
        ),
        (["--duels", "{}/wide.parquet", "--engine", "laplace"], sentence("chunks", "engine")),
        (["--duels", "{}/wide.parquet", "--approximation", "exact"], sentence("chunks", "whole")),
        (
            ["--duels", "{}/wide.parquet", "--approximation", "tight-vfe-rank"],
            sentence("chunks", "whole"),
        ),
        (["--duels", "{}/wide.parquet", "--gradients", "some"], "choose from chunks"),
        (
            ["--duels", "{}/wide.parquet", "--gradients", "subset:x"],
            "of rows, such as subset:20000",
        ),
        (["--duels", "{}/wide.parquet", "--polish", "3"], "--polish was given without --gradients"),
        (["--duels", "{}/wide.parquet", "--parts", "5000"], "a part without duels"),
        (["--duels", "{}/wide.parquet", "--inducing", "5000"], "more than the"),
        (["--duels", "{}/wide.parquet", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler"),
    ],
)
@pytest.mark.covering(every=4)
def test_mistakes_are_told_in_one_sentence(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    from sparse_prefgp.models.streaming import cluster

    monkeypatch.setattr(cluster, "_SCHEDULER", 1.0)
    out = tmp_path / "fitted"
    done = run(*[text.format(data) for text in arguments], "--out", out, "--quiet")
    assert done.exit_code == 2, done.output
    assert words in done.output and done.output.count("\n") == 1
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("files", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_ties_and_weights_are_fitted_and_scored(data: Path, tmp_path: Path, files: bool) -> None:
    rng = np.random.default_rng(1)
    duels = pd.concat(pd.read_parquet(path) for path in sorted((data / "ids").iterdir()))
    duels["tie"] = (rng.uniform(size=len(duels)) < 0.2).astype(int)
    duels["trust"] = rng.uniform(0.5, 1.5, size=len(duels))
    path = tmp_path / ("duels.parquet" if files else "duels.csv")
    if files:
        duels.to_parquet(path, index=False)
    else:
        duels.to_csv(path, index=False)
    told = ["--items", data / "items.csv", "--duels", path, "--weight", "trust", "--json"]
    done = run(*told, "--out", tmp_path / "fitted", *PLAIN)
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["data"]["train_ties"] > 200 and figures["fit"]["margin"] != 0.3
    assert figures["fit"]["fixed_margin"] is False
    outcomes = figures["held_out_outcomes"]
    assert outcomes["model"]["nlp_nats"] < outcomes["constant_shares"]["nlp_nats"]
    assert figures["held_out"]["model"]["duels"] < outcomes["model"]["duels"] == 300
    done = run(*told, "--out", tmp_path / "fixed", *PLAIN, "--margin", 0.5, "--fixed-margin")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["fit"]["margin"] == pytest.approx(0.5)


def test_a_folder_is_streamed_without_being_told(data: Path, tmp_path: Path) -> None:
    arguments = ["fit", "--duels", str(data / "ids"), "--out", str(tmp_path / "fitted")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "go together: give items=" in done.output


def test_files_of_sites_are_checked_before_anything_is_read(data: Path, tmp_path: Path) -> None:
    (tmp_path / "s.1.npy").write_text("mine")
    more = ["--parts", "2", "--sites", tmp_path / "s.npy", "--out", tmp_path / "fitted"]
    done = run("--duels", data / "no.parquet", *more)
    assert done.exit_code == 2 and "s.1.npy' exists already" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["s.1.npy"]


def test_files_of_sites_go_over_no_other_file(tmp_path: Path) -> None:
    """Neither over one next to those of a killed fit, nor over one that comes to be meanwhile."""
    from sparse_prefgp.models.streaming.part import SiteStore
    from sparse_prefgp.workflow.settings import FitSettings
    from sparse_prefgp.workflow.sites_files import sites_kept_if_done
    from tests.killing import writing_elsewhere

    sites, near = tmp_path / "s.npy", tmp_path / "s.npy.left"
    settings = FitSettings(stream=True, sites=sites)
    np.save(sites, np.ones((2, 3)))
    near.write_text("mine")
    with pytest.raises(RuntimeError), sites_kept_if_done(settings, resumed=True):
        np.save(sites, np.zeros((2, 3)))
        raise RuntimeError
    assert np.all(np.load(sites) == 1.0) and near.read_text() == "mine"
    with sites_kept_if_done(settings, resumed=True):
        assert not sites.exists()
    with pytest.raises(ValueError, match="exists already"), sites_kept_if_done(settings):
        sites.write_text("mine")
        SiteStore(3, sites)
    assert sites.read_text() == "mine"
    sites.unlink()
    with (
        writing_elsewhere(sites, "fit"),
        pytest.raises(ValueError, match="Another fit is writing"),
        sites_kept_if_done(settings),
    ):
        pass
    sites.unlink(missing_ok=True)
    assert {path.name for path in tmp_path.iterdir()} <= {near.name, ".s.npy.sparse-prefgp-lock"}


def test_only_files_of_sites_are_made_anew(tmp_path: Path) -> None:
    from sparse_prefgp.workflow.sites_files import is_sites_file

    np.save(tmp_path / "sites.npy", np.zeros((2, 7)))
    np.save(tmp_path / "other.npy", np.zeros((3, 7)))
    (tmp_path / "words.npy").write_text("no array")
    names = ("sites", "other", "words", "none")
    assert [is_sites_file(tmp_path / f"{name}.npy") for name in names] == [True, *[False] * 3]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (999.6, "1000"),
        (12_345, "12.3k"),
        (1_197_768, "1.2M"),
        (1e7, "10.0M"),
        (2e8, "200M"),
    ],
)
def test_numbers_of_the_bar_are_short(number: float, words: str) -> None:
    from sparse_prefgp.cli.console import clock
    from sparse_prefgp.cli.fit_printer import _short

    assert _short(number) == words
    assert clock(59.6) == "1:00" and clock(3661.0) == "1:01:01"


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_file_of_sites_is_left_of_a_fit_that_ended_early(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    from sparse_prefgp.workflow import workflow

    seen = []

    def stop(*_: Any) -> None:
        # But for what says that the output is taken.
        seen.extend(sorted(path.name for path in tmp_path.iterdir() if path.name[0] != "."))
        raise error

    monkeypatch.setattr(workflow, "predict_held_out", stop)
    more = ["--parts", "2", "--sites", tmp_path / "s.npy", "--out", tmp_path / "fitted"]
    done = run("--duels", data / "wide.parquet", *PLAIN[:2], "--max-iterations", "1", *more)
    assert done.exit_code != 0 and seen == ["fitted", "s.0.npy", "s.1.npy"]
    assert [path.name for path in tmp_path.iterdir()] == ["fitted"]
    kept = {path.name for path in (tmp_path / "fitted").iterdir()}
    assert kept == {CHECKPOINTS, "metrics.json", "model"}


def command(data: Path, out: Path, *more: Any) -> list[Any]:
    tables = ["--items", data / "items.csv", "--duels", data / "ids", "--out", out]
    return [*tables, *PLAIN, "--checkpoint-every", "1", *more]


def told(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text())["fit"]


# Only the kernel moves, and that to its optimum.
LONG = ("--fixed-inducing", "--max-iterations", 40, "--least-gain", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "kept", "of"), [(LONG, 2, "values of parameters that stay as they are")]
)
def test_interrupted_and_resumed(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[Any, ...],
    kept: int,
    of: str,
) -> None:
    from sparse_prefgp.learning.lbfgs import LbfgsState

    real, calls = LbfgsState.moved, []

    def stop(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) > kept:
            raise KeyboardInterrupt
        return real(*arguments)

    out, sites = tmp_path / "out", tmp_path / "sites.npy"
    with monkeypatch.context() as patched:
        patched.setattr(LbfgsState, "moved", stop)
        result = run(*command(data, out, *more, "--sites", sites))
    assert result.exit_code == 130, result.output
    assert len(result.stderr.splitlines()) == 1 and not sites.exists()
    assert "the fit so far is kept in" in result.stderr and CHECKPOINTS in result.stderr
    assert "same command with --resume" in result.stderr

    for changes, message in (
        ((), "resume it with --resume, or begin again with --overwrite"),
        (("--resume", "--test-fraction", 0.3), "of other duels or items"),
        (("--resume", "--kernel", "matern52"), "of another kernel"),
        (("--resume", "--seed", 5), of),
    ):
        refused = run(*command(data, out, *more, *changes))
        assert refused.exit_code == 2 and message in refused.stderr, refused.output
        assert len(refused.stderr.splitlines()) == 1

    # The place of the sites is not a matter.
    done = run(*command(data, out, *more, "--resume", "--sites", sites))
    assert done.exit_code == 0, done.output
    assert f"resumed from iteration {kept}" in " ".join(done.stdout.split())
    assert sites.exists() and not (out / CHECKPOINTS).exists()
    whole = run(*command(data, tmp_path / "whole", *more))
    assert whole.exit_code == 0, whole.output
    one, other = told(out), told(tmp_path / "whole")
    assert one["resumed_at"] == kept and other["resumed_at"] == 0
    assert one["optimiser_converged"] and other["optimiser_converged"]
    assert one["log_evidence_per_duel"] == pytest.approx(
        other["log_evidence_per_duel"], abs=SAME_OPTIMUM
    )


@pytest.mark.slow
def test_killed_fit_goes_on(data: Path, tmp_path: Path) -> None:
    """kill -9 once iterations are kept; the same command resumes from them."""
    out, whole, sites = tmp_path / "out", tmp_path / "whole", tmp_path / "sites.npy"
    more = (*LONG, "--quiet")
    chunks = ("--chunk", "500", "--sites", sites)
    words = ["fit", "--stream", *map(str, command(data, out, *more, *chunks))]
    kill_after(3, words)
    assert not (out / "metrics.json").exists()
    assert sites.exists()  # nobody could remove it
    run_whole([*words, "--resume"])
    assert sites.exists() and not (out / CHECKPOINTS).exists()
    assert run(*command(data, whole, *more)).exit_code == 0
    assert 1 <= told(out)["resumed_at"] <= told(out)["iterations"]
    assert told(out)["log_evidence_per_duel"] == pytest.approx(
        told(whole)["log_evidence_per_duel"], abs=SAME_OPTIMUM
    )


@pytest.mark.slow
def test_a_subset_of_all_rows_costs_nothing(data: Path) -> None:
    import gpflow

    stream = spg.stream_duels(data / "wide.parquet").part(0, 50)
    model = spg.StreamedGP(
        stream,
        gpflow.kernels.Matern52(),
        inducing_variable=np.random.default_rng(0).normal(size=(5, 2)),
    )
    report = spg.optimise(model, 1, gradients="subset", rng=np.random.default_rng(0))
    assert "The subset cost" not in str(report)
    assert "Further iterations would gain about" in str(report)
    for wrong in ({"subset": 1.5}, {"max_iterations": 2.5}, {"polish": True}):
        with pytest.raises(ValueError, match="give a whole number, at least"):
            spg.optimise(model, **wrong)


def test_without_stream_ids_are_needed(data: Path, tmp_path: Path) -> None:
    arguments = ["fit", "--duels", str(data / "wide.parquet"), "--out", str(tmp_path / "fitted")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "has no columns 'winner' and 'loser'" in done.output


@pytest.mark.slow
def test_tables_are_fitted_in_chunks_with_any_split(data: Path, tmp_path: Path) -> None:
    pd.concat(pd.read_parquet(data / "ids" / f"{k}.parquet") for k in range(3)).assign(
        when=np.arange(T)
    ).to_csv(data / "duels.csv", index=False)
    tables = ["--items", data / "items.csv", "--duels", data / "duels.csv", *PLAIN]
    more = ["--split", "time:when", "--approximation", "fitc", "--max-train", "900"]
    scores = []
    for name, stream in (("chunks", ["--stream"]), ("whole", [])):
        arguments = ["fit", *tables, *more, *stream, "--out", tmp_path / name]
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 0, done.output
        metrics = json.loads((tmp_path / name / "metrics.json").read_text())
        assert metrics["split"] == "time:when"
        scores.append(metrics["held_out"]["model"])
    assert scores[0]["duels"] == scores[1]["duels"] == 300
    # Different first inducing inputs and steps; the same model and duels.
    assert scores[0]["nlp_nats"] == pytest.approx(scores[1]["nlp_nats"], abs=0.05)
    ranking = pd.read_csv(tmp_path / "chunks" / "ranking.csv")
    assert set(ranking.item_id) == {f"item {i}" for i in range(N)}
