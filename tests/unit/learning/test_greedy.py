"""Greedy variational EM: gains against dense code and re-converged inference, and monotony."""

from __future__ import annotations

from dataclasses import dataclass, replace

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import spearmanr
from tensorflow_probability import distributions as tfd

import sparse_prefgp as spg
from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.covariances.kernels import centred
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.learning.greedy import GreedyStep, addition_gains, greedy_em
from sparse_prefgp.learning.initial import initial_inputs
from tests.cases import incidence, random_duels
from tests.reference.slow_greedy import held_value
from tests.together import apart
from tests.tolerances import EVIDENCE, GREEDY_SHARE, IDENTITY, ROUNDING, SOLVER


def learnable(seed: int = 0, items: int = 30, duels: int = 120) -> spg.Duels:
    """Duels that follow a smooth utility, some of them repeated."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 2))
    first = rng.integers(items, size=duels)
    second = (first + rng.integers(1, items, size=duels)) % items
    utility = 2.0 * np.sin(x[:, 0]) + x[:, 1]
    wins = utility[first] + rng.normal(size=duels) > utility[second] + rng.normal(size=duels)
    return spg.Duels(x, np.where(wins, first, second), np.where(wins, second, first))


def matern(variance: float = 1.0) -> gpflow.kernels.Kernel:
    return gpflow.kernels.Matern52(variance=variance, lengthscales=[0.8, 1.2])


def build(
    duels: spg.Duels, z: np.ndarray, kernel: gpflow.kernels.Kernel | None = None, **settings: object
) -> spg.PreferenceGP:
    settings = {"approximation": spg.VFE(), "engine": spg.ParallelEP(tolerance=SOLVER)} | settings
    kernel = matern() if kernel is None else kernel
    return spg.PreferenceGP(duels, kernel, inducing_variable=z, **settings)


# The score.


@pytest.mark.parametrize(
    "kernel",
    [matern(4.0), gpflow.kernels.SquaredExponential() + gpflow.kernels.Linear(variance=0.3)],
    ids=["matern52", "sum"],
)
@pytest.mark.parametrize("size", [(30, 120), (60, 40)], ids=["shared", "few duels"])
@pytest.mark.covering(every=4)
def test_gains_at_held_sites(kernel: gpflow.kernels.Kernel, size: tuple[int, int]) -> None:
    duels = learnable(1, *size)
    graph = DuelGraph.from_duels(duels)
    about = centred(kernel, duels.items.mean(0))  # as linear terms are in a model
    covariance, a = about(graph.rows).numpy(), incidence(graph)
    order = np.random.default_rng(0).permutation(graph.num_rows)[:12]
    chosen, candidates = list(order[:4]), order[4:]
    model = build(duels, graph.rows[chosen], kernel, noise_variance=0.2)
    gains = addition_gains(model, graph.rows[candidates])

    def value(rows: list[int]) -> float:
        return held_value(covariance, rows, a, graph.counts, model.inference.sites(), 0.2)

    slow = [value([*chosen, item]) - value(chosen) for item in candidates]
    np.testing.assert_allclose(gains, slow, rtol=IDENTITY, atol=IDENTITY)


def value_at(model: spg.PreferenceGP, nu: np.ndarray, tau: np.ndarray) -> float:
    """What depends on Z at given sites, through the model's own covariance."""
    prior = model.approximation.prior(model.problem())
    precision, shift = (tf.constant(model.graph.counts * x) for x in (tau, nu))
    marginals = prior.covariance.marginals(precision, shift)
    gaussian = 0.5 * tf.reduce_sum(shift * marginals.mean) - marginals.half_log_det
    return float(gaussian + prior.correction)


def with_ties_and_groups(duels: spg.Duels) -> spg.Duels:
    rng = np.random.default_rng(9)
    ties, groups = rng.random(duels.num_pairs) < 0.2, rng.integers(0, 3, duels.num_pairs)
    return spg.Duels(duels.items, duels.winners, duels.losers, ties=ties, groups=groups)


