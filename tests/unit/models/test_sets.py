"""Choices and rankings as one event each: evidence, sites, posterior and gradients of the cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import linear_probit
from sparse_prefgp.data.answers import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    RANKING,
    TIE,
    TOP,
    WIN,
    Answers,
    Codes,
)
from tests.reference.slow_sets import rows_of, slow_sets
from tests.slopes import check_slopes
from tests.together import apart
from tests.tolerances import EVIDENCE, IDENTITY, ROUNDING

PATH = Path(__file__).parents[2] / "data" / "events_cases.json"
CASES = {case["name"]: case for case in json.loads(PATH.read_text())["cases"]}
OF_SETS = [name for name, case in CASES.items() if "events" in case]
KINDS = {
    "choice": CHOICE,
    "ranking": RANKING,
    "top2": TOP,
    "bestworst": BEST_WORST_AT_ONCE,
    "best, then worst of the rest": BEST_WORST,
}
CASE_GRADIENT = 1e-7
TIGHT = spg.ParallelEP(tolerance=1e-13, max_sweeps=300)
ROWS = {
    "DTC": spg.DTC(),
    "VFE": spg.VFE(),
    "TightVFE_per_set_mean": spg.TightVFE(),
    "TightVFE_per_set_block": spg.TightVFE("block"),
    "TightVFE_logdet": spg.TightVFE("logdet"),
    "FITC_residual_kept_within_each_set": spg.FITC(),
    "PriorPower_0.5": spg.PriorPower(0.5),
    "HeteroscedasticVFE": spg.HeteroscedasticVFE(),
}
# With a clique for each set, and with a block of rows for each.
FORMS = ("items", "duels")
OF_ROWS = [name for name, case in CASES.items() if "sparse" in case]
# Each row with one of the cases and in one form, in turn; with the others it is slow.
IN_TURN = [
    pytest.param(
        name,
        row,
        over,
        id=f"{name}-{row}-{over}",
        marks=[]
        if name == OF_ROWS[number % len(OF_ROWS)] and over == FORMS[number % 2]
        else [pytest.mark.slow],
    )
    for name in OF_ROWS
    for number, row in enumerate(ROWS)
    for over in FORMS
]


def sets(kinds: list[int], sides: list[list[int]], **more: Any) -> Answers:
    sizes = [len(one) for one in sides]
    counts = more.pop("counts", np.ones(len(kinds), np.int64))
    ordered = np.where(np.array(kinds) == TOP, more.pop("top", 2), 0)
    return Answers(
        np.concatenate(sides),
        np.append(0, np.cumsum(sizes)),
        kind=np.array(kinds, np.int8),
        counts=np.asarray(counts),
        ordered=ordered,
        **more,
    )


def said(case: dict[str, Any], apart: bool = False) -> Answers:
    events = case["events"]
    if apart:
        events = [dict(one, count=1) for one in events for _ in range(one["count"])]
    return sets(
        [KINDS[one["kind"]] for one in events],
        [one["items_best_first"] for one in events],
        counts=[one["count"] for one in events],
    )


def kernel_of(case: dict[str, Any]) -> gpflow.kernels.Kernel:
    kernel = case["kernel"]
    return gpflow.kernels.SquaredExponential(kernel["variance"], kernel["lengthscales"])


def model_of(case: dict[str, Any], **more: Any) -> spg.PreferenceGP:
    mean = None
    if "mean_function" in case:
        weights = np.array(case["mean_function"]["weights"])[:, None]
        mean = gpflow.functions.Linear(weights, [0.0])
    more = {"approximation": spg.Exact(), "engine": TIGHT, "mean_function": mean} | more
    duels = spg.Duels.from_events(np.array(case["X"]), said(case))
    return spg.PreferenceGP(duels, kernel_of(case), noise_variance=case["noise_variance"], **more)


def in_their_order(case: dict[str, Any], model: spg.PreferenceGP) -> tuple[np.ndarray, np.ndarray]:
    """nu and tau of the sites on v, in the order of the case's rows."""
    nu, tau = model.inference.sites()
    graph = model.graph
    d = graph.noises.own * case["noise_variance"]
    tau_v = tau / (1.0 - d * tau)
    nu_v = nu / (1.0 - d * tau)
    item = {tuple(row): i for i, row in enumerate(case["X"])}
    place = np.array([item[tuple(row)] for row in graph.rows])
    keys = [(place[w], place[lose]) for w, lose in zip(graph.winners, graph.losers, strict=True)]
    theirs = [
        (int(np.flatnonzero(np.array(row) == -1)[0]), int(np.flatnonzero(np.array(row) == 1)[0]))
        for row in case["A"]
    ]
    assert sorted(map(tuple, keys)) == sorted(theirs)
    found = sorted(zip(keys, nu_v, tau_v, strict=True))
    expected = sorted(zip(theirs, case["ep"]["nu_of_v"], case["ep"]["tau_of_v"], strict=True))
    return np.array([x[1:] for x in found]), np.array([x[1:] for x in expected])


