"""`metrics.json` of a dozen kinds of fit: no key goes, and values stay what they were."""

from __future__ import annotations

import json

import pytest

from tests.golden_metrics import GOLDEN, KINDS, QUICK, differences, figures_of


@pytest.mark.parametrize(
    "kind",
    [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_figures_are_what_they_were(kind: str) -> None:
    golden = json.loads((GOLDEN / f"{kind}.json").read_text())
    assert not list(differences(figures_of(kind), golden))
