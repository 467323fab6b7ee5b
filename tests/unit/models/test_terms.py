"""What a model is made of: terms of the prior and a likelihood, copied, kept and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sparse_prefgp as spg
from sparse_prefgp.covariances.coefficients import CovariateTerm, TermOfDuels
from sparse_prefgp.models.terms import Columns
from sparse_prefgp.support import registry
from tests.together import apart
from tests.tolerances import IDENTITY, PARTS, ROUNDING, SOLVER

N, T = 6, 24
RNG = np.random.default_rng(4)
ITEMS = RNG.normal(size=(N, 2))
FIRST = RNG.integers(N, size=T)
SECOND = (FIRST + RNG.integers(1, N, size=T)) % N
SIDES = np.column_stack([RNG.choice([-1.0, 1.0], size=T), RNG.normal(size=T)])
WEEKDAY = RNG.choice(["Mon", "Tue", "Sun"], size=T).tolist()
JUDGE = RNG.choice(["Ann", "Bob", "Cem"], size=T).tolist()
SAID: dict[str, Any] = {
    "covariates": SIDES,
    "covariate_names": ["first", "length"],
    "labels": {"judge": JUDGE, "weekday": WEEKDAY},
}


class Weekday(spg.Term):
    """By "first" each weekday leans."""

    labels = ("weekday",)

    def __init__(self, variance: Any = 0.25) -> None:
        super().__init__()
        self.variance = gpflow.Parameter(variance, transform=gpflow.utilities.positive())

    def kernels(self, columns: Columns) -> list[TermOfDuels]:
        return [columns.each_level("weekday", "first", self.variance)]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {kind: {**classes} for kind, classes in registry._CLASSES.items()}
    monkeypatch.setattr(registry, "_CLASSES", every)
    spg.register(Weekday)


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.3, lengthscales=[0.9, 1.4])


def duels(**more: Any) -> spg.Duels:
    return spg.Duels(ITEMS, FIRST, SECOND, **{**SAID, **more})


def model(data: spg.Duels | None = None, **more: Any) -> spg.PreferenceGP:
    engine = spg.ParallelEP(tolerance=SOLVER)
    return spg.PreferenceGP(data or duels(), kernel(), **{"engine": engine, **more})


def parameters(made: Any) -> dict[str, gpflow.Parameter]:
    found: dict[str, gpflow.Parameter] = gpflow.utilities.parameter_dict(made)
    return found


def ratios(made: Any) -> dict[Any, float]:
    return dict(zip(made.duels.group_names, made.likelihood.noise_ratio.numpy(), strict=True))


# Models that share, and models that do not.


def test_a_likelihood_of_two_models() -> None:
    shared = spg.Probit(0.3, by="judge", margin=0.2)
    one = model(duels(groups=JUDGE), likelihood=shared)
    one.likelihood.noise_ratio.assign([0.5, 1.0, 2.0])
    other = model(duels(groups=["Dan", "Eve"] * (T // 2)), likelihood=shared)
    assert shared.noise_ratio is None and set(ratios(other).values()) == {1.0}
    assert {*ratios(one)} == {*JUDGE} and {*ratios(other)} == {"Dan", "Eve"}
    before = one.log_evidence(), other.log_evidence()
    shared.noise.assign(0.9)
    assert one.likelihood.noise is other.likelihood.noise is shared.noise
    for made, value in zip((one, other), before, strict=True):
        assert abs(made.log_evidence() - value) > 0.01


def test_a_likelihood_of_a_model_for_another_one() -> None:
    one = model(duels(groups=JUDGE), likelihood=spg.Probit(by="judge"))
    one.likelihood.noise_ratio.assign(np.arange(1.0, 4.0))
    again = model(duels(groups=JUDGE), likelihood=one.likelihood)
    assert again.likelihood.noise_ratio is one.likelihood.noise_ratio
    other = model(duels(groups=["Zoe", *JUDGE[1:]]), likelihood=one.likelihood)
    kept = {name: ratios(one).get(name, 1.0) for name in other.duels.group_names}
    assert ratios(other) == pytest.approx(kept, rel=ROUNDING)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_replaced_model_is_the_same_to_the_bit(streamed: bool) -> None:
    terms = [spg.Coefficients(0.4), spg.Lean("length"), Weekday(0.6)]
    given = {"likelihood": spg.Probit(0.4, by="judge", margin=0.2), "terms": terms}
    data = duels(groups=JUDGE, ties=np.arange(T) % 5 == 0)
    one: Any = model(data, **given)
    if streamed:
        stream = spg.stream_duels(data)
        one = spg.StreamedGP(stream, kernel(), inducing_variable=ITEMS, **given).in_memory()
    one.likelihood.noise_ratio.assign([0.5, 1.5, 2.0])
    one.kernel.variance.prior = tfp.distributions.Gamma(np.float64(2.0), np.float64(3.0))
    gpflow.set_trainable(one.terms[1], False)
    again = spg.replace(one, engine=spg.ParallelEP(), approximation=one.approximation)
    one.engine = spg.ParallelEP()
    one.inference.start_from(*np.zeros((2, one.graph.num_sites)))
    assert again.log_evidence() == one.log_evidence()
    for mine, theirs in zip(again.predict_f(ITEMS), one.predict_f(ITEMS), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert_alike(parameters(again), parameters(one))


def test_replaced_answers_keep_judges_by_name_and_copies_of_parameters() -> None:
    one = model(
        duels(groups=JUDGE),
        terms=[spg.Coefficients(0.4), spg.Lean("first"), Weekday()],
        likelihood=spg.Probit(by="judge", margin=0.2),
    )
    one.likelihood.noise_ratio.assign([0.5, 1.5, 2.0])
    gpflow.set_trainable(one.likelihood.noise_ratio, False)
    one.terms[1].variance.assign(0.7)
    judges = ["Zoe", *JUDGE[:9], *["Bob"] * 14]
    other = spg.replace(one, duels(groups=judges), approximation=spg.Exact())
    for name, ratio in ratios(other).items():
        assert ratio == pytest.approx(ratios(one).get(name, 1.0), rel=ROUNDING)
    assert ratios(other)["Zoe"] == 1.0 and not other.likelihood.noise_ratio.trainable
    assert [term.variance.numpy().tolist() for term in other.terms[:2]] == [[0.4, 0.4], 0.7]
    before = one.log_evidence()
    for parameter in parameters(other).values():
        if parameter.transform is not None:
            parameter.assign(2.0 * parameter)
    assert one.log_evidence() == before
    assert other.terms[1].variance.numpy() == pytest.approx(1.4)
    assert one.terms[1].variance.numpy() == pytest.approx(0.7)
    sharing = spg.replace(one, shared=True)
    assert [*parameters(sharing).values()] == [*parameters(one).values()]


def test_replaced_answers_keep_covariates_by_name() -> None:
    one = model(terms=[spg.Coefficients([0.1, 9.0])])
    turned = duels(covariates=SIDES[:, ::-1], covariate_names=["length", "first"])
    other = spg.replace(one, turned)
    np.testing.assert_allclose(other.terms[0].variance, [9.0, 0.1], rtol=ROUNDING)
    assert other.log_evidence() == pytest.approx(one.log_evidence(), abs=IDENTITY)
    fewer = spg.replace(one, duels(covariates=SIDES[:, 1:], covariate_names=["length"]))
    np.testing.assert_allclose(fewer.terms[0].variance, [9.0], rtol=ROUNDING)
    without = spg.replace(one, spg.Duels(ITEMS, FIRST, SECOND))
    assert without.terms[0].variance is None
    for variance in (gpflow.Parameter([1.0]), gpflow.Parameter(1.0)):
        with pytest.raises(ValueError, match="variance of Coefficients has shape"):
            model(terms=[spg.Coefficients(variance)])


def test_a_loaded_stream_keeps_judges_by_name(tmp_path: Path) -> None:
    judged = spg.stream_duels(duels(groups=JUDGE))
    likelihood = spg.Probit(by="judge")
    streamed = spg.StreamedGP(judged, kernel(), likelihood=likelihood, inducing_variable=ITEMS[:4])
    streamed.likelihood.noise_ratio.assign([0.5, 1.5, 2.0])
    spg.save(streamed, tmp_path / "model")
    some = np.flatnonzero(np.array(JUDGE) != "Ann")[::-1]
    fewer = spg.Duels(
        ITEMS,
        FIRST[some],
        SECOND[some],
        groups=np.array(JUDGE)[some].tolist(),
        covariates=SIDES[some],
        covariate_names=["first", "length"],
    )
    for one in (streamed, spg.load(tmp_path / "model")):
        other = spg.replace(one, fewer)
        assert ratios(other) == {name: ratios(streamed)[name] for name in fewer.group_names or ()}
        with pytest.raises(ValueError, match="not in memory"):
            spg.replace(one)


def test_a_margin_is_learned_once_ties_tell_of_it() -> None:
    one = model(likelihood=spg.Probit(margin=0.3))
    ties = duels(ties=np.arange(T) < 5)
    assert not one.likelihood.margin.trainable
    assert spg.replace(one, ties).likelihood.margin.trainable
    held = model(ties, likelihood=spg.Probit(margin=0.3))
    gpflow.set_trainable(held.likelihood.margin, False)
    assert not spg.replace(held, ties).likelihood.margin.trainable


# A term of one's own.


def test_an_own_term_is_a_lean_of_its_labels(tmp_path: Path) -> None:
    own = model(terms=[spg.Coefficients(0.4), Weekday(0.6)])
    lean = spg.Lean("first", by="weekday", variance=0.6)
    wanted = model(terms=[spg.Coefficients(0.4), lean])
    assert own.log_evidence() == pytest.approx(wanted.log_evidence(), abs=IDENTITY)
    asked = {"covariates": SIDES[:2], "labels": {"weekday": ["Mon", "Sun"]}}
    for mine, theirs in zip(
        own.predict_difference(ITEMS[:2], ITEMS[2:4], **asked),
        wanted.predict_difference(ITEMS[:2], ITEMS[2:4], **asked),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, atol=IDENTITY)
    spg.save(own, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert isinstance(again.terms[1], Weekday) and again.terms.labels == ("weekday",)
    assert again.log_evidence() == pytest.approx(own.log_evidence(), rel=ROUNDING)
    np.testing.assert_array_equal(again.coefficients().mean, own.coefficients().mean)
    assert again.coefficients().names == own.coefficients().names


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.covering(every=2)
def test_an_own_term_in_a_stream(parts: int, tmp_path: Path) -> None:
    terms = [spg.Coefficients(0.4), Weekday(0.6)]
    whole = model(terms=terms, approximation=spg.VFE(), inducing_variable=ITEMS[:4])
    streamed = spg.StreamedGP(
        spg.stream_duels(duels()),
        whole.kernel,
        terms=terms,
        inducing_variable=ITEMS[:4],
        engine=spg.PartitionedEP(parts=parts, tolerance=SOLVER),
        chunk=7,
    )
    with tf.GradientTape() as tape:
        value = whole.maximum_log_likelihood_objective()
    slopes = tape.gradient(value, [term.variance.unconstrained_variable for term in whole.terms])
    found, mine = streamed.evidence_and_gradient()
    assert found == pytest.approx(float(value), rel=PARTS)
    by_variable = dict(zip((v.ref() for v in streamed.trainable_variables), mine, strict=True))
    for term, slope in zip(streamed.terms, slopes, strict=True):
        one = by_variable[term.variance.unconstrained_variable.ref()]
        np.testing.assert_allclose(one, slope, atol=1e-6)
    np.testing.assert_allclose(streamed.coefficients().mean, whole.coefficients().mean, atol=PARTS)
    spg.save(streamed, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.coefficients().names == whole.coefficients().names
    np.testing.assert_array_equal(again.coefficients().mean, streamed.coefficients().mean)


# What is refused.


class Odd(spg.Term):
    """What gives any kernels."""

    def __init__(self, kernels: Any) -> None:
        super().__init__()
        self.made = kernels

    def kernels(self, columns: Columns) -> Any:
        return self.made


class OfLevel(CovariateTerm):
    """A kernel of one's own with a level."""

    level = 4


