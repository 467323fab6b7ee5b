"""What is said, and not begun, where learning of names takes more than there is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sparse_prefgp.ask.memory import MANY_NAMES, memory_of, said_of_names
from sparse_prefgp.ask.refitting import Learner
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import Answer, VoteStore
from sparse_prefgp.support import machine


def names(number: int) -> pd.DataFrame:
    return pd.DataFrame({"item_id": [f"item {i}" for i in range(number)]})


def test_many_names_are_said_to_come_late() -> None:
    said = said_of_names(names(10_000))
    assert "10,000 items" in said and "11.9 GiB" in said and "5.6 hours" in said
    assert said_of_names(names(MANY_NAMES)) == ""
    assert said_of_names(names(10_000).assign(size=range(10_000))) == ""


def test_nothing_is_learned_without_the_memory_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, items = VoteStore(tmp_path / "votes"), names(2_000)
    sides = items["item_id"]
    store.keep([Answer(f"{i:032x}", "Ann", sides[i], sides[i + 1], "left", "t") for i in range(9)])
    learner = Learner(store.path, items, PageSettings(top=2))
    monkeypatch.setattr(machine, "free_memory", lambda: memory_of(2_000) - 1)
    monkeypatch.setattr(Learner, "_fitted", lambda self, votes: pytest.fail("it began"))
    with pytest.raises(ValueError, match=r"2,000 items .* GiB .* are free; columns that describe"):
        learner.learn()
    with pytest.raises(pytest.fail.Exception):
        monkeypatch.setattr(machine, "free_memory", lambda: memory_of(2_000))
        learner.learn()
