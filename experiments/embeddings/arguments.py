"""Arguments of debates that nobody voted on: what `fit` takes by itself, next to a linear probit.

`ukp_convincing`: debate // 2 mod 4 is the fold; votes of the other folds are fitted to, and all
gold pairs of the fold are scored.

    python experiments/embeddings/arguments.py --columns              the columns of the items
    python experiments/embeddings/arguments.py --text                 features of the texts
    python experiments/embeddings/arguments.py --text --vectors FILE  and vectors of the items
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import linear_probit

DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", "../shared/data")) / "ukp_convincing"
FOLDS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", action="store_true", help="the columns of the items")
    parser.add_argument("--text", action="store_true", help="features made of the texts")
    parser.add_argument("--vectors", type=Path, help="a .npy file in the order of the items")
    parser.add_argument("--kernel", help="in place of the choice of fit")
    parser.add_argument("--approximation", help="the same")
    chosen = parser.parse_args()
    items = pd.read_csv(DATA / "items.csv.gz")
    debate = items.set_index("item_id")["debate"]
    known = items.drop(columns=["source_id", "debate"]) if chosen.columns else items[["item_id"]]
    if chosen.text:
        known = known.merge(pd.read_csv(DATA / "texts.csv.gz"), on="item_id")
    given = {"text": ["text"] if chosen.text else []}
    if chosen.vectors is not None:
        given["embedding"] = {"vectors": np.load(chosen.vectors)}
    votes, gold = (pd.read_csv(DATA / f"{name}.csv.gz") for name in ("duels", "gold_duels"))
    found = []
    for fold in range(FOLDS):
        others = votes[(debate[votes["winner"]] // 2 % FOLDS != fold).to_numpy()]
        new = gold[(debate[gold["winner"]] // 2 % FOLDS == fold).to_numpy()]
        counted = others.groupby(["winner", "loser"], as_index=False).size()
        table = spg.read_duels(known, counted.rename(columns={"size": "count"}), **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = spg.fit(
                duels=table.without_idle_items(),
                kernel=chosen.kernel,
                approximation=chosen.approximation,
                test_fraction=0,
            )
        model = fitted.model
        asked = spg.read_duels(known, new[["winner", "loser"]], **given)
        test = asked.standardised(transform=model.duels.transform)
        won, lost = test.items[test.winners], test.items[test.losers]
        logs = np.log(model.predict_duel(won, lost).numpy())
        probit = linear_probit(model.duels, rng=np.random.default_rng(0))
        theirs = probit.predict(test.events, test.items).log_first
        counts = test.counts / test.counts.sum()
        found.append((-counts @ logs, -counts @ theirs, counts @ (logs > np.log(0.5))))
        print(
            f"fold {fold}: {fitted.figures['fit']['kernel']}/"
            f"{fitted.figures['fit']['approximation']}, {test.num_features} features: "
            f"{found[-1][0]:.4f} nats, {found[-1][2]:.3f} right; linear probit {found[-1][1]:.4f}",
            flush=True,
        )
    nats, theirs, right = np.mean(found, 0)
    print(f"mean: {nats:.4f} nats, {right:.3f} right; linear probit {theirs:.4f}")


if __name__ == "__main__":
    main()
