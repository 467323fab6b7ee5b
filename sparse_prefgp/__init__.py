"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sparse_prefgp.support.moved import install, new_name

__version__ = "0.1.0"

install()

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
    "AutoInputs": "learning.initial",
    "Candidate": "workflow",
    "Challenge": "analysis.challenger",
    "Checkpoint": "learning.checkpoint",
    "Comparison": "workflow",
    "Consistency": "analysis.consistency",
    "DTC": "approximations",
    "DuelKernel": "gpflow_blocks",
    "DuelLikelihood": "gpflow_blocks",
    "Duels": "data.duels",
    "EvidenceReport": "analysis.certificates",
    "Exact": "approximations",
    "Explanation": "analysis.explanation",
    "FITC": "approximations",
    "FitOutput": "workflow.workflow",
    "FitSettings": "workflow.settings",
    "GreedyReport": "learning.greedy",
    "HeteroscedasticVFE": "approximations",
    "InferenceResult": "engines",
    "ItemEffect": "covariances",
    "Laplace": "engines",
    "ItemInducingPoints": "gpflow_blocks",
    "LowRankPlusDiagonal": "engines",
    "OptimisationReport": "learning.report",
    "PITC": "approximations",
    "ParallelEP": "engines",
    "PartitionedEP": "engines",
    "PosteriorDraws": "sampling",
    "PreferenceGP": "models",
    "PriorPower": "approximations",
    "Ranking": "analysis.ranking",
    "SampledEvidence": "analysis.importance",
    "SamplingCheck": "sampling",
    "SequentialEP": "engines",
    "Status": "engines",
    "StreamedDuels": "io",
    "StreamedGP": "models.streaming",
    "StreamedReport": "learning.report",
    "StreamedResult": "models.streaming",
    "StudyReport": "lab.report",
    "SubsetOfData": "approximations",
    "Suggestions": "analysis.suggestion",
    "TightVFE": "approximations",
    "TruncatedNormalResult": "engines",
    "UpdateReport": "analysis.updating",
    "VFE": "approximations",
    "Variational": "engines",
    "auto_inputs": "learning.initial",
    "candidates_from": "workflow",
    "compare": "workflow",
    "consistency": "analysis.consistency",
    "evaluate": "analysis.evaluation",
    "evidence_report": "analysis.certificates",
    "explain": "analysis.explanation",
    "export_saved_model": "disk.exporting",
    "fit": "workflow.workflow",
    "greedy_em": "learning.greedy",
    "hallucination_believer": "analysis.challenger",
    "importance_sampling": "analysis.importance",
    "initial_inputs": "learning.initial",
    "kmeans_inputs": "models",
    "load": "disk.saving",
    "optimise": "learning.optimise",
    "optimise_streamed": "learning.optimise",
    "predict": "analysis.prediction",
    "rank": "analysis.ranking",
    "read_choices": "io",
    "read_duels": "io",
    "read_items": "io",
    "read_rankings": "io",
    "register_kernel": "models",
    "sample_posterior": "sampling",
    "save": "disk.saving",
    "stacked_duels": "gpflow_blocks",
    "stream_duels": "io",
    "study_report": "lab.report",
    "suggest": "analysis.suggestion",
    "to_tensorboard": "learning.tensorboard",
    "truncated_normal_ep": "engines",
    "update": "analysis.updating",
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
    from sparse_prefgp.analysis.certificates import EvidenceReport, evidence_report
    from sparse_prefgp.analysis.challenger import Challenge, hallucination_believer
    from sparse_prefgp.analysis.consistency import Consistency, consistency
    from sparse_prefgp.analysis.evaluation import evaluate
    from sparse_prefgp.analysis.explanation import Explanation, explain
    from sparse_prefgp.analysis.importance import SampledEvidence, importance_sampling
    from sparse_prefgp.analysis.prediction import predict
    from sparse_prefgp.analysis.ranking import Ranking, rank
    from sparse_prefgp.analysis.suggestion import Suggestions, suggest
    from sparse_prefgp.analysis.updating import UpdateReport, update
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
    from sparse_prefgp.disk.exporting import export_saved_model
    from sparse_prefgp.disk.saving import load, save
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
    from sparse_prefgp.lab.report import StudyReport, study_report
    from sparse_prefgp.learning.checkpoint import Checkpoint
    from sparse_prefgp.learning.greedy import GreedyReport, greedy_em
    from sparse_prefgp.learning.initial import AutoInputs, auto_inputs, initial_inputs
    from sparse_prefgp.learning.optimise import optimise, optimise_streamed
    from sparse_prefgp.learning.report import OptimisationReport, StreamedReport
    from sparse_prefgp.learning.tensorboard import to_tensorboard
    from sparse_prefgp.models import PreferenceGP, kmeans_inputs, register_kernel
    from sparse_prefgp.models.streaming import StreamedGP, StreamedResult
    from sparse_prefgp.sampling import PosteriorDraws, SamplingCheck, sample_posterior
    from sparse_prefgp.workflow import Candidate, Comparison, candidates_from, compare
    from sparse_prefgp.workflow.settings import FitSettings
    from sparse_prefgp.workflow.workflow import FitOutput, fit


def __getattr__(name: str) -> Any:
    if name == "datasets":  # used as `spg.datasets.boston()`
        return _room("datasets")
    if new_name(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
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
