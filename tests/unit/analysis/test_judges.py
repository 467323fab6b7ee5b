"""Judges: agreement without their own votes against dense algebra, and who is reversed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.judges import judges
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import Verdicts
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.preference_gp import copied
from tests.reference import slow_judges
from tests.together import refused
from tests.tolerances import FIXED_POINT, IDENTITY

JUDGES = ("ann", "ben", "cem", "dan")


def battles(number: int, backwards: str | None = None, seed: int = 0) -> pd.DataFrame:
    """Votes on six models, of whom each is better than the next."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, number)
    second = (first + rng.integers(1, 6, number)) % 6
    judge = rng.choice(JUDGES, number, p=[0.55, 0.2, 0.15, 0.1])
    ahead = 0.5 * (second - first) + 0.2 + rng.normal(size=number)
    ahead = np.where(judge == backwards, -ahead, ahead)
    return pd.DataFrame(
        {
            "model_a": [f"m{i}" for i in first],
            "model_b": [f"m{i}" for i in second],
            "winner": np.where(np.abs(ahead) < 0.3, "tie", np.where(ahead > 0, "a", "b")),
            "judge": judge,
            "length_a": rng.normal(size=number).round(1),
            "length_b": rng.normal(size=number).round(1),
        }
    )


def model_of(table: pd.DataFrame) -> spg.PreferenceGP:
    duels = spg.read(
        table, noise_by="judge", covariate=["length"], lean_by="judge:side"
    ).standardised()
    model = spg.PreferenceGP(
        duels,
        spg.ItemEffect(0.5),
        terms=[spg.Lean("side", "judge")],
        likelihood=spg.Probit(by="judge", margin=0.3, cuts_by="judge"),
    )
    model.likelihood.noise_ratio.assign([0.5, 1.0, 2.0, 3.0])
    return model


def test_sites_of_a_judge_are_removed_exactly() -> None:
    model = model_of(battles(40))
    board, graph = Board.of(Votes.of(model)), model.graph
    sizes = np.bincount(board.votes.judge.numbers)
    assert sizes.max() > len(board.posterior[0]) >= sizes.min(), "both ways are taken"
    for judge in range(4):
        rows, mean, variance = board.by_others(judge)
        own = np.flatnonzero(graph.groups == judge)
        place = np.searchsorted(own, graph.event_of_duel[rows])
        behind, spread = slow_judges.without(model, judge)
        assert len(rows) == graph.counts[own][graph.won[own]].sum()
        np.testing.assert_allclose(mean, -behind[place], atol=FIXED_POINT)
        np.testing.assert_allclose(variance, spread[place], atol=FIXED_POINT)


def test_information_of_a_vote_is_that_of_differences() -> None:
    rng = np.random.default_rng(0)
    mean, variance, noise, margin = rng.normal(size=5), *rng.uniform(0.1, 2.0, (3, 5))
    found = Verdicts.of(mean, variance, noise, margin).information
    for i in range(5):
        expected = slow_judges.information(mean[i], variance[i], noise[i], margin[i])
        np.testing.assert_allclose(found[..., i], expected, rtol=1e-5)
    without_ties = Verdicts.of(mean, variance, noise, None).information
    assert np.all(without_ties[1] == 0.0) and np.all(without_ties[0, 0] > 0.0)


