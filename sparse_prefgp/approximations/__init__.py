"""Approximations: what each makes of the prior over z, and what it adds to the log evidence."""

from sparse_prefgp.approximations.base import Approximation as Approximation
from sparse_prefgp.approximations.base import DuelPrior as DuelPrior
from sparse_prefgp.approximations.base import DuelProblem as DuelProblem
from sparse_prefgp.approximations.dtc import DTC as DTC
from sparse_prefgp.approximations.exact import Exact as Exact
from sparse_prefgp.approximations.exact import SubsetOfData as SubsetOfData
from sparse_prefgp.approximations.fitc import FITC as FITC
from sparse_prefgp.approximations.fitc import HeteroscedasticVFE as HeteroscedasticVFE
from sparse_prefgp.approximations.fitc import PriorPower as PriorPower
from sparse_prefgp.approximations.forms import SummedApproximation as SummedApproximation
from sparse_prefgp.approximations.inducing import InducingApproximation as InducingApproximation
from sparse_prefgp.approximations.pitc import PITC as PITC
from sparse_prefgp.approximations.residual import Residual as Residual
from sparse_prefgp.approximations.vfe import VFE as VFE
from sparse_prefgp.approximations.vfe import TightVFE as TightVFE
