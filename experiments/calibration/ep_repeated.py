"""How far EP's log evidence is from the truth where duels repeat one another.

    python experiments/calibration/ep_repeated.py

One duel k times, next to lost or tied ones of the same two items, and three items of which the
duels are strongly correlated: EP and the truth by sums over a grid, both in NumPy and SciPy alone.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr
from scipy.stats import norm

HERE = Path(__file__).resolve().parent
# Noise of a difference over its prior variance.
RATIOS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COPIES = (1, 2, 3, 4, 5, 6, 8, 12, 20)
OTHERS = (1, 3)
MARGINS = (0.0, 0.3, 1.0, 3.0)  # in prior standard deviations
CORRELATIONS = (-0.9, 0.0, 0.9, 0.99)
SWEEPS = 3000

Array = npt.NDArray[np.float64]
Limits = tuple[float, float]


def limits_of(outcome: str, margin: float) -> Limits:
    """Of the difference and its noise: won, lost or tied."""
    return {
        "W": (margin, np.inf),
        "L": (-np.inf, -margin),
        "T": (-margin, margin),
    }[outcome]


def log_mass(mean: Array, sd: float, limits: Limits) -> Array:
    """Of a normal between two limits, in the tail on its own side."""
    low, high = ((x - mean) / sd for x in limits)
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    above, below = log_ndtr(high), log_ndtr(low)
    return np.asarray(above + np.log1p(-np.exp(below - above)))


def tilted(mean: float, variance: float, limits: Limits) -> tuple[float, float, float]:
    """Log mass of a normal between limits, and its two derivatives in the mean."""
    sd = np.sqrt(variance)
    value = float(log_mass(np.array(mean), sd, limits))
    ends = [(x - mean) / sd for x in limits]
    density = [np.exp(norm.logpdf(x) - value) for x in ends]
    slope = (density[0] - density[1]) / sd
    moments = [0.0 if np.isinf(x) else x * d for x, d in zip(ends, density, strict=True)]
    return value, slope, (moments[0] - moments[1]) / variance - slope**2


def ep(prior: Array, directions: Array, counts: Array, limits: list[Limits], noise: float) -> float:
    """EP's log evidence of duels a_i' u + noise within limits, each so many times, u ~ N(0, prior).

    NaN where it does not settle.
    """
    precision, n = np.linalg.inv(prior), len(directions)
    nu, tau = np.zeros(n), np.zeros(n)

    def cavity(i: int) -> tuple[float, float, float, float, float]:
        s = np.linalg.inv(precision + (directions.T * (counts * tau)) @ directions)
        v = directions[i] @ s @ directions[i]
        m = directions[i] @ s @ (directions.T @ (counts * nu))
        left = 1.0 - tau[i] * v
        mean, variance = (m - nu[i] * v) / left, v / left
        return mean, variance, *tilted(mean, variance + noise, limits[i])

    for _ in range(SWEEPS):
        before = tau.copy()
        for i in range(n):
            mean, variance, _, slope, curvature = cavity(i)
            step = max(1.0 / counts[i], 0.2)
            scale = 1.0 + variance * curvature
            tau[i] += step * (-curvature / scale - tau[i])
            nu[i] += step * ((slope - mean * curvature) / scale - nu[i])
        if np.max(np.abs(tau - before)) < 1e-11 * max(1.0, np.max(np.abs(tau))):
            break
    else:
        return float("nan")
    total = 0.0
    for i in range(n):
        mean, variance, value, _, _ = cavity(i)
        left = 1.0 + variance * tau[i]
        exponent = mean**2 * tau[i] - 2.0 * mean * nu[i] - variance * nu[i] ** 2
        total += counts[i] * (value + 0.5 * np.log(left) + 0.5 * exponent / left)
    gram = (directions.T * (counts * tau)) @ directions
    shift = directions.T @ (counts * nu)
    total -= 0.5 * np.linalg.slogdet(np.eye(len(prior)) + prior @ gram)[1]
    return float(total + 0.5 * shift @ np.linalg.solve(precision + gram, shift))


def truth(
    prior: Array, directions: Array, counts: Array, limits: list[Limits], noise: float
) -> float:
    """The log evidence by a sum over a grid of one or two dimensions."""
    sd = np.sqrt(noise)
    if len(prior) == 1:  # finer around every limit
        fine = sd * np.linspace(-9, 9, 2001)
        ends = [end for pair in limits for end in pair if np.isfinite(end)]
        z = np.unique(np.concatenate([np.linspace(-9, 9, 4001), *(fine + end for end in ends)]))
        z, cell = z[:, None], np.gradient(z)
    else:
        side = np.linspace(-7, 7, 301)
        z = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
        cell = np.full(len(z), (side[1] - side[0]) ** 2)
    value = norm.logpdf(z).sum(1) + np.log(cell)
    ahead = z @ np.linalg.cholesky(prior).T @ directions.T
    for i, pair in enumerate(limits):
        value = value + counts[i] * log_mass(ahead[:, i], sd, pair)
    return float(np.logaddexp.reduce(value))


def error(
    prior: Array, directions: Array, counts: Array, limits: list[Limits], noise: float
) -> float:
    """EP's log evidence less the truth, nats a duel."""
    given = prior, directions, counts, limits, noise
    return (ep(*given) - truth(*given)) / counts.sum()


