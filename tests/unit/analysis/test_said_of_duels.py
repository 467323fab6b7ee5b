"""Answers of a model with contexts, a covariate, leans, noise and cuts by judge, and grades: each
against the dense normal distribution of all rows, coefficients and leans, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import sparse_prefgp as spg
from tests.reference.slow_boards import averages
from tests.reference.slow_rows_posterior import matern52, posterior
from tests.tolerances import IDENTITY

NUMBER, TOTAL = 8, 90
LENGTHSCALE, EFFECT, NOISE, VARIANCE, LEAN = 1.1, 0.4, 0.6, 0.8, 0.3
JUDGES = {"j0": (0.5, 0.8), "j1": (1.0, 1.0), "j2": (1.5, 1.2), "j3": (2.0, 1.5)}
MARGIN, STEP = 0.3, 0.8
ENGINE = spg.ParallelEP(tolerance=1e-13, max_sweeps=800)
NAMES = [f"i{k}" for k in range(NUMBER)]
PLACES = ["clay", "grass"]
SIZE = np.random.default_rng(3).normal(size=NUMBER)
ITEMS = pd.DataFrame({"item_id": NAMES, "a": SIZE})


def duels() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    first = rng.integers(NUMBER, size=TOTAL)
    second = (first + rng.integers(1, NUMBER, size=TOTAL)) % NUMBER
    lead = SIZE[first] - SIZE[second] + 0.7 + rng.normal(size=TOTAL)
    ahead = lead > 0.0
    return pd.DataFrame(
        {
            "winner": [NAMES[k] for k in np.where(ahead, first, second)],
            "loser": [NAMES[k] for k in np.where(ahead, second, first)],
            "shown_first": np.where(ahead, 1.0, -1.0),
            "judge": rng.choice([*JUDGES], TOTAL),
            "surface": np.where(rng.random(TOTAL) < 0.4, "clay", "grass"),
            "grade": np.where(abs(lead) < 0.3, 0, np.where(abs(lead) > 1.2, 2, 1)),
        }
    )


TABLE = duels()


def model_of(data: spg.Duels) -> spg.PreferenceGP:
    kernel = gpflow.kernels.Matern52(lengthscales=LENGTHSCALE) + spg.ItemEffect(EFFECT)
    made = spg.PreferenceGP(
        data,
        kernel,
        approximation=spg.Exact(),
        engine=ENGINE,
        terms=[spg.Coefficients(VARIANCE), spg.Lean("shown_first")],
        likelihood=spg.Probit(NOISE, by="judge", margin=MARGIN, cuts=[STEP], cuts_by="judge"),
    )
    labels = data.group_names or ()
    made.likelihood.noise_ratio.assign([JUDGES[name][0] for name in labels])
    made.likelihood.cut_scale.assign([JUDGES[name][1] for name in labels])
    made.terms.parts(spg.Lean)[0].variance.assign(LEAN)
    return made


@dataclass
class Normal:
    """Of utilities (rows: item by item, clay before grass), the coefficient, and each lean."""

    model: spg.PreferenceGP
    mean: Any
    covariance: Any
    prior: Any
    design: Any
    labels: list[str]

    def difference(
        self, first: str, second: str, place: str, x: float = 0.0, judge: str = ""
    ) -> Any:
        """Mean and variance of how far the first is ahead."""
        w = np.zeros(len(self.mean))
        w[[row(first, place), row(second, place)]] = 1.0, -1.0
        w[2 * NUMBER] = x
        if judge:
            w[2 * NUMBER + 1 + self.labels.index(judge)] = x
        return w @ self.mean, w @ self.covariance @ w

    def outcome(self, first: str, second: str, place: str) -> Any:
        """Probabilities of win and tie, of nobody in particular."""
        mean, variance = self.difference(first, second, place)
        new = self.model.likelihood.new_ratios()
        sd = np.sqrt(variance + 2.0 * NOISE * new.ratios)
        won, lost = (ndtr((m - MARGIN * new.scales) / sd) @ new.weights for m in (mean, -mean))
        return won, 1.0 - won - lost


def row(name: str, place: str) -> int:
    return 2 * NAMES.index(name) + PLACES.index(place)


@pytest.fixture(scope="module")
def normal() -> Normal:
    model = model_of(
        spg.read_duels(
            ITEMS,
            TABLE,
            covariates=["shown_first"],
            context=["surface"],
            groups="judge",
            labels=["judge"],
            grade="grade",
        )
    )
    labels = [str(name) for name in model.duels.group_names or ()]
    transform = model.duels.transform
    assert transform is not None
    each = [(name, place) for name in NAMES for place in PLACES]
    frame = pd.DataFrame({"a": np.repeat(SIZE, 2), "surface": [place for _, place in each]})
    same = np.repeat(np.arange(NUMBER), 2)[:, None] == np.repeat(np.arange(NUMBER), 2)
    prior = np.zeros((2 * NUMBER + 1 + len(labels),) * 2)
    prior[: 2 * NUMBER, : 2 * NUMBER] = (
        matern52(transform.apply(frame), LENGTHSCALE) + EFFECT * same
    )
    prior[2 * NUMBER, 2 * NUMBER] = VARIANCE
    prior[2 * NUMBER + 1 :, 2 * NUMBER + 1 :] = LEAN * np.eye(len(labels))
    # Sites are of z, which is how far the loser is ahead.
    design = np.zeros((TOTAL, len(prior)))
    for one, (_, duel) in zip(design, TABLE.iterrows(), strict=True):
        one[row(duel["winner"], duel["surface"])] = -1.0
        one[row(duel["loser"], duel["surface"])] = 1.0
        one[2 * NUMBER] = one[2 * NUMBER + 1 + labels.index(duel["judge"])] = -duel["shown_first"]
    each_duel = model.graph.of_duels(np.arange(model.graph.num_sites))
    # A tie has no winner: which of its sides comes first is the graph's affair.
    ahead = model.graph.rows[model.graph.winners[each_duel], model.duels.num_features]
    turned = ahead != [NAMES.index(name) for name in TABLE["winner"]]
    assert not turned[TABLE["grade"] != 0].any()
    design[turned] *= -1.0
    model.infer()
    nu, tau = (x[each_duel] for x in model.inference.sites())
    return Normal(model, *posterior(prior, design, nu, tau), prior, design, labels)


def test_coefficients_and_a_ranking(normal: Normal) -> None:
    found, both = normal.model.coefficients(), slice(2 * NUMBER, None)
    np.testing.assert_allclose(found.mean, normal.mean[both], atol=IDENTITY)
    np.testing.assert_allclose(found.covariance, normal.covariance[both, both], atol=IDENTITY)
    share = TABLE["surface"].value_counts()[PLACES].to_numpy() / TOTAL
    rows = slice(0, 2 * NUMBER)
    for at, weights in (((), share), ("surface=clay", [1.0, 0.0])):
        wanted = averages(
            normal.mean[rows],
            normal.covariance[rows, rows],
            np.kron(np.eye(NUMBER), np.asarray(weights)),
        )
        frame = spg.rank(normal.model, at=at).frame.set_index("item_id").loc[NAMES]
        np.testing.assert_allclose(frame["utility"], wanted[0], atol=IDENTITY)
        np.testing.assert_allclose(frame["sd"], wanted[1], atol=IDENTITY)


def test_grades_by_a_judge_of_a_pair_with_a_covariate(normal: Normal) -> None:
    pairs = pd.DataFrame({"first": ["i0"], "second": ["i1"], "surface": ["clay"], "judge": ["j2"]})
    found = spg.predict(normal.model, pairs.assign(shown_first=-1.0))
    mean, variance = normal.difference("i0", "i1", "clay", -1.0, "j2")
    ratio, scale = JUDGES["j2"]
    cuts = scale * np.array([-MARGIN - STEP, -MARGIN, MARGIN, MARGIN + STEP])
    below = ndtr((np.r_[-np.inf, cuts, np.inf] - mean) / np.sqrt(variance + 2.0 * NOISE * ratio))
    assert found["difference"][0] == pytest.approx(mean, abs=IDENTITY)
    assert found["sd"][0] == pytest.approx(np.sqrt(variance), abs=IDENTITY)
    np.testing.assert_allclose(
        found[found.attrs["grades"]].to_numpy()[0], np.diff(below), atol=IDENTITY
    )


@pytest.mark.slow
def test_an_explanation_and_what_is_suggested(normal: Normal) -> None:
    why = spg.explain(normal.model, "i0", "i1", at="surface=clay")
    mean, variance = normal.difference("i0", "i1", "clay")
    assert why.difference == pytest.approx(mean, abs=IDENTITY)
    assert why.sd == pytest.approx(np.sqrt(variance), abs=IDENTITY)
    assert (why.probability, why.tie_probability) == pytest.approx(
        normal.outcome("i0", "i1", "clay"), abs=IDENTITY
    )
    assert abs(why.residual) <= why.tolerance
    told = spg.asking.suggest(normal.model, batch=4, rng=np.random.default_rng(0)).frame
    for _, one in told.iterrows():
        won, _ = normal.outcome(one["first"], one["second"], one["surface"])
        assert one["probability"] == pytest.approx(won, abs=IDENTITY)


def test_later_duels_join(normal: Normal) -> None:
    more = TABLE.sample(25, random_state=1)
    updated, report = spg.update(normal.model, more)
    again = model_of(updated.duels)
    again.infer()
    assert report.continued_sites == normal.model.graph.num_sites
    assert updated.log_evidence() == pytest.approx(again.log_evidence(), abs=IDENTITY)
    np.testing.assert_allclose(
        updated.coefficients().mean, again.coefficients().mean, atol=IDENTITY
    )


def test_later_duels_join_effects_of_items_in_a_context() -> None:
    priced = TABLE.assign(price=np.random.default_rng(8).normal(size=TOTAL))
    data = spg.read_duels(ITEMS, priced, context=["price"], covariates=["shown_first"])
    kernel = (
        gpflow.kernels.Linear(active_dims=[0])
        + spg.ItemEffect(EFFECT)
        + spg.ItemTimes(gpflow.kernels.SquaredExponential(active_dims=[1]))
    )
    made = spg.PreferenceGP(data, kernel, engine=ENGINE, terms=[spg.Coefficients(VARIANCE)])
    updated, report = spg.update(made, priced.head(20).assign(price=0.3))
    again = spg.PreferenceGP(
        updated.duels, kernel, engine=ENGINE, terms=[spg.Coefficients(VARIANCE)]
    )
    assert report.continued_sites == made.graph.num_sites
    assert updated.log_evidence() == pytest.approx(again.log_evidence(), abs=IDENTITY)
