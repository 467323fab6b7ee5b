"""Do 90 % intervals of a person's utility differences hold the truth, of known and of new people?

    python experiments/people/simulated.py
    python experiments/people/simulated.py --people 80 [--true-variances]

Each run draws 30 items with two features, what the people share and what each of them and of 15 new
people prefers besides, and 15 noisy duels of each. Variances are learned from the duels of known
people as a user would (priors, two starts, L-BFGS), or are those that the draw was made with; new
people are met after 0 and 10 duels. Asked are 40 differences of each person between random items.
Errors are standard errors over runs.
"""

from __future__ import annotations

import argparse

import gpflow
import numpy as np
from scipy.special import ndtri

import sparse_prefgp as spg

ITEMS, NEW, DUELS, ASKED = 30, 15, 15, 40
MET = (0, 10)
SHARED = (1.5, 1.0, 0.3)  # variance, lengthscale, item effect
OWN = (2.0, 1.2, 0.5)


def kernel(variance: float, lengthscale: float, effect: float) -> gpflow.kernels.Kernel:
    squared = gpflow.kernels.SquaredExponential(variance, lengthscale)
    gpflow.set_trainable(squared.lengthscales, False)
    return squared + spg.ItemEffect(effect)


def drawn(x: np.ndarray, size: int, of: tuple[float, float, float], rng: np.random.Generator):
    """Utilities (size, n) from a prior."""
    variance, lengthscale, effect = of
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    covariance = variance * np.exp(-0.5 * squared / lengthscale**2) + effect * np.eye(len(x))
    return rng.standard_normal((size, len(x))) @ np.linalg.cholesky(covariance).T


def pairs(rng: np.random.Generator, size: int) -> np.ndarray:
    """(size, 2) different items."""
    return rng.permuted(np.tile(np.arange(ITEMS), (size, 1)), axis=1)[:, :2]


def voted(utility: np.ndarray, rng: np.random.Generator, number: int) -> np.ndarray:
    """Noisy duels (number, 2), winner first, at 2 sigma² = 1."""
    ends = pairs(rng, number)
    ahead = utility[ends[:, 0]] - utility[ends[:, 1]] + rng.standard_normal(number) > 0.0
    return np.where(ahead[:, None], ends, ends[:, ::-1])


def one_run(seed: int, known: int, learned: bool) -> dict[str, float]:
    """Shares of the intervals that hold the truth, and the variances of a taste."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ITEMS, 2))
    utility = drawn(x, 1, SHARED, rng) + drawn(x, known + NEW, OWN, rng)
    votes = [voted(each, rng, DUELS) for each in utility]
    who = np.repeat(np.arange(known), DUELS)
    duels = spg.Duels(x, *np.concatenate(votes[:known]).T, people=who)
    model = spg.PreferenceGP(
        duels, kernel(*SHARED), terms=[spg.Taste(kernel(*OWN))], approximation=spg.Exact()
    )
    if learned:
        spg.default_priors(model)
        spg.begin_tastes(model)
        spg.optimise(model)
    inputs, half = model.inputs.of_items(), float(ndtri(0.95))

    def held(of: spg.PreferenceGP, truth: np.ndarray, people: np.ndarray | None) -> float:
        ends = pairs(rng, ASKED * len(truth))
        row = np.repeat(np.arange(len(truth)), ASKED)
        who = None if people is None else people[row]
        mean, variance = of.predict_difference(inputs[ends[:, 0]], inputs[ends[:, 1]], people=who)
        wanted = truth[row, ends[:, 0]] - truth[row, ends[:, 1]]
        return float(np.mean(np.abs(wanted - mean) < half * np.sqrt(variance)))

    found = {"known": held(model, utility[:known], np.arange(known))}
    for number in MET:
        each = []
        for truth, said in zip(utility[known:], votes[known:], strict=True):
            of = model if not number else model.meet(spg.Duels(x, *said[:number].T))
            each.append(held(of, truth[None], None))
        found[f"new, {number} duels"] = float(np.mean(each))
    variances = [float(term.variance.numpy()) for term in model.terms.taste.kernels]
    return {**found, "variance": variances[0], "effect": variances[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--people", type=int, default=400, help="known ones")
    parser.add_argument("--true-variances", action="store_true", help="learn nothing")
    given = parser.parse_args()
    runs = [one_run(seed, given.people, not given.true_variances) for seed in range(given.runs)]
    for name in runs[0]:
        shares = np.array([run[name] for run in runs])
        error = shares.std(ddof=1) / np.sqrt(len(shares))
        print(f"{name:14} {shares.mean():.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
