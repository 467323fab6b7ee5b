"""Kernels at small lengthscales: exact differences in place of dot products that cancel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gpflow
import mpmath
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.covariances import distances
from sparse_prefgp.covariances.kernels import kernel_matrix
from sparse_prefgp.gpflow_blocks import DuelKernel, ItemInducingPoints
from tests.cases import ALL
from tests.tolerances import CANCELLING, DOT_PRODUCTS, IDENTITY, ROUNDING

k = gpflow.kernels
RNG = np.random.default_rng(0)
SCALES = (1.0, 1e-3, 1e-7)
# Every kernel in one of the ways, and every way with one of the kernels.
COVERED = (
    ("SquaredExponential", "eager"),
    ("Matern12", "of any number of rows"),
    ("Matern32", "fused"),
    ("Matern52", "compiled"),
    ("RationalQuadratic", "eager"),
)


def near_rows(scale: float, columns: int = 3, count: int = 6) -> np.ndarray:
    """Rows with a spread of 1, each with one that is some lengthscales away and an equal one."""
    rows = RNG.normal(size=(count, columns))
    return np.concatenate([rows, rows + scale * RNG.normal(size=rows.shape), rows[:1]])


def profile(name: str, r2: Any) -> Any:
    """The kernel as a function of the squared distance, to as many digits as mpmath has."""
    r = mpmath.sqrt(r2)
    if name == "SquaredExponential":
        return mpmath.exp(-r2 / 2)
    if name == "RationalQuadratic":
        return 1 / (1 + r2 / 2)
    nu = {"Matern12": 1, "Matern32": 3, "Matern52": 5}[name]
    s = mpmath.sqrt(nu) * r
    return {1: 1, 3: 1 + s, 5: 1 + s + s * s / 3}[nu] * mpmath.exp(-s)


def oracle(name: str, x: np.ndarray, z: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
    with mpmath.workdps(40):
        found = [
            [
                profile(
                    name,
                    sum(
                        ((mpmath.mpf(a) - mpmath.mpf(b)) / mpmath.mpf(length)) ** 2
                        for a, b, length in zip(one, other, lengthscales, strict=True)
                    ),
                )
                for other in z.tolist()
            ]
            for one in x.tolist()
        ]
        return np.array(found, dtype=float)


def compiled(kernel: k.Kernel, *inputs: np.ndarray) -> np.ndarray:
    return tf.function(lambda *x: kernel_matrix(kernel, *x), autograph=False)(
        *map(tf.constant, inputs)
    ).numpy()


def of_any_number(kernel: k.Kernel, *inputs: np.ndarray) -> np.ndarray:
    signature = [tf.TensorSpec([None, x.shape[-1]], tf.float64) for x in inputs]
    function = tf.function(lambda *x: kernel_matrix(kernel, *x), signature, autograph=False)
    return function(*inputs).numpy()


WAYS: dict[str, Callable[..., np.ndarray]] = {
    "eager": lambda kernel, *x: kernel_matrix(kernel, *map(tf.constant, x)).numpy(),
    "compiled": compiled,
    "fused": compiled,
    "of any number of rows": of_any_number,
}


@pytest.mark.covering(
    *(f"{name}-{way}-{scale}" for name, way in COVERED for scale in SCALES),
)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize(
    "name", ["SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic"]
)
def test_stationary_kernels_against_forty_digits(
    name: str, way: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "fused":
        monkeypatch.setattr(distances, "_FUSE_ABOVE", 0)
    x = near_rows(scale)
    z = x[[0, 3, 7]]
    lengthscales = scale * np.array([0.7, 1.0, 2.0])
    kernel = getattr(k, name)(lengthscales=lengthscales)
    evaluate = WAYS[way]
    np.testing.assert_allclose(
        evaluate(kernel, x, z), oracle(name, x, z, lengthscales), rtol=ROUNDING, atol=1e-300
    )
    whole = evaluate(kernel, x)
    np.testing.assert_allclose(whole, oracle(name, x, x, lengthscales), rtol=ROUNDING, atol=1e-300)
    assert np.array_equal(whole, whole.T)
    assert np.all(np.diag(whole) == 1.0) and whole[0, -1] == 1.0


@pytest.mark.parametrize("way", list(WAYS))
def test_positive_semi_definite_at_a_lengthscale_of_1e_minus_7(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "fused":
        monkeypatch.setattr(distances, "_FUSE_ABOVE", 0)
    levels = RNG.choice([-0.9, 1.1], size=(60, 2))
    rows = np.column_stack([levels, RNG.normal(size=60)])
    kernel = k.Matern52(lengthscales=[1e-7, 1e-7, 1.0])
    smallest = np.linalg.eigvalsh(WAYS[way](kernel, rows))[0]
    assert smallest > -ROUNDING
    if way == "eager":  # what it is about
        assert np.linalg.eigvalsh(kernel(rows))[0] < -1e3 * ROUNDING


COMPOSED: dict[str, Callable[[], k.Kernel]] = {
    "sum": lambda: k.Matern52(lengthscales=0.7) + k.Linear([0.1, 0.2, 0.3]),
    "product": lambda: k.SquaredExponential(active_dims=[0]) * k.Matern32(active_dims=[2, 1]),
    "sum of products": lambda: k.Matern12() * k.Linear() + k.White(0.3) + k.Constant(),
    "item effect": lambda: k.Matern52(active_dims=[0, 1]) + spg.ItemEffect(0.5),
    "one lengthscale, slice": lambda: k.RationalQuadratic(active_dims=slice(1, 3)),
    "periodic": lambda: k.Periodic(k.SquaredExponential()),
    "cosine": lambda: k.Cosine(lengthscales=0.7),
    "change points": lambda: k.ChangePoints([k.Matern52(), k.Matern32()], [0.0]),
    "another distance": lambda: Manhattan(),
}


class Manhattan(k.Matern12):
    """A class of one's own with its own distance, which is kept."""

    def scaled_squared_euclid_dist(self, X: Any, X2: Any = None) -> tf.Tensor:
        steps = gpflow.utilities.ops.difference_matrix(self.scale(X), self.scale(X2))
        return tf.reduce_sum(tf.abs(steps), -1) ** 2


