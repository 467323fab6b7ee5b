"""EP for any normal truncated to a box, without a model around it."""

from __future__ import annotations

from dataclasses import dataclass

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance, DenseOverDuels, LowRankOverDuels
from sparse_prefgp.engines.base import Engine, FixedPoint, InferenceResult, describe
from sparse_prefgp.engines.propagation import ParallelEP
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_finite, check_shape, numbers, one_each


@dataclass(frozen=True)
class LowRankPlusDiagonal:
    """The covariance `features features' + diag(diagonal)`, never formed."""

    features: np.ndarray
    """(t, m)."""
    diagonal: np.ndarray
    """(t,), >= 0."""

    def dense(self) -> np.ndarray:
        """The (t, t) array, for tests and small problems."""
        return self.features @ self.features.T + np.diag(self.diagonal)

    def _door(self, dtype: type) -> Covariance:
        """Without the diagonal, which is noise to the engines."""
        return LowRankOverDuels(tf.constant(self.features, dtype))


@dataclass(frozen=True)
class _Matrix:
    """A covariance as it is, (t, t), by the names of `LowRankPlusDiagonal`."""

    matrix: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        return np.zeros(len(self.matrix))

    def dense(self) -> np.ndarray:
        return self.matrix

    def _door(self, dtype: type) -> Covariance:
        return DenseOverDuels(tf.constant(self.matrix, dtype), noise_free=True)


@dataclass(frozen=True, eq=False)
class TruncatedNormalResult:
    """EP's approximation of a normal truncated to a box."""

    mean: np.ndarray
    """(t,) mean of the truncated normal."""
    variance: np.ndarray
    """(t,) variance of the truncated normal."""
    log_mass: float
    """log probability of the box under the normal, in nats."""
    nu: np.ndarray
    """(t,) natural parameters of the sites (on the noise-free part for a `LowRankPlusDiagonal`)."""
    tau: np.ndarray
    """(t,) natural parameters of the sites (on the noise-free part for a `LowRankPlusDiagonal`)."""
    inference: InferenceResult
    """Converged or not, sweeps, status."""
    _prior: _Matrix | LowRankPlusDiagonal

    @property
    def converged(self) -> bool:
        return self.inference.converged

    @property
    def covariance(self) -> np.ndarray:
        """(t, t), made when asked for: prior minus what the sites explain."""
        prior, noise = self._prior.dense(), self._prior.diagonal
        # Sites on the noise-free part become sites on the whole: 1/tau_v = 1/tau_z - noise.
        tau = self.tau / (1.0 - self.tau * noise)
        root = np.sqrt(tau)
        inner = np.eye(len(prior)) + root[:, None] * prior * root
        half = np.linalg.solve(np.linalg.cholesky(inner), root[:, None] * prior)
        covariance: np.ndarray = prior - half.T @ half
        np.fill_diagonal(covariance, self.variance)
        return covariance


def truncated_normal_ep(
    mean: np.ndarray,
    covariance: np.ndarray | LowRankPlusDiagonal,
    lower: np.ndarray | float | None = None,
    upper: np.ndarray | float | None = None,
    *,
    engine: Engine | None = None,
) -> TruncatedNormalResult:
    """EP for N(mean, covariance) truncated to lower < v < upper.

    Source: Cunningham, Hennig & Lacoste-Julien (2011); Takeno, Nomura & Karasuyama (2023).

    :param mean: (t,), or a number for all coordinates.
    :param covariance: (t, t) symmetric positive semi-definite, or `LowRankPlusDiagonal`.
    :param lower: (t,) or a number; -inf allowed; None is -inf.
    :param upper: (t,) or a number; inf allowed; None is 0: the default box is the negative orthant.
    :param engine: `ParallelEP()` by default, or `SequentialEP()`. Any other engine, a site power
        too, needs a `LowRankPlusDiagonal` with a diagonal above 0, and `log_mass` is its evidence.
    :raises ValueError: shapes do not fit, a value is NaN, the covariance is not symmetric or has a
        negative variance, a lower limit is not below its upper limit, or the engine needs noise
        that is not there.
    """
    dtype = gpflow.default_float()
    prior = _checked(covariance)
    noise = prior.diagonal
    size = len(noise)
    centre, lowest, highest = _check_box(size, mean, lower, upper)
    low, high = lowest - centre, highest - centre
    one_sided = np.all(np.isneginf(low)) and np.all(np.isfinite(high))
    factors = Factors(
        counts=tf.ones([size], dtype),
        noise=tf.constant(noise, dtype),
        lower=None if one_sided else tf.constant(low, dtype),
        upper=tf.constant(high, dtype),
    )
    engine = ParallelEP() if engine is None else engine
    if not engine.matches_moments:
        logistic = not engine.link_function.has_normal_noise
        together.check(truncated_normals=True, logistic=logistic and f"the engine {engine!r}")
        if not np.all(noise > 0.0):
            raise ValueError(
                f"{engine!r} needs noise in every coordinate, because a limit without noise has no "
                "slope; pass a LowRankPlusDiagonal with a diagonal above 0, or use ParallelEP()."
            )
    point = engine.run(prior._door(dtype), factors, Sites.zeros(size, dtype))
    moments = _by_matching(point, noise) if engine.matches_moments else _by_sites(point, noise)
    return TruncatedNormalResult(
        mean=centre + moments[0],
        variance=moments[1],
        log_mass=float(point.log_evidence()),
        nu=point.sites.nu.numpy(),
        tau=point.sites.tau.numpy(),
        inference=describe(point, engine.tolerance),
        _prior=prior,
    )


