"""Conditional logit by loops over sets (McFadden 1974), minimised by SciPy."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
# Features of the alternatives (k, D), the place of the chosen one, and 1, or -1 for the worst.
Choice = tuple[Array, int, float]


def choices_of(kind: str, features: Array, ordered: int = 0) -> list[Choice]:
    """The choices that make an answer about alternatives that are given best first, (k, D)."""
    found: list[Choice] = []
    left = [*range(len(features))]
    if kind in ("best_worst", "best_worst_at_once"):
        found.append((features, 0, 1.0))
        rest = features[1:]
        return [*found, (rest, len(rest) - 1, -1.0)]
    steps = {"win": 1, "choice": 1, "ranking": len(left) - 1, "top": ordered}[kind]
    for _ in range(steps):
        found.append((features[left], 0, 1.0))
        left.pop(0)
    return found


def log_likelihood(weights: Array, choices: list[Choice]) -> float:
    """In nats."""
    total = 0.0
    for features, chosen, sign in choices:
        utility = sign * features @ weights
        total += utility[chosen] - np.log(np.exp(utility).sum())
    return float(total)


def slope(weights: Array, choices: list[Choice]) -> Array:
    """Of the log-likelihood, (D,)."""
    total = np.zeros(len(weights))
    for features, chosen, sign in choices:
        share = np.exp(sign * features @ weights)
        share /= share.sum()
        total += sign * (features[chosen] - share @ features)
    return total


def information(weights: Array, choices: list[Choice]) -> Array:
    """Minus the Hessian of the log-likelihood, (D, D)."""
    total = np.zeros((len(weights), len(weights)))
    for features, _, sign in choices:
        share = np.exp(sign * features @ weights)
        share /= share.sum()
        mean = share @ features
        for p, row in zip(share, features, strict=True):
            total += p * np.outer(row - mean, row - mean)
    return total


def fit(choices: list[Choice], penalties: Array) -> Array:
    """Weights that maximise the log-likelihood less ½ sum_j penalties_j weights_j²."""
    found = minimize(
        lambda w: 0.5 * penalties @ w**2 - log_likelihood(w, choices),
        np.zeros(len(penalties)),
        jac=lambda w: penalties * w - slope(w, choices),
        hess=lambda w: np.diag(penalties) + information(w, choices),
        method="trust-exact",
        options={"gtol": 1e-11},
    )
    return np.asarray(found.x)
