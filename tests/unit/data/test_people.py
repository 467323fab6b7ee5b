"""Duels of several people."""

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.people import PeopleFeatures

ITEMS = np.array([[0.0], [1.0], [3.0]])
WON, LOST, WHO = [0, 0, 0, 2, 2], [1, 1, 1, 1, 1], ["b", "a", "b", "a", "c"]


def test_equal_duels_of_two_people_stay_two():
    duels = spg.Duels(ITEMS, WON, LOST, people=WHO)
    assert duels.people_names == ("b", "a", "c")
    np.testing.assert_array_equal(duels.people, [0, 1, 1, 2])
    np.testing.assert_array_equal(duels.counts, [2, 1, 1, 1])
    assert ("people", "3") in duels.summary().rows()
    alone = spg.Duels(ITEMS, WON, LOST)
    assert alone.people is None and alone.people_names is None and alone.people_features is None
    numbered = spg.Duels(ITEMS, np.array(WON), np.array(LOST), people=[3.0, 1.0, 3.0, 1.0, 4.0])
    assert numbered.people_names == (3, 1, 4)


@pytest.mark.parametrize(
    "given",
    [
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        {"c": [5.0, 6.0], "nobody": [0.0, 0.0], "a": [3.0, 4.0], "b": [1.0, 2.0]},
        PeopleFeatures(("a", "b", "c"), np.array([[3.0, 4.0], [1.0, 2.0], [5.0, 6.0]]), ("x", "y")),
    ],
)
def test_features_of_people(given):
    duels = spg.Duels(ITEMS, WON, LOST, people=WHO, people_features=given)
    np.testing.assert_array_equal(duels.people_features.of(["c", "b"]), [[5.0, 6.0], [1.0, 2.0]])
    some = duels.one_by_one(False).standardised([2, 3])
    assert some.people_names == ("a", "c")
    np.testing.assert_array_equal(some.people_features.of(["c"]), [[5.0, 6.0]])


@pytest.mark.parametrize(
    ("people", "features", "words"),
    [
        (WHO[:4], None, "people has shape"),
        ([*WHO[:4], None], None, "The person of duel 4 is None"),
        ([1, 2, 3, 4, 0.5], None, "person of duel 4 is 0.5"),
        (WHO, [[1.0], [2.0]], "shape .2, 1.; give .3, S."),
        (WHO, [["x"], ["y"], ["z"]], "give numbers, of people"),
        (WHO, [[1.0], [np.nan], [2.0]], r"nan at 1, 0"),
        (WHO, {"a": [1.0], "b": [2.0]}, "The person 'c' has no features"),
        (None, [[1.0]], "name the person of each"),
    ],
)
def test_people_that_make_no_sense(people, features, words):
    with pytest.raises(ValueError, match=words):
        spg.Duels(ITEMS, WON, LOST, people=people, people_features=features)


def test_saved_and_read_again(tmp_path):
    duels = spg.Duels(ITEMS, WON, LOST, people=WHO, people_features=[[0.1], [0.2], [1.0 / 3.0]])
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model").duels
    assert again.people_names == duels.people_names
    np.testing.assert_array_equal(again.people, duels.people)
    np.testing.assert_array_equal(again.people_features.values, duels.people_features.values)
    assert again.people_features.transform is None
