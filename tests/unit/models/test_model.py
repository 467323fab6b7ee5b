"""`PreferenceGP`: input it refuses, staleness, GPflow habits, and what it never allocates."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sparse_prefgp as spg
from sparse_prefgp.models.base import DuelGP
from tests.cases import ALL, FORMS, SPARSE, random_duels
from tests.together import apart
from tests.tolerances import FIXED_POINT, IDENTITY, ROUNDING, SINGLE

DUELS = random_duels(0, items=8, duels=14)
Z = DUELS.items[:3].copy()
# Of the class of a model, private ones and inherited ones too.
MOST_METHODS = 45


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=[0.8, 1.1])


def build(approximation: Any = None, **settings: Any) -> spg.PreferenceGP:
    approximation = spg.VFE() if approximation is None else approximation
    if approximation.needs_inducing:
        settings.setdefault("inducing_variable", Z.copy())
    return spg.PreferenceGP(DUELS, kernel(), approximation=approximation, **settings)


# Bad input.

BAD_Z = np.array([[0.0, 1.0], [np.nan, 0.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: spg.PreferenceGP([(0, 1)], kernel()),
            r"duels is of type list; give Duels, as Duels\(items",
        ),
        (lambda: spg.PreferenceGP(DUELS, "matern"), "kernel is of type str; give a GPflow kernel"),
        (lambda: build(noise_variance=0.0), "noise_variance is 0.0; give a number, above 0"),
        (
            lambda: build(noise_variance=-1.0),
            "noise_variance is -1.0; give a number, above 0 .*probit",
        ),
        (lambda: build(noise_variance=np.nan), "noise_variance is nan; give a number, above 0"),
        (lambda: build(noise_variance=np.inf), "noise_variance is inf; give a number, above 0"),
        (lambda: build(noise_variance=[0.1, 0.2]), r"is \[0.1, 0.2\]; give a number, above 0"),
        (lambda: build(noise_variance="low"), "noise_variance is 'low'; give a number, above 0"),
        (lambda: spg.Probit(None), "noise is None; give a number, above 0"),
        (
            lambda: build(spg.Exact(), inducing_variable=Z),
            apart("no_inducing", "inducing_variable"),
        ),
        (
            lambda: build(spg.SubsetOfData(3), inducing_variable=Z),
            apart("no_inducing", "inducing_variable"),
        ),
        (
            lambda: build(inducing_variable=np.zeros((2, 3))),
            r"shape \(2, 3\); give \(m, 2\)",
        ),
        (
            lambda: build(inducing_variable=np.zeros(4)),
            r"inducing_variable has shape \(4,\); give \(m, 2\)",
        ),
        (
            lambda: build(inducing_variable=np.zeros((0, 2))),
            r"inducing_variable has shape \(0, 2\); give \(m, 2\)",
        ),
        (
            lambda: build(inducing_variable=BAD_Z),
            "inducing_variable has nan at 1, 0; give finite numbers",
        ),
        (
            lambda: build(inducing_variable=[["a", "b"]]),
            r"inducing_variable is \[\[.*; give numbers",
        ),
        (lambda: build(inducing_variable=np.zeros((2, 2))), "equal rows"),
        (
            lambda: build(inducing_variable=np.random.default_rng(0).normal(size=(9, 2))),
            "9 inducing inputs are more than the 8 distinct items",
        ),
        (
            lambda: build(
                inducing_variable=gpflow.inducing_variables.InducingPoints(np.zeros((2, 5)))
            ),
            r"shape \(2, 5\); give \(m, 2\)",
        ),
        (lambda: spg.kmeans_inputs(Z, 0, np.random.default_rng(0)), "at least 1"),
        (lambda: spg.kmeans_inputs(Z, 4, np.random.default_rng(0)), "more than the 3"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# Defaults.


def test_default_is_exact_for_few_items() -> None:
    model = spg.PreferenceGP(DUELS, kernel())
    assert model.approximation == spg.Exact()
    assert model.inducing_variable is None
    assert model.engine == spg.ParallelEP()
    assert model.likelihood.noise.numpy() == 0.5
    assert not model.likelihood.noise.trainable
    text = str(model)
    assert "Exact" in text
    assert "14 duels" in text


def test_items_are_counted_without_what_is_said_of_a_duel() -> None:
    duels = spg.Duels(
        np.zeros((3, 0)), [0, 1, 2], [1, 2, 0], covariates=np.array([[1.0], [2.0], [3.0]])
    )
    assert "3 duels between 3 distinct items" in str(spg.PreferenceGP(duels))


def test_default_is_vfe_for_many_items_or_given_inducing_inputs() -> None:
    rng = np.random.default_rng(1)
    duels = spg.Duels(rng.normal(size=(1002, 2)), np.arange(1001), np.arange(1, 1002))
    model = spg.PreferenceGP(duels, kernel())
    assert model.approximation == spg.VFE()
    assert model.inducing_variable.num_inducing == 128
    assert "128 inducing inputs" in str(model)
    given = spg.PreferenceGP(DUELS, kernel(), inducing_variable=Z)
    assert given.approximation == spg.VFE()


@pytest.mark.parametrize("count", [1, 5, 8])
def test_kmeans_inputs_are_distinct(count: int) -> None:
    rows = np.unique(np.round(DUELS.items), axis=0)
    count = min(count, len(rows))
    z = spg.kmeans_inputs(rows, count, np.random.default_rng(0))
    assert z.shape == (count, 2)
    assert len(np.unique(z, axis=0)) == count
    assert np.all(z >= rows.min(0))
    assert np.all(z <= rows.max(0))
    again = spg.kmeans_inputs(rows, count, np.random.default_rng(0))
    np.testing.assert_array_equal(z, again)


# GPflow habits.


def test_parameters_are_the_models_and_nothing_else() -> None:
    model = build(mean_function=gpflow.functions.Linear(A=np.zeros((2, 1))))
    model.infer()
    names = set(gpflow.utilities.parameter_dict(model))
    assert names == {
        ".kernel.variance",
        ".kernel.lengthscales",
        ".likelihood.noise",
        ".inducing_variable.Z",
        ".mean_function.A",
        ".mean_function.b",
    }
    assert len(model.variables) == 6
    assert len(model.trainable_variables) == 5
    gpflow.utilities.print_summary(model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Exact", "FITC"])
def test_gpflow_scipy_optimiser_raises_the_evidence(name: str) -> None:
    model = build(ALL[name]())
    before = model.log_evidence()
    result = gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": 8}
    )
    assert result.nit > 1
    assert model.log_evidence() > before + 0.1
    assert model.log_evidence() == pytest.approx(-result.fun, abs=IDENTITY * 1e3)
    assert model.infer().converged


@pytest.mark.slow
def test_fixed_parameters_stay() -> None:
    model = build()
    gpflow.set_trainable(model.inducing_variable, False)
    gpflow.set_trainable(model.kernel.variance, False)
    assert len(model.trainable_variables) == 1
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": 2}
    )
    np.testing.assert_array_equal(model.inducing_variable.Z.numpy(), Z)
    assert model.kernel.variance.numpy() == 1.0


def test_free_scale_warns_once() -> None:
    model = build()
    gpflow.set_trainable(model.likelihood.noise, True)
    with pytest.warns(UserWarning, match="only their ratio|determine only"):
        model.training_loss()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.training_loss()


# Staleness.

CHANGES: dict[str, Callable[[spg.PreferenceGP], None]] = {
    "lengthscale": lambda m: m.kernel.lengthscales.assign([0.3, 2.0]),
    "variance": lambda m: m.kernel.variance.assign(4.0),
    "noise": lambda m: m.likelihood.noise.assign(0.05),
    "Z": lambda m: m.inducing_variable.Z.assign(Z + 0.4),
    "mean": lambda m: m.mean_function.A.assign([[1.0], [-1.0]]),
}


@pytest.mark.covering("noise")
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_parameter_makes_everything_stale(what: str) -> None:
    mean_function = gpflow.functions.Linear(A=np.zeros((2, 1)))
    model = build(mean_function=mean_function)
    model.infer()
    new, other = Z + 0.1, Z[::-1] - 0.3
    before = [
        np.array(model.log_evidence()),
        model.predict_f(new)[0].numpy(),
        model.predict_duel(new, other).numpy(),
    ]
    CHANGES[what](model)
    fresh = build(mean_function=gpflow.functions.Linear(A=np.zeros((2, 1))))
    CHANGES[what](fresh)
    # Predictions first: nothing has inferred since the change.
    after = [model.predict_duel(new, other).numpy(), model.predict_f(new)[0].numpy()]
    after = [np.array(model.log_evidence()), *after[::-1]]
    expected = [
        np.array(fresh.log_evidence()),
        fresh.predict_f(new)[0].numpy(),
        fresh.predict_duel(new, other).numpy(),
    ]
    for old, now, right in zip(before, after, expected, strict=True):
        assert np.max(np.abs(old - now)) > 1e-3
        np.testing.assert_allclose(now, right, atol=1e2 * IDENTITY)


def test_infer_twice_is_cached_and_restart_is_not() -> None:
    model = build()
    first = model.infer()
    swept = model.inference.total_sweeps
    assert swept == first.sweeps > 2
    assert model.infer() is first
    model.log_evidence()
    model.predict_f(Z)
    assert model.posterior() is model.posterior()
    assert model.inference.total_sweeps == swept
    again = model.infer(restart=True)
    assert again.sweeps == first.sweeps  # from cold sites: the same way again
    assert model.inference.total_sweeps == 2 * swept


def test_sites_are_warm_after_a_small_change() -> None:
    model = build(noise_variance=0.05)
    cold = model.infer().sweeps
    model.kernel.variance.assign(1.001)
    assert model.infer().sweeps < cold


# Small and odd data.


@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC", "TightVFE-rank", "TightVFE-logdet"])
@pytest.mark.covering(every=4)
def test_all_items_equal(name: str, over: str) -> None:
    duels = spg.Duels(np.ones((4, 2)), [0, 1, 2], [1, 2, 3])
    approximation = ALL[name](over=over)
    model = spg.PreferenceGP(
        duels,
        kernel(),
        approximation=approximation,
        inducing_variable=np.ones((1, 2)) if approximation.needs_inducing else None,
    )
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(3 * np.log(0.5), abs=IDENTITY)
    mean, variance = model.predict_f(np.ones((1, 2)))
    assert abs(float(mean[0, 0])) < IDENTITY
    # The prior variance of 1 is untouched: such duels say nothing about the utility.
    assert float(variance[0, 0]) == pytest.approx(1.0, abs=IDENTITY)
    loss = model.training_loss()
    assert np.isfinite(loss)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.covering(every=5)
def test_gradient_is_finite_when_all_items_are_equal(name: str) -> None:
    duels = spg.Duels(np.ones((3, 2)), [0, 1], [1, 2])
    approximation = ALL[name]()
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Matern32(),
        approximation=approximation,
        inducing_variable=np.ones((1, 2)) if approximation.needs_inducing else None,
    )
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    for gradient in tape.gradient(
        loss, model.trainable_variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    ):
        assert np.all(np.isfinite(gradient))


def test_one_item_has_no_duels() -> None:
    with pytest.raises(ValueError, match=r"itself|at least one duel|indices go from 0 to 0"):
        spg.Duels(np.ones((1, 2)), [0], [0])
    with pytest.raises(ValueError, match="at least one duel"):
        spg.Duels(np.ones((1, 2)), [], [])


def test_one_duel_predicts_its_winner() -> None:
    duels = spg.Duels(np.array([[0.0], [1.0]]), [1], [0])
    model = spg.PreferenceGP(duels, gpflow.kernels.Matern32())
    assert 0.5 < float(model.predict_duel([[1.0]], [[0.0]])[0]) < 1.0


@pytest.mark.covering("Exact-0.0001", "VFE-0.0001")
@pytest.mark.parametrize("noise", [1e-4, 10.0])
@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC"])
def test_swapping_winners_and_losers_flips_the_mean(name: str, noise: float) -> None:
    approximation = ALL[name]()
    z = Z if approximation.needs_inducing else None
    results = []
    for w, loser in ((DUELS.winners, DUELS.losers), (DUELS.losers, DUELS.winners)):
        model = spg.PreferenceGP(
            spg.Duels(DUELS.items, w, loser, DUELS.counts),
            kernel(),
            approximation=approximation,
            inducing_variable=z,
            noise_variance=noise,
            engine=spg.ParallelEP(tolerance=1e-11),
        )
        results.append((model.log_evidence(), *model.predict_f(DUELS.items, full_cov=True)))
    assert results[0][0] == pytest.approx(results[1][0], abs=IDENTITY, rel=IDENTITY)
    np.testing.assert_allclose(results[0][1], -results[1][1], atol=IDENTITY)
    np.testing.assert_allclose(results[0][2], results[1][2], atol=IDENTITY)


# Jitter.


def test_jitter_is_reported() -> None:
    # Inducing inputs so close that float64 sees them as one.
    near = np.array([[0.0, 0.0], [1e-9, 0.0], [1.0, 0.0]])
    result = build(inducing_variable=near).infer()
    assert 0.0 < result.jitter <= 1e-10
    assert "jitter" in str(result)
    assert build().infer().jitter == 0.0
    assert "jitter" not in str(build().infer())


# Number types.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC"])
def test_float32_end_to_end(name: str) -> None:
    approximation = ALL[name]()
    z = Z if approximation.needs_inducing else None
    double = spg.PreferenceGP(
        DUELS, gpflow.kernels.Matern32(), approximation=approximation, inducing_variable=z
    )
    expected = double.log_evidence(), double.predict_f(Z), double.predict_duel(Z, Z[::-1])
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-6)):
        single = spg.PreferenceGP(
            DUELS,
            gpflow.kernels.Matern32(),
            approximation=approximation,
            inducing_variable=z,
            engine=spg.ParallelEP(tolerance=1e-4),
        )
        assert single.infer().converged
        assert single.log_evidence() == pytest.approx(expected[0], rel=SINGLE)
        for a, b in zip(single.predict_f(Z), expected[1], strict=True):
            assert a.dtype == tf.float32
            np.testing.assert_allclose(a, b, atol=SINGLE)
        np.testing.assert_allclose(single.predict_duel(Z, Z[::-1]), expected[2], atol=SINGLE)
        assert single.training_loss().dtype == tf.float32
        gpflow.optimizers.Scipy().minimize(
            single.training_loss, single.trainable_variables, options={"maxiter": 2}
        )
        assert single.log_evidence() > expected[0]


# What is never allocated.

SIZES = {"t": 97, "n": 41, "m": 7, "D": 2}


def operations(graph: tf.Graph) -> Iterator[tf.Operation]:
    """All operations of a graph and of every function that it calls."""
    seen: set[str] = set()

    def walk(g: Any) -> Iterator[tf.Operation]:
        yield from g.get_operations()
        for name in list(getattr(g, "_functions", {})):
            if name not in seen:
                seen.add(name)
                function = g._functions[name]
                inner = getattr(function, "graph", None)
                if inner is not None:
                    yield from walk(inner)

    yield from walk(graph)


def shapes_of_training(model: spg.PreferenceGP) -> tuple[set[tuple[int, ...]], int]:
    variables = model.trainable_variables

    @tf.function(autograph=False)
    def loss_and_gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, variables)

    shapes, loops = set(), 0
    for op in operations(loss_and_gradient.get_concrete_function().graph):
        loops += op.type in ("While", "StatelessWhile")
        for output in op.outputs:
            if output.shape.rank is not None:
                # An unknown size could hide what is looked for.
                assert output.shape.rank < 2 or output.shape.is_fully_defined(), op
                shapes.add(tuple(output.shape.as_list()))
    return shapes, loops


@pytest.fixture(scope="module")
def sized_duels() -> spg.Duels:
    """Exactly t distinct ordered pairs between n distinct items."""
    rng = np.random.default_rng(9)
    n, t = SIZES["n"], SIZES["t"]
    pairs = np.array([(i, j) for i in range(n) for j in range(n) if i != j])
    ring = np.array([(i, (i + 1) % n) for i in range(n)])
    is_ring = (pairs[:, 1] - pairs[:, 0]) % n == 1
    rest = rng.choice(pairs[~is_ring], t - n, replace=False)
    chosen = np.concatenate([ring, rest])
    return spg.Duels(rng.normal(size=(n, SIZES["D"])), chosen[:, 0], chosen[:, 1])


@pytest.mark.covering("Exact-items", "VFE-duels", "TightVFE-rank-items")
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", ALL)
def test_nothing_is_duels_by_duels_or_items_by_duels(
    sized_duels: spg.Duels, name: str, over: str
) -> None:
    t, n, m = SIZES["t"], SIZES["n"], SIZES["m"]
    approximation = ALL[name](over=over)
    model = spg.PreferenceGP(
        sized_duels,
        kernel(),
        approximation=approximation,
        inducing_variable=sized_duels.items[:m].copy() if name in SPARSE else None,
    )
    assert (model.graph.num_sites, model.graph.num_rows) == (t, n)
    shapes, loops = shapes_of_training(model)
    # The walk saw the sweeps inside the loop, and shapes are known there.
    assert loops >= 1
    if name in SPARSE:
        assert (n, m) in shapes or (m, n) in shapes
    for shape in shapes:
        assert not (t in shape and n in shape), shape
        if name in SPARSE or over == "items":
            assert shape.count(t) < 2, shape
        # A stored t × n array by another name: flattened.
        if name in SPARSE:
            assert t * t not in shape, shape
        assert t * n not in shape, shape


def test_the_walk_would_see_such_an_array(sized_duels: spg.Duels) -> None:
    model = spg.PreferenceGP(sized_duels, kernel(), approximation=spg.Exact(over="duels"))
    shapes, _ = shapes_of_training(model)
    assert (SIZES["t"], SIZES["t"]) in shapes


def test_prediction_is_a_function_of_the_batch_alone() -> None:
    model = build()
    first, second = (model.predict_f(Z)[0].numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(model.predict_f(Z[::-1])[0][::-1], first, rtol=ROUNDING)


# What is kept must not mix with parameters that changed later.


def small_model(**settings: object) -> tuple[spg.PreferenceGP, np.ndarray]:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(12, 2))
    winners = rng.integers(0, 12, 30)
    duels = spg.Duels(items, winners, (winners + rng.integers(1, 12, 30)) % 12)
    kernel = gpflow.kernels.Matern52(lengthscales=np.ones(2))
    return spg.PreferenceGP(duels, kernel, **settings), rng.normal(size=(4, 2))


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=repr)
def test_copies_and_held_posteriors_keep_their_parameters(approximation) -> None:
    model, new = small_model(approximation=approximation)
    before = model.predict_f(new)[0].numpy()
    copied, held = copy.deepcopy(model), model.posterior()
    model.kernel.lengthscales.assign([0.3, 0.3])
    assert np.abs(model.predict_f(new)[0] - before).max() > 0.01
    np.testing.assert_array_equal(copied.predict_f(new)[0], before)
    np.testing.assert_array_equal(held.marginal(tf.constant(new))[:, :1], before)
    copied.kernel.lengthscales.assign([0.3, 0.3])
    np.testing.assert_allclose(copied.predict_f(new)[0], model.predict_f(new)[0], atol=IDENTITY)


@pytest.mark.slow
def test_compiled_prediction_follows_the_parameters() -> None:
    model, new = small_model(approximation=spg.VFE())
    predict = tf.function(model.predict_f, autograph=False)
    duel = tf.function(model.predict_duel, autograph=False)
    x = tf.constant(new)
    predict(x), duel(x, x[::-1])
    model.kernel.lengthscales.assign([0.3, 0.3])
    for compiled, eager in zip(predict(x), model.predict_f(x), strict=True):
        np.testing.assert_allclose(compiled, eager, atol=FIXED_POINT)
    np.testing.assert_allclose(duel(x, x[::-1]), model.predict_duel(x, x[::-1]), atol=FIXED_POINT)


def test_a_new_kernel_or_mean_function_is_noticed() -> None:
    model, _ = small_model()
    first = model.log_evidence()
    model.kernel = gpflow.kernels.Matern12(lengthscales=np.ones(2))
    second = model.log_evidence()
    fresh = spg.PreferenceGP(model.duels, gpflow.kernels.Matern12(lengthscales=np.ones(2)))
    assert second == pytest.approx(fresh.log_evidence(), abs=FIXED_POINT)
    model.mean_function = lambda x: 3.0 * x[:, :1]
    assert len({round(v, 3) for v in (first, second, model.log_evidence())}) == 3


def test_a_parameter_of_another_scale_is_noticed() -> None:
    """Its unconstrained value is that of the old one, and means another noise."""
    model, _ = small_model()
    first = model.log_evidence()
    old = model.likelihood.noise.unconstrained_variable.numpy()
    new = gpflow.Parameter(1.0, transform=tfp.bijectors.Exp(), trainable=False)
    new.unconstrained_variable.assign(old)
    model.likelihood.noise = new
    fresh, _ = small_model()
    fresh.likelihood.noise.assign(np.exp(old))
    assert model.log_evidence() == pytest.approx(fresh.log_evidence(), abs=FIXED_POINT)
    assert abs(model.log_evidence() - first) > 0.01


@pytest.mark.slow
def test_what_was_inferred_is_one_value_replaced_whole() -> None:
    model, _ = small_model(approximation=spg.VFE())
    model.infer()
    known = model._known
    assert known is not None and model.log_evidence() == known.solution.log_evidence
    assert model.posterior() is known.solution.posterior and model._known is known
    with pytest.raises(dataclasses.FrozenInstanceError):
        known.result = model.infer()  # type: ignore[misc]
    prior = weakref.ref(known.solution.prior)
    del known
    priors = []
    watched = copy.copy(model.approximation)

    def first_of_all(problem: Any) -> Any:
        gc.collect()
        priors.append(prior())
        return type(watched).prior(watched, problem)

    object.__setattr__(model.approximation, "prior", first_of_all)
    model.kernel.lengthscales.assign([0.3, 0.3])
    model.infer()
    assert priors == [None]  # the old prior is let go of before the new one is made


def test_predicting_without_convergence_warns() -> None:
    model, new = small_model(engine=spg.ParallelEP(max_sweeps=1))
    with pytest.warns(UserWarning, match="did not converge: stopped at max_sweeps"):
        model.predict_f(new)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": gpflow.kernels.RBF(lengthscales=np.ones(3))}, "cannot be evaluated on items"),
        ({"kernel": gpflow.kernels.RBF(active_dims=[5])}, "with 2 features"),
        ({"mean_function": gpflow.functions.Linear(np.ones((3, 1)))}, "The mean function cannot"),
        ({"mean_function": gpflow.functions.Linear(np.ones((2, 2)))}, "has one output"),
        ({"approximation": "vfe"}, "such as spg.VFE"),
        ({"approximation": spg.VFE}, "such as spg.VFE"),
        ({"engine": spg.ParallelEP}, "such as spg.ParallelEP"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings: dict, message: str) -> None:
    model, _ = small_model()
    with pytest.raises(ValueError, match=message):
        spg.PreferenceGP(model.duels, **{"kernel": gpflow.kernels.RBF(), **settings})


def kinds_of(model: type) -> list[type]:
    return [model, *(each for kind in model.__subclasses__() for each in kinds_of(kind))]


def test_a_model_has_few_methods_and_properties() -> None:
    """What belongs to a part of a model is asked of that part, or is a function of a model."""
    shown, kinds = {spg.PreferenceGP, spg.StreamedGP, spg.IntegratedGP}, kinds_of(DuelGP)
    assert shown < set(kinds)
    for kind in kinds:
        held = [each for each in inspect.classify_class_attrs(kind) if each.name[:2] != "__"]
        ours = [each for each in held if each.defining_class.__module__.startswith("sparse_prefgp")]
        names = [x.name for x in ours if x.kind != "data" or isinstance(x.object, cached_property)]
        assert len(names) <= MOST_METHODS, f"{kind.__name__}: {names}"
