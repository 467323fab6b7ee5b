"""The engine of parts against the parallel engine and against slow dense code."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from tests.cases import SPARSE, random_duels
from tests.reference.slow_parts import slow_parts
from tests.tolerances import EVIDENCE, FIXED_POINT, IDENTITY, PARTS, SOLVER

M = 6
RUNS = [(1, 1), (4, 1), (3, None)]


def make(engine: object, approximation: Any, items: int = 20, duels: int = 60) -> spg.PreferenceGP:
    data = random_duels(3, items=items, duels=duels)
    return spg.PreferenceGP(
        data,
        gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5]),
        approximation=approximation,
        inducing_variable=(
            np.random.default_rng(1).normal(size=(M, 2)) if approximation.needs_inducing else None
        ),
        engine=engine,
        noise_variance=0.2,
        mean_function=gpflow.functions.Linear(A=np.array([[0.3], [-0.2]])),
    )


@pytest.mark.covering("4-1-FITC-items", "3-None-VFE-duels")
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("name", ["VFE", "FITC"])
@pytest.mark.parametrize(("parts", "local_sweeps"), RUNS)
def test_posterior_evidence_and_gradient_are_those_of_the_parallel_engine(
    parts: int, local_sweeps: int | None, name: str, over: str
) -> None:
    approximation = SPARSE[name](over=over)
    whole = make(spg.ParallelEP(tolerance=SOLVER), approximation)
    engine = spg.PartitionedEP(parts=parts, local_sweeps=local_sweeps, tolerance=SOLVER)
    cut = make(engine, approximation)
    one, other = whole.infer(), cut.infer()
    assert other.converged
    assert other.sweeps == one.sweeps
    new = np.random.default_rng(2).normal(size=(5, 2))
    for mine, theirs in zip(cut.predict_f(new), whole.predict_f(new), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=PARTS)
    assert cut.log_evidence() == pytest.approx(whole.log_evidence(), rel=SOLVER)
    gradients = []
    for model in (whole, cut):
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients.append(tape.gradient(loss, model.trainable_variables))
    for mine, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=FIXED_POINT)


@pytest.mark.slow
@pytest.mark.parametrize("local_sweeps", [1, 3])
def test_every_round_is_that_of_slow_dense_code(local_sweeps: int) -> None:
    parts, rounds = 3, 4
    data = random_duels(3, items=12, duels=20)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.5])
    z = np.random.default_rng(1).normal(size=(M, 2))
    root = np.linalg.cholesky(kernel(z).numpy())
    ends = (kernel(z, data.items[rows]).numpy() for rows in (data.losers, data.winners))
    phi = np.linalg.solve(root, np.subtract(*ends)).T
    cuts = np.linspace(0, len(phi), parts + 1).astype(int)
    rows = [np.arange(a, b) for a, b in pairwise(cuts)]
    counts = data.counts.astype(int)
    # Copies of a repeated duel are sites of their own in the slow code.
    copies = np.repeat(np.arange(len(phi)), counts)
    starts = np.cumsum([0, *(int(counts[r].sum()) for r in rows)])
    slow = slow_parts(
        phi[copies],
        np.full(len(copies), 0.4),
        np.zeros(len(copies)),
        [np.arange(a, b) for a, b in pairwise(starts)],
        rounds,
        local_sweeps,
    )
    for r in range(rounds):
        engine = spg.PartitionedEP(
            parts=parts, local_sweeps=local_sweeps, tolerance=1e-300, max_sweeps=r + 1
        )
        model = spg.StreamedGP(
            spg.stream_duels(data),
            kernel,
            approximation=spg.DTC(),
            inducing_variable=z,
            noise_variance=0.2,
            engine=engine,
        )
        model.infer()
        total = model.kept().total
        covariance = np.linalg.inv(total.precision)
        np.testing.assert_allclose(covariance @ total.shift, slow.means[r], atol=IDENTITY)
        np.testing.assert_allclose(covariance, slow.covariances[r], atol=IDENTITY)


def test_evidence_adds_up_over_parts_as_in_slow_dense_code() -> None:
    model = make(spg.PartitionedEP(parts=2, tolerance=SOLVER), spg.DTC(over="duels"), 12, 20)
    prior = model.approximation.prior(model.problem())
    counts = prior.factors.counts.numpy().astype(int)
    copies = np.repeat(np.arange(len(counts)), counts)
    half = len(copies) // 2
    every = np.arange(len(copies))
    slow = slow_parts(
        prior.covariance.features.numpy()[copies],
        prior.factors.noise.numpy()[copies],
        prior.factors.upper.numpy()[copies],
        [every[:half], every[half:]],
        40,
        1,
    )
    assert model.log_evidence() == pytest.approx(slow.log_evidence, abs=EVIDENCE)


@pytest.mark.slow
def test_low_noise_is_damped_until_it_settles() -> None:
    data = random_duels(5, items=8, duels=40)
    models = [
        spg.PreferenceGP(
            data,
            gpflow.kernels.SquaredExponential(variance=30.0),
            approximation=spg.VFE(),
            inducing_variable=data.items[:5],
            engine=engine,
            noise_variance=1e-3,
        )
        for engine in (
            spg.ParallelEP(tolerance=SOLVER),
            spg.PartitionedEP(parts=4, local_sweeps=None, tolerance=SOLVER),
        )
    ]
    for model in models:
        assert model.infer().converged
    one, other = (model.log_evidence() for model in models)
    assert other == pytest.approx(one, rel=EVIDENCE)


@pytest.mark.slow
def test_it_is_saved_and_learned_with(tmp_path) -> None:
    model = make(spg.PartitionedEP(parts=3), spg.VFE())
    report = spg.optimise(model, max_iterations=3)
    assert report.log_evidence > report.log_evidence_start
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.engine == model.engine
    new = np.zeros((1, 2))
    assert np.array_equal(loaded.predict_f(new)[0], model.predict_f(new)[0])


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: spg.PartitionedEP(parts=0), "parts is 0"),
        (lambda: spg.PartitionedEP(local_sweeps=0), "local_sweeps is 0"),
        (lambda: spg.PartitionedEP(damping=2.0), "damping is"),
        (lambda: make(spg.PartitionedEP(parts=1000), spg.VFE()).infer(), "a part without duels"),
        (lambda: make(spg.PartitionedEP(), spg.Exact()).infer(), "use ParallelEP"),
    ],
)
def test_what_cannot_be_parted_is_told_in_one_sentence(make_it, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        make_it()
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


@spg.register_kernel
class _NotANumber(gpflow.functions.MeanFunction):
    def __call__(self, X: tf.Tensor) -> tf.Tensor:
        return tf.where(X[:, :1] > 7.0, np.nan, tf.zeros_like(X[:, :1]))


@pytest.mark.parametrize("approximation", [spg.VFE()], ids=repr)
def test_what_is_not_finite_in_chunks_has_not_converged(approximation: Any) -> None:
    """Of one chunk alone, the last, where the prior mean is not a number."""
    items = np.arange(9.0)[:, None]
    duels = spg.Duels(items, [0, 1, 2, 3, 8], [1, 2, 3, 4, 7])
    model = spg.StreamedGP(
        spg.stream_duels(duels),
        gpflow.kernels.SquaredExponential(),
        approximation=approximation,
        inducing_variable=items[:3],
        mean_function=_NotANumber(),
        engine=spg.PartitionedEP(parts=2, max_sweeps=20),
        chunk=2,
    )
    assert model.infer().status is spg.results.Status.NOT_FINITE
