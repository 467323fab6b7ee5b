"""Reference cases, random duels and models of them, shared by the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation, DuelPrior, DuelProblem
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine
from sparse_prefgp.engines.base import FixedPoint
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.models.posterior import predictions
from tests.tolerances import SOLVER

DATA = Path(__file__).resolve().parent / "data"
Array = npt.NDArray[np.float64]


def read(name: str) -> dict[str, Any]:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


DUEL_CASES: list[dict[str, Any]] = read("duel_ep_cases.json")["cases"]
ORTHANT_CASES: list[dict[str, Any]] = read("orthant_cases.json")["cases"]

# Rows of the reference file as approximations, the algebra over items or over duels.
ROWS: dict[str, Callable[..., Approximation]] = {
    "exact": spg.Exact,
    "dtc": spg.DTC,
    "vfe": spg.VFE,
    "tight_vfe": spg.TightVFE,
    "fitc": spg.FITC,
    "prior_power_0.5": spg.PriorPower,
    "hetero_vfe": spg.HeteroscedasticVFE,
}

# Every approximation that works on all duels, by the name a failing test shows.
SPARSE: dict[str, Callable[..., Approximation]] = {
    "DTC": spg.DTC,
    "VFE": spg.VFE,
    "TightVFE-diagonal": lambda **k: spg.TightVFE(residual="diagonal", **k),
    "TightVFE-rank": lambda **k: spg.TightVFE(residual="rank", **k),
    "TightVFE-logdet": lambda **k: spg.TightVFE(residual="logdet", **k),
    "FITC": spg.FITC,
    "HeteroscedasticVFE": spg.HeteroscedasticVFE,
    "PriorPower-0.5": lambda **k: spg.PriorPower(0.5, **k),
}
ALL: dict[str, Callable[..., Approximation]] = {"Exact": spg.Exact, **SPARSE}
FORMS = ("items", "duels")


def case_kernel(case: dict[str, Any]) -> gpflow.kernels.Kernel:
    make = {"se": gpflow.kernels.SquaredExponential, "matern52": gpflow.kernels.Matern52}
    return make[case["kernel"]](variance=case["variance"], lengthscales=case["lengthscales"])


def case_duels(case: dict[str, Any]) -> spg.Duels:
    return spg.Duels(np.array(case["items"]), case["winners"], case["losers"])


def case_model(
    case: dict[str, Any],
    approximation: Approximation,
    engine: Engine | None = None,
    inducing: Any = None,
) -> spg.PreferenceGP:
    """The model of a reference case; Z is the case's own unless another is given."""
    if approximation.needs_inducing and inducing is None:
        inducing = np.array(case["inducing"])
    return spg.PreferenceGP(
        case_duels(case),
        case_kernel(case),
        approximation=approximation,
        inducing_variable=inducing if approximation.needs_inducing else None,
        engine=spg.ParallelEP(tolerance=SOLVER) if engine is None else engine,
        noise_variance=case["noise_variance"],
    )


def random_duels(
    seed: int, items: int = 9, duels: int = 16, features: int = 2, spread: float = 1.0
) -> spg.Duels:
    """Random items and random, often contradictory and repeated, duels."""
    rng = np.random.default_rng(seed)
    x = spread * rng.normal(size=(items, features))
    winners = rng.integers(items, size=duels)
    losers = (winners + rng.integers(1, items, size=duels)) % items
    return spg.Duels(x, winners, losers)


def prior_of_problem(
    graph: DuelGraph,
    kernel: gpflow.kernels.Kernel,
    approximation: Approximation,
    noise_variance: float,
    inducing: Array | None = None,
    mean_function: gpflow.functions.MeanFunction | None = None,
    logistic: bool = False,
) -> DuelPrior:
    """The prior of a graph under an approximation, before any inference."""
    z = None if inducing is None else gpflow.inducing_variables.InducingPoints(inducing)
    noise = tf.constant(noise_variance, gpflow.default_float())
    problem = DuelProblem(graph, kernel, mean_function, noise, z, logistic=logistic)
    return approximation.prior(problem)


def run_problem(
    graph: DuelGraph,
    kernel: gpflow.kernels.Kernel,
    approximation: Approximation,
    noise_variance: float,
    inducing: Array | None = None,
    engine: Engine | None = None,
    mean_function: gpflow.functions.MeanFunction | None = None,
) -> tuple[DuelPrior, FixedPoint, float]:
    """Prior, fixed point and log evidence of a graph, without a model around it."""
    engine = spg.ParallelEP(tolerance=SOLVER) if engine is None else engine
    logistic = not engine.link_function.has_normal_noise
    prior = prior_of_problem(
        graph, kernel, approximation, noise_variance, inducing, mean_function, logistic
    )
    point = engine.run(
        prior.covariance, prior.factors, Sites.zeros(graph.num_sites, gpflow.default_float())
    )
    return prior, point, float(point.log_evidence(prior.correction))


def in_block(
    model: spg.PreferenceGP, items: Any, block: Any, full_cov: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """`predict_f` of items that join a block of a model."""
    inputs = tf.constant(items, tf.float64)
    return predictions(model.posterior().joining(block), inputs, full_cov)


def incidence(graph: DuelGraph) -> Array:
    """A (t, n), dense: +1 in the loser's column, -1 in the winner's."""
    a = np.zeros((graph.num_sites, graph.num_rows))
    for i, (winner, loser) in enumerate(zip(graph.winners, graph.losers, strict=True)):
        a[i, loser] += 1.0
        a[i, winner] -= 1.0
    return a


def assert_same_scores(found: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    """Equal words, and numbers within a tolerance, as of `pytest.approx`."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        close = value if isinstance(value, str) else pytest.approx(value, nan_ok=True, **tolerance)
        assert found[name] == close, name
