"""Scores of new duels whose block of PITC is known, against dense matrices."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.io import read_duels
from sparse_prefgp.workflow.holdout import fit_model, predict_held_out, prepare
from sparse_prefgp.workflow.settings import FitSettings
from tests.cases import assert_same_scores
from tests.reference.slow_approximations import SlowPosterior, slow_posterior, squared_exponential
from tests.tolerances import FIXED_POINT, IDENTITY
from tests.unit.approximations.test_pitc import build, contradictory, given

NOISE = 0.3  # 2 sigma² of `build`
WON, LOST = np.array([0, 3, 5, 2, 1, 4]), np.array([1, 2, 0, 4, 5, 3])
COUNTS = np.array([1, 2, 1, 1, 3, 1])
SESSION = ["al", "bo", "al", "dan", "cy", "bo"]
TABLE = pd.DataFrame({"winner": WON, "loser": LOST, "count": COUNTS, "session": SESSION})
KNOWN = int(COUNTS[[s != "dan" for s in SESSION]].sum())


@cache
def joint(session: str | None) -> SlowPosterior:
    """Of the six items where they join a block, or none."""
    duels, blocks = contradictory()
    return slow_posterior(
        duels.items,
        *given(duels),
        squared_exponential(1.3, 0.9),
        0.5 * NOISE,
        "pitc",
        inducing=duels.items[:3] + 0.2,
        blocks=blocks,
        test_block=session,
    )


def expected(sessions: list[str | None]) -> float:
    """Negative log probability a duel, in nats, from the dense joint of each block."""
    total = 0.0
    for won, lost, count, session in zip(WON, LOST, COUNTS, sessions, strict=True):
        mean, cov = joint(session).mean, joint(session).cov
        spread = cov[won, won] + cov[lost, lost] - 2.0 * cov[won, lost] + NOISE
        total -= count * norm.logcdf((mean[won] - mean[lost]) / np.sqrt(spread))
    return total / float(COUNTS.sum())


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    duels, blocks = contradictory()
    return build(duels, spg.PITC(blocks))


def test_each_duel_is_predicted_from_its_own_block(model: spg.PreferenceGP) -> None:
    with pytest.warns(UserWarning, match=r"The block 'dan' is unknown .* \(1 of 6 pairs"):
        found = spg.evaluate(model, TABLE, columns={"block": "session"})
    inside: list[str | None] = [None if s == "dan" else s for s in SESSION]
    right, alone = expected(inside), expected([None] * 6)
    assert found["held_out"]["model"]["nlp_nats"] == pytest.approx(right, abs=FIXED_POINT)
    assert found["duels_in_blocks"] == KNOWN and found["duels"] == COUNTS.sum()

    with pytest.warns(UserWarning, match=r"inducing values alone, since .* no column 'block'"):
        plain = spg.evaluate(model, TABLE)
    assert plain["held_out"]["model"]["nlp_nats"] == pytest.approx(alone, abs=FIXED_POINT)
    assert plain["duels_in_blocks"] == 0
    assert abs(right - alone) > 0.01


@pytest.mark.filterwarnings("ignore:The block 'dan'")
def test_a_duels_object_takes_a_label_for_each_duel(model: spg.PreferenceGP) -> None:
    twice = [*range(6), 2]  # one of them a second time, in another block
    won, lost, counts = WON[twice], LOST[twice], COUNTS[twice]
    sessions = [None if s == "dan" else s for s in [*SESSION, "cy"]]
    duels = spg.Duels(model.duels.items, won, lost, counts, labels={"block": sessions})
    found = spg.evaluate(model, duels)
    table = TABLE.iloc[twice].assign(session=[*SESSION, "cy"])
    other = spg.evaluate(model, table, columns={"block": "session"})
    for name, value in other["held_out"]["model"].items():
        assert found["held_out"]["model"][name] == pytest.approx(value, abs=IDENTITY)
    assert found["duels_in_blocks"] == other["duels_in_blocks"] == KNOWN + 1


def test_pairs_in_blocks_are_those_of_each_block(model: spg.PreferenceGP) -> None:
    x = model.duels.items
    asked = ["al", None, "bo", "al", "cy", None]
    pairs = Answers.between(np.array(WON), np.array(LOST), block=Codes.of(asked))
    found = model.predict(pairs).p[:, 0]
    for i, block in enumerate(asked):
        ends = tf.constant(np.stack([x[WON[i]], x[LOST[i]]])[None])
        posterior = model.posterior() if block is None else model.posterior().joining(block)
        ((mean, variance),) = posterior.difference(ends).numpy()
        assert found[i] == pytest.approx(norm.cdf(mean / np.sqrt(variance + NOISE)), abs=IDENTITY)
    named = spg.Duels(x, WON, LOST, labels={"block": [block or "dan" for block in asked]})
    with pytest.warns(UserWarning, match=r"The block 'dan' is unknown .* \(2 of 6 pairs"):
        np.testing.assert_allclose(model.predict(named).p[:, 0], found, rtol=IDENTITY)


def test_labels_are_compared_as_text() -> None:
    duels, blocks = contradictory()
    number = {"al": 7, "bo": 8, "cy": 9}
    model = build(duels, spg.PITC([number[b] for b in blocks]))
    found = [
        spg.evaluate(model, TABLE.assign(session=labels), columns={"block": "session"})
        for labels in ([7, 8, 7, 8, 9, 8], ["7", "8", "7", "8", "9", "8"])
    ]
    assert found[0] == found[1] and found[0]["duels_in_blocks"] == COUNTS.sum()


@pytest.mark.slow
def test_models_without_given_blocks_say_so(tmp_path: Path) -> None:
    duels, blocks = contradictory()
    found = build(duels, spg.PITC(3))
    with pytest.warns(UserWarning, match="alone, since k-means, which made the blocks"):
        assert spg.evaluate(found, TABLE)["duels_in_blocks"] == 0
    for approximation in (spg.PITC(3), spg.FITC()):
        with pytest.raises(ValueError, match="without a block, for which the column 'session'"):
            spg.evaluate(build(duels, approximation), TABLE, columns={"block": "session"})
    assert spg.evaluate(build(duels, spg.FITC()), TABLE)["duels_in_blocks"] is None

    order = np.argsort(blocks, kind="stable")
    frame = pd.DataFrame({"winner": WON, "loser": LOST})
    frame.to_parquet(tmp_path / "new.parquet", index=False)
    rows = {"winner": duels.winners[duels.merged.rows], "loser": duels.losers[duels.merged.rows]}
    pd.DataFrame(rows).iloc[order].to_parquet(tmp_path / "duels.parquet", index=False)
    streamed = spg.StreamedGP(
        spg.stream_duels(tmp_path / "duels.parquet", duels.items),
        build(duels, spg.FITC()).kernel,
        approximation=spg.PITC(blocks[order]),
        inducing_variable=duels.items[:3] + 0.2,
    )
    new = spg.Duels(duels.items, WON, LOST)
    with pytest.warns(UserWarning, match="a model of streamed duels does not keep what its blocks"):
        spg.evaluate(streamed, new)


def test_missing_blocks_and_duels_in_chunks_are_refused(
    model: spg.PreferenceGP, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="row 1"):
        spg.evaluate(
            model, TABLE.assign(session=["al", None, *SESSION[2:]]), columns={"block": "session"}
        )
    (tmp_path / "new").mkdir()
    TABLE.to_parquet(tmp_path / "new" / "0.parquet", index=False)
    with pytest.raises(ValueError, match=r"The role 'block' is not read of such a table .* judge"):
        spg.evaluate(model, tmp_path / "new", columns={"block": "session"})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)
    x = rng.normal(size=(15, 2))
    pairs = rng.permuted(np.tile(np.arange(15), (90, 1)), axis=1)[:, :2]
    pd.DataFrame({"item_id": np.arange(15), "a": x[:, 0], "b": x[:, 1]}).to_csv(
        folder / "items.csv", index=False
    )
    people = [f"p{i % 4}" for i in range(90)]
    pd.DataFrame({"winner": pairs[:, 0], "loser": pairs[:, 1], "person": people}).to_csv(
        folder / "duels.csv", index=False
    )
    return folder / "items.csv", folder / "duels.csv"


@pytest.mark.slow
def test_held_out_duels_of_a_fit_are_scored_in_their_blocks(tables: tuple[Path, Path]) -> None:
    table = read_duels(*tables)
    settings = FitSettings(approximation="pitc:person", inducing=3, kernel="se", max_iterations=1)
    holdout = prepare(table, settings)
    model, _ = fit_model(holdout)
    found = predict_held_out(holdout, model).forecasts["duels"].log_probabilities["model"]
    rows = holdout.split.test_rows
    x = holdout.everything.items
    for value, row in zip(found, rows, strict=True):
        block = table.context["person"].iloc[row]
        asked = table.given.take([row]).saying(block=Codes.of([block]))
        alone = model.predict(asked, x).log_first
        assert value == pytest.approx(float(alone[0]), abs=IDENTITY)


def test_the_command_takes_a_column(tables: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    table = read_duels(*tables)
    people = table.context["person"].tolist()
    model = build(table.standardised(), spg.PITC(people))
    spg.save(model, tmp_path / "model")
    words = ["evaluate", "--model", tmp_path / "model", "--duels", tables[1]]

    def run(*more: str) -> Any:
        result = CliRunner().invoke(app, [str(word) for word in (*words, *more)])
        assert result.exit_code == 0, result.output
        return result

    told = json.loads(run("--columns", "block=person", "--json").stdout)
    expected = spg.evaluate(model, tables[1], columns={"block": "person"})
    assert_same_scores(told["held_out"]["model"], expected["held_out"]["model"])
    assert told["duels_in_blocks"] == 90
    text = " ".join(run("--columns", "block=person").output.split())
    assert "90 of the 90 duels are of blocks that the model knows" in text
    text = " ".join(run().output.split())
    assert "from the inducing values alone, since there is no column 'block'" in text


def test_equal_duels_of_several_judges_have_a_block_each() -> None:
    duels, blocks = contradictory()
    judged = spg.Duels(
        duels.items,
        duels.given.pairs[:, 0],
        duels.given.pairs[:, 1],
        duels.merged.counts,
        groups=np.arange(len(duels.given)) % 2,
    )
    model = spg.PreferenceGP(
        judged,
        gpflow.kernels.SquaredExponential(),
        approximation=spg.PITC(blocks),
        inducing_variable=duels.items[:3] + 0.2,
        likelihood=spg.Probit(by="judge"),
    )
    judges = [0, 1, 0, 0, 1, 1, 0]
    sides = [0, 0, 3, 5, 2, 1, 4], [1, 1, 2, 0, 4, 5, 3]
    again = [0, 0, 0, 3, 5], [1, 1, 1, 2, 0]
    for (won, lost), groups in ((sides, judges), (again, [0, 0, 1, 0, 0])):
        labels = [*SESSION, "al"][: len(won)]
        asked = spg.Duels(duels.items, won, lost, groups=groups, labels={"block": labels})
        with pytest.warns(UserWarning, match="The block 'dan' is unknown"):
            found = spg.evaluate(model, asked)["held_out"]["model"]
        given = asked.given
        with pytest.warns(UserWarning, match="The block 'dan' is unknown"):
            forecast = model.predict(asked)
        mean, variance = forecast.mean, forecast.variance
        ratio = model.likelihood.noise_ratio.numpy()[given.judge.numbers]
        log_p = norm.logcdf(mean / np.sqrt(variance + 2.0 * model.likelihood.noise.numpy() * ratio))
        assert found["nlp_nats"] == pytest.approx(-np.mean(log_p), abs=IDENTITY)
