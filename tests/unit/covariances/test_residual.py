"""Residuals that are a sum of terms: composed blocks against dense matrices, in memory and not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations.base import DuelProblem
from sparse_prefgp.covariances import residual
from sparse_prefgp.covariances.residual import Term, Unexplained, joined
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import DuelGraph
from tests.cases import in_block
from tests.reference.slow_residual import Composed, Duels, components, slow_composed
from tests.tolerances import GRADIENT_SOLVER, IDENTITY

# Both are trained here for their gradients alone.
pytestmark = pytest.mark.filterwarnings("ignore:Kernel variance and noise variance")
NEW = np.random.default_rng(3).normal(size=(4, 2))
VARIANCE, LENGTHSCALE, PAIR, NOISE = 1.3, 0.9, 0.7, 0.25


class PairEffects(NamedTuple):
    """A random effect of each unordered pair: w² sign sign' between its duels."""

    variance: tf.Tensor
    graph: DuelGraph
    name: str = "pairs"

    @property
    def groups(self) -> np.ndarray:
        ends = np.sort(np.stack([self.graph.winners, self.graph.losers], 1), 1)
        return np.unique(ends, axis=0, return_inverse=True)[1].reshape(-1)

    def within(self, bucket: Bucket, features: tf.Tensor) -> tf.Tensor:
        graph = self.graph
        signs = np.append(np.where(graph.winners < graph.losers, 1.0, -1.0), 0.0)[bucket.sites]
        return self.variance * tf.constant(signs[:, :, None] * signs[:, None, :])


class Paired(gpflow.kernels.SquaredExponential):
    """With the variance of effects of pairs next to, which the kernel itself does not use."""

    def __init__(self, variance: Any = 1.0, lengthscales: Any = 1.0, pair: Any = 1.0) -> None:
        super().__init__(variance, lengthscales)
        self.pair = gpflow.Parameter(pair, transform=gpflow.utilities.positive())


spg.register(Paired)


@dataclass(frozen=True, repr=False)
class WithPairs(spg.PITC):
    """PITC and effects of pairs."""

    def residual_terms(self, problem: DuelProblem, columns: int) -> tuple[Term, ...]:
        effects = PairEffects(tf.convert_to_tensor(problem.kernel.pair), problem.graph)
        return (*super().residual_terms(problem, columns), effects)


def half_of(features: np.ndarray) -> np.ndarray:
    """Which half of its block a duel is in, by the first feature of its loser."""
    return (features[:, 0] > 0.2).astype(int)


@dataclass(frozen=True, repr=False)
class HalvesWithPairs(WithPairs):
    """The residual within halves of the blocks alone, which pairs join again."""

    def residual_terms(self, problem: DuelProblem, columns: int) -> tuple[Term, ...]:
        _, effects = super().residual_terms(problem, columns)
        graph = problem.graph
        halves = 2 * graph.blocks + half_of(graph.rows[graph.losers])
        return Unexplained(problem.kernel, graph, halves, "halves"), effects


def kernel() -> Paired:
    return Paired(VARIANCE, LENGTHSCALE, PAIR)


def model_of(duels: Duels, approximation: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels(duels.items, duels.winners, duels.losers),
        kernel(),
        approximation=approximation,
        inducing_variable=duels.inducing,
        engine=spg.ParallelEP(tolerance=GRADIENT_SOLVER),
        noise_variance=duels.noise_variance,
    )


def check(model: Any, expected: Composed) -> None:
    """Evidence, posterior and gradient, that in w² among them."""
    gpflow.set_trainable(model.likelihood.noise, True)
    gpflow.set_trainable(model.inducing_variable, False)
    assert model.log_evidence() == pytest.approx(expected.log_evidence, abs=IDENTITY)
    mean, cov = model.predict_f(NEW, full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected.mean, atol=IDENTITY)
    np.testing.assert_allclose(cov[0], expected.cov, atol=IDENTITY)
    parameters = {
        "variance": model.kernel.variance,
        "lengthscale": model.kernel.lengthscales,
        "pair": model.kernel.pair,
        "noise_variance": model.likelihood.noise,
    }
    if isinstance(model, spg.StreamedGP):
        _, gradients = model.evidence_and_gradient()
    else:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients = [-g for g in tape.gradient(loss, model.trainable_variables)]
    found = {id(v): g for v, g in zip(model.trainable_variables, gradients, strict=True)}
    for name, parameter in parameters.items():
        variable = parameter.unconstrained_variable
        with tf.GradientTape() as tape:
            value = parameter.transform.forward(variable)
        chain = float(tape.gradient(value, variable))
        slope = float(found[id(variable)]) / chain
        assert abs(expected.by[name]) > 0.01
        assert slope == pytest.approx(expected.by[name], abs=IDENTITY, rel=IDENTITY), name


# In memory, pairs across blocks.


