"""What a fit of duels with dates decides: slices asked again, the kernel, and an entry level."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances import markov
from sparse_prefgp.workflow.fit_telling import time_sentences
from sparse_prefgp.workflow.in_time import TRIAL_STEPS, _Trial, begun


def league(utility: np.ndarray, days: np.ndarray, enters: np.ndarray, seed: int) -> pd.DataFrame:
    """Duels between items that are there, by utilities (n, number of days)."""
    rng = np.random.default_rng(seed)
    there = [np.flatnonzero(enters <= day) for day in days]
    ends = np.array([rng.choice(some, 2, replace=False) for some in there])
    gap = utility[ends[:, 0], days] - utility[ends[:, 1], days]
    won = (gap + rng.normal(size=len(days)) > 0.0)[:, None]
    names = np.array([f"i{k}" for k in range(len(utility))])
    winner, loser = np.where(won, ends, ends[:, ::-1]).T
    date = (np.datetime64("2010-01-01") + days).astype(str)
    return pd.DataFrame({"winner": names[winner], "loser": names[loser], "date": date})


def moving_fast() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    steps = rng.normal(size=(10, 6 * 365)) * np.sqrt(4.0 / 365)
    days = np.sort(rng.integers(0, 6 * 365, 500))
    return league(np.cumsum(steps, 1), days, np.zeros(10), 1)


def with_newcomers(level: float) -> pd.DataFrame:
    """Half of the items come in later, at another level."""
    rng = np.random.default_rng(4)
    enters = np.r_[np.zeros(10), rng.uniform(300, 2000, 14)]
    utility = 0.7 * rng.normal(size=24) + level * (enters > 0)
    days = np.sort(rng.integers(0, 6 * 365, 600))
    return league(np.repeat(utility[:, None], 6 * 365, 1), days, enters, 2)


@pytest.mark.slow
def test_slices_are_asked_again_with_the_learned_kernel() -> None:
    options = {"time": "date", "max_iterations": 15, "test_fraction": 0.0}
    kernel = "item-in-time(wiener)"
    found = spg.fit(None, moving_fast(), kernel=kernel, **options)
    told = found.figures["in_time"]
    assert told["learned_on"][0] == "quarter" and 1 < len(told["learned_on"]) <= 3
    assert told["slices"] == told["learned_on"][-1] == found.model.in_time.slices
    noise = float(np.sqrt(2.0 * found.model.likelihood.noise.numpy()))
    assert found.model.in_time.moved_in(7 / 365.25) <= 0.35 * noise  # finer than a quarter's
    assert "kernels" not in told and str(found.settings.kernel_choice) == kernel
    words = time_sentences(told)[1]
    assert f"learned on slices of a quarter, then of a {told['learned_on'][1]}" in words
    fixed = spg.fit(None, moving_fast(), kernel="item-in-time(wiener, quarter)", **options)
    assert fixed.figures["in_time"]["learned_on"] == ["quarter"]
    assert found.report.log_evidence > fixed.report.log_evidence


@pytest.mark.slow
def test_newcomers_have_a_level_where_that_forecasts_better() -> None:
    options = {"time": "date", "max_iterations": 15}
    lower = spg.fit(None, with_newcomers(-2.0), refit=True, **options)
    entry = lower.figures["in_time"]["entry_level"]
    assert entry["kept"] and entry["newcomers"] >= 8
    assert -3.0 < entry["level"] < -1.0 and entry["gain"] >= 2.0
    assert entry["last_fifth"] < entry["last_fifth_without"]
    (term,) = lower.model.terms.parts(spg.EntryLevel)  # of all duels, which has what was decided
    assert lower.model.duels.num_duels == 600
    assert entry["after"] == str(np.datetime64(int(term.after), "D"))
    assert any("come in lower by" in words for words in time_sentences(lower.figures["in_time"]))
    assert "without_dates" in lower.scores
    same = spg.fit(None, with_newcomers(0.0), **options)
    assert not same.figures["in_time"]["entry_level"]["kept"]
    assert not same.model.terms.parts(spg.EntryLevel)


@pytest.mark.slow
def test_form_beside_a_level_is_found() -> None:
    rng = np.random.default_rng(6)
    days, fading = 6 * 365, np.exp(-1 / 90)
    form = np.zeros((12, days))
    shocks = rng.normal(size=form.shape) * np.sqrt(1.5 * (1 - fading**2))
    form[:, 0] = rng.normal(size=12) * np.sqrt(1.5)
    for day in range(1, days):
        form[:, day] = fading * form[:, day - 1] + shocks[:, day]
    utility = 1.5 * rng.normal(size=(12, 1)) + form
    duels = league(utility, np.sort(rng.integers(0, days, 1500)), np.zeros(12), 7)
    found = spg.fit(None, duels, time="date", max_iterations=30)
    told = found.figures["in_time"]
    assert told["kernel"] == "constant+matern12"
    assert str(found.settings.kernel_choice) == "item-in-time(constant+matern12)"
    assert found.figures["fit"]["kernel"] == "item-in-time(constant+matern12)"
    gains = {one["kernel"]: one["gain"] for one in told["kernels"]}
    assert gains["constant+matern12"] >= 2.0 and gains["wiener"] == 0.0
    assert f"{told['kernel']} was taken" in time_sentences(told)[1]


def test_a_trial_ends_where_its_gains_would_not_do() -> None:
    def steps(values: list[float]) -> tuple[int, bool]:
        trial, made = _Trial(-100.0), 0
        progress: Any
        try:
            for value in values:
                progress, made = SimpleNamespace(log_evidence=value), made + 1
                trial(progress)
        except StopIteration:
            return made, trial.hopeful
        return made + 1, trial.hopeful

    assert steps([-200.0, -190.0, -189.0, -188.0]) == (3, False)
    rising = [-200.0, -180.0, -160.0, -140.0, -120.0, -99.0, *[-98.0] * 9]
    assert steps(rising) == (TRIAL_STEPS, True)
    assert steps([-99.0, -98.0]) == (3, True)  # it went on


def test_other_kernels_begin_as_the_wiener_process_moves() -> None:
    wiener = markov.Wiener(0.8, 0.1)
    day = tf.constant([1 / 365.25], tf.float64)
    step = float(wiener.added(day)[0, 0, 0])
    for name in ("matern12", "constant+matern12"):
        kernel = begun(name, wiener, span=8.0)
        h = kernel.observed
        assert float(h @ kernel.added(day)[0].numpy() @ h) == pytest.approx(step, rel=0.01)
    form = markov.Matern12(0.8, 3.0)
    both = begun("constant+matern12", form, span=8.0)
    assert float(both.start().numpy().sum()) == pytest.approx(0.8)
    step = float(form.added(day)[0, 0, 0])
    assert float(both.added(day).numpy().sum()) == pytest.approx(step, rel=0.01)
    still = begun("matern12", markov.Wiener(0.8, 1e-9), span=8.0)
    assert float(still.lengthscale.numpy()) == pytest.approx(2.0 * 0.8 / 1e-4)


@pytest.mark.parametrize(("rate", "slices"), [(1e-4, "year"), (0.05, "quarter"), (3.0, "day")])
def test_slices_that_a_kernel_asks_for(rate: float, slices: str) -> None:
    days = np.arange(0.0, 30 * 365.0, 5.0)
    assert spg.ItemInTime(markov.Wiener(1.0, rate)).asked_for(days, 1.0) == slices
