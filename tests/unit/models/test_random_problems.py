"""Models of small random problems, out of the product of all features, against dense matrices."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from tests.reference.random_problems import (
    APART,
    FEATURES,
    NEEDS,
    can_be,
    deviations,
    drawn,
    features,
    made,
    possible,
    slopes,
)
from tests.together import refused
from tests.tolerances import GRADIENT, IDENTITY

SEEDS = range(200)
# Of which each has a feature that those before it have not, and together they have all.
FEW = (0, 1, 2, 3, 5, 10, 11, 15, 22)


def check(problem, approximation):
    found = deviations(problem, approximation)
    off = {name: value for name, value in found.items() if not value < IDENTITY}
    assert not off, f"{approximation}, {sorted(problem.has)}: {off}"


@pytest.mark.parametrize("seed", FEW)
def test_agrees_with_dense_matrices(seed):
    problem = drawn(seed)
    names = possible(problem)
    check(problem, names[seed % len(names)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_agrees_with_dense_matrices_by_every_approximation(seed):
    problem = drawn(seed)
    for name in possible(problem):
        check(problem, name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_the_slope_of_dense_matrices(seed):
    problem = drawn(seed)
    names = possible(problem)
    by_model, by_differences = slopes(problem, names[seed % len(names)])
    np.testing.assert_allclose(by_model, by_differences, rtol=GRADIENT, atol=GRADIENT)


def test_every_feature_is_alone_and_with_every_other():
    every = [features(seed) for seed in SEEDS]
    assert frozenset().union(*(every[seed] for seed in FEW)) == {*FEATURES}
    assert {FEATURES[seed // 4 % len(FEATURES)] for seed in SEEDS[3::4]} == {*FEATURES}
    pairs = Counter(frozenset(pair) for has in every for pair in combinations(has, 2))
    able = {frozenset(pair) for pair in combinations(FEATURES, 2) if can_be(pair)}
    assert {*pairs} == able


@pytest.mark.parametrize("pair", APART, ids="-".join)
def test_what_is_not_drawn_is_refused(pair):
    needed = {group[0] for name in pair for group in NEEDS.get(name, [])}
    with refused(*APART[pair]):
        made(drawn(1, frozenset({*pair, *needed})), "vfe")


def test_item_against_itself_has_no_effect_of_a_pair():
    problem = drawn(1, frozenset({"contexts", "pair_effect"}))
    twice = np.flatnonzero(np.bincount(problem.item) > 1)[0]
    rows = np.flatnonzero(problem.item == twice)[:2]
    again = problem.said[0]._replace(sides=tuple(rows.tolist()))
    check(problem._replace(said=(*problem.said, again)), "exact")


def test_unknown_label_of_a_set_is_one():
    problem = drawn(0, frozenset({"choices", "covariates", "leans"}))
    asked = tuple(each._replace(label=-1) for each in problem.asked)
    check(problem._replace(asked=asked), "exact")