def check(case: dict[str, Any], model: spg.PreferenceGP) -> None:
    expected = case["ep"]
    assert model.infer().converged
    np.testing.assert_allclose(float(model.log_evidence()), expected["log_evidence"], rtol=IDENTITY)
    mean, covariance = model.predict_f(np.array(case["test_X"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=IDENTITY)
    np.testing.assert_allclose(covariance[0], expected["covariance"], atol=IDENTITY)
    found, theirs = in_their_order(case, model)
    np.testing.assert_allclose(found, theirs, rtol=IDENTITY)


@pytest.mark.parametrize("name", OF_SETS)
@pytest.mark.covering(every=4)
def test_cases(name: str) -> None:
    check(CASES[name], model_of(CASES[name]))


@pytest.mark.covering(
    "three_choices_of_4-items", "choices_low_noise-duels", "two_rankings_of_4-duels"
)
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", OF_SETS)
def test_inducing_inputs_at_all_items(name: str, over: str) -> None:
    """Nothing is left unexplained: VFE is the exact model."""
    case = CASES[name]
    model = model_of(case, approximation=spg.VFE(over=over), inducing_variable=np.array(case["X"]))
    np.testing.assert_allclose(
        float(model.log_evidence()), case["ep"]["log_evidence"], rtol=EVIDENCE
    )


@pytest.mark.parametrize("name", OF_SETS)
@pytest.mark.covering(every=12)
def test_gradients(name: str) -> None:
    case = CASES[name]
    model = model_of(case)
    kernel = model.kernel
    gpflow.set_trainable(model.likelihood.noise, True)
    model.warned_about_scale = True
    variables = [model.likelihood.noise, kernel.variance, kernel.lengthscales]
    free = [variable.unconstrained_variable for variable in variables]
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    found = [
        -slope * _slope_of_inverse(variable)
        for slope, variable in zip(tape.gradient(loss, free), variables, strict=True)
    ]
    expected = case["ep"]["gradient"]
    scale = max(abs(expected["noise_variance"]), abs(expected["kernel_variance"]))
    for value, key in zip(
        found, ("noise_variance", "kernel_variance", "lengthscales"), strict=True
    ):
        np.testing.assert_allclose(
            value, expected[key], rtol=CASE_GRADIENT, atol=CASE_GRADIENT * scale
        )


def _slope_of_inverse(parameter: gpflow.Parameter) -> np.ndarray:
    """d unconstrained / d value."""
    value = tf.constant(parameter.numpy())
    with tf.GradientTape() as tape:
        tape.watch(value)
        free = parameter.transform.inverse(value)
    return tape.gradient(free, value).numpy()


@pytest.mark.parametrize(("name", "row", "over"), IN_TURN)
@pytest.mark.covering(every=16)
def test_rows_of_inducing_inputs(name: str, row: str, over: str) -> None:
    case = CASES[name]
    approximation = replace(ROWS[row], over=over)
    model = model_of(
        case, approximation=approximation, inducing_variable=np.array(case["sparse"]["Z"])
    )
    np.testing.assert_allclose(float(model.log_evidence()), case["sparse"][row], rtol=IDENTITY)
    if row == "VFE":
        mean, covariance = model.predict_f(np.array(case["test_X"]), full_cov=True)
        np.testing.assert_allclose(mean[:, 0], case["sparse"]["VFE_mean"], atol=IDENTITY)
        np.testing.assert_allclose(covariance[0], case["sparse"]["VFE_covariance"], atol=IDENTITY)


MIXED = sets(
    [CHOICE, RANKING, TOP, BEST_WORST, BEST_WORST_AT_ONCE, WIN, CHOICE],
    [[0, 1, 2], [3, 2, 0], [4, 1, 0, 2], [2, 3, 4], [5, 3, 4, 1], [5, 0], [2, 5, 1, 0]],
    counts=[2, 1, 1, 1, 1, 3, 1],
)
ITEMS = np.random.default_rng(3).uniform(size=(6, 2))


def mixed(approximation: spg.Approximation, **more: Any) -> spg.PreferenceGP:
    kernel = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6])
    inducing = ITEMS[[0, 2, 5]] + 0.1 if approximation.needs_inducing else None
    model = spg.PreferenceGP(
        spg.Duels.from_events(ITEMS, more.pop("events", MIXED)),
        kernel,
        approximation=approximation,
        inducing_variable=inducing,
        **({"engine": TIGHT, "likelihood": spg.Probit(0.3)} | more),
    )
    gpflow.set_trainable(model.likelihood.noise, True)
    model.warned_about_scale = True
    return model


