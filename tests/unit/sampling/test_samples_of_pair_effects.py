"""Draws given duels with effects of pairs: the truth of the case."""

from __future__ import annotations

import math

import numpy as np

from sparse_prefgp.analysis.importance import importance_sampling
from sparse_prefgp.sampling.diagnostics import standard_error
from sparse_prefgp.sampling.draws import sample_posterior
from tests.unit.models.test_pair_effects import CASE, model_of

OF_THE_CASES = 5.0  # standard errors


def test_evidence_and_means_of_the_case() -> None:
    model, truth = model_of(), CASE["truth"]
    found = importance_sampling(model, 20_000, np.random.default_rng(1))
    error = math.hypot(found.standard_error, truth["standard_error"])
    assert abs(found.log_evidence - truth["log_evidence"]) < OF_THE_CASES * error
    assert found.standard_error < 0.003
    draws = sample_posterior(model, 2000, np.random.default_rng(0))
    assert draws.converged
    utilities = draws.utilities(np.random.default_rng(2), np.array(CASE["test_X"]))
    errors = np.hypot(standard_error(utilities), truth["mean_standard_error"])
    assert np.max(np.abs(utilities.mean((0, 1)) - truth["mean"]) / errors) < OF_THE_CASES
