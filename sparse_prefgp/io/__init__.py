"""Reading items, duels, choices and rankings: CSV, Excel, Parquet and data frames."""

from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.io.choices import (
    read_choice_table,
    read_choices,
    read_ranking_table,
    read_rankings,
)
from sparse_prefgp.io.reading import read_duels, read_items, read_table
from sparse_prefgp.io.streams import StreamedDuels, stream_duels

__all__ = [
    "DuelTable",
    "StreamedDuels",
    "read_choice_table",
    "read_choices",
    "read_duels",
    "read_items",
    "read_ranking_table",
    "read_rankings",
    "read_table",
    "stream_duels",
]
