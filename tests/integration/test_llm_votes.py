"""The rivals of `experiments/llm_votes`: their gradients, and what they find in simulated votes."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rivals():
    path = ROOT / "experiments" / "llm_votes" / "rivals.py"
    spec = importlib.util.spec_from_file_location("llm_votes_rivals", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def votes(rivals):
    """6,000 votes of three judges on five models, by Davidson's model."""
    rng = np.random.default_rng(0)
    n, strengths = 6000, np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    first = rng.integers(0, 5, n)
    second = (first + rng.integers(1, 5, n)) % 5
    judge = rng.integers(0, 3, n)
    lead = np.array([0.5, 1.0, 2.0])[judge] * (strengths[first] - strengths[second]) + 0.4
    weights = np.exp(np.column_stack([lead / 2, np.array([-1.0, 0.0, 1.0])[judge], -lead / 2]))
    shares = np.cumsum(weights / weights.sum(1, keepdims=True), axis=1)
    outcome = (rng.random(n)[:, None] > shares).sum(1)
    return rivals.Votes(first, second, judge, outcome, np.arange(n), 5, 3)


def test_gradients_are_those_of_differences(rivals, votes):
    rivals.check(votes)


def test_what_made_the_votes_is_found(rivals, votes):
    rival = rivals.Rival(True, 10.0, {"scale": 10.0, "tie": 10.0})
    x = rival.fit(votes)
    scales, ties = np.exp(x[7:10]), x[6] + x[10:13]
    np.testing.assert_allclose(scales / scales[1], [0.5, 1.0, 2.0], rtol=0.15)
    np.testing.assert_allclose(ties, [-1.0, 0.0, 1.0], atol=0.15)
    assert x[5] == pytest.approx(0.4, abs=0.1)
    assert not x[13:].any()  # without a lean of each judge


def test_errors_are_over_tasks(rivals):
    ours, theirs = np.array([1.0, 1.0, 0.0, 0.0, np.nan]), np.zeros(5)
    mean, error = rivals.paired(ours, theirs, np.array([7, 7, 8, 8, 8]))
    assert mean == 0.5
    assert error == pytest.approx(0.5)  # two tasks of means 1 and 0: sd .71 over root two
