"""What a resumed run must have in common with the one before."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.checkpoint import identify
from sparse_prefgp.workflow.finished import fingerprints_of
from sparse_prefgp.workflow.folds import plan_folds

RNG = np.random.default_rng(0)
ITEMS = RNG.normal(size=(6, 2))
SIDES = np.array([RNG.choice(6, 2, replace=False) for _ in range(30)]).T
SAID = RNG.normal(size=(30, 1))
LEVELS = RNG.choice([-2, -1, 1, 2], 30)


def duels(**more: Any) -> spg.Duels:
    if "item" in more:
        return spg.Duels.from_events(ITEMS, spg.Duels(ITEMS, *SIDES).events, **more)
    return spg.Duels(ITEMS, *SIDES, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"covariates": SAID}, {"covariates": -SAID}),
        ({"weights": np.full(30, 0.5)}, {}),
        ({"item": [0, 1, 2, 3, 4, 4]}, {}),
    ],
)
def test_another_comparison_has_another_fingerprint(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    found = []
    for given in (one, one, other):
        plan = plan_folds(duels(**given), 3, "duels", np.random.default_rng(0), None)
        found.append(fingerprints_of(plan, ["same"])["duels"])
    assert found[0] == found[1] != found[2]


def test_another_fit_has_another_fingerprint() -> None:
    """With grades all levels but the last have the same limits."""
    found = []
    for levels in (LEVELS, LEVELS, np.where(LEVELS == 2, 1, LEVELS)):
        data = duels(grades=levels, levels=["--", "-", "=", "+", "++"])
        model = spg.PreferenceGP(data, gpflow.kernels.Linear(), likelihood=spg.Probit(margin=0.3))
        found.append(identify(model, {})[0]["duels"])
    assert found[0] == found[1] != found[2]