def slopes(model: spg.PreferenceGP) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    return [slope.numpy() for slope in tape.gradient(loss, model.trainable_variables)]


def spread(model: spg.PreferenceGP, values: np.ndarray) -> np.ndarray:
    """Of each site as those of each copy, as the form over duels has them."""
    graph = model.graph
    sizes = np.bincount(graph.event)
    starts = np.cumsum(sizes) - sizes
    events = np.repeat(np.arange(len(sizes)), graph.events.totals.astype(int))
    return np.concatenate([values[starts[i] : starts[i] + sizes[i]] for i in events])


@pytest.mark.covering("VFE()", "TightVFE(residual='block')")
@pytest.mark.parametrize("approximation", [*ROWS.values(), spg.TightVFE("rank")], ids=repr)
def test_both_forms_and_copies(approximation: spg.Approximation) -> None:
    """Copies that are counted are copies with blocks of their own: evidence, sites, gradient."""
    blocks, cliques = mixed(replace(approximation, over="duels")), mixed(approximation)
    assert blocks.graph.num_sites > cliques.graph.num_sites
    np.testing.assert_allclose(
        float(cliques.log_evidence()), float(blocks.log_evidence()), rtol=IDENTITY
    )
    for ours, theirs in zip(cliques.inference.sites(), blocks.inference.sites(), strict=True):
        np.testing.assert_allclose(spread(cliques, ours), theirs, rtol=IDENTITY, atol=IDENTITY)
    for ours, theirs in zip(slopes(cliques), slopes(blocks), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=IDENTITY, atol=IDENTITY)
    mean, variance = cliques.predict_f(ITEMS + 0.05)
    theirs = blocks.predict_f(ITEMS + 0.05)
    np.testing.assert_allclose(mean, theirs[0], atol=IDENTITY)
    np.testing.assert_allclose(variance, theirs[1], atol=IDENTITY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [
        spg.Laplace(tolerance=1e-12),
        spg.Variational(tolerance=1e-12, max_sweeps=2000),
        spg.ParallelEP(site_power=0.5, tolerance=1e-12, max_sweeps=2000),
    ],
    ids=repr,
)
def test_engines_count_copies(engine: spg.Engine) -> None:
    events = MIXED.take(np.array([0, 1, 2, 3, 5, 6]))  # all rows have noise of their own
    for approximation in (spg.VFE(), spg.FITC()):
        blocks = mixed(replace(approximation, over="duels"), events=events, engine=engine)
        cliques = mixed(approximation, events=events, engine=engine)
        np.testing.assert_allclose(
            float(cliques.log_evidence()), float(blocks.log_evidence()), rtol=IDENTITY
        )
        for ours, theirs in zip(slopes(cliques), slopes(blocks), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=IDENTITY, atol=IDENTITY)


