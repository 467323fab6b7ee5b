"""What an answer to a set of alternatives says: rows of v, noises, and what has no order.

A set of k sides, best first, is one look of somebody at k alternatives: one noise for each, drawn
again for each look, `y = f + e`, and the rows are the covering relations of the answer, worse less
better. All pairs in place of covering relations would count the same evidence twice
(docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparse_prefgp.support.arrays import FloatArray, IntArray


class SetForm(NamedTuple):
    """What an answer says of k sides, best first: r rows."""

    places: IntArray
    """(r, 2), the sides that are better and worse."""
    draws: IntArray
    """(r, 2), the number of the noise of each; two looks have different ones."""
    look: IntArray
    """(r,), 0, 1, …: rows of one look share noises, others do not."""
    own: FloatArray
    """(r,), how much noise, in units of s², is each row's own: the largest that leaves a covariance
    for the rest. 0 where rows outnumber contrasts.
    """
    level: IntArray
    """(k,), sides of one level have no order between them."""


# The better and worse places of each look, and the level of each side.
Covered = tuple[list[list[tuple[int, int]]], list[int]]
# From k and how many sides come first in order.
Covering = Callable[[int, int], Covered]


def choice(size: int, ordered: int) -> Covered:
    """The first is better than all others."""
    del ordered
    return top(size, 1)


def ranking(size: int, ordered: int) -> Covered:
    """Each is better than the next."""
    del ordered
    return top(size, size - 1)


def top(size: int, ordered: int) -> Covered:
    """The first ones are in order, the last of them better than all that are left."""
    path = [(j, j + 1) for j in range(ordered - 1)]
    star = [(ordered - 1, j) for j in range(ordered, size)]
    return [path + star], [min(j, ordered) for j in range(size)]


def best_worst(size: int, ordered: int) -> Covered:
    """The best of all, then, in a second look, the worst of the others, which stands last."""
    del ordered
    last = size - 1
    looks = [[(0, j) for j in range(1, size)], [(j, last) for j in range(1, last)]]
    return looks, [0] + [1] * (size - 2) + [2]


def best_worst_at_once(size: int, ordered: int) -> Covered:
    """The best over all in the middle, these over the worst, in one look."""
    del ordered
    last = size - 1
    rows = [pair for j in range(1, last) for pair in ((0, j), (j, last))]
    return [sorted(rows)], [0] + [1] * (size - 2) + [2]


@lru_cache(maxsize=1024)
def set_form(covering: Covering, size: int, ordered: int) -> SetForm:
    """The form of an answer about `size` sides."""
    looks, level = covering(size, ordered)
    sizes = [len(rows) for rows in looks]
    number = np.repeat(np.arange(len(looks)), sizes)
    places = np.array([pair for rows in looks for pair in rows], np.int64).reshape(-1, 2)
    own = np.repeat([_largest_own(np.array(rows)) for rows in looks], sizes)
    return SetForm(places, places + size * number[:, None], number, own, np.array(level))


def _largest_own(pairs: IntArray) -> float:
    """The smallest eigenvalue of the noise of some rows of one look, at s² = 1."""
    noise = shared_noise(pairs)
    if len(noise) == 1:
        return 2.0
    if len(np.unique(pairs)) <= len(pairs):
        return 0.0  # more rows than contrasts
    if len(np.unique(pairs[:, 0])) == 1 or len(np.unique(pairs[:, 1])) == 1:
        return 1.0  # I + 11'
    return float(np.linalg.eigvalsh(noise)[0])


def shared_noise(draws: IntArray) -> FloatArray:
    """The covariance of the noise of rows at s² = 1, from the two noises of each.

    :param draws: (..., r, 2), of better and of worse.
    :return: (..., r, r).
    """
    first, second = draws[..., :, None, :], draws[..., None, :, :]
    same = (first == second).sum(-1)
    crossed = (first == second[..., ::-1]).sum(-1)
    return np.asarray(same - crossed, np.float64)
