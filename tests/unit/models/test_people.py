"""Tastes of people: against reference cases, and against models that are the same otherwise."""

import json

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.models.posterior import predictions
from sparse_prefgp.support import machine
from tests.cases import DATA
from tests.together import apart, refused
from tests.tolerances import (
    EVIDENCE,
    FIXED_POINT,
    GRADIENT_SOLVER,
    IDENTITY,
    PARTS,
    ROUNDING,
    SOLVER,
)

CASES = json.loads((DATA / "people_cases.json").read_text())["cases"]
ENGINE = spg.ParallelEP(tolerance=GRADIENT_SOLVER)


def kernel(case):
    found = gpflow.kernels.SquaredExponential(case["variance"], case["lengthscale"])
    return found + spg.ItemEffect(case["item_effect"]) if case["item_effect"] else found


def model_of(case, **more):
    duels = spg.Duels(case["items"], case["winner"], case["loser"], people=case["person"])
    return spg.PreferenceGP(
        duels,
        kernel(case["consensus_kernel"]),
        terms=[spg.Taste(kernel(case["taste_kernel"]))],
        noise_variance=case["noise_variance_of_z"] / 2.0,
        engine=ENGINE,
        **({"approximation": spg.Exact()} | more),
    )


def check_predictions(model, inputs, wanted, **tolerance):
    """Of a view."""
    mean, covariance = predictions(model.posterior(), model.inputs.rows(inputs), True)
    np.testing.assert_allclose(mean[:, 0], wanted["mean"], **tolerance)
    np.testing.assert_allclose(covariance[0], wanted["covariance"], **tolerance)
    if "first_beats_second" in wanted:
        chance = model.predict_duel(inputs[:1], inputs[1:2])
        np.testing.assert_allclose(chance, [wanted["first_beats_second"]], **tolerance)


def check_case(model, case, wanted, evidence="log_evidence"):
    """Evidence, sites and predictions; sites are compared by their duels as given."""
    within = dict(rtol=IDENTITY, atol=IDENTITY)
    np.testing.assert_allclose(model.log_evidence(), wanted[evidence], **within)
    nu, tau = (model.graph.of_duels(values) for values in model.inference.sites())
    np.testing.assert_allclose(tau, wanted["site_precision"], **within)
    np.testing.assert_allclose(nu, wanted["site_shift"], **within)
    inputs = model.inputs.of_items(case["test_items"])
    person = wanted["known_person"]["person"]
    for view, name in (
        (model.of_person(person), "known_person"),
        (model.of_person(None), "nobody_yet"),
        (model, "consensus"),
    ):
        check_predictions(view, inputs, wanted[name], **within)
    # Many people at once, and nobody where nobody is named.
    chances = model.predict_duel(inputs[[0, 0]], inputs[[1, 1]], people=[person, None])
    both = [wanted[name]["first_beats_second"] for name in ("known_person", "nobody_yet")]
    np.testing.assert_allclose(chances, both, **within)
    np.testing.assert_allclose(model.predict_duel(inputs[:1], inputs[1:2]), both[1:], **within)
    own = np.subtract(wanted["known_person"]["mean"], wanted["consensus"]["mean"])
    found = model.people.tastes(inputs)[model.people.names.index(person)]
    np.testing.assert_allclose(found, own, **within)


@pytest.fixture(scope="module", params=range(len(CASES)), ids=lambda i: f"case {i}")
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def exact(case):
    return model_of(case)


