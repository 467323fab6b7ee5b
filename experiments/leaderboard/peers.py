"""What other packages say of the boards of `planted.py`: arenakit 0.1.1 and evalica 0.4.2.

    python experiments/leaderboard/peers.py BOARDS [--boards 3]

It needs these two and NumPy and pandas, in an environment of their own, and not this package.
arenakit audits a board with its defaults, voters being the judges; evalica has no audit, and gives
scores of Bradley-Terry with bootstrap intervals. Printed are the probes that fired, how many
boards of each kind there were, and the seconds of processor of each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import arenakit
import evalica
import pandas as pd

PLANTED = ("side", "lean", "careless", "length", "tie", "drift", "circle", "duplicate", "reverse")


def arenakit_on(table: pd.DataFrame) -> list[str]:
    """The probes of arenakit that fire."""
    winner = table["winner"].map({"model_a": "a", "model_b": "b", "tie": "tie"})
    battles = [
        arenakit.Battle(model_a=a, model_b=b, winner=won, item_id=task, voter_id=judge)
        for a, b, won, task, judge in zip(
            table["model_a"], table["model_b"], winner, table["task"], table["judge"], strict=True
        )
    ]
    return sorted(arenakit.run_audit(arenakit.Arena(battles)).flags)


def evalica_on(table: pd.DataFrame) -> None:
    """Scores and their intervals."""
    winner = table["winner"].map(
        {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    )
    sides = table["model_a"].tolist(), table["model_b"].tolist()
    evalica.bootstrap(evalica.bradley_terry, *sides, winner.tolist(), n_resamples=200)


def main() -> None:
    """Ask both of clean boards, of each defect alone, and of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("boards_from")
    parser.add_argument("--boards", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, options.boards_from)
    from boards import board

    for planted in ((), *((one,) for one in PLANTED), PLANTED):
        fired: Counter[str] = Counter()
        seconds = [0.0, 0.0]
        for seed in range(options.boards):
            table, _ = board(seed, planted=planted)
            for i, ask in enumerate((arenakit_on, evalica_on)):
                begun = time.process_time()
                fired.update(ask(table) or ())
                seconds[i] += (time.process_time() - begun) / options.boards
        name = "clean" if not planted else planted[0] if len(planted) == 1 else "all"
        probes = ", ".join(f"{probe} {number}" for probe, number in sorted(fired.items()))
        print(f"| {name} | {probes or 'none'} | {seconds[0]:.1f} | {seconds[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
