"""An answer that is given twice is one that counts twice, wherever equal ones are merged."""

from __future__ import annotations

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers, Codes
from tests.tolerances import EVIDENCE, SOLVER

RNG = np.random.default_rng(0)
ITEMS = RNG.normal(size=(6, 2))
TABLE = pd.DataFrame(ITEMS, columns=["x", "y"]).assign(item_id=np.arange(6))
SHOWN = RNG.permuted(np.tile(np.arange(6), (6, 1)), axis=1)[:, :4]
FRAME = pd.DataFrame(SHOWN, columns=[f"option_{j}" for j in range(1, 5)]).assign(
    best=SHOWN[:, 0], worst=SHOWN[:, 3]
)
RANKS = pd.DataFrame(SHOWN, columns=[f"rank_{j}" for j in range(1, 5)])
CHOICES = pd.DataFrame(
    [
        {"choice_set": k, "item_id": i, "chosen": int(j == 0)}
        for k, shown in enumerate(SHOWN)
        for j, i in enumerate(shown)
    ]
)
KINDS: dict[str, spg.Duels] = {
    "duels": spg.Duels(ITEMS, SHOWN[:, 0], SHOWN[:, 1]),
    "choices": spg.read_choices(TABLE, CHOICES),
    "rankings": spg.read_rankings(TABLE, RANKS),
    "two looks": spg.read_best_worst(TABLE, FRAME),
    "one look": spg.read_best_worst(TABLE, FRAME, at_once=True),
}


def both(kind: str) -> tuple[spg.Duels, spg.Duels]:
    """Every second answer given twice, and with counts of two."""
    given = KINDS[kind].given
    some = np.arange(len(given)) % 2 == 0

    def of(events: Answers) -> spg.Duels:
        return spg.Duels.from_events(KINDS[kind].items, events)

    return of(given.followed_by(given.take(some))), of(given.saying(counts=1 + some))


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    ends = RNG.permuted(np.tile(np.arange(6), (20, 1)), axis=1)[:, :2]
    return spg.PreferenceGP(
        spg.Duels(ITEMS, *ends.T, people=np.arange(20) % 3),
        gpflow.kernels.SquaredExponential(),
        terms=[spg.Taste(gpflow.kernels.SquaredExponential(0.5))],
        approximation=spg.Exact(),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.covering(every=8)
def test_somebody_who_is_met(model: spg.PreferenceGP, kind: str) -> None:
    found = [model.meet(duels).predict_f(ITEMS) for duels in both(kind)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=EVIDENCE, atol=EVIDENCE)


@pytest.mark.covering("VFE()-one look", "Exact()-choices")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC()], ids=repr)
def test_a_model_of_somebody(approximation: spg.Approximation, kind: str) -> None:
    values = []
    for duels in both(kind):
        more = {"inducing_variable": ITEMS[:3]} if approximation.needs_inducing else {}
        every = duels.given.saying(person=Codes.of(["somebody"] * len(duels.given)))
        values.append(
            spg.PreferenceGP(
                spg.Duels.from_events(duels.items, every),
                gpflow.kernels.SquaredExponential(),
                terms=[spg.Taste(gpflow.kernels.SquaredExponential(0.5))],
                approximation=approximation,
                engine=spg.ParallelEP(tolerance=SOLVER),
                **more,
            ).log_evidence()
        )
    assert values[0] == pytest.approx(values[1], abs=EVIDENCE)
