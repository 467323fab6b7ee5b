"""What a fit chooses by itself, by how many features there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.covariances.item_effect import MAX_ITEM_EFFECTS
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.workflow import automatic as automatic_module
from sparse_prefgp.workflow.automatic import (
    MOST_EFFECTS,
    automatic_candidates,
    linear_if_as_good,
    settled,
    split_within,
)
from sparse_prefgp.workflow.holdout import prepare
from sparse_prefgp.workflow.model_names import DEFAULT_KERNEL
from sparse_prefgp.workflow.settings import FitSettings


def table(
    width: int, items: int = 80, duels: int = 200, vector: bool = False, factors: int = 0
) -> spg.Duels:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(items, width))
    if factors:
        x = 0.1 * x + rng.normal(size=(items, factors)) @ rng.normal(size=(factors, width))
    columns = {"v": list(x)} if vector else {f"x{j}": x[:, j] for j in range(width)}
    ids = [f"i{k}" for k in range(items)]
    pairs = np.array([rng.choice(items, 2, replace=False) for _ in range(duels)])
    said = pd.DataFrame(np.array(ids)[pairs], columns=["winner", "loser"])
    return spg.read_duels(pd.DataFrame({"item_id": ids, **columns}), said)


@pytest.mark.parametrize(
    ("width", "vector", "kernel"),
    [
        (16, False, None),
        (17, False, "linear+ard(matern52)"),
        (64, False, "linear+ard(matern52)"),
        (65, False, "auto"),
        (3, True, "auto"),
    ],
)
def test_the_kernel_of_a_fit_goes_by_the_features(
    width: int, vector: bool, kernel: str | None
) -> None:
    assert settled(table(width, vector=vector), FitSettings()).kernel == kernel
    assert settled(table(width, vector=vector), FitSettings(kernel="se")).kernel == "se"
    if kernel == "linear+ard(matern52)":  # in chunks each lengthscale would cost passes
        in_chunks = settled(table(width), FitSettings(stream=True)).kernel
        assert in_chunks == "linear+iso(matern52)"


def test_the_kernel_for_vectors_needs_no_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(3, vector=True)
    monkeypatch.setattr(spg.Duels, "transform_of", None)  # takes seconds for large vectors
    assert settled(made, FitSettings()).kernel == "auto"


def test_streams_of_many_features_have_one_lengthscale() -> None:
    settings = FitSettings(stream=True)
    assert settled(table(100, vector=True), settings).kernel == "linear+iso(matern52)"
    assert settled(table(5), settings).kernel is None


def names(made: spg.Duels, **options: Any) -> list[str]:
    return [str(candidate) for candidate in automatic_candidates(made, **options)]


def test_candidates_of_reduced_features() -> None:
    assert names(table(100, vector=True)) == [
        "linear/vfe",
        "iso(matern52)/prior-power:0.5",
        "projected(matern52, 4)/vfe",
    ]
    assert names(table(100, 80, 900, vector=True, factors=6))[1:] == [
        "iso(matern52, 6)/prior-power:0.5",
        "projected(matern52, 4, 6)+item/vfe",
        "item/exact",
    ]
    assert names(table(2, vector=True))[2] == "projected(matern52, 2)/vfe"
    assert names(table(100, vector=True), approximation="fitc")[1] == "iso(matern52)/fitc"


def test_candidates_of_many_features_begin_with_one_lengthscale() -> None:
    found = names(table(20, items=400))
    assert "linear+ard(matern52)/exact" in found and "linear/exact" in found
    assert not any("additive" in name or "+matern52" in name for name in found)


def test_effects_of_items_are_tried_where_these_have_many_votes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST_EFFECTS == MAX_ITEM_EFFECTS
    assert "item/exact" not in names(table(3, 80, 800))
    voted = table(3, 80, 801)
    assert {"item/exact", "linear+matern52+item/exact"} <= {*names(voted)}
    assert {"item/exact", "linear+matern52+item/fitc"} <= {*names(voted, approximation="fitc")}
    monkeypatch.setattr(automatic_module, "EXACT_ITEMS", 10)
    of_items = [name for name in names(voted) if "item" in name]
    assert of_items == ["linear+matern52+item/vfe", "item/exact"]
    assert [name for name in names(voted, inducing=8) if "item" in name] == [
        "linear+matern52+item/vfe/8"
    ]
    monkeypatch.setattr(automatic_module, "EXACT_TOO_ITEMS", 79)
    assert [name for name in names(voted) if "item" in name] == ["linear+matern52+item/vfe"]
    monkeypatch.setattr(automatic_module, "MOST_EFFECTS", 79)
    assert not any("item" in name for name in names(voted))


@pytest.mark.parametrize(
    ("width", "vector", "answers"), [(3, False, 200), (20, False, 200), (3, True, 200)]
)
def test_the_simple_rival_is_a_candidate(width: int, vector: bool, answers: int) -> None:
    made = table(width, 80, answers, vector)
    assert "linear" in {one.kernel for one in automatic_candidates(made)}
    assert "linear" in {one.kernel for one in automatic_candidates(choices(40, 2))}


@pytest.mark.parametrize(("new", "split"), [(True, "items"), (False, "duels")])
def test_a_column_that_holds_out_new_items_is_followed_by_items(new: bool, split: str) -> None:
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(900)])
    held = (pairs >= 45).all(1) if new else np.arange(900) % 5 == 0
    kept = held | (pairs < 45).all(1)
    said = pd.DataFrame(pairs, columns=["winner", "loser"]).assign(held=held.astype(int))[kept]
    items = pd.DataFrame({"item_id": range(60), "x": rng.normal(size=60)})
    made = spg.read_duels(items, said, never_features=["held"])
    settings = FitSettings(split="given:held")
    outer = split_duels(made, settings.split, 0.2, rng)
    train = made.select(outer.train_rows)
    assert split_within(made, outer, train, settings) == split
    assert split_within(made, outer, train, FitSettings(split="time:held")) == "time:held"


@pytest.mark.slow
def test_a_fit_of_vectors_chooses_on_held_out_items() -> None:
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(300, 3))
    vectors = hidden @ rng.normal(size=(3, 80)) + 0.1 * rng.normal(size=(300, 80))
    utility = 2.0 * np.sin(2.0 * hidden[:, 0])
    pairs = np.array([rng.choice(300, 2, replace=False) for _ in range(3000)])
    ahead = utility[pairs[:, 0]] - utility[pairs[:, 1]] + rng.normal(size=3000) > 0.0
    duels = np.where(ahead[:, None], pairs, pairs[:, ::-1])
    items = pd.DataFrame({"item_id": range(300), "v": list(vectors)})
    found = spg.fit(
        items, pd.DataFrame(duels, columns=["winner", "loser"]), split="items", max_iterations=30
    )
    chosen = found.figures["automatic"]
    assert "over 240 items" in chosen["description"]
    assert found.settings.kernel.startswith("projected(matern52")
    scores = found.figures["held_out"]
    assert scores["model"]["nlp_nats"] < scores["linear_probit"]["nlp_nats"] - 0.05
    assert all(one["reliability"] for one in chosen["candidates"])


def choices(people: int, each: int) -> spg.Duels:
    """Choices of one in three by people of known age; of fewer ages than 20 where people are."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(people), 3 * each)
    frame = pd.DataFrame(
        {
            "choice_set": np.repeat(np.arange(people * each), 3),
            "chosen": np.tile([0, 1, 0], people * each),
            "price": rng.normal(size=len(person)),
            "age": 20 + person,
        }
    )
    return spg.read(frame, features=["price", "age"])


