"""Ids that steer terminals, that spreadsheets take for formulas, or that look alike."""

from __future__ import annotations

import gzip
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.io import (
    read_best_worst,
    read_choices,
    read_duels,
    read_rankings,
)
from sparse_prefgp.io.files import load
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.words import CONTROL, escaped, guarded, id_text

DUELS = pd.DataFrame({"winner": ["a", "b"], "loser": ["b", "c"], "judge": "x", "who": "y"})
CHOICES = pd.DataFrame({"option_1": ["a", "b"], "option_2": ["b", "c"], "chosen": ["a", "c"]})
LONG = pd.DataFrame(
    {
        "choice_set": ["s"] * 2,
        "item_id": ["a", "b"],
        "best": [1, 0],
        "worst": [0, 1],
        "rank": [1, 2],
    }
)
LONG = LONG.assign(ranking=LONG["choice_set"])


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\x07", "\n", "\x7f", "\x9b"])
def test_control_characters_in_ids_are_refused(character: str) -> None:
    """Of items, sets, judges and people, whether there is a table of items or not."""
    bad = f"a{character}[31mb"
    roles = {"groups": "judge", "person": "who"}
    readers: list[tuple[Any, pd.DataFrame, list[str], dict[str, str]]] = [
        (read_duels, DUELS, ["winner", "loser", "judge", "who"], roles),
        (read_choices, CHOICES, ["option_1", "option_2"], {}),
        (read_best_worst, LONG, ["choice_set", "item_id"], {}),
        (read_rankings, LONG, ["ranking", "item_id"], {}),
    ]
    for read, frame, columns, options in readers:
        assert read(None, frame, **options).num_items > 1
        for column in columns:
            changed = frame.copy()
            changed.loc[1, column] = bad
            with pytest.raises(ValueError, match=f"column {column!r} has .* in row 1 ") as error:
                read(None, changed, **options)
            assert not CONTROL.search(str(error.value)) and "control character" in str(error.value)
    items = pd.DataFrame({"item_id": ["a", bad], "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"'item_id' has .* in row 1 of the items frame"):
        read_duels(items, DUELS)


def test_a_file_with_a_null_byte_is_refused(tmp_path: Path) -> None:
    """Where pandas would read a\\0b as a."""
    content = b"winner,loser\na,b\na\x00b,c\n"
    (tmp_path / "duels.csv").write_bytes(content)
    (tmp_path / "duels.csv.gz").write_bytes(gzip.compress(content))
    for name in ("duels.csv", "duels.csv.gz"):
        with pytest.raises(ValueError, match=f"{name}' cannot be read .a NUL byte in line 3"):
            read_duels(None, tmp_path / name)


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|x", "\t=1"]
PLAIN = ["-5", "+1.5", "-1e-3", "-", "Acme -5", "'t Hooft", "3", "-1,5"]


def test_what_we_write_is_no_formula_and_is_read_again(tmp_path: Path) -> None:
    frame = pd.DataFrame({"item_id": [*FORMULAS, *PLAIN], "=x": np.linspace(-2, 2, 13)})
    text = csv_of(frame)
    cells = pd.read_csv(io.StringIO(text), dtype=str)
    risky = cells.iloc[: len(FORMULAS), 0]
    assert risky.str.startswith("'").all() and cells.columns[1] == "'=x"
    assert cells.iloc[len(FORMULAS) :, 0].tolist() == PLAIN
    assert (cells.iloc[:, 1].astype(float) == frame["=x"]).all()
    (tmp_path / "ranking.csv").write_text(text, encoding="utf-8")
    again = load(tmp_path / "ranking.csv", "items", lambda header: ["item_id"]).frame
    assert again.columns.tolist() == ["item_id", "=x"]
    assert list(map(id_text, again["item_id"])) == list(map(id_text, frame["item_id"]))
    duels = cells.iloc[:3, [0]].set_axis(["winner"], axis=1).assign(loser="-5")
    assert read_duels(frame, duels).num_rows == 3
    assert guarded("'=x") == "'=x" and id_text("'=x") == "=x"


def test_an_id_with_and_without_the_apostrophe_is_named(tmp_path: Path) -> None:
    """In files and data frames; what is shown is what was read."""
    rows = pd.DataFrame({"winner": ["=a", "'=a", "b"], "loser": ["c", "b", "c"], "n": [1, 2, 3]})
    rows.to_csv(tmp_path / "duels.csv", index=False)
    for source in (rows, tmp_path / "duels.csv"):
        with pytest.warns(UserWarning, match="has \"'=a\" and '=a', which are taken for one"):
            assert read_duels(None, source).num_items == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(rows[1:], "duels", lambda header: []).frame
    assert found["winner"].tolist() == ["=a", "b"] and rows["winner"][1] == "'=a"


@pytest.mark.parametrize(
    ("other", "where"),
    [
        ("Plum", "case alone"),
        ("pl um", "blanks"),
        ("ｐｌｕｍ", "Unicode form"),
        ("pl\u200bum", "characters of no width"),
    ],
)
def test_ids_that_look_alike_are_named_with_how_often(other: str, where: str) -> None:
    rows = pd.DataFrame({"winner": ["plum", other, "fig"], "loser": ["fig", "fig", "plum"]})
    said = rf"items 'plum' \(2 times\) and .* \(1 time\) differ in .*{where}"
    with pytest.warns(UserWarning, match=said) as notes:
        table = read_duels(None, rows)
    assert table.num_items == 3
    if where != "case alone":
        assert ascii(other) in str(notes[0].message)
    long = pd.DataFrame({"choice_set": 1, "item_id": ["plum", other, "fig"], "chosen": [1, 0, 0]})
    with pytest.warns(UserWarning, match=r"'plum' \(1 time\)"):
        read_choices(None, long)
    items = pd.DataFrame({"item_id": ["plum", other, "fig"], "x": [1.0, 2.0, 4.0]})
    with pytest.warns(UserWarning, match=r"'plum' \(2 times\)"):
        read_duels(items, rows)


def test_ids_are_one_with_blanks_around_them_or_without_which_is_said(tmp_path: Path) -> None:
    """Of items in files and frames, judges, and what belongs to a duel."""
    rows = pd.DataFrame(
        {
            "winner": ["plum", "plum ", "fig"],
            "loser": ["fig", "\u00a0fig", "pear "],
            "judge": ["x", "y", "x "],
            "place": ["in", "out", " in"],
        }
    )
    rows.to_csv(tmp_path / "duels.csv", index=False)
    options = {"groups": "judge", "context": ["place"]}
    alike = "has 'plum' and 'plum ', which are taken for one, as are those of 1 other name: blanks"
    for source, name in ((rows, "The duels frame"), (tmp_path / "duels.csv", "duels.csv")):
        with pytest.warns(UserWarning) as notes:
            table = read_duels(None, source, **options)
        said = [str(note.message) for note in notes]
        assert sum(x.startswith(f"{name} {alike}") for x in said) == 1
        assert (
            sum(x.startswith("The column 'judge' has 'x' and 'x ', which are") for x in said) == 1
        )
        # Blanks after the comma of a CSV file separate cells.
        in_context = sum(x.startswith("The context 'place' has 'in' and ' in'") for x in said)
        assert in_context == (source is rows)
        assert len({*table.item}) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = pd.DataFrame({"winner": ["plum ", "fig"], "loser": ["fig", "pear "]})
        assert read_duels(None, alone).item_ids == ("plum", "fig", "pear")


def test_judges_and_people_who_look_alike() -> None:
    rows = DUELS.assign(judge=["ann", "Ann"], who=["bo ", "b o"], count=[3, 1])
    with pytest.warns(UserWarning) as notes:
        read_duels(None, rows, groups="judge", person="who")
    said = [str(note.message) for note in notes]
    assert any("judges (column 'judge') 'ann' (3 times) and 'Ann' (1 time)" in x for x in said)
    more = pd.DataFrame({"winner": ["a", "b", "c"], "loser": ["A", "B", "C"]})
    for rows, words in ((more[:2], "as does 1 other set"), (more, "as do 2 other sets")):
        with pytest.warns(UserWarning, match=f"{words} of names"):
            read_duels(None, rows)
    assert any("people (column 'who') 'bo' (3 times) and 'b o' (1 time)" in x for x in said)


def test_what_is_shown_steers_no_terminal() -> None:
    pytest.importorskip("rich")
    from rich.text import Text

    from sparse_prefgp.analysis.shares import described_table
    from sparse_prefgp.cli.console import Output
    from sparse_prefgp.tell.tables import Column, Table, facts_table

    bad = "a\x1b]0;title\x07b\x9b31m\u202ec"
    console = Output()
    with console.capture() as captured:
        console.print(Text(bad))
        console.print(f"[bold]{bad}[/bold]", bad)
        columns = [Column("a", bad, left=True), Column("b", "x")]
        console.tell(facts_table(bad, [(bad, bad)]), Table("t", bad, columns, [{"a": bad, "b": 1}]))
    assert not set(captured.get()) & set("\x1b\x07\x9b\u202e") and "\\x1b" in captured.get()
    frame = pd.DataFrame({"choice_set": [1, 1], "price": [3.5, None], "size": ["L", None]})
    shown = described_table("sets", frame, []).rows
    assert [*shown[0].values()] == ["1", "3.5", "L"] and [*shown[1].values()] == ["1", "none", ""]
    with pytest.raises(ValueError, match="name with a control character") as error:
        read_duels(None, DUELS.assign(**{bad: 1}))
    assert not CONTROL.search(str(error.value))
    assert escaped("two\nlines\t.") == "two\nlines\t."
