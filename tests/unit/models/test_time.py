"""Models of utilities that move in time, against dense matrices and against effects of items."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.learning.limits import limits_of
from sparse_prefgp.models import checks
from sparse_prefgp.models.questions import forecast_of
from sparse_prefgp.sampling import exact_problem
from sparse_prefgp.support import machine
from tests.reference import slow_time
from tests.slopes import check_slopes
from tests.together import apart, refused
from tests.tolerances import EVIDENCE, IDENTITY

TIGHT = spg.ParallelEP(tolerance=1e-13, max_sweeps=300)
NUMBER, VARIANCE, HOME = 7, 0.4, 0.3
MARGIN, NOISE = 0.3, 0.35
RNG = np.random.default_rng(11)
ITEMS = RNG.normal(size=(NUMBER, 2))


def _matches() -> dict[str, np.ndarray]:
    """40 matches of 7 items from 1990 on, by day; the last item enters late and one stops early."""
    rng = np.random.default_rng(12)
    days = np.sort(rng.integers(7305, 7305 + 365 * 8, 40)).astype(float)
    days[21] = days[20]
    winners, losers = np.empty((2, 40), int)
    for i in range(40):
        there = [j for j in range(NUMBER) if (j != 6 or i > 25) and (j != 0 or i < 15)]
        winners[i], losers[i] = rng.permutation(there)[:2]
    winners[21], losers[21] = winners[20], losers[20]
    return {
        "days": days,
        "winners": winners,
        "losers": losers,
        "home": rng.choice([-1.0, 0.0, 1.0], 40),
        "tied": rng.uniform(size=40) < 0.2,
    }


M = _matches()
M["home"][21], M["tied"][20], M["tied"][21] = M["home"][20], False, False


def slice_dates(months: int) -> np.ndarray:
    """The mean day of the calendar slice of each match, in years."""
    dates = M["days"].astype("datetime64[D]").astype("datetime64[M]").astype(int) // months
    return np.array([M["days"][dates == date].mean() for date in dates]) / DAYS_A_YEAR


KERNELS = {
    "wiener": (lambda: spg.markov.Wiener(1.2, 0.3), slow_time.wiener(1.2, 0.3)),
    "matern12": (lambda: spg.markov.Matern12(1.3, 2.0), slow_time.matern12(1.3, 2.0)),
    "constant and matern32": (
        lambda: spg.markov.Constant(0.5) + spg.markov.Matern32(0.8, 2.5),
        slow_time.added(slow_time.constant(0.5), slow_time.matern32(0.8, 2.5)),
    ),
}


def duels_of(tied: bool = True, **more: Any) -> spg.Duels:
    given = {
        "covariates": M["home"][:, None],
        "covariate_names": ["home"],
        "times": M["days"],
        "ties": M["tied"] if tied else None,
        **more,
    }
    return spg.Duels(ITEMS, M["winners"], M["losers"], **given)


def linear() -> gpflow.kernels.Linear:
    return gpflow.kernels.Linear(VARIANCE)


def made(kernel: gpflow.kernels.Kernel, **more: Any) -> spg.PreferenceGP:
    model = spg.PreferenceGP(
        duels_of(),
        kernel,
        engine=TIGHT,
        terms=[spg.Coefficients(HOME)],
        likelihood=spg.Probit(NOISE, margin=MARGIN),
        **more,
    )
    (coefficients,) = model.terms.parts(spg.Coefficients)
    coefficients.variance.prior = None  # the training loss is then the evidence alone
    return model


@cache
def model_of(name: str, slices: Any = "quarter") -> spg.PreferenceGP:
    return made(linear() + spg.ItemInTime(KERNELS[name][0](), slices=slices))


class Dense:
    """The same by matrices over matches and whatever is asked for."""

    def __init__(self, name: str, months: int = 3, dates: np.ndarray | None = None) -> None:
        self.k, self.name = KERNELS[name][1], name
        self.dates = slice_dates(months) if dates is None else dates
        each = np.sqrt(VARIANCE) * (ITEMS[M["losers"]] - ITEMS[M["winners"]])
        columns = np.column_stack([each, -np.sqrt(HOME) * M["home"]])
        self.duels = slow_time.Duels(M["losers"], M["winners"], self.dates, columns)
        self.prior = self.duels.covariance(self.k)
        lower = np.where(M["tied"], -MARGIN, -np.inf)
        self.limits = lower, np.where(M["tied"], MARGIN, -MARGIN)

    def ep(self, prior: np.ndarray | None = None, more: np.ndarray | float = 0.0) -> Any:
        prior = self.prior if prior is None else prior
        return slow_time.dense_ep(prior, 2.0 * NOISE + more, *self.limits)

    def at(self, items: np.ndarray, dates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of utilities of items at dates (years)."""
        first = self.duels.first_dates()
        own = slow_time.utilities(self.k, items, dates, first)
        own += VARIANCE * ITEMS[items] @ ITEMS[items].T
        across = self.duels.with_utilities(self.k, items, dates)
        across += VARIANCE * (ITEMS[M["losers"]] - ITEMS[M["winners"]]) @ ITEMS[items].T
        found, zero = self.ep(), np.zeros(len(items))
        whole = np.block([[self.prior, across], [across.T, own]])
        sites = np.append(found.precision, zero), np.append(found.shift, zero)
        after = slow_time.conditioned(whole, *sites)
        t = len(self.dates)
        return after.mean[t:], after.covariance[t:, t:]