WITH_LEVEL = OfLevel(gpflow.Parameter([1.0, 1.0]), [2, 3])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"likelihood": spg.Probit(), "noise_variance": 0.2},
            "noise_variance=0.2" + apart("likelihood", "noise_variance"),
        ),
        ({"likelihood": 0.2}, "likelihood is of type float; give spg.Probit"),
        ({"terms": ["taste"]}, "Each of terms is of type str; give a term"),
        ({"terms": [spg.Lean("first"), spg.Lean("first", "judge")]}, "asked for twice"),
        ({"terms": [spg.Coefficients(), spg.Coefficients(1.0)]}, "several Coefficients terms"),
        ({"terms": [spg.Taste(kernel()), spg.Taste(kernel())]}, "several Taste terms; give one"),
        ({"terms": [spg.Lean("first", "umpire")]}, "is 'umpire'; choose from judge, weekday"),
        ({"terms": spg.Taste(kernel())}, "terms is of type Taste; give a list of terms"),
        ({"terms": [Weekday(), Weekday()]}, "Two terms are effects of 'weekday' times 'first'"),
        ({"terms": [Weekday(), spg.Lean("first", "weekday")]}, "effects of 'weekday' times"),
        ({"terms": [Odd(None)]}, r"What kernels of Odd\(\) gives is of type NoneType; give a list"),
        ({"terms": [Odd([gpflow.kernels.Linear()])]}, r"A kernel of Odd\(\) is of type Linear"),
        ({"terms": [Odd([WITH_LEVEL])]}, "OfLevel of Odd.* has a level and no numbers"),
        ({"terms": [Odd([])] * 2}, r"Odd\(\) is there twice"),
        ({"likelihood": spg.Probit(cuts=3)}, apart("cuts", "duels_without_grades")),
    ],
)
def test_what_is_refused(more: dict[str, Any], words: str) -> None:
    for made in (
        lambda: model(duels(people=JUDGE), **more),
        lambda: spg.StreamedGP(spg.stream_duels(duels(people=JUDGE)), kernel(), **more),
    ):
        with pytest.raises(ValueError, match=words):
            made()


