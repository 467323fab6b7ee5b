"""Blocks of duels: the reference cases, both ends (FITC and Exact), PIC, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.covariances import low_rank_buckets
from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.data.buckets import bucketed
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.disk import describing
from tests.cases import DUEL_CASES, case_duels, case_model, in_block, incidence, random_duels
from tests.reference.regression import RegressionGP
from tests.reference.slow_approximations import (
    SlowPosterior,
    gram,
    matern52,
    slow_posterior,
    squared_exponential,
)
from tests.reference.slow_lower_bound import slow_lower_bounds
from tests.together import refused
from tests.tolerances import EVIDENCE, FIXED_POINT, GRADIENT, IDENTITY, ROUNDING, SOLVER
from tests.unit.models.test_gradients import Case, every_component, stationary, steepest

TIGHT = spg.ParallelEP(tolerance=SOLVER)
ENGINES = {"parallel": TIGHT, "sequential": spg.SequentialEP(tolerance=SOLVER)}
NEW = np.random.default_rng(3).normal(size=(5, 2))


def pitc_case(index: int, engine: Any = TIGHT) -> spg.PreferenceGP:
    case = DUEL_CASES[index]
    return case_model(case, spg.PITC(case["blocks"]), engine)


def contradictory(seed: int = 2) -> tuple[spg.Duels, np.ndarray]:
    """Twenty-six duels of six items, with repeats within and across their blocks of text."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 2))
    winners = rng.integers(6, size=26)
    losers = (winners + rng.integers(1, 6, size=26)) % 6
    blocks = np.array(["cy", "al", "bo"])[rng.integers(3, size=26)]
    return spg.Duels(x, winners, losers), blocks


def given(duels: spg.Duels) -> tuple[np.ndarray, np.ndarray]:
    """Winners and losers of the duels as given."""
    return duels.winners[duels.merged.rows], duels.losers[duels.merged.rows]


def build(duels: spg.Duels, approximation: Any, **options: Any) -> spg.PreferenceGP:
    needs = approximation.needs_inducing
    settings = {
        "kernel": gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=0.9),
        "inducing_variable": duels.items[:3] + 0.2 if needs else None,
        "engine": TIGHT,
        "noise_variance": 0.15,
        **options,
    }
    return spg.PreferenceGP(duels, approximation=approximation, **settings)


def dense(duels: spg.Duels, row: str = "pitc", **options: Any) -> SlowPosterior:
    """The same by dense matrices, one site for each duel as given."""
    return slow_posterior(
        duels.items,
        *given(duels),
        squared_exponential(1.3, 0.9),
        0.15,
        row,
        inducing=duels.items[:3] + 0.2,
        test_items=NEW,
        **options,
    )


def assert_close(first: Any, second: Any, tolerance: float) -> None:
    np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance)


# Evidence and q(u).


@pytest.mark.covering("1-parallel", "2-parallel")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", range(len(DUEL_CASES)))
def test_reference_case(index: int, engine: str) -> None:
    case, model = DUEL_CASES[index], pitc_case(index, ENGINES[engine])
    expected = case["results"]["pitc"]
    assert model.infer().converged
    assert model.infer().jitter == 0.0
    assert model.log_evidence() == pytest.approx(expected["log_evidence"], abs=EVIDENCE, rel=0)
    mean, cov = model.predict_f(np.array(case["test_items"]), full_cov=True)
    np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(cov[0], expected["cov"], atol=FIXED_POINT, rtol=0)


@pytest.mark.covering("1")
@pytest.mark.parametrize("index", range(len(DUEL_CASES)))
def test_blocks_of_one_are_fitc_and_one_block_is_exact(index: int) -> None:
    case = DUEL_CASES[index]
    t, new = len(case["winners"]), np.array(case["test_items"])
    for blocks, row in ((np.arange(t), "fitc"), (np.zeros(t, int), "exact")):
        model = case_model(case, spg.PITC(blocks))
        expected = case["results"][row]
        assert model.log_evidence() == pytest.approx(expected["log_evidence"], abs=EVIDENCE, rel=0)
        mean, cov = model.predict_f(new, full_cov=True)
        if row == "exact":
            # q(u) is exact; a new item in the block is predicted exactly too.
            mean, cov = in_block(model, new, 0, full_cov=True)
        np.testing.assert_allclose(mean[:, 0], expected["mean"], atol=FIXED_POINT, rtol=0)
        np.testing.assert_allclose(cov[0], expected["cov"], atol=FIXED_POINT, rtol=0)


