"""Memory is asked for before it is taken, and what does not fit is one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import linear_probit
from sparse_prefgp.cli.console import sentences
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.support import machine
from tests.memory_growth import APPROXIMATIONS, CLEAR, ENGINES, GIB

# So many items, and distinct duels between them, that a square matrix of either takes 0.4 GiB.
MANY = 7_300


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
    with pytest.raises(MemoryError, match="Exact covariances of 7,300 items"):
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


@pytest.fixture(scope="module")
def few() -> dict[str, Any]:
    """Arguments of eight duels between nine items."""
    items = np.random.default_rng(0).normal(size=(9, 2))
    return {"items": items, "winners": np.arange(8), "losers": np.arange(1, 9)}


@pytest.fixture(scope="module")
def small(few: dict[str, Any]) -> spg.PreferenceGP:
    return made(spg.Duels(**few), spg.VFE(), 3)


def told(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """So many bytes are free, and smaller arrays are asked about as well."""
    monkeypatch.setattr(machine, "ASKED_ABOVE", 0)
    monkeypatch.setattr(machine, "free_memory", lambda: free)


TWICE = np.tile(np.arange(9), 2)
# Arguments of duels and of the model, and the bytes that are free.
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "exact tastes": (
        {"people": np.arange(8)},
        {"approximation": spg.Exact(), "terms": [spg.Taste(gpflow.kernels.Matern52())]},
        3_000,
        "Exact covariances of 9 items",
    ),
    "tastes": (
        {"people": np.arange(8)},
        {"approximation": spg.VFE(), "m": 3, "terms": [spg.Taste(gpflow.kernels.Matern52())]},
        1_500,
        "Tastes of 8 people",
    ),
    "covariates": (
        {
            "winners": TWICE,
            "losers": (TWICE + 1) % 9,
            "covariates": np.random.default_rng(0).normal(size=(18, 1)),
        },
        {"approximation": spg.Exact()},
        3_000,
        "Exact covariances of 10 items and coefficients",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_that_do_not_fit_are_refused(
    few: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    duels, model, free, words = MODELS[name]
    model = made(spg.Duels(**(few | duels)), **model)
    told(monkeypatch, free)
    with pytest.raises(MemoryError, match=rf"^{words} take .*free; "):
        model.infer()


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


# What takes memory by the square of what is given, or for all of it at once.
ASKED: dict[str, tuple[Callable[[spg.PreferenceGP], Any], str]] = {
    "sets": (
        lambda model: model.predict_choice(drawn(1, 40, 2)),
        "Covariances of 1 sets of 40 alternatives",
    ),
    "shares": (
        lambda model: spg.shares(model, drawn(9, 2), draws=1_000),
        "1,000 draws of 9 alternatives",
    ),
    "rank": (
        lambda model: spg.rank(model, drawn(30, 2), candidates=30),
        "Joint covariances of 30 candidates",
    ),
    "suggest": (lambda model: spg.suggest(model, drawn(30, 2)), "All pairs of 30 items"),
    "joint": (
        lambda model: model.posterior().joint(as_float(drawn(30, 2))),
        "Joint covariances of 30 inputs",
    ),
    "k-means": (
        lambda model: spg.kmeans_inputs(drawn(60, 10), 9, np.random.default_rng(0)),
        "Clusters of 60 rows with 10 features",
    ),
    "linear probit": (
        lambda model: linear_probit(spg.Duels(drawn(50, 50), np.arange(49), np.arange(1, 50))),
        "Linear predictors of 49 rows with 50 features",
    ),
    "features": (
        lambda model: FeatureTransform.fit(FRAME, ["a", "b"]).apply(FRAME),
        "2 features of 400 items",
    ),
}
FRAME = pd.DataFrame(drawn(400, 2), columns=["a", "b"])


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_of_a_model_and_does_not_fit_is_refused(
    small: spg.PreferenceGP, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, words = ASKED[name]
    small.infer()
    told(monkeypatch, 10_000)
    with pytest.raises(MemoryError, match=rf"^{words} take .*free; "):
        asked(small)


@pytest.mark.slow
@pytest.mark.skipif(not CLEAR.exists(), reason="memory of a process is measured by Linux")
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_what_is_not_refused_keeps_within_what_is_free(name: str) -> None:
    """With 1 GB told free, on both sides of it; the limit of the process is a net."""
    command = f"ulimit -v 9000000; exec {sys.executable} -m tests.memory_growth '{name}'"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert {one["engine"] for one in found} == {engine.__name__ for engine in ENGINES}
    assert any("refused" in one for one in found)
    for one in found:
        assert one.get("grown", 0) <= GIB, one
        assert "1.0 GiB are free; " in one.get("refused", "1.0 GiB are free; "), one


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


# Fits of different data and sizes, so that nothing that is compiled serves twice.
SIXTY_FITS = """
import resource
import gpflow
import numpy as np
import sparse_prefgp as spg
for k in range(1, 61):
    rng = np.random.default_rng(k)
    items, count = rng.normal(size=(30, 2)), 150 + k
    first = rng.integers(0, 30, count)
    second = (first + 1 + rng.integers(0, 29, count)) % 30
    wins = rng.random(count) < 1 / (1 + np.exp(2 * (items[second, 0] - items[first, 0])))
    duels = spg.Duels(items, np.where(wins, first, second), np.where(wins, second, first))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0])
    vfe = {"approximation": spg.VFE(), "inducing_variable": items[:10].copy()}
    spg.optimise(spg.PreferenceGP(duels, kernel, **vfe), max_iterations=20)
    if k in (10, 60):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_fits() -> None:
    program = [sys.executable, "-c", SIXTY_FITS]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=900)
    after_ten, after_sixty = map(int, done.stdout.split())
    assert after_sixty <= 1.2 * after_ten
