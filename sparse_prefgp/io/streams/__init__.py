"""Duels that are read in chunks: Parquet files, a `tf.data.Dataset`, or `Duels` in memory.

Two schemas. *Ids*: columns `winner` and `loser` name rows of a table of items in memory. *Inline*:
columns `winner_x`, `loser_x`, … hold the features x, … of both sides. Either may have columns
`count` and `tie`, and others that are named: weights, grades, who judged, covariates; with ids also
the context. Each row is a duel, or `count` equal ones, with a site of its own.
"""

from sparse_prefgp.io.streams.opening import PARQUET as PARQUET
from sparse_prefgp.io.streams.opening import columns_of as columns_of
from sparse_prefgp.io.streams.opening import holds_duels as holds_duels
from sparse_prefgp.io.streams.opening import is_stream as is_stream
from sparse_prefgp.io.streams.opening import stream_duels as stream_duels
from sparse_prefgp.io.streams.stream import Stream as Stream