@pytest.mark.slow
def test_a_count_is_as_many_duels_of_one_block() -> None:
    # To FITC each of equal duels has a residual of its own; in a block they share one.
    duels, _ = contradictory()
    rows, counts = duels.num_pairs, 1 + np.arange(duels.num_pairs) % 4
    counted = spg.Duels(duels.items, duels.winners, duels.losers, counts)
    ends = np.repeat([duels.winners, duels.losers], counts, axis=1)
    apart = spg.Duels(duels.items, *ends)
    single = build(counted, spg.PITC(range(rows))).log_evidence()
    together = build(apart, spg.PITC(np.repeat(np.arange(rows), counts)))
    each = build(apart, spg.PITC(range(len(ends[0]))))
    fitc = build(counted, spg.FITC()).log_evidence()
    assert single == pytest.approx(
        dense(apart, "pitc", blocks=np.repeat(np.arange(rows), counts)).log_evidence,
        abs=EVIDENCE,
        rel=0,
    )
    assert together.log_evidence() == pytest.approx(single, abs=EVIDENCE, rel=0)
    assert each.log_evidence() == pytest.approx(fitc, abs=EVIDENCE, rel=0)
    assert abs(single - fitc) > 1.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.covering(every=2)
def test_repeats_within_and_across_blocks_against_separate_duels(engine: str) -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks), engine=ENGINES[engine])
    graph = model.graph
    # Fewer sites than duels, more than distinct pairs: merged inside a block, not across blocks.
    assert duels.num_pairs < graph.num_sites < len(blocks)
    assert graph.counts.sum() == len(blocks)
    slow = dense(duels, blocks=blocks)
    assert model.log_evidence() == pytest.approx(slow.log_evidence, abs=EVIDENCE, rel=0)
    mean, cov = model.predict_f(NEW, full_cov=True)
    assert_close(mean[:, 0], slow.mean, FIXED_POINT)
    assert_close(cov[0], slow.cov, FIXED_POINT)


def test_merging_across_blocks_would_be_another_model() -> None:
    duels, blocks = contradictory()
    merged = spg.Duels(duels.items, duels.winners, duels.losers, duels.counts)
    first = blocks[np.unique(duels.merged.rows, return_index=True)[1]]
    right, wrong = (build(d, spg.PITC(b)) for d, b in ((duels, blocks), (merged, first)))
    assert abs(right.log_evidence() - wrong.log_evidence()) > 0.01


def test_counts_equal_separate_duels() -> None:
    duels, blocks = contradictory()
    winners, losers = given(duels)
    keys = pd.DataFrame({"won": winners, "lost": losers, "block": blocks})
    counted = keys.groupby(["won", "lost", "block"]).size().reset_index(name="count")
    assert counted["count"].max() > 1
    other = spg.Duels(duels.items, counted["won"], counted["lost"], counted["count"])
    pair = [build(duels, spg.PITC(blocks)), build(other, spg.PITC(counted["block"]))]
    assert pair[0].log_evidence() == pytest.approx(pair[1].log_evidence(), abs=IDENTITY, rel=0)


def test_order_of_duels_and_names_of_blocks_do_not_matter() -> None:
    duels, blocks = contradictory()
    winners, losers = given(duels)
    order = np.random.default_rng(0).permutation(len(blocks))
    shuffled = spg.Duels(duels.items, winners[order], losers[order])
    names = {"al": 7, "bo": -2, "cy": 40}
    renamed = [names[block] for block in blocks[order]]
    first, second = build(duels, spg.PITC(blocks)), build(shuffled, spg.PITC(renamed))
    assert first.log_evidence() == pytest.approx(second.log_evidence(), abs=IDENTITY, rel=0)
    for a, b in zip(in_block(first, NEW, "bo"), in_block(second, NEW, -2), strict=True):
        assert_close(a, b, IDENTITY)


def test_all_items_as_inducing_inputs_is_exact() -> None:
    duels, blocks = contradictory()
    exact = build(duels, spg.Exact())
    model = build(duels, spg.PITC(blocks), inducing_variable=duels.items.copy())
    assert model.log_evidence() == pytest.approx(exact.log_evidence(), abs=EVIDENCE, rel=0)
    for predict in (model.predict_f, lambda x: in_block(model, x, "al")):
        for a, b in zip(predict(NEW), exact.predict_f(NEW), strict=True):
            assert_close(a, b, FIXED_POINT)


