"""Does what `settled` forecasts come true, and does asking by `settle` settle sooner?

    python experiments/leaderboard/settled.py         every board that is not in settled.csv yet
    python experiments/leaderboard/settled.py table   the figures, as in the README

Boards of 20 models with utilities from N(0, 0.64), votes with probit noise of variance 1 and a
margin of 0.3, 1,000 to begin with, asked on pairs at random; variance, noise and margin are known.
Boards of which the first 5 are settled then are left out. Each is asked to 16 times as many votes
at random, and to 8 times as many by `suggest(score="settle")`, 20 pairs of 10 votes at a time.
"""

from __future__ import annotations

import csv
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.settling import TIMES

ROWS = Path(__file__).parent / "settled.csv"
BOARDS, MODELS, TOP, START = 28, 20, 5, 1000
VARIANCE, MARGIN, PAIRS, EACH, MOST = 0.64, 0.3, 20, 10, 8
NAMES = [f"m{i}" for i in range(MODELS)]
NEVER = 99


class Board:
    """How often of each pair the first won, neither did, and the second won."""

    def __init__(self, truth: np.ndarray) -> None:
        self.truth, self.votes = truth, np.zeros((MODELS, MODELS, 3), dtype=int)

    def ask(self, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> None:
        """A vote on each pair."""
        difference = self.truth[first] - self.truth[second] + rng.standard_normal(len(first))
        outcome = np.where(np.abs(difference) < MARGIN, 1, np.where(difference > 0.0, 0, 2))
        turned = first > second
        low, high = np.minimum(first, second), np.maximum(first, second)
        np.add.at(self.votes, (low, high, np.where(turned, 2 - outcome, outcome)), 1)

    @property
    def number(self) -> int:
        """Of votes."""
        return int(self.votes.sum())

    def model(self) -> spg.PreferenceGP:
        """Of the votes so far, at the parameters that they were drawn with."""
        i, j, outcome = np.nonzero(self.votes)
        won, lost = np.where(outcome == 2, j, i), np.where(outcome == 2, i, j)
        counts = self.votes[i, j, outcome]
        sides = [[NAMES[k] for k in side] for side in (won, lost)]
        duels = spg.Duels(np.zeros((MODELS, 0)), *sides, counts, ties=outcome == 1, item_ids=NAMES)
        likelihood = spg.Probit(0.5, margin=MARGIN)
        return spg.PreferenceGP(duels, spg.ItemEffect(VARIANCE), likelihood=likelihood)


def random_pairs(number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """So many, each pair as likely as another."""
    first = rng.integers(0, MODELS, number)
    return first, (first + rng.integers(1, MODELS, number)) % MODELS


def is_right(found: spg.results.Settled, truth: np.ndarray) -> bool:
    """Whether these are the first ones in truth."""
    return {*found.first} == {NAMES[i] for i in np.argsort(-truth)[:TOP]}


def run(seed: int) -> dict[str, float] | None:
    """What was forecast for a board, and what came true; None if it is settled to begin with."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, VARIANCE**0.5, MODELS)
    board = Board(truth)
    board.ask(*random_pairs(START, rng), rng)
    start = board.votes.copy()
    today = spg.settled(board.model(), TOP)
    if today.settled:
        return None
    row: dict[str, float] = {"seed": seed, "chance_now": today.chance_now}
    row |= {f"forecast_{k}": p for k, p in zip(TIMES, today.chances, strict=True)}
    row |= {"random": NEVER, "random_right": NEVER}
    for times in TIMES:
        board.ask(*random_pairs(times * START - board.number, rng), rng)
        found = spg.settled(board.model(), TOP)
        if found.settled and row["random"] == NEVER:
            row |= {"random": times, "random_right": is_right(found, truth)}
    board.votes = start
    row |= {"settle": NEVER, "settle_right": NEVER}
    while board.number < MOST * START:
        model = board.model()
        pairs = spg.suggest(model, score="settle", top=TOP, batch=PAIRS).frame
        first, second = (
            np.repeat([NAMES.index(name) for name in pairs[side]], EACH)
            for side in ("first", "second")
        )
        board.ask(first, second, rng)
        found = spg.settled(board.model(), TOP, draws=1000)
        if found.settled:
            row |= {"settle": board.number / START, "settle_right": is_right(found, truth)}
            break
    return row


def table() -> None:
    """Forecast beside what came true, and how soon the first ones were settled."""
    rows = pd.read_csv(ROWS)
    print(f"{len(rows)} boards")
    for times in TIMES:
        forecast, came = rows[f"forecast_{times}"], rows["random"] <= times
        brier = ((forecast - came) ** 2).mean()
        print(f"{times:3d} times: {forecast.mean():.3f} {came.mean():.3f} brier {brier:.3f}")
    for way in ("random", "settle"):
        there = rows[way] <= MOST
        right = (rows.loc[there, f"{way}_right"].astype(str) == "True").mean()
        print(f"{way}: within {MOST} times {there.mean():.2f}, of these right {right:.2f}")
        print(f"  median times today's votes {rows[way].median():g}")


def main() -> None:
    """Run what is missing, or print the table."""
    if "table" in sys.argv[1:]:
        table()
        return
    rows = pd.read_csv(ROWS).to_dict("records") if ROWS.exists() else []
    begin = max([int(row["seed"]) for row in rows], default=499) + 1
    for seed in count(begin):
        if len(rows) >= BOARDS:
            break
        row = run(seed)
        if row is None:
            continue
        rows.append(row)
        with ROWS.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(row, flush=True)


if __name__ == "__main__":
    main()