def test_labels_of_an_own_term_that_duels_have_not() -> None:
    with pytest.raises(ValueError, match="column of labels is 'weekday'; choose from judge"):
        model(duels(labels={"judge": JUDGE}), terms=[Weekday()])
    alone = duels(covariates=SIDES[:, 1:], covariate_names=["length"])
    for made in (model, lambda x, **more: spg.StreamedGP(spg.stream_duels(x), kernel(), **more)):
        with pytest.raises(ValueError, match="covariate of a term is 'first'; choose from length"):
            made(alone, terms=[Weekday()])


def test_a_term_that_computes_with_more_than_is_kept_is_not_saved(tmp_path: Path) -> None:
    one = Odd([])
    spg.register(Odd)
    one.made = [CovariateTerm(gpflow.Parameter([1.0, 1.0]), [2, 3])]
    with pytest.raises(ValueError, match="a saved model cannot"):
        spg.save(model(terms=[one]), tmp_path / "model")
    own = Weekday(0.4)
    own.kernels = lambda columns: [columns.each_level("weekday", "length", own.variance)]
    with pytest.raises(ValueError, match="Weekday does not compute the same again"):
        spg.save(model(terms=[own]), tmp_path / "model")


@pytest.mark.parametrize(
    "noise", [{"noise_variance": 0.7}, {"noise_variance": 0.7, "shared": True}]
)
def test_a_replaced_noise_keeps_the_rest_of_the_likelihood(noise: dict[str, Any]) -> None:
    one = model(likelihood=spg.Probit(margin=0.3))
    other = spg.replace(one, **noise)
    assert other.likelihood.noise.numpy() == pytest.approx(0.7)
    assert other.likelihood.margin.numpy() == pytest.approx(0.3)
    assert one.likelihood.noise.numpy() == pytest.approx(0.5)
    sparse = model(approximation=spg.VFE(), inducing_variable=ITEMS[:3])
    assert spg.replace(sparse, approximation=spg.Exact()).inducing_variable is None
    with pytest.raises(ValueError, match=r"items of answers has shape \(6, 1\); give \(n, 2\)"):
        spg.replace(one, spg.Duels(ITEMS[:, :1], FIRST, SECOND))
    with pytest.raises(ValueError, match="model is of type int"):
        spg.replace(5)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"by": "who"}, "by is 'who'; choose from judge"),
        ({"cuts_by": "kind"}, "cuts_by is 'kind'; choose from judge"),
        ({"ties": "coin"}, "ties is 'coin'; choose from box, margin-only"),
        ({"margin": 0.0}, "margin is 0.0; give a number, above 0, or None"),
        ({"cuts": 0}, "cuts is 0; give the number of grades"),
        ({"cuts": "3"}, "cuts is '3'; give the number of grades"),
    ],
)
def test_likelihoods_that_make_no_sense(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.Probit(**more)


# Every term with every likelihood, kept and loaded.

TERMS: dict[str, Callable[[], list[spg.Term]]] = {
    "none": list,
    "coefficients": lambda: [spg.Coefficients([0.3, 0.6])],
    "lean": lambda: [spg.Lean("first", variance=0.2)],
    "leans": lambda: [spg.Lean("length", "weekday"), spg.Lean("length"), spg.Lean("first")],
    "taste": lambda: [spg.Taste(kernel() + spg.ItemEffect(0.2))],
    "taste by features": lambda: [spg.Taste(kernel(), by_features=0.1)],
    "own": lambda: [Weekday(0.4)],
    "all": lambda: [Weekday(), spg.Taste(kernel()), spg.Lean("first"), spg.Coefficients(0.3)],
}
GRADES = {"grades": RNG.choice([-2, -1, 0, 1, 2], size=T)}
TIES = {"ties": np.arange(T) % 4 == 0}
LIKELIHOODS: dict[str, tuple[dict[str, Any], Callable[[], spg.Probit]]] = {
    "one noise": ({}, lambda: spg.Probit(0.3)),
    "ties": (TIES, lambda: spg.Probit(margin=0.4)),
    "margin only": (TIES, lambda: spg.Probit(margin=0.4, ties="margin-only")),
    "grades": (GRADES, lambda: spg.Probit(0.3, margin=0.4, cuts=2)),
    "judges": ({}, lambda: spg.Probit(by="judge")),
    "judges of ties": (TIES, lambda: spg.Probit(by="judge", margin=0.4, cuts_by="judge")),
    "judges of grades": (
        GRADES,
        lambda: spg.Probit(0.3, by="judge", margin=0.4, cuts=[0.5], cuts_by="judge"),
    ),
}


def assert_alike(before: dict[str, gpflow.Parameter], after: dict[str, gpflow.Parameter]) -> None:
    """The same parameters, to the bit."""
    assert [*before] == [*after]
    for path, parameter in before.items():
        other = after[path]
        np.testing.assert_array_equal(
            parameter.unconstrained_variable, other.unconstrained_variable, err_msg=path
        )
        assert (parameter.trainable, parameter.prior_on) == (other.trainable, other.prior_on)
        assert type(parameter) is type(other)
        assert type(parameter.transform) is type(other.transform)
        assert type(parameter.prior) is type(other.prior)
        assert float(parameter.log_prior_density()) == float(other.log_prior_density())


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.covering(every=5)
@pytest.mark.filterwarnings("ignore:The judge .* so that the prior decides")
def test_kept_and_loaded(terms: str, likelihood: str, tmp_path: Path) -> None:
    said, probit = LIKELIHOODS[likelihood]
    people: dict[str, Any] = {}
    if terms in ("taste", "taste by features", "all"):
        people = {"people": WEEKDAY}
    if terms == "taste by features":
        people |= {"people_features": [[0.5], [-0.3], [0.1]]}
    one = model(duels(groups=JUDGE, **people, **said), terms=TERMS[terms](), likelihood=probit())
    rng = np.random.default_rng(0)
    for number, parameter in enumerate(parameters(one).values()):
        factor = np.exp(0.2 * rng.normal(size=parameter.shape))
        parameter.assign(parameter * factor)
        gpflow.set_trainable(parameter, number % 3 > 0)
        if number % 4 == 1:
            parameter.prior = tfp.distributions.Normal(np.float64(0.1), np.float64(number))
    one.infer()
    spg.save(one, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert_alike(parameters(one), parameters(again))
    assert [type(term) for term in again.terms] == [type(term) for term in one.terms]
    assert again.terms.labels == one.terms.labels
    for name in ("by", "cuts_by", "ties"):
        assert getattr(again.likelihood, name) == getattr(one.likelihood, name)
    assert again.infer() == one.infer()
    assert again.log_evidence() == one.log_evidence()
    inputs = one.inputs.of_items()
    for mine, theirs in zip(again.predict_f(inputs), one.predict_f(inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    groups = JUDGE[0] if one.likelihood.by else None
    chances = (m.predict_outcome(inputs[:3], inputs[3:], groups=groups) for m in (again, one))
    np.testing.assert_array_equal(*chances)
