"""Audits of boards: against dense matrices, on clean boards and on some with planted defects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.audit_columns import (
    CategoriesOfBoard,
    Circles,
    Leans,
    Pairs,
    label_of_row,
)
from sparse_prefgp.analysis.audit_families import LeftOut, Round
from sparse_prefgp.analysis.audit_result import KINDS, REFITTED
from sparse_prefgp.analysis.audit_run import discoveries, of_all, with_columns
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.judges import judges
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import (
    TIED,
    WON,
    Verdicts,
    agreement,
    at_least,
    upper_tail,
)
from sparse_prefgp.covariances import ItemTimes, SameLevel
from sparse_prefgp.data.answers import CHOICE, Answers, Codes
from sparse_prefgp.io import read_duels
from tests.reference import slow_audit
from tests.together import apart, refused

MODELS, JUDGES, T = 8, 5, 900
MARGIN = 0.3


def battles(seed: int = 0, planted: tuple[str, ...] = (), t: int = T) -> pd.DataFrame:
    """Votes of a board as `winner`, `loser`, `tie`, and what else is known of each."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(0.0, 0.6, MODELS)
    first = rng.integers(MODELS, size=t)
    second = (first + rng.integers(1, MODELS, size=t)) % MODELS
    judge, day = rng.integers(JUDGES, size=t), np.sort(rng.integers(365, size=t))
    length = rng.normal(size=t)
    v = utility[first] - utility[second] + 1.2 * ("lean" in planted) * (judge == 2)
    v += 0.4 * ("side" in planted) + 0.4 * ("style" in planted) * length
    v += 3.0 * ("drift" in planted) * ((first == 2) * 1.0 - (second == 2)) * (day / 365 - 0.5)
    for a, b in ((0, 1), (1, 4), (4, 0)) if "circle" in planted else ():
        v += 1.6 * (((first == a) & (second == b)) * 1.0 - ((first == b) & (second == a)))
    noise = np.where(("careless" in planted) & (judge == 3), 4.0, 1.0)
    v += noise * rng.normal(size=t)
    v = np.where(("reversed" in planted) & (judge == 1), -v, v)
    tied = np.abs(v) < MARGIN * np.where(("tie" in planted) & (judge == 4), 4.0, 1.0)
    if "duplicate" in planted:
        tied |= (np.minimum(first, second) == 5) & (np.maximum(first, second) == 6)
    won = v > 0.0
    side = np.where(won, 1.0, -1.0)
    return pd.DataFrame(
        {
            "winner": np.where(won, first, second),
            "loser": np.where(won, second, first),
            "tie": tied,
            "side": side,
            "length": side * length,
            "judge": [f"judge {i}" for i in judge],
            "kind": np.where(judge < 3, "people", "models"),
            "day": day,
            "category": rng.choice(["code", "maths"], t),
        }
    )


def fitted(table: pd.DataFrame, **parts: Any) -> spg.PreferenceGP:
    """A board at parameters near those that made the votes."""
    duels = spg.Duels(
        np.zeros((MODELS, 0)),
        table["winner"].to_numpy(),
        table["loser"].to_numpy(),
        ties=table["tie"].to_numpy(),
        groups=table["judge"].to_numpy(),
        labels={"judge": table["judge"].to_numpy(), "kind": table["kind"].to_numpy()},
        covariates=table[["side", "length"]].to_numpy(),
        covariate_names=["side", "length"],
    )
    likelihood = spg.Probit(0.5, by="judge", margin=MARGIN, cuts_by="judge")
    parts = {"terms": [spg.Lean("side", variance=0.01)], **parts}
    made = spg.PreferenceGP(duels, spg.ItemEffect(), likelihood=likelihood, **parts)
    made.kernel.variance.assign(0.4)
    return made


@pytest.fixture(scope="module")
def board() -> Board:
    return Board.of(Votes.of(fitted(battles())))


def planted_board(*planted: str) -> spg.results.Audit:
    table = battles(1, planted)
    return spg.audit(fitted(table), table, date="day", category="category", by="kind")


# Against dense matrices.


def test_the_posterior_is_that_of_the_model() -> None:
    model = fitted(battles())
    board = Board.of(Votes.of(model))
    known = model.coefficients()
    mean, variance = board.coefficients()
    np.testing.assert_allclose(mean, known.mean[:2], atol=1e-10)
    np.testing.assert_allclose(np.sqrt(variance), known.sd[:2], atol=1e-10)
    (lean,) = board.votes.leans
    mean, variance = board.leans_of(lean)
    np.testing.assert_allclose(mean, known.mean[2:], atol=1e-10)
    np.testing.assert_allclose(np.sqrt(variance), known.sd[2:], atol=1e-10)


