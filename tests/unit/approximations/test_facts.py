"""What approximations and engines say of themselves is true."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.workflow.model_names import PLAIN_APPROXIMATIONS, ApproximationChoice
from tests.cases import prior_of_problem, random_duels, run_problem
from tests.together import refused
from tests.tolerances import EP_ERROR, IDENTITY, ROUNDING

APPROXIMATIONS: dict[str, Approximation] = {
    **{
        name: getattr(spg, kind)(**arguments)
        for name, (kind, arguments) in PLAIN_APPROXIMATIONS.items()
    },
    "subset": spg.SubsetOfData(9, 1),
    "prior-power": spg.PriorPower(0.5),
    "pitc": spg.PITC(2),
}
SPARSE = [name for name, one in APPROXIMATIONS.items() if one.needs_inducing]
NOISE = 0.05


def kernel(lengthscale: float = 0.6) -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(variance=1.5, lengthscales=lengthscale)


def evidence(
    approximation: Approximation, duels: spg.Duels, z: np.ndarray | None = None, noise: float = 0.5
) -> float:
    graph = approximation.select(DuelGraph.from_duels(duels))
    return run_problem(graph, kernel(), approximation, noise, z)[2]


@pytest.fixture(scope="module")
def contradictory() -> tuple[spg.Duels, float]:
    """Contradictions at low noise, which an approximation may call noise, and their evidence."""
    duels = random_duels(0, items=4, duels=16)
    return duels, evidence(spg.Exact(), duels, noise=0.01)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.covering(every=12)
def test_only_a_bound_stays_below_the_exact_evidence(
    contradictory: tuple[spg.Duels, float], name: str
) -> None:
    duels, exact = contradictory
    over = evidence(APPROXIMATIONS[name], duels, duels.items[:1], 0.01) - exact
    if APPROXIMATIONS[name].is_bound:
        assert over <= EP_ERROR
    elif name in ("dtc", "fitc", "pitc"):  # the others lie above it elsewhere
        assert over > EP_ERROR


@pytest.mark.slow  # of VFE, `test_vfe_does_not_fall_when_an_item_joins` is quick
@pytest.mark.parametrize("name", SPARSE)
def test_only_one_never_falls_when_an_item_joins(name: str) -> None:
    least = np.inf
    for seed in range(2):
        duels = random_duels(seed, items=6, duels=14)
        values = [
            evidence(APPROXIMATIONS[name], duels, duels.items[: m + 1], NOISE) for m in range(6)
        ]
        least = min(least, float(np.diff(values).min()))
    if APPROXIMATIONS[name].grows_with_z:
        assert least >= -EP_ERROR
    elif name in ("dtc", "fitc", "hetero-vfe", "pitc"):  # the others fall elsewhere
        assert least < -EP_ERROR


def prior_of(name: str, duels: spg.Duels) -> tuple[Any, DuelGraph]:
    approximation = APPROXIMATIONS[name]
    graph = approximation.select(DuelGraph.from_duels(duels))
    z = duels.items[:2] if approximation.needs_inducing else None
    return prior_of_problem(graph, kernel(), approximation, NOISE, z), graph


@pytest.mark.covering("vfe", "fitc", "tight-vfe-logdet", "pitc")
@pytest.mark.parametrize("name", SPARSE)
def test_a_sum_over_duels_is_that_of_its_parts(name: str) -> None:
    whole = random_duels(0, items=8, duels=14)
    halves = [
        spg.Duels(whole.items, whole.winners[part], whole.losers[part], whole.counts[part])
        for part in (slice(0, 6), slice(6, None))
    ]
    total = float(prior_of(name, whole)[0].correction)
    # All halves with the Z of the whole, whose items are those of the halves.
    parts = sum(float(prior_of(name, half)[0].correction) for half in halves)
    equal = total == pytest.approx(parts, rel=IDENTITY, abs=IDENTITY)
    assert equal if APPROXIMATIONS[name].summed_over_duels else name == "pitc" or not equal


@pytest.mark.parametrize("name", APPROXIMATIONS)
@pytest.mark.covering(every=6)
def test_who_sees_the_residual(name: str) -> None:
    """The prior variance of a duel that inference sees, with its noise, and what Z explains."""
    approximation = APPROXIMATIONS[name]
    duels = random_duels(1, items=7, duels=12)
    prior, graph = prior_of(name, duels)
    zero = tf.zeros([graph.num_sites], prior.factors.noise.dtype)
    seen = prior.covariance.marginals(zero, zero).variance + prior.factors.noise - 2.0 * NOISE
    rows = graph.rows
    ends = tf.stack([rows[graph.winners], rows[graph.losers]], 1)
    full = np.array([k[0, 0] + k[1, 1] - 2.0 * k[0, 1] for k in map(kernel(), ends)])
    if not approximation.needs_inducing:
        np.testing.assert_allclose(seen, full, rtol=IDENTITY)
        return
    features = prior.features(tf.constant(rows))
    explained = np.sum((features.numpy()[graph.winners] - features.numpy()[graph.losers]) ** 2, 1)
    share = 1.0 if approximation.has_blocks else approximation.residual_share
    np.testing.assert_allclose(seen, explained + share * (full - explained), rtol=IDENTITY)
    assert approximation.sees_residual == (share > 0.0)


@pytest.fixture(scope="module")
def exactly() -> spg.PreferenceGP:
    return spg.PreferenceGP(random_duels(2, items=8, duels=12), kernel(), approximation=spg.Exact())


@pytest.mark.parametrize("name", APPROXIMATIONS)
@pytest.mark.covering(every=4)
def test_models_use_the_duels_that_the_approximation_says(
    exactly: spg.PreferenceGP, name: str
) -> None:
    approximation, duels = APPROXIMATIONS[name], exactly.duels
    z = duels.items[:2] if approximation.needs_inducing else None
    model = spg.PreferenceGP(duels, kernel(), approximation=approximation, inducing_variable=z)
    assert (model.num_duels_used == duels.num_duels) == approximation.uses_all_duels
    assert (model.graph.blocks is not None) == approximation.has_blocks
    same = model.log_evidence() == pytest.approx(exactly.log_evidence(), abs=ROUNDING)
    assert same == approximation.is_exact


def test_bounds_are_known_by_name() -> None:
    for name in (*SPARSE, "exact"):
        told = ApproximationChoice.parse(_typed(name)).is_bound
        assert told == APPROXIMATIONS[name].is_bound, name


@pytest.mark.parametrize("name", SPARSE)
def test_streams_take_what_is_summed_over_duels(name: str) -> None:
    approximation, duels = APPROXIMATIONS[name], random_duels(3)
    choice = ApproximationChoice.parse(_typed(name))
    assert choice.summed_over_duels == approximation.summed_over_duels
    stream = spg.stream_duels(duels)

    def make() -> spg.StreamedGP:
        return spg.StreamedGP(
            stream, kernel(), approximation=approximation, inducing_variable=duels.items[:2]
        )

    if approximation.summed_over_duels:
        assert make().approximation == approximation
    else:
        with refused("streamed", "whole"):
            make()


def _typed(name: str) -> str:
    return {"prior-power": "prior-power:0.5", "pitc": "pitc:2"}.get(name, name)


def test_what_has_no_blocks_says_so() -> None:
    for approximation in (spg.VFE(), spg.Exact()):
        assert approximation.labels is None
        with refused("no_blocks", "joining"):
            approximation.followed_by(["a"])
    with refused("no_blocks", "joining"):
        spg.PITC(2).followed_by(["a"])
    assert spg.PITC(["a", "b"]).followed_by(["b", "c"]) == spg.PITC(["a", "b", "b", "c"])


def test_engines_name_what_makes_them_another() -> None:
    named = {
        "ParallelEP": spg.ParallelEP(tolerance=1e-5),
        "SequentialEP, site power 0.5": spg.SequentialEP(site_power=0.5),
        "Laplace": spg.Laplace(),
        "Laplace, logit": spg.Laplace(link="logit"),
        "Variational": spg.Variational(),
    }
    assert {label: engine.label for label, engine in named.items()} == {x: x for x in named}
    moments = {label for label, engine in named.items() if engine.matches_moments}
    assert moments == {"ParallelEP"}


@pytest.mark.covering("engine0")
@pytest.mark.parametrize("engine", [spg.ParallelEP(), spg.Variational(), spg.Laplace()])
def test_who_takes_expectations_leaves_the_correction_out(engine: Any) -> None:
    duels = random_duels(1)
    graph = DuelGraph.from_duels(duels)
    _, point, _ = run_problem(graph, kernel(), spg.VFE(), 0.5, duels.items[:3], engine)
    without = float(point.log_evidence(1.0)) == float(point.log_evidence(0.0))
    assert without == engine.takes_expectations
