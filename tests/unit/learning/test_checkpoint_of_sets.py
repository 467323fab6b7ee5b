"""Checkpoints of fits to answers about sets: in memory and in streams, resumed or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, RANKING, WIN, Answers, Codes, Covariates
from sparse_prefgp.learning.checkpoint import Interrupted
from sparse_prefgp.learning.report import Progress
from tests.tolerances import SAME_OPTIMUM

N, T = 14, 30
RNG = np.random.default_rng(2)
ITEMS = RNG.normal(size=(N, 2))
SHOWN = np.array([RNG.permutation(N)[:4] for _ in range(T)])
WORTH = np.sin(2.0 * ITEMS[:, 0]) + np.cos(2.0 * ITEMS[:, 1])
NOISY = WORTH[SHOWN] + 0.5 * RNG.normal(size=SHOWN.shape)
SIDES = np.take_along_axis(SHOWN, np.argsort(-NOISY, 1), 1)
SAID = Answers(
    SIDES.reshape(-1),
    np.arange(0, 4 * T + 1, 4),
    kind=np.repeat([CHOICE, RANKING], [T - 8, 8]).astype(np.int8),
    judge=Codes.of([*"abc"] * (T // 3)),
    covariates=Covariates(RNG.normal(size=(4 * T, 1)), ("slot",)),
)


def build(streamed: bool, events: Answers = SAID) -> Any:
    duels = spg.Duels.from_events(ITEMS, events)
    settings: dict[str, Any] = {
        "kernel": gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0]),
        "approximation": spg.VFE(),
        "inducing_variable": ITEMS[:5] + 0.1,
        "likelihood": spg.Probit(by="judge"),
    }
    if streamed:
        engine = spg.PartitionedEP(parts=2)
        model = spg.StreamedGP(spg.stream_duels(duels), engine=engine, chunk=40, **settings)
    else:
        model = spg.PreferenceGP(duels, **settings)
    gpflow.set_trainable(model.inducing_variable, False)
    return model


def plain(streamed: bool, events: Answers) -> Any:
    """Only a lengthscale moves, so that the optimum is soon reached."""
    duels = spg.Duels.from_events(ITEMS, events)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=2.5)
    gpflow.set_trainable(kernel.variance, False)
    settings: dict[str, Any] = {"inducing_variable": ITEMS[:5] + 0.1}
    if streamed:
        model: Any = spg.StreamedGP(spg.stream_duels(duels), kernel, **settings)
    else:
        model = spg.PreferenceGP(duels, kernel, approximation=spg.VFE(), **settings)
    gpflow.set_trainable(model.inducing_variable, False)
    return model


ALONE = SAID.saying(judge=None, covariates=None)


def stop_after(iteration: int) -> Any:
    def stop(step: Progress) -> None:
        if step.iteration == iteration:
            raise KeyboardInterrupt

    return stop


@pytest.mark.slow
@pytest.mark.parametrize(
    "streamed",
    [False, True],
    ids=["memory", "stream"],
)
def test_resumed_at_the_same_optimum(streamed: bool, tmp_path: Path) -> None:
    def learn(model: Any, **more: Any) -> Any:
        rng = np.random.default_rng(1)
        return spg.optimise(model, 30, rng=rng, least_gain=None, **more)

    whole, folder = learn(plain(streamed, ALONE)), tmp_path / "kept"
    assert whole.converged
    with pytest.raises(Interrupted, match="after iteration 1;"):
        learn(plain(streamed, ALONE), callback=stop_after(1), checkpoint=folder)
    seen: list[Progress] = []
    model = plain(streamed, ALONE)
    again = learn(model, callback=seen.append, checkpoint=spg.Checkpoint(folder, resume=True))
    assert seen[0].iteration == 2 and again.resumed_at == 1
    assert again.converged and again.log_evidence == model.log_evidence()
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=T * SAME_OPTIMUM)


@pytest.mark.covering("True")
@pytest.mark.parametrize("streamed", [False, True])
def test_other_answers_are_of_something_else(streamed: bool, tmp_path: Path) -> None:
    """The same pairs as duels, or the same choices with another alternative in the middle."""
    choices = ALONE.take(slice(0, T - 8))
    pairs = np.stack([np.repeat(SIDES[: T - 8, 0], 3), SIDES[: T - 8, 1:].reshape(-1)], 1)
    duels = Answers.between(*pairs.T, kind=np.full(len(pairs), WIN, np.int8))
    sides = SIDES[: T - 8].copy()
    sides[0, 2] = next(k for k in range(N) if k not in sides[0])

    def learn(events: Answers, **more: Any) -> Any:
        return spg.optimise(plain(streamed, events), 1, **more)

    learn(choices, checkpoint=tmp_path / "kept")
    for other in (duels, choices.saying(sides.reshape(-1))):
        with pytest.raises(ValueError, match="other duels"):
            learn(other, checkpoint=spg.Checkpoint(tmp_path / "kept", resume=True))


@pytest.mark.parametrize("streamed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_saved_and_loaded_with_judges_and_covariates(streamed: bool, tmp_path: Path) -> None:
    model = build(streamed)
    model.likelihood.noise_ratio.assign([0.5, 1.0, 2.0])
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.log_evidence() == pytest.approx(model.log_evidence(), rel=1e-12)
    one, other = model.coefficients(), loaded.coefficients()
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    choice = np.stack([ITEMS[:4], ITEMS[4:8]])
    x = np.linspace(-1.0, 1.0, 8).reshape(2, 4, 1)
    for groups in (None, "b"):
        found = [m.predict_choice(choice, groups=groups, covariates=x) for m in (model, loaded)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
        np.testing.assert_allclose(np.sum(found[0], 1), 1.0, rtol=1e-12)


@pytest.mark.slow
def test_sites_in_files(tmp_path: Path) -> None:
    model = build(True)
    value = model.log_evidence()
    duels = spg.stream_duels(spg.Duels.from_events(ITEMS, SAID))
    again = spg.StreamedGP(
        duels,
        model.kernel,
        inducing_variable=model.inducing_variable,
        likelihood=spg.Probit(by="judge"),
        sites=tmp_path / "sites.npy",
        chunk=9,
    )
    assert again.log_evidence() == pytest.approx(value, abs=SAME_OPTIMUM)
    assert np.load(tmp_path / "sites.npy").shape == (2, 3 * T)
