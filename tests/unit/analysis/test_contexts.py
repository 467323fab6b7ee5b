"""Items stay items in whatever context or state they are met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.contexts import contexts_at
from tests.reference.slow_boards import averages
from tests.together import refused
from tests.tolerances import ROUNDING

NAMES = [f"i{k}" for k in range(6)]
ITEMS = pd.DataFrame({"item_id": NAMES, "size": [0.3, -1.1, 0.8, 1.9, -0.4, 0.3]})
RNG = np.random.default_rng(5)
PAIRS = [RNG.choice(6, 2, replace=False) for _ in range(40)]
HOME = RNG.integers(0, 2, 40)
DUELS = pd.DataFrame(
    {
        "winner": [NAMES[a] for a, _ in PAIRS],
        "loser": [NAMES[b] for _, b in PAIRS],
        "surface": np.where(RNG.random(40) < 0.3, "clay", "grass"),
        "winner_home": HOME,
        "loser_home": 1 - HOME,
    }
)


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.Matern52(lengthscales=1.3) + spg.ItemEffect(variance=0.5)


def in_contexts() -> spg.PreferenceGP:
    duels = spg.read_duels(ITEMS, DUELS, context=["surface", "home"])
    return spg.PreferenceGP(duels, kernel(), approximation=spg.Exact())


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return in_contexts()


def raw(model: spg.PreferenceGP, rows: list[tuple[str, str, int]]) -> Any:
    """Inputs of items in contexts, by hand."""
    sizes = dict(zip(ITEMS["item_id"], ITEMS["size"], strict=True))
    frame = pd.DataFrame(
        {"size": [sizes[n] for n, _, _ in rows], "surface": [s for _, s, _ in rows]}
    ).assign(home=[h for _, _, h in rows])
    assert model.duels.transform is not None
    return np.column_stack(
        [model.duels.transform.apply(frame), [NAMES.index(n) for n, _, _ in rows]]
    )


def everywhere(places: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    return [(name, *place) for name in NAMES for place in places]


def seen() -> dict[tuple[str, int], int]:
    """How often each context occurs among the sides of the duels."""
    count: dict[tuple[str, int], int] = {}
    for _, row in DUELS.iterrows():
        for home in (row["winner_home"], row["loser_home"]):
            count[row["surface"], home] = count.get((row["surface"], home), 0) + 1
    return count


def test_an_item_has_one_effect_in_all_its_contexts(model: spg.PreferenceGP) -> None:
    numbers = model.inputs.of_items()[:, -1]
    rows = model.duels.item_rows
    assert rows is not None and rows.shared == ("surface",) and len(rows) > len(NAMES)
    for name, number in zip(rows.names, numbers, strict=True):
        assert number == NAMES.index(name)


@pytest.mark.parametrize(
    ("at", "places"),
    [
        ((), None),
        ("surface=clay", [("clay", 0), ("clay", 1)]),
        ({"surface": "grass", "home": 1}, [("grass", 1)]),
        (["surface=clay,home=0", "surface=grass"], [("clay", 0), ("grass", 0), ("grass", 1)]),
    ],
)
def test_a_ranking_is_of_items(model: spg.PreferenceGP, at: Any, places: Any) -> None:
    counts = seen()
    places = list(counts) if places is None else places
    share = np.array([counts[place] for place in places], dtype=float)
    mean, covariance = model.predict_f(raw(model, everywhere(places)), full_cov=True)
    weights = np.kron(np.eye(len(NAMES)), share / share.sum())
    utility, sd = averages(mean.numpy()[:, 0], covariance.numpy()[0], weights)
    frame = spg.rank(model, at=at).frame.set_index("item_id").loc[NAMES]
    np.testing.assert_allclose(frame["utility"], utility, atol=1e-9)
    np.testing.assert_allclose(frame["sd"], sd, atol=1e-9)
    # Each item's duels are those in the contexts that it is ranked in.
    there = [
        row[side]
        for _, row in DUELS.iterrows()
        for side in ("winner", "loser")
        if (row["surface"], row[f"{side}_home"]) in places
    ]
    assert frame["comparisons"].to_dict() == {name: there.count(name) for name in NAMES}


def test_new_items_along_with_the_models_own(model: spg.PreferenceGP) -> None:
    new = pd.DataFrame({"item_id": ["new"], "size": [0.3]})
    alone, both, own = (
        spg.rank(model, *given, samples=100, **more).frame.set_index("item_id")
        for given, more in (((new,), {}), ((new,), {"with_own": True}), ((), {}))
    )
    assert list(alone.index) == ["new"] and set(both.index) == {"new", *NAMES}
    gaps = both["utility"].loc[NAMES] - own["utility"].loc[NAMES]
    np.testing.assert_allclose(gaps, gaps.iloc[0], atol=1e-9)  # another average
    assert both["comparisons"].drop("new").equals(own["comparisons"].loc[both.index.drop("new")])


def test_each_item_in_each_context(model: spg.PreferenceGP) -> None:
    frame = spg.rank(model, at="each").frame
    assert len(frame) == len(NAMES) * len(seen())
    assert "i0 @ surface=clay, home=1" in set(frame["item_id"])


def test_in_each_context_utilities_are_relative_to_those_met_there(
    model: spg.PreferenceGP,
) -> None:
    """Home and away meet, clay and grass do not."""
    places = list(seen())
    rows = everywhere(places)
    mean, covariance = model.predict_f(raw(model, rows), full_cov=True)
    surface = np.array([s for _, s, _ in rows])
    together = surface[:, None] == surface
    less = np.eye(len(rows)) - together / together.sum(1, keepdims=True)
    ranking = spg.rank(model, at="each", candidates=len(rows))
    names = [f"{n} @ surface={s}, home={h}" for n, s, h in rows]
    frame = ranking.frame.set_index("item_id").loc[names]
    np.testing.assert_allclose(frame["utility"], less @ mean.numpy()[:, 0], atol=1e-9)
    joint = less @ covariance.numpy()[0] @ less.T
    np.testing.assert_allclose(frame["sd"], np.sqrt(np.diag(joint)), atol=1e-9)
    draws = np.random.default_rng(0).multivariate_normal(
        frame["utility"], joint, 20_000, method="eigh"
    )
    share = np.bincount(draws.argmax(1), minlength=len(rows)) / len(draws)
    np.testing.assert_allclose(frame["p_best"], share, atol=5 * ranking.standard_error)
    assert any("in the same context" in note for note in ranking.sentences())


def test_predictions_read_the_context_by_its_columns(model: spg.PreferenceGP) -> None:
    pairs = pd.DataFrame({"first": ["i0", "i3"], "second": ["i1", "i2"], "surface": "clay"})
    pairs = pairs.assign(first_home=[1, 0], second_home=[0, 1])
    found = spg.predict(model, pairs)
    ahead = raw(model, [("i0", "clay", 1), ("i3", "clay", 0)])
    behind = raw(model, [("i1", "clay", 0), ("i2", "clay", 1)])
    np.testing.assert_allclose(
        found["probability"], model.predict_duel(ahead, behind), rtol=ROUNDING
    )
    assert list(found["first"]) == ["i0", "i3"]
    with pytest.raises(ValueError, match=r"'surface' \(--context\), but the pairs frame has no"):
        spg.predict(model, pairs.drop(columns="surface"))
    with pytest.raises(ValueError, match=r"'home' \(--context\).*'first_home' and 'second_home'"):
        spg.predict(model, pairs.drop(columns="first_home"))
    with pytest.raises(ValueError, match="'surface' has no value in row 1"):
        spg.predict(model, pairs.assign(surface=["clay", None]))


def test_items_of_a_table_are_put_into_contexts(model: spg.PreferenceGP) -> None:
    new = pd.DataFrame({"item_id": ["i0", "new"], "size": [0.3, 0.7]})
    pairs = pd.DataFrame({"first": ["new"], "second": ["i0"], "surface": "clay"})
    pairs = pairs.assign(first_home=1, second_home=0)
    behind = raw(model, [("i0", "clay", 0)])
    frame = pd.DataFrame({"size": [0.7], "surface": ["clay"], "home": [1]})
    assert model.duels.transform is not None
    ahead = np.column_stack([model.duels.transform.apply(frame), [-1.0]])
    found = spg.predict(model, pairs, new)
    np.testing.assert_allclose(found["probability"], model.predict_duel(ahead, behind), rtol=1e-9)
    assert set(spg.rank(model, new).frame["item_id"]) == {"i0", "new"}


def test_a_context_of_each_side_is_not_read_from_the_duel(model: spg.PreferenceGP) -> None:
    """Where a table happens to have a column of that name, too."""
    told = spg.evaluate(model, DUELS)["held_out"]["model"]
    with_another = spg.evaluate(model, DUELS.assign(home=1))["held_out"]["model"]
    assert told == with_another


def test_pairs_that_met_elsewhere_have_met(model: spg.PreferenceGP) -> None:
    """Every pair of these was compared, though not on both surfaces."""
    turned = DUELS.assign(surface=np.where(DUELS["surface"] == "clay", "grass", "clay"))
    assert spg.evaluate(model, turned)["held_out_unseen_pairs"] == {}


def test_the_model_is_saved_with_its_contexts(model: spg.PreferenceGP, tmp_path: Path) -> None:
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    pd.testing.assert_frame_equal(spg.rank(again).frame, spg.rank(model).frame)


def test_evaluation_and_update_read_the_same_tables(model: spg.PreferenceGP) -> None:
    scores = spg.evaluate(model, DUELS, rng=np.random.default_rng(0))
    assert scores["held_out"]["model"]["duels"] == len(DUELS)
    duels = model.duels
    won, lost = (model.inputs.of_items(side) for side in (duels.winners, duels.losers))
    nats = -(duels.counts * np.log(model.predict_duel(won, lost))).sum() / len(DUELS)
    assert scores["held_out"]["model"]["nlp_nats"] == pytest.approx(nats, abs=1e-9)

    new = pd.DataFrame({"item_id": ["new"], "size": [0.7]})
    more = DUELS.head(3).assign(loser="new")
    updated, report = spg.update(model, more, new)
    both = spg.read_duels(
        pd.concat([ITEMS, new]), pd.concat([DUELS, more]), context=["surface", "home"]
    )
    assert report.new_duels == 3 and both.num_items == updated.duels.num_items
    assert (report.new_items, report.items) == (1, 7)  # in however many contexts
    rows = updated.duels.item_rows
    assert rows is not None and set(rows.names) == {*NAMES, "new"}
    names = {}
    for name, number in zip(rows.names, updated.duels.item, strict=True):
        assert names.setdefault(name, number) == number
    assert len(set(names.values())) == len(names)
    with pytest.raises(ValueError, match=r"against itself|with itself"):
        spg.update(model, DUELS.head(1).assign(loser=DUELS["winner"].iloc[0]))


def test_the_first_ones_are_items_whatever_the_context(model: spg.PreferenceGP) -> None:
    with refused("settle", "contexts"):
        spg.suggest(model, pairs=DUELS, score="settle", top=2)
    known = spg.settled(model, top=2)
    found = spg.suggest(model, score="settle", top=2, batch=4)
    assert [*found.frame.columns[:3]] == ["first", "second", "score"]
    assert "averages over" in str(found) and "as if a vote were on that" in " ".join(
        str(found).split()
    )
    pairs = {frozenset(row) for row in known.frame[["first", "second"]].itertuples(index=False)}
    apart = known.frame.set_index(["first", "second"])["difference"].to_dict()
    for row in found.frame.itertuples():
        assert {row.first, row.second} <= set(NAMES)
        one, other = (row.first, row.second), (row.second, row.first)
        if frozenset(one) in pairs:
            expected = apart[one] if one in apart else -apart[other]
            assert row.difference == pytest.approx(expected, rel=1e-9)
    assert any(frozenset((row.first, row.second)) in pairs for row in found.frame.itertuples())
    some = spg.suggest(model, score="settle", top=2, at=f"surface={DUELS['surface'].iloc[0]}")
    assert len(some.frame) == 1


@pytest.mark.parametrize("score", ["bald", "eubo", "thompson"])
@pytest.mark.covering(every=3)
def test_suggested_duels_can_occur(model: spg.PreferenceGP, score: str) -> None:
    found = spg.asking.suggest(
        model, batch=6, score=score, max_pairs=60, rng=np.random.default_rng(1)
    ).frame
    assert set(found["first"]) | set(found["second"]) <= set(NAMES)
    assert (found["first"] != found["second"]).all()
    together = {
        (row["surface"], *sorted((str(row["winner_home"]), str(row["loser_home"]))))
        for _, row in DUELS.iterrows()
    }
    for _, row in found.iterrows():
        assert (row["surface"], *sorted((row["first_home"], row["second_home"]))) in together
    again = spg.predict(model, found[["first", "second", "surface", "first_home", "second_home"]])
    np.testing.assert_allclose(again["probability"], found["probability"], rtol=1e-9)
    only = spg.asking.suggest(
        model, batch=2, score=score, at="surface=clay", rng=np.random.default_rng(1)
    ).frame
    assert set(only["surface"]) == {"clay"}


def test_an_explanation_in_a_context(model: spg.PreferenceGP) -> None:
    at = "surface=clay,first_home=1,second_home=0"
    found = spg.explain(model, "i0", "i3", at=at)
    pair = raw(model, [("i0", "clay", 1), ("i3", "clay", 0)])
    assert found.probability == pytest.approx(float(model.predict_duel(pair[:1], pair[1:])[0]))
    assert set(found.frame["feature"]) == {"size", "surface", "home", "item effect"}
    with pytest.raises(ValueError, match="'surface'"):
        spg.explain(model, "i0", "i3")


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("surface=ice", "No duel of the model has surface=ice; choose from clay, grass"),
        ("court=1", "knows no context 'court'; it knows 'surface', 'home'"),
        ("clay", "not of the form"),
        (["each", "surface=clay"], "give it alone"),
    ],
)
def test_places_that_are_none(model: spg.PreferenceGP, at: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.rank(model, at=at)


def test_a_model_without_contexts_has_no_places() -> None:
    duels = spg.read_duels(ITEMS, DUELS[["winner", "loser"]])
    plain = spg.PreferenceGP(duels, kernel(), approximation=spg.Exact())
    with refused("context", "no_contexts"):
        contexts_at(plain, ["surface=clay"])
    with refused("context", "no_contexts"):
        spg.rank(plain, at="surface=clay")


# ---- states ------------------------------------------------------------------------------------

STATES = pd.DataFrame(
    {
        "item_id": range(9),
        "player": ["Ann", "Ben", "Ann", "Cy", "Ben", "Ann", "Cy", "Ben", "Dee"],
        "age": [20.0, 25.0, 21.0, 30.0, 26.0, 22.0, 31.0, 27.0, 19.0],
    }
)
MET = pd.DataFrame({"winner": [0, 2, 2, 3, 5, 5, 4, 8], "loser": [1, 3, 4, 1, 6, 7, 6, 5]})


def states() -> spg.PreferenceGP:
    duels = spg.read_duels(STATES, MET, item="player")
    return spg.PreferenceGP(
        duels, kernel(), approximation=spg.FITC(), inducing_variable=[[-1.0], [0.0], [1.0]]
    )


def test_an_item_with_several_rows_has_one_effect_and_place() -> None:
    model = states()
    assert model.duels.feature_names == ("age",)
    assert list(model.inputs.of_items()[:, -1]) == [0, 1, 0, 2, 1, 0, 2, 1, 3]
    players = ["Ann", "Ben", "Cy", "Dee"]
    mean, covariance = model.predict_f(model.inputs.of_items(), full_cov=True)
    counts = np.bincount(MET.to_numpy().ravel(), minlength=9).astype(float)
    owner = STATES["player"].map(players.index).to_numpy()
    weights = (np.arange(4)[:, None] == owner) * counts
    last = np.zeros((4, 9))
    last[np.arange(4), [5, 7, 6, 8]] = 1.0
    for at, share in (((), weights / weights.sum(1, keepdims=True)), ("last", last)):
        utility, sd = averages(mean.numpy()[:, 0], covariance.numpy()[0], share)
        frame = spg.rank(model, at=at).frame.set_index("item_id").loc[players]
        np.testing.assert_allclose(frame["utility"], utility, atol=1e-9)
        np.testing.assert_allclose(frame["sd"], sd, atol=1e-9)
        assert list(frame["comparisons"]) == [6, 5, 4, 1]
    assert len(spg.rank(model, at="each").frame) == len(STATES)


def test_item_columns_that_are_none() -> None:
    with pytest.raises(ValueError, match="item column is 'name'; choose from"):
        spg.read_duels(STATES, MET, item="name")
    gap = STATES.assign(player=[*STATES["player"][:-1], None])
    with pytest.raises(ValueError, match="player"):
        spg.read_duels(gap, MET, item="player")


def test_items_known_by_their_contexts_alone() -> None:
    duels = spg.read_duels(None, DUELS, context=["home"])
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear() + spg.ItemEffect(),
        approximation=spg.FITC(),
        inducing_variable=[[0.5]],
    )
    assert sorted(spg.rank(model).frame["item_id"]) == NAMES


@pytest.mark.slow
def test_a_fit_says_what_its_rows_are_of() -> None:
    found = spg.fit(ITEMS, DUELS, context=("surface", "home"), kernel="linear", max_iterations=2)
    data = found.figures["data"]
    assert data["items"] == len(NAMES) and data["contexts"] == ["surface", "home"]
    assert data["rows_of_items"] > len(NAMES) and data["item_column"] is None
    assert data["covariates"] == []


def test_a_summary_counts_items_not_rows(model: spg.PreferenceGP) -> None:
    said = model.duels.summary()
    assert (said.num_items, said.num_rows) == (len(NAMES), model.duels.num_items)
    assert said.num_rows > said.num_items and said.items_never_compared == 0
    assert f"6 ({said.num_rows} rows in contexts or states" in dict(said.rows())["items (n)"]
