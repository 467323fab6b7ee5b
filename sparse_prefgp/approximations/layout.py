"""Over items or over duels, and in which chunks: chosen from sizes and free memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import tensorflow as tf

from sparse_prefgp.approximations.exact import is_over_items
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.machine import ASKED_ABOVE, ask, free_memory, usable_threads

_log = logging.getLogger(__name__)
# Multiplications of a sweep from which on the forms are compared by cost and not by items alone.
_LARGE = 1e8
# Features of the items of one chunk; kernel and solve keep some ten arrays of this size.
_CHUNK_BYTES, _LEAST_CHUNK_BYTES = 96 << 20, 4 << 20
_ARRAYS_OF_A_CHUNK = 10
# Of the features of all items, while they are made and in the gradient; and over duels of these
# and of the duels, where items are fewer, so that there is one chunk.
ARRAYS_OVER_ITEMS, _ARRAYS_OVER_DUELS = 6, 3
# Of streams: arrays of the size of B, once and for each chunk; arrays as large as the features of
# one side of a chunk; numbers of all of them where free memory is unknown; numbers of a chunk's
# Phi; the least and the largest chunk.
_ARRAYS_OF_ITEMS, _ARRAYS_OF_ITEM_CHUNK = 6, 2
_ARRAYS_OF_SIDES = 4
_UNKNOWN_ROOM = 1 << 30
# Of a duel in a fit in memory, besides as many as its row has columns: of 260,000 battles between
# models with 60 columns 80, by the largest resident set.
_NUMBERS_OF_A_FIT = 96
_STREAM_NUMBERS = 1 << 22
_LEAST_STREAM, _LEAST_ITEM_CHUNK, _MOST_STREAM = 1 << 12, 1 << 14, 1 << 18


@dataclass(frozen=True)
class FeatureLayout:
    """How the algebra of inducing values goes over the data."""

    over_items: bool
    """Over the features of the items, else over those of the duels."""
    chunk: int
    """Duels whose features are made at once, in the form over duels."""
    bytes: int
    """What the features and what a sweep makes of them take."""
    free: int | None
    """Bytes that there are, None where unknown."""
    at_once: int = 1
    """Chunks worked on at a time, each by a thread of its own."""


def choose_layout(over: str | None, graph: DuelGraph, m: int, number_bytes: int) -> FeatureLayout:
    """The form for n items and t sites of `graph` and m inducing values.

    A sweep takes 2 n m² multiplications in dense products over items, 1.5 t m² over duels; the form
    over items takes six (n, m) arrays, the other one (t, m) array and those of a chunk, or three of
    either where items are fewer. The cheaper one that fits into memory is taken; small problems go
    by whether items are fewer than sites.

    :param over: "items" or "duels" where the user has decided.
    :param number_bytes: of one number. Logged at debug level.
    :raises NotEnoughMemory: not even the leaner form fits.
    """
    n, t, free = graph.num_rows, graph.num_sites, free_memory()
    chunk_bytes = _CHUNK_BYTES
    if free is not None:
        room = free // (2 * _ARRAYS_OF_A_CHUNK)
        chunk_bytes = min(_CHUNK_BYTES, max(room, _LEAST_CHUNK_BYTES))
    row = m * number_bytes
    over_duels = _ARRAYS_OVER_DUELS * (n + t) * row
    if n >= t:
        over_duels = t * row + _ARRAYS_OF_A_CHUNK * min(chunk_bytes, t * row)
    needs = {True: ARRAYS_OVER_ITEMS * n * row, False: over_duels}
    over_items = is_over_items(over, graph)
    if over is None and t * m * m > _LARGE:
        over_items = 2.0 * n < 1.5 * t
        if free is not None and needs[over_items] > free and needs[not over_items] <= free:
            over_items = not over_items
    layout = FeatureLayout(over_items, max(1, chunk_bytes // (2 * row)), needs[over_items], free)
    _tell(layout, n, t, m)
    ask_for_features(n, t, m, layout.bytes)
    return layout


def choose_stream_layout(
    n: int | None, t: int, m: int, columns: int, chunk: int | None = None
) -> FeatureLayout:
    """The form for at most t streamed duels in a part, m inducing inputs and n items in memory.

    Over items where duels share them and six (n, m) arrays, and two for each thread, fit into half
    of the free memory: then in chunks of at most 2^18 duels, or n, of which no (chunk, m) array is
    made, one for each thread. Else over duels, in chunks with 2^22 / m of them, ten arrays of each.
    Besides these are the features of both sides. Chunks are shorter, and fewer worked on at a time,
    where half of the free memory is less.

    :param n: None where duels have features of their own.
    :param columns: D.
    :param chunk: where the user has decided.
    """
    free, threads = free_memory(), usable_threads()
    room = None if free is None else free // 16  # numbers in half of it
    # Numbers that there are once, for each chunk, and for each duel of a chunk.
    once, of_a_chunk, of_a_duel = 0, 0, _ARRAYS_OF_SIDES * columns + _ARRAYS_OF_A_CHUNK * m
    length = max(_STREAM_NUMBERS // m, _LEAST_STREAM)
    over_items = False
    if n is not None and n <= t:
        items = (_ARRAYS_OF_ITEMS * n * m, _ARRAYS_OF_ITEM_CHUNK * n * m)
        over_items = sum(items) <= (_UNKNOWN_ROOM if room is None else room)
        if over_items:
            (once, of_a_chunk), of_a_duel = items, _ARRAYS_OF_SIDES * columns
            length = max(min(-(-t // threads), _MOST_STREAM), _LEAST_ITEM_CHUNK, n)
    if chunk is not None:
        length = chunk
    elif room is not None:
        length = min(length, (room - once - of_a_chunk) // of_a_duel)
    length = max(1, min(length, t))
    each = of_a_chunk + length * of_a_duel
    at_once = min(threads, -(-t // length))
    if room is not None:
        at_once = max(1, min(at_once, (room - once) // each))
    layout = FeatureLayout(over_items, length, 8 * (once + at_once * each), free, at_once)
    _tell(layout, n, t, m)
    return layout


def fits_in_memory(n: int, t: int, m: int, columns: int) -> bool:
    """Whether a fit of t duels between n shared items takes so little memory that it need not read
    them again and again: 256 MiB, or half of what is free.

    :param m: inducing values.
    :param columns: of a row.
    """
    free = free_memory()
    needed = 8 * (ARRAYS_OVER_ITEMS * n * m + t * (columns + _NUMBERS_OF_A_FIT))
    return n <= t and needed <= (ASKED_ABOVE if free is None else min(ASKED_ABOVE, free // 2))


def _tell(layout: FeatureLayout, n: int | None, t: int, m: int) -> None:
    free = "unknown" if layout.free is None else f"{layout.free / 2**30:.2f} GiB"
    _log.debug(
        "over %s: t = %s, n = %s, m = %s, %.2f GiB of %s free, chunks of %s duels, %s at "
        "a time, %s threads",
        "items" if layout.over_items else "duels",
        t,
        n,
        m,
        layout.bytes / 2**30,
        free,
        layout.chunk,
        layout.at_once,
        tf.config.threading.get_intra_op_parallelism_threads() or usable_threads(),
    )


def ask_for_features(n: int, t: int, m: int, needed: int) -> None:
    """Ask for the memory that features take, of n items and t duels by m inducing values.

    :param needed: bytes.
    :raises NotEnoughMemory: more than is free.
    """
    ask(
        needed,
        f"The features of {t:,} duels between {n:,} items with {m:,} inducing values",
        "use fewer inducing inputs, or StreamedGP, which reads duels in chunks",
    )
