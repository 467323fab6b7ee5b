"""How good is a fit on how many duels, with features of the items and without?

    python experiments/learning_curve/run.py ukp_convincing  fits, a row each in ukp_convincing.csv
    python experiments/learning_curve/run.py ev_choice_us    the same of the other set
    python experiments/learning_curve/run.py draw            docs/learning_curve.png from the rows
    python experiments/learning_curve/run.py agree           how often two votes on a pair agree

`ukp_convincing`: votes on arguments; a fifth of the votes is held out at random. `ev_choice_us`:
choices of cars; one person in five is held out, and each car is in few duels. Held-out duels are
the same throughout, the training duels of a row are drawn from the others, and every fit is
`spg.fit` of at most 30 iterations. Rows that are there are kept.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

HERE = Path(__file__).parent
KEYS = ["features", "duels", "seed"]
PICTURE = HERE.parents[1] / "docs" / "learning_curve.png"
COIN = float(np.log(2))
NAMES = {"ukp_convincing": "1,052 arguments", "ev_choice_us": "5,191 cars, shown to new people"}
SIZES = (100, 300, 1000, 3000, 9000)
SEEDS = (0, 1)


def held_out(name: str, duels: pd.DataFrame) -> np.ndarray:
    """(t,) whether a duel is held out."""
    rng = np.random.default_rng(0)
    if name == "ukp_convincing":
        return rng.permutation(len(duels)) < len(duels) // 5
    people = np.unique(duels["person"])
    return np.isin(duels["person"], rng.permutation(people)[: len(people) // 5])


def nats(name: str, size: int, seed: int, features: bool) -> dict[str, float]:
    """Scores of one fit on the held-out duels."""
    found = spg.datasets.load(name)
    duels = found.duels[["winner", "loser"]].copy()
    duels["test"] = held_out(name, found.duels).astype(int)
    train = duels[duels["test"] == 0]
    drawn = np.random.default_rng([seed, size]).choice(len(train), size, replace=False)
    both = pd.concat([train.iloc[drawn], duels[duels["test"] == 1]], ignore_index=True)
    items = found.items.drop(columns=list(found.about.ignore))
    if not features:
        items = items[["item_id"]]
    fitted = spg.fit(items, both, split="given:test", seed=seed, max_iterations=30)
    scores = fitted.scores["model"]
    return {"nats": scores["nlp_nats"], "accuracy": scores["accuracy"], "n": int(scores["duels"])}


def run(name: str) -> None:
    """Every row of a set that is not there yet, small fits first."""
    results = HERE / f"{name}.csv"
    done = pd.read_csv(results) if results.exists() else pd.DataFrame(columns=KEYS)
    there = set(done[KEYS].itertuples(index=False, name=None))
    for seed, size, features in itertools.product(SEEDS, SIZES, (1, 0)):
        # Exact inference takes the cube of the number of cars, of which each duel brings new ones.
        too_slow = name == "ev_choice_us" and not features and size > 1000
        if (features, size, seed) not in there and not too_slow:
            row = {"features": features, "duels": size, "seed": seed}
            row |= nats(name, size, seed, bool(features))
            done = pd.concat([done, pd.DataFrame([row])], ignore_index=True)
            done.astype({"n": int}).round(5).to_csv(results, index=False)
            print(name, row, flush=True)


def draw() -> None:
    """A panel for each set: the mean of the seeds, and each seed as a dot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), dpi=100, layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (name, title) in zip(axes, NAMES.items(), strict=True):
        part = pd.read_csv(HERE / f"{name}.csv")
        ax.axhline(COIN, color="0.6", linewidth=1)
        ax.annotate(
            "a coin",
            (1, COIN),
            (-4, 3),
            ("axes fraction", "data"),
            "offset points",
            ha="right",
            color="0.4",
        )
        for features, colour, label in ((1, "C0", "with features"), (0, "C1", "without")):
            some = part[part["features"] == features]
            means = some.groupby("duels")["nats"].mean()
            ax.plot(means.index, means, "-", color=colour, label=label)
            ax.plot(some["duels"], some["nats"], ".", color=colour, markersize=5)
        ax.set(xscale="log", title=title, xlabel="training duels")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    axes[0].set_ylabel("nats for each held-out duel")
    axes[0].legend(frameon=False, loc="lower left")
    figure.savefig(PICTURE)


def agree() -> None:
    """What people who are asked the same say of each other: no forecast can be much better."""
    votes = spg.datasets.load("ukp_convincing").duels
    won = votes.groupby(["pair_id", "winner"]).size()
    pair = won.groupby("pair_id").transform("sum")
    several = won[pair > 1], pair[pair > 1]
    # Of two different votes on a pair, drawn at random, weighted by the votes.
    same = (several[0] * (several[0] - 1)).groupby("pair_id").sum()
    total = won.groupby("pair_id").sum()[same.index]
    print(f"{len(votes):,} votes on {pair.index.get_level_values(0).nunique():,} pairs")
    print(f"two votes on a pair agree: {np.sum(same / (total - 1)) / total.sum():.3f}")
    majority = won.groupby("pair_id").max().sum() / len(votes)
    print(f"votes with the majority of their pair: {majority:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Held-out nats against training duels.")
    parser.add_argument("what", choices=[*NAMES, "draw", "agree"])
    what = parser.parse_args().what
    if what in NAMES:
        run(what)
    else:
        {"draw": draw, "agree": agree}[what]()
