"""Tastes of people, with features of theirs and without, against dense matrices."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.models.posterior import predictions
from sparse_prefgp.sampling.problem import exact_problem, kernel_inputs
from sparse_prefgp.sampling.target import exact_target
from tests.reference import slow_approximations as slow
from tests.reference.slow_people import (
    CONSENSUS,
    NOBODY,
    SlowTastes,
    after_duels,
    meeting,
    spread,
)
from tests.reference.slow_set_probabilities import choice
from tests.together import apart, refused
from tests.tolerances import (
    CHOICE_BY_POINTS,
    FIXED_POINT,
    GRADIENT,
    GRADIENT_SOLVER,
    IDENTITY,
    PARTS,
    SOLVER,
)

RNG = np.random.default_rng(7)
ITEMS = RNG.normal(size=(6, 2))
WINNERS = RNG.integers(6, size=11)
LOSERS = (WINNERS + RNG.integers(1, 6, size=11)) % 6
WHO = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0]
# Of the three, and of one of whom nothing else is known.
PEOPLE = RNG.normal(size=(4, 2))
NAMES = ["ann", "bo", "cy", "di"]
INDUCING = ITEMS[[0, 3]] + 0.1
BLOCKS = [0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0]
NEW = [0, 2, 1], [1, 3, 5]
ROWS = {
    "exact": spg.Exact(),
    "vfe": spg.VFE(),
    "fitc": spg.FITC(),
    "pitc": spg.PITC(BLOCKS),
}


def built(row, featured, over_rows, monkeypatch):
    """The model, and the same for slow code."""
    monkeypatch.setattr("sparse_prefgp.approximations.people._fewer_rows", lambda *_: over_rows)
    features = dict(zip(NAMES, PEOPLE, strict=True))
    duels = spg.Duels(
        ITEMS,
        WINNERS,
        LOSERS,
        people=[NAMES[u] for u in WHO],
        people_features=features if featured else None,
    )
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(0.9, 0.8),
        terms=[spg.Taste(gpflow.kernels.SquaredExponential(1.4, 1.1), 0.4 if featured else None)],
        approximation=ROWS[row],
        inducing_variable=None if row == "exact" else INDUCING,
        noise_variance=0.3,
        engine=spg.ParallelEP(tolerance=SOLVER),
    )
    centred = PEOPLE - PEOPLE[:3].mean(0)
    return model, SlowTastes(
        slow.squared_exponential(0.9, 0.8),
        slow.squared_exponential(1.4, 1.1),
        0.3,
        row,
        None if row == "exact" else INDUCING,
        centred if featured else None,
        0.4,
    )


def close(view, wanted, where):
    """The utilities of the items, of a view, against some of those of slow code."""
    mean, covariance = predictions(view.posterior(), view.inputs.rows(ITEMS), True)
    within = dict(rtol=FIXED_POINT, atol=FIXED_POINT)
    np.testing.assert_allclose(mean[:, 0], wanted.mean[where], **within)
    np.testing.assert_allclose(covariance[0], wanted.covariance[where, where], **within)


@pytest.mark.covering("exact-True-False", "vfe-True-True")
@pytest.mark.parametrize(
    ("row", "featured", "over_rows"),
    [
        ("exact", True, False),
        ("vfe", True, True),
        ("fitc", True, False),
        ("fitc", False, True),
        ("pitc", True, False),
    ],
)
def test_tastes_are_those_of_dense_matrices(row, featured, over_rows, monkeypatch):
    model, tastes = built(row, featured, over_rows, monkeypatch)
    whose = [1, CONSENSUS, NOBODY, *([3] if featured else [])]
    asked = np.tile(ITEMS, (len(whose), 1))
    wanted = after_duels(
        tastes, ITEMS, WINNERS, LOSERS, WHO, asked, np.repeat(whose, 6).tolist(), BLOCKS
    )
    assert model.log_evidence() == pytest.approx(wanted.log_evidence, abs=FIXED_POINT)
    at = [slice(6 * k, 6 * k + 6) for k in range(len(whose))]
    close(model, wanted, at[1])
    nobody = wanted
    if featured:
        close(model.of_person("di"), wanted, at[3])
        close(model.meet(features=PEOPLE[3]), wanted, at[3])
        each = np.repeat([0, 1, 2, CONSENSUS], 6).tolist()
        moved = _of_coefficients(tastes, each)
        nobody = wanted._replace(covariance=wanted.covariance.copy())
        nobody.covariance[at[2], at[2]] += spread(moved, 3, 6)
    close(model.of_person(None), nobody, at[2])
    if row != "pitc":  # whose residuals a person shares by PIC alone
        close(model.of_person("bo"), wanted, at[0])
        close(model.of_people(["bo"]), wanted, at[0])
        known = [("bo", wanted, at[0]), (None, nobody, at[2])]
        known += [("di", wanted, at[3])] if featured else []
        chances = model.predict_choice(
            [ITEMS[:3]] * len(known),
            people=[name for name, _, _ in known],
            method="points",
            points=8192,
        )
        for (_, of, where), chance in zip(known, chances, strict=True):
            mean, covariance = of.mean[where][:3], of.covariance[where, where][:3, :3]
            slow_chance = [choice(mean, covariance + 0.3 * np.eye(3), k) for k in range(3)]
            np.testing.assert_allclose(chance, slow_chance, atol=CHOICE_BY_POINTS)
    # Many at once are what they are one by one.
    who = ["bo", None, "di" if featured else None, "cy"]
    pairs = ITEMS[:4], ITEMS[2:]
    one_by_one = [
        np.ravel(model.of_person(person).predict_difference(pairs[0][[k]], pairs[1][[k]]))
        for k, person in enumerate(who)
    ]
    for worth in (0, 1000):  # each person alone, or copies of what is known for each pair
        monkeypatch.setattr("sparse_prefgp.models.tastes._WORTH_EACH", worth)
        found = model.predict_difference(*pairs, people=who)
        np.testing.assert_allclose(np.transpose(found), one_by_one, atol=FIXED_POINT)
    # Somebody new, known from duels: with features, or without.
    met = model.meet(spg.Duels(ITEMS, *NEW))
    unknown = type(wanted)(0.0, nobody.mean[at[2]], nobody.covariance[at[2], at[2]])
    close(met, meeting(tastes, unknown, ITEMS, *NEW), slice(None))
    if featured:
        di = type(wanted)(0.0, wanted.mean[at[3]], wanted.covariance[at[3], at[3]])
        met = model.meet(spg.Duels(ITEMS, *NEW), PEOPLE[3])
        close(met, meeting(tastes, di, ITEMS, *NEW), slice(None))
    own = model.of_person("cy").predict_f(ITEMS)[0][:, 0] - model.predict_f(ITEMS)[0][:, 0]
    if row != "pitc":
        np.testing.assert_allclose(model.people.tastes(ITEMS)[2], own, atol=FIXED_POINT)


def _of_coefficients(tastes, each):
    """The posterior of g and of s_u' W x, without h_u."""
    # Utilities asked of people beyond the table have no h_u with those of the duels.
    again = np.concatenate([tastes.people, tastes.people[:3]])
    renamed = [CONSENSUS if u == CONSENSUS else u + 4 for u in each]
    lone = tastes._replace(people=again)
    found = after_duels(lone, ITEMS, WINNERS, LOSERS, WHO, np.tile(ITEMS, (4, 1)), renamed, BLOCKS)
    covariance = found.covariance.copy()
    for u in range(3):  # and none of their own
        at = slice(6 * u, 6 * u + 6)
        covariance[at, at] -= slow.gram(tastes.own, ITEMS, ITEMS)
    return found._replace(covariance=covariance)


