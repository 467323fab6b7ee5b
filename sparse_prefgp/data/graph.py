"""Duels as the edges of a graph over items: what the numerics see of the data.

Only items that take part in a duel, only distinct feature rows, one *site* for each distinct
(winner, loser, lower, upper), with a count. Weighted sums over duels are products with the graph
Laplacian `W = A' diag(weights) A`, whose sparsity pattern is laid out once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sparse_prefgp.data.answers import Answers, Codes, Doors
from sparse_prefgp.data.buckets import Bucket, bucketed
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.rows import NO_FEATURES, RowLayout
from sparse_prefgp.data.sets import shared_noise
from sparse_prefgp.support.arrays import AnyArray, distinct, runs
from sparse_prefgp.support.custom_gradient import custom_gradient
from sparse_prefgp.support.linalg import by_numpy

# Above this many numbers a t × m temporary is worth the compilation that avoids it.
_FUSE_ABOVE = 1_000_000
# From so many numbers on, sums over groups go the way that is fast for many.
_COUNT_ABOVE = 50_000
_OF_A_WIN = (0, -1)
# Bytes of the rows of one tile of squared distances, half of a processor's second cache.
_TILE_BYTES = 1 << 20
Held = TypeVar("Held")


class Links(ABC):
    """Which row loses to which: all that sums over sites and differences of sites are made of."""

    winners: AnyArray
    """(t,) rows of the two ends of each site."""
    losers: AnyArray
    """(t,) rows of the two ends of each site."""
    passing: bool = False
    """The links of a chunk of duels that is worked on once, for which nothing is laid out in
    advance.
    """

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """n."""

    @cached_property
    def laplacian(self) -> Laplacian | PassingLaplacian:
        kind = PassingLaplacian if self.passing else Laplacian
        return kind(self.num_rows, self.winners, self.losers)

    @cached_property
    def incidence(self) -> Incidence:
        return Incidence(self.num_rows, self.winners, self.losers)

    @cached_property
    def sides(self) -> tuple[Groups, Groups]:
        """The sites that each row wins, and those that it loses."""
        return Groups(self.winners, self.num_rows), Groups(self.losers, self.num_rows)

    def tiles(self, rows: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Edges sorted so that a stretch of them has winners in one run of `rows` rows and losers
        in another, and where each site went; int32 tensors, (t,) each.

        What is gathered then stays in the processor's cache.
        """
        if rows not in self._tiles:
            order = np.lexsort((self.losers // rows, self.winners // rows))
            position = np.empty(self.num_sites, np.int32)
            position[order] = np.arange(self.num_sites, dtype=np.int32)
            with tf.init_scope():
                ends = (tf.constant(x[order], tf.int32) for x in (self.winners, self.losers))
                self._tiles[rows] = (*ends, tf.constant(position))
        return self._tiles[rows]

    @cached_property
    def _tiles(self) -> dict[int, tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        return {}

    @cached_property
    def edges(self) -> tuple[tf.Tensor, tf.Tensor]:
        """winners and losers as int32 tensors."""
        with tf.init_scope():  # an eager tensor even while a function is being traced
            return (
                tf.constant(self.winners, dtype=tf.int32),
                tf.constant(self.losers, dtype=tf.int32),
            )

    @property
    def num_sites(self) -> int:
        return len(self.winners)

    def same_ends(self, rows: AnyArray) -> AnyArray:
        """Which sites compare a row with itself, (t,).

        :param rows: (n, D), distinct where links stay.
        """
        if not self.passing:
            return np.asarray(self.winners == self.losers)
        return np.asarray(np.all(rows[self.winners] == rows[self.losers], 1))


class ChunkLinks(Links):
    """The links of a chunk of duels, to rows that all chunks share."""

    passing = True

    def __init__(self, num_rows: int, winners: AnyArray, losers: AnyArray) -> None:
        self._num_rows, self.winners, self.losers = num_rows, winners, losers

    @property
    def num_rows(self) -> int:
        return self._num_rows


class Noises(NamedTuple):
    """The noise of sites that share some: one for each alternative and look at a set."""

    draws: AnyArray
    """(t, 2) the noise of winner and loser of each site, by a number within its look."""
    look: AnyArray
    """(t,) the look at a set that each site is of, 0, 1, … without a gap."""
    own: AnyArray
    """(t,) how much of it, in units of sigma², is the site's own."""

    def of_sites(self, sites: AnyArray) -> AnyArray:
        """The covariance (..., b, b) of the noise of sites (..., b) of a look, at sigma² = 1.

        :param sites: their numbers, t where there is none.
        """
        draws = np.concatenate([self.draws, [[-1, -2]]])[sites]
        there = sites < len(self.draws)
        return shared_noise(draws) * (there[..., :, None] & there[..., None, :])


@dataclass(frozen=True, eq=False)
class DuelGraph(Links):
    """Distinct items and sites."""

    own: AnyArray
    """(k, D) distinct feature rows of the items that take part in a duel; of a chunk, of all. With
    the number of the item, and dates, where `layout` says so."""
    winners: AnyArray
    """(t,) row of the winner of each site."""
    losers: AnyArray
    """(t,) row of the loser of each site."""
    counts: AnyArray
    """(t,) how many duels the site stands for, with their weights."""
    lower: AnyArray
    """(t,) lower limit of v = f(loser) - f(winner) + noise where the margin is 0; -inf for a win.
    """
    upper: AnyArray
    """(t,) upper limit of that v; 0 for a win."""
    row_of_item: AnyArray
    """(number of items in the data,) row of each item, -1 where it takes no part."""
    cuts: AnyArray | None = None
    """(t, 2) at which cut each limit stands, with its sign; None for (0, -1), that of wins,
    everywhere."""
    events: Answers | None = None
    """What was said, between these rows, equal events once; None where it is not needed."""
    event: AnyArray | None = None
    """(t,) the event of each site, ascending; None where each has one site."""
    event_of_duel: AnyArray | None = None
    """(duels as given,) the event of each, before equal ones were merged; None where every event is
    a duel of its own.
    """
    count_of_duel: AnyArray | None = None
    """(duels as given,) the count of each; None where `event_of_duel` is."""
    blocks: AnyArray | None = None
    """(t,) block of each site, 0, 1, … without a gap, where the prior has blocks."""
    layout: RowLayout = NO_FEATURES
    """What the columns of a row are."""
    groups: AnyArray | None = None
    """(t,) the number of the group of each site, None without groups."""
    people: AnyArray | None = None
    """(t,) the number of whose preference each site is, None where all are one."""
    noises: Noises | None = None
    """Of which sides' noises the noise of each site is made; None where each has its own."""
    said: AnyArray | None = None
    """(2, t, c) columns from the D-th on of winners and losers, where rows are those of items."""
    item: AnyArray | None = None
    """(n,) which of `own` each row begins with, ascending; None where these are the rows."""
    further: AnyArray | None = None
    """(n, c) the columns from the D-th on of each row; None where `item` is."""
    passing: bool = False
    """A chunk of duels that is worked on once; rows may be equal then."""

    @classmethod
    def from_duels(
        cls,
        duels: Duels,
        numbered: bool = False,
        labels: Mapping[str, Sequence[Hashable]] | None = None,
        dated: Dated | None = None,
    ) -> DuelGraph:
        """Merge items with equal features and duels between the same rows.

        :param numbered: rows get a column more, the number of the item in the data, so that items
            with equal features stay apart.
        :param labels: where there are covariates, rows get the numbers of the labels of these
            columns too, as these names are numbered.
        :param dated: rows get two columns more, the date of the slice of the duel and that of the
            first slice of the item. Without it dates are of no account.
        """
        own, row_of_item = duels.distinct_rows(numbered)
        more: dict[str, Any] = {}
        layout = RowLayout(duels.num_features, numbered, dated=dated is not None)
        said = duels.events.onto(row_of_item).labelled_as(labels or {})
        if said.covariates is not None:
            layout = layout._replace(covariates=said.covariates.shape[1], levels=len(said.labels))
        if dated is not None or said.covariates is not None:
            own, more, said, row_of_item = _with_sides(own, said, row_of_item, layout, dated)
        said = said.saying(time=None, labels=None)
        first, number = said.alike()
        count = duels.merged.counts.astype(float)
        if duels.merged.weights is not None:
            count = count * duels.merged.weights
        return cls.of_events(
            own,
            said.merged(first, number),
            row_of_item=row_of_item,
            event_of_duel=number[duels.merged.rows],
            count_of_duel=count,
            layout=layout,
            **more,
        )

    @classmethod
    def of_events(cls, own: AnyArray, events: Answers, **more: Any) -> DuelGraph:
        """The sites of events between rows that are those of items, or begin with them: one for
        each z behind their doors."""
        doors = events.doors()
        weight = events.totals[doors.event] * doors.weight
        single = len(doors.event) == len(events)
        return cls.behind(
            doors._replace(weight=weight),
            own,
            events=events,
            event=None if single else doors.event,
            groups=_of_sites(events.judge, doors),
            people=_of_sites(events.person, doors),
            noises=noises_of(doors) if events.has_sets else None,
            **more,
        )

    @classmethod
    def behind(cls, doors: Doors, own: AnyArray, **more: Any) -> DuelGraph:
        """The sites behind some doors, whose weight counts all copies."""
        winners, losers = np.ascontiguousarray(doors.features.T)
        return cls(
            own=own,
            winners=winners,
            losers=losers,
            counts=doors.weight,
            lower=doors.limits[:, 0],
            upper=doors.limits[:, 1],
            cuts=None if np.all(doors.cuts == _OF_A_WIN) else doors.cuts,
            **more,
        )

    def in_blocks(self, blocks: AnyArray) -> DuelGraph:
        """The graph whose events stand for equal duels of one block only.

        :param blocks: of each duel as given, 0, 1, … without a gap.
        """
        event, counts = self.event_of_duel, self.count_of_duel
        if event is None or counts is None:
            counts = self.counts if self.events is None else self.events.totals
            event = np.arange(len(counts))
        pairs, of_duel = distinct(np.stack([event, blocks], 1), 0)
        parted = self.taking(pairs[:, 0], np.bincount(of_duel, counts))
        return replace(
            parted,
            blocks=parted.of_sites(pairs[:, 1]),
            event_of_duel=of_duel,
            count_of_duel=counts,
        )

    def taking(self, number: AnyArray, totals: AnyArray) -> DuelGraph:
        """Some events, by their numbers, that count as `totals`, over the same rows."""
        if self.events is None:  # each z by itself, between any limits
            ends = ("winners", "losers", "lower", "upper")
            taken = {name: getattr(self, name)[number] for name in ends}
            return replace(self, **taken, counts=totals, event_of_duel=None, count_of_duel=None)
        events = self.events.take(number).saying(counts=totals, weights=None)
        kept = ("row_of_item", "layout", "item", "further")
        more: dict[str, Any] = {name: getattr(self, name) for name in kept}
        found = DuelGraph.of_events(self.own, events, **more)
        if self.blocks is None:
            return found
        return replace(found, blocks=found.of_sites(self.blocks[self.first_sites][number]))

    def one_by_one(self) -> DuelGraph:
        """Each copy of an event by itself, where noises are shared: copies share none."""
        if self.noises is None or self.events is None or np.all(self.events.totals == 1.0):
            return self
        totals, copies = self.events.totals, self.events.copies
        number = np.repeat(np.arange(len(totals)), copies)
        apart = self.taking(number, (totals / copies)[number])
        event, count = self.event_of_duel, self.count_of_duel
        first = np.cumsum(copies) - copies
        return replace(
            apart,
            event_of_duel=first if event is None else first[event],
            count_of_duel=totals if count is None else count,
        )

    def of_sides(self, columns: Sequence[int]) -> AnyArray:
        """Some columns of the winner and of the loser of each site, (2, t, number of columns)."""
        if self.said is not None:
            return self.said[..., np.asarray(columns) - self.own.shape[1]]
        values = self.columns(columns)
        return np.stack([values[self.winners], values[self.losers]])

    def columns(self, columns: Sequence[int]) -> AnyArray:
        """Some columns of the rows, (n, number of columns)."""
        first = self.own.shape[1]
        if self.further is None or min(columns) < first:
            return self.rows[:, columns]
        return self.further[:, np.asarray(columns) - first]

    def of_sites(self, values: AnyArray) -> AnyArray:
        """Values (number of events,) of each event as those of its sites, (t,)."""
        return values if self.event is None else values[self.event]

    @cached_property
    def sites_of_duels(self) -> AnyArray:
        """The sites of each duel as given, one duel after the other."""
        if self.event_of_duel is None:
            return np.arange(self.num_sites)
        return self.sites_of(self.event_of_duel)

    def sites_of(self, events: AnyArray) -> AnyArray:
        """The sites of some events, by their numbers, one event after the other."""
        if self.event is None:
            return events
        sizes = np.bincount(self.event)
        return runs(np.append(0, np.cumsum(sizes))[events], sizes[events])

    @property
    def first_sites(self) -> AnyArray:
        """The first site of each event."""
        if self.event is None:
            return np.arange(self.num_sites)
        return np.searchsorted(self.event, np.arange(self.event[-1] + 1))

    @property
    def weight(self) -> float:
        """As how many answers, of duels or about sets, all count."""
        if self.event is None or self.events is None:
            return float(self.counts.sum())
        return float(self.events.totals.sum())

    @property
    def num_given(self) -> int:
        """How many duels were given, before equal ones were merged."""
        if self.event_of_duel is not None:
            return len(self.event_of_duel)
        return self.num_sites if self.event is None else int(self.event[-1]) + 1

    def of_duels(self, values: AnyArray) -> AnyArray:
        """Values (t,) that all sites of an event share as those of each duel as given."""
        values = values if self.event is None else values[self.first_sites]
        return values if self.event_of_duel is None else values[self.event_of_duel]

    @cached_property
    def won(self) -> AnyArray:
        """Which sites say who won, (t,): all but ties."""
        return np.ones(self.num_sites, bool) if self.cuts is None else self.cuts[:, 1] <= 0

    def __deepcopy__(self, memo: object) -> DuelGraph:
        return self  # nothing in it ever changes

    @property
    def num_rows(self) -> int:
        return len(self.own if self.item is None else self.item)

    @cached_property
    def rows(self) -> AnyArray:
        """(n, …) the rows as `layout` says; wide ones are made when they are first needed."""
        if self.item is None:
            return self.own
        assert self.further is not None
        return np.column_stack([self.own[self.item], self.further])

    @cached_property
    def one_sided(self) -> bool:
        """Whether every limit is (-inf, finite), as for wins without ties."""
        return bool(np.all(np.isneginf(self.lower)) and np.all(np.isfinite(self.upper)))

    @cached_property
    def comparisons(self) -> AnyArray:
        """Duels that each row takes part in, (n,)."""
        ends = np.concatenate([self.winners, self.losers])
        return np.bincount(ends, weights=np.tile(self.counts, 2), minlength=self.num_rows)

    @cached_property
    def residual_rank(self) -> int:
        """Upper bound on the rank of the residual: distinct items less connected components."""
        items, item = self.items  # covariates are exact, and leave no residual
        n, ones = len(items), np.ones(self.num_sites)
        winners, losers = item[self.winners], item[self.losers]
        adjacency = sparse.coo_matrix((ones, (winners, losers)), shape=(n, n))
        return n - int(connected_components(adjacency, directed=False)[0])

    @property
    def items(self) -> tuple[AnyArray, AnyArray]:
        """Distinct rows without what is said of a duel, and which of them each row is of, (n,)."""
        return self.own, np.arange(self.num_rows) if self.item is None else self.item

    @property
    def num_items(self) -> int:
        """How many items the rows are of, whatever was said of them in each duel."""
        numbered = self.layout.numbered
        return len(np.unique(self.own[:, self.layout.number]) if numbered else self.own)

    def buckets(self, blocks: AnyArray) -> tuple[Bucket, ...]:
        """The sites of blocks (t,) as arrays of equal shape; the last layout is held."""
        held, layout = self._held.get("buckets", (None, ()))
        if held is None or not np.array_equal(held, blocks):
            layout = bucketed(blocks, self.winners, self.losers, self.num_rows)
            self._held["buckets"] = blocks, layout
        return layout

    def once(self, name: str, lay_out: Callable[[], Held]) -> Held:
        """What `lay_out` makes of this graph, which nothing changes."""
        if name not in self._held:
            self._held[name] = lay_out()
        found: Held = self._held[name]
        return found

    @cached_property
    def _held(self) -> dict[str, Any]:
        return {}


def _of_sites(codes: Codes | None, doors: Doors) -> AnyArray | None:
    """The number of the label of each site, (t,)."""
    return None if codes is None else codes.numbers[doors.event].astype(np.int64)


def noises_of(doors: Doors) -> Noises:
    """Of sites behind doors that say of which noises theirs are made."""
    assert doors.draws is not None and doors.look is not None and doors.own is not None
    key = doors.event * (int(doors.look.max(initial=0)) + 1) + doors.look
    step = np.diff(key)
    if np.all(step >= 0):  # as events come; sorting takes ten times as long
        look = np.append(0, np.cumsum(step > 0))[: len(key)]
    else:
        look = distinct(key)[1]
    return Noises(doors.draws, look, doors.own)


def _with_sides(
    own: AnyArray,
    said: Answers,
    row_of_item: AnyArray,
    layout: RowLayout,
    dated: Dated | None,
) -> tuple[AnyArray, dict[str, AnyArray], Answers, AnyArray]:
    """Rows that hold what is said of their side too: those they begin with, their `item` and
    `further` columns; the events between them, and the row of each item (n,) where nothing is said
    of it, -1 where there is none."""
    columns = [said.sides.astype(float)]
    if dated is not None:
        number = own[said.sides, layout.number].astype(np.int64)
        dates, begin = np.repeat(dated.dates, said.sizes), dated.begin[number]
        columns += [dates, np.where(np.isnan(begin), dates, begin)]
    if said.covariates is not None:
        columns += list(said.side_columns().T)
    # Adding zero makes -0.0 and 0.0 the same row.
    keys, place = distinct(np.stack(columns, 1) + 0.0, 0)
    base = keys[:, 0].astype(np.int64)
    plain = np.full(len(own) + 1, -1)
    if dated is None:  # else something is said of each
        bare = np.flatnonzero(~np.any(keys[:, 1 : 1 + layout.covariates], 1))
        plain[base[bare]] = bare
    sides = said.saying(place, covariates=None)
    first = layout.first_covariate - own.shape[1] + 1
    new = np.append(True, np.any(keys[1:, :first] != keys[:-1, :first], 1))  # keys ascend
    own = np.column_stack([own[base[new]], keys[new, 1:first]])
    further = {}
    if said.covariates is not None:
        further = {"item": np.cumsum(new) - 1, "further": keys[:, first:].copy()}
    return own, further, sides.in_order(), plain[row_of_item]


class Incidence:
    """A' (n × t), +1 where a row loses and -1 where it wins, in CSR order."""

    def __init__(self, num_rows: int, winners: AnyArray, losers: AnyArray) -> None:
        proper = np.flatnonzero(winners != losers)  # between equal rows +1 and -1 cancel
        row = np.concatenate([losers[proper], winners[proper]])
        column = np.tile(proper, 2)
        order = np.lexsort((column, row))
        self._shape = [num_rows, len(winners)]
        with tf.init_scope():
            self._indices = tf.constant(np.stack([row, column], 1)[order], tf.int64)
            self._signs = tf.constant(np.repeat([1.0, -1.0], len(proper))[order])

    def transpose_matmul(self, dense: tf.Tensor) -> tf.Tensor:
        """A' @ dense for (t, k), without gradient: (n, k). Twice as fast as segment sums."""
        signs = tf.cast(self._signs, dense.dtype)
        return _sparse_product(self._indices, signs, self._shape, dense)


class Laplacian:
    """The weighted graph Laplacian `W = A' diag(w) A` over n rows, with a fixed sparsity pattern.

    A (t × n) has +1 in the loser's and -1 in the winner's column of each site. Only the values
    change with the weights; the pattern in CSR order is computed once. `W = D - S - S'` with D the
    diagonal of weighted degrees and S the strict upper triangle of weighted pairs.
    """

    def __init__(self, num_rows: int, winners: AnyArray, losers: AnyArray) -> None:
        proper = winners != losers  # a duel between equal rows has z = 0 and no weight
        first = np.minimum(winners, losers).astype(np.int64)
        key = np.where(proper, first * num_rows + np.maximum(winners, losers), -1)
        pairs, pair_of_site = distinct(key)
        if pairs[0] == -1:  # the improper ones come first; no pair has their number
            pairs = pairs[1:]
            pair_of_site = np.where(proper, pair_of_site - 1, len(pairs))
        low, high = np.divmod(pairs, num_rows)
        self.pair_of_site = pair_of_site
        """(t,) number of the pair of each site, P where it is of a row with itself."""
        self._distinct = np.array_equal(pair_of_site, np.arange(len(pairs)))
        self._num_rows = num_rows
        self._num_pairs = len(pairs)
        self._site_pairs = Groups(pair_of_site, self._num_pairs + 1)
        self._lower_ends, self._higher_ends = Groups(low, num_rows), Groups(high, num_rows)
        with tf.init_scope():
            # Ascending pairs are in CSR order: the pattern of S.
            self._upper = tf.constant(np.stack([low, high], 1), tf.int64)

    @cached_property
    def _whole(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The pattern of W in CSR order, and which of -S, -S' and D each entry comes from."""
        low, high = self._upper.numpy().T
        every = np.arange(self._num_rows)
        # A row's entries below the diagonal, on it and above it come in ascending order.
        row = np.concatenate([high, every, low])
        column = np.concatenate([low, every, high])
        order = np.argsort(row, kind="stable")
        with tf.init_scope():
            return (
                tf.constant(np.stack([row, column], 1)[order], tf.int64),
                tf.constant(order, tf.int32),
            )

    @property
    def num_rows(self) -> int:
        """n."""
        return self._num_rows

    @cached_property
    def pairs(self) -> AnyArray:
        """The ends of each pair that meets, the lower first, (P, 2)."""
        found: AnyArray = self._upper.numpy()
        return found

    def entries(self, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Summed weights of each pair, (P,), and of all pairs of each row, the diagonal of W."""
        pair = weights if self._distinct else self._site_pairs.sums(weights)[: self._num_pairs]
        return pair, self._lower_ends.sums(pair) + self._higher_ends.sums(pair)

    def _values(self, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Where the stored entries of W are, and what they are, in CSR order."""
        indices, order = self._whole
        pair, degree = self.entries(weights)
        return indices, tf.gather(tf.concat([-pair, degree, -pair], 0), order)

    def matmul(self, weights: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """W @ dense for weights (t,) and dense (n, k), without gradient: (n, k)."""
        return _sparse_product(*self._values(weights), [self._num_rows] * 2, dense)

    def half_matmul(self, weights: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """`(D / 2 - S) @ dense` =: H, (n, k), without gradient, at half the cost of W @ dense.

        For `dense' W dense = dense' H + H' dense`.
        """
        pair, degree = self.entries(weights)
        above = _sparse_product(self._upper, pair, [self._num_rows] * 2, dense)
        return 0.5 * degree[:, None] * dense - above

    def dense(self, weights: tf.Tensor) -> tf.Tensor:
        """W as an (n, n) array: for exact inference and log-determinants over items."""
        return tf.scatter_nd(*self._values(weights), [self._num_rows, self._num_rows])


class PassingLaplacian:
    """`Laplacian` for weights that come once: nothing is sorted, nothing equal is merged."""

    def __init__(self, num_rows: int, winners: AnyArray, losers: AnyArray) -> None:
        self._num_rows, self._winners, self._losers = num_rows, winners, losers

    def _times(self, weights: tf.Tensor, dense: tf.Tensor, both: bool) -> tf.Tensor:
        """S dense with the share of each edge on one side of the diagonal, or (S + S') dense."""
        n, w, lose = self._num_rows, self._winners, self._losers

        def multiply(dense: AnyArray, weights: AnyArray) -> AnyArray:
            degree = np.bincount(w, weights, n) + np.bincount(lose, weights, n)
            half = sparse.csr_matrix((weights, (w, lose)), shape=(n, n))
            found = np.multiply(degree[:, None] if both else 0.5 * degree[:, None], dense)
            found -= half @ dense
            if both:
                found -= half.T @ dense
            return found

        return by_numpy(multiply, dense, weights, shape=[n, dense.shape[1]])

    def matmul(self, weights: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """W @ dense for weights (t,) and dense (n, k), without gradient: (n, k)."""
        return self._times(weights, dense, True)

    def dense(self, weights: tf.Tensor) -> tf.Tensor:
        """W as an (n, n) array."""
        return self.matmul(weights, tf.eye(self._num_rows, dtype=weights.dtype))

    def half_matmul(self, weights: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """H, (n, k), with `dense' W dense = dense' H + H' dense`, as of `Laplacian`."""
        return self._times(weights, dense, False)


def _sparse_product(
    indices: tf.Tensor, values: tf.Tensor, shape: list[int], dense: tf.Tensor
) -> tf.Tensor:
    """A sparse matrix in CSR order times `dense`, which the plain kernels take ten times longer."""
    sparse = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=indices, values=values, dense_shape=shape
    )
    product = tf.raw_ops.SparseMatrixMatMul(a=sparse, b=dense)
    return tf.ensure_shape(product, [shape[0], dense.shape[1]])


class Groups:
    """Which group each of t values belongs to, for sums over groups.

    `unsorted_segment_sum` takes four times as long as NumPy's `bincount` where there are many
    values, and TensorFlow's own bincount adds in an order that is not always the same.
    """

    def __init__(self, group: AnyArray, size: int) -> None:
        self._group, self._size = np.asarray(group, np.intp), size
        self._tensor = None
        if len(group) < _COUNT_ABOVE:
            with tf.init_scope():
                self._tensor = tf.constant(group, tf.int32)

    def sums(self, values: tf.Tensor) -> tf.Tensor:
        """Sums of values (t,) over each group, (size,), without gradient."""
        if self._tensor is not None:
            return tf.math.unsorted_segment_sum(values, self._tensor, self._size)

        def add(numbers: AnyArray) -> AnyArray:
            found = np.bincount(self._group, weights=numbers, minlength=self._size)
            return found.astype(numbers.dtype, copy=False)

        return by_numpy(add, values, shape=[self._size])


def incidence_transpose(graph: Links, values: tf.Tensor) -> tf.Tensor:
    """A' values: (t,) or (t, k) per site to (n,) or (n, k) per row, without a dense A."""
    if values.shape.rank == 2:
        return graph.incidence.transpose_matmul(values)
    won, lost = graph.sides
    return lost.sums(values) - won.sums(values)


def differences(graph: Links, values: tf.Tensor) -> tf.Tensor:
    """A values: (n,) or (n, k) per row to (t,) or (t, k) per site, loser minus winner."""
    winners, losers = graph.edges

    @custom_gradient
    def compute(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        x = tf.stop_gradient(x)  # else an eager tape records the gathers too
        # By itself, the gradient of each gather would copy (t, k) twice more.
        return tf.gather(x, losers) - tf.gather(x, winners), lambda upstream: incidence_transpose(
            graph, upstream
        )

    return compute(values)


def squared_distances(graph: Links, features: tf.Tensor) -> tf.Tensor:
    """|features[loser] - features[winner]|² per site, (t,), from features (n, k).

    No t × k array is kept: the gradient is 2 W features with W the Laplacian of the incoming
    weights, and above a size the forward pass is fused by the compiler.
    """

    @custom_gradient
    def compute(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        x = tf.stop_gradient(x)  # else an eager tape records what its gradient does not need

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return 2.0 * graph.laplacian.matmul(upstream, x)

        return squared_distances_without_gradient(graph, x), gradient

    return compute(features)


def squared_distances_without_gradient(graph: Links, features: tf.Tensor) -> tf.Tensor:
    """`squared_distances` where no gradient is asked for, of features (n, k)."""
    n, k = graph.num_rows, features.shape[1]
    if n * n <= graph.num_sites:  # each pair of rows once
        winners, losers = graph.edges
        pairs = np.divmod(np.arange(n * n, dtype=np.int32), np.int32(n))
        fused = n * n * k > _FUSE_ABOVE
        measure = fused_squared_distances if fused else _squared_distances
        return tf.gather(measure(features, *pairs), n * winners + losers)
    if graph.num_sites * k <= _FUSE_ABOVE:
        return _squared_distances(features, *graph.edges)
    rows = _TILE_BYTES // (k * features.dtype.size)
    if not 0 < rows < n or graph.passing:
        return fused_squared_distances(features, *graph.edges)
    winners, losers, position = graph.tiles(rows)
    return tf.gather(fused_squared_distances(features, winners, losers), position)


def _squared_distances(features: tf.Tensor, winners: tf.Tensor, losers: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum((tf.gather(features, losers) - tf.gather(features, winners)) ** 2, -1)


@tf.function(jit_compile=True, autograph=False)
def fused_squared_distances(
    features: tf.Tensor, winners: tf.Tensor, losers: tf.Tensor
) -> tf.Tensor:
    """|row of the loser - row of the winner|², (t,), in one pass without a t × m temporary."""
    # One sum over a whole row is done number by number; sums of eight slices side by side are
    # vectorised, which takes a fifth of the time.
    width = features.shape[1] // 8
    step = tf.gather(features, losers) - tf.gather(features, winners)
    total = tf.reduce_sum(step[:, 8 * width :] ** 2, -1)
    if width:
        slices = [step[:, i * width : (i + 1) * width] for i in range(8)]
        total += tf.reduce_sum(sum(x * x for x in slices[1:]) + slices[0] ** 2, -1)
    return total
