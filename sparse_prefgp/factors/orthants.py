"""Log probability that all entries of a normal are below zero, for many small normals at once.

What sets of alternatives are asked: a choice or a ranking is an orthant of differences. Rows that
are masked out stand for nothing, so that normals of different sizes are padded to one.

Sources: separation of variables (Genz 1992, "Numerical computation of multivariate normal
probabilities"), the most constrained variable first (Gibson, Glasbey & Elston 1994); expectation
propagation on truncated normals (Cunningham, Hennig & Lacoste-Julien 2011), sites one after
another.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.special import log_ndtr, logsumexp

from sparse_prefgp.factors.sites import (
    Cavity,
    Factors,
    Sites,
    cavity,
    changes,
    match_moments,
)
from sparse_prefgp.factors.truncated_draws import standard_draws
from sparse_prefgp.factors.truncated_normal import LOG_SQRT_2PI
from sparse_prefgp.support.arrays import BoolArray, FloatArray

POINTS = 256
# The log mass is stationary in the sites: it errs by the square of what they still move.
SWEEPS, SETTLED = 500, 1e-8
POINTS_UNSETTLED = 4096
# Numbers held at once by `log_orthants`: some 64 MB each of a handful of arrays.
_AT_ONCE = 2**23


def sobol_points(count: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Points in the unit cube, evenly spread: a Sobol sequence, shifted as a whole at random.

    :param count: how many, a power of two.
    :return: (count, size), in [0, 1).
    :raises ValueError: a count that is not a power of two, whose points would not be even.
    """
    from scipy import stats

    if count < 1 or count & (count - 1):
        raise ValueError(f"points is {count}; give a power of two.")
    if not size:
        return np.zeros((count, 0))
    even = stats.qmc.Sobol(size, scramble=False).random(count)
    return np.asarray((even + rng.random(size)) % 1.0, np.float64)


