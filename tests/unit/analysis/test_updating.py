"""New duels for a model: the posterior of a fresh one, sites that go on, nothing old changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.meeting import meet
from sparse_prefgp.analysis.updating import continued_sites, update
from sparse_prefgp.io import read_duels
from tests.together import refused
from tests.tolerances import EVIDENCE, FIXED_POINT, ROUNDING, SOLVER

RNG = np.random.default_rng(2)
N, OLD = 14, 10
ITEMS = pd.DataFrame(
    {
        "item_id": [f"i{k}" for k in range(N)],
        "size": RNG.normal(size=N),
        "colour": RNG.choice(["red", "blue"], size=N),
        "weight": RNG.normal(size=N),
    }
)
WON = RNG.integers(OLD, size=30)
LOST = (WON + RNG.integers(1, OLD, size=30)) % OLD
DUELS = pd.DataFrame({"winner": [f"i{k}" for k in WON], "loser": [f"i{k}" for k in LOST]})
# Some between old items, one of these known already, and some with new ones.
MORE = pd.DataFrame(
    {
        "winner": ["i1", "i12", "i3", DUELS["winner"][0], "i13", "i11"],
        "loser": ["i12", "i0", "i10", DUELS["loser"][0], "i12", "i9"],
        "count": [1, 2, 1, 3, 1, 1],
    }
)
NEW_ITEMS = ITEMS.tail(N - OLD)
APPROXIMATIONS = {
    "exact": spg.Exact(),
    "vfe-items": spg.VFE(over="items"),
    "fitc-duels": spg.FITC(over="duels"),
}
PROBE = np.random.default_rng(3).normal(size=(6, 4))


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=[0.8, 1.1, 1.0, 2.0])


def build(approximation: Any, k: Any = None, **settings: Any) -> spg.PreferenceGP:
    duels = spg.read_duels(ITEMS.head(OLD), DUELS)
    return spg.PreferenceGP(
        duels,
        kernel() if k is None else k,
        approximation=approximation,
        inducing_variable=duels.items[:5] + 0.05 if approximation.needs_inducing else None,
        engine=spg.ParallelEP(tolerance=SOLVER),
        noise_variance=0.3,
        **settings,
    )


def afresh(model: spg.PreferenceGP) -> spg.PreferenceGP:
    """A model of the same duels and parameters that knows no sites."""
    z = model.inducing_variable
    return spg.PreferenceGP(
        model.duels,
        model.kernel,
        approximation=model.approximation,
        inducing_variable=None if z is None else z.Z.numpy(),
        engine=model.engine,
        noise_variance=float(model.likelihood.noise.numpy()),
        mean_function=model.mean_function,
    )


def same_posterior(one: spg.PreferenceGP, two: spg.PreferenceGP) -> None:
    for a, b in zip(one.predict_f(PROBE), two.predict_f(PROBE), strict=True):
        np.testing.assert_allclose(a, b, atol=FIXED_POINT)
    np.testing.assert_allclose(one.log_evidence(), two.log_evidence(), atol=EVIDENCE)


@pytest.mark.parametrize("name", APPROXIMATIONS)
@pytest.mark.covering(every=3)
def test_the_posterior_is_that_of_a_fresh_model(name: str) -> None:
    old = build(APPROXIMATIONS[name])
    new, report = update(old, MORE, NEW_ITEMS)
    fresh = afresh(new)
    cold = fresh.infer()
    assert report.converged and cold.converged
    same_posterior(new, fresh)
    # The duels are those that were read, in units of the old items.
    table = read_duels(ITEMS, pd.concat([DUELS.assign(count=1), MORE]))
    expected = table.standardised(transform=old.duels.transform)
    np.testing.assert_allclose(new.duels.items, expected.items, rtol=ROUNDING)
    assert new.duels.item_ids == expected.item_ids
    for field in ("winners", "losers", "counts"):
        np.testing.assert_array_equal(getattr(new.duels, field), getattr(expected, field))
    assert new.duels.transform == old.duels.transform
    assert (report.new_duels, report.new_items) == (9, 4)
    assert (report.duels, report.items) == (39, 14)
    assert report.used_duels == 39
    assert report.sites == new.graph.num_sites
    # All old pairs are still there, and only they.
    assert report.continued_sites == old.graph.num_sites
    np.testing.assert_allclose(report.log_evidence_before, old.log_evidence(), rtol=ROUNDING)
    np.testing.assert_allclose(report.log_evidence, new.log_evidence(), rtol=ROUNDING)


def test_without_news_the_sites_are_settled_at_once() -> None:
    old = build(spg.VFE())
    known = DUELS.head(1)
    new, report = update(old, known)
    assert report.continued_sites == report.sites == old.graph.num_sites
    assert report.new_items == 0
    # One count went up: the sites are nearly right.
    assert report.sweeps < afresh(new).infer().sweeps
    nu, tau, continued = continued_sites(old, old)
    np.testing.assert_array_equal(nu, old.inference.sites()[0])
    np.testing.assert_array_equal(tau, old.inference.sites()[1])
    assert continued == old.graph.num_sites


def test_each_site_goes_on_from_its_own_pair() -> None:
    old = build(spg.Exact())
    old.infer()
    new, _ = update(old, MORE, NEW_ITEMS)
    nu, tau, _ = continued_sites(old, new)

    def by_pair(model: spg.PreferenceGP, values: np.ndarray) -> dict[tuple[bytes, bytes], float]:
        rows, graph = model.graph.rows, model.graph
        ends = zip(graph.winners, graph.losers, strict=True)
        return {
            (rows[w].tobytes(), rows[b].tobytes()): value
            for (w, b), value in zip(ends, values, strict=True)
        }

    for before, after in zip(old.inference.sites(), (nu, tau), strict=True):
        were, are = by_pair(old, before), by_pair(new, after)
        assert {pair: were.get(pair, 0.0) for pair in are} == are
        assert any(value != 0.0 for value in are.values())


def test_the_old_model_does_not_change_and_shares_nothing() -> None:
    old = build(spg.VFE(), mean_function=gpflow.functions.Linear(0.1 * np.ones((4, 1))))
    gpflow.set_trainable(old.kernel.lengthscales, False)
    gpflow.set_trainable(old.likelihood.noise, True)
    mean = old.predict_f(PROBE)[0].numpy()
    sites, sweeps = old.inference.sites(), old.inference.total_sweeps
    new, _ = update(old, MORE, NEW_ITEMS)
    assert old.inference.total_sweeps == sweeps
    same_posterior(new, afresh(new))
    values = gpflow.utilities.parameter_dict(old)
    copies = gpflow.utilities.parameter_dict(new)
    assert values.keys() == copies.keys()
    for name, parameter in values.items():
        np.testing.assert_array_equal(parameter.numpy(), copies[name].numpy())
        assert parameter is not copies[name]
        assert parameter.trainable == copies[name].trainable
    new.kernel.variance.assign(9.0)
    new.inducing_variable.Z.assign_add(np.ones((5, 4)))
    new.likelihood.noise.assign(2.0)
    new.infer()
    np.testing.assert_array_equal(old.predict_f(PROBE)[0], mean)
    for before, after in zip(sites, old.inference.sites(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert old.duels.num_items == OLD


def test_item_effects_keep_their_rows() -> None:
    old = build(spg.FITC(), kernel() + spg.ItemEffect(0.4))
    new, report = update(old, MORE, NEW_ITEMS)
    assert report.continued_sites == old.graph.num_sites
    fresh = afresh(new)
    known = np.column_stack([new.duels.items, np.arange(N)])
    for a, b in zip(new.predict_f(known), fresh.predict_f(known), strict=True):
        np.testing.assert_allclose(a, b, atol=FIXED_POINT)
    np.testing.assert_array_equal(new.duels.items[:OLD], old.duels.items)


def test_a_subset_is_drawn_anew_and_shared_sites_go_on() -> None:
    old = build(spg.SubsetOfData(20))
    new, report = update(old, MORE, NEW_ITEMS)
    assert report.used_duels == 20
    assert report.duels == 39
    assert 0 < report.continued_sites < report.sites
    assert "a subset of 20 duels" in str(report)
    fresh = afresh(new)
    np.testing.assert_array_equal(fresh.graph.rows, new.graph.rows)
    same_posterior(new, fresh)


def test_new_items_with_the_features_of_old_ones_join_them() -> None:
    old = build(spg.VFE())
    twin = ITEMS.head(1).assign(item_id="twin")
    new, report = update(old, pd.DataFrame({"winner": ["twin"], "loser": ["i1"]}), twin)
    assert report.new_items == 1
    assert new.graph.num_rows == old.graph.num_rows
    same_posterior(new, afresh(new))


def test_what_lies_outside_and_unknown_levels_are_said() -> None:
    items = pd.DataFrame({"item_id": ["z"], "size": [99.0], "colour": ["pink"], "weight": [0.0]})
    with pytest.warns(UserWarning, match="levels not seen"):
        _, report = update(
            build(spg.VFE()), pd.DataFrame({"winner": ["z"], "loser": ["i1"]}), items
        )
    assert report.new_items_outside_range == 1
    assert report.outside_features == {"size": 1, "colour": 1}
    assert report.unknown_levels == {"colour": {"pink": 1}}
    text = str(report)
    for part in ("1 duel and 1 item added", "size 1, colour 1", "'pink' 1", "converged"):
        assert part in text
    assert report.to_dict()["inference"]["status"] == str(report.inference.status)


def test_duels_that_are_there_already_are_said() -> None:
    once = DUELS.drop_duplicates(keep=False)
    old = build(spg.VFE())
    with pytest.warns(
        UserWarning, match=f"{len(once)} of these {len(once)} duels are in the model"
    ):
        update(old, once)
    turned = once.rename(columns={"winner": "loser", "loser": "winner"})
    for few in (once.head(9), turned, pd.concat([once, once])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            update(old, few)


def test_ids_stay_numbers_while_all_are() -> None:
    items = pd.DataFrame({"item_id": [1, 2, 3], "x": [0.0, 1.0, 2.0]})
    duels = pd.DataFrame({"winner": [1, 2], "loser": [2, 3]})
    old = spg.PreferenceGP(spg.read_duels(items, duels), gpflow.kernels.SquaredExponential())
    for id, ids in ((4, (1, 2, 3, 4)), ("new", ("1", "2", "3", "new"))):
        table = pd.DataFrame({"item_id": [id], "x": [0.5]})
        new, _ = update(old, pd.DataFrame({"winner": [id], "loser": ["3"]}), table)
        assert new.duels.item_ids == ids


def test_arrays_for_a_model_without_ids() -> None:
    duels = spg.Duels([[0.0], [1.0], [2.0]], [0, 1], [1, 2])
    old = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    table = pd.DataFrame({"winner": [3, 2], "loser": [0, 3]})
    new, report = update(old, table, [[0.5]])
    assert report.new_items == 1
    assert new.duels.item_ids is None
    np.testing.assert_array_equal(new.duels.items[:, 0], [0.0, 1.0, 2.0, 0.5])
    np.testing.assert_array_equal(new.duels.winners, [0, 1, 3, 2])
    with pytest.raises(
        ValueError, match="winner '3', which is not an item id of the model's own items"
    ):
        update(old, table)
    with refused("ids_of_items", "array_of_items"):
        update(build(spg.VFE()), MORE, np.zeros((1, 4)))


def test_known_items_may_be_there_unchanged_but_not_changed() -> None:
    old = build(spg.VFE())
    _, report = update(old, MORE, ITEMS)
    assert report.new_items == N - OLD
    nearly = ITEMS.assign(size=ITEMS["size"] * (1.0 + 1e-14))
    assert update(old, MORE, nearly)[1].new_items == N - OLD
    heavy = ITEMS.copy()
    heavy.loc[2, "weight"] = 7.5
    was = f"{ITEMS['weight'][2]:.10g}"
    message = rf"item 'i2' of the items frame has 'weight' 7\.5, but the model knows it with {was}"
    with pytest.raises(ValueError, match=message):
        update(old, MORE, heavy)
    was, now = ITEMS["colour"][3], "blue" if ITEMS["colour"][3] == "red" else "red"
    painted = ITEMS.copy()
    painted.loc[3, "colour"] = now
    message = f"item 'i3' .* has 'colour' '{now}', but the model knows it with '{was}'"
    with pytest.raises(ValueError, match=message):
        update(old, MORE, painted)
    painted.loc[3, "colour"] = "pink"
    with (
        pytest.warns(UserWarning, match="levels not seen"),
        pytest.raises(
            ValueError, match=f"has 'colour' 'pink', but the model knows it with '{was}'"
        ),
    ):
        update(old, MORE, painted)


@pytest.mark.parametrize(
    ("duels", "items", "message"),
    [
        (MORE, None, "Row 1 of the duels frame .* winner 'i12', which is not an item id"),
        (MORE.assign(winner=MORE["loser"]), ITEMS, "'i12' with itself"),
        (MORE.assign(count=1.5), ITEMS, "'count' has 1.5 in row 0"),
        (MORE.head(0), ITEMS, "There are no duels"),
        (MORE.drop(columns="winner"), ITEMS, "no column 'winner'"),
        (MORE, ITEMS.drop(columns="size"), "no column 'size'"),
        ("nowhere.csv", ITEMS, "'nowhere.csv' does not exist"),
    ],
)
def test_bad_news_are_refused(duels: Any, items: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        update(build(spg.VFE()), duels, items)


@pytest.mark.slow
def test_fewer_sweeps_than_from_the_beginning_on_real_votes(data_dir: Path) -> None:
    folder = data_dir / "ukp_convincing"
    items = folder / "items.csv.gz"
    table = read_duels(items, folder / "duels.csv.gz", ignore=["source_id", "debate"])
    rows = np.random.default_rng(0).permutation(table.num_rows)
    first, later = np.sort(rows[2000:]), np.sort(rows[:2000])
    data = table.standardised(first)
    old = spg.PreferenceGP(
        data,
        gpflow.kernels.Matern52(lengthscales=np.full(data.num_features, 8.0)),
        approximation=spg.FITC(),
    )
    ids = np.array(table.item_ids)
    news = pd.DataFrame(ids[table.given.pairs[later]], columns=["winner", "loser"])
    new, report = update(old, news)
    cold = afresh(new).infer()
    assert report.converged and cold.converged
    assert report.sweeps < cold.sweeps


def test_rows_stay_those_of_their_items() -> None:
    duels = spg.read_duels(ITEMS.head(OLD), DUELS)
    item = np.arange(OLD) // 2
    known = spg.Duels.from_events(
        duels.items, duels.given, item=item, item_ids=duels.item_ids, transform=duels.transform
    )
    old = spg.PreferenceGP(known, kernel(), approximation=spg.Exact())
    new, _ = update(old, MORE, NEW_ITEMS)
    assert new.duels.item.tolist() == [*item, *(item.max() + 1 + np.arange(N - OLD))]


def test_what_a_table_has_no_column_for_is_refused() -> None:
    duels = spg.read_duels(ITEMS.head(OLD), DUELS)
    said = duels.given.saying(time=np.arange(float(len(duels.given))))
    dated = spg.Duels.from_events(
        duels.items, said, item_ids=duels.item_ids, transform=duels.transform
    )
    with pytest.raises(ValueError, match="has no column 'date' that says it"):
        update(spg.PreferenceGP(dated, kernel(), approximation=spg.Exact()), MORE, NEW_ITEMS)


WHO = ["ann", "bo", "cy"]


def of_people(approximation: Any, table: pd.DataFrame, **more: Any) -> spg.PreferenceGP:
    duels = spg.read_duels(ITEMS.head(OLD), table, person="who", **more)
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(lengthscales=[0.8, 1.1, 1.0, 2.0]),
        terms=[spg.Taste(gpflow.kernels.SquaredExponential(0.7) + spg.ItemEffect(0.2))],
        approximation=approximation,
        inducing_variable=duels.items[:5] + 0.05 if approximation.needs_inducing else None,
        engine=spg.ParallelEP(tolerance=SOLVER),
    )


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=["exact", "vfe"])
@pytest.mark.covering(every=2)
def test_new_duels_of_known_people_and_of_new_ones(approximation: Any) -> None:
    old = of_people(approximation, DUELS.assign(who=[WHO[k % 2] for k in range(len(DUELS))]))
    more = MORE.assign(who=["bo", "ann", "cy", "ann", "cy", "bo"])
    new, report = update(old, more, NEW_ITEMS)
    assert new.people.names == ("ann", "bo", "cy") and report.converged
    fresh = spg.PreferenceGP(
        new.duels,
        new.kernel,
        terms=[spg.Taste(new.terms.taste)],
        approximation=new.approximation,
        inducing_variable=new.inducing_variable,
        engine=new.engine,
    )
    items, who = new.inputs.of_items(), [*WHO, None]
    for one, other in zip(
        new.predict_difference(items[:4], items[4:8], people=who),
        fresh.predict_difference(items[:4], items[4:8], people=who),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=FIXED_POINT)
    assert new.log_evidence() == pytest.approx(fresh.log_evidence(), abs=EVIDENCE)
    # The duel that is there already is one of ann's, and goes on where hers was.
    said = len(set(zip(DUELS["winner"], DUELS["loser"], np.arange(30) % 2, strict=True)))
    assert report.continued_sites == said and report.sites == said + 5
    sites = zip(*old.inference.sites(), strict=True)
    before = dict(zip(keys_of(old), sites, strict=True))
    nu, tau, _ = continued_sites(old, new)
    for key, site in zip(keys_of(new), zip(nu, tau, strict=True), strict=True):
        assert before.get(key, (0.0, 0.0)) == site


def keys_of(model: spg.PreferenceGP) -> list[Any]:
    graph = model.graph
    ends = graph.rows[np.stack([graph.winners, graph.losers], 1)].reshape(graph.num_sites, -1)
    return [(*row, model.people.names[i]) for row, i in zip(ends, graph.people, strict=True)]


def test_people_need_their_column_and_features() -> None:
    known = pd.DataFrame(
        {"person": ["ann", "bo", "di"], "age": [30.0, 50.0, 9.0], "town": ["x", "y", "x"]}
    )
    table = DUELS.assign(who=[WHO[k % 2] for k in range(len(DUELS))])
    old = of_people(spg.Exact(), table, people=known)
    with pytest.raises(ValueError, match="column 'who'"):
        update(old, MORE, NEW_ITEMS)
    more = MORE.assign(who=["bo", "ann", "cy", "ann", "cy", "bo"])
    with pytest.raises(ValueError, match="person 'cy' has no features"):
        update(old, more, NEW_ITEMS)
    news = pd.DataFrame({"person": ["cy"], "age": [60.0], "town": ["x"]})
    new, _ = update(
        old,
        more.rename(columns={"who": "judge"}),
        NEW_ITEMS,
        columns={"person": "judge"},
        people=news,
    )
    found = new.duels.people_features
    np.testing.assert_allclose(found.of(["ann", "bo"]), old.duels.people_features.of(["ann", "bo"]))
    np.testing.assert_allclose(found.of(["cy"]), [[2.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="answers without a person, for which the column 'who'"):
        update(build(spg.Exact()), more, NEW_ITEMS, columns={"person": "who"})
    capital = MORE.head(1).assign(who="Ann")
    with pytest.warns(UserWarning, match="people 'ann' and 'Ann' differ in case alone"):
        update(of_people(spg.Exact(), table), capital, NEW_ITEMS)
    # Somebody is met by features from such a table.
    items = old.inputs.of_items()
    for found, wanted in zip(
        meet(old, people=news).predict_f(items),
        old.meet(features=[2.0, 1.0, 0.0]).predict_f(items),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, atol=ROUNDING)
    with pytest.raises(ValueError, match="table of people has 3 rows, but one person is met"):
        meet(old, people=known)
    with pytest.raises(ValueError, match="knows no features of people"):
        meet(build(spg.Exact()), people=news)
    with pytest.raises(ValueError, match="knows no features of people"):
        update(of_people(spg.Exact(), table), more, NEW_ITEMS, people=news)
