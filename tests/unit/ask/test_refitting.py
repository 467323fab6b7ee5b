"""What is learned from the answers of a folder."""

from __future__ import annotations

import asyncio
import io
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.suggestion import SCORES
from sparse_prefgp.ask import refitting, results
from sparse_prefgp.ask.queue import QUEUE
from sparse_prefgp.ask.refitting import (
    MODEL,
    Learned,
    Learner,
    people_of,
)
from sparse_prefgp.ask.results import Results
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import Answer, VoteStore
from sparse_prefgp.ask.things import things_of
from sparse_prefgp.cli import ask
from sparse_prefgp.io.votes import FILE, read_votes

NAMES = [f"item {i}" for i in range(6)]


def answers(start: int, count: int, person: str = "Ann") -> list[Answer]:
    """The item of the larger number tends to win."""
    rng = np.random.default_rng(start)
    found = []
    for number in range(start, start + count):
        left, right = rng.choice(6, 2, replace=False)
        ahead = left - right + 2.0 * rng.normal() > 0
        verdict = "left" if ahead else "right"
        found.append(Answer(f"{number:032x}", person, NAMES[left], NAMES[right], verdict, "then"))
    return found


@pytest.fixture
def store(tmp_path: Path) -> VoteStore:
    return VoteStore(tmp_path / "votes")


def learner(store: VoteStore, items: pd.DataFrame, score: str | None = None) -> Learner:
    who = ("Ann", "Bob")  # who has answered nothing yet
    return Learner(store.path, items, PageSettings(score=score, top=2, invited=who))


def test_answers_make_a_ranking_pairs_and_a_model(store: VoteStore) -> None:
    one = learner(store, pd.DataFrame({"item_id": NAMES}))
    store.keep(answers(0, 3))
    assert one.learn() == Learned(3)  # too few
    store.keep(answers(3, 60))
    learned = one.learn()
    assert learned.answers == 63 and not learned.problem
    assert all(set(pair) <= set(NAMES) for pair in learned.pairs)
    assert 0 < len(learned.pairs) <= QUEUE
    assert all(name in learned.html for name in NAMES)
    whole = pd.read_csv(io.BytesIO(learned.csv))
    assert sorted(whole["item_id"]) == NAMES and {"utility", "p_best"} <= set(whole.columns)
    assert learned.picture.lstrip().startswith(b"<?xml")
    assert b"chance of being best" not in learned.picture  # once, in the table
    assert "order mean" not in learned.html and "by luck." in learned.html
    assert "leave out what is not known of these" in learned.html
    assert learned.settled is not None and 0.0 <= learned.settled <= 1.0
    kept = spg.load(store.folder / MODEL)
    assert kept.duels.num_duels == 63

    # More answers join the model, whose parameters stay.
    before = one._model
    store.keep(answers(63, 10))
    assert one.learn().answers == 73
    np.testing.assert_array_equal(
        one._model.kernel.variance.numpy(), before.kernel.variance.numpy()
    )
    # One that was taken back is in no model.
    store.undo(answers(63, 10)[-1].id, "Ann")
    assert one.learn().answers == 72
    assert one._model.duels.num_duels == 72


@pytest.mark.slow
def test_notes_are_shown_the_last_first_and_escaped(store: VoteStore) -> None:
    said = answers(0, 30)
    said[3] = replace(said[3], note="both <b>dull</b>")
    said[20] = replace(said[20], note="blurred", verdict="skip")
    store.keep(said)
    html = learner(store, pd.DataFrame({"item_id": NAMES})).learn().html
    assert "&lt;b&gt;dull" in html and html.index("blurred") < html.index("both ")
    assert len(read_votes(store.path).frame) == 29


@pytest.mark.slow
def test_items_with_features_and_without_answers_are_ranked(store: VoteStore) -> None:
    items = pd.DataFrame(
        {"name": [*NAMES, "new"], "size": range(7), "caption": [f"{i}. it" for i in range(7)]}
    )
    items = things_of(items, None).items
    store.keep(answers(0, 40))
    learned = learner(store, items).learn()
    assert not learned.problem
    assert "new" in learned.html and learned.pairs