@pytest.mark.covering(every=4)
def test_reference_cases(case, exact):
    check_case(exact, case, case["exact"])
    wanted = case["new_person"]["known_sites_held"]
    duels = spg.Duels(case["items"], case["new_person"]["winner"], case["new_person"]["loser"])
    inputs = exact.inputs.of_items(case["test_items"])
    check_predictions(exact.meet(duels), inputs, wanted, rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.covering(every=4)
def test_gradients_of_reference_cases(case, exact):
    wanted = case["exact"]["gradient_of_log_evidence_in_log_parameters"]
    parameters = []
    for name in wanted:
        if name == "noise_variance_of_z":  # which only matters relative to the kernels
            continue
        whose, what = name.split(".")
        of = exact.kernel if whose == "consensus" else exact.terms.taste
        first = of.kernels[0] if hasattr(of, "kernels") else of
        parameters.append(
            of.kernels[1].variance
            if what == "item_effect"
            else getattr(first, f"{what}s" if what == "lengthscale" else what)
        )
    with tf.GradientTape() as tape:
        value = exact.maximum_log_likelihood_objective()
    slopes = tape.gradient(value, [p.unconstrained_variable for p in parameters])
    found = []
    for slope, parameter in zip(slopes, parameters, strict=True):
        by_value = slope / tf.exp(
            parameter.transform.forward_log_det_jacobian(parameter.unconstrained_variable, 0)
        )
        found.append(float(by_value * parameter))
    listed = [value for name, value in wanted.items() if name != "noise_variance_of_z"]
    np.testing.assert_allclose(found, listed, rtol=1e-8, atol=1e-8)


def test_the_bound_of_a_reference_case():
    case = CASES[2]
    wanted = case["vfe"]
    model = model_of(
        case, approximation=spg.VFE(), inducing_variable=np.array(wanted["inducing_inputs"])
    )
    check_case(model, case, wanted, "log_evidence_with_block_correction")
    assert wanted["log_evidence"] < model.log_evidence() < case["exact"]["log_evidence"]


ITEMS = np.random.default_rng(1).normal(size=(8, 2))
NEW = np.random.default_rng(2).normal(size=(4, 2))


def duels_of(kind, people):
    """Some 30 answers of people, drawn by turns: duels with ties and counts, or rankings."""
    rng = np.random.default_rng(3)
    if kind == "duels":
        ends = rng.permuted(np.tile(np.arange(8), (30, 1)), axis=1)[:, :2]
        who = np.arange(30) % people
        return spg.Duels(
            ITEMS,
            *ends.T,
            counts=1 + np.arange(30) % 3,
            ties=np.arange(30) % 7 == 3,
            people=who,
        )
    orders = rng.permuted(np.tile(np.arange(8), (12, 1)), axis=1)[:, :3]
    frame = pd.DataFrame(orders, columns=["rank_1", "rank_2", "rank_3"])
    frame["who"] = np.arange(12) % people
    items = pd.DataFrame(ITEMS, columns=["x", "y"]).assign(item_id=np.arange(8))
    return spg.read_rankings(items, frame, person="who")


def se(variance, lengthscale=1.0):
    return gpflow.kernels.SquaredExponential(variance, lengthscale)


def settings(duels):
    likelihood = spg.Probit(margin=0.3 if duels.num_ties else None)
    return {"likelihood": likelihood, "engine": spg.ParallelEP(tolerance=SOLVER)}


@pytest.mark.parametrize("kind", ["duels", "rankings"])
@pytest.mark.covering(every=2)
def test_one_person_is_a_sum_of_kernels(kind):
    duels = duels_of(kind, 1)
    more = settings(duels)
    tasted = spg.PreferenceGP(duels, se(0.7), terms=[spg.Taste(se(0.4, 2.0))], **more)
    summed = spg.PreferenceGP(duels, se(0.7) + se(0.4, 2.0), **more)
    assert abs(tasted.log_evidence() - summed.log_evidence()) < IDENTITY
    alone = tasted.of_person(0)
    for one, other in zip(alone.predict_f(NEW), summed.predict_f(NEW), strict=True):
        np.testing.assert_allclose(one, other, rtol=IDENTITY, atol=IDENTITY)
    chances = [model.predict_choice(NEW[None]) for model in (alone, summed)]
    np.testing.assert_allclose(*chances, rtol=IDENTITY)
    if kind == "rankings":  # events name their person
        events = duels.events.take(slice(0, 4))
        both = [model.predict(events).log_first for model in (tasted, summed)]
        np.testing.assert_allclose(*both, rtol=IDENTITY)


@pytest.mark.parametrize("kind", ["duels", "rankings"])
def test_no_tastes_is_one_utility(kind):
    duels = duels_of(kind, 3)
    more = settings(duels)
    tasted = spg.PreferenceGP(duels, se(0.7), terms=[spg.Taste(se(1e-300))], **more)
    plain = spg.PreferenceGP(duels, se(0.7), **more)
    assert abs(tasted.log_evidence() / plain.log_evidence() - 1.0) < ROUNDING * 100
    for view in (tasted, tasted.of_person(1), tasted.of_person(None)):
        for one, other in zip(view.predict_f(NEW), plain.predict_f(NEW), strict=True):
            np.testing.assert_allclose(one, other, rtol=IDENTITY, atol=IDENTITY)


def test_sequential_engine_and_one_block_agree():
    duels = duels_of("duels", 3)
    more = {"likelihood": spg.Probit(margin=0.3)}
    parallel = spg.PreferenceGP(
        duels, se(0.7), terms=[spg.Taste(se(0.9))], engine=spg.ParallelEP(tolerance=SOLVER), **more
    )
    sequential = spg.PreferenceGP(
        duels,
        se(0.7),
        terms=[spg.Taste(se(0.9))],
        engine=spg.SequentialEP(tolerance=SOLVER),
        **more,
    )
    block = spg.PreferenceGP(
        duels,
        se(0.7),
        terms=[spg.Taste(se(0.9))],
        approximation=spg.PITC(["all"] * 30),
        inducing_variable=ITEMS[:2],
        engine=spg.ParallelEP(tolerance=SOLVER),
        **more,
    )
    for other in (sequential, block):
        assert abs(parallel.log_evidence() - other.log_evidence()) < PARTS


@pytest.mark.covering("approximation0")
@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC()])
def test_over_duels_and_over_rows(monkeypatch, approximation):
    """Both forms of the algebra, with two duels of a person between the same items."""
    duels = duels_of("duels", 3)
    found = []
    for fewer in (True, False):
        monkeypatch.setattr(
            "sparse_prefgp.approximations.people._fewer_rows", lambda *_, fewer=fewer: fewer
        )
        model = spg.PreferenceGP(
            duels,
            se(0.7) + spg.ItemEffect(0.1),
            terms=[spg.Taste(se(0.9) + spg.ItemEffect(0.2))],
            likelihood=spg.Probit(margin=0.3),
            approximation=approximation,
            inducing_variable=ITEMS[:3] if approximation.needs_inducing else None,
            engine=spg.ParallelEP(tolerance=GRADIENT_SOLVER),
        )
        with tf.GradientTape() as tape:
            value = model.maximum_log_likelihood_objective()
        slopes = tape.gradient(value, model.trainable_variables)
        inputs = model.inputs.of_items()
        asked = model.predict_difference(inputs[:4], inputs[4:], people=[0, 1, 2, None])
        group = predictions(model.of_people([0, 2]).posterior(), inputs, True)
        met = model.meet(spg.Duels(ITEMS, [0, 1, 0], [1, 2, 2])).predict_f(inputs)
        assert model.people.known().covariance.over_rows is fewer
        numbers = [value, *slopes, *asked, *group, *met, model.people.tastes()]
        found.append(np.concatenate([np.ravel(each) for each in numbers]))
    np.testing.assert_allclose(*found, rtol=IDENTITY, atol=IDENTITY)


