"""The one scorer: chunks do not matter, and memory and stream agree."""

from __future__ import annotations

from pathlib import Path

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis import scoring
from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.rivals import COIN, KNOWS_NOTHING
from sparse_prefgp.data.answers import TIE, Answers
from sparse_prefgp.models import base
from tests.cases import assert_same_scores
from tests.tolerances import IDENTITY

pytest.importorskip("pandas")

N = 12


def duels_of(seed: int, count: int) -> spg.Duels:
    rng = np.random.default_rng(seed)
    items = np.random.default_rng(0).normal(size=(N, 2))
    first = rng.integers(N, size=count)
    pairs = np.stack([first, (first + rng.integers(1, N, size=count)) % N], 1)
    noisy = items.sum(1)[pairs] + rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, 1), 1).T
    return spg.Duels(items, winners, losers, ties=rng.uniform(size=count) < 0.2)


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels_of(1, 60),
        gpflow.kernels.Matern52(),
        approximation=spg.Exact(),
        likelihood=spg.Probit(margin=0.3),
    )


@pytest.mark.slow
def test_chunks_do_not_matter(
    model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new = duels_of(2, 50)
    whole = evaluate(model, new)
    assert whole["held_out_outcomes"]["model"]["ties"] == new.num_ties > 0
    monkeypatch.setattr(scoring, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(base, "_QUESTIONS_AT_ONCE", 7)
    in_chunks = evaluate(model, new)
    stream = evaluate(model, spg.stream_duels(new))
    for found in (in_chunks, stream):
        for part in ("held_out", "held_out_outcomes"):
            assert found[part].keys() == whole[part].keys()
            for name, scores in whole[part].items():
                assert_same_scores(found[part][name], scores, abs=IDENTITY)
    assert in_chunks["held_out_unseen_pairs"].keys() == whole["held_out_unseen_pairs"].keys()
    assert stream["held_out_unseen_pairs"] == {}  # pairs are not told apart


def test_unseen_pairs_by_a_slow_loop(model: spg.PreferenceGP) -> None:
    training, new = model.duels, duels_of(3, 40)
    decided = new.decided
    won, lost = new.winners[decided], new.losers[decided]
    won = np.where(np.arange(len(won)) == 4, -1, won)  # an item that training does not have
    found = scoring.unseen_pairs(training, won, lost)
    assert training.ties is not None
    known = set()
    for a, b, tied in zip(training.winners, training.losers, training.ties, strict=True):
        known |= {(a, b), (b, a)} if tied else {(a, b)}
    pairs = list(zip(won, lost, strict=True))
    assert found["ordered"].tolist() == [(a, b) not in known for a, b in pairs]
    assert found["either_order"].tolist() == [
        (a, b) not in known and (b, a) not in known for a, b in pairs
    ]


def test_nothing_to_score_is_nothing(model: spg.PreferenceGP) -> None:
    inputs, none = model.duels.items, np.zeros(3, dtype=np.int64)
    ties = Answers.between(none, none + 1, kind=np.full(3, TIE))
    found = scoring.score_events(model, {COIN: KNOWS_NOTHING}, [scoring.Asked(ties, inputs)])
    assert found.scores() == {} and found.unseen_scores() == {}
