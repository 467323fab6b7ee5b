"""Draws of the exact posterior where people have tastes of their own."""

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.sampling import exact_problem
from sparse_prefgp.sampling.target import exact_target
from tests.tolerances import MONTE_CARLO_STANDARD_ERRORS, PARTS, SOLVER

ITEMS = np.random.default_rng(4).normal(size=(5, 2))


def model_of(duels: spg.Duels) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(0.8),
        terms=[spg.Taste(gpflow.kernels.SquaredExponential(2.0) + spg.ItemEffect(0.4))],
        approximation=spg.Exact(),
        engine=spg.ParallelEP(tolerance=SOLVER),
    )


def test_rows_that_name_the_person_have_the_evidence_of_blocks():
    rng = np.random.default_rng(0)
    winners = rng.integers(5, size=14)
    losers = (winners + rng.integers(1, 5, size=14)) % 5
    model = model_of(spg.Duels(ITEMS, winners, losers, people=rng.integers(4, size=14)))
    assert exact_target(exact_problem(model)).log_evidence == pytest.approx(
        model.log_evidence(), abs=PARTS
    )


def test_one_duel_is_known_exactly():
    """The posterior of a single z is matched, so that draws differ by chance alone."""
    model = model_of(spg.Duels(ITEMS, [0], [1], people=["Ann"]))
    first, second = model.inputs.of_items([0, 0, 2]), model.inputs.of_items([1, 1, 3])
    check = spg.check_against_sampling(
        model,
        first,
        second,
        rng=np.random.default_rng(1),
        num_draws=500,
        people=["Ann", None, "Ann"],
    )
    for part in (check.own, check.new):
        for figure in (part.mean, part.sd):
            assert (
                figure.largest
                < MONTE_CARLO_STANDARD_ERRORS * np.sqrt(3.0) * figure.monte_carlo + PARTS
            )
    own = check.draws.difference(first, second, ["Ann", None, "Ann"])
    # Of somebody else the duel says less.
    assert own.mean[0] > 2.0 * own.mean[1] > 0.0
    assert check.own.pairs == 1 and check.new.pairs == 3
