"""Every approximation against the reference fixed points, and against what theory says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.data.graph import DuelGraph
from tests.cases import (
    ALL,
    DUEL_CASES,
    FORMS,
    ROWS,
    SPARSE,
    case_duels,
    case_kernel,
    case_model,
    random_duels,
    run_problem,
)
from tests.reference.slow_approximations import matern52, slow_posterior, squared_exponential
from tests.tolerances import (
    EP_ERROR,
    EVIDENCE,
    FIXED_POINT,
    IDENTITY,
    ROUNDING,
    SINGLE_SUMS,
    SMALL_POWER,
    SOLVER,
)

Make = Callable[..., Approximation]


# The five reference cases.


# Each row, each case, and low noise (case 2) with what one meets most; `test_items_and_duels_agree`
# takes the algebra over duels of all rows.
@pytest.mark.covering(
    "1-exact-items", "2-exact-items", "0-exact-duels", "0-dtc-items", "1-vfe-items", "2-vfe-items"
)
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("index", range(len(DUEL_CASES)))
def test_reference_case(index: int, row: str, over: str) -> None:
    check_reference(index, row, case_model(DUEL_CASES[index], ROWS[row](over=over)))


@pytest.mark.covering("1-exact-items")
@pytest.mark.parametrize(
    ("index", "row", "over"),
    [
        (1, "exact", "items"),
        (2, "exact", "duels"),
        (3, "vfe", "items"),
        (2, "fitc", "duels"),
        (4, "hetero_vfe", "items"),
    ],
)
def test_reference_case_sequentially(index: int, row: str, over: str) -> None:
    engine = spg.SequentialEP(tolerance=SOLVER)
    check_reference(index, row, case_model(DUEL_CASES[index], ROWS[row](over=over), engine))


def check_reference(index: int, row: str, model: spg.PreferenceGP) -> None:
    case = DUEL_CASES[index]
    expected = case["results"][row]
    assert model.infer().converged
    assert model.infer().jitter == 0.0
    assert model.log_evidence() == pytest.approx(expected["log_evidence"], abs=EVIDENCE, rel=0)
    mean, cov = model.predict_f(np.array(case["test_items"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(cov[0], expected["cov"], atol=FIXED_POINT, rtol=0)


@pytest.mark.covering("1-rank-items", "2-rank-duels", "2-logdet-items")
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("residual", ["rank", "logdet"])
@pytest.mark.parametrize("index", [1, 2])
def test_tight_forms_against_slow_code(index: int, residual: str, over: str) -> None:
    case = DUEL_CASES[index]
    make = {"se": squared_exponential, "matern52": matern52}[case["kernel"]]
    slow = slow_posterior(
        case["items"],
        case["winners"],
        case["losers"],
        make(case["variance"], case["lengthscales"]),
        case["noise_variance"],
        f"tight_vfe_{residual}",
        inducing=case["inducing"],
        tolerance=FIXED_POINT,
    )
    model = case_model(case, spg.TightVFE(residual=residual, over=over))
    assert model.log_evidence() == pytest.approx(slow.log_evidence, abs=EVIDENCE, rel=0)


# Two forms of the same algebra.


@pytest.mark.parametrize("name", ALL)
@pytest.mark.covering(every=4)
def test_items_and_duels_agree(name: str) -> None:
    case = DUEL_CASES[1]
    items, duels = (case_model(case, ALL[name](over=over)) for over in FORMS)
    assert items.log_evidence() == pytest.approx(duels.log_evidence(), abs=IDENTITY, rel=IDENTITY)
    new = np.array(case["test_items"])
    for first, second in zip(
        items.predict_f(new, full_cov=True), duels.predict_f(new, full_cov=True), strict=True
    ):
        np.testing.assert_allclose(first, second, atol=IDENTITY, rtol=IDENTITY)


def test_cheaper_form_is_chosen() -> None:
    # 12 items, 30 duels: over items; 20 items with as many duels or fewer: over duels.
    many = case_model(DUEL_CASES[1], spg.Exact())
    few = case_model(DUEL_CASES[0], spg.Exact())
    features = [m.approximation.prior(m.problem()).features for m in (many, few)]
    probe = np.array(DUEL_CASES[1]["test_items"])
    assert features[0](probe).shape[1] == many.graph.num_rows < many.graph.num_sites
    probe = np.array(DUEL_CASES[0]["test_items"])
    assert few.graph.num_sites <= few.graph.num_rows
    assert features[1](probe).shape[1] == few.graph.num_sites


# Counts.


@pytest.mark.covering("Exact-items", "Exact-duels", "VFE-items")
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", ALL)
def test_counts_equal_separate_duels(name: str, over: str) -> None:
    graph = DuelGraph.from_duels(random_duels(3, items=5, duels=25))
    assert graph.counts.max() >= 2
    repeat = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    separate = replace(
        graph,
        winners=graph.winners[repeat],
        losers=graph.losers[repeat],
        counts=np.ones(len(repeat)),
        lower=graph.lower[repeat],
        upper=graph.upper[repeat],
    )
    approximation = ALL[name](over=over)
    kernel = gpflow.kernels.Matern32(lengthscales=[0.8, 1.5])
    z = graph.rows[:3] + 0.1 if approximation.needs_inducing else None
    results = [run_problem(g, kernel, approximation, 0.2, z) for g in (graph, separate)]
    assert results[0][2] == pytest.approx(results[1][2], abs=IDENTITY, rel=IDENTITY)
    np.testing.assert_allclose(
        results[0][1].found.mean.numpy()[repeat],
        results[1][1].found.mean,
        atol=IDENTITY,
        rtol=IDENTITY,
    )


# When Z is all items nothing is approximated.


@pytest.fixture(scope="module")
def exact_of_all_items() -> spg.PreferenceGP:
    duels, kernel = all_items_case(11)
    return spg.PreferenceGP(
        duels, kernel, engine=spg.ParallelEP(tolerance=SOLVER), noise_variance=0.3
    )


def all_items_case(seed: int) -> tuple[spg.Duels, gpflow.kernels.Kernel]:
    duels = random_duels(seed, items=8, duels=20)
    kernel = gpflow.kernels.Matern32(variance=1.7, lengthscales=[0.6, 0.9])
    assert np.linalg.cond(kernel(duels.items).numpy()) < 1e6
    return duels, kernel


# Over items all of them are quick in `test_all_items_on_a_reference_case`.
@pytest.mark.covering("DTC-items", "VFE-duels", "TightVFE-logdet-duels")
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", SPARSE)
def test_all_items_as_inducing_inputs_is_exact(
    exact_of_all_items: spg.PreferenceGP, name: str, over: str
) -> None:
    exact = exact_of_all_items
    duels = exact.duels
    sparse = spg.PreferenceGP(
        duels,
        exact.kernel,
        approximation=SPARSE[name](over=over),
        inducing_variable=duels.items.copy(),
        engine=exact.engine,
        noise_variance=0.3,
    )
    assert sparse.log_evidence() == pytest.approx(exact.log_evidence(), abs=IDENTITY, rel=0)
    new = np.random.default_rng(1).normal(size=(4, 2))
    for a, b in zip(
        sparse.predict_f(new, full_cov=True), exact.predict_f(new, full_cov=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=IDENTITY, rtol=IDENTITY)


def test_all_items_on_a_reference_case() -> None:
    case = DUEL_CASES[3]
    assert np.linalg.cond(case_kernel(case)(np.array(case["items"])).numpy()) < 1e6
    exact = case["results"]["exact"]["log_evidence"]
    for make in SPARSE.values():
        model = case_model(case, make(), inducing=np.array(case["items"]))
        assert model.log_evidence() == pytest.approx(exact, abs=EVIDENCE, rel=0)


# Subset of data.


def test_subset_of_all_duels_is_exact() -> None:
    duels, kernel = all_items_case(12)
    models = [
        spg.PreferenceGP(duels, kernel, approximation=a, engine=spg.ParallelEP(tolerance=SOLVER))
        for a in (spg.Exact(), spg.SubsetOfData(duels.num_duels))
    ]
    values = [m.log_evidence() for m in models]
    assert values[0] == pytest.approx(values[1], abs=IDENTITY, rel=0)
    new = duels.items[:3] + 0.2
    for a, b in zip(*(m.predict_f(new, full_cov=True) for m in models), strict=True):
        np.testing.assert_allclose(a, b, atol=IDENTITY, rtol=IDENTITY)


def test_subset_is_exact_on_what_it_drew() -> None:
    duels, kernel = all_items_case(13)
    model = spg.PreferenceGP(duels, kernel, approximation=spg.SubsetOfData(7, seed=3))
    graph = model.graph
    assert graph.counts.sum() == 7
    # It drew from the data: every drawn site is a duel of theirs, at most as often.
    full = DuelGraph.from_duels(duels)
    of_data = {
        (*full.rows[w], *full.rows[loser]): c
        for w, loser, c in zip(full.winners, full.losers, full.counts, strict=True)
    }
    for w, loser, c in zip(graph.winners, graph.losers, graph.counts, strict=True):
        assert c <= of_data[(*graph.rows[w], *graph.rows[loser])]
    alone = spg.PreferenceGP(
        spg.Duels(graph.rows, graph.winners, graph.losers, graph.counts.astype(int)),
        kernel,
        approximation=spg.Exact(),
    )
    assert model.log_evidence() == pytest.approx(alone.log_evidence(), abs=IDENTITY, rel=0)
    again = spg.PreferenceGP(duels, kernel, approximation=spg.SubsetOfData(7, seed=3))
    np.testing.assert_array_equal(again.graph.winners, graph.winners)
    np.testing.assert_array_equal(again.graph.rows, graph.rows)
    other = spg.PreferenceGP(duels, kernel, approximation=spg.SubsetOfData(7, seed=4))
    assert other.log_evidence() != model.log_evidence()


# Bounds.


@pytest.fixture(scope="module", params=range(2))
def bounded(request: pytest.FixtureRequest) -> dict[str, float]:
    """Evidences of one random problem at the standard noise, where EP errs by some 1e-3."""
    duels = random_duels(20 + request.param, items=10, duels=25)
    kernel = gpflow.kernels.SquaredExponential(variance=0.8, lengthscales=0.7)
    z = duels.items[:: 2 + request.param].copy()
    values = {}
    for name, make in ALL.items():
        approximation = make()
        model = spg.PreferenceGP(
            duels,
            kernel,
            approximation=approximation,
            inducing_variable=z if approximation.needs_inducing else None,
            engine=spg.ParallelEP(tolerance=SOLVER),
        )
        values[name] = model.log_evidence()
    return values


BOUNDS = ("VFE", "TightVFE-diagonal", "TightVFE-rank", "TightVFE-logdet")


@pytest.mark.parametrize("name", BOUNDS)
def test_bound_is_not_above_exact(bounded: dict[str, float], name: str) -> None:
    assert bounded[name] <= bounded["Exact"] + EP_ERROR
    assert bounded[name] < bounded["Exact"] - 10 * EP_ERROR or name == "TightVFE-logdet"


def test_order_of_the_bounds(bounded: dict[str, float]) -> None:
    tightest = bounded["TightVFE-logdet"]
    assert tightest >= bounded["TightVFE-rank"] - IDENTITY
    assert tightest >= bounded["TightVFE-diagonal"] - IDENTITY
    assert bounded["TightVFE-diagonal"] > bounded["VFE"]
    assert bounded["TightVFE-rank"] > bounded["VFE"]


@pytest.mark.covering("1")
@pytest.mark.parametrize("index", range(5))
def test_order_of_the_bounds_on_reference_cases(index: int) -> None:
    case = DUEL_CASES[index]
    values = {
        residual: case_model(case, spg.TightVFE(residual=residual)).log_evidence()
        for residual in ("diagonal", "rank", "logdet")
    }
    assert values["logdet"] >= max(values["rank"], values["diagonal"]) - EVIDENCE
    assert values["logdet"] <= case["results"]["exact"]["log_evidence"] + EP_ERROR


def test_vfe_does_not_fall_when_an_item_joins() -> None:
    duels = random_duels(31, items=9, duels=30)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=0.8)
    values = [
        spg.PreferenceGP(
            duels, kernel, approximation=spg.VFE(), inducing_variable=duels.items[:m].copy()
        ).log_evidence()
        for m in range(1, 10)
    ]
    assert np.all(np.diff(values) >= -EVIDENCE)
    assert values[-1] > values[0]


# The power family.


@pytest.mark.parametrize("over", FORMS)
def test_power_one_is_fitc(over: str) -> None:
    case = DUEL_CASES[2]
    models = [case_model(case, a) for a in (spg.PriorPower(1.0, over=over), spg.FITC(over=over))]
    first, second = (m.log_evidence() for m in models)
    assert first == pytest.approx(second, abs=IDENTITY, rel=0)
    new = np.array(case["test_items"])
    for a, b in zip(*(m.predict_f(new) for m in models), strict=True):
        np.testing.assert_allclose(a, b, atol=IDENTITY, rtol=IDENTITY)


@pytest.mark.covering("1-duels")
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("index", [1, 3])
def test_small_power_approaches_vfe(index: int, over: str) -> None:
    case = DUEL_CASES[index]
    vfe = case["results"]["vfe"]["log_evidence"]
    powers = (0.5, 1e-2, 1e-4, 1e-6)
    gaps = [
        abs(case_model(case, spg.PriorPower(p, over=over)).log_evidence() - vfe) for p in powers
    ]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[3] < SMALL_POWER * abs(vfe)


# One duel.


def one_duel(approximation: Approximation, noise: float = 0.5) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels(np.array([[0.0], [1.0]]), [0], [1]),
        gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=0.9),
        approximation=approximation,
        inducing_variable=np.array([[0.3]]) if approximation.needs_inducing else None,
        noise_variance=noise,
    )


# Each in one form and at one noise, VFE in both.
@pytest.mark.covering(
    "Exact-duels-0.5",
    "DTC-items-0.0001",
    "VFE-items-0.5",
    "VFE-duels-0.0001",
    "TightVFE-diagonal-items-0.0001",
    "TightVFE-rank-duels-0.5",
    "TightVFE-logdet-items-0.0001",
    "FITC-duels-0.0001",
    "HeteroscedasticVFE-items-0.5",
    "PriorPower-0.5-duels-0.0001",
)
@pytest.mark.parametrize("noise", [1e-4, 0.5])
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", ALL)
def test_one_duel_has_evidence_of_one_half(name: str, over: str, noise: float) -> None:
    def k(x: float, y: float) -> float:
        return 1.3 * np.exp(-0.5 * ((x - y) / 0.9) ** 2)

    residual = k(0, 0) + k(1, 1) - 2 * k(0, 1) - (k(1, 0.3) - k(0, 0.3)) ** 2 / k(0.3, 0.3)
    ratio = residual / (2 * noise)
    correction = {
        "Exact": 0.0,
        "DTC": 0.0,
        "FITC": 0.0,
        "VFE": -ratio / 2,
        "TightVFE-diagonal": -0.5 * np.log1p(ratio),
        "TightVFE-rank": -0.5 * np.log1p(ratio),
        "TightVFE-logdet": -0.5 * np.log1p(ratio),
        "HeteroscedasticVFE": -0.5 * ratio / (1 + ratio),
        "PriorPower-0.5": -0.5 * np.log1p(0.5 * ratio),
    }[name]
    model = one_duel(ALL[name](over=over), noise)
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(
        np.log(0.5) + correction, abs=ROUNDING, rel=ROUNDING
    )


def test_one_duel_subset() -> None:
    assert one_duel(spg.SubsetOfData(1)).log_evidence() == pytest.approx(np.log(0.5), abs=ROUNDING)


# Bad settings.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spg.PriorPower(0.0), r"PriorPower is 0.0; give a number, above 0, or use VFE\(\)"),
        (lambda: spg.PriorPower(1.5), "PriorPower is 1.5; give a number, above 0 and at most 1"),
        (lambda: spg.PriorPower(float("nan")), "PriorPower is nan; give a number, above 0"),
        (
            lambda: spg.TightVFE(residual="trace"),
            "residual is 'trace'; choose from diagonal, block, rank, logdet",
        ),
        (lambda: spg.SubsetOfData(0), "SubsetOfData is 0; give a whole number, at least 1"),
        (lambda: spg.Exact(over="both"), "over is 'both'; choose from items, duels"),
        (lambda: spg.VFE(over="pairs"), "over is 'pairs'; choose from items, duels"),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_subset_larger_than_the_data_is_refused() -> None:
    duels = case_duels(DUEL_CASES[0])
    with pytest.raises(ValueError, match=r"size=9\) asks for more than the 4 duels"):
        spg.PreferenceGP(
            duels, gpflow.kernels.SquaredExponential(), approximation=spg.SubsetOfData(9)
        )


def test_what_all_items_share_takes_no_digits_from_single_precision() -> None:
    def build(single: bool) -> spg.PreferenceGP:
        return spg.PreferenceGP(
            random_duels(0, items=100, duels=3000),
            gpflow.kernels.Matern52(variance=1e4, lengthscales=20.0),
            approximation=spg.VFE(over="items", single_precision=single),
            inducing_variable=np.random.default_rng(0).normal(size=(16, 2)),
        )

    double, single = build(False), build(True)
    assert single.infer().converged and single.infer().sweeps == double.infer().sweeps
    # Nearly the whole of the features is one row that all items share and that no duel sees.
    features = double.approximation.prior(double.problem()).features(double.duels.items)
    shared, rest = np.mean(features, 0), np.std(features, 0)
    assert np.linalg.norm(shared) > 10.0 * np.linalg.norm(rest)
    assert single.log_evidence() == pytest.approx(double.log_evidence(), rel=SINGLE_SUMS / 10)
    pairs = double.duels.items[:50], double.duels.items[50:]
    for one, other in zip(
        single.predict_difference(*pairs), double.predict_difference(*pairs), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=SINGLE_SUMS, atol=SINGLE_SUMS)


def test_approximations_are_values() -> None:
    assert spg.PriorPower(0.5) == spg.PriorPower(0.5) != spg.PriorPower(0.6)
    assert hash(spg.TightVFE()) == hash(spg.TightVFE())
    with pytest.raises(AttributeError):
        spg.PriorPower(0.5).power = 0.1  # type: ignore[misc]


def test_single_precision_stays_within_its_rounding() -> None:
    def build(**settings: Any) -> spg.PreferenceGP:
        return spg.PreferenceGP(
            random_duels(0, items=30, duels=300),
            gpflow.kernels.Matern52(),
            approximation=spg.VFE(**settings),
            inducing_variable=np.random.default_rng(0).normal(size=(8, 2)),
        )

    double, single = build(over="items"), build(over="items", single_precision=True)
    assert single.infer().converged
    assert single.log_evidence() != double.log_evidence()
    assert single.log_evidence() == pytest.approx(double.log_evidence(), rel=SINGLE_SUMS)
    for one, other in zip(
        single.predict_f(double.duels.items), double.predict_f(double.duels.items), strict=True
    ):
        assert one.dtype == tf.float64
        np.testing.assert_allclose(one, other, atol=SINGLE_SUMS)
    with pytest.warns(UserWarning, match="take the form over duels, in float64"):
        assert build(over="duels", single_precision=True).log_evidence() == pytest.approx(
            double.log_evidence(), rel=IDENTITY
        )
