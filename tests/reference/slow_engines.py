"""Laplace, variational and power-EP inference on dense matrices, with SciPy's own tools.

A problem is a covariance K of z (t, t) and a log factor for each z_i; equal duels are written out.
Factors give (log p, d log p / dz, d² log p / dz²) at one z.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, linalg, optimize
from scipy.special import expit, log_ndtr

from sparse_prefgp.data.graph import DuelGraph
from tests.reference.slow_approximations import covariance_and_correction, difference_matrix

Array = NDArray[np.float64]
Derivatives = tuple[float, float, float]
Factor = Callable[[float], Derivatives]


def _normal(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def probit_factor(noise: float, lower: float, upper: float) -> Factor:
    """P(lower < z + N(0, noise) < upper) with g = (phi(a) - phi(b)) / mass / s and so on."""
    s = math.sqrt(noise)

    def factor(z: float) -> Derivatives:
        a, b = (lower - z) / s, (upper - z) / s
        if math.isinf(a):
            log_mass = float(log_ndtr(b))
            at_a, bent_a = 0.0, 0.0
        else:
            # The smaller tails are subtracted, in logs as they may underflow.
            near, far = (-a, -b) if a + b > 0 else (b, a)
            log_mass = float(log_ndtr(near)) + math.log1p(-math.exp(log_ndtr(far) - log_ndtr(near)))
            at_a = math.exp(-0.5 * a * a - log_mass) / math.sqrt(2 * math.pi)
            bent_a = a * at_a
        at_b = 0.0 if math.isinf(b) else math.exp(-0.5 * b * b - log_mass) / math.sqrt(2 * math.pi)
        bent_b = 0.0 if math.isinf(b) else b * at_b
        g = (at_a - at_b) / s
        return log_mass, g, (bent_a - bent_b) / s**2 - g * g

    return factor


def logit_factor(extra: float, lower: float, upper: float) -> Factor:
    """The same with logistic noise, and normal noise of variance `extra` next to it, by `quad`."""

    def parts(z: float) -> tuple[float, float, float]:
        """p, p', p'' of s(upper - z) - s(lower - z) for the logistic function s."""
        found = [0.0, 0.0, 0.0]
        for limit, sign in ((upper, 1.0), (lower, -1.0)):
            if math.isinf(limit):
                found[0] += sign * (limit > 0)
                continue
            s = float(expit(limit - z))
            bend = s * (1.0 - s)
            found[0] += sign * s
            found[1] -= sign * bend
            found[2] += sign * bend * (1.0 - 2.0 * s)
        return found[0], found[1], found[2]

    def factor(z: float) -> Derivatives:
        if extra < 1e-12:
            p, first, second = parts(z)
        else:
            sd = math.sqrt(extra)
            p, first, second = (
                integrate.quad(
                    lambda e, k=k: _normal(e) * parts(z + sd * e)[k], -12, 12, epsabs=1e-13
                )[0]
                for k in range(3)
            )
        g = first / p
        return math.log(p), g, second / p - g * g

    return factor


class DenseProblem(NamedTuple):
    """A row of docs/method.md, section 3, in full matrices; T duels, equal ones written out."""

    covariance: Array
    """(T, T) of z."""
    noise: Array
    """(T,), D_i."""
    inside: Array
    """(T,), k~."""
    correction: float
    """In nats."""
    limits: Array
    """(T, 2)."""
    across: Array
    """Cov[f*, z] (N, T) and Cov[f*] (N, N) of the test items."""
    prior: Array
    """Cov[f*, z] (N, T) and Cov[f*] (N, N) of the test items."""

    def factors(self, logit_noise: float | None = None) -> list[Factor]:
        """Probit factors, or logit ones, whose normal noise is what exceeds `logit_noise`."""
        if logit_noise is None:
            return [probit_factor(d, *x) for d, x in zip(self.noise, self.limits, strict=True)]
        extra = self.noise - logit_noise
        return [logit_factor(d, *x) for d, x in zip(extra, self.limits, strict=True)]


