"""First inducing inputs by name, against dense code that computes everything afresh."""

from __future__ import annotations

from pathlib import Path

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.learning import initial
from sparse_prefgp.learning.initial import (
    METHODS,
    AutoInputs,
    auto_inputs,
    initial_inputs,
    residual_shares,
)
from tests.cases import incidence, random_duels
from tests.reference.slow_greedy import (
    best_by_variance,
    item_residual,
    left_by_each,
    unexplained,
)
from tests.together import apart
from tests.tolerances import IDENTITY

DUELS = random_duels(0, items=30, duels=70)
GRAPH = DuelGraph.from_duels(DUELS)
ROWS = GRAPH.rows - DUELS.items.mean(axis=0)  # linear terms are about the mean of the items
KERNELS = {
    "matern52": lambda: gpflow.kernels.Matern52(lengthscales=[0.7, 1.5]),
    "sum": lambda: gpflow.kernels.SquaredExponential() + gpflow.kernels.Linear(variance=0.3),
    "scaled": lambda: gpflow.kernels.Matern32(variance=50.0, active_dims=[1]),
    "projected": lambda: spg.Projected(gpflow.kernels.Matern52(), W),
}
W = np.array([[0.8], [-1.1]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def positions(inputs: np.ndarray) -> list[int]:
    return [int(np.flatnonzero(np.all(GRAPH.rows == x, axis=1))[0]) for x in inputs]


def slow_share(covariance: np.ndarray, chosen: list[int]) -> float:
    a = incidence(GRAPH)
    return unexplained(covariance, chosen, a, GRAPH.counts) / unexplained(
        covariance, [], a, GRAPH.counts
    )


@pytest.mark.parametrize("name", KERNELS)
def test_variance_takes_the_least_explained(name: str) -> None:
    kernel = KERNELS[name]()
    covariance = kernel(ROWS).numpy()
    chosen = positions(initial_inputs("variance", DUELS, kernel, 12, rng()))
    for m in range(12):
        # Equal variances are a tie, which any item may win.
        before = best_by_variance(covariance, chosen[:m])[1]
        left = np.diag(item_residual(covariance, chosen[:m]))[chosen[m]]
        assert left == pytest.approx(before, rel=IDENTITY, abs=IDENTITY)


@pytest.mark.parametrize("name", KERNELS)
def test_duels_takes_the_one_that_explains_most(name: str) -> None:
    kernel = KERNELS[name]()
    covariance = kernel(ROWS).numpy()
    chosen = positions(initial_inputs("duels", DUELS, kernel, 12, rng()))
    a = incidence(GRAPH)
    scale = unexplained(covariance, [], a, GRAPH.counts)
    for m in range(12):
        left = left_by_each(covariance, chosen[:m], a, GRAPH.counts)
        assert left[chosen[m]] - left.min() <= IDENTITY * scale


def test_duels_from_a_candidate_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial, "_NUMBERS", 10 * len(ROWS))  # ten candidates
    kernel = KERNELS["matern52"]()
    covariance, a = kernel(ROWS).numpy(), incidence(GRAPH)
    pool = np.random.default_rng(5).permutation(len(GRAPH.rows))[
        :10
    ]  # what the function draws first
    chosen = positions(initial_inputs("duels", DUELS, kernel, 5, rng(5)))
    for m in range(5):
        left = left_by_each(covariance, chosen[:m], a, GRAPH.counts)[pool]
        assert left[list(pool).index(chosen[m])] == pytest.approx(left.min(), rel=IDENTITY)


def test_scores_that_lost_their_digits_are_computed_afresh() -> None:
    # The unexplained falls from 3 to 1e-9 and scores, quadratic in it, below what rank-one changes
    # can follow: without computing them afresh the choice is wrong from the eleventh item on.
    kernel = gpflow.kernels.SquaredExponential(lengthscales=8.0)
    covariance, a = kernel(ROWS).numpy(), incidence(GRAPH)
    chosen = positions(initial_inputs("duels", DUELS, kernel, 15, rng()))
    for m in range(15):
        left = left_by_each(covariance, chosen[:m], a, GRAPH.counts)
        assert chosen[m] == int(np.argmin(left))


@pytest.mark.parametrize("name", KERNELS)
def test_shares_are_those_of_every_prefix(name: str) -> None:
    kernel = KERNELS[name]()
    covariance = kernel(ROWS).numpy()
    chosen = [3, 17, 5, 22, 11, 0]
    shares, jitter = residual_shares(DUELS, kernel, GRAPH.rows[chosen])
    assert jitter == 0.0
    slow = [slow_share(covariance, chosen[:m]) for m in range(1, 7)]
    np.testing.assert_allclose(shares, slow, rtol=0, atol=IDENTITY)
    assert np.all(np.diff(shares) <= 0.0)


def test_share_is_the_models_own_residual() -> None:
    kernel = KERNELS["sum"]()
    inputs = initial_inputs("kmeans", DUELS, kernel, 6, rng())
    base = spg.DTC(), spg.VFE()
    dtc, vfe = (
        spg.PreferenceGP(DUELS, kernel, approximation=row, inducing_variable=inputs).log_evidence()
        for row in base
    )
    total = unexplained(kernel(ROWS).numpy(), [], incidence(GRAPH), GRAPH.counts)
    share = residual_shares(DUELS, kernel, inputs)[0][-1]
    assert dtc - vfe == pytest.approx(share * total / (4.0 * 0.5), rel=IDENTITY)


@pytest.mark.parametrize("method", METHODS)
def test_the_common_door(method: str) -> None:
    kernel = KERNELS["matern52"]()
    found = initial_inputs(method, DUELS, kernel, 9, rng(3))
    assert found.shape == (9, 2)
    assert len(np.unique(found, axis=0)) == 9
    np.testing.assert_array_equal(found, initial_inputs(method, DUELS, kernel, 9, rng(3)))
    every = initial_inputs(method, DUELS, kernel, len(GRAPH.rows), rng(3))
    np.testing.assert_array_equal(np.unique(every, axis=0), GRAPH.rows)
    assert residual_shares(DUELS, kernel, every)[0][-1] < IDENTITY


@pytest.mark.slow
def test_greedy_choices_leave_less_than_random_ones() -> None:
    kernel = KERNELS["matern52"]()

    def left(method: str) -> float:
        draws = [initial_inputs(method, DUELS, kernel, 8, rng(seed)) for seed in range(5)]
        return float(np.mean([residual_shares(DUELS, kernel, z)[0][-1] for z in draws]))

    assert left("duels") < left("variance") < left("random")


def test_duplicate_items_are_one() -> None:
    items = np.repeat(np.arange(6.0)[:, None], 2, axis=0)
    duels = spg.Duels(items, [0, 2, 4, 6, 8, 1], [2, 4, 6, 8, 10, 11])
    for method in METHODS:
        found = initial_inputs(method, duels, gpflow.kernels.Matern52(), 6, rng())
        np.testing.assert_array_equal(np.sort(found[:, 0]), np.arange(6.0))
        with pytest.raises(ValueError, match="7 inducing inputs are more than the 6 distinct"):
            initial_inputs(method, duels, gpflow.kernels.Matern52(), 7, rng())


@pytest.mark.parametrize("method", ["variance", "duels"])
def test_more_than_the_kernel_can_use(method: str) -> None:
    kernel = gpflow.kernels.Linear()  # of rank 2
    found = initial_inputs(method, DUELS, kernel, 10, rng())
    assert len(np.unique(found, axis=0)) == 10
    assert residual_shares(DUELS, kernel, found[:2])[0][-1] < IDENTITY


def test_item_effects_do_not_count() -> None:
    kernel = KERNELS["matern52"]()
    for method in METHODS:
        np.testing.assert_array_equal(
            initial_inputs(method, DUELS, kernel + spg.ItemEffect(), 5, rng()),
            initial_inputs(method, DUELS, kernel, 5, rng()),
        )
    with pytest.raises(ValueError, match="nothing that inducing inputs could explain"):
        initial_inputs("duels", DUELS, spg.ItemEffect(), 5, rng())


# How many.


@pytest.mark.parametrize("method", METHODS)
def test_auto_stops_at_the_share(method: str) -> None:
    kernel = KERNELS["matern52"]()
    found = auto_inputs(method, DUELS, kernel, rng(1), share=0.1)
    assert found.reason == "share reached"
    assert found.share <= 0.1
    assert dict(found.trace)[len(found.inputs)] == found.share
    assert len(found.inputs) < 25
    assert next(m for m, left in found.trace if left <= 0.1) == len(found.inputs)
    if method == "kmeans":
        assert dict(found.trace)[len(found.inputs) - 1] > 0.1
    else:
        assert found.trace[-1] == (len(found.inputs), found.share)
        covariance = kernel(ROWS).numpy()
        chosen = positions(found.inputs)
        slow = [(m, slow_share(covariance, chosen[:m])) for m in range(1, len(chosen) + 1)]
        np.testing.assert_allclose(found.trace, slow, rtol=0, atol=IDENTITY)
    assert f"{len(found.inputs)} inducing inputs ({method})" in str(found)


def test_auto_says_why_it_stopped() -> None:
    kernel = gpflow.kernels.Matern12(lengthscales=0.01)  # nothing explains anything else
    found = auto_inputs("variance", DUELS, kernel, rng(), share=1e-6, maximum=5)
    assert (found.reason, len(found.inputs)) == ("maximum", 5)
    assert "the maximum" in str(found)
    found = auto_inputs("variance", DUELS, kernel, rng(), share=1e-6, maximum=30)
    assert found.share <= 1e-6
    white = kernel + gpflow.kernels.White(1.0)
    found = auto_inputs("variance", DUELS, white, rng(), share=1e-6)
    assert (found.reason, len(found.inputs)) == ("all items", len(GRAPH.rows))
    assert "all distinct items" in str(found)


def test_auto_as_a_count() -> None:
    kernel = KERNELS["matern52"]()
    found = initial_inputs("variance", DUELS, kernel, "auto", rng(2))
    same = auto_inputs("variance", DUELS, kernel, rng(2))
    np.testing.assert_array_equal(found, same.inputs)
    assert str(found) == str(same) and found.reason == "share reached"
    # It goes where an array of inputs goes.
    model = spg.PreferenceGP(DUELS, kernel, approximation=spg.VFE(), inducing_variable=found)
    np.testing.assert_array_equal(model.inducing_variable.Z, same.inputs)
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    copied = np.array(found)
    copied[:] = 0.0
    np.testing.assert_array_equal(found.inputs, same.inputs)


def test_auto_under_a_projection_is_that_of_projected_items() -> None:
    found = initial_inputs("variance", DUELS, KERNELS["projected"](), "auto", rng(2))
    covariance = gpflow.kernels.Matern52()(GRAPH.rows @ W).numpy()
    chosen = positions(found.inputs)
    slow = [(m, slow_share(covariance, chosen[:m])) for m in range(1, len(chosen) + 1)]
    np.testing.assert_allclose(found.trace, slow, rtol=0, atol=IDENTITY)
    model = spg.PreferenceGP(
        DUELS, KERNELS["projected"](), approximation=spg.VFE(), inducing_variable=found
    )
    np.testing.assert_allclose(model.inducing_variable.Z, found.inputs @ W, rtol=IDENTITY)


@pytest.mark.slow
def test_auto_by_the_gap() -> None:
    kernel = gpflow.kernels.Matern52(lengthscales=1.5)

    def model(inputs: np.ndarray) -> spg.PreferenceGP:
        return spg.PreferenceGP(
            DUELS, kernel, approximation=spg.FITC(), inducing_variable=inputs, noise_variance=0.2
        )

    found = auto_inputs("variance", DUELS, kernel, rng(), criterion="gap", share=0.05, model=model)
    assert found.reason == "share reached"
    fitted = model(found.inputs)
    gap = (fitted.log_evidence() - fitted.lower_bound()) / abs(fitted.log_evidence())
    assert found.share == pytest.approx(gap, abs=IDENTITY)
    assert found.share <= 0.05 < dict(found.trace)[len(found.inputs) - 1]
    assert [m for m, _ in found.trace] == sorted({m for m, _ in found.trace})


class _Below(spg.PreferenceGP):
    """Its evidence is half a nat below its bound, as EP's error can make it."""

    def lower_bound(self) -> float:
        return self.log_evidence() + 0.5


def test_an_evidence_below_the_bound_is_said() -> None:
    kernel = gpflow.kernels.Matern52(lengthscales=1.5)

    def model(inputs: np.ndarray) -> spg.PreferenceGP:
        return _Below(DUELS, kernel, approximation=spg.FITC(), inducing_variable=inputs)

    found = auto_inputs("variance", DUELS, kernel, rng(), criterion="gap", model=model)
    assert found.share < 0.0 and found.reason == "bound passed"
    assert "evidence lies below its own bound" in str(found)


def test_duels_between_equal_items_need_one_input() -> None:
    duels = spg.Duels(np.zeros((3, 1)), [0, 1], [1, 2])
    found = auto_inputs("duels", duels, gpflow.kernels.Matern52(), rng())
    assert (len(found.inputs), found.share, found.reason) == (1, 0.0, "share reached")


def by_the_gap(kernel: gpflow.kernels.Kernel, approximation: Approximation) -> AutoInputs:
    def model(inputs: np.ndarray) -> spg.PreferenceGP:
        z = inputs if approximation.needs_inducing else None
        return spg.PreferenceGP(DUELS, kernel, approximation=approximation, inducing_variable=z)

    return auto_inputs("duels", DUELS, kernel, rng(), criterion="gap", model=model)


BY_THE_GAP = r"'gap' and {} do not go together: use FITC\(\) or DTC\(\), or the criterion"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: initial_inputs("kmean", DUELS, k, 3, rng()), "did you mean kmeans"),
        (lambda k: initial_inputs("??", DUELS, k, 3, rng()), "choose from random, kmeans"),
        (lambda k: initial_inputs("duels", DUELS, k, 0, rng()), "at least 1"),
        (lambda k: initial_inputs("duels", DUELS, k, 31, rng()), "more than the"),
        (
            lambda k: initial_inputs("duels", DUELS, k, "all", rng()),
            "count is 'all'; choose from auto",
        ),
        (
            lambda k: auto_inputs("duels", DUELS, k, rng(), share=0.0),
            "share is 0.0; give a number, above 0 and below 1",
        ),
        (lambda k: auto_inputs("duels", DUELS, k, rng(), share=np.nan), "share is nan; give a"),
        (
            lambda k: auto_inputs("duels", DUELS, k, rng(), maximum=0),
            "maximum is 0; give a number, at least 1",
        ),
        (lambda k: auto_inputs("duels", DUELS, k, rng(), criterion="gaps"), "mean gap"),
        (lambda k: by_the_gap(k, spg.VFE()), "VFE" + apart("gap", "no_gap")),
        (lambda k: by_the_gap(k, spg.TightVFE()), "TightVFE" + apart("gap", "no_gap")),
        (lambda k: by_the_gap(k, spg.Exact()), "Exact" + apart("gap", "no_gap")),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(KERNELS["matern52"]())
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_greedy_on_real_items(data_dir: Path) -> None:
    folder = data_dir / "ukp_convincing"
    duels = spg.read_duels(
        folder / "items.csv.gz", folder / "gold_duels.csv.gz", ignore=["source_id", "debate"]
    )
    kernel = gpflow.kernels.Matern52(lengthscales=np.sqrt(duels.num_features))
    left = {
        method: residual_shares(duels, kernel, initial_inputs(method, duels, kernel, 64, rng()))[0]
        for method in METHODS
    }
    assert min(left, key=lambda name: left[name][-1]) in ("duels", "kmeans")
    assert left["duels"][-1] < left["variance"][-1]
    assert left["duels"][-1] < left["random"][-1]
