"""Whole pieces of work on a set of duels: hold some out, fit, score, compare, write the files."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.workflow.comparison import Comparison as Comparison
    from sparse_prefgp.workflow.comparison import compare as compare
    from sparse_prefgp.workflow.model_names import Candidate as Candidate
    from sparse_prefgp.workflow.model_names import candidates_from as candidates_from

__getattr__, __dir__ = public(__name__)
