"""How far a model is from the exact posterior and the exact evidence."""

from sparse_prefgp.analysis.certificates import evidence_report as evidence_report
from sparse_prefgp.analysis.importance import importance_sampling as importance_sampling
from sparse_prefgp.sampling import check_against_sampling as check_against_sampling
from sparse_prefgp.sampling import sample_posterior as sample_posterior
