"""`optimise`: what it returns, where it leaves the model, how it survives failed evaluations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import sparse_prefgp as spg
from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.learning.objective import REMEDIES, InMemory, cause_and_remedies
from sparse_prefgp.learning.report import Progress
from tests.tolerances import FIXED_POINT, IDENTITY, SAME_OPTIMUM


def learnable(seed: int = 0) -> spg.Duels:
    """Duels that follow a smooth utility of the first feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 2))
    pairs = np.array([(i, j) for i in range(12) for j in range(i)])
    pairs = pairs[rng.choice(len(pairs), 40, replace=False)]
    utility = 2.0 * np.sin(x[:, 0])
    swap = utility[pairs[:, 0]] - utility[pairs[:, 1]] + 0.3 * rng.normal(size=40) < 0
    pairs[swap] = pairs[swap][:, ::-1]
    return spg.Duels(x, pairs[:, 0], pairs[:, 1])


def build(approximation: object = None, **settings: object) -> spg.PreferenceGP:
    duels = learnable()
    approximation = spg.VFE() if approximation is None else approximation
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0]),
        approximation=approximation,
        inducing_variable=duels.items[:4].copy() if approximation.needs_inducing else None,
        **settings,
    )


@pytest.fixture(scope="module")
def fitted() -> tuple[spg.PreferenceGP, spg.results.OptimisationReport, list[Progress], float]:
    model = build(engine=spg.ParallelEP(tolerance=1e-9))
    before = model.log_evidence()
    seen: list[Progress] = []
    return model, spg.optimise(model, 15, callback=seen.append), seen, before


def test_evidence_rises(fitted: tuple) -> None:
    model, report, _, before = fitted
    assert report.log_evidence_start == pytest.approx(before, abs=FIXED_POINT)
    assert report.log_evidence > before + 1.0
    assert model.log_evidence() == report.log_evidence
    lengthscales = model.kernel.lengthscales.numpy()
    assert lengthscales[1] > lengthscales[0]  # the second feature does not matter


def test_report(fitted: tuple) -> None:
    model, report, _, _ = fitted
    assert 1 <= report.iterations <= 15
    assert report.evaluations >= report.iterations
    assert report.failed_evaluations == 0
    assert report.unconverged_evaluations == 0
    assert report.sweeps > report.evaluations
    assert report.seconds > report.compile_seconds > 0.0
    assert report.inference.converged
    assert report.inference.largest_change <= 1e-9
    assert len(report.history) == report.iterations
    assert np.all(np.diff(report.history) >= -FIXED_POINT)
    assert report.history[-1] == pytest.approx(report.log_evidence, abs=FIXED_POINT)
    assert report.message
    text = str(report)
    assert f"{report.log_evidence:.3f}" in text
    assert "failed" not in text
    assert model.engine == spg.ParallelEP(tolerance=1e-9)  # as it was


def test_callback(fitted: tuple) -> None:
    _, report, seen, _ = fitted
    assert [p.iteration for p in seen] == list(range(1, report.iterations + 1))
    assert {p.max_iterations for p in seen} == {15}
    assert [p.log_evidence for p in seen] == list(report.history)
    assert all(np.isfinite(p.gradient_norm) and p.gradient_norm >= 0 for p in seen)
    assert np.all(np.diff([p.sweeps for p in seen]) > 0)
    assert np.all(np.diff([p.seconds for p in seen]) > 0)


def test_inducing_inputs_move_and_noise_does_not(fitted: tuple) -> None:
    model, *_ = fitted
    assert not np.allclose(model.inducing_variable.Z.numpy(), model.duels.items[:4])
    assert model.likelihood.noise.numpy() == 0.5


@dataclass(frozen=True)
class Fragile(spg.VFE):
    """Not a number as soon as the first lengthscale exceeds 1.3."""

    def prior(self, problem: DuelProblem) -> DuelPrior:
        prior = super().prior(problem)
        bad = problem.kernel.lengthscales[0] > 1.3
        nan = tf.constant(np.nan, tf.float64)
        return replace(prior, correction=tf.where(bad, nan, prior.correction))


