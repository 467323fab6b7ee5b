"""How many answers until the first five are settled, and right: asking by `settle`, at random, and
balanced at random.

    python experiments/ask/run.py         every run that is not in runs.csv yet, a row each
    python experiments/ask/run.py table   the table of the README

People are simulated: utilities are those of a model fitted to all votes of a set, and an answer is
a draw of its probit. Answers come in steps of a fifth more; after each the model is brought up to
date, and asked for the chance that its first five are the first five. The variance of utilities is
known to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import sparse_prefgp as spg
from sparse_prefgp.ask.queue import QUEUE, queued

ROWS = Path(__file__).parent / "runs.csv"
WAYS = ("settle", "random", "balanced")
SEEDS = range(5)
TOP, SETTLED, GROWN = 5, 0.95, 1 / 5
# Of so many answers an item a run ends without.
MOST = 1000
ITEMS = 30
KEYS = ["set", "way", "seed"]


def arguments(rng: np.random.Generator) -> np.ndarray:
    """Utilities of the arguments of a debate, which is drawn, by all votes on them."""
    votes = spg.datasets.ukp_convincing()
    own = votes.duels["debate"]
    duels = votes.duels[own == rng.choice(np.unique(own))][["winner", "loser"]]
    return _utilities(None, duels)


def cars(rng: np.random.Generator) -> np.ndarray:
    """Utilities of cars that people chose among, some of which are drawn."""
    votes = spg.datasets.ev_choice_us()
    mean = _utilities(votes.items, votes.duels[["winner", "loser"]])
    return mean[rng.choice(len(mean), ITEMS, replace=False)]


def houses(rng: np.random.Generator) -> np.ndarray:
    """Prices of districts, in standard deviations, some of which are drawn."""
    prices = np.asarray(spg.datasets.boston().target, dtype=float)
    some = prices[rng.choice(len(prices), ITEMS, replace=False)]
    return (some - some.mean()) / some.std()


def _utilities(items: pd.DataFrame | None, duels: pd.DataFrame) -> np.ndarray:
    found = spg.fit(
        items,
        duels,
        test_fraction=0.0,
        integrate=False,
        inducing=None if items is None else 64,
        max_iterations=20,
    )
    return spg.rank(found.model).frame["utility"].to_numpy()


SETS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "arguments": arguments,
    "cars": cars,
    "houses": houses,
}


class Run:
    """A page without the page: one truth, one way to ask."""

    def __init__(self, truth: np.ndarray, way: str, seed: int) -> None:
        self.truth, self.way = truth, way
        self.rng = np.random.default_rng([seed, WAYS.index(way)])
        self.names = [f"i{i:03d}" for i in range(len(truth))]
        self.items = pd.DataFrame({"item_id": self.names})
        self.shown = np.zeros(len(truth), dtype=int)

    def answers(self, pairs: list[tuple[int, int]]) -> pd.Series:
        """Of people: how often which item won against which other one."""
        first, second = np.array(pairs).T
        ahead = self.truth[first] - self.truth[second] + self.rng.normal(size=len(pairs)) > 0
        names = np.array(self.names)
        np.add.at(self.shown, np.array(pairs), 1)
        won = {
            "winner": names[np.where(ahead, first, second)],
            "loser": names[np.where(ahead, second, first)],
        }
        return pd.DataFrame(won).value_counts(sort=False).rename("count")

    def next_pairs(self, model: spg.PreferenceGP | None, count: int) -> list[tuple[int, int]]:
        """To ask next."""
        number = len(self.truth)
        if model is None or self.way == "balanced":
            shown = self.shown.copy()
            pairs = []
            for _ in range(count):
                first, second = np.lexsort((self.rng.random(number), shown))[:2]
                shown[[first, second]] += 1
                pairs.append((int(first), int(second)))
            return pairs
        if self.way == "random":
            first = self.rng.integers(number, size=count)
            second = (first + self.rng.integers(1, number, size=count)) % number
            return list(zip(first.tolist(), second.tolist(), strict=True))
        row = {name: i for i, name in enumerate(self.names)}
        batch = min(QUEUE, number * (number - 1) // 2)
        frame = spg.suggest(model, self.items, batch=batch, score="settle", rng=self.rng).frame
        asked = frame.iloc[queued(frame["score"].to_numpy(), count)]
        return [(row[a], row[b]) for a, b in zip(asked["first"], asked["second"], strict=True)]

    def until_settled(self) -> dict[str, object]:
        """How many answers it took, whether the first five were right, and Kendall's tau."""
        answers = self.answers(self.next_pairs(None, len(self.truth)))
        while True:
            duels = spg.read_duels(self.items, answers.reset_index(), counts="count")
            model = spg.PreferenceGP(duels, spg.ItemEffect(variance=self.truth.var()))
            chance = spg.settled(model, TOP, rng=self.rng).chance_now
            if chance >= SETTLED or answers.sum() >= MOST * len(self.truth):
                break
            count = max(len(self.truth) // 3, round(GROWN * answers.sum()))
            further = self.answers(self.next_pairs(model, count))
            answers = answers.add(further, fill_value=0).astype(int)
        ranking = spg.rank(model, rng=self.rng).frame.set_index("item_id")["utility"]
        mean = ranking.loc[self.names].to_numpy()
        first = set(np.argsort(-mean)[:TOP].tolist())
        return {
            "answers": int(answers.sum()),
            "settled": chance >= SETTLED,
            "right": first == set(np.argsort(-self.truth)[:TOP].tolist()),
            "tau": float(kendalltau(mean, self.truth).statistic),
        }


def main() -> None:
    """Run what is missing."""
    done = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=KEYS)
    have = set(done[KEYS].itertuples(index=False, name=None))
    for seed in SEEDS:
        for name, make in SETS.items():
            missing = [way for way in WAYS if (name, way, seed) not in have]
            truth = make(np.random.default_rng(seed)) if missing else np.zeros(0)
            for way in missing:
                row = {"set": name, "way": way, "seed": seed, "items": len(truth)}
                row |= Run(truth, way, seed).until_settled()
                print(row, flush=True)
                pd.DataFrame([row]).to_csv(ROWS, mode="a", header=not ROWS.exists(), index=False)


def table() -> None:
    """Medians by set and way."""
    found = pd.read_csv(ROWS)
    grouped = found.groupby(["set", "way"])
    print(
        grouped.agg(
            runs=("seed", "size"),
            answers=("answers", "median"),
            settled=("settled", "mean"),
            right=("right", "mean"),
            tau=("tau", "mean"),
        ).round(2)
    )


if __name__ == "__main__":
    gpflow.config.set_default_float(np.float64)
    table() if sys.argv[1:] == ["table"] else main()
