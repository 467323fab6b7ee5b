"""Weak priors and hyperparameters integrated out: nine small problems solved by other code."""

import copy
import dataclasses
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow_probability as tfp
from scipy.special import ndtr
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.analysis.judges import judges
from sparse_prefgp.approximations import whitened
from sparse_prefgp.cli.app import app
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.disk.model_folder import read_model
from sparse_prefgp.disk.upgrading import upgraded
from sparse_prefgp.learning.integration import Hyperparameters, design_points, normalised
from sparse_prefgp.learning.notes import notes_of
from sparse_prefgp.learning.priors import learned_parameters, learned_paths
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.parameters import LogParameter, half_t
from sparse_prefgp.models.preference_gp import copied
from sparse_prefgp.support.normals import Normals
from sparse_prefgp.workflow.kernel_names import LEAST_VARIANCE, KernelChoice
from tests.together import refused
from tests.tolerances import SAME_OPTIMUM

DATA = Path(__file__).parents[2] / "data" / "uncertainty_cases.json"
CASES = {case["name"]: case for case in json.loads(DATA.read_text())["cases"]}
TIGHT = spg.ParallelEP(tolerance=1e-12, max_sweeps=3000)
# Of the reference, whose digits are as many.
SAME = 1e-6


def duels_of(name: str) -> spg.Duels:
    data = CASES[name]["data"]
    if name == "choices":
        sets = np.array(data["sets"])
        kind = np.full(len(sets), CHOICE, np.int8)
        events = Answers(sets.reshape(-1), np.arange(0, sets.size + 1, 4), kind=kind)
        return spg.Duels.from_events(np.zeros((7, 0)), events)
    if name == "grades":
        ends = data["better"], data["worse"]
        levels = ["much worse", "worse", "tie", "better", "much better"]
        return spg.Duels(np.zeros((6, 0)), *ends, grades=data["level"], levels=levels)
    items, more = data.get("items", 6), {}
    items = np.array(items) if isinstance(items, list) else np.zeros((items, 0))
    if name == "judges":
        more = {"groups": data["judge"], "covariates": np.array(data["covariate"])[:, None]}
    if name == "tastes":
        more = {"people": data["person"]}
    return spg.Duels(items, data["winners"], data["losers"], **more)


def model_of(name: str) -> spg.PreferenceGP:
    """With the priors of the case, at its mode."""
    duels, more = duels_of(name), {}
    kernel: gpflow.kernels.Kernel = spg.ItemEffect()
    if duels.num_features:
        width = np.sqrt(duels.num_features)
        kernel = gpflow.kernels.SquaredExponential(lengthscales=[width] * duels.num_features)
    if name == "vfe_plane":
        more = {"approximation": spg.VFE(), "inducing_variable": duels.items[:6]}
    if name == "judges":
        more = {"terms": [spg.Coefficients(0.25)], "likelihood": spg.Probit(by="judge")}
    if name == "grades":
        more = {"likelihood": spg.Probit(margin=0.5, cuts=[0.7])}
    if name == "tastes":
        more = {"terms": [spg.Taste(spg.ItemEffect())]}
    model = spg.PreferenceGP(duels, kernel, engine=TIGHT, **more)
    if model.inducing_variable is not None:
        gpflow.set_trainable(model.inducing_variable, False)
    spg.default_priors(model)
    if name == "tastes":  # whose case has another scale
        taste = model.terms.taste
        taste.variance = LogParameter.of(taste.variance, half_t(np.array(0.5)), 0.5)
    to(model, name, CASES[name]["mode"])
    return model


def place(model: spg.PreferenceGP, said: str) -> str:
    """The name of a hyperparameter by what the case calls it."""
    last = said[-1]
    if "lengthscale" in said:
        many = model.kernel.lengthscales.shape[0] > 1
        return f"kernel.lengthscales[{last}]" if many else "kernel.lengthscales"
    if "judge" in said:
        return f"likelihood.noise_ratio[{last}]"
    if "own" in said:
        return "terms[0].kernel.variance"
    known = {"coefficient": "terms[0].variance", "margin": "likelihood.margin"}
    known |= {"step": "likelihood.steps[0]"}
    return next((path for word, path in known.items() if word in said), "kernel.variance")


