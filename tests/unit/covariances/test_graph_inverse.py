"""Selected entries of inverses over a graph, against the dense inverse."""

from __future__ import annotations

import numpy as np
import pytest

from sparse_prefgp.covariances.graph_inverse import GraphInverse
from tests.tolerances import IDENTITY


def graphs() -> dict[str, tuple[int, np.ndarray]]:
    rng = np.random.default_rng(0)
    n = 300
    both = np.sort(rng.integers(n, size=(900, 2)), 1)
    scattered = np.unique(both[both[:, 0] < both[:, 1]], axis=0)
    return {
        "scattered": (n, scattered),
        "one meets all": (6, np.array([[0, 2], [1, 2], [2, 3], [2, 4], [2, 5]])),
        "all meet": (7, np.array(np.triu_indices(7, 1)).T),
        "one pair, others alone": (5, np.array([[1, 3]])),
        "nobody meets": (3, np.empty((0, 2), np.int64)),
    }


@pytest.mark.parametrize("name", graphs())
def test_products_and_entries_are_those_of_the_dense_inverse(name: str) -> None:
    n, pairs = graphs()[name]
    rng = np.random.default_rng(1)
    pair, scale, columns = rng.gamma(1.0, size=len(pairs)), 3.0, rng.normal(size=(n, 4))
    dense, degree = np.eye(n), np.zeros(n)
    for (i, j), weight in zip(pairs, pair, strict=True):
        step = np.zeros(n)
        step[i], step[j] = 1.0, -1.0
        dense += scale * weight * np.outer(step, step)
        degree[[i, j]] += weight
    expected, log_det = np.linalg.inv(dense), np.linalg.slogdet(dense)[1]
    inverse = GraphInverse(pairs, n)
    found = inverse.selected(pair, degree, scale, columns)
    np.testing.assert_allclose(found.product, expected @ columns, rtol=0, atol=IDENTITY)
    assert found.half_log_det == pytest.approx(0.5 * log_det, abs=IDENTITY)
    i, j = pairs.T
    apart = expected[i, i] + expected[j, j] - 2.0 * expected[i, j]
    np.testing.assert_allclose(found.between, apart, rtol=0, atol=IDENTITY)
    whole = inverse.whole(pair, degree, scale)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=IDENTITY)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -5.0])
def test_what_has_no_factor_is_not_a_number(weight: float) -> None:
    n, pairs = graphs()["all meet"]
    pair = np.full(len(pairs), weight)
    degree = np.full(n, 6.0 * weight)
    found = GraphInverse(pairs, n).selected(pair, degree, 1.0, np.ones((n, 1)))
    assert np.isnan(found.half_log_det) and np.isnan(found.product).all()