def test_cavities_are_of_the_board_without_one_vote(board: Board) -> None:
    votes = board.votes
    columns, precision = slow_audit.design(votes)
    mean, variance = board.cavities
    for i in (0, 17, 400):
        kept = np.arange(len(columns)) != i
        centre, covariance = slow_audit.posterior(votes, columns, precision, kept)
        assert mean[i] == pytest.approx(columns[i] @ centre, abs=1e-8)
        assert variance[i] == pytest.approx(columns[i] @ covariance @ columns[i], abs=1e-8)


@pytest.mark.parametrize("leans", ["by judge", "by judge and kind", "none"])
def test_an_added_column_is_added(leans: str) -> None:
    terms = {
        "by judge": [spg.Lean("side", variance=0.01)],
        "by judge and kind": [
            spg.Lean("side", variance=0.01),
            spg.Lean("length", "kind", variance=0.2),
        ],
        "none": [],
    }[leans]
    table = battles()
    votes = Votes.of(fitted(table, terms=terms))
    board, day = Board.of(votes), table["day"].to_numpy() / 365.0
    columns = votes.of_models.multiply(day[:, None]).tocsr()
    found, dense = board.asked(columns), columns.toarray()
    for k in range(MODELS):
        size, sd = slow_audit.with_column(votes, dense[:, k])
        assert found.size[k] == pytest.approx(size, abs=1e-8)
        assert found.sd[k] == pytest.approx(sd, abs=1e-8)
    # And next to one that was added already.
    more = board.with_column(columns[:, [2]]).asked(columns)
    both = np.column_stack([slow_audit.design(votes)[0], dense[:, [2, 4]]])
    precision = np.append(slow_audit.design(votes)[1], [0.0, 0.0])
    mean, covariance = slow_audit.posterior(votes, both, precision)
    assert more.size[4] == pytest.approx(mean[-1], abs=1e-8)
    assert more.sd[4] == pytest.approx(np.sqrt(covariance[-1, -1]), abs=1e-8)
    assert np.isnan(more.p[2])


def test_circles_are_columns_of_their_pairs(board: Board) -> None:
    family = Circles(board.votes, Pairs.of(board.votes))
    family.ask(Round(board, *np.zeros((2, JUDGES), bool)))
    assert family.count == 56
    for test in (0, 13, 55):
        column = family.column(test)
        assert column is not None
        size, sd = slow_audit.with_column(board.votes, column.toarray()[:, 0])
        assert family.number[test] == pytest.approx(size, abs=1e-8)
        assert family.sd[test] == pytest.approx(sd, abs=1e-8)


def test_a_lean_without_its_prior(board: Board) -> None:
    (lean,) = board.votes.leans
    family = Leans(board.votes, lean, True)
    p = family.ask(Round(board, *np.zeros((2, JUDGES), bool)))
    for judge in range(JUDGES):
        mean, sd = slow_audit.without_prior(board.votes, MODELS + 2 + judge)
        size = family.size(judge, 0.9)
        assert size.value == pytest.approx(mean, abs=1e-8)
        assert 0.5 * np.diff(size.ends) == pytest.approx(1.6448536269514722 * sd, abs=1e-8)
        assert p[judge] == pytest.approx(2.0 * slow_audit.norm.cdf(-abs(mean) / sd), abs=1e-8)


def test_votes_left_out_are_left_out(board: Board) -> None:
    judge = board.votes.judge
    assert judge is not None
    for who in range(JUDGES):
        mean, variance = slow_audit.utilities_without(board.votes, judge.numbers == who)
        fast = board.utilities(board.without_judge(who))
        np.testing.assert_allclose(fast[0], mean, atol=1e-8)
        np.testing.assert_allclose(fast[1], variance, atol=1e-8)
        other = board.without(judge.numbers == who).utilities()
        np.testing.assert_allclose(other[0], mean, atol=1e-8)
    family = LeftOut(board.votes, judge, None)
    family.ask(Round(board, *np.zeros((2, JUDGES), bool)))
    assert np.all(family.p > 1e-3)


