"""The command `select`: its table, its answer and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.workflow import comparison as compare_module
from sparse_prefgp.workflow.finished import FinishedFit
from sparse_prefgp.workflow.model_names import Candidate

N, T = 10, 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(2)
    x = rng.normal(size=(N, 2))
    ids = [f"i{i}" for i in range(N)]
    pd.DataFrame({"item_id": ids, "a": x[:, 0], "b": x[:, 1]}).to_csv(
        folder / "items.csv", index=False
    )
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    order = np.argsort(x.sum(1)[pairs] + rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = pd.DataFrame({"winner": winners, "loser": losers}).map(lambda i: f"i{i}")
    duels["person"] = [f"p{i % 4}" for i in range(T)]
    duels.to_csv(folder / "duels.csv", index=False)
    return "--items", folder / "items.csv", "--duels", folder / "duels.csv"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Nats of each candidate in place of a fit."""
    nats: dict[str, float] = {}

    def fit(candidate: Candidate, train: Any, test: Any, **more: Any) -> FinishedFit:
        return FinishedFit(np.full(len(test), -nats[str(candidate)]), -0.6, True)

    monkeypatch.setattr(compare_module, "fit_candidate", fit)
    return nats


def test_choices_and_rankings_are_compared(
    tables: tuple[Any, ...], fits: dict[str, float], tmp_path: Path
) -> None:
    fits |= {"linear/vfe/4": 0.62, "se/vfe/4": 0.6}
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(np.arange(N), (12, 1)), axis=1)[:, :3]
    rows = [",".join(f"i{i}" for i in order) for order in orders]
    (tmp_path / "rankings.csv").write_text("rank_1,rank_2,rank_3\n" + "\n".join(rows) + "\n")
    (tmp_path / "choices.csv").write_text(
        "option_1,option_2,option_3,chosen\n"
        + "\n".join(f"{row},{row.split(',')[0]}" for row in rows)
    )
    for option in ("rankings", "choices"):
        files = (*tables[:2], f"--{option}", tmp_path / f"{option}.csv")
        result = call(*files, "--candidates", ",".join(fits), "--folds", 3, "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["chosen"] == "se/vfe/4"
        assert "3 folds over 12 " + option in told["description"]
        assert told["conditional_logit"]["nlp_nats"] > 0.0
        result = call(*files, "--candidates", ",".join(fits), "--folds", 3, "--json", "--as-duels")
        told = json.loads(result.stdout)
        assert "3 folds over 12 values of" in told["description"] and "linear_probit" in told
    refused = call(*tables, "--choices", tmp_path / "choices.csv")
    assert refused.exit_code == 2 and "duels and choices were given" in refused.stderr


def test_a_stopped_comparison_goes_on(
    tables: tuple[Any, ...],
    fits: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits |= {"linear/vfe/4": 0.601, "se/vfe/4": 0.6}
    place, calls = tmp_path / "kept", []
    stub = compare_module.fit_candidate

    def counted(*arguments: Any, **more: Any) -> FinishedFit:
        calls.append(str(arguments[0]))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return stub(*arguments, **more)

    monkeypatch.setattr(compare_module, "fit_candidate", counted)
    words = ("--candidates", ",".join(fits), "--folds", 3, "--checkpoint", place)
    stopped = call(*tables, *words)
    assert stopped.exit_code == 130, stopped.output
    assert "the comparison so far is kept in" in stopped.stderr and str(place) in stopped.stderr
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert before
    for more, text in (
        ((), "is the checkpoint of a comparison that was interrupted"),
        (("--resume", "--seed", 3), "of other duels, items or folds"),
        (("--resume", "--max-iterations", 3), "number of iterations"),
    ):
        refused = call(*tables, *words, *more)
        assert refused.exit_code == 2 and text in refused.stderr, refused.output
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before

    calls.clear()
    done = call(*tables, *words, "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert len(calls) == 3
    told = json.loads(done.stdout)
    assert told["resumed_fits"] == 3 and told["chosen"] == "se/vfe/4"
    assert not place.exists()
    monkeypatch.setattr(compare_module, "fit_candidate", stub)
    whole = json.loads(call(*tables, *words[:-2], "--json").stdout)
    assert whole["candidates"][0]["fold_nlp_nats"] == told["candidates"][0]["fold_nlp_nats"]


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in ("select", *arguments)])


@pytest.mark.slow
def test_real_fits_are_compared(tables: tuple[Any, ...], tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    listed = ("--candidates", "linear/vfe/3,additive-se/exact", "--groups", "a,b", "--folds", 2)
    more = ("--max-iterations", 2, "--split", "group:person", "--out", out)
    result = call(*tables, *listed, *more)
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(out)
    assert set(frame["candidate"]) == {"linear/vfe/3", "additive-se/exact", "linear probit"}
    # Two columns in one group: a variance and two lengthscales.
    assert frame.set_index("candidate").loc["additive-se/exact", "parameters"] == 3
    chosen = frame.loc[frame["chosen"], "candidate"].item()
    assert chosen in result.stdout and "2 folds over 4 values of 'person'" in result.stdout


def test_table_choice_and_rule_are_printed_and_written(
    tables: tuple[Any, ...], fits: dict[str, float], tmp_path: Path
) -> None:
    fits |= {"linear/vfe/4": 0.62, "se/vfe/4": 0.6, "linear/fitc/4": 0.9, "se/fitc/4": 0.616}
    out = tmp_path / "table.csv"
    listed = ("--kernels", "linear,se", "--approximations", "vfe,fitc", "--inducing", "4")
    result = call(*tables, *listed, "--folds", 3, "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("se/vfe/4 predicts best", "The rule: lowest held-out", "given up", "chosen"):
        assert text in " ".join(result.stdout.split())
    frame = pd.read_csv(out)
    assert list(frame["candidate"]) == [*sorted(fits, key=fits.__getitem__), "linear probit"]
    np.testing.assert_allclose(frame["nlp_nats"][:4], sorted(fits.values()))
    assert list(frame["status"][:4]) == ["ok", "behind", "behind", "behind"]
    again = call(*tables, *listed, "--folds", 3, "--out", out)
    assert again.exit_code == 2 and "exists already" in again.stderr
    assert call(*tables, *listed, "--folds", 3, "--out", out, "--overwrite").exit_code == 0


def test_json_is_alone_on_standard_output(tables: tuple[Any, ...], fits: dict[str, float]) -> None:
    fits |= {"linear/vfe": 0.6, "se/vfe": 3.0}
    result = call(*tables, "--candidates", "linear,se", "--folds", 3, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["chosen"] == "linear/vfe"
    assert [row["inducing"] for row in told["candidates"]] == [N, N]
    assert told["linear_probit"]["nlp_nats"] > 0
    quiet = call(*tables, "--candidates", "linear,se", "--folds", 3, "--quiet")
    assert quiet.exit_code == 0 and quiet.stdout == ""


def test_by_default_the_automatic_candidates_are_compared(
    tables: tuple[Any, ...], fits: dict[str, float]
) -> None:
    kernels = ("linear", "linear+se", "linear+matern52", "se", "matern32", "matern52")
    fits |= {f"{kernel}/exact": 0.6 for kernel in (*kernels, "additive-matern52")}
    told = json.loads(call(*tables, "--json", "--folds", 2).stdout)
    assert {f"{row['kernel']}/{row['approximation']}" for row in told["candidates"]} == set(fits)
    assert told["chosen"] == "linear/exact", "the simplest of all that are tied"


@pytest.mark.slow
def test_fit_takes_what_is_chosen_and_says_why(
    tables: tuple[Any, ...], fits: dict[str, float], tmp_path: Path
) -> None:
    kernels = ("linear", "linear+se", "linear+matern52", "se", "matern32", "matern52")
    fits |= {f"{kernel}/exact": 0.6 for kernel in kernels}
    fits["additive-matern52/exact"] = 0.5
    out = tmp_path / "fitted"
    more = ("--kernel", "auto", "--approximation", "auto", "--max-iterations", 2, "--out", out)
    result = CliRunner().invoke(app, ["fit", *map(str, (*tables, *more))])
    assert result.exit_code == 0, result.output
    assert "additive-matern52/exact predicts best" in " ".join(result.stdout.split())
    found = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert (found["fit"]["kernel"], found["fit"]["approximation"]) == ("additive-matern52", "exact")
    terms = {"additive-matern52[a]", "additive-matern52[b]"}
    assert set(found["fit"]["kernel_variances"]) == terms
    assert found["automatic"]["chosen"] == "additive-matern52/exact"
    assert "training duels alone" in found["automatic"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--candidates", "se,se/vfe"), "The candidate se/vfe is in the list twice"),
        (("--candidates", "se/vfe/11"), "more inducing inputs than the 10 distinct items"),
        (("--candidates", "se", "--split", "group:person"), "5 folds are more than the 4 values"),
        (("--candidates", "sse"), "The kernel 'sse' is unknown"),
        (("--candidates", ","), "--candidates has an empty part"),
        (("--kernels", "se", "--inducing", "few"), "--inducing has 'few'"),
        (("--candidates", "se", "--split", "time:when"), "column is 'when'"),
        (("--candidates", "se", "--out", "table.txt"), "must end in .csv or .tex or .md or .html"),
    ],
)
def test_a_mistake_is_one_sentence(
    tables: tuple[Any, ...],
    fits: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*tables, *arguments)
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
