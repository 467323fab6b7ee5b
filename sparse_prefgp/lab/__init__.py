"""Ablation studies and their report."""

from sparse_prefgp.lab.ablation import Study as Study
from sparse_prefgp.lab.ablation import StudyResult as StudyResult
from sparse_prefgp.lab.ablation import read_study as read_study
from sparse_prefgp.lab.ablation import run_study as run_study
from sparse_prefgp.lab.report import StudyReport as StudyReport
from sparse_prefgp.lab.report import study_report as study_report
