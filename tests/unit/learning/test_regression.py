"""Regression through the code of duels, against GPflow's and against dense formulas."""

from __future__ import annotations

from collections.abc import Iterator

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import multivariate_normal

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.engines import Status
from tests.reference.regression import GaussianSites, RegressionGP
from tests.together import apart
from tests.tolerances import GRADIENT, IDENTITY

NOISE = 0.1
STEP = 3e-5  # as in test_gradients.py
SPARSE = (
    spg.VFE(),
    spg.DTC(),
    spg.FITC(),
    spg.TightVFE(),
    spg.TightVFE(residual="rank"),
    spg.TightVFE(residual="logdet"),
    spg.PriorPower(0.4),
    spg.HeteroscedasticVFE(),
)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 6.0, (40, 2))
    return x, np.sin(x[:, 0]) + 0.2 * x[:, 1] + 0.3 * rng.normal(size=40)


X, Y = data()
Z = X[:7] + 0.05


def kernel() -> gpflow.kernels.Kernel:
    smooth = gpflow.kernels.SquaredExponential(variance=0.7, lengthscales=[0.9, 2.0])
    return smooth + gpflow.kernels.Linear(variance=0.3, active_dims=[1])


def line() -> gpflow.functions.MeanFunction:
    return gpflow.functions.Linear(A=[[0.1], [0.2]], b=[0.05])


def build(approximation: Approximation, noise: float = NOISE) -> RegressionGP:
    return RegressionGP(
        X,
        Y,
        kernel(),
        approximation=approximation,
        inducing_variable=Z.copy() if approximation.needs_inducing else None,
        noise_variance=noise,
        mean_function=line(),
    )


