"""Ends that parameters run to: limits of kernels by name, small lengthscales, small noise."""

from __future__ import annotations

import warnings
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sparse_prefgp as spg
from sparse_prefgp.lab.ablation.fitting import free_values, give
from sparse_prefgp.learning.limits import NOISELESS, limits_of, small_lengthscales
from sparse_prefgp.learning.notes import notes_of
from sparse_prefgp.workflow.kernel_names import KernelChoice, single_columns
from tests.reference.regression import RegressionGP

k = gpflow.kernels
NAMES = ("price", "age", "colour")


def duels(noise: float, items: int = 30, number: int = 150, seed: int = 0) -> spg.Duels:
    """By a utility of three features; without noise nobody contradicts anybody."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 3))
    utility = x[:, 0] + np.sin(2.0 * x[:, 2])
    first = rng.integers(0, items, number)
    second = (first + rng.integers(1, items, number)) % items
    ahead = utility[first] - utility[second] + noise * rng.normal(size=number) > 0.0
    won, lost = np.where(ahead, first, second), np.where(ahead, second, first)
    return spg.Duels(x, won, lost, feature_names=NAMES)


DUELS = duels(0.5)


@pytest.mark.parametrize("name", ["linear+matern52", "se+item", "additive-matern32", "item"])
def test_kernels_by_name_have_limits_and_start_where_they_did(name: str) -> None:
    choice = KernelChoice.parse(name)
    kernel = choice.build(3)
    values = gpflow.utilities.read_values(kernel)
    wanted = {
        "linear": {".variance": np.full(3, 1 / 3)},
        "matern52": {".variance": 1.0, ".lengthscales": np.full(3, np.sqrt(3.0))},
        "se": {".variance": 1.0, ".lengthscales": np.full(3, np.sqrt(3.0))},
        "additive-matern32": {".variance": 1 / 3, ".lengthscales": np.ones(1)},
        "item": {".variance": 1.0},
    }
    parts = [p for p in choice.parts for _ in range(3 if p.startswith("additive") else 1)]
    for number, part in enumerate(parts):
        prefix = f".kernels[{number}]" if len(parts) > 1 else ""
        for path, value in wanted[part].items():
            np.testing.assert_allclose(values[prefix + path], value, rtol=1e-9)
    assert len(single_columns(3)) == 3
    for path, parameter in gpflow.utilities.parameter_dict(kernel).items():
        parameter.unconstrained_variable.assign(np.full(parameter.shape, -800.0))
        least = 1e-4 if path.endswith("lengthscales") else 1e-10
        np.testing.assert_array_equal(parameter.numpy(), np.full(parameter.shape, least))


@pytest.mark.slow
def test_an_ordinary_fit_has_nothing_to_say() -> None:
    model = spg.PreferenceGP(DUELS, KernelChoice.parse("linear+matern52").build(3))
    assert limits_of(model) == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = spg.optimise(model, 3)
    assert report.limits == () and "limit of what" not in str(report)


def test_parameters_at_limits_are_named() -> None:
    kernel = KernelChoice.parse("linear+matern52").build(3)
    linear, matern = kernel.kernels
    linear.variance.unconstrained_variable.assign([-800.0, 0.0, -800.0])
    matern.lengthscales.unconstrained_variable.assign([1.0, -800.0, 1.0])
    matern.variance = gpflow.Parameter(
        2.9999, transform=tfp.bijectors.Sigmoid(np.float64(0.1), np.float64(3.0))
    )
    model = spg.PreferenceGP(DUELS, kernel)
    assert limits_of(model) == (
        "No straight-line effect was found for 'price', 'colour' (variance of Linear at its lower "
        "limit, 1e-10); a curved one may remain. You need not do anything.",
        "At the upper limit of what can be learned, 3: variance of Matern52.",
        "At the lower limit of what can be learned, 0.0001: lengthscales of Matern52 for 'age' "
        "(any two values of such a feature are unrelated).",
    )
    gpflow.set_trainable(kernel, False)
    assert limits_of(model) == ()


@pytest.mark.parametrize("others", [(), ("item",), ("age",)])
def test_a_linear_term_that_nothing_else_stands_for_plays_no_part(others: tuple[str, ...]) -> None:
    kernel = KernelChoice.parse("+".join(("linear", *(o for o in others if o == "item")))).build(3)
    if others == ("age",):
        kernel = kernel + k.Matern52(active_dims=[1])
    linear = kernel if others == () else kernel.kernels[0]
    linear.variance.unconstrained_variable.assign([-800.0, 0.0, -800.0])
    (found,) = limits_of(spg.PreferenceGP(DUELS, kernel))
    assert found.endswith("variance of Linear for 'price', 'colour' (which plays no part).")


def test_a_variance_of_zero_is_named_too() -> None:
    kernel = k.Linear([0.5, 0.2, 0.1]) + k.Matern52(active_dims=[2])
    kernel.kernels[0].variance.unconstrained_variable.assign([-800.0, 0.0, 0.0])
    (found,) = limits_of(spg.PreferenceGP(DUELS, kernel))
    assert found.startswith("At the lower limit of what can be learned, 0: variance of Linear for")
    assert "'price'" in found and "'age'" not in found


@pytest.mark.slow
def test_a_small_lengthscale_of_ones_own_kernel_is_a_warning() -> None:
    spread = float(np.std(DUELS.items[:, 2]))
    kernel = k.SquaredExponential() + k.Matern52(active_dims=[2, 0], lengthscales=[1.0, 1.0])
    for share, small in ((0.5e-4, True), (2e-4, False)):
        kernel.kernels[1].lengthscales.assign([share * spread, 1.0])
        model = spg.PreferenceGP(DUELS, kernel)
        found = limits_of(model)
        assert len(found) == small
        if small:
            assert "lengthscales of Matern52 for 'colour', down to" in found[0]
            with pytest.warns(UserWarning, match="Below 0.0001 of the feature's spread"):
                report = spg.optimise(model, 1)
            assert report.limits == found and found[0] in str(report)


def test_a_limit_of_its_own_is_what_counts() -> None:
    """A feature may spread wider than the items that its standardisation saw."""
    wide = spg.Duels(3.0 * DUELS.items, DUELS.winners, DUELS.losers)
    kernel = KernelChoice.parse("matern52").build(3)
    kernel.lengthscales.assign([2e-4, 1.0, 1.0])
    assert limits_of(spg.PreferenceGP(wide, kernel)) == ()


def test_saved_values_at_a_limit_are_given_to_another_kernel() -> None:
    kernel, other = (KernelChoice.parse("linear+se").build(3) for _ in range(2))
    kernel.kernels[0].variance.unconstrained_variable.assign([-800.0, 0.3, -np.inf])
    give(free_values(kernel), other)
    np.testing.assert_array_equal(other(DUELS.items), kernel(DUELS.items))


def prior_over_noise(model: Any) -> float:
    """Average over duels of Var[f - f'] / 2 sigma², in NumPy from the kernel matrix."""
    matrix, graph = model.kernel(model.graph.rows).numpy(), model.graph
    w, lo = graph.winners, graph.losers
    prior = matrix[w, w] + matrix[lo, lo] - 2.0 * matrix[w, lo]
    return float(np.mean(prior / (2.0 * model.likelihood.noise.numpy())))


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "runs_away"), [(0.0, True), (0.5, False)])
def test_separable_duels(noise: float, runs_away: bool) -> None:
    model = spg.PreferenceGP(duels(noise), k.Matern52(lengthscales=[1.0, 1.0, 1.0]))
    report = spg.optimise(model, 100, least_gain=None)
    assert (prior_over_noise(model) > NOISELESS) == runs_away
    found = [sentence for sentence in report.limits if "No duel contradicts" in sentence]
    assert len(found) == runs_away
    if runs_away:
        assert f"{prior_over_noise(model):.0e} times its noise" in found[0]
        assert "take weak priors (--priors weak, or spg.default_priors)" in found[0]
        assert found[0] in str(report)
        gpflow.set_trainable(model.kernel, False)
        assert not limits_of(model)