@pytest.mark.covering("groups")
@pytest.mark.parametrize("what", ["effects", "mean", "white", "active_dims", "groups"])
def test_gains_follow_the_models_own_value(what: str) -> None:
    duels = with_ties_and_groups(learnable(2)) if what == "groups" else learnable(2)
    rows, _ = duels.distinct_rows()
    kernel = {
        "effects": matern() + spg.ItemEffect(0.5),
        "mean": matern(),
        "groups": matern(),
        "white": matern() + gpflow.kernels.White(0.1),
        "active_dims": gpflow.kernels.Matern32(active_dims=[1]),
    }[what]
    mean = gpflow.functions.Linear(A=np.array([[0.5], [-0.2]])) if what == "mean" else None

    def made(z: np.ndarray) -> spg.PreferenceGP:
        if what != "groups":
            return build(duels, z, kernel, mean_function=mean)
        result = build(duels, z, kernel, likelihood=spg.Probit(by="judge", margin=0.4))
        result.likelihood.noise_ratio.assign([0.3, 1.0, 4.0])
        return result

    model = made(rows[:4])
    gains = addition_gains(model, rows[4:10])
    sites = model.inference.sites()
    for gain, row in zip(gains, rows[4:10], strict=True):
        more = made(np.vstack([rows[:4], row]))
        slow = value_at(more, *sites) - value_at(model, *sites)
        assert gain == pytest.approx(slow, rel=IDENTITY, abs=IDENTITY)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "seed"), [(2, 0), (4, 1), (8, 2)])
def test_gains_rank_as_inference_does(m: int, seed: int) -> None:
    duels = learnable(seed)
    rows = np.random.default_rng(seed).permutation(duels.distinct_rows()[0])
    model = build(duels, rows[:m])
    candidates = rows[m : m + 12]
    gains = addition_gains(model, candidates)
    before = model.log_evidence()
    after = np.array(
        [build(duels, np.vstack([rows[:m], row])).log_evidence() for row in candidates]
    )
    true = after - before
    assert true.min() > -IDENTITY
    assert spearmanr(gains, true)[0] > GREEDY_SHARE
    assert true[np.argmax(gains)] > GREEDY_SHARE * true.max()


@pytest.mark.covering("ParallelEP(damping=1.0, tolerance=1e-10, max_sweeps=500, site_power=1.0)")
@pytest.mark.parametrize(
    "engine",
    [
        spg.ParallelEP(tolerance=SOLVER),
        spg.Variational(tolerance=SOLVER),
        spg.Laplace(tolerance=SOLVER),
        spg.Laplace(link="logit", tolerance=SOLVER),
    ],
    ids=repr,
)
def test_what_gains_neglect_is_of_second_order(engine: spg.Engine) -> None:
    duels = learnable(3)
    rows, _ = duels.distinct_rows()

    def neglected(variance: float) -> float:
        model = build(duels, rows[:2], matern(variance), engine=engine)
        (gain,) = addition_gains(model, rows[2:3])
        more = build(duels, rows[:3], matern(variance), engine=engine)
        return abs(more.log_evidence() - model.log_evidence() - gain)

    # With a tenth of the variance phi phi' is a tenth, and what is neglected near a hundredth.
    assert neglected(0.001) < neglected(0.01) / 50.0


def test_explained_candidates_gain_nothing() -> None:
    duels = learnable(0)
    rows, _ = duels.distinct_rows()
    gains = addition_gains(build(duels, rows[:3]), rows[:5])
    np.testing.assert_array_equal(np.isfinite(gains), [False, False, False, True, True])
    flat = build(duels, rows[:2], gpflow.kernels.Linear())
    assert np.all(np.isneginf(addition_gains(flat, rows)))


# The search.


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_the_bound_never_falls(seed: int) -> None:
    duels = learnable(seed, items=16, duels=60)
    rng = np.random.default_rng(seed)
    model = build(duels, initial_inputs("random", duels, matern(), 1, rng), noise_variance=0.3)
    _, report = greedy_em(model, 16, rng, candidates=4, additions=8, m_step_iterations=3)
    assert report.monotone
    values = [step.log_evidence + step.log_prior for step in report.history]
    assert np.diff(values).min() > -IDENTITY
    assert report.largest_fall < IDENTITY
    phases = [step.phase for step in report.history]
    assert phases == ["start", *["add"] * 8, "optimise", *["add"] * 7, "optimise"]


@pytest.mark.slow
def test_all_items_give_the_exact_evidence() -> None:
    duels = learnable(1, items=12, duels=40)
    rows, _ = duels.distinct_rows()
    model, report = greedy_em(
        build(duels, rows[:1]), len(rows), np.random.default_rng(0), m_step_iterations=0
    )
    exact = spg.PreferenceGP(duels, matern(), engine=spg.ParallelEP(tolerance=SOLVER))
    assert report.log_evidence == pytest.approx(exact.log_evidence(), abs=EVIDENCE)
    assert report.reason == "count reached"
    np.testing.assert_array_equal(
        np.unique(model.inducing_variable.Z.numpy(), axis=0), np.unique(rows, axis=0)
    )


