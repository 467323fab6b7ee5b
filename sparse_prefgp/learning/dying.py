"""A term of the kernel that dies next to another one, and how to begin without that one.

Under a bound that pays for what inducing inputs leave unexplained, nearly all variance of a
stationary term is such at first, and the fastest way to shed it is to shrink the variance. Alone
the term recovers. Next to a linear term with a variance for each of many features it does not:
those explain the duels meanwhile, and the slope in the logarithm of a variance vanishes with it.
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

# A term with less variance is dead; one of so many variances or fewer kills none.
DEAD, FEW = 1e-6, 16
# What the variances of the other term begin at instead: so little that nothing brings them back.
NEARLY_NONE = 1e-8


@dataclass(frozen=True)
class Death:
    """Which terms died, and next to which."""

    died: tuple[str, ...]
    """Their classes."""
    others: tuple[gpflow.kernels.Linear, ...]
    """Linear terms with many variances."""

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
        return (
            f"{self._what(unit)}; give the linear term one variance, or fit without it and compare "
            "the log evidence."
        )

    def _what(self, unit: str) -> str:
        number = max(int(np.size(kernel.variance.numpy())) for kernel in self.others)
        return (
            f"The variance of {' and '.join(self.died)} ended below {DEAD:g} next to a linear term "
            f"with {number} variances, which may be a local optimum under {unit}"
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
        and int(np.size(part.variance.numpy())) > FEW
    )
    died = tuple(
        type(part).__name__
        for part in terms
        if type(part) is not gpflow.kernels.Linear
        and part.trainable_variables
        and variance_of(part)[1] < DEAD
    )
    return Death(died, others) if died and others else None