# The covariance itself.


def test_marginals_and_quadratic_form_against_the_dense_covariance() -> None:
    case, model = DUEL_CASES[3], pitc_case(3)
    prior, graph = model.approximation.prior(model.problem()), model.graph
    covariance = prior.covariance
    rows, z = graph.rows, np.array(case["inducing"])
    kernel = squared_exponential(case["variance"], case["lengthscales"])
    a = incidence(graph)
    root = np.linalg.cholesky(gram(kernel, z, z))
    phi = a @ gram(kernel, rows, z) @ np.linalg.inv(root).T
    full, q = a @ gram(kernel, rows, rows) @ a.T, phi @ phi.T
    k = np.where(graph.blocks[:, None] == graph.blocks[None], full, q)
    rng = np.random.default_rng(0)
    tau, nu, left = rng.uniform(0, 3, (len(k),)), rng.normal(size=len(k)), rng.normal(size=len(k))
    tau[::5] = 0.0
    sigma = k - k @ np.diag(tau) @ np.linalg.solve(np.eye(len(k)) + k @ np.diag(tau), k)
    found = covariance.marginals(tf.constant(tau), tf.constant(nu))
    assert_close(found.mean, sigma @ nu, IDENTITY)
    assert_close(found.variance, np.diag(sigma), IDENTITY)
    log_det = np.linalg.slogdet(np.eye(len(k)) + k @ np.diag(tau))[1]
    assert float(found.half_log_det) == pytest.approx(0.5 * log_det, abs=IDENTITY)
    state = covariance.start(tf.constant(tau), tf.constant(nu))
    assert_close(state.covariance, sigma, IDENTITY)
    assert_close(state.mean, sigma @ nu, IDENTITY)
    value = covariance.quadratic(tf.constant(left), tf.constant(nu))
    assert float(value) == pytest.approx(left @ k @ nu, abs=IDENTITY)


def test_the_gradient_of_the_quadratic_form_reaches_the_kernel() -> None:
    model = pitc_case(1)
    left, right = np.random.default_rng(1).normal(size=(2, model.graph.num_sites))
    problem = model.problem()
    with tf.GradientTape() as tape:
        covariance = model.approximation.prior(problem).covariance
        value = covariance.quadratic(tf.constant(left), tf.constant(right))
    variable = model.kernel.variance.unconstrained_variable
    # K is proportional to the kernel variance.
    expected = float(value) / float(model.kernel.variance.numpy())
    slope = tf.sigmoid(variable)  # of softplus
    assert float(tape.gradient(value, variable) / slope) == pytest.approx(expected, rel=IDENTITY)


@pytest.mark.parametrize("seed", range(3))
def test_layout_holds_every_site_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1, 2, 7, 8, 9, 10, 40], rng.integers(1, 60, size=12)])
    blocks = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    t, n = len(blocks), 30
    winners = rng.integers(n, size=t)
    losers = (winners + rng.integers(1, n, size=t)) % n
    seen = np.zeros(t, dtype=int)
    for bucket in bucketed(blocks, winners, losers, n):
        held = sizes[bucket.numbers]
        assert bucket.sites.shape[1] == held.max() <= 1.25 * held.min()
        for j, number in enumerate(bucket.numbers):
            sites = bucket.sites[j][bucket.sites[j] < t]
            seen[sites] += 1
            assert np.all(blocks[sites] == number)
            assert len(sites) == sizes[number]
            inside = slice(0, len(sites))
            rows = bucket.rows[j]
            np.testing.assert_array_equal(rows[bucket.winners[j, inside]], winners[sites])
            np.testing.assert_array_equal(rows[bucket.losers[j, inside]], losers[sites])
            used = np.unique([winners[sites], losers[sites]])
            np.testing.assert_array_equal(rows[: len(used)], used)
    assert np.all(seen == 1)


