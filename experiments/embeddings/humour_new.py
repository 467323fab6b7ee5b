"""Which of two short texts is funnier, for texts that nobody compared: `fit` next to a probit.

`humour`: a fifth of the texts, `default_rng(0).uniform(size=4030) < 0.2`, is held out; duels
between two of these are scored, duels between two others fitted to. Features are made of text and
category; `bws_score` is made of the duels and left out.

    python experiments/embeddings/humour_new.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", "../shared/data")) / "humour"


def main() -> None:
    items = pd.read_csv(DATA / "items.csv.gz")[["item_id", "category", "text"]]
    duels = pd.read_csv(DATA / "duels.csv.gz")
    held = np.random.default_rng(0).uniform(size=len(items)) < 0.2
    new = pd.Series(held, index=items["item_id"])
    ends = np.stack([new[duels[side]].to_numpy() for side in ("winner", "loser")])
    pure = duels[ends[0] == ends[1]].assign(held_out=ends[0][ends[0] == ends[1]].astype(int))
    counted = pure.groupby(["winner", "loser", "held_out"], as_index=False).size()
    votes = counted.rename(columns={"size": "count"})
    for features in (["text"], ["category", "text"]):
        found = spg.fit(
            items[["item_id", *features]],
            votes,
            text=["text"],
            split="given:held_out",
        )
        model, probit = (found.scores[name] for name in ("model", "linear_probit"))
        fit = found.figures["fit"]
        print(
            f"{'+'.join(features)}: {fit['kernel']}/{fit['approximation']} "
            f"{model['nlp_nats']:.4f} nats, {model['accuracy']:.3f} right; linear probit "
            f"{probit['nlp_nats']:.4f}, {probit['accuracy']:.3f}; {model['duels']:,} duels, "
            f"{found.figures['seconds']:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
