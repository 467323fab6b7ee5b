"""The one place where log evidence, its gradient and its rigorous lower bound are assembled.

In nats, total over all duels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem
from sparse_prefgp.approximations.exact import Exact
from sparse_prefgp.approximations.inducing import FITC, VFE, Residual, TightVFE
from sparse_prefgp.covariances import Covariance
from sparse_prefgp.covariances.item_effect import feature_part
from sparse_prefgp.graph import DuelGraph
from sparse_prefgp.linalg import MAX_CONDITION, cholesky_with_jitter
from sparse_prefgp.quadrature import expected_log_factor
from sparse_prefgp.sites import Cavity, Factors, Sites, Tilted, totals

FloatArray = npt.NDArray[np.float64]

# The log-determinant of the residual over items takes O(n³): two seconds at so many.
LOG_DET_UP_TO = 2000
EXPECTED = "expected"


def site_terms(sites: Sites, cavity: Cavity, tilted: Tilted, counts: tf.Tensor) -> tf.Tensor:
    """Sum over sites of the part of log Z that a site and its cavity decide, a scalar.

    log Z_i + ½ m_c (tau m_c - nu) / (1 + v_c tau) + ½ log(1 + v_c tau), each as often as it
    counts: the sum of log Z_i, the psi terms and ½ nu' mu, without their cancellation
    (docs/method.md, section 3).
    """
    m, v = cavity
    gain = 1.0 + v * sites.tau
    each = tilted.log_mass + 0.5 * m * (sites.tau * m - sites.nu) / gain
    return tf.reduce_sum(counts * (each + 0.5 * tf.math.log(gain)))


def log_evidence(
    sites: Sites,
    cavity: Cavity,
    tilted: Tilted,
    half_log_det: tf.Tensor,
    counts: tf.Tensor,
    correction: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """EP log evidence: site terms - ½ log|P| + the approximation's correction, a scalar."""
    return site_terms(sites, cavity, tilted, counts) - half_log_det + correction


def differentiable_log_evidence(
    prior: DuelPrior,
    sites: Sites,
    tilted: Tilted,
    kept: tuple[tf.Tensor, ...],
    value: tf.Tensor,
) -> tf.Tensor:
    """`value` with its exact gradient in everything `prior` was built from.

    `kept` is what the covariance's `marginals` kept for the same sites.

    At a fixed point log Z is stationary in sites and cavities, so they are held, and what is left
    is the surrogate of docs/method.md, section 5: linear in the covariance, the noise of each duel
    and the offsets, with weights known in closed form.
    """
    factors = prior.factors
    precision, shift = map(tf.stop_gradient, totals(sites, factors.counts))
    slope, curvature = tilted.slope, tilted.curvature
    by_noise = tf.stop_gradient(0.5 * factors.counts * (slope**2 + curvature))
    by_offset = tf.stop_gradient(factors.counts * slope)
    surrogate = (
        prior.covariance.surrogate(precision, shift, kept)
        + tf.reduce_sum(by_noise * factors.noise)
        + tf.reduce_sum(by_offset * prior.offset)
        + prior.correction
    )
    return tf.stop_gradient(value) + (surrogate - tf.stop_gradient(surrogate))


class Everything(NamedTuple):
    """q(z) of sites that q was not made from: mean and variance (t,), and their factors."""

    mean: FloatArray
    variance: FloatArray
    factors: Factors


class InducingValues(NamedTuple):
    """A q(u) that is not prior × sites on Phi u: what it makes of each Phi u, and its price.

    mean, variance: (t,) of Phi u. kl: KL[q(u) || p(u)].
    """

    mean: FloatArray
    variance: FloatArray
    kl: float

    @classmethod
    def of(cls, mean: tf.Tensor, variance: tf.Tensor, kl: tf.Tensor) -> InducingValues:
        return cls(mean.numpy(), variance.numpy(), float(kl))


@dataclass(frozen=True)
class LowerBounds:
    """Rigorous lower bounds of the exact log evidence, in nats over all duels.

    rows: `expected`, the residual variance inside the expectations; `diagonal`, `pairs`, `rank`,
    `logdet`, expectations without it less half of that bound of the residual's log-determinant;
    only `expected` without inducing inputs, and no `logdet` above 2,000 items. kl: KL[q || prior].
    """

    rows: dict[str, float]
    kl: float

    @property
    def row(self) -> str:
        """Which is the largest; `expected` where none is finite."""
        finite = {name: value for name, value in self.rows.items() if np.isfinite(value)}
        return max(finite, key=finite.__getitem__) if finite else EXPECTED

    @property
    def value(self) -> float:
        """The largest, NaN or -inf where none is finite."""
        return self.rows[self.row]


