"""Best of three sets or of five: a column of the duel as a kernel input, on tennis matches.

python experiments/context/run.py DATA [--matches 8000] [--iterations 40]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.io import read_duels
from sparse_prefgp.learning.optimise import optimise
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.workflow.holdout import (
    Holdout,
    predict_held_out,
    prepare,
)
from sparse_prefgp.workflow.settings import FitSettings

CONTEXT = "best_of"
TOUR = list("ADFGMO")  # levels of the tour, without challengers and qualifying
SINCE = "2015"
SPLIT = {"split": "time:date", "test_fraction": 0.2, "inducing": 64}
Kernel = Callable[[list[int], list[int]], gpflow.kernels.Kernel]


def linear(features: list[int], context: list[int]) -> gpflow.kernels.Kernel:
    """A weighted sum of all columns, in which the context cancels."""
    size = len(features) + len(context)
    return gpflow.kernels.Linear(variance=np.full(size, 1.0 / size))


def scaled(features: list[int], context: list[int]) -> gpflow.kernels.Kernel:
    """A weighted sum of the features whose weights may differ with the context."""
    shape = gpflow.kernels.SquaredExponential(lengthscales=2.0, active_dims=context)
    gpflow.set_trainable(shape.variance, False)
    size = len(features)
    return shape * gpflow.kernels.Linear(np.full(size, 1.0 / size), active_dims=features)


def smooth(features: list[int], context: list[int]) -> gpflow.kernels.Kernel:
    """Any smooth function of all columns."""
    size = len(features) + len(context)
    return gpflow.kernels.Matern52(lengthscales=np.full(size, np.sqrt(size)))


VARIANTS: tuple[tuple[str, Kernel, bool], ...] = (
    ("linear", linear, False),
    ("linear", linear, True),
    ("linear times se of the context", scaled, True),
    ("matern52", smooth, False),
    ("matern52", smooth, True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--matches", type=int, default=8000)
    parser.add_argument("--iterations", type=int, default=40)
    given = parser.parse_args()
    for name, kernel, with_context in VARIANTS:
        table = read_matches(given.data / "tennis_atp", with_context)
        holdout = prepare(table, FitSettings(**SPLIT, max_train=given.matches))
        model, evidence = fit(holdout, kernel, given.iterations)
        print(f"{name:<32} context {with_context!s:<6} evidence {evidence:,.2f}")
        found = predict_held_out(holdout, model)
        long = table.context[CONTEXT].to_numpy()[holdout.split.test_rows] == 5
        for part, rows in (("all", np.ones_like(long)), ("best of five", long)):
            scores = found.scores(rows)
            values = ", ".join(f"{who} {row['nlp_nats']:.4f}" for who, row in scores.items())
            print(f"    {part:<13} {scores['model']['duels']:>6,} matches: {values}", flush=True)


def read_matches(folder: Path, with_context: bool) -> Duels:
    """Matches of the tour since 2015."""
    matches = pd.read_csv(folder / "duels.csv.gz")
    matches = matches[matches["level"].isin(TOUR) & (matches["date"] >= SINCE)]
    items = pd.read_csv(folder / "items.csv.gz")
    items = items[items["item_id"].isin({*matches["winner"], *matches["loser"]})]
    return read_duels(
        items,
        matches,
        ignore=["player_id"],
        never_features=["date"],
        context=[CONTEXT] if with_context else [],
    )


def fit(holdout: Holdout, kernel: Kernel, iterations: int) -> tuple[PreferenceGP, float]:
    """A model of the training matches, and its log evidence."""
    names = list(holdout.train.feature_names or ())
    context = [i for i, name in enumerate(names) if name == CONTEXT]
    features = [i for i in range(len(names)) if i not in context]
    model = PreferenceGP(
        holdout.train, kernel(features, context), inducing_variable=holdout.first_inputs()
    )
    return model, optimise(model, iterations).log_evidence


if __name__ == "__main__":
    main()