@pytest.mark.slow
def test_learning_and_keeping_what_features_of_people_say(tmp_path, monkeypatch):
    model, _ = built("vfe", True, True, monkeypatch)
    model.engine = spg.ParallelEP(tolerance=GRADIENT_SOLVER)
    variance = model.terms.by_features
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    slope = float(tape.gradient(value, variance.unconstrained_variable))  # in the logarithm
    before, step, ends = float(variance.numpy()), 1e-4, []
    for sign in (1.0, -1.0):
        variance.assign(before * np.exp(sign * step))
        ends.append(model.log_evidence())
    assert slope == pytest.approx((ends[0] - ends[1]) / (2.0 * step), abs=GRADIENT)
    variance.assign(before)
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    asked = ["ann", "di", None, "cy"]
    for found, wanted in zip(
        again.predict_difference(ITEMS[:4], ITEMS[2:], people=asked),
        model.predict_difference(ITEMS[:4], ITEMS[2:], people=asked),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=IDENTITY)
    evidence = model.log_evidence()
    model.engine = spg.SequentialEP(tolerance=SOLVER)
    assert model.log_evidence() == pytest.approx(evidence, abs=PARTS)
    # Rows that name their person, as draws of the exact posterior have them.
    exact, _ = built("exact", True, True, monkeypatch)
    target = exact_target(exact_problem(exact))
    assert target.log_evidence == pytest.approx(exact.log_evidence(), abs=PARTS)
    with pytest.raises(ValueError, match="some pairs are somebody's of whom nothing is known"):
        kernel_inputs(exact, ITEMS)


def test_features_of_people_that_make_no_sense(monkeypatch):
    plain, _ = built("exact", False, True, monkeypatch)
    model, _ = built("exact", True, True, monkeypatch)
    with pytest.raises(ValueError, match=r"features has shape \(1,\); give \(2,\)"):
        model.meet(features=[1.0])
    with refused("features_of_people", "no_features_of_people"):
        plain.meet(features=[1.0, 2.0])
    with pytest.raises(ValueError, match="Nothing was given of the new person"):
        model.meet()
    with pytest.warns(UserWarning, match="'eve' is unknown"):
        model.predict_duel(ITEMS[:1], ITEMS[1:2], people="eve")
    se = gpflow.kernels.SquaredExponential
    alike = spg.Duels(ITEMS, [0, 1], [1, 2], people=[0, 1], people_features=[[1.0], [1.0]])
    for duels, variance, words in (
        (alike, None, "All people have the same features"),
        (alike, -1.0, "by_features is -1.0; give a number"),
        (plain.duels, 1.0, apart("people_variance", "no_tastes_by_features")),
    ):
        with pytest.raises(ValueError, match=words):
            spg.PreferenceGP(duels, se(), terms=[spg.Taste(se(), variance)])
    bare = spg.Duels(
        np.zeros((3, 0)), [0, 1], [1, 2], people=[0, 1], people_features=[[1.0], [2.0]]
    )
    with pytest.raises(ValueError, match="makes 0 coefficients"):
        spg.PreferenceGP(bare, terms=[spg.Taste(spg.ItemEffect())])