every_kernel = pytest.mark.parametrize("name", KERNELS)


@every_kernel
@pytest.mark.covering(every=3)
def test_the_evidence_is_that_of_dense_matrices(name: str) -> None:
    model = model_of(name)
    assert model.infer().converged
    assert model.approximation.is_exact
    assert model.log_evidence() == pytest.approx(Dense(name).ep().log_evidence, rel=IDENTITY)


def rows_at(model: spg.PreferenceGP, items: np.ndarray, years: np.ndarray) -> np.ndarray:
    return model.inputs.of_items(items, at=years * DAYS_A_YEAR)


@every_kernel
@pytest.mark.parametrize("when", ["after the end", "gone by", "both"])
@pytest.mark.covering(every=4)
def test_posteriors_at_any_date_are_those_of_dense_matrices(name: str, when: str) -> None:
    model, dense = model_of(name), Dense(name)
    late, past = dense.dates.max() + 1.3, dense.dates.max() - 2.17
    items = np.array([1, 2, 3, 4])
    dates = {
        "after the end": np.full(4, late),
        "gone by": np.full(4, past),
        "both": np.array([late, past, late, past]),
    }[when]
    expected, spread = dense.at(items, dates)
    rows = rows_at(model, items, dates)
    mean, covariance = model.predict_f(rows, full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected, rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(covariance[0], spread, rtol=0, atol=IDENTITY)
    mean, variance = model.predict_f(rows)
    np.testing.assert_allclose(mean[:, 0], expected, rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(variance[:, 0], np.diag(spread), rtol=0, atol=IDENTITY)
    mean, variance = model.predict_difference(rows[:2], rows[2:])
    step = np.hstack([np.eye(2), -np.eye(2)])
    np.testing.assert_allclose(mean, step @ expected, rtol=0, atol=IDENTITY)
    of_step = np.diag(step @ spread @ step.T)
    np.testing.assert_allclose(variance, of_step, rtol=0, atol=IDENTITY)
    if when != "both":
        plain = model.inputs.of_items(items)
        again = model.predict_difference(plain[:2], plain[2:], at=dates[0] * DAYS_A_YEAR)
        np.testing.assert_array_equal(again, (mean, variance))
        at = model.in_time.posterior().at(dates[0] * DAYS_A_YEAR)
        mean, covariance = at.joint(model.inputs.rows(rows))
        np.testing.assert_allclose(mean, expected, rtol=0, atol=IDENTITY)
        np.testing.assert_allclose(covariance, spread, rtol=0, atol=IDENTITY)


def test_an_item_of_which_nothing_is_known_has_the_prior() -> None:
    model = model_of("wiener")
    late = model.in_time.last_date + 400.0
    known, new = model.inputs.of_items([2], at=late), np.array([[0.3, -0.2, -1.0, late]])
    mean, variance = model.predict_f(np.concatenate([known, new]))
    of_features = model.predict_f(np.column_stack([new[:, :2], [[2.0]], new[:, 3:]]))
    assert float(variance[1, 0]) > 1.2
    first, second = model.predict_difference(known, new)
    assert float(first[0]) == pytest.approx(float(mean[0, 0] - mean[1, 0]), rel=IDENTITY)
    assert float(second[0]) > 1.2 and np.all(np.isfinite(of_features))


def test_variance_grows_with_silence() -> None:
    model = model_of("wiener")
    dates = model.in_time.last_date + np.array([0.0, 400.0, 800.0])
    rows = [model.inputs.of_items([2], at=date) for date in dates]
    sds = [float(model.predict_f(row)[1][0, 0]) for row in rows]
    assert sds[0] < sds[1] < sds[2]
    grown = 0.3 * 400.0 / DAYS_A_YEAR
    assert sds[2] - sds[1] == pytest.approx(grown, rel=IDENTITY)


@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC()], ids=lambda a: a.name)
@pytest.mark.covering("VFE")
def test_other_terms_by_inducing_inputs(approximation: spg.Approximation) -> None:
    """Their part of the covariance is low-rank, what it leaves is noise or a correction; effects of
    items, such as slopes, are exact."""
    inducing, se = ITEMS[[0, 2, 5]] + 0.1, gpflow.kernels.SquaredExponential(0.7, 1.5)
    own = spg.ItemTimes(gpflow.kernels.Linear([0.6, 0.8]))
    model = made(
        se + own + spg.ItemInTime(KERNELS["wiener"][0](), slices="quarter"),
        approximation=approximation,
        inducing_variable=inducing,
    )
    dense = Dense("wiener")
    step = np.zeros((40, NUMBER))
    step[np.arange(40), M["losers"]] = 1.0
    step[np.arange(40), M["winners"]] = -1.0
    pairs = (inducing, inducing), (inducing, ITEMS), (ITEMS, ITEMS)
    k_uu, k_uf, k_ff = (np.asarray(se(a, b)) for a, b in pairs)
    explained = step @ k_uf.T @ np.linalg.solve(k_uu, k_uf) @ step.T
    left = np.diag(step @ k_ff @ step.T - explained)
    slopes = [step * (np.sqrt(v) * ITEMS[:, j]) for j, v in enumerate((0.6, 0.8))]
    of_time = slow_time.Duels(
        M["losers"],
        M["winners"],
        dense.dates,
        np.column_stack([-np.sqrt(HOME) * M["home"], *slopes]),
    ).covariance(dense.k)
    share = approximation.residual_share
    expected = dense.ep(of_time + explained, share * left).log_evidence
    expected -= (1.0 - share) * 0.5 * float(left.sum()) / (2.0 * NOISE)
    assert model.log_evidence() == pytest.approx(expected, rel=EVIDENCE)
    check_slopes(model)


