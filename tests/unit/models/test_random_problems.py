"""Models of small random problems, out of the product of all features, against dense matrices."""

from collections import Counter
from itertools import combinations

import pytest

from tests.reference.random_problems import (
    APART,
    FEATURES,
    deviations,
    drawn,
    features,
    made,
    possible,
    together,
)
from tests.together import refused
from tests.tolerances import IDENTITY

SEEDS = range(200)


def check(seed, approximation):
    found = deviations(seed, approximation)
    off = {name: value for name, value in found.items() if not value < IDENTITY}
    assert not off, f"seed {seed} by {approximation}, {sorted(features(seed))}: {off}"


@pytest.mark.parametrize("seed", SEEDS[:24])
def test_agrees_with_dense_matrices(seed):
    names = possible(drawn(seed))
    check(seed, names[seed % len(names)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_agrees_with_dense_matrices_by_every_approximation(seed):
    for name in possible(drawn(seed)):
        check(seed, name)


def test_every_feature_is_alone_and_with_every_other():
    every = [features(seed) for seed in SEEDS]
    assert {FEATURES[seed // 4 % len(FEATURES)] for seed in SEEDS[3::4]} == {*FEATURES}
    pairs = Counter(frozenset(pair) for has in every for pair in combinations(has, 2))
    able = [frozenset(pair) for pair in combinations(FEATURES, 2) if together({*pair})]
    assert sum(pairs[pair] > 0 for pair in able) > 0.95 * len(able)


@pytest.mark.parametrize("pair", APART, ids="-".join)
def test_what_is_not_drawn_is_refused(pair):
    with refused(*APART[pair]):
        made(drawn(0, frozenset(pair)), "vfe")
