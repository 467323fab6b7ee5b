"""What the inducing-point approximations share: the rows of docs/method.md, section 3, are one file
each, or one with its relatives (`dtc.py`, `vfe.py`, `fitc.py`).

With `Q = Phi Phi'` the covariance of z that the inducing values explain and k~ the diagonal of the
residual `K_vv - Q`, a row is two decisions: how much of k~ joins the noise of each duel, and what
is added to the log evidence. s² stands for sigma², c for counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.forms import SummedApproximation, form_of
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.checks import check_kind, check_number, plain_scalars


@dataclass(frozen=True)
class InducingApproximation(SummedApproximation):
    """What the rows share: K_uu = L L', whitened features, k~. To be derived from.

    A row of one's own says `residual_share`, the share of k~ that joins the noise, `correction`, or
    both, and with `register` it has a name; `is_bound` only where that is proved.
    """

    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to force the form of the algebra; None takes the cheaper one."""
    single_precision: bool = field(default=False, kw_only=True, repr=False)
    """Sums and gathers over duels in float32 while inference runs, in the form over items only
    (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_over(self.over)
        check_kind("single_precision", self.single_precision, bool, "True or False")
        label = f"The residual_share of {self.name}"
        check_number(label, self.residual_share, least=0.0, most=1.0)

    @property
    def summed_over_duels(self) -> bool:
        return True

    @property
    def penalises_residual(self) -> bool:
        return type(self).correction is not SummedApproximation.correction

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The same; in the form over duels copies of an answer about a set are apart: each has
        noises of its own."""
        return graph.one_by_one() if self.over == "duels" else graph

    def prior(self, problem: DuelProblem) -> DuelPrior:
        return form_of(problem, self.over)(self, problem)
