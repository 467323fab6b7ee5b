"""Commands on a saved model whose utilities move in time, before and after `update --filter`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

import sparse_prefgp as spg
from tests.integration.test_commands import answer, call
from tests.tolerances import IDENTITY, ROUNDING

NAMES = [f"t{i}" for i in range(8)]
LAST = "2015-12-20"


def league(begin: str, rows: int, seed: int) -> pd.DataFrame:
    """Results within a year or two of some date."""
    rng = np.random.default_rng(seed)
    sides = np.array([rng.choice(len(NAMES), 2, replace=False) for _ in range(rows)])
    days = np.datetime64(begin) + np.sort(rng.integers(0, 350, rows))
    names = [[NAMES[i] for i in side] for side in sides.T]
    tied = (rng.random(rows) < 0.2).astype(int)
    return pd.DataFrame(
        {"winner": names[0], "loser": names[1], "date": days.astype(str), "tie": tied}
    )


OLD = pd.concat(
    [
        league("2014-01-01", 60, 1),
        pd.DataFrame({"winner": ["t0"], "loser": ["t1"], "date": [LAST], "tie": [0]}),
    ]
)
FIRST, SECOND = league("2016-01-05", 25, 2), league("2017-01-05", 25, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, results of two more years, and the same in one table."""
    folder = tmp_path_factory.mktemp("league")
    model = spg.PreferenceGP(
        spg.read_duels(None, OLD, time="date"),
        spg.ItemInTime(spg.markov.Wiener(1.0, 0.2), "quarter"),
        likelihood=spg.Probit(margin=0.2),
    )
    model.infer()
    spg.save(model, folder / "model")
    FIRST.to_csv(folder / "first.csv", index=False)
    SECOND.to_csv(folder / "second.csv", index=False)
    pd.concat([FIRST, SECOND]).to_csv(folder / "both.csv", index=False)
    (folder / "pairs.csv").write_text("first,second\nt0,t5\nt3,t2\n")
    return folder


def follow(folder: Path, model: str, table: str, out: str, *more: Any) -> Any:
    words = ("--model", folder / model, "--duels", folder / f"{table}.csv", "--out", folder / out)
    return answer("update", *words, "--filter", *more)


@pytest.fixture(scope="module")
def filtered(folder: Path) -> Path:
    """By the commands, in two passes."""
    follow(folder, "model", "first", "half", "--slices", "day")
    follow(folder, "half", "second", "filtered", "--slices", "day")
    return folder / "filtered"


def predictions(model: spg.PreferenceGP, at: str) -> list[np.ndarray]:
    return [values.numpy() for values in model.predict_f(model.inputs.of_items(at=at), True)]


@pytest.mark.slow
@pytest.mark.parametrize("slices", ["day", "quarter"])
@pytest.mark.covering(every=2)
def test_two_tables_one_after_the_other_are_as_both_at_once(folder: Path, slices: str) -> None:
    """Tables that share no slice."""
    names = [f"{name}-{slices}" for name in ("one", "two", "whole")]
    told = [
        follow(folder, "model", "first", names[0], "--slices", slices),
        follow(folder, names[0], "second", names[1], "--slices", slices),
        follow(folder, "model", "both", names[2], "--slices", slices),
    ]
    ahead = [each["log_predictive"] for each in told]
    assert ahead[0] + ahead[1] == pytest.approx(ahead[2], rel=1e-10)
    parted, whole = (spg.load(folder / name) for name in names[1:])
    for at in ("2014-12-01", "2016-06-01", "2030-01-01"):
        for one, two in zip(predictions(parted, at), predictions(whole, at), strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-10)


