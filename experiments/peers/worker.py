"""Other people's implementations on one problem, in an environment of their own.

    python worker.py METHOD problem.npz answer.json

The problem has items (n, D), winners and losers (t,), new_first and new_second (N, D) or, for
methods without features, new_winners and new_losers (N,) among the items. The answer has the mean
negative log predictive of the new duels in nats, their accuracy, and seconds of the fit.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_expit, log_ndtr

Problem = dict[str, np.ndarray]
# What predicts the new duels, log P(observed) (N,), and what to know of the fit.
Fitted = tuple[Callable[[], np.ndarray], str]

ALPHAS = (0.03, 0.1, 0.3, 1.0)
CHUNK = 250


def botorch(problem: Problem) -> Fitted:
    """`PairwiseGP`: Laplace over all items, everything by L-BFGS as `fit_gpytorch_mll` does it."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    # Its priors are for features within the unit cube.
    low, high = problem["items"].min(0), problem["items"].max(0)

    def scaled(x: np.ndarray) -> torch.Tensor:
        return torch.tensor((x - low) / (high - low), dtype=torch.double)

    pairs = np.stack([problem["winners"], problem["losers"]], 1)
    model = PairwiseGP(scaled(problem["items"]), torch.tensor(pairs, dtype=torch.long))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    new = np.stack([problem["new_first"], problem["new_second"]], 1)

    def predict() -> np.ndarray:
        found = []
        with torch.no_grad():
            for i in range(0, len(new), CHUNK):
                posterior = model.posterior(scaled(new[i : i + CHUNK]))
                mean = posterior.mean[..., 0].numpy()
                k = posterior.distribution.covariance_matrix.numpy()
                variance = k[:, 0, 0] + k[:, 1, 1] - 2.0 * k[:, 0, 1]
                # Its probit likelihood has noise of variance 1 on either side.
                found.append(log_ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance + 2.0)))
        return np.concatenate(found)

    return predict, "default kernel and priors, features scaled to the unit cube"


def bradley_terry(problem: Problem) -> Fitted:
    """A utility for each item, by iterative Luce spectral ranking."""
    import choix

    n = len(problem["items"])

    def fitted(pairs: list[tuple[int, int]], alpha: float) -> np.ndarray:
        return choix.ilsr_pairwise(n, pairs, alpha=alpha)

    def scored(utility: np.ndarray, w: np.ndarray, loser: np.ndarray) -> np.ndarray:
        return log_expit(utility[w] - utility[loser])

    return _with_alpha(problem, fitted, scored)


def choix_ep(problem: Problem) -> Fitted:
    """A normal over the utilities of all items by EP, probit."""
    import choix

    n = len(problem["items"])

    def fitted(pairs: list[tuple[int, int]], alpha: float) -> tuple[np.ndarray, np.ndarray]:
        return choix.ep_pairwise(n, pairs, alpha, model="probit", max_iter=200)

    def scored(
        state: tuple[np.ndarray, np.ndarray], w: np.ndarray, loser: np.ndarray
    ) -> np.ndarray:
        mean, k = state
        variance = k[w, w] + k[loser, loser] - 2.0 * k[w, loser]
        return log_ndtr((mean[w] - mean[loser]) / np.sqrt(variance + 1.0))

    return _with_alpha(problem, fitted, scored)


def _with_alpha(problem: Problem, fitted: Callable[..., Any], scored: Callable[..., Any]) -> Fitted:
    """Regularisation by a fifth of the training duels, then everything."""
    w, loser = problem["winners"], problem["losers"]
    kept = np.random.default_rng(0).permutation(len(w))
    valid, train = kept[: len(w) // 5], kept[len(w) // 5 :]

    def pairs(rows: np.ndarray) -> list[tuple[int, int]]:
        return list(zip(w[rows].tolist(), loser[rows].tolist(), strict=True))

    scores = {a: scored(fitted(pairs(train), a), w[valid], loser[valid]).mean() for a in ALPHAS}
    best = max(scores, key=scores.get)
    state = fitted(pairs(kept), best)
    new = problem["new_winners"], problem["new_losers"]
    return lambda: scored(
        state, *new
    ), f"alpha {best:g} of {', '.join(f'{a:g}' for a in ALPHAS)} by a fifth held out"


METHODS = {"botorch": botorch, "bradley-terry": bradley_terry, "choix-ep": choix_ep}


def main() -> None:
    method, source, target = sys.argv[1:]
    problem = dict(np.load(source))
    # What is imported is not timed.
    if method == "botorch":
        import botorch as _
    else:
        import choix as _  # noqa: F401
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        started = time.perf_counter()
        predict, note = METHODS[method](problem)
        seconds = time.perf_counter() - started
        log_p = predict()
        predict_seconds = time.perf_counter() - started - seconds
    package = "botorch" if method == "botorch" else "choix"
    answer = {
        "versions": {package: version(package)},
        "nats": float(-log_p.mean()),
        "accuracy": float(np.mean(log_p > np.log(0.5))),
        "seconds": seconds,
        "predict_seconds": predict_seconds,
        "note": note,
        "warnings": sorted({str(x.message).splitlines()[0] for x in told})[:5],
    }
    Path(target).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