def log_orthants(
    mean: FloatArray, covariance: FloatArray, mask: BoolArray, points: FloatArray
) -> FloatArray:
    """By separation of variables, each normal at the same points.

    :param mean: (n, t).
    :param covariance: (n, t, t), positive definite over the rows that count.
    :param mask: (n, t), which rows count.
    :param points: (p, t - 1) in [0, 1), of `sobol_points`.
    :return: (n,), in nats.
    :raises numpy.linalg.LinAlgError: a covariance that is not positive definite.
    """
    n, size = mean.shape
    upper = np.where(mask, -mean, np.inf)
    s = np.where(mask[:, :, None] & mask[:, None, :], covariance, np.eye(size))
    step = max(1, _AT_ONCE // max(1, size * (len(points) + size)))
    parts = [
        _separated(*_most_constrained_first(upper[i : i + step], s[i : i + step]), points)
        for i in range(0, n, step)
    ]
    return np.concatenate([np.zeros(0), *parts])


def _most_constrained_first(
    upper: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Limits (n, t) in another order and the Cholesky factor (n, t, t) of the covariance in it.

    Next is always the variable that is least probably below its limit, those before it held at
    their means below theirs.
    """
    u, s = upper.copy(), covariance.copy()
    n, size = u.shape
    each = np.arange(n)
    factor = np.zeros_like(s)
    shift, left = np.zeros_like(u), np.einsum("nii->ni", s).copy()
    for i in range(size):
        if np.any(left[:, i:] <= 0.0):
            raise np.linalg.LinAlgError("A covariance of differences is not positive definite.")
        chosen = i + np.argmin((u - shift)[:, i:] / np.sqrt(left[:, i:]), axis=1)
        for rows in (u, shift, left, factor, s):
            rows[each, i], rows[each, chosen] = rows[each, chosen], rows[each, i].copy()
        columns = s.transpose(0, 2, 1)
        columns[each, i], columns[each, chosen] = columns[each, chosen], columns[each, i].copy()
        pivot = np.sqrt(left[:, i])
        factor[:, i, i] = pivot
        below = s[:, i + 1 :, i] - np.einsum("njl,nl->nj", factor[:, i + 1 :, :i], factor[:, i, :i])
        factor[:, i + 1 :, i] = below / pivot[:, None]
        limit = (u[:, i] - shift[:, i]) / pivot
        held = -np.exp(-0.5 * limit**2 - LOG_SQRT_2PI - log_ndtr(limit))
        shift[:, i + 1 :] += factor[:, i + 1 :, i] * held[:, None]
        left[:, i + 1 :] -= factor[:, i + 1 :, i] ** 2
    return u, factor


def _separated(upper: FloatArray, factor: FloatArray, points: FloatArray) -> FloatArray:
    """Log of the mean over points of the product of the conditional masses."""
    n, size = upper.shape
    drawn = np.zeros((n, len(points), size))
    total = np.zeros((n, len(points)))
    for i in range(size):
        before = np.einsum("npl,nl->np", drawn[:, :, :i], factor[:, i, :i])
        limit = (upper[:, i, None] - before) / factor[:, i, i, None]
        total += log_ndtr(limit)
        if i + 1 < size:
            # In (0, 1]: 0 alone has an infinite draw.
            shares = np.broadcast_to(1.0 - points[:, i], limit.shape)
            drawn[:, :, i] = standard_draws(None, limit, shares)
    return np.asarray(logsumexp(total, axis=1) - np.log(len(points)))


def log_orthants_by_ep(
    mean: FloatArray, covariance: FloatArray, mask: BoolArray, own: FloatArray
) -> FloatArray:
    """By expectation propagation, sites one after another, all normals side by side.

    Normals whose sites do not settle, of which a warning tells, are taken by separation of
    variables at `POINTS_UNSETTLED` fixed points.

    `own` changes neither the sites' messages nor the result, but where rows are nearly dependent
    sites settle to more digits with it.

    :param mean: (n, t).
    :param covariance: (n, t, t), positive definite over the rows that count.
    :param mask: (n, t), which rows count.
    :param own: (n,), the part of each row's variance that is taken as noise of its own: what can be
        taken from the diagonal of the covariance, 0 at least.
    :return: (n,), in nats.
    """
    if not mean.size:
        return np.zeros(len(mean))
    found = propagated_orthants(*(tf.constant(x) for x in (mean, covariance, mask, own)))
    log_mass, change = (np.array(x.numpy(), np.float64) for x in found)
    wild = np.flatnonzero(~(change <= SETTLED))
    if wild.size:
        warnings.warn(
            f"After {SWEEPS} sweeps of expectation propagation the sites of {wild.size:,} of "
            f"{len(mean):,} probabilities of sets still move, by up to {change[wild].max():.3g}; "
            f"these are found by separation of variables at {POINTS_UNSETTLED:,} points.",
            stacklevel=4,
        )
        points = sobol_points(POINTS_UNSETTLED, mean.shape[1] - 1, np.random.default_rng(0))
        log_mass[wild] = log_orthants(mean[wild], covariance[wild], mask[wild], points)
    return log_mass


def propagated_orthants(
    mean: tf.Tensor, covariance: tf.Tensor, mask: tf.Tensor, own: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """`log_orthants_by_ep` as TensorFlow operations, whether or not sites settle: log
    probabilities, and by how much sites moved in the last sweep; above `SETTLED`, or NaN, they
    have not settled. Tensors are of float64."""
    none = tf.eye(tf.shape(mean)[1], dtype=tf.float64)
    rest = tf.where(
        mask[:, :, None] & mask[:, None, :], covariance - own[:, None, None] * none, none
    )
    counted = tf.cast(mask, tf.float64)
    found = _propagated(tf.where(mask, mean, tf.zeros_like(mean)), rest, counted, own)
    return found[0], found[1]


def _mixed(
    prior_mean: tf.Tensor, prior: tf.Tensor, sites: Sites
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Mean (n, t), covariance (n, t, t) and log mass (n,) of normal times sites."""
    root = tf.sqrt(sites.tau)
    scaled = root[:, :, None] * prior
    identity = tf.eye(tf.shape(prior)[1], dtype=prior.dtype)
    b = tf.linalg.cholesky(identity + scaled * root[:, None, :])
    half = tf.linalg.triangular_solve(b, scaled)
    covariance = prior - tf.matmul(half, half, transpose_a=True)
    lead = sites.nu - sites.tau * prior_mean
    moved = tf.linalg.matvec(covariance, lead)
    log_mass = tf.reduce_sum(
        prior_mean * (sites.nu - 0.5 * sites.tau * prior_mean) + 0.5 * lead * moved, 1
    ) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(b)), 1)
    return prior_mean + moved, covariance, log_mass


