"""Looks at sets as cliques of alternatives: what sums over items see of answers about sets.

All looks whose rows compare their alternatives in one pattern are worked on at once, and what is
between two alternatives of a look belongs to their pair, which other looks may have too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import ChunkLinks, DuelGraph, Links, Noises
from sparse_prefgp.data.sets import shared_noise
from sparse_prefgp.support.arrays import FloatArray, IntArray


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
                bucket = _bucket(links, looks[here], sites[here], each.reshape(-1, 2))
                found.append((bucket, each.reshape(-1, 2)))
                first, second = np.triu_indices(bucket.rows.shape[1], 1)
                ends = np.sort(np.stack([bucket.rows[:, first], bucket.rows[:, second]]), 0)
                pairs.append(np.swapaxes(ends, 1, 2).reshape(2, -1))
        links_of_pairs, number = _merged(links, np.concatenate(pairs, 1))
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


def _bucket(links: Links, looks: IntArray, sites: IntArray, places: IntArray) -> Bucket:
    rows = np.zeros((len(looks), int(places.max()) + 1), np.int64)
    rows[:, places[:, 0]] = links.winners[sites]
    rows[:, places[:, 1]] = links.losers[sites]
    winners, losers = (np.broadcast_to(end, sites.shape) for end in places.T)
    return Bucket(looks, sites, rows, winners, losers)


def _merged(links: Links, ends: IntArray) -> tuple[Links, IntArray]:
    """Pairs between the rows of `links`, and the number of each of `ends` (2, q) among them."""
    n = links.num_rows
    if links.passing:
        return ChunkLinks(n, *ends), np.arange(ends.shape[1])
    distinct, number = np.unique(ends[0] * n + ends[1], return_inverse=True)
    return PairLinks(n, *np.divmod(distinct, n)), number.reshape(-1)


class PairLinks(ChunkLinks):
    """Pairs of rows that stay."""

    passing = False
