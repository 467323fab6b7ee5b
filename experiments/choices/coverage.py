"""Do intervals hold the truth where choices and rankings are one event, and where they are duels?

    python experiments/choices/coverage.py OUT [--runs 100] [--first 0]

Each run draws 60 items in the unit square, utilities from a Gaussian process (squared exponential,
lengthscale 0.5, variance 1) and answers with noise of variance 0.5 for each alternative of a look:
300 choices of 4, and 100 rankings of 5. The variance of the kernel is learned with a weak prior
and integrated out; all 60 items are inducing inputs, so that nothing is approximated but by
expectation propagation. Intervals of 90 % are of utilities less their mean over the items.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, RANKING, Answers
from sparse_prefgp.support.plain import as_json_text

ITEMS, LENGTHSCALE, NOISE, Z90 = 60, 0.5, 0.5, 1.6448536269514722
KINDS = {"300 choices of 4": (CHOICE, 300, 4), "100 rankings of 5": (RANKING, 100, 5)}
SETS, DUELS = "sets", "as duels"
JITTER = 1e-6  # inducing inputs are the items: K + this on its diagonal is what is factorised


def simulated(rng: np.random.Generator, kind: int, number: int, size: int) -> dict[str, Any]:
    """Items, true utilities, and the alternatives of each answer, best first."""
    x = rng.uniform(size=(ITEMS, 2))
    covariance = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)(x).numpy()
    f = np.linalg.cholesky(covariance + JITTER * np.eye(ITEMS)) @ rng.standard_normal(ITEMS)
    shown = np.stack([rng.permutation(ITEMS)[:size] for _ in range(number)])
    noisy = f[shown] + np.sqrt(NOISE) * rng.standard_normal(shown.shape)
    order = np.take_along_axis(shown, np.argsort(-noisy, 1), 1)
    return {"x": x, "f": f, "order": order, "kind": kind}


def duels_of(data: dict[str, Any], reading: str) -> spg.Duels:
    """The answers as one event each, or as all duels that they imply."""
    order, kind = data["order"], data["kind"]
    number, size = order.shape
    if reading == SETS:
        events = Answers(
            order.reshape(-1),
            np.arange(number + 1) * size,
            kind=np.full(number, kind, np.int8),
        )
        return spg.Duels.from_events(data["x"], events)
    pairs = [(0, j) for j in range(1, size)]
    if kind == RANKING:
        pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    better, worse = np.array(pairs).T
    return spg.Duels(data["x"], order[:, better].reshape(-1), order[:, worse].reshape(-1))


def judged(data: dict[str, Any], reading: str) -> dict[str, float]:
    """The learned variance, and whether intervals hold the truth."""
    model = spg.PreferenceGP(
        duels_of(data, reading),
        gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE),
        approximation=spg.Exact(),
        noise_variance=NOISE,
    )
    gpflow.set_trainable(model.kernel.lengthscales, False)
    spg.default_priors(model)
    spg.optimise(model)
    variance = float(model.kernel.variance.numpy())
    model = spg.integrate(model)
    mean, covariance = model.predict_f(data["x"], full_cov=True)
    centre = np.eye(ITEMS) - 1.0 / ITEMS
    off = centre @ (mean.numpy()[:, 0] - data["f"])
    sd = np.sqrt(np.diag(centre @ covariance.numpy()[0] @ centre))
    return {
        "inside": float(np.mean(np.abs(off) < Z90 * sd)),
        "rmse": float(np.sqrt(np.mean(off**2))),
        "sd": float(np.sqrt(np.mean(sd**2))),
        "variance": variance,
        "converged": float(model.infer().converged),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for run in range(given.first, given.first + given.runs):
        for name, kind in KINDS.items():
            data = simulated(np.random.default_rng(run), *kind)
            for reading in (SETS, DUELS):
                started = time.perf_counter()
                found = judged(data, reading)
                found["seconds"] = time.perf_counter() - started
                runs.setdefault(name, {}).setdefault(reading, []).append(found)
        done = run - given.first + 1
        if done % 10 == 0 or done == given.runs:
            report(runs, given.out)


def report(runs: dict[str, dict[str, list[dict[str, float]]]], out: Path) -> None:
    """Print means with their standard errors over runs, and write them."""
    figures: dict[str, Any] = {}
    for name, readings in runs.items():
        for reading, every in readings.items():
            means = {}
            for key in every[0]:
                values = np.array([one[key] for one in every])
                error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                means[key] = (float(values.mean()), float(error))
            figures.setdefault(name, {})[reading] = {"runs": len(every), **means}
            inside, rmse, sd = (means[key] for key in ("inside", "rmse", "sd"))
            print(
                f"{name}, {reading}: {len(every)} runs, 90 % intervals hold {inside[0]:.3f} ± "
                f"{inside[1]:.3f}, rmse {rmse[0]:.3f}, sd {sd[0]:.3f}, variance "
                f"{means['variance'][0]:.2f}",
                flush=True,
            )
    out.write_text(as_json_text(figures), encoding="utf-8")
    json.loads(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
