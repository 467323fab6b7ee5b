"""Answers about sets whose alternatives have covariates, by judges who lean, among item effects."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers, Codes, Covariates
from sparse_prefgp.engines import PartitionedEP
from tests.reference.slow_set_probabilities import choice
from tests.reference.slow_sets import rows_of, slope, slow_sets
from tests.together import refused
from tests.tolerances import CHOICE_BY_POINTS, EVIDENCE, IDENTITY, PARTS
from tests.unit.models.test_sets import CASE_GRADIENT, ITEMS, MIXED, TIGHT, sets

NAMES = ("slot", "length")
JUDGES = ["a", "b", "a", "b", "b", "a", "b"]
X = np.random.default_rng(4).normal(size=(len(MIXED.sides), 2))
# Equal items in equal looks, by what is said of them apart; a side of which nothing is said.
X[3] = 0.0
SAID = MIXED.saying(
    counts=None,
    judge=Codes.of(JUDGES),
    labels={"judge": Codes.of(JUDGES)},
    covariates=Covariates(X, NAMES),
)
OF_EACH = ("choice", "ranking", "top", "best_worst", "best_worst_at_once", "choice", "choice")
TAU, LEAN, NOISE, SCALE = np.array([0.6, 0.3]), 0.7, 0.3, {"a": 0.5, "b": 2.0}


class Slow:
    """Everything by dense matrices of all rows at once."""

    def __init__(self, effects: float = 0.0) -> None:
        sides = np.split(SAID.sides, SAID.offsets[1:-1])
        each = [(kind, row.tolist(), 2) for kind, row in zip(OF_EACH, sides, strict=True)]
        a, places, n = rows_of(len(ITEMS), each)
        sizes = [len(rows_of(len(ITEMS), [one]).items) for one in each]
        judge = np.repeat(JUDGES, sizes)
        self.x = places @ X
        k = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6])(ITEMS).numpy()
        self.of_kernel = a @ k @ a.T
        self.of_effects = a @ a.T
        self.of_lean = np.outer(self.x[:, 0], self.x[:, 0]) * (judge[:, None] == judge[None])
        self.of_noise = n * np.array([SCALE[name] for name in judge])[:, None]
        self.judge = judge
        self.of_covariates = [np.outer(x, x) for x in self.x.T]
        self.utilities, self.k = a @ k, k
        covariance = self.of_kernel + effects * self.of_effects + LEAN * self.of_lean
        covariance = covariance + NOISE * self.of_noise
        for tau, one in zip(TAU, self.of_covariates, strict=True):
            covariance = covariance + tau * one
        self.found = slow_sets(covariance, np.zeros(len(a)))

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of both, then of the lean of a and b."""
        lean = [LEAN * self.x[:, 0] * (self.judge == name) for name in "ab"]
        crossed = np.stack([TAU[0] * self.x[:, 0], TAU[1] * self.x[:, 1], *lean])
        covariance = np.diag([*TAU, LEAN, LEAN]) - crossed @ self.found.reduction @ crossed.T
        return crossed @ self.found.weights, covariance

    def worth(self, items: list[int], x: np.ndarray, judge: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of what alternatives (k,) with covariates (k, 2) are worth to one."""
        lean = LEAN * np.outer(x[:, 0], self.x[:, 0] * (self.judge == judge))
        crossed = self.utilities[:, items].T + x @ np.diag(TAU) @ self.x.T + lean
        prior = self.k[np.ix_(items, items)] + x @ np.diag(TAU) @ x.T
        prior = prior + LEAN * np.outer(x[:, 0], x[:, 0])
        return crossed @ self.found.weights, prior - crossed @ self.found.reduction @ crossed.T


@pytest.fixture(scope="module")
def slow() -> Slow:
    return Slow()


def settings(approximation: spg.Approximation, **more: Any) -> dict[str, Any]:
    return {
        "kernel": gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6]),
        "approximation": approximation,
        "terms": [spg.Coefficients(TAU), spg.Lean("slot")],
        "likelihood": spg.Probit(NOISE, by="judge"),
        **more,
    }


def ready(model: Any) -> Any:
    gpflow.set_trainable(model.likelihood.noise, True)
    model.likelihood.noise_ratio.assign([SCALE[name] for name in model.duels.group_names])
    model.terms.parts(spg.Lean)[0].variance.assign(LEAN)
    return model


def whole(approximation: spg.Approximation, events: Answers = SAID, **more: Any) -> Any:
    duels = spg.Duels.from_events(ITEMS, events)
    model = ready(spg.PreferenceGP(duels, engine=TIGHT, **settings(approximation, **more)))
    model.warned_about_scale = True
    return model


def check(model: Any, slow: Slow) -> None:
    found = slow.found
    np.testing.assert_allclose(float(model.log_evidence()), found.log_evidence, rtol=IDENTITY)
    mean, _ = model.predict_f(ITEMS)
    np.testing.assert_allclose(mean[:, 0], slow.utilities.T @ found.weights, atol=IDENTITY)
    coefficients = model.coefficients()
    assert coefficients.names == (*NAMES, "slot of a", "slot of b")
    mean, covariance = slow.coefficients()
    np.testing.assert_allclose(coefficients.mean, mean, atol=IDENTITY)
    np.testing.assert_allclose(coefficients.covariance, covariance, atol=IDENTITY)


def test_evidence_coefficients_and_utilities(slow: Slow) -> None:
    check(whole(spg.Exact()), slow)


def test_probabilities(slow: Slow) -> None:
    """Of a choice and of a ranking by somebody who leans, each alternative with covariates."""
    model, items = whole(spg.Exact()), [4, 0, 3]
    x = np.random.default_rng(8).normal(size=(3, 2))
    mean, covariance = slow.worth(items, x, "b")
    observed = covariance + NOISE * SCALE["b"] * np.eye(3)
    given = {
        "groups": "b",
        "labels": {"judge": "b"},
        "covariates": x[None],
        "method": "points",
        "points": 2**13,
    }
    found = model.predict_choice(ITEMS[None, items], **given).numpy()[0]
    expected = [choice(mean, observed, j) for j in range(3)]
    np.testing.assert_allclose(found, expected, atol=CHOICE_BY_POINTS)


def test_slopes(slow: Slow) -> None:
    model = whole(spg.Exact())
    kernel = model.kernel
    variables = [
        (
            model.terms.parts(spg.Coefficients)[0].variance,
            [slope(slow.found, one) for one in slow.of_covariates],
        ),
        (model.terms.parts(spg.Lean)[0].variance, slope(slow.found, slow.of_lean)),
        (model.likelihood.noise, slope(slow.found, slow.of_noise)),
        (kernel.variance, slope(slow.found, slow.of_kernel / 1.2)),
    ]
    with tf.GradientTape() as tape:
        evidence = model.maximum_log_likelihood_objective()
    free = [parameter.unconstrained_variable for parameter, _ in variables]
    for slopes, (parameter, expected) in zip(tape.gradient(evidence, free), variables, strict=True):
        raw = parameter.unconstrained_variable
        with tf.GradientTape() as tape:
            value = parameter.transform.forward(tf.convert_to_tensor(raw))
        per_free = tape.gradient(value, raw)
        np.testing.assert_allclose(slopes / per_free, expected, rtol=CASE_GRADIENT)


def test_inducing_inputs_at_all_items(slow: Slow) -> None:
    """Covariates are exact, and nothing else is left unexplained."""
    model = whole(spg.VFE(), inducing_variable=ITEMS)
    expected = slow.found.log_evidence
    np.testing.assert_allclose(float(model.log_evidence()), expected, rtol=EVIDENCE)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "approximation", [spg.VFE(), spg.FITC(), spg.PITC(list("aabbccd"))], ids=lambda a: a.name
)
def test_in_chunks_and_parts(approximation: spg.Approximation, parts: int) -> None:
    inducing = ITEMS[[0, 2, 5]] + 0.1
    model = whole(approximation, inducing_variable=inducing)
    stream = spg.stream_duels(spg.Duels.from_events(ITEMS, SAID))
    engine = PartitionedEP(parts=parts, tolerance=1e-12, max_sweeps=300)
    mine = ready(
        spg.StreamedGP(
            stream,
            engine=engine,
            chunk=9,
            **settings(approximation, inducing_variable=inducing),
        )
    )
    np.testing.assert_allclose(mine.duels.covariate_squares, model.duels.covariate_squares)
    with tf.GradientTape() as tape:
        evidence = model.maximum_log_likelihood_objective()
    theirs = tape.gradient(evidence, model.trainable_variables)
    value, slopes = mine.evidence_and_gradient()
    np.testing.assert_allclose(value, float(evidence), rtol=IDENTITY)
    for one, other in zip(slopes, theirs, strict=True):
        np.testing.assert_allclose(one, tf.convert_to_tensor(other), atol=CASE_GRADIENT)
    one, other = mine.coefficients(), model.coefficients()
    np.testing.assert_allclose(one.mean, other.mean, atol=PARTS)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=PARTS)
    if parts == 1:
        ordinary = mine.in_memory()
        assert ordinary.infer().sweeps == 1
        assert float(ordinary.log_evidence()) == pytest.approx(value, rel=PARTS)


@pytest.mark.parametrize(
    "approximation",
    [spg.Exact(), pytest.param(spg.FITC(), marks=pytest.mark.slow)],
    ids=lambda a: a.name,
)
def test_item_effects(approximation: spg.Approximation) -> None:
    """An effect of each item beside the kernel, all of them inducing variables."""
    kernel = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6]) + spg.ItemEffect(0.4)
    inducing = ITEMS if approximation.needs_inducing else None
    model = whole(approximation, kernel=kernel, inducing_variable=inducing)
    expected = Slow(effects=0.4).found.log_evidence
    np.testing.assert_allclose(float(model.log_evidence()), expected, rtol=EVIDENCE)


def test_steps_are_of_all_alternatives() -> None:
    """Of a set the first and the last side say too little."""
    duels = spg.Duels.from_events(ITEMS, SAID)
    x = Slow().x
    np.testing.assert_allclose(duels.covariate_squares, np.mean(x**2, 0))
    with refused("sets", "of_pairs"):
        _ = duels.covariates


def test_covariates_that_tell_no_alternatives_apart() -> None:
    income = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])[:, None]
    events = sets([CHOICE, CHOICE], [[0, 1, 2], [3, 4, 5]])
    events = events.saying(covariates=Covariates(income, ("income",)))
    with pytest.raises(ValueError, match=r"covariate 'income' is the same for all sides"):
        spg.PreferenceGP(spg.Duels.from_events(ITEMS, events), gpflow.kernels.Matern52())


def test_contexts() -> None:
    """Alternatives are items in contexts: their rows are what is compared."""
    item = np.array([0, 1, 2, 0, 1, 2])
    duels = spg.Duels.from_events(ITEMS, MIXED, item=item)
    kernel = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6]) + spg.ItemEffect(0.4)
    model = spg.PreferenceGP(duels, kernel, engine=TIGHT, noise_variance=NOISE)
    each = [
        (kind, row.tolist(), 2)
        for kind, row in zip(OF_EACH, np.split(MIXED.sides, MIXED.offsets[1:-1]), strict=True)
    ]
    copies = [one for one, count in zip(each, MIXED.counts, strict=True) for _ in range(count)]
    a, _, n = rows_of(6, copies)
    k = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6])(ITEMS).numpy()
    k = k + 0.4 * (item[:, None] == item[None])
    slow = slow_sets(a @ k @ a.T + NOISE * n, np.zeros(len(n)))
    np.testing.assert_allclose(float(model.log_evidence()), slow.log_evidence, rtol=IDENTITY)
    inputs = np.column_stack([ITEMS, item])
    mean, _ = model.predict_f(inputs)
    np.testing.assert_allclose(mean[:, 0], k @ a.T @ slow.weights, atol=IDENTITY)
