"""Approximations: what each makes of the prior over z, and what it adds to the log evidence."""

from sparse_prefgp.approximations.base import Approximation, DuelPrior, DuelProblem
from sparse_prefgp.approximations.exact import Exact, SubsetOfData
from sparse_prefgp.approximations.inducing import (
    DTC,
    FITC,
    VFE,
    HeteroscedasticVFE,
    InducingApproximation,
    PriorPower,
    SummedApproximation,
    TightVFE,
)
from sparse_prefgp.approximations.pitc import PITC

__all__ = [
    "DTC",
    "FITC",
    "PITC",
    "VFE",
    "Approximation",
    "DuelPrior",
    "DuelProblem",
    "Exact",
    "HeteroscedasticVFE",
    "InducingApproximation",
    "PriorPower",
    "SubsetOfData",
    "SummedApproximation",
    "TightVFE",
]
