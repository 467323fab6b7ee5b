"""How far one predictive distribution is from another: Kullback–Leibler divergences, in nats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_shape


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
) -> float:
    """KL[p || q] of p = N(mean, covariance + noise I) from q = N(other_mean, …).

    ½ [tr(C_q⁻¹ C_p) + (m_q - m_p)' C_q⁻¹ (m_q - m_p) - N + log|C_q| - log|C_p|], the first and
    the last two as sums of e - 1 - log e ≥ 0 over the eigenvalues e of C_q⁻¹ C_p, so that nothing
    cancels where p and q are nearly equal.

    :param mean: (N,).
    :param other_mean: (N,).
    :param covariance: (N, N), symmetric.
    :param other_covariance: (N, N), symmetric.
    :param noise_variance: added to both diagonals.
    :raises ValueError: shapes that do not fit, or a covariance that, with its noise, is not
        positive definite.
    """
    step, roots = _step(mean, other_mean), []
    for name, values in (("first", covariance), ("second", other_covariance)):
        noisy = np.array(values, dtype=float)
        check_shape(f"The {name} covariance", noisy, len(step), len(step))
        noisy[np.diag_indices(len(step))] += noise_variance
        try:
            roots.append(np.linalg.cholesky(noisy))
        except np.linalg.LinAlgError:
            raise ValueError(
                f"The {name} covariance is not positive definite with its noise; give a noise "
                "variance above 0, or fewer inputs that nearly coincide."
            ) from None
    root_p, root_q = roots
    ratio = solve_triangular(root_q, root_p, lower=True)  # e are its squared singular values
    singular = np.linalg.svd(ratio, compute_uv=False)
    excess = (singular - 1.0) * (singular + 1.0)  # e - 1
    step = solve_triangular(root_q, step, lower=True)
    return float(0.5 * (np.sum(excess - np.log1p(excess)) + step @ step))


def marginal_kl(
    mean: npt.ArrayLike,
    variance: npt.ArrayLike,
    other_mean: npt.ArrayLike,
    other_variance: npt.ArrayLike,
    noise_variance: float = 0.0,
) -> FloatArray:
    """KL[p_i || q_i] of each p_i = N(mean_i, variance_i + noise) from q_i, (N,).

    ½ [e - 1 - log e + (m_q - m_p)² / v_q] with e = v_p / v_q.

    :param mean: (N,) each.
    :param variance: (N,) each.
    :param other_mean: (N,) each.
    :param other_variance: (N,) each.
    :param noise_variance: added to all variances.
    :raises ValueError: shapes that do not fit, or a variance that, with its noise, is not positive.
    """
    step = _step(mean, other_mean)
    v_p = np.asarray(variance, dtype=float) + noise_variance
    v_q = np.asarray(other_variance, dtype=float) + noise_variance
    for name, values in (("first", v_p), ("second", v_q)):
        check_shape(f"The {name} variances", values, len(step))
        for row in np.flatnonzero(~(values > 0.0))[:1]:
            raise ValueError(
                f"The {name} variance in row {row} is {values[row]:g} with its noise, but must be "
                "positive; a divergence needs noise or a proper variance."
            )
    excess = (v_p - v_q) / v_q
    return np.asarray(0.5 * (excess - np.log1p(excess) + step**2 / v_q))


def _step(mean: npt.ArrayLike, other_mean: npt.ArrayLike) -> FloatArray:
    """From one mean to the other."""
    m_p, m_q = np.asarray(mean, dtype=float), np.asarray(other_mean, dtype=float)
    check_shape("The first mean", m_p, "N")
    check_shape("The second mean", m_q, len(m_p))
    return m_q - m_p