@pytest.mark.parametrize("name", list(COMPOSED))
@pytest.mark.covering(every=5)
def test_what_gpflow_computes_in_the_shapes_of_gpflow(name: str) -> None:
    kernel, columns = COMPOSED[name](), 1 if name == "change points" else 3
    shapes = [[(5, columns)], [(5, columns), (4, columns)], [(2, 3, columns)]]
    if name != "change points":
        shapes.append([(2, 3, columns), (4, columns)])
        shapes.append([(2, 3, columns), (3, 2, columns)])
    for shape in shapes:
        inputs = [tf.constant(RNG.normal(size=s)) for s in shape]
        expected = kernel(*inputs)
        found = kernel_matrix(kernel, *inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=CANCELLING)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", ["eager", "compiled", "fused"])
@pytest.mark.covering(every=4)
def test_gradients_against_differences_in_the_open(
    way: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "fused":
        monkeypatch.setattr(distances, "_FUSE_ABOVE", 0)
    rows = near_rows(scale)
    x, z = tf.Variable(rows), tf.Variable(rows[[0, 3, 7]] + 0.3 * scale)
    kernel = k.Matern52(lengthscales=scale * np.array([0.7, 1.0, 2.0]))
    weights = tf.constant(RNG.normal(size=(3, len(rows))))
    variables = [x, z, *kernel.trainable_variables]

    def gradients(evaluate: Callable[[], tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weights * evaluate())
        return tape.gradient(value, variables)

    def in_the_open() -> tf.Tensor:
        steps = (z[:, None, :] - x[None, :, :]) / kernel.lengthscales
        return kernel.K_r2(tf.reduce_sum(steps * steps, -1))

    def found() -> list[tf.Tensor]:
        return gradients(lambda: kernel_matrix(kernel, z, x))

    run = found if way == "eager" else tf.function(found, autograph=False)
    for got, wanted in zip(run(), gradients(in_the_open), strict=True):
        largest = np.max(np.abs(wanted))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=CANCELLING * largest)


def test_gradients_of_stacked_inputs() -> None:
    x = tf.Variable(RNG.normal(size=(4, 3, 2)))
    kernel = k.SquaredExponential(lengthscales=[0.5, 2.0])
    weights = tf.constant(RNG.normal(size=(4, 3, 3)))
    both = []
    for evaluate in (kernel, lambda inputs: kernel_matrix(kernel, inputs)):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weights * evaluate(x))
        both.append(tape.gradient(value, [x, *kernel.trainable_variables]))
    for got, wanted in zip(*both, strict=True):
        np.testing.assert_allclose(got, wanted, atol=CANCELLING)


