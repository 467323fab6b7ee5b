"""Items in contexts, or with a row for each state, whose utilities move: against dense matrices."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.history import history, seasons
from sparse_prefgp.analysis.suggestion import suggest
from sparse_prefgp.data.slices import DAYS_A_YEAR, rows_in_force
from tests.reference import slow_time
from tests.slopes import check_slopes
from tests.together import refused
from tests.tolerances import EVIDENCE, IDENTITY

TIGHT = spg.ParallelEP(tolerance=1e-13, max_sweeps=300)
NUMBER, T, VARIANCE, OWN, SLOPE, NOISE = 6, 45, 0.4, 0.7, 0.3, 0.35
SURFACES = ("clay", "grass")
MOVING = slow_time.wiener(1.2, 0.3)
NAMES = [f"t{i}" for i in range(NUMBER)]


def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """45 duels on two surfaces; the first player stops early, the last one is never on grass."""
    rng = np.random.default_rng(21)
    days = np.sort(rng.integers(0, 365 * 7, T))
    surface = rng.choice(SURFACES, T)
    sides = []
    for i in range(T):
        there = [j for j in range(NUMBER) if j or i < 12]
        there = [j for j in there if j < NUMBER - 1 or surface[i] == "clay"]
        sides.append(rng.permutation(there)[:2])
    first, second = np.array(sides).T
    duels = pd.DataFrame(
        {
            "winner": [NAMES[i] for i in first],
            "loser": [NAMES[i] for i in second],
            "date": (np.datetime64("2010-01-01") + days).astype(str),
            "surface": surface,
        }
    )
    return pd.DataFrame({"item_id": NAMES, "size": rng.normal(size=NUMBER)}), duels


ITEMS, DUELS = _tables()


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    duels = spg.read_duels(ITEMS, DUELS, time="date", context=["surface"])
    columns = duels.transform.columns_made_of
    on_surface = [i for i, name in enumerate(columns) if name == "surface"]
    own = spg.ItemTimes(spg.SameLevel(OWN, active_dims=on_surface))
    own += spg.ItemTimes(gpflow.kernels.Linear(SLOPE, active_dims=on_surface[:1]))
    moving = spg.ItemInTime(spg.markov.Wiener(1.2, 0.3), "quarter")
    kernel = gpflow.kernels.Linear(VARIANCE, active_dims=[columns.index("size")]) + own + moving
    return spg.PreferenceGP(duels, kernel, engine=TIGHT, noise_variance=NOISE)


class Dense:
    """The same by matrices over duels and over players on surfaces."""

    def __init__(self, slices: str = "quarter") -> None:
        size = ITEMS["size"].to_numpy()
        rows = np.append(np.repeat(size[:-1], 2), size[-1])  # which are what is standardised
        self.size = (size - rows.mean()) / rows.std()
        winners, losers = (
            np.array([NAMES.index(x) for x in DUELS[side]]) for side in ("winner", "loser")
        )
        place = np.array([SURFACES.index(x) for x in DUELS["surface"]])
        days = DUELS["date"].to_numpy().astype("datetime64[D]").astype(float)
        dates = DUELS["date"].to_numpy().astype("datetime64[M]").astype(int) // 3
        dates = dates if slices == "quarter" else days
        mean = np.array([days[dates == one].mean() for one in dates]) / DAYS_A_YEAR
        columns = self.features(losers, place) - self.features(winners, place)
        self.duels = slow_time.Duels(losers, winners, mean, columns)
        self.prior = self.duels.covariance(MOVING)
        self.found = slow_time.dense_ep(self.prior, 2.0 * NOISE, np.full(T, -np.inf), np.zeros(T))

    def features(self, items: np.ndarray, place: np.ndarray) -> np.ndarray:
        effects = np.zeros((len(items), NUMBER * 2))
        effects[np.arange(len(items)), 2 * items + place] = np.sqrt(OWN)
        slopes = np.sqrt(SLOPE) * np.eye(NUMBER)[items] * (place == 0)[:, None]
        return np.column_stack([np.sqrt(VARIANCE) * self.size[items], effects, slopes])

    def at(self, items: np.ndarray, place: np.ndarray, day: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of utilities at a date."""
        date = np.datetime64(day).astype(float) / DAYS_A_YEAR
        dates, own = np.full(len(items), date), self.features(items, place)
        before = slow_time.utilities(MOVING, items, dates, self.duels.first_dates())
        across = self.duels.with_utilities(MOVING, items, dates) + self.duels.columns @ own.T
        whole = np.block([[self.prior, across], [across.T, before + own @ own.T]])
        zero = np.zeros(len(items))
        sites = np.append(self.found.precision, zero), np.append(self.found.shift, zero)
        after = slow_time.conditioned(whole, *sites)
        return after.mean[T:], after.covariance[T:, T:]

    def centred(
        self, items: np.ndarray, weights: np.ndarray, day: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of averages over the surfaces, less the average of all of them."""
        n = len(items)
        mean, covariance = self.at(np.repeat(items, 2), np.tile([0, 1], n), day)
        step = np.kron(np.eye(n) - 1.0 / n, weights)
        return step @ mean, np.sqrt(np.diag(step @ covariance @ step.T))


@pytest.fixture(scope="module")
def dense() -> Dense:
    return Dense()


def weights_of_surfaces() -> np.ndarray:
    counts = np.array([(DUELS["surface"] == name).sum() for name in SURFACES])
    return counts / counts.sum()


def test_evidence_and_predictions(model: spg.PreferenceGP, dense: Dense) -> None:
    assert model.log_evidence() == pytest.approx(dense.found.log_evidence, rel=EVIDENCE)
    pairs = pd.DataFrame({"first": ["t1", "t2"], "second": ["t3", "t5"], "surface": "grass"})
    for day in ("2013-05-05", "2019-01-01"):
        found = spg.predict(model, pairs, at=f"date={day}")
        mean, covariance = dense.at(np.array([1, 2, 3, 5]), np.ones(4, int), day)
        step = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])
        np.testing.assert_allclose(found["difference"], step @ mean, atol=1e-9)
        sd = np.sqrt(np.diag(step @ covariance @ step.T))
        np.testing.assert_allclose(found["sd"], sd, rtol=1e-8)


def test_the_gradient_is_that_of_the_evidence(model: spg.PreferenceGP) -> None:
    check_slopes(model)


def test_duels_in_contexts_are_followed_by_day(model: spg.PreferenceGP) -> None:
    """From the first one, or from those before one of them, which another model knows."""
    dense, every, first = Dense("day"), model.duels, 30
    limits = np.full(T, -np.inf), np.zeros(T)
    slices = [np.flatnonzero(dense.duels.dates == date) for date in np.unique(dense.duels.dates)]
    zeros = np.zeros(T), np.zeros(T)
    expected = slow_time.followed(dense.prior, slices, zeros, 2.0 * NOISE, limits)
    found = model.in_time.with_slices("day").in_time.filter()
    np.testing.assert_allclose(found.mean, -expected.mean, rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=0, atol=IDENTITY)
    assert found.log_predictive == pytest.approx(expected.log_predictive, rel=IDENTITY)

    def some(which: slice) -> spg.Duels:
        ends = every.winners[which], every.losers[which]
        return spg.Duels(every.items, *ends, times=every.times[which], item=every.item)

    early = spg.PreferenceGP(
        some(slice(0, first)), model.kernel, engine=TIGHT, noise_variance=NOISE
    ).in_time.with_slices("day")
    before = slow_time.dense_ep(
        dense.prior[:first, :first], 2.0 * NOISE, *(x[:first] for x in limits)
    )
    sites = tuple(np.append(x, np.zeros(T - first)) for x in before[:2])
    late = [at[at >= first] for at in slices if at[-1] >= first]
    expected = slow_time.followed(dense.prior, late, sites, 2.0 * NOISE, limits)
    found = early.in_time.filter(some(slice(first, None)))
    np.testing.assert_allclose(found.mean, -expected.mean[first:], rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(found.variance, expected.variance[first:], rtol=0, atol=IDENTITY)
    assert found.log_predictive == pytest.approx(expected.log_predictive, rel=IDENTITY)


def test_new_items_and_places_have_the_prior(model: spg.PreferenceGP, dense: Dense) -> None:
    """Of a new item, of one on a surface that nobody knows, and of one on two surfaces."""
    at = model.in_time.last_date + 400.0
    rows = model.inputs.of_items(at=at)
    columns = model.duels.transform.columns_made_of
    clay, grass = (i for i, name in enumerate(columns) if name == "surface")
    known = rows[(rows[:, -2] == 2.0) & (rows[:, clay] == 1.0)]
    new, nowhere, other = known.copy(), known.copy(), known.copy()
    new[:, -2], nowhere[:, clay], other[:, clay], other[:, grass] = -1.0, 0.0, 0.0, 1.0
    given = np.concatenate([known, new, nowhere, other])
    day = str(np.datetime64(int(at), "D"))
    mean, spread = dense.at(np.array([2, 2]), np.array([0, 1]), day)
    variance = np.asarray(model.predict_f(given)[1])[:, 0]
    of_size = float(VARIANCE * dense.size[2] ** 2)
    assert variance[0] == pytest.approx(spread[0, 0], rel=1e-7)
    assert variance[1] > 1.2 + OWN + SLOPE and variance[1] < 1.2 + OWN + SLOPE + of_size
    difference, of_it = model.predict_difference(known, other)
    assert float(difference[0]) == pytest.approx(mean[0] - mean[1], abs=1e-9)
    step = np.array([1.0, -1.0])
    assert float(of_it[0]) == pytest.approx(step @ spread @ step, rel=1e-8)
    joint = np.asarray(model.predict_f(given, full_cov=True)[1])[0]
    np.testing.assert_allclose(np.diag(joint), variance, rtol=0, atol=IDENTITY)
    # The effect on a surface that nobody knows is as nothing said of it.
    _, apart = model.predict_difference(nowhere, other)
    assert float(apart[0]) == pytest.approx(joint[2, 2] + joint[3, 3] - 2.0 * joint[2, 3])
    assert joint[2, 2] > OWN and float(apart[0]) > OWN


@pytest.mark.parametrize("place", ["", "surface=grass"])
@pytest.mark.covering(every=2)
def test_a_ranking_is_of_items_that_are_about_in_their_contexts(
    model: spg.PreferenceGP, dense: Dense, place: str
) -> None:
    day = "2016-06-01"
    found = spg.rank(model, at=[f"date={day}", *([place] if place else [])])
    assert "t0" not in set(found.frame["item_id"]) and len(found.frame) == NUMBER - 1
    assert any(day in note and "surface=grass" in note for note in found.sentences())
    items = np.array([NAMES.index(name) for name in found.frame["item_id"]])
    weights = np.array([0.0, 1.0]) if place else weights_of_surfaces()
    mean, sd = dense.centred(items, weights, day)
    np.testing.assert_allclose(found.frame["utility"], mean, atol=1e-8)
    np.testing.assert_allclose(found.frame["sd"], sd, rtol=1e-7)
    assert "t0" in set(spg.rank(model, at="date=2010-12-01").frame["item_id"])


@pytest.mark.parametrize("place", ["", "surface=clay"])
def test_trajectories_are_averages_over_contexts(
    model: spg.PreferenceGP, dense: Dense, place: str
) -> None:
    day, at = "2016-06-01", [place] if place else ()
    weights = np.array([1.0, 0.0]) if place else weights_of_surfaces()
    frame = history(model, ["t2", "t5"], [day, "2016-09-01"], at=at)
    frame = frame[frame["date"] == np.datetime64(day)]
    # In a fine order: of the active ones, as of all but t0, who stopped.
    mean, sd = dense.centred(np.arange(1, NUMBER), weights, day)
    np.testing.assert_allclose(frame["utility"], mean[[1, 4]], atol=1e-8)
    np.testing.assert_allclose(frame["sd"], sd[[1, 4]], rtol=1e-7)
    told = seasons(model, [day], at=at)[0]
    best = 1 + int(np.argmax(mean))
    assert told["active"] == NUMBER - 1 and told["best"][0]["item"] == NAMES[best]
    assert told["best"][0]["utility"] == pytest.approx(mean[best - 1], abs=1e-8)


def test_an_explanation_says_what_comes_from_time(model: spg.PreferenceGP, dense: Dense) -> None:
    day = "2013-05-05"
    found = spg.explain(model, "t1", "t3", at=f"date={day},surface=grass")
    parts = found.frame.set_index("feature")["contribution"]
    assert set(parts.index) == {"size", "surface", "item effect", "utility in time"}
    assert found.difference == pytest.approx(parts.sum(), abs=1e-8)
    mean, _ = dense.at(np.array([1, 3]), np.ones(2, int), day)
    assert found.difference == pytest.approx(mean[0] - mean[1], abs=1e-8)
    # Utilities in time alone, by matrices.
    items, dates = np.array([1, 3]), np.full(2, np.datetime64(day).astype(float) / DAYS_A_YEAR)
    before = slow_time.utilities(MOVING, items, dates, dense.duels.first_dates())
    across = dense.duels.with_utilities(MOVING, items, dates)
    whole = np.block([[dense.prior, across], [across.T, before]])
    sites = (np.append(x, np.zeros(2)) for x in (dense.found.precision, dense.found.shift))
    after = slow_time.conditioned(whole, *sites)
    mean, covariance = after.mean[T:], after.covariance[T:, T:]
    assert parts["utility in time"] == pytest.approx(mean[0] - mean[1], abs=1e-8)
    sd = found.frame.set_index("feature").loc["utility in time", "sd"]
    step = np.array([1.0, -1.0])
    assert sd == pytest.approx(np.sqrt(step @ covariance @ step), rel=1e-7)
    later = spg.explain(model, "t1", "t3", at="date=2016-06-01,surface=grass").frame
    assert later.set_index("feature").loc["utility in time", "contribution"] != pytest.approx(
        parts["utility in time"]
    )


def test_an_explanation_by_a_path(states: spg.PreferenceGP) -> None:
    kernel = gpflow.kernels.SquaredExponential() + spg.ItemInTime(spg.markov.Wiener(), "quarter")
    curved = spg.PreferenceGP(states.duels, kernel, approximation=spg.VFE())
    found = spg.explain(curved, "t1b", "t3b", at="date=2016-06-01")
    assert found.converged and abs(found.residual) < 1e-6
    assert set(found.frame["feature"]) == {"rank", "utility in time"}


def test_places_that_there_are_not(model: spg.PreferenceGP) -> None:
    with pytest.raises(ValueError, match="surface=ice; choose from clay, grass"):
        history(model, ["t2"], ["2012-01-01"], at=["surface=ice"])
    with refused("history", "date"):
        history(model, ["t2"], ["2012-01-01"], at=["date=2012-01-01"])
    with refused("contexts", "trajectory"):
        model.in_time.trajectories([0], ["2012-01-01"])


def test_suggestions_are_of_items_that_are_about(model: spg.PreferenceGP) -> None:
    rng = np.random.default_rng(0)
    found = suggest(model, batch=4, at="date=2016-06-01", rng=rng).frame
    assert "t0" not in {*found["first"], *found["second"]}


def test_the_row_in_force() -> None:
    owner = np.array([0, 0, 0, 1, 1, 2, 2])
    starts = np.array([1.0, 5.0, np.nan, 7.0, 6.0, np.nan, 9.0])
    for day, rows in ((0.5, [2, 4, 5]), (3.0, [0, 4, 5]), (5.0, [1, 4, 5]), (9.0, [1, 3, 6])):
        assert rows_in_force(owner, starts, day).tolist() == rows


@pytest.fixture(scope="module")
def states() -> spg.PreferenceGP:
    """Each player has a row before and after 2013, of another rank."""
    late = (DUELS["date"] >= "2013-06-01").to_numpy()
    rng = np.random.default_rng(3)
    items = pd.DataFrame(
        {
            "row": [f"{name}{end}" for end in "ab" for name in NAMES],
            "player": NAMES * 2,
            "rank": rng.normal(size=2 * NUMBER),
        }
    )
    duels = DUELS.drop(columns="surface").copy()
    for side in ("winner", "loser"):
        duels[side] = duels[side] + np.where(late, "b", "a")
    read = spg.read_duels(items, duels, time="date", item="player")
    kernel = gpflow.kernels.Linear() + spg.ItemInTime(spg.markov.Wiener(1.2, 0.3), "quarter")
    return spg.PreferenceGP(read, kernel)


def test_an_item_with_several_rows_stands_at_that_of_the_date(states: spg.PreferenceGP) -> None:
    for day in ("2012-06-01", "2016-06-01"):
        by_then = DUELS[DUELS["date"] <= day]
        found = spg.rank(states, at=f"date={day}")
        assert any("the row that its latest duel by then had" in note for note in found.sentences())
        names = list(found.frame["item_id"])
        rows = []
        for name in names:
            latest = by_then["date"][by_then[["winner", "loser"]].isin([name]).any(axis=1)].max()
            end = "b" if latest >= "2013-06-01" else "a"
            rows.append(states.duels.item_ids.index(f"{name}{end}"))
        mean = states.predict_f(states.inputs.of_items(rows, at=day))[0].numpy()[:, 0]
        np.testing.assert_allclose(found.frame["utility"], mean - mean.mean(), atol=1e-8)
        frame = history(states, names, [day, "2016-12-01"])
        here = frame[frame["date"] == np.datetime64(day)]
        np.testing.assert_allclose(here["utility"], mean - mean.mean(), atol=1e-8)
    every: Any = spg.rank(states, at=["date=2016-06-01", "each"]).frame
    assert {"t1a", "t1b"} <= set(every["item_id"])
