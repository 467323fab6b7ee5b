"""Items far from all that a model was fitted to."""

import numpy as np
import pytest

from sparse_prefgp.analysis import items


@pytest.mark.parametrize("references", [5000, 150])
def test_new_items_of_the_same_kind_are_rarely_far_and_others_always(
    references: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "REFERENCES", references)
    rng = np.random.default_rng(0)
    training, alike = rng.standard_normal((2, 400, 30))
    strange = alike + 20.0 * np.eye(30)[0]
    assert items.far_from(training, alike).mean() < 0.05
    assert items.far_from(training, strange).all()


def test_the_limit_is_that_of_slow_distances() -> None:
    rng = np.random.default_rng(1)
    training, new = rng.standard_normal((60, 3)), 1.5 * rng.standard_normal((200, 3))
    apart = np.sqrt(((training[:, None] - training) ** 2).sum(-1))
    np.fill_diagonal(apart, np.inf)
    limit = np.quantile(apart.min(1), 0.99)
    nearest = np.sqrt(((new[:, None] - training) ** 2).sum(-1)).min(1)
    sure = np.abs(nearest - limit) > 1e-5  # the fast one is in single precision
    assert np.array_equal(items.far_from(training, new)[sure], (nearest > limit)[sure])
    assert 0 < (nearest > limit).sum() < 200


def test_no_items_are_far_from_one() -> None:
    assert not items.far_from(np.zeros((1, 2)), np.ones((3, 2))).any()
    assert items.far_from(np.zeros((5, 2)), np.zeros((0, 2))).shape == (0,)
