"""Contradictions and cycles in duels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray, runs
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Table, facts_table

WORST_SHOWN = 5
# Among equally strong cycles so many are compared by all their majorities.
CYCLES_RANKED = 10_000
# Pairs of pairs that are looked at at a time.
_AT_ONCE = 2**18


@dataclass(frozen=True)
class Cycle:
    """Three items of which the first beat the second, the second the third, the third the first."""

    items: tuple[Any, ...]
    """Their ids, or row numbers where they have none."""
    margins: tuple[int, ...]
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
    pairs = _Pairs.of(duels)
    lost, lead = pairs.totals - pairs.wins, 2 * pairs.wins - pairs.totals
    signs, triples, decided, cycles = np.sign(lead).astype(np.int8), 0, 0, 0
    strongest = np.zeros((6, 0), dtype=np.int64)
    for sides in pairs.triples():
        ahead, then, over = signs[sides]  # of i < j < k: i of j, j of k, i of k
        around = sides[:, (ahead == then) & (ahead == -over) & (ahead != 0)]
        triples += sides.shape[1]
        decided += int(np.count_nonzero(ahead * then * over))
        cycles += around.shape[1]
        # The last by how many votes k is ahead of i.
        found = np.concatenate([around, lead[around] * [[1], [1], [-1]]])
        strongest = np.concatenate([strongest, found], 1)
        size = np.abs(strongest[3:])
        order = np.lexsort((-size.sum(0), -size.min(0)))
        strongest = strongest[:, order[:CYCLES_RANKED]]
    return Consistency(
        votes=int(pairs.totals.sum()),
        ties=duels.num_ties,
        pairs=len(pairs.wins),
        contradicted_pairs=int(((pairs.wins > 0) & (lost > 0)).sum()),
        minority_votes=int(np.minimum(pairs.wins, lost).sum()),
        tied_pairs=int((lead == 0).sum()),
        triples=triples,
        decided_triples=decided,
        cycles=cycles,
        worst=_worst(pairs, strongest, duels.item_ids),
    )


def _worst(pairs: _Pairs, cycles: IntArray, ids: Sequence[Hashable] | None) -> tuple[Cycle, ...]:
    """The cycles with the strongest weakest majority, then with the strongest in all.

    :param cycles: (6, c) sides and margins of each.
    """
    found = []
    for one, two, _, *margins in cycles.T.tolist():
        items = pairs.items[[pairs.first[one], pairs.second[one], pairs.second[two]]].tolist()
        if margins[0] < 0:
            items, margins = items[::-1], [-margins[i] for i in (1, 0, 2)]
        names = [i if ids is None else ids[i] for i in items]
        start = int(np.argmax(margins))  # from its strongest majority on
        of, by = ((*each[start:], *each[:start]) for each in (names, margins))
        found.append(Cycle(of, by))
    found.sort(key=lambda cycle: (-min(cycle.margins), -sum(cycle.margins), str(cycle)))
    return tuple(found[:WORST_SHOWN])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Unordered pairs, of which the first has the smaller number, in ascending order.

    Items are renumbered by how many others they were compared with: then each has few neighbours
    with larger numbers, at most sqrt(2 pairs), whatever hubs there are, and triples are looked at
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
        ends = np.stack(np.divmod(np.unique(low * n + np.maximum(winners, losers)), n))
        degree = np.bincount(ends.ravel(), minlength=n)
        items = np.argsort(degree, kind="stable")
        number = np.argsort(items)
        won, lost = number[winners], number[losers]
        key, pair = np.unique(
            np.minimum(won, lost) * n + np.maximum(won, lost), return_inverse=True
        )
        first, second = np.divmod(key, n)
        pair = pair.reshape(-1)
        # Whole numbers in doubles are exact up to 2**53, as are those of all duels.
        wins, totals = (
            np.bincount(pair, x).astype(np.int64) for x in (np.where(won < lost, counts, 0), counts)
        )
        return cls(first, second, wins, totals, items)

    def triples(self) -> Iterator[IntArray]:
        """Numbers (3, T) of the pairs (i, j), (j, k) and (i, k) of triples i < j < k, some at a
        time."""
        n, number = len(self.items), np.arange(len(self.first))
        # From 1 on, as 0 is where two did not meet.
        place = csr_matrix((number + 1, (self.first, self.second)), (n, n))
        sizes = np.diff(place.indptr)[self.second]
        ends = np.cumsum(sizes)
        cuts = np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1], _AT_ONCE))
        for some in np.split(number, cuts):
            one = np.repeat(some, sizes[some])
            if not len(one):
                continue
            two = runs(place.indptr[self.second[some]], sizes[some])
            three = np.asarray(place[self.first[one], self.second[two]]).ravel() - 1
            yield np.stack([one, two, three])[:, three >= 0]