@pytest.mark.slow
def test_a_judge_who_names_the_worse_side_is_told() -> None:
    model = model_of(battles(900, backwards="cem"))
    spg.optimise(model, max_iterations=8)
    found = judges(model)
    frame = found.frame.set_index("judge")
    assert frame["votes"].tolist() == sorted(frame["votes"], reverse=True)
    assert frame["votes"].sum() == 900
    assert frame.index[frame["reversed"]].tolist() == ["cem"]
    assert frame.loc["cem", "agreement"] < 0.4 < frame.loc["cem", "expected"]
    assert frame.loc["cem", "noise_lower"] > frame.loc["ann", "noise_upper"]
    for name in ("noise", "margin", "lean", "agreement"):
        between = frame[f"{name}_lower"] <= frame[name], frame[name] <= frame[f"{name}_upper"]
        assert np.all(between)
    assert "1 judge seems to name the worse side (cem)" in str(found)
    assert "to the first side" in str(found) and len(found.table(2).rows) == 2
    weights, ratio = frame["votes"], model.likelihood.noise_ratio.numpy()
    for name in ("noise", "margin"):
        usual = np.exp(np.average(np.log(frame[name]), weights=weights))
        assert usual == pytest.approx(1.0, rel=IDENTITY), "is that of the usual judge"
    own = dict(zip(model.duels.group_names, ratio, strict=True))
    assert frame.loc["cem", "noise"] / frame.loc["ann", "noise"] == pytest.approx(
        own["cem"] / own["ann"], rel=IDENTITY
    )
    clean = judges(model_of(battles(900)))
    assert not clean.frame["reversed"].any() and "reversed" not in str(clean)


def test_nobody_else_says_who_is_better_than_a_judge_alone() -> None:
    table = battles(60).assign(judge="ann")
    duels = spg.read(table, noise_by="judge", side=False).standardised()
    model = spg.PreferenceGP(duels, spg.ItemEffect(), likelihood=spg.Probit(by="judge", margin=0.3))
    assert Board.of(Votes.of(model)).agreement(0)[0] == 0.0
    frame = judges(model).frame
    assert frame[["agreement", "agreement_lower", "lean", "margin"]].isna().all(axis=None)
    assert not frame["reversed"].any()
    model.likelihood.noise_ratio.assign([3.0])
    alone = judges(model).frame.iloc[0]
    assert alone["noise"] == pytest.approx(1.0, rel=IDENTITY), "he is the usual judge"
    assert alone["noise_lower"] < 1.0 < alone["noise_upper"]
    plain = spg.PreferenceGP(duels, spg.ItemEffect(), likelihood=spg.Probit(margin=0.3))
    with refused("one_noise", "judges_apart"):
        judges(plain)


def test_intervals_of_agreement_are_those_of_clopper_and_pearson() -> None:
    frame = judges(model_of(battles(200)), level=0.9).frame
    agreed = frame["agreement"] * frame["decided"]
    np.testing.assert_allclose(agreed, agreed.round(), atol=IDENTITY)
    for row, count in zip(frame.itertuples(), agreed.round(), strict=True):
        from scipy.stats import binomtest

        ends = binomtest(int(count), int(row.decided)).proportion_ci(0.9, method="exact")
        assert row.agreement_lower == pytest.approx(ends.low, abs=IDENTITY)
        assert row.agreement_upper == pytest.approx(ends.high, abs=IDENTITY)


def test_how_noisy_all_judges_are_together_is_the_unit_of_a_ranking() -> None:
    """Utilities, coefficients, margin and noise times a number are the same votes."""
    model = model_of(battles(300))
    points = [copied(model), copied(model)]
    for factor, point in zip((0.5, 1.4), points, strict=True):
        kernel, likelihood, (lean,) = point.kernel, point.likelihood, point.terms.parts(spg.Lean)
        (coefficients,) = point.terms.parts(spg.Coefficients)
        for parameter, power in (
            (kernel.variance, 2),
            (coefficients.variance, 2),
            (lean.variance, 2),
            (likelihood.noise_ratio, 2),
            (likelihood.margin, 1),
        ):
            parameter.assign(factor**power * parameter.numpy())
    mixed = IntegratedGP(model, points, np.array([0.3, 0.7]))
    np.testing.assert_allclose(mixed.mixture.units, [2.0, 1.0 / 1.4], rtol=IDENTITY)
    wide, narrow = (spg.rank(one).frame.set_index("item_id") for one in (mixed, model))
    for name in ("utility", "sd", "lower", "upper", "elo"):
        np.testing.assert_allclose(wide[name], narrow.loc[wide.index, name], rtol=1e-6, atol=1e-6)
    parts, one = mixed.coefficients().marginals.times(mixed.mixture.units), model.coefficients()
    np.testing.assert_allclose(parts.interval(one.level), one.interval, rtol=1e-6, atol=1e-6)