def test_nothing_has_the_size_of_all_duels_squared() -> None:
    model = build(random_duels(4, items=40, duels=300), spg.PITC(np.arange(300) % 60))
    t = model.graph.num_sites
    ones = tf.ones([t], gpflow.default_float())

    def sweep_and_gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            covariance = model.approximation.prior(model.problem()).covariance
            marginals = covariance.marginals(ones, ones)
            slope = covariance.surrogate(ones, ones, marginals.kept)
        gradients = tape.gradient(slope, model.trainable_variables)
        return [*marginals[:3], *(tf.convert_to_tensor(g) for g in gradients)]

    function = tf.function(sweep_and_gradient, autograph=False).get_concrete_function()
    definition = function.graph.as_graph_def(add_shapes=True)
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    shapes = [
        [d.size for d in shape.dim]
        for node in nodes
        for shape in node.attr["_output_shapes"].list.shape
    ]
    largest = max(int(np.prod(shape)) for shape in shapes if shape and min(shape) > 0)
    assert t * 3 <= largest < t * t / 4


# Gradient.


@pytest.mark.slow
def test_gradient_along_the_steepest_direction() -> None:
    Case(spg.PITC(np.arange(14) % 3), stationary()).check(steepest)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [4, list(range(14)), [0] * 6 + [1] * 5 + [2] * 3])
def test_every_component_of_the_gradient(blocks: Any) -> None:
    Case(spg.PITC(blocks), stationary()).check(every_component)


def test_one_block_does_not_depend_on_z() -> None:
    gradients = Case(spg.PITC([0] * 14), stationary()).gradients()
    exact = Case(spg.Exact(), stationary()).gradients()
    np.testing.assert_allclose(gradients.pop("Z")[0], 0.0, atol=IDENTITY)
    for name, gradient in gradients.items():
        for a, b in zip(gradient, exact[name], strict=True):
            assert_close(a, b, GRADIENT)


@pytest.mark.slow
def test_gradient_of_other_kernels() -> None:
    k = gpflow.kernels
    kernel = k.Matern52(lengthscales=0.9, active_dims=[0]) * k.Cosine() + k.Linear(variance=0.4)
    Case(spg.PITC(np.arange(14) // 5), kernel).check(steepest)


@pytest.mark.slow
def test_training_improves_the_evidence() -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks))
    before = model.log_evidence()
    report = spg.optimise(model, max_iterations=8)
    assert report.log_evidence > before + 0.1
    assert report.failed_evaluations == 0


# PIC.


@pytest.mark.parametrize("block", ["al", "bo", "cy"])
@pytest.mark.covering(every=3)
def test_joining_a_block_against_the_dense_joint(block: str) -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks))
    slow = dense(duels, blocks=blocks, test_block=block)
    mean, cov = in_block(model, NEW, block, full_cov=True)
    assert_close(mean[:, 0], slow.mean, FIXED_POINT)
    assert_close(cov[0], slow.cov, FIXED_POINT)
    marginal_mean, variance = in_block(model, NEW, block)
    assert_close(marginal_mean, mean, ROUNDING)
    assert_close(variance[:, 0], np.diag(cov[0]), ROUNDING)
    # A block says more than u alone about what is near it.
    assert not np.allclose(mean, model.predict_f(NEW)[0], atol=1e-3)


def test_joining_a_block_with_a_mean_function_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    duels, blocks = contradictory()
    slope = np.array([0.4, -0.3])
    model = build(
        duels,
        spg.PITC(blocks),
        mean_function=gpflow.functions.Linear(A=slope[:, None], b=[0.0]),
    )
    slow = dense(duels, blocks=blocks, test_block="cy", mean_function=lambda x: float(x @ slope))
    monkeypatch.setattr("sparse_prefgp.models.posterior.CHUNK", 2)
    mean, variance = in_block(model, NEW, "cy")
    assert_close(mean[:, 0], slow.mean, FIXED_POINT)
    assert_close(variance[:, 0], np.diag(slow.cov), FIXED_POINT)


def test_duel_probabilities_in_a_block_are_those_of_its_joint() -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks))
    mean, cov = (x.numpy() for x in in_block(model, NEW, "al", full_cov=True))
    first, second = [0, 1, 2], [3, 4, 0]
    spread = cov[0][first, first] + cov[0][second, second] - 2 * cov[0][first, second] + 0.3
    probability = norm.cdf((mean[first, 0] - mean[second, 0]) / np.sqrt(spread))
    pairs = Answers.between(np.array(first), np.array(second), block=Codes.of(["al"] * 3))
    found = model.predict(pairs, NEW).p[:, 0]
    np.testing.assert_allclose(found, probability, rtol=IDENTITY)


