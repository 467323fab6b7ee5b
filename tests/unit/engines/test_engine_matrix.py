"""Every approximation with every engine on the reference cases, and what each door does with them.

A new approximation is one line of `APPROXIMATIONS`, a new engine one of `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from sparse_prefgp.engines import Engine
from sparse_prefgp.learning.greedy import greedy_em
from tests.cases import DUEL_CASES, SPARSE, case_duels, case_kernel, case_model, random_duels
from tests.tolerances import EVIDENCE, IDENTITY, SOLVER

APPROXIMATIONS: dict[str, Callable[..., Approximation]] = {
    **SPARSE,
    "PITC": lambda: spg.PITC(3),
}
ENGINES: dict[str, Callable[..., Engine]] = {
    "ParallelEP": spg.ParallelEP,
    "SequentialEP": spg.SequentialEP,
    "power 0.5": lambda **k: spg.ParallelEP(site_power=0.5, **k),
    "sequential power 0.5": lambda **k: spg.SequentialEP(site_power=0.5, **k),
    "Variational": spg.Variational,
    "Laplace": spg.Laplace,
    "Laplace logit": lambda **k: spg.Laplace(link="logit", **k),
}
SLOW_ENGINES = ("SequentialEP", "sequential power 0.5")
# Of moderate noise and of low noise.
CASES = (1, 2)


# Every engine and every approximation once; the other pairs are slow.
QUICK_ENGINES = [engine for engine in ENGINES if engine not in SLOW_ENGINES]
COVERING = {
    (name, QUICK_ENGINES[row % len(QUICK_ENGINES)], CASES[0])
    for row, name in enumerate(APPROXIMATIONS)
}
PAIRS = [
    pytest.param(*pair, marks=[] if pair in COVERING else [pytest.mark.slow])
    for pair in product(APPROXIMATIONS, ENGINES, CASES)
]


@cache
def exact(engine: str, case: int) -> spg.PreferenceGP:
    model = case_model(DUEL_CASES[case], spg.Exact(), ENGINES[engine](tolerance=SOLVER))
    assert model.infer().converged
    return model


@pytest.mark.parametrize(("name", "engine", "case"), PAIRS)
@pytest.mark.covering(every=20)
def test_with_all_items_it_is_exact_and_with_fewer_finite(
    name: str, engine: str, case: int
) -> None:
    data = DUEL_CASES[case]
    items = np.array(data["items"])
    every = case_model(
        data, APPROXIMATIONS[name](), ENGINES[engine](tolerance=SOLVER), inducing=items
    )
    result = every.infer()
    assert result.converged, str(result)
    if result.jitter == 0.0:
        reference = exact(engine, case)
        assert every.log_evidence() == pytest.approx(reference.log_evidence(), rel=EVIDENCE)
        new = np.random.default_rng(0).normal(size=(3, items.shape[1]))
        mine, theirs = (m.predict_duel(items[:3], new) for m in (every, reference))
        np.testing.assert_allclose(mine, theirs, rtol=EVIDENCE)

    few = case_model(data, APPROXIMATIONS[name](), ENGINES[engine](tolerance=SOLVER))
    result = few.infer()
    assert result.converged, str(result)
    assert result.sweeps > 1 and result.largest_change <= SOLVER
    assert np.isfinite(few.log_evidence())
    probabilities = few.predict_duel(items[:-1], items[1:]).numpy()
    assert np.all((probabilities > 0.0) & (probabilities < 1.0))


@pytest.mark.covering("ParallelEP")
@pytest.mark.parametrize("engine", [e for e in ENGINES if e not in SLOW_ENGINES])
def test_a_subset_of_the_duels_is_exact_inference_on_it(engine: str) -> None:
    data = DUEL_CASES[CASES[0]]
    model = case_model(data, spg.SubsetOfData(12, seed=1), ENGINES[engine](tolerance=SOLVER))
    graph = model.graph
    alone = spg.PreferenceGP(
        spg.Duels(graph.rows, graph.winners, graph.losers, counts=graph.counts.astype(int)),
        case_kernel(data),
        approximation=spg.Exact(),
        engine=ENGINES[engine](tolerance=SOLVER),
        noise_variance=data["noise_variance"],
    )
    assert model.log_evidence() == pytest.approx(alone.log_evidence(), rel=IDENTITY)


def learnable(engine: str, **settings: Any) -> spg.PreferenceGP:
    data = DUEL_CASES[CASES[0]]
    return spg.PreferenceGP(
        case_duels(data),
        case_kernel(data),
        approximation=spg.VFE(),
        inducing_variable=np.array(data["inducing"]),
        engine=ENGINES[engine](**settings),
    )


NEW_ENGINES = ("power 0.5", "Variational", "Laplace", "Laplace logit")


@pytest.mark.slow
@pytest.mark.parametrize("engine", NEW_ENGINES)
def test_hyperparameters_are_learned_with_each_engine(engine: str) -> None:
    model = learnable(engine)
    before = model.log_evidence()
    report = spg.optimise(model, max_iterations=8)
    assert report.inference.converged and report.failed_evaluations == 0
    assert report.log_evidence > before + 0.01
    assert model.log_evidence() == pytest.approx(report.log_evidence, rel=IDENTITY)


@pytest.mark.slow
@pytest.mark.parametrize("engine", NEW_ENGINES)
def test_more_duels_go_on_from_where_inference_was(engine: str) -> None:
    pd = pytest.importorskip("pandas")
    model = learnable(engine, tolerance=SOLVER)
    model.infer()
    items = model.duels.items
    winners, losers = [0, 1, 2], [3, 2, 0]
    updated, _ = spg.update(model, pd.DataFrame({"winner": winners, "loser": losers}))
    assert updated.engine == model.engine
    whole = spg.PreferenceGP(
        spg.Duels(
            items,
            np.concatenate([model.duels.winners, winners]),
            np.concatenate([model.duels.losers, losers]),
            counts=np.concatenate([model.duels.counts, np.ones(3, int)]),
        ),
        case_kernel(DUEL_CASES[CASES[0]]),
        approximation=spg.VFE(),
        inducing_variable=model.inducing_variable.Z.numpy(),
        engine=model.engine,
    )
    assert updated.infer().converged
    assert updated.log_evidence() == pytest.approx(whole.log_evidence(), rel=EVIDENCE)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["Variational", "Laplace"])
def test_greedy_choice_grows_the_evidence(engine: str) -> None:
    duels = random_duels(4, items=12, duels=40)
    model = spg.PreferenceGP(
        duels,
        case_kernel(DUEL_CASES[CASES[0]]),
        approximation=spg.VFE(),
        inducing_variable=duels.items[:2].copy(),
        engine=ENGINES[engine](tolerance=SOLVER),
    )
    _, report = greedy_em(model, 5, np.random.default_rng(0), m_step_iterations=0)
    values = [step.log_evidence for step in report.history]
    assert len(values) == 4 and values[-1] > values[0]
    # Only of a bound it is promised.
    assert report.monotone == (engine == "Variational")
    assert not report.monotone or report.largest_fall < IDENTITY


class _Poisoned(gpflow.kernels.SquaredExponential):
    """Not a number for the last item: in all that inference sees, or only in what corrects it."""

    everywhere = True

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        rows, columns = (
            tf.where((self.everywhere or x.shape.rank == 3) & (x[..., 0] > 7.0), np.nan, 0.0)
            for x in (X, X if X2 is None else X2)
        )
        poison = tf.cast(rows[..., :, None] + columns[..., None, :], X.dtype)
        return super().K(X, X2) + poison


QUICK = (
    ("VFE", "ParallelEP", False),
    ("PriorPower-0.5", "Laplace", False),
    ("Exact", "ParallelEP", True),
)
POISONED = [
    pytest.param(*each, marks=[] if each in QUICK else [pytest.mark.slow])
    for each in product([*APPROXIMATIONS, "Exact"], ENGINES, (False, True))
]


@pytest.mark.parametrize(("name", "engine", "everywhere"), POISONED)
def test_what_is_not_finite_has_not_converged(name: str, engine: str, everywhere: bool) -> None:
    items = np.arange(9.0)[:, None]
    duels = spg.Duels(items, [0, 1, 2, 8], [1, 2, 3, 0])
    approximation = (APPROXIMATIONS | {"Exact": spg.Exact})[name]()
    more = {"inducing_variable": items[:3]} if approximation.needs_inducing else {}
    kernel = _Poisoned()
    kernel.everywhere = everywhere
    model = spg.PreferenceGP(
        duels,
        kernel,
        approximation=approximation,
        engine=ENGINES[engine](max_sweeps=20),
        **more,
    )
    result = model.infer()
    finite = bool(np.isfinite(model.log_evidence()))
    assert finite or result.status is spg.results.Status.NOT_FINITE
    if everywhere or approximation.penalises_residual:
        assert not finite