def crossing() -> Duels:
    """Repeated pairs, some of them in two blocks, which they join."""
    rng = np.random.default_rng(11)
    items = rng.normal(size=(10, 2))
    winners = rng.integers(10, size=16)
    losers = (winners + rng.integers(1, 10, size=16)) % 10
    blocks = np.arange(16) // 2
    again = rng.integers(16, size=8)
    turned = np.arange(8) % 2 == 0
    first = np.where(turned, losers[again], winners[again])
    second = np.where(turned, winners[again], losers[again])
    return Duels(
        items,
        np.concatenate([winners, first]),
        np.concatenate([losers, second]),
        items[:3] + 0.2,
        np.concatenate([blocks, np.where(np.arange(8) < 5, blocks[again], 8 + np.arange(8) // 3)]),
        NOISE,
    )


@pytest.mark.slow
def test_blocks_and_effects_of_pairs_are_their_dense_sum() -> None:
    duels = crossing()
    approximation = WithPairs(duels.blocks)
    model = model_of(duels, approximation)
    pairs = [str(sorted(ends)) for ends in zip(duels.winners, duels.losers, strict=True)]
    expected = len(set(components(duels.blocks, pairs)))
    layout = model.approximation.prior(model.problem()).blocks.buckets
    found = sum(len(bucket.numbers) for bucket in layout)
    assert 1 < found == expected < min(len(set(duels.blocks)), len(set(pairs)))
    check(model, slow_composed(duels, VARIANCE, LENGTHSCALE, PAIR, NEW))


def test_new_items_join_one_block_of_the_sum() -> None:
    duels = crossing()
    model = model_of(duels, WithPairs(duels.blocks))
    for block in (0, 9):
        expected = slow_composed(duels, VARIANCE, LENGTHSCALE, PAIR, NEW, test_block=block)
        mean, cov = in_block(model, NEW, block, full_cov=True)
        np.testing.assert_allclose(mean[:, 0], expected.mean, atol=IDENTITY)
        np.testing.assert_allclose(cov[0], expected.cov, atol=IDENTITY)
        assert np.abs(mean - model.predict_f(NEW)[0]).max() > 1e-3


# Through the chunk step.


def nested() -> tuple[Duels, np.ndarray]:
    """Whole pairs in each block, whose duels follow on one another, and the blocks."""
    rng = np.random.default_rng(5)
    items = rng.normal(size=(9, 2))
    first = rng.integers(9, size=14)
    second = (first + rng.integers(1, 9, size=14)) % 9
    pairs, place = np.unique(np.sort(np.stack([first, second], 1), 1), axis=0, return_inverse=True)
    of_pair = np.arange(len(pairs)) % 5
    winners, losers = np.concatenate([[first, second], [second, first]], 1)
    blocks = np.tile(of_pair[place.reshape(-1)], 2)
    order = np.argsort(blocks, kind="stable")[:25]
    winners, losers, blocks = winners[order], losers[order], blocks[order]
    halves = 2 * blocks + half_of(items[losers])
    return Duels(items, winners, losers, items[:3] + 0.2, halves, NOISE), blocks


def streamed(duels: Duels, blocks: np.ndarray, folder: Path, parts: int) -> spg.StreamedGP:
    frame = pd.DataFrame({"winner": duels.winners, "loser": duels.losers})
    frame.to_parquet(folder / "duels.parquet", index=False)
    return spg.StreamedGP(
        spg.stream_duels(folder / "duels.parquet", duels.items),
        kernel(),
        approximation=HalvesWithPairs(blocks),
        inducing_variable=duels.inducing,
        engine=spg.PartitionedEP(parts=parts, tolerance=GRADIENT_SOLVER),
        noise_variance=duels.noise_variance,
        chunk=6,
    )


@pytest.mark.covering("None")
@pytest.mark.parametrize("parts", [None, 1, 3])
def test_joined_halves_are_their_dense_sum_in_memory_in_chunks_and_in_parts(
    tmp_path: Path, parts: int | None
) -> None:
    duels, blocks = nested()
    pairs = [str(sorted(ends)) for ends in zip(duels.winners, duels.losers, strict=True)]
    assert len(set(components(duels.blocks, pairs))) < len(set(duels.blocks))
    if parts is None:
        model = model_of(duels, HalvesWithPairs(blocks))
    else:
        model = streamed(duels, blocks, tmp_path, parts)
    check(model, slow_composed(duels, VARIANCE, LENGTHSCALE, PAIR, NEW))


# The components.


@pytest.mark.parametrize("seed", range(3))
def test_joined_are_the_connected_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(20, size=30), rng.integers(25, size=30)
    blocks = joined({"a": first, "b": second})
    expected = components(first, second)
    np.testing.assert_array_equal(
        blocks[:, None] == blocks[None], expected[:, None] == expected[None]
    )
    np.testing.assert_array_equal(np.unique(blocks), np.arange(blocks.max() + 1))
    assert blocks.max() + 1 < len(np.unique(first))


def test_sites_without_a_group_stand_alone() -> None:
    blocks = joined({"judges": np.array([-1, 0, -1, 0]), "pairs": np.array([0, 1, 2, 3])})
    assert len(set(blocks)) == 3 and blocks[1] == blocks[3]
    alone = joined({"judges": np.array([-1, -1, 5])})
    assert len(set(alone)) == 3
    np.testing.assert_array_equal(joined({"judges": np.array([0, 5, 5])}), [0, 1, 1])


def test_a_block_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual, "MAX_BLOCK", 5)
    with pytest.raises(
        ValueError,
        match="The blocks of PITC and pairs make one block of 8 rows of duels, and a block has at "
        "most 5; take smaller blocks of PITC and pairs, or another approximation",
    ):
        joined({"blocks of PITC": np.arange(8) // 4, "pairs": np.array([0, 1, 2, 3, 3, 4, 5, 6])})
    duels = crossing()
    with pytest.raises(ValueError, match="The blocks of PITC make one block of 15 rows of duels"):
        model_of(duels, spg.PITC(np.arange(24) // 16))


def test_a_block_of_a_stream_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duels, blocks = nested()
    model = streamed(duels, blocks, tmp_path, 1)
    monkeypatch.setattr(residual, "MAX_BLOCK", 4)
    with pytest.raises(
        ValueError, match=r"The halves and pairs make one block of \d rows of duels"
    ):
        model.infer()
    largest = int(np.bincount(blocks).max())
    with pytest.raises(ValueError, match=f"The blocks of PITC make one block of {largest} rows"):
        streamed(duels, blocks, tmp_path, 1)