def test_a_group_is_the_average_of_its_people():
    model = spg.PreferenceGP(
        duels_of("duels", 3),
        se(0.7),
        terms=[spg.Taste(se(0.9) + spg.ItemEffect(0.2))],
        likelihood=spg.Probit(margin=0.3),
    )
    inputs = model.inputs.of_items()
    means = [model.of_person(one).predict_f(inputs)[0] for one in (0, 2)]
    group = predictions(model.of_people([2, 0, 2]).posterior(), inputs, True)
    np.testing.assert_allclose(group[0], np.mean(means, 0), rtol=IDENTITY, atol=IDENTITY)
    # Of all people and nothing known of them, the variance is that of the average of three.
    flat = spg.PreferenceGP(
        spg.Duels(ITEMS, [0, 1, 2], [1, 2, 0], people=[0, 1, 2]),
        se(0.7),
        terms=[spg.Taste(se(0.9))],
        noise_variance=1e12,
    )
    _, variance = flat.of_people([0, 1, 2]).predict_f(NEW)
    np.testing.assert_allclose(variance, 0.7 + 0.9 / 3.0, rtol=FIXED_POINT)
    for people in ([], "Ann"):
        with pytest.raises(ValueError, match="give a list with the names of at least one"):
            model.of_people(people)


def test_saved_and_read_again(tmp_path):
    duels = duels_of("duels", 3)
    model = spg.PreferenceGP(
        duels,
        se(0.7),
        terms=[spg.Taste(se(0.4, 2.0) + spg.ItemEffect(0.2))],
        likelihood=spg.Probit(margin=0.3),
    )
    model.infer()
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.people.names == (0, 1, 2)
    inputs = model.inputs.of_items()
    for of in (1, None):
        both = [one.predict_duel(inputs[:4], inputs[4:], people=of) for one in (model, again)]
        np.testing.assert_array_equal(*both)
    assert again.log_evidence() == pytest.approx(model.log_evidence(), abs=IDENTITY)


