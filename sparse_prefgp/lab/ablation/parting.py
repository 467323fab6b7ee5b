"""The duels of one seed of a study, from wherever they are, parted."""

from __future__ import annotations

from functools import lru_cache

from sparse_prefgp.lab.ablation.checksums import source_sums
from sparse_prefgp.lab.ablation.configuration import Data, SplitSettings
from sparse_prefgp.lab.ablation.data import (
    DATA,
    SplitTable,
    Sums,
    left_out_group,
    made_duels,
    read_files,
    split_rows,
    stream,
)
from sparse_prefgp.lab.ablation.named import named_duels


def parted(data: Data, split: SplitSettings, max_train: int | None, seed: int) -> SplitTable:
    """The duels of one seed, parted; the same for every method that is tried on them.

    :raises ValueError: what reading, making and splitting raise.
    """
    return _parted(data, split, max_train, seed, tuple(source_sums(data).items()))


@lru_cache(maxsize=2)
def _parted(
    data: Data, split: SplitSettings, max_train: int | None, seed: int, sums: Sums
) -> SplitTable:
    if data.made is not None:
        table, utilities = made_duels(data.made, stream(seed, DATA))
    elif data.files is not None:
        table, utilities = read_files(data.files, split.by, sums), None
    else:
        return named_duels(data, split, max_train, seed, sums)
    rows = split_rows(table, split, max_train, seed)
    return SplitTable(table, rows, utilities, left_out_group(table, split, seed))