def test_verdicts_and_their_slopes(board: Board) -> None:
    mean, variance = board.cavities
    t, step = len(mean), 1e-5
    noise, margin = np.full(t, 1.3), np.full(t, 0.4)
    verdicts = Verdicts.of(mean, variance, noise, margin)
    np.testing.assert_allclose(
        verdicts.p, slow_audit.chances(mean, variance, noise, margin), atol=1e-12
    )

    def slopes(by: str) -> Any:
        both = []
        for sign in (1.0, -1.0):
            factor = np.exp(sign * step)
            at = (noise * factor, margin) if by == "noise" else (noise, margin * factor)
            both.append(np.log(slow_audit.chances(mean, variance, *at)))
        return (both[0] - both[1]) / (2.0 * step)

    np.testing.assert_allclose(verdicts.by_noise, slopes("noise"), atol=1e-7)
    np.testing.assert_allclose(verdicts.by_margin, slopes("margin"), atol=1e-7)
    far = Verdicts.of(np.array([60.0, -60.0]), np.zeros(2), np.ones(2), np.full(2, 0.3))
    assert np.all(np.isfinite(far.by_noise)) and np.all(far.p[[WON, 2], [1, 0]] == 0.0)


def test_agreement_is_counted_vote_by_vote() -> None:
    rng = np.random.default_rng(4)
    mean, variance, counts = rng.normal(size=20), rng.uniform(0.1, 1.0, 20), rng.integers(1, 4, 20)
    mean[:2] = 0.0  # of equals nobody names the better one
    votes = agreed = expected = 0.0
    won, _, lost = slow_audit.chances(mean, variance, 0.7, 0.4)
    for i in range(2, 20):
        votes += counts[i]
        agreed += counts[i] * (mean[i] > 0.0)
        expected += counts[i] * max(won[i], lost[i]) / (won[i] + lost[i])
    found = agreement(mean, variance, 0.7, 0.4, counts)
    assert found == pytest.approx((votes, agreed, expected / votes), rel=1e-12)
    nobody = agreement(mean[:2], variance[:2], 0.7, 0.4, counts[:2])
    assert nobody[:2] == (0.0, 0.0) and np.isnan(nobody[2])


def test_a_reversed_judge_agrees_as_the_table_of_judges_says() -> None:
    table = battles(1, ("reversed",))
    model = fitted(table)
    one = next(one for one in spg.audit(model).findings if one.kind == "reversed")
    row = judges(model).frame.set_index("judge").loc[one.about]
    assert one.size == pytest.approx(row["agreement"])
    assert f"the noise lets expect an agreement of {row['expected']:.0%}." in one.advice


def test_ties_are_added_up_exactly() -> None:
    rng = np.random.default_rng(0)
    group, p = rng.integers(6, size=60), rng.uniform(size=60)
    said, draw = rng.random(60) < p, rng.uniform(size=7)
    found = at_least(p, group, said, 7, draw)
    for one in range(7):
        here = group == one
        slow = slow_audit.at_least(p[here], int(said[here].sum()), draw[one])
        assert found[one] == pytest.approx(slow, abs=1e-12)


def test_saddlepoint_tails() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(3, 2.0), size=11).T
    values = rng.normal(size=(3, 11))
    values -= (p * values).sum(0)
    sd = np.sqrt((p * values**2).sum())
    for z in (0.0, 1.0, 2.0, 3.0):
        exact = slow_audit.upper_tail(values, p, z * sd)
        assert upper_tail(values, p, z * sd) == pytest.approx(exact, rel=0.1)
    assert upper_tail(values, p, values.min(0).sum()) == 1.0
    nearly = values.min(0).sum() + 1e-6
    assert upper_tail(values, p, nearly) == pytest.approx(1.0, abs=1e-3)
    top = values.max(0).sum()
    exact = slow_audit.upper_tail(values, p, top)
    assert upper_tail(values, p, top) == pytest.approx(exact, rel=1e-8)


def test_discoveries() -> None:
    p = np.array([0.03, np.nan, 0.001, 0.9, 0.012])
    assert discoveries(p, 0.05).tolist() == [2, 4, 0]
    assert discoveries(p, 0.02).tolist() == [2]
    assert discoveries(np.array([np.nan]), 0.05).tolist() == []


def test_what_is_no_finding_may_not_be_clean() -> None:
    """An interval of 90 % without 0 does not stand next to the word."""
    assert of_all(np.array([0.04, np.nan, 0.5])) == pytest.approx(0.08)
    assert of_all(np.array([0.03, 0.02, 0.04])) == pytest.approx(0.04)
    assert of_all(np.array([np.nan])) == 1.0
    table = battles()
    table["side"] = np.where(np.arange(T) % 56 < 30, 1.0, -1.0)
    found = spg.audit(fitted(table, terms=[]))
    (side,) = (one for one in found.looked_at if one.what.startswith("side: "))
    assert side.findings == 0 and re.fullmatch(r"no finding \(p 0\.0\d+\)", side.told)
    clean = sum(one.told == "clean" for one in found.looked_at)
    assert f" {clean} of " in found.conclusion and clean < len(found.looked_at)
    assert "over all tests of its line" in str(found)


