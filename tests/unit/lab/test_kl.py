"""Divergences between Gaussians, against dense formulas, other forms and sampling."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.lab.kl import divergences, joint_kl, marginal_kl
from tests.cases import random_duels
from tests.tolerances import FIXED_POINT, IDENTITY


def gaussians(size: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    a, b = rng.normal(size=(2, size, size))
    return rng.normal(size=size), a @ a.T, rng.normal(size=size), b @ b.T


def test_joint_is_the_textbook_formula() -> None:
    m_p, c_p, m_q, c_q = gaussians()
    p, q = c_p + 0.3 * np.eye(5), c_q + 0.3 * np.eye(5)
    step = m_q - m_p
    expected = 0.5 * (
        np.trace(np.linalg.solve(q, p))
        + step @ np.linalg.solve(q, step)
        - 5
        + np.linalg.slogdet(q)[1]
        - np.linalg.slogdet(p)[1]
    )
    both = joint_kl(m_p, c_p, m_q, c_q, 0.3)
    assert both == pytest.approx(expected, rel=IDENTITY)
    assert both != pytest.approx(joint_kl(m_q, c_q, m_p, c_p, 0.3), rel=0.01)


def test_marginal_is_the_integral() -> None:
    m_p, v_p, m_q, v_q = 0.3, 0.5, -0.4, 1.7
    p, q = norm(m_p, np.sqrt(v_p + 0.2)), norm(m_q, np.sqrt(v_q + 0.2))
    integral, _ = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -12, 12, epsabs=1e-12)
    assert marginal_kl([m_p], [v_p], [m_q], [v_q], 0.2) == pytest.approx([integral], rel=IDENTITY)


def test_joint_of_independent_variables_is_the_sum_of_marginals() -> None:
    m_p, c_p, m_q, c_q = gaussians()
    v_p, v_q = np.diag(c_p), np.diag(c_q)
    each = marginal_kl(m_p, v_p, m_q, v_q, 0.1)
    assert np.all(each > 0.0)
    joint = joint_kl(m_p, np.diag(v_p), m_q, np.diag(v_q), 0.1)
    assert joint == pytest.approx(each.sum(), rel=IDENTITY)
    # What is said about all variables together is at least what is said about some of them.
    whole = joint_kl(m_p, c_p, m_q, c_q, 0.1)
    assert whole > joint_kl(m_p[:3], c_p[:3, :3], m_q[:3], c_q[:3, :3], 0.1)


def test_divergences_by_name() -> None:
    m_q, c_q, m_p, c_p = gaussians()
    found = divergences(m_q, c_q, m_p, c_p, 0.4)
    assert found.kl_to_exact == joint_kl(m_q, c_q, m_p, c_p, 0.4)
    assert found.kl_from_exact == joint_kl(m_p, c_p, m_q, c_q, 0.4)
    pairs = list(zip(m_q, np.diag(c_q), m_p, np.diag(c_p), strict=True))
    slow = [marginal_kl([a], [v], [b], [w], 0.4)[0] for a, v, b, w in pairs]
    assert found.marginal_kl_to_exact == pytest.approx(np.mean(slow), rel=IDENTITY)
    slow = [marginal_kl([b], [w], [a], [v], 0.4)[0] for a, v, b, w in pairs]
    assert found.marginal_kl_from_exact == pytest.approx(np.mean(slow), rel=IDENTITY)


def test_nearly_equal_distributions() -> None:
    mean, covariance, *_ = gaussians()
    assert joint_kl(mean, covariance, mean, covariance, 0.1) < 1e-25
    assert np.all(marginal_kl(mean, np.diag(covariance), mean, np.diag(covariance), 0.1) == 0.0)
    # ½ Σ (e - 1 - log e) is e²/4 a variable for a relative change e of the covariance.
    change = 1e-6
    small = joint_kl(mean, covariance, mean, covariance * (1.0 + change))
    assert small == pytest.approx(5 * change**2 / 4, rel=1e-5)
    small = marginal_kl([0.0], [1.0], [0.0], [1.0 + change])
    assert small == pytest.approx(change**2 / 4, rel=1e-5)


def test_any_scale() -> None:
    m_p, c_p, m_q, c_q = gaussians()
    expected = joint_kl(m_p, c_p, m_q, c_q, 0.1)
    found = joint_kl(1e3 * m_p, 1e6 * c_p, 1e3 * m_q, 1e6 * c_q, 1e5)
    assert found == pytest.approx(expected, rel=IDENTITY)


def test_mistakes() -> None:
    m_p, c_p, m_q, c_q = gaussians()
    with pytest.raises(ValueError, match=r"second mean has shape \(4,\); give \(5,\)"):
        joint_kl(m_p, c_p, m_q[:4], c_q)
    with pytest.raises(ValueError, match=r"first covariance has shape \(4, 4\); give \(5, 5\)"):
        joint_kl(m_p, c_p[:4, :4], m_q, c_q)
    with pytest.raises(ValueError, match="second covariance is not positive definite"):
        joint_kl(m_p, c_p, m_q, np.ones((5, 5)))
    with pytest.raises(ValueError, match=r"first variances has shape \(4,\); give \(5,\)"):
        marginal_kl(m_p, np.ones(4), m_q, np.ones(5))
    with pytest.raises(ValueError, match="first variance in row 2 is 0 with its noise"):
        marginal_kl(m_p, [1, 1, 0, 1, 1], m_q, np.ones(5))


@pytest.mark.slow
def test_variational_predictions_become_exact_eps() -> None:
    duels = random_duels(5, items=7, duels=14)
    new = np.random.default_rng(0).normal(size=(4, 2))

    def predictive(approximation: Approximation, m: int = 0) -> tuple[np.ndarray, np.ndarray]:
        model = spg.PreferenceGP(
            duels,
            gpflow.kernels.SquaredExponential(variance=2.0, lengthscales=[0.8, 1.2]),
            approximation=approximation,
            inducing_variable=duels.items[:m].copy() if m else None,
        )
        mean, covariance = model.predict_f(new, full_cov=True)
        return mean.numpy()[:, 0], covariance.numpy()[0]

    exact = predictive(spg.Exact())
    sparse = [predictive(spg.VFE(), m) for m in (1, 4, 7)]
    for ways in ([(*s, *exact) for s in sparse], [(*exact, *s) for s in sparse]):
        found = [joint_kl(*both, 0.5) for both in ways]
        assert found[0] > found[1] > 1e-3
        assert found[2] < FIXED_POINT