def _by_matching(point: FixedPoint, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of v, (t,): at the fixed point of EP those of cavity × factor."""
    variance = point.found.cavity.variance.numpy()
    tau, total = point.sites.tau.numpy(), variance + noise
    # V = (1 - tau D) / (1 + tau v_c): from the definition of tau, without taking 1 - (1 - V).
    shrink = (1.0 - tau * noise) / (1.0 + tau * variance)
    return (
        point.found.cavity.mean.numpy() + total * point.found.tilted.slope.numpy(),
        total * shrink,
    )


def _by_sites(point: FixedPoint, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of v = z + N(0, D), (t,), with the sites on z as sites on v.

    A site on z is one on v whose precision is tau / (1 - tau D), so that v given z has the mean
    z + D (nu - tau z) and the variance D (1 - tau D).
    """
    nu, tau = point.sites.nu.numpy(), point.sites.tau.numpy()
    mean, share = point.found.mean.numpy(), 1.0 - tau * noise
    variance = share * (noise + share * point.found.variance.numpy())
    return mean + noise * (nu - tau * mean), variance


def _checked(given: np.ndarray | LowRankPlusDiagonal) -> _Matrix | LowRankPlusDiagonal:
    if isinstance(given, LowRankPlusDiagonal):
        features = np.asarray(given.features, float)
        diagonal = np.asarray(given.diagonal, float)
        check_shape("features", features, "t", "m")
        check_shape("diagonal", diagonal, len(features))
        check_finite("features", features)
        check_finite("diagonal", diagonal)
        if np.any(diagonal < 0):
            raise ValueError(f"diagonal must not be negative, but holds {diagonal.min()}.")
        return LowRankPlusDiagonal(features, diagonal)
    matrix = np.asarray(given, float)
    check_shape("covariance", matrix, "t", matrix.shape[0] if matrix.ndim else "t")
    check_finite("covariance", matrix)
    scale = np.max(np.abs(matrix))
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-10 * scale):
        raise ValueError("covariance must be symmetric; pass (C + C.T) / 2 if C is meant.")
    if np.any(np.diag(matrix) < 0):
        i = int(np.argmin(np.diag(matrix)))
        raise ValueError(f"covariance has the negative variance {matrix[i, i]} at {i}.")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-8 * scale:
        raise ValueError(
            f"covariance must be positive semi-definite, but has the eigenvalue {smallest:.3g}."
        )
    return _Matrix(matrix)


def _check_box(
    size: int,
    mean: np.ndarray | float,
    lower: np.ndarray | float | None,
    upper: np.ndarray | float | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    given = {
        "mean": mean,
        "lower": -np.inf if lower is None else lower,
        "upper": 0.0 if upper is None else upper,
    }
    arrays = {}
    for name, value in given.items():
        arrays[name] = one_each(name, numbers(name, value), size).copy()
    check_finite("mean", arrays["mean"])
    wrong = np.flatnonzero(~(arrays["lower"] < arrays["upper"]))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"lower must be below upper, but coordinate {i} has {arrays['lower'][i]} and "
            f"{arrays['upper'][i]}."
        )
    return arrays["mean"], arrays["lower"], arrays["upper"]