def test_an_engine_of_single_copies_takes_over() -> None:
    model = mixed(spg.VFE())
    sites, expected = model.graph.num_sites, float(model.log_evidence())
    model.engine = spg.SequentialEP(tolerance=1e-12, max_sweeps=200)
    assert model.graph.num_sites > sites
    np.testing.assert_allclose(float(model.log_evidence()), expected, rtol=IDENTITY)
    model.engine = TIGHT
    assert model.graph.num_sites == sites
    np.testing.assert_allclose(float(model.log_evidence()), expected, rtol=IDENTITY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "approximation",
    [*ROWS.values(), spg.TightVFE("rank"), spg.PITC(["a", "a", "b", "b", "c", "c", "d"])],
    ids=repr,
)
def test_slopes_of_every_row(approximation: spg.Approximation) -> None:
    """Of all that a fit changes, against central differences of evidence found again."""
    model = mixed(approximation)
    check_slopes(model)


def test_bounds_are_in_order() -> None:
    exact = float(mixed(spg.Exact()).log_evidence())
    found = {
        name: float(mixed(approximation).log_evidence())
        for name, approximation in (
            ("vfe", spg.VFE()),
            ("mean", spg.TightVFE()),
            ("block", spg.TightVFE("block")),
            ("rank", spg.TightVFE("rank")),
            ("logdet", spg.TightVFE("logdet")),
        )
    }
    assert found["vfe"] < found["mean"] < found["block"] < found["logdet"] < exact
    assert found["vfe"] < found["rank"] < found["logdet"]


def test_one_block_is_the_exact_model() -> None:
    exact = mixed(spg.Exact())
    pitc = mixed(spg.PITC(["a"] * 7))
    np.testing.assert_allclose(
        float(pitc.log_evidence()), float(exact.log_evidence()), rtol=EVIDENCE
    )


@pytest.mark.covering("VFE()")
@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC()], ids=repr)
def test_one_site_after_the_other(approximation: spg.Approximation) -> None:
    engine = spg.SequentialEP(tolerance=1e-12, max_sweeps=200)
    found = float(mixed(approximation, engine=engine).log_evidence())
    np.testing.assert_allclose(found, float(mixed(approximation).log_evidence()), rtol=IDENTITY)


def test_judges_have_noise_of_their_own() -> None:
    """The slow code with each set's noise multiplied by its judge's ratio."""
    judge = Codes.of(["a", "b", "a", "b", "b", "a", "b"])
    one = np.ones(7, np.int64)
    model = mixed(
        spg.Exact(),
        events=MIXED.saying(judge=judge, counts=one),
        likelihood=spg.Probit(0.3, by="judge"),
    )
    ratio = {"a": 0.5, "b": 2.0}
    model.likelihood.noise_ratio.assign([ratio[name] for name in model.duels.group_names])
    kinds = ("choice", "ranking", "top", "best_worst", "best_worst_at_once", "choice", "choice")
    sides = np.split(MIXED.sides, MIXED.offsets[1:-1])
    each = [(kind, row.tolist(), 2) for kind, row in zip(kinds, sides, strict=True)]
    a, _, n = rows_of(6, each)
    sizes = [len(rows_of(6, [one])[0]) for one in each]
    scale = np.repeat([ratio[name] for name in judge.labels], sizes)
    k = gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6])(ITEMS).numpy()
    slow = slow_sets(a @ k @ a.T + 0.3 * scale[:, None] * n, np.zeros(len(n)))
    np.testing.assert_allclose(float(model.log_evidence()), slow.log_evidence, rtol=IDENTITY)


