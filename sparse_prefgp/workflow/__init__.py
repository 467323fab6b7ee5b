"""Whole pieces of work on a set of duels: hold some out, fit, score, compare, write the files."""

from sparse_prefgp.workflow.choices import Candidate, candidates_from
from sparse_prefgp.workflow.comparison import Comparison, compare

__all__ = ["Candidate", "Comparison", "candidates_from", "compare"]