def test_a_filtered_model_is_read_to_the_bit(folder: Path, filtered: Path, tmp_path: Path) -> None:
    model = spg.load(folder / "model")
    for table in (FIRST, SECOND):
        later = spg.read_duels(None, table, time="date")
        model = model.in_time.filter(later, slices="day").model
    spg.save(model, tmp_path / "saved")
    again, written = spg.load(tmp_path / "saved"), spg.load(filtered)
    assert again.in_time.last_date == model.in_time.last_date and not again.infer().converged
    for at in ("2014-12-01", "2016-06-01", "2030-01-01"):
        found = (predictions(each, at) for each in (model, again, written))
        for one, two, three in zip(*found, strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_allclose(one, three, rtol=0, atol=IDENTITY)


def test_a_forecast_is_of_its_date_and_less_is_known_later(filtered: Path, folder: Path) -> None:
    pairs = ("--model", filtered, "--pairs", folder / "pairs.csv")
    model, found = spg.load(filtered), []
    for date in ("2015-03-01", "2018-01-01", "2030-01-01", "2100-01-01"):
        rows = pd.DataFrame(answer("predict", *pairs, "--at", f"date={date}")["pairs"])
        at_hand = spg.predict(model, pd.read_csv(folder / "pairs.csv"), at=date)
        np.testing.assert_allclose(rows["probability"], at_hand["probability"], rtol=ROUNDING)
        found.append(rows)
    now, later, far = found[1:]
    assert (now["sd"] < later["sd"]).all() and (later["sd"] < far["sd"]).all()
    # A Wiener process moves without a direction.
    np.testing.assert_allclose(now["difference"], far["difference"], rtol=1e-9)


def test_rankings_and_suggestions_at_a_date(filtered: Path) -> None:
    for date in ("2014-11-01", "2018-01-01"):
        ranks = answer("rank", "--model", filtered, "--at", f"date={date}")
        expected = spg.rank(spg.load(filtered), at=date).frame
        assert [row["item_id"] for row in ranks["ranking"]] == list(expected["item_id"])
        told = call("suggest", "--model", filtered, "--at", f"date={date}", "--batch", 2)
        assert told.exit_code == 0, told.output
        assert "NOT converged" not in told.output and "Ask next" in told.output
    found = answer("suggest", "--model", filtered, "--batch", 2)
    assert found["filtered"] and not found["converged"] and len(found["pairs"]) == 2


def changed(**row: Any) -> Callable[[Path], None]:
    """The table with other values in its fourth row."""

    def made(place: Path) -> None:
        table = FIRST.astype(object)
        for column, value in row.items():
            table.loc[3, column] = value
        table.to_csv(place, index=False)

    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda place: OLD.to_csv(place, index=False), "of all of them, or take up later ones"),
        (changed(date="2015-05-13"), "Row 5 of"),
        (changed(date=None), "The date (column 'date') is missing in row 5"),
        (changed(date="13/05/2016"), "'13/05/2016' in row 5"),
        (changed(date="2016-05-13T10:00Z"), "'2016-05-13T10:00Z' with a time zone in row 5"),
        (
            lambda place: FIRST.drop(columns="date").to_csv(place, index=False),
            "has no column 'date'",
        ),
    ],
)
def test_tables_that_no_filter_takes_up(
    folder: Path, tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "new.csv")
    more = ("--duels", tmp_path / "new.csv", "--filter", "--out", tmp_path / "out")
    refused = call("update", "--model", folder / "model", *more)
    assert refused.exit_code == 2 and len(refused.stderr.splitlines()) == 1, refused.output
    assert words in refused.stderr and not (tmp_path / "out").exists()


def test_what_is_taken_up_with_a_note(folder: Path, tmp_path: Path) -> None:
    years = FIRST.assign(date="2016")
    for table, words in (
        (years, "are years alone"),
        (FIRST.replace("t3", "t99"), "name 1 item that the model does not know (t99)"),
        (FIRST.replace("t3", "T3"), "differ in case alone"),
    ):
        table.to_csv(tmp_path / "new.csv", index=False)
        more = ("--duels", tmp_path / "new.csv", "--filter", "--out", tmp_path / "out")
        result = call("update", "--model", folder / "model", *more, "--overwrite")
        assert result.exit_code == 0, result.output
        assert words in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rank --at date=2035-01-01", "give a date from 2014-0"),
        ("rank --at date=soon", "'soon' is no date; give one such as 2026-06-11"),
        ("suggest --at date=2035-01-01", "to 2019-"),
        ("predict --pairs {}/pairs.csv --at date=1990-01-01", "asks for the item 't0' on 1990"),
        ("predict --pairs {}/pairs.csv --at date=20149913", "is no date"),
        ("trajectories --item t99", "'t99' is none of the 8 of the model"),
    ],
)
def test_dates_and_items_that_are_refused(
    folder: Path, filtered: Path, words: str, message: str
) -> None:
    refused = call(*words.format(folder).split(), "--model", filtered)
    assert refused.exit_code == 2 and len(refused.stderr.splitlines()) == 1, refused.output
    assert message in refused.stderr
