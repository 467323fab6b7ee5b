"""Columns of grades: read, from tables and streams, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import sparse_prefgp as spg  # noqa: E402
from sparse_prefgp.io import read_duels  # noqa: E402
from sparse_prefgp.io.values import grades_of, levels_of  # noqa: E402
from tests.together import refused  # noqa: E402

WORDS = "much worse,worse,tie,better,much better"
ITEMS = pd.DataFrame({"item_id": list("abcd"), "x": [0.0, 1.0, 2.0, 4.0]})
DUELS = pd.DataFrame(
    {
        "winner": ["a", "b", "c", "d"],
        "loser": ["b", "c", "d", "a"],
        "said": ["better", "much worse", "tie", "much better"],
        "number": [1, -2, 0, 2],
        "stars": [4, 1, 3, 5],
    }
)


@pytest.mark.parametrize(
    ("column", "levels"),
    [("said", WORDS), ("number", None), ("number", "-2,-1,0,1,2"), ("stars", "1,2,3,4,5")],
)
def test_words_and_numbers_say_the_same(column, levels):
    duels = spg.read_duels(ITEMS, DUELS, grade=column, grades=levels)
    np.testing.assert_array_equal(duels.grades, [1, 2, 0, 2])
    names = [duels.item_ids[i] for i in duels.winners]
    assert names[:2] == ["a", "c"] and names[3] == "d"  # the better one
    assert len(duels.levels) == 5


def test_a_context_stays_with_its_side():
    table = DUELS.assign(winner_home=[1, 1, 0, 0], loser_home=[0, 0, 1, 1])
    read = read_duels(ITEMS, table, grade="number", context=["home"])
    duels = read.standardised()
    assert duels.item_ids[duels.winners[1]] == "c @ home=0"
    assert duels.item_ids[duels.losers[1]] == "b @ home=1"


def test_grades_as_plain_wins():
    plain = read_duels(ITEMS, DUELS, grade="number").given.without_grades()
    assert plain.answer is None and plain.ties.sum() == 1
    np.testing.assert_array_equal(plain.pairs[:2, 0], [0, 2])


def test_levels_without_ties():
    numbers, names = grades_of(["--", "+"], "said", str, levels_of("--,-,+,++"))
    assert numbers.tolist() == [-2, 1] and len(names) == 4


def test_streams_of_grades(tmp_path):
    pytest.importorskip("pyarrow")
    DUELS.to_parquet(tmp_path / "duels.parquet")
    whole = spg.read_duels(ITEMS, DUELS, grade="said", grades=WORDS)
    stream = spg.stream_duels(tmp_path / "duels.parquet", ITEMS, grade="said", grades=WORDS)
    assert stream.levels == whole.levels and stream.num_ties == 1
    np.testing.assert_array_equal(stream.grade_counts, whole.grade_counts)
    (chunk,) = stream.chunks(100)
    events = chunk.given.in_order()
    np.testing.assert_array_equal(events.answer.numbers, whole.grades)
    np.testing.assert_array_equal(events.pairs, whole.events.pairs)
    with refused("grade", "no_levels"):
        spg.stream_duels(tmp_path / "duels.parquet", ITEMS, grade="said")
    with pytest.raises(ValueError, match="column of grades is 'how'"):
        spg.stream_duels(tmp_path / "duels.parquet", ITEMS, grade="how", grades=WORDS)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ("better", "two or more"),
        ("worse,better,Better", "are one"),
        ("much-better,much better", "are one"),
        ("-1,0,1,2", "not symmetric"),
        ("2,1,0", "not symmetric"),
        ("a,,b", "two or more"),
    ],
)
def test_bad_levels_are_refused(levels, words):
    if levels == "much-better,much better":
        levels = "much_better,much better"
    with pytest.raises(ValueError, match=words):
        levels_of(levels)


@pytest.mark.parametrize(
    ("cells", "levels", "words"),
    [
        (["better", "Better"], WORDS, r"has 'Better' in row 1.*written alike"),
        (["better", "best"], WORDS, r"has 'best' in row 1.*give one of"),
        (["better", None], WORDS, "has a missing value in row 1"),
        (["better"], None, "name the levels"),
        ([1, 0.5], None, "'0.5' in row 1; give whole numbers"),
        ([0, 0], None, "are 0, ties"),
    ],
)
def test_bad_cells_are_refused(cells, levels, words):
    names = None if levels is None else levels_of(levels)
    with pytest.raises(ValueError, match=words):
        grades_of(cells, "said", lambda i: f"row {i}", names)


def test_what_does_not_go_together_is_refused():
    with refused("levels_of_grades", "no_grade"):
        spg.read_duels(ITEMS, DUELS, grades=WORDS)
    with refused("grade", "said_by_grades"):
        spg.read_duels(ITEMS, DUELS.assign(tie=0), grade="number")
    with refused("grade", "said_by_grades"):
        ties = pd.DataFrame({"item_a": ["a"], "item_b": ["b"]})
        spg.read_duels(ITEMS, DUELS, ties=ties, grade="number")
    with pytest.raises(ValueError, match="has no column 'how'"):
        spg.read_duels(ITEMS, DUELS, grade="how")
