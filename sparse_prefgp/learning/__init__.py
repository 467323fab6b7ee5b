"""Model selection: hyperparameters and inducing inputs."""

from sparse_prefgp.learning.checkpoint import Checkpoint, Interrupted
from sparse_prefgp.learning.greedy import GreedyReport, GreedyStep, greedy_em
from sparse_prefgp.learning.initial import AutoInputs, auto_inputs, initial_inputs
from sparse_prefgp.learning.optimise import optimise
from sparse_prefgp.learning.report import OptimisationReport, Progress, StartReport
from sparse_prefgp.learning.tensorboard import to_tensorboard

optimise_streamed = optimise
"""`optimise` itself, by the name that it had for streamed duels."""

StreamedReport = OptimisationReport
"""`OptimisationReport` itself, by the name that it had for streamed duels."""

__all__ = [
    "AutoInputs",
    "Checkpoint",
    "GreedyReport",
    "GreedyStep",
    "Interrupted",
    "OptimisationReport",
    "Progress",
    "StartReport",
    "StreamedReport",
    "auto_inputs",
    "greedy_em",
    "initial_inputs",
    "optimise",
    "optimise_streamed",
    "to_tensorboard",
]