def dense_problem(
    graph: DuelGraph,
    kernel: Callable[[Array, Array], Any],
    row: str,
    noise_variance: float,
    inducing: Array,
    test_items: Array,
    power: float = 0.5,
) -> DenseProblem:
    """Explicit A, Q = K_vu K_uu⁻¹ K_uv, and the row's covariance; 2 sigma² comes in as sigma²."""
    where = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    a = difference_matrix(graph.winners[where], graph.losers[where], graph.num_rows)

    def gram(x: Array, y: Array) -> Array:
        return np.asarray(kernel(x, y))

    k_zz, prior = a @ gram(graph.rows, graph.rows) @ a.T, gram(test_items, test_items)
    noise = 2.0 * noise_variance
    limits = np.stack([graph.lower, graph.upper], 1)[where]
    if row == "exact":
        zero = np.zeros(len(a))
        across = gram(test_items, graph.rows) @ a.T
        return DenseProblem(k_zz, zero + noise, zero, 0.0, limits, across, prior)
    solved = linalg.solve(
        gram(inducing, inducing), gram(inducing, graph.rows) @ a.T, assume_a="pos"
    )
    q = a @ gram(graph.rows, inducing) @ solved
    rank = np.linalg.matrix_rank(a)
    whole, correction = covariance_and_correction(row, q, k_zz - q, noise, rank, power)
    return DenseProblem(
        q,
        np.diag(whole - q),
        np.diag(k_zz - q),
        correction,
        limits,
        gram(test_items, inducing) @ solved,
        prior,
    )


class SlowLaplace(NamedTuple):
    mode: Array  # of z
    slope: Array  # d log p / dz there
    precision: Array  # -d² log p / dz² there
    log_evidence: float


def slow_laplace(covariance: Array, factors: Sequence[Factor]) -> SlowLaplace:
    """SciPy's trust region on a, z = L a, K = L L', then the formula (GPML eq. 3.32).

    log Z = log p(z) - ½ a'a - ½ log|I + L' W L|, whatever the rank of K.
    """
    values, vectors = linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])

    def at(a: Array) -> tuple[Array, Array, Array]:
        each = np.array([f(z) for f, z in zip(factors, root @ a, strict=True)])
        return each[:, 0], each[:, 1], each[:, 2]

    found = optimize.minimize(
        lambda a: 0.5 * a @ a - at(a)[0].sum(),
        np.zeros(root.shape[1]),
        jac=lambda a: a - root.T @ at(a)[1],
        hess=lambda a: np.eye(len(a)) - root.T @ (at(a)[2][:, None] * root),
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 500},
    )
    # One step more from there squares the error.
    a = found.x
    _, slope, curvature = at(a)
    hessian = np.eye(len(a)) - root.T @ (curvature[:, None] * root)
    a = a - linalg.solve(hessian, a - root.T @ slope, assume_a="pos")
    value, slope, curvature = at(a)
    hessian = np.eye(len(a)) - root.T @ (curvature[:, None] * root)
    log_evidence = value.sum() - 0.5 * a @ a - 0.5 * np.linalg.slogdet(hessian)[1]
    return SlowLaplace(root @ a, slope, -curvature, float(log_evidence))


def slow_predictions(
    found: SlowLaplace, covariance: Array, across: Array, prior: Array
) -> tuple[Array, Array]:
    """Mean and covariance of f*: k* (sum of slopes) and k** - k* (W⁻¹ + K)⁻¹ k*' (GPML 3.21, 3.24).

    :param across: Cov[f*, z], (N, t).
    :param prior: Cov[f*], (N, N).
    """
    root = np.sqrt(found.precision)
    inner = np.eye(len(root)) + root[:, None] * covariance * root
    half = linalg.solve(inner, root[:, None] * across.T, assume_a="pos")
    return across @ found.slope, prior - (across * root) @ half


def logit_probability(mean: float, variance: float) -> float:
    """Average of the logistic function over a normal, by `quad`."""
    sd = math.sqrt(variance)
    return float(
        integrate.quad(lambda y: _normal(y) * expit(mean + sd * y), -12, 12, epsabs=1e-13)[0]
    )


class SlowVariational(NamedTuple):
    mean: Array  # of z under q
    variance: Array  # of z under q, without what is inside
    bound: float


