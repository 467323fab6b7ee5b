"""Inducing inputs from the features of the items: random, k-means, farthest point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sparse_prefgp.models.inducing_inputs import farthest_inputs, kmeans_inputs, random_inputs
from sparse_prefgp.support import kmeans as clusters
from sparse_prefgp.support.kmeans import kmeans_labels
from tests.tolerances import ROUNDING

METHODS = [random_inputs, kmeans_inputs, farthest_inputs]
ROWS = np.random.default_rng(0).normal(size=(40, 3))
Method = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]


def each_of(inputs: np.ndarray, rows: np.ndarray) -> bool:
    return {tuple(x) for x in inputs} <= {tuple(x) for x in rows}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 7, 39, 40])
def test_inputs_are_distinct_and_repeatable(method: Method, count: int) -> None:
    repeated = np.concatenate([ROWS, ROWS[:10], ROWS[:5] * 1.0])
    found = method(repeated, count, np.random.default_rng(1))
    assert found.shape == (count, 3)
    assert len(np.unique(found, axis=0)) == count
    np.testing.assert_array_equal(found, method(repeated, count, np.random.default_rng(1)))
    if method is not kmeans_inputs or count == 40:
        assert each_of(found, ROWS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("count", "message"), [(0, "at least 1"), (41, "more than the 40 dist")])
def test_impossible_counts_are_refused(method: Method, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        method(np.concatenate([ROWS, ROWS]), count, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


def test_negative_zero_is_zero() -> None:
    rows = np.array([[0.0, 1.0], [-0.0, 1.0]])
    with pytest.raises(ValueError, match="more than the 1 distinct"):
        random_inputs(rows, 2, np.random.default_rng(0))


def test_kmeans_finds_separate_clusters() -> None:
    rng = np.random.default_rng(2)
    middles = np.array([[0.0, 0.0], [100.0, 1.0], [0.0, 2.0]])  # of very different spread
    rows = np.concatenate([m + 0.01 * rng.normal(size=(30, 2)) for m in middles])
    found = kmeans_inputs(rows, 3, rng)
    expected = np.array([rows[30 * i : 30 * i + 30].mean(0) for i in range(3)])
    np.testing.assert_allclose(found, expected[np.lexsort(expected.T[::-1])], rtol=ROUNDING)


def test_empty_clusters_are_filled_with_rows() -> None:
    # Rows that differ by 1e-8 at 1e8: distances round to zero, so that some of the 12 clusters
    # stay empty, and the missing centres must come from the rows.
    lumps = np.array([-1e8, 0.0, 1e8])
    rows = (lumps[:, None] + np.linspace(0.0, 1e-7, 20)[None, :]).reshape(-1, 1)
    rows = np.unique(rows, axis=0)
    labels = kmeans_labels(rows, 12, np.random.default_rng(3))
    assert len(np.unique(labels)) < 12
    found = kmeans_inputs(rows, 12, np.random.default_rng(3))
    assert found.shape == (12, 1)
    assert len(np.unique(found, axis=0)) == 12
    means = np.array([rows[labels == k].mean(0) for k in np.unique(labels)])
    is_mean = np.isclose(found, means.T, rtol=ROUNDING, atol=0.0)
    assert np.all(is_mean.any(0))  # no real centre was lost
    assert sum(tuple(x) in {tuple(r) for r in rows} for x in found) >= 12 - len(means)


def test_a_cluster_of_one_row_is_that_row() -> None:
    rows = np.unique(ROWS, axis=0)
    found = kmeans_inputs(rows, 39, np.random.default_rng(4))
    alone = sum(tuple(x) in {tuple(r) for r in rows} for x in found)
    assert alone >= 38  # 39 clusters of 40 rows: one pair at most


def test_many_rows_are_clustered_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_ROWS_FOR_KMEANS", 1000)
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 4, (1200, 1)) * 10.0 + rng.normal(size=(1200, 1))
    found = kmeans_inputs(rows, 4, rng)
    assert found.shape == (4, 1)
    error = np.min((rows - found.T) ** 2, axis=1).mean()
    assert error < 1.5  # within-cluster variance 1; a merged cluster would add about 12
    assert np.all(np.diff(found[:, 0]) > 5.0)


def test_farthest_point_by_hand() -> None:
    rows = np.array([[0.0], [1.0], [5.0], [9.0], [10.0]])
    for seed in range(5):
        found = farthest_inputs(rows, 3, np.random.default_rng(seed))[:, 0]
        chosen = [found[0]]
        while len(chosen) < 3:
            gap = [min(abs(x - c) for c in chosen) for x in rows[:, 0]]
            chosen.append(rows[int(np.argmax(gap)), 0])
        np.testing.assert_array_equal(found, chosen)


def test_farthest_point_where_all_distances_round_to_zero() -> None:
    rows = np.array([[0.0], [1e-200], [2e-200], [1.0]])
    found = farthest_inputs(rows, 4, np.random.default_rng(0))
    assert len(np.unique(found, axis=0)) == 4
