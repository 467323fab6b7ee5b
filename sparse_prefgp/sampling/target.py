"""The truncated normal of single duels under the exact prior, with EP's sites to lead the draws."""

from __future__ import annotations

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg import cho_factor, cho_solve

from sparse_prefgp.approximations import DuelProblem, Exact
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.base import describe
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.sampling.proposals import TruncatedNormal
from sparse_prefgp.support.arrays import FloatArray, IntArray

SAMPLED_UP_TO = 2000
# Variance over noise: beyond, differences of v in units of the noise have lost their digits; up to
# 1e9 evidences agreed with the limit without noise, at 1e12 not.
_LARGEST_RATIO = 1e8
# Singular values of the duels' features below this share of the largest are rounding, and so are
# eigenvalues of their products below the second.
_SINGULAR_TOLERANCE, _EIGEN_TOLERANCE = 1e-8, 1e-14


class ExactTarget(NamedTuple):
    """What is drawn from, and what leads there."""

    prior: WhitenedPrior
    """In whitened utilities."""
    target: TruncatedNormal
    """Of all single duels."""
    site: IntArray
    """(t,) the row of the graph of each."""
    log_evidence: float
    """EP's, in nats."""
    converged: bool
    """Whether EP did."""


def exact_target(problem: DuelProblem) -> ExactTarget:
    """The truncated normal of all single duels of a problem, whatever its inducing inputs.

    :raises ValueError: limits that meet, a prior variance of more than 1e8 times the noise, or a
        kernel that is not positive semi-definite.
    """
    graph = problem.graph
    exact = Exact().prior(problem)
    factors = exact.factors
    _check_limits(factors, exact.offset.numpy())
    prior = WhitenedPrior(problem, factors, exact.offset.numpy().astype(float))
    engine = ParallelEP()
    zero = Sites.zeros(graph.num_sites, factors.upper.dtype)
    point = engine.run(exact.covariance, factors, zero)
    target, site = _expanded(prior, graph, factors, point.sites)
    converged = describe(point, engine.tolerance).converged
    return ExactTarget(prior, target, site, float(point.log_evidence()), converged)


def _check_limits(factors: Factors, offset: FloatArray) -> None:
    if factors.lower is None:
        return
    lower, upper = factors.lower.numpy(), factors.upper.numpy()
    met = np.flatnonzero(~(lower < upper))
    if met.size:
        raise ValueError(
            f"The limits of duel {met[0]} are {(lower + offset)[met[0]]:g} and "
            f"{(upper + offset)[met[0]]:g}; sampling needs the lower one below the upper."
        )


def _limits_of(factors: Factors) -> tuple[FloatArray, FloatArray]:
    """Lower and upper, (t,) each."""
    upper = factors.upper.numpy()
    return np.full_like(upper, -np.inf) if factors.lower is None else factors.lower.numpy(), upper


def check_whole(graph: DuelGraph) -> None:
    """Refuse duels that are not one or several whole ones.

    :raises ValueError: weights that are not whole numbers.
    """
    broken = np.flatnonzero(graph.counts != np.floor(graph.counts))
    if broken.size:
        raise ValueError(
            f"Sampling draws whole duels, but duels weigh {graph.counts[broken[0]]:g} for example; "
            "give weights that are whole numbers, or leave them out."
        )


def num_single_duels(graph: DuelGraph, instead: str) -> int:
    """How many duels are to be drawn, counts included.

    :param instead: what to do where there are too many, after a semicolon.
    :raises ValueError: more than 2,000, or weights that are not whole numbers.
    """
    check_whole(graph)
    duels = int(graph.counts.sum())
    if duels > SAMPLED_UP_TO:
        raise ValueError(
            f"Sampling is for up to {SAMPLED_UP_TO:,} single duels, but there are {duels:,}; "
            f"{instead}."
        )
    return duels


