"""The one place where log evidence, its gradient and its rigorous lower bound are assembled.

In nats, total over all duels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    DuelPrior,
    DuelProblem,
    prior_variance,
)
from sparse_prefgp.approximations.dtc import DTC
from sparse_prefgp.approximations.exact import Exact
from sparse_prefgp.approximations.fitc import FITC
from sparse_prefgp.approximations.residual import Residual, ResidualOfDuels
from sparse_prefgp.approximations.residual_bounds import bound_by_pairs
from sparse_prefgp.approximations.set_residual import ResidualOfPairs, ResidualOfSets
from sparse_prefgp.approximations.vfe import VFE, TightVFE
from sparse_prefgp.approximations.whitened import whitened
from sparse_prefgp.covariances import Covariance
from sparse_prefgp.covariances.base import Intermediates
from sparse_prefgp.covariances.item_in_time import beside_time
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.data.graph import DuelGraph, squared_distances
from sparse_prefgp.factors.expectations import expected_log_factor
from sparse_prefgp.factors.sites import Cavity, Factors, Power, Sites, Tilted, totals
from sparse_prefgp.support.arrays import FloatArray

# The log-determinant of the residual over items takes O(n³): two seconds at so many.
LOG_DET_UP_TO = 2000
EXPECTED = "expected"


class Slopes(NamedTuple):
    """Derivatives of the log evidence at a fixed point in what the factors were built from."""

    noise: tf.Tensor
    """(t,) in the noise."""
    upper: tf.Tensor
    """(t,) in the upper limits."""
    lower: tf.Tensor | None
    """(t,) in the lower limits; None without any."""
    inside: tf.Tensor | None = None
    """(t,) in `Factors.inside`; None where it was not looked at."""
    moving: tuple[tf.Tensor, tf.Tensor] | None = None
    """Vectors left and right, (t,) each, or None: the derivative in the covariance K of z has a
    term left' dK right in addition to that of its `surrogate`.
    """


def ep_log_evidence(
    sites: Sites,
    cavity: Cavity,
    tilted: Tilted,
    half_log_det: tf.Tensor,
    counts: tf.Tensor,
    power: Power = 1.0,
) -> tf.Tensor:
    """EP log evidence without the approximation's correction: that of sites - ½ log|P|."""
    each = evidence_of_sites(sites, cavity, tilted, counts, power)
    return tf.reduce_sum(each) - half_log_det


def evidence_of_sites(
    sites: Sites, cavity: Cavity, tilted: Tilted, counts: tf.Tensor, power: Power = 1.0
) -> tf.Tensor:
    """What each site adds, (t,).

    log Z_i + ½ m_c (p tau m_c - p nu) / (1 + v_c p tau) + ½ log(1 + v_c p tau), as often as it
    counts, over the site power p: log Z_i, the psi terms and ½ nu' mu without their cancellation
    (docs/method.md, section 3). With powers of each site, a count c < 1 of power c stands once.
    """
    m, v = cavity
    nu, tau = power * sites.nu, power * sites.tau
    gain = 1.0 + v * tau
    each = tilted.log_mass + 0.5 * m * (tau * m - nu) / gain + 0.5 * tf.math.log(gain)
    return counts / power * each


def summed_log_evidence(
    terms: Iterable[float], half_log_det: float, correction: float = 0.0
) -> float:
    """Log evidence of chunks or parts: what the sites of each add, less ½ log|P| of the u that
    they share (docs/method.md, section 15)."""
    return sum(terms) - half_log_det + correction


def variational_bound(
    mean: tf.Tensor,
    variance: tf.Tensor,
    expected: tf.Tensor,
    half_log_det: tf.Tensor,
    sites: Sites,
    counts: tf.Tensor,
) -> tf.Tensor:
    """sum c E log p_i - KL[q || prior], with `expected` E log p_i (t,), a scalar."""
    quadratic = half_quadratic(mean, variance, sites, counts)
    return tf.reduce_sum(counts * expected) - quadratic - half_log_det


