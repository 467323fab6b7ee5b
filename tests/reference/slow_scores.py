"""The cross-fitted score of words with dense matrices: counted by hand, and solved by Newton."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
from scipy import stats

from sparse_prefgp.support.arrays import FloatArray, IntArray


def slow_columns(texts: Sequence[str]) -> FloatArray:
    """(n, p) tf-idf of words and pairs of words, then of three to five characters within words."""
    words, parts = [], []
    for text in texts:
        found = [word for word in re.findall(r"\w+", text.lower()) if len(word) > 1]
        words.append(found + [f"{a} {b}" for a, b in itertools.pairwise(found)])
        parts.append([part for token in text.lower().split() for part in _parts(f" {token} ")])
    return np.concatenate([_weights(words, 2), _weights(parts, 3)], axis=1)


def _parts(word: str) -> list[str]:
    """Of a word shorter than three to five characters, itself once."""
    found = []
    for size in (3, 4, 5):
        found += [word[i : i + size] for i in range(max(len(word) - size, 0) + 1)]
        if len(word) <= size:
            break
    return found


def _weights(terms: Sequence[Sequence[str]], fewest: int) -> FloatArray:
    """(n, p): 1 + log of the number, times the rarity, in rows of length 1."""
    n, every = len(terms), sorted({term for found in terms for term in found})
    count = np.array([[found.count(term) for term in every] for found in terms], dtype=float)
    spread = (count > 0).sum(0)
    count, spread = count[:, spread >= fewest], spread[spread >= fewest]
    weights = np.where(count > 0, 1.0 + np.log(np.maximum(count, 1.0)), 0.0)
    weights *= np.log((1.0 + n) / (1.0 + spread)) + 1.0
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(length > 0.0, length, 1.0)


def slow_probit(differences: FloatArray, ridge: float) -> FloatArray:
    """Weights w with the least -sum log Phi(differences @ w) + ridge |w|²/2, by Newton."""
    w = np.zeros(differences.shape[1])
    for _ in range(9):
        z = differences @ w
        ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
        gradient = ridge * w - differences.T @ ratio
        curvature = np.diag(ratio * (ratio + z))
        hessian = ridge * np.eye(len(w)) + differences.T @ curvature @ differences
        w = w - np.linalg.solve(hessian, gradient)
    return w


def slow_scores(
    columns: FloatArray, sides: IntArray, fold: IntArray, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """(n,) of each text by the weights of its fold, which saw none of its duels, and their mean.

    :param sides: (t, 2) winner and loser of each duel.
    :param fold: (n,) of each text.
    """
    scores, every = np.zeros(len(columns)), []
    for k in range(fold.max() + 1):
        kept = [(a, b) for a, b in sides if fold[a] != k and fold[b] != k]
        differences = np.array([columns[a] - columns[b] for a, b in kept])
        w = slow_probit(differences, ridge * len(kept) / len(sides))
        every.append(w)
        for i in range(len(columns)):
            if fold[i] == k:
                scores[i] = columns[i] @ w
    return scores, np.mean(every, axis=0)