def test_above_32_columns_the_error_is_what_the_docstring_says() -> None:
    columns, scale = 40, 1e-3
    x = 100.0 + near_rows(scale, columns)
    inverse = tf.constant(np.full(columns, 1.0 / scale))
    exact = (((x[:, None] - x[None]).astype(np.longdouble) / scale) ** 2).sum(-1).astype(float)
    reach = np.max(np.sum(((x - x.mean(0)) / scale) ** 2, 1))
    for z in (None, tf.constant(x)):
        found = distances.scaled_squared_distances(tf.constant(x), z, inverse).numpy()
        assert np.all(found >= 0.0)
        assert np.max(np.abs(found - exact)) <= DOT_PRODUCTS * columns * reach
    whole = kernel_matrix(k.Matern12(lengthscales=scale), tf.constant(x)).numpy()
    assert np.all(np.diag(whole) == 1.0)


# A kernel that depends on distances cannot know where its inputs are: items at 0, 1, 2, … with a
# lengthscale of 1 are the same as items at 1, 1 + 2⁻²³, … with one of 2⁻²³, all of them exact in
# binary. By dot products the latter are wrong in the first digit.
STEP = 2.0**-23
PLACES = RNG.integers(0, 6, size=(14, 2)).astype(float)
WINNERS, LOSERS = RNG.integers(0, 14, size=(2, 40))


def models(approximation: Approximation, kernel: Callable[..., k.Kernel]) -> list[Any]:
    found = []
    for origin, unit in ((0.0, 1.0), (1.0, STEP)):
        different = np.any(PLACES[WINNERS] != PLACES[LOSERS], 1)
        items = origin + unit * PLACES
        found.append(
            spg.PreferenceGP(
                spg.Duels(items, WINNERS[different], LOSERS[different]),
                kernel(lengthscales=[1.5 * unit, 3.0 * unit]),
                approximation=approximation,
                inducing_variable=np.unique(items, axis=0)[:5]
                if approximation.needs_inducing
                else None,
            )
        )
    return found


APPROXIMATIONS: dict[str, Callable[..., Approximation]] = {
    **ALL,
    "Exact over duels": lambda: spg.Exact(over="duels"),
    "PITC": lambda: spg.PITC(3),
}


@pytest.mark.covering("DTC")
@pytest.mark.parametrize("name", list(APPROXIMATIONS))
def test_models_are_the_same_wherever_the_items_lie(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = models(APPROXIMATIONS[name](), k.Matern32)
    assert there.log_evidence() == pytest.approx(here.log_evidence(), abs=IDENTITY)
    places = RNG.integers(0, 6, size=(4, 2)).astype(float)
    x, y = (places, 1.0 + STEP * places)
    both = [here.predict_f(x, full_cov=True), there.predict_f(y, full_cov=True)]
    for first, second in zip(*both, strict=True):
        np.testing.assert_allclose(second, first, atol=IDENTITY)
    np.testing.assert_allclose(
        there.predict_duel(y[:2], y[2:]), here.predict_duel(x[:2], x[2:]), atol=IDENTITY
    )
    assert there.lower_bound() == pytest.approx(here.lower_bound(), abs=IDENTITY)
    ranks = [spg.rank(model, rng=np.random.default_rng(0)).frame for model in (here, there)]
    np.testing.assert_allclose(ranks[1]["utility"], ranks[0]["utility"], atol=IDENTITY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = [tf.function(m.training_loss, autograph=False)() for m in (here, there)]
    assert float(losses[1]) == pytest.approx(float(losses[0]), abs=CANCELLING * 1e3)


def test_streamed_models_too() -> None:
    here, there = models(spg.VFE(), k.Matern52)
    found = [
        spg.StreamedGP(
            spg.stream_duels(m.duels), m.kernel, inducing_variable=m.inducing_variable.Z.numpy()
        )
        for m in (here, there)
    ]
    assert found[1].log_evidence() == pytest.approx(found[0].log_evidence(), abs=IDENTITY)
    x = PLACES[:4]
    np.testing.assert_allclose(
        found[1].predict_f(1.0 + STEP * x)[1], found[0].predict_f(x)[1], atol=IDENTITY
    )


def test_the_kernel_of_duels_too() -> None:
    pairs = np.hstack([PLACES[:5], PLACES[5:10]])
    z = PLACES[10:13]
    here, there = (
        [
            kernel(origin + unit * pairs),
            gpflow.covariances.Kuf(points, kernel, tf.constant(origin + unit * pairs)),
            gpflow.covariances.Kuu(points, kernel),
        ]
        for origin, unit in ((0.0, 1.0), (1.0, STEP))
        for kernel in [DuelKernel(k.Matern52(lengthscales=1.5 * unit))]
        for points in [ItemInducingPoints(origin + unit * z)]
    )
    for first, second in zip(here, there, strict=True):
        np.testing.assert_allclose(second, first, atol=ROUNDING)
