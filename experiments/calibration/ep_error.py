"""How far exact EP's log evidence is from the truth, by noise and ties.

    python experiments/calibration/ep_error.py

Duels between few items, most drawn from the model and some with a tenth of them turned round; the
truth by importance sampling, which the smallest problems hold to another one in NumPy alone.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
SEEDS = 20
NOISES = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)  # sigma² per side, for a kernel variance of 1
SAMPLES = 10_000
# Noise of a difference over its mean prior variance: from here to the next.
RATIOS = (0.0, 0.03, 0.3, 1.0)
WEIGHED_UP_TO, ROUNDS, DRAWS = 10, 15, 100_000  # duels, and how utilities are drawn

Array = npt.NDArray[np.float64]


def problem(seed: int, noise: float, ties: bool) -> dict[str, Any] | None:
    """Items, covariance and outcomes, drawn with NumPy alone; None where no duel is tied."""
    rng = np.random.default_rng([seed, int(noise * 1e6), int(ties)])
    t = int(rng.choice([10, 30, 60]))
    n = max(4, int(t * rng.choice([0.25, 0.5, 1.0])))
    columns = int(rng.choice([1, 2, 4]))
    lengthscale = float(rng.choice([0.2, 0.5, 1.5])) * np.sqrt(columns)
    x = rng.uniform(0, 1, (n, columns)) * 2
    k = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(-1) / lengthscale**2)
    f = np.linalg.cholesky(k + 1e-10 * np.eye(n)) @ rng.normal(size=n)
    first = rng.integers(n, size=t)
    second = (first + rng.integers(1, n, size=t)) % n
    turned = rng.choice([0, 0, 0.1])
    v = f[first] - f[second] + np.sqrt(2 * noise) * rng.normal(size=t)
    v = np.where(rng.uniform(size=t) < turned, -v, v)
    margin, tied = None, None
    if ties:
        margin = float(np.quantile(np.abs(v), rng.choice([0.1, 0.3, 0.5]))) + 1e-6
        tied = np.abs(v) < margin
        if not tied.any():
            return None
    return {
        "items": x,
        "k": k,
        "lengthscale": lengthscale,
        "winners": np.where(v > 0, first, second),
        "losers": np.where(v > 0, second, first),
        "margin": margin,
        "ties": tied,
    }


def weighed(given: dict[str, Any], noise: float) -> tuple[float, float]:
    """Log evidence and its error by draws of the few utilities from a t distribution, moved round
    after round to where the weight is (Cappé et al. 2008)."""
    from scipy.special import log_ndtr, logsumexp
    from scipy.stats import multivariate_t

    rng, n = np.random.default_rng(0), len(given["items"])
    root = np.linalg.cholesky(given["k"] + 1e-10 * np.eye(n))
    sd, margin, ties = np.sqrt(2.0 * noise), given["margin"] or 0.0, given["ties"]

    def log_joint(w: Array) -> Array:
        f = w @ root.T
        ahead = f[:, given["winners"]] - f[:, given["losers"]]
        each = log_ndtr((ahead - margin) / sd)
        if ties is not None:
            near = np.abs(ahead[:, ties])  # by symmetry, so that both tails are small ones
            high, low = log_ndtr((margin - near) / sd), log_ndtr((-margin - near) / sd)
            each[:, ties] = high + np.log1p(-np.exp(low - high))
        return np.asarray(each.sum(1) - 0.5 * (w**2).sum(1) - 0.5 * n * np.log(2.0 * np.pi))

    centre, spread = np.zeros(n), np.eye(n)
    heat = 0.05  # of the likelihood at first, which is too narrow for draws from the prior
    for step in range(ROUNDS):
        heat = min(1.0, heat * 1.5) if step else heat
        proposal = multivariate_t(centre, spread, df=5, seed=rng)
        w = proposal.rvs(DRAWS)
        log_weights = log_joint(w) - proposal.logpdf(w)
        log_p = log_joint(w) * heat - proposal.logpdf(w)
        p = np.exp(log_p - logsumexp(log_p))
        centre = p @ w
        spread = (w - centre).T @ ((w - centre) * p[:, None]) + 1e-9 * np.eye(n)
    weights = np.exp(log_weights - log_weights.max())
    value = logsumexp(log_weights) - np.log(DRAWS)
    return float(value), float(weights.std() / weights.mean() / np.sqrt(DRAWS))


def measured(which: tuple[int, float, bool]) -> dict[str, Any] | None:
    import gpflow

    import sparse_prefgp as spg

    seed, noise, ties = which
    given = problem(*which)
    if given is None:
        return None
    t = len(given["winners"])
    model = spg.PreferenceGP(
        spg.Duels(given["items"], given["winners"], given["losers"], ties=given["ties"]),
        gpflow.kernels.SquaredExponential(lengthscales=given["lengthscale"]),
        likelihood=spg.Probit(noise, margin=given["margin"]),
        engine=spg.ParallelEP(tolerance=1e-6, max_sweeps=2000),
    )
    truth = spg.exact.importance_sampling(model, samples=SAMPLES, rng=np.random.default_rng(seed))
    prior = np.mean(2.0 - 2.0 * given["k"][given["winners"], given["losers"]])
    row = {
        "seed": seed,
        "noise": noise,
        "ties": ties,
        "duels": t,
        "items": len(given["items"]),
        "ratio": float(2.0 * noise / prior),
        "ep": model.log_evidence(),
        "converged": model.infer().converged,
        "truth": truth.log_evidence,
        "standard_error": truth.standard_error,
        "reliable": truth.reliable,
    }
    if t <= WEIGHED_UP_TO:
        row["weighed"], row["weighed_error"] = weighed(given, noise)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| noise over prior variance | ties | problems | largest error | 90 % below | half below | "
        "highest above the truth |",
        "|" + "---|" * 7,
    ]
    for (low, high), ties in product(zip(RATIOS, (*RATIOS[1:], np.inf), strict=True), (0, 1)):
        here = [
            (row["ep"] - row["truth"]) / row["duels"]
            for row in rows
            if row["converged"]
            and row["reliable"]
            and low <= row["ratio"] < high
            and row["ties"] == ties
        ]
        if here:
            size = np.abs(here)
            label = f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} and more"
            lines.append(
                f"| {label} | {'yes' if ties else 'no'} | {len(here)} | {size.max():.4f} | "
                f"{np.quantile(size, 0.9):.4f} | {np.median(size):.5f} | {max(here):+.4f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        rows = [
            row
            for row in pool.map(measured, product(range(SEEDS), NOISES, (False, True)))
            if row is not None
        ]
    (given.out / "ep_error.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (given.out / "ep_error.md").write_text(table(rows), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
