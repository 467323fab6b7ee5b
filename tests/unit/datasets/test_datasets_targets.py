"""Duels drawn from targets: which pairs, who wins, how likely."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.datasets import duels_from_targets, item_parts
from tests.tolerances import MONTE_CARLO_STANDARD_ERRORS, ROUNDING

pytestmark = pytest.mark.data

TARGET = np.array([3.0, 1.0, 2.0, 2.0, 5.0, 9.0, 1.0])
FEATURES = np.arange(14.0).reshape(7, 2)


def rng(seed=0):
    return np.random.default_rng(seed)


def allowed(target, rows, limit):
    """All unordered pairs that may be drawn, by two loops."""
    spread = target.std()
    return {
        (int(min(i, j)), int(max(i, j)))
        for i in rows
        for j in rows
        if 0 < abs(target[i] - target[j]) <= limit * spread
    }


@pytest.mark.parametrize("limit", [np.inf, 0.5, 0.4])
def test_pairs_are_drawn_uniformly_from_the_allowed_ones(limit):
    count = 20_000
    made = duels_from_targets((FEATURES, TARGET), rng(), duels=count, closer_than=limit)
    pairs = np.sort(made.duels[["winner", "loser"]].to_numpy(), axis=1)
    found, times = np.unique(pairs, axis=0, return_counts=True)
    wanted = allowed(TARGET, range(7), limit)
    assert set(map(tuple, found.tolist())) == wanted
    share = 1 / len(wanted)
    error = np.sqrt(count * share * (1 - share))
    assert np.abs(times - count * share).max() < MONTE_CARLO_STANDARD_ERRORS * error


@pytest.mark.parametrize("limit", [np.inf, 0.5])
def test_each_item_meets_its_opponents_uniformly(limit):
    each = 4_000
    made = duels_from_targets((FEATURES, TARGET), rng(), per_item=each, closer_than=limit)
    pairs = np.sort(made.duels[["winner", "loser"]].to_numpy(), axis=1)
    wanted = allowed(TARGET, range(7), limit)
    opponents = {i: [j for j in range(7) if (min(i, j), max(i, j)) in wanted] for i in range(7)}
    alone = sum(not found for found in opponents.values())
    assert made.never_drawn == alone
    assert len(pairs) == each * (7 - alone)
    for pair in wanted:
        # A pair is drawn by either of its items.
        chances = [1 / len(opponents[i]) for i in pair]
        error = np.sqrt(each * sum(p * (1 - p) for p in chances))
        times = (pairs == pair).all(axis=1).sum()
        assert abs(times - each * sum(chances)) <= MONTE_CARLO_STANDARD_ERRORS * error
    assert set(map(tuple, pairs.tolist())) == wanted


def test_without_noise_the_larger_target_wins():
    made = duels_from_targets((FEATURES, TARGET), rng(), duels=300)
    assert (TARGET[made.duels["winner"]] > TARGET[made.duels["loser"]]).all()
    assert (made.win_probability == 1).all()
    np.testing.assert_allclose(made.utilities, (TARGET - 23 / 7) / TARGET.std(), rtol=ROUNDING)


def test_noise_gives_the_probability_of_what_happened():
    from math import erf

    noise, count = 0.8, 40_000
    made = duels_from_targets((FEATURES, TARGET), rng(), duels=count, noise=noise)
    u = made.utilities
    better = u[made.duels["winner"]] > u[made.duels["loser"]]
    gap = np.abs(u[made.duels["winner"]] - u[made.duels["loser"]])
    # Phi(gap / (sqrt(2) noise)), with Phi(z) = (1 + erf(z / sqrt 2)) / 2.
    chance = np.array([(1 + erf(g / (2 * noise))) / 2 for g in gap])
    np.testing.assert_allclose(
        made.win_probability, np.where(better, chance, 1 - chance), rtol=1e4 * ROUNDING
    )
    for value in np.unique(chance.round(9)):
        rows = np.isclose(chance, value)
        error = np.sqrt(value * (1 - value) / rows.sum())
        assert abs(better[rows].mean() - value) < MONTE_CARLO_STANDARD_ERRORS * error


def test_pairs_stay_within_their_part():
    rows = item_parts(40, 0.25, rng())
    assert [len(part) for part in rows] == [30, 10]
    assert sorted(np.concatenate(rows)) == list(range(40))
    x = rng(1).normal(size=(40, 3))
    made = duels_from_targets((x, x[:, 0]), rng(2), duels=(60, 20), parts=rows)
    assert np.bincount(made.part).tolist() == [60, 20]
    for number, part in enumerate(rows):
        used = made.duels[made.part == number][["winner", "loser"]].to_numpy()
        assert np.isin(used, part).all()


def test_parts_become_duels_in_the_units_of_the_training_part():
    rows = item_parts(40, 0.5, rng())
    x = rng(1).normal(size=(40, 3)) * 5 + 2
    made = duels_from_targets((x, x[:, 0]), rng(2), per_item=10, parts=rows)
    train, test = made.to_duels(0), made.to_duels(1, standardise_on=0)
    np.testing.assert_allclose(train.items.mean(axis=0), 0, atol=1e3 * ROUNDING)
    assert train.transform == test.transform
    mean, scale = x[rows[0]].mean(axis=0), x[rows[0]].std(axis=0)
    np.testing.assert_allclose(test.items, (x[rows[1]] - mean) / scale, rtol=1e3 * ROUNDING)
    assert list(test.item_ids) == list(rows[1])
    assert made.to_duels().num_items == 40
    with pytest.raises(ValueError, match="Part 2 has no duels; the parts go from 0 to 1"):
        made.to_duels(2)


def test_splits_take_the_table():
    x = rng(1).normal(size=(40, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    made = duels_from_targets((frame, x[:, 0]), rng(2), duels=400)
    table = made.to_duels()
    assert table.raw.numeric == ("a", "b", "c")
    for how in ("duels", "items"):
        split = split_duels(table, how, 0.3, rng())
        assert len(split.train_rows) and len(split.test_rows)
    rows = item_parts(40, 0.5, rng())
    parted = duels_from_targets((frame, x[:, 0]), rng(2), duels=50, parts=rows)
    split = split_duels(parted.to_duels(), "group:part", 0.5, rng())
    assert len(split.train_rows) == len(split.test_rows) == 50


def test_the_same_seed_gives_the_same_duels():
    first, second, other = (
        duels_from_targets((FEATURES, TARGET), rng(seed), duels=30, noise=1).duels
        for seed in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(first, second)
    assert not first.equals(other)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either duels or per_item"),
        ({"duels": 3, "per_item": 3}, "either duels or per_item"),
        ({"duels": 0}, "duels is 0"),
        ({"duels": 2.5}, r"duels is 2\.5"),
        ({"duels": (1, 2)}, r"duels is '?\(1, 2\)'?; .* each of the 1 parts"),
        ({"per_item": 0}, "per_item is 0"),
        ({"per_item": 1.5}, r"per_item is 1\.5; give a whole number"),
        ({"per_item": "2"}, "per_item is '2'"),
        ({"duels": 3, "noise": "x"}, "noise is 'x'"),
        ({"duels": 3, "noise": None}, "noise is None"),
        ({"duels": 3, "closer_than": "near"}, "closer_than is 'near'"),
        ({"duels": 3, "noise": -1}, "noise is -1"),
        ({"duels": 3, "noise": np.nan}, "noise is nan"),
        ({"duels": 3, "closer_than": 0}, "closer_than is 0"),
        ({"duels": 3, "closer_than": 1e-6}, "Part 0 has no pair to draw"),
        ({"duels": 3, "parts": []}, "parts is empty"),
        ({"duels": 3, "parts": [[0, 7]]}, r"Part 0 has '?\[7\]'?; give row numbers from 0 to 6"),
        ({"duels": 3, "parts": [[0, 1], [1, 2]]}, "row 1 is in the parts more than once"),
        ({"duels": 3, "parts": [[0.5, 1]]}, "give row numbers"),
        ({"duels": 3, "parts": [[0, 1], [2, 3]]}, "Part 1 has no pair to draw"),
    ],
)
def test_mistakes(options, words):
    with pytest.raises(ValueError, match=words):
        duels_from_targets((FEATURES, TARGET), rng(), **options)


def test_mistakes_in_the_data():
    with pytest.raises(ValueError, match="All targets are equal"):
        duels_from_targets((FEATURES, np.ones(7)), rng(), duels=3)
    with pytest.raises(ValueError, match="in row 2"):
        duels_from_targets((FEATURES, np.where(np.arange(7) == 2, np.nan, TARGET)), rng(), duels=3)
    with pytest.raises(ValueError, match=r"shape \(3,\) for 7 rows"):
        duels_from_targets((FEATURES, TARGET[:3]), rng(), duels=3)
    with pytest.raises(ValueError, match=r"test fraction is 1\.5"):
        item_parts(9, 1.5, rng())
    with pytest.raises(ValueError, match="fewer than two"):
        item_parts(9, 0.1, rng())
