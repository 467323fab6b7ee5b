"""Duels made from data that need no download."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.frames import duels_frame

NOISE_SHARE = 0.25


def demo_tables(count: int = 5000, seed: int = 0) -> tuple[Any, Any]:
    """Items and duels of `sparse-prefgp demo`, as data frames, without any download.

    They are made from scikit-learn's diabetes regression set.

    Each duel is between two of the 442 patients, drawn at random; the larger target (progression
    of the disease after a year) wins. Before they are compared, each of the two targets gets
    normal noise of a quarter of the targets' standard deviation, fresh for every duel.

    :param count: how many duels.
    :param seed: the same seed gives the same duels.
    :return: Items (442 rows): `item_id`, such as "patient 7", and ten features; and duels: `winner`
        and `loser`.
    :raises ValueError: a count below 1.
    :raises ModuleNotFoundError: pandas is not installed.
    """
    from sklearn import datasets as toys

    if count < 1:
        raise ValueError(f"The number of duels is {count}; give a whole number of at least 1.")
    require_pandas()
    features, target = toys.load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    n = len(target)
    rng = np.random.default_rng(seed)
    first = rng.integers(n, size=count)
    second = (first + rng.integers(1, n, size=count)) % n  # never the same item
    value = np.asarray(target, dtype=float)
    noise = NOISE_SHARE * value.std() * rng.standard_normal((2, count))
    ahead = value[first] + noise[0] > value[second] + noise[1]
    items = features.reset_index(drop=True)
    items.insert(0, "item_id", [f"patient {i}" for i in range(n)])
    duels = duels_frame(ahead, first, second)
    return items, duels.map(lambda i: f"patient {i}")
