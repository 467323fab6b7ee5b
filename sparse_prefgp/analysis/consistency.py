"""Contradictions and cycles in duels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, IntArray
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Table, facts_table

WORST_SHOWN = 5
# Among equally strong cycles so many are compared by all their majorities.
CYCLES_RANKED = 10_000


@dataclass(frozen=True)
class Cycle:
    """Three items of which the first beat the second, the second the third, the third the first."""

    items: tuple[Hashable, Hashable, Hashable]
    """Their ids, or row numbers where they have none."""
    margins: tuple[int, int, int]
    """By how many votes, in that order."""

    def __str__(self) -> str:
        a, b, c = map(str, self.items)
        return f"{a} > {b} > {c} > {a} (by {', '.join(map(str, self.margins))} votes)"


@dataclass(frozen=True)
class Consistency(Result):
    """How far duels contradict each other. `print` shows it as text.

    A pair is two items that were compared, in either order; the majority of its votes is a
    preference, equal votes are none.
    """

    also = ("share_intransitive",)

    votes: int
    """Number of duels that one side won."""
    pairs: int
    """Distinct unordered pairs of items in them."""
    contradicted_pairs: int
    """Pairs won by both sides at least once."""
    minority_votes: int
    """Votes against the majority of their pair, half of them where votes are equal."""
    tied_pairs: int
    """Pairs with equal votes for both sides."""
    triples: int
    """Three items compared in all three pairs."""
    decided_triples: int
    """Triples with a preference in all three pairs."""
    cycles: int
    """Decided triples a > b > c > a, which no order of the items agrees with."""
    worst: tuple[Cycle, ...]
    """The cycles whose weakest majority is strongest."""
    ties: int = 0
    """Duels left out because they were tied."""

    @property
    def share_intransitive(self) -> float:
        """Cycles per decided triple, NaN without any; coins in place of voters give 1/4."""
        return self.cycles / self.decided_triples if self.decided_triples else float("nan")

    def table(self, most: int | None = None) -> Table:
        """The counts."""
        share = f" ({100 * self.share_intransitive:.2f} % of these)" if self.decided_triples else ""
        rows = [
            ("votes", self.votes),
            ("ties, left out", self.ties or None),
            ("pairs compared", self.pairs),
            ("pairs won by both sides", self.contradicted_pairs),
            ("votes in the minority of their pair", self.minority_votes),
            ("pairs with equal votes", self.tied_pairs),
            ("triples compared in all three pairs", self.triples),
            ("triples with three preferences", self.decided_triples),
            ("cycles a > b > c > a", f"{self.cycles:,}{share}"),
        ]
        return facts_table("", rows)

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The counts and the strongest cycles."""
        parts: list[str | Table] = [self.table()]
        if self.worst:
            parts += ["Cycles with the strongest majorities:", *map(str, self.worst)]
        return parts


