"""What a fitted model says: rankings, predictions, scores and reasons."""

from sparse_prefgp.analysis.certificates import EvidenceReport, evidence_report
from sparse_prefgp.analysis.challenger import Challenge, hallucination_believer
from sparse_prefgp.analysis.consistency import Consistency, consistency
from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.explanation import Explanation, explain
from sparse_prefgp.analysis.importance import SampledEvidence, importance_sampling
from sparse_prefgp.analysis.prediction import predict
from sparse_prefgp.analysis.ranking import Ranking, rank
from sparse_prefgp.analysis.suggestion import Suggestions, suggest

__all__ = [
    "Challenge",
    "Consistency",
    "EvidenceReport",
    "Explanation",
    "Ranking",
    "SampledEvidence",
    "Suggestions",
    "consistency",
    "evaluate",
    "evidence_report",
    "explain",
    "hallucination_believer",
    "importance_sampling",
    "predict",
    "rank",
    "suggest",
]
