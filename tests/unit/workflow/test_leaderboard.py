"""Leaderboards: what is read of battles, what is said of them, and what is written."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.audit_result import Finding
from sparse_prefgp.io.forms import Form
from sparse_prefgp.workflow.board_table import Battles, odd_of
from sparse_prefgp.workflow.leaderboard import Leaderboard, Part, conclusion
from tests.together import apart, refused

pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app

MODELS, QUICK = 5, {"max_iterations": 3, "integrate": "no"}
SURE = "by the ranks not ruled out at 90 %"
ONE_FORM = "write all dates in the one form 2024-01-31"


def battles(number: int = 240, seed: int = 0, apart: float = 0.6) -> pd.DataFrame:
    """Votes of three judges, who lean to the first side; each model is better than the next."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, MODELS, number)
    second = (first + rng.integers(1, MODELS, number)) % MODELS
    length = rng.normal(size=(2, number)).round(2)
    ahead = apart * (second - first) + 0.2 + 0.3 * (length[0] - length[1])
    ahead += rng.normal(size=number)
    winner = np.where(ahead > 0.0, "model_a", "model_b")
    return pd.DataFrame(
        {
            "model_a": [f"m{i}" for i in first],
            "model_b": [f"m{i}" for i in second],
            "winner": np.where(np.abs(ahead) < 0.3, "tie", winner),
            "judge": rng.choice(["ann", "ben", "gpt"], number),
            "kind": rng.choice(["crowd", "machine"], number),
            "length_a": length[0],
            "length_b": length[1],
            "category": rng.choice(["code", "maths"], number),
            "question_id": rng.integers(0, 60, number),
        }
    )


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return spg.leaderboard(
        battles(),
        style="length",
        by="kind",
        anchor=("m4", 900),
        top=2,
        prices={"ann": 1.0, "gpt": 0.01},
        **QUICK,
    )


def test_a_board_says_who_is_best_and_how_sure(board: Leaderboard) -> None:
    categories, kinds = ("category: code", "category: maths"), ("kind: crowd", "kind: machine")
    assert {*board.rankings} == {"all", *categories, *kinds}
    frame = board.board()
    assert frame["model"].tolist() == ["m0", "m1", "m2", "m3", "m4"]
    assert frame["battles"].sum() == 480, "each has two sides"
    for part in (categories, kinds):
        own = [board.board(name)["battles"].sum() for name in part]
        assert sum(own) == 480 and min(own) > 0, "each has its own battles"
    last = frame.set_index("model").loc["m4"]
    assert last["elo"] == pytest.approx(900.0) and last["score"] == pytest.approx(0.5)
    assert board.versus == "m4" and frame["score"].is_monotonic_decreasing
    assert (frame["elo_lower"] < frame["elo"]).all() and (frame["elo"] < frame["elo_upper"]).all()
    assert board.judges.frame["votes"].sum() == 240
    assert set(board.biases["name"]) == {"length", "side"}
    assert board.biases.set_index("name").loc["length", "points"] > 0.0
    text = str(board)
    assert text.startswith(board.conclusion) and "m4 has 900" in text
    assert "What bends a verdict" in text and "category: code" in text
    flat = " ".join(text.split())
    assert flat.count("fitted to their own battles alone") == 1
    of_kinds = [board.table(board=name).caption != "" for name in board.rankings]
    assert of_kinds == [False] * 3 + [True, False], "said of the first board of a kind"
    assert "kind" not in board.table_of.read_as.unused, "of which there are boards"
    with pytest.raises(ValueError, match="board is 'poems'; choose from all"):
        board.board("poems")


def test_who_beat_whom_is_counted(board: Leaderboard) -> None:
    names, seen = board.seen
    table = battles()
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            points = []
            for row in table.itertuples():
                if {row.model_a, row.model_b} == {one, other} and i != j:
                    won = {"model_a": row.model_a, "model_b": row.model_b}.get(row.winner)
                    points.append(0.5 if won is None else float(won == one))
            expected = np.mean(points) if points else np.nan
            assert seen[i, j] == pytest.approx(expected, nan_ok=True)