def order_of(model: spg.PreferenceGP, name: str) -> list[int]:
    names = Hyperparameters(model).names
    return [names.index(place(model, said)) for said in CASES[name]["parameters"]]


def theta_of(model: spg.PreferenceGP) -> np.ndarray:
    logs = [
        np.log(x.numpy().reshape(-1)) * (x.power if isinstance(x, LogParameter) else 1.0)
        for _, x in Hyperparameters(model).named
    ]
    return np.concatenate(logs)


def to(model: spg.PreferenceGP, name: str, theta: Any) -> None:
    wanted = np.empty(len(theta))
    wanted[order_of(model, name)] = theta
    Hyperparameters(model).moved(wanted - theta_of(model))


def asked(model: spg.PreferenceGP, called: str) -> tuple[float, float]:
    """Mean and standard deviation of a difference, or of the coefficient."""
    if called == "coefficient":
        said = model.coefficients()
        return float(said.mean[0]), float(said.sd[0])
    whose, _, ends = called.rpartition(": ")
    first, second = (model.inputs.of_items([int(end)]) for end in ends.split("-"))
    people = [int(whose.split()[1])] if whose else None
    mean, variance = model.predict_difference(first, second, people=people)
    return float(mean[0]), float(np.sqrt(variance[0]))


@pytest.fixture
def as_in_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference adds so much to the diagonal between inducing inputs."""
    between = whitened.between_inducing

    def with_more(points: Any, kernel: Any) -> Any:
        matrix = between(points, kernel)
        return matrix + 1e-6 * kernel.variance * np.eye(matrix.shape[0])

    monkeypatch.setattr(whitened, "between_inducing", with_more)


def slopes(model: spg.PreferenceGP) -> np.ndarray:
    import tensorflow as tf

    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    found = tape.gradient(loss, variables)
    by_id = {id(v): g.numpy() for v, g in zip(variables, found, strict=True)}
    return Hyperparameters(model).slopes(by_id)


def slope_of_more(model: spg.PreferenceGP) -> float:
    """The reference adds 1e-8 sd² to the variance of each item, which counts against a bound."""
    return float(2e-8 * model.duels.num_duels * model.kernel.variance.numpy())


@pytest.mark.usefixtures("as_in_the_case")
@pytest.mark.parametrize("name", CASES)
def test_evidence_prior_and_mode(name: str) -> None:
    case, model = CASES[name], model_of(name)
    assert model.log_evidence() == pytest.approx(case["log_evidence"], abs=SAME)
    assert float(model.log_prior_density()) == pytest.approx(case["log_prior"], abs=SAME)
    off = slopes(model)
    if name == "vfe_plane":
        off[0] += slope_of_more(model)
    assert np.abs(off).max() < SAME


@pytest.mark.usefixtures("as_in_the_case")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering("four_items", "vfe_plane", "judges")
def test_curvature(name: str) -> None:
    case, model = CASES[name], model_of(name)
    order, count, h = order_of(model, name), len(case["mode"]), 1e-4
    hessian = np.empty((count, count))
    for k in range(count):
        ends = []
        for sign in (1.0, -1.0):
            to(model, name, case["mode"] + sign * h * np.eye(count)[k])
            ends.append(slopes(model)[order])
        hessian[k] = (ends[0] - ends[1]) / (2.0 * h)
    if name == "vfe_plane":
        hessian[0, 0] += 2.0 * slope_of_more(model)
    np.testing.assert_allclose(hessian, case["hessian"], atol=SAME)


@pytest.mark.usefixtures("as_in_the_case")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering("four_items", "vfe_plane", "choices")
def test_the_mixture_at_given_points(name: str) -> None:
    case, model = CASES[name], model_of(name)
    points = []
    for one in case["points"]:
        point = copied(model)
        to(point, name, one["theta"])
        points.append(point)
    mixture = IntegratedGP(model, points, np.array([one["weight"] for one in case["points"]]))
    for called, wanted in case["mixture"].items():
        mean, sd = asked(mixture, called)
        assert (mean, sd) == pytest.approx((wanted["mean"], wanted["sd"]), abs=SAME)


@lru_cache
def integrated(name: str) -> spg.PreferenceGP:
    return spg.integrate(model_of(name))


@pytest.mark.usefixtures("as_in_the_case")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering("four_items")
def test_a_run_of_its_own(name: str) -> None:
    case, model = CASES[name], integrated(name)
    said = model.integration
    assert said.used and said.parameters == len(case["mode"])
    assert said.evaluations <= said.parameters + 1 + 16
    for called, wanted in case["mixture"].items():
        assert asked(model, called)[1] == pytest.approx(wanted["sd"], rel=0.01)
        each = [asked(point, called) for point in model.mixture.points]
        chances = [ndtr(mean / np.sqrt(sd**2 + 1.0)) for mean, sd in each]
        average = float(model.mixture.weights @ chances)
        assert average == pytest.approx(wanted["probability"], abs=0.003)


@pytest.mark.usefixtures("as_in_the_case")
@pytest.mark.slow
def test_how_much_longer_intervals_are_is_said_in_the_unit_of_a_ranking() -> None:
    """How noisy all judges are together moves utilities, and no interval that is shown."""
    found = integrated("judges")
    items = found.inputs.of_items()
    first, second = (items[rows] for rows in np.triu_indices(len(items), 1))
    mixture = found.mixture
    of_points = [point.predict_difference(first, second) for point in mixture.points]
    means, variances = (np.array([each[i].numpy() for each in of_points]) for i in (0, 1))
    units = mixture.units[:, None]
    assert np.ptp(units) > 0.1
    middle = mixture.weights @ (units * means)
    mixed = mixture.weights @ (units**2 * variances + (units * means - middle) ** 2)
    alone = found.at_mode.predict_difference(first, second)[1].numpy()
    longer = np.mean(np.sqrt(mixed / alone)) - 1.0
    assert found.integration.longer == pytest.approx(longer, rel=SAME_OPTIMUM)
    ranked = spg.rank(found).to_frame().set_index("item_id")["utility"]
    pairs = spg.settled(found, top=2).frame
    ends = [ranked.reindex(pairs[side]).to_numpy() for side in ("first", "second")]
    np.testing.assert_allclose(pairs["difference"], ends[0] - ends[1], rtol=1e-9)


@pytest.mark.slow
def test_what_a_mixture_says_is_the_average_of_its_points(tmp_path: Path) -> None:
    model = integrated("se_plane")
    first, second = model.inputs.of_items([0, 2]), model.inputs.of_items([5, 7])
    weights, points = model.mixture.weights, model.mixture.points
    each = [point.predict_duel(first, second).numpy() for point in points]
    np.testing.assert_allclose(model.predict_duel(first, second), weights @ each, rtol=1e-12)
    assert model.predict(model.duels.given).log_p.shape == (40, 2)
    moments = np.array([point.predict_f(first) for point in points])[..., 0]
    mean = weights @ moments[:, 0]
    variance = weights @ (moments[:, 1] + (moments[:, 0] - mean) ** 2)
    np.testing.assert_allclose(np.squeeze(model.predict_f(first)), [mean, variance], rtol=1e-12)
    _, joint = model.predict_f(first, full_cov=True)
    np.testing.assert_allclose(np.diag(joint[0]), variance, rtol=1e-9)
    # A ranking has the moments of utilities less their average.
    table = spg.rank(model).to_frame()
    assert np.all(table["sd"] > 0.0)
    step = np.eye(12) - 1.0 / 12.0
    mean, joint = model.predict_f(model.duels.items, full_cov=True)
    sd = np.sqrt(np.diag(step @ joint[0].numpy() @ step))
    by_item = table.set_index("item_id")["sd"].reindex(range(12))
    np.testing.assert_allclose(by_item, sd, rtol=1e-6)
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert isinstance(again, IntegratedGP)
    for ask in (lambda m: m.predict_duel(first, second), lambda m: m.predict_f(second)[1]):
        np.testing.assert_array_equal(ask(again), ask(model))
    with refused("integrate", "one_posterior"):
        assert model.posterior().terms
    asked_next, of_mode = spg.suggest(model), spg.suggest(model.at_mode)
    assert asked_next.to_frame().equals(of_mode.to_frame())
    assert "most likely hyperparameters" in str(asked_next)
    with pytest.warns(UserWarning, match="at the most likely hyperparameters"):
        spg.export_saved_model(model, tmp_path / "exported")


def test_intervals_of_a_mixture_leave_out_as_much_at_either_end() -> None:
    rng = np.random.default_rng(0)
    normals = Normals(rng.normal(size=(5, 7)), rng.uniform(0.2, 2.0, (5, 7)), np.full(5, 0.2))
    for level in (0.5, 0.9):
        ends = normals.interval(level)
        z = (ends.T[:, None] - normals.means) / np.sqrt(normals.variances)
        below = np.tensordot(normals.weights, ndtr(z), (0, 1))
        np.testing.assert_allclose(below, np.outer([0.5 - level / 2, 0.5 + level / 2], np.ones(7)))
    one = Normals.of(normals.mean, normals.variance)
    half = 1.6448536269514722 * np.sqrt(normals.variance)
    np.testing.assert_allclose(one.interval(0.9), np.stack([one.mean - half, one.mean + half], 1))
    # One that is the same under all is the same of the mixture.
    same = Normals(np.repeat(one.means, 3, 0), np.repeat(one.variances, 3, 0), np.full(3, 1 / 3))
    np.testing.assert_allclose(same.interval(0.9), one.interval(0.9))


@pytest.mark.slow
def test_new_answers_weight_the_points_by_their_evidence() -> None:
    rng = np.random.default_rng(2)
    ends = rng.permuted(np.tile(np.arange(6), (30, 1)), axis=1)[:, :2].T
    names = np.array(list("abcdef"))
    some = pd.DataFrame({"winner": names[ends[0]], "loser": names[ends[1]]})
    model = spg.fit(duels=some[:24], test_fraction=0.0, integrate=True).model
    new, report = spg.update(model, some[24:])
    assert isinstance(new, IntegratedGP) and new.integration.used
    points = model.mixture.points
    whole = [spg.replace(point, new.duels) for point in points]
    weights = model.mixture.weights * np.exp(
        [now.log_evidence() - then.log_evidence() for now, then in zip(whole, points, strict=True)]
    )
    np.testing.assert_allclose(new.mixture.weights, weights / weights.sum(), atol=1e-6)
    items = new.inputs.of_items()
    each = [point.predict_duel(items[:3], items[3:]).numpy() for point in whole]
    wanted = new.mixture.weights @ each
    np.testing.assert_allclose(new.predict_duel(items[:3], items[3:]), wanted, atol=1e-6)
    # What is said of it is of these points, and nothing of the curvature before.
    ends = [items[rows] for rows in np.triu_indices(6, 1)]
    mixed, alone = (one.predict_difference(*ends)[1].numpy() for one in (new, new.at_mode))
    said = report.integration
    assert said is new.integration and (said.gain, said.left, said.log_sd) == (None, None, {})
    assert said.longer == pytest.approx(np.mean(np.sqrt(mixed / alone)) - 1.0)
    assert said.evaluations == 0 and said.sweeps == sum(
        x.infer().sweeps for x in new.mixture.points
    )
    assert f"of which {said.effective_points:.1f} count" in str(report)
    # One that nothing is known of, as points of one's own are put together.
    bare = IntegratedGP(model.at_mode, model.mixture.points, model.mixture.weights)
    assert spg.update(bare, some[24:])[1].integration.longer == pytest.approx(said.longer)


@pytest.mark.slow
def test_it_is_said_where_few_points_are_left() -> None:
    ends = np.triu_indices(4, 1)
    some = pd.DataFrame({"winner": np.tile(ends[0], 2), "loser": np.tile(ends[1], 2)}).astype(str)
    model = spg.fit(duels=some, test_fraction=0.0, integrate=True).model
    with pytest.warns(UserWarning, match="only 2.6 count, so that intervals may be too short"):
        new, _ = spg.update(model, pd.concat([some] * 40))
    assert isinstance(new, IntegratedGP)
    said = dataclasses.asdict(new.integration)
    assert any("may be too short" in note for note in notes_of({"integration": said}))


@pytest.mark.slow
def test_chances_and_shares_are_averages_over_the_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    ends = np.sort(rng.permuted(np.tile(np.arange(5), (12, 1)), axis=1)[:, :2]).T
    model = spg.PreferenceGP(spg.Duels(np.zeros((5, 0)), *ends), spg.ItemEffect())
    spg.default_priors(model)
    spg.optimise(model)
    model = spg.integrate(model, skip_below=0.0)
    items, draws = model.inputs.of_items(), 40_000
    best, shares = np.zeros(5), np.zeros(5)
    mixture = model.mixture
    for weight, point in zip(mixture.weights, mixture.points, strict=True):
        mean, joint = (x.numpy() for x in point.predict_f(items, full_cov=True))
        f = rng.multivariate_normal(mean[:, 0], joint[0], size=draws)
        best += weight * np.bincount(f.argmax(1), minlength=5) / draws
        noisy = f + np.sqrt(0.5) * rng.normal(size=f.shape)
        shares += weight * np.bincount(noisy.argmax(1), minlength=5) / draws
    table = spg.rank(model, samples=draws).to_frame().set_index("item_id")
    np.testing.assert_allclose(table["p_best"].reindex(range(5)), best, atol=0.012)
    found = spg.shares(model, items, draws=4000).to_frame()
    np.testing.assert_allclose(found["share"], shares, atol=0.012)
    assert spg.integrate(model).integration.points == len(mixture.points)  # about its mode again
    copy.deepcopy(model.posterior())
    model.kernel.variance.assign(9.0)
    for ask in (lambda: model.predict_f(items), lambda: spg.save(model, tmp_path / "model")):
        with pytest.raises(ValueError, match="changed after they had been integrated out"):
            ask()


@pytest.mark.slow
def test_the_gain_in_chunks_is_that_in_memory() -> None:
    whole = model_of("vfe_plane")
    streamed = spg.StreamedGP(
        spg.stream_duels(whole.duels),
        whole.kernel,
        inducing_variable=whole.inducing_variable,
        engine=spg.PartitionedEP(parts=1, tolerance=1e-10),
    )
    evidence = streamed.log_evidence()
    found, wanted = spg.integrate(streamed), spg.integrate(whole)
    assert found is streamed and streamed.log_evidence() == evidence
    assert "duels are in chunks, where intervals would be" in found.integration.reason
    assert found.integration.gain == pytest.approx(wanted.integration.gain, rel=1e-2)
    with pytest.raises(ValueError, match="model is of type int"):
        spg.integrate(3)


@pytest.mark.slow
def test_integrating_leaves_the_model_as_it_was() -> None:
    model = model_of("se_line")
    before = model.log_evidence(), [x.numpy() for x in model.parameters], model.infer()
    spg.integrate(model)
    assert model.log_evidence() == before[0] and model.infer() is before[2]
    for now, then in zip(model.parameters, before[1], strict=True):
        np.testing.assert_array_equal(now, then)


def test_where_it_would_change_nothing_the_model_itself_is_kept() -> None:
    model = model_of("four_items")
    found = spg.integrate(model, skip_below=10.0)
    assert found is model and not found.integration.used
    assert "hardly be longer" in found.integration.reason
    gpflow.set_trainable(model.kernel, False)
    with pytest.raises(ValueError, match="learns no hyperparameter"):
        spg.integrate(model)
    for wrong in ({"max_directions": 9}, {"skip_below": -1.0}, {"rng": 3}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            spg.integrate(model_of("four_items"), **wrong)


def test_default_priors_leave_what_has_one_or_is_not_learned() -> None:
    with pytest.raises(ValueError, match="model is of type NoneType; give a PreferenceGP"):
        spg.default_priors(None)
    rng = np.random.default_rng(0)
    ends = rng.permuted(np.tile(np.arange(6), (20, 1)), axis=1)[:, :2].T
    kernel = gpflow.kernels.Linear() + gpflow.kernels.Matern52(lengthscales=[1.0, 2.0])
    own = tfp.distributions.Gamma(np.float64(2.0), np.float64(1.0))
    kernel.kernels[0].variance.prior = own
    gpflow.set_trainable(kernel.kernels[1].variance, False)
    duels = spg.Duels(rng.normal(size=(6, 2)), *ends)
    model = spg.PreferenceGP(duels, kernel, noise_variance=2.0)
    evidence = model.log_evidence()
    assert spg.default_priors(model) == (".kernel.kernels[1].lengthscales",)
    assert kernel.kernels[0].variance.prior is own and kernel.kernels[1].variance.prior is None
    assert model.log_evidence() == evidence
    assert spg.default_priors(model) == ()  # once is enough
    # In units of the noise, over the root of the number of terms.
    again = spg.PreferenceGP(
        duels, gpflow.kernels.Linear() + gpflow.kernels.Matern52(), noise_variance=2.0
    )
    spg.default_priors(again)
    scales = [float(np.max(part.variance.prior.scale)) for part in again.kernel.kernels]
    np.testing.assert_allclose(scales, [np.sqrt(2.0) / np.sqrt(2.0), np.sqrt(2.0)])


def test_each_learned_parameter_of_a_kernel_has_a_prior() -> None:
    rng = np.random.default_rng(0)
    ends = rng.permuted(np.tile(np.arange(6), (20, 1)), axis=1)[:, :2].T
    duels = spg.Duels(rng.normal(size=(6, 2)), *ends)
    base = gpflow.kernels.SquaredExponential()
    for kernel in (
        gpflow.kernels.RationalQuadratic(),
        gpflow.kernels.Periodic(base, period=2.0),
        gpflow.kernels.Polynomial(),
        gpflow.kernels.ArcCosine(weight_variances=[1.0, 2.0]),
    ):
        model = spg.PreferenceGP(duels, kernel)
        spg.default_priors(model)
        assert all(isinstance(x, LogParameter) for _, x in learned_paths(model))
    dated = spg.Duels(np.zeros((6, 0)), *ends, times=np.arange(20) * 365.25, feature_names=())
    moved = spg.ItemInTime(spg.markov.Wiener() + spg.markov.Matern12())
    model = spg.PreferenceGP(dated, moved, approximation=spg.Exact())
    spg.default_priors(model)
    wiener, form = moved.kernel.kernels
    assert float(wiener.rate.prior.scale) == 0.5 and float(wiener.variance.prior.scale) == 1.0
    assert float(np.exp(form.lengthscale.prior.loc)) == pytest.approx(19 / 2)
    assert "kernel.kernel.kernels[0].rate" in [row["name"] for row in learned_parameters(model, {})]


@pytest.mark.slow
def test_a_fit_to_four_duels_is_not_certain(tmp_path: Path) -> None:
    table = pd.DataFrame({"winner": ["A", "A", "A", "B"], "loser": ["B", "B", "B", "A"]})
    fitted = spg.fit(
        duels=table, priors="weak", integrate="yes", test_fraction=0.0, out=tmp_path / "fitted"
    )
    asked = spg.predict(fitted.model, pd.DataFrame({"first": ["A"], "second": ["B"]}))
    assert 0.62 < asked["probability"][0] < 0.70
    assert asked["upper"][0] - asked["lower"][0] > 2.0
    integration = fitted.figures["fit"]["integration"]
    assert integration["used"] and integration["points"] == 7
    assert [*integration["log_sd"]] == [row["name"] for row in fitted.figures["fit"]["learned"]]
    about_hyperparameters, about_items = fitted.figures["notes"]
    assert about_hyperparameters.startswith("Intervals include what is not known")
    assert about_hyperparameters.endswith("hardly longer or shorter.")
    parts = fitted.model.mixture
    items = fitted.model.inputs.of_items()
    _, variance = fitted.model.predict_difference(items[:1], items[1:])
    prior = sum(
        weight * 2.0 * float(point.kernel.variance.numpy())
        for weight, point in zip(parts.weights, parts.points, strict=True)
    )
    left = fitted.figures["fit"]["variance_left"]
    assert left == pytest.approx(float(variance[0]) / prior)
    assert about_items.startswith(f"4 duels leave {left:.0%} of the variance")
    assert isinstance(spg.load(tmp_path / "fitted"), IntegratedGP)
    _, description, arrays = read_model(tmp_path / "fitted")
    named = description["integrated"]["log_sd"]
    description["integrated"]["log_sd"] = {f".{name}": sd for name, sd in named.items()}
    assert upgraded(description, arrays)["integrated"]["log_sd"] == named  # as it was written
    plain = spg.fit(duels=table, priors="weak", integrate="auto", test_fraction=0.0, kernel="item")
    assert plain.figures["fit"]["integration"]["gain"] == integration["gain"]
    certain = spg.fit(duels=table, priors="none", integrate=False, test_fraction=0.0)
    assert any("sure of nonsense" in note for note in certain.figures["notes"])


def test_a_variance_at_its_limit_goes_no_lower() -> None:
    """As of a term that plays no part in a fit."""
    kernel = KernelChoice.parse("linear+se").build(2)
    kernel.kernels[0].variance.assign(np.full(2, LEAST_VARIANCE * 1.001))
    model = spg.PreferenceGP(duels_of("vfe_plane"), kernel)
    theta = Hyperparameters(model)
    before = kernel.kernels[1].variance.numpy()
    theta.moved(np.full(len(theta), -5.0))
    np.testing.assert_allclose(kernel.kernels[0].variance, LEAST_VARIANCE, rtol=1e-5)
    np.testing.assert_allclose(kernel.kernels[1].variance, before * np.exp(-5.0), rtol=1e-5)


def test_designs_have_the_moments_of_a_normal() -> None:
    for r in range(1, 9):
        z, _ = design_points(r)
        assert len(z) == (7, 9, 8, 8, 16, 16, 16, 16)[r - 1]
        if r > 2:
            np.testing.assert_allclose(z.T @ z / len(z), np.eye(r), atol=1e-12)
        np.testing.assert_allclose(z.sum(0), 0.0, atol=1e-12)
    weights = normalised(np.array([0.0, 5.0, -np.inf, 0.0]), np.zeros(4), capped=True)
    assert weights[2] == 0.0 and weights.max() == pytest.approx(0.5)
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_what_an_update_learns_is_integrated_over_again(tmp_path: Path) -> None:
    """Predictions of a mixture would not follow the mode alone."""
    rng = np.random.default_rng(2)
    ends = rng.permuted(np.tile(np.arange(6), (30, 1)), axis=1)[:, :2].T
    names = np.array(list("abcdef"))
    some = pd.DataFrame({"winner": names[ends[0]], "loser": names[ends[1]]})
    model = spg.fit(duels=some[:24], test_fraction=0.0, integrate=True).model
    spg.save(model, tmp_path / "old")
    with pytest.raises(ValueError, match=r"integrate that again: spg.integrate\(model.at_mode\)"):
        spg.optimise(model, 5)
    some[24:].to_csv(tmp_path / "more.csv", index=False)
    call = ["update", "--model", tmp_path / "old", "--duels", tmp_path / "more.csv"]
    call += ["--out", tmp_path / "new", "--max-iterations", 50, "--json"]
    result = CliRunner().invoke(app, [*map(str, call)])
    assert result.exit_code == 0, result.output
    learned, _ = spg.update(model.at_mode, some[24:])
    spg.optimise(learned, 50)
    wanted, found = spg.integrate(learned), spg.load(tmp_path / "new")
    assert isinstance(found, IntegratedGP)
    items = found.inputs.of_items()
    chances = [one.predict_duel(items[:3], items[3:]).numpy() for one in (found, wanted)]
    np.testing.assert_allclose(*chances, rtol=SAME_OPTIMUM)
    said = json.loads(result.stdout)["integration"]
    assert said["reason"] == wanted.integration.reason and said["evaluations"] > 0


@pytest.mark.slow
def test_what_is_of_the_mode_says_so() -> None:
    few, board = integrated("four_items"), integrated("judges")
    words = "are those at the most likely hyperparameters"
    drawn = {"num_draws": 60, "chains": 2, "rng": np.random.default_rng(0)}
    for ask, model in (
        (lambda one: spg.evidence_report(one, samples=0), few),
        (lambda one: spg.check_against_sampling(one, **drawn), few),
        (spg.audit, board),
        (judges, board),
    ):
        assert words in " ".join(str(ask(model)).split())
    assert words not in str(judges(board.at_mode))
    items = few.inputs.of_items()
    with pytest.warns(UserWarning, match=f"Predictions of what replace has made {words}"):
        made = spg.replace(few, few.duels)
    chances = [one.predict_duel(items[:2], items[2:]) for one in (made, few.at_mode)]
    np.testing.assert_allclose(*chances, atol=1e-6)
