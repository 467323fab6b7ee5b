"""What a fitted model says: rankings, predictions and scores."""

from sparse_prefgp.analysis.ranking import Ranking, rank

__all__ = ["Ranking", "rank"]
