"""Covariates of a duel and leans of judges: against the reference case and columns by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.certificates import ep_error
from sparse_prefgp.covariances import LowRankWithLevels
from sparse_prefgp.learning.limits import limits_of
from tests.together import apart, refused

CASE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "covariates_case.json").read_text()
)
EP = CASE["ep"]
ENGINE = spg.ParallelEP(tolerance=1e-13, max_sweeps=500)


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, lengthscales=CASE["kernel"]["lengthscales"])


def duels(**more: Any) -> spg.Duels:
    winners, losers = np.array(CASE["duels_winner_loser"]).T
    return spg.Duels(
        np.array(CASE["X"]),
        winners,
        losers,
        covariates=np.array(CASE["covariates_winner_minus_loser"]),
        covariate_names=CASE["covariate_names"],
        **more,
    )


def model(**more: Any) -> spg.PreferenceGP:
    terms = [spg.Coefficients(CASE["covariate_variances"])]
    options = {"engine": ENGINE, "terms": terms, **more}
    return spg.PreferenceGP(duels(), kernel(), **options)


FORMS = {
    "exact over items": lambda: {"approximation": spg.Exact(over="items")},
    "exact over duels": lambda: {"approximation": spg.Exact(over="duels")},
    "vfe over duels": lambda: {
        "approximation": spg.VFE(over="duels"),
        "inducing_variable": np.array(CASE["X"]),
    },
    "fitc over items": lambda: {
        "approximation": spg.FITC(over="items"),
        "inducing_variable": np.array(CASE["X"]),
    },
    "one block": lambda: {
        "approximation": spg.PITC([0] * len(CASE["duels_winner_loser"])),
        "inducing_variable": np.array(CASE["X"][:3]),
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.covering(every=5)
def test_reference_case(form: str) -> None:
    made = model(**FORMS[form]())
    assert made.log_evidence() == pytest.approx(EP["log_evidence"], abs=1e-9)
    # Sites of the case are on v, with all noise in the covariance: 1 / tau = 1 / tau_v + 2 sigma².
    nu, tau = (
        x[made.graph.of_duels(np.arange(made.graph.num_sites))] for x in made.inference.sites()
    )
    on_v = 1.0 / (1.0 / tau - 2.0 * CASE["noise_variance"])
    np.testing.assert_allclose(on_v, EP["tau_of_v"], rtol=1e-9)
    np.testing.assert_allclose(nu / tau * on_v, EP["nu_of_v"], rtol=1e-9)
    if form == "one block":
        return
    found = made.coefficients()
    np.testing.assert_allclose(found.mean, EP["coefficients"]["mean"], atol=1e-9)
    np.testing.assert_allclose(found.covariance, EP["coefficients"]["covariance"], atol=1e-9)
    mean, covariance = made.predict_f(np.array(CASE["test_X"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], EP["mean"], atol=1e-9)
    np.testing.assert_allclose(covariance[0], EP["covariance"], atol=1e-9)
    new = np.array(CASE["X"])
    (wanted,) = CASE["predictions_from_ep_posterior"].values()
    x = [[1.0, 0.5, 0.0, 1.0, 0.0]]
    mean, variance = made.predict_difference(new[:1], new[1:2], covariates=x)
    assert float(mean[0]) == pytest.approx(wanted["mean"], abs=1e-9)
    assert float(variance[0]) == pytest.approx(wanted["variance"], abs=1e-9)
    p = made.predict_duel(new[:1], new[1:2], covariates=x)
    assert float(p[0]) == pytest.approx(wanted["probability"], abs=1e-9)


@pytest.mark.slow
def test_the_truth_of_the_case() -> None:
    truth = CASE["truth"]
    found = spg.exact.importance_sampling(model(), 200_000, np.random.default_rng(0))
    error = np.hypot(found.standard_error, truth["standard_error"])
    assert abs(found.log_evidence - truth["log_evidence"]) < 5.0 * error
    assert found.standard_error < 1e-3


def test_a_report_of_the_evidence_of_the_case() -> None:
    """Every bound is below the truth, exact EP is that of the case, and sampling agrees."""
    truth = CASE["truth"]["log_evidence"]
    made = model(**FORMS["vfe over duels"]())
    made.inducing_variable.Z.assign(np.array(CASE["X"])[[0, 1, 2, 3, 4, 5]] + 0.3)
    report = spg.evidence_report(made, samples=20_000, rng=np.random.default_rng(1))
    assert report.exact == pytest.approx(EP["log_evidence"], abs=1e-9)
    assert report.sampled is not None
    assert abs(report.sampled.log_evidence - truth) < 5.0 * report.sampled.standard_error
    for value in (report.lower_bound, *report.lower_bounds.values()):
        assert value < truth
    assert report.log_evidence < truth  # VFE's, to EP's own error


def test_gradient_of_the_reference_case() -> None:
    made = model(approximation=spg.Exact())
    gpflow.set_trainable(made.likelihood.noise, True)
    wanted = EP["gradient"]
    parameters = {
        "noise_variance": made.likelihood.noise,
        "kernel_variance": made.kernel.variance,
        "lengthscales": made.kernel.lengthscales,
        "covariate_variances": made.terms.parts(spg.Coefficients)[0].variance,
    }
    made.warned_about_scale = True
    with tf.GradientTape() as tape:
        value = made.maximum_log_likelihood_objective()
    found = tape.gradient(value, [p.unconstrained_variable for p in parameters.values()])
    for (name, parameter), slope in zip(parameters.items(), found, strict=True):
        x = parameter.unconstrained_variable
        by_value = slope / tf.exp(parameter.transform.forward_log_det_jacobian(x, 0))
        np.testing.assert_allclose(by_value, wanted[name], atol=1e-7, err_msg=name)


def test_the_sampler_draws_coefficients_too() -> None:
    """It knows of rows and their kernel alone; EP is within 3e-4 of the truth here."""
    new = np.array(CASE["test_X"])
    check = spg.check_against_sampling(
        model(), new[:2], new[2:], num_draws=1500, rng=np.random.default_rng(0)
    )
    assert check.converged and check.new is not None
    for found in (check.new, check.own):
        assert found.mean.rmse < 4.0 * found.mean.monte_carlo + 1e-3
        assert found.sd.rmse < 4.0 * found.sd.monte_carlo + 1e-3


JUDGES = np.random.default_rng(3).integers(3, size=60)


def judged(lean: bool, **more: Any) -> spg.Duels:
    """60 duels of six items in which three judges lean to what is shown first."""
    rng = np.random.default_rng(1)
    first = rng.integers(6, size=60)
    second = (first + rng.integers(1, 6, size=60)) % 6
    side = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    columns = np.column_stack([side, rng.normal(size=60)])
    names = ("side", "length")
    if not lean:
        columns = np.column_stack([columns, side[:, None] * (JUDGES[:, None] == np.arange(3))])
        names += ("side of 0", "side of 1", "side of 2")
    return spg.Duels(
        np.array(CASE["X"]), first, second, covariates=columns, covariate_names=names, **more
    )


Z = np.array(CASE["X"][:3])
MODELS: dict[str, dict[str, Any]] = {
    "exact": {"approximation": spg.Exact()},
    "vfe": {"approximation": spg.VFE(), "inducing_variable": Z},
    "fitc duels": {"approximation": spg.FITC(over="duels"), "inducing_variable": Z},
    "rank": {"approximation": spg.TightVFE("rank"), "inducing_variable": Z},
    "logdet": {"approximation": spg.TightVFE("logdet"), "inducing_variable": Z},
    "sequential": {"engine": spg.SequentialEP(tolerance=1e-10)},
    "laplace": {"engine": spg.Laplace(tolerance=1e-10)},
}


@pytest.mark.covering("exact")
@pytest.mark.parametrize("name", MODELS)
def test_leans_are_columns_of_one_variance(name: str) -> None:
    options = {"engine": spg.ParallelEP(tolerance=1e-10), **MODELS[name]}
    kernel_of = kernel()
    lean = spg.PreferenceGP(
        judged(True, labels={"judge": JUDGES}),
        kernel_of,
        terms=[spg.Coefficients([0.5, 0.2]), spg.Lean("side")],
        **options,
    )
    lean.terms.parts(spg.Lean)[0].variance.assign(0.3)
    plain = spg.PreferenceGP(
        judged(False), kernel_of, terms=[spg.Coefficients([0.5, 0.2, 0.3, 0.3, 0.3])], **options
    )
    assert lean.log_evidence() == pytest.approx(plain.log_evidence(), abs=1e-8)
    one, other = lean.coefficients(), plain.coefficients()
    order = [0, 1, *(2 + int(label) for label in lean.duels.label_names["judge"])]
    assert one.names[2:] == tuple(f"side of {label}" for label in lean.duels.label_names["judge"])
    np.testing.assert_allclose(one.mean, other.mean[order], atol=1e-7)
    np.testing.assert_allclose(one.covariance, other.covariance[np.ix_(order, order)], atol=1e-7)
    a, b = np.array(CASE["X"])[:2], np.array(CASE["X"])[2:4]
    x = np.array([[1.0, 0.3], [-1.0, 0.0]])
    found = lean.predict_duel(a, b, covariates=x, labels={"judge": [0, 2]})
    columns = np.array([[1.0, 0.3, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0, -1.0]])
    np.testing.assert_allclose(found, plain.predict_duel(a, b, covariates=columns), atol=1e-8)
    np.testing.assert_allclose(lean.predict_duel(a, b), plain.predict_duel(a, b), atol=1e-8)
    with pytest.warns(UserWarning, match="unknown"):  # their lean is as wide as the prior
        unknown = lean.predict_difference(a, b, covariates=x, labels={"judge": ["new", "new"]})
    known = plain.predict_difference(a, b, covariates=np.pad(x, ((0, 0), (0, 3))))
    np.testing.assert_allclose(unknown[0], known[0], atol=1e-8)
    np.testing.assert_allclose(unknown[1], known[1] + 0.3, atol=1e-8)


def slopes(made: spg.PreferenceGP) -> Any:
    """Of the log evidence by everything that is learned."""
    with tf.GradientTape() as tape:
        value = made.maximum_log_likelihood_objective()
    return tape.gradient(value, made.trainable_variables)


@pytest.mark.covering("engine0")
@pytest.mark.parametrize("engine", [ENGINE, spg.SequentialEP(tolerance=1e-12)])
def test_exact_over_items_and_coefficients(engine: Any) -> None:
    """Where covariates make many rows of few items, the algebra is over items and coefficients."""
    data = judged(True, labels={"judge": JUDGES})
    found = {}
    for over in (None, "items", "duels"):
        made = spg.PreferenceGP(
            data,
            gpflow.kernels.Sum([kernel(), spg.ItemEffect(variance=0.3)]),
            approximation=spg.Exact(over=over),
            engine=engine,
            terms=[spg.Coefficients([0.5, 0.2]), spg.Lean("side")],
        )
        found[over] = made
    covariance = found[None].approximation.prior(found[None].problem()).covariance
    assert isinstance(covariance, LowRankWithLevels)

    x = np.array([[1.0, 0.3], [-1.0, 0.0]])
    for over in ("items", "duels"):
        one, other = found[None], found[over]
        assert one.log_evidence() == pytest.approx(other.log_evidence(), abs=1e-9)
        for a, b in zip(slopes(one), slopes(other), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)
        np.testing.assert_allclose(
            one.coefficients().covariance, other.coefficients().covariance, atol=1e-9
        )
        pairs = one.inputs.of_items()[:2], one.inputs.of_items()[2:4]
        np.testing.assert_allclose(
            one.predict_duel(*pairs, covariates=x, labels={"judge": [0, 2]}),
            other.predict_duel(*pairs, covariates=x, labels={"judge": [0, 2]}),
            atol=1e-9,
        )


def test_with_effects_of_items_ties_and_counts() -> None:
    data = judged(True, labels={"judge": JUDGES}, ties=np.arange(60) % 7 == 0)
    options = {
        "likelihood": spg.Probit(margin=0.3),
        "terms": [spg.Lean("side")],
        "engine": ENGINE,
    }
    made = spg.PreferenceGP(
        data,
        kernel() + spg.ItemEffect(0.4),
        approximation=spg.VFE(),
        inducing_variable=np.array(CASE["X"]),
        **options,
    )
    exact = spg.PreferenceGP(data, made.kernel, approximation=spg.Exact(), **options)
    assert made.log_evidence() == pytest.approx(exact.log_evidence(), abs=1e-6)
    for one, other in zip(
        made.predict_f(made.inputs.of_items(), full_cov=True),
        exact.predict_f(exact.inputs.of_items(), full_cov=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.covering(every=2)
def test_what_knows_items_alone_takes_nothing_as_said(effects: bool) -> None:
    """Rankings, suggestions and reasons go by inputs of items."""
    whole = kernel() + spg.ItemEffect(0.3) if effects else kernel()
    made = spg.PreferenceGP(
        judged(True, labels={"judge": JUDGES}), whole, terms=[spg.Lean("side")], engine=ENGINE
    )
    rows = made.inputs.of_items()
    wanted = made.predict_f(rows, full_cov=True)
    found = made.posterior().joint(tf.constant(rows))
    np.testing.assert_allclose(found[0], wanted[0][:, 0], atol=1e-12)
    np.testing.assert_allclose(found[1], wanted[1][0], atol=1e-12)
    ranking = spg.rank(made).frame
    assert len(ranking) == 6
    frame = spg.suggest(made, batch=3, rng=np.random.default_rng(0)).frame
    assert len(frame) == 3
    reasons = spg.explain(made, 0, 1)
    assert reasons.difference == pytest.approx(
        float(made.predict_difference(rows[:1], rows[1:2])[0][0])
    )


def test_saved_and_loaded(tmp_path: Path) -> None:
    made = spg.PreferenceGP(
        judged(True, labels={"judge": JUDGES}), kernel(), terms=[spg.Lean("side")], engine=ENGINE
    )
    made.terms.parts(spg.Lean)[0].variance.assign(0.7)
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    one, other = made.coefficients(), again.coefficients()
    assert one.names == other.names
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.covariance, other.covariance)
    assert made.log_evidence() == again.log_evidence()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"covariates": np.ones(12)}, "is 1, winner less loser, in all duels"),
        ({"covariates": [["a"]] * 12}, "covariates is .*; give numbers"),
        ({"covariates": np.ones((3, 1))}, r"give \(12, C\), winner less loser"),
        ({"covariates": np.r_[np.nan, np.ones(11)]}, "is nan for duel 0"),
        ({"covariate_names": ["a"]}, "no covariates" + apart("covariates", "no_covariates")),
        ({"covariates": np.eye(12)[:, :2], "covariate_names": ["a", "a"]}, "a name of its own"),
    ],
)
def test_mistakes_of_the_data(options: Any, words: str) -> None:
    winners, losers = np.array(CASE["duels_winner_loser"]).T
    with pytest.raises(ValueError, match=words):
        spg.Duels(np.array(CASE["X"]), winners, losers, **options)


def test_mistakes_of_the_model() -> None:
    bare = spg.Duels(np.array(CASE["X"]), [0], [1])
    with refused("covariate_variance", "duels_without_covariates"):
        spg.PreferenceGP(bare, kernel(), terms=[spg.Coefficients(1.0)])
    with pytest.raises(ValueError, match="no covariate of the duels; name some"):
        spg.PreferenceGP(bare, kernel(), terms=[spg.Lean("side")])
    with pytest.raises(ValueError, match="is 'judge'; choose from"):
        model(terms=[spg.Lean("slot")])
    with pytest.raises(ValueError, match=r"variance of Coefficients is .*-1.0.*; give"):
        model(terms=[spg.Coefficients([1.0, -1.0])])
    with refused("coefficients", "no_covariates"):
        spg.PreferenceGP(bare, kernel()).coefficients()
    x = np.array(CASE["X"])
    with pytest.raises(ValueError, match="leave them out"):
        spg.PreferenceGP(bare, kernel()).predict_duel(x[:1], x[1:2], covariates=[[1.0]])
    with pytest.raises(ValueError, match="covariates has shape"):
        model().predict_duel(x[:1], x[1:2], covariates=[[1.0]])


def streamed(parts: int) -> spg.StreamedGP:
    return spg.StreamedGP(
        spg.stream_duels(duels()),
        kernel(),
        inducing_variable=np.array(CASE["X"]),
        engine=spg.PartitionedEP(parts=parts, tolerance=1e-12),
        terms=[spg.Coefficients(CASE["covariate_variances"])],
        chunk=5,
    )


@pytest.mark.covering("3")
@pytest.mark.parametrize("parts", [1, 3])
def test_streamed_and_in_parts_as_in_memory(parts: int, tmp_path: Path) -> None:
    made = streamed(parts)
    assert made.log_evidence() == pytest.approx(EP["log_evidence"], abs=1e-8)
    found = made.coefficients()
    np.testing.assert_allclose(found.mean, EP["coefficients"]["mean"], atol=1e-8)
    np.testing.assert_allclose(found.covariance, EP["coefficients"]["covariance"], atol=1e-8)
    _, gradients = made.evidence_and_gradient()
    by_name = dict(zip((id(v) for v in made.trainable_variables), gradients, strict=True))
    variance = made.terms.parts(spg.Coefficients)[0].variance
    slope = by_name[id(variance.unconstrained_variable)] / variance.numpy()
    np.testing.assert_allclose(slope, EP["gradient"]["covariate_variances"], atol=1e-6)
    new = np.array(CASE["X"])
    (wanted,) = CASE["predictions_from_ep_posterior"].values()
    p = made.predict_duel(new[:1], new[1:2], covariates=[[1.0, 0.5, 0.0, 1.0, 0.0]])
    assert float(p[0]) == pytest.approx(wanted["probability"], abs=1e-8)
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model").coefficients()
    assert again.names == found.names
    np.testing.assert_array_equal(again.mean, made.coefficients().mean)
    if parts == 1:
        whole = made.in_memory()
        assert whole.log_evidence() == pytest.approx(EP["log_evidence"], abs=1e-8)


def table(t: int = 400) -> tuple[Any, Any]:
    """Items, and duels in which whoever is shown first gains 0.8 and a unit of length 0.3."""
    import pandas as pd

    rng = np.random.default_rng(5)
    items = pd.DataFrame({"item_id": [f"i{k}" for k in range(12)], "a": rng.normal(size=12)})
    first = rng.integers(12, size=t)
    second = (first + rng.integers(1, 12, size=t)) % 12
    length = 10.0 * rng.normal(size=(t, 2))
    utility = items["a"].to_numpy()
    lead = utility[first] - utility[second] + 0.8 + 0.03 * (length[:, 0] - length[:, 1])
    won = lead + rng.normal(size=t) > 0.0
    ends = np.where(won[:, None], np.c_[first, second], np.c_[second, first])
    lengths = np.where(won[:, None], length, length[:, ::-1])
    duels = pd.DataFrame(
        {
            "winner": [f"i{k}" for k in ends[:, 0]],
            "loser": [f"i{k}" for k in ends[:, 1]],
            "shown_first": np.where(won, 1, -1),
            "winner_length": lengths[:, 0],
            "loser_length": lengths[:, 1],
        }
    )
    return items, duels


@pytest.mark.slow
def test_tables_scores_and_files(tmp_path: Path) -> None:
    items, duels = table()
    more = {"kernel": "se", "approximation": "exact", "max_iterations": 12}
    found = spg.fit(items, duels, covariate=("shown_first", "length"), **more)
    plain = spg.fit(items, duels, side=False, **more)
    rows = {row["name"]: row for row in found.figures["fit"]["coefficients"]}
    assert abs(rows["shown_first"]["mean"] - 0.8) < 4.0 * rows["shown_first"]["sd"]
    assert abs(rows["length"]["mean"] - 0.03) < 4.0 * rows["length"]["sd"]
    nats = [one.figures["held_out"]["model"]["nlp_nats"] for one in (found, plain)]
    assert nats[0] < nats[1] - 0.05
    found.write(tmp_path / "out")
    assert (tmp_path / "out" / "coefficients.csv").read_text().startswith("name,mean,sd,lower")
    # What was held out is predicted the same by whoever reads it again.
    scored = spg.evaluate(found.model, duels)["held_out"]["model"]["nlp_nats"]
    with pytest.warns(UserWarning, match="no column 'shown_first'"):
        bare = spg.evaluate(found.model, duels[["winner", "loser"]])
    assert scored < bare["held_out"]["model"]["nlp_nats"] - 0.05
    frame = spg.predict(found.model, duels.head(3))
    x = np.array(
        [
            [row.shown_first, row.winner_length - row.loser_length]
            for row in duels.head(3).itertuples()
        ]
    )
    ids = list(found.model.duels.item_ids)
    ends = [[ids.index(name) for name in duels[side].head(3)] for side in ("winner", "loser")]
    wanted = found.model.predict_duel(*(found.model.duels.items[end] for end in ends), covariates=x)
    np.testing.assert_allclose(frame["probability"], wanted, atol=1e-12)
    # Later duels join with their covariates, as if all had been given at once.
    model, report = spg.update(found.model, duels.head(30))
    again = spg.PreferenceGP(model.duels, model.kernel, engine=ENGINE, terms=model.terms)
    assert report.continued_sites > 100
    assert model.log_evidence() == pytest.approx(again.log_evidence(), abs=1e-4)


@pytest.fixture(scope="module")
def told() -> tuple[spg.PreferenceGP, Any, Any]:
    """A model of tables with ARD lengthscales, effects and one covariate, and the tables."""
    items, duels = table(120)
    items = items.assign(b=items["a"] ** 2)
    duels = duels[["winner", "loser", "shown_first"]]
    kernel_of = gpflow.kernels.Matern52(lengthscales=[1.0, 2.0]) + spg.ItemEffect(0.3)
    data = spg.read_duels(items, duels, covariates=["shown_first"])
    return spg.PreferenceGP(data, kernel_of), items, duels


def test_what_knows_no_covariates_says_so(told: Any) -> None:
    made, items, duels = told
    with refused("stacked", "covariates"):
        spg.gpflow.stacked_duels(made.duels)
    pairs = duels.rename(columns={"winner": "first", "loser": "second"}).head(5)
    with pytest.warns(UserWarning, match="count as 0 in what is suggested"):
        spg.suggest(made, pairs=pairs, rng=np.random.default_rng(0))
    with pytest.warns(UserWarning, match="have no 'shown_first', a covariate of the model"):
        spg.evaluate(made, spg.read_duels(items, duels[["winner", "loser"]]))
    renamed = duels.rename(columns={"shown_first": "side"})
    with pytest.warns(UserWarning, match="have no 'shown_first'"):
        spg.evaluate(made, spg.read_duels(items, renamed, covariates=["side"]))
    with pytest.raises(ValueError, match="covariates 'shown_first' and others 'side'"):
        spg.read_duels(items, duels, covariates=["shown_first"]).events.followed_by(
            spg.read_duels(items, renamed, covariates=["side"]).events
        )


def test_the_error_of_ep_goes_by_the_prior_of_rows(told: Any) -> None:
    """Of duels whose covariate is 0 everywhere but in one, it is that of the items' kernel."""
    made, items, duels = told
    plain = spg.PreferenceGP(
        spg.read_duels(items, duels[["winner", "loser"]]), made.kernel, noise_variance=0.05
    )
    said = duels.assign(shown_first=np.r_[1e-6, np.zeros(len(duels) - 1)])
    covered = spg.PreferenceGP(
        spg.read_duels(items, said, covariates=["shown_first"]),
        made.kernel,
        terms=[spg.Coefficients(1.0)],
        noise_variance=0.05,
    )
    assert ep_error(covered) == pytest.approx(ep_error(plain), rel=1e-9)
    assert ep_error(plain) > 0.0


