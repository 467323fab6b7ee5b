"""Effects of pairs of items: evidence, sites, posterior, gradients, and what they are added to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.learning.greedy import addition_gains
from sparse_prefgp.models.pair_posterior import pair_share
from tests.reference.slow_ep import slow_ep
from tests.reference.slow_sets import slope, slow_sets
from tests.slopes import check_slopes
from tests.together import apart
from tests.tolerances import EVIDENCE, GRADIENT, IDENTITY, PARTS, ROUNDING

PATH = Path(__file__).parents[2] / "data" / "events_cases.json"
CASE = next(
    case for case in json.loads(PATH.read_text())["cases"] if case["name"] == "pair_effects"
)
X, DUELS = np.array(CASE["X"]), np.array(CASE["duels_winner_loser"])
TIGHT = spg.ParallelEP(tolerance=1e-13, max_sweeps=300)
CASE_GRADIENT = 1e-7
ROWS = {
    "DTC": spg.DTC(),
    "VFE": spg.VFE(),
    "TightVFE": spg.TightVFE(),
    "TightVFE-block": spg.TightVFE("block"),
    "TightVFE-logdet": spg.TightVFE("logdet"),
    "TightVFE-rank": spg.TightVFE("rank"),
    "FITC": spg.FITC(),
    "PriorPower": spg.PriorPower(0.5),
    "HeteroscedasticVFE": spg.HeteroscedasticVFE(),
}
Z = X[[0, 3]] + 0.1


def squared_exponential() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, CASE["kernel"]["lengthscales"])


def model_of(approximation: spg.Approximation | None = None, **more: Any) -> spg.PreferenceGP:
    approximation = spg.Exact() if approximation is None else approximation
    duels = more.pop("duels", None) or spg.Duels(X, *DUELS.T)
    effect = spg.PairEffect(more.pop("variance", CASE["pair_variance"]))
    model = spg.PreferenceGP(
        duels,
        squared_exponential() + effect,
        approximation=approximation,
        **{
            "likelihood": spg.Probit(CASE["noise_variance"]),
            "inducing_variable": Z if approximation.needs_inducing else None,
            "engine": TIGHT,
            **more,
        },
    )
    gpflow.set_trainable(model.likelihood.noise, True)
    model.warned_about_scale = True
    return model


@pytest.mark.parametrize(
    ("approximation", "more"),
    [
        (spg.Exact(), {}),
        (spg.VFE(), {"inducing_variable": X}),
        (spg.Exact(), {"engine": spg.SequentialEP(tolerance=1e-13, max_sweeps=300)}),
        (spg.FITC(), {"inducing_variable": X}),
    ],
    ids=["exact", "all items", "sequential", "fitc"],
)
@pytest.mark.covering(every=4)
def test_the_case(approximation: spg.Approximation, more: dict[str, Any]) -> None:
    """Over duels, and over items with inducing inputs at all of them."""
    model, expected = model_of(approximation, **more), CASE["ep"]
    tolerance = IDENTITY if approximation.is_exact else EVIDENCE
    assert model.infer().converged
    np.testing.assert_allclose(
        float(model.log_evidence()), expected["log_evidence"], rtol=tolerance
    )
    mean, covariance = model.predict_f(np.array(CASE["test_X"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=tolerance)
    np.testing.assert_allclose(covariance[0], expected["covariance"], atol=tolerance)
    nu, tau = model.inference.sites()
    own = 2.0 * CASE["noise_variance"]  # their sites are on z plus the noise of each duel
    found = {}
    graph = model.graph
    items = graph.rows[:, graph.layout.number].astype(int)
    for i in range(graph.num_sites):
        key = items[graph.winners[i]], items[graph.losers[i]]
        found[key] = np.array([nu[i], tau[i]]) / (1.0 - own * tau[i])
    theirs = np.stack([expected["nu_of_v"], expected["tau_of_v"]], 1)
    mine = np.array([found[tuple(duel)] for duel in DUELS])
    np.testing.assert_allclose(mine, theirs, rtol=tolerance)


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=repr)
@pytest.mark.covering(every=2)
def test_predictions_of_the_case(approximation: spg.Approximation) -> None:
    """Of pairs that met, in both directions, and of one that never did."""
    more = {"inducing_variable": X} if approximation.needs_inducing else {}
    model, tolerance = model_of(approximation, **more), IDENTITY
    if approximation.needs_inducing:
        tolerance = EVIDENCE
    items = model.inputs.of_items()
    for name, expected in CASE["predictions_from_ep_posterior"].items():
        a, b = int(name[0]), int(name[-1])
        mean, variance = model.predict_difference(items[[a, b]], items[[b, a]])
        sides = [expected["mean"], -expected["mean"]]
        np.testing.assert_allclose(mean, sides, atol=tolerance)
        np.testing.assert_allclose(variance, [expected["variance"]] * 2, atol=tolerance)
        found = model.predict_duel(items[[a, b]], items[[b, a]]).numpy()
        p = expected["probability"]
        np.testing.assert_allclose(found, [p, 1.0 - p], atol=tolerance)
    # Unknown items never met, and an item with itself is 0.
    _, of_utilities = model_of(variance=1e-12).predict_difference(items[:1], [[0.2, 0.1]])
    mean, variance = model.predict_difference(items[:2], np.array([[0.2, 0.1, -1.0], items[1]]))
    assert variance[0] > 0.8 and mean[1] == variance[1] == 0.0
    assert of_utilities[0] < 0.8 + variance[0]


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=repr)
def test_gradient_of_the_case(approximation: spg.Approximation) -> None:
    more = {"inducing_variable": X} if approximation.needs_inducing else {}
    model = model_of(approximation, **more)
    se, effect = model.kernel.kernels
    parameters = {
        "noise_variance": model.likelihood.noise,
        "kernel_variance": se.variance,
        "lengthscales": se.lengthscales,
        "pair_variance": effect.variance,
    }
    free = [p.unconstrained_variable for p in parameters.values()]
    with tf.GradientTape() as tape:
        evidence = model.maximum_log_likelihood_objective()
    slopes = tape.gradient(evidence, free)
    for (name, parameter), found in zip(parameters.items(), slopes, strict=True):
        raw = parameter.unconstrained_variable
        with tf.GradientTape() as tape:
            value = parameter.transform.forward(tf.convert_to_tensor(raw))
        per_free = tape.gradient(value, raw)
        # Inducing inputs at all items cost a few digits of K_uu, and VFE the slope of its trace.
        tolerance = CASE_GRADIENT if approximation.is_exact else GRADIENT
        np.testing.assert_allclose(found / per_free, CASE["ep"]["gradient"][name], rtol=tolerance)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.covering(every=12)
def test_rows_of_inducing_inputs(row: str) -> None:
    """Against dense matrices: Q and R~ of all nine duels, g in the noise."""
    model = model_of(ROWS[row])
    k, noise = squared_exponential(), 0.3
    k_uu, k_ux, k_xx = k(Z).numpy(), k(Z, X).numpy(), k(X).numpy()
    a = np.array(CASE["A"])
    q = a @ k_ux.T @ np.linalg.solve(k_uu, k_ux) @ a.T
    residual = a @ k_xx @ a.T - q
    n = np.array(CASE["N"])
    key = np.sort(DUELS, 1) @ [10, 1]
    same = key[:, None] == key[None]
    within, inverse = residual * same, np.linalg.inv(n)
    identity = np.eye(len(n))

    def log_det(matrix: np.ndarray) -> float:
        return float(np.linalg.slogdet(identity + inverse @ matrix)[1])

    each = [np.flatnonzero(key == one) for one in np.unique(key)]
    traces = [np.trace((inverse @ within)[np.ix_(i, i)]) for i in each]
    expected = {
        "DTC": (0.0, 0.0),
        "VFE": (0.0, -0.5 * np.trace(inverse @ within)),
        "TightVFE": (0.0, -0.5 * np.sum(np.log1p(traces))),
        "TightVFE-block": (0.0, -0.5 * log_det(within)),
        "TightVFE-logdet": (0.0, -0.5 * log_det(residual)),
        "TightVFE-rank": (0.0, -0.5 * 4 * np.log1p(np.sum(traces) / 4)),
        "FITC": (1.0, 0.0),
        "PriorPower": (0.5, -0.5 * log_det(0.5 * within)),
        "HeteroscedasticVFE": (1.0, -0.5 * np.trace(np.linalg.solve(n + within, within))),
    }[row]
    slow = slow_sets(q + n + expected[0] * within, np.zeros(9))
    np.testing.assert_allclose(
        float(model.log_evidence()), slow.log_evidence + expected[1], rtol=EVIDENCE
    )
    # Section 7 of the design: n duels of a pair with k~.
    if row == "VFE":
        k_left = np.diag(residual)[[i[0] for i in each]]
        number = np.array([len(i) for i in each])
        whole = -0.5 * np.sum(number * k_left / (2.0 * noise + number * 0.8))
        np.testing.assert_allclose(expected[1], whole, rtol=IDENTITY)


ENGINES = {
    "ep": TIGHT,
    "power ep": spg.ParallelEP(tolerance=1e-13, max_sweeps=300, site_power=0.5),
    "laplace": spg.Laplace(tolerance=1e-12),
    "logit": spg.Laplace(link="logit", tolerance=1e-12),
    "variational": spg.Variational(tolerance=1e-12),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "engine"),
    [*((row, "ep") for row in ROWS), *(("VFE", engine) for engine in ENGINES if engine != "ep")],
)
def test_slopes_of_every_row_and_engine(row: str, engine: str) -> None:
    model = model_of(ROWS[row], engine=ENGINES[engine])
    gpflow.set_trainable(model.likelihood.noise, engine != "logit")  # which has noise of its own
    check_slopes(model)


@pytest.mark.slow
def test_bounds_are_in_order() -> None:
    exact = float(model_of().log_evidence())
    found = {name: float(model_of(row).log_evidence()) for name, row in ROWS.items()}
    assert found["VFE"] < found["TightVFE"] <= found["TightVFE-block"] + 1e-12
    assert found["TightVFE-block"] < found["TightVFE-logdet"] < exact
    assert found["VFE"] < found["TightVFE-rank"] < found["TightVFE-logdet"]


JUDGES = list("abaabbaba")
SLOT = np.random.default_rng(2).normal(size=(9, 1))


def test_judges_covariates_and_ties() -> None:
    """Noise by judge and a covariate: rows of a pair are several then, and its effect is one."""
    ratio = {"a": 0.5, "b": 1.7}
    duels = spg.Duels(X, *DUELS.T, groups=JUDGES, covariates=SLOT, covariate_names=["slot"])
    n = np.array(CASE["N"]) - 0.6 * np.eye(9)
    n += np.diag([0.6 * ratio[judge] for judge in JUDGES]) + 0.5 * SLOT @ SLOT.T
    a = np.array(CASE["A"])
    k = squared_exponential()(X).numpy()
    slow = slow_sets(a @ k @ a.T + n, np.zeros(9))
    pair = np.array(CASE["N"]) - 0.6 * np.eye(9)
    for approximation in (spg.Exact(), spg.VFE()):
        more = {"inducing_variable": X} if approximation.needs_inducing else {}
        model = model_of(
            approximation,
            duels=duels,
            terms=[spg.Coefficients(0.5)],
            likelihood=spg.Probit(CASE["noise_variance"], by="judge"),
            **more,
        )
        model.likelihood.noise_ratio.assign([ratio[name] for name in model.duels.group_names])
        tolerance = IDENTITY if approximation.is_exact else EVIDENCE
        np.testing.assert_allclose(float(model.log_evidence()), slow.log_evidence, rtol=tolerance)
        effect = model.kernel.kernels[1].variance
        with tf.GradientTape() as tape:
            evidence = model.maximum_log_likelihood_objective()
        raw = effect.unconstrained_variable
        found = tape.gradient(evidence, raw)
        with tf.GradientTape() as tape:
            value = effect.transform.forward(tf.convert_to_tensor(raw))
        expected = slope(slow, pair / 0.8) * tape.gradient(value, raw)
        np.testing.assert_allclose(found, expected, rtol=GRADIENT)
    tied = spg.Duels(X, *DUELS.T, ties=np.arange(9) == 2)
    one, other = (
        model_of(row, duels=tied, likelihood=spg.Probit(CASE["noise_variance"], margin=0.2), **more)
        for row, more in ((spg.Exact(), {}), (spg.VFE(), {"inducing_variable": X}))
    )
    np.testing.assert_allclose(one.log_evidence(), other.log_evidence(), rtol=EVIDENCE)
    items = one.inputs.of_items()
    for both in zip(
        one.predict_difference(items[[0, 1]], items[[1, 0]]),
        other.predict_difference(items[[0, 1]], items[[1, 0]]),
        strict=True,
    ):
        np.testing.assert_allclose(*both, atol=EVIDENCE)


def test_a_pair_is_of_items_in_any_context() -> None:
    """Two rows of each of two items: all their duels are of one pair."""
    rows = np.array([[0.1, 0.0], [0.1, 1.0], [0.7, 0.0], [0.7, 1.0]])
    events = Answers.between(np.array([0, 1, 2]), np.array([2, 3, 0]))
    duels = spg.Duels.from_events(rows, events, item=[0, 0, 1, 1])
    a = np.array([[-1, 0, 1, 0], [0, -1, 0, 1], [1, 0, -1, 0]], float)
    sign = np.array([1.0, 1.0, -1.0])
    covariance = a @ squared_exponential()(rows).numpy() @ a.T
    covariance += 0.6 * np.eye(3) + 0.8 * np.outer(sign, sign)
    slow = slow_sets(covariance, np.zeros(3))
    for approximation in (spg.Exact(), spg.VFE()):
        more = {"inducing_variable": rows} if approximation.needs_inducing else {}
        model = model_of(approximation, duels=duels, **more)
        np.testing.assert_allclose(float(model.log_evidence()), slow.log_evidence, rtol=EVIDENCE)


def test_what_is_explained_adds_up() -> None:
    """What two items have besides their features is the effect of their pair."""
    model = model_of()
    found = spg.explain(model, 1, 0)
    assert abs(found.residual) < 1e-6
    rows = found.frame.set_index("feature")
    plain = model.predict_f(model.inputs.of_items())[0].numpy()[:, 0]
    expected = found.difference - (plain[1] - plain[0])
    assert rows.loc["pair effect", "contribution"] == pytest.approx(expected, abs=IDENTITY)


def test_the_share_of_pairs() -> None:
    model = model_of()
    k = squared_exponential()(X).numpy()
    a = np.array(CASE["A"])
    of_items = np.diag(a @ k @ a.T)
    assert pair_share(model) == pytest.approx(float(np.mean(0.8 / (0.8 + of_items))))
    plain = spg.PreferenceGP(spg.Duels(X, *DUELS.T), squared_exponential())
    assert pair_share(plain) is None


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = model_of(spg.VFE())
    items = model.inputs.of_items()
    expected = model.predict_duel(items[[0, 1, 1]], items[[1, 0, 3]])
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert float(loaded.log_evidence()) == pytest.approx(float(model.log_evidence()), rel=ROUNDING)
    found = loaded.predict_duel(items[[0, 1, 1]], items[[1, 0, 3]])
    np.testing.assert_allclose(found, expected, rtol=PARTS)


def test_without_variance_nothing_changes() -> None:
    model = model_of(variance=1e-9)
    plain = spg.PreferenceGP(
        spg.Duels(X, *DUELS.T),
        squared_exponential(),
        engine=TIGHT,
        noise_variance=0.3,
        approximation=spg.Exact(),
    )
    np.testing.assert_allclose(model.log_evidence(), plain.log_evidence(), atol=EVIDENCE)


@pytest.mark.parametrize("item", [0.7, 0.0], ids=["item+pair", "pair"])
@pytest.mark.covering(every=2)
def test_without_features_it_is_the_covariance_of_all_duels(item: float) -> None:
    """Some said twice, both ways, and a pair of which only one side ever won."""
    won, lost = np.array([[0, 1], [1, 0], [0, 1], [1, 2], [1, 2], [2, 0], [3, 2], [0, 3]]).T
    effect = spg.PairEffect(1.3)
    kernel = effect if not item else spg.ItemEffect(item) + effect
    duels = spg.Duels(np.zeros((4, 0)), won, lost)
    model = spg.PreferenceGP(duels, kernel, approximation=spg.Exact(), engine=TIGHT)
    a = np.eye(4)[lost] - np.eye(4)[won]
    same = (np.minimum(won, lost)[:, None] == np.minimum(won, lost)) & (
        np.maximum(won, lost)[:, None] == np.maximum(won, lost)
    )
    side = np.where(won < lost, 1.0, -1.0)
    between = 1.3 * same * side[:, None] * side
    expected = slow_ep(np.zeros(8), item * a @ a.T + between + np.eye(8), tolerance=1e-13)
    assert model.log_evidence() == pytest.approx(expected.log_evidence, abs=IDENTITY)
    asked = spg.PreferenceGP(duels, kernel, approximation=spg.Exact(over="duels"), engine=TIGHT)
    assert asked.log_evidence() == model.log_evidence()
    # Of a pair that met, given v; and of one that never did.
    cross = item * a @ (np.eye(4)[0] - np.eye(4)[1]) - between[0]
    gain = np.linalg.solve(item * a @ a.T + between + np.eye(8), cross)
    mean = gain @ expected.mean
    variance = 2.0 * item + 1.3 - gain @ cross + gain @ expected.covariance @ gain
    items = model.inputs.of_items()
    found = model.predict_difference(items[[0, 1]], items[[1, 3]])
    assert float(found[0][0]) == pytest.approx(mean, abs=IDENTITY)
    assert float(found[1][0]) == pytest.approx(variance, abs=IDENTITY)
    if not item:
        assert float(found[0][1]) == 0.0 and float(found[1][1]) == pytest.approx(1.3)


def test_what_is_refused() -> None:
    choice = Answers(np.arange(3), np.array([0, 3]), kind=np.array([CHOICE], np.int8))
    se = squared_exponential()
    two = se + spg.PairEffect() + spg.PairEffect()
    duels = spg.Duels(X, *DUELS.T)
    for words, ask in (
        (apart("sets", "pair_effects"), lambda: model_of(duels=spg.Duels.from_events(X, choice))),
        (apart("pair_effects", "blocks"), lambda: model_of(spg.PITC(2))),
        ("2 PairEffect terms", lambda: spg.PreferenceGP(duels, two)),
        ("inside a product", lambda: spg.PreferenceGP(duels, se * spg.PairEffect())),
        (
            apart("streamed", "pair_effects"),
            lambda: spg.StreamedGP(spg.stream_duels(duels), se + spg.PairEffect()),
        ),
        (
            apart("pair_effects", "check_against_sampling"),
            lambda: spg.check_against_sampling(model_of()),
        ),
        (
            apart("pair_effects", "by_items"),
            lambda: model_of(spg.Exact(over="items")).log_evidence(),
        ),
        (apart("pair_effects", "by_duels"), lambda: model_of(spg.VFE(over="duels")).log_evidence()),
        (
            apart("pair_effects", "worth"),
            lambda: spg.suggest(model_of(), rng=np.random.default_rng(0)),
        ),
        (apart("pair_effects", "gain"), lambda: addition_gains(model_of(spg.VFE()), X)),
        (apart("pair_effects", "choice"), lambda: model_of().predict_choice(X[None, :3])),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


@pytest.mark.filterwarnings("ignore:Inference did not converge")
def test_lower_bounds_are_below_the_truth() -> None:
    """Of the case, and in the order that the residual's bounds have."""
    truth = CASE["truth"]["log_evidence"]
    exact = model_of().lower_bounds()
    assert truth - 0.2 < exact.value < truth
    rows = model_of(spg.VFE()).lower_bounds().rows
    assert set(rows) == {"expected", "diagonal", "block", "rank", "logdet"}
    assert rows["diagonal"] <= rows["block"] <= rows["logdet"] < truth
    assert rows["rank"] <= rows["logdet"] and rows["expected"] < truth
    # Whatever the sites.
    loose = model_of(spg.VFE(), engine=spg.ParallelEP(max_sweeps=1)).lower_bounds()
    assert all(value < truth for value in loose.rows.values())
    # Inducing inputs at all items leave nothing out.
    whole = model_of(spg.VFE(), inducing_variable=X).lower_bounds()
    np.testing.assert_allclose(whole.rows["logdet"], exact.value, atol=1e-5)


