"""What a fitted model says: rankings, predictions, scores and reasons."""

from sparse_prefgp.analysis.consistency import Consistency, consistency
from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.explanation import Explanation, explain
from sparse_prefgp.analysis.prediction import predict
from sparse_prefgp.analysis.ranking import Ranking, rank

__all__ = [
    "Consistency",
    "Explanation",
    "Ranking",
    "consistency",
    "evaluate",
    "explain",
    "predict",
    "rank",
]
