"""How often intervals of scores and sets of ranks of a leaderboard hold the truth.

    python experiments/leaderboard/coverage.py OUT [--boards 100] [--first 0] [--battles 5000]

Boards are simulated: 30 models, 40 judges, a side and a length that bend verdicts, ties within a
margin. All levels are 90 %.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

MODELS, JUDGES, SPREAD, MARGIN, SIDE, LENGTH = 30, 40, 0.6, 0.3, 0.15, 0.2


def simulated(seed: int, number: int) -> tuple[pd.DataFrame, pd.Series]:
    """Battles, and the utilities of the models; the noise of a battle has the variance 1."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(0.0, SPREAD, MODELS)
    first = rng.integers(0, MODELS, number)
    second = (first + rng.integers(1, MODELS, number)) % MODELS
    judge = rng.choice(JUDGES, number, p=rng.dirichlet(np.full(JUDGES, 4.0)))
    usual = rng.normal(0.0, 0.5, MODELS)
    length = [usual[side] + rng.normal(0.0, 0.5, number) for side in (first, second)]
    ahead = utility[first] - utility[second] + SIDE + LENGTH * (length[0] - length[1])
    ahead += rng.normal(0.0, 1.0, number)
    verdict = np.where(ahead > 0.0, "model_a", "model_b")
    names = np.array([f"m{i:02d}" for i in range(MODELS)])
    table = pd.DataFrame(
        {
            "model_a": names[first],
            "model_b": names[second],
            "winner": np.where(np.abs(ahead) < MARGIN, "tie", verdict),
            "judge": [f"j{i:02d}" for i in judge],
            "length_a": length[0].round(3),
            "length_b": length[1].round(3),
        }
    )
    return table, pd.Series(utility - utility.mean(), names)


def held(board: pd.DataFrame, truth: pd.Series) -> dict[str, float | bool]:
    """Which shares of a board's intervals and sets hold what is true."""
    utility = truth[board["model"]].to_numpy()
    rank = truth.rank(ascending=False)[board["model"]].to_numpy()
    score = (board["lower"] <= utility) & (utility <= board["upper"])
    found: dict[str, float | bool] = {"score": score.mean()}
    for name in ("likely", "rank"):
        low, high = board[f"{name}_low"], board[f"{name}_high"]
        inside = (low <= rank) & (rank <= high)
        found[name], found[f"{name}_all"] = inside.mean(), bool(inside.all())
        found[f"{name}_size"] = (high - low + 1).mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--boards", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--battles", type=int, default=5000)
    given = parser.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.boards):
        table, truth = simulated(seed, given.battles)
        begun = time.process_time()
        board = spg.leaderboard(table, style=["length"], level=0.9).board()
        row = {"seed": seed, **held(board, truth), "seconds": time.process_time() - begun}
        rows.append(row)
        given.out.write_text(json.dumps(rows, default=float, indent=1) + "\n")
        means = pd.DataFrame(rows).drop(columns="seed").astype(float).mean()
        print(len(rows), means.round(3).to_dict(), flush=True)


if __name__ == "__main__":
    main()
