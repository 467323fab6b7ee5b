"""Where the directions of a `Projected` kernel start."""

from __future__ import annotations

import numpy as np

from sparse_prefgp.analysis.rivals import conditional_logit, decided, probit_of
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.randomness import generator

# So many duels tell the direction, and so many items the distances.
_DUELS, _ITEMS = 20_000, 2_000
# Widths of the prior of its weights: that of all directions together need not be exact.
_RIDGES = tuple(width**-2 for width in (0.03, 0.1, 0.3, 1.0))
# A direction along which items vary by less than this share of the first is rounding.
_LEAST = 1e-9


def initial_projection(
    duels: Duels, directions: int, *, rng: np.random.Generator | None = None
) -> FloatArray:
    """W for `Projected`: the direction of a linear probit, then those along which items vary most.

    Each direction is scaled so that items have unit variance along it, and all together so that
    the median distance between items is 1, the lengthscale of the kernel that sees them.

    :param duels: training duels, whose features (n, D) are used as they are. Of more than 20,000
        some at random tell the direction; of answers about sets a conditional logit does.
    :param directions: q, at most as many as the items have.
    :param rng: draws duels, folds and pairs of items.
    :return: (D, q).
    :raises ValueError: fewer directions than 1, or more than items vary along.
    """
    rng = generator(rng)
    rows, _ = duels.distinct_rows()
    centred = rows - rows.mean(0)
    weights = _weights(duels, rng)
    length = float(np.linalg.norm(weights))
    found = [weights / length] if length > 0.0 else []
    left = centred - np.outer(centred @ found[0], found[0]) if found else centred
    values, vectors = np.linalg.eigh(left.T @ left)
    several = values[::-1] > _LEAST * max(values[-1], np.sum((centred - left) ** 2))
    found += list(vectors.T[::-1][several])
    if not 1 <= directions <= len(found):
        raise ValueError(
            f"{directions} directions were asked for, but the items vary along {len(found)}; give "
            f"a whole number from 1 to {len(found)}."
        )
    w = np.stack(found[:directions], 1)
    w /= (centred @ w).std(0)
    return w / median_distance(centred @ w, rng)


def median_distance(rows: FloatArray, rng: np.random.Generator) -> float:
    """The median distance between two different rows (n, D), of 2,000 at random if there are more.

    1 where there are no two.
    """
    if len(rows) > _ITEMS:
        rows = rows[np.sort(rng.choice(len(rows), _ITEMS, replace=False))]
    first, second = np.triu_indices(len(rows), 1)
    if not len(first):
        return 1.0
    squares = np.sum(rows**2, 1)
    squared = squares[:, None] + squares - 2.0 * rows @ rows.T
    found = float(np.median(np.sqrt(np.maximum(squared[first, second], 0.0))))
    return found if found > 0.0 else 1.0


def _weights(duels: Duels, rng: np.random.Generator) -> FloatArray:
    """The direction in which utility rises, (D,), of any length."""
    if duels.events.has_sets:
        logit = conditional_logit(duels, rng=rng)
        return logit.coefficients[: duels.num_features]
    if duels.num_ties == duels.num_duels:
        return np.zeros(duels.num_features)
    sides, weights, _ = decided(duels)
    if len(sides) > _DUELS:
        some = np.sort(rng.choice(len(sides), _DUELS, replace=False))
        sides, weights = sides[some], weights[some]
    won, lost = duels.items[sides.T]
    return probit_of(won - lost, weights, rng=rng, ridge=_RIDGES, folds=2).coefficients
