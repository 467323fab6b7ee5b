"""NumPy's scalars are shown, and kept in settings, as Python's: NumPy 2 writes np.float64(0.5)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.support.checks import level_of_interval, whole_number

ITEMS = np.arange(6.0).reshape(3, 2)
HALF, TWO = np.float64(0.5), np.int64(2)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: spg.ParallelEP(HALF, max_sweeps=TWO), spg.ParallelEP(0.5, max_sweeps=2)),
        (lambda: spg.SequentialEP(site_power=HALF), spg.SequentialEP(site_power=0.5)),
        (lambda: spg.PartitionedEP(parts=TWO), spg.PartitionedEP(parts=2)),
        (lambda: spg.Laplace(HALF), spg.Laplace(0.5)),
        (lambda: spg.PriorPower(HALF), spg.PriorPower(0.5)),
        (lambda: spg.SubsetOfData(TWO, TWO), spg.SubsetOfData(2, 2)),
        (lambda: spg.PITC(TWO, TWO), spg.PITC(2, 2)),
    ],
)
def test_settings_hold_plain_numbers(made: Callable[[], Any], shown: Any) -> None:
    assert repr(made()) == repr(shown)
    assert not any(isinstance(value, np.generic) for value in vars(made()).values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: spg.Duels(ITEMS, np.array(["a"]), np.array(["b"])), "winners has 'a' in"),
        (lambda: spg.Duels(ITEMS, np.array([1]), np.array([1])), "of item 1 with itself"),
        (lambda: spg.Duels(ITEMS, [0], [1], item_ids=list(np.arange(5, 8))), r"\(5 for row 0\)"),
        (lambda: spg.Duels(ITEMS, [0], [1], item_ids=[*np.array(["a", "a", "b"])]), "has 'a' more"),
        (lambda: spg.Duels(ITEMS, [0], [1], counts=np.array(["x"])), "counts has 'x' in"),
        (lambda: spg.Duels(ITEMS, [0], [1], counts=np.array([True])), "counts has True in"),
        (lambda: whole_number("batch", np.float64(2.5), 1), "batch is 2.5;"),
        (lambda: level_of_interval(np.float64(2)), "level is 2.0;"),
        (lambda: spg.SequentialEP(site_power=np.float64(0)), "is 0.0;"),
        (lambda: spg.ParallelEP(damping=np.str_("x")), "is 'x'"),
        (lambda: spg.kmeans_inputs(ITEMS, TWO * 0, np.random.default_rng(0)), "inputs is 0;"),
    ],
)
def test_messages_show_plain_values(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
