"""Which pairs to ask next, by what was learned: those alone that somebody may still be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.io.files import id_text
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice

QUEUE = 50


class Left:
    """Of each pair, how many of those who are asked have not answered it, nor skipped it."""

    def __init__(self, answers: Any, invited: Collection[str] = ()) -> None:
        """:param answers: `left`, `right` and `judge` of each answer and skip.
        :param invited: who is asked; by default whoever has answered.
        """
        self._people = set(invited) or set(answers["judge"])
        asked = answers[answers["judge"].isin(self._people)]
        sides = map(frozenset, zip(asked["left"], asked["right"], strict=True))
        met = {*zip(sides, asked["judge"], strict=True)}
        self._met = Counter(pair for pair, _ in met)

    def of(self, first: Iterable[str], second: Iterable[str]) -> IntArray:
        """(N,) of so many pairs."""
        pairs = zip(first, second, strict=True)
        met = [self._met[frozenset(pair)] for pair in pairs]
        return len(self._people) - np.array(met, dtype=np.int64)


def next_pairs(
    model: Any,
    score: str,
    top: int,
    closest: float,
    left: Left | None,
    rng: np.random.Generator,
) -> list[tuple[str, str]]:
    """A queue of pairs, by names of items, the first to be asked first; empty where none may be
    asked.

    :param score: of `suggest`.
    :param top: for the score "settle".
    :param closest: the least chance with which the better one is expected to win.
    :param left: whom a pair may be asked; None where everybody may be asked any again.
    :raises ValueError: what `suggest` raises.
    """
    from sparse_prefgp.analysis.suggestion import MAX_PAIRS, SCORES, best_of, candidate_pairs

    check_choice("score", score, SCORES)
    found = candidate_pairs(model, None, score, MAX_PAIRS, rng, top)
    if closest > 0.5:
        pairs = Answers.between(found.first, found.second)
        won, _, lost = np.exp(model.predict(pairs, found.items.inputs).results).T
        found = found.where(np.maximum(won, lost) >= closest)
    if left is not None:
        names = np.array([id_text(id) for id in found.items.ids], dtype=object)
        found = found.where(left.of(names[found.first], names[found.second]) > 0)
    if not len(found):
        return []
    batch = min(QUEUE, len(found))
    frame = best_of(model, found, batch, score, top, None, rng, lambda count, total: None).frame
    first, second = ([id_text(id) for id in frame[side]] for side in ("first", "second"))
    most = None if left is None else left.of(first, second)
    rows = queued(frame["score"].to_numpy(), QUEUE, most)
    return [(first[i], second[i]) for i in rows]


def queued(scores: FloatArray, number: int, most: IntArray | None = None) -> IntArray:
    """Which pairs (number,) to ask, each as often as its share of the scores: several people may
    answer one pair, and where one is in doubt all answers go to it.

    :param most: (pairs,) how often each may be asked; by default as often as one likes.
    """
    scores = np.maximum(scores, 0.0)  # what loses by an answer is not asked
    total = float(scores.sum())
    share = scores / total if total > 0.0 else np.full(len(scores), 1.0 / max(1, len(scores)))
    times = np.ceil(number * share).astype(int)
    if most is not None:
        times = np.minimum(times, most)
    return np.repeat(np.arange(len(scores)), times)[:number]