@pytest.mark.slow
def test_a_compiled_prediction_in_a_block_is_the_eager_one() -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks))
    compiled = tf.function(lambda: in_block(model, NEW, "al"))
    for a, b in zip(compiled(), in_block(model, NEW, "al"), strict=True):
        assert_close(a, b, FIXED_POINT)


# Blocks by k-means.


def test_kmeans_keeps_a_pair_together_and_is_repeatable() -> None:
    duels = random_duels(9, items=12, duels=60)
    model = build(duels, spg.PITC(5))
    graph = model.graph
    assert graph.num_sites == DuelGraph.from_duels(duels).num_sites
    np.testing.assert_array_equal(np.unique(graph.blocks), np.arange(5))
    ends = np.sort(np.stack([graph.winners, graph.losers], 1), 1)
    blocks_of = {}
    for pair, block in zip(map(tuple, ends), graph.blocks, strict=True):
        assert blocks_of.setdefault(pair, block) == block
    assert len(blocks_of) < graph.num_sites  # some were won by either side
    again = build(duels, spg.PITC(5))
    np.testing.assert_array_equal(again.graph.blocks, graph.blocks)
    other = build(duels, spg.PITC(5, seed=8))
    assert not np.array_equal(other.graph.blocks, graph.blocks)


@pytest.mark.slow
def test_kmeans_blocks_are_nearer_to_exact_than_blocks_of_one() -> None:
    duels = random_duels(10, items=15, duels=60)
    exact = build(duels, spg.Exact()).log_evidence()
    errors = [abs(build(duels, spg.PITC(b)).log_evidence() - exact) for b in (1, 3, 30)]
    fitc = abs(build(duels, spg.FITC()).log_evidence() - exact)
    assert errors[0] < EVIDENCE
    assert errors[1] < 0.5 * fitc
    assert errors[2] < fitc


def test_as_many_blocks_as_pairs_are_the_pairs() -> None:
    duels = random_duels(9, items=5, duels=30)
    pairs = len(np.unique(np.sort(np.stack([duels.winners, duels.losers], 1), 1), axis=0))
    graph = build(duels, spg.PITC(pairs)).graph
    assert graph.blocks.max() + 1 == pairs
    with pytest.raises(ValueError, match=rf"PITC\({pairs + 1}\) asks for more blocks than the"):
        build(duels, spg.PITC(pairs + 1))


# Other parts of the package.


@pytest.mark.slow
def test_item_effects_and_white_noise_within_a_block() -> None:
    duels, blocks = contradictory()
    for extra in (spg.ItemEffect(0.6), gpflow.kernels.White(0.6)):
        kernel = gpflow.kernels.SquaredExponential(lengthscales=0.9) + extra
        exact = build(duels, spg.Exact(), kernel=kernel)
        whole = build(duels, spg.PITC(["all"] * len(blocks)), kernel=kernel)
        assert whole.log_evidence() == pytest.approx(exact.log_evidence(), abs=EVIDENCE, rel=0)
        inputs = exact.inputs.of_items()
        for a, b in zip(in_block(whole, inputs, "all"), exact.predict_f(inputs), strict=True):
            assert_close(a, b, FIXED_POINT)
        single = build(duels, spg.PITC(range(len(blocks))), kernel=kernel)
        fitc = build(duels, spg.FITC(), kernel=kernel)
        assert single.log_evidence() == pytest.approx(fitc.log_evidence(), abs=EVIDENCE, rel=0)
        some = build(duels, spg.PITC(blocks), kernel=kernel)
        assert some.infer().converged


def test_kmeans_does_not_look_at_the_numbers_of_items() -> None:
    duels = random_duels(9, items=12, duels=60)
    plain = build(duels, spg.PITC(5))
    kernel = gpflow.kernels.SquaredExponential() + spg.ItemEffect()
    numbered = build(duels, spg.PITC(5), kernel=kernel)
    assert numbered.graph.rows.shape[1] == 3
    np.testing.assert_array_equal(numbered.graph.blocks, plain.graph.blocks)


