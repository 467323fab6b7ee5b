"""Ablation studies: a YAML file says what to compare, and every run leaves a record.

study = read_study("configs/inducing_points/boston.yaml")
run_study(study, "out/boston")
"""

from sparse_prefgp.lab.ablation.runner import StudyResult, run_study
from sparse_prefgp.lab.ablation.runs import expand
from sparse_prefgp.lab.ablation.study import Study, read_study, study_from

__all__ = ["Study", "StudyResult", "expand", "read_study", "run_study", "study_from"]
