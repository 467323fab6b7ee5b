"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AutoInputs": "selection",
    "Candidate": "studies",
    "Challenge": "analysis",
    "Checkpoint": "selection",
    "Comparison": "studies",
    "Consistency": "analysis",
    "DTC": "approximations",
    "DuelKernel": "gpflow_blocks",
    "DuelLikelihood": "gpflow_blocks",
    "Duels": "duels",
    "EvidenceReport": "analysis",
    "Exact": "approximations",
    "Explanation": "analysis",
    "FITC": "approximations",
    "GreedyReport": "selection",
    "HeteroscedasticVFE": "approximations",
    "InferenceResult": "engines",
    "ItemEffect": "covariances",
    "Laplace": "engines",
    "ItemInducingPoints": "gpflow_blocks",
    "LowRankPlusDiagonal": "engines",
    "OptimisationReport": "selection",
    "PITC": "approximations",
    "ParallelEP": "engines",
    "PosteriorDraws": "sampling",
    "PreferenceGP": "models",
    "PriorPower": "approximations",
    "Ranking": "analysis",
    "SampledEvidence": "analysis",
    "SamplingCheck": "sampling",
    "SequentialEP": "engines",
    "Status": "engines",
    "SubsetOfData": "approximations",
    "Suggestions": "analysis",
    "TightVFE": "approximations",
    "TruncatedNormalResult": "engines",
    "UpdateReport": "models",
    "VFE": "approximations",
    "Variational": "engines",
    "auto_inputs": "selection",
    "candidates_from": "studies",
    "compare": "studies",
    "consistency": "analysis",
    "evaluate": "analysis",
    "evidence_report": "analysis",
    "explain": "analysis",
    "export_saved_model": "models",
    "greedy_em": "selection",
    "hallucination_believer": "analysis",
    "importance_sampling": "analysis",
    "initial_inputs": "selection",
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
    "sample_posterior": "sampling",
    "save": "models",
    "stacked_duels": "gpflow_blocks",
    "suggest": "analysis",
    "to_tensorboard": "selection",
    "truncated_normal_ep": "engines",
    "update": "models",
}

__all__ = [
    "DTC",
    "FITC",
    "PITC",
    "VFE",
    "AutoInputs",
    "Candidate",
    "Challenge",
    "Checkpoint",
    "Comparison",
    "Consistency",
    "DuelKernel",
    "DuelLikelihood",
    "Duels",
    "EvidenceReport",
    "Exact",
    "Explanation",
    "GreedyReport",
    "HeteroscedasticVFE",
    "InferenceResult",
    "ItemEffect",
    "ItemInducingPoints",
    "Laplace",
    "LowRankPlusDiagonal",
    "OptimisationReport",
    "ParallelEP",
    "PosteriorDraws",
    "PreferenceGP",
    "PriorPower",
    "Ranking",
    "SampledEvidence",
    "SamplingCheck",
    "SequentialEP",
    "Status",
    "SubsetOfData",
    "Suggestions",
    "TightVFE",
    "TruncatedNormalResult",
    "UpdateReport",
    "Variational",
    "__version__",
    "auto_inputs",
    "candidates_from",
    "compare",
    "consistency",
    "evaluate",
    "evidence_report",
    "explain",
    "export_saved_model",
    "greedy_em",
    "hallucination_believer",
    "importance_sampling",
    "initial_inputs",
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
    "sample_posterior",
    "save",
    "stacked_duels",
    "suggest",
    "to_tensorboard",
    "truncated_normal_ep",
    "update",
]

if TYPE_CHECKING:
    from sparse_prefgp.analysis import (
        Challenge,
        Consistency,
        EvidenceReport,
        Explanation,
        Ranking,
        SampledEvidence,
        Suggestions,
        consistency,
        evaluate,
        evidence_report,
        explain,
        hallucination_believer,
        importance_sampling,
        predict,
        rank,
        suggest,
    )
    from sparse_prefgp.approximations import (
        DTC,
        FITC,
        PITC,
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
        Laplace,
        LowRankPlusDiagonal,
        ParallelEP,
        SequentialEP,
        Status,
        TruncatedNormalResult,
        Variational,
        truncated_normal_ep,
    )
    from sparse_prefgp.gpflow_blocks import (
        DuelKernel,
        DuelLikelihood,
        ItemInducingPoints,
        stacked_duels,
    )
    from sparse_prefgp.io import read_choices, read_duels, read_items, read_rankings
    from sparse_prefgp.models import (
        PreferenceGP,
        UpdateReport,
        export_saved_model,
        kmeans_inputs,
        load,
        register_kernel,
        save,
        update,
    )
    from sparse_prefgp.sampling import PosteriorDraws, SamplingCheck, sample_posterior
    from sparse_prefgp.selection import (
        AutoInputs,
        Checkpoint,
        GreedyReport,
        OptimisationReport,
        auto_inputs,
        greedy_em,
        initial_inputs,
        optimise,
        to_tensorboard,
    )
    from sparse_prefgp.studies import Candidate, Comparison, candidates_from, compare


def __getattr__(name: str) -> Any:
    if name == "datasets":  # used as `spg.datasets.boston()`
        return import_module(f"{__name__}.datasets")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
