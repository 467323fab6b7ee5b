"""Are effects of pairs found where there are some, and none where there are none?

    python experiments/pair_effects/run.py OUT [--runs 20] [--first 0]

Each run draws 25 items, 700 duels and 2,000 held-out ones from the model: utilities from a Gaussian
process, an effect of every pair with variance 1, or none. Hyperparameters are learned with and
without `PairEffect`, inducing inputs at all items, so that VFE is exact. Printed are means over
runs and their standard errors.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.models.pair_posterior import pair_share
from sparse_prefgp.support.plain import as_json_text

ITEMS, DUELS, TEST = 25, 700, 2000
LENGTHSCALE, NOISE = 0.5, 0.5  # inputs are uniform in the unit square; sigma² per side
ITERATIONS = 60


def drawn(rng: np.random.Generator, variance: float) -> dict[str, Any]:
    """Items, and duels that are given or held out: (winner, loser)."""
    x = rng.uniform(size=(ITEMS, 2))
    covariance = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)(x).numpy()
    f = np.linalg.cholesky(covariance + 1e-10 * np.eye(ITEMS)) @ rng.standard_normal(ITEMS)
    g = np.triu(np.sqrt(variance) * rng.standard_normal((ITEMS, ITEMS)), 1)
    lead = f[:, None] - f + g - g.T
    t = DUELS + TEST
    first = rng.integers(ITEMS, size=t)
    second = (first + rng.integers(1, ITEMS, size=t)) % ITEMS
    won = lead[first, second] + np.sqrt(2.0 * NOISE) * rng.standard_normal(t) > 0.0
    sides = np.where(won, [first, second], [second, first])
    return {"items": x, "train": sides[:, :DUELS], "test": sides[:, DUELS:]}


def learned(data: dict[str, Any], pairs: bool) -> dict[str, float]:
    """What a model learns, and its nats a held-out duel."""
    kernel: Any = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)
    if pairs:
        kernel = kernel + spg.PairEffect(0.5)
    model = spg.PreferenceGP(
        spg.Duels(data["items"], *data["train"]),
        kernel,
        approximation=spg.VFE(),
        inducing_variable=data["items"],
        noise_variance=NOISE,
    )
    gpflow.set_trainable(model.inducing_variable, False)
    report = spg.optimise(model, ITERATIONS)
    nats = -float(np.mean(model.predict(Answers.between(*data["test"])).log_first))
    found = {"nats": nats, "log_evidence": report.log_evidence}
    if pairs:
        found["variance"] = float(model.kernel.kernels[1].variance.numpy())
        found["share"] = float(pair_share(model) or 0.0)
    return found


def one(seed: int) -> dict[str, Any]:
    """Both kinds of data, both models."""
    found: dict[str, Any] = {"seed": seed}
    for name, variance in (("circles", 1.0), ("none", 0.0)):
        data = drawn(np.random.default_rng([seed, int(variance)]), variance)
        found[name] = {"with": learned(data, True), "without": learned(data, False)}
    return found


def line(runs: list[dict[str, Any]], name: str) -> str:
    """What the runs of one kind of data have found."""

    def shown(values: list[float], digits: int) -> str:
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"

    both = [run[name] for run in runs]
    variance = [each["with"]["variance"] for each in both]
    nats = [[each[side]["nats"] for each in both] for side in ("with", "without")]
    gain = [b - a for a, b in zip(*nats, strict=True)]
    evidence = [each["with"]["log_evidence"] - each["without"]["log_evidence"] for each in both]
    low, high = min(variance), max(variance)
    return (
        f"{name}: variance {shown(variance, 2)} ({low:.2f} to {high:.2f}), share "
        f"{shown([each['with']['share'] for each in both], 2)}; held out {shown(nats[0], 4)} nats "
        f"for {shown(nats[1], 4)} without, gain {shown(gain, 4)}; evidence {shown(evidence, 1)} "
        "more"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    for seed in range(options.first, options.first + options.runs):
        runs.append(one(seed))
        print(json.dumps(runs[-1]), flush=True)
        options.out.write_text(as_json_text({"runs": runs}), encoding="utf-8")
    for name in ("circles", "none"):
        print(line(runs, name))


if __name__ == "__main__":
    main()