def test_effects_of_categories_are_asked_without_their_prior() -> None:
    """Of a board that has them as effects of its own."""
    table = battles()
    better = table["category"].eq("code") & table["loser"].eq(3) & ~table["tie"]
    turned = table.assign(
        winner=table["winner"].where(~better, table["loser"]),
        loser=table["loser"].where(~better, table["winner"]),
        side=table["side"].where(~better, -table["side"]),
        length=table["length"].where(~better, -table["length"]),
    )
    for rows, about in ((table, []), (turned, ["3 in code"])):
        duels = read_duels(
            None,
            rows,
            groups="judge",
            labels=["judge"],
            context=["category"],
            covariates=["side", "length"],
        ).standardised()
        kernel = spg.ItemEffect() + ItemTimes(SameLevel(variance=0.1, active_dims=[0, 1]))
        likelihood = spg.Probit(0.5, by="judge", margin=MARGIN, cuts_by="judge")
        model = spg.PreferenceGP(
            duels, kernel, likelihood=likelihood, terms=[spg.Lean("side", variance=0.01)]
        )
        found = spg.audit(model, rows, category="category")
        assert [one.about for one in found.findings if one.kind == "category"] == about
        (looked,) = (one for one in found.looked_at if one.what.startswith("category"))
        assert (looked.tests, looked.findings) == (2 * MODELS, len(about))
    assert found.findings[0].size > 1.0 and found.findings[0].how == "one step"
    votes, labels = Votes.of(model), Codes.of(rows["category"].tolist())
    label = label_of_row(votes, labels)
    assert label is not None
    family = CategoriesOfBoard(votes, labels, label)
    p = family.ask(Round(Board.of(votes), *np.zeros((2, JUDGES), bool)))
    for row in (0, 5, 2 * MODELS - 1):
        test = label[row] * MODELS + votes.model_of_row[row]
        mean, sd = slow_audit.of_category(votes, row)
        size = family.size(test, 0.9)
        assert size.value == pytest.approx(mean, abs=1e-7)
        assert 0.5 * np.diff(size.ends) == pytest.approx(1.6448536269514722 * sd, abs=1e-7)
        assert p[test] == pytest.approx(2.0 * slow_audit.norm.cdf(-abs(mean) / sd), rel=1e-6)
    other = spg.audit(model, rows, category="kind")
    assert any(one.told.startswith("not asked: the board has") for one in other.looked_at)


# Boards.


def test_a_clean_board_is_clean() -> None:
    found = planted_board()
    assert found.findings == ()
    asked = [one for one in found.looked_at if one.findings is not None]
    assert all(one.told == "clean" for one in asked) and len(asked) == len(found.looked_at)
    assert found.conclusion == (
        f"Nothing was found that bends the board: all {len(asked)} things that were looked at are "
        "clean."
    )
    assert "drift: each of 8 models in time" in str(found)
    assert found.to_dict()["findings"] == [] and found.table().is_empty


@pytest.mark.parametrize(
    ("planted", "about"),
    [
        ("side", "side"),
        ("style", "length"),
        ("lean", "side of judge 2"),
        ("careless", "judge 3"),
        ("tie", "judge 4"),
        ("reversed", "judge 1"),
        ("drift", "2"),
        ("circle", "0 over 1 over 4 over 0"),
        ("duplicate", "5 and 6"),
    ],
)
def test_a_planted_defect_is_found(planted: str, about: str) -> None:
    findings = planted_board(planted).findings
    kinds = [one.kind for one in findings]
    assert planted in kinds and set(kinds) <= set(KINDS)
    one = findings[kinds.index(planted)]
    assert one.interval[0] <= one.size <= one.interval[1] and one.p < 1e-3
    if planted == "circle":
        assert set(one.about.split(" over ")) == {"0", "1", "4"}
        assert one.how == REFITTED and 1.0 < one.size < 2.2
        assert len(findings) == 1  # its neighbours are not found in its shadow
    else:
        assert one.about == about
    assert one.advice.endswith(".")


