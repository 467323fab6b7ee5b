"""What a model can do, as those who ask it see it.

`PreferenceGP` can all of this, `StreamedGP` and the regression that stands in for a model of duels
some. Who needs one of these asks for it by name, and not for a class. Nobody looks at run time
whether a model has a property, which may run inference: whether duels are in memory is theirs to
say (`model.duels.held`), and what a model cannot do it refuses in a sentence of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, cast, runtime_checkable

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import Approximation
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.models.in_time import InTimeModel
from sparse_prefgp.models.inputs import Inputs
from sparse_prefgp.models.known import KnownDuels, NotInMemory, SampledWins
from sparse_prefgp.models.likelihood import Probit
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.models.views import View
from sparse_prefgp.support.arrays import FloatArray


class Learns(Protocol):
    """Parameters that a fit may have run to an end with, and the data that tell."""

    kernel: gpflow.kernels.Kernel

    @property
    def duels(self) -> Any: ...

    @property
    def features(self) -> tuple[FloatArray, tuple[str, ...] | None]:
        """(n, D) values that show the spread of each feature, and their names."""

    @property
    def row_kernel(self) -> gpflow.kernels.Kernel:
        """The kernel on the rows of `sample_wins`."""

    def sample_wins(self, size: int, rng: np.random.Generator, above: float) -> SampledWins:
        """At most `size` duels that one side won, drawn at random.

        :param above: they are wanted where the prior variance of a duel may be above so many times
            its noise; a stream is not read for them where it is not, and there are none then.
        """

    def posterior(self) -> Posterior: ...


@runtime_checkable
class Saves(Protocol):
    """What can be saved."""

    def described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What is written: a description for JSON, and the arrays that it names.

        :raises ValueError: what a saved model cannot hold.
        """


class Predicts(Protocol):
    """Utilities, and outcomes of duels: what rankings, predictions, scores and reasons need."""

    kernel: gpflow.kernels.Kernel
    likelihood: Probit
    terms: Terms

    view: View

    @property
    def at_mode(self) -> Self: ...
    @property
    def points(self) -> Sequence[Any]: ...
    @property
    def weights(self) -> FloatArray: ...
    @property
    def units(self) -> FloatArray: ...

    @property
    def duels(self) -> KnownDuels: ...

    @property
    def approximation(self) -> Approximation: ...

    @property
    def inputs(self) -> Inputs: ...

    @property
    def in_time(self) -> InTimeModel[Any]: ...

    @property
    def num_duels_used(self) -> int: ...

    def posterior(self) -> Posterior: ...

    def posterior_of_outcomes(self) -> Posterior: ...

    def consensus(self) -> Any: ...

    def infer(self, restart: bool = False) -> InferenceResult: ...

    def allow(self, **asked: Any) -> None: ...

    def predict_f(self, Xnew: Any, full_cov: bool = False) -> tuple[tf.Tensor, tf.Tensor]: ...

    def predict_difference(
        self,
        Xa: Any,
        Xb: Any,
        covariates: Any = None,
        labels: Any = None,
        people: Any = None,
        at: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]: ...

    def predict_outcome(self, Xa: Any, Xb: Any, groups: Any = None) -> tf.Tensor: ...

    def predict(self, questions: Duels | Answers, inputs: Any = None) -> Forecast: ...


class HoldsDuels(Predicts, Protocol):
    """All duels in memory."""

    @property
    def duels(self) -> Duels: ...


def holding_duels(model: Predicts) -> HoldsDuels:
    """The same model, for what needs its duels.

    :raises ValueError: they are not in memory.
    """
    if not model.duels.held:
        raise NotInMemory
    return cast(HoldsDuels, model)
