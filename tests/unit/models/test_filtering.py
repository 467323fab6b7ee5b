"""Later duels in one pass, against dense matrices slice after slice."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.engines import Status
from tests.reference import slow_time
from tests.together import refused
from tests.tolerances import IDENTITY
from tests.unit.models.test_time import (
    HOME,
    ITEMS,
    KERNELS,
    MARGIN,
    NOISE,
    NUMBER,
    TIGHT,
    VARIANCE,
    Dense,
    M,
    duels_of,
    linear,
    model_of,
)

EARLY = 22  # right after the match that is there twice


def some_duels(which: slice, **more: Any) -> spg.Duels:
    given = {
        "covariates": M["home"][which, None],
        "covariate_names": ["home"],
        "times": M["days"][which],
        "ties": M["tied"][which],
        **more,
    }
    return spg.Duels(ITEMS, M["winners"][which], M["losers"][which], **given)


@cache
def early_model(slices: str = "quarter", **more: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        some_duels(slice(0, EARLY)),
        linear() + spg.ItemInTime(KERNELS["wiener"][0](), slices=slices),
        engine=TIGHT,
        terms=[spg.Coefficients(HOME)],
        likelihood=spg.Probit(NOISE, margin=MARGIN),
        **more,
    )


def dense_pass(dates: np.ndarray, early: np.ndarray, first: int) -> slow_time.Followed:
    """The matches from `first` on, given EP on those before at the dates that they had then."""
    before = Dense("wiener", dates=np.where(np.arange(40) < first, early, dates))
    limits = before.limits
    zeros = np.zeros(40 - first)
    sites = np.zeros(40), np.zeros(40)
    if first:
        found = slow_time.dense_ep(
            before.prior[:first, :first], 2.0 * NOISE, *(x[:first] for x in limits)
        )
        sites = np.append(found.precision, zeros), np.append(found.shift, zeros)
    late = np.arange(first, 40)
    slices = [late[dates[late] == date] for date in np.unique(dates[late])]
    return slow_time.followed(
        Dense("wiener", dates=dates).prior, slices, sites, 2.0 * NOISE, limits
    )


def dates_of(days: np.ndarray, slices: str) -> np.ndarray:
    """Mean days of slices, in years, of a coarse slice up to `EARLY` and of days after it."""
    day = days.astype("datetime64[D]")
    number = {
        "day": day.astype(int),
        "quarter": day.astype("datetime64[M]").astype(int) // 3,
    }[slices]
    return np.array([days[number == each].mean() for each in number]) / DAYS_A_YEAR


def check(found: Any, expected: slow_time.Followed, first: int) -> None:
    turned = M["tied"] & (M["winners"] > M["losers"])  # a tie has the lower row first
    ahead = np.where(turned, expected.mean, -expected.mean)[first:]
    np.testing.assert_allclose(found.mean, ahead, rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(found.variance, expected.variance[first:], rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(
        found.log_probabilities, expected.log_probabilities[first:], rtol=0, atol=IDENTITY
    )
    assert found.log_predictive == pytest.approx(expected.log_predictive, rel=IDENTITY)
    assert found.unsettled == 0


def test_later_duels_by_slices_of_the_model() -> None:
    days = M["days"]
    early = np.append(dates_of(days[:EARLY], "quarter"), np.zeros(40 - EARLY))
    expected = dense_pass(dates_of(days, "quarter"), early, EARLY)
    found = early_model().in_time.filter(some_duels(slice(EARLY, None)))
    check(found, expected, EARLY)
    assert found.slices == len(np.unique(dates_of(days, "quarter")[EARLY:]))


def test_later_duels_by_finer_slices() -> None:
    days = M["days"]
    early = np.append(dates_of(days[:EARLY], "quarter"), np.zeros(40 - EARLY))
    dates = np.append(early[:EARLY], days[EARLY:] / DAYS_A_YEAR)
    found = early_model().in_time.filter(some_duels(slice(EARLY, None)), slices="day")
    check(found, dense_pass(dates, early, EARLY), EARLY)
    assert found.slices == len(np.unique(days[EARLY:]))


def test_from_the_first_duel_on() -> None:
    model = model_of("wiener", "day")
    found = model.in_time.filter()
    dates = M["days"] / DAYS_A_YEAR
    check(found, dense_pass(dates, dates, 0), 0)


def test_the_model_of_a_filter_has_its_sites() -> None:
    days = M["days"]
    dates = days / DAYS_A_YEAR
    model = early_model("day").in_time.filter(some_duels(slice(EARLY, None))).model
    expected = dense_pass(dates, dates, EARLY)
    dense, items = Dense("wiener", dates=dates), np.arange(1, 5)
    for at in (dates[-1] + 0.5, dates[-5] + 0.001):
        own = slow_time.utilities(dense.k, items, np.full(4, at), dense.duels.first_dates())
        own += VARIANCE * ITEMS[items] @ ITEMS[items].T
        across = dense.duels.with_utilities(dense.k, items, np.full(4, at))
        across += VARIANCE * (ITEMS[M["losers"]] - ITEMS[M["winners"]]) @ ITEMS[items].T
        whole = np.block([[dense.prior, across], [across.T, own]])
        sites = (np.append(x, np.zeros(4)) for x in (expected.precision, expected.shift))
        after = slow_time.conditioned(whole, *sites)
        mean, covariance = model.predict_f(model.inputs.of_items(items, at=at * DAYS_A_YEAR), True)
        np.testing.assert_allclose(mean[:, 0], after.mean[40:], rtol=0, atol=IDENTITY)
        np.testing.assert_allclose(covariance[0], after.covariance[40:, 40:], rtol=0, atol=IDENTITY)


def test_a_filter_takes_up_where_another_ended(tmp_path: Path) -> None:
    model = early_model("day")
    whole = model.in_time.filter(some_duels(slice(EARLY, None)))
    half = model.in_time.filter(some_duels(slice(EARLY, 31)))
    spg.save(half.model, tmp_path / "half")
    again = spg.load(tmp_path / "half")
    assert again.infer() == half.model.infer()
    assert again.infer().status is Status.FILTERED and not again.infer().converged
    rest = some_duels(slice(31, None))
    found, other = half.model.in_time.filter(rest), again.in_time.filter(rest)
    np.testing.assert_array_equal(found.log_probabilities, other.log_probabilities)
    both = half.log_predictive + found.log_predictive
    assert both == pytest.approx(whole.log_predictive, rel=IDENTITY)
    rows = whole.model.inputs.of_items()
    for one, two, three in zip(
        *(x.model.predict_f(rows, True) for x in (whole, found, other)), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=0, atol=IDENTITY)
        np.testing.assert_array_equal(two, three)
    with refused("filtered", "log_evidence"):
        found.model.log_evidence()
    assert found.model.infer(restart=True).converged
    expected = Dense("wiener", dates=M["days"] / DAYS_A_YEAR).ep().log_evidence
    assert found.model.log_evidence() == pytest.approx(expected, rel=IDENTITY)


def test_items_are_the_same_by_their_ids() -> None:
    names = [f"team {i}" for i in range(NUMBER)]
    model = spg.PreferenceGP(
        spg.Duels(
            ITEMS[:6],
            M["winners"][:EARLY],
            M["losers"][:EARLY],
            times=M["days"][:EARLY],
            item_ids=names[:6],
        ),
        spg.ItemInTime(spg.markov.Wiener(), "day"),
    )
    turned = np.arange(NUMBER)[::-1]  # the later table has them in another order, and one more
    later = spg.Duels(
        ITEMS[turned],
        turned[M["winners"][EARLY:]],
        turned[M["losers"][EARLY:]],
        times=M["days"][EARLY:],
        item_ids=[names[i] for i in turned],
    )
    found = model.in_time.filter(later)
    assert found.model.duels.item_ids == tuple(names)
    winners = found.model.duels.given.pairs[EARLY:, 0]
    np.testing.assert_array_equal(winners, M["winners"][EARLY:])
    with pytest.raises(ValueError, match="The item 'team 5' has other features than before"):
        model.in_time.filter(spg.Duels(ITEMS, [6], [0], times=[20000.0], item_ids=names[::-1]))


@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC()], ids=lambda a: a.name)
@pytest.mark.slow
def test_other_terms_by_inducing_inputs(approximation: spg.Approximation) -> None:
    """With inducing inputs at all items they leave nothing, and are the exact terms."""
    found = []
    for kernel, more in (
        (linear(), {}),
        (linear(), {"approximation": approximation, "inducing_variable": ITEMS}),
    ):
        model = spg.PreferenceGP(
            some_duels(slice(0, EARLY)),
            kernel + spg.ItemInTime(KERNELS["wiener"][0](), slices="month"),
            terms=[spg.Coefficients(HOME)],
            likelihood=spg.Probit(NOISE, margin=MARGIN),
            **more,
        )
        found.append(model.in_time.filter(some_duels(slice(EARLY, None))).log_probabilities)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-4)


def test_what_no_filter_can_take_up_is_refused() -> None:
    model = early_model()
    with pytest.raises(ValueError, match=r"Duel 0 is of .*, before the last one of the model"):
        model.in_time.filter(some_duels(slice(3, None)))
    with pytest.raises(ValueError, match="ew duels without dates"):
        model.in_time.filter(some_duels(slice(EARLY, None), times=None))
    with pytest.raises(ValueError, match="The new duels have 1 features where the old ones have 2"):
        model.in_time.filter(spg.Duels(ITEMS[:, :1], [0], [1], times=[20000.0]))
    with refused("still", "filter"):
        spg.PreferenceGP(
            duels_of(), gpflow.kernels.Linear(), likelihood=spg.Probit(margin=MARGIN)
        ).in_time.filter()
    ties = spg.PreferenceGP(
        duels_of(),
        spg.ItemInTime(spg.markov.Wiener(), "year"),
        likelihood=spg.Probit(margin=MARGIN, ties="margin-only"),
    )
    with refused("margin_only", "filter"):
        ties.in_time.filter()