@pytest.mark.covering("1")
@pytest.mark.parametrize("index", [1, 3])
def test_lower_bounds_against_dense_matrices(index: int) -> None:
    model = pitc_case(index)
    graph, case = model.graph, DUEL_CASES[index]
    repeat = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    model.infer()
    nu, tau = model.inference.sites()
    expected = slow_lower_bounds(
        graph.rows,
        graph.winners[repeat],
        graph.losers[repeat],
        squared_exponential(case["variance"], case["lengthscales"]),
        case["noise_variance"],
        nu[repeat],
        tau[repeat],
        case["inducing"],
        blocks=graph.blocks[repeat],
    )
    found = model.lower_bounds()
    assert set(found.rows) == set(expected)
    for row, value in expected.items():
        assert found.rows[row] == pytest.approx(value, abs=IDENTITY, rel=IDENTITY), row
    assert model.lower_bound() < case["results"]["exact"]["log_evidence"]


def test_evidence_report_knows_that_it_is_no_bound() -> None:
    report = spg.evidence_report(pitc_case(3), samples=0)
    assert report.approximation == "PITC"
    assert report.duels == report.duels_used == 40
    assert report.lower_bound < report.log_evidence


def test_regression_with_blocks_is_the_gaussian_with_that_covariance() -> None:
    rng = np.random.default_rng(7)
    x, y, z = rng.normal(size=(12, 1)), rng.normal(size=12), np.array([[-1.0], [0.3]])
    blocks = np.arange(12) % 4
    model = RegressionGP(
        x,
        y,
        gpflow.kernels.Matern52(variance=1.4, lengthscales=0.8),
        approximation=spg.PITC(blocks),
        inducing_variable=z,
        noise_variance=0.2,
    )
    kernel = matern52(1.4, 0.8)
    k, k_xz = gram(kernel, x, x), gram(kernel, x, z)
    q = k_xz @ np.linalg.solve(gram(kernel, z, z), k_xz.T)
    covariance = np.where(blocks[:, None] == blocks[None], k, q) + 0.2 * np.eye(12)
    sign, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    expected = -0.5 * (y @ np.linalg.solve(covariance, y) + log_det)
    assert sign == 1.0
    assert model.log_evidence() == pytest.approx(expected, abs=IDENTITY)


