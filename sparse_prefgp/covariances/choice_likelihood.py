"""The likelihood of an answer about a set in training, and what sites on its rows make of it.

Somebody looks at k alternatives, y = f + e with e ~ N(0, sigma² I), and the answer is r rows of it,
worse less better (`data/sets.py`): of a choice, all others less the chosen one. With A (r, k),

    p(answer | f) = Pr[A y < 0] = E_z Π Φ(-z_i / √D)        z ~ N(A f, sigma² A A' - D I)

the multinomial probit of a choice. D is the noise of each row's own, sigma² times the smallest
eigenvalue of A A' (0 makes a step of Φ), and z has what the rows share.

All looks whose rows compare their alternatives in one pattern are worked on at once
(docs/method.md, sections 4 and 10), in arrays that have the looks last: g looks of r rows at k
places. R (r, r, g) is the covariance of z given its explained part, T and s its sites, and

    G = (T⁻¹ + R)⁻¹    n = s - G R s    W = A'G A    H = I - R G    S = H R

W is a graph Laplacian between the places: its edges are what sums over items take. What is between
two alternatives of a look belongs to their pair, which other looks may have too.

The rows of a *star*, such as a choice, have one place in common, the *hub*, and with D = sigma² one
noise alone, R = rho 1 1'. Then everything is in closed form (Sherman & Morrison 1950), with
q = rho / (1 + rho Σ tau):

    G = T - q tau tau'    n = s - q tau Σ s    S = q 1 1'
    ½ log|I + T^½ R T^½| = ½ log(1 + rho Σ tau)

The edges of W are q tau_i tau_j, and tau_i / (1 + rho Σ tau) at the hub. With weights alpha = q tau
and what is left of 1 at the hub, the explained part of z_i is its place less the centroid of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import ChunkLinks, DuelGraph, Links, Noises
from sparse_prefgp.data.sets import shared_noise
from sparse_prefgp.support.arrays import FloatArray, IntArray

# The name of the groups within which noise is shared.
SETS = "sets"
# Numbers of an array of looks done at once, so that a few of them stay in a processor's
# second cache; and the least of looks, for loops over them are in Python.
_AT_ONCE, _LEAST = 1 << 15, 256


@dataclass(frozen=True, eq=False)
class Form:
    """g looks at k alternatives each, whose r rows compare them in one pattern."""

    bucket: Bucket
    """Numbers of the looks, sites (g, r), and for each place a row of the graph, (g, k)."""
    places: IntArray
    """(r, 2) the places of winner and loser of each row, the same in all looks."""
    pairs: IntArray
    """(k (k - 1) / 2, g) the number of the pair of each two places, in the order of
    `numpy.triu_indices`.
    """

    @property
    def num_places(self) -> int:
        """k."""
        return self.bucket.rows.shape[1]

    @cached_property
    def noise(self) -> FloatArray:
        """(r, r) covariance of the noise of the rows at sigma² = 1."""
        return shared_noise(self.places)

    @cached_property
    def ends_in_pairs(self) -> IntArray:
        """(4, r, r) the pair of loser of i and winner of j, winner and loser, both losers, both
        winners; k (k - 1) / 2 where both are one place."""
        k = self.num_places
        number = np.full((k, k), k * (k - 1) // 2)
        first, second = np.triu_indices(k, 1)
        number[first, second] = number[second, first] = np.arange(len(first))
        wins, loses = self.places.T
        ends = ((loses, wins), (wins, loses), (loses, loses), (wins, wins))
        return np.stack([number[np.ix_(*each)] for each in ends])


@dataclass(frozen=True, eq=False)
class Looks:
    """All looks at the alternatives of sets, in forms."""

    forms: tuple[Form, ...]
    sites: Links
    """Which rows each site compares."""
    pairs: Links
    """Which rows the pairs are between, each pair once where looks stay."""

    def summed_over_pairs(self, values: Sequence[FloatArray]) -> FloatArray:
        """Sums for each pair of values of the pairs of looks, flat, form by form."""
        flat = values[0] if len(values) == 1 else np.concatenate(values)
        if self.pairs.passing:  # each look has pairs of its own
            return flat
        return np.asarray(np.bincount(self._numbers, flat, self.pairs.num_sites), float)

    @cached_property
    def _numbers(self) -> IntArray:
        return np.concatenate([form.pairs.reshape(-1) for form in self.forms])

    @classmethod
    def of(cls, links: Links, noises: Noises) -> Looks:
        """Those of sites that share noises.

        :param links: which rows each site compares.
        """
        sizes = np.bincount(noises.look)
        by_look = np.argsort(noises.look, kind="stable")
        starts = np.cumsum(sizes) - sizes
        found, pairs = [], []
        for size in np.unique(sizes):
            looks = np.flatnonzero(sizes == size)
            sites = by_look[starts[looks][:, None] + np.arange(size)]
            places = _ranks(noises.draws[sites].reshape(len(looks), -1))
            left = np.arange(len(looks))
            while len(left):  # patterns are few
                each = places[left[0]]
                same = np.all(places[left] == each, 1)
                here, left = left[same], left[~same]
                some, (win, lose) = sites[here], each.reshape(-1, 2).T
                rows = np.zeros((len(here), int(each.max()) + 1), np.int64)
                rows[:, win], rows[:, lose] = links.winners[some], links.losers[some]
                of_looks = (np.broadcast_to(end, some.shape) for end in (win, lose))
                bucket = Bucket(looks[here], some, rows, *of_looks)
                found.append((bucket, each.reshape(-1, 2)))
                first, second = np.triu_indices(rows.shape[1], 1)
                ends = np.sort(np.stack([rows[:, first], rows[:, second]]), 0)
                pairs.append(np.swapaxes(ends, 1, 2).reshape(2, -1))
        n, ends = links.num_rows, np.concatenate(pairs, 1)
        if links.passing:
            links_of_pairs, number = ChunkLinks(n, *ends), np.arange(ends.shape[1])
        else:  # each pair once
            distinct, number = np.unique(ends[0] * n + ends[1], return_inverse=True)
            links_of_pairs, number = PairLinks(n, *np.divmod(distinct, n)), number.reshape(-1)
        cuts = np.cumsum([p.shape[1] for p in pairs])[:-1]
        forms = tuple(
            Form(bucket, each, numbers.reshape(-1, len(bucket.numbers)))
            for (bucket, each), numbers in zip(found, np.split(number, cuts), strict=True)
        )
        return cls(forms, links, links_of_pairs)

    @classmethod
    def of_graph(cls, graph: DuelGraph) -> Looks:
        """Those of the sites of a graph that share noises, laid out once."""
        assert graph.noises is not None
        return graph.once("looks", partial(cls.of, graph, graph.noises))


def _ranks(values: IntArray) -> IntArray:
    """Which of the distinct values of its row each is, ascending, (g, q)."""
    order = np.argsort(values, 1, kind="stable")
    ascending = np.take_along_axis(values, order, 1)
    rank = np.zeros_like(values)
    rank[:, 1:] = np.cumsum(np.diff(ascending, axis=1) > 0, 1)
    found = np.empty_like(values)
    np.put_along_axis(found, order, rank, 1)
    return found


class PairLinks(ChunkLinks):
    """Pairs of rows that stay."""

    passing = False


class SharedNoise(NamedTuple):
    """`N - D` within looks at sets: one noise for each alternative, less what is each row's own."""

    noises: Noises
    variance: tf.Tensor
    """(t,) sigma² of each alternative, the same for all sites of a look."""
    name: str = SETS

    @property
    def groups(self) -> IntArray:
        return self.noises.look

    def within(self, bucket: Bucket, features: tf.Tensor) -> tf.Tensor:
        shared = self.noises.of_sites(bucket.sites)
        own = np.append(self.noises.own, 0.0)[bucket.sites]
        shared[..., range(own.shape[-1]), range(own.shape[-1])] -= own
        padded = tf.concat([self.variance, tf.zeros_like(self.variance[:1])], 0)
        return tf.gather(padded, bucket.sites)[..., None] * as_float(shared)


