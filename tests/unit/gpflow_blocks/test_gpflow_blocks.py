"""Building blocks for GPflow's own models: against slow versions, and each model at work."""

from __future__ import annotations

from functools import cache
from typing import Any

import gpflow
import mpmath
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sparse_prefgp as spg
from sparse_prefgp.covariances.kernels import kernel_matrix
from sparse_prefgp.factors.truncated_normal import log_normal_cdf
from sparse_prefgp.gpflow_blocks import (
    DuelKernel,
    DuelLikelihood,
    ItemInducingPoints,
    stacked_duels,
)
from tests.cases import DUEL_CASES, case_duels, case_kernel
from tests.reference.slow_approximations import matern52
from tests.reference.slow_duel_kernel import probability, slow_bound, slow_duel_covariance
from tests.together import apart
from tests.tolerances import (
    EVIDENCE,
    EXPECTATION,
    GRADIENT,
    IDENTITY,
    MONTE_CARLO_STANDARD_ERRORS,
    OPTIMUM,
    ROUNDING,
    TAIL,
)

CASE = DUEL_CASES[1]  # 30 duels between 12 items, noise variance 0.15, 5 inducing inputs
SMALL_JITTER = 1e-12


def pairs_of(rng: np.random.Generator, n: int, d: int = 2) -> np.ndarray:
    return rng.normal(size=(n, 2 * d))


def repeated_duels() -> spg.Duels:
    """Six items, eight duels of which some are repeated."""
    rng = np.random.default_rng(0)
    winners, losers = [0, 0, 1, 2, 3, 4, 5, 1], [1, 1, 2, 3, 4, 5, 0, 0]
    return spg.Duels(rng.normal(size=(6, 2)), winners, losers, counts=[1, 2, 1, 1, 4, 1, 1, 1])


# The kernel.


