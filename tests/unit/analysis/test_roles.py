"""A new table is read by the columns that a model has learned from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.roles import ROLES

ITEMS = pd.DataFrame({"item_id": list("abcdef"), "x": [0.1, 1.3, -0.7, 0.4, -1.6, 0.9]})
# By role, the column that says it in training.
CALLED = {
    "judge": "annotator",
    "person": "who",
    "date": "day",
    "count": "times",
    "weight": "share",
    "grade": "how",
    "block": "session",
}
LEARNING: dict[str, dict[str, Any]] = {
    "judge": {"groups": "annotator"},
    "person": {"person": "who"},
    "date": {"time": "day"},
    "count": {"counts": "times"},
    "weight": {"weights": "share"},
    "grade": {"grade": "how"},
    "block": {},
}


def _table(seed: int, role: str) -> pd.DataFrame:
    rng, t = np.random.default_rng(seed), 16
    first = rng.integers(0, 6, t)
    second = (first + rng.integers(1, 6, t)) % 6
    said: dict[str, Any] = {
        "judge": rng.choice(["ann", "bob"], t),
        "person": rng.choice(["cy", "di"], t),
        "date": 18_000 + 50 * seed + np.sort(rng.integers(0, 40, t)),
        "count": rng.integers(1, 5, t),
        "weight": rng.uniform(0.2, 3.0, t),
        "grade": rng.choice([-1, 0, 1, 2], t),
        "block": np.repeat(["s", "t", "u", "v"], t // 4),
    }
    ids = ITEMS["item_id"].to_numpy()
    return pd.DataFrame({"winner": ids[first], "loser": ids[second], CALLED[role]: said[role]})


@lru_cache
def _model(role: str) -> spg.PreferenceGP:
    old = _table(0, role)
    table = spg.read_duels(ITEMS, old, **LEARNING[role])
    kernel, more = gpflow.kernels.SquaredExponential(1.5), dict[str, Any]()
    if role == "judge":
        more = {"likelihood": spg.Probit(by="judge")}
    elif role == "person":
        more = {"terms": [spg.Taste(gpflow.kernels.Linear(0.7))]}
    elif role == "date":
        kernel += spg.ItemInTime(spg.markov.Wiener(0.5))
    elif role == "grade":
        more = {"likelihood": spg.Probit(margin=0.3)}
    elif role == "block":
        points = np.array([[-1.0], [0.0], [1.0]])
        more = {"approximation": spg.PITC(old["session"]), "inducing_variable": points}
    model = spg.PreferenceGP(table.standardised(), kernel, **more)
    if role == "judge":
        model.likelihood.noise_ratio.assign([0.5, 2.0])
    return model


def _evaluated(role: str, table: pd.DataFrame, columns: Any = None) -> Any:
    return spg.evaluate(_model(role), table, columns=columns)


def _predicted(role: str, table: pd.DataFrame, columns: Any = None) -> Any:
    found = spg.predict(_model(role), table, columns=columns)
    return found[["probability", "difference", "sd"]].to_dict("list")


def _updated(role: str, table: pd.DataFrame, columns: Any = None) -> Any:
    _, report = spg.update(_model(role), table, columns=columns)
    return report.log_evidence, report.new_duels, report.continued_sites


DOORS: dict[str, Callable[..., Any]] = {
    "evaluate": _evaluated,
    "predict": _predicted,
    "update": _updated,
}
# Where what a role says is of account.
MATTERS = {
    "evaluate": {"judge", "person", "date", "count", "grade", "block"},
    "predict": {"judge", "person", "date"},
    "update": {*ROLES},
}
NEEDED = {"evaluate": {"date"}, "predict": set(), "update": {"judge", "person", "date", "block"}}


@pytest.mark.filterwarnings("ignore:These .* duels are equal", "ignore:.*count twice now")
@pytest.mark.filterwarnings("ignore:.*inducing values alone", "ignore:.*though the model has")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("role", ROLES)
def test_a_column_is_found_by_its_role_or_by_the_name_that_is_given(role: str, door: str) -> None:
    ask, new = DOORS[door], _table(1, role)
    known = _model(role).duels.roles[role]  # of blocks a reader knows nothing
    new = new.rename(columns={CALLED[role]: known})
    found, other = ask(role, new), new.rename(columns={known: "other"})
    if role == "weight" and door != "update":
        with pytest.raises(ValueError, match="The role 'weight' is not read of such a table"):
            ask(role, other, {role: "other"})
        return
    for key in (role, known):
        assert found == ask(role, other, {key: "other"})
    without = new.drop(columns=known)
    if role in NEEDED[door]:
        with pytest.raises(ValueError, match=f"{known}|dates"):
            ask(role, without)
    else:
        assert (found != ask(role, without)) == (role in MATTERS[door])


# What each door tells of a column that is not there.
TOLD = {
    "evaluate": {"judge": "noise", "person": "somebody", "grade": "won by its winner"},
    "predict": {"judge": "noise", "person": "somebody", "date": "the last date"},
}


@pytest.mark.filterwarnings("ignore:.*inducing values alone")
@pytest.mark.parametrize("door", TOLD)
@pytest.mark.parametrize("role", sorted({*ROLES} - {"date"}))
def test_a_column_that_is_not_there_is_told_once(role: str, door: str) -> None:
    without = _table(1, role).drop(columns=CALLED[role])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DOORS[door](role, without)
    said = [str(one.message) for one in caught if "though the model has" in str(one.message)]
    words = TOLD[door].get(role)
    assert len(said) == (words is not None)
    if words is not None:
        assert f"no column {CALLED[role]!r}" in said[0] and words in said[0]


def test_what_a_view_says_is_not_missing() -> None:
    pairs = pd.DataFrame({"first": ["a"], "second": ["b"]})
    with pytest.warns(UserWarning, match="no column 'day' .*of the last date"):
        spg.predict(_model("date"), pairs)
    views = _model("date").in_time.at(18_100.0), _model("person").of_person("cy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for view in views:
            spg.predict(view, pairs)
        spg.shares(_model("person"), ["a", "b"])


def test_what_a_model_remembers() -> None:
    assert spg.Duels(np.eye(2), [0], [1]).roles == {role: role for role in ROLES}
    for role in set(ROLES) - {"block"}:
        assert _model(role).duels.roles == {**{r: r for r in ROLES}, role: CALLED[role]}


# How training says what has a name.
NAMES: dict[str, dict[str, Any]] = {
    "home": {"covariates": ["home"]},
    "late": {"covariates": ["late"]},
    "surface": {"context": ["surface"]},
    "kind": {"labels": ["kind"], "covariates": ["late"]},
}


def _named_table(seed: int) -> pd.DataFrame:
    rng, t = np.random.default_rng(seed + 10), 16
    table = _table(seed, "judge").assign(late=rng.normal(size=t), kind=["s", "t"] * (t // 2))
    table = table.assign(surface=["clay", "clay", "grass", "grass"] * (t // 4))
    return table.assign(winner_home=rng.integers(0, 2, t), loser_home=rng.integers(0, 2, t))


@lru_cache
def _model_of_names(name: str) -> spg.PreferenceGP:
    terms = [spg.Lean("late", "kind")] if name == "kind" else []
    old = pd.concat([_named_table(seed) for seed in (0, 1)])
    duels = spg.read_duels(ITEMS, old, **NAMES[name])
    return spg.PreferenceGP(duels, gpflow.kernels.Linear(), terms=terms)


def _of_pairs(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns=lambda x: x.replace("winner", "first").replace("loser", "second"))


def _suggested(model: Any, table: pd.DataFrame, columns: Any) -> Any:
    pairs = _of_pairs(table).drop(columns="annotator")
    found = spg.suggest(model, pairs=pairs, batch=3, columns=columns).frame
    return found.to_dict("list")


def _streamed(model: Any, table: pd.DataFrame, columns: Any, folder: Path) -> Any:
    table.to_parquet(folder / "new.parquet", index=False)
    return spg.evaluate(model, str(folder), columns=columns)


@pytest.mark.filterwarnings("ignore:.* duels are equal", "ignore:.*count twice now")
@pytest.mark.filterwarnings("ignore:.*count as 0 in what is suggested")
@pytest.mark.parametrize("door", ["evaluate", "predict", "update", "suggest", "stream"])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_training_may_be_keys(name: str, door: str, tmp_path: Path) -> None:
    doors: dict[str, Callable[..., Any]] = {
        "evaluate": lambda model, table, columns: spg.evaluate(model, table, columns=columns),
        "predict": lambda model, table, columns: list(
            spg.predict(model, _of_pairs(table), columns=columns)["probability"]
        ),
        "update": lambda *asked: spg.update(*asked[:2], columns=asked[2])[0].log_evidence(),
        "suggest": _suggested,
        "stream": lambda *asked: _streamed(*asked, tmp_path),
    }
    ask, model, new = doors[door], _model_of_names(name), _named_table(1)
    # Whatever else is called so here says nothing.
    wrong = new.rename(columns=lambda x: x.replace(name, "other")).assign(**{name: 1.0})
    columns = {name: "other"}
    assert ask(model, new, None) == ask(model, wrong, columns)
    with pytest.raises(ValueError, match=rf"column of {name} is 'nowhere'.*--columns"):
        ask(model, new, {name: "nowhere"})
    if door in ("evaluate", "stream") and name != "surface":
        lacking = new.drop(columns=[x for x in new if name in x])
        with pytest.warns(
            UserWarning, match=f"no column '{name}'.*(model has learned|covariate of the model)"
        ):
            assert ask(model, lacking, None) != ask(model, new, None)


def test_names_may_be_swapped_and_pairs_keep_their_columns() -> None:
    model, new = _model_of_names("kind"), _of_pairs(_named_table(1))
    swapped = new.rename(columns={"late": "kind", "kind": "late"})
    found = spg.predict(model, swapped, columns={"late": "kind", "kind": "late"})
    assert found["probability"].tolist() == spg.predict(model, new)["probability"].tolist()
    assert found[swapped.columns].equals(swapped)


def test_covariates_of_sets_by_another_name() -> None:
    model = _model_of_names("late")
    table = pd.DataFrame({"choice_set": [1, 1, 1, 2, 2, 2], "item_id": list("abcdef")})
    table = table.assign(late=[0.5, -1.0, 0.2, 0.1, 2.0, 0.0], chosen=[1, 0, 0, 0, 1, 0])
    renamed, columns = table.rename(columns={"late": "when"}), {"late": "when"}
    assert spg.evaluate(model, choices=table) == spg.evaluate(
        model, choices=renamed, columns=columns
    )
    shares = [spg.shares(model, table), spg.shares(model, renamed, columns=columns)]
    assert shares[0].frame["share"].tolist() == shares[1].frame["share"].tolist()
    assert "when" in shares[1].frame


@pytest.mark.parametrize("columns", [{"umpire": "x"}, {"judge": "x"}, {"person": "winner"}])
def test_refusals(columns: dict[str, str]) -> None:
    role, column = next(iter(columns.items()))
    with pytest.raises(ValueError, match=rf"{role}.*--columns") as caught:
        spg.evaluate(_model("judge"), _table(1, "judge"), columns=columns)
    assert role == "umpire" or column in str(caught.value)


def test_duels_say_themselves() -> None:
    duels = spg.read_duels(ITEMS, _table(1, "judge"), groups="annotator")
    with pytest.raises(ValueError, match="themselves and columns of roles"):
        spg.evaluate(_model("judge"), duels, columns={"judge": "annotator"})


def test_a_saved_model_remembers_and_so_do_later_ones(tmp_path: Path) -> None:
    later, _ = spg.update(_model("judge"), _table(1, "judge"))
    for model in (_model("judge"), later):
        spg.save(model, tmp_path / "saved")
        assert spg.load(tmp_path / "saved").duels.roles["judge"] == "annotator"


def test_labels_that_lean_follow_the_judges() -> None:
    old, new = (_table(seed, "judge").assign(side=[1, -1] * 8) for seed in (0, 1))
    said = {"groups": "annotator", "labels": ["annotator"], "covariates": ["side"]}
    duels = spg.read_duels(ITEMS, old, **said)
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(),
        terms=[spg.Lean("side", "annotator")],
        likelihood=spg.Probit(by="judge"),
    )
    renamed = new.rename(columns={"annotator": "rater"})
    assert spg.evaluate(model, new) == spg.evaluate(model, renamed, columns={"judge": "rater"})


def test_of_streams(tmp_path: Path) -> None:
    old, new = _table(0, "judge"), _table(1, "judge").assign(times=[1, 2] * 8)
    stream = spg.stream_duels(spg.read_duels(ITEMS, old, groups="annotator"))
    model = spg.StreamedGP(
        stream,
        gpflow.kernels.Linear(),
        inducing_variable=np.array([[-1.0], [1.0]]),
        likelihood=spg.Probit(by="judge"),
    )
    model.likelihood.noise_ratio.assign([0.5, 2.0])
    assert model.duels.roles["judge"] == "annotator"
    (tmp_path / "a").mkdir()
    new.rename(columns={"times": "count"}).to_parquet(tmp_path / "a" / "new.parquet")
    (tmp_path / "b").mkdir()
    new.rename(columns={"annotator": "rater"}).to_parquet(tmp_path / "b" / "new.parquet")
    columns = {"judge": "rater", "count": "times"}
    found = [
        spg.evaluate(model, tmp_path / "a"),
        spg.evaluate(model, tmp_path / "b", columns=columns),
    ]
    assert found[0] == found[1]


def test_of_sets() -> None:
    model = _model("judge")
    table = pd.DataFrame({"option_1": ["a", "b"], "option_2": ["c", "d"], "option_3": ["e", "f"]})
    table = table.assign(chosen=["a", "d"], rater=["ann", "bob"], count=[1, 3])
    learned = table.rename(columns={"rater": "annotator"})
    columns = {"judge": "rater"}
    assert spg.evaluate(model, choices=table, columns=columns) == spg.evaluate(
        model, choices=learned
    )
    alone = table[["option_1", "option_2", "option_3", "rater"]]
    found = spg.shares(model, alone, columns=columns).frame["share"]
    other = spg.shares(model, learned.drop(columns=["chosen", "count"])).frame["share"]
    assert found.tolist() == other.tolist()
    with pytest.raises(ValueError, match="The role 'block' is not read of such a table"):
        spg.evaluate(model, choices=table, columns={"block": "rater"})


def test_of_somebody_new() -> None:
    mine = _table(1, "person").assign(who="eve")
    items = spg.rank(spg.meet(_model("person"), mine), rng=np.random.default_rng(0)).frame
    renamed = mine.rename(columns={"who": "name"})
    met = spg.meet(_model("person"), renamed, columns={"person": "name"})
    assert items.equals(spg.rank(met, rng=np.random.default_rng(0)).frame)
    with pytest.raises(ValueError, match="duels are of 2 people"):
        spg.meet(_model("person"), _table(1, "person"))


def test_columns_that_a_table_in_chunks_is_read_without_are_told(tmp_path: Path) -> None:
    _table(1, "person").to_parquet(tmp_path / "new.parquet", index=False)
    with pytest.warns(UserWarning, match=r"'who' of .*, the person of each answer, is not read"):
        spg.evaluate(_model("person"), str(tmp_path), items=ITEMS)
    with pytest.raises(ValueError, match=r"role 'person' is not read of such a table .* judge"):
        spg.evaluate(_model("person"), str(tmp_path), items=ITEMS, columns={"person": "who"})
    _table(1, "block").to_parquet(tmp_path / "new.parquet", index=False)
    with pytest.warns(UserWarning, match="duels that are read in chunks join no block"):
        spg.evaluate(_model("block"), str(tmp_path), items=ITEMS)


@pytest.mark.parametrize("columns", ["judge=rater", [("judge", "rater")]])
def test_columns_are_a_mapping(columns: Any) -> None:
    with pytest.raises(ValueError, match=r"columns is of type .*; give columns by their roles"):
        spg.evaluate(_model("judge"), _table(1, "judge"), columns=columns)


@pytest.mark.parametrize(("role", "more"), [("person", {"person": "cy"}), ("date", {"at": 18_100})])
def test_what_is_stated_is_not_asked_of_the_table(role: str, more: dict[str, Any]) -> None:
    """Nor is anything told of its column, whatever that holds."""
    pairs = pd.DataFrame({"first": ["a"], "second": ["b"]})
    expected = spg.predict(_model(role), pairs, **more)["probability"]
    said = pairs.assign(**{CALLED[role]: [None]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = spg.predict(_model(role), said, columns={role: "none"}, **more)
    assert found["probability"].tolist() == expected.tolist()
    with pytest.raises(ValueError, match="columns is of type str; give columns by their roles"):
        spg.predict(_model(role), pairs, columns=f"{role}=x")