@pytest.mark.parametrize("name", ["constant and matern32"])
def test_the_gradient_is_that_of_the_evidence(name: str) -> None:
    check_slopes(model_of(name))


GRADES = np.where(M["tied"], 0, 1 + (np.arange(40) % 2))
# The same model by effects of items, which utilities that never move are.
STILL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ties": ({"ties": M["tied"]}, {"likelihood": spg.Probit(NOISE, margin=MARGIN)}),
    "grades": ({"grades": GRADES}, {"likelihood": spg.Probit(NOISE, margin=MARGIN)}),
    "judges and weights": (
        {"groups": np.arange(40) % 3, "weights": 1.0 + (np.arange(40) % 4) / 2},
        {"likelihood": spg.Probit(NOISE, by="judge")},
    ),
    "leans": ({"labels": {"judge": np.arange(40) % 3}}, {"terms": [spg.Lean("home")]}),
    "counts": ({"counts": 1 + np.arange(40) % 2}, {}),
    "laplace": ({}, {"engine": spg.Laplace(tolerance=1e-12)}),
    "variational": ({}, {"engine": spg.Variational(tolerance=1e-12)}),
    "margin only": (
        {"ties": M["tied"]},
        {"likelihood": spg.Probit(NOISE, margin=MARGIN, ties="margin-only")},
    ),
    "mean": ({}, {"mean_function": gpflow.functions.Linear([[0.3], [-0.2]], [0.1])}),
}