def test_a_view_is_of_the_model_as_it_is():
    model = spg.PreferenceGP(
        duels_of("duels", 3),
        se(0.7),
        terms=[spg.Taste(se(0.4, 2.0))],
        likelihood=spg.Probit(margin=0.3),
    )
    view = model.of_person(2)
    before = view.predict_f(NEW)[0]
    assert model.posterior().kernel is not view.posterior().kernel
    model.terms.taste.variance.assign(2.0)
    after = view.predict_f(NEW)[0]
    np.testing.assert_array_equal(after, model.of_person(2).predict_f(NEW)[0])
    assert np.abs(after - before).max() > 1e-3


def test_what_makes_no_sense_of_people(monkeypatch):
    duels, nobodys = duels_of("duels", 3), spg.Duels(ITEMS, [0, 1], [1, 2])
    shared = se(1.0)
    for taste, words in (
        (shared, apart("tastes", "shared_parameters")),
        ("se", "kernel of a Taste is of type str"),
        (se(1.0) + spg.PairEffect(), apart("tastes", "pair_effects")),
    ):
        with pytest.raises(ValueError, match=words):
            likelihood = spg.Probit(margin=0.3)
            spg.PreferenceGP(duels, shared, terms=[spg.Taste(taste)], likelihood=likelihood)
    with refused("tastes", "duels_of_nobody"):
        spg.PreferenceGP(nobodys, se(1.0), terms=[spg.Taste(se(1.0))])
    plain = spg.PreferenceGP(nobodys, se(1.0))
    for ask in (lambda: plain.of_person(0), lambda: plain.meet(nobodys), plain.people.tastes):
        with refused("one_utility", "people"):
            ask()
    with refused("one_utility", "people"):
        plain.predict_duel(NEW[:1], NEW[1:2], people="Ann")
    model = spg.PreferenceGP(
        duels, se(1.0), terms=[spg.Taste(se(1.0))], likelihood=spg.Probit(margin=0.3)
    )
    with pytest.raises(ValueError, match=r"The person 'Ann' is unknown .* are 0, 1, 2; .*meet"):
        model.of_person("Ann")
    with pytest.raises(ValueError, match="of 2 people, 5 among them, but one is met at a time"):
        model.meet(spg.Duels(ITEMS, [0, 1], [1, 2], people=[5, 6]))
    with pytest.raises(ValueError, match="have 1 features, but the model has 2"):
        model.meet(spg.Duels(ITEMS[:, :1], [0, 1], [1, 2]))
    with refused("tastes", "lower_bounds"):
        model.lower_bound()
    with pytest.warns(UserWarning, match=r"'Ann' is unknown .*1 of 1 pairs"):
        model.predict_duel(NEW[:1], NEW[1:2], people="Ann")
    many = np.arange(5001)
    large = (
        spg.Duels(np.arange(5002.0)[:, None], many, many + 1, people=["Ann"] * 5000 + ["Bo"]),
        spg.Duels(np.arange(5002.0)[:, None], many, many + 1, people=["Ann"] * 5001),
    )
    assert spg.PreferenceGP(large[0], se(1.0), terms=[spg.Taste(se(1.0))]).people.names == (
        "Ann",
        "Bo",
    )
    with pytest.raises(
        ValueError, match=r"'Ann' has 5,001 distinct duels between 5,002 items.*GiB"
    ):
        spg.PreferenceGP(large[1], se(1.0), terms=[spg.Taste(se(1.0))])
    with monkeypatch.context() as told:
        told.setattr(machine, "ASKED_ABOVE", 0)
        told.setattr(machine, "free_memory", lambda: 8 * 3 * 8 - 1)
        with pytest.raises(MemoryError, match="Tastes of 3 people for 8 items take "):
            model.people.tastes()
    assert model.people.tastes(NEW).shape == (3, 4)
    tight = spg.PreferenceGP(
        duels,
        se(1.0),
        terms=[spg.Taste(se(1.0))],
        likelihood=spg.Probit(margin=0.3),
        approximation=spg.TightVFE(),
    )
    with refused("tastes", "approximations_of_one_utility"):
        tight.infer()


