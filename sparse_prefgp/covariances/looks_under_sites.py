"""Looks at sets under sites, many small matrices at once (docs/method.md, section 10).

Arrays have the looks last: g looks of r rows at k places. R (r, r, g) is the covariance of the
residual of the rows, T and s their sites, and with A (r, k) loser less winner

    G = (T⁻¹ + R)⁻¹    n = s - G R s    W = A'G A    H = I - R G    S = H R

W is a graph Laplacian between the places: its edges are what sums over items take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sparse_prefgp.data.looks import Form
from sparse_prefgp.support.arrays import FloatArray

# Numbers of an (r, r, g) array of looks done at once, so that a few of them stay in a processor's
# second cache; and the least of looks, for loops over them are in Python.
_AT_ONCE, _LEAST = 1 << 14, 256


class UnderSites(NamedTuple):
    """What the sites make of looks of one form."""

    gain: FloatArray
    """G, (r, r, g)."""
    natural: FloatArray
    """n, (r, g)."""
    edges: FloatArray
    """W between each two places, (k (k - 1) / 2, g)."""
    half_log_det: FloatArray
    """½ log|I + T^½ R T^½|, (g,)."""


def natural_at(form: Form) -> int:
    """The first row of n in what `packed_under_sites` gives."""
    return len(form.places) ** 2


def edges_at(form: Form) -> int:
    """The first row of the edges in it."""
    return natural_at(form) + len(form.places)


def packed_rows(form: Form) -> int:
    """How many rows it has."""
    return edges_at(form) + len(form.pairs) + 1


def packed_under_sites(
    form: Form, residual: FloatArray, precision: FloatArray, shift: FloatArray
) -> FloatArray:
    """`UnderSites` in one array (rows, g).

    :param residual: R, (r, r, g).
    :param precision: T of one copy of each, (r, g).
    :param shift: s of one copy of each, (r, g).
    """
    r, g = precision.shape
    found = np.empty((packed_rows(form), g), precision.dtype)
    for at in _slices(r, g):
        _under_sites(form, residual[..., at], precision[:, at], shift[:, at], found[:, at])
    return found


def unpacked(form: Form, packed: FloatArray) -> UnderSites:
    """Of what `packed_under_sites` gave."""
    r = len(form.places)
    gain, natural, edges = np.split(packed[:-1], [natural_at(form), edges_at(form)])
    return UnderSites(gain.reshape(r, r, -1), natural, edges, packed[-1])


def _under_sites(
    form: Form, residual: FloatArray, precision: FloatArray, shift: FloatArray, found: FloatArray
) -> None:
    r = len(precision)
    root = np.sqrt(precision)
    scaled = root[:, None] * residual * root
    scaled[range(r), range(r)] += 1.0
    found[-1] = 0.5 * _invert(scaled)
    gain = root[:, None] * scaled * root
    n, e = natural_at(form), edges_at(form)
    found[:n] = gain.reshape(n, -1)
    found[n:e] = shift - _times(gain, _times(residual, shift))
    first, second = np.triu_indices(form.num_places, 1)
    found[e:-1] = -_laplacian(form, gain)[first, second]


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


def marginals_of_looks(
    form: Form,
    residual: FloatArray,
    packed: FloatArray,
    mean: FloatArray,
    distances: FloatArray,
) -> FloatArray:
    """Mean and variance of each z, (2, r, g).

    :param packed: of `packed_under_sites`.
    :param mean: E of the explained utility of each row of the graph, (n,).
    :param distances: variance of the explained difference of each pair, (number of pairs,).
    """
    r, g = len(form.places), residual.shape[-1]
    gain, natural, _, _ = unpacked(form, packed)
    win, lose = form.places.T
    rows = form.bucket.rows
    found = np.empty((2, r, g), packed.dtype)
    for at in _slices(r, g):
        ours, taken = residual[..., at], gain[..., at]
        utility = mean[rows[at]].T
        step = utility[lose] - utility[win]
        found[0, :, at] = step + _times(ours, natural[:, at] - _times(taken, step))
        left = -_product(ours, taken)
        left[range(r), range(r)] += 1.0
        between = explained_of_looks(form, distances, at)
        # H (C H' + R), of which the diagonal is wanted.
        inner = _product(between, np.swapaxes(left, 0, 1)) + ours
        found[1, :, at] = np.einsum("ijg,jig->ig", left, inner)
    return found


def explained_of_looks(form: Form, distances: FloatArray, at: slice = slice(None)) -> FloatArray:
    """Covariance of the explained differences of the rows of looks, (r, r, g).

    :param distances: variance of that of each pair, (number of pairs,).
    """
    pairs = form.pairs[:, at]
    each = np.zeros((len(pairs) + 1, pairs.shape[1]))
    np.take(distances, pairs, out=each[:-1])
    crossed = each[form.ends_in_pairs]
    return np.asarray(0.5 * (crossed[0] + crossed[1] - crossed[2] - crossed[3]))


def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ijg,jg->ig", matrix, vector))


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    total = left[:, :1] * right[:1]
    for j in range(1, len(right)):
        total += left[:, j : j + 1] * right[j : j + 1]
    return total


def _slices(r: int, g: int) -> Iterator[slice]:
    size = max(_LEAST, _AT_ONCE // (r * r))
    return (slice(start, min(start + size, g)) for start in range(0, g, size))


def slopes_of_looks(
    form: Form, packed: FloatArray, mean: FloatArray, distances: FloatArray
) -> FloatArray:
    """½ (a a' - M), by which the log evidence changes with R, sites held, (r, r, g).

    a = n - G Phi E u are the weights of z, and M = G - G Phi P⁻¹ Phi'G; of one copy of each look.

    :param mean: as of `marginals_of_looks`, and `distances`.
    """
    gain, natural, _, _ = unpacked(form, packed)
    win, lose = form.places.T
    found = np.empty_like(gain)
    for at in _slices(*natural.shape):
        taken = gain[..., at]
        utility = mean[form.bucket.rows[at]].T
        weights = natural[:, at] - _times(taken, utility[lose] - utility[win])
        inner = _product(explained_of_looks(form, distances, at), taken)
        found[..., at] = weights[:, None] * weights - taken + _product(taken, inner)
    return 0.5 * found