def slow_variational(
    covariance: Array, factors: Sequence[Factor], inside: Array
) -> SlowVariational:
    """The Gaussian q of the largest bound by BFGS over its mean and Cholesky factor.

    With z = L a and q(a) = N(mu, S S'), the bound is

        sum E log p(N(m_i, v_i + inside_i)) - ½ (tr S S' + mu'mu - dim - log|S S'|)

    with expectations by 64 Gauss–Hermite nodes: for variances about as large as the noise.
    """
    values, vectors = linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    size = root.shape[1]
    lower = np.tril_indices(size)
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / math.sqrt(2.0 * math.pi)

    def unpack(x: Array) -> tuple[Array, Array]:
        factor = np.zeros((size, size))
        factor[lower] = x[size:]
        return x[:size], factor

    def marginals(x: Array) -> tuple[Array, Array]:
        mu, factor = unpack(x)
        return root @ mu, np.sum((root @ factor) ** 2, 1)

    def negative(x: Array) -> tuple[float, Array]:
        mu, factor = unpack(x)
        mean, variance = marginals(x)
        expected = np.zeros((len(mean), 3))
        for i, f in enumerate(factors):
            sd = math.sqrt(variance[i] + inside[i])
            expected[i] = weights @ np.array([f(mean[i] + sd * y) for y in nodes])
        diagonal = np.diag(factor)
        kl = 0.5 * (np.sum(factor**2) + mu @ mu - size) - np.sum(np.log(np.abs(diagonal)))
        # dE/dm = E g and dE/dv = ½ E h (Price's theorem)
        slope_mu = mu - root.T @ expected[:, 1]
        slope = factor - np.diag(1.0 / diagonal)
        slope -= root.T @ (expected[:, 2][:, None] * (root @ factor))
        return kl - expected[:, 0].sum(), np.concatenate([slope_mu, slope[lower]])

    start = np.concatenate([np.zeros(size), np.eye(size)[lower]])
    found = optimize.minimize(
        negative, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000}
    )
    mean, variance = marginals(found.x)
    return SlowVariational(mean, variance, -float(found.fun))


class SlowPowerEP(NamedTuple):
    mean: Array
    variance: Array
    log_evidence: float


def slow_power_ep(
    covariance: Array,
    factors: Sequence[Factor],
    power: float | Array,
    tolerance: float = 1e-9,
    max_sweeps: int = 200,
) -> SlowPowerEP:
    """Power EP (Minka 2004), one site after the other, every marginal computed afresh.

    The share p of a site is taken out; what is left times the factor^p has log mass
    log Z_i, mean E and variance V by `quad`; then p tau = 1/V - 1/v_c and p nu = E/V - m_c/v_c, and

        log Z = sum [log Z_i + psi(m_c, v_c) - psi(m, v)] / p + ½ nu'mu - ½ log|B|

    :param power: of all factors, or of each.
    """
    t = len(factors)
    power = np.broadcast_to(power, t)
    tau, nu = np.zeros(t), np.zeros(t)

    def posterior(total_tau: Array, total_nu: Array) -> tuple[Array, Array, float]:
        b = np.eye(t) + covariance * total_tau
        sigma = linalg.solve(b, covariance)
        return sigma @ total_nu, np.diag(sigma), float(np.linalg.slogdet(b)[1])

    def cavity(i: int) -> tuple[float, float]:
        total_tau, total_nu = tau.copy(), nu.copy()
        total_tau[i] -= power[i] * tau[i]
        total_nu[i] -= power[i] * nu[i]
        mean, variance, _ = posterior(total_tau, total_nu)
        return float(mean[i]), float(variance[i])

    def tilted(i: int, m: float, v: float) -> tuple[float, float, float]:
        sd = math.sqrt(v)

        def density(y: float) -> float:
            return _normal(y) * math.exp(power[i] * factors[i](m + sd * y)[0])

        def moment(k: int) -> float:
            value = integrate.quad(lambda y: density(y) * y**k, -12, 12, epsabs=1e-14, limit=200)
            return float(value[0])

        mass = moment(0)
        first = moment(1) / mass
        return math.log(mass), m + sd * first, v * (moment(2) / mass - first**2)

    for _ in range(max_sweeps):
        change = 0.0
        for i in range(t):
            m, v = cavity(i)
            _, mean, variance = tilted(i, m, v)
            new = (1.0 / variance - 1.0 / v) / power[i], (mean / variance - m / v) / power[i]
            change = max(change, abs(new[0] - tau[i]), abs(new[1] - nu[i]))
            tau[i], nu[i] = new
        if change < tolerance:
            break
    else:
        raise RuntimeError(f"sites still move by {change:g} after {max_sweeps} sweeps")

    def psi(mean: float, variance: float) -> float:
        return 0.5 * mean**2 / variance + 0.5 * math.log(variance)

    mean, variance, log_det = posterior(tau, nu)
    log_evidence = 0.5 * nu @ mean - 0.5 * log_det
    for i in range(t):
        m, v = cavity(i)
        each = tilted(i, m, v)[0] + psi(m, v) - psi(float(mean[i]), float(variance[i]))
        log_evidence += each / power[i]
    return SlowPowerEP(mean, variance, float(log_evidence))
