"""Model selection: hyperparameters and inducing inputs."""

from sparse_prefgp.selection.optimise import OptimisationReport, Progress, optimise

__all__ = ["OptimisationReport", "Progress", "optimise"]
