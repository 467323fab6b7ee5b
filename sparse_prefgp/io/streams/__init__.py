"""Duels that are read in chunks: Parquet files, a `tf.data.Dataset`, or `Duels` in memory.

Two schemas. *Ids*: columns `winner` and `loser` name rows of a table of items in memory. *Inline*:
columns `winner_x`, `loser_x`, … hold the features x, … of both sides. Either may have columns
`count` and `tie`, and one of weights. Each row is a duel, or `count` equal ones, with a site of its
own.
"""

from sparse_prefgp.io.streams.blocks import Chunk
from sparse_prefgp.io.streams.duels import StreamedDuels
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.streams.opening import PARQUET, columns_of, is_stream, stream_duels

__all__ = [
    "PARQUET",
    "Chunk",
    "ItemTable",
    "StreamedDuels",
    "columns_of",
    "is_stream",
    "stream_duels",
]
