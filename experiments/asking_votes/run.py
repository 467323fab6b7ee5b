"""Is it better to ask for the pairs that `suggest` proposes? A replay on real votes.

    python experiments/asking_votes/run.py         every run that is not in runs.csv yet, a row each
    python experiments/asking_votes/run.py table   means and standard errors, as in the README

Votes of `llm_votes` that are no ties. A fifth of the tasks (`pair_id`) is never asked about; a vote
that is asked for is drawn from the others on that pair of models, each once.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

ROWS = Path(__file__).parent / "runs.csv"
WAYS = ("random", "balanced", "bald", "eubo")
# The variance of the utilities: given, or begun at 0.5 and learned whenever scores are taken.
RUNS = [("0.2", way) for way in WAYS] + [("1.0", "random"), ("1.0", "bald")]
RUNS += [("learned", way) for way in WAYS]
SEEDS = range(6)
START, BATCH, LOOKS = 60, 30, (150, 300, 600)
KEYS = ["spread", "way", "seed", "votes"]


def decided() -> pd.DataFrame:
    """Winner and loser by the names of their models, and the task of each vote that is no tie."""
    found = spg.datasets.llm_votes()
    names = found.items.set_index("item_id")["model"]
    votes = found.duels[found.duels["tie"] == 0]
    return pd.DataFrame(
        {
            "winner": names.loc[votes["winner"]].to_numpy(),
            "loser": names.loc[votes["loser"]].to_numpy(),
            "task": votes["pair_id"].to_numpy(),
        }
    )


class Voters:
    """Votes that can be asked for, each once."""

    def __init__(self, votes: pd.DataFrame, rng: np.random.Generator) -> None:
        shuffled = votes.sample(frac=1, random_state=rng)
        self.left: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for winner, loser in zip(shuffled["winner"], shuffled["loser"], strict=True):
            pair = (min(winner, loser), max(winner, loser))
            self.left.setdefault(pair, []).append((winner, loser))

    def pairs(self) -> pd.DataFrame:
        """Those of which votes are left."""
        return pd.DataFrame(
            [pair for pair, votes in self.left.items() if votes], columns=["first", "second"]
        )

    def answers(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """A vote on each pair, which is then gone."""
        named = (tuple(sorted(pair)) for pair in pairs[["first", "second"]].to_numpy())
        return pd.DataFrame([self.left[pair].pop() for pair in named], columns=["winner", "loser"])


def balanced(pairs: pd.DataFrame, asked: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Random pairs of models that were asked about least, counted anew after each pick."""
    counts = dict.fromkeys(np.unique(pairs), 0) | asked.stack().value_counts().to_dict()
    left, picked = list(rng.permutation(pairs.to_numpy())), []
    for _ in range(BATCH):
        at = int(np.argmin([counts[a] + counts[b] for a, b in left]))
        picked.append(left.pop(at))
        for name in picked[-1]:
            counts[name] += 1
    return pd.DataFrame(picked, columns=["first", "second"])


def scores(model: spg.PreferenceGP, test: pd.DataFrame, board: pd.Series) -> dict[str, float]:
    """On votes that were never asked for, and next to the board of all votes."""
    won = spg.predict(model, test.set_axis(["first", "second"], axis=1))["probability"]
    utility = spg.rank(model).frame.set_index("item_id")["utility"]
    return {
        "nats": -np.log(won).mean(),
        "right": np.mean(won > 0.5),
        "tau": utility.reindex(board.index).corr(board, method="kendall"),
        "short": board.max() - board[utility.idxmax()],
    }


def run(
    votes: pd.DataFrame, board: pd.Series, spread: str, way: str, seed: int
) -> Iterator[dict[str, float]]:
    """Scores after the numbers of votes in `LOOKS`."""
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(votes["task"].unique())
    kept = votes["task"].isin(tasks[: len(tasks) // 5])
    test = votes.loc[kept, ["winner", "loser"]]
    voters = Voters(votes[~kept], rng)
    asked = voters.answers(voters.pairs().sample(START, random_state=rng))
    items = board.index.to_frame(name="item_id", index=False)
    effects = spg.ItemEffect(0.5 if spread == "learned" else float(spread))
    model = spg.PreferenceGP(spg.read_duels(items, asked), effects)
    model.infer()
    while len(asked) < max(LOOKS):
        pairs = voters.pairs()
        if way == "random":
            ask = pairs.sample(BATCH, random_state=rng)
        elif way == "balanced":
            ask = balanced(pairs, asked, rng)
        else:
            ask = spg.suggest(model, pairs=pairs, batch=BATCH, score=way, rng=rng).frame
        new = voters.answers(ask)
        asked = pd.concat([asked, new], ignore_index=True)
        model, _ = spg.update(model, new)
        if len(asked) in LOOKS:
            if spread == "learned":
                spg.optimise(model)
            variance = float(model.kernel.variance.numpy())
            yield {"votes": len(asked), **scores(model, test, board), "variance": variance}


def table() -> None:
    """Means over seeds and their standard errors, then what each way gains on random pairs."""
    rows = pd.read_csv(ROWS, dtype={"spread": str}).set_index(KEYS).drop(columns="variance")
    by_chance = rows.xs("random", level="way").reindex(rows.index.droplevel("way"))
    for name, frame in {"": rows, ", less random pairs": rows - by_chance.to_numpy()}.items():
        grouped = frame.groupby(level=["spread", "votes", "way"], sort=False)
        mean, error = grouped.mean(), grouped.sem()
        print(f"\nmean ± standard error{name}, {grouped.size().min()} seeds or more")
        print((mean.map("{:.3f}".format) + " ± " + error.map("{:.3f}".format)).to_string())


def main() -> None:
    """Runs that are not there yet."""
    if sys.argv[1:] == ["table"]:
        return table()
    votes = decided()
    everything = spg.fit(None, votes[["winner", "loser"]], kernel="item", test_fraction=0)
    board = spg.rank(everything.model).frame.set_index("item_id")["utility"]
    done = set()
    if ROWS.exists():
        before = pd.read_csv(ROWS, dtype={"spread": str})
        done = set(zip(before["seed"], before["spread"], before["way"], strict=True))
    for seed, (spread, way) in itertools.product(SEEDS, RUNS):
        if (seed, spread, way) in done:
            continue
        scored = pd.DataFrame(run(votes, board, spread, way, seed))
        scored = scored.assign(spread=spread, way=way, seed=seed)
        scored = scored[KEYS + [name for name in scored if name not in KEYS]].round(5)
        scored.to_csv(ROWS, mode="a", header=not ROWS.exists(), index=False)
        print(scored.to_string(), flush=True)


if __name__ == "__main__":
    main()