def same_pair(ratio: float) -> list[tuple[str, float]]:
    """One pair of items: k times won, or tied, and some lost or tied next to them."""
    one, found = np.eye(1), []
    for k, margin in product(COPIES, MARGINS):
        alone = [("W", k)] + ([("T", k)] if margin else [])
        sets = [[first] for first in alone]
        sets += [[("W", k), (o, j)] for o in ("LT" if margin else "L") for j in OTHERS]
        for outcomes in sets:
            counts = np.array([float(count) for _, count in outcomes])
            limits = [limits_of(o, margin) for o, _ in outcomes]
            off = error(one, np.ones((len(counts), 1)), counts, limits, ratio)
            name = " ".join(f"{count}{o}" for o, count in outcomes)
            found.append((f"{name}, margin {margin:g}", off))
    return found


def three_items(ratio: float) -> list[tuple[str, float]]:
    """Two or three duels among three items, in one or three copies."""
    found = []
    for rho, k, margin in product(CORRELATIONS, (1, 3), (0.0, 0.3)):
        prior = np.array([[1.0, rho], [rho, 1.0]])
        for third in (0, 1, -1):
            directions = np.array([[1.0, 0.0], [0.0, 1.0], [third, third]])[: 2 + abs(third)]
            for outcomes in product("WT" if margin else "W", repeat=len(directions)):
                limits = [limits_of(o, margin) for o in outcomes]
                # Ratios are of the average prior variance.
                noise = ratio * float(np.mean(np.diag(directions @ prior @ directions.T)))
                counts = np.full(len(directions), float(k))
                off = error(prior, directions, counts, limits, noise)
                signs = f"{third:+d} sum, " if third else ""
                text = f"{k} times {''.join(outcomes)}, {signs}correlation {rho:g}"
                found.append((f"{text}, margin {margin:g}", off))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    lines = [
        "| noise over prior variance | problems | largest error | of | highest above the truth "
        "| largest of three items |",
        "|" + "---|" * 6,
    ]
    for ratio in RATIOS:
        pair = [x for x in same_pair(ratio) if np.isfinite(x[1])]
        # A grid of two dimensions does not see less noise than that.
        three = [x for x in three_items(ratio) if np.isfinite(x[1])] if ratio >= 0.01 else []
        name, worst = max(pair + three, key=lambda x: abs(x[1]))
        above = max(off for _, off in pair + three)
        others = f"{max(abs(off) for _, off in three):.5f}" if three else "–"
        lines.append(
            f"| {ratio:g} | {len(pair) + len(three)} | {abs(worst):.5f} | {name} | {above:.5f} "
            f"| {others} |"
        )
        print(lines[-1], flush=True)
    (given.out / "ep_repeated.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
