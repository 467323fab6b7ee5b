"""The four covariances behind one door, and prior variances of differences for every kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from check_shapes.exceptions import ShapeMismatchError

import sparse_prefgp as spg
from sparse_prefgp.covariances import (
    DenseOverDuels,
    DenseOverItems,
    LowRankOverDuels,
    LowRankOverItems,
)
from sparse_prefgp.covariances.kernels import (
    cancelling_parts,
    difference_variance,
    pair_difference_variance,
)
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.factors.sites import Factors, Sites
from tests.cases import incidence, random_duels
from tests.tolerances import IDENTITY, ROUNDING, TAIL

k = gpflow.kernels
GRAPH = DuelGraph.from_duels(random_duels(1, items=6, duels=12))
A = incidence(GRAPH)
T = GRAPH.num_sites
KERNEL = k.Matern32(lengthscales=0.8)
FEATURES = np.random.default_rng(0).normal(size=(GRAPH.num_rows, 3))


def over_items(matrix: tf.Tensor) -> DenseOverItems:
    return DenseOverItems(matrix, GRAPH)


def low_rank_items(features: tf.Tensor) -> LowRankOverItems:
    return LowRankOverItems(features, GRAPH)


K = KERNEL(GRAPH.rows).numpy()
# What each is built from, and the K_vv that it stands for.
DOORS: dict[str, tuple[Callable[..., Any], np.ndarray, Callable[[tf.Tensor], tf.Tensor]]] = {
    "DenseOverDuels": (DenseOverDuels, A @ K @ A.T, lambda x: x),
    "NoiseFree": (lambda m: DenseOverDuels(m, noise_free=True), A @ K @ A.T, lambda x: x),
    "DenseOverItems": (over_items, K, lambda x: A @ x @ A.T),
    "LowRankOverDuels": (LowRankOverDuels, A @ FEATURES, lambda x: x @ tf.transpose(x)),
    "LowRankOverDuels, in chunks": (
        lambda x: LowRankOverDuels([x[:3], x[3:4], x[4:]]),
        A @ FEATURES,
        lambda x: x @ tf.transpose(x),
    ),
    "LowRankOverItems": (low_rank_items, FEATURES, lambda x: A @ x @ tf.transpose(A @ x)),
}


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=IDENTITY, atol=IDENTITY)


def sites(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    precision = rng.uniform(0.0, 3.0, T)
    precision[0] = 0.0  # a site that says nothing
    return precision, rng.normal(size=T) * (precision > 0)


def posterior(k_vv: np.ndarray, precision: np.ndarray, shift: np.ndarray) -> tuple:
    sigma = k_vv @ np.linalg.inv(np.eye(T) + np.diag(precision) @ k_vv)
    half = 0.5 * np.linalg.slogdet(np.eye(T) + np.diag(precision) @ k_vv)[1]
    return sigma @ shift, sigma, half


@pytest.mark.parametrize("name", DOORS)
def test_marginals(name: str) -> None:
    make, given, k_vv = DOORS[name]
    precision, shift = sites()
    m = make(tf.constant(given)).marginals(tf.constant(precision), tf.constant(shift))
    mean, sigma, half = posterior(np.asarray(k_vv(given)), precision, shift)
    close(m.mean, mean)
    close(m.variance, np.diag(sigma))
    close(m.half_log_det, half)
    if name == "NoiseFree":
        without = np.eye(T)
        for i in range(T):
            keep = 1.0 - without[i]
            mean_i, sigma_i, _ = posterior(np.asarray(k_vv(given)), precision * keep, shift * keep)
            close(m.left_out[0][i], mean_i[i])
            close(m.left_out[1][i], sigma_i[i, i])
    else:
        assert m.left_out is None


@pytest.mark.parametrize("name", DOORS)
def test_surrogate_has_the_gradient_of_the_gaussian_part(name: str) -> None:
    make, given, k_vv = DOORS[name]
    precision, shift = (tf.constant(x) for x in sites(1))
    x = tf.constant(given)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        door = make(x)
        kept = door.marginals(precision, shift).kept
        surrogate = door.surrogate(precision, shift, kept)
        matrix = k_vv(x)
        inner = tf.eye(T, dtype=tf.float64) + precision[:, None] * matrix
        mean = matrix @ tf.linalg.solve(inner, shift[:, None])
        gaussian = 0.5 * tf.reduce_sum(shift[:, None] * mean)
        gaussian -= 0.5 * tf.linalg.slogdet(inner).log_abs_determinant
    actual, expected = tape.gradient(surrogate, x).numpy(), tape.gradient(gaussian, x).numpy()
    if given.shape[0] == given.shape[1]:  # symmetric arguments: only that part has a meaning
        actual, expected = actual + actual.T, expected + expected.T
    assert np.abs(expected).max() > 0.01
    close(actual, expected)


@pytest.mark.parametrize("name", DOORS)
def test_predict_gives_the_training_differences(name: str) -> None:
    make, given, k_vv = DOORS[name]
    precision, shift = sites(2)
    terms = make(tf.constant(given)).predict(tf.constant(precision), tf.constant(shift))
    features = {
        "DenseOverDuels": A @ K @ A.T,
        "NoiseFree": A @ K @ A.T,
        "DenseOverItems": A @ K,
        "LowRankOverDuels": A @ FEATURES,
        "LowRankOverDuels, in chunks": A @ FEATURES,
        "LowRankOverItems": A @ FEATURES,
    }[name]
    prior = np.asarray(k_vv(given))
    mean, sigma, _ = posterior(prior, precision, shift)
    close(features @ terms.weights.numpy(), mean)
    close(prior - features @ terms.reduction.numpy() @ features.T, sigma)


@pytest.mark.parametrize("name", DOORS)
def test_sequential_columns(name: str) -> None:
    make, given, k_vv = DOORS[name]
    precision, shift = sites(3)
    covariance = make(tf.constant(given))
    state = covariance.start(tf.constant(precision), tf.constant(shift))
    mean, sigma, _ = posterior(np.asarray(k_vv(given)), precision, shift)
    for i in (0, T - 1):
        column = covariance.column(state, tf.constant(i))
        close(column.mean, mean[i])
        close(column.variance, sigma[i, i])
    left_out = covariance.left_out(tf.constant(precision), tf.constant(shift), tf.constant(T - 1))
    assert (left_out is None) == (name != "NoiseFree")


class FourMethods:
    """A covariance that offers the door and nothing else."""

    summed_over_sites = False

    def __init__(self, inner: DenseOverDuels) -> None:
        self.marginals, self.surrogate = inner.marginals, inner.surrogate
        self.quadratic, self.predict = inner.quadratic, inner.predict


@pytest.mark.covering(
    "ParallelEP(damping=1.0, tolerance=1e-08, max_sweeps=500, site_power=1.0)",
    "SequentialEP(damping=1.0, tolerance=1e-08, max_sweeps=500, site_power=1.0)",
)
@pytest.mark.parametrize(
    "engine", [spg.ParallelEP(), spg.Laplace(), spg.Variational(), spg.SequentialEP()], ids=repr
)
def test_engines_ask_for_the_door_alone(engine: Any) -> None:
    limits, ones = tf.zeros([T], tf.float64), tf.ones([T], tf.float64)
    whole = DenseOverDuels(tf.constant(A @ K @ A.T))
    factors = Factors(counts=ones, noise=ones, lower=None, upper=limits)
    start = Sites(limits, limits)
    expected = engine.run(whole, factors, start)
    if isinstance(engine, spg.SequentialEP):
        with pytest.raises(ValueError, match="FourMethods has no columns; use ParallelEP"):
            engine.run(FourMethods(whole), factors, start)
        return
    found = engine.run(FourMethods(whole), factors, start)
    assert float(found.log_z) == float(expected.log_z)


@pytest.mark.parametrize("name", DOORS)
def test_sites_of_the_wrong_shape_are_refused_at_the_door(name: str) -> None:
    make, given, _ = DOORS[name]
    precision, shift = (tf.constant(x) for x in sites())
    with pytest.raises(ShapeMismatchError):
        make(tf.constant(given)).marginals(precision, shift[:-1])


def test_dense_over_items_reports_its_jitter() -> None:
    assert float(over_items(tf.constant(K)).jitter) == 0.0
    singular = tf.ones((GRAPH.num_rows, GRAPH.num_rows), tf.float64)
    assert float(over_items(singular).jitter) >= 0.0
    m = over_items(singular).marginals(*(tf.constant(x) for x in sites()))
    # Utilities that move together never differ.
    np.testing.assert_allclose(m.variance, np.zeros(T), atol=IDENTITY)


# Prior variances of differences.


class Doubled(k.SquaredExponential):
    """A stationary kernel that redefines K: its distance form must not be used."""

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        return 2.0 * super().K(X, X2)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return 2.0 * super().K_diag(X)


KERNELS: dict[str, Callable[[], gpflow.kernels.Kernel]] = {
    "SquaredExponential": lambda: k.SquaredExponential(lengthscales=[0.5, 1.0, 2.0]),
    "Matern12": lambda: k.Matern12(lengthscales=0.7),
    "Matern32": lambda: k.Matern32(variance=2.0),
    "Matern52": lambda: k.Matern52(lengthscales=[1.0, 2.0, 0.3]),
    "Exponential": lambda: k.Exponential(),
    "RationalQuadratic": lambda: k.RationalQuadratic(alpha=0.6),
    "Cosine": lambda: k.Cosine(lengthscales=[1.0, 2.0, 0.3]),
    "Linear": lambda: k.Linear(variance=[0.1, 2.0, 1.0]),
    "Linear-one": lambda: k.Linear(variance=0.7),
    "Polynomial": lambda: k.Polynomial(degree=3.0, offset=0.5),
    "ArcCosine-0": lambda: k.ArcCosine(order=0),
    "ArcCosine-2": lambda: k.ArcCosine(order=2, weight_variances=[1.0, 0.5, 2.0]),
    "Periodic": lambda: k.Periodic(k.SquaredExponential(lengthscales=[1.0, 2.0, 0.5]), period=1.3),
    "White": lambda: k.White(variance=0.4),
    "Constant": lambda: k.Constant(3.0),
    "active_dims": lambda: k.Matern52(lengthscales=[0.4, 2.0], active_dims=[2, 0]),
    "active_slice": lambda: k.Linear(variance=[1.0, 3.0], active_dims=slice(1, 3)),
    "Sum": lambda: k.Matern32() + k.Linear(variance=[0.2, 1.0, 0.5]) + k.White(0.1),
    "Product": lambda: k.SquaredExponential(active_dims=[0]) * k.Linear(active_dims=[1, 2]),
    "Nested": lambda: (
        (k.Matern12(active_dims=[1]) + k.Constant(2.0))
        * k.Periodic(k.SquaredExponential(active_dims=[0]))
        + k.ArcCosine()
    ),
    "ChangePoints": lambda: k.ChangePoints(
        [k.Matern32(active_dims=[1]), k.Linear(active_dims=[1])], locations=[0.2], steepness=3.0
    ),
    "Coregion": lambda: k.Coregion(output_dim=3, rank=1, active_dims=[2]) * k.Matern32(),
    "Doubled": Doubled,
}


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 9, 3))
    if name == "Coregion":
        first[:, 2], second[:, 2] = rng.integers(3, size=(2, 9))
    second[0] = first[0]  # equal rows
    return first, second


def coregion_filled(kernel: gpflow.kernels.Kernel) -> gpflow.kernels.Kernel:
    for part in getattr(kernel, "kernels", []):
        if isinstance(part, k.Coregion):
            part.W.assign([[0.5], [1.0], [-0.3]])
    return kernel


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.covering(every=4)
def test_difference_variance_of_any_kernel(name: str) -> None:
    if name == "ChangePoints":
        # GPflow's own evaluates on one column, whatever active_dims its parts have.
        first, second = (x[:, :1] for x in pairs(name))
        kernel = k.ChangePoints([k.Matern32(), k.Linear()], locations=[0.2], steepness=3.0)
    else:
        first, second = pairs(name)
        kernel = coregion_filled(KERNELS[name]())
    actual = pair_difference_variance(kernel, tf.constant(first), tf.constant(second)).numpy()
    rows = np.stack([first, second], 1)
    blocks = [kernel(r).numpy() for r in rows]
    expected = [b[0, 0] + b[1, 1] - 2 * b[0, 1] for b in blocks]
    scale = max(np.abs(b).max() for b in blocks)
    # White noise makes no difference between a row and itself only in `difference_variance`.
    rest = slice(1, None)
    np.testing.assert_allclose(actual[rest], expected[rest], rtol=TAIL, atol=TAIL * scale)
    if name not in ("White", "Sum"):
        assert actual[0] == 0.0
    assert np.all(actual >= 0.0)


def test_white_noise_counts_twice_between_rows_and_not_within_one() -> None:
    duels = spg.Duels(np.array([[0.0], [0.0], [1.0]]), [0, 0], [1, 2])
    graph = DuelGraph.from_duels(duels)
    variance = difference_variance(k.White(variance=0.4), graph).numpy()
    equal = graph.winners == graph.losers
    assert variance[equal] == 0.0
    assert variance[~equal] == pytest.approx(0.8, rel=ROUNDING)


@pytest.mark.covering("White-items", "ArcCosine-2-duels", "Polynomial-items")
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("name", ["White", "ArcCosine-2", "Polynomial", "Product", "Nested"])
def test_any_kernel_goes_into_a_model(name: str, over: Any) -> None:
    duels = random_duels(2, items=6, duels=9, features=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = spg.PreferenceGP(duels, KERNELS[name](), approximation=spg.Exact(over=over))
    assert exact.infer().converged
    mean, variance = exact.predict_f(duels.items)
    assert np.all(np.isfinite(mean))
    assert np.all(variance.numpy() > -IDENTITY)


def test_difference_variance_near_zero_keeps_its_digits() -> None:
    first = np.zeros((1, 3))
    second = first + 1e-9
    kernel = k.Linear(variance=2.0)
    actual = float(
        pair_difference_variance(kernel, tf.constant(first + 5), tf.constant(second + 5))
    )
    step = (second + 5) - (first + 5)
    assert actual == pytest.approx(2.0 * float(np.sum(step**2)), rel=ROUNDING)


# Constants cancel.


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (k.Constant(), ["Constant"]),
        (k.Bias() + k.Matern32(), ["Constant"]),
        (k.Matern32() * k.Constant(), []),
        (k.Matern32() + k.Linear(), []),
    ],
)
def test_cancelling_parts(kernel: gpflow.kernels.Kernel, named: list[str]) -> None:
    assert [part.replace("Bias", "Constant") for part in cancelling_parts(kernel)] == named


def test_constant_kernel_warns_and_changes_nothing_exact() -> None:
    duels = random_duels(0)
    with pytest.warns(UserWarning, match="Constant kernel cancels in duels"):
        model = spg.PreferenceGP(duels, k.Matern32() + k.Constant(2.0))
    plain = spg.PreferenceGP(duels, k.Matern32())
    assert model.log_evidence() == pytest.approx(plain.log_evidence(), abs=IDENTITY)