@pytest.mark.slow
def test_each_addition_is_the_best_of_its_candidates() -> None:
    duels = learnable(2)
    rows, _ = duels.distinct_rows()
    seen: list[GreedyStep] = []
    model = build(duels, rows[:2])
    grown, report = greedy_em(
        model, 6, np.random.default_rng(1), m_step_iterations=0, callback=seen.append
    )
    assert tuple(seen) == report.history
    z = grown.inducing_variable.Z.numpy()
    np.testing.assert_array_equal(z[:2], rows[:2])
    for step in report.history[1:]:
        before = build(duels, z[: step.inducing - 1])
        gains = addition_gains(before, rows)
        assert step.predicted_gain == pytest.approx(gains.max(), rel=IDENTITY)
        np.testing.assert_array_equal(rows[np.argmax(gains)], z[step.inducing - 1])
        np.testing.assert_array_equal(duels.items[step.item], z[step.inducing - 1])
        now = build(duels, z[: step.inducing])
        assert step.log_evidence == pytest.approx(now.log_evidence(), abs=EVIDENCE)
        assert step.candidates == len(rows) - step.inducing + 1


@pytest.mark.slow
def test_optimising_moves_the_parameters_and_not_the_inputs() -> None:
    duels = learnable(3)
    kernel = matern()
    kernel.lengthscales.prior = tfd.LogNormal(np.float64(0.0), np.float64(1.0))
    start = initial_inputs("duels", duels, kernel, 2, np.random.default_rng(0))
    model = build(duels, start, kernel)
    before = model.log_evidence()

    def run() -> tuple[spg.PreferenceGP, object]:
        return greedy_em(model, 4, np.random.default_rng(5), additions=2, m_step_iterations=3)

    grown, report = run()
    # The model that was given is as it was, and shares nothing that moves.
    np.testing.assert_array_equal(model.inducing_variable.Z.numpy(), start)
    np.testing.assert_allclose(model.kernel.lengthscales.numpy(), [0.8, 1.2], rtol=ROUNDING)
    assert model.log_evidence() == before
    assert grown.duels is model.duels
    assert not np.allclose(grown.kernel.lengthscales.numpy(), [0.8, 1.2])
    assert {tuple(z) for z in grown.inducing_variable.Z.numpy()} <= {tuple(x) for x in duels.items}
    assert grown.inducing_variable.Z.trainable
    assert grown.log_evidence() == report.log_evidence
    assert report.history[-1].log_prior == pytest.approx(
        float(grown.log_prior_density()), abs=ROUNDING
    )
    assert "2 -> 4 inducing inputs" in str(report)
    assert report.largest_fall < IDENTITY
    assert report.scoring_seconds + report.inference_seconds + report.optimising_seconds <= (
        report.seconds
    )
    again, _ = run()
    np.testing.assert_array_equal(
        again.inducing_variable.Z.numpy(), grown.inducing_variable.Z.numpy()
    )
    # It goes on as any other model.
    assert spg.optimise(grown, 2).log_evidence >= report.log_evidence - IDENTITY


@pytest.mark.slow
def test_equal_items_are_added_once() -> None:
    items = np.repeat(np.array([[0.0], [1.0], [2.0], [3.0]]), 2, axis=0)
    duels = spg.Duels(items, [0, 2, 4, 6, 1], [2, 4, 6, 1, 5])
    model = build(duels, items[:1], gpflow.kernels.Matern52())
    grown, _ = greedy_em(model, 4, np.random.default_rng(0), m_step_iterations=0)
    np.testing.assert_array_equal(np.sort(grown.inducing_variable.Z.numpy()[:, 0]), np.arange(4.0))
    with pytest.raises(ValueError, match="5 inducing inputs are more than the 4 distinct"):
        greedy_em(model, 5, np.random.default_rng(0))


@pytest.mark.slow
def test_nothing_left_ends_the_search() -> None:
    duels = learnable(0)
    rows, _ = duels.distinct_rows()
    model = build(duels, rows[:1], gpflow.kernels.Linear())  # of rank 2
    grown, report = greedy_em(model, 6, np.random.default_rng(0), candidates=3, m_step_iterations=0)
    assert grown.inducing_variable.num_inducing == 2
    assert report.reason == "nothing left"
    assert report.log_evidence == pytest.approx(
        spg.PreferenceGP(duels, gpflow.kernels.Linear()).log_evidence(), abs=EVIDENCE
    )


