"""Made-up duels with a known, smooth utility."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparse_prefgp.data.duels import Duels

FEATURES = 4
# Standard deviation of the utility and lengthscales of the process it is drawn from.
SPREAD = 3.0
LENGTHSCALES = (1.5, 2.0, 3.0, 4.0)
NOISE_VARIANCE = 0.5  # per side, so 2 sigma² = 1

# Items whose utilities are computed at once.
_CHUNK = 20_000

Utility = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Problem:
    """Training duels, and held-out duels between items of which none is in training."""

    duels: Duels
    winners: np.ndarray
    """(held-out duels, D) features."""
    losers: np.ndarray
    """(held-out duels, D) features."""


def random_utility(rng: np.random.Generator, smooth: bool = False, waves: int = 500) -> Utility:
    """A draw from a Matérn-5/2 process, by random Fourier features.

    :param smooth: from a squared-exponential process instead, which few inducing inputs explain.
    """
    frequencies = rng.standard_normal((FEATURES, waves)) / np.asarray(LENGTHSCALES)[:, None]
    if not smooth:
        # The spectral density of Matérn nu is a multivariate t with 2 nu degrees of freedom.
        frequencies *= np.sqrt(5.0 / rng.chisquare(5.0, waves))
    phases = rng.uniform(0.0, 2.0 * np.pi, waves)
    weights = rng.standard_normal(waves) * SPREAD * np.sqrt(2.0 / waves)

    def utility(x: np.ndarray) -> np.ndarray:
        found = np.empty(len(x))
        for start in range(0, len(x), _CHUNK):  # (n, waves) numbers are too many at once
            at = slice(start, start + _CHUNK)
            found[at] = np.cos(x[at] @ frequencies + phases) @ weights
        return found

    return utility


def make_problem(t: int, n: int, held_out: int, smooth: bool = False, seed: int = 0) -> Problem:
    """`t` distinct duels between `n` items, normal features.

    With n = 2t every item has one duel; with fewer items the pairs are drawn at random. `smooth` as
    for `random_utility`.
    """
    rng = np.random.default_rng(seed)
    utility = random_utility(rng, smooth)
    items = rng.standard_normal((n, FEATURES))
    if n == 2 * t:
        pairs = np.arange(n).reshape(t, 2)
    else:
        pairs = _random_pairs(t, n, rng)
    first, second = _decide(utility(items)[pairs], rng)
    rows = np.arange(t)
    duels = Duels(items, pairs[rows, first], pairs[rows, second])

    fresh = rng.standard_normal((held_out, 2, FEATURES))
    values = utility(fresh.reshape(-1, FEATURES)).reshape(held_out, 2)
    first, second = _decide(values, rng)
    rows = np.arange(held_out)
    return Problem(duels, fresh[rows, first], fresh[rows, second])


def write_duels(folder: Path, t: int, n: int, files: int = 8, seed: int = 0) -> None:
    """`t` duels between `n` items as Parquet files of ids in `duels/`, and `items.npy` next to it.

    One file at a time is in memory. Pairs are drawn with replacement.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, FEATURES))
    np.save(folder / "items.npy", items)
    values = random_utility(rng)(items)
    (folder / "duels").mkdir()
    ends = np.linspace(0, t, files + 1).astype(int)
    for number, size in enumerate(np.diff(ends)):
        first = rng.integers(n, size=size)
        pairs = np.stack([first, (first + rng.integers(1, n, size=size)) % n], 1)
        won, lost = _decide(values[pairs], rng)
        rows = np.arange(size)
        table = pd.DataFrame({"winner": pairs[rows, won], "loser": pairs[rows, lost]})
        table.to_parquet(folder / "duels" / f"{number}.parquet", index=False)


def _random_pairs(t: int, n: int, rng: np.random.Generator) -> np.ndarray:
    if t > n * (n - 1) // 2:
        raise ValueError(f"{n} items have fewer than {t} distinct pairs.")
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < t:
        low, high = np.sort(rng.integers(0, n, (2, t)), axis=0)
        keys = np.unique(np.concatenate([keys, (low * n + high)[low != high]]))
    keys = rng.permutation(keys)[:t]
    return np.stack(np.divmod(keys, n), 1)


def _decide(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Position, 0 or 1, of the winner and of the loser of each pair of utilities (t, 2)."""
    noisy = values + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(values.shape)
    winner = np.argmax(noisy, 1)
    return winner, 1 - winner
