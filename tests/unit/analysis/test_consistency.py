"""Contradictions, cycles, and whether a model explains them."""

import itertools
import json
from importlib import import_module

import gpflow
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

import sparse_prefgp as spg
from sparse_prefgp.analysis.consistency import BY_PAIR, EACH_TIME, JOINTLY, ONCE, consistency
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.io import read_duels
from tests.cases import random_duels
from tests.tolerances import IDENTITY, KS_LEVEL, MONTE_CARLO_STANDARD_ERRORS

# The package's own attribute of that name is the function.
room = import_module("sparse_prefgp.analysis.consistency")

VOTES = 12


def votes(utility, rng, pairs=None):
    """`VOTES` votes on each pair, with probit noise of variance ½ a side."""
    n = len(utility)
    if pairs is None:
        pairs = np.array(list(itertools.combinations(range(n), 2)))
    won = rng.binomial(VOTES, ndtr(utility[pairs[:, 0]] - utility[pairs[:, 1]]))
    both = np.concatenate([pairs, pairs[:, ::-1]])
    counts = np.concatenate([won, VOTES - won])
    return both[counts > 0], counts[counts > 0]


@pytest.fixture(scope="module")
def transitive():
    """Duels whose utility is drawn from the model's own prior, and that model."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-2, 2, size=(18, 1)), axis=0)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=0.8)
    utility = rng.multivariate_normal(np.zeros(18), kernel(x).numpy(), method="svd")
    edges, counts = votes(utility, rng)
    duels = spg.Duels(x, edges[:, 0], edges[:, 1], counts)
    return spg.PreferenceGP(duels, kernel)


def by_hand(duels):
    n = duels.num_items
    won = np.zeros((n, n), dtype=int)
    np.add.at(won, (duels.winners, duels.losers), duels.counts)
    better = won > won.T
    found = {"contradicted_pairs": 0, "minority_votes": 0, "tied_pairs": 0, "cycles": 0}
    found |= {"triples": 0, "decided_triples": 0, "pairs": 0}
    for i, j in itertools.combinations(range(n), 2):
        compared = won[i, j] + won[j, i] > 0
        found["pairs"] += compared
        found["contradicted_pairs"] += won[i, j] > 0 and won[j, i] > 0
        found["minority_votes"] += min(won[i, j], won[j, i])
        found["tied_pairs"] += compared and won[i, j] == won[j, i]
    for i, j, k in itertools.combinations(range(n), 3):
        sides = [(i, j), (j, k), (k, i)]
        found["triples"] += all(won[a, b] + won[b, a] > 0 for a, b in sides)
        found["decided_triples"] += all(better[a, b] or better[b, a] for a, b in sides)
        found["cycles"] += all(better[a, b] for a, b in sides)
        found["cycles"] += all(better[b, a] for a, b in sides)
    return found, won


@pytest.mark.parametrize(("seed", "items", "number"), [(0, 9, 16), (1, 12, 300), (2, 30, 120)])
def test_counts_agree_with_counting_by_hand(seed, items, number):
    duels = random_duels(seed, items=items, duels=number)
    found = consistency(duels)
    expected, won = by_hand(duels)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.votes == number and found.explained is None and not found.conclusion
    if found.decided_triples:
        assert found.share_intransitive == found.cycles / found.decided_triples
    assert len(found.worst) == min(found.cycles, 5)
    weakest = []
    for cycle in found.worst:
        steps = zip(cycle.items, np.roll(cycle.items, -1), strict=True)
        assert cycle.margins == tuple(won[a, b] - won[b, a] for a, b in steps)
        weakest.append(min(cycle.margins))
    assert weakest == sorted(weakest, reverse=True)


def test_the_worst_cycle_is_named():
    ids = ["stone", "scissors", "paper", "well", "leaf"]
    edges = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0), (1, 4)]
    counts = [3, 4, 3, 1, 1, 1, 9]
    winners, losers = ([ids[i] for i in side] for side in zip(*edges, strict=True))
    duels = spg.Duels(np.arange(5.0)[:, None], winners, losers, counts, item_ids=ids)
    found = consistency(duels)
    assert found.cycles == 3
    assert str(found.worst[0]) == ("scissors > paper > stone > scissors (by 4, 3, 3 votes)")
    assert str(found.worst[1]).startswith("scissors > leaf > stone") and "stone > scissors" in str(
        found
    )
    assert json.loads(json.dumps(found.to_dict()))["worst"][0]["margins"] == [4, 3, 3]


def test_a_hub_and_many_items():
    n = 20_000
    x = np.arange(n, dtype=float)[:, None]
    # One item against all others, half of which it beats, and one cycle among them.
    spokes = np.arange(1, n)
    ends = np.stack([np.zeros(n - 1, dtype=int), spokes])
    ends[:, spokes % 2 == 0] = ends[::-1, spokes % 2 == 0]
    winners, losers = np.append(ends[0], 1), np.append(ends[1], 2)
    found = consistency(spg.Duels(x, winners, losers))
    assert (found.triples, found.cycles, found.pairs) == (1, 1, n)
    assert sorted(found.worst[0].items) == [0, 1, 2]


def test_its_own_noise_explains_a_transitive_utility(transitive):
    found = consistency(transitive.duels, transitive, simulations=100)
    assert found.draws == JOINTLY + ONCE and found.cycles > 0 and found.contradicted_pairs > 10
    assert found.explained and "explains the contradictions" in found.conclusion
    for check in found.checks:
        assert check.low <= check.observed <= check.high and check.verdict == "explained"
    assert str(found).endswith(found.conclusion)
    again = consistency(transitive.duels, transitive, simulations=100)
    assert again == found
    assert (
        consistency(transitive.duels, transitive, simulations=100, rng=np.random.default_rng(1))
        != found
    )


@pytest.mark.slow
def test_which_votes_the_model_has_learned_from(transitive):
    own = transitive.duels
    order = np.random.default_rng(0).permutation(own.num_pairs)

    def some(rows, items=own.items):
        return spg.Duels(items, own.winners[rows], own.losers[rows], own.counts[rows])

    assert consistency(some(order), transitive, simulations=100).draws == JOINTLY + ONCE
    for other in (some(order[:-1]), some(order, own.items + 0.01)):
        assert consistency(other, transitive, simulations=100).draws == JOINTLY + EACH_TIME
    # Most of the duels are new to a model of a subset.
    part = spg.PreferenceGP(own, transitive.kernel, approximation=spg.SubsetOfData(100))
    assert consistency(own, part, simulations=100).draws == JOINTLY + EACH_TIME
    z = own.items[::3]
    streamed = spg.StreamedGP(spg.stream_duels(own), transitive.kernel, inducing_variable=z)
    streamed.infer()
    assert consistency(own, streamed, simulations=100).draws == JOINTLY + ONCE
    half = consistency(some(order[::2]), streamed, simulations=100)
    assert half.draws == JOINTLY + EACH_TIME


@pytest.mark.slow
def test_tails_are_uniform_under_the_model():
    # Utilities from the prior, votes with the model's noise, drawn here without the package.
    tails = {"learned from": [], "new": []}
    pairs = np.array(list(itertools.combinations(range(18), 2)))
    for seed in range(80):
        rng = np.random.default_rng([seed, 15])
        x = rng.uniform(-2, 2, size=(18, 2))
        squares = ((x[:, None] - x) ** 2).sum(-1)
        factor = np.linalg.cholesky(np.exp(-0.5 * squares / 0.64) + 1e-9 * np.eye(18))
        utility = factor @ rng.normal(size=18)
        kernel = gpflow.kernels.SquaredExponential(lengthscales=0.8)
        sets = []
        for _ in range(2):
            edges, counts = votes(utility, rng, pairs)
            sets.append(spg.Duels(x, edges[:, 0], edges[:, 1], counts))
        model = spg.PreferenceGP(sets[0], kernel)
        for name, duels in zip(tails, sets, strict=True):
            found = consistency(duels, model, simulations=200, rng=np.random.default_rng(seed))
            assert found.draws == JOINTLY + (ONCE if name == "learned from" else EACH_TIME)
            tails[name].append([check.tail for check in found.checks])
    for name, rows in tails.items():
        for what, tail in zip(("pairs", "minority", "cycles"), np.transpose(rows), strict=True):
            assert kstest(tail, "uniform").pvalue > KS_LEVEL, (name, what)


def test_no_utility_explains_rock_paper_scissors(transitive):
    rng = np.random.default_rng(6)
    duels = transitive.duels
    pairs = np.array(list(itertools.combinations(range(18), 2)))
    step = (pairs[:, 1] - pairs[:, 0]) % 3
    # Each kind beats the next nine times in ten; within a kind it is a coin.
    chance = np.array([0.5, 0.9, 0.1])[step]
    won = rng.binomial(VOTES, chance)
    both, counts = np.concatenate([pairs, pairs[:, ::-1]]), np.append(won, VOTES - won)
    planted = spg.Duels(duels.items, both[counts > 0, 0], both[counts > 0, 1], counts[counts > 0])
    model = spg.PreferenceGP(planted, transitive.kernel)
    found = consistency(planted, model, simulations=100)
    cycles = found.checks[2]
    assert cycles.observed > 200 and cycles.verdict == "more than the model explains"
    assert 0.0 < cycles.tail < 1 / 101
    assert not found.explained and "several kinds of voters" in found.conclusion
    assert json.loads(json.dumps(found.to_dict()))["explained"] is False


def test_above_a_size_each_pair_is_drawn_by_itself(transitive, monkeypatch):
    own = transitive.duels
    more = spg.Duels(own.items, own.winners, own.losers, own.counts + 1)
    jointly = consistency(more, transitive, simulations=200)
    monkeypatch.setattr(room, "JOINT_UP_TO", 10)
    assert consistency(own, transitive, simulations=100).draws == BY_PAIR + ONCE
    found = consistency(more, transitive, simulations=200)
    assert found.draws == BY_PAIR + EACH_TIME and found.jitter == 0.0
    # Contradictions depend on each pair alone, so that both ways agree on their mean.
    for one, other in zip(found.checks[:2], jointly.checks[:2], strict=True):
        spread = (other.high - other.low) / 4
        assert abs(one.expected - other.expected) < spread


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE(), spg.FITC(), spg.PriorPower(0.5)])
@pytest.mark.parametrize("effect", [False, True])
@pytest.mark.parametrize("most", [2, 2000])
@pytest.mark.covering(every=16)
def test_each_vote_is_redrawn_with_its_predicted_probability(
    transitive, monkeypatch, approximation, effect, most
):
    monkeypatch.setattr(room, "JOINT_UP_TO", most)
    duels, sides = transitive.duels, (transitive.duels.winners, transitive.duels.losers)
    duels = spg.Duels(duels.items, *sides, duels.counts, item_ids=range(18))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=0.8)
    model = spg.PreferenceGP(
        duels,
        kernel + spg.ItemEffect(variance=0.3) if effect else kernel,
        approximation=approximation,
        inducing_variable=duels.items[[1, 9, 16]] if approximation.needs_inducing else None,
    )
    # Half of the items are not those of the model.
    ids = [i if i % 2 else f"new {i}" for i in range(18)]
    new = spg.Duels.from_events(duels.items, Answers.between(*sides), item_ids=ids)
    graph = room._Pairs.of(new)
    draws = room._draws(graph, new, model, np.random.default_rng(0))
    noise = room._Votes.of(graph, new, model, draws.residual).noise
    chances = ndtr(np.array([draws.draw() for _ in range(4000)]) / noise)
    numbers = np.array([i if i % 2 else -1 for i in range(18)], dtype=float)
    x = np.column_stack([duels.items, numbers]) if effect else duels.items
    first, second = (x[graph.items[end]] for end in (graph.first, graph.second))
    error = chances.std(axis=0) / 4000**0.5
    gap = np.abs(chances.mean(axis=0) - np.asarray(model.predict_duel(first, second)))
    assert gap.max() < MONTE_CARLO_STANDARD_ERRORS * error.max()
    assert (noise > 1.0 + IDENTITY).any() == (approximation.name in ("FITC", "PriorPower"))


def test_item_effects_follow_their_items(transitive):
    duels = transitive.duels
    kernel = gpflow.kernels.SquaredExponential(lengthscales=0.8) + spg.ItemEffect(variance=0.1)
    model = spg.PreferenceGP(duels, kernel)
    found = consistency(duels, model, simulations=100)
    assert found.draws == JOINTLY + ONCE and found.explained
    # The same votes on items that the model does not know are less certain.
    ids = [f"item {i}" for i in range(18)]
    unknown = spg.Duels(duels.items, duels.winners, duels.losers, duels.counts, item_ids=ids)
    other = consistency(unknown, model, simulations=100)
    assert other.cycles == found.cycles and other.checks != found.checks
    named = spg.PreferenceGP(unknown, kernel)
    assert consistency(unknown, named, simulations=100).checks == found.checks


@pytest.mark.parametrize(("draws", "ending"), [(JOINTLY, "in the model."), (BY_PAIR, "adds some.")])
def test_fewer_than_expected(draws, ending):
    few = room.Check("x", 5, expected=20.0, low=12.0, high=28.0, tail=1.0)
    assert few.verdict == "fewer than the model expects"
    assert room.Check("x", 20, 20.0, 12.0, 28.0, 0.5).verdict == "explained"
    found = room.Consistency(90, 40, 5, 5, 0, 30, 20, 5, (), (few, few, few), 200, draws)
    assert found.explained and "less than the model expects" in found.conclusion
    assert found.conclusion.endswith(ending)


def test_nothing_to_explain(transitive):
    found = consistency(spg.Duels([[0.0], [1.0]], [0], [1]), transitive, simulations=100)
    assert found.explained and "nothing for the model to explain" in found.conclusion
    assert np.isnan(found.share_intransitive) and found.to_dict()["share_intransitive"] is None
    with pytest.raises(ValueError, match="simulations is 99"):
        consistency(transitive.duels, transitive, simulations=99)


def test_convincing_arguments(data_dir):
    folder = data_dir / "ukp_convincing"
    found = consistency(
        read_duels(folder / "items.csv.gz", folder / "duels.csv.gz", ignore=["source_id", "debate"])
    )
    assert found.votes == 65_340 and found.pairs == 16_800
    assert found.triples == 173_592 and found.cycles == 5_415
