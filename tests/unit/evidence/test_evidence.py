"""Evidence: its two forms, v-form and z-form, prior means, and its differentiable version."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.evidence import differentiable_log_evidence, ep_log_evidence
from sparse_prefgp.factors.sites import totals
from tests.cases import DUEL_CASES, FORMS, case_duels, case_kernel, incidence, run_problem
from tests.reference.slow_approximations import (
    covariance_and_correction,
    slow_posterior,
    squared_exponential,
)
from tests.tolerances import EVIDENCE, FIXED_POINT, IDENTITY, SOLVER

ENGINE = spg.ParallelEP(tolerance=SOLVER)
CASES = [0, 1, 3]


def approximation(row: str, over: str) -> tuple[object, str, float | None]:
    make = {"exact": spg.Exact, "vfe": spg.VFE, "fitc": spg.FITC, "prior_power": spg.PriorPower}
    return make[row](over=over), row, 0.5 if row == "prior_power" else None


@pytest.mark.parametrize("row", ["exact", "vfe", "fitc", "prior_power"])
@pytest.mark.parametrize("index", CASES)
@pytest.mark.covering(every=4)
def test_v_form_and_z_form_agree(index: int, row: str) -> None:
    case = DUEL_CASES[index]
    graph, kernel = DuelGraph.from_duels(case_duels(case)), case_kernel(case)
    # Each duel of the v-form is a variable of its own.
    repeat = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    a = incidence(graph)[repeat]
    k_vv = a @ kernel(graph.rows).numpy() @ a.T
    noise = 2 * case["noise_variance"]
    z = np.array(case["inducing"])
    covariance, correction = k_vv + noise * np.eye(len(a)), 0.0
    approx, name, power = approximation(row, FORMS[index % 2])
    if row != "exact":
        phi = a @ kernel(graph.rows, z).numpy() @ np.linalg.inv(np.linalg.cholesky(kernel(z))).T
        q = phi @ phi.T
        covariance, correction = covariance_and_correction(name, q, k_vv - q, noise, 0, power)
    v_form = spg.truncated_normal_ep(0.0, covariance, engine=ENGINE)
    _, _, z_form = run_problem(graph, kernel, approx, case["noise_variance"], z, ENGINE)
    assert v_form.converged
    assert v_form.log_mass + correction == pytest.approx(z_form, abs=IDENTITY, rel=IDENTITY)


@pytest.mark.parametrize("index", CASES)
def test_short_form_equals_the_long_form(index: int) -> None:
    """docs/method.md section 3: sum [log Z_i + psi(m_c, v_c) - psi(m, v)] + ½ h'P⁻¹h - ½ log|P|."""
    case = DUEL_CASES[index]
    graph = DuelGraph.from_duels(case_duels(case))
    prior, point, value = run_problem(
        graph, case_kernel(case), spg.Exact(), case["noise_variance"], engine=ENGINE
    )
    counts = graph.counts

    def psi(m: np.ndarray, v: np.ndarray) -> np.ndarray:
        return m**2 / (2 * v) + np.log(v) / 2

    m, v = point.found.mean.numpy(), point.found.variance.numpy()
    m_c, v_c = (x.numpy() for x in point.found.cavity)
    precision, shift = totals(point.sites, prior.factors.counts)
    half_log_det = float(prior.covariance.marginals(precision, shift).half_log_det)
    long = np.sum(counts * (point.found.tilted.log_mass.numpy() + psi(m_c, v_c) - psi(m, v)))
    long += 0.5 * shift.numpy() @ m - half_log_det
    assert value == pytest.approx(long, abs=IDENTITY)


def test_site_terms_determinant_and_correction_add_up() -> None:
    case = DUEL_CASES[1]
    prior, point, value = run_problem(
        DuelGraph.from_duels(case_duels(case)),
        case_kernel(case),
        spg.VFE(),
        case["noise_variance"],
        np.array(case["inducing"]),
    )
    counts = prior.factors.counts
    half_log_det = prior.covariance.marginals(*totals(point.sites, counts)).half_log_det
    terms = ep_log_evidence(
        point.sites, point.found.cavity, point.found.tilted, half_log_det, counts
    )
    assert float(terms + prior.correction) == pytest.approx(value, abs=IDENTITY)
    assert float(prior.correction) < -1.0


def test_differentiable_evidence_keeps_the_value() -> None:
    case = DUEL_CASES[1]
    prior, point, value = run_problem(
        DuelGraph.from_duels(case_duels(case)),
        case_kernel(case),
        spg.FITC(),
        case["noise_variance"],
        np.array(case["inducing"]),
    )
    given = tf.constant(value, tf.float64)
    out = differentiable_log_evidence(prior, point.sites, point.slopes, point.found.kept, given)
    assert float(out) == value


@pytest.mark.parametrize("row", ["exact", "vfe", "fitc"])
def test_prior_mean_against_an_explicit_mean(row: str) -> None:
    case = DUEL_CASES[1]
    slope = np.array([0.7, -0.4])
    approx, name, power = approximation(row, "items")
    mean_function = gpflow.functions.Linear(A=slope[:, None], b=[0.3])
    model = spg.PreferenceGP(
        case_duels(case),
        case_kernel(case),
        approximation=approx,
        inducing_variable=None if row == "exact" else np.array(case["inducing"]),
        engine=ENGINE,
        noise_variance=case["noise_variance"],
        mean_function=mean_function,
    )
    slow = slow_posterior(
        case["items"],
        case["winners"],
        case["losers"],
        squared_exponential(case["variance"], case["lengthscales"]),
        case["noise_variance"],
        name,
        inducing=case["inducing"],
        test_items=case["test_items"],
        power=power,
        mean_function=lambda x: float(slope @ x) + 0.3,
        tolerance=FIXED_POINT,
    )
    assert model.log_evidence() == pytest.approx(slow.log_evidence, abs=EVIDENCE)
    mean, cov = model.predict_f(np.array(case["test_items"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], slow.mean, atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(cov[0], slow.cov, atol=FIXED_POINT, rtol=0)


def test_scaling_kernel_and_noise_together_changes_nothing() -> None:
    case = DUEL_CASES[1]
    for approx in (spg.Exact(), spg.VFE(), spg.FITC(), spg.TightVFE(residual="rank")):
        values = []
        for scale in (1.0, 7.0):
            kernel = case_kernel(case)
            kernel.variance.assign(scale * case["variance"])
            graph = DuelGraph.from_duels(case_duels(case))
            z = np.array(case["inducing"])
            values.append(run_problem(graph, kernel, approx, scale * case["noise_variance"], z)[2])
        assert values[0] == pytest.approx(values[1], abs=IDENTITY, rel=IDENTITY)
