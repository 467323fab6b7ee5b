"""`fit --person`: with and without tastes, for known and for new people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.workflow.holdout import predict_held_out, prepare
from sparse_prefgp.workflow.settings import FitSettings
from tests.together import refused

N, PEOPLE, EACH = 10, 24, 8
SMALL: dict[str, Any] = {"kernel": "se", "person": "who", "max_iterations": 12}


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N, 2))
    utility = x[:, 0] + 2.5 * rng.normal(size=(PEOPLE, 1)) * x[:, 1]
    rows = []
    for u in range(PEOPLE):
        for _ in range(EACH):
            pair = rng.choice(N, 2, replace=False)
            rows.append((*pair[np.argsort(-utility[u, pair])], f"p{u}"))
    items = pd.DataFrame(x, columns=["a", "b"])
    items.insert(0, "item_id", range(N))
    return items, pd.DataFrame(rows, columns=["winner", "loser", "who"])


@pytest.mark.slow
def test_known_and_new_people_with_and_without_tastes(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    found = spg.fit(*tables, out=tmp_path / "fit", **SMALL)
    assert found.model.terms.taste is not None
    assert found.model.terms.taste.kernels[0].variance.prior is not None  # `begin_tastes`
    names = ["model", "one_utility", "linear_probit", "coin"]
    parts = found.figures["held_out_people"]
    assert list(parts) == ["known_people", "new_people"]
    whole = found.figures["held_out"]
    for scores in (whole, *parts.values()):
        assert list(scores) == names
    assert sum(part["model"]["duels"] for part in parts.values()) == whole["model"]["duels"]
    known = parts["known_people"]
    assert known["model"]["nlp_nats"] < known["one_utility"]["nlp_nats"] - 0.05
    told = json.loads((tmp_path / "fit" / "metrics.json").read_text())
    assert 0.0 < told["people"]["share"]["of_squares"] < 1.0
    assert set(told["people"]["variances"]) == {"SquaredExponential", "ItemEffect"}
    assert told["people"]["number"] == len(found.model.people.names) == PEOPLE - 2
    assert told["fit_alike"]["log_evidence"] < told["fit"]["log_evidence"]
    frame = pd.read_csv(tmp_path / "fit" / "people.csv")
    assert len(frame) == PEOPLE - 2 and frame["comparisons"].between(1, EACH).all()
    pictures = {path.stem for path in (tmp_path / "fit" / "pictures").iterdir()}
    assert {"tastes", "person"} <= pictures


def test_whoever_cannot_be_told_apart_has_no_taste(
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    items, duels = tables
    settings = FitSettings(kernel="se", tastes=True)
    alone = duels.assign(who=[f"q{i}" for i in range(len(duels))])
    with pytest.warns(UserWarning, match="1 training duels each on average, fewer than 2"):
        found = prepare(spg.read_duels(items, alone, person="who"), settings)
    assert not found.settings.tastes
    one = spg.read_duels(items, duels.assign(who="Ann"), person="who")
    with pytest.warns(UserWarning, match="All training duels are those of 'Ann'"):
        assert not prepare(one, settings).settings.tastes
    either = pd.DataFrame({"winner": [0, 1, 2, 1], "loser": [1, 0, 1, 2], "who": "odd"})
    mixed = spg.read_duels(items, pd.concat([duels, either]), person="who")
    with pytest.warns(UserWarning, match="1 of 25 people, 'odd' among them, preferred either side"):
        assert prepare(mixed, settings).settings.tastes
    both = spg.read_duels(items, duels.assign(judge=duels["who"]), person="who", groups="judge")
    noisy = FitSettings(kernel="se", tastes=True, noise_by_group=True)
    with pytest.warns(UserWarning, match="Each person has a noise and a taste"):
        assert prepare(both, noisy).settings.tastes
    with refused("tastes", "duels_of_nobody"):
        prepare(spg.read_duels(items, duels, ignore=["who"]), settings)


@pytest.mark.slow
def test_new_people_are_predicted_by_their_features(
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    items, duels = tables
    rng = np.random.default_rng(4)
    rng.normal(size=(N, 2))
    slope = rng.normal(size=PEOPLE)  # on the second feature of items, which moves utilities by it
    about = pd.DataFrame({"person_id": [f"p{u}" for u in range(PEOPLE)], "slope": slope})
    held = {}
    for name, people in (("nothing", None), ("slope", about)):
        table = spg.read_duels(items, duels, person="who", people=people)
        holdout = prepare(table, FitSettings(kernel="se", tastes=True))
        model = holdout.model(None)
        assert (model.terms.by_features is None) == (people is None)
        model.kernel.variance.assign(3.0)
        model.terms.taste.kernels[0].variance.assign(0.5)
        if people is not None:
            model.terms.by_features.assign(3.0)
            refitted = holdout.of_everything().model(None, model.kernel, None, model.terms)
            after, before = (m.duels.people_features for m in (refitted, model))
            np.testing.assert_array_equal(
                after.of(model.people.names), before.of(model.people.names)
            )
        found = predict_held_out(holdout, model).part_scores()
        held[name] = {part: scores["model"]["nlp_nats"] for part, scores in found.items()}
    assert held["slope"]["new_people"] < held["nothing"]["new_people"] - 0.1
    assert held["slope"]["known_people"] < held["nothing"]["known_people"]


@pytest.mark.slow
def test_choices_of_people(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    items, _ = tables
    rng = np.random.default_rng(5)
    x = items[["a", "b"]].to_numpy()
    utility = x[:, 0] + 2.5 * rng.normal(size=(PEOPLE, 1)) * x[:, 1]
    rows = []
    for number in range(PEOPLE * EACH):
        u, some = number % PEOPLE, rng.choice(N, 3, replace=False)
        best = some[utility[u, some].argmax()]
        rows += [(number, f"p{u}", i, int(i == best)) for i in some]
    columns = ["choice_set", "who", "item_id", "chosen"]
    found = spg.fit(items, choices=pd.DataFrame(rows, columns=columns), **SMALL)
    parts = found.figures["held_out_people"]
    known = parts["known_people"]["choices"]
    assert known["model"]["nlp_nats"] < known["one_utility"]["nlp_nats"] - 0.05
    total = sum(part["choices"]["model"]["choices"] for part in parts.values())
    assert total == found.figures["held_out"]["choices"]["model"]["choices"]