def test_the_report_of_the_case() -> None:
    found = spg.evidence_report(model_of(spg.VFE()), samples=2000, rng=np.random.default_rng(0))
    assert "logdet" in str(found) or "lower bound" in str(found)


@pytest.mark.parametrize("terms", [[], [spg.Lean("home")]], ids=["covariate", "leans"])
@pytest.mark.covering(every=2)
def test_pairs_next_to_covariates_go_over_items(terms: list[spg.Term]) -> None:
    """Sites of a pair whose covariates differ share its effect: no matrix of rows by rows."""
    rng = np.random.default_rng(6)
    first = rng.integers(0, 4, 40)
    second = (first + rng.integers(1, 4, 40)) % 4
    home = rng.normal(size=(40, 1))
    judge = rng.choice(["a", "b", "c"], 40)
    duels = spg.Duels(
        np.zeros((4, 0)),
        first,
        second,
        covariates=home,
        covariate_names=["home"],
        labels={"judge": judge},
    )
    kernel = spg.ItemEffect(0.7) + spg.PairEffect(0.5)
    engine = spg.ParallelEP(tolerance=1e-12)

    def made(over: str | None) -> spg.PreferenceGP:
        approximation = spg.Exact(over=over)
        return spg.PreferenceGP(
            duels, kernel, approximation=approximation, engine=engine, terms=terms
        )

    one, other = made(None), made("duels")
    assert type(one.approximation.prior(one.problem()).covariance).__name__ == "LowRankWithPairs"
    np.testing.assert_allclose(one.log_evidence(), other.log_evidence(), rtol=IDENTITY)
    items = one.inputs.of_items()
    for ask in (
        lambda model: model.predict_f(items),
        lambda model: model.predict_difference(items[[0, 1, 2]], items[[3, 0, 2]]),
        lambda model: (model.coefficients().mean, model.coefficients().covariance),
    ):
        for both in zip(ask(one), ask(other), strict=True):
            np.testing.assert_allclose(*both, atol=1e-9)
    slopes = []
    for model in (one, other):
        with tf.GradientTape() as tape:
            evidence = model.maximum_log_likelihood_objective()
        slopes.append(tape.gradient(evidence, model.trainable_variables))
    for both in zip(*slopes, strict=True):
        np.testing.assert_allclose(*both, rtol=1e-7, atol=1e-9)
