"""The hallucination believer: what is believed, and the challenger that follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis import hallucination
from sparse_prefgp.analysis.challenger import ACQUISITIONS, maximised
from sparse_prefgp.analysis.hallucination import believed, hallucinations
from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.plotting.items import _numeric_columns
from sparse_prefgp.sampling import sample_posterior
from tests.cases import incidence, random_duels
from tests.reference import slow_suggestion as slow
from tests.tolerances import EXPECTATION, IDENTITY, MONTE_CARLO_STANDARD_ERRORS

BOX = np.array([[-2.0, 1.0], [-1.5, 2.5]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def made(approximation: Any = None, **options: Any) -> spg.PreferenceGP:
    duels = random_duels(0, items=9, duels=24)
    approximation = approximation or spg.Exact()
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.Matern52(variance=1.5, lengthscales=[1.0, 0.7]),
        approximation=approximation,
        inducing_variable=duels.items[:5] + 0.1 if approximation.needs_inducing else None,
        noise_variance=0.3,
        mean_function=gpflow.functions.Linear(np.array([[0.4], [-0.2]])),
        **options,
    )


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return made()


def prior_of(model: spg.PreferenceGP) -> tuple[DuelProblem, DuelPrior]:
    problem = model.problem()
    return problem, model.approximation.prior(problem)


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC()], ids=str)
def test_utilities_given_v_are_a_gaussian_process_on_v(approximation: Any) -> None:
    model = made(approximation)
    problem, prior = prior_of(model)
    graph = model.graph
    site = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    v = rng(1).normal(size=len(site)) - 1.0
    new = rng(2).normal(size=(4, 2))
    posterior = believed(problem, prior, v, site)
    mean, covariance = (x.numpy() for x in posterior.joint(tf.constant(new)))

    # Dense: z = A f(rows), of which inducing values explain K_xu K_uu⁻¹ K_uy of k(x, y).
    a, kernel = incidence(graph)[site], model.kernel

    def between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not approximation.needs_inducing:
            return kernel(x, y).numpy()
        u = model.inducing_variable.Z.numpy()
        return kernel(x, u).numpy() @ np.linalg.solve(kernel(u).numpy(), kernel(u, y).numpy())

    noise = prior.factors.noise.numpy()[site]
    expected, spread = slow.given_v(
        kernel(new).numpy(),
        between(new, graph.rows) @ a.T,
        a @ between(graph.rows, graph.rows) @ a.T,
        noise,
        v,
    )
    expected += model.mean_function(new).numpy()[:, 0]
    np.testing.assert_allclose(mean, expected, atol=IDENTITY)
    np.testing.assert_allclose(covariance, spread, atol=IDENTITY)


def test_moments_of_several_draws_are_those_of_each(model: spg.PreferenceGP) -> None:
    drawn = hallucinations(model, 3, rng())
    new = rng(2).normal(size=(4, 2))
    means, variance = drawn.moments(new)
    assert drawn.exact and drawn.converged and means.shape == (3, 4)
    for mean, posterior in zip(means, drawn.posteriors, strict=True):
        found = posterior.marginal(tf.constant(new)).numpy()
        np.testing.assert_allclose(mean, found[:, 0], atol=IDENTITY)
        np.testing.assert_allclose(variance, found[:, 1], atol=IDENTITY)
    assert np.ptp(means, axis=0).min() > 0.01


@pytest.mark.slow
def test_draws_average_to_the_exact_posterior(model: spg.PreferenceGP) -> None:
    count = 150
    means, variance = hallucinations(model, count, rng(3)).moments(model.duels.items)
    first, second = means[:, :-1], means[:, 1:]
    truth = sample_posterior(model, 2000, rng(4)).difference(
        model.duels.items[:-1], model.duels.items[1:]
    )
    averaged = (first - second).mean(0)
    error = np.hypot((first - second).std(0) / np.sqrt(count), truth.mean_error)
    assert np.all(np.abs(averaged - truth.mean) < MONTE_CARLO_STANDARD_ERRORS * error)
    assert np.all(variance > 0.0)


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC()], ids=str)
def test_many_duels_believe_what_inference_found(
    approximation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hallucination, "SAMPLED_UP_TO", 5)
    model = made(approximation)
    seen: list[np.ndarray] = []

    def watched(problem: Any, prior: Any, v: np.ndarray, site: np.ndarray) -> Any:
        # Every v says what its duel says: the winner was ahead, prior means included.
        assert np.all(v <= prior.factors.upper.numpy()[site])
        seen.append(v)
        return believed(problem, prior, v, site)

    monkeypatch.setattr(hallucination, "believed", watched)
    count = 150
    drawn = hallucinations(model, count, rng(5))
    assert not drawn.exact and drawn.converged and len(seen) == count
    assert "Gaussian posterior of inference" in drawn.notes()[0]
    means, _ = drawn.moments(model.duels.items)
    # One Gibbs step from the Gaussian posterior stays near it: on average within a third of its
    # standard deviation, while the prior mean is many of them off.
    items = model.duels.items
    mean, var = (x.numpy() for x in model.predict_difference(items[:-1], items[1:]))
    averaged = (means[:, :-1] - means[:, 1:]).mean(0)
    assert np.max(np.abs(averaged - mean) / np.sqrt(var)) < 1.0 / 3.0


def test_acquisitions_are_their_integrals() -> None:
    mean, variance = np.array([0.3, -1.0, 4.0]), np.array([0.5, 2.0, 0.1])
    found = ACQUISITIONS["ei"](tf.constant(mean), tf.constant(variance), 0.8).numpy()
    expected = [slow.expected_improvement(m, v, 0.8) for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=EXPECTATION)
    ucb = ACQUISITIONS["ucb"](tf.constant(mean), tf.constant(variance), 0.8).numpy()
    np.testing.assert_allclose(ucb, mean + 2.0 * np.sqrt(variance) - 0.8, rtol=EXPECTATION)


def test_the_largest_value_in_a_box_is_found() -> None:
    box = np.array([[-1.0, 3.0], [10.0, 30.0], [0.5, 0.5]])
    peak = np.array([1.234, 30.0, 0.5])

    def bumps(x: tf.Tensor) -> tf.Tensor:
        # A narrow high bump next to a wide lower one; the second feature pulls over its bound.
        high = 2.0 * tf.exp(-20.0 * (x[:, 0] - 1.234) ** 2)
        low = tf.exp(-((x[:, 0] + 0.5) ** 2))
        return high + 0.01 * low + 0.05 * x[:, 1] + x[:, 2]

    found = maximised(bumps, box, rng())
    np.testing.assert_allclose(found.point, peak, atol=2e-3)
    assert found.value == pytest.approx(float(bumps(tf.constant(found.point[None]))[0]))
    assert found.improved > 0.0
    assert np.all((found.point >= box[:, 0]) & (found.point <= box[:, 1]))


@pytest.mark.parametrize("acquisition", ["ei", "ucb"])
def test_a_challenger_from_a_box(model: spg.PreferenceGP, acquisition: str) -> None:
    found = spg.hallucination_believer(model, bounds=BOX, acquisition=acquisition, rng=rng(8))
    assert np.all((found.challenger >= BOX[:, 0]) & (found.challenger <= BOX[:, 1]))
    assert found.challenger_id is None and found.exact and found.converged
    # The same v on a fine grid finds nothing better, and nearly as good.
    drawn = hallucinations(model, 1, rng(8))
    items = model.duels.items
    compared = np.bincount(np.r_[model.duels.winners, model.duels.losers], minlength=9) > 0
    best = int(np.argmax(np.where(compared, drawn.moments(items)[0][0], -np.inf)))
    assert found.incumbent_id == best
    np.testing.assert_array_equal(found.incumbent, items[best])
    grid = np.stack(np.meshgrid(*(np.linspace(*side, 81) for side in BOX)), -1).reshape(-1, 2)
    means, variance = drawn.moments(grid)
    level = float(drawn.moments(items[best : best + 1])[0][0, 0])
    values = ACQUISITIONS[acquisition](means[0], variance, level).numpy()
    assert values.max() - IDENTITY <= found.value < values.max() + 0.01 * abs(values.max())
    assert found.probability == pytest.approx(
        float(model.predict_duel(found.incumbent[None], found.challenger[None])[0])
    )
    assert "a new item (0: " in str(found) and acquisition.upper() in str(found)


def test_a_challenger_from_a_pool(model: spg.PreferenceGP) -> None:
    new = rng(9).normal(size=(30, 2))
    found = spg.hallucination_believer(model, pool=new, incumbent=4, rng=rng(10))
    # The id 4 is looked up in the pool first.
    np.testing.assert_array_equal(found.incumbent, new[4])
    drawn = hallucinations(model, 1, rng(10))
    means, variance = drawn.moments(new)
    values = np.array(
        [
            slow.expected_improvement(m, v, means[0, 4])
            for m, v in zip(means[0], variance, strict=True)
        ]
    )
    values[4] = -np.inf
    assert found.challenger_id == int(np.argmax(values))
    assert found.value == pytest.approx(values.max(), rel=EXPECTATION)
    assert found.looked_at == 30 and found.improved == 0.0


def test_pairs_of_a_batch_come_from_draws_of_their_own(model: spg.PreferenceGP) -> None:
    found = spg.suggest(model, batch=4, score="hallucination", rng=rng(11))
    pairs = list(zip(found.frame["first"], found.frame["second"], strict=True))
    assert len({frozenset(pair) for pair in pairs}) == 4
    drawn = hallucinations(model, 4, rng(11))
    means, variance = drawn.moments(model.duels.items)
    first, second = pairs[0]
    values = [
        slow.expected_improvement(m, v, means[0, first])
        for m, v in zip(means[0], variance, strict=True)
    ]
    values[first] = -np.inf
    assert first == int(np.argmax(means[0])) and second == int(np.argmax(values))
    assert found.frame["score"][0] == pytest.approx(max(values), rel=EXPECTATION)
    assert (found.looked_at, found.possible) == (8, 36)


@pytest.mark.slow
def test_raw_units_and_item_effects() -> None:
    generator = rng(12)
    items = pd.DataFrame(
        {
            "item_id": list("abcdefgh"),
            "size": generator.normal(50, 9, 8),
            "age": generator.normal(size=8),
        }
    )
    duels = pd.DataFrame({"winner": list("abcdab"), "loser": list("efghba")})
    kernel = gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.3)
    model = spg.PreferenceGP(spg.read_duels(items, duels), kernel, approximation=spg.Exact())
    found = spg.hallucination_believer(model, bounds=[[-1, 1], [0, 2]], incumbent="b", rng=rng())
    transform = model.duels.transform
    assert transform is not None and found.challenger_raw is not None
    raw = pd.DataFrame([found.challenger_raw])
    np.testing.assert_allclose(transform.apply(raw)[0], found.challenger, atol=IDENTITY)
    assert found.incumbent_id == "b" and "size: " in str(found)
    pooled = spg.hallucination_believer(model, pool=items, rng=rng())
    assert pooled.challenger_id in set("abcdefgh") - {pooled.incumbent_id}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "neither was given"),
        ({"bounds": BOX, "pool": np.zeros((2, 2))}, "both were given"),
        ({"bounds": BOX[:1]}, r"give \(2, 2\)"),
        ({"bounds": [[0, np.inf], [0, 1]]}, "finite"),
        ({"bounds": "wide"}, "give numbers"),
        ({"bounds": BOX[:, ::-1]}, "give the lower one first"),
        ({"bounds": BOX, "acquisition": "pi"}, "acquisition is 'pi'"),
        ({"bounds": BOX, "incumbent": "me"}, "'me' is not among .*; give the id"),
        ({"pool": np.zeros((2, 2))}, "nothing but the incumbent"),
    ],
)
def test_mistakes(model: spg.PreferenceGP, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.hallucination_believer(model, rng=rng(), **options)


def test_a_categorical_column_has_no_range() -> None:
    items = pd.DataFrame({"item_id": [1, 2, 3], "size": [1.0, 2.0, 4.0], "colour": ["r", "g", "r"]})
    duels = pd.DataFrame({"winner": [1, 2], "loser": [2, 3]})
    model = spg.PreferenceGP(spg.read_duels(items, duels), gpflow.kernels.SquaredExponential())
    with pytest.raises(ValueError, match="categorical column 'colour', which has no range"):
        spg.hallucination_believer(model, bounds=np.zeros((3, 2)), rng=rng())


def test_what_is_made_of_texts_has_no_range(tmp_path: Path) -> None:
    said = ["one two three", "two three four, five", "six"]
    items = pd.DataFrame({"item_id": [1, 2, 3], "size": [1.0, 2.0, 4.0], "said": said})
    duels = pd.DataFrame({"winner": [1, 2], "loser": [2, 3]})
    model = spg.PreferenceGP(
        spg.read_duels(items, duels, text="said"), gpflow.kernels.SquaredExponential()
    )
    d = model.duels.num_features
    with pytest.raises(ValueError, match="made of the texts 'said', which has no range"):
        spg.hallucination_believer(model, bounds=np.zeros((d, 2)), rng=rng())
    found = spg.hallucination_believer(model, pool=items, rng=rng())
    assert found.challenger_raw is None  # features of a text are not what it says
    # A statistic of a text is a number, whose range a picture of inducing inputs looks at.
    assert _numeric_columns(model.duels).tolist() == list(range(d))
    sides = {f"{side}_{name}": [0.0] for side in ("winner", "loser") for name in ("size", "said")}
    pd.DataFrame(sides).to_parquet(tmp_path / "sides.parquet")
    with pytest.raises(ValueError, match="some of the model are made of the texts 'said'"):
        spg.evaluate(model, tmp_path)


@pytest.mark.slow
def test_the_loop_finds_the_top_of_a_function() -> None:
    """Twelve duels in a box of two features: how often less than 0.1 of regret is left, next to as
    many random challengers against the last winner.

    The mean says little: a quarter of the runs climb the lower of the two tops, and stay there.
    """

    def truth(x: np.ndarray) -> np.ndarray:
        return 3.0 * np.exp(-4.0 * np.sum((x - 0.6) ** 2, -1)) + np.exp(
            -4.0 * np.sum((x + 0.5) ** 2, -1)
        )

    def regret(seed: int, clever: bool) -> float:
        generator = rng(seed)
        items = generator.uniform(-1.0, 1.0, (4, 2))
        kernel = gpflow.kernels.SquaredExponential(variance=2.0, lengthscales=[0.4, 0.4])
        order = np.argsort(-truth(items))
        duels = spg.Duels(items, order[:-1], order[1:])
        model = spg.PreferenceGP(duels, kernel, noise_variance=0.005)
        last = int(order[0])
        for _ in range(12):
            new = generator.uniform(-1.0, 1.0, 2)
            if clever:
                new = spg.hallucination_believer(
                    model, bounds=[[-1, 1], [-1, 1]], incumbent=last, rng=generator
                ).challenger
            n = len(items)
            noise = 0.1 * generator.normal()
            won = truth(new) - truth(items[last]) + noise > 0.0
            winner, loser = (n, last) if won else (last, n)
            items = np.vstack([items, new])
            if clever:  # chance asks no model
                answer = pd.DataFrame({"winner": [winner], "loser": [loser]})
                model, _ = spg.update(model, answer, new[None])
            last = winner
        return float(3.0 - truth(items[last]))

    found = np.array(
        [[regret(seed, clever) < 0.1 for clever in (False, True)] for seed in range(16)]
    )
    gains = found[:, 1].astype(float) - found[:, 0]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    assert gains.mean() > 2.0 * error and found[:, 1].mean() > 0.5