def test_an_item_against_itself_differs_by_its_covariates_alone(told: Any) -> None:
    import pandas as pd

    made = told[0]
    new = pd.DataFrame({"item_id": ["new"], "a": [0.3], "b": [0.1]})
    pairs = pd.DataFrame({"first": ["new"] * 2, "second": ["new"] * 2, "shown_first": [0.0, 1.0]})
    found = spg.predict(made, pairs, new)
    said = made.coefficients()
    np.testing.assert_allclose(found["difference"], [0.0, said.mean[0]], atol=1e-9)
    np.testing.assert_allclose(found["sd"], [0.0, said.sd[0]], atol=1e-6)


def test_exported(told: Any, tmp_path: Path) -> None:
    made = told[0]
    spg.export_saved_model(made, tmp_path / "exported")
    X = made.inputs.of_items()[:3]
    there = tf.saved_model.load(str(tmp_path / "exported"))
    found = there.predict_f(tf.constant(X))
    np.testing.assert_allclose(found["mean"], made.predict_f(X)[0], atol=1e-9)


def test_a_covariate_of_large_numbers_is_not_at_a_limit(told: Any) -> None:
    _, items, duels = told
    large = duels.assign(shown_first=1e5 * duels["shown_first"])
    made = spg.PreferenceGP(
        spg.read_duels(items, large, covariates=["shown_first"]), gpflow.kernels.Linear()
    )
    assert not [one for one in limits_of(made) if "covariate" in one]


