"""Ties, groups and weights in all that predicts, scores, counts and samples."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.analysis.rivals import linear_probit, probit_of
from sparse_prefgp.data.answers import TIE, Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.io import read_duels
from sparse_prefgp.learning.checkpoint import identify
from sparse_prefgp.workflow.automatic import choose
from sparse_prefgp.workflow.holdout import (
    fit_model,
    predict_held_out,
    prepare,
    refit_model,
)
from sparse_prefgp.workflow.settings import DEFAULT_MARGIN, FitSettings
from tests.cases import assert_same_scores
from tests.reference import slow_noise
from tests.together import refused
from tests.tolerances import IDENTITY, MONTE_CARLO_STANDARD_ERRORS, ROUNDING, SOLVER

pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app

N, T = 12, 120
RATIOS = [0.3, 1.0, 4.0]
NAMES = [f"i{i}" for i in range(N)]


def frames(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Items, and duels with ties, judges of whom one is careless, and home advantage."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    items = pd.DataFrame({"item_id": NAMES, "a": x[:, 0], "b": x[:, 1]})
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    judge = rng.integers(0, 3, T)
    home = rng.integers(0, 2, T)
    ahead = np.sin(x[:, 0])[pairs] @ [1.0, -1.0] + 0.5 * (2 * home - 1)
    ahead += np.array([0.3, 0.5, 2.0])[judge] * rng.normal(size=T)
    first = np.where(ahead > 0, pairs[:, 0], pairs[:, 1])
    second = np.where(ahead > 0, pairs[:, 1], pairs[:, 0])
    won_at_home = np.where(ahead > 0, home, 1 - home)
    duels = pd.DataFrame(
        {
            "winner": np.array(NAMES)[first],
            "loser": np.array(NAMES)[second],
            "tie": (np.abs(ahead) < 0.4).astype(int),
            "judge": np.array(["ann", "ben", "cem"])[judge],
            "worth": np.where(judge == 2, 0.5, 1.0),
            "winner_home": won_at_home,
            "loser_home": 1 - won_at_home,
        }
    )
    return items, duels


@pytest.fixture(scope="module")
def table() -> Duels:
    return read_duels(*frames(), groups="judge")


@pytest.fixture(scope="module")
def model(table: Duels) -> spg.PreferenceGP:
    return made(table.standardised())


def made(duels: spg.Duels, likelihood: spg.Probit | None = None) -> spg.PreferenceGP:
    result = spg.PreferenceGP(
        duels,
        gpflow.kernels.Matern52(),
        engine=spg.ParallelEP(tolerance=SOLVER),
        likelihood=likelihood or spg.Probit(by="judge", margin=0.4),
    )
    if result.likelihood.noise_ratio is not None:
        result.likelihood.noise_ratio.assign(RATIOS)
    return result


# predict and evaluate.


@pytest.mark.slow
def test_predicted_pairs_have_the_tie_beside(model: spg.PreferenceGP) -> None:
    pairs = pd.DataFrame(
        {"first": ["i0", "i1", "i2", "i3"], "second": ["i1", "i0", "i2", "i4"]}
    ).assign(who=["ben", "ben", "cem", "ann"])
    frame = spg.predict(model, pairs, columns={"judge": "who"})
    mean = frame["difference"].to_numpy()
    ratio = dict(zip(model.duels.group_names, RATIOS, strict=True))
    sd = np.sqrt(frame["sd"] ** 2 + [ratio[name] for name in pairs["who"]])
    np.testing.assert_allclose(frame["probability"], ndtr((mean - 0.4) / sd), atol=IDENTITY)
    tie = ndtr((mean + 0.4) / sd) - ndtr((mean - 0.4) / sd)
    np.testing.assert_allclose(frame["tie_probability"], tie, atol=IDENTITY)
    three = frame[["probability", "tie_probability", "loss_probability"]]
    np.testing.assert_allclose(three.sum(axis=1), 1.0, atol=IDENTITY)
    # The two orders of a pair, and the tie, add up to 1; against itself both sides are equal.
    assert frame["probability"][:2].sum() + tie[0] == pytest.approx(1.0)
    assert 2 * frame["probability"][2] + tie[2] == pytest.approx(1.0)
    plain = spg.predict(model, pairs)
    unknown = [
        slow_noise.outcomes(m, s**2, 1.0, 0.4)[0] for m, s in zip(mean, frame["sd"], strict=True)
    ]
    np.testing.assert_allclose(plain["probability"], unknown, atol=IDENTITY)
    with pytest.warns(UserWarning, match=r"'dora' is unknown .* \(1 of 4 pairs") as told:
        found = spg.predict(model, pairs.assign(judge=["ben", "dora", "cem", "ann"]))
    assert len(told) == 1  # not once for each of win, tie and loss
    assert found["probability"][1] == pytest.approx(plain["probability"][1])
    with pytest.raises(ValueError, match="has a column 'tie_probability'"):
        spg.predict(model, pairs.assign(tie_probability=0))


def test_groups_by_number_or_by_text_are_the_same(table: Duels) -> None:
    numbers = read_duels(*frames(), groups="worth")  # 0.5 and 1
    judges = numbers.events.judge
    assert judges is not None and set(judges.labels) == {"0.5", "1"}
    counted = table.saying(judge=Codes.of([7, 8] * (T // 2)))
    model = spg.PreferenceGP(
        counted.standardised(),
        gpflow.kernels.Matern52(),
        likelihood=spg.Probit(by="judge", margin=0.4),
    )
    model.likelihood.noise_ratio.assign([0.2, 3.0])
    a, b = model.duels.items[:2], model.duels.items[2:4]
    one = model.predict_duel(a, b, groups=[7, 8]).numpy()
    np.testing.assert_array_equal(one, model.predict_duel(a, b, groups=["7", "8"]).numpy())
    np.testing.assert_array_equal(
        model.predict_duel(a, b).numpy(), model.predict_duel(a, b, groups=[None, None]).numpy()
    )


def test_decided_duels_are_scored_given_that_they_were(model: spg.PreferenceGP) -> None:
    items, duels = frames(1)
    found = spg.evaluate(model, duels)
    place = {name: i for i, name in enumerate(NAMES)}
    x = model.duels.items
    won, lost = ([place[name] for name in duels[side]] for side in ("winner", "loser"))
    p = model.predict_outcome(x[won], x[lost], groups=duels["judge"].to_numpy()).numpy()
    decided = duels["tie"].to_numpy() == 0
    chance = p[:, 0] / (p[:, 0] + p[:, 2])
    expected = score(np.log(chance[decided]))
    assert_same_scores(found["held_out"]["model"], expected, abs=IDENTITY)
    outcomes = found["held_out_outcomes"]
    expected = score(np.log(p), 1 - decided.astype(int), of="outcomes")
    assert_same_scores(outcomes["model"], expected, abs=IDENTITY)
    rate = model.duels.num_ties / model.duels.num_duels
    assert outcomes["constant_shares"]["predicted_tie_rate"] == pytest.approx(rate)
    assert (found["duels"], found["ties"]) == (T, int((~decided).sum()))
    shared = spg.evaluate(model, duels.drop(columns="judge"))["held_out"]["model"]
    assert shared["nlp_nats"] != found["held_out"]["model"]["nlp_nats"]
    # As an object, whose groups are its own.
    same = read_duels(items, duels, groups="judge").standardised(transform=model.duels.transform)
    again = spg.evaluate(model, spg.Duels(x, same.winners, same.losers, same.counts,
        item_ids=NAMES, ties=same.ties,
        groups=np.array(same.group_names)[same.groups]))  # fmt: skip
    assert_same_scores(again["held_out_outcomes"]["model"], outcomes["model"])


def test_the_linear_probit_learns_from_decided_duels_with_their_weights(
    model: spg.PreferenceGP,
) -> None:
    items, duels = frames()
    weighted = read_duels(items, duels, weights="worth").standardised()
    probit = linear_probit(weighted)
    row = weighted.decided
    by_hand = probit_of(weighted.differences()[row], weighted.weights[row])
    np.testing.assert_array_equal(probit.coefficients, by_hand.coefficients)
    with refused("only_ties", "linear_probit"):
        linear_probit(spg.Duels([[0.0], [1.0]], [0], [1], ties=[True]))


@pytest.mark.parametrize("weights", [None, "worth"])
def test_judges_change_nothing_of_the_linear_probit(weights: str | None) -> None:
    items, duels = frames()
    # Pairs that several judges have seen, more often or less.
    duels = pd.concat([duels, duels[:70].assign(judge="dan"), duels[:20].assign(judge="eve")])
    probits = []
    for groups in (None, "judge"):
        table = read_duels(items, duels, groups=groups, weights=weights)
        data = table.standardised()
        probits.append(linear_probit(data, rng=np.random.default_rng(0)))
    assert read_duels(items, duels, groups="judge").standardised().num_pairs > data.decided.sum()
    one, other = probits
    assert one.ridge == other.ridge
    np.testing.assert_allclose(one.cross_validation, other.cross_validation, rtol=ROUNDING)
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=IDENTITY)


def test_ties_that_a_model_cannot_predict_are_told(table: Duels) -> None:
    decided = table.saying(judge=None).select(~table.given.ties).standardised()
    plain = made(decided, spg.Probit())
    with pytest.warns(UserWarning, match="are ties, which a model without a margin"):
        found = spg.evaluate(plain, frames()[1])
    assert found["held_out_outcomes"] == {}
    assert found["held_out"]["model"]["duels"] == T - found["ties"]
    with refused("only_ties", "scores"):
        spg.evaluate(plain, frames()[1].assign(tie=1))
    with refused("ties", "no_margin"):
        spg.update(plain, frames()[1])


def test_update_takes_ties(table: Duels) -> None:
    plain = made(table.saying(judge=None).standardised(), spg.Probit(margin=0.4))
    new, report = spg.update(plain, frames(1)[1])
    assert new.duels.num_ties == plain.duels.num_ties + int(frames(1)[1]["tie"].sum())
    assert report.converged and new.likelihood.margin.numpy() == plain.likelihood.margin.numpy()


@pytest.mark.slow
def test_update_takes_judges_weights_and_the_first_ties() -> None:
    first = [table.assign(tie=0) if i else table for i, table in enumerate(frames())]
    table = read_duels(*first, groups="judge", weights="worth")
    old = made(table.standardised())
    more = frames(1)[1].replace({"judge": {"cem": "dan"}})
    new, report = spg.update(old, more)
    assert not old.likelihood.margin.trainable and new.likelihood.margin.trainable
    assert set(new.duels.group_names or ()) == {"ann", "ben", "cem", "dan"}
    known = dict(zip(new.duels.group_names, new.likelihood.noise_ratio.numpy(), strict=True))
    for name, ratio in zip(old.duels.group_names, RATIOS, strict=True):
        assert known[name] == pytest.approx(ratio, rel=1e-12)
    assert known["dan"] == 1.0
    assert report.continued_sites == old.graph.num_sites and report.converged
    # The posterior is that of a model made afresh from both tables.
    both = pd.concat([first[1], more])
    whole = read_duels(first[0], both, groups="judge", weights="worth").standardised()
    fresh = spg.PreferenceGP(
        whole,
        gpflow.kernels.Matern52(),
        likelihood=spg.Probit(by="judge", margin=0.4),
        engine=old.engine,
    )
    fresh.likelihood.noise_ratio.assign([known[name] for name in whole.group_names])
    assert new.log_evidence() == pytest.approx(fresh.log_evidence(), rel=1e-9)


# consistency, sampling, checkpoints, comparisons.


def test_ties_are_left_out_where_votes_are_counted(model: spg.PreferenceGP) -> None:
    found = spg.consistency(model.duels)
    assert (found.votes, found.ties) == (T - model.duels.num_ties, model.duels.num_ties)
    assert "ties, left out" in str(found) and found.to_dict()["ties"] == model.duels.num_ties


def test_only_ties_are_refused_where_votes_are_counted() -> None:
    with refused("only_ties", "consistency"):
        spg.consistency(spg.Duels([[0.0], [1.0]], [0], [1], ties=[True]))


def test_sampling_with_ties_and_noise_by_group_gives_the_box() -> None:
    rng = np.random.default_rng(2)
    items = rng.normal(size=(4, 1))
    winners, losers = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 2])
    ties, groups = np.array([0, 1, 0, 0, 1], bool), [0, 1, 2, 0, 1]
    duels = spg.Duels(items, winners, losers, ties=ties, groups=groups)
    model = made(duels)
    a = np.zeros((5, 4))
    a[np.arange(5), losers] += 1
    a[np.arange(5), winners] -= 1
    covariance = a @ gpflow.kernels.Matern52()(items).numpy() @ a.T
    covariance += np.diag(np.array(RATIOS)[groups])
    truth = multivariate_normal(np.zeros(5), covariance, abseps=1e-8, releps=1e-8).cdf(
        np.where(ties, 0.4, -0.4), lower_limit=np.where(ties, -0.4, -np.inf)
    )
    found = spg.exact.importance_sampling(model, samples=20_000)
    allowed = MONTE_CARLO_STANDARD_ERRORS * found.standard_error
    assert found.log_evidence == pytest.approx(math.log(truth), abs=allowed)
    assert model.lower_bound() < found.log_evidence + allowed
    report = spg.evidence_report(made(duels), samples=1000)
    assert report.sampled is not None and report.duels == 5


def test_the_sampler_knows_margins_and_ratios() -> None:
    """Draws given ties and noise by group, against a fine grid over the one difference there is."""
    items, ratios = np.array([[0.0], [1.3]]), [0.4, 3.0]
    ties, groups = np.array([0, 1, 0, 1], bool), [0, 0, 1, 1]
    duels = spg.Duels(items, [0, 0, 1, 0], [1, 1, 0, 1], ties=ties, groups=groups)
    model = spg.PreferenceGP(
        duels, gpflow.kernels.Matern52(), likelihood=spg.Probit(by="judge", margin=0.4)
    )
    model.likelihood.noise_ratio.assign(ratios)
    k = gpflow.kernels.Matern52()(items).numpy()
    variance = k[0, 0] + k[1, 1] - 2 * k[0, 1]
    d = np.linspace(-9.0, 9.0, 200_001)
    sd = np.sqrt(np.array(ratios)[groups])  # 2 sigma² = 1
    weight = norm.pdf(d, 0.0, np.sqrt(variance))
    for sign, tie, s in zip([1, 1, -1, 1], ties, sd, strict=True):
        won, lost = norm.cdf((sign * d - 0.4) / s), norm.cdf((-sign * d - 0.4) / s)
        weight *= 1.0 - won - lost if tie else won
    weight /= weight.sum()
    mean = float(weight @ d)
    drawn = spg.sample_posterior(model, 4000, np.random.default_rng(0))
    found = drawn.difference(items[:1], items[1:])
    new = zip(*slow_noise.nodes(), strict=True)
    unknown = sum(w * (weight @ norm.cdf((d - 0.4) / math.sqrt(r))) for r, w in new)
    for value, error, truth in (
        (found.mean, found.mean_error, mean),
        (found.sd, found.sd_error, np.sqrt(weight @ (d - mean) ** 2)),
        (
            found.probability,
            found.probability_error,
            unknown,
        ),
    ):
        assert value[0] == pytest.approx(truth, abs=MONTE_CARLO_STANDARD_ERRORS * error[0] + 1e-9)


@pytest.mark.slow
def test_what_to_ask_next_with_ties(model: spg.PreferenceGP) -> None:
    found = spg.suggest(model, batch=3, rng=np.random.default_rng(0))
    assert model.likelihood.margin is not None
    rows = {name: i for i, name in enumerate(model.duels.item_ids or ())}
    sides = (model.duels.items[[rows[i] for i in found.frame[s]]] for s in ("first", "second"))
    three = model.predict_outcome(*sides).numpy()
    np.testing.assert_allclose(found.frame["tie_probability"], three[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found.frame["probability"], three[:, 0], rtol=1e-9)
    noise, margin = (
        2.0 * float(model.likelihood.noise.numpy()),
        float(model.likelihood.margin.numpy()),
    )
    first = found.frame.iloc[0]
    worth = slow_noise.information_gain(first["difference"], first["sd"] ** 2, noise, margin)
    assert first["score"] == pytest.approx(worth, abs=1e-9)


@pytest.mark.slow
def test_weights_that_are_not_whole_cannot_be_sampled(table: Duels) -> None:
    duels = read_duels(*frames(), weights="worth").standardised()
    model = made(duels, spg.Probit(margin=0.4))
    with refused("broken_weights", "sampling"):
        spg.exact.importance_sampling(model)
    report = spg.evidence_report(model, samples=100)
    assert report.sampled is None and "weights" in report.skipped[0]
    # What is said of a duel is said of a whole one.
    weight = float(frames()[1]["worth"].sum())
    assert report.duels == T and report.weight == report.weight_used == weight < T
    values = report.to_dict()
    assert values["log_evidence_per_duel"] == pytest.approx(report.log_evidence / weight)
    assert values["lower_bound_per_duel"] == pytest.approx(report.lower_bound / weight)
    assert f"The {T} duels count as {weight:,.4g}, the sum of their weights" in str(report)
    with refused("broken_weights", "subset"):
        spg.PreferenceGP(
            duels,
            model.kernel,
            likelihood=spg.Probit(margin=0.3),
            approximation=spg.SubsetOfData(T),
        )
    with refused("broken_weights", "sampling"):
        spg.sample_posterior(model, 10, np.random.default_rng(0))


def test_other_judges_are_another_fit_to_a_checkpoint() -> None:
    prints = []
    for judge in ("ann", "ben"):
        duels = spg.Duels([[0.0], [1.0], [3.0]], [0, 1], [1, 2], groups=["ann", judge])
        model = spg.PreferenceGP(duels, gpflow.kernels.Matern52())
        prints.append(identify(model, {})[0]["duels"])
    assert prints[0] != prints[1]


@pytest.mark.slow
def test_a_comparison_has_no_ties_and_the_choice_leaves_them_out(table: Duels) -> None:
    with refused("comparison", "ties"):
        spg.compare(["linear/exact"], table)
    with refused("comparison", "ties"):
        spg.compare(["linear/exact"], table.standardised())
    settings = FitSettings(max_iterations=1, kernel="linear", approximation="exact")
    found = choose(table, settings)
    assert "Ties were left out" in found.reason


@pytest.mark.slow
def test_weights_of_duels_count_in_every_fold() -> None:
    items, duels = frames()
    table = read_duels(items, duels[duels["tie"] == 0].assign(worth=2.0), weights="worth")
    from_table = spg.compare(["linear/exact"], table, folds=2, max_iterations=2)
    from_duels = spg.compare(["linear/exact"], table.standardised(), folds=2, max_iterations=2)
    plain = spg.compare(["linear/exact"], table.saying(weights=None), folds=2, max_iterations=2)
    assert from_table.scores[0].nlp_nats != plain.scores[0].nlp_nats
    assert from_duels.scores[0].nlp_nats != plain.scores[0].nlp_nats


# fit.


@pytest.mark.slow
def test_fit_holds_out_ties_too_and_keeps_ratios_in_a_refit(table: Duels) -> None:
    settings = FitSettings(
        kernel="matern52", inducing=6, max_iterations=3, noise_by_group=True, refit=True
    )
    holdout = prepare(table, settings)
    assert holdout.margin == DEFAULT_MARGIN and holdout.num_test == T // 5
    model, _ = fit_model(holdout)
    assert model.likelihood.margin.trainable
    found = predict_held_out(holdout, model)
    ties = int(table.given.ties[holdout.split.test_rows].sum())
    assert found.scores()["model"]["duels"] == T // 5 - ties
    assert found.table("outcomes")["model"]["ties"] == ties
    kept = dict(zip(model.duels.group_names, model.likelihood.noise_ratio.numpy(), strict=True))
    again, _ = refit_model(holdout, model)
    assert set(again.duels.group_names) == set(kept) and again.duels.num_duels == T
    fixed = prepare(table, replace(settings, margin=0.7, fixed_margin=True))
    assert fit_model(fixed)[0].likelihood.margin.numpy() == pytest.approx(0.7)
    with refused("noise_by_group", "duels_without_judges"):
        prepare(table.saying(judge=None), settings)
    with pytest.raises(ValueError, match="margin is -1; give a number, above 0"):
        FitSettings(margin=-1)
    with pytest.warns(UserWarning, match=f"All {T} duels are ties: as far as they tell all items"):
        tied = prepare(table.saying(kind=np.full(T, TIE, np.int8)), settings)
    assert tied.num_test == 0 and tied.num_train == T


@pytest.mark.slow
def test_ties_alone_are_a_board_of_equals(tmp_path: Path) -> None:
    table = tmp_path / "battles.csv"
    pairs = [("a", "b"), ("b", "c"), ("a", "c")] * 4
    frame = pd.DataFrame(pairs, columns=["model_a", "model_b"]).assign(winner="tie")
    frame.to_csv(table, index=False)
    out = tmp_path / "fitted"
    result = CliRunner().invoke(app, ["fit", str(table), "--out", str(out), "--integrate", "no"])
    assert result.exit_code == 0, result.output
    assert "All 12 duels are ties" in " ".join((result.output + result.stderr).split())
    with pytest.warns(UserWarning, match="All 12 duels are ties: .* what the priors say"):
        fitted = spg.fit(answers=frame, integrate="no")
    assert any("All 12 duels are ties" in note for note in fitted.notes)
    for model in (fitted.model, spg.load(out)):
        board = spg.rank(model).frame
        assert list(board["rank"]) == [1, 1, 1] and np.allclose(board["utility"], 0.0, atol=1e-6)
        assert (board["upper"] - board["lower"]).min() > 0.2


def test_shared_context_without_effect_is_told() -> None:
    items, duels = frames()
    table = read_duels(items, duels, context=["judge"])
    with pytest.warns(UserWarning, match="share their 'judge', which cancels in the kernel linear"):
        prepare(table, FitSettings(kernel="linear"))
    prepare(table, FitSettings(kernel="linear+se"))


@pytest.mark.slow
def test_fit_from_the_command_line(tmp_path: Path) -> None:
    items, duels = frames()
    items.to_csv(tmp_path / "items.csv", index=False)
    ties = duels[duels["tie"] == 1].drop(columns="tie")
    renamed = {"winner": "item_a", "loser": "item_b", "winner_home": "item_a_home"}
    ties = ties.rename(columns={**renamed, "loser_home": "item_b_home"})
    ties.to_csv(tmp_path / "ties.csv", index=False)
    decided = duels[duels["tie"] == 0].drop(columns="tie")
    decided.to_csv(tmp_path / "duels.csv", index=False)

    def run(*words: Any) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    out = tmp_path / "out"
    printed = run(
        *("fit", "--items", tmp_path / "items.csv", "--duels", tmp_path / "duels.csv"),
        *("--ties", tmp_path / "ties.csv", "--noise-by", "judge", "--weight", "worth"),
        *("--context", "home", "--out", out, "--inducing", 8, "--max-iterations", 5, "--report"),
    )
    assert "of these tied" in printed and "Margin within which a duel is a tie" in printed
    assert "Noise variance of 3 groups" in printed and "win, tie or loss" in printed
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["data"]["ties"] == len(ties)
    assert metrics["fit"]["margin"] > 0 and metrics["fit"]["fixed_margin"] is False
    ratios = metrics["fit"]["noise_ratios"]
    assert ratios["groups"] == 3 and set(ratios["each"]) == {"ann", "ben", "cem"}
    each = [judge["ratio"] for judge in ratios["each"].values()]
    assert (ratios["min"], ratios["max"]) == (min(each), max(each))
    judged = sum(judge["duels"] for judge in ratios["each"].values())
    assert judged == metrics["data"]["train_duels"]
    assert set(metrics["held_out_outcomes"]) == {"model", "constant_shares"}
    assert metrics["held_out"]["model"]["duels"] < metrics["held_out_outcomes"]["model"]["duels"]
    ranking = pd.read_csv(out / "ranking.csv")
    assert set(ranking["item_id"]) == {str(name) for name in items["item_id"]}
    page = (out / "report.html").read_text()
    assert "Margin within which a duel is a tie" in page and "win, tie or loss" in page
    assert "3 groups" in page

    # New items in a context, by their features.
    new = pd.DataFrame({"item_id": ["x", "y"], "a": [0.0, 0.5], "b": [0.1, 0.2], "home": [1, 0]})
    new.to_csv(tmp_path / "new.csv", index=False)
    pairs = pd.DataFrame({"first": ["x"], "second": ["y"], "who": ["ann"]})
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    shown = run(
        *("predict", "--model", out / "model", "--pairs", tmp_path / "pairs.csv"),
        *("--items", tmp_path / "new.csv", "--columns", "judge=who"),
        *("--out", tmp_path / "found.csv"),
    )
    assert re.search("first wins +tie +loss +difference", shown) and "add up to 1" in shown
    assert 0 < pd.read_csv(tmp_path / "found.csv")["tie_probability"][0] < 1
    # Duels between the items, in a context by its columns.
    ids = ranking["item_id"].to_numpy()
    known = pd.DataFrame({"winner": ids[:3], "loser": ids[3:6], "winner_home": 1, "loser_home": 0})
    known.assign(tie=[0, 1, 0], judge="ben").to_csv(tmp_path / "known.csv", index=False)
    text = run("evaluate", "--model", out / "model", "--duels", tmp_path / "known.csv")
    assert "Duels that one side won" in text and "win, tie or loss" in text


@pytest.mark.slow
@pytest.mark.data
def test_grades_on_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2))
    pd.DataFrame({"item_id": [f"i{i}" for i in range(12)], "a": x[:, 0], "b": x[:, 1]}).to_csv(
        tmp_path / "items.csv", index=False
    )
    first, second = rng.permuted(np.tile(np.arange(12), (240, 1)), axis=1)[:, :2].T
    ahead = x[first].sum(1) - x[second].sum(1) + rng.normal(size=240)
    words = np.array(["much worse", "worse", "tie", "better", "much better"])
    said = words[np.digitize(ahead, [-1.2, -0.3, 0.3, 1.2])]
    judge = np.where(np.arange(240) % 2, "Ann", "Ben")
    table = pd.DataFrame({"winner": first, "loser": second, "said": said, "judge": judge})
    for side in ("winner", "loser"):
        table[side] = "i" + table[side].astype(str)
    table.to_csv(tmp_path / "duels.csv", index=False)
    grades = ["--grade", "said", "--grades", ",".join(words)]
    given = ["--items", tmp_path / "items.csv", "--duels", tmp_path / "duels.csv"]

    def run(*words: object) -> None:
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output

    out = tmp_path / "fitted"
    run(
        "fit",
        *given,
        *grades,
        "--noise-by",
        "judge",
        "--out",
        out,
        "--kernel",
        "linear",
        "--report",
    )
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["fit"]["cuts"] == pytest.approx([0.3, 1.2], rel=0.5)
    assert metrics["fit"]["grades"]["levels"] == words.tolist()
    assert set(metrics["fit"]["cut_scales"]["each"]) == {"Ann", "Ben"}
    scores = metrics["held_out_grades"]
    assert scores["model"]["nlp_nats"] < scores["constant_shares"]["nlp_nats"]
    assert "Held-out duels: grades" in (out / "report.html").read_text()
    (tmp_path / "pairs.csv").write_text("first,second\ni0,i1\n")
    run("predict", "--model", out, "--pairs", tmp_path / "pairs.csv", "--out", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    each = found[[f"p_{word}" for word in words]].to_numpy()[0]
    assert each.sum() == pytest.approx(1.0)
    assert each[3:].sum() == pytest.approx(found["probability"][0])
    run(
        "evaluate",
        "--model",
        out,
        "--duels",
        tmp_path / "duels.csv",
        "--out",
        tmp_path / "e.json",
    )
    assert json.loads((tmp_path / "e.json").read_text())["held_out_grades"]["model"]["duels"] == 240
    run(
        "update",
        "--model",
        out,
        "--duels",
        tmp_path / "duels.csv",
        "--out",
        tmp_path / "new",
    )
    pytest.importorskip("pyarrow")
    table.drop(columns="judge").to_parquet(tmp_path / "duels.parquet")
    given[3] = tmp_path / "duels.parquet"
    run(
        "fit",
        *given,
        *grades,
        "--stream",
        "--parts",
        "3",
        "--out",
        tmp_path / "streamed",
        "--kernel",
        "se",
        "--inducing",
        "8",
        "--max-iterations",
        "5",
    )
    streamed = json.loads((tmp_path / "streamed" / "metrics.json").read_text())
    assert streamed["fit"]["grades"]["levels"] == words.tolist() and streamed["held_out_grades"]
