"""Grades: how much better, as boxes between cuts that are learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.data.answers import GRADE, TIE, WIN, Answers, Codes, Grades
from sparse_prefgp.factors.noise import ratios_of_unknown
from tests.reference import slow_grades
from tests.together import refused
from tests.tolerances import GRADIENT_SOLVER, IDENTITY

CASE = json.loads((Path(__file__).parents[2] / "data" / "grades_case.json").read_text())
FIRST, SECOND, LEVEL, JUDGE = np.array(CASE["first_second_grade_judge"]).T
X, TEST = np.array(CASE["X"]), np.array(CASE["test_X"])
CASE_GRADIENT = 1e-7
TIGHT = spg.ParallelEP(tolerance=1e-13, max_sweeps=200)


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(variance=1.0, lengthscales=[0.5, 0.5])


def chances(model: Any, first: np.ndarray, second: np.ndarray, judge: Any = None) -> np.ndarray:
    """Probabilities of those of the first."""
    n = len(first)
    said = None if judge is None else Codes.of([judge] * n)
    pairs = Answers.between(np.arange(n), n + np.arange(n), judge=said)
    return model.predict(pairs, np.concatenate([first, second])).p


def graded(**more: Any) -> spg.Duels:
    return spg.Duels(X, FIRST, SECOND, grades=LEVEL, **more)


def case_model() -> spg.PreferenceGP:
    """The model of the case, whose judges have cuts of their own and one noise."""
    model = spg.PreferenceGP(
        graded(groups=JUDGE),
        kernel(),
        likelihood=spg.Probit(by="judge", margin=0.3, cuts=[0.8], cuts_by="judge"),
        engine=TIGHT,
    )
    model.likelihood.cut_scale.assign(
        np.array(CASE["scale_of_judge"])[list(model.duels.group_names)]
    )
    return model


def test_the_case_of_grades():
    model, expected = case_model(), CASE["ep"]
    assert model.log_evidence() == pytest.approx(expected["log_evidence"], abs=IDENTITY)
    mean, covariance = model.predict_f(TEST, full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=IDENTITY)
    np.testing.assert_allclose(covariance[0], expected["covariance"], atol=IDENTITY)
    _, tau = model.inference.sites()
    of_duel = model.graph.sites_of_duels
    precision = 1.0 / (1.0 / np.array(expected["tau_of_v"]) + 1.0)
    np.testing.assert_allclose(tau[of_duel], precision, rtol=1e-8)
    (key, probabilities), *_ = CASE["predictions_from_ep_posterior"].items()
    assert "item 0 against item 1" in key
    # Of the first two training items, whatever the file says of test items.
    found = chances(model, X[:1], X[1:2], 0)
    np.testing.assert_allclose(found[0], probabilities, atol=IDENTITY)
    truth = CASE["truth"]
    # EP's own error besides: the reference has it at 7e-4 nats.
    assert abs(model.log_evidence() - truth["log_evidence"]) < 1e-3


@pytest.mark.filterwarnings("ignore:Kernel variance and noise")
def test_gradients_of_the_case():
    model, expected = case_model(), CASE["ep"]["gradient"]
    gpflow.set_trainable(model.likelihood.noise, True)
    parameters = {
        "noise_variance": model.likelihood.noise,
        "kernel_variance": model.kernel.variance,
        "lengthscales": model.kernel.lengthscales,
        "margin": model.likelihood.margin,
        "step": model.likelihood.steps[0],
        "scale": model.likelihood.cut_scale,
    }
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    free = [one.unconstrained_variable for one in parameters.values()]
    found = {}
    for (name, one), gradient in zip(parameters.items(), tape.gradient(value, free), strict=True):
        with tf.GradientTape() as inner:
            inner.watch(one.unconstrained_variable)
            constrained = one.transform.forward(tf.identity(one.unconstrained_variable))
        found[name] = gradient / inner.gradient(constrained, one.unconstrained_variable)
    cuts = expected["cuts"]
    wanted = {
        **{name: expected[name] for name in list(parameters)[:3]},
        "margin": sum(cuts),  # every cut moves with the first
        "step": cuts[1],
        "scale": np.array(expected["scale_of_judge"])[list(model.duels.group_names)],
    }
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, atol=CASE_GRADIENT, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC()], ids=["vfe", "fitc"])
def test_streamed_and_in_parts(approximation):
    duels, inputs = graded(), X[:5]
    told = {
        "approximation": approximation,
        "inducing_variable": inputs,
        "likelihood": spg.Probit(margin=0.3, cuts=[0.8]),
    }
    engine = spg.ParallelEP(tolerance=GRADIENT_SOLVER)
    whole = spg.PreferenceGP(duels, kernel(), engine=engine, **told)
    with tf.GradientTape() as tape:
        value = whole.maximum_log_likelihood_objective()
    gradients = tape.gradient(value, whole.trainable_variables)
    for parts in (1, 3):
        engine = spg.PartitionedEP(parts=parts, tolerance=GRADIENT_SOLVER)
        model = spg.StreamedGP(spg.stream_duels(duels), kernel(), chunk=4, engine=engine, **told)
        evidence, found = model.evidence_and_gradient()
        assert evidence == pytest.approx(float(value), abs=IDENTITY)
        assert len(found) == len(gradients)
        assert model.likelihood.heights.numpy() == pytest.approx([0.3, 1.1])
        for mine, theirs in zip(found, gradients, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=IDENTITY)
        np.testing.assert_allclose(
            chances(model, TEST[:1], TEST[1:2]),
            chances(whole, TEST[:1], TEST[1:2]),
            atol=IDENTITY,
        )


def test_grades_are_probabilities_of_boxes():
    model = case_model()
    mean, variance = model.predict_difference(TEST[:1], TEST[1:2])
    cuts, moments = model.likelihood.heights.numpy().tolist(), (float(mean[0]), float(variance[0]))
    levels = range(-2, 3)
    for judge, scale in enumerate(CASE["scale_of_judge"]):
        found = chances(model, TEST[:1], TEST[1:2], judge)[0]
        expected = [slow_grades.probability(g, *moments, 1.0, cuts, scale) for g in levels]
        np.testing.assert_allclose(found, expected, atol=IDENTITY)
        three = model.predict_outcome(TEST[:1], TEST[1:2], groups=judge)[0].numpy()
        np.testing.assert_allclose(three, [sum(found[3:]), found[2], sum(found[:2])], atol=IDENTITY)
    turned = chances(model, TEST[1:2], TEST[:1], 1)[0][::-1]
    np.testing.assert_allclose(chances(model, TEST[:1], TEST[1:2], 1)[0], turned, atol=IDENTITY)


def test_who_is_not_known_is_averaged_over_both_priors():
    model = case_model()
    mean, variance = model.predict_difference(TEST[:1], TEST[1:2])
    cuts, moments = model.likelihood.heights.numpy().tolist(), (float(mean[0]), float(variance[0]))
    found = chances(model, TEST[:1], TEST[1:2])[0]
    expected = [slow_grades.averaged(g, *moments, 1.0, cuts, (1.0, 0.5)) for g in range(-2, 3)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.sum() == pytest.approx(1.0, abs=IDENTITY)


@pytest.mark.parametrize(("variance", "within"), [(0.0, 6e-6), (0.1, 2e-7)])
def test_the_rule_for_unknown_judges_holds_where_there_is_little_noise(variance, within):
    rule, cuts = ratios_of_unknown(0.0, 1.0, (0.0, 0.5)), [1.0, 3.0]
    for mean in (0.3, 2.5, 4.0):
        for grade in (0, 1, 2):
            low, high = slow_grades.box(grade, cuts)
            sd = np.sqrt(variance + rule.ratios)
            ends = norm.cdf((np.array([[low], [high]]) * rule.scales + mean) / sd)
            found = rule.weights @ (ends[1] - ends[0])
            expected = slow_grades.averaged(grade, mean, variance, 1.0, cuts, (1.0, 0.5))
            assert found == pytest.approx(expected, abs=within)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Kernel variance and noise")
@pytest.mark.parametrize(
    "more",
    [
        {"engine": spg.SequentialEP(tolerance=GRADIENT_SOLVER)},
        {"engine": spg.ParallelEP(tolerance=GRADIENT_SOLVER, site_power=0.5)},
        {"engine": spg.Laplace(tolerance=GRADIENT_SOLVER)},
        {"engine": spg.Variational(tolerance=GRADIENT_SOLVER)},
        {"approximation": spg.FITC(), "inducing_variable": X[:4]},
        {"approximation": spg.TightVFE("diagonal"), "inducing_variable": X[:4]},
        {"approximation": spg.PITC(3), "inducing_variable": X[:4]},
    ],
    ids=["sequential", "power", "laplace", "variational", "fitc", "tight", "pitc"],
)
def test_gradients_of_cuts_and_scales(more):
    told = {"engine": spg.ParallelEP(tolerance=GRADIENT_SOLVER), **more}
    model = spg.PreferenceGP(
        graded(groups=JUDGE),
        kernel(),
        likelihood=spg.Probit(by="judge", margin=0.3, cuts=[0.8], cuts_by="judge"),
        **told,
    )
    parameters = [model.likelihood.margin, model.likelihood.steps[0], model.likelihood.cut_scale]
    free = [one.unconstrained_variable for one in parameters]
    with tf.GradientTape() as tape:
        value = model.maximum_log_likelihood_objective()
    step = 1e-5
    for variable, gradient in zip(free, tape.gradient(value, free), strict=True):
        start = np.array(variable.numpy())
        for at in np.ndindex(start.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = start.copy()
                moved[at] += sign * step
                variable.assign(moved)
                ends.append(float(model.maximum_log_likelihood_objective()))
            variable.assign(start)
            central = (ends[0] - ends[1]) / (2.0 * step)
            assert central == pytest.approx(float(gradient.numpy()[at]), abs=1e-6)


@pytest.mark.slow
def test_the_truth_of_the_case():
    found = spg.exact.importance_sampling(case_model(), 200_000, np.random.default_rng(0))
    truth, error = CASE["truth"]["log_evidence"], CASE["truth"]["standard_error"]
    assert abs(found.log_evidence - truth) < 5.0 * np.hypot(found.standard_error, error)
    assert found.standard_error < 1e-3


@pytest.mark.slow
def test_an_exported_model_gives_grades(tmp_path):
    model = case_model()
    spg.export_saved_model(model, tmp_path / "export")
    again = tf.saved_model.load(str(tmp_path / "export"))
    found = again.predict_duel(first=tf.constant(TEST[:2]), second=tf.constant(TEST[2:]))
    expected = chances(model, TEST[:2], TEST[2:])
    np.testing.assert_allclose(found["grade_probabilities"], expected, atol=IDENTITY)
    np.testing.assert_allclose(found["tie_probability"], expected[:, 2], atol=IDENTITY)


def test_nodes_of_unknown_judges_weigh_one():
    found = ratios_of_unknown(0.0, 1.0, (0.1, 0.5))
    assert found.weights.sum() == pytest.approx(1.0, abs=IDENTITY)
    # A lognormal's mean.
    assert found.weights @ found.ratios == pytest.approx(np.exp(0.5), rel=1e-6)
    assert found.weights @ found.scales == pytest.approx(np.exp(0.1 + 0.125), rel=1e-6)
    assert len(found.weights) < 600


def test_grades_of_either_side_are_one_event():
    duels = spg.Duels(X, [0, 1, 0, 2], [1, 0, 1, 3], grades=[2, -2, 1, 0])
    assert duels.num_pairs == 3 and duels.levels == ("-2", "-1", "0", "1", "2")
    np.testing.assert_array_equal(duels.winners[:2], [0, 0])
    np.testing.assert_array_equal(duels.counts, [2, 1, 1])
    np.testing.assert_array_equal(duels.grades, [2, 1, 0])
    np.testing.assert_array_equal(duels.ties, [False, False, True])
    np.testing.assert_array_equal(duels.grade_counts, [1, 1, 2])
    assert duels.num_ties == 1


def test_doors_of_grades_are_boxes():
    levels = np.array([2, 1, -1, -2, 0])
    kind = np.where(levels == 0, TIE, GRADE)
    events = Answers.between(np.arange(5), np.arange(5) + 5, kind=kind, answer=Grades.of(levels))
    doors = events.doors()
    cuts = [0.3, 1.1]
    table = {-2: -1.1, -1: -0.3, 0: 0.0, 1: 0.3, 2: 1.1}
    for i, level in enumerate(levels):
        moved = [table[int(c)] for c in doors.cuts[i]]
        first, second = doors.features[i]
        swapped = first > second  # then the second of the events is the better one
        low, high = slow_grades.box(int(abs(level)), cuts)
        assert swapped == (level < 0)
        np.testing.assert_allclose(doors.limits[i] + moved, [low, high])
    np.testing.assert_array_equal(doors.decided, levels != 0)


def test_grades_keep_through_takes_and_joins():
    duels = graded(groups=JUDGE)
    again = duels.events.take(np.arange(4)).followed_by(duels.events.take(slice(4, None)))
    np.testing.assert_array_equal(again.answer.numbers, duels.grades)
    plain = Answers.between(np.array([0]), np.array([1]), judge=duels.events.judge.take([0]))
    more = duels.events.followed_by(plain)
    assert more.answer.numbers[-1] == 0 and more.kind[-1] == WIN
    other = replace_names(plain)
    with pytest.raises(ValueError, match="give all the same"):
        duels.events.followed_by(other)


def replace_names(events: Answers) -> Answers:
    return Answers.between(
        events.pairs[:, 0],
        events.pairs[:, 1],
        kind=np.array([GRADE]),
        judge=events.judge,
        answer=Grades.of([1], ("worse", "better")),
    )


def test_a_win_next_to_grades_lies_beyond_the_margin():
    events = graded().events.followed_by(Answers.between(np.array([0]), np.array([1])))
    duels = spg.Duels.from_events(X, events)
    model = spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(margin=0.3, cuts=[0.8]))
    limits = model.problem(), model.approximation.prior(model.problem()).factors
    won = np.flatnonzero(model.graph.events.kind == WIN)
    assert limits[1].upper.numpy()[won] == pytest.approx(-0.3)
    assert np.all(np.isneginf(limits[1].lower.numpy()[won]))


def test_levels_without_ties():
    names = ("much worse", "worse", "better", "much better")
    decided = LEVEL != 0
    duels = spg.Duels(X, FIRST[decided], SECOND[decided], grades=LEVEL[decided], levels=names)
    model = spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(cuts=[0.8]))
    assert model.likelihood.margin is None
    assert model.likelihood.heights.numpy() == pytest.approx([0.0, 0.8])
    found = chances(model, TEST[:1], TEST[1:2])[0]
    assert found.shape == (4,) and found.sum() == pytest.approx(1.0)
    with refused("margin", "levels_without_a_tie"):
        spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(margin=0.3))


def test_saved_and_loaded(tmp_path):
    model = case_model()
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.duels.levels == model.duels.levels
    for one in (model, again):
        one.infer()
    np.testing.assert_array_equal(
        chances(again, TEST[:2], TEST[2:]), chances(model, TEST[:2], TEST[2:])
    )
    np.testing.assert_array_equal(
        again.likelihood.cut_scale.numpy(), model.likelihood.cut_scale.numpy()
    )
    assert again.log_evidence() == pytest.approx(model.log_evidence(), abs=IDENTITY)


def test_a_cut_next_to_a_grade_nobody_used_has_a_prior(tmp_path):
    duels = spg.Duels(
        X, [0, 1, 2], [1, 2, 3], grades=[1, -1, 0], levels=["--", "-", "=", "+", "++"]
    )
    with pytest.warns(UserWarning, match=r"Nobody used the grade '--' or '\+\+'"):
        model = spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(margin=0.3))
    assert model.likelihood.steps[0].prior is not None and model.likelihood.margin.prior is None
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.likelihood.steps[0].prior.mean() == model.likelihood.steps[0].prior.mean()
    duels = spg.Duels(X, [0, 1, 2], [1, 2, 3], grades=[1, -1, 2])
    with pytest.warns(UserWarning, match="Nobody used the grade '0'"):
        model = spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(margin=0.3))
    assert model.likelihood.steps[0].prior is None and model.likelihood.margin.prior is not None


@pytest.mark.slow
@pytest.mark.parametrize("unused", [0, 1, 2])
def test_a_grade_nobody_used_gets_a_small_share(unused):
    """Of 60 duels none had it; with its cut held where it starts it had 22, 35 and 14 %."""
    rng = np.random.default_rng(3)
    sides = np.array([rng.choice(len(X), 2, replace=False) for _ in range(60)])
    used = [level for level in range(3) if level != unused]
    grades = rng.choice(used, 60)
    duels = spg.Duels(X, *sides.T, grades=grades, levels=["--", "-", "=", "+", "++"])
    with pytest.warns(UserWarning, match="the prior decides how small its share is"):
        model = spg.PreferenceGP(duels, kernel(), likelihood=spg.Probit(margin=0.3))
    spg.optimise(model)
    share = chances(model, X[sides[:, 0]], X[sides[:, 1]]).mean(0)
    level = 2 if unused == 0 else [2 - unused, 2 + unused]
    assert 0.0 < share[level].sum() < 0.06


def test_judges_with_one_grade_are_named():
    for judges, words in (
        (["Ann", "Ann", "Ben"], "judge 'Ben' gave one grade only, so .* his cuts"),
        (["Ann", "Cyd", "Ben"], "judges 'Ann', 'Cyd', 'Ben' gave one grade only, so .* their cuts"),
    ):
        duels = spg.Duels(X, [0, 1, 2], [1, 2, 3], grades=[1, 0, 1], groups=judges)
        with pytest.warns(UserWarning, match=words):
            spg.PreferenceGP(
                duels, kernel(), likelihood=spg.Probit(by="judge", margin=0.3, cuts_by="judge")
            )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"grades": [1, 0.5]}, "whole number"),
        ({"grades": [1, 3], "levels": ["a", "b", "c"]}, "levels go from -1 to 1"),
        ({"grades": [1, 0], "levels": ["a", "b"]}, "is 0, a tie"),
        ({"grades": [1, 0], "ties": [False, True]}, "a grade says that too"),
        ({"levels": ["a", "b"]}, "no column of grades"),
        ({"grades": [1, 1], "levels": 3}, "levels is 3; give their names from worst to best"),
        ({"grades": [1, 1], "levels": "abc"}, "levels is 'abc'; give their names"),
        ({"grades": [1, 1], "levels": ["a", "a"]}, "different ones"),
        ({"grades": [1]}, "one for each"),
    ],
)
def test_bad_grades_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        spg.Duels(X, [0, 1], [1, 2], **given)


def test_new_duels_may_be_graded_too():
    pd = pytest.importorskip("pandas")
    old = case_model()
    new = pd.DataFrame({"winner": [0, 1], "loser": [1, 2], "how": ["2", "-1"], "who": [0, 7]})
    columns = {"judge": "who", "grade": "how"}
    made, report = spg.update(old, new, columns=columns)
    assert report.new_duels == 2 and made.duels.num_duels == 12 and report.continued_sites == 10
    assert made.duels.grade_counts.tolist() == [1, 3, 8]
    scale = dict(zip(made.duels.group_names, made.likelihood.cut_scale.numpy(), strict=True))
    assert scale[7] == 1.0 and scale[1] == pytest.approx(1.6)
    plain, _ = spg.update(old, new, columns={"judge": "who"})  # who won, and not by how much
    assert plain.duels.grade_counts.sum() == 10 and plain.duels.num_duels == 12
    scores = spg.evaluate(made, new, columns=columns)["held_out_grades"]
    assert set(scores) == {"model", "constant_shares"} and scores["model"]["duels"] == 2
    wins = spg.PreferenceGP(spg.Duels(X, FIRST, SECOND), kernel())
    with pytest.raises(ValueError, match="answers without a grade, for which the column 'how'"):
        spg.evaluate(wins, new, columns={"grade": "how"})
    with pytest.raises(ValueError, match=r"has '5' in .*give one of"):
        spg.update(old, new.assign(how="5"), columns=columns)


def test_bad_cuts_are_refused():
    with refused("ties", "no_margin"):
        spg.PreferenceGP(graded(), kernel())
    with pytest.raises(
        ValueError, match="cuts has 2 steps, but the grades have 2 levels on either side"
    ):
        spg.PreferenceGP(graded(), kernel(), likelihood=spg.Probit(margin=0.3, cuts=[0.1, 0.2]))
    with pytest.raises(ValueError, match="give a number, above 0"):
        spg.PreferenceGP(graded(), kernel(), likelihood=spg.Probit(margin=0.3, cuts=[-1.0]))
    with refused("own_cuts", "one_noise"):
        spg.PreferenceGP(
            graded(groups=JUDGE), kernel(), likelihood=spg.Probit(margin=0.3, cuts_by="judge")
        )
    with refused("own_cuts", "duels_without_ties"):
        wins = spg.Duels(X, FIRST, SECOND, groups=JUDGE)
        spg.PreferenceGP(wins, kernel(), likelihood=spg.Probit(by="judge", cuts_by="judge"))
