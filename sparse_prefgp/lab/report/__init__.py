"""The report of a study: curves, costs, paired comparisons, as one page, figures and tables."""

from sparse_prefgp.lab.report.results import Results, read_results
from sparse_prefgp.lab.report.writing import StudyReport, study_report

__all__ = ["Results", "StudyReport", "read_results", "study_report"]
