"""Ordinary GP regression as the Gaussian limit of the model of duels.

An observation `y = f(x) + noise` is written as a duel against a reference whose utility is zero:
`z = f(x) - 0`, with noise of variance sigma² in place of 2 sigma², and of `v = z + noise` not a
limit is known but the value itself. Covariances, approximations, evidence, gradient and prediction
are then those of duels, unchanged; only the sites are known beforehand.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes
from gpflow.inducing_variables import InducingPoints

from sparse_prefgp.approximations import Approximation, DuelPrior, DuelProblem, Exact
from sparse_prefgp.covariances import Covariance
from sparse_prefgp.covariances.item_effect import item_effects
from sparse_prefgp.covariances.kernels import between_inducing, kernel_matrix, with_inducing
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import FixedPoint, InferenceResult
from sparse_prefgp.engines.base import SweepState, describe
from sparse_prefgp.engines.propagation import cavities
from sparse_prefgp.evidence import Slopes, differentiable_log_evidence, ep_log_evidence
from sparse_prefgp.factors.sites import Factors, Sites, Tilted, totals
from sparse_prefgp.models.base import Learned
from sparse_prefgp.models.checks import inducing_points
from sparse_prefgp.models.known import SampledWins
from sparse_prefgp.models.posterior import Posterior, predictions


@dataclass(frozen=True)
class GaussianSites:
    """The engine of the Gaussian limit: tau = 1/D and nu = y/D are known, nothing iterates.

    The limits of the factors hold what was observed, lower = upper = y.
    """

    tolerance: float = 0.0
    """There is no error that it could bound; it is here because every engine has one."""

    def with_tolerance(self, tolerance: float) -> GaussianSites:
        """Itself: its sites are exact."""
        del tolerance
        return self

    def run(
        self, covariance: Covariance, factors: Factors, sites: Sites | None = None
    ) -> FixedPoint:
        """One pass over the covariance; `sites` are not looked at."""
        del sites
        observed, noise = map(tf.stop_gradient, (factors.upper, factors.noise))
        exact = Sites(nu=observed / noise, tau=1.0 / noise)
        marginals = covariance.marginals(*totals(exact, factors.counts))
        without = cavities(marginals, exact)
        # The factor is N(y | z, D): log Z_i = log N(y | m_c, v_c + D).
        total = without.variance + noise
        slope = (observed - without.mean) / total
        log_mass = -0.5 * (tf.math.log(2.0 * math.pi * total) + total * slope**2)
        zero, one = tf.zeros([], noise.dtype), tf.ones([], noise.dtype)
        tilted = Tilted(log_mass, slope, -1.0 / total)
        counts = factors.counts
        log_z = ep_log_evidence(exact, without, tilted, marginals.half_log_det, counts)
        by_noise = 0.5 * counts * (slope**2 - 1.0 / total)
        found = SweepState(
            sites=exact,
            proposal=exact,
            mean=marginals.mean,
            variance=marginals.variance,
            half_log_det=marginals.half_log_det,
            kept=marginals.kept,
            cavity=without,
            tilted=tilted,
            change=zero,
        )
        slopes = Slopes(by_noise, -counts * slope, None)
        return FixedPoint(found, log_z, slopes, sweeps=tf.constant(1), damping=one)


class Anchored(gpflow.kernels.Kernel):
    """A kernel on rows (N, D + 1) that end in 1, or in 0 for the reference, where f is zero."""

    def __init__(self, kernel: gpflow.kernels.Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        here = X[..., -1]
        if X2 is None:
            return kernel_matrix(self.kernel, X[..., :-1]) * here[..., :, None] * here[..., None, :]
        both = tf.tensordot(here, X2[..., -1], axes=0)
        return kernel_matrix(self.kernel, X[..., :-1], X2[..., :-1]) * both

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return self.kernel(X[..., :-1], full_cov=False) * X[..., -1] ** 2


@gpflow.covariances.Kuu.register(InducingPoints, Anchored)
def _between_inducing(
    inducing_variable: InducingPoints, kernel: Anchored, *, jitter: float = 0.0
) -> tf.Tensor:
    k_uu = between_inducing(inducing_variable, kernel.kernel)
    return k_uu + jitter * tf.eye(tf.shape(k_uu)[0], dtype=k_uu.dtype)


@gpflow.covariances.Kuf.register(InducingPoints, Anchored, object)
def _with_inducing(
    inducing_variable: InducingPoints, kernel: Anchored, rows: tf.Tensor
) -> tf.Tensor:
    cross = with_inducing(inducing_variable, kernel.kernel, rows[..., :-1])
    return cross * rows[..., -1]


class NoSites:
    """What `optimise` asks of `model.inference`: sites follow from the parameters, in one pass."""

    last_change, total_sweeps = 0.0, 0

    def sites(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0), np.zeros(0)

    def start_from(self, nu: np.ndarray, tau: np.ndarray) -> None: ...


class RegressionGP(Learned):
    """GP regression with the approximations, the evidence and the optimiser of duels.

    It is here to hold them to what is known about regression; for regression as such take
    GPflow's GPR and SGPR.

    :param inputs: (N, D).
    :param targets: (N,); they are not centred.
    :param kernel: any GPflow kernel on D inputs, without item effects.
    :param approximation: as for `PreferenceGP`; `SubsetOfData` counts observations. "items" and
        "duels" in their documentation are observations, 2 sigma² is `noise_variance`.
    :param inducing_variable: (m, D) array or GPflow `InducingPoints`; not for `Exact()`.
    :param noise_variance: of an observation, trainable.
    :param mean_function: any GPflow mean function; None is zero.
    :raises ValueError: a value that makes no sense, named in the message.
    """

    engine: GaussianSites
    inference = NoSites()
    likelihood = None

    def __init__(
        self,
        inputs: Any,
        targets: Any,
        kernel: gpflow.kernels.Kernel,
        *,
        approximation: Approximation | None = None,
        inducing_variable: Any = None,
        noise_variance: float = 1.0,
        mean_function: gpflow.functions.MeanFunction | None = None,
    ) -> None:
        super().__init__()
        if item_effects(kernel):
            raise ValueError(
                "An ItemEffect tells items of duels apart, and observations are not items; leave "
                "it out, or add a gpflow.kernels.White."
            )
        if not (np.isfinite(noise_variance) and noise_variance > 0.0):
            raise ValueError(
                f"noise_variance must be a positive finite number, not {noise_variance}."
            )
        x, y = _check_data(inputs, targets)
        self.approximation = approximation or Exact()
        self.graph = self.approximation.select(observations(x, y))
        self.kernel = kernel
        self.mean_function = mean_function
        self.noise_variance = gpflow.Parameter(
            noise_variance, transform=gpflow.utilities.positive()
        )
        self.inducing_variable = inducing_points(self.approximation, inducing_variable, x.shape[1])
        self.engine = GaussianSites()
        # What `optimise` asks of duels.
        rows, events = self.graph.rows[self.graph.losers, :-1], SimpleNamespace(unit="observation")
        self.duels = SimpleNamespace(
            items=rows, num_features=rows.shape[1], feature_names=None, events=events
        )

    def __repr__(self) -> str:
        inducing = ""
        if self.inducing_variable is not None:
            inducing = f", {self.inducing_variable.num_inducing} inducing inputs"
        return (
            f"RegressionGP({self.approximation!r}{inducing}, {type(self.kernel).__name__} kernel, "
            f"{self.graph.num_sites} observations)"
        )

    __str__ = __repr__

    def problem(self) -> DuelProblem:
        """The model before any approximation, in tensors that follow the parameters."""
        mean = self.mean_function
        return DuelProblem(
            self.graph,
            Anchored(self.kernel),
            None if mean is None else lambda rows: mean(rows[:, :-1]) * rows[:, -1:],
            0.5 * tf.convert_to_tensor(self.noise_variance),  # a duel has it on either side
            self.inducing_variable,
        )

    def _inferred(self) -> tuple[DuelProblem, DuelPrior, FixedPoint]:
        problem = self.problem()
        prior = self.approximation.prior(problem)
        return problem, prior, self.engine.run(prior.covariance, prior.factors)

    def maximum_log_likelihood_objective(self) -> tf.Tensor:
        """Log evidence with its exact gradient."""
        _, prior, point = self._inferred()
        value = point.log_evidence(prior.correction)
        return differentiable_log_evidence(
            prior, point.sites, point.slopes, point.found.kept, value
        )

    def log_evidence(self) -> float:
        """Log evidence in nats, with the approximation's correction, over all observations."""
        _, prior, point = self._inferred()
        return float(point.log_evidence(prior.correction))

    def infer(self, restart: bool = False) -> InferenceResult:
        """How the one pass went; there is nothing to restart."""
        del restart
        _, prior, point = self._inferred()
        return describe(
            point,
            self.engine.tolerance,
            prior.correction,
            jitter=float(prior.jitter),
            clipped=float(prior.clipped),
        )

    def posterior(self) -> Posterior:
        """q(f) for the parameters as they are now, on rows (N, D + 1) that end in 1."""
        # On copies, so that what is held does not change with the parameters.
        frozen = copy.deepcopy(self) if tf.executing_eagerly() else self
        problem, prior, point = frozen._inferred()
        terms = prior.covariance.predict(*totals(point.sites, prior.factors.counts))
        return Posterior(problem.kernel, problem.mean_function, prior.features, terms)

    @check_shapes(
        "Xnew: [N, D]",
        "return[0]: [N, 1]",
        "return[1]: [N, 1] if not full_cov",
        "return[1]: [1, N, N] if full_cov",
    )
    def predict_f(
        self, Xnew: Any, full_cov: bool = False, full_output_cov: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N, 1) and variance (N, 1) of the function, or its covariance (1, N, N)."""
        inputs = tf.convert_to_tensor(Xnew, dtype=gpflow.default_float())
        rows = tf.concat([inputs, tf.ones_like(inputs[:, :1])], 1)
        return predictions(self.posterior(), rows, full_cov)

    def sample_wins(self, size: int, rng: np.random.Generator, above: float) -> SampledWins:
        """None: nobody wins, and what was observed has a scale from which noise cannot run away."""
        del size, rng, above
        none = self.graph.rows[:0]
        return SampledWins(none, none, np.zeros(0))


def observations(inputs: np.ndarray, targets: np.ndarray) -> DuelGraph:
    """Observations (N, D), (N,) as duels that each lose to the reference, z = f(x) - 0.

    Rows get a last column, 1; the reference is the row after them, which ends in 0.
    """
    n = len(inputs)
    # The reference's features count for nothing, but kernels are evaluated there.
    rows = np.column_stack([np.vstack([inputs, inputs[:1]]), np.append(np.ones(n), 0.0)])
    return DuelGraph(
        own=rows,
        winners=np.full(n, n),
        losers=np.arange(n),
        counts=np.ones(n),
        lower=targets,
        upper=targets,
        row_of_item=np.arange(n),
    )


def _check_data(inputs: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(inputs, dtype=float), np.asarray(targets, dtype=float)
    if x.ndim != 2 or y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            f"Inputs must be (N, D) and targets (N,), N at least 1, not {x.shape} and {y.shape}."
        )
    for name, values in (("inputs", x), ("targets", y)):
        if not np.all(np.isfinite(values)):
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise ValueError(
                f"The {name} have a NaN or infinite value in row {row}; leave the row out."
            )
    return x, y