def test_stacked_duels_keep_weights_and_refuse_what_the_likelihood_does_not_know() -> None:
    items = np.arange(6.0).reshape(3, 2)
    weighed = spg.Duels(items, [0, 1, 0], [1, 2, 1], weights=[0.5, 2.0, 0.5])
    np.testing.assert_array_equal(spg.gpflow.stacked_duels(weighed)[1], [[1.0, 1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="1 ties do not go together"):
        spg.gpflow.stacked_duels(spg.Duels(items, [0, 1], [1, 2], ties=[0, 1]))
    with pytest.raises(ValueError, match=apart("judges", "stacked")):
        spg.gpflow.stacked_duels(spg.Duels(items, [0, 1], [1, 2], groups=["a", "b"]))


def test_covariance_is_that_of_differences() -> None:
    rng = np.random.default_rng(0)
    kernel = DuelKernel(gpflow.kernels.Matern52(1.7, [0.8, 1.5]))
    slow = matern52(1.7, [0.8, 1.5])
    X, X2 = pairs_of(rng, 5), pairs_of(rng, 3)
    same = slow_duel_covariance(slow, X, X)
    np.testing.assert_allclose(kernel(X), same, atol=IDENTITY)
    np.testing.assert_allclose(kernel(X, X2), slow_duel_covariance(slow, X, X2), atol=IDENTITY)
    np.testing.assert_allclose(kernel(X, full_cov=False), np.diag(same), atol=IDENTITY)


@pytest.mark.parametrize(
    "base",
    [
        gpflow.kernels.SquaredExponential(lengthscales=[1.0, 2.0]),
        gpflow.kernels.SquaredExponential(active_dims=[0]) * gpflow.kernels.Linear(),
        gpflow.kernels.Polynomial() + gpflow.kernels.Matern32(),
        gpflow.kernels.Periodic(gpflow.kernels.SquaredExponential()),
        gpflow.kernels.ArcCosine(),
        gpflow.kernels.White() + gpflow.kernels.RationalQuadratic(),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_any_kernel_will_do(base: gpflow.kernels.Kernel) -> None:
    rng = np.random.default_rng(1)
    kernel = DuelKernel(base)
    X = pairs_of(rng, 6)
    full = kernel(X).numpy()
    np.testing.assert_allclose(kernel(X, full_cov=False), np.diag(full), rtol=IDENTITY)
    np.testing.assert_allclose(full, full.T, atol=IDENTITY)
    assert np.linalg.eigvalsh(full).min() > -IDENTITY * np.abs(full).max()
    # A turned pair has the opposite difference.
    turned = np.hstack([X[:, 2:], X[:, :2]])
    np.testing.assert_allclose(kernel(X, turned), -kernel(X, X.copy()), atol=IDENTITY)


def test_leading_dimensions_are_those_of_gpflow() -> None:
    rng = np.random.default_rng(2)
    kernel = DuelKernel(gpflow.kernels.SquaredExponential())
    X, X2 = rng.normal(size=(3, 5, 4)), rng.normal(size=(2, 4))
    assert kernel(X).shape == (3, 5, 5)
    assert kernel(X, X2).shape == (3, 5, 2)
    assert kernel(X, full_cov=False).shape == (3, 5)
    np.testing.assert_allclose(kernel(X)[1], kernel(X[1]), rtol=ROUNDING)
    np.testing.assert_allclose(kernel(X, X2)[1], kernel(X[1], X2), rtol=ROUNDING)
    np.testing.assert_allclose(
        kernel(X, full_cov=False)[1], kernel(X[1], full_cov=False), rtol=ROUNDING
    )


def test_the_prior_variance_of_near_equals_keeps_its_digits() -> None:
    apart = 1e-9
    kernel = DuelKernel(gpflow.kernels.SquaredExponential(variance=2.0, lengthscales=3.0))
    X = np.array([[0.3, 0.3 + apart], [0.3, 0.3]])
    variance = kernel(X, full_cov=False).numpy()
    # 2 · 2 (1 - exp(-x²/18)) = 4 x²/18 for small x; the matrix has lost it in rounding.
    step = float(X[0, 1] - X[0, 0])
    assert variance[0] == pytest.approx(4.0 * step**2 / 18.0, rel=IDENTITY)
    assert variance[1] == 0.0


def test_inducing_points_among_the_items() -> None:
    rng = np.random.default_rng(3)
    base = gpflow.kernels.Matern52(1.7, [0.8, 1.5])
    kernel, Z, X = DuelKernel(base), rng.normal(size=(4, 2)), pairs_of(rng, 6)
    points = ItemInducingPoints(Z)
    kuu = gpflow.covariances.Kuu(points, kernel)
    np.testing.assert_array_equal(kuu, kernel_matrix(base, Z))  # no jitter that nobody asked for
    with_jitter = gpflow.covariances.Kuu(points, kernel, jitter=0.25)
    np.testing.assert_allclose(with_jitter - kuu, 0.25 * np.eye(4), atol=ROUNDING)
    kuf = gpflow.covariances.Kuf(points, kernel, X).numpy()
    np.testing.assert_allclose(kuf, base(Z, X[:, :2]) - base(Z, X[:, 2:]), atol=ROUNDING)
    # A pair of inducing points is a pair: both kinds tell the same covariance.
    as_pair = np.hstack([Z[0], Z[1]])[None]
    np.testing.assert_allclose(kuf[0] - kuf[1], kernel(as_pair, X)[0], atol=IDENTITY)


def test_inducing_pairs_work_too() -> None:
    rng = np.random.default_rng(4)
    kernel = DuelKernel(gpflow.kernels.SquaredExponential())
    pairs, X = pairs_of(rng, 3), pairs_of(rng, 5)
    points = gpflow.inducing_variables.InducingPoints(pairs)
    np.testing.assert_array_equal(gpflow.covariances.Kuf(points, kernel, X), kernel(pairs, X))


# The likelihood.

LABELS = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 3.0], [0.0, 2.0]])


def test_log_prob_and_moments_of_a_label() -> None:
    likelihood = DuelLikelihood(0.3)
    X, F = np.zeros((4, 2)), np.array([[0.4], [0.4], [-1.2], [2.0]])
    p = np.array([probability(f / 0.6**0.5) for f in F[:, 0]])
    expected = LABELS[:, 1] * np.log(np.where(LABELS[:, 0] == 1.0, p, 1.0 - p))
    np.testing.assert_allclose(likelihood.log_prob(X, F, LABELS), expected, rtol=TAIL)
    as_integers = likelihood.log_prob(X, F, LABELS.astype(int))
    np.testing.assert_array_equal(as_integers, likelihood.log_prob(X, F, LABELS))
    np.testing.assert_allclose(likelihood.conditional_mean(X, F)[:, 0], p, rtol=TAIL)
    np.testing.assert_allclose(
        likelihood.conditional_variance(X, F)[:, 0], p * (1 - p), rtol=IDENTITY
    )


def test_predictions_are_integrals_over_the_latent_function() -> None:
    likelihood = DuelLikelihood(0.3)
    X = np.zeros((4, 2))
    mean, variance = np.array([[0.4], [0.4], [-1.2], [2.0]]), np.full((4, 1), 1.7)
    x = np.linspace(-12.0, 12.0, 20_001)
    weight = np.exp(-0.5 * x**2)
    weight /= weight.sum()
    p = np.array(
        [weight @ [probability((m + 1.7**0.5 * one) / 0.6**0.5) for one in x] for m in mean[:, 0]]
    )
    label_mean, label_variance = likelihood.predict_mean_and_var(X, mean, variance)
    np.testing.assert_allclose(label_mean[:, 0], p, rtol=IDENTITY)
    np.testing.assert_allclose(label_variance[:, 0], p * (1 - p), rtol=IDENTITY)
    density = likelihood.predict_log_density(X, mean, variance, LABELS)
    expected = LABELS[:, 1] * np.log(np.where(LABELS[:, 0] == 1.0, p, 1.0 - p))
    np.testing.assert_allclose(density, expected, rtol=IDENTITY)


@pytest.mark.parametrize("b", [-1e6, -1e3, -40.0, -6.0, -0.5, 3.0, 30.0])
def test_tails_and_their_derivatives(b: float) -> None:
    with mpmath.workdps(60):
        phi, mass = mpmath.npdf(b), mpmath.erfc(-b / mpmath.sqrt(2)) / 2
        log_mass, ratio = mpmath.log(mass), phi / mass
        expected = float(log_mass), float(ratio), float(-ratio * (ratio + b))
    point = tf.constant(b, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(point)
        with tf.GradientTape() as inner:
            inner.watch(point)
            value = log_normal_cdf(point)
        slope = inner.gradient(value, point)
    curvature = outer.gradient(slope, point)
    for found, wanted in zip((value, slope, curvature), expected, strict=True):
        assert float(found) == pytest.approx(wanted, rel=TAIL)


def test_an_impossible_outcome_has_a_finite_density() -> None:
    likelihood, X = DuelLikelihood(0.5), np.zeros((1, 2))
    one = np.ones((1, 1))
    assert float(likelihood.log_prob(X, -1e4 * one, one)[0]) == pytest.approx(-5e7, rel=1e-6)
    density = likelihood.predict_log_density(X, -1e4 * one, one, one)
    assert np.isfinite(density.numpy()).all()


def test_variational_expectations_are_exact_where_gauss_hermite_is_not() -> None:
    """At a variance of 1,000 times the noise; the method page states what 20 nodes do there."""
    noise, ratio = 0.3, 1e3
    likelihood, X = DuelLikelihood(noise), np.zeros((1, 2))
    mean, variance = np.array([[3.0]]), np.array([[2 * noise * ratio]])
    found = float(likelihood.variational_expectations(X, mean, variance, np.ones((1, 1)))[0])
    with mpmath.workdps(30):
        scale, sd = mpmath.sqrt(2 * noise), mpmath.sqrt(2 * noise * ratio)
        kink = -3.0 / sd
        near = [kink + s * 2.0**k * scale / sd for k in range(-1, 10) for s in (-1, 1)]
        breaks = sorted(x for x in (*range(-12, 13), kink, *near) if abs(x) <= 12)
        expected = mpmath.quad(
            lambda x: mpmath.log(mpmath.ncdf((3.0 + sd * x) / scale)) * mpmath.npdf(x), breaks
        )
    assert found == pytest.approx(float(expected), rel=EXPECTATION)
    by_nodes = gpflow.likelihoods.ScalarLikelihood._variational_expectations(
        likelihood, X, mean, variance, np.ones((1, 1))
    )
    assert abs(float(by_nodes[0]) - found) > 0.5


def test_a_count_is_so_many_duels() -> None:
    likelihood, X = DuelLikelihood(0.5), np.zeros((1, 2))
    mean, variance = np.array([[0.3]]), np.array([[2.0]])
    for call in (likelihood.variational_expectations, likelihood.predict_log_density):
        once = call(X, mean, variance, np.ones((1, 1)))
        five = call(X, mean, variance, np.array([[1.0, 5.0]]))
        np.testing.assert_allclose(five, 5.0 * once, rtol=ROUNDING)
        lost = call(X, -mean, variance, np.array([[0.0, 1.0]]))
        np.testing.assert_allclose(lost, once, rtol=ROUNDING)


def test_noise_is_fixed_until_it_is_freed() -> None:
    likelihood = DuelLikelihood(0.25)
    assert not likelihood.noise_variance.trainable
    gpflow.set_trainable(likelihood.noise_variance, True)
    X, one = np.zeros((1, 2)), np.ones((1, 1))

    def loss(noise: float) -> float:
        value = DuelLikelihood(noise).variational_expectations(X, 0.3 * one, 2.0 * one, one)
        return float(value[0])

    with tf.GradientTape() as tape:
        value = likelihood.variational_expectations(X, 0.3 * one, 2.0 * one, one)
    (variable,) = likelihood.trainable_variables
    slope = tape.gradient(value, variable)
    # The variable is unconstrained: the chain rule of its transform.
    with tf.GradientTape() as chain:
        constrained = tf.convert_to_tensor(likelihood.noise_variance)
    numeric = (loss(0.25 + 1e-5) - loss(0.25 - 1e-5)) / 2e-5
    assert float(slope) == pytest.approx(
        numeric * float(chain.gradient(constrained, variable)), rel=GRADIENT
    )


# Data.


def test_stacked_duels() -> None:
    duels = repeated_duels()
    X, Y = stacked_duels(duels)
    assert X.shape == (duels.num_pairs, 4)
    np.testing.assert_array_equal(X[:, :2], duels.items[duels.winners])
    np.testing.assert_array_equal(X[:, 2:], duels.items[duels.losers])
    np.testing.assert_array_equal(Y[:, 0], 1.0)
    np.testing.assert_array_equal(Y[:, 1], duels.counts)
    assert duels.counts.max() > 1


# Mistakes.


def _train(Y: np.ndarray) -> None:
    X = np.zeros((len(Y), 4))
    model = gpflow.models.VGP(
        (X, Y), DuelKernel(gpflow.kernels.SquaredExponential()), DuelLikelihood()
    )
    model.training_loss()


def _svgp_elbo(Z: np.ndarray, columns: int) -> None:
    kernel = DuelKernel(gpflow.kernels.SquaredExponential())
    model = gpflow.models.SVGP(kernel, DuelLikelihood(), Z)
    model.elbo((np.zeros((3, columns)), np.ones((3, 1))))


BASE = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0])
MISTAKES: list[tuple[Any, str]] = [
    (lambda: DuelKernel(BASE)(np.zeros((3, 5))), "5 columns, but a pair"),
    (lambda: _svgp_elbo(np.zeros((3, 2)), 4), "2 columns, but the pairs have 4; wrap"),
    (lambda: _svgp_elbo(np.zeros((3, 3)), 6), "3 columns, but a pair"),
    (lambda: DuelKernel("se"), "base is of type"),
    (lambda: DuelKernel(BASE + spg.ItemEffect()), "ItemEffect"),
    (
        lambda: gpflow.covariances.Kuf(
            ItemInducingPoints(np.zeros((2, 3))), DuelKernel(BASE), np.zeros((3, 4))
        ),
        "Z has 3 columns, but the pairs have 2",
    ),
    (lambda: ItemInducingPoints(np.zeros(3)), r"Z has shape \(3,\)"),
    (lambda: ItemInducingPoints([[0.0, np.nan]]), "Z has nan in row 0"),
    (lambda: DuelLikelihood(0.0), "noise variance is 0.0"),
    (lambda: DuelLikelihood(-1), "noise variance is -1"),
    (lambda: DuelLikelihood(np.nan), "noise variance is nan"),
    (lambda: DuelLikelihood("much"), "noise variance is 'much'"),
    (lambda: _train(np.array([[1.0], [-1.0]])), "the label -1; give 1"),
    (lambda: _train(np.array([[1.0], [np.nan]])), "the label nan; give 1"),
    (lambda: _train(np.ones((2, 2))), "num_latent_gps=1"),
    (
        lambda: DuelLikelihood().log_prob(
            np.zeros((1, 2)), np.zeros((1, 1)), np.array([[1.0, -2.0]])
        ),
        "the count -2; give positive counts",
    ),
    (
        lambda: DuelLikelihood().log_prob(np.zeros((1, 2)), np.zeros((1, 1)), np.ones((1, 3))),
        "Y has 3 columns",
    ),
    (lambda: stacked_duels(np.zeros((3, 2))), "duels is of type ndarray"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[m for _, m in MISTAKES])
def test_mistakes_are_told_in_one_sentence(mistake: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mistake()


@pytest.mark.slow
def test_unknown_labels_stop_a_compiled_function_too() -> None:
    likelihood = DuelLikelihood()

    @tf.function
    def expectations(Y: tf.Tensor) -> tf.Tensor:
        one = tf.ones([2, 1], tf.float64)
        return likelihood.variational_expectations(one, one, one, Y)

    good = tf.constant([[1.0], [0.0]], tf.float64)
    assert np.isfinite(expectations(good).numpy()).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 where the first won"):
        expectations(-good)


# GPflow's models.


@pytest.fixture
def exact_jitter() -> Any:
    """GPflow adds 1e-6 to every covariance, which is not what is compared here."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=SMALL_JITTER)):
        yield


def make_svgp(num_data: int | None = None) -> tuple[gpflow.models.SVGP, Any]:
    data = stacked_duels(case_duels(CASE))
    model = gpflow.models.SVGP(
        DuelKernel(case_kernel(CASE)),
        DuelLikelihood(CASE["noise_variance"]),
        ItemInducingPoints(CASE["inducing"]),
        num_data=num_data,
    )
    return model, data


def variational_only(model: gpflow.models.SVGP) -> None:
    gpflow.set_trainable(model.kernel, False)
    gpflow.set_trainable(model.inducing_variable, False)


def fit_lbfgs(model: Any, loss: Any, iterations: int = 500) -> None:
    gpflow.optimizers.Scipy().minimize(
        loss, model.trainable_variables, options={"maxiter": iterations, "gtol": 1e-9, "ftol": 0}
    )


def test_svgp_computes_the_bound(exact_jitter: None) -> None:
    duels = repeated_duels()
    X, Y = stacked_duels(duels)
    rng = np.random.default_rng(5)
    Z, mean = rng.normal(size=(3, 2)), rng.normal(size=(3, 1))
    root = np.tril(rng.normal(size=(3, 3))) + 2.0 * np.eye(3)
    model = gpflow.models.SVGP(
        DuelKernel(gpflow.kernels.Matern52(1.7, [0.8, 1.5])),
        DuelLikelihood(0.2),
        ItemInducingPoints(Z),
        q_mu=mean,
        q_sqrt=root[None],
    )
    expected = slow_bound(matern52(1.7, [0.8, 1.5]), X, duels.counts, Z, 0.2, mean[:, 0], root)
    assert float(model.elbo((X, Y))) == pytest.approx(expected, rel=IDENTITY)


@cache
def best_svgp() -> tuple[gpflow.models.SVGP, float]:
    """The q(u) of the largest bound by L-BFGS, and that bound."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=SMALL_JITTER)):
        model, data = make_svgp()
        variational_only(model)
        fit_lbfgs(model, model.training_loss_closure(data))
        return model, float(model.elbo(data))


@pytest.mark.slow
def test_svgp_by_lbfgs_reaches_the_best_bound(exact_jitter: None) -> None:
    model, bound = best_svgp()
    ep = spg.PreferenceGP(
        case_duels(CASE),
        case_kernel(CASE),
        approximation=spg.VFE(),
        inducing_variable=np.array(CASE["inducing"]),
        noise_variance=CASE["noise_variance"],
    )
    # The same bound at EP's q is below its maximum, and all are below the evidence.
    at_ep = ep.lower_bounds().rows["expected"]
    exact = spg.PreferenceGP(
        case_duels(CASE), case_kernel(CASE), approximation=spg.Exact(),
        noise_variance=CASE["noise_variance"],
    )  # fmt: skip
    truth = spg.exact.importance_sampling(exact, samples=2000).log_evidence
    assert at_ep < bound < truth
    # At the best q the two agree in what they predict, as far as EP and KL do.
    X, _ = stacked_duels(case_duels(CASE))
    p = model.predict_y(X)[0][:, 0]
    half = X.shape[1] // 2
    assert np.abs(p - ep.predict_duel(X[:, :half], X[:, half:])).max() < 0.05


@pytest.mark.slow
def test_natural_gradients_reach_the_same_bound(exact_jitter: None) -> None:
    model, data = make_svgp()
    loss = model.training_loss_closure(data)
    optimiser = gpflow.optimizers.NaturalGradient(gamma=0.5)

    @tf.function
    def step() -> None:
        optimiser.minimize(loss, [(model.q_mu, model.q_sqrt)])

    for _ in range(60):
        step()
    assert float(model.elbo(data)) == pytest.approx(best_svgp()[1], rel=OPTIMUM)


@pytest.mark.slow
def test_mini_batches_are_unbiased_and_learn() -> None:
    X, Y = stacked_duels(case_duels(CASE))
    model, _ = make_svgp(num_data=len(X))
    before = float(model.elbo((X, Y)))
    # The bounds of batches, weighted by their size, are on average that of the whole.
    parts = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, len(X), 10)]
    bounds, sizes = [float(model.elbo(part)) for part in parts], [len(part[0]) for part in parts]
    assert np.average(bounds, weights=sizes) == pytest.approx(before, rel=IDENTITY)

    batches = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().shuffle(len(X), seed=0).batch(10)
    loss = model.training_loss_closure(iter(batches))
    adam = tf.keras.optimizers.Adam(0.05)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss()
        variables = model.trainable_variables
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))

    for _ in range(60):
        step()
    after = float(model.elbo((X, Y)))
    p = model.predict_y(X)[0].numpy()
    assert after > before + 1.0
    assert np.mean(np.log(p)) > np.log(0.5)  # what it starts from


