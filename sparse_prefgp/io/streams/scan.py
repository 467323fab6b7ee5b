"""What a pass over all rows finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.answers import NO_SETS, AboutSets, Answers, Codes
from sparse_prefgp.data.duels import check_covariates
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io.files import plain_ids
from sparse_prefgp.io.judgements import warn_of_spellings
from sparse_prefgp.io.streams.blocks import Chunk, Source, ahead, regular
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.streams.parsing import labels_by_column, parsed
from sparse_prefgp.support.arrays import FloatArray, IntArray, first_true

Report = Callable[[int, int], None]

# Rows read, and summed up by one checksum, at a time: some 4 MB of ids.
READ_ROWS = 1 << 18
# Numbers of inline features read at a time.
_READ_NUMBERS = 1 << 20


class Totals(NamedTuple):
    """Of some rows."""

    sites: int
    """z behind their doors, of each copy where there are answers about sets."""
    duels: int
    """Duels, counts included."""
    ties: int
    """How many of the duels are ties."""
    comparisons: IntArray | None
    """(n,) duels of each item; for inline features low and high, (D,) each, over both sides."""
    low: FloatArray | None
    high: FloatArray | None
    grades: IntArray | None
    """(K + 1,) how often each level was said, ties first; None without grades."""
    judged: IntArray | None = None
    """(J, K + 1) how often each judge said each level, as `Answers.judge_levels`."""
    labels: Mapping[str, IntArray] = MappingProxyType({})
    """Of each column of labels, (1 + J,) how often each was said, those nobody knows first."""


@dataclass(frozen=True)
class Scan:
    """What one pass over all rows found."""

    rows: int
    """Events of the stream."""
    starts: tuple[int, ...]
    """The first row of each block, and the number of rows; a block lies within one file."""
    digests: tuple[int, ...]
    """A checksum of each block."""
    totals: Totals
    """Of all rows; of inline features as they are."""
    mean: FloatArray | None
    """(D,) of inline features over both sides; None without."""
    sd: FloatArray | None
    """The same."""
    covariate_squares: FloatArray | None
    """(C,) mean square of each covariate, winner less loser; None without."""
    sets: AboutSets
    """What a model has to know of answers about sets."""
    said: Answers
    """None of the events, but with the names of all judges, people and labels, in the order of
    their first appearance."""


def scan_of(source: Source, items: ItemTable | None, progress: Report | None) -> Scan:
    total = source.count_rows()
    if total == 0:
        raise ValueError(f"There are no duels in {source.name}; give at least one row.")
    every = READ_ROWS
    if source.inline is not None:
        every = max(_READ_NUMBERS // len(source.inline), 1)
    rows, digests = 0, list[int]()
    sums, labels = _Sums(items), labels_by_column(source.roles)
    pieces = [range(a, b, every) for a, b in pairwise(source.edges)]
    starts = (*chain(*pieces), total)
    sizes = np.diff(starts).tolist()
    for block in ahead(regular(source.read(0, total, every), sizes)):
        chunk, digest = parsed(source, items, None, block, rows, labels)
        digests.append(digest)
        rows += len(chunk.events)
        sums.add(chunk)
        if progress is not None:
            progress(rows, total)
    squares, sd, moments = None, None, sums.moments
    if sums.ends is not None:
        squares = sums.squares / sums.steps
        if rows > 1:
            check_covariates(sums.ends, sums.last.covariate_names)
    if items is None:
        sd = np.sqrt(moments.squares / moments.count)

    def of_all(codes: Codes) -> Codes:
        """All labels of a column: as they were read, or as they are in memory."""
        read = labels.get(str(codes.column))
        return codes if read is None else codes._replace(names=plain_ids([*read]))

    said = sums.last.take(np.arange(0)).recoded(of_all)
    if said.person is not None:
        warn_of_spellings(said.person.names, f"people (column {said.person.column!r})")
    for column, codes in said.labels.items():
        if codes.column in labels and codes.column not in source.roles.codes.values():
            warn_of_spellings(codes.names, f"labels (column {column!r})")
    return Scan(
        rows,
        starts,
        tuple(digests),
        sums.totals,
        mean=None if items is not None else moments.mean,
        sd=sd,
        covariate_squares=squares,
        sets=sums.sets,
        said=said,
    )


def totals_of(items: ItemTable | None, chunks: Iterator[Chunk], about_sets: bool) -> Totals:
    """Numbers of some chunks.

    :param about_sets: whether there are answers about sets anywhere in the stream.
    """
    sums = _Sums(items)
    sums.sets = AboutSets(about_sets)
    for chunk in chunks:
        sums.add(chunk)
    return sums.totals


class _Sums:
    """Over chunks that come one after the other."""

    def __init__(self, items: ItemTable | None) -> None:
        self.rows, self.duels, self.ties = 0, 0.0, 0.0
        self.sites, self.sites_apart = 0, 0  # of each copy, where there are sets
        self.grades: IntArray | None = None
        self.compared = None if items is None else np.zeros(items.num_items, dtype=np.int64)
        self.moments = _Moments()
        self.squares: Any = 0.0
        self.steps = 0.0  # with covariates, counts included
        self.ends: FloatArray | None = None
        self.judged: IntArray | None = None
        self.labelled: dict[str, IntArray] = {}
        self.sets = NO_SETS
        self.last = Answers([])

    def add(self, chunk: Chunk) -> None:
        events = self.last = chunk.events
        self.sites += int(events.sites.sum())
        self.sites_apart += int(events.sites @ events.copies)
        self.duels += float(events.counts.sum())
        self.ties += 0.0 if events.ties is None else float(events.counts[events.ties].sum())
        self.rows += len(events)
        self.sets = self.sets.plus(events.about_sets)
        judged = events.judge_levels
        if judged is not None:
            self.judged = _added(judged, self.judged)
        for column, codes in events.labels.items():
            place, size = np.maximum(codes.numbers, -1) + 1, 1 + len(codes.names)
            often = np.bincount(place, events.counts, minlength=size).astype(np.int64)
            self.labelled[column] = _added(often, self.labelled.get(column))
        steps = events.covariate_steps
        if steps is not None:
            values, event = steps
            both = values if self.ends is None else np.concatenate([values, self.ends])
            self.ends = np.stack([both.min(0), both.max(0)])
            number, here = events.counts[event].sum(), events.covariate_squares
            self.steps += float(number)
            self.squares = self.squares + number * here
        graded = events.grade_counts
        if graded is not None:
            self.grades = _added(graded, self.grades)
        if self.compared is not None:
            self.compared += events.compared(len(self.compared))
        else:
            self.moments.add(chunk.side(0))
            self.moments.add(chunk.side(1))

    @property
    def totals(self) -> Totals:
        sites = self.sites_apart if self.sets.any else self.sites
        numbers = sites, int(self.duels), int(self.ties), self.compared
        low, high = self.moments.low, self.moments.high
        ends = (low, high) if self.compared is None else (None, None)
        return Totals(*numbers, ends[0], ends[1], self.grades, self.judged, self.labelled)


def _added(now: IntArray, before: IntArray | None) -> IntArray:
    """Numbers of labels by place, and those of before, when there were fewer of them."""
    if before is not None:
        now[: len(before)] += before
    return now


class _Moments:
    """Mean, squares about it and range of rows that come in blocks (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = np.zeros(1)
        self.low, self.high = np.array([np.inf]), np.array([-np.inf])

    def add(self, rows: FloatArray) -> None:
        mean = rows.mean(0)
        total = self.count + len(rows)
        step = mean - self.mean
        self.squares = (
            self.squares + ((rows - mean) ** 2).sum(0) + step**2 * (self.count * len(rows) / total)
        )
        self.mean = self.mean + step * (len(rows) / total)
        self.low = np.minimum(self.low, rows.min(0))
        self.high = np.maximum(self.high, rows.max(0))
        self.count = total


def standardised(source: Source, scan: Scan) -> FeatureTransform:
    low, high = scan.totals.low, scan.totals.high
    assert scan.mean is not None and scan.sd is not None and source.inline is not None
    assert low is not None and high is not None
    constant = high - low <= 1e-14 * np.maximum(-low, high)
    for i in first_true(constant):
        name = source.inline[i]
        raise ValueError(
            f"The feature {name!r} of {source.name} is constant, so that it tells nothing apart; "
            f"leave it out (ignore=[{name!r}], --ignore {name})."
        )
    return FeatureTransform(source.inline, tuple(map(float, scan.mean)), tuple(map(float, scan.sd)))