def test_equal_features_have_noises_of_their_own() -> None:
    """Three alternatives that nothing tells apart are each chosen with one probability."""
    duels = spg.Duels.from_events(np.zeros((3, 1)), sets([CHOICE], [[1, 0, 2]]))
    for approximation in (spg.Exact(), spg.VFE()):
        inducing = np.zeros((1, 1)) if approximation.needs_inducing else None
        model = spg.PreferenceGP(
            duels,
            gpflow.kernels.Matern52(),
            approximation=approximation,
            inducing_variable=inducing,
            engine=TIGHT,
        )
        assert round(float(model.log_evidence()) + np.log(3.0), 4) == -0.0018


@pytest.mark.slow
def test_steps_settle_at_low_noise() -> None:
    """Undamped, twelve answers over eight items go round in circles at s² = 0.01."""
    dampings = []
    for kind in (CHOICE, RANKING, TOP, BEST_WORST, BEST_WORST_AT_ONCE):
        rng = np.random.default_rng(12)
        items, kernel = rng.uniform(size=(8, 2)), gpflow.kernels.SquaredExponential(1.0, [0.4, 0.4])
        f = np.linalg.cholesky(kernel(items).numpy() + 1e-10 * np.eye(8)) @ rng.standard_normal(8)
        sides = []
        for _ in range(12):
            drawn = rng.choice(8, int(rng.integers(4, 7)), replace=False)
            noisy = f[drawn] + 0.1 * rng.standard_normal(len(drawn))
            sides.append(drawn[np.argsort(-noisy)].tolist())
        duels = spg.Duels.from_events(items, sets([kind] * 12, sides))
        model = spg.PreferenceGP(duels, kernel, approximation=spg.Exact(), noise_variance=0.01)
        model.warned_about_scale = True
        found = model.infer()
        assert found.converged and found.sweeps < 200
        dampings.append(found.damping)
    assert min(dampings) < 1.0


def test_what_sets_cannot_go_with() -> None:
    weights = np.full(7, 0.5)
    for match, more in (
        (apart("sets", "shares_of_answers"), {"events": MIXED.saying(weights=weights)}),
        (apart("sets", "margins_or_ties"), {"likelihood": spg.Probit(margin=0.2)}),
        (
            apart("sets", "margins_or_ties"),
            {
                "events": MIXED.saying(kind=_as(MIXED.kind, 5, TIE)),
                "likelihood": spg.Probit(margin=0.2),
            },
        ),
        (apart("sets", "logistic"), {"engine": spg.Laplace(link="logit")}),
        (apart("best_and_worst_at_once", "own_noise"), {"engine": spg.Laplace()}),
        (apart("best_and_worst_at_once", "own_noise"), {"engine": spg.Variational()}),
        (apart("best_and_worst_at_once", "own_noise"), {"engine": spg.ParallelEP(site_power=0.5)}),
    ):
        with pytest.raises(ValueError, match=match):
            mixed(spg.Exact(), **more)
    with pytest.raises(ValueError, match="over="):
        mixed(spg.Exact(over="items")).log_evidence()
    model = mixed(spg.VFE())
    for ask in (
        lambda: model.duels.winners,
        lambda: linear_probit(model.duels),
    ):
        with pytest.raises(ValueError, match="sets"):
            ask()


def _as(kinds: np.ndarray, place: int, kind: int) -> np.ndarray:
    found = kinds.copy()
    found[place] = kind
    return found


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = mixed(spg.VFE())
    expected = model.predict_f(ITEMS)
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.duels.events.ordered, model.duels.events.ordered)
    np.testing.assert_allclose(loaded.predict_f(ITEMS), expected, rtol=ROUNDING)
    np.testing.assert_allclose(
        float(loaded.log_evidence()), float(model.log_evidence()), rtol=ROUNDING
    )