@pytest.mark.slow
def test_vgp_is_svgp_with_every_item(exact_jitter: None) -> None:
    duels = case_duels(CASE)
    data = stacked_duels(duels)
    likelihood = DuelLikelihood(CASE["noise_variance"])
    vgp = gpflow.models.VGP(data, DuelKernel(case_kernel(CASE)), likelihood, num_latent_gps=1)
    svgp = gpflow.models.SVGP(
        DuelKernel(case_kernel(CASE)), likelihood, ItemInducingPoints(duels.items)
    )
    gpflow.set_trainable(vgp.kernel, False)
    variational_only(svgp)
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-8)):
        # 30 differences of 12 utilities: only jitter makes their covariance regular.
        fit_lbfgs(vgp, vgp.training_loss)
        fit_lbfgs(svgp, svgp.training_loss_closure(data))
        assert float(vgp.elbo()) == pytest.approx(float(svgp.elbo(data)), rel=OPTIMUM)


@pytest.mark.slow
def test_gpmc_samples_the_posterior() -> None:
    """Two duels of three items: the mean of each difference against a sum over a grid."""
    items = np.array([[0.0], [0.7], [1.5]])
    X, Y = stacked_duels(spg.Duels(items, [0, 1], [1, 2], counts=[3, 1]))
    noise = 0.2
    model = gpflow.models.GPMC(
        (X, Y), DuelKernel(gpflow.kernels.SquaredExponential()), DuelLikelihood(noise),
        num_latent_gps=1,
    )  # fmt: skip
    gpflow.set_trainable(model.kernel, False)
    helper = gpflow.optimizers.SamplingHelper(
        model.log_posterior_density, model.trainable_parameters
    )
    hmc = tfp.mcmc.HamiltonianMonteCarlo(
        target_log_prob_fn=helper.target_log_prob_fn, num_leapfrog_steps=6, step_size=0.4
    )

    @tf.function
    def sample() -> Any:
        return tfp.mcmc.sample_chain(
            2000, helper.current_state, kernel=hmc, num_burnin_steps=100, seed=(0, 1),
            trace_fn=lambda _, results: results.is_accepted,
        )  # fmt: skip

    (states,), accepted = sample()
    assert np.mean(accepted) > 0.6
    root = np.linalg.cholesky(model.kernel(X) + gpflow.default_jitter() * np.eye(2))
    g = states.numpy()[:, :, 0] @ root.T

    grid = np.linspace(-6.0, 6.0, 301)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    inverse = np.linalg.inv(root @ root.T)
    log_prior = -0.5 * (
        inverse[0, 0] * first**2 + 2 * inverse[0, 1] * first * second + inverse[1, 1] * second**2
    )
    log_phi = np.log([probability(x / (2 * noise) ** 0.5) for x in grid])
    log_post = log_prior + 3 * log_phi[:, None] + log_phi[None, :]
    weight = np.exp(log_post - log_post.max())
    weight /= weight.sum()
    expected = np.array([np.sum(weight * first), np.sum(weight * second)])
    # Means of 20 batches of 100 are nearly independent.
    batches = g.reshape(20, 100, 2).mean(1)
    error = batches.std(0, ddof=1) / 20**0.5
    assert np.all(np.abs(g.mean(0) - expected) < MONTE_CARLO_STANDARD_ERRORS * error)


def test_predictions_turn_with_the_pair() -> None:
    model, data = make_svgp()
    model.q_mu.assign(np.linspace(-1.0, 1.0, 5)[:, None])
    half = data[0].shape[1] // 2
    turned = np.hstack([data[0][:, half:], data[0][:, :half]])
    mean, variance = model.predict_f(data[0])
    mean_turned, variance_turned = model.predict_f(turned)
    np.testing.assert_allclose(mean_turned, -mean, atol=IDENTITY)
    np.testing.assert_allclose(variance_turned, variance, atol=IDENTITY)
    total = model.predict_y(data[0])[0] + model.predict_y(turned)[0]
    np.testing.assert_allclose(total, 1.0, atol=IDENTITY)
    lost = np.zeros((len(turned), 1))
    np.testing.assert_allclose(
        model.predict_log_density((turned, lost)),
        model.predict_log_density((data[0], 1.0 - lost)),
        rtol=EVIDENCE,
    )
