"""Sets of ranks against loops, groups by hand, and Elo points by the slope of a score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.analysis import ranking as module
from sparse_prefgp.analysis.rank_sets import points_per_unit, rank_sets, some_draws
from tests.reference import slow_rank_sets
from tests.tolerances import ROUNDING

LEVEL = 0.9


def duels_of_teams(seed: int, ties: bool = False) -> spg.Duels:
    rng = np.random.default_rng(seed)
    first, second = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)] * 12).T
    apart = second - first + 2.0 * rng.normal(size=len(first))
    won = apart > 0.0
    return spg.Duels(
        np.empty((6, 0)),
        np.where(won, first, second),
        np.where(won, second, first),
        ties=np.abs(apart) < 0.5 if ties else None,
        item_ids=[f"team {i}" for i in range(6)],
    )


def test_sets_of_ranks_are_those_of_loops() -> None:
    rng = np.random.default_rng(1)
    mean, root = rng.normal(size=7), rng.normal(size=(7, 7)) / 4.0
    covariance = root @ root.T
    draws = mean + rng.normal(size=(301, 7)) @ root.T
    found = rank_sets(mean, covariance, draws, LEVEL)
    expected = slow_rank_sets.not_ruled_out(mean, covariance, draws, LEVEL)
    assert list(zip(found.low, found.high, strict=True)) == expected
    expected = slow_rank_sets.likely(draws, LEVEL)
    assert list(zip(found.likely_low, found.likely_high, strict=True)) == expected
    assert {high - low for low, high in expected} != {0}, "the case is not trivial"


def test_groups_begin_where_an_item_is_surely_below_the_first() -> None:
    mean, sd = np.array([0.0, 5.0, 4.9, 9.0, 0.3]), 0.2
    draws = mean + sd * np.random.default_rng(0).normal(size=(500, 5))
    found = rank_sets(mean, sd**2 * np.eye(5), draws, LEVEL)
    assert found.group.tolist() == [3, 2, 2, 1, 3]
    assert found.low.tolist() == [4, 2, 2, 1, 4] and found.high.tolist() == [5, 3, 3, 1, 5]
    known = rank_sets(mean, np.zeros((5, 5)), np.tile(mean, (9, 1)), LEVEL)
    assert known.low.tolist() == known.high.tolist() == [5, 2, 3, 1, 4]


def test_draws_are_evenly_spaced() -> None:
    assert some_draws(10).tolist() == [*range(10)]
    many = some_draws(10_001)
    assert len(many) == 4_000 and many[0] == 0 and many[-1] == 10_000
    assert {*np.diff(many)} == {2, 3}


@pytest.mark.parametrize(("noise", "margin"), [(0.5, None), (0.5, 0.4), (2.0, 0.7)])
def test_elo_has_the_slope_of_the_expected_score(noise: float, margin: float | None) -> None:
    sd, half, step = np.sqrt(2.0 * noise), margin or 0.0, 1e-4

    def score(utility: float) -> float:
        won, lost = norm.cdf((utility - half) / sd), norm.cdf((-utility - half) / sd)
        return float(won + 0.5 * (1.0 - won - lost))

    def elo_score(points: float) -> float:
        return float(1.0 / (1.0 + 10.0 ** (-points / 400.0)))

    points = points_per_unit(noise, margin)
    assert score(step) - 0.5 == pytest.approx(elo_score(points * step) - 0.5, rel=1e-6)


def test_a_ranking_has_sets_groups_and_points() -> None:
    model = spg.PreferenceGP(
        duels_of_teams(0, ties=True), spg.ItemEffect(), likelihood=spg.Probit(margin=0.4)
    )
    found = spg.rank(model, order="mean", level=LEVEL, with_ranks=True, anchor="team 3")
    frame = found.frame.set_index("item_id")
    assert (frame["rank_low"] <= frame["rank"]).all() and (
        frame["rank"] <= frame["rank_high"]
    ).all()
    assert (frame["likely_low"] <= frame["likely_high"]).all()
    assert (frame["rank_low"] <= frame["likely_low"]).all()
    assert frame["group"].is_monotonic_increasing and frame["group"].max() > 1
    assert frame.loc["team 3", "elo"] == pytest.approx(1000.0)
    unit = points_per_unit(0.5, 0.4)
    np.testing.assert_allclose(
        np.diff(frame["elo"]), unit * np.diff(frame["utility"]), rtol=ROUNDING
    )
    text = str(found)
    assert "not ruled out" in text and "margin 0.4 sd" in text and "team 3 has 1,000" in text
    assert "not ruled out" not in str(spg.rank(model))
    as_asked = spg.rank(model, anchor=("team 0", 1200)).frame.set_index("item_id")
    assert as_asked.loc["team 0", "elo"] == pytest.approx(1200.0)
    assert spg.rank(model).frame["elo"].mean() == pytest.approx(1000.0)
    with pytest.raises(ValueError, match=r"'team 9' is none of the items .* mean 'team "):
        spg.rank(model, anchor="team 9")


def test_without_all_candidates_there_are_no_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    model = spg.PreferenceGP(duels_of_teams(0), spg.ItemEffect())
    found = spg.rank(model, top_k=2, candidates=4, with_ranks=True)
    assert found.frame[["rank_low", "likely_high", "group"]].isna().all(axis=None)
    assert "Sets of ranks are of at most 300 items, all of them candidates." in str(found)
    monkeypatch.setattr(module, "MOST_ITEMS", 5)
    assert spg.rank(model).frame["rank_high"].isna().all()


@pytest.mark.slow
def test_sets_of_a_mixture_are_wider_than_those_of_its_narrow_part() -> None:
    model = spg.PreferenceGP(duels_of_teams(2), spg.ItemEffect())
    spg.optimise(model, max_iterations=5)
    mixed = spg.integrate(model)
    assert len(mixed.weights) > 1
    narrow = spg.rank(model, level=LEVEL).frame
    wide = spg.rank(mixed, level=LEVEL).frame
    sizes = [(frame["rank_high"] - frame["rank_low"]).sum() for frame in (wide, narrow)]
    assert sizes[0] >= sizes[1] > 0
