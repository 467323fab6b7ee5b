"""Looks at sets under sites, many small matrices at once (docs/method.md, section 10).

Arrays have the looks last: g looks of r rows at k places. R (r, r, g) is the covariance of the
residual of the rows, T and s their sites, and with A (r, k) loser less winner

    G = (T⁻¹ + R)⁻¹    n = s - G R s    W = A'G A    H = I - R G    S = H R

W is a graph Laplacian between the places: its edges are what sums over items take.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparse_prefgp.data.looks import Form
from sparse_prefgp.support.arrays import FloatArray

# Numbers of an array of looks done at once, so that a few of them stay in a processor's
# second cache; and the least of looks, for loops over them are in Python.
_AT_ONCE, _LEAST = 1 << 15, 256


def slices(rows: int, g: int) -> Iterator[slice]:
    """Of g looks, in arrays (rows, g)."""
    size = max(_LEAST, _AT_ONCE // rows)
    return (slice(start, min(start + size, g)) for start in range(0, g, size))


class LooksUnderSites:
    """The looks of one form."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.num_rows = r = len(form.places)
        self._rows = np.ascontiguousarray(form.bucket.rows.T)
        self.natural = slice(r * r, r * r + r)
        """Where n is in what is kept."""
        self.rows = r * r + r
        """How many rows are kept."""

    def under_sites(
        self,
        residual: FloatArray,
        precision: FloatArray,
        shift: FloatArray,
        kept: FloatArray,
        edges: FloatArray,
    ) -> FloatArray:
        """½ log|I + T^½ R T^½|, (g,).

        :param residual: R, (r, r, g).
        :param precision: T of one copy of each, (r, g).
        :param shift: s of one copy of each, (r, g).
        :param kept: becomes G and n, (rows, g).
        :param edges: becomes W between each two places, (k (k - 1) / 2, g).
        """
        r, g = precision.shape
        half_log_det = np.empty(g)
        first, second = np.triu_indices(self._form.num_places, 1)
        for at in slices(r * r, g):
            ours, t, s = residual[..., at], precision[:, at], shift[:, at]
            root = np.sqrt(t)
            scaled = root[:, None] * ours * root
            scaled[range(r), range(r)] += 1.0
            half_log_det[at] = 0.5 * _invert(scaled)
            gain = root[:, None] * scaled * root
            kept[: r * r, at] = gain.reshape(r * r, -1)
            kept[self.natural, at] = s - _times(gain, _times(ours, s))
            edges[:, at] = -_laplacian(self._form, gain)[first, second]
        return half_log_det

    def gain(self, residual: FloatArray, kept: FloatArray) -> FloatArray:
        """G, (r, r, g).

        :param kept: what `under_sites` kept.
        """
        del residual
        r = len(self._form.places)
        return kept[: r * r].reshape(r, r, -1)

    def marginals(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        """Mean and variance of each z, (2, r, g).

        :param mean: E of the explained utility of each row of the graph, (n,).
        :param distances: variance of the explained difference of each pair, (number of pairs,).
        """
        r, g = len(self._form.places), residual.shape[-1]
        gain, natural = self.gain(residual, kept), kept[self.natural]
        found = np.empty((2, r, g), kept.dtype)
        for at in slices(r * r, g):
            ours, taken = residual[..., at], gain[..., at]
            step = self._step(mean, at)
            found[0, :, at] = step + _times(ours, natural[:, at] - _times(taken, step))
            left = -_product(ours, taken)
            left[range(r), range(r)] += 1.0
            between = self._explained(distances, at)
            # H (C H' + R), of which the diagonal is wanted.
            inner = _product(between, np.swapaxes(left, 0, 1)) + ours
            found[1, :, at] = np.einsum("ijg,jig->ig", left, inner)
        return found

    def slopes(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        """½ (a a' - M), by which the log evidence changes with R, sites held, (r, r, g).

        a = n - G Phi E u are the weights of z, and M = G - G Phi P⁻¹ Phi'G; of one copy of each
        look. The parameters are as of `marginals`.
        """
        gain, natural = self.gain(residual, kept), kept[self.natural]
        found = np.empty_like(gain)
        for at in slices(len(natural) ** 2, natural.shape[1]):
            taken = gain[..., at]
            weights = natural[:, at] - _times(taken, self._step(mean, at))
            inner = _product(self._explained(distances, at), taken)
            found[..., at] = weights[:, None] * weights - taken + _product(taken, inner)
        return 0.5 * found

    def _step(self, mean: FloatArray, at: slice) -> FloatArray:
        """Mean of the explained difference of each row, (r, g)."""
        win, lose = self._form.places.T
        utility = mean[self._rows[:, at]]
        return np.asarray(utility[lose] - utility[win])

    def _explained(self, distances: FloatArray, at: slice) -> FloatArray:
        """Covariance of the explained differences of the rows, (r, r, g)."""
        pairs = self._form.pairs[:, at]
        each = np.zeros((len(pairs) + 1, pairs.shape[1]))
        np.take(distances, pairs, out=each[:-1])
        crossed = each[self._form.ends_in_pairs]
        return np.asarray(0.5 * (crossed[0] + crossed[1] - crossed[2] - crossed[3]))


def _invert(matrix: FloatArray) -> FloatArray:
    """Each of (r, r, g), symmetric and no eigenvalue below 1, in place; returns log|matrix|, (g,).

    By Gauss and Jordan's elimination, which needs no other pivots here.
    """
    log_det = np.zeros(matrix.shape[-1:])
    for j in range(len(matrix)):
        pivot = matrix[j, j].copy()
        log_det += np.log(pivot)
        row = matrix[j] / pivot
        column = matrix[:, j].copy()
        matrix -= column[:, None] * row
        matrix[j] = row
        matrix[:, j] = -column / pivot
        matrix[j, j] = 1.0 / pivot
    return log_det


def _laplacian(form: Form, gain: FloatArray) -> FloatArray:
    """A'G A, (k, k, g)."""
    k = form.num_places
    half = np.zeros((k, *gain.shape[1:]))
    for row, (win, lose) in zip(gain, form.places, strict=True):
        half[lose] += row
        half[win] -= row
    found = np.zeros((k, k, gain.shape[-1]))
    for j, (win, lose) in enumerate(form.places):
        found[:, lose] += half[:, j]
        found[:, win] -= half[:, j]
    return found


def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ijg,jg->ig", matrix, vector))


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    total = left[:, :1] * right[:1]
    for j in range(1, len(right)):
        total += left[:, j : j + 1] * right[j : j + 1]
    return total
