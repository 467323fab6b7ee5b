"""A term of the kernel that dies next to another one, and how to begin without that one.

Under a bound that pays for what inducing inputs leave unexplained, nearly all variance of a
stationary term is such at first, and the fastest way to shed it is to shrink the variance. Alone
the term recovers. Next to a linear term of many features, above all one with a variance for each,
it may not: that explains the duels meanwhile, and the slope in the logarithm of a variance vanishes
with it.
So the evidence ends in a local optimum (docs/embeddings.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import gpflow
import numpy as np

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of
from sparse_prefgp.covariances.kernels import variance_of
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.streaming import StreamedGP

# A term with less variance is dead: to duels, whose noise has variance 1, it is nothing, and so is
# its slope, whatever the step at which the optimiser gave up. Next to a linear term of so many
# features or fewer it had reason to die.
DEAD, FEW = 1e-4, 16
# What the variances of the other term begin at instead: so little that nothing brings them back.
NEARLY_NONE = 1e-8


@dataclass(frozen=True)
class Death:
    """Which terms died, and next to which."""

    died: tuple[str, ...]
    """Their classes."""
    others: tuple[gpflow.kernels.Linear, ...]
    """Linear terms of many features."""
    width: int
    """Of how many features, at most."""

    def begin_without_others(self) -> None:
        """Leave next to nothing of the other terms."""
        for kernel in self.others:
            kernel.variance.assign(np.full(kernel.variance.shape, NEARLY_NONE))

    def told(self, gain: float, unit: str) -> str:
        """One sentence, after a restart that gained so much log evidence."""
        kept = (
            f"which is better by {gain:,.1f} nats and is kept"
            if gain > 0.0
            else f"which is worse by {-gain:,.1f} nats, so that the first result is kept"
        )
        return f"{self._what(unit)}; the fit was started again without the linear term, {kept}."

    def advised(self, unit: str) -> str:
        """One sentence where nothing was begun again."""
        return f"{self._what(unit)}; fit without the linear term and compare the log evidence."

    def _what(self, unit: str) -> str:
        return (
            f"The variance of {' and '.join(self.died)} ended below {DEAD:g} next to a linear term "
            f"of {self.width} features, which may be a local optimum under {unit}"
        )


def death_in(model: PreferenceGP | StreamedGP) -> Death | None:
    """What died in a model that was optimised; None where nothing did, or may have had reason to.

    Only of approximations that pay for what is unexplained.
    """
    approximation = model.approximation
    if not (approximation.is_bound and approximation.needs_inducing):
        return None
    terms = [part for part in parts_of(model.kernel) if not isinstance(part, FiniteKernel)]
    others = tuple(
        part
        for part in terms
        if type(part) is gpflow.kernels.Linear
        and part.variance.trainable
        and _width(model, part) > FEW
    )
    died = tuple(
        type(part).__name__
        for part in terms
        if type(part) is not gpflow.kernels.Linear
        and part.trainable_variables
        and variance_of(part)[1] < DEAD
    )
    if not died or not others:
        return None
    return Death(died, others, max(_width(model, part) for part in others))


def _width(model: PreferenceGP | StreamedGP, kernel: gpflow.kernels.Kernel) -> int:
    """How many features a term sees."""
    points = model.inducing_variable  # a regression has no duels
    assert points is not None
    return len(np.arange(points.Z.shape[-1])[kernel.active_dims])