def test_a_refitted_size_is_that_of_a_fit_with_the_column() -> None:
    table = battles(1, ("drift",))
    model = fitted(table)
    votes = Votes.of(model)
    years = (table["day"] - table["day"].mean()).to_numpy() / 365.25
    column = votes.of_models.multiply(years[:, None]).toarray()[:, [2]]
    warm = with_columns(model, votes, column, ["drift"])
    cold = with_columns(model, votes, column, ["drift"])
    cold.infer(restart=True)
    np.testing.assert_allclose(warm.coefficients().mean, cold.coefficients().mean, atol=1e-6)
    found = spg.audit(model, table, date="day").findings
    (one,) = (one for one in found if one.kind == "drift")
    names = cold.coefficients().names
    if len(found) == 1:
        size = cold.coefficients().mean[names.index("drift")]
        assert one.size == pytest.approx(size, abs=1e-6)


def test_columns_may_be_arrays_or_labels() -> None:
    table = battles(1, ("drift",))
    model = fitted(table)
    one = spg.audit(model, table, date="day", by="kind")
    other = spg.audit(model, date=table["day"].to_numpy(), by="kind")
    assert one.to_dict() == other.to_dict()


def test_what_cannot_be_asked_is_said() -> None:
    table = battles()
    looked_at = {one.what: one for one in spg.audit(fitted(table)).looked_at}
    for what in ("drift", "category", "side by kind"):
        assert looked_at[what].told.startswith("not asked: ") and looked_at[what].findings is None
    unasked = sum(one.findings is None for one in looked_at.values())
    found = spg.audit(fitted(table)).conclusion
    assert found.endswith(f"are clean; {unasked} could not be asked.")


def test_what_is_no_board_is_refused() -> None:
    table = battles()
    model = fitted(table)
    with pytest.raises(ValueError, match=r"'daye'; did you mean day"):
        spg.audit(model, table, date="daye")
    with pytest.raises(ValueError, match=r"The column day of battles has shape \(899,\)"):
        spg.audit(model, table[1:], date="day")
    with pytest.raises(ValueError, match="category has shape"):
        spg.audit(model, category=["code"])
    with pytest.raises(ValueError, match="give a PreferenceGP"):
        spg.audit(3)
    said = np.where(table["tie"], "tie", np.where(table["side"] > 0, "model_a", "model_b"))
    with pytest.raises(ValueError, match=r"by says who won, such as .*; give a column that is"):
        spg.audit(model, by=said)
    with pytest.raises(ValueError, match="by names models, such as"):
        spg.audit(model, table, by="winner")
    with pytest.raises(ValueError, match="level"):
        spg.audit(model, level=1.0)


def votes(features: int = 0, kernel: Any = None, said: Any = None, **more: Any) -> Any:
    """A model of three votes, of which nothing is no board but what is given."""
    pairs = np.zeros((3, features)), [0, 1, 0], [1, 2, 2]
    duels = spg.Duels(*pairs, **(said or {}))
    kernel = spg.ItemEffect() if kernel is None else kernel
    return spg.PreferenceGP(duels, kernel, approximation=spg.Exact(), **more)


def choices() -> Any:
    events = Answers(np.array([0, 1, 2]), np.array([0, 3]), kind=np.array([CHOICE]))
    return spg.PreferenceGP(spg.Duels.from_events(np.zeros((3, 0)), events))


TIED_ALONE = spg.Probit(margin=MARGIN, ties="margin-only")


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        (apart("audit", "sets"), choices),
        (
            apart("audit", "grades"),
            lambda: votes(said={"grades": [1, 2, 1]}, likelihood=spg.Probit(margin=MARGIN)),
        ),
        (apart("audit", "weights"), lambda: votes(said={"weights": [0.5, 1.0, 1.0]})),
        (
            apart("audit", "other_terms"),
            lambda: votes(said={"people": list("aab")}, terms=[spg.Taste(spg.ItemEffect())]),
        ),
        (
            apart("audit", "in_time"),
            lambda: votes(
                kernel=spg.ItemInTime(spg.markov.Wiener()), said={"times": [18000, 18001, 18002]}
            ),
        ),
        (apart("audit", "mean_function"), lambda: votes(mean_function=gpflow.functions.Constant())),
        (
            apart("audit", "margin_only"),
            lambda: votes(said={"ties": [True, False, False]}, likelihood=TIED_ALONE),
        ),
        (apart("audit", "logistic"), lambda: votes(engine=spg.Laplace(link="logit"))),
        (apart("audit", "no_item_effects"), lambda: votes(1, gpflow.kernels.Matern52())),
    ],
)
def test_an_audit_is_of_a_board(pattern: str, made: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=pattern):
        spg.audit(made())