def test_a_covariate_called_first_is_not_the_first_of_a_pair() -> None:
    import pandas as pd

    items, duels = table(40)
    duels = duels.rename(columns={"shown_first": "first"})
    model = spg.PreferenceGP(
        spg.read_duels(items, duels, covariates=["first"]),
        gpflow.kernels.Matern52(),
        engine=ENGINE,
    )
    pairs = pd.DataFrame({"first": ["i0", "i1"], "second": ["i2", "i3"]})
    at_0 = spg.predict(model, pairs)
    np.testing.assert_allclose(
        at_0["probability"],
        spg.predict(model, pairs.assign(first_first=0, second_first=0)).probability,
    )
    there = spg.predict(model, pairs.assign(first_first=1, second_first=0))
    wanted = model.predict_duel(
        *(model.duels.items[rows] for rows in ([0, 1], [2, 3])), covariates=[[1.0], [1.0]]
    )
    np.testing.assert_allclose(there["probability"], wanted, atol=1e-12)


def test_mistakes_of_tables() -> None:
    items, duels = table(40)
    for names, change, words in (
        (["breadth"], {}, "The covariate 'breadth' is not a column of the duels"),
        (["shown_first"], {"shown_first": 1}, "is 1, winner less loser, in all duels"),
        (["shown_first"], {"shown_first": "x"}, "The column 'shown_first' has 'x' in row"),
        (["length"], {"loser_length": np.nan}, "The column 'loser_length' has"),
    ):
        with pytest.raises(ValueError, match=words):
            spg.read_duels(items, duels.assign(**change), covariates=names)
