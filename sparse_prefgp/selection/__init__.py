"""Model selection: hyperparameters and inducing inputs."""

from sparse_prefgp.selection.checkpoint import Checkpoint, Interrupted
from sparse_prefgp.selection.greedy import GreedyReport, GreedyStep, greedy_em
from sparse_prefgp.selection.initial import AutoInputs, auto_inputs, initial_inputs
from sparse_prefgp.selection.optimise import optimise
from sparse_prefgp.selection.report import OptimisationReport, Progress, StartReport
from sparse_prefgp.selection.tensorboard import to_tensorboard

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
