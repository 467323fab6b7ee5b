"""What inference wants of G⁻¹, G = I + s² S with S a graph Laplacian of changing weights.

Items no two of which meet are eliminated first, for their part of G is diagonal: with D theirs and
E what lies between them and the core of all others,

    Z = (G_cc - E D⁻¹ E')⁻¹      G⁻¹ = [D⁻¹ + D⁻¹E' Z E D⁻¹, -D⁻¹E' Z; -Z E D⁻¹, Z]

Of G⁻¹ only products, the diagonal and what lies between items that meet are wanted, so that nothing
but Z is dense: O(c³ + n c k) for c items in the core and k columns.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sparse_prefgp.support.arrays import FloatArray, IntArray

_TILE = 256


class Selected(NamedTuple):
    """What is wanted of G⁻¹."""

    product: FloatArray
    """G⁻¹ times the columns given, (n, k)."""
    between: FloatArray
    """Of each pair that meets, G⁻¹_ii + G⁻¹_jj - 2 G⁻¹_ij, (P,)."""
    half_log_det: float
    """½ log|G|."""


class GraphInverse:
    """Of a graph that does not change.

    :param pairs: (P, 2), each once, the lower end first.
    :param n: how many items there are.
    """

    def __init__(self, pairs: IntArray, n: int) -> None:
        apart = _apart(pairs, n)
        self._pairs, self._n = pairs, n
        self._inner, self._core = np.flatnonzero(apart), np.flatnonzero(~apart)
        place = np.empty(n, np.int64)
        place[self._inner], place[self._core] = np.arange(apart.sum()), np.arange((~apart).sum())
        first = apart[pairs]
        self._within = np.flatnonzero(~first.any(1))
        self._crossing = np.flatnonzero(first.any(1))
        self._core_ends = place[pairs[self._within]].T
        ends = pairs[self._crossing]
        swapped = first[self._crossing, 1]
        ends = np.where(swapped[:, None], ends[:, ::-1], ends)
        self._crossing_ends = place[ends].T

    def selected(
        self, pair: FloatArray, degree: FloatArray, scale: float, columns: FloatArray
    ) -> Selected:
        """What is wanted at these weights; NaN where G is not finite or not positive definite.

        :param pair: (P,) weight of each pair.
        :param degree: (n,) sum of the weights of each item.
        :param scale: s².
        :param columns: (n, k).
        """
        inner, core, (low, high) = self._inner, self._core, self._core_ends
        own = 1.0 + scale * degree[inner]
        if not (np.all(np.isfinite(pair)) and np.all(own > 0.0)):
            return Selected(np.full_like(columns, np.nan), np.full_like(pair, np.nan), np.nan)
        crossing = -scale * pair[self._crossing]
        shape = len(inner), len(core)
        back = sparse.csr_matrix(
            (crossing / own[self._crossing_ends[0]], self._crossing_ends), shape
        )
        forth = sparse.csr_matrix((crossing, self._crossing_ends), shape).T.tocsr()
        whole = np.zeros((len(core), len(core)))
        whole[low, high] = -scale * pair[self._within]
        whole[range(len(core)), range(len(core))] = 1.0 + scale * degree[core]
        fill = (forth @ back).tocoo()
        whole[fill.row, fill.col] -= fill.data
        half_log_det = _inverted(whole)
        right = columns[core] - forth @ (columns[inner] / own[:, None])
        product = np.empty_like(columns)
        product[core] = whole @ right
        product[inner] = columns[inner] / own[:, None] - back @ product[core]
        between = -(back @ whole)  # of inner and core items
        diagonal = np.empty(self._n)
        diagonal[core] = np.diagonal(whole)
        diagonal[inner] = 1.0 / own - np.asarray(back.multiply(between).sum(1)).reshape(-1)
        shared = np.empty(len(pair))
        shared[self._within] = whole[low, high]
        shared[self._crossing] = between[tuple(self._crossing_ends)]
        apart = diagonal[self._pairs[:, 0]] + diagonal[self._pairs[:, 1]] - 2.0 * shared
        return Selected(product, apart, 0.5 * float(np.sum(np.log(own))) + half_log_det)

    def whole(self, pair: FloatArray, degree: FloatArray, scale: float) -> FloatArray:
        """G⁻¹ itself, (n, n)."""
        found = np.zeros((self._n, self._n))
        found[tuple(self._pairs.T)] = -scale * pair
        found[range(self._n), range(self._n)] = 1.0 + scale * degree
        _inverted(found)
        return found


def _apart(pairs: IntArray, n: int) -> np.ndarray:
    """Which items to eliminate, (n,): no two that meet, those who meet the fewest first."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for low, high in pairs.tolist():
        neighbours[low].add(high)
        neighbours[high].add(low)
    found, left = np.zeros(n, bool), np.ones(n, bool)
    heap = [(len(each), item) for item, each in enumerate(neighbours)]
    heapq.heapify(heap)
    while heap:
        size, item = heapq.heappop(heap)
        if not left[item] or size != len(neighbours[item]):
            continue  # told of again since
        found[item], left[item] = True, False
        for other in neighbours[item]:
            left[other] = False
            for third in neighbours[other]:
                if left[third]:
                    neighbours[third].discard(other)
                    heapq.heappush(heap, (len(neighbours[third]), third))
    if found.all():
        found[-1] = False  # a core there is
    return found


def _inverted(matrix: FloatArray) -> float:
    """Invert a symmetric matrix, of which the upper triangle is there, in place.

    :return: half of the log of its determinant; the matrix is NaN, as this is, where it is not
        finite or not positive definite.
    """
    n = len(matrix)
    # In place: LAPACK takes rows for columns, and so the upper triangle for the lower.
    failed = 0 if np.isfinite(matrix.sum()) else 1
    if not failed:
        factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        matrix[:] = np.nan
        return float("nan")
    half_log_det = float(np.sum(np.log(np.diagonal(factor))))
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    assert np.shares_memory(inverse, matrix)
    for start in range(0, n, _TILE):
        end = start + _TILE
        tile = matrix[start:end, start:end]
        tile[:] = np.triu(tile) + np.triu(tile, 1).T
        matrix[end:, start:end] = matrix[start:end, end:].T
    return half_log_det
