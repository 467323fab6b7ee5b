"""Duels: merging, validation and the summary."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparse_prefgp.data.duels import Duels

ROOT = Path(__file__).resolve().parents[3]
X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])


def one_sentence(error):
    """The message of an error, after checking that it is one sentence."""
    message = str(error.value)
    assert message.endswith(".") and not re.search(r"\.\s+[A-Z]|\n", message), message
    return message


def test_arrays_are_read_only_copies():
    items, winners = X.copy(), np.array([0, 1])
    duels = Duels(items, winners, [1, 2])
    items[0, 0], winners[0] = 99.0, 3
    assert duels.items[0, 0] == 0.0 and duels.winners[0] == 0
    for array in (duels.items, duels.winners, duels.losers, duels.counts):
        with pytest.raises(ValueError):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        duels.items = X
    assert duels.items.dtype == np.float64
    assert duels.winners.dtype == duels.losers.dtype == duels.counts.dtype == np.int64


def test_repeated_ordered_pairs_are_merged_in_order_of_first_appearance():
    duels = Duels(X, [3, 0, 3, 1, 0], [2, 1, 2, 0, 1], counts=[1, 2, 3, 4, 5])
    assert duels.winners.tolist() == [3, 0, 1]
    assert duels.losers.tolist() == [2, 1, 0]
    assert duels.counts.tolist() == [4, 7, 4]
    assert (duels.num_items, duels.num_features) == (4, 2)
    assert (duels.num_pairs, duels.num_duels) == (3, 15)
    np.testing.assert_array_equal(duels.differences()[0], [2.0, 2.0])


def test_from_pairs_makes_equal_rows_one_item():
    won = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]])
    lost = np.array([[2.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    duels = Duels.from_pairs(won, lost)
    np.testing.assert_array_equal(duels.items, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert duels.winners.tolist() == [0, 1] and duels.losers.tolist() == [1, 2]
    assert duels.counts.tolist() == [2, 1]


def test_winners_by_id():
    duels = Duels(X, ["b", "c"], ["a", "a"], item_ids=["a", "b", "c", "d"])
    assert duels.winners.tolist() == [1, 2] and duels.losers.tolist() == [0, 0]
    # Integers are always indices.
    assert Duels(X, [1], [0], item_ids=["a", "b", "c", "d"]).winners.tolist() == [1]
    assert Duels(X, [1], [0], item_ids=range(4)).winners.tolist() == [1]


def test_equal_features_stay_separate_items():
    duels = Duels(np.ones((3, 1)), [0], [1])
    assert duels.num_items == 3
    text = str(duels.summary())
    assert "equal features" in text and duels.summary().equal_feature_duels == 1


def test_one_duel_of_two_items_works():
    assert Duels([[0.0], [1.0]], [0], [1]).num_duels == 1


def test_distinct_rows_of_the_items_that_were_compared():
    items = np.array([[2.0, 1.0], [0.0, 5.0], [-0.0, 5.0], [9.0, 9.0], [0.0, 4.0]])
    duels = Duels(items, [0, 4], [1, 2])
    rows, row_of_item = duels.distinct_rows()
    np.testing.assert_array_equal(rows, [[0.0, 4.0], [0.0, 5.0], [2.0, 1.0]])
    assert row_of_item.tolist() == [2, 1, 1, -1, 0]
    rows, row_of_item = duels.distinct_rows(numbered=True)
    np.testing.assert_array_equal(rows[:, -1], [4, 1, 2, 0])
    assert row_of_item.tolist() == [3, 1, 2, -1, 0]
    compared = row_of_item >= 0
    np.testing.assert_array_equal(rows[row_of_item[compared], :2], items[compared])


def test_summary_counts():
    items = np.array([[0.0], [1.0], [2.0], [3.0], [0.0], [5.0], [6.0]])
    duels = Duels(items, [0, 1, 0, 2, 0], [1, 0, 1, 3, 4])
    summary = duels.summary()
    assert summary.num_duels == 5
    assert summary.ordered_pairs == 4
    assert summary.unordered_pairs == 3
    assert summary.contradicted_pairs == 1
    assert summary.equal_feature_duels == 1
    assert summary.items_never_compared == 2
    assert summary.components == 2  # {0, 1, 4} and {2, 3}
    assert "features compare their items" in str(summary)
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.num_items = 3


BAD = [
    (dict(items=[1.0, 2.0]), ["items", "(2,)"]),
    (dict(items=np.empty((0, 2))), ["items", "(0, 2)"]),
    (dict(items=[[1.0, "x"], [1.0, 2.0]]), ["'x'", "row 0", "column 1"]),
    (dict(items=[[1.0, 2.0], [1.0]]), ["items", "unequal length"]),
    (dict(items=[[1.0, 2j]]), ["items", "row 0", "number"]),
    (dict(items=[[1.0, 2.0], [np.nan, 1.0]]), ["nan", "row 1", "column 0", "imputation"]),
    (dict(items=[[1.0, np.inf], [1.0, 1.0]], feature_names=["a", "b"]), ["inf", "row 0", "'b'"]),
    (dict(winners=[0, 1]), ["losers has shape (1,)", "give (2,)"]),
    (dict(winners=[], losers=[]), ["winners has shape (0,)"]),
    (dict(winners=[[0]], losers=[1]), ["winners", "(1, 1)"]),
    (dict(winners=[0.0]), ["winners", "0.0", "integers"]),
    (dict(losers=[True]), ["losers", "True"]),
    (dict(winners=[4]), ["winners has 4", "duel 0", "0 to 3"]),
    (dict(losers=[-1]), ["losers has -1", "duel 0"]),
    (dict(winners=["a"]), ["'a'", "item_ids"]),
    (dict(winners=["z"], item_ids=list("abcd")), ["'z'", "duel 0"]),
    (dict(winners=[2, 1], losers=[3, 1]), ["Duel 1", "1", "itself"]),
    (dict(counts=[0]), ["counts has 0", "duel 0"]),
    (dict(counts=[1.5]), ["counts has 1.5", "duel 0"]),
    (dict(counts=[np.nan]), ["counts has nan"]),
    (dict(counts=[1, 2]), ["counts", "(2,)"]),
    (dict(counts=[1e19]), ["counts has 1e+19", "duel 0", "2**53"]),
    (dict(counts=[10**400]), ["counts", "duel 0", "2**53"]),
    (dict(counts=[-(10**400)]), ["counts", "duel 0", "from 1 to"]),
    (dict(winners=[0, 0], losers=[1, 2], counts=[2**62] * 2), ["duel 0", "2**53"]),
    (dict(winners=[0, 0], losers=[1, 2], counts=[2**53, 1]), ["up to duel 1", "2**53"]),
    (dict(items=[[10**400], [1]]), ["row 0", "column 0", "double precision"]),
    (dict(winners=np.array([10**30], dtype=object)), ["winners", "duel 0", "row indices"]),
    (dict(winners=[[0], [1, 2]]), ["winners", "unequal length"]),
    (dict(item_ids=[["a"], ["b"], ["c"], ["d"]]), ["['a']", "row 0", "list"]),
    (dict(item_ids=3), ["item_ids", "int"]),
    (dict(item_ids=[1, 0, 5, 7]), ["row indices", "winners", "text", "without item_ids"]),
    (dict(counts=["x"]), ["counts", "x"]),
    (dict(item_ids=["a"]), ["item_ids has 1", "4 items"]),
    (dict(item_ids=["a", "a", "b", "c"]), ["'a'", "more than once"]),
    (dict(feature_names=["a"]), ["feature_names has 1", "2 columns"]),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_input_is_one_sentence(change, words):
    with pytest.raises(ValueError) as error:
        Duels(**{"items": X, "winners": [0], "losers": [1], **change})
    message = one_sentence(error)
    for word in words:
        assert word in message


def test_the_largest_counts():
    assert Duels(X, [0, 0], [1, 2], counts=[2**53 - 1, 1]).num_duels == 2**53


def test_one_item_is_refused():
    with pytest.raises(ValueError, match="winners has shape"):
        Duels([[1.0]], [], [])
    with pytest.raises(ValueError, match="itself"):
        Duels([[1.0]], [0], [0])


def test_bad_pairs():
    with pytest.raises(ValueError, match="Row 1 of X_winner equals") as error:
        Duels.from_pairs([[1.0], [2.0]], [[0.0], [2.0]])
    one_sentence(error)
    with pytest.raises(ValueError, match=r"give \(2, 1\), as X_winner") as error:
        Duels.from_pairs([[1.0], [2.0]], [[0.0]])
    one_sentence(error)
    with pytest.raises(ValueError, match="X_winner has shape"):
        Duels.from_pairs(np.empty((0, 2)), np.empty((0, 2)))
    with pytest.raises(ValueError, match="X_loser has nan in row 0"):
        Duels.from_pairs([[1.0]], [[np.nan]])


@pytest.mark.parametrize(
    "module", ["data.duels", "io", "data.splits", "analysis.metrics", "analysis.rivals"]
)
def test_modules_need_no_heavy_import(module):
    heavy = "('tensorflow', 'gpflow', 'pandas', 'sklearn', 'pyarrow')"
    code = f"import sys, sparse_prefgp.{module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
