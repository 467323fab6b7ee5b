"""Public data sets by name, and duels from regression sets.

`load("boston")` and `boston()` are the same. Nothing is downloaded before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sparse_prefgp.data.splits import item_parts
from sparse_prefgp.datasets.demo import demo_tables
from sparse_prefgp.datasets.kamishima import Sushi, sushi
from sparse_prefgp.datasets.loading import fetch, load
from sparse_prefgp.datasets.registry import DataSet, RemoteFile, describe, names
from sparse_prefgp.datasets.sets import ChoiceSet, DuelSet, RankingSet, RegressionSet
from sparse_prefgp.datasets.targets import TargetDuels, duels_from_targets

__all__ = [
    "ChoiceSet",
    "DataSet",
    "DuelSet",
    "RankingSet",
    "RegressionSet",
    "RemoteFile",
    "Sushi",
    "TargetDuels",
    "demo_tables",
    "describe",
    "duels_from_targets",
    "fetch",
    "item_parts",
    "load",
    "names",
    "sushi",
]


def __getattr__(name: str) -> Callable[[], Any]:
    if name in names():
        return partial(load, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *names()]