@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC()], ids=repr)
@pytest.mark.covering(every=2)
def test_rows_without_noise_of_their_own(approximation):
    """Best and worst of four at one look, whose rows share all their noise."""
    rng = np.random.default_rng(4)
    shown = rng.permuted(np.tile(np.arange(8), (9, 1)), axis=1)[:, :4]
    frame = pd.DataFrame(shown, columns=[f"option_{j}" for j in range(1, 5)])
    frame = frame.assign(best=shown[:, 0], worst=shown[:, 3], who=np.arange(9) // 3)
    items = pd.DataFrame(ITEMS, columns=["x", "y"]).assign(item_id=np.arange(8))
    duels = spg.read_best_worst(items, frame, at_once=True, person="who")

    def model(approximation, **more):
        found = spg.PreferenceGP(
            duels,
            se(1.0),
            terms=[spg.Taste(se(0.5))],
            engine=ENGINE,
            approximation=approximation,
            **more,
        )
        assert found.infer().converged
        return found

    exact = model(spg.Exact()).log_evidence()
    every = model(approximation, inducing_variable=duels.items)
    assert every.log_evidence() == pytest.approx(exact, abs=EVIDENCE)
    few = model(approximation, inducing_variable=duels.items[:3])
    with tf.GradientTape() as tape:
        value = few.maximum_log_likelihood_objective()
    slopes = tape.gradient(value, few.trainable_variables)
    assert all(np.all(np.isfinite(x)) for x in (value, *slopes))
    if approximation.is_bound:
        assert few.log_evidence() < exact + IDENTITY
    stream = spg.StreamedGP(
        spg.stream_duels(duels),
        se(1.0),
        terms=[spg.Taste(se(0.5))],
        approximation=approximation,
        inducing_variable=duels.items[:3],
        engine=spg.PartitionedEP(parts=1, tolerance=GRADIENT_SOLVER),
    )
    assert stream.log_evidence() == pytest.approx(few.log_evidence(), abs=EVIDENCE)
