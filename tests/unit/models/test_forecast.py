"""What a model says of questions, against slow code, whatever their order and the chunks."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, RANKING, TOP, Answers, Codes, Covariates
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.models import base
from tests.reference import slow_forecasts
from tests.tolerances import CHOICE_BY_EP, IDENTITY, NOISE_NODES, ROUNDING

ITEMS = np.random.default_rng(0).normal(size=(7, 2))
NAMES, JUDGES = ("place", "late"), ["Ann", "Ben"]
LEVELS = ["--", "-", "=", "+", "++"]
DUELS, SETS = ("duels", "outcomes", "grades"), ("choices", "rankings")
OUTCOMES: dict[str, tuple[str, ...]] = {
    "duels": ("first", "second"),
    "outcomes": ("first", "tie", "second"),
    "grades": tuple(LEVELS),
    "choices": ("1", "2", "3", "4"),
    "rankings": ("as said",),
}


def sets_of(rng: np.random.Generator, t: int, kinds: tuple[int, ...], judges: list[Any]) -> Answers:
    """Answers about three or four alternatives, with judges and covariates of each."""
    sizes = rng.integers(3, 5, t)
    sides = np.concatenate([rng.permutation(len(ITEMS))[:k] for k in sizes])
    kind = rng.choice(kinds, t).astype(np.int8)
    kind = np.where((kind == TOP) & (sizes == 3), CHOICE, kind).astype(np.int8)
    ordered = np.where(kind == TOP, 2, 0) if TOP in kind else None
    return Answers(
        sides,
        np.append(0, np.cumsum(sizes)),
        kind=kind,
        judge=Codes.of((judges * t)[:t]),
        covariates=Covariates(rng.normal(size=(len(sides), 2)), NAMES),
        ordered=ordered,
    )


def duels_of(rng: np.random.Generator, t: int, judges: list[Any]) -> Answers:
    return Answers.between(
        *rng.integers(len(ITEMS), size=(2, t)),
        judge=Codes.of((judges * t)[:t]),
        covariates=rng.normal(size=(t, 2)),
        covariate_names=NAMES,
    )


@pytest.fixture(scope="module", params=[*DUELS, *SETS])
def model(request: pytest.FixtureRequest) -> spg.PreferenceGP:
    rng, kind = np.random.default_rng(1), request.param
    if kind in SETS:
        duels = spg.Duels.from_events(ITEMS, sets_of(rng, 15, (CHOICE, RANKING), JUDGES))
    else:
        first = rng.integers(7, size=30)
        more = {
            "duels": {},
            "outcomes": {"ties": rng.uniform(size=30) < 0.3},
            "grades": {"grades": rng.integers(-2, 3, 30), "levels": LEVELS},
        }[kind]
        duels = spg.Duels(
            ITEMS,
            first,
            (first + rng.integers(1, 7, 30)) % 7,
            groups=JUDGES * 15,
            covariates=rng.normal(size=(30, 2)),
            covariate_names=NAMES,
            **more,
        )
    found = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(),
        likelihood=spg.Probit(by="judge", margin=0.4 if kind in ("outcomes", "grades") else None),
    )
    found.likelihood.noise_ratio.assign([0.5, 2.5])
    found.kind = kind
    return found


@pytest.fixture
def questions(model: spg.PreferenceGP) -> Answers:
    """With covariates in another order, and judges of whom some are not known."""
    rng, judges = np.random.default_rng(2), ["Ben", None, "Ann", "Zoe"]
    kinds = (CHOICE,) if model.kind == "choices" else (CHOICE, RANKING, TOP)
    asked = sets_of(rng, 9, kinds, judges) if model.kind in SETS else duels_of(rng, 9, judges)
    return asked.saying(covariates=Covariates(asked.covariates[:, ::-1], NAMES[::-1]))


@pytest.mark.filterwarnings("ignore:.*'Zoe' is unknown")
def test_by_slow_code(model: spg.PreferenceGP, questions: Answers) -> None:
    forecast = model.predict(questions, ITEMS)
    assert (forecast.of, forecast.outcomes) == (model.kind, OUTCOMES[model.kind])
    assert f"Probabilities of 9 {model.kind}" in str(forecast)
    for i, judge in enumerate(questions.judge.labels):
        sides = slice(*questions.offsets[i : i + 2])
        told = ITEMS[questions.sides[sides]], questions.covariates[sides][:, ::-1], judge
        found, within = forecast.p[i], NOISE_NODES
        if model.kind in DUELS:
            expected = slow_forecasts.duel(model, *told)
        elif model.kind == "choices":
            expected, within = slow_forecasts.choice(model, *told), CHOICE_BY_EP
            assert not found[len(expected) :].any()
            found = found[: len(expected)]
        else:
            ordered = {CHOICE: 1, TOP: 2}.get(questions.kind[i], len(told[0]))
            expected, within = [slow_forecasts.ranking(model, *told, ordered)], CHOICE_BY_EP
        np.testing.assert_allclose(found, expected, atol=within)
    if model.kind != "rankings":
        np.testing.assert_allclose(forecast.p.sum(1), 1.0, rtol=IDENTITY)
    if model.kind in DUELS:
        won, tied, lost = np.exp(forecast.results.T)
        np.testing.assert_allclose(won + tied + lost, 1.0, rtol=IDENTITY)
        np.testing.assert_allclose(np.exp(forecast.log_first), won / (won + lost), rtol=IDENTITY)
        chance = model.predict_outcome(
            *ITEMS[questions.pairs.T],
            groups=questions.judge.labels,
            covariates=questions.covariate_differences[:, ::-1],
        )
        np.testing.assert_allclose(np.stack([won, tied, lost], 1), chance, atol=IDENTITY)


@pytest.mark.covering("outcomes", "choices")
@pytest.mark.filterwarnings("ignore:.*'Zoe' is unknown")
def test_order_and_chunks_do_not_matter(
    model: spg.PreferenceGP, questions: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, rng = model.predict(questions, ITEMS), np.random.default_rng(3)
    order, rows = rng.permutation(9), rng.permutation(7)
    moved = questions.take(order)
    moved = moved.saying(np.argsort(rows)[moved.sides])
    monkeypatch.setattr(base, "_QUESTIONS_AT_ONCE", 2)
    in_chunks = model.predict(moved, ITEMS[rows])
    assert in_chunks.outcomes == whole.outcomes
    np.testing.assert_allclose(in_chunks.log_p, whole.log_p[order], rtol=1e-9, atol=ROUNDING)
    parts = [model.predict(questions.take(slice(i, i + 4)), ITEMS) for i in range(0, 9, 4)]
    if model.kind != "rankings":  # which choices alone are not
        joined = Forecast.joined(parts)
        np.testing.assert_allclose(joined.log_p, whole.log_p, rtol=1e-9, atol=ROUNDING)


def test_by_default_of_what_the_model_knows(model: spg.PreferenceGP) -> None:
    own = model.predict(model.duels)
    given = model.duels.given
    np.testing.assert_array_equal(own.log_p, model.predict(given).log_p)
    np.testing.assert_array_equal(own.log_p, model.predict(given, ITEMS).log_p)
    another = spg.Duels.from_events(ITEMS, given)
    np.testing.assert_array_equal(own.log_p, model.predict(another).log_p)


def test_who_and_what_is_not_known(model: spg.PreferenceGP, questions: Answers) -> None:
    with pytest.warns(UserWarning, match=r"'Zoe' is unknown to the model \(\d of 9 pairs") as told:
        model.predict(questions, ITEMS)
    assert len(told) == 1
    one = questions.saying(covariates=Covariates(questions.covariates[:, :1], ("late",)))
    with pytest.raises(ValueError, match="no 'place', a covariate of the model, but 'late'"):
        model.predict(one, ITEMS)


def test_an_item_is_no_better_than_itself() -> None:
    """Whatever effect it has of its own, and whatever it is not known by."""
    duels = spg.Duels(ITEMS, [0, 1, 2], [1, 2, 3], covariates=[[1.0], [0.0], [-2.0]])
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential() + spg.ItemEffect(1.0))
    names, same = duels.covariate_names, np.array([4, 5])
    unknown = np.column_stack([ITEMS, np.full(7, -1.0)])
    only, pairs = model.coefficients(), Answers.between(same, same)
    said = pairs.with_differences(np.array([[0.0], [1.0]]), names)
    for rows in (ITEMS, unknown, model.inputs.of_items()):
        np.testing.assert_array_equal(model.predict(pairs, rows).p, 0.5)
        found = model.predict(said, rows)
        assert found.p[0].tolist() == [0.5, 0.5]
        np.testing.assert_allclose(found.mean[1], only.mean[0], atol=IDENTITY)
        np.testing.assert_allclose(found.variance[1], only.covariance[0, 0], atol=IDENTITY)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.predict("duels.csv"), "questions is of type str; give Duels or Answers"),
        (lambda m: m.predict(Answers([-1, 2])), "Event 0 has the row -1, .* give rows from 0 to 6"),
        (lambda m: m.predict(Answers([0, 99])), "Event 0 has the row 99"),
        (lambda m: m.predict(Answers([0, 1, 2])), "offsets run from 0 to 2, for 3 sides"),
        (lambda m: m.predict(Answers([0, 1, 2], [0, 3])), "Event 0 is a win of 3 sides; give it 2"),
        (lambda m: m.predict(Answers([0, 1], kind=[42])), "Event 0 has the kind 42; give 0"),
        (lambda m: m.predict(Answers([0.0, 1.0])), "sides is an array .* give whole numbers"),
        (lambda m: m.predict(Answers([0, 1, 2, 3], [0, 4], kind=[TOP])), "0 of 4 sides in order"),
        (lambda m: m.predict(Answers([0, 1], judge=["Ann"])), "judge is of type list; give Codes"),
        (
            lambda m: m.predict(Answers([0, 1], judge=Codes.of(["Ann", "Ben"]))),
            r"judge has shape \(2,\); give \(1,\), one for each event",
        ),
        (lambda m: m.predict(Answers([0, 1]), np.full((3, 2), np.nan)), "inputs has nan at 0, 0"),
        (lambda m: m.predict(Answers([0, 1]), "items.csv"), "inputs is 'items.csv'; give numbers"),
    ],
)
def test_what_is_no_question_is_refused(ask: Any, message: str) -> None:
    model = spg.PreferenceGP(spg.Duels(ITEMS, [0, 1], [1, 2]), gpflow.kernels.Matern52())
    with pytest.raises(ValueError, match=message):
        ask(model)
