"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "DTC": "approximations",
    "Duels": "duels",
    "Exact": "approximations",
    "FITC": "approximations",
    "HeteroscedasticVFE": "approximations",
    "InferenceResult": "engines",
    "ItemEffect": "covariances",
    "LowRankPlusDiagonal": "engines",
    "OptimisationReport": "selection",
    "ParallelEP": "engines",
    "PreferenceGP": "models",
    "PriorPower": "approximations",
    "SequentialEP": "engines",
    "Status": "engines",
    "SubsetOfData": "approximations",
    "TightVFE": "approximations",
    "TruncatedNormalResult": "engines",
    "VFE": "approximations",
    "kmeans_inputs": "models",
    "load": "models",
    "optimise": "selection",
    "read_duels": "io",
    "read_items": "io",
    "register_kernel": "models",
    "save": "models",
    "truncated_normal_ep": "engines",
}

__all__ = [
    "DTC",
    "FITC",
    "VFE",
    "Duels",
    "Exact",
    "HeteroscedasticVFE",
    "InferenceResult",
    "ItemEffect",
    "LowRankPlusDiagonal",
    "OptimisationReport",
    "ParallelEP",
    "PreferenceGP",
    "PriorPower",
    "SequentialEP",
    "Status",
    "SubsetOfData",
    "TightVFE",
    "TruncatedNormalResult",
    "__version__",
    "kmeans_inputs",
    "load",
    "optimise",
    "read_duels",
    "read_items",
    "register_kernel",
    "save",
    "truncated_normal_ep",
]

if TYPE_CHECKING:
    from sparse_prefgp.approximations import (
        DTC,
        FITC,
        VFE,
        Exact,
        HeteroscedasticVFE,
        PriorPower,
        SubsetOfData,
        TightVFE,
    )
    from sparse_prefgp.covariances import ItemEffect
    from sparse_prefgp.duels import Duels
    from sparse_prefgp.engines import (
        InferenceResult,
        LowRankPlusDiagonal,
        ParallelEP,
        SequentialEP,
        Status,
        TruncatedNormalResult,
        truncated_normal_ep,
    )
    from sparse_prefgp.io import read_duels, read_items
    from sparse_prefgp.models import PreferenceGP, kmeans_inputs, load, register_kernel, save
    from sparse_prefgp.selection import OptimisationReport, optimise


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
