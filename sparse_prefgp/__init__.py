"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Consistency": "analysis",
    "DTC": "approximations",
    "Duels": "duels",
    "Exact": "approximations",
    "Explanation": "analysis",
    "FITC": "approximations",
    "HeteroscedasticVFE": "approximations",
    "InferenceResult": "engines",
    "ItemEffect": "covariances",
    "LowRankPlusDiagonal": "engines",
    "OptimisationReport": "selection",
    "ParallelEP": "engines",
    "PreferenceGP": "models",
    "PriorPower": "approximations",
    "Ranking": "analysis",
    "SequentialEP": "engines",
    "Status": "engines",
    "SubsetOfData": "approximations",
    "TightVFE": "approximations",
    "TruncatedNormalResult": "engines",
    "UpdateReport": "models",
    "VFE": "approximations",
    "consistency": "analysis",
    "evaluate": "analysis",
    "explain": "analysis",
    "kmeans_inputs": "models",
    "load": "models",
    "optimise": "selection",
    "predict": "analysis",
    "rank": "analysis",
    "read_choices": "io",
    "read_duels": "io",
    "read_items": "io",
    "read_rankings": "io",
    "register_kernel": "models",
    "save": "models",
    "truncated_normal_ep": "engines",
    "update": "models",
}

__all__ = [
    "DTC",
    "FITC",
    "VFE",
    "Consistency",
    "Duels",
    "Exact",
    "Explanation",
    "HeteroscedasticVFE",
    "InferenceResult",
    "ItemEffect",
    "LowRankPlusDiagonal",
    "OptimisationReport",
    "ParallelEP",
    "PreferenceGP",
    "PriorPower",
    "Ranking",
    "SequentialEP",
    "Status",
    "SubsetOfData",
    "TightVFE",
    "TruncatedNormalResult",
    "UpdateReport",
    "__version__",
    "consistency",
    "evaluate",
    "explain",
    "kmeans_inputs",
    "load",
    "optimise",
    "predict",
    "rank",
    "read_choices",
    "read_duels",
    "read_items",
    "read_rankings",
    "register_kernel",
    "save",
    "truncated_normal_ep",
    "update",
]

if TYPE_CHECKING:
    from sparse_prefgp.analysis import (
        Consistency,
        Explanation,
        Ranking,
        consistency,
        evaluate,
        explain,
        predict,
        rank,
    )
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
    from sparse_prefgp.io import read_choices, read_duels, read_items, read_rankings
    from sparse_prefgp.models import (
        PreferenceGP,
        UpdateReport,
        kmeans_inputs,
        load,
        register_kernel,
        save,
        update,
    )
    from sparse_prefgp.selection import OptimisationReport, optimise


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
