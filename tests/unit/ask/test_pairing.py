"""Which pair a person gets: never one twice, every item as often as every other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparse_prefgp as spg
from sparse_prefgp.ask.pairing import Pair, Pairing, Uneven
from tests.reference.slow_uneven import slow_uneven


def after_the_first_round(number: int, rng: np.random.Generator, explore: float = 0.1) -> Pairing:
    """Others were shown every item twice."""
    pairing = Pairing(number, rng, explore)
    for i in range(number):
        pairing.count("others", Pair(i, (i + 1) % number))
    return pairing


def test_the_first_round_leaves_out_no_pair() -> None:
    pairing = Pairing(3, np.random.default_rng(0))
    pairing.refill([], Uneven(np.zeros(3), np.ones(3), 1.0, 0.9))
    for _ in range(3):
        pair = pairing.next("a")
        assert pair is not None
        pairing.count("a", pair)
    assert pairing.next("b") is None


@given(number=st.integers(2, 12), share=st.floats(0.05, 1.0), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_first_round_is_balanced(number: int, share: float, seed: int) -> None:
    possible = number * (number - 1) // 2
    pairs = max(1, round(share * possible))
    items = pd.DataFrame({"item_id": range(number)})
    frame = spg.first_round(items, pairs, np.random.default_rng(seed)).frame
    assert len({frozenset(pair) for pair in frame.itertuples(index=False)}) == pairs
    shown = Counter(frame[["first", "second"]].to_numpy().ravel().tolist())
    counts = [shown[i] for i in range(number)]
    # The last ones may have met all that were shown less often.
    assert max(counts) - min(counts) <= 2


def test_a_first_round_has_no_more_pairs_than_there_are() -> None:
    items = pd.DataFrame({"item_id": ["a", "b", "c"]})
    assert len(spg.first_round(items).frame) == 3
    with pytest.raises(ValueError, match="3 items make 3"):
        spg.first_round(items, 4)
    with pytest.raises(ValueError, match="one item"):
        spg.first_round(items.head(1))


@given(number=st.integers(2, 7), explore=st.floats(0.0, 1.0), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_nobody_gets_a_pair_twice(number: int, explore: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairing = Pairing(number, rng, explore)
    possible = {(i, j) for j in range(number) for i in range(j)}
    for person in ("a", "b"):
        met = []
        while (pair := pairing.next(person)) is not None:
            met.append(pair.unordered)
            pairing.count(person, pair)
            drawn = rng.choice(number, (5, 2))
            pairing.refill((int(i), int(j)) for i, j in drawn if i != j)
        assert sorted(met) == sorted(possible)


@pytest.mark.parametrize("known", [True, False])
def test_random_pairs_that_are_nearly_even_are_not_asked(known: bool) -> None:
    mean = np.array([0.0, 0.1, 1.0, np.nan])
    pairing = after_the_first_round(4, np.random.default_rng(0))
    pairing.refill([], Uneven(mean, np.full(4, 0.5), 1.0, 0.6) if known else None)
    asked = set()
    while (pair := pairing.next("a")) is not None:
        pairing.count("a", pair)
        asked.add(pair.unordered)
    # P = ndtr(0.1 / sqrt(2)) = 0.53 and ndtr(0.9 / sqrt(2)) = 0.74; of the last nothing is known.
    assert len(asked) == (5 if known else 6) and ((0, 1) in asked) is not known


@given(number=st.integers(2, 9), least=st.floats(0.51, 0.95), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_all_uneven_pairs_are_asked_and_no_other(number: int, least: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean = np.where(rng.random(number) < 0.2, np.nan, rng.normal(size=number))
    variance = rng.exponential(size=number)
    uneven = Uneven(mean, variance, 0.5, least)
    expected = slow_uneven(mean, variance, 0.5, least)
    assert uneven.numbers.tolist() == [sum(i in pair for pair in expected) for i in range(number)]
    pairing = after_the_first_round(number, rng, explore=1.0)
    pairing.refill([], uneven)
    asked = set()
    while (pair := pairing.next("a")) is not None:
        pairing.count("a", pair)
        assert pair.unordered not in asked
        asked.add(pair.unordered)
    assert asked == expected
    assert pairing.has_met_all("a") == (len(expected) == number * (number - 1) // 2)


def test_where_no_pair_is_uneven_none_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    uneven = Uneven(np.zeros(3000), np.ones(3000), 1.0, 0.55)
    monkeypatch.setattr(Uneven, "others", None)  # would raise
    pairing = after_the_first_round(3000, np.random.default_rng(0), explore=0.0)
    pairing.refill([(1, 2)], uneven)
    first = pairing.next("a")
    assert first is not None and first.unordered == (1, 2)
    pairing.count("a", first)
    assert pairing.next("a") is None and not pairing.has_met_all("a")


def test_the_queue_comes_in_its_order_once_every_item_was_shown() -> None:
    pairing = Pairing(4, np.random.default_rng(0), explore=0.0)
    pairing.refill([(0, 1), (2, 3)])
    first = []
    while len(first) < 4:
        pair = pairing.next("a")
        assert pair is not None
        pairing.count("a", pair)
        first.append(pair.unordered)
    assert Counter(np.ravel(first).tolist()) == dict.fromkeys(range(4), 2)
    left = [(j, i) for j in range(4) for i in range(j) if (i, j) not in first]
    pairing.refill(left)
    assert pairing.next("a").unordered == tuple(sorted(left[0]))  # type: ignore[union-attr]


def test_an_answer_that_was_taken_back_may_be_asked_again() -> None:
    pairing = Pairing(2, np.random.default_rng(0))
    pair = pairing.next("a")
    assert pair is not None
    pairing.count("a", pair)
    assert pairing.next("a") is None
    pairing.uncount("a", pair)
    assert pairing.next("a") is not None


def test_sides_are_drawn() -> None:
    pairing = Pairing(2, np.random.default_rng(0), repeat=True)
    lefts = []
    for _ in range(200):
        pair = pairing.next("a")
        assert pair is not None
        pairing.count("a", pair)
        lefts.append(pair.left)
    assert 70 < sum(lefts) < 130
