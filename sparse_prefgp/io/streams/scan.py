"""What a pass over all rows finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np

from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.data.batches import Totals, range_of
from sparse_prefgp.data.duels import check_covariates
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io.files import plain_ids
from sparse_prefgp.io.judgements import warn_of_spellings
from sparse_prefgp.io.streams.blocks import Source, ahead, regular
from sparse_prefgp.io.streams.items import Lookup
from sparse_prefgp.io.streams.parsing import labels_by_column, parsed
from sparse_prefgp.support.arrays import FloatArray, first_true

Report = Callable[[int, int], None]

# Rows read, and summed up by one checksum, at a time: some 4 MB of ids.
READ_ROWS = 1 << 18
# Numbers of inline features read at a time.
_READ_NUMBERS = 1 << 20


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
    """Of all rows, inline features as they are, with the names of all judges, people and labels in
    the order of their first appearance."""
    mean: FloatArray | None
    """(D,) of inline features over both sides; None without."""
    sd: FloatArray | None
    """The same."""


def scan_of(
    source: Source, lookup: Lookup | None, num_items: int | None, progress: Report | None
) -> Scan:
    """Of all rows of a source.

    :param lookup: as of `parsed`.
    :param num_items: n; None where features are inline.
    :raises ValueError: no rows, and what is wrong with one.
    """
    total = source.count_rows()
    if total == 0:
        raise ValueError(f"There are no duels in {source.name}; give at least one row.")
    every = READ_ROWS
    if source.inline is not None:
        every = max(_READ_NUMBERS // len(source.inline), 1)
    rows, digests, labels = 0, list[int](), labels_by_column(source.roles)
    totals, moments, ends = Totals(Answers([]), 0), _Moments(), None
    pieces = [range(a, b, every) for a, b in pairwise(source.edges)]
    starts = (*chain(*pieces), total)
    sizes = np.diff(starts).tolist()
    for block in ahead(regular(source.read(0, total, every), sizes)):
        events, features, digest = parsed(source, lookup, block, rows, labels)
        digests.append(digest)
        rows += len(events)
        totals = totals.plus(Totals.of(events, num_items, features))
        if features is not None:
            moments.add(features[0::2])
            moments.add(features[1::2])
        if events.covariate_steps is not None:
            ends = range_of(events.covariate_steps[0], ends)
        if progress is not None:
            progress(rows, total)
    if ends is not None and rows > 1:
        check_covariates(ends, totals.covariate_names)

    def of_all(codes: Codes) -> Codes:
        """All labels of a column: as they were read, or as they are in memory."""
        read = labels.get(str(codes.column))
        return codes if read is None else codes._replace(names=plain_ids([*read]))

    said = totals.said.recoded(of_all)
    if said.person is not None:
        warn_of_spellings(said.person.names, f"people (column {said.person.column!r})")
    for column, codes in said.labels.items():
        if codes.column in labels and codes.column not in source.roles.codes.values():
            warn_of_spellings(codes.names, f"labels (column {column!r})")
    return Scan(
        rows,
        starts,
        tuple(digests),
        replace(totals, said=said),
        mean=None if features is None else moments.mean,
        sd=None if features is None else np.sqrt(moments.squares / moments.count),
    )


class _Moments:
    """Mean and squares about it of rows that come in blocks (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = np.zeros(1)

    def add(self, rows: FloatArray) -> None:
        mean = rows.mean(0)
        total = self.count + len(rows)
        step = mean - self.mean
        self.squares = (
            self.squares + ((rows - mean) ** 2).sum(0) + step**2 * (self.count * len(rows) / total)
        )
        self.mean = self.mean + step * (len(rows) / total)
        self.count = total


def standardised(source: Source, scan: Scan) -> FeatureTransform:
    assert scan.mean is not None and scan.sd is not None and source.inline is not None
    assert scan.totals.ends is not None
    low, high = scan.totals.ends
    constant = high - low <= 1e-14 * np.maximum(-low, high)
    for i in first_true(constant):
        name = source.inline[i]
        raise ValueError(
            f"The feature {name!r} of {source.name} is constant, so that it tells nothing apart; "
            f"leave it out (ignore=[{name!r}], --ignore {name})."
        )
    return FeatureTransform(source.inline, tuple(map(float, scan.mean)), tuple(map(float, scan.sd)))
