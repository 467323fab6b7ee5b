"""What every model of duels is: parameters, and what inference found at them, kept until they move.

What a model knows at its parameters is one frozen value, made and replaced as a whole.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from gpflow.models import BayesianModel, InternalDataTrainingLossMixin

from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.models.choosing import ChoicePredictions
from sparse_prefgp.models.posterior import Posterior, posterior_method
from sparse_prefgp.models.predicting import DuelPredictions


class Solution(Protocol):
    """Where inference ended; what follows from that is computed when it is first asked for."""

    @property
    def posterior(self) -> Posterior:
        """q(f)."""

    @property
    def log_evidence(self) -> float:
        """In nats, with the approximation's correction."""


S = TypeVar("S", bound=Solution)
R = TypeVar("R", bound=InferenceResult)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What a model computes with: its parts, and the values of all parameters."""

    parts: tuple[Any, ...]
    values: bytes

    @classmethod
    def of(cls, model: DuelGP[Any, Any]) -> Fingerprint:
        values = b"".join(variable.numpy().tobytes() for variable in model.variables)
        # A mean function may be any function, which is not a module.
        return cls((model.mean_function, *model.submodules), values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Fingerprint)
            and self.values == other.values
            and same_objects(self.parts, other.parts)
        )


def same_objects(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether these are the very same: equal values of another kernel are another thing."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


@dataclass(frozen=True, eq=False)
class Inferred(Generic[S, R]):
    """What a model knows at the parameters of the fingerprint."""

    fingerprint: Fingerprint
    solution: S
    """Where inference ended."""
    result: R
    """How, for people."""


class DuelGP(
    DuelPredictions,
    ChoicePredictions,
    BayesianModel,
    InternalDataTrainingLossMixin,
    Generic[S, R],
):
    """Parameters, inference at them, and predictions: `PreferenceGP` and `StreamedGP`.

    A model of its own has `_infer`, and says what it is made of.
    """

    mean_function: Any
    # Of the last inference. Neither tf.Module nor GPflow looks for parameters in a dataclass.
    _known: Inferred[S, R] | None = None

    def _infer(self, fingerprint: Fingerprint, restart: bool, watch: Any) -> Inferred[S, R]:
        """Run inference at the parameters as they are, which have this fingerprint.

        :param watch: who looks on, None for nobody.
        """
        raise NotImplementedError

    def _inferred(
        self, restart: bool = False, warn: bool = True, watch: Any = None
    ) -> Inferred[S, R]:
        """What was found before, as long as it holds."""
        fingerprint = Fingerprint.of(self)
        if restart or self._known is None or self._known.fingerprint != fingerprint:
            # No name but the model's for what was known: `_infer` may let go of it first.
            self._known = self._infer(fingerprint, restart, watch)
            if warn and not self._known.result.converged:
                warnings.warn(f"Inference did not converge: {self._known.result}.", stacklevel=3)
        return self._known

    def log_evidence(self) -> float:
        """Log evidence in nats, with the approximation's correction, over all duels."""
        return self._inferred().solution.log_evidence

    @posterior_method
    def posterior(self) -> Posterior:
        """q(f) for the parameters as they are now; what is held does not change with them."""
        return self._inferred().solution.posterior

    @property
    def has_logit_factors(self) -> bool:
        """Whether the engine takes logistic noise in place of the model's own."""
        return not self.engine.link_function.has_normal_noise

    def require_probit(self, what: str) -> None:
        """Refuse what holds for normal noise only.

        :raises ValueError: the engine has logit factors.
        """
        if self.has_logit_factors:
            raise ValueError(
                f"{what} needs probit factors, whose noise is normal; this model has "
                f"{self.engine!r}: use another engine, such as Laplace()."
            )

    @property
    def features(self) -> tuple[Any, tuple[str, ...] | None]:
        """(n, D) features of the items, or of a stream their lowest and highest values; and their
        names, if they have any."""
        return self.duels.items, self.duels.feature_names

    def __str__(self) -> str:
        return repr(self)