def lower_bounds(
    problem: DuelProblem,
    sites: Sites,
    everything: Everything | None = None,
    inducing: InducingValues | None = None,
) -> LowerBounds:
    """Lower bounds of log P(all duels) under the exact prior, whatever the sites.

    The sites (tau >= 0, converged or not) make q(u), or q(z) without inducing inputs. With k~ the
    variance that u leaves, R~ the whole residual and p_i the factor at noise 2s²

        (a)  sum c E log p_i(z_i) - KL,                             z_i with variance v_i + k~_i
        (b)  sum c E log p_i(z_i) - KL - ½ [bound of log|I + R~/2s²|],             variance v_i

    both hold for every q (docs/method.md, section 3).

    :param everything: for sites on a subset of the duels, q(z) of all duels.
    :param inducing: q(u), where the sites are not on Phi u; they are not looked at then.
    """
    graph = problem.graph
    if problem.inducing_variable is None:
        prior = Exact().prior(problem)
        mean, variance, kl = _gaussian(prior.covariance, prior.factors.counts, sites)
        z = everything or Everything(mean, variance, prior.factors)
        return LowerBounds({EXPECTED: _expected(z) - kl}, kl)
    # All rows share Phi; this one has k~ in its noise.
    prior = FITC().prior(problem)
    noise = 2.0 * problem.noise_variance
    left = prior.factors.noise - noise
    factors = prior.factors._replace(noise=tf.fill([graph.num_sites], noise))
    mean, variance, kl = inducing or _gaussian(prior.covariance, factors.counts, sites)
    rows = {EXPECTED: _expected(Everything(mean, variance + left.numpy(), factors)) - kl}
    whole = _expected(Everything(mean, variance, factors)) - kl
    for name, correction in residual_corrections(problem, left).items():
        if name != "vfe":  # never above `diagonal`
            rows[name] = whole + correction
    return LowerBounds(rows, kl)


def residual_corrections(problem: DuelProblem, left: tf.Tensor) -> dict[str, float]:
    """Every bound of -½ log|I + R~/2s²|, in nats: `vfe`, `diagonal`, `pairs`, `rank`, `logdet`.

    `pairs` takes all duels of an unordered pair together, -½ sum log(1 + c_pair k~/2s²): their
    residuals are one. `logdet`, the determinant itself, only up to 2,000 items.

    :param left: (t,) k~, the variance of each z that the inducing inputs leave.
    """
    graph, noise = problem.graph, 2.0 * problem.noise_variance
    k_uu = gpflow.covariances.Kuu(
        problem.inducing_variable, feature_part(problem.kernel), jitter=0.0
    )
    factor, _ = cholesky_with_jitter(k_uu, MAX_CONDITION)
    counts = tf.convert_to_tensor(graph.counts, left.dtype)
    residual = Residual(left, counts, noise, problem, factor)
    tight = ["diagonal", "rank"] + ["logdet"] * (graph.num_rows <= LOG_DET_UP_TO)
    return {
        "vfe": float(VFE().correction(residual)),
        "pairs": _by_pairs(graph, left.numpy() / float(noise)),
        **{name: float(TightVFE(residual=name).correction(residual)) for name in tight},
    }


def _by_pairs(graph: DuelGraph, ratio: FloatArray) -> float:
    """-½ sum over unordered pairs of log(1 + c ratio), ratio (t,) = k~ / 2s²."""
    ends = np.sort(np.stack([graph.winners, graph.losers], 1), 1)
    _, first, pair = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    counts = np.bincount(pair.reshape(-1), weights=graph.counts)
    return -0.5 * float(np.sum(np.log1p(counts * ratio[first])))


def _gaussian(
    covariance: Covariance, counts: tf.Tensor, sites: Sites
) -> tuple[FloatArray, FloatArray, float]:
    """Mean and variance of each z under the sites, (t,), and KL[q || prior].

    In whitened u, q = N(mu, P⁻¹): KL = ½ (tr P⁻¹ - m + log|P| + mu'mu), and with the sites' totals
    T and s both m - tr P⁻¹ = sum T v and mu'mu = (s - T mean)'mean are sums over duels.
    """
    precision, shift = totals(sites, counts)
    marginals = covariance.marginals(precision, shift)
    mean, variance = marginals.mean, marginals.variance
    quadratic = tf.reduce_sum((shift - precision * mean) * mean - precision * variance)
    kl = 0.5 * quadratic + marginals.half_log_det
    # Rounding can leave a variance just below 0; more variance only lowers an expectation.
    return mean.numpy(), np.maximum(variance.numpy(), 0.0), float(kl)


def _expected(z: Everything) -> float:
    """Sum over duels of the expected log factor."""
    factors = z.factors
    each = expected_log_factor(
        z.mean,
        z.variance,
        factors.noise.numpy(),
        None if factors.lower is None else factors.lower.numpy(),
        factors.upper.numpy(),
    )
    return float(np.sum(factors.counts.numpy() * each))