def shared_noise_of(form: Form, own: FloatArray, variance: tf.Tensor) -> tf.Tensor:
    """`SharedNoise` of the looks of a form, (r, r, g), or (g,) where rows share all of it.

    :param own: (t,) as of `Noises`.
    :param variance: (t,) as of `SharedNoise`.
    """
    sites = form.bucket.sites
    shared, each = form.noise - np.diag(own[sites[0]]), tf.gather(variance, sites[:, 0])
    if np.all(shared == shared[0, 0]):
        return shared[0, 0] * each
    return as_float(shared)[..., None] * each


def slices(rows: int, g: int) -> Iterator[slice]:
    """Of g looks, in arrays (rows, g)."""
    size = max(_LEAST, _AT_ONCE // rows)
    return (slice(start, min(start + size, g)) for start in range(0, g, size))


class LooksUnderSites:
    """The looks of one form.

    :param copies: (t,) how many equal ones each site stands for; those of a look have one number.
    """

    def __init__(self, form: Form, copies: FloatArray) -> None:
        self._form, r = form, len(form.places)
        self._rows = np.ascontiguousarray(form.bucket.rows.T)
        self.sites = np.ascontiguousarray(form.bucket.sites.T)
        """(r, g)."""
        self.natural = slice(r * r, r * r + r)
        """Where n is in what is kept."""
        each = copies[self.sites[0]]
        self.copies = None if np.all(each == 1.0) else each
        """(g,), None where each look stands for one."""

    def of_all(self, values: FloatArray) -> FloatArray:
        """Values (..., g) of one copy as those of all."""
        return values if self.copies is None else values * self.copies

    def of_one(self, values: FloatArray) -> FloatArray:
        """(r, g) for one copy from those of all, (t,)."""
        taken = values[self.sites]
        return taken if self.copies is None else taken / self.copies

    def under_sites(
        self, residual: FloatArray, precision: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """G and n, to be kept, (rows, g); W between each two places, (k (k - 1) / 2, g); and
        ½ log|I + T^½ R T^½|, (g,).

        :param residual: R, (r, r, g).
        :param precision: T of one copy of each, (r, g).
        :param shift: s of one copy of each, (r, g).
        """
        r, g = precision.shape
        kept, edges, half_log_det = (
            np.empty((r * r + r, g)),
            np.empty(self._form.pairs.shape),
            np.empty(g),
        )
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
        return kept, edges, half_log_det

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


class StarsUnderSites(LooksUnderSites):
    """The looks of one form, a star. Arrays are as of `LooksUnderSites`, but R is rho, (g,)."""

    def __init__(self, form: Form, copies: FloatArray) -> None:
        super().__init__(form, copies)
        r = len(form.places)
        self.natural = slice(r, 2 * r)
        win, lose = form.places.T
        self._hub_wins = r == 1 or bool(win[0] == win[1])
        self._hub, self._leaves = (win[0], lose) if self._hub_wins else (lose[0], win)
        # Which row each place is the leaf of; the hub is the last.
        row = np.full(form.num_places, r)
        row[self._leaves] = np.arange(r)
        self._ends = np.stack([row[end] for end in np.triu_indices(form.num_places, 1)], 1)

    def under_sites(
        self, residual: FloatArray, precision: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        r, g = precision.shape
        kept, edges, half_log_det = (
            np.empty((2 * r, g)),
            np.empty(self._form.pairs.shape),
            np.empty(g),
        )
        kept[:r] = precision
        for at in slices(r, g):
            tau, nu, rho = precision[:, at], shift[:, at], residual[at]
            whole = rho * tau.sum(0)
            half_log_det[at] = 0.5 * np.log1p(whole)
            share = 1.0 / (1.0 + whole)
            scaled = rho * share * tau
            kept[self.natural, at] = nu - scaled * nu.sum(0)
            for edge, (first, second) in zip(edges, self._ends, strict=True):
                leaf, other = min(first, second), max(first, second)
                np.multiply(tau[leaf], share if other == r else scaled[other], edge[at])
        return kept, edges, half_log_det

    def gain(self, residual: FloatArray, kept: FloatArray) -> FloatArray:
        tau = kept[: len(self._leaves)]
        share = residual / (1.0 + residual * tau.sum(0))
        found = -share * tau[:, None] * tau
        found[range(len(tau)), range(len(tau))] += tau
        return np.asarray(found)

    def marginals(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        r, g = len(self._leaves), len(residual)
        found = np.empty((2, r, g))
        for at in slices(r, g):
            tau, rho = kept[:r, at], residual[at]
            weights = np.empty((r + 1, len(rho)))
            share = np.divide(1.0, 1.0 + rho * tau.sum(0), out=weights[r])
            spread = rho * share
            np.multiply(spread, tau, out=weights[:r])
            step = self._step(mean, at)
            shared = rho * kept[self.natural, at].sum(0)
            shared -= np.einsum("ig,ig->g", weights[:r], step)
            np.add(step, shared, out=found[0, :, at])
            away = np.zeros_like(weights)  # sum of alpha times the distance from each place
            for pair, (first, second) in zip(self._form.pairs[:, at], self._ends, strict=True):
                distance = distances[pair]
                away[first] += weights[second] * distance
                away[second] += weights[first] * distance
            spread -= 0.5 * np.einsum("ig,ig->g", weights, away)
            np.add(away[:r], spread, out=found[1, :, at])
        return found

    def slopes(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        """By how much the log evidence changes with rho, sites held, (g,)."""
        r = len(self._leaves)
        tau, natural = kept[:r], kept[self.natural]
        share = 1.0 / (1.0 + residual * tau.sum(0))
        each = share * tau  # G 1
        weights = natural.sum(0) - np.einsum("ig,ig->g", each, self._step(mean, slice(None)))
        whole = each.sum(0)
        ends = np.concatenate([each, -whole[None]])
        explained = np.zeros_like(whole)  # 1'G Phi P⁻¹ Phi'G 1
        for pair, (first, second) in zip(self._form.pairs, self._ends, strict=True):
            explained -= ends[first] * ends[second] * distances[pair]
        return np.asarray(0.5 * (weights**2 - whole + explained))

    def _step(self, mean: FloatArray, at: slice) -> FloatArray:
        utility = mean[self._rows[:, at]]
        if self._hub_wins:
            return np.asarray(utility[self._leaves] - utility[self._hub])
        return np.asarray(utility[self._hub] - utility[self._leaves])
