"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if "gpflow" not in sys.modules and find_spec("gpflow") is None:
    raise ModuleNotFoundError(
        "sparse_prefgp needs GPflow, which pip does not install of its own accord beside NumPy 2: "
        "run `pip install --no-deps gpflow==2.11.2`.",
        name="gpflow",
    )

# TensorFlow reads it once, when it is first imported; fatal errors only.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
os.environ.setdefault(_LOG_LEVEL, "3")

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
    "FitOutput": "studies.workflow",
    "FitSettings": "studies.settings",
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
    "PartitionedEP": "engines",
    "PosteriorDraws": "sampling",
    "PreferenceGP": "models",
    "PriorPower": "approximations",
    "Ranking": "analysis",
    "SampledEvidence": "analysis",
    "SamplingCheck": "sampling",
    "SequentialEP": "engines",
    "Status": "engines",
    "StreamedDuels": "io",
    "StreamedGP": "parts",
    "StreamedReport": "selection",
    "StreamedResult": "parts",
    "StudyReport": "studies.ablation_report",
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
    "fit": "studies.workflow",
    "greedy_em": "selection",
    "hallucination_believer": "analysis",
    "importance_sampling": "analysis",
    "initial_inputs": "selection",
    "kmeans_inputs": "models",
    "load": "models",
    "optimise": "selection",
    "optimise_streamed": "selection",
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
    "stream_duels": "io",
    "study_report": "studies.ablation_report",
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
    "FitOutput",
    "FitSettings",
    "GreedyReport",
    "HeteroscedasticVFE",
    "InferenceResult",
    "ItemEffect",
    "ItemInducingPoints",
    "Laplace",
    "LowRankPlusDiagonal",
    "OptimisationReport",
    "ParallelEP",
    "PartitionedEP",
    "PosteriorDraws",
    "PreferenceGP",
    "PriorPower",
    "Ranking",
    "SampledEvidence",
    "SamplingCheck",
    "SequentialEP",
    "Status",
    "StreamedDuels",
    "StreamedGP",
    "StreamedReport",
    "StreamedResult",
    "StudyReport",
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
    "fit",
    "greedy_em",
    "hallucination_believer",
    "importance_sampling",
    "initial_inputs",
    "kmeans_inputs",
    "load",
    "optimise",
    "optimise_streamed",
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
    "stream_duels",
    "study_report",
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
    from sparse_prefgp.data.duels import Duels
    from sparse_prefgp.engines import (
        InferenceResult,
        Laplace,
        LowRankPlusDiagonal,
        ParallelEP,
        PartitionedEP,
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
    from sparse_prefgp.io import (
        StreamedDuels,
        read_choices,
        read_duels,
        read_items,
        read_rankings,
        stream_duels,
    )
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
    from sparse_prefgp.models.streaming import StreamedGP, StreamedResult
    from sparse_prefgp.sampling import PosteriorDraws, SamplingCheck, sample_posterior
    from sparse_prefgp.learning import (
        AutoInputs,
        Checkpoint,
        GreedyReport,
        OptimisationReport,
        StreamedReport,
        auto_inputs,
        greedy_em,
        initial_inputs,
        optimise,
        optimise_streamed,
        to_tensorboard,
    )
    from sparse_prefgp.workflow import Candidate, Comparison, candidates_from, compare
    from sparse_prefgp.lab.report import StudyReport, study_report
    from sparse_prefgp.workflow.settings import FitSettings
    from sparse_prefgp.workflow.workflow import FitOutput, fit


def __getattr__(name: str) -> Any:
    if name == "datasets":  # used as `spg.datasets.boston()`
        return _room("datasets")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_room(_HOME[name]), name)


def _room(name: str) -> Any:
    full = f"{__name__}.{name}"
    if "tensorflow" in sys.modules or os.environ.get(_LOG_LEVEL) == "0":
        return import_module(full)
    from sparse_prefgp.support.quiet import held_back_stderr

    with held_back_stderr():  # TensorFlow prints notices before it reads its level
        return import_module(full)


def __dir__() -> list[str]:
    return sorted(__all__)
