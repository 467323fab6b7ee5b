"""Memory is asked for before it is taken, and what does not fit is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.cli.console import sentences
from sparse_prefgp.support import machine

GIB = 1 << 30
# So many items, and distinct duels between them, that a square matrix of either takes 0.4 GiB.
MANY = 7_300
ENGINES = (spg.ParallelEP, spg.SequentialEP, spg.Laplace, spg.Variational)


@pytest.fixture(autouse=True)
def told_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: GIB)


@pytest.fixture(scope="module")
def duels() -> spg.Duels:
    each = np.arange(MANY)
    items = np.random.default_rng(0).normal(size=(MANY, 2))
    return spg.Duels(items, each, (each + 1) % MANY)


def made(duels: spg.Duels, approximation: Any, m: int = 0, **more: Any) -> spg.PreferenceGP:
    kernel = more.pop("kernel", None) or gpflow.kernels.SquaredExponential()
    inducing = {"inducing_variable": duels.items[:m].copy()} if m else {}
    return spg.PreferenceGP(duels, kernel, approximation=approximation, **inducing, **more)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("over", ["items", "duels"])
def test_exact_inference_that_does_not_fit_is_refused(
    duels: spg.Duels, engine: Callable[[], Any], over: str
) -> None:
    model = made(duels, spg.Exact(over=over), engine=engine())
    for asked in (model.infer, model.log_evidence, lambda: model.predict_f(duels.items[:2])):
        with pytest.raises(MemoryError, match=r"Exact covariances of 7,300 .* 1.0 GiB are free; u"):
            asked()
    with pytest.raises(MemoryError, match=r"take 5\.2 GiB"):
        tf.function(model.training_loss, autograph=False)()


def test_effects_of_pairs_are_asked_about_too(duels: spg.Duels) -> None:
    kernel = gpflow.kernels.SquaredExponential() + spg.PairEffect()
    with pytest.raises(MemoryError, match="7,300 distinct duels"):
        made(duels, spg.Exact(), kernel=kernel).infer()


@pytest.mark.parametrize("approximation", [spg.VFE, spg.FITC, spg.TightVFE])
def test_more_inducing_inputs_than_fit_are_refused(
    duels: spg.Duels, approximation: Callable[[], Any]
) -> None:
    with pytest.raises(MemoryError, match="Covariances of 7,300 inducing inputs"):
        made(duels, approximation(), MANY).infer()


def test_a_joint_covariance_that_does_not_fit_is_refused(duels: spg.Duels) -> None:
    few = spg.Duels(duels.items[:9], np.arange(8), np.arange(1, 9))
    with pytest.raises(MemoryError, match=r"Joint covariances of 7,300 inputs .*full_cov out"):
        made(few, spg.VFE(), 3).predict_f(duels.items, full_cov=True)


def test_blocks_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = spg.Duels(np.arange(9.0)[:, None], np.arange(8), np.arange(1, 9))
    monkeypatch.setattr(machine, "ASKED_ABOVE", 0)
    monkeypatch.setattr(machine, "free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"within the blocks of 8 distinct duels take 0.0 GiB"):
        made(few, spg.PITC([0] * 4 + [1] * 4), 3).infer()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (machine.NotEnoughMemory("Matrices take 2.0 GiB; give fewer."), "Matrices take 2.0 GiB"),
        (MemoryError("Unable to allocate 9 GiB"), "Memory did not suffice"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), "Memory did not suffice"),
    ],
)
def test_a_command_says_it_in_one_sentence(
    error: Exception, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    with pytest.raises(typer.Exit) as stopped, sentences():
        raise error
    assert stopped.value.exit_code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {words}") and said.count("\n") == 1
