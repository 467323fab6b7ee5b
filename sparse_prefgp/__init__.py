"""Sparse and variational preference Gaussian processes on GPflow.

Names are imported when they are first used, so that `import sparse_prefgp` costs nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparse_prefgp.support.extras import require_gpflow
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.support.version import __version__ as __version__

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
os.environ.setdefault(_LOG_LEVEL, "3")  # fatal errors only; read when TensorFlow is first imported
# 2^17 cycles, 50 µs, in place of 2^26: threads of OpenBLAS that wait for work take the cores from
# those of TensorFlow. It counts where NumPy is not imported yet.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "17")

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ahead import score_ahead as score_ahead
    from sparse_prefgp.analysis.audit import audit as audit
    from sparse_prefgp.analysis.certificates import evidence_report as evidence_report
    from sparse_prefgp.analysis.consistency import consistency as consistency
    from sparse_prefgp.analysis.evaluation import evaluate as evaluate
    from sparse_prefgp.analysis.explanation import explain as explain
    from sparse_prefgp.analysis.first_round import first_round as first_round
    from sparse_prefgp.analysis.meeting import meet as meet
    from sparse_prefgp.analysis.metrics import score as score
    from sparse_prefgp.analysis.prediction import predict as predict
    from sparse_prefgp.analysis.projection import initial_projection as initial_projection
    from sparse_prefgp.analysis.ranking import rank as rank
    from sparse_prefgp.analysis.rivals import conditional_logit as conditional_logit
    from sparse_prefgp.analysis.settling import settled as settled
    from sparse_prefgp.analysis.shares import shares as shares
    from sparse_prefgp.analysis.suggestion import suggest as suggest
    from sparse_prefgp.analysis.updating import update as update
    from sparse_prefgp.analysis.worth import worth as worth
    from sparse_prefgp.approximations import DTC as DTC
    from sparse_prefgp.approximations import FITC as FITC
    from sparse_prefgp.approximations import PITC as PITC
    from sparse_prefgp.approximations import VFE as VFE
    from sparse_prefgp.approximations import Exact as Exact
    from sparse_prefgp.approximations import HeteroscedasticVFE as HeteroscedasticVFE
    from sparse_prefgp.approximations import InducingApproximation as InducingApproximation
    from sparse_prefgp.approximations import PriorPower as PriorPower
    from sparse_prefgp.approximations import SubsetOfData as SubsetOfData
    from sparse_prefgp.approximations import TightVFE as TightVFE
    from sparse_prefgp.covariances import ItemEffect as ItemEffect
    from sparse_prefgp.covariances import ItemInTime as ItemInTime
    from sparse_prefgp.covariances import ItemTimes as ItemTimes
    from sparse_prefgp.covariances import PairEffect as PairEffect
    from sparse_prefgp.covariances import Projected as Projected
    from sparse_prefgp.covariances import SameLevel as SameLevel
    from sparse_prefgp.data.answers import Answers as Answers
    from sparse_prefgp.data.duels import Duels as Duels
    from sparse_prefgp.data.forecast import Forecast as Forecast
    from sparse_prefgp.data.splits import split_duels as split_duels
    from sparse_prefgp.disk.exporting import export_saved_model as export_saved_model
    from sparse_prefgp.disk.saving import load as load
    from sparse_prefgp.disk.saving import save as save
    from sparse_prefgp.engines import Laplace as Laplace
    from sparse_prefgp.engines import LowRankPlusDiagonal as LowRankPlusDiagonal
    from sparse_prefgp.engines import ParallelEP as ParallelEP
    from sparse_prefgp.engines import PartitionedEP as PartitionedEP
    from sparse_prefgp.engines import SequentialEP as SequentialEP
    from sparse_prefgp.engines import Variational as Variational
    from sparse_prefgp.engines import truncated_normal_ep as truncated_normal_ep
    from sparse_prefgp.gpflow_blocks import DuelKernel as DuelKernel
    from sparse_prefgp.io import read_best_worst as read_best_worst
    from sparse_prefgp.io import read_choices as read_choices
    from sparse_prefgp.io import read_duels as read_duels
    from sparse_prefgp.io import read_items as read_items
    from sparse_prefgp.io import read_rankings as read_rankings
    from sparse_prefgp.io import stream_duels as stream_duels
    from sparse_prefgp.io import with_embedding as with_embedding
    from sparse_prefgp.io import with_texts as with_texts
    from sparse_prefgp.learning.checkpoint import Checkpoint as Checkpoint
    from sparse_prefgp.learning.checkpoint import Interrupted as Interrupted
    from sparse_prefgp.learning.greedy import greedy_em as greedy_em
    from sparse_prefgp.learning.initial import auto_inputs as auto_inputs
    from sparse_prefgp.learning.initial import initial_inputs as initial_inputs
    from sparse_prefgp.learning.integration import integrate as integrate
    from sparse_prefgp.learning.optimise import optimise as optimise
    from sparse_prefgp.learning.priors import default_priors as default_priors
    from sparse_prefgp.learning.tastes import begin_tastes as begin_tastes
    from sparse_prefgp.learning.tensorboard import to_tensorboard as to_tensorboard
    from sparse_prefgp.models import Coefficients as Coefficients
    from sparse_prefgp.models import EntryLevel as EntryLevel
    from sparse_prefgp.models import Lean as Lean
    from sparse_prefgp.models import PreferenceGP as PreferenceGP
    from sparse_prefgp.models import Probit as Probit
    from sparse_prefgp.models import Taste as Taste
    from sparse_prefgp.models import Term as Term
    from sparse_prefgp.models import kmeans_inputs as kmeans_inputs
    from sparse_prefgp.models import register as register
    from sparse_prefgp.models import replace as replace
    from sparse_prefgp.models.integrated import IntegratedGP as IntegratedGP
    from sparse_prefgp.models.streaming import StreamedGP as StreamedGP
    from sparse_prefgp.sampling import check_against_sampling as check_against_sampling
    from sparse_prefgp.sampling import sample_posterior as sample_posterior
    from sparse_prefgp.workflow.comparison import compare as compare
    from sparse_prefgp.workflow.fit_sources import read as read
    from sparse_prefgp.workflow.leaderboard import leaderboard as leaderboard
    from sparse_prefgp.workflow.model_names import Candidate as Candidate
    from sparse_prefgp.workflow.settings import CompareSettings as CompareSettings
    from sparse_prefgp.workflow.settings import FitSettings as FitSettings
    from sparse_prefgp.workflow.workflow import fit as fit

# The same names, and the module that each comes from.
_HOMES = {
    "score_ahead": "analysis.ahead",
    "audit": "analysis.audit",
    "evidence_report": "analysis.certificates",
    "consistency": "analysis.consistency",
    "evaluate": "analysis.evaluation",
    "explain": "analysis.explanation",
    "meet": "analysis.meeting",
    "score": "analysis.metrics",
    "predict": "analysis.prediction",
    "initial_projection": "analysis.projection",
    "rank": "analysis.ranking",
    "conditional_logit": "analysis.rivals",
    "settled": "analysis.settling",
    "shares": "analysis.shares",
    "first_round": "analysis.first_round",
    "suggest": "analysis.suggestion",
    "update": "analysis.updating",
    "worth": "analysis.worth",
    "DTC": "approximations",
    "Exact": "approximations",
    "FITC": "approximations",
    "HeteroscedasticVFE": "approximations",
    "InducingApproximation": "approximations",
    "PITC": "approximations",
    "PriorPower": "approximations",
    "SubsetOfData": "approximations",
    "TightVFE": "approximations",
    "VFE": "approximations",
    "ItemEffect": "covariances",
    "ItemInTime": "covariances",
    "ItemTimes": "covariances",
    "PairEffect": "covariances",
    "Projected": "covariances",
    "SameLevel": "covariances",
    "Answers": "data.answers",
    "Duels": "data.duels",
    "Forecast": "data.forecast",
    "split_duels": "data.splits",
    "export_saved_model": "disk.exporting",
    "load": "disk.saving",
    "save": "disk.saving",
    "Laplace": "engines",
    "LowRankPlusDiagonal": "engines",
    "ParallelEP": "engines",
    "PartitionedEP": "engines",
    "SequentialEP": "engines",
    "Variational": "engines",
    "truncated_normal_ep": "engines",
    "DuelKernel": "gpflow_blocks",
    "read_best_worst": "io",
    "read_choices": "io",
    "read_duels": "io",
    "read_items": "io",
    "read_rankings": "io",
    "stream_duels": "io",
    "with_embedding": "io",
    "with_texts": "io",
    "Checkpoint": "learning.checkpoint",
    "Interrupted": "learning.checkpoint",
    "greedy_em": "learning.greedy",
    "auto_inputs": "learning.initial",
    "initial_inputs": "learning.initial",
    "optimise": "learning.optimise",
    "begin_tastes": "learning.tastes",
    "default_priors": "learning.priors",
    "integrate": "learning.integration",
    "to_tensorboard": "learning.tensorboard",
    "Coefficients": "models",
    "EntryLevel": "models",
    "Lean": "models",
    "PreferenceGP": "models",
    "Probit": "models",
    "Taste": "models",
    "Term": "models",
    "kmeans_inputs": "models",
    "register": "models",
    "replace": "models",
    "StreamedGP": "models.streaming",
    "IntegratedGP": "models.integrated",
    "check_against_sampling": "sampling",
    "sample_posterior": "sampling",
    "compare": "workflow.comparison",
    "leaderboard": "workflow.leaderboard",
    "read": "workflow.fit_sources",
    "Candidate": "workflow.model_names",
    "CompareSettings": "workflow.settings",
    "FitSettings": "workflow.settings",
    "fit": "workflow.workflow",
}
# Modules of public names, used as `spg.datasets.boston()`.
MODULES = ("asking", "datasets", "exact", "gpflow", "lab", "markov", "plotting", "results")
__all__ = [*_HOMES, *MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return _quietly(name)
    if name in _HOMES:
        return getattr(_quietly(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _quietly(module: str) -> Any:
    """Import a module; the notices that TensorFlow prints before it reads its level are dropped."""
    require_gpflow()
    if "tensorflow" in sys.modules or os.environ.get(_LOG_LEVEL) == "0":
        return import_module(f"{__name__}.{module}")
    with held_back_stderr():
        return import_module(f"{__name__}.{module}")
