"""The rigorous lower bound of answers about sets: its figures, its parts, and that it is one."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import BEST_WORST, BEST_WORST_AT_ONCE, CHOICE, RANKING, TOP, WIN
from sparse_prefgp.evidence import lower_bounds
from sparse_prefgp.factors.sites import Sites
from tests.reference.slow_lower_bound import slow_set_bounds
from tests.reference.slow_sets import rows_of
from tests.tolerances import IDENTITY
from tests.unit.models.test_sets import CASES, OF_SETS, model_of, sets

# Section 4 of the formulas has these, of exact EP's q; the last is loose as D << N at little noise.
PUBLISHED = {
    "three_choices_of_4": -3.552,
    "two_rankings_of_4": -5.962,
    "ranking_of_6_and_duels": -10.007,
}
NAMES = [name for name in OF_SETS if name != "best_and_worst_shared_noise"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering(every=4)
def test_below_the_truth_of_the_cases(name: str) -> None:
    model, truth = model_of(CASES[name]), CASES[name]["truth"]
    found = model.lower_bound()
    assert found < truth["log_evidence"] - 5.0 * truth["standard_error"]
    if name in PUBLISHED:
        assert round(found, 3) == PUBLISHED[name]
    else:  # nearly certified
        assert found > truth["log_evidence"] - 0.2


KINDS = [CHOICE, RANKING, TOP, BEST_WORST, BEST_WORST_AT_ONCE, WIN]
SAID = [
    ("choice", [0, 1, 2], 0),
    ("ranking", [3, 2, 0], 0),
    ("top", [4, 1, 0, 2], 2),
    ("best_worst", [2, 3, 4], 0),
    ("best_worst_at_once", [5, 3, 4], 0),
    ("choice", [5, 0], 0),
]
ITEMS = np.sort(np.random.default_rng(3).uniform(size=(6, 2)), 0)  # rows keep their order
SLOPE = np.array([0.8, -0.5])
Z = ITEMS[[0, 2, 5]] + 0.1


def mixed(approximation: spg.Approximation, **more: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels.from_events(ITEMS, sets(KINDS, [sides for _, sides, _ in SAID], **more)),
        gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6]),
        approximation=approximation,
        inducing_variable=Z if approximation.needs_inducing else None,
        noise_variance=0.3,
        mean_function=gpflow.functions.Linear(SLOPE[:, None], [0.1]),
    )


@pytest.mark.parametrize(
    "approximation",
    [spg.Exact(), spg.VFE(), spg.FITC(), spg.PITC(["a", "a", "b", "b", "c", "c"])],
    ids=repr,
)
@pytest.mark.covering(every=4)
def test_against_dense_matrices(approximation: spg.Approximation) -> None:
    """For sites that are no fixed point of anything."""
    model = mixed(approximation)
    graph = model.graph
    np.testing.assert_array_equal(graph.rows, ITEMS)

    def sites_of(better: np.ndarray, worse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return -0.2 - 0.1 * better, 0.3 + 0.2 * worse

    sites = Sites(*map(tf.constant, sites_of(graph.winners, graph.losers)))
    found = lower_bounds(model.problem(), sites)
    a, _, n = rows_of(6, SAID)
    kernel = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6])
    k, explained = kernel(ITEMS).numpy(), None
    if approximation.needs_inducing:
        related = kernel(ITEMS, Z).numpy()
        explained = related @ np.linalg.solve(kernel(Z).numpy(), related.T)
    nu, tau = sites_of(np.argmin(a, 1), np.argmax(a, 1))
    expected = slow_set_bounds(a, 0.3 * n, k, explained, nu, tau, -a @ ITEMS @ SLOPE)
    assert set(found.rows) == set(expected)
    for row, value in expected.items():
        assert found.rows[row] == pytest.approx(value, rel=IDENTITY), row


def test_bounds_are_in_order_below_the_truth() -> None:
    """TightVFE's by EP and the rigorous ones, for every q."""
    truth = float(mixed(spg.Exact()).log_evidence())  # EP is .01 off here
    for approximation in (spg.DTC(), spg.VFE(), spg.FITC(), spg.PITC(["a"] * 3 + ["b"] * 3)):
        found = mixed(approximation).lower_bounds()
        rows = found.rows
        assert rows["diagonal"] < rows["block"] < rows["logdet"] < truth
        assert rows["rank"] < rows["logdet"] and rows["expected"] < truth
        assert found.value == max(rows.values()) and found.kl > 0.0


def test_a_subset_and_copies() -> None:
    """Copies have noises of their own; what a subset leaves out is answered about f alone."""
    counts = np.array([2, 1, 1, 3, 1, 2])
    whole = mixed(spg.Exact(), counts=counts)
    exact = whole.lower_bound()
    assert exact < float(whole.log_evidence())
    apart = np.repeat(np.arange(6), counts)
    given = whole.duels.events
    single = given.take(apart).saying(counts=None)
    copies = spg.PreferenceGP(
        spg.Duels.from_events(ITEMS, single),
        whole.kernel,
        approximation=spg.Exact(),
        noise_variance=0.3,
        mean_function=whole.mean_function,
    )
    assert copies.lower_bound() == pytest.approx(exact, rel=IDENTITY)
    subset = mixed(spg.SubsetOfData(4), counts=counts)
    assert subset.lower_bounds().rows.keys() == {"expected"}
    assert subset.lower_bound() < exact


def test_rows_without_noise_of_their_own_have_none() -> None:
    case = CASES["best_and_worst_shared_noise"]
    for model in (
        model_of(case),
        model_of(case, approximation=spg.VFE(), inducing_variable=np.array(case["X"][:3])),
    ):
        with pytest.raises(ValueError, match="no rigorous lower bound for answers of best"):
            model.lower_bound()