def half_quadratic(
    mean: tf.Tensor, variance: tf.Tensor, sites: Sites, counts: tf.Tensor
) -> tf.Tensor:
    """KL[q || prior] - ½ log|P| for the q of the sites, mean and variance (t,) of z under it.

    In whitened u, q = N(mu, P⁻¹): KL = ½ (tr P⁻¹ - m + log|P| + mu'mu), and with the sites' totals
    T and s both m - tr P⁻¹ = sum T v and mu'mu = (s - T mean)'mean are sums over duels.
    """
    precision, shift = totals(sites, counts)
    return 0.5 * tf.reduce_sum((shift - precision * mean) * mean - precision * variance)


def differentiable_log_evidence(
    prior: DuelPrior,
    sites: Sites,
    slopes: Slopes,
    kept: Intermediates,
    value: tf.Tensor,
) -> tf.Tensor:
    """`value` with its exact gradient in everything `prior` was built from.

    `kept` is what the covariance's `marginals` kept for the same sites.

    At a fixed point of EP or of the variational engine log Z is stationary in sites and cavities,
    so they are held, and what is left is the surrogate of docs/method.md, section 5: linear in the
    covariance and in what the factors were built from, with weights known in closed form. A mode
    that moves adds one term.
    """
    factors = prior.factors
    precision, shift = map(tf.stop_gradient, totals(sites, factors.counts))
    surrogate = prior.covariance.surrogate(precision, shift, kept)
    for slope, values in (
        (slopes.noise, factors.noise),
        (slopes.upper, factors.upper),
        (slopes.lower, factors.lower),
        (slopes.inside, factors.inside),
    ):
        if slope is not None and values is not None:
            finite = tf.where(tf.math.is_inf(values), tf.zeros([], values.dtype), values)
            # Zeros of all sites, and the gradient of a sum, would be kept as constants of a graph.
            surrogate += tf.tensordot(tf.stop_gradient(slope), finite, 1)
    if slopes.moving is not None:
        surrogate += prior.covariance.quadratic(*map(tf.stop_gradient, slopes.moving))
    if slopes.inside is None:
        surrogate += prior.correction
    return tf.stop_gradient(value) + (surrogate - tf.stop_gradient(surrogate))


class FullMarginals(NamedTuple):
    """q(z) of sites that q was not made from: mean and variance (t,), and their factors."""

    mean: FloatArray
    variance: FloatArray
    factors: Factors


class InducingValues(NamedTuple):
    """A q(u) that is not prior × sites on Phi u: what it makes of each Phi u, and its price."""

    mean: FloatArray
    """(t,) of Phi u."""
    variance: FloatArray
    """(t,) of Phi u."""
    kl: float
    """KL[q(u) || p(u)]."""


@dataclass(frozen=True)
class LowerBounds:
    """Rigorous lower bounds of the exact log evidence, in nats over all duels."""

    rows: dict[str, float]
    """`expected`, the residual variance inside the expectations; `diagonal`, `pairs`, `rank`,
    `logdet`, expectations without it less half of that bound of the residual's log-determinant;
    only `expected` without inducing inputs, and no `logdet` above 2,000 items. Of answers about
    sets `diagonal` is by the mean of the contrasts of each, and `block`, by all of them, stands in
    place of `pairs`.
    """
    kl: float
    """KL[q || prior]."""

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
    everything: FullMarginals | None = None,
    inducing: InducingValues | None = None,
) -> LowerBounds:
    """Lower bounds of log P(all duels) under the exact prior, whatever the sites.

    The sites (tau >= 0, converged or not) make q(u), or q(z) without inducing inputs. With k~ the
    variance that u leaves, R~ the whole residual and p_i the factor at noise 2s²

        (a)  sum c E log p_i(z_i) - KL,                             z_i with variance v_i + k~_i
        (b)  sum c E log p_i(z_i) - KL - ½ [bound of log|I + R~/2s²|],             variance v_i

    both hold for every q (docs/method.md, section 3). Answers about sets have the noise that the
    rows of a look share in z, and so in q, and p_i what is the row's own; so do effects of pairs.

    :param everything: for sites on a subset of the duels, q(z) of all duels.
    :param inducing: q(u), where the sites are not on Phi u; they are not looked at then.
    :raises ValueError: answers of best and worst at once, whose rows have no noise of their own.
    """
    if why := why_no_lower_bound(problem.graph):
        raise ValueError(why)
    if problem.inducing_variable is None:
        prior = Exact().prior(problem)
        mean, variance, kl = _gaussian(prior.covariance, prior.factors.counts, sites)
        z = everything or FullMarginals(mean, variance, prior.factors)
        return LowerBounds({EXPECTED: _expected(z) - kl}, kl)
    # All approximations share Phi.
    prior, left = DTC().prior(problem), residual_variance(problem)
    factors = prior.factors
    mean, variance, kl = inducing or _gaussian(prior.covariance, factors.counts, sites)
    rows = {EXPECTED: _expected(FullMarginals(mean, variance + left.numpy(), factors)) - kl}
    whole = _expected(FullMarginals(mean, variance, factors)) - kl
    for name, correction in residual_corrections(problem, left).items():
        if name != "vfe":  # never above `diagonal`
            rows[name] = whole + correction
    return LowerBounds(rows, kl)


