"""Which pairs are asked next: those alone that somebody may still be asked."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sparse_prefgp as spg
from sparse_prefgp.ask.queue import QUEUE, Left, next_pairs, queued
from sparse_prefgp.ask.refitting import Learner
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import Answer, VoteStore
from tests.reference.slow_queue import slow_left

NAMES = [f"item {i}" for i in range(8)]
PAIRS = [*combinations(NAMES, 2)]


@given(
    answers=st.lists(st.tuples(*[st.sampled_from("xyz")] * 2, st.sampled_from("ABC")), max_size=15),
    invited=st.sets(st.sampled_from("ABCD")),
)
def test_who_may_still_be_asked(answers: list[tuple[str, str, str]], invited: set[str]) -> None:
    left = Left(pd.DataFrame(answers, columns=["left", "right", "judge"]), invited)
    pairs = [(a, b) for a in "xyz" for b in "xyz"]
    expected = [slow_left(answers, invited, pair) for pair in pairs]
    assert left.of(*zip(*pairs, strict=True)).tolist() == expected  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    """Items of which the first are far ahead of the others, and alike."""
    rng = np.random.default_rng(0)
    truth = np.array([2.0] * 5 + [-2.0] * 3)
    sides = np.array([rng.choice(8, 2, replace=False) for _ in range(200)])
    ahead = truth[sides[:, 0]] - truth[sides[:, 1]] + rng.normal(size=len(sides)) > 0.0
    ordered = np.where(ahead[:, None], sides, sides[:, ::-1])
    duels = pd.DataFrame(np.array(NAMES)[ordered], columns=["winner", "loser"])
    items = pd.DataFrame({"item_id": NAMES})
    return spg.PreferenceGP(spg.read_duels(items, duels), spg.ItemEffect(variance=2.0))


def asked_of(*people: str, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    rows = [(*pair, person) for pair in pairs for person in people]
    return pd.DataFrame(rows, columns=["left", "right", "judge"])


@pytest.mark.parametrize("score", ["settle", "bald", "thompson"])
def test_pairs_that_all_have_answered_are_not_asked(model: spg.PreferenceGP, score: str) -> None:
    def found(left: Left | None) -> list[tuple[str, str]]:
        pairs = next_pairs(model, score, 3, 0.5, left, np.random.default_rng(0))
        return [(min(pair), max(pair)) for pair in pairs]

    met = PAIRS[::2]
    alone = found(Left(asked_of("A", pairs=met)))
    # Nobody is asked a pair twice, so that it stands in the queue once.
    assert alone and not {*alone} & {*met} and len({*alone}) == len(alone)
    assert {*found(None)} & {*met}
    two = Left(pd.concat([asked_of("A", "B", pairs=met), asked_of("B", pairs=PAIRS[1:2])]))
    assert not {*found(two)} & {*met}
    assert {*found(Left(asked_of("A", pairs=met), {"A", "C"}))} & {*met}
    assert found(Left(asked_of("A", pairs=PAIRS))) == []


@pytest.mark.parametrize("score", ["settle", "bald"])
def test_uneven_pairs_alone_are_chosen_from(model: spg.PreferenceGP, score: str) -> None:
    """Most pairs that tell much are nearly even: fifty of them would leave none."""
    pairs = next_pairs(model, score, 3, 0.8, None, np.random.default_rng(0))
    assert pairs
    found = spg.predict(model, pd.DataFrame(pairs, columns=["first", "second"]))
    won = found["probability"].to_numpy()
    assert (np.maximum(won, 1.0 - won) >= 0.8).all()
    assert all(len({*pair} & {*NAMES[:5]}) == 1 for pair in pairs)


@pytest.mark.slow
def test_a_lone_judge_is_asked_what_is_new(tmp_path: Path) -> None:
    """Pairs that were skipped, or answered about in the other order, are none."""
    store = VoteStore(tmp_path / "votes")
    verdicts = ["left", "right", "skip"]
    answers = [
        Answer(f"{i:032x}", "Ann", *PAIRS[i][:: 1 if i % 2 else -1], verdicts[i % 3], "then")
        for i in range(22)
    ]
    store.keep(answers)
    items = pd.DataFrame({"item_id": NAMES})
    learner = Learner(store.path, items, PageSettings(top=2))
    pairs = {(min(pair), max(pair)) for pair in learner.learn().pairs}
    assert pairs and pairs <= {*PAIRS[22:]}
    learner.settings = PageSettings(top=2, repeat=True)
    assert {(min(pair), max(pair)) for pair in learner.learn().pairs} & {*PAIRS[:22]}


@given(
    scores=hnp.arrays(float, st.integers(1, 60), elements=st.floats(0.0, 5.0)),
    number=st.integers(1, 60),
    most=st.integers(1, 3),
)
def test_pairs_are_queued_as_often_as_they_score(
    scores: np.ndarray, number: int, most: int
) -> None:
    rows = queued(scores, number)
    times = np.bincount(rows, minlength=len(scores))
    assert len(rows) <= number and (np.diff(rows) >= 0).all()
    if scores.sum() > 0.0:
        assert (times <= np.ceil(number * (scores / scores.sum()))).all()
        assert len(rows) == number
    one_in_doubt = queued(np.array([1.0, 0.0, 0.0]), number)
    assert (one_in_doubt == 0).all()
    assert set(queued(np.array([1.0, -0.5]), number)) == {0}
    few = queued(scores, number, np.full(len(scores), most))
    assert np.bincount(few).max(initial=0) <= most and set(rows) <= set(few)
    assert QUEUE == 50