def consistency(duels: Duels) -> Consistency:
    """Count contradictions and intransitive triples; ties are left out.

    :param duels: the votes.
    :raises ValueError: only ties; answers about sets.
    """
    if duels.events.has_sets:
        raise together.refused(consistency=True, sets=f"{duels.events.noun} from sets")
    together.check(only_ties=not duels.decided.any(), consistency=True)
    graph = _Pairs.of(duels)
    lost = graph.totals - graph.wins
    return Consistency(
        votes=int(graph.totals.sum()),
        ties=duels.num_ties,
        pairs=len(graph.wins),
        contradicted_pairs=int(((graph.wins > 0) & (lost > 0)).sum()),
        minority_votes=int(np.minimum(graph.wins, lost).sum()),
        tied_pairs=int((graph.wins == lost).sum()),
        triples=graph.triangles(),
        decided_triples=graph.triangles(graph.wins != lost),
        cycles=graph.cycles(),
        worst=_worst(graph, duels),
    )


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Unordered pairs, of which the first has the smaller number by `order`.

    Items are renumbered by how many others they were compared with: then each has few neighbours
    with larger numbers, at most sqrt(2 pairs), whatever hubs there are, and triangles are counted
    in bounded memory.
    """

    first: IntArray
    """(p,) new numbers, first < second."""
    second: IntArray
    """(p,) new numbers, first < second."""
    wins: IntArray
    """(p,) votes for the first."""
    totals: IntArray
    """(p,) votes."""
    items: IntArray
    """(k,) item of each new number."""

    @classmethod
    def of(cls, duels: Duels) -> _Pairs:
        n, decided = duels.num_items, duels.decided
        winners, losers, counts = (x[decided] for x in (duels.winners, duels.losers, duels.counts))
        low = np.minimum(winners, losers)
        key, pair = np.unique(low * n + np.maximum(winners, losers), return_inverse=True)
        pair = pair.reshape(-1)
        ends = np.stack(np.divmod(key, n))
        degree = np.bincount(ends.ravel(), minlength=n)
        items = np.argsort(degree, kind="stable")[int((degree == 0).sum()) :]
        number = np.zeros(n, dtype=np.int64)
        number[items] = np.arange(len(items))
        first = number[ends].min(axis=0)
        second = number[ends].max(axis=0)
        won = np.where(number[winners] == first[pair], counts, 0)
        return cls(first, second, _sums(pair, won), _sums(pair, counts), items)

    def cycles(self) -> int:
        """Triples i > j > k > i for i < j < k, or the other way round."""
        margin = 2 * self.wins - self.totals
        forward, backward = self._matrix(margin > 0), self._matrix(margin < 0)
        return _closed(forward, backward) + _closed(backward, forward)

    def triangles(self, mask: BoolArray | None = None) -> int:
        """Triples compared in all three pairs, or in three pairs of a mask."""
        matrix = self._matrix(np.ones(len(self.wins), dtype=bool) if mask is None else mask)
        return _closed(matrix, matrix)

    def cycles_of(self, at_least: int, limit: int) -> list[tuple[int, int, int]]:
        """Up to `limit` cycles (a, b, c) of majorities by at least so many votes."""
        margin = 2 * self.wins - self.totals
        forward, backward = self._matrix(margin >= at_least), self._matrix(-margin >= at_least)
        found: list[tuple[int, int, int]] = []
        for step, back, turn in ((forward, backward, False), (backward, forward, True)):
            closing = ((step @ step) * back).tocoo()
            columns = step.tocsc()
            for i, k in zip(closing.row, closing.col, strict=True):
                out = step.indices[step.indptr[i] : step.indptr[i + 1]]
                into = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
                for j in np.intersect1d(out, into):
                    found.append((int(k), int(j), int(i)) if turn else (int(i), int(j), int(k)))
                    if len(found) >= limit:
                        return found
        return found

    def margin(self, winner: int, loser: int) -> int:
        """By how many votes one item, by its new number, is preferred to another."""
        low, high = min(winner, loser), max(winner, loser)
        at = int(np.flatnonzero((self.first == low) & (self.second == high))[0])
        margin = int(2 * self.wins[at] - self.totals[at])
        return margin if winner == low else -margin

    def _matrix(self, mask: BoolArray) -> Any:
        """Sparse (k, k) with 1 at (first, second) of the pairs of a mask."""
        k = len(self.items)
        ones = np.ones(int(mask.sum()), dtype=np.int64)
        return csr_array((ones, (self.first[mask], self.second[mask])), shape=(k, k))


def _sums(pair: IntArray, values: IntArray) -> IntArray:
    """Sums of whole numbers for each pair, exact up to 2**63."""
    result = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    np.add.at(result, pair, values)
    return result


def _closed(step: Any, close: Any) -> int:
    """Paths i, j, k of two steps whose ends i, k are in `close`."""
    return int(((step @ step) * close).sum())


def _worst(graph: _Pairs, duels: Duels) -> tuple[Cycle, ...]:
    """The cycles with the strongest weakest majority, then with the strongest in all."""
    levels = np.unique(np.abs(2 * graph.wins - graph.totals))
    levels = levels[levels > 0]
    # The largest level with enough cycles; levels above it have fewer, all of which are listed.
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        enough = len(graph.cycles_of(int(levels[middle]), WORST_SHOWN)) == WORST_SHOWN
        low, high = (middle + 1, high) if enough else (low, middle)
    found = [] if low == len(levels) else graph.cycles_of(int(levels[low]), WORST_SHOWN)
    if low:
        found += graph.cycles_of(int(levels[low - 1]), CYCLES_RANKED)
    ids = duels.item_ids
    cycles = []
    for a, b, c in dict.fromkeys(found):
        margins = graph.margin(a, b), graph.margin(b, c), graph.margin(c, a)
        names = [int(i) if ids is None else ids[i] for i in graph.items[[a, b, c]]]
        # From its strongest majority on.
        start = int(np.argmax(margins))
        turned = [(start + step) % 3 for step in range(3)]
        cycles.append(
            Cycle(
                (names[turned[0]], names[turned[1]], names[turned[2]]),
                (margins[turned[0]], margins[turned[1]], margins[turned[2]]),
            )
        )
    cycles.sort(key=lambda cycle: (-min(cycle.margins), -sum(cycle.margins), str(cycle)))
    return tuple(cycles[:WORST_SHOWN])