@pytest.mark.parametrize("kind", STILL)
@pytest.mark.covering("ties", "judges and weights")
def test_what_never_moves_is_an_effect_of_the_item(kind: str) -> None:
    said, more = STILL[kind]
    found = []
    for term in (spg.ItemInTime(spg.markov.Constant(0.9), slices="month"), spg.ItemEffect(0.9)):
        duels = duels_of(False, **said)
        given = {
            "engine": TIGHT,
            "likelihood": spg.Probit(NOISE),
            "approximation": spg.Exact(),
            **more,
        }
        model = spg.PreferenceGP(duels, linear() + term, **given)
        rows = model.inputs.of_items()
        mean, variance = model.predict_difference(rows[:3], rows[3:6], covariates=[0.5])
        chances = model.predict_duel(rows[:3], rows[3:6])
        found.append((model.log_evidence(), mean, variance, chances))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=IDENTITY, atol=IDENTITY)


def test_slices_are_what_was_asked_for_or_found() -> None:
    months = M["days"].astype("datetime64[D]").astype("datetime64[M]").astype(int)
    for slices, number in (
        ("year", len({*(months // 12)})),
        ("month", len({*months})),
        (30, len({*(M["days"] // 30)})),
        ([7400.0, 8000.0], 3),
    ):
        model = spg.PreferenceGP(duels_of(False), spg.ItemInTime(spg.markov.Wiener(), slices))
        times = np.unique(model.graph.rows[:, model.inputs.layout.date])
        assert len(times) == number
    kernel = spg.ItemInTime(spg.markov.Wiener(1.0, 0.02))
    assert spg.PreferenceGP(duels_of(False), kernel).in_time.slices == "quarter"  # 20 or more
    kernel = spg.ItemInTime(spg.markov.Wiener(1.0, 1.0))
    assert spg.PreferenceGP(duels_of(False), kernel).in_time.slices == "week"  # sd .14 of noise 1
    kernel = spg.ItemInTime(spg.markov.Wiener(1.0, 100.0))
    assert spg.PreferenceGP(duels_of(False), kernel).in_time.slices == "day"


def test_the_same_model_on_other_slices() -> None:
    coarse = model_of("wiener", "quarter")
    coarse.infer()
    fine = coarse.in_time.with_slices("day")
    for one, other in zip(coarse.inference.sites(), fine.inference.sites(), strict=True):
        np.testing.assert_array_equal(np.sort(one), np.sort(other))  # those of the same duels
    assert (coarse.in_time.slices, fine.in_time.slices) == ("quarter", "day")
    expected = Dense("wiener", dates=M["days"] / DAYS_A_YEAR).ep().log_evidence
    assert fine.log_evidence() == pytest.approx(expected, rel=IDENTITY)
    with refused("still", "slices"):
        spg.PreferenceGP(duels_of(False), linear()).in_time.with_slices("day")
    with pytest.raises(ValueError, match="slices is 'decade'; give 'auto', 'year'"):
        coarse.in_time.with_slices("decade")


def test_hyperparameters_are_learned() -> None:
    model = spg.PreferenceGP(duels_of(False), spg.ItemInTime(spg.markov.Wiener(), "year"))
    before = model.log_evidence()
    spg.optimise(model, least_gain=None)
    assert model.log_evidence() > before
    assert max(float(np.max(np.abs(slope))) for slope in _slopes(model)) < 0.05


def test_dates_are_numbers_texts_and_dates() -> None:
    days = M["days"].astype("datetime64[D]")
    for times in (days, [str(day) for day in days], list(days.astype(object))):
        np.testing.assert_array_equal(duels_of(times=times).times, duels_of().times)
    model = model_of("wiener")
    one, other = (model.predict_f(model.inputs.of_items(at=at)) for at in ("2000-01-01", 10957))
    np.testing.assert_array_equal(one, other)


def _slopes(model: spg.PreferenceGP) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    return [np.asarray(g) for g in tape.gradient(loss, model.trainable_variables)]


@pytest.mark.parametrize("slices", ["quarter", [7400.0, 8000.0]], ids=["name", "days"])
@pytest.mark.covering(every=2)
def test_a_saved_model_answers_the_same(slices: Any, tmp_path: Path) -> None:
    model = made(linear() + spg.ItemInTime(KERNELS["constant and matern32"][0](), slices=slices))
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.infer() == model.infer()
    np.testing.assert_array_equal(again.in_time.slices, model.in_time.slices)
    for at in (None, model.in_time.last_date - 300.0, model.in_time.last_date + 300.0):
        rows = model.inputs.of_items([1, 2, 3], at=at)
        for one, other in zip(*(x.predict_f(rows, True) for x in (model, again)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert again.log_evidence() == pytest.approx(model.log_evidence(), rel=IDENTITY)


def _time(**more: Any) -> spg.ItemInTime:
    return spg.ItemInTime(spg.markov.Wiener(), "year", **more)


REFUSED: dict[str, tuple[Any, str]] = {
    "no dates": (
        lambda: spg.PreferenceGP(duels_of(False, times=None), _time()),
        apart("in_time", "duels_without_dates"),
    ),
    "a missing date": (
        lambda: duels_of(times=np.where(np.arange(40) == 7, np.nan, M["days"])),
        "times has no date for duel 7",
    ),
    "text": (lambda: duels_of(times=["soon"] * 40), "times has 'soon' for duel 0"),
    "fewer dates": (lambda: duels_of(times=M["days"][:3]), r"shape \(3,\); give \(40,\)"),
    "another kernel": (
        lambda: spg.ItemInTime(gpflow.kernels.Matern12()),
        "takes a Markov kernel of spg.markov",
    ),
    "a Markov kernel alone": (
        lambda: spg.PreferenceGP(duels_of(False), spg.markov.Wiener()),
        r"of type Wiener; .* spg.ItemInTime\(…\) round it",
    ),
    "features in a sum in time": (
        lambda: spg.markov.Wiener() + linear(),
        r"kernel \+ spg.ItemInTime\(spg.markov.Wiener\(\)\)",
    ),
    "slices of no length": (
        lambda: spg.ItemInTime(spg.markov.Wiener(), slices=0),
        "slices is 0; give",
    ),
    "two terms": (
        lambda: spg.PreferenceGP(duels_of(False), _time() + _time()),
        "2 ItemInTime terms",
    ),
    "a product": (
        lambda: spg.PreferenceGP(duels_of(False), linear() * _time()),
        "inside a product",
    ),
    "an effect next to it": (
        lambda: spg.PreferenceGP(duels_of(False), spg.ItemEffect() + _time()),
        apart("in_time", "levels_of_items"),
    ),
    "effects by a curved kernel": (
        lambda: spg.PreferenceGP(
            duels_of(False),
            spg.ItemTimes(gpflow.kernels.SquaredExponential(active_dims=[1])) + _time(),
        ),
        apart("in_time", "effects_by_kernel"),
    ),
    "effects of pairs": (
        lambda: spg.PreferenceGP(duels_of(False), spg.PairEffect() + _time()),
        apart("in_time", "pair_effects"),
    ),
    "one by one": (
        lambda: spg.PreferenceGP(duels_of(False), _time(), engine=spg.SequentialEP()),
        apart("in_time", "one_by_one"),
    ),
    "blocks": (
        lambda: spg.PreferenceGP(
            duels_of(False), linear() + _time(), approximation=spg.PITC([0, 1] * 20)
        ),
        apart("in_time", "blocks"),
    ),
    "a subset": (
        lambda: spg.PreferenceGP(duels_of(False), _time(), approximation=spg.SubsetOfData(20)),
        apart("in_time", "subset"),
    ),
    "exact over a kernel": (
        lambda: spg.PreferenceGP(
            duels_of(False), gpflow.kernels.Matern52() + _time(), approximation=spg.Exact()
        ).infer(),
        apart("in_time", "endless_terms"),
    ),
    "nothing for inducing inputs": (
        lambda: spg.PreferenceGP(duels_of(False), _time(), approximation=spg.VFE()),
        apart("effects_of_items_alone", "inducing"),
    ),
    "before its first duel": (
        lambda: model_of("wiener").predict_f(model_of("wiener").inputs.of_items([6], at=7400.0)),
        "Row 0 asks for item 6 on 1990-04-06, before its first duel",
    ),
    "a date without time": (
        lambda: spg.PreferenceGP(duels_of(False), linear()).predict_f(ITEMS, at=9000.0),
        apart("still", "date"),
    ),
    "an export": (
        lambda: spg.export_saved_model(model_of("wiener"), "nowhere"),
        apart("in_time", "export"),
    ),
    "compiled": (
        lambda: tf.function(model_of("wiener").predict_f, autograph=False)(ITEMS),
        apart("compiled", "in_time"),
    ),
    "a stream": (
        lambda: spg.StreamedGP(spg.stream_duels(duels_of(False)), linear() + _time()),
        apart("in_time", "streamed"),
    ),
    "a bound": (lambda: model_of("wiener").lower_bound(), apart("in_time", "lower_bounds")),
    "sampling": (lambda: exact_problem(model_of("wiener")), apart("in_time", "sampling")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_form_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_sweep_that_memory_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checks, machine):
        monkeypatch.setattr(module, "ASKED_ABOVE", 0)
    monkeypatch.setattr(machine, "free_memory", lambda: 2**8)
    with pytest.raises(
        ValueError, match=r"(?s)take coarser slices.* by year 6 and .* by day 6 and"
    ):
        spg.PreferenceGP(duels_of(False), _time())


def test_numbers_that_are_hardly_days_are_said() -> None:
    pair = np.eye(3), [0, 1], [1, 2]
    with pytest.warns(UserWarning, match="2019 to 2020 are taken for days since 1970, 1975-07-13"):
        spg.Duels(*pair, times=[2019, 2020])
    with pytest.raises(ValueError, match="20240130, which as days since 1970 is beyond the year"):
        spg.Duels(*pair, times=[20240130, 20240131])
    with pytest.raises(
        ValueError, match="active_within is -1; give a number, at least 0, of years"
    ):
        model_of("wiener").in_time.active(within=-1)


def test_a_view_of_a_date() -> None:
    model = model_of("wiener")
    day = model.in_time.last_date - 500.0
    then = model.in_time.at(np.datetime64(int(day), "D"))
    assert (then.in_time.date, model.in_time.date) == (np.floor(day), model.in_time.last_date)
    one = then.predict_f(then.inputs.of_items([1, 2]), full_cov=True)
    two = model.predict_f(model.inputs.of_items([1, 2], at=np.floor(day)), full_cov=True)
    for found, expected in zip(one, two, strict=True):
        np.testing.assert_array_equal(found, expected)
    # As features and terms, which rankings take.
    rows = then.inputs.rows(then.inputs.of_items([1, 2]))
    a, posterior = np.asarray(then.posterior().features(rows)), then.posterior()
    weights = np.asarray(posterior.terms.weights)
    np.testing.assert_allclose(a @ weights, one[0][:, 0], rtol=0, atol=IDENTITY)
    prior = np.asarray(posterior.kernel(rows))
    spread = prior - a @ np.asarray(posterior.terms.reduction) @ a.T
    np.testing.assert_allclose(spread, one[1][0], rtol=0, atol=IDENTITY)


def test_trajectories_are_relative_to_the_items_active_then() -> None:
    model, dense = model_of("constant and matern32"), Dense("constant and matern32")
    days = model.in_time.last_date + np.array([-900.0, -400.0, 100.0])
    found = model.in_time.trajectories([2, 6], days)
    first = M["days"][np.flatnonzero((M["winners"] == 6) | (M["losers"] == 6))[0]]
    for j, day in enumerate(days):
        active = model.in_time.active(day)
        assert found.active[j] == len(active)
        items = np.append([2, 6], active)
        mean, spread = dense.at(items, np.full(len(items), day / DAYS_A_YEAR))
        for i in range(2):
            step = np.zeros(len(items))
            step[2:], step[i] = -1.0 / len(active), 1.0
            if i == 1 and day < first:
                assert np.isnan(found.mean[i, j])
                continue
            assert found.mean[i, j] == pytest.approx(float(step @ mean), abs=IDENTITY)
            assert found.sd[i, j] ** 2 == pytest.approx(float(step @ spread @ step), abs=IDENTITY)
    assert 0 not in model.in_time.active() and 0 in model.in_time.active(within=20.0)
    with pytest.raises(ValueError, match="No item is active on 1970-04-11,"):
        model.in_time.trajectories([2], [100.0])
    with pytest.raises(ValueError, match="in no ascending order"):
        model.in_time.trajectories([2], days[::-1])
    with pytest.raises(ValueError, match="items has 9, which is no row"):
        model.in_time.trajectories([9], days)


@pytest.mark.slow
def test_a_compiled_objective_follows_the_parameters() -> None:
    duels = spg.Duels(np.empty((NUMBER, 0)), M["winners"], M["losers"], times=M["days"])
    term = spg.ItemInTime(spg.markov.Wiener(0.5, 0.05), slices="quarter")
    model = spg.PreferenceGP(duels, term, approximation=spg.Exact())
    compiled = tf.function(model.maximum_log_likelihood_objective, autograph=False)
    values = []
    for variance in (0.5, 0.8, 0.5):
        model.kernel.kernel.variance.assign(variance)
        model.infer()  # at whose sites the next evaluation begins
        values.append(float(compiled()))
        assert values[-1] == pytest.approx(model.log_evidence(), rel=EVIDENCE)
    assert values[0] != values[1]
    report = spg.optimise(model)
    assert report.iterations > 0 and report.log_evidence > values[0]


def test_a_lengthscale_beyond_the_duels_is_a_wiener_process() -> None:
    for lengthscale, said in ((50.0, True), (20.0, False)):
        kernel = spg.ItemInTime(spg.markov.Constant() + spg.markov.Matern12(1.0, lengthscale))
        found = [x for x in limits_of(spg.PreferenceGP(duels_of(False), kernel)) if "Wiener" in x]
        assert len(found) == said
        assert not said or "is 50 years, where the duels are of 7.76" in found[0]


def test_rows_without_a_date_are_of_that_of_the_posterior() -> None:
    """As explanations and slopes take them: of one unknown item, whose own part cancels."""
    model = model_of("wiener")
    posterior = model.in_time.at(model.in_time.last_date - 700.0).posterior()
    short = np.column_stack([ITEMS[:3], [-1.0, -1.0, -1.0]])
    rows = [model.in_time.dated(short, model.in_time.last_date - 700.0)]
    both = np.stack([short[:2], short[1:]], 1)
    mean, variance = np.asarray(posterior.difference(tf.constant(both))).T
    step = short[:2, :2] - short[1:, :2]
    weights, covariance = posterior._of_weights
    root = np.sqrt(VARIANCE)
    np.testing.assert_allclose(mean, root * step @ weights[:2], rtol=0, atol=IDENTITY)
    of_features = VARIANCE * np.einsum("ij,jk,ik->i", step, covariance[:2, :2], step)
    np.testing.assert_allclose(variance, of_features, rtol=0, atol=IDENTITY)
    first = posterior.marginal(tf.constant(short))
    second = posterior.marginal(model.inputs.rows(rows[0]))
    np.testing.assert_allclose(first, second, rtol=0, atol=IDENTITY)


def test_duels_are_scored_at_their_dates() -> None:
    model, later = model_of("wiener"), duels_of()
    found = spg.evaluate(model, later)["held_out"]["model"]["nlp_nats"]
    rows, given = model.inputs.of_items(), later.events
    first, second = (rows[given.pairs[:, side]] for side in (0, 1))
    mean, variance = model.predict_difference(
        first, second, covariates=later.covariates, at=given.time
    )
    logs = forecast_of(model, mean, variance).log_first[~later.ties]
    weights = given.counts[~later.ties]
    assert found == pytest.approx(-float(weights @ logs) / weights.sum(), rel=IDENTITY)