@pytest.mark.slow
def test_all_items_are_told_apart_from_the_first_answers_on(store: VoteStore) -> None:
    """By levels that no item has which was asked about so far."""
    items = pd.DataFrame({"name": NAMES, "topic": list("xxxyyy"), "by": list("abcabc")})
    found = things_of(items, None)
    assert found.learned_from == "topic, by"
    store.keep([one for one in answers(0, 60) if {one.left, one.right} <= {*NAMES[:3]}])
    learned = learner(store, found.items).learn()
    assert all(name in learned.html for name in NAMES) and learned.pairs and not learned.problem


@pytest.mark.slow
def test_texts_that_do_not_tell_items_apart_are_left_out(store: VoteStore) -> None:
    found = things_of(
        pd.DataFrame({"name": NAMES, "words": ["a dog", "a cat"] * 3}), None, ["words"]
    )
    store.keep(answers(0, 40))
    one = learner(store, found.items)
    one.settings = replace(one.settings, text=["words"])
    learned = one.learn()
    assert all(name in learned.html for name in NAMES) and learned.pairs


@pytest.mark.slow
def test_the_page_has_the_first_items_and_the_table_all(
    store: VoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refitting, "MOST_SHOWN", 2)
    store.keep(answers(0, 40))
    learned = learner(store, pd.DataFrame({"item_id": NAMES})).learn()
    whole = pd.read_csv(io.BytesIO(learned.csv))["item_id"].tolist()
    assert [name in learned.html for name in whole] == [True] * 2 + [False] * 4
    assert "The first 2 of 6 items" in learned.html


@pytest.mark.slow
def test_what_cannot_be_suggested_is_said(store: VoteStore) -> None:
    store.keep(answers(0, 40))
    learned = learner(store, pd.DataFrame({"item_id": NAMES}), "no score").learn()
    assert "no score" in learned.problem and learned.html and not learned.pairs


def test_people_agree_with_most_others() -> None:
    votes = pd.DataFrame(
        [
            ("x", "y", "left", "Ann"),
            ("y", "x", "right", "Bob"),  # the same
            ("x", "y", "right", "Cid"),
            ("x", "z", "left", "Ann"),  # nobody else
        ],
        columns=["left", "right", "verdict", "judge"],
    )
    rows = {row["person"]: row for row in people_of(votes).rows}
    assert rows["Ann"]["answers"] == 2 and rows["Ann"]["shared"] == 1
    assert rows["Cid"]["agreed"] == 0.0
    # Ann and Cid differ, so that Bob says what is said as often as anything else.
    assert rows["Bob"]["agreed"] == 1.0
    assert FILE == "votes.sqlite"


def test_scores_are_those_of_suggest() -> None:
    assert set(ask.SCORES) == set(SCORES)


def test_one_request_is_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = [], threading.Event()
    taken: list[Learned] = []

    class Slow:
        def __init__(self, _: Learner) -> None:
            pass

        def learned(self) -> Learned:
            asked.append(None)
            go_on.wait()
            if len(asked) > 2:
                raise EOFError
            return Learned(len(asked), html="x")

    monkeypatch.setattr(results, "Refitting", Slow)

    async def run() -> Results:
        one = Results(None, None, lambda: 0, taken.append)  # type: ignore[arg-type]
        learning = asyncio.create_task(one.learn())
        while not asked:
            await asyncio.sleep(0)
        for _ in range(1000):
            one.changed()
        assert len(asked) == 1 and one.is_learning
        go_on.set()
        while len(taken) < 2:  # once for all that came meanwhile
            await asyncio.sleep(0)
        assert len(asked) == 2 and not one.is_learning
        for _ in range(1000):
            one.changed()
        await learning  # until the process ends
        return one

    one = asyncio.run(run())
    assert [learned.answers for learned in taken] == [1, 2]
    assert one._learned.answers == 2 and "has ended" in one._learned.problem
