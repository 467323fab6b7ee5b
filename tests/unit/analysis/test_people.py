"""What is said of people with tastes, and doors to one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.meeting import meet
from sparse_prefgp.analysis.people import _curvature, people, seen_by, taste_share
from sparse_prefgp.learning.tastes import begin_tastes
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.preference_gp import copied
from sparse_prefgp.workflow.fit_telling import people_sentences
from tests.together import refused
from tests.tolerances import IDENTITY

N, PEOPLE, EACH = 8, 5, 9


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(N, 2))
    utility = x[:, 0] + rng.normal(size=(PEOPLE, 1)) * x[:, 1] * 2.0
    rows = []
    for u in range(PEOPLE):
        for _ in range(EACH):
            pair = rng.choice(N, 2, replace=False)
            won, lost = pair[np.argsort(-utility[u, pair])]
            rows.append((f"i{won}", f"i{lost}", f"p{u}"))
    items = pd.DataFrame(x, columns=["a", "b"])
    items.insert(0, "item_id", [f"i{i}" for i in range(N)])
    return items, pd.DataFrame(rows, columns=["winner", "loser", "who"])


@pytest.fixture(scope="module")
def model(tables: tuple[pd.DataFrame, pd.DataFrame]) -> spg.PreferenceGP:
    """At the maximum of evidence and priors, all variances being learned."""
    found = spg.PreferenceGP(
        spg.read_duels(*tables, person="who"),
        gpflow.kernels.SquaredExponential(),
        terms=[spg.Taste(gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.1))],
        approximation=spg.Exact(),
    )
    for kernel in (found.kernel, found.terms.taste.kernels[0]):
        gpflow.set_trainable(kernel.lengthscales, False)
    spg.default_priors(found)
    begin_tastes(found)
    spg.optimise(found, 50)
    return found


def cache_of_one(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    kept: list[np.ndarray] = []

    def once(*given: object) -> np.ndarray:
        if not kept:
            kept.append(function(*given))
        return kept[0]

    return once


def variances(model: spg.PreferenceGP) -> np.ndarray:
    """Of the taste, its effects, and what is shared."""
    return np.array([part.variance.numpy() for part in (*model.terms.taste.kernels, model.kernel)])


@pytest.mark.slow
def test_the_share_that_is_personal(
    model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Six evaluations, once.
    monkeypatch.setattr("sparse_prefgp.analysis.people._curvature", cache_of_one(_curvature))
    found, before = taste_share(model), variances(model)
    x = model.duels.items
    first, second = np.triu_indices(N, 1)
    alike = 2.0 - 2.0 * np.exp(-0.5 * np.sum((x[first] - x[second]) ** 2, 1))
    own = before[0] * alike.mean() + 2.0 * before[1]
    mean, covariance = (v.numpy() for v in model.predict_f(model.inputs.of_items(), full_cov=True))
    steps = np.eye(N)[first] - np.eye(N)[second]
    squares = (steps @ mean)[:, 0] ** 2 + np.sum((steps @ covariance[0]) * steps, 1)
    assert found.share == pytest.approx(own / (own + squares.mean()), abs=0.02)  # draws
    assert 0.0 < found.lower < found.share < found.upper < 1.0
    wider = taste_share(model, 0.99)
    assert wider.lower < found.lower and wider.upper > found.upper
    np.testing.assert_allclose(variances(model), before, rtol=1e-12)


def test_a_mixture_predicts_as_before_after_its_share(model: spg.PreferenceGP) -> None:
    """Variances come back to the bit, not through a transform and back."""
    other = copied(model)
    other.kernel.variance.assign(1.3 * other.kernel.variance)
    mixture = IntegratedGP(model, [copied(model), other], np.array([0.7, 0.3]))
    before = mixture.predict_f(model.duels.items)[0]
    taste_share(mixture)
    np.testing.assert_array_equal(mixture.predict_f(model.duels.items)[0], before)


@pytest.mark.slow
def test_the_curvature_is_that_of_the_loss(model: spg.PreferenceGP) -> None:
    """Against second differences of the loss itself, along logs of the variances."""
    parts = [*model.terms.taste.kernels, model.kernel]
    found, at = _curvature(model, parts), np.log(variances(model))

    def loss(logs: np.ndarray) -> float:
        for part, value in zip(parts, np.exp(logs), strict=True):
            part.variance.assign(value)
        return float(model.training_loss())

    h, eye = 0.05, np.eye(3)
    corners = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]
    expected = [
        [
            sum(a * b * loss(at + h * (a * eye[i] + b * eye[j])) for a, b in corners)
            / (4.0 * h * h)
            for j in range(3)
        ]
        for i in range(3)
    ]
    loss(at)
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_who_is_furthest_from_all(model: spg.PreferenceGP) -> None:
    frame = people(model)
    assert sorted(frame["person"]) == [f"p{u}" for u in range(PEOPLE)]
    assert (frame["comparisons"] == EACH).all()
    assert (np.diff(frame["distance"]) <= 0.0).all()
    name = frame["person"].iloc[0]
    view = model.of_person(name)
    inputs = model.inputs.of_items()
    shared, own = (m.predict_f(inputs)[0].numpy()[:, 0] for m in (model, view))
    beyond = own - shared
    beyond -= beyond.mean()
    assert frame["distance"].iloc[0] == pytest.approx(np.sqrt(np.mean(beyond**2)), rel=1e-9)
    assert frame["agreement"].iloc[0] == pytest.approx(np.corrcoef(own, shared)[0, 1], rel=1e-9)
    assert frame["likes_more"].iloc[0] == f"i{beyond.argmax()}"
    assert frame["likes_less"].iloc[0] == f"i{beyond.argmin()}"


def test_answers_for_a_person(
    model: spg.PreferenceGP, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    pairs = tables[1].rename(columns={"winner": "first", "loser": "second"})
    own = spg.predict(model, pairs)["probability"].to_numpy()
    nobody = spg.predict(model, pairs[["first", "second"]])["probability"].to_numpy()
    ann = spg.predict(model, pairs, person="p3")["probability"].to_numpy()
    x = model.inputs.of_items()
    rows = [pairs[side].str[1:].astype(int).to_numpy() for side in ("first", "second")]
    sides = [x[r] for r in rows]
    for found, who in ((own, pairs["who"]), (ann, "p3"), (nobody, None)):
        expected = model.predict_duel(*sides, people=who).numpy()
        np.testing.assert_allclose(found, expected, atol=IDENTITY)
    ranked = spg.rank(model, person="p3").frame
    expected = model.of_person("p3").predict_f(x)[0].numpy()[:, 0]
    by_id = dict(zip(ranked["item_id"], ranked["utility"], strict=True))
    found = np.array([by_id[f"i{i}"] for i in range(N)])
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-8)
    told = spg.explain(model, "i0", "i1", person="p3")
    assert told.difference == pytest.approx(expected[0] - expected[1], rel=1e-9)
    asked = spg.suggest(model, person="p3", batch=2, rng=np.random.default_rng(0))
    assert len(asked.frame) == 2
    with pytest.raises(ValueError, match="person 'Zoe' is unknown to the model"):
        spg.rank(model, person="Zoe")
    plain = spg.PreferenceGP(model.duels, gpflow.kernels.SquaredExponential())
    with refused("one_utility", "people"):
        seen_by(plain, "p3")


def test_meeting_somebody_from_a_table(
    model: spg.PreferenceGP, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    duels = tables[1].iloc[:6][["winner", "loser"]]
    view = meet(model, duels)
    won, lost = (duels[side].str[1:].astype(int) for side in ("winner", "loser"))
    same = model.meet(spg.Duels(model.duels.items, won, lost))
    x = model.inputs.of_items()
    for found, expected in zip(view.predict_f(x), same.predict_f(x), strict=True):
        np.testing.assert_allclose(found, expected, atol=IDENTITY)
    new = pd.DataFrame({"item_id": ["i0", "new"], "a": [tables[0]["a"][0], 1.0], "b": [0.2, 0.1]})
    new.loc[0, "b"] = tables[0]["b"][0]
    more = pd.concat([duels, pd.DataFrame({"winner": ["new"], "loser": ["i0"]})])
    again = meet(model, more, new)
    z = spg.read_items(new, model)
    before, after = (m.predict_duel(z[1:], z[:1]).numpy()[0] for m in (view, again))
    assert after > before  # the new item has won
    with pytest.raises(ValueError, match="one is met at a time"):
        meet(model, tables[1])
    ranked = pd.DataFrame(
        {"ranking": [0, 0, 1, 1], "item_id": ["i3", "i1", "i0", "i4"], "rank": [1, 2, 1, 2]}
    )
    pairs = pd.DataFrame({"winner": ["i3", "i0"], "loser": ["i1", "i4"]})
    for found, expected in zip(
        meet(model, rankings=ranked).predict_f(x), meet(model, pairs).predict_f(x), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=IDENTITY)
    with pytest.raises(ValueError, match="duels and rankings were given"):
        meet(model, pairs, rankings=ranked)
    with pytest.raises(ValueError, match="none was given"):
        meet(model)


def test_pictures_of_people(model: spg.PreferenceGP) -> None:
    found = spg.plotting.tastes(model)
    assert "5 people" in found.get_title(loc="left")
    assert len(found.lines[0].get_xdata()) == PEOPLE
    drawn = spg.plotting.person(model, "p1")
    assert "p1" in drawn.get_ylabel()
    assert spg.plotting.person(model, None).get_ylabel().startswith("utility for nobody yet")


def test_words_on_people() -> None:
    share = {"of_squares": 0.42, "level": 0.9, "lower": 0.31, "upper": 0.55}
    far = [{"person": "Ann", "agreement": -0.3}, {"person": "Bo", "agreement": None}]
    each = {"min": 2, "mean": 3.0, "max": 1500}
    told = {"share": share, "duels_each": each, "number": 1200, "furthest": far}
    lines = people_sentences({**told, "variances": {"Matern52": 1.5, "ItemEffect": 0.25}})
    assert lines == [
        "Of what is preferred, 42 % is personal (90 % interval 31 to 55 %); 1,200 people, 2 to "
        "1,500 duels each.",
        "Variances of tastes: Matern52 1.5, ItemEffect 0.25.",
        "Furthest from what all prefer: Ann (agreement -0.30), Bo.",
    ]
    assert people_sentences(None) == []