def _factors(like: tf.Tensor, own: tf.Tensor) -> Factors:
    """Each, with its own noise, below zero."""
    one = tf.ones_like(like)
    return Factors(one, own * one, None, tf.zeros_like(like))


def _log_share(around: Cavity, sites: Sites) -> tf.Tensor:
    """Log integral of a cavity times exp(nu w - tau w²/2)."""
    spread = 1.0 + sites.tau * around.variance
    m = around.mean
    inside = sites.nu * m + 0.5 * sites.nu**2 * around.variance - 0.5 * sites.tau * m**2
    return inside / spread - 0.5 * tf.math.log(spread)


# Compiled once for every number and size.
@tf.function(
    autograph=False,
    input_signature=[tf.TensorSpec([None] * rank, tf.float64) for rank in (2, 3, 2, 1)],
)
def _propagated(
    prior_mean: tf.Tensor, prior: tf.Tensor, counted: tf.Tensor, own: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    size = tf.shape(prior_mean)[1]
    rows = tf.eye(size, dtype=tf.float64)

    def one(i: tf.Tensor, nu: tf.Tensor, tau: tf.Tensor, mean: tf.Tensor, s: tf.Tensor) -> Any:
        column = tf.gather(s, i, axis=2)
        v, m = tf.gather(column, i, axis=1), tf.gather(mean, i, axis=1)
        old = Sites(tf.gather(nu, i, axis=1), tf.gather(tau, i, axis=1))
        new, _ = match_moments(cavity(m, v, old), _factors(m, own))
        share = tf.gather(counted, i, axis=1)
        by_nu, by_tau = share * (new.nu - old.nu), share * (new.tau - old.tau)
        spread = 1.0 + by_tau * v
        mean += column * ((by_nu - by_tau * m) / spread)[:, None]
        s -= (by_tau / spread)[:, None, None] * column[:, :, None] * column[:, None, :]
        at = rows[i]
        return i + 1, nu + by_nu[:, None] * at, tau + by_tau[:, None] * at, mean, s

    def sweep(k: tf.Tensor, nu: tf.Tensor, tau: tf.Tensor, change: tf.Tensor) -> Any:
        # Afresh from the sites: updates of rank one add up rounding.
        mean, s, _ = _mixed(prior_mean, prior, Sites(nu, tau))
        begin = (tf.constant(0), nu, tau, mean, s)
        _, new_nu, new_tau, _, s = tf.while_loop(lambda i, *_: i < size, one, begin)
        by = changes(Sites(nu, tau), Sites(new_nu, new_tau), tf.linalg.diag_part(s))
        # The largest, NaN if any is.
        return k + 1, new_nu, new_tau, tf.reduce_max(by, 1) + 0.0 * tf.reduce_sum(by, 1)

    zero = tf.zeros_like(prior_mean)
    far = tf.fill([tf.shape(prior_mean)[0]], tf.constant(np.inf, tf.float64))
    _, nu, tau, change = tf.while_loop(
        lambda k, nu, tau, change: tf.reduce_any(change > SETTLED) & (k < SWEEPS),
        sweep,
        (tf.constant(0), zero, zero, far),
    )
    sites = Sites(nu, tau)
    mean, s, log_mass = _mixed(prior_mean, prior, sites)
    around = cavity(mean, tf.linalg.diag_part(s), sites)
    _, tilted = match_moments(around, _factors(mean, own[:, None]))
    each = tilted.log_mass - _log_share(around, sites)
    return log_mass + tf.reduce_sum(counted * each, 1), change