@pytest.mark.slow
def test_a_saved_model_keeps_its_blocks(tmp_path: Path) -> None:
    duels, blocks = contradictory()
    for approximation, block in ((spg.PITC(blocks), "bo"), (spg.PITC(4, seed=2), 1)):
        model = build(duels, approximation)
        spg.save(model, tmp_path / "model")
        again = spg.load(tmp_path / "model")
        assert again.approximation == approximation
        np.testing.assert_array_equal(again.graph.blocks, model.graph.blocks)
        np.testing.assert_array_equal(again.duels.merged.rows, duels.merged.rows)
        assert again.infer() == model.infer()
        for a, b in zip(
            in_block(again, NEW, block, full_cov=True),
            in_block(model, NEW, block, full_cov=True),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_blocks_are_those_that_were_saved_when_kmeans_finds_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duels = random_duels(9, items=12, duels=60)
    model = build(duels, spg.PITC(4))
    spg.save(model, tmp_path / "model")
    monkeypatch.setattr(
        "sparse_prefgp.approximations.pitc.kmeans_labels",
        lambda rows, count, rng: np.arange(len(rows)) % count,
    )
    again = spg.load(tmp_path / "model")
    assert again.approximation != model.approximation
    assert_close(again.log_evidence(), model.log_evidence(), ROUNDING)
    for number in range(4):
        for a, b in zip(
            in_block(again, NEW, number),
            in_block(model, NEW, number),
            strict=True,
        ):
            assert_close(a, b, ROUNDING)
    assert describing.given_blocks(again).shape == (60,)


@pytest.mark.slow
def test_update_goes_on_with_blocks() -> None:
    duels = random_duels(9, items=12, duels=60)
    new = pd.DataFrame({"winner": [0, 3], "loser": [5, 4]})
    updated, report = spg.update(build(duels, spg.PITC(4)), new)
    assert updated.graph.blocks.max() + 1 == 4
    assert report.converged

    given = build(duels, spg.PITC([f"s{i % 4}" for i in range(60)]))
    with pytest.raises(ValueError, match="has no column 'block' that says it"):
        spg.update(given, new)
    # A pair in an old block and the same one in a new block, a new pair in an old block.
    winner, loser = int(duels.winners[1]), int(duels.losers[1])
    more = pd.DataFrame({"winner": [winner, winner, 3], "loser": [loser, loser, 4]})
    updated, report = spg.update(given, more.assign(block=["s1", "s9", "s0"]))
    assert report.converged and report.continued_sites == given.graph.num_sites
    fresh = build(updated.duels, updated.approximation)
    assert updated.approximation.labels == ("s0", "s1", "s2", "s3", "s9")
    assert_close(updated.log_evidence(), fresh.log_evidence(), 1e-8)
    assert report.sweeps < fresh.infer().sweeps


def test_greedy_choice_of_inducing_inputs_is_refused() -> None:
    model = pitc_case(1)
    with refused("gain", "blocks"):
        spg.greedy_em(model, 7, np.random.default_rng(0))


# Values.


def test_it_is_a_value_that_says_which_blocks_it_has() -> None:
    assert spg.PITC([0, 0, 1]) == spg.PITC(np.array([0, 0, 1])) != spg.PITC([0, 1, 1])
    assert hash(spg.PITC([0, 0, 1])) == hash(spg.PITC((0, 0, 1)))
    assert repr(spg.PITC(5)) == "PITC(5)"
    assert repr(spg.PITC(5, 3)) == "PITC(5, 3)"
    assert repr(spg.PITC([0, 0, 1])).startswith("PITC(2 blocks of 3 duels, ")
    # What a checkpoint compares.
    assert repr(spg.PITC([0, 0, 1])) != repr(spg.PITC([0, 1, 1]))
    # Whole numbers that became floats in a data frame are the same blocks.
    assert spg.PITC(pd.Series([1.0, 2.0])) == spg.PITC([1, 2])
    assert "blocks of up to" in str(pitc_case(1))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (0, "number of blocks is 0; give a whole number, at least 1"),
        (2.5, "number of blocks is 2.5; give a whole number, at least 1"),
        (True, "one label for each duel"),
        ("person", "one label for each duel"),
        ([], "one label for each duel"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([0, None, 1], "Duel 1 has no block; give each duel a block, named by a text"),
        ([0.0, float("nan")], "Duel 1 has no block; give each duel a block, named by a text"),
        (pd.Series(["a", None]), "Duel 1 has no block; give each duel a block, named by a text"),
        ([0.5, 1.0], "Duel 0 has the block 0.5"),
        ([True, False], "Duel 0 has the block True"),
    ],
)
def test_blocks_that_make_no_sense_are_refused(blocks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spg.PITC(blocks)


@pytest.mark.parametrize("count", [25, 27])
def test_blocks_that_do_not_cover_the_duels_are_refused(count: int) -> None:
    duels, _ = contradictory()
    with pytest.raises(ValueError, match=rf"blocks for {count} duels, but there are 26; give one"):
        build(duels, spg.PITC([0] * count))


def test_a_block_that_is_not_there_is_refused() -> None:
    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks))
    with pytest.raises(ValueError, match="no block 'dan'; the blocks are 'al', 'bo', 'cy'"):
        in_block(model, NEW, "dan")
    with pytest.raises(ValueError, match="no block 3; the blocks are 0, 1, 2"):
        in_block(build(duels, spg.PITC(3)), NEW, 3)
    with refused("no_blocks", "joining"):
        in_block(build(duels, spg.FITC()), NEW, 0)


def test_a_kernel_that_takes_no_stacked_inputs_is_told() -> None:
    class Flat(gpflow.kernels.Kernel):
        def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
            tf.debugging.assert_rank(X, 2)
            return tf.matmul(X, X if X2 is None else X2, transpose_b=True)

        def K_diag(self, X: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(X * X, -1)

    duels, blocks = contradictory()
    model = build(duels, spg.PITC(blocks), kernel=Flat(), inducing_variable=duels.items[:1])
    with pytest.raises(ValueError, match="Flat fails on stacked inputs"):
        model.infer()


def test_the_sequential_engine_says_how_far_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_rank_buckets, "SEQUENTIAL_UP_TO", 10)
    model = pitc_case(1, spg.SequentialEP())
    with pytest.raises(ValueError, match=r"takes at most 10; use ParallelEP\(\)"):
        model.infer()


def test_sites_of_a_graph_without_given_duels_are_its_duels() -> None:
    graph = DuelGraph.from_duels(case_duels(DUEL_CASES[3]))
    bare = replace(graph, event_of_duel=None, count_of_duel=None)
    blocks = np.arange(graph.num_sites) % 3
    cut = spg.PITC(blocks).select(bare)
    np.testing.assert_array_equal(cut.counts, graph.counts)
    np.testing.assert_array_equal(cut.blocks, blocks)