class WhitenedPrior:
    """The prior in whitened utilities u, z = F u, and what v tells of u.

    Given v, u is normal with precision I + F' diag(c / D) F and natural mean F' (v / D).
    """

    def __init__(self, problem: DuelProblem, factors: Factors, offset: FloatArray) -> None:
        self.graph = graph = problem.graph
        self.kernel: gpflow.kernels.Kernel = problem.kernel
        self._mean_function = problem.mean_function
        self._rows = as_float(graph.rows)
        self.offset = offset
        self.duel_noise = 2.0 * float(problem.noise_variance)
        self.margin = 0.0 if problem.cuts is None else float(problem.cuts[0])
        self._limits = _limits_of(factors)
        matrix = kernel_matrix(problem.kernel, self._rows).numpy()
        self.loadings, self._projection = duel_features(matrix, graph.winners, graph.losers)
        self.noise = factors.noise.numpy().astype(float)
        ratio = float(np.max(np.sum(self.loadings**2, 1) / self.noise))
        if not ratio <= _LARGEST_RATIO:
            raise ValueError(
                f"The prior variance of a duel is {ratio:.1e} times its noise, and above "
                f"{_LARGEST_RATIO:.0e} sampling loses its digits; lower the kernel variance or "
                "raise the noise variance."
            )
        weighted = (graph.counts / self.noise)[:, None] * self.loadings
        precision = np.eye(self.loadings.shape[1]) + self.loadings.T @ weighted
        self._factor = cho_factor(precision, lower=True)

    def is_of(self, problem: DuelProblem) -> bool:
        """Whether the problem has the same duels, prior and noise."""
        old, new = self.graph, problem.graph
        graphs = [(getattr(old, x), getattr(new, x)) for x in ("rows", "winners", "losers")]
        if not all(np.array_equal(a, b) for a, b in [*graphs, (old.counts, new.counts)]):
            return False
        prior = Exact().prior(problem)
        limits = zip(_limits_of(prior.factors), self._limits, strict=True)
        return (
            all(np.array_equal(new, old) for new, old in limits)
            and np.array_equal(prior.offset.numpy(), self.offset)
            and np.array_equal(prior.factors.noise.numpy(), self.noise)
            and np.array_equal(
                kernel_matrix(problem.kernel, self._rows), kernel_matrix(self.kernel, self._rows)
            )
        )

    def mean(self, inputs: tf.Tensor) -> FloatArray:
        """Prior mean (N,)."""
        if self._mean_function is None:
            return np.zeros(len(inputs))
        return np.asarray(self._mean_function(inputs)[:, 0].numpy(), dtype=float)

    def features(self, inputs: tf.Tensor) -> FloatArray:
        """Cov[f(x), u], (N, r)."""
        return np.asarray(
            kernel_matrix(self.kernel, inputs, self._rows).numpy() @ self._projection, dtype=float
        )

    def spread(self, columns: FloatArray) -> FloatArray:
        """Cov[u | v] times (r, k)."""
        return np.asarray(cho_solve(self._factor, columns), dtype=float)

    def gain(self, features: FloatArray) -> FloatArray:
        """What one v of each site adds to E[features u | v], (N, sites)."""
        return (features @ self.spread(self.loadings.T)) / self.noise


def duel_features(
    kernel: FloatArray, winners: IntArray, losers: IntArray
) -> tuple[FloatArray, FloatArray]:
    """F (t, r) with F F' = A K A', r its rank, and P (n, r) with K P = Cov[f, u] for z = F u.

    :raises ValueError: the kernel matrix (n, n) is not positive semi-definite.
    """
    n, t = len(kernel), len(winners)
    # 1 for doubles.
    loss = float(np.finfo(kernel.dtype).eps / np.finfo(float).eps)
    tolerance = np.sqrt(loss) * _SINGULAR_TOLERANCE
    kernel = kernel.astype(float)
    if n <= t:
        values, vectors = np.linalg.eigh(kernel)
        _check_definite(values, tolerance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        left, singular, _ = np.linalg.svd(root[losers] - root[winners], full_matrices=False)
        kept = singular > tolerance * max(singular[0], np.finfo(float).tiny)
    else:
        side = kernel[losers] - kernel[winners]
        values, left = np.linalg.eigh(side[:, losers] - side[:, winners])
        _check_definite(values, tolerance)
        kept = values > loss * _EIGEN_TOLERANCE * max(values[-1], np.finfo(float).tiny)
        singular = np.sqrt(np.maximum(values, 0.0))
    left, singular = left[:, kept], singular[kept]
    projection = np.zeros((n, len(singular)))
    np.add.at(projection, losers, left / singular)
    np.subtract.at(projection, winners, left / singular)
    return left * singular, projection


def _check_definite(values: FloatArray, tolerance: float) -> None:
    if values[0] < -tolerance * abs(values[-1]):
        raise ValueError(
            f"The kernel matrix has the negative eigenvalue {values[0]:.3g}; use a kernel that is "
            "positive semi-definite."
        )


def _expanded(
    prior: WhitenedPrior, graph: DuelGraph, factors: Factors, sites: Sites
) -> tuple[TruncatedNormal, IntArray]:
    """The truncated normal of all single duels, and the row of the graph of each."""
    nu, tau = (np.asarray(x.numpy(), dtype=float) for x in sites)
    if not (np.all(np.isfinite(nu)) and np.all(np.isfinite(tau))):
        nu, tau = np.zeros_like(nu), np.zeros_like(tau)
    # Sharp sites first: what they fix need not be guessed by those after them.
    order = np.argsort(-tau, kind="stable")
    site = np.repeat(order, graph.counts[order].astype(int))
    lower = None if factors.lower is None else factors.lower.numpy().astype(float)[site]
    upper = factors.upper.numpy().astype(float)[site]
    target = TruncatedNormal(
        prior.loadings[site], prior.noise[site], lower, upper, nu[site], tau[site]
    )
    return target, site