def test_the_cause_is_said_before_what_it_did() -> None:
    figures = {"converged": False, "jitter": 1e-5, "limits": ["The cause."], "weight": 0.5}
    assert notes_of({**figures, "duels": 2})[0] == "The cause."


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [k.SquaredExponential, k.Matern52, k.Linear])
@pytest.mark.parametrize("items", [6, 12])
def test_one_feature_that_orders_all_items(kernel: type[k.Kernel], items: int) -> None:
    """EP's evidence has an optimum there, which the optimiser finds; the true one has none."""
    pairs = np.array([(i, j) for i in range(items) for j in range(i + 1, items)])
    x = np.arange(items, dtype=float)
    x = ((x - x.mean()) / x.std())[:, None]
    model = spg.PreferenceGP(spg.Duels(x, *pairs.T), kernel(), approximation=spg.Exact())
    report = spg.optimise(model, 100)
    assert report.converged and prior_over_noise(model) > NOISELESS
    (found,) = report.limits
    assert f"{prior_over_noise(model):.0e} times its noise" in found
    # One upset each way in ten rounds: the noise is known then.
    often = np.concatenate([np.tile(pairs, (10, 1)), pairs[:, ::-1]])
    upset = spg.PreferenceGP(spg.Duels(x, *often.T), kernel(), approximation=spg.Exact())
    assert not spg.optimise(upset, 100).limits


@pytest.mark.slow
def test_separable_duels_in_a_stream() -> None:
    for noise, runs_away in ((0.0, True), (0.5, False)):
        data = duels(noise)
        model = spg.StreamedGP(
            spg.stream_duels(data),
            k.Matern52(variance=1e7, lengthscales=5.0),
            inducing_variable=data.items,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.infer()
        separable = bool(
            tf.reduce_all(
                model.predict_f(data.items[data.winners])[0]
                > model.predict_f(data.items[data.losers])[0]
            )
        )
        assert separable == runs_away
        assert any("No duel contradicts" in sentence for sentence in limits_of(model)) == separable


def test_a_regression_has_limits_too() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    kernel = k.Linear(variance=[1.0, 1.0]) + k.SquaredExponential(lengthscales=[1.0, 1.0])
    model = RegressionGP(x, x[:, 0], kernel)
    assert limits_of(model) == ()
    kernel.kernels[0].variance.assign([0.3, 1e-12])
    kernel.kernels[1].lengthscales.assign([1e-6, 1.0])
    found = limits_of(model)
    assert [
        ("found for feature 1 (variance of Linear" in text, "feature 0" in text) for text in found
    ] == [
        (True, False),
        (False, True),
    ]
    (small,) = small_lengthscales(model)
    assert "of the feature's spread" in small
