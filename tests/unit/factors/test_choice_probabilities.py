"""Probabilities of choices and rankings against quadrature, the cases and identities."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln

from sparse_prefgp.data.sets import best_worst, ranking, set_form
from sparse_prefgp.factors import choice_probabilities
from sparse_prefgp.factors.choice_probabilities import (
    answer_log_probability,
    choice_log_probabilities,
    independent_choice_log_probabilities,
)
from sparse_prefgp.factors.orthants import log_orthants, log_orthants_by_ep, sobol_points
from tests.cases import read
from tests.reference import slow_set_probabilities
from tests.tolerances import IDENTITY, MONTE_CARLO_STANDARD_ERRORS, ROUNDING

KEY = "predictions_from_ep_posterior"
CASES = {
    case["name"]: case
    for case in read("events_cases.json")["cases"]
    if "choice_probabilities" in case.get(KEY, {})
}
# Utilities of four, and variances whose roots differ by up to fourteen times.
MEANS = np.array([[0.0, 1.0, -0.5, 0.3], [0.4, -1.0, 0.2, 0.0]])
VARIANCES = np.array([[0.1, 2.0, 0.5, 1.0], [0.0, 0.4, 9.0, 0.2]])
NOISE = 0.05
RANKING = set_form(ranking, 4, 4)


def everywhere(values: np.ndarray) -> np.ndarray:
    return np.ones(values.shape, bool)


def problems(sets: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(sets, size, size))
    return rng.normal(size=(sets, size)), root @ root.transpose(0, 2, 1) / size


def of_case(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    mean, covariance = (np.array(case["ep"][name])[None] for name in ("mean", "covariance"))
    return mean, covariance, case["noise_variance"], everywhere(mean)


@pytest.mark.parametrize("name", CASES)
def test_expectation_propagation_gives_the_numbers_of_the_cases(name: str) -> None:
    expected = CASES[name][KEY]
    by_ep = np.array(expected["choice_probabilities_by_ep"])
    found = np.exp(choice_log_probabilities(*of_case(CASES[name]))[0])
    np.testing.assert_allclose(found, by_ep / by_ep.sum(), rtol=IDENTITY)
    in_order = np.exp(answer_log_probability(*of_case(CASES[name])[:3], RANKING))
    np.testing.assert_allclose(
        in_order, expected["probability_of_the_ranking_0123_by_ep"], rtol=IDENTITY
    )


@pytest.mark.parametrize("name", CASES)
def test_points_find_the_truth(name: str) -> None:
    expected, rng = CASES[name][KEY], np.random.default_rng(0)
    found = []
    for _ in range(16):
        points = sobol_points(512, 3, rng)
        case = of_case(CASES[name])
        choices = choice_log_probabilities(*case, points)[0]
        found.append([*choices, *answer_log_probability(*case[:3], RANKING, points[:, :2])])
    draws = np.exp(found)
    truth = [*expected["choice_probabilities"], expected["probability_of_the_ranking_0123"]]
    errors = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - truth) < MONTE_CARLO_STANDARD_ERRORS * errors)
    # The root of the mean square that 256 points are said to have.
    assert np.sqrt(np.mean((draws - truth) ** 2)) < 3e-4


def test_points_of_a_set_sum_to_one() -> None:
    mean, covariance = problems(3, 4, 3)
    points = sobol_points(2**15, 3, np.random.default_rng(1))
    found = choice_log_probabilities(mean, covariance, 0.5, everywhere(mean), points)
    assert np.abs(np.exp(found).sum(1) - 1.0).max() < 3e-5


@pytest.mark.parametrize("chosen", range(4))
def test_choice_of_independent_utilities_is_an_integral(chosen: int) -> None:
    found = independent_choice_log_probabilities(MEANS, VARIANCES, NOISE, everywhere(MEANS))
    expected = [
        slow_set_probabilities.choice_of_independent(mean, variance + NOISE, chosen)
        for mean, variance in zip(MEANS, VARIANCES, strict=True)
    ]
    np.testing.assert_allclose(np.exp(found[:, chosen]), expected, rtol=IDENTITY)


def test_choice_of_what_is_hardly_ever_chosen() -> None:
    mean, variance = np.array([[-30.0, 0.0, 1.0]]), np.array([[0.5, 0.0, 1.5]])
    found = independent_choice_log_probabilities(mean, variance, 0.5, everywhere(mean))[0, 0]
    with mpmath.workdps(40):
        sd = [mpmath.sqrt(v + 0.5) for v in variance[0]]

        def inside(y: Any) -> Any:
            below = [mpmath.ncdf((y - m) / s) for m, s in zip(mean[0][1:], sd[1:], strict=True)]
            return mpmath.npdf(y, mean[0][0], sd[0]) * below[0] * below[1]

        expected = float(mpmath.log(mpmath.quad(inside, list(range(-40, 6)))))
    np.testing.assert_allclose(found, expected, rtol=IDENTITY)


@pytest.mark.parametrize("size", [2, 3, 6, 10, 40])
def test_equal_utilities(size: int) -> None:
    zero = np.zeros((1, size))
    choices = independent_choice_log_probabilities(zero, zero, 0.3, everywhere(zero))
    np.testing.assert_allclose(choices, np.full((1, size), -np.log(size)), rtol=IDENTITY)


# Section "How good EP is" of the design: EP minus the truth, to the digits printed there.
@pytest.mark.parametrize(
    ("size", "of_choice", "of_ranking"),
    [(3, -0.0018, 0.0007), (4, -0.0037, 0.0013), (6, -0.0068, 0.0021), (10, -0.0113, 0.0027)],
)
def test_what_expectation_propagation_errs_by(
    size: int, of_choice: float, of_ranking: float
) -> None:
    noise = np.eye(size)
    star = np.hstack([-np.ones((size - 1, 1)), np.eye(size - 1)])
    path = np.eye(size)[1:] - np.eye(size)[:-1]
    zero, all_rows, none = np.zeros((1, size - 1)), np.ones((1, size - 1), bool), np.zeros(1)
    choice, ranking = (
        log_orthants_by_ep(zero, (rows @ noise @ rows.T)[None], all_rows, none)[0]
        for rows in (star, path)
    )
    assert round(choice + np.log(size), 4) == of_choice
    assert round(ranking + gammaln(size + 1.0), 4) == of_ranking


def test_dependent_utilities_against_all_rankings() -> None:
    mean, covariance = problems(1, 4, 5)
    points = sobol_points(2**14, 3, np.random.default_rng(2))
    found = np.exp(choice_log_probabilities(mean, covariance, 0.5, everywhere(mean), points))[0]
    expected = [
        slow_set_probabilities.choice(mean[0], covariance[0] + 0.5 * np.eye(4), j) for j in range(4)
    ]
    np.testing.assert_allclose(found, expected, atol=3e-5)
    by_ep = np.exp(choice_log_probabilities(mean, covariance, 0.5, everywhere(mean)))[0]
    # Measured: 0.0038.
    np.testing.assert_allclose(by_ep, expected, atol=0.004)


@pytest.mark.parametrize("noise", [0.5, 0.01])
def test_how_far_expectation_propagation_is_from_the_truth(noise: float) -> None:
    mean, covariance = problems(400, 3, 1)
    points = sobol_points(1024, 2, np.random.default_rng(0))
    truth = np.exp(choice_log_probabilities(mean, covariance, noise, everywhere(mean), points))
    by_ep = np.exp(choice_log_probabilities(mean, covariance, noise, everywhere(mean)))
    off = np.abs(by_ep - truth).max(1)
    assert np.median(off) < 0.002
    assert np.quantile(off, 0.95) < 0.0075
    assert off.max() < 0.02


def test_a_part_that_all_share_cancels() -> None:
    mean, noise = np.array([[0.2, -0.4, 0.9]]), 0.4
    covariance = np.diag([0.3, 0.8, 0.1])[None]
    shared = covariance + 5.0
    for points in (None, sobol_points(256, 2, np.random.default_rng(4))):
        np.testing.assert_allclose(
            choice_log_probabilities(mean, shared, noise, everywhere(mean), points),
            choice_log_probabilities(mean, covariance, noise, everywhere(mean), points),
            rtol=IDENTITY,
        )


def test_what_is_masked_out_does_not_count() -> None:
    mean, covariance = problems(3, 6, 7)
    mask = np.arange(6) < np.array([[4], [6], [1]])
    points = sobol_points(256, 5, np.random.default_rng(5))
    noise = np.array([0.2, 0.5, 1.0])
    variance = np.einsum("nii->ni", covariance)
    for i, size in enumerate((4, 6, 1)):
        alone = (mean[i : i + 1, :size], covariance[i : i + 1, :size, :size], noise[i])
        some = everywhere(alone[0])
        for pts in (None, points):
            cut = None if pts is None else pts[:, : max(0, size - 1)]
            found = choice_log_probabilities(mean, covariance, noise, mask, pts)[i]
            expected = choice_log_probabilities(*alone, some, cut)[0]
            np.testing.assert_allclose(found[:size], expected, rtol=IDENTITY, atol=ROUNDING)
            assert np.all(found[size:] == -np.inf)
        free = (alone[0], variance[i : i + 1, :size], noise[i], some)
        found = independent_choice_log_probabilities(mean, variance, noise, mask)[i]
        expected = independent_choice_log_probabilities(*free)[0]
        np.testing.assert_allclose(found[:size], expected, rtol=IDENTITY, atol=ROUNDING)
        assert np.all(found[size:] == -np.inf)


def test_two_equal_items_at_hardly_any_noise() -> None:
    covariance = np.full((1, 4, 4), 0.7)
    covariance[0, :2, :2] = 1.3
    mean = np.array([[3.0, 3.0, 0.0, -1.0]])
    found = np.exp(choice_log_probabilities(mean, covariance, 1e-6, everywhere(mean)))[0]
    np.testing.assert_allclose(found[0], found[1], rtol=IDENTITY)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=IDENTITY)


def test_points_refuse_what_has_no_probability() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        log_orthants(
            np.zeros((1, 2)), np.ones((1, 2, 2)), np.ones((1, 2), bool), np.full((1, 1), 0.5)
        )
    with pytest.raises(ValueError, match="points is 100; give a power of two"):
        sobol_points(100, 3, np.random.default_rng(0))


@pytest.mark.parametrize("points", [None, 64])
def test_sets_in_parts_are_those_of_the_whole(
    points: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean, covariance = problems(7, 4, 5)
    noise, there = np.linspace(0.5, 1.0, 7), everywhere(mean)
    form = set_form(best_worst, 4, 0)

    def every() -> list[np.ndarray]:
        sobol = [
            None if points is None else sobol_points(points, size, np.random.default_rng(0))
            for size in (3, len(form.own) - 1)
        ]
        return [
            choice_log_probabilities(mean, covariance, noise, there, sobol[0]),
            answer_log_probability(mean, covariance, noise, form, sobol[1]),
        ]

    whole = every()
    monkeypatch.setattr(choice_probabilities, "_AT_ONCE", 2 * 4**3)
    for found, expected in zip(every(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=IDENTITY, atol=IDENTITY)