@pytest.mark.slow
def test_a_set_that_is_explained_makes_room_for_the_next() -> None:
    # Items that the first feature does not tell apart: all but one have been explained.
    items = np.column_stack([np.r_[np.zeros(20), 1.0], np.arange(21.0)])
    duels = spg.Duels(items, np.arange(20), np.full(20, 20))
    kernel = gpflow.kernels.Matern52(active_dims=[0])
    for seed in range(3):
        grown, report = greedy_em(
            build(duels, items[:1], kernel),
            2,
            np.random.default_rng(seed),
            candidates=2,
            m_step_iterations=0,
        )
        assert report.reason == "count reached"
        np.testing.assert_array_equal(grown.inducing_variable.Z.numpy()[1], items[20])


@pytest.mark.slow
def test_other_approximations_promise_nothing() -> None:
    duels = random_duels(0)
    z = duels.distinct_rows()[0][:2]
    _, report = greedy_em(
        build(duels, z, approximation=spg.FITC()),
        5,
        np.random.default_rng(0),
        m_step_iterations=0,
    )
    assert not report.monotone
    assert "does not promise" in str(report)
    values = [step.log_evidence + step.log_prior for step in report.history]
    assert report.largest_fall == pytest.approx(max(0.0, -np.diff(values).min()), abs=ROUNDING)
    assert report.largest_fall > 0.0  # FITC's evidence comes down from above here


def test_unconverged_inference_is_counted() -> None:
    duels = random_duels(0)
    z = duels.distinct_rows()[0][:2]
    engine = spg.ParallelEP(max_sweeps=1)
    _, report = greedy_em(
        build(duels, z, engine=engine), 4, np.random.default_rng(0), m_step_iterations=0
    )
    assert report.unconverged > 0
    assert "did not converge after" in str(report)


@dataclass(frozen=True)
class Fragile(spg.VFE):
    """NaN with some item among the inducing inputs; no gradient with some number of them."""

    item: float = np.nan
    """The first feature of that item."""
    count: int = 0
    """That number."""

    def prior(self, problem: DuelProblem) -> DuelPrior:
        prior = super().prior(problem)
        z = tf.convert_to_tensor(problem.inducing_variable.Z)
        bad = tf.reduce_any(z[:, 0] == self.item)
        nan = tf.constant(np.nan, tf.float64)
        value = tf.where(bad, nan, prior.correction)
        wrong = nan if z.shape[0] == self.count else tf.zeros_like(nan)
        return replace(prior, correction=_with_slope(value, wrong))


@tf.custom_gradient
def _with_slope(value: tf.Tensor, error: tf.Tensor) -> tuple[tf.Tensor, object]:
    """The value; its gradient is off by an error."""
    return tf.identity(value), lambda above: (above + error, tf.zeros_like(error))


@pytest.mark.slow
def test_an_item_without_finite_evidence_is_left_out() -> None:
    duels = learnable(2)
    rows, _ = duels.distinct_rows()
    whole, _ = greedy_em(build(duels, rows[:2]), 3, np.random.default_rng(0), m_step_iterations=0)
    best = whole.inducing_variable.Z.numpy()[2]
    model = build(duels, rows[:2], approximation=Fragile(item=float(best[0])))
    grown, report = greedy_em(model, 5, np.random.default_rng(0), m_step_iterations=0)
    z = grown.inducing_variable.Z.numpy()
    assert len(z) == 5 and best[0] not in z[:, 0]
    assert report.failed_additions == 1 and report.unconverged == 0
    assert [step.inducing for step in report.history] == [2, 3, 4, 5]
    assert "1 items had no finite evidence and were left out" in str(report)
    slow = build(duels, z).log_evidence()
    assert report.log_evidence == pytest.approx(slow, abs=EVIDENCE)


@pytest.mark.slow
def test_where_no_addition_is_finite_what_was_reached_is_kept() -> None:
    duels = learnable(2)
    rows, _ = duels.distinct_rows()
    start = build(duels, rows[:2]).log_evidence()

    @dataclass(frozen=True)
    class OnlyTwo(spg.VFE):
        def prior(self, problem: DuelProblem) -> DuelPrior:
            prior = super().prior(problem)
            more = problem.inducing_variable.num_inducing > 2
            return replace(prior, correction=prior.correction + (np.nan if more else 0.0))

    model = build(duels, rows[:2], approximation=OnlyTwo())
    grown, report = greedy_em(model, 5, np.random.default_rng(0))
    assert report.reason == "additions fail" and report.failed_additions == 10
    np.testing.assert_array_equal(grown.inducing_variable.Z.numpy(), rows[:2])
    assert grown.log_evidence() == pytest.approx(start, abs=EVIDENCE)
    assert grown.infer().converged


