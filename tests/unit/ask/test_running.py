"""A page from its start to its end, without a browser."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from sparse_prefgp.ask.results import Results
from sparse_prefgp.ask.running import Collected, Links, listening_at, serve
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import VoteStore
from sparse_prefgp.ask.things import demo_things
from tests.asking_page import learns_nothing

pytest.importorskip("uvicorn", reason="the extra ask is not installed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_it_can_be_ended_from_the_moment_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, times: int
) -> None:
    monkeypatch.setattr(Results, "learn", learns_nothing)
    before = signal.getsignal(number)

    def began(links: Links) -> None:
        for _ in range(times):
            signal.raise_signal(number)

    with (
        closing(listening_at("127.0.0.1", 0)) as listening,
        closing(VoteStore(tmp_path / "votes")) as store,
    ):
        collected = serve(
            store, demo_things(), PageSettings(), listening=listening, host="x", began=began
        )
    assert collected == Collected(answers=0, people=0)
    assert signal.getsignal(number) is before