@pytest.mark.slow
def test_failed_evaluations_are_backed_off_from() -> None:
    # Without the wall L-BFGS goes beyond it.
    free = build()
    free.kernel.lengthscales.assign([0.5, 0.5])
    spg.optimise(free, 15)
    assert free.kernel.lengthscales.numpy()[0] > 1.3
    model = build(Fragile())
    model.kernel.lengthscales.assign([0.5, 0.5])
    before = model.log_evidence()
    report = spg.optimise(model, 15)
    assert report.failed_evaluations > 0
    assert f"{report.failed_evaluations} of {report.evaluations} evaluations failed" in str(report)
    assert np.isfinite(report.log_evidence)
    assert report.log_evidence > before + 1.0
    assert model.kernel.lengthscales.numpy()[0] <= 1.3
    assert report.log_evidence >= max(report.history) - FIXED_POINT


@pytest.mark.slow
def test_not_finite_at_the_start_is_refused_and_the_model_stays() -> None:
    model = build(Fragile())
    model.kernel.lengthscales.assign([2.0, 1.0])
    engine = model.engine
    with pytest.raises(ValueError, match="log evidence is not finite at the first parameters;"):
        spg.optimise(model, 3)
    np.testing.assert_allclose(model.kernel.lengthscales.numpy(), [2.0, 1.0])
    assert model.engine == engine


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda m: setattr(m, "kernel", gpflow.kernels.Linear(variance=1.7e308)),
            r"kernel is not finite on the items, whose features reach 2\.33: standardise",
        ),
        (
            lambda m: m.kernel.variance.assign(1e14),
            r"variance is 1e\+14 and the noise of a duel 1:",
        ),
        (
            lambda m: m.mean_function.A.assign([[1.7e308], [1.7e308]]),
            "the mean function is not finite",
        ),
    ],
)
def test_the_cause_of_what_is_not_finite_is_named(change: Callable, told: str) -> None:
    """With remedies that can be set."""
    mean = gpflow.functions.Linear(A=[[0.1], [0.2]], b=[0.0])
    model = build(spg.VFE(), mean_function=mean)
    assert cause_and_remedies(model.problem()) == REMEDIES
    change(model)
    found = cause_and_remedies(model.problem())
    assert re.search(told, found) and not found.endswith(".")


@pytest.mark.slow
def test_not_finite_at_any_start_is_refused() -> None:
    model = build(Fragile())
    model.kernel.lengthscales.assign([2.0, 1.0])
    gpflow.set_trainable(model.kernel.lengthscales, False)  # beyond the wall for every start
    variance = float(model.kernel.variance.numpy())
    with pytest.raises(ValueError, match="first parameters of all 2 starts; raise the noise"):
        spg.optimise(model, 3, starts=2)
    assert model.kernel.variance.numpy() == variance


def test_an_exception_in_the_callback_restores_the_engine() -> None:
    model = build(spg.Exact())
    engine = model.engine

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spg.optimise(model, 3, callback=stop)
    assert model.engine == engine


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError("full"), KeyboardInterrupt(), RuntimeError("broken")])
def test_an_exception_leaves_the_best_parameters(error: BaseException) -> None:
    """In the callback, and in the middle of a search, after trials far away."""
    model = build()
    seen: list[np.ndarray] = []

    def stop(progress: Progress) -> None:
        seen.append(model.kernel.lengthscales.numpy())
        if progress.iteration == 3:
            raise error

    with pytest.raises(type(error)):
        spg.optimise(model, 5, callback=stop)
    np.testing.assert_array_equal(model.kernel.lengthscales.numpy(), seen[-1])


@pytest.mark.slow
def test_an_exception_in_the_search_leaves_the_best_parameters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, folder = build(), tmp_path / "kept"
    seen: list[np.ndarray] = []
    real = InMemory.__call__

    def break_down(self: InMemory, flat: np.ndarray) -> tuple[float, np.ndarray]:
        if len(seen) == 2:
            self.set(flat + 1.0)
            raise MemoryError
        return real(self, flat)

    monkeypatch.setattr(InMemory, "__call__", break_down)

    def keep(progress: Progress) -> None:
        seen.append(model.kernel.lengthscales.numpy())

    with pytest.raises(MemoryError):
        spg.optimise(model, 5, callback=keep, checkpoint=spg.Checkpoint(folder))
    np.testing.assert_array_equal(model.kernel.lengthscales.numpy(), seen[-1])
    # No checkpoint was due yet; what was reached is kept all the same.
    monkeypatch.setattr(InMemory, "__call__", real)
    again = spg.optimise(build(), 5, checkpoint=spg.Checkpoint(folder, resume=True))
    assert again.resumed_at == 2
    assert again.history[:2] == pytest.approx(spg.optimise(build(), 2).history, abs=FIXED_POINT)


