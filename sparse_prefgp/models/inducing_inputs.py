"""Where the inducing inputs start."""

from __future__ import annotations

import numpy as np
from scipy.cluster.vq import kmeans2

_ROWS_FOR_KMEANS = 20_000


def kmeans_inputs(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """k-means centres of distinct feature rows, the usual start for inducing inputs.

    :param rows: (n, D), distinct. Above 20,000 rows a random 20,000 of them are clustered.
    :param count: m <= n; with m = n the rows themselves are returned.
    :return: (m, D), without equal rows.
    :raises ValueError: count < 1 or count > n.
    """
    check_count(count, len(rows))
    if count == len(rows):
        return rows.copy()
    if len(rows) > max(_ROWS_FOR_KMEANS, count):
        rows = rows[rng.choice(len(rows), max(_ROWS_FOR_KMEANS, count), replace=False)]
    spread = rows.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    centres, _ = kmeans2(rows / spread, count, iter=20, minit="++", missing="warn", seed=rng)
    centres = np.unique(centres * spread + 0.0, axis=0)
    if len(centres) < count:
        # Clusters that emptied or met are replaced by rows that are no centre yet.
        known = {centre.tobytes() for centre in centres}
        spare = [row for row in rng.permutation(rows + 0.0) if row.tobytes() not in known]
        centres = np.concatenate([centres, spare[: count - len(centres)]])
    return centres


def check_count(count: int, distinct: int) -> None:
    if count < 1:
        raise ValueError(f"There must be at least 1 inducing input, not {count}.")
    if count > distinct:
        raise ValueError(
            f"{count} inducing inputs are more than the {distinct} distinct items; "
            f"use at most {distinct}, or Exact()."
        )