@pytest.mark.parametrize(
    ("people", "each", "remembered"), [(130, 3, 130), (390, 1, 0), (10, 40, 0)]
)
def test_what_remembers_people_is_not_chosen_by_itself(
    people: int, each: int, remembered: int
) -> None:
    found = choices(people, each)
    assert found.described_people == remembered
    names = {one.approximation for one in automatic_candidates(found)}
    assert ("fitc" in names) == (not remembered) and "vfe" in names
    asked = FitSettings(kernel="linear", approximation="fitc", inducing=4)
    if remembered:
        with pytest.warns(UserWarning, match="fitc remembers the 130 people whose 'age' both"):
            prepare(found, asked)
    else:
        prepare(found, asked)


@pytest.mark.slow
@pytest.mark.parametrize(("listed", "chosen"), [(("vfe", "fitc"), "vfe"), (("fitc",), "fitc")])
def test_a_comparison_says_what_remembers_people(listed: tuple[str, ...], chosen: str) -> None:
    found = spg.compare(
        [f"iso(se)/{name}/4" for name in listed], choices(20, 4), folds=2, max_iterations=1
    )
    assert found.chosen is not None and found.chosen.approximation == chosen
    (note,) = [note for note in found.notes if "remembers" in note]
    assert note.startswith("iso(se)/fitc/4 may predict the 20 people well")


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.covering("True")
def test_the_linear_kernel_is_taken_where_it_is_as_good(bent: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(16, 2))
    utility = x @ [0.8, -0.5] + (np.sin(3.0 * x[:, 0]) if bent else 0.0)
    pairs = np.array([rng.choice(16, 2, replace=False) for _ in range(2_100)])
    ahead = (utility[pairs] @ [1.0, -1.0] + rng.normal(size=len(pairs)) > 0)[:, None]
    duels = np.where(ahead, pairs, pairs[:, ::-1])
    options = {"test_fraction": 0.0, "integrate": "no"}
    fitted = spg.fit(x, duels, **options)
    other = spg.fit(x, duels, kernel=DEFAULT_KERNEL if not bent else "linear", **options)
    found, evidence = fitted.figures["next_to_linear"], fitted.report.log_evidence
    gain = (evidence - other.report.log_evidence) * (1.0 if bent else -1.0)
    assert found["gain"] == pytest.approx(gain, abs=1e-3) and found["parameters"] == 3
    assert found["linear_taken"] == (not bent) == (gain < 3.0)
    kernel = DEFAULT_KERNEL if bent else "linear"
    assert fitted.figures["fit"]["kernel"] == str(fitted.settings.kernel_choice) == kernel
    assert any("linear was taken" in note for note in fitted.notes) == (not bent)
    assert "next_to_linear" not in other.figures


@pytest.mark.parametrize(
    ("approximation", "converged", "events", "taste"),
    [
        ("vfe", False, 3000.0, None),
        ("vfe", True, 1999.0, None),
        ("vfe", True, 3000.0, "tastes"),
        ("fitc", True, 3000.0, None),
    ],
)
def test_no_linear_kernel_next_to_fits_that_do_not_tell(
    monkeypatch: pytest.MonkeyPatch,
    approximation: str,
    converged: bool,
    events: float,
    taste: str | None,
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(automatic_module, "fit_model", never)
    holdout: Any = SimpleNamespace(settings=FitSettings(approximation=approximation))
    graph, terms = SimpleNamespace(weight=events), SimpleNamespace(taste=taste)
    model: Any = SimpleNamespace(graph=graph, terms=terms)
    report: Any = SimpleNamespace(converged=converged)
    found = linear_if_as_good(holdout, model, report, None)
    assert (found.holdout, found.model, found.told) == (holdout, model, {})
