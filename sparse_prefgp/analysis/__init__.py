"""What a fitted model says: rankings, predictions and scores."""

from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.prediction import predict
from sparse_prefgp.analysis.ranking import Ranking, rank

__all__ = ["Ranking", "evaluate", "predict", "rank"]
