"""Do thresholds of confidence keep the risk that they promise, on votes of people?

    python experiments/leaderboard/thresholds.py         fits one model of each set, then 100 splits
    python experiments/leaderboard/thresholds.py table   the figures, as in the README

Votes that one side won. A third of the tasks are fitted; the verdicts on the others are parted 100
times at random, by task, into some that the threshold is made of and the rest, on which it is
judged. `each` takes one vote of each task, `all` takes all of them; `plug-in` is the last share of
the surest of which no more than the risk was wrong, which is what people take.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.trust import one_of_each, threshold

ROWS = Path(__file__).parent / "thresholds.csv"
SPLITS, TASKS = 100, 1000
# The kernel of each set, what a task is, and the risks that are borne.
SETS = {
    "ukp_convincing": ("item", "pair_id", (0.1, 0.2)),
    "llm_votes": ("item", "pair_id", (0.2, 0.25)),
    "ev_choice_us": ("linear", "choice_set", (0.2, 0.25)),
}


def votes_of(name: str) -> tuple[Any, pd.DataFrame]:
    """Items, and winner, loser and task of each vote; of language models the models are items."""
    found, task = getattr(spg.datasets, name)(), SETS[name][1]
    votes = found.duels
    if "tie" in votes:
        votes = votes[votes["tie"] == 0]
    votes = votes[["winner", "loser", task]].rename(columns={task: "task"})
    if name == "llm_votes":
        names = found.items.set_index("item_id")["model"]
        sides = {side: names.loc[votes[side]].to_numpy() for side in ("winner", "loser")}
        votes = votes.assign(**sides)
        return None, votes[votes["winner"] != votes["loser"]]
    return (None if SETS[name][0] == "item" else found.items), votes


def rated(name: str) -> pd.DataFrame:
    """Task and probability of each vote on a task that was not fitted."""
    items, votes = votes_of(name)
    tasks = np.random.default_rng(0).permutation(votes["task"].unique())
    fitted = votes["task"].isin(tasks[: len(tasks) // 3])
    sides = votes.loc[fitted, ["winner", "loser"]]
    known = set(sides["winner"]) | set(sides["loser"])
    rest = votes[~fitted]
    rest = rest[rest["winner"].isin(known) & rest["loser"].isin(known)]
    options: dict[str, Any] = {"kernel": SETS[name][0], "test_fraction": 0.0, "integrate": "no"}
    model = spg.fit(items, sides, max_iterations=30, **options).model
    return spg.evaluate(model, rest, items, trust=True)["votes"][["task", "probability"]]


def plug_in(won: np.ndarray, risk: float) -> float | None:
    """The confidence at the last share of the surest of which few enough were wrong."""
    sure = np.maximum(won, 1.0 - won)
    order = np.argsort(-sure, kind="stable")
    wrong = np.cumsum(won[order] <= 0.5) / np.arange(1, len(won) + 1)
    kept = np.flatnonzero(wrong <= risk)
    return float(sure[order[kept[-1]]]) if len(kept) else None


def judged(votes: pd.DataFrame, risk: float, seed: int) -> list[dict[str, Any]]:
    """What each way took in one split, and how much of the rest was wrong there."""
    rng = np.random.default_rng(seed)
    won, task = votes["probability"].to_numpy(), pd.factorize(votes["task"])[0]
    chosen = rng.permutation(task.max() + 1)[: min(TASKS, (task.max() + 1) // 2)]
    tested = np.flatnonzero(np.isin(task, chosen))
    rest = won[~np.isin(task, chosen)]
    one = tested[one_of_each(task[tested], rng)]
    ways = {
        "each": threshold(np.log(won[one]), risk=risk, tasks=True).probability,
        "all": threshold(np.log(won[tested]), risk=risk).probability,
        "plug-in": plug_in(won[one], risk),
    }
    rows = []
    for way, limit in ways.items():
        row: dict[str, Any] = {"risk": risk, "split": seed, "way": way, "threshold": limit}
        if limit is not None:
            above = rest[np.maximum(rest, 1.0 - rest) >= limit]
            row |= {"share": len(above) / len(rest), "wrong": float(np.mean(above <= 0.5))}
        rows.append(row)
    return rows


def table() -> None:
    """How often each way gave a threshold, kept the risk, and how much it answered."""
    rows = pd.read_csv(ROWS)
    for (name, risk, way), part in rows.groupby(["set", "risk", "way"], sort=False):
        there = part[part["threshold"].notna()]
        held = len(part) - int((there["wrong"] > risk).sum())
        print(
            f"{name:16} {risk:.2f} {way:8} given {len(there):3d} held {held:3d} "
            f"answered {there['share'].mean():.2f} wrong {there['wrong'].mean():.3f}"
        )


def main() -> None:
    """Fit and split, unless only the table is asked for."""
    if "table" not in sys.argv[1:]:
        rows = []
        for name, (_, _, risks) in SETS.items():
            votes = rated(name)
            print(name, len(votes), "votes,", votes["task"].nunique(), "tasks", flush=True)
            for risk in risks:
                for seed in range(SPLITS):
                    rows += [{"set": name, **row} for row in judged(votes, risk, seed)]
            pd.DataFrame(rows).to_csv(ROWS, index=False, float_format="%.6g")
    table()


if __name__ == "__main__":
    main()