@pytest.mark.slow
def test_inference_that_fails_from_cold_sites_goes_on_from_the_optimisers() -> None:
    ordinary = spg.optimise(build(), 4)
    assert not ordinary.warm
    model = build(engine=spg.ParallelEP(max_sweeps=ordinary.inference.sweeps - 1))
    report = spg.optimise(model, 4)
    assert report.warm and report.inference.converged
    assert "had not converged from cold sites" in str(report)
    again = build(engine=spg.ParallelEP())
    for mine, theirs in zip(again.variables, model.variables, strict=True):
        mine.assign(theirs)
    assert report.log_evidence == pytest.approx(again.log_evidence(), abs=FIXED_POINT)


@pytest.mark.slow
@pytest.mark.parametrize("starts", [1, 2])
def test_a_limit_that_a_checkpoint_has_passed_is_refused(starts: int, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    settings = {"starts": starts}
    spg.optimise(build(), 4, checkpoint=spg.Checkpoint(place, every=2), **settings)
    before = place.read_bytes()
    message = "has made 4 iterations, past the limit of 2; give a limit of at least 4"
    with pytest.raises(ValueError, match=message) as caught:
        spg.optimise(build(), 2, checkpoint=spg.Checkpoint(place, resume=True), **settings)
    assert "\n" not in str(caught.value) and "rm " in str(caught.value)
    assert place.read_bytes() == before


@pytest.mark.slow
def test_more_iterations_for_several_starts_are_right_or_refused(tmp_path: Path) -> None:
    """What has ended stays as it is; the last one counts on."""
    folder = tmp_path / "kept"
    settings = {"starts": 2}

    def stop(progress: Progress) -> None:
        if progress.start == 2 and progress.iteration == 2:
            raise KeyboardInterrupt

    kept = spg.Checkpoint(folder, every=2)
    with pytest.raises(KeyboardInterrupt):
        spg.optimise(build_fixed(), 100, callback=stop, checkpoint=kept, **settings)
    resume = spg.Checkpoint(folder, every=2, resume=True)
    again = spg.optimise(build_fixed(), 120, checkpoint=resume, **settings)
    expected = spg.optimise(build_fixed(), 120, **settings)
    assert again.starts[0].converged and not again.starts[0].limit_reached
    for mine, theirs in zip(again.starts, expected.starts, strict=True):
        assert mine.log_evidence == pytest.approx(theirs.log_evidence, abs=40 * SAME_OPTIMUM)
    for report in (again, expected):  # both starts end at one optimum, and rounding says which
        values = [start.log_evidence for start in report.starts]
        assert values[report.kept] == max(values)
    most = max(start.iterations for start in again.starts)
    with pytest.raises(ValueError, match=f"give a limit of at least {most}"):
        spg.optimise(build_fixed(), most - 1, checkpoint=resume, **settings)


def build_fixed() -> spg.PreferenceGP:
    """Only the kernel moves, so that a start reaches its optimum soon."""
    model = build()
    gpflow.set_trainable(model.inducing_variable, False)
    return model


def test_too_few_iterations_are_refused() -> None:
    with pytest.raises(ValueError, match="max_iterations is 0; give a whole number, at least 1"):
        spg.optimise(build(), 0)


def test_nothing_trainable_is_refused() -> None:
    model = build()
    gpflow.set_trainable(model, False)
    with pytest.raises(ValueError, match="no trainable parameter"):
        spg.optimise(model)


@pytest.mark.slow
def test_free_scale_is_refused_unless_asked_for() -> None:
    model = build(spg.Exact())
    gpflow.set_trainable(model.likelihood.noise, True)
    with pytest.raises(ValueError, match=r"only their ratio.*free_scale=True"):
        spg.optimise(model)
    # With the kernel variance fixed, the noise may move.
    gpflow.set_trainable(model.kernel.variance, False)
    spg.optimise(model, 2)
    assert model.likelihood.noise.numpy() != 0.5


@pytest.mark.slow
def test_free_scale_with_a_prior() -> None:
    model = build(spg.Exact())
    model.likelihood.noise.prior = tfd.LogNormal(np.float64(-2.0), np.float64(0.1))
    spg.optimise(model, 15, free_scale=True)
    assert model.likelihood.noise.trainable
    # Data leave the scale open, so the prior decides it.
    assert abs(np.log(model.likelihood.noise.numpy()) + 2.0) < 0.5
    assert model.kernel.variance.numpy() != 1.0


@pytest.mark.slow
def test_unconverged_evaluations_are_counted() -> None:
    model = build(spg.Exact(), engine=spg.ParallelEP(max_sweeps=1))
    report = spg.optimise(model, 1)
    assert report.unconverged_evaluations > 0
    assert not report.inference.converged
    assert "had not converged" in str(report)


@pytest.mark.slow
def test_optimised_value_is_stationary() -> None:
    model = build(spg.Exact())
    report = spg.optimise(model, 60)
    assert report.converged, report.message
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    gradients = tape.gradient(loss, model.trainable_variables)
    assert max(float(tf.reduce_max(tf.abs(g))) for g in gradients) < 1e-2
    again = spg.optimise(model, 5)
    assert again.log_evidence >= report.log_evidence - IDENTITY


@pytest.mark.slow
def test_log_prior_is_kept_apart_from_the_evidence() -> None:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(10, 2))
    winners = rng.integers(0, 10, 20)
    duels = spg.Duels(items, winners, (winners + rng.integers(1, 10, 20)) % 10)
    kernel = gpflow.kernels.Matern52()
    kernel.lengthscales.prior = tfd.Normal(np.float64(5.0), np.float64(0.1))
    model = spg.PreferenceGP(duels, kernel)
    evidence, prior = model.log_evidence(), float(model.log_prior_density())
    report = spg.optimise(model, 3)
    assert report.log_evidence_start == pytest.approx(evidence, abs=FIXED_POINT)
    assert report.log_prior_start == pytest.approx(prior, abs=IDENTITY)
    assert report.log_prior == pytest.approx(float(model.log_prior_density()), abs=IDENTITY)
    assert report.history[-1] == pytest.approx(report.log_evidence, abs=FIXED_POINT)


