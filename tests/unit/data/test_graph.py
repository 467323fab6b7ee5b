"""Duels as a graph: merging, Laplacians, gathers and scatters, against a dense A."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations.base import sample_duels
from sparse_prefgp.data.graph import (
    DuelGraph,
    Groups,
    differences,
    incidence_transpose,
    squared_distances,
)
from tests.cases import incidence, random_duels
from tests.reference.slow_approximations import comparison_rank
from tests.tolerances import ROUNDING

# Items 0 and 3 have equal features (up to the sign of zero), item 4 is never compared.
ITEMS = np.array([[0.0, 1.0], [2.0, 2.0], [3.0, 0.5], [-0.0, 1.0], [9.0, 9.0]])


def mixed() -> DuelGraph:
    return DuelGraph.from_duels(
        spg.Duels(ITEMS, [0, 3, 1, 0, 1], [1, 1, 0, 3, 2], counts=[2, 3, 1, 4, 1])
    )


def test_equal_rows_and_equal_duels_are_merged() -> None:
    graph = mixed()
    assert graph.num_rows == 3
    assert graph.row_of_item[0] == graph.row_of_item[3]
    assert graph.row_of_item[4] == -1
    np.testing.assert_array_equal(graph.rows[graph.row_of_item[:4]], ITEMS[:4])
    zero, one, two = graph.row_of_item[:3]
    sites = {
        (w, loser): c for w, loser, c in zip(graph.winners, graph.losers, graph.counts, strict=True)
    }
    # 2 + 3 duels merge because their items are equal; the other direction is a site of its own.
    assert sites == {(zero, one): 5, (one, zero): 1, (zero, zero): 4, (one, two): 1}
    assert graph.counts.sum() == 11
    assert graph.one_sided


def test_residual_rank_counts_items_less_components() -> None:
    assert mixed().residual_rank == 2
    duels = spg.Duels(np.arange(6.0)[:, None], [0, 2, 4, 4], [1, 3, 5, 5])
    assert DuelGraph.from_duels(duels).residual_rank == 3
    for seed in range(3):
        graph = DuelGraph.from_duels(random_duels(seed, items=12, duels=8))
        assert graph.residual_rank == comparison_rank(graph.winners, graph.losers)


def test_rows_of_many_columns_are_not_made_for_what_is_said_beside_them() -> None:
    rng = np.random.default_rng(0)
    won = rng.integers(4, size=30)
    lost = (won + rng.integers(1, 4, size=30)) % 4
    said = rng.integers(3, size=(30, 2)).astype(float)
    duels = spg.Duels(ITEMS, won, lost, covariates=said, covariate_names=("a", "b"))
    for size in (30, 5):
        graph = sample_duels(DuelGraph.from_duels(duels), size, rng)
        items, item = graph.items
        sides = graph.of_sides([2, 3])
        assert "rows" not in vars(graph)
        ends = np.stack([graph.winners, graph.losers])
        np.testing.assert_array_equal(graph.rows[ends][..., 2:], sides)
        np.testing.assert_array_equal(graph.rows[:, :2], items[item])
        assert len(np.unique(items, axis=0)) == len(items) == graph.num_items
        assert set(item) == set(range(len(items)))
        assert len(np.unique(graph.rows, axis=0)) == graph.num_rows
        np.testing.assert_array_equal(graph.columns([1, 3]), graph.rows[:, [1, 3]])


GRAPHS = [mixed(), *(DuelGraph.from_duels(random_duels(s, items=6, duels=20)) for s in range(2))]


@pytest.mark.parametrize("graph", GRAPHS, ids=["mixed", "0", "1"])
def test_products_with_the_incidence_matrix(graph: DuelGraph) -> None:
    rng = np.random.default_rng(0)
    a = incidence(graph)
    weights = rng.uniform(0.1, 2.0, graph.num_sites)
    dense = rng.normal(size=(graph.num_rows, 3))
    expected = a.T @ np.diag(weights) @ a

    def close(actual: tf.Tensor, desired: np.ndarray) -> None:
        np.testing.assert_allclose(actual, desired, rtol=ROUNDING, atol=ROUNDING)

    close(graph.laplacian.dense(tf.constant(weights)), expected)
    close(graph.laplacian.matmul(tf.constant(weights), tf.constant(dense)), expected @ dense)
    half = graph.laplacian.half_matmul(tf.constant(weights), tf.constant(dense)).numpy()
    close(dense.T @ half + half.T @ dense, dense.T @ expected @ dense)
    close(incidence_transpose(graph, tf.constant(weights)), a.T @ weights)
    close(differences(graph, tf.constant(dense)), a @ dense)
    close(differences(graph, tf.constant(dense[:, 0])), a @ dense[:, 0])
    close(squared_distances(graph, tf.constant(dense)), np.sum((a @ dense) ** 2, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_groups_of_many_values(monkeypatch: pytest.MonkeyPatch, dtype: type) -> None:
    group = np.array([2, 0, 2, 4, 2])
    values = tf.constant(np.arange(1.0, 6.0), dtype)
    few = Groups(group, 6).sums(values)
    monkeypatch.setattr("sparse_prefgp.data.graph._COUNT_ABOVE", 0)
    many = Groups(group, 6).sums(values)
    assert many.dtype == few.dtype == dtype
    np.testing.assert_array_equal(many, [2.0, 0.0, 9.0, 0.0, 4.0, 0.0])
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("graph", GRAPHS, ids=["mixed", "0", "1"])
def test_products_of_many_duels(graph: DuelGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparse_prefgp.data.graph._COUNT_ABOVE", 0)
    graph = replace(graph)  # nothing laid out yet
    test_products_with_the_incidence_matrix(graph)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_tiles_hold_every_site_once(rows: int) -> None:
    graph = GRAPHS[1]
    winners, losers, position = (x.numpy() for x in graph.tiles(rows))
    np.testing.assert_array_equal(winners[position], graph.winners)
    np.testing.assert_array_equal(losers[position], graph.losers)
    tile = winners // rows * graph.num_rows + losers // rows
    assert np.all(np.diff(tile) >= 0)
    assert graph.tiles(rows)[0] is graph.tiles(rows)[0]


def test_distances_by_tiles_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS[2]
    features = tf.constant(np.random.default_rng(3).normal(size=(graph.num_rows, 11)))
    plain = squared_distances(graph, features)
    monkeypatch.setattr("sparse_prefgp.data.graph._FUSE_ABOVE", 0)
    monkeypatch.setattr("sparse_prefgp.data.graph._TILE_BYTES", 2 * 8 * 11)
    np.testing.assert_allclose(squared_distances(graph, features), plain, rtol=ROUNDING)


@pytest.mark.parametrize("graph", GRAPHS, ids=["mixed", "0", "1"])
def test_gradient_of_squared_distances(graph: DuelGraph) -> None:
    rng = np.random.default_rng(1)
    features = tf.constant(rng.normal(size=(graph.num_rows, 3)))
    weights = rng.normal(size=graph.num_sites)
    a = incidence(graph)
    with tf.GradientTape() as tape:
        tape.watch(features)
        loss = tf.reduce_sum(weights * squared_distances(graph, features))
    expected = 2 * a.T @ np.diag(weights) @ a @ features.numpy()
    np.testing.assert_allclose(
        tape.gradient(loss, features), expected, rtol=ROUNDING, atol=ROUNDING
    )


def test_fused_distances_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS[1]
    features = tf.constant(np.random.default_rng(2).normal(size=(graph.num_rows, 3)))
    plain = squared_distances(graph, features)
    monkeypatch.setattr("sparse_prefgp.data.graph._FUSE_ABOVE", 0)
    np.testing.assert_allclose(squared_distances(graph, features), plain, rtol=ROUNDING)


def test_only_duels_between_equal_rows() -> None:
    duels = spg.Duels(np.ones((3, 2)), [0, 1], [1, 2])
    graph = DuelGraph.from_duels(duels)
    assert graph.num_rows == graph.num_sites == 1
    assert graph.counts[0] == 2
    weights = tf.ones(1, tf.float64)
    assert float(graph.laplacian.dense(weights)[0, 0]) == 0.0
    product = graph.laplacian.matmul(weights, tf.ones((1, 2), tf.float64))
    np.testing.assert_array_equal(product, np.zeros((1, 2)))
