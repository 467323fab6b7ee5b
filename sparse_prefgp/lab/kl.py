"""How far one predictive distribution is from another: Kullback–Leibler divergences, in nats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from sparse_prefgp.support.arrays import FloatArray


class Divergences(NamedTuple):
    """Of an approximate predictive distribution q and the exact one p, in nats."""

    kl_from_exact: float
    """KL[p || q], kl_to_exact: KL[q || p], of all items jointly."""
    kl_to_exact: float
    marginal_kl_from_exact: float
    """The means over items of the same for one item."""
    marginal_kl_to_exact: float
    """The means over items of the same for one item."""


def divergences(
    mean: npt.ArrayLike,
    covariance: npt.ArrayLike,
    exact_mean: npt.ArrayLike,
    exact_covariance: npt.ArrayLike,
    noise_variance: float,
) -> Divergences:
    """Both ways between N(mean, covariance + noise I) and the exact one, jointly and marginally.

    Utilities are relative, but as both have the same prior mean nothing is centred.

    :param mean: (N,).
    :param exact_mean: (N,).
    :param covariance: (N, N).
    :param exact_covariance: (N, N).
    :param noise_variance: sigma² per side of a duel.
    :raises ValueError: what `joint_kl` raises.
    """
    here, exact = (mean, covariance), (exact_mean, exact_covariance)
    one = (mean, np.diag(np.asarray(covariance, dtype=float)))
    other = (exact_mean, np.diag(np.asarray(exact_covariance, dtype=float)))
    return Divergences(
        joint_kl(*exact, *here, noise_variance),
        joint_kl(*here, *exact, noise_variance),
        float(marginal_kl(*other, *one, noise_variance).mean()),
        float(marginal_kl(*one, *other, noise_variance).mean()),
    )


def joint_kl(
    mean: npt.ArrayLike,
    covariance: npt.ArrayLike,
    other_mean: npt.ArrayLike,
    other_covariance: npt.ArrayLike,
    noise_variance: float = 0.0,
    other_noise_variance: float | None = None,
) -> float:
    """KL[p || q] of p = N(mean, covariance + noise I) from q = N(other_mean, …).

    ½ [tr(C_q⁻¹ C_p) + (m_q - m_p)' C_q⁻¹ (m_q - m_p) - N + log|C_q| - log|C_p|], the first and
    the last two as sums of e - 1 - log e ≥ 0 over the eigenvalues e of C_q⁻¹ C_p, so that nothing
    cancels where p and q are nearly equal.

    :param mean: (N,).
    :param other_mean: (N,).
    :param covariance: (N, N), symmetric.
    :param other_covariance: (N, N), symmetric.
    :param noise_variance: added to the diagonal of p's covariance.
    :param other_noise_variance: of q; by default the same.
    :raises ValueError: shapes that do not fit, or a covariance that, with its noise, is not
        positive definite.
    """
    m_p, m_q = np.asarray(mean, dtype=float), np.asarray(other_mean, dtype=float)
    first = _noisy(covariance, noise_variance, len(m_p))
    second = _noisy(
        other_covariance,
        noise_variance if other_noise_variance is None else other_noise_variance,
        len(m_p),
    )
    _check_means(m_p, m_q)
    root_p, root_q = _cholesky(first, "first"), _cholesky(second, "second")
    ratio = solve_triangular(root_q, root_p, lower=True)  # e are its squared singular values
    singular = np.linalg.svd(ratio, compute_uv=False)
    excess = (singular - 1.0) * (singular + 1.0)  # e - 1
    step = solve_triangular(root_q, m_q - m_p, lower=True)
    return float(0.5 * (np.sum(excess - np.log1p(excess)) + step @ step))


def marginal_kl(
    mean: npt.ArrayLike,
    variance: npt.ArrayLike,
    other_mean: npt.ArrayLike,
    other_variance: npt.ArrayLike,
    noise_variance: float = 0.0,
    other_noise_variance: float | None = None,
) -> FloatArray:
    """KL[p_i || q_i] of each p_i = N(mean_i, variance_i + noise) from q_i, (N,).

    ½ [e - 1 - log e + (m_q - m_p)² / v_q] with e = v_p / v_q.

    :param mean: (N,) each.
    :param variance: (N,) each.
    :param other_mean: (N,) each.
    :param other_variance: (N,) each.
    :param noise_variance: added to p's variances.
    :param other_noise_variance: to q's; by default the same.
    :raises ValueError: shapes that do not fit, or a variance that, with its noise, is not positive.
    """
    m_p, m_q = np.asarray(mean, dtype=float), np.asarray(other_mean, dtype=float)
    _check_means(m_p, m_q)
    v_p = np.asarray(variance, dtype=float) + noise_variance
    extra = noise_variance if other_noise_variance is None else other_noise_variance
    v_q = np.asarray(other_variance, dtype=float) + extra
    for name, values in (("first", v_p), ("second", v_q)):
        if values.shape != m_p.shape:
            raise ValueError(f"The {name} variances are {values.shape} for means {m_p.shape}.")
        if not np.all(values > 0.0):
            row = int(np.flatnonzero(~(values > 0.0))[0])
            raise ValueError(
                f"The {name} variance in row {row} is {values[row]:g} with its noise, but must be "
                "positive; a divergence needs noise or a proper variance."
            )
    excess = (v_p - v_q) / v_q
    return np.asarray(0.5 * (excess - np.log1p(excess) + (m_q - m_p) ** 2 / v_q))


def _check_means(first: FloatArray, second: FloatArray) -> None:
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise ValueError(
            f"Both means must be (N,) with the same N of at least 1, not {first.shape} and "
            f"{second.shape}."
        )


def _noisy(covariance: npt.ArrayLike, noise: float, count: int) -> FloatArray:
    values = np.array(covariance, dtype=float)
    if values.shape != (count, count):
        raise ValueError(f"A covariance is {values.shape}, but there are {count} means.")
    values[np.diag_indices(count)] += noise
    return values


def _cholesky(covariance: FloatArray, name: str) -> FloatArray:
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"The {name} covariance is not positive definite with its noise; give a noise variance "
            "above 0, or fewer inputs that nearly coincide."
        ) from None
