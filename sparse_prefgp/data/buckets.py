"""Blocks of duels as arrays of equal shape, so that all of them are worked on at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparse_prefgp.support.arrays import IntArray, distinct, runs

# Blocks share a bucket where their sizes lie within one of so many steps of an octave: padding
# makes a block at most a quarter longer, and the number of buckets grows with log(size) only.
_STEPS = 4


class Bucket(NamedTuple):
    """g blocks of similar size, padded to b places for sites and p places for rows."""

    numbers: IntArray
    """(g,) of the blocks."""
    sites: IntArray
    """(g, b) the site in each place, t where there is none."""
    rows: IntArray
    """(g, p) the distinct rows of the graph that the sites of a block compare; padding is row 0."""
    winners: IntArray
    """(g, b) the place in `rows` of either end; both 0 where there is no site."""
    losers: IntArray
    """(g, b) the place in `rows` of either end; both 0 where there is no site."""


def bucketed(
    blocks: IntArray, winners: IntArray, losers: IntArray, num_rows: int
) -> tuple[Bucket, ...]:
    """The layout of t sites.

    :param blocks: (t,) block of each site, 0, 1, … without a gap.
    :param winners: (t,) row of either end of each site; losers likewise.
    :param num_rows: how many rows there are.
    """
    sizes = np.bincount(blocks)
    place = _place_within(blocks, sizes)
    keys = np.stack([winners, losers]) + num_rows * blocks
    held, position = distinct(keys)
    block_of_row, row = np.divmod(held, num_rows)
    rows_in = np.bincount(block_of_row, minlength=len(sizes))
    place_of_row = _place_within(block_of_row, rows_in)
    ends = place_of_row[position.reshape(2, -1)]

    found = []
    steps = _step(sizes)
    for step in np.unique(steps):
        numbers = np.flatnonzero(steps == step)
        slot = np.full(len(sizes), -1)
        slot[numbers] = np.arange(len(numbers))
        here, there = np.flatnonzero(slot[blocks] >= 0), np.flatnonzero(slot[block_of_row] >= 0)
        shape = (len(numbers), int(sizes[numbers].max()))
        index = (slot[blocks[here]], place[here])
        sites = np.full(shape, len(blocks))
        sites[index] = here
        placed = np.zeros((2, *shape), dtype=np.int64)
        placed[:, *index] = ends[:, here]
        rows = np.zeros((len(numbers), int(rows_in[numbers].max())), dtype=np.int64)
        rows[slot[block_of_row[there]], place_of_row[there]] = row[there]
        found.append(Bucket(numbers, sites, rows, *placed))
    return tuple(found)


def _place_within(blocks: IntArray, sizes: IntArray) -> IntArray:
    """0, 1, … within each block, in the order of appearance."""
    order = np.argsort(blocks, kind="stable")
    place = np.empty(len(blocks), dtype=np.int64)
    place[order] = runs(np.zeros_like(sizes), sizes)
    return place


def _step(sizes: IntArray) -> IntArray:
    """Which step of which octave each size falls into; sizes below 8 each have their own."""
    octave = np.maximum(np.floor(np.log2(sizes)).astype(np.int64), 2)
    width = 2**octave // _STEPS
    return octave * 2 * _STEPS + -(-sizes // width)