@pytest.fixture(autouse=True)
def no_jitter() -> Iterator[None]:
    """GPflow adds 1e-6 to the diagonal of K_uu otherwise."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.0)):
        yield


def gpflow_model(approximation: Approximation, noise: float = NOISE) -> gpflow.models.GPModel:
    both = (X, Y[:, None])
    if isinstance(approximation, spg.Exact):
        return gpflow.models.GPR(both, kernel(), mean_function=line(), noise_variance=noise)
    kind = {"VFE": gpflow.models.SGPR, "FITC": gpflow.models.GPRFITC}[approximation.name]
    return kind(both, kernel(), Z.copy(), mean_function=line(), noise_variance=noise)


def gradients(model: gpflow.models.GPModel | RegressionGP) -> dict[str, np.ndarray]:
    """Of the loss in every parameter, by name; the noise in its own units, for GPflow bounds it."""
    parameters = gpflow.utilities.parameter_dict(model)
    values = {name: p.unconstrained_variable for name, p in parameters.items()}
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    found = dict(zip(values, tape.gradient(loss, list(values.values())), strict=True))
    for name in (".noise_variance", ".likelihood.variance"):
        if name in found:
            with tf.GradientTape() as tape:
                value = tf.convert_to_tensor(parameters[name])
            rate = tape.gradient(value, values[name])
            found[".noise_variance"] = found.pop(name) / rate
    return {name: np.asarray(tf.convert_to_tensor(g)) for name, g in found.items()}


LIKE_GPFLOW = (spg.Exact(), spg.VFE(), spg.FITC())


@pytest.mark.parametrize("approximation", LIKE_GPFLOW, ids=lambda a: a.name)
@pytest.mark.covering(every=3)
def test_evidence_and_gradient_are_gpflows(approximation: Approximation) -> None:
    ours, theirs = build(approximation), gpflow_model(approximation)
    reference = float(theirs.maximum_log_likelihood_objective())
    assert ours.log_evidence() == pytest.approx(reference, rel=IDENTITY)
    assert float(-ours.training_loss()) == pytest.approx(reference, rel=IDENTITY)
    found, wanted = gradients(ours), gradients(theirs)
    assert set(found) == set(wanted)
    for name, gradient in wanted.items():
        error = np.max(np.abs(found[name] - gradient)) / np.max(np.abs(gradient))
        assert error < IDENTITY, name


@pytest.mark.parametrize("approximation", LIKE_GPFLOW, ids=lambda a: a.name)
@pytest.mark.parametrize("full_cov", [False, True])
@pytest.mark.covering(every=3)
def test_predictions_are_gpflows(approximation: Approximation, full_cov: bool) -> None:
    ours, theirs = build(approximation), gpflow_model(approximation)
    new = np.random.default_rng(1).uniform(0.0, 6.0, (5, 2))
    for found, wanted in zip(
        ours.predict_f(new, full_cov=full_cov),
        theirs.predict_f(new, full_cov=full_cov),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=IDENTITY)


# A dense covariance loses a digit for each digit of the noise, a low-rank one none.
@pytest.mark.parametrize(
    ("approximation", "noise"), [(spg.Exact(), 1e-3), (spg.VFE(), 1e-5), (spg.FITC(), 1e-5)]
)
def test_little_noise(approximation: Approximation, noise: float) -> None:
    ours, theirs = build(approximation, noise), gpflow_model(approximation, noise)
    reference = float(theirs.maximum_log_likelihood_objective())
    assert ours.log_evidence() == pytest.approx(reference, rel=IDENTITY)


def by_hand(approximation: Approximation) -> float:
    """log N(y | mean, Q + Lambda) + correction, dense; the table of docs/method.md, section 3."""
    k = kernel()
    k_uu, k_fu = k(Z).numpy(), k(X, Z).numpy()
    q = k_fu @ np.linalg.solve(k_uu, k_fu.T)
    residual = k(X).numpy() - q
    left, n = np.diag(residual), len(X)
    share, correction = {
        "VFE": (0.0, -left.sum() / (2 * NOISE)),
        "DTC": (0.0, 0.0),
        "FITC": (1.0, 0.0),
        "PriorPower": (0.4, -0.6 / 0.8 * np.log1p(0.4 * left / NOISE).sum()),
        "HeteroscedasticVFE": (1.0, -0.5 * (left / (NOISE + left)).sum()),
        "TightVFE": (0.0, np.nan),
    }[approximation.name]
    if isinstance(approximation, spg.TightVFE):
        correction = {
            "diagonal": -0.5 * np.log1p(left / NOISE).sum(),
            "rank": -0.5 * n * np.log1p(left.sum() / (NOISE * n)),
            "logdet": -0.5 * np.linalg.slogdet(np.eye(n) + residual / NOISE)[1],
        }[approximation.residual]
    mean = line()(X).numpy()[:, 0]
    covariance = q + np.diag(NOISE + share * left)
    return float(multivariate_normal(mean, covariance).logpdf(Y) + correction)


@pytest.mark.parametrize("approximation", SPARSE, ids=repr)
@pytest.mark.covering(every=4)
def test_evidence_by_hand(approximation: Approximation) -> None:
    model = build(approximation)
    assert model.log_evidence() == pytest.approx(by_hand(approximation), rel=IDENTITY)


@pytest.mark.covering("HeteroscedasticVFE()")
@pytest.mark.parametrize("approximation", [a for a in SPARSE if a not in LIKE_GPFLOW], ids=repr)
def test_gradient_by_differences(approximation: Approximation) -> None:
    model = build(approximation)
    rng = np.random.default_rng(3)
    variables = model.trainable_variables

    @tf.function(autograph=False)
    def loss_and_gradient() -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    _, gradient = loss_and_gradient()
    # Along a random direction in each parameter in turn.
    for variable, slope in zip(variables, gradient, strict=True):
        slope, start = slope.numpy(), variable.numpy()
        direction = rng.normal(size=start.shape)
        ends = []
        for side in (1.0, -1.0):
            variable.assign(start + side * STEP * direction)
            ends.append(float(loss_and_gradient()[0]))
        variable.assign(start)
        difference = (ends[0] - ends[1]) / (2.0 * STEP)
        scale = max(np.abs(slope * direction).sum(), 1.0)
        assert abs(np.sum(slope * direction) - difference) < GRADIENT * scale, variable.name


@pytest.mark.slow
def test_bounds_stay_below_and_meet() -> None:
    exact = build(spg.Exact()).log_evidence()
    values = {a: build(a).log_evidence() for a in SPARSE}
    tight = [values[spg.TightVFE(residual=r)] for r in ("rank", "diagonal", "logdet")]
    # Independent observations have a residual of full rank, so that "rank" gains least here.
    assert values[spg.VFE()] < tight[0] < tight[1] < tight[2] < exact
    assert values[spg.DTC()] > values[spg.VFE()]
    everywhere = [
        RegressionGP(
            X, Y, kernel(), approximation=a, inducing_variable=X.copy(), noise_variance=NOISE
        ).log_evidence()
        for a in SPARSE
    ]
    full = RegressionGP(X, Y, kernel(), noise_variance=NOISE).log_evidence()
    np.testing.assert_allclose(everywhere, full, rtol=GRADIENT)  # K_uu takes some jitter here


def test_subset_of_observations() -> None:
    model = build(spg.SubsetOfData(15, seed=2))
    chosen = model.graph.rows[:-1, :-1]
    rows = [int(np.flatnonzero((row == X).all(1))[0]) for row in chosen]
    assert len(set(rows)) == 15
    alone = RegressionGP(X[rows], Y[rows], kernel(), noise_variance=NOISE, mean_function=line())
    assert model.log_evidence() == pytest.approx(alone.log_evidence(), rel=IDENTITY)


def test_equal_inputs_are_separate_observations() -> None:
    x, y = np.repeat(X[:6], 2, axis=0), Y[:12]
    ours = RegressionGP(x, y, kernel(), noise_variance=NOISE)
    theirs = gpflow.models.GPR((x, y[:, None]), kernel(), noise_variance=NOISE)
    reference = float(theirs.maximum_log_likelihood_objective())
    assert ours.log_evidence() == pytest.approx(reference, rel=IDENTITY)


@pytest.mark.slow
def test_optimise() -> None:
    model = build(spg.VFE())
    before = model.log_evidence()
    report = spg.optimise(model, 200)
    assert report.log_evidence_start == pytest.approx(before, abs=IDENTITY)
    assert report.log_evidence > before + 10.0
    assert (report.failed_evaluations, report.unconverged_evaluations, report.sweeps) == (0, 0, 0)
    assert report.inference.converged and report.inference.status is Status.CONVERGED
    assert model.engine == GaussianSites()
    # The same place as GPflow finds it to be.
    theirs = gpflow_model(spg.VFE())
    gpflow.utilities.multiple_assign(
        theirs,
        {
            name.replace(".noise_variance", ".likelihood.variance"): p.numpy()
            for name, p in gpflow.utilities.parameter_dict(model).items()
        },
    )
    reference = float(theirs.maximum_log_likelihood_objective())
    assert report.log_evidence == pytest.approx(reference, rel=IDENTITY)


@pytest.mark.slow
def test_compiled_functions_follow_the_parameters() -> None:
    model = build(spg.FITC())

    @tf.function(autograph=False)
    def both() -> tuple[tf.Tensor, tf.Tensor]:
        return model.training_loss(), model.predict_f(X[:3])[0]

    both()
    model.noise_variance.assign(0.3)
    loss, mean = both()
    assert float(loss) == pytest.approx(-model.log_evidence(), rel=IDENTITY)
    np.testing.assert_allclose(mean, model.predict_f(X[:3])[0], rtol=IDENTITY)


def test_posterior_does_not_change_with_the_parameters() -> None:
    model = build(spg.VFE())
    posterior, rows = model.posterior(), np.column_stack([X[:3], np.ones(3)])
    before = posterior.marginal(tf.constant(rows)).numpy()
    model.kernel.kernels[0].variance.assign(2.0)
    np.testing.assert_array_equal(posterior.marginal(tf.constant(rows)), before)
    assert np.max(np.abs(model.predict_f(X[:3])[1][:, 0] - before[:, 1])) > 1e-3


def test_text() -> None:
    assert str(build(spg.VFE())) == (
        "RegressionGP(VFE(), 7 inducing inputs, Sum kernel, 40 observations)"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": X[:, 0]}, "Inputs must be"),
        ({"targets": Y[:5]}, "Inputs must be"),
        ({"targets": np.where(np.arange(40) == 3, np.nan, Y)}, "targets have a NaN .* in row 3"),
        ({"noise_variance": 0.0}, "noise_variance must be a positive"),
        ({"approximation": spg.VFE()}, apart("inducing", "no_inducing_variable")),
        ({"inducing_variable": Z}, apart("no_inducing", "inducing_variable")),
        ({"approximation": spg.VFE(), "inducing_variable": Z[:, :1]}, r"give \(m, 2\)"),
        ({"kernel": kernel() + spg.ItemEffect()}, "ItemEffect"),
    ],
)
def test_mistakes(change: dict, message: str) -> None:
    settings = {"inputs": X, "targets": Y, "kernel": kernel(), **change}
    with pytest.raises(ValueError, match=message):
        RegressionGP(
            settings.pop("inputs"), settings.pop("targets"), settings.pop("kernel"), **settings
        )
