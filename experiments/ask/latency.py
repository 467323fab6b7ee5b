"""How long a page with 2,000 items and 20,000 answers takes for the next pair while it learns.

    python experiments/ask/latency.py [--people 20] [--seconds 120]

The store is filled first; then people answer, a second after they saw a pair, by a client on the
same machine, while a process of the page's own learns from all answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from sparse_prefgp.ask.store import Answer, VoteStore
from tests.asking_page import answered, running

ITEMS, ANSWERS, PEOPLE = 2000, 20_000, 100


def fill(folder: Path, names: list[str]) -> None:
    """A store of answers by utilities that are drawn."""
    rng = np.random.default_rng(0)
    utility = rng.normal(size=len(names))
    first = rng.integers(len(names), size=ANSWERS)
    second = (first + rng.integers(1, len(names), ANSWERS)) % len(names)
    ahead = utility[first] - utility[second] + rng.normal(size=ANSWERS) > 0.0
    with closing(VoteStore(folder)) as store:
        store.keep(
            [
                Answer(
                    id=f"{row:032x}",
                    person=f"person of before {row % PEOPLE}",
                    left=names[one],
                    right=names[other],
                    verdict="left" if wins else "right",
                    shown="",
                    note="",
                )
                for row, (one, other, wins) in enumerate(zip(first, second, ahead, strict=True))
            ]
        )


def main() -> None:
    """Print medians and 99th percentiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120.0)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, items = Path(name) / "votes", [f"item {i:04d}" for i in range(ITEMS)]
        table = Path(name) / "items.csv"
        pd.DataFrame({"item_id": items}).to_csv(table, index=False)
        fill(folder, items)
        with running("--items", str(table), out=folder) as page:
            end = time.monotonic() + settings.seconds
            people = answered(page.page, settings.people, lambda: time.monotonic() < end, pause=1.0)
    for what in ("pair_seconds", "answer_seconds"):
        seconds = np.concatenate([getattr(person, what) for person in people])
        middle, late = np.quantile(seconds, [0.5, 0.99])
        print(f"{what}: {len(seconds):,}, median {middle:.3f}, 99th percentile {late:.3f}")
    print("errors:", [error for person in people for error in person.errors])


if __name__ == "__main__":
    main()
