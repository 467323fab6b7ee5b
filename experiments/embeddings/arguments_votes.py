"""Votes on arguments that have others: kernels with an effect of each item, by VFE and by FITC.

`ukp_convincing`: votes with `default_rng(0).uniform(size=65340) < 0.2` are held out.

    python experiments/embeddings/arguments_votes.py [--vectors FILE]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", "../shared/data")) / "ukp_convincing"
KERNELS = ("linear+item", "iso(matern52)+item", "matern52+item", "matern52")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, help="a .npy file in the order of the items")
    chosen = parser.parse_args()
    items = pd.read_csv(DATA / "items.csv.gz").drop(columns=["source_id", "debate"])
    votes = pd.read_csv(DATA / "duels.csv.gz")[["winner", "loser"]]
    held = np.random.default_rng(0).uniform(size=len(votes)) < 0.2
    said = votes.assign(held_out=held.astype(int)).groupby([*votes, "held_out"], as_index=False)
    vectors = None if chosen.vectors is None else {"vectors": np.load(chosen.vectors)}
    for kernel in KERNELS:
        for approximation in ("vfe", "fitc"):
            found = spg.fit(
                items,
                said.size().rename(columns={"size": "count"}),
                embedding=vectors,
                kernel=kernel,
                approximation=approximation,
                split="given:held_out",
            )
            model, probit = (found.scores[name] for name in ("model", "linear_probit"))
            fit = found.figures["fit"]
            print(
                f"{kernel}/{approximation}: {model['nlp_nats']:.4f} nats, probit "
                f"{probit['nlp_nats']:.4f}; {fit['iterations']} iterations, {fit['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
