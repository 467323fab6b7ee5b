"""New answers about sets for a model: the posterior of a fresh one, sites that go on."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.updating import continued_sites, update
from tests.together import apart
from tests.tolerances import EVIDENCE, FIXED_POINT, SOLVER

RNG = np.random.default_rng(5)
N, OLD = 12, 9
ITEMS = pd.DataFrame({"item_id": [f"i{k}" for k in range(N)], "size": RNG.normal(size=N)})
ITEMS["weight"] = RNG.normal(size=N)


def ranked(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(
        [[f"i{k}" for k in row] for row in rows], columns=["rank_1", "rank_2", "rank_3"]
    )


SHOWN = np.array([RNG.permutation(OLD)[:3] for _ in range(14)])
FIRST = ranked(SHOWN)
# One again, so that there are two copies; others with new items.
MORE = ranked([SHOWN[0], [10, 3, 1], [2, 11, 9], [4, 2, 0]])
OPTION_OF = {f"rank_{k}": f"option_{k}" for k in (1, 2, 3)}
APPROXIMATIONS = {"exact": spg.Exact(), "vfe": spg.VFE(), "fitc": spg.FITC(), "pitc": spg.PITC(3)}


def build(approximation: spg.Approximation, duels: spg.Duels, **more: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(lengthscales=[0.8, 1.1]),
        approximation=approximation,
        inducing_variable=duels.items[:5] + 0.05 if approximation.needs_inducing else None,
        engine=spg.ParallelEP(tolerance=SOLVER, max_sweeps=300),
        **({"likelihood": spg.Probit(0.3)} | more),
    )


def same_as_afresh(updated: spg.PreferenceGP) -> None:
    z = updated.inducing_variable
    fresh = spg.PreferenceGP(
        updated.duels,
        updated.kernel,
        approximation=updated.approximation,
        inducing_variable=None if z is None else z.Z.numpy(),
        engine=updated.engine,
        noise_variance=0.3,
    )
    items = updated.inputs.of_items()
    for one, other in zip(updated.predict_f(items), fresh.predict_f(items), strict=True):
        np.testing.assert_allclose(one, other, atol=FIXED_POINT)
    np.testing.assert_allclose(updated.log_evidence(), fresh.log_evidence(), atol=EVIDENCE)


@pytest.mark.covering("vfe")
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_the_posterior_is_that_of_a_fresh_model(name: str) -> None:
    model = build(APPROXIMATIONS[name], spg.read_rankings(ITEMS.head(OLD), FIRST))
    model.infer()
    updated, report = update(model, None, ITEMS, rankings=MORE)
    same_as_afresh(updated)
    assert (report.new_duels, report.new_items, report.duels) == (4, 3, 18)
    # Over items copies share their sites; apart the copy of the first goes on from there too.
    apart = name in ("exact", "pitc")
    assert report.sites == 2 * (17 + apart)
    if name != "pitc":  # k-means finds other blocks
        assert report.continued_sites == 2 * (14 + apart)
    assert updated.duels.item_ids == tuple(ITEMS["item_id"])


def by_what_was_said(model: spg.PreferenceGP, nu: Any, tau: Any) -> dict[Any, set[Any]]:
    """Sites by the features of all alternatives of their answer and of their own two."""
    graph = model.graph
    rows = [tuple(row) for row in graph.rows]
    found: dict[Any, set[Any]] = {}
    for i, event in enumerate(graph.event):
        sides = tuple(rows[k] for k in graph.events.take([event]).sides)
        key = (sides, rows[graph.winners[i]], rows[graph.losers[i]])
        found.setdefault(key, set()).add((nu[i], tau[i]))
    return found


@pytest.mark.parametrize("kind", ["rankings", "choices"])
@pytest.mark.covering(every=2)
def test_each_site_goes_on_from_its_own_answer(kind: str) -> None:
    """Rows of items are others where new ones come between them."""
    frame, more = (
        table.rename(columns=OPTION_OF).assign(chosen=table["rank_1"])
        if kind == "choices"
        else table
        for table in (FIRST, MORE)
    )
    model = build(spg.VFE(), getattr(spg, f"read_{kind}")(ITEMS.head(OLD), frame))
    model.infer()
    updated, report = update(model, None, ITEMS, **{kind: more})
    nu, tau, continued = continued_sites(model, updated)
    assert continued == report.continued_sites == 2 * 14
    before = by_what_was_said(model, *model.inference.sites())
    after = by_what_was_said(updated, nu, tau)
    assert before.items() <= after.items()
    assert all(after[key] == {(0.0, 0.0)} for key in after.keys() - before.keys())


def test_duels_and_sets_join_each_other() -> None:
    model = build(spg.VFE(), spg.read_rankings(ITEMS, FIRST))
    duels = pd.DataFrame({"winner": ["i1", "i2"], "loser": ["i0", "i11"], "count": [2, 1]})
    updated, report = update(model, duels)
    assert report.new_duels == 3 and report.sites == 2 * 14 + 2
    same_as_afresh(updated)
    ordinary = build(spg.VFE(), spg.read_duels(ITEMS, duels))
    both, _ = update(ordinary, rankings=FIRST)
    np.testing.assert_allclose(
        both.predict_f(both.inputs.of_items())[0].numpy(),
        updated.predict_f(updated.inputs.of_items())[0].numpy(),
        atol=FIXED_POINT,
    )


def long_table(rows: list[list[int]], start: int) -> pd.DataFrame:
    """Alternatives by their features alone, of which the first was chosen."""
    said = []
    for number, row in enumerate(rows, start):
        for place, k in enumerate(row):
            size, weight = ITEMS["size"][k], ITEMS["weight"][k]
            said.append((number, int(place == 0), size, weight))
    return pd.DataFrame(said, columns=["choice_set", "chosen", "size", "weight"])


def test_alternatives_without_ids() -> None:
    model = build(spg.VFE(), spg.read_choices(None, long_table(SHOWN.tolist(), 0)))
    used = len(np.unique(SHOWN))
    assert model.duels.num_items == used
    new = [[10, 3, 1], [2, 11, 10]]
    updated, report = update(model, choices=long_table(new, 100))
    shown = {k for row in new for k in row}
    assert report.new_items == len(shown - set(SHOWN.ravel().tolist()))
    assert report.continued_sites == 2 * 14 and report.new_duels == 2
    same_as_afresh(updated)
    assert len(set(updated.duels.item_ids or range(used))) == updated.duels.num_items


def test_what_is_refused() -> None:
    model = build(spg.VFE(), spg.read_rankings(ITEMS, FIRST))
    blocks = build(spg.PITC(["a"] * 14), spg.read_rankings(ITEMS, FIRST))
    tied = spg.read_duels(ITEMS, pd.DataFrame({"winner": ["i1"], "loser": ["i0"], "tie": [1]}))
    with_ties = build(spg.VFE(), tied, likelihood=spg.Probit(0.3, margin=0.2))
    for words, one, more in (
        (r"Give one of duels \(--duels FILE, duels=\), choices .*none was given", model, {}),
        ("duels and rankings were given", model, {"duels": FIRST, "rankings": FIRST}),
        (
            "The role 'grade' is not read of such a table",
            model,
            {"rankings": FIRST, "columns": {"grade": "w"}},
        ),
        (
            apart("sets", "shares_of_answers"),
            model,
            {"rankings": FIRST.assign(w=0.5), "columns": {"weight": "w"}},
        ),
        (apart("answers", "labels"), blocks, {"rankings": FIRST}),
        (apart("sets", "margins_or_ties"), with_ties, {"rankings": FIRST}),
    ):
        with pytest.raises(ValueError, match=words):
            update(one, **more)


def test_answers_of_people() -> None:
    first = FIRST.assign(who=["ann", "bo"] * 7)
    duels = spg.read_rankings(ITEMS.head(OLD), first, person="who")
    model = build(spg.Exact(), duels, terms=[spg.Taste(gpflow.kernels.SquaredExponential(0.6))])
    new, report = update(model, None, ITEMS, rankings=MORE.assign(who=["bo", "cy", "ann", "cy"]))
    assert new.people.names == ("ann", "bo", "cy") and report.new_duels == 4
    assert report.continued_sites == 2 * 14 and report.sites == 2 * 18
    same = spg.Duels.from_events(new.duels.items, new.duels.given)
    afresh = build(spg.Exact(), same, terms=[spg.Taste(gpflow.kernels.SquaredExponential(0.6))])
    np.testing.assert_allclose(new.log_evidence(), afresh.log_evidence(), atol=EVIDENCE)
    # The column that the people were read from says whose choice it is, unless somebody is named.
    asked = pd.DataFrame({"option_1": ["i0"] * 2, "option_2": ["i4"] * 2, "who": ["ann", "cy"]})
    found = spg.predict(new, choices=asked)["probability"].to_numpy().reshape(2, 2)
    sides = new.duels.items[[0, 4]]
    for row, name in zip(found, ("ann", "cy"), strict=True):
        wanted = new.of_person(name).predict_choice(sides[None]).numpy()[0]
        np.testing.assert_allclose(row, wanted, atol=FIXED_POINT)
        alone = spg.predict(new, choices=asked, person=name)["probability"].to_numpy()
        np.testing.assert_allclose(alone, np.tile(wanted, 2), atol=FIXED_POINT)