def test_the_page_says_at_its_top_what_bends_the_board(board: Leaderboard) -> None:
    circle = Finding("circle", "m0", 1.0, (0.5, 1.5), 1e-9, "Look.", "utility each", "counted")
    for findings in ((circle,), ()):
        audit = replace(board.audit, findings=findings)
        kept = [part for part in board.parts_of if part.name != "audit"]
        found = replace(board, parts_of=[*kept, Part("audit", "Audit", audit)])
        (box,) = [part for part in found.report().sections if part.title.startswith("Before")]
        assert (audit.conclusion in box.notes) is bool(findings)


def test_a_board_is_written_whole(board: Leaderboard, tmp_path: Path) -> None:
    folder = tmp_path / "board"
    names = board.write(folder)
    assert {*names} == {
        "board.csv",
        "judges.csv",
        "audit.csv",
        "settled.csv",
        "trust.csv",
        "board.tex",
        "board.html",
        "board.json",
        "model/",
    }
    trust = pd.read_csv(folder / "trust.csv")
    assert {*trust["winner"], *trust["loser"]} == {f"m{i}" for i in range(MODELS)}
    assert len(trust) == board.table_of.num_rows and trust["probability"].is_monotonic_increasing
    for name in ("question_id", "category"):
        assert sorted(trust[name]) == sorted(battles()[name]), "says which vote it is"
    frame = pd.read_csv(folder / "board.csv")
    assert len(frame) == 5 * MODELS and frame["board"].iloc[0] == "all"
    figures = json.loads((folder / "board.json").read_text())
    assert figures["program"] == "sparse-prefgp" and len(figures["judges"]["judges"]) == 3
    assert figures["conclusion"] == board.conclusion and len(figures["board"]) == 25
    assert figures["abstention"]["0.1"] > figures["abstention"]["1"] > 0.5
    page = (folder / "board.html").read_text()
    assert "If only the surest duels are answered" in page
    assert "evaluate --model FOLDER --duels new.csv --risk 0.1 --task question_id" in page
    assert page.count("data:image/svg+xml;base64,") == 4 and "<script" not in page
    assert all(f"m{i}" in page for i in range(MODELS))
    latex = (folder / "board.tex").read_text()
    assert "\\begin{tabular}" in latex
    for words in ("Intervals hold 90", "Against m4", "m4 has 900", "margin"):
        assert words in latex.split("\\end{tabular}")[1], "below the table"
    next_asked = pd.read_csv(folder / "settled.csv")
    assert {*next_asked["judge"]} == {"gpt"} and {*next_asked["price"]} == {0.01}
    assert "best asked of" in page and "price" in page
    again = spg.rank(spg.load(folder), order="mean")
    assert again.frame["item_id"].tolist() == board.board()["model"].tolist()
    with pytest.raises(ValueError, match="holds a board"):
        board.write(folder)
    board.write(folder, overwrite=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'notes\.txt', which is no part of a board"):
        board.write(folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"


def test_pictures_are_the_same_each_time(board: Leaderboard) -> None:
    from sparse_prefgp.tell.page import embedded

    pictures = [picture for section in board.report().sections for picture in section.pictures]
    assert [picture.name for picture in pictures] == ["points", "ranks", "who_beats_whom", "biases"]
    assert embedded(pictures[1]) == embedded(pictures[1])


@pytest.mark.slow
def test_columns_are_found_named_or_left_out() -> None:
    table = battles(60).rename(columns={"judge": "Annotator"})
    found = spg.leaderboard(table, **QUICK)
    assert vars(found.battles.roles) == {
        "judge": "Annotator",
        "category": "category",
        "task": "question_id",
        "date": None,
    }
    assert "Judge: Annotator (3 labels)" in found.table_of.read_as.notes
    assert "Annotator" not in found.table_of.read_as.unused
    without = spg.leaderboard(table, judge="none", category="none", **QUICK)
    assert without.judges is None and [*without.rankings] == ["all"]
    with pytest.raises(ValueError, match=r"column of category .* is 'topic'"):
        spg.leaderboard(table, category="topic")


@pytest.mark.slow
def test_a_category_for_each_battle_is_none() -> None:
    table = battles(60).assign(category=lambda frame: np.arange(len(frame)) // 2)
    with pytest.raises(ValueError, match="'category' has 30 labels in 60 battles"):
        spg.leaderboard(table, category="category")
    found = spg.leaderboard(table, **QUICK)
    assert found.battles.roles.category is None
    assert any("there is no board of each" in note for note in found.notes)
    looked_at = found.parts_of[1].result.looked_at
    (looked,) = (one for one in looked_at if one.what.startswith("category"))
    assert looked.told == "not asked: nothing has 10 votes", "the column is known to the audit"


def test_numbers_of_categories_are_labels() -> None:
    """No model grows better with the number of a category."""
    table = battles(60).assign(category=np.arange(60) % 3)
    read = Battles.opened(table, (), {}, Form()).read()
    assert (read.raw.categorical, read.raw.numeric) == (("category",), ())


@pytest.mark.parametrize(
    ("column", "remedy"),
    [("judge", "--judge none"), ("category", "--category none"), ("kind", r"no --by")],
)
def test_empty_cells_of_a_column_that_is_read_are_refused(column: str, remedy: str) -> None:
    table = battles(60)
    table[column] = table[column].where(table.index > 0)
    with pytest.raises(ValueError, match=rf"{column!r} has a missing value in row 0 .*{remedy}"):
        Battles.opened(table, (), {}, Form(), by="kind")


def test_what_is_read_as_something_else_is_no_kind() -> None:
    with pytest.raises(ValueError, match="'category' is that of kinds and of the category; leave"):
        Battles.opened(battles(60), (), {}, Form(), by="category")
    with pytest.raises(ValueError, match="'winner' of kinds is read as the verdict; choose"):
        Battles.opened(battles(60), (), {}, Form(), by="winner").read()
    for role, column, read in (
        ("judge", "model_a", "first side"),
        ("category", "winner", "verdict"),
        ("task", "model_b", "second side"),
    ):
        with pytest.raises(ValueError, match=f"{column!r} of {role} is read as the {read}; choose"):
            Battles.opened(battles(60), (), {role: column}, Form()).read()


def test_what_is_not_used_is_not_read() -> None:
    table = battles(60).assign(conversation_a="hi", conversation_b="ho")
    read_as = Battles.opened(table, ["length"], {}, Form()).read().read_as
    assert {"conversation_a", "conversation_b"} <= {*read_as.unused}
    assert "conversation" not in read_as.columns and "length" in read_as.columns


@pytest.mark.parametrize("name", ["length_a", "length_b"])
def test_columns_of_sides_go_by_their_own_names(name: str) -> None:
    table = battles(60)
    table[name] = table[name].astype(object).where(table.index != 7, "long")
    opened = Battles.opened(table, "length", {}, Form())
    with pytest.raises(ValueError, match=f"The column {name!r} has 'long' in row 7"):
        opened.read()
    with pytest.raises(
        ValueError, match="The covariate 'colour' is no column, nor are there two for"
    ):
        Battles.opened(table, "colour", {}, Form()).read()


@pytest.mark.slow
def test_what_cannot_be_told_of_a_board_is_noted() -> None:
    table = battles(120).assign(judge="ann", kind="crowd", day=np.arange(120.0) % 7)
    table.loc[:29, "day"] = np.nan
    with pytest.raises(ValueError, match=r"30 of 120 battles have no date in the column 'day'"):
        spg.leaderboard(table, date="day")
    found = spg.leaderboard(table, by="kind", top=9, category="none", **QUICK)
    notes = " ".join(found.notes)
    assert "Drift is not asked: 30 of 120 battles have no date in the column 'day'." in notes
    assert "There are 5 models, so that chances are those of being among the first 4" in notes
    assert "'kind' of kinds has one label, 'crowd'" in notes
    assert found.top == 4 and "top 4" in found.to_markdown()
    assert [*found.rankings] == ["all"], "the same battles are not fitted twice"
    assert found.judges is None and found.model.likelihood.noise_ratio is None
    assert "One judge: his noise and lean are those of the board" in found.table_of.read_as.notes
    told = [one for one in found.audit.looked_at if one.what.startswith("lean")]
    assert [one.told for one in told] == ["not asked: there is one judge"]
    assert "drift" in {one.what for one in found.audit.looked_at if one.findings is None}


@pytest.mark.parametrize(
    ("dates", "says"),
    [
        (["soon", "2024-02-01"], f"'soon' in row 0 .* {ONE_FORM}"),
        (
            ["01/02/2024", "03/04/2024"],
            f"may be 2024-02-01 or 2024-01-02; {ONE_FORM}",
        ),
        ([1.2e12, 1.3e12], "numbers are days or seconds since 1970"),
    ],
)
def test_what_is_no_date_is_refused_before_the_fit(
    dates: list[Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = battles(60).assign(tstamp=dates * 30)
    with monkeypatch.context() as without_fit:
        without_fit.setattr("sparse_prefgp.workflow.leaderboard.run_fit", None)
        with pytest.raises(ValueError, match=rf"{says}, or name another column \(--date"):
            spg.leaderboard(table, date="tstamp", **QUICK)
    opened = Battles.opened(table, (), {}, Form())
    assert opened.roles.date is None, "nobody named it"
    assert re.match(f"Drift is not asked: the .*{says}", opened.notes[0])


@pytest.mark.parametrize(
    "dates",
    [
        ["31/01/2024", "01/02/2024"],
        ["2024-01-31", "2024-02-01"],
        [20240131, 20240201],
        [1706659200.0, 1706745600.0],
    ],
)
def test_dates_of_any_form_are_days(dates: list[Any]) -> None:
    table = battles(20).assign(tstamp=dates * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = Battles.opened(table, (), {}, Form())
    np.testing.assert_array_equal(opened.days(table.tail(3)), [19754, 19753, 19754])


@pytest.mark.parametrize(
    ("name", "number", "taken"),
    [
        ("time", 35.2, False),
        ("time", 1500.0, False),
        ("tstamp", 1683241000.5, True),
        ("day", 19_754.5, True),
    ],
)
def test_small_numbers_are_dates_where_it_is_said(name: str, number: float, taken: bool) -> None:
    table = battles(20)
    table[name] = number + np.arange(20)
    opened = Battles.opened(table, (), {}, Form())
    assert opened.roles.date == (name if taken else None)
    assert any("not taken for dates" in note for note in opened.notes) is not taken
    assert Battles.opened(table, (), {"date": name}, Form()).roles.date == name


def test_an_anchor_that_is_no_model_is_refused_before_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparse_prefgp.workflow.leaderboard.run_fit", None)
    with pytest.raises(ValueError, match="The anchor is 'm9'"):
        spg.leaderboard(battles(60), anchor=("m9", 1000), **QUICK)


@pytest.mark.parametrize(
    ("prices", "judge", "says"),
    [
        ({"Ann": 1.0}, None, "'Ann', who is no judge of the votes; did you mean 'ann'"),
        ({"ann": 0.0}, None, "price of ann is 0.0; give a number, above 0"),
        ({"ann": 1.0}, "none", apart("prices", "one_judge")),
    ],
)
def test_prices_are_checked_before_the_fit(
    prices: Any, judge: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparse_prefgp.workflow.leaderboard.run_fit", None)
    with pytest.raises(ValueError, match=says):
        spg.leaderboard(battles(60), prices=prices, judge=judge, **QUICK)


@pytest.mark.slow
def test_boards_of_kinds_have_what_their_battles_have() -> None:
    """Of a kind some battles lack the anchor, all but one category, or what a style differs in."""
    table = battles(160)
    with_m4 = (table["model_a"] == "m4") | (table["model_b"] == "m4")
    table["kind"] = np.where(with_m4, "crowd", "machine")
    table["category"] = np.where(with_m4, table["category"], "code")
    table["length_b"] = table["length_b"].where(with_m4, table["length_a"])
    table["winner"] = table["winner"].where(with_m4, "tie")
    found = spg.leaderboard(
        table, style=["length"], by="kind", anchor=("m4", 900), audit=False, **QUICK
    )
    assert {*found.rankings} >= {"kind: crowd", "kind: machine"}
    assert "m4" not in {*found.board("kind: machine")["model"]}
    notes = " ".join(found.notes)
    assert "The board of kind machine has no anchor, as m4 has no battle there" in notes
    assert re.search(r"All \d+ battles of kind machine are ties: on that board models are", notes)
    assert "Board of kind machine: the length is the same on both sides of all" in notes
    assert found.board("kind: machine")["elo"].mean() == pytest.approx(1000.0)
    assert {*found.biases["name"]} == {"length", "side"}, "that of all battles has both"


@pytest.mark.parametrize(("behind", "how"), [(0.0, "is the same on both"), (2.0, "differs by 2 b")])
def test_a_style_that_never_differs_is_left_out(behind: float, how: str) -> None:
    table = battles(60)
    table["length_a"], table["length_b"] = 5.0, 5.0 - behind
    opened = Battles.opened(table, ["length"], {}, Form())
    assert opened.style == () and f"The length {how}" in opened.notes[0]
    assert opened.read().events.covariate_names == ("side",)


def test_models_that_no_battle_links_are_named() -> None:
    table = battles(60)
    linked = Battles.opened(table, (), {}, Form())
    assert "links" not in " ".join(odd_of(linked, linked.read()))
    numbers = table["model_a"].str[1:].astype(int), table["model_b"].str[1:].astype(int)
    within = Battles.opened(table[(numbers[0] < 2) == (numbers[1] < 2)], (), {}, Form())
    notes = " ".join(odd_of(within, within.read()))
    assert re.search(r"No chain of battles links (m0, m1|m1, m0) with the others: the", notes)


def test_both_orders_are_two_votes_without_a_task_too() -> None:
    table = battles(1).drop(columns="question_id").assign(winner="model_a")
    turned = table.rename(columns={"model_a": "model_b", "model_b": "model_a"})
    turned["winner"] = "model_b"
    for judge, who in (("judge", "shown to one judge in"), ("none", "shown in")):
        rows = pd.concat([table, turned], ignore_index=True)
        opened = Battles.opened(rows, (), {"judge": judge}, Form(side=True))
        notes = " ".join(odd_of(opened, opened.read()))
        assert f"Both orders of two models were {who} 1 case: each is a vote of its own" in notes
        assert "whether on the same answers or not (--task)" in notes


@pytest.mark.parametrize(("task", "told"), [(0, True), (None, False)])
def test_a_date_tells_no_two_votes_apart(task: int | None, told: bool) -> None:
    table = battles(1).drop(columns="question_id").assign(day=19_000)
    table = table if task is None else table.assign(task=task)
    opened = Battles.opened(pd.concat([table, table], ignore_index=True), (), {}, Form())
    assert ("may be a copy" in " ".join(odd_of(opened, opened.read()))) is told


@pytest.mark.slow
def test_without_a_winner_a_sentence_says_what_more_votes_would_settle() -> None:
    found = spg.leaderboard(battles(60, apart=0.02), judge="none", category="none", **QUICK)
    assert (found.board()["group"] == 1).sum() > 1
    settling = next(part.result for part in found.parts_of if part.name == "settled")
    assert found.conclusion.endswith(settling.outlook)
    assert "with 8 times today's votes (480) it is with a chance of" in found.conclusion


def _same_flags_are_made(model: spg.PreferenceGP, table: pd.DataFrame) -> None:
    """Of every table that a model with flags reads, with or without them."""
    new = table.assign(winner=table["winner"].to_numpy()[::-1])
    flags = {f"no_length_{side}": (new[f"length_{side}"] == 0).astype(int) for side in "ab"}
    said = new.assign(**flags)
    assert sum(flag.sum() for flag in flags.values()) > 4
    scores = [spg.evaluate(model, votes)["held_out"]["model"] for votes in (new, said)]
    assert scores[0] == scores[1]
    alone = spg.evaluate(model, said.assign(no_length_a=0, no_length_b=0))["held_out"]["model"]
    assert alone != scores[0], "flags that are there count"
    sides = {"model_a": "first", "model_b": "second"}
    sides |= {
        f"{x}length_{side}": f"{sides[f'model_{side}']}_{x}length"
        for x in ("", "no_")
        for side in "ab"
    }
    for columns in ({}, sides):
        one, other = (
            spg.predict(model, votes.drop(columns="winner").rename(columns=columns))
            for votes in (new, said)
        )
        assert (one["probability"] == other["probability"]).all()
        assert not {*one} - {*other}
    one, other = (spg.update(model, votes)[0].log_evidence() for votes in (new, said))
    assert one == other


@pytest.mark.slow
def test_empty_answers_have_a_coefficient_of_their_own() -> None:
    rng, table = np.random.default_rng(0), battles(200)
    for side in "ab":
        length = 6.0 + rng.normal(size=200)
        table[f"length_{side}"] = np.where(rng.random(200) < 0.05, 0.0, length)
    found = spg.leaderboard(table, style=["length"], judge="none", category="none", **QUICK)
    assert {*found.biases["name"]} == {"length", "no_length", "side"}
    assert any("far from all others" in note for note in found.notes)
    _same_flags_are_made(found.model, table)
    table["length_a"] -= 6.0
    plain = spg.leaderboard(table, style=["length"], judge="none", category="none", **QUICK)
    assert "no_length" not in {*plain.biases["name"]}


def test_a_board_refuses_the_risk_of_later_votes(tmp_path: Path) -> None:
    dated = battles(300).drop(columns=["category", "kind"]).assign(day=np.arange(300) + 19000)
    early, late = dated[:150], dated[150:]
    spg.leaderboard(early, style="length", audit=False, out=tmp_path / "board", **QUICK)
    model = spg.load(tmp_path / "board" / "model")
    for votes, columns in ((late, None), (late.rename(columns={"day": "on"}), {"date": "on"})):
        with refused("risk", "later_duels"):
            spg.evaluate(model, votes, columns=columns, risk=0.4, task="none")
    same = late.assign(day=late["day"] - 150)
    assert spg.evaluate(model, same, risk=0.4, task="none")["threshold"]["tested"] > 0
    with pytest.warns(UserWarning, match="have no dates, by which they could be seen to be later"):
        spg.evaluate(model, late.drop(columns="day"), risk=0.4, task="none")
    assert "threshold" not in spg.evaluate(model, late)
    updated, _ = spg.update(model, late[:100])
    with refused("risk", "later_duels"):
        spg.evaluate(updated, late[100:], risk=0.4, task="none")
    with refused("risk", "known_duels"):  # and not later than all
        spg.evaluate(updated, late[50:], risk=0.4, task="none")
    undated, _ = spg.update(model, late[:100].drop(columns="day"))
    assert "last_date" not in undated.duels.roles


def test_what_is_odd_is_told() -> None:
    table = battles(80, apart=0.2)[["model_a", "model_b", "winner", "judge"]]
    table["question_id"] = np.arange(80)
    more = pd.DataFrame(
        [
            ["m0", "m1", "model_a", "ann", 900],
            ["m1", "m0", "model_b", "ann", 900],
            ["m0", "weak", "model_a", "ben", 901],
            ["m2", "weak ", "model_a", "zoe", 902],
            ["M3", "m0", "model_b", "ann", 903],
        ],
        columns=table.columns,
    )
    more = pd.concat([more, more.iloc[:1]])
    with pytest.warns(UserWarning, match="'m3' .* and 'M3' .* differ in case"):
        found = spg.leaderboard(pd.concat([table, more], ignore_index=True), **QUICK)
    notes = " ".join(found.notes)
    assert "M3, weak never won" in notes or "weak, M3 never won" in notes
    assert "'M3'" in notes and "1 of 4 judges has one vote" in notes
    assert "stand is held by the prior" in notes
    assert "has 'weak' and 'weak ', which are taken for one: blanks" in notes
    both = "Both orders of two models on one task were shown to one judge in 1 case: each is a vote"
    assert f"{both} of its own." in notes
    assert "83 of 84 tasks have one vote: no two votes can be compared there." in notes
    copies = "1 vote repeats an earlier one, in models, verdict, judge and task, and counts again"
    assert f"{copies}; it may be a copy" in notes, "the other of the two orders is no copy"
    weak = found.board().set_index("model").loc["weak"]
    sure = found.board().set_index("model").loc["m0"]
    assert np.isfinite(weak["elo"]) and weak["sd"] > 1.5 * sure["sd"]
    assert {"M3", "m3"} <= {*found.board()["model"]}, "named, not merged"


@pytest.mark.slow
def test_a_board_of_ties_alone_is_one_of_equals() -> None:
    table = battles(60).assign(winner="both good")
    with pytest.warns(UserWarning, match="All .* are ties"):
        found = spg.leaderboard(
            table, verdicts={"both good": "tie"}, judge="none", category="none", **QUICK
        )
    board = found.board()
    assert found.conclusion == (
        "The 5 models are equals: all battles are ties, and how long intervals are is what the "
        "prior says."
    )
    assert {*board["rank"]} == {1} and {*board["group"]} == {1}
    settling = next(part.result for part in found.parts_of if part.name == "settled")
    assert list(settling.first) == board["model"].tolist()[:4], "in the one order"
    np.testing.assert_allclose(board["elo"], 1000.0)
    assert (board["elo_upper"] - board["elo_lower"] > 50.0).all()
    assert any("are ties" in note for note in found.notes)


def rows(groups: list[int]) -> pd.DataFrame:
    names = [f"m{i}" for i in range(len(groups))]
    return pd.DataFrame(
        {"model": names, "group": groups, "elo": 1500.0 - 20.0 * np.arange(len(groups))}
    )


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2, 2], f"A clear winner, {SURE}: m0, 20 points ahead of m1."),
        ([1, 1, 2, 3], f"A tie at the top of 2 models, {SURE}: m0 and m1."),
        ([1, 1, 1, 2], f"Not enough votes: {SURE}, 3 of 4 models cannot be told apart from the"),
        ([1] * 8 + [2] * 9, f"A tie at the top of 8 models, {SURE}: m0, m1, m2, m3, m4, m5 and"),
    ],
)
def test_the_conclusion_is_a_sentence(groups: list[int], words: str) -> None:
    assert conclusion(rows(groups), 0.9).startswith(words)


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["leaderboard", *map(str, arguments)])


def test_the_command_reads_prints_and_writes(tmp_path: Path) -> None:
    table = battles(90).drop(columns=["category", "judge"])
    table["winner"] = table["winner"].replace({"tie": "tie (bothbad)"})
    table.loc[table.index[:9], "winner"] = "Tie"
    table.to_csv(tmp_path / "battles.csv", index=False)
    folder = tmp_path / "board"
    quick = ("--max-iterations", 2, "--integrate", "no")
    result = run(tmp_path / "battles.csv", "--out", folder, *quick, "--show", 3)
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "Tie = tie (9)" in flat and "tie (bothbad) = tie, both bad" in flat
    assert "no column says who judged" in flat and "5 models, the first 3" in flat
    assert "board.html" in flat and not (folder / "judges.csv").exists()
    again = run(tmp_path / "battles.csv", "--out", folder)
    assert again.exit_code == 2 and "holds a board" in again.output
    alone = battles(20).assign(model_a="m1", model_b="m1")
    alone.to_csv(tmp_path / "alone.csv", index=False)
    refused = run(tmp_path / "alone.csv")
    assert refused.exit_code == 2 and "both sides are 'm1'" in refused.output
    assert "Traceback" not in refused.output
