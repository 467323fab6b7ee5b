"""The report of a study: curves, costs, paired comparisons, as one page, figures and tables."""

from sparse_prefgp.lab.report.methods import Arrangement, Method, Panel, arrange
from sparse_prefgp.lab.report.reading import Results, Study, read_results
from sparse_prefgp.lab.report.statistics import (
    Difference,
    Exponent,
    Point,
    compare_methods,
    exponents_of,
    points_of,
)
from sparse_prefgp.lab.report.vocabulary import Metric
from sparse_prefgp.lab.report.writing import StudyReport, study_report

__all__ = [
    "Arrangement",
    "Difference",
    "Exponent",
    "Method",
    "Metric",
    "Panel",
    "Point",
    "Results",
    "Study",
    "StudyReport",
    "arrange",
    "compare_methods",
    "exponents_of",
    "points_of",
    "read_results",
    "study_report",
]
