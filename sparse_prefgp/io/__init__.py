"""Reading items, duels, choices and rankings: CSV, JSON, Excel, Parquet and data frames."""

from sparse_prefgp.io.choices import read_best_worst as read_best_worst
from sparse_prefgp.io.choices import read_choices as read_choices
from sparse_prefgp.io.choices import read_rankings as read_rankings
from sparse_prefgp.io.reading import read_duels as read_duels
from sparse_prefgp.io.reading import read_items as read_items
from sparse_prefgp.io.streams import stream_duels as stream_duels
from sparse_prefgp.io.texts import with_texts as with_texts
from sparse_prefgp.io.vectors import with_embedding as with_embedding
