"""What is in the queue that a model fills, asked without a page.

    python experiments/ask/alone.py

One person, whom no pair is asked twice, after each tenth of 150 answers about 30 items: how many
of the queue's pairs are new to this person. And after 400 answers of four people about random
pairs of 60 items: how long the queue is where pairs are left out whose better one wins with a
smaller chance than 0.8.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd

from sparse_prefgp.ask.pairing import Pair, Pairing
from sparse_prefgp.ask.refitting import EVERY, Learner
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import Answer, VoteStore


class Asked:
    """People who answer by a probit, and what is learned from them."""

    def __init__(self, items: int, people: int, folder: Path) -> None:
        self._rng = np.random.default_rng(0)
        self._truth = self._rng.normal(size=items)
        self._names = [f"item {i:02d}" for i in range(items)]
        self._store = VoteStore(folder)
        self._people, self.number = people, 0
        table = pd.DataFrame({"item_id": self._names})
        self.learner = Learner(self._store.path, table, PageSettings())
        self.pairing = Pairing(items, self._rng)

    def answer(self, count: int) -> None:
        """So many times, by one person after the other."""
        for _ in range(count):
            self.number += 1
            person = f"person {self.number % self._people}"
            pair = self.pairing.next(person)
            assert pair is not None
            difference = self._truth[pair.left] - self._truth[pair.right]
            verdict = "left" if difference + self._rng.normal() > 0.0 else "right"
            sides = self._names[pair.left], self._names[pair.right]
            self._store.keep([Answer(f"{self.number:032x}", person, *sides, verdict, "then")])
            self.pairing.count(person, pair)

    def refill(self) -> list[Pair]:
        """The queue from now on."""
        row = {name: i for i, name in enumerate(self._names)}
        learned = self.learner.learn()
        pairs = [Pair(row[first], row[second]) for first, second in learned.pairs]
        self.pairing.refill(pairs, learned.uneven)
        return pairs


def main() -> None:
    """Print both."""
    gpflow.config.set_default_float(np.float64)
    with tempfile.TemporaryDirectory() as folder:
        alone = Asked(30, 1, Path(folder) / "votes")
        while alone.number < 150:
            alone.answer(EVERY)
            pairs = {*alone.refill()}
            new = sum(not alone.pairing.has_met("person 0", pair) for pair in pairs)
            print(f"{alone.number} answers: {len(pairs)} different pairs, {new} of them new")
    for closest in (0.5, 0.55, 0.8):
        with tempfile.TemporaryDirectory() as folder:
            several = Asked(60, 4, Path(folder) / "votes")
            several.answer(400)
            several.learner = replace(several.learner, closest=closest)
            print(f"closest {closest}: {len(several.refill())} pairs in the queue")


if __name__ == "__main__":
    main()
