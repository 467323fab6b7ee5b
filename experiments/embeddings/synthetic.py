"""Made items of 2 to 768 features: what `fit` takes by itself, a linear probit, and the truth.

    python experiments/embeddings/synthetic.py --widths 256,768 --seeds 0,1,2,3
    python experiments/embeddings/synthetic.py --widths 20,50 --ard
    python experiments/embeddings/synthetic.py --widths 256 --kernels --ard --steps 25

Items X = h B + 0.3 noise with 16 hidden directions, utilities tanh(1.5 h0) + h1 h2 / 2 + h3 / 2,
noise 0.7 a side; a fifth of the items is held out, and the duels between two of these are scored.
`truth` has the true utilities. A few hundred held-out duels say little, so that `expected` is the
mean over 60,000 pairs of held-out items of what a duel between them costs, by its true probability.
`--ard` adds a linear term with a variance for each standardised feature and a Matern 5/2 kernel
with a lengthscale for each, which `fit` takes up to 16 features.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pandas as pd
from scipy.stats import norm

import sparse_prefgp as spg

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
NOISE = 0.7
# Items and pairs drawn, by the least width.
SIZES = {768: (20_000, 100_000), 256: (5000, 25_000), 0: (2000, 10_000)}
KERNELS: tuple[dict[str, Any], ...] = (
    {"kernel": "linear"},
    {"kernel": "iso(matern52)"},
    {"kernel": "iso(matern52)", "approximation": "prior-power:0.5"},
    {"kernel": "projected(matern52, 4)"},
)


def drawn(width: int, seed: int) -> tuple[np.ndarray, ...]:
    """Features, utilities, which items are held out, and duels (winner, loser)."""
    items, pairs = next(size for least, size in SIZES.items() if width >= least)
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(16, width)) / 4.0
    hidden = rng.normal(size=(items, 16))
    x = hidden @ basis + 0.3 * rng.normal(size=(items, width))
    utility = np.tanh(1.5 * hidden[:, 0]) + 0.5 * hidden[:, 1] * hidden[:, 2] + 0.5 * hidden[:, 3]
    both = rng.integers(items, size=(pairs, 2))
    both = both[both[:, 0] != both[:, 1]]
    order = np.argsort(utility[both] + NOISE * rng.normal(size=both.shape), axis=1)
    held = rng.uniform(size=items) < 0.2
    return x, utility, held, np.take_along_axis(both, order[:, ::-1], axis=1)


def expected(utility: np.ndarray, held: np.ndarray) -> Callable[[Predict], float]:
    """The score of a function of the places of two lots of items, by the true probabilities."""
    pairs = np.random.default_rng(7).choice(np.flatnonzero(held), size=(60_000, 2))
    ahead, behind = pairs[pairs[:, 0] != pairs[:, 1]].T
    true = norm.cdf((utility[ahead] - utility[behind]) / (NOISE * np.sqrt(2.0)))

    def score(predict: Predict) -> float:
        p = predict(ahead, behind)
        return float(-np.mean(true * np.log(p) + (1.0 - true) * np.log1p(-p)))

    return score


def with_ard(
    x: np.ndarray,
    held: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    steps: int,
    score: Callable[[Predict], float],
) -> str:
    """Nats of the kernel with so many variances and lengthscales, and whether it began again."""
    x = (x - x[~held].mean(0)) / x[~held].std(0)
    width = x.shape[1]
    kernel = gpflow.kernels.Linear(variance=np.full(width, 1.0 / width))
    kernel += gpflow.kernels.Matern52(lengthscales=np.full(width, np.sqrt(width)))
    duels = spg.Duels(x, *train.T)
    z = spg.kmeans_inputs(duels.distinct_rows()[0], 128, np.random.default_rng(0))
    model = spg.PreferenceGP(duels, kernel, approximation=spg.VFE(), inducing_variable=z)
    report = spg.optimise(model, steps)

    def predict(ahead: np.ndarray, behind: np.ndarray) -> np.ndarray:
        return model.predict_duel(x[ahead], x[behind]).numpy()

    nats = -np.mean(np.log(predict(*test.T)))
    first = report.starts[0].log_evidence / len(train)
    again = f", {first:.4f} before it began again" if report.restarted else ""
    evidence = f"evidence {report.log_evidence / len(train):.4f} a duel{again}"
    return f"{nats:.4f}, expected {score(predict):.4f}, {evidence}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", default="256", help="numbers of features")
    parser.add_argument("--seeds", default="0", help="draws")
    parser.add_argument("--kernels", action="store_true", help="some kernels, not the choice")
    parser.add_argument("--ard", action="store_true", help="a variance and a lengthscale for each")
    parser.add_argument("--steps", type=int, default=100, help="of the optimiser at most")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for width in map(int, given.widths.split(",")):
        for seed in map(int, given.seeds.split(",")):
            one(width, seed, given)


def one(width: int, seed: int, given: argparse.Namespace) -> None:
    """A line for each fit to one draw."""
    x, utility, held, duels = drawn(width, seed)
    ends = held[duels]
    train, test = duels[~ends.any(1)], duels[ends.all(1)]
    ahead = utility[test[:, 0]] - utility[test[:, 1]]
    truth = -norm.logcdf(ahead / (NOISE * np.sqrt(2.0))).mean()
    print(f"{width} features, seed {seed}: {len(train):,} duels, {len(test):,} held out")
    score = expected(utility, held)
    print(
        f"  truth {truth:.4f}, expected "
        f"{score(lambda a, b: norm.cdf((utility[a] - utility[b]) / (NOISE * np.sqrt(2.0)))):.4f}",
        flush=True,
    )
    items = pd.DataFrame({"item_id": range(len(x))})
    if width > 64:
        items["vector"] = list(x.astype(np.float32))
    else:
        items = items.join(pd.DataFrame(x).add_prefix("x"))
    frame = pd.DataFrame(np.concatenate([train, test]), columns=["winner", "loser"])
    frame["held"] = np.repeat([0, 1], [len(train), len(test)])
    for k, chosen in enumerate(KERNELS if given.kernels else ({},)):
        begun, processor = time.perf_counter(), time.process_time()
        fitted = spg.fit(
            items, frame, split="given:held", inducing=128, max_iterations=given.steps, **chosen
        )
        fit = fitted.figures["fit"]
        if not k:
            print(f"  linear probit {fitted.scores['linear_probit']['nlp_nats']:.4f}")
        compared = fitted.figures.get("automatic", {"candidates": []})
        for one in compared["candidates"]:
            folds = "/".join(f"{nats:.4f}" for nats in one["fold_nlp_nats"])
            print(f"    {one['candidate']} {folds}, {one['status']}, {one['seconds']:.0f} s")
        rows = fitted.model.duels.transform.apply(items)

        def predict(ahead: np.ndarray, behind: np.ndarray) -> np.ndarray:
            return fitted.model.predict_duel(rows[ahead], rows[behind]).numpy()  # noqa: B023

        print(
            f"  {fit['kernel']}/{fit['approximation']} "
            f"{fitted.scores['model']['nlp_nats']:.4f}, expected {score(predict):.4f}, evidence "
            f"{fitted.report.log_evidence / len(train):.4f} a duel, "
            f"{time.perf_counter() - begun:.0f} s ({time.process_time() - processor:.0f} s of "
            f"processor time, {fitted.report.seconds:.0f} s the fit itself)",
            flush=True,
        )
    if given.ard:
        begun = time.perf_counter()
        found = with_ard(x, held, train, test, given.steps, score)
        print(f"  ARD {found}, {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
