"""Contradictions and cycles."""

import itertools
import json

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.consistency import consistency
from sparse_prefgp.io import read_duels
from tests.cases import random_duels


def by_hand(duels):
    n = duels.num_items
    won = np.zeros((n, n), dtype=int)
    np.add.at(won, (duels.winners, duels.losers), duels.counts)
    better = won > won.T
    found = {"contradicted_pairs": 0, "minority_votes": 0, "tied_pairs": 0, "cycles": 0}
    found |= {"triples": 0, "decided_triples": 0, "pairs": 0}
    for i, j in itertools.combinations(range(n), 2):
        compared = won[i, j] + won[j, i] > 0
        found["pairs"] += compared
        found["contradicted_pairs"] += won[i, j] > 0 and won[j, i] > 0
        found["minority_votes"] += min(won[i, j], won[j, i])
        found["tied_pairs"] += compared and won[i, j] == won[j, i]
    for i, j, k in itertools.combinations(range(n), 3):
        sides = [(i, j), (j, k), (k, i)]
        found["triples"] += all(won[a, b] + won[b, a] > 0 for a, b in sides)
        found["decided_triples"] += all(better[a, b] or better[b, a] for a, b in sides)
        found["cycles"] += all(better[a, b] for a, b in sides)
        found["cycles"] += all(better[b, a] for a, b in sides)
    return found, won


@pytest.mark.parametrize(("seed", "items", "number"), [(0, 9, 16), (1, 12, 300), (2, 30, 120)])
def test_counts_agree_with_counting_by_hand(seed, items, number):
    duels = random_duels(seed, items=items, duels=number)
    found = consistency(duels)
    expected, won = by_hand(duels)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.votes == number
    if found.decided_triples:
        assert found.share_intransitive == found.cycles / found.decided_triples
    assert len(found.worst) == min(found.cycles, 5)
    weakest = []
    for cycle in found.worst:
        steps = zip(cycle.items, np.roll(cycle.items, -1), strict=True)
        assert cycle.margins == tuple(won[a, b] - won[b, a] for a, b in steps)
        weakest.append(min(cycle.margins))
    assert weakest == sorted(weakest, reverse=True)


def test_the_worst_cycle_is_named():
    ids = ["stone", "scissors", "paper", "well", "leaf"]
    edges = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0), (1, 4)]
    counts = [3, 4, 3, 1, 1, 1, 9]
    winners, losers = ([ids[i] for i in side] for side in zip(*edges, strict=True))
    duels = spg.Duels(np.arange(5.0)[:, None], winners, losers, counts, item_ids=ids)
    found = consistency(duels)
    assert found.cycles == 3
    assert str(found.worst[0]) == ("scissors > paper > stone > scissors (by 4, 3, 3 votes)")
    assert str(found.worst[1]).startswith("scissors > leaf > stone") and "stone > scissors" in str(
        found
    )
    assert json.loads(json.dumps(found.to_dict()))["worst"][0]["margins"] == [4, 3, 3]


def test_a_hub_and_many_items():
    n = 20_000
    x = np.arange(n, dtype=float)[:, None]
    # One item against all others, half of which it beats, and one cycle among them.
    spokes = np.arange(1, n)
    ends = np.stack([np.zeros(n - 1, dtype=int), spokes])
    ends[:, spokes % 2 == 0] = ends[::-1, spokes % 2 == 0]
    winners, losers = np.append(ends[0], 1), np.append(ends[1], 2)
    found = consistency(spg.Duels(x, winners, losers))
    assert (found.triples, found.cycles, found.pairs) == (1, 1, n)
    assert sorted(found.worst[0].items) == [0, 1, 2]


def test_nothing_to_count_triples_in():
    found = consistency(spg.Duels([[0.0], [1.0]], [0], [1]))
    assert np.isnan(found.share_intransitive) and found.to_dict()["share_intransitive"] is None


def test_convincing_arguments(data_dir):
    folder = data_dir / "ukp_convincing"
    found = consistency(
        read_duels(folder / "items.csv.gz", folder / "duels.csv.gz", ignore=["source_id", "debate"])
    )
    assert found.votes == 65_340 and found.pairs == 16_800
    assert found.triples == 173_592 and found.cycles == 5_415
