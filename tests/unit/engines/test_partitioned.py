"""The engine of parts against the parallel engine and against slow dense code."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from tests.cases import random_duels
from tests.reference.slow_parts import slow_parts
from tests.together import apart
from tests.tolerances import EVIDENCE, IDENTITY, SOLVER

M = 6


def in_memory() -> spg.PreferenceGP:
    kernel = gpflow.kernels.SquaredExponential()
    return spg.PreferenceGP(random_duels(3), kernel, engine=spg.PartitionedEP())


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
        total = model._inferred().solution.total
        covariance = np.linalg.inv(total.precision)
        np.testing.assert_allclose(covariance @ total.shift, slow.means[r], atol=IDENTITY)
        np.testing.assert_allclose(covariance, slow.covariances[r], atol=IDENTITY)


@pytest.mark.parametrize(
    ("noise", "local_sweeps", "damped"),
    [pytest.param(1e-3, None, False, marks=pytest.mark.slow), (1e-8, 1, True)],
)
def test_low_noise_is_damped_until_it_settles(
    noise: float, local_sweeps: int | None, damped: bool
) -> None:
    data = random_duels(5, items=8, duels=40)
    settings: dict[str, Any] = {
        "kernel": gpflow.kernels.SquaredExponential(variance=30.0),
        "approximation": spg.VFE(),
        "inducing_variable": data.items[:5],
        "noise_variance": noise,
    }
    whole = spg.PreferenceGP(data, engine=spg.ParallelEP(tolerance=SOLVER), **settings)
    engine = spg.PartitionedEP(parts=4, local_sweeps=local_sweeps, tolerance=SOLVER)
    cut = spg.StreamedGP(spg.stream_duels(data), engine=engine, **settings)
    outcome = cut.infer()
    assert whole.infer().converged and outcome.converged
    assert (outcome.damping < 1.0) == damped
    assert cut.log_evidence() == pytest.approx(whole.log_evidence(), rel=EVIDENCE)


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: spg.PartitionedEP(parts=0), "parts is 0; give a whole number, at least 1"),
        (
            lambda: spg.PartitionedEP(local_sweeps=0),
            "local_sweeps is 0; give a whole number, at least 1",
        ),
        (
            lambda: spg.PartitionedEP(damping=2.0),
            "damping is 2.0; give a number, above 0 and at most 1",
        ),
        (lambda: in_memory().infer(), apart("in_memory", "partitioned")),
    ],
)
def test_what_cannot_be_parted_is_told_in_one_sentence(make_it, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        make_it()
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


@spg.register
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
