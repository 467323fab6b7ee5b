"""Do 90 % bands hold the difference of two utilities, at dates gone by, at the end, and later?

    python experiments/time/simulated.py [--runs 12] [--true-values]

Each run draws 30 items whose utilities are Wiener processes over ten years (variance 1, rate .15 a
year, noise .71 a side) and 3,000 duels at random days between items that are there: five enter
late, five leave early. Values are learned on slices of a quarter, or those of the draw. Asked are
400 differences between random items at dates from the second to the ninth year, at the last duel,
and one and three years later. Errors are standard errors over runs.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtri

import sparse_prefgp as spg

ITEMS, DUELS, ASKED, YEAR = 30, 3000, 400, 365.25
DAYS = int(10 * YEAR)
VARIANCE, RATE = 1.0, 0.15
LATER = (1, 3)


def drawn(rng: np.random.Generator) -> np.ndarray:
    """Utilities (ITEMS, days), beyond the last duel too."""
    steps = rng.normal(size=(ITEMS, DAYS + 4 * int(YEAR))) * np.sqrt(RATE / YEAR)
    steps[:, 0] = rng.normal(size=ITEMS) * np.sqrt(VARIANCE)
    return np.cumsum(steps, 1)


def one_run(seed: int, learned: bool, priors: bool) -> dict[str, float]:
    """Shares of the bands that hold the truth, and the values."""
    rng = np.random.default_rng(seed)
    utility = drawn(rng)
    enters, leaves = np.zeros(ITEMS), np.full(ITEMS, DAYS)
    enters[:5], leaves[5:10] = rng.uniform(0.2, 0.6, 5) * DAYS, rng.uniform(0.4, 0.8, 5) * DAYS
    days = np.sort(rng.integers(DAYS, size=DUELS))
    there = [np.flatnonzero((enters <= day) & (day <= leaves)) for day in days]
    ends = np.array([rng.choice(some, 2, replace=False) for some in there])
    ahead = utility[ends[:, 0], days] - utility[ends[:, 1], days] + rng.normal(size=DUELS) > 0.0
    winners, losers = np.where(ahead[:, None], ends, ends[:, ::-1]).T
    duels = spg.Duels(np.empty((ITEMS, 0)), winners, losers, times=days)
    term = spg.ItemInTime(spg.markov.Wiener(VARIANCE, RATE), slices="quarter")
    model = spg.PreferenceGP(duels, term, approximation=spg.Exact())
    if priors:
        spg.default_priors(model)
    if learned:
        spg.optimise(model)
    model = model.in_time.with_slices("month")
    half = float(ndtri(0.95))
    np.minimum.at(begins := np.full(ITEMS, DAYS), ends, days[:, None])  # where the kernel does

    def held(dates: np.ndarray) -> float:
        pairs, at = np.empty((ASKED, 2), int), dates[rng.integers(len(dates), size=ASKED)]
        for i, day in enumerate(at):
            some = np.flatnonzero((begins <= day) & (min(day, DAYS) <= leaves))
            pairs[i] = rng.choice(some, 2, replace=False)
        mean, variance = model.predict_difference(
            *(model.inputs.of_items(side) for side in pairs.T), at=at.astype(float)
        )
        truth = utility[pairs[:, 0], at] - utility[pairs[:, 1], at]
        return float(np.mean(np.abs(truth - mean) < half * np.sqrt(variance)))

    found = {"past": held((np.arange(2, 10) * YEAR).astype(int)), "present": held(days[-1:])}
    for years in LATER:
        found[f"{years} years later"] = held(days[-1:] + int(years * YEAR))
    kernel = model.kernel.kernel
    values = {"variance": kernel.variance, "rate": kernel.rate}
    return {**found, **{name: float(value.numpy()) for name, value in values.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--true-values", action="store_true", help="learn nothing")
    parser.add_argument("--priors", default="weak", choices=["weak", "none"])
    given = parser.parse_args()
    learns = not given.true_values
    runs = [one_run(seed, learns, learns and given.priors == "weak") for seed in range(given.runs)]
    for name in runs[0]:
        shares = np.array([run[name] for run in runs])
        error = shares.std(ddof=1) / np.sqrt(len(shares))
        print(f"{name:14} {shares.mean():.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