def test_an_audit_is_of_an_exact_board() -> None:
    duels = spg.Duels(np.eye(3), [0, 1, 0], [1, 2, 2])
    kernel = gpflow.kernels.Linear() + spg.ItemEffect()
    with refused("audit", "no_exact_inference"):
        spg.audit(spg.PreferenceGP(duels, kernel, approximation=spg.VFE()))


def test_ties_of_a_board_without_judges() -> None:
    """Nothing is known but who won."""
    table = battles(2)
    duels = spg.Duels(np.zeros((MODELS, 0)), table["winner"], table["loser"], ties=table["tie"])
    found = spg.audit(spg.PreferenceGP(duels, likelihood=spg.Probit(margin=MARGIN)))
    assert found.findings == ()
    told = {one.what: one.told for one in found.looked_at}
    assert told["careless"] == "not asked: nobody knows who judged"
    assert "circle: 56 triples of models" in told
    assert Verdicts.of(np.zeros(1), np.ones(1), np.ones(1), None).p[TIED] == 0.0


@pytest.mark.parametrize("t", [6, 25])
def test_a_few_votes_are_a_board_too(t: int) -> None:
    table = battles(3, t=t)
    table.loc[t - 1, "tie"] = True
    table["side"] = np.where(np.arange(t) % 2, 1.0, -1.0)
    found = spg.audit(fitted(table), table, date="day", category="category", by="kind")
    assert found.findings == ()
    told = {one.what: one.told for one in found.looked_at}
    assert told["models with 10 battles or more"].startswith("fewer: ")


def test_of_one_judge_nothing_is_left_out() -> None:
    table = battles().assign(judge="ann")
    told = {one.what: one.told for one in spg.audit(fitted(table, terms=[])).looked_at}
    assert told["left out"] == "not asked: all votes are of one judge or one category"


def with_one_who_ties(seed: int, share: float) -> tuple[pd.DataFrame, spg.PreferenceGP]:
    """A board of three judges, of whom the last calls a share of his votes a tie whatever they
    are, and its model, which knows his margin."""
    table = battles(seed)
    table = table[table["judge"].isin([f"judge {i}" for i in range(3)])].reset_index(drop=True)
    drawn = np.random.default_rng(9).random(len(table)) < share
    table["tie"] |= drawn & (table["judge"] == "judge 2")
    model = fitted(table)
    factors = [5.0 if name == "judge 2" else 1.0 for name in model.duels.group_names or ()]
    model.likelihood.cut_scale.assign(factors)
    return table, model


@pytest.mark.parametrize("tied", [1, 2, 3])
def test_judges_who_tie_all_are_findings(tied: int) -> None:
    """They leave the noise and the margin of the others to be asked about."""
    table = battles(1)
    table = table[table["judge"].isin([f"judge {i}" for i in range(3)])].reset_index(drop=True)
    table["tie"] |= table["judge"].str[-1].astype(int) < tied
    model = fitted(table)
    names = model.duels.group_names or ()
    model.likelihood.cut_scale.assign([20.0 if int(x[-1]) < tied else 1.0 for x in names])
    found = spg.audit(model)
    looked_at = {one.what: one for one in found.looked_at}
    if tied == 3:
        assert found.findings == () and found.conclusion.startswith(
            "No test could be made of judges who called everything a tie: judge "
        )
        assert looked_at["judges who decided a vote"].findings == 3
        return
    ties = [one for one in found.findings if one.kind == "tie"]
    assert {one.about for one in ties} == {f"judge {i}" for i in range(tied)}
    for one in ties:
        assert (one.size, one.unit, one.how) == (1.0, "share of ties", "counted")
        assert re.search(r"or leave the votes of judge \d out: [12]\d% of ties were", one.advice)
    assert not [one for one in found.findings if one.kind == "careless"]
    careless = looked_at["careless: noise of each of 3 judges"]
    assert careless.tests == (2 if tied == 1 else 0)
    if tied == 2:
        assert careless.told == "not asked: no two judges have 10 votes that are not all ties"


def test_one_who_ties_makes_no_others_findings() -> None:
    """Next to a margin that is his too, theirs would be too small."""
    _, model = with_one_who_ties(1, 0.9)
    found = spg.audit(model).findings
    assert {one.about for one in found if one.kind in ("tie", "careless")} == {"judge 2"}