def why_no_lower_bound(graph: DuelGraph) -> str:
    """One sentence where there is none, else nothing."""
    if graph.noises is None or np.all(graph.noises.own > 0.0):
        return ""
    return (
        "There is no rigorous lower bound for answers of best and worst at once of four or more "
        "alternatives: their rows outnumber what they tell apart, so that none has noise of its "
        "own."
    )


def residual_variance(problem: DuelProblem) -> tf.Tensor:
    """k~, what the inducing inputs leave of the variance of each z, (t,)."""
    if problem.graph.noises is None and pair_effect(problem.kernel) is None:
        return FITC().prior(problem).factors.noise - problem.noise  # k~ is noise there
    features = whitened(problem).features(as_float(problem.graph.rows))
    left = prior_variance(problem) - squared_distances(problem.graph, features)
    return tf.maximum(left, tf.zeros_like(left))


def residual_corrections(problem: DuelProblem, left: tf.Tensor) -> dict[str, float]:
    """Every bound of -½ log|I + R~/2s²|, in nats: `vfe`, `diagonal`, `pairs`, `rank`, `logdet`.

    `pairs` takes all duels of an unordered pair together, -½ sum log(1 + c_pair k~/2s²): their
    residuals are one; of answers about sets `block` takes its place. `logdet`, the determinant
    itself, only up to 2,000 items. Effects of pairs are in the noise, and a `block` is the duels of
    a pair.

    :param left: (t,) k~, the variance of each z that the inducing inputs leave.
    """
    if (apart := beside_time(problem.kernel)) is not None:  # which is exact
        problem = problem._replace(kernel=apart.others)
    graph, effects = problem.graph, pair_effect(problem.kernel)
    tight = ["diagonal", "rank"] + ["logdet"] * (graph.num_rows <= LOG_DET_UP_TO)
    residual: Residual = ResidualOfDuels(problem, lambda: left)
    pairs = {}
    if graph.noises is None and effects is None:
        pairs["pairs"] = bound_by_pairs(graph, left.numpy() / problem.noise.numpy())
    else:
        features = whitened(problem).features(as_float(graph.rows))
        kind = ResidualOfSets if effects is None else ResidualOfPairs
        residual = kind.of(problem, features)
        tight.insert(1, "block")
    return {
        "vfe": float(VFE().correction(residual)),
        **pairs,
        **{name: float(TightVFE(name).correction(residual)) for name in tight},
    }


def _gaussian(
    covariance: Covariance, counts: tf.Tensor, sites: Sites
) -> tuple[FloatArray, FloatArray, float]:
    """Mean and variance of each z under the sites, (t,), and KL[q || prior]."""
    marginals = covariance.marginals(*totals(sites, counts))
    mean, variance = marginals.mean, marginals.variance
    kl = half_quadratic(mean, variance, sites, counts) + marginals.half_log_det
    # Rounding can leave a variance just below 0; more variance only lowers an expectation.
    return mean.numpy(), np.maximum(variance.numpy(), 0.0), float(kl)


def _expected(z: FullMarginals) -> float:
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
