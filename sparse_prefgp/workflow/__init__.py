"""Whole pieces of work on a set of duels: hold some out, fit, score, compare, write the files."""

from sparse_prefgp.workflow.comparison import Comparison, compare
from sparse_prefgp.workflow.model_names import Candidate, candidates_from

__all__ = ["Candidate", "Comparison", "candidates_from", "compare"]
