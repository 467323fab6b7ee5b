"""The report of a study: curves, costs, paired comparisons, as one page, figures and tables."""

from sparse_prefgp.lab.report.methods import Arrangement, Method, Panel, arrange
from sparse_prefgp.lab.report.reading import Results, StudyRecord, read_results
from sparse_prefgp.lab.report.statistics import (
    CurvePoint,
    Difference,
    Exponent,
    compare_methods,
    exponents_of,
    points_of,
)
from sparse_prefgp.lab.report.vocabulary import ReportedMetric
from sparse_prefgp.lab.report.writing import StudyReport, study_report

__all__ = [
    "Arrangement",
    "CurvePoint",
    "Difference",
    "Exponent",
    "Method",
    "Panel",
    "ReportedMetric",
    "Results",
    "StudyRecord",
    "StudyReport",
    "arrange",
    "compare_methods",
    "exponents_of",
    "points_of",
    "read_results",
    "study_report",
]