@pytest.mark.slow
def test_the_callback_can_end_a_run() -> None:
    model = build()

    def enough(progress: Progress) -> None:
        if progress.iteration == 3:
            raise StopIteration

    report = spg.optimise(model, 15, callback=enough)
    assert report.iterations == 3 and not report.converged
    assert report.message == "stopped by the callback"
    assert model.log_evidence() == report.log_evidence


@pytest.mark.slow
def test_several_starts_keep_the_best() -> None:
    seen: list[Progress] = []
    model = build()
    report = spg.optimise(model, 8, starts=3, rng=np.random.default_rng(1), callback=seen.append)
    assert len(report.starts) == 3
    evidences = [start.log_evidence for start in report.starts]
    assert len(set(evidences)) == 3
    assert report.kept == int(np.argmax(evidences))
    assert report.log_evidence == pytest.approx(max(evidences), abs=FIXED_POINT)
    assert model.log_evidence() == report.log_evidence
    assert report.history[-1] == pytest.approx(report.log_evidence, abs=FIXED_POINT)
    assert f"the best of 3 starts is number {report.kept + 1}" in str(report)
    assert {(p.start, p.starts) for p in seen} == {(1, 3), (2, 3), (3, 3)}
    alone = spg.optimise(build(), 8)
    assert evidences[0] == pytest.approx(alone.log_evidence, abs=FIXED_POINT)
    assert report.log_evidence_start == pytest.approx(alone.log_evidence_start, abs=FIXED_POINT)
    again = spg.optimise(build(), 8, starts=2, rng=np.random.default_rng(1))
    assert [start.log_evidence for start in again.starts] == evidences[:2]


@pytest.mark.slow
def test_a_start_that_fails_is_reported() -> None:
    """With this seed some perturbed lengthscales lie beyond the wall, some do not."""
    report = spg.optimise(build(Fragile()), 3, starts=4, rng=np.random.default_rng(0))
    failed = [start.log_evidence is None for start in report.starts]
    assert any(failed) and not all(failed)
    assert "not finite at the first parameters of start" in str(report)
    assert np.isfinite(report.log_evidence)


def test_starts_that_cannot_differ_are_refused() -> None:
    model = build()
    gpflow.set_trainable(model, False)
    model.mean_function = gpflow.functions.Linear(np.full((2, 1), -0.5))
    seen: list[Progress] = []
    with pytest.raises(ValueError, match="Nothing can be perturbed for 2 starts"):
        spg.optimise(model, 2, starts=2, callback=seen.append)
    assert not seen  # before the work of the first start
    with pytest.raises(ValueError, match="starts is 0; give a whole number, at least 1"):
        spg.optimise(build(), 2, starts=0)