@pytest.mark.slow
def test_an_optimisation_that_cannot_begin_keeps_what_was_reached() -> None:
    duels = learnable(3)
    rows, _ = duels.distinct_rows()
    model = build(duels, rows[:2], approximation=Fragile(count=3))
    grown, report = greedy_em(model, 4, np.random.default_rng(0), m_step_iterations=2)
    assert [step.phase for step in report.history] == [
        "start", "add", "optimise", "add", "optimise"
    ]  # fmt: skip
    assert report.failed_optimisations == 1
    failed, after = report.history[2], report.history[4]
    assert "gradient of the log evidence is not finite at the first parameters" in failed.reason
    assert failed.log_evidence == pytest.approx(report.history[1].log_evidence, abs=EVIDENCE)
    assert after.log_evidence > report.history[3].log_evidence
    assert "1 optimisations had nothing finite to begin with" in str(report)
    assert grown.inducing_variable.num_inducing == 4


@pytest.mark.slow
def test_candidates_without_a_finite_gain_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    duels = learnable(2)
    rows, _ = duels.distinct_rows()

    def gains(model: spg.PreferenceGP, inputs: np.ndarray) -> np.ndarray:
        found = addition_gains(model, inputs)
        found[np.argmax(found)] = np.nan
        return found

    monkeypatch.setattr("sparse_prefgp.learning.greedy.addition_gains", gains)
    model = build(duels, rows[:2])
    grown, report = greedy_em(model, 4, np.random.default_rng(0), m_step_iterations=0)
    assert grown.inducing_variable.num_inducing == 4
    assert report.failed_scores == 2
    assert all(np.isfinite(step.predicted_gain) for step in report.history[1:])


def test_nothing_finite_to_begin_with_is_refused() -> None:
    duels = learnable(2)
    rows, _ = duels.distinct_rows()
    model = build(duels, rows[:2], approximation=Fragile(item=float(rows[0, 0])))
    with pytest.raises(ValueError, match="not finite with the inducing inputs to begin with"):
        greedy_em(model, 4, np.random.default_rng(0))


@pytest.mark.slow
def test_item_effects() -> None:
    duels = learnable(1, items=12, duels=40)
    rows, _ = duels.distinct_rows()
    model = build(duels, rows[:1], matern() + spg.ItemEffect(0.3))
    grown, report = greedy_em(model, len(rows), np.random.default_rng(0), m_step_iterations=0)
    exact = spg.PreferenceGP(
        duels, matern() + spg.ItemEffect(0.3), engine=spg.ParallelEP(tolerance=SOLVER)
    )
    assert report.log_evidence == pytest.approx(exact.log_evidence(), abs=EVIDENCE)
    assert report.largest_fall < IDENTITY
    assert grown.inputs.layout.numbered


def fixed() -> spg.PreferenceGP:
    model = build(DUELS, ROWS[:2])
    gpflow.set_trainable(model.kernel, False)
    return model


def free() -> spg.PreferenceGP:
    model = build(DUELS, ROWS[:2])
    gpflow.set_trainable(model.likelihood.noise, True)
    return model


DUELS = learnable(0, items=8, duels=20)
ROWS = DUELS.distinct_rows()[0]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: greedy_em(spg.PreferenceGP(DUELS, matern()), 3, RNG),
            apart("gain", "no_inducing"),
        ),
        (
            lambda m: addition_gains(spg.PreferenceGP(DUELS, matern()), ROWS),
            apart("gain", "no_inducing"),
        ),
        (lambda m: greedy_em(m, 1, RNG), "has 2 inducing inputs already"),
        (lambda m: greedy_em(m, 9, RNG), "more than the 8 distinct items"),
        (
            lambda m: greedy_em(m, 3, RNG, candidates=0),
            "candidates is 0; give a whole number, at least 1",
        ),
        (
            lambda m: greedy_em(m, 3, RNG, additions=0),
            "additions is 0; give a whole number, at least 1",
        ),
        (
            lambda m: greedy_em(m, 3, RNG, m_step_iterations=-1),
            "m_step_iterations is -1; give a whole number, at least 0",
        ),
        (lambda m: greedy_em(fixed(), 3, RNG), "pass m_step_iterations=0"),
        (lambda m: greedy_em(free(), 3, RNG), "only their ratio"),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(build(DUELS, ROWS[:2]))
    assert "\n" not in str(caught.value)
