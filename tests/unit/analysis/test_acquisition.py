"""What a duel is worth before it is asked, against integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from sparse_prefgp.analysis import acquisition
from sparse_prefgp.analysis.acquisition import (
    entropy,
    expected_best,
    expected_reduction,
    information_rule,
)
from sparse_prefgp.factors.noise import ratios_of_unknown
from tests.reference import slow_noise
from tests.reference import slow_suggestion as slow
from tests.tolerances import (
    EXPECTATION,
    MONTE_CARLO_STANDARD_ERRORS,
    ROUNDING,
    TURNED_ENTROPY,
    TURNED_ENTROPY_OF_CUTS,
)


@pytest.mark.parametrize("noise", [1e-4, 1.0, 30.0])
@pytest.mark.parametrize("ratio", [1e-6, 0.01, 0.3, 1.0, 10.0, 1e3, 1e6])
def test_information_is_its_integral(noise: float, ratio: float) -> None:
    shares = np.array([0.0, 0.1, 1.0, 2.5, 6.0, 10.0, -3.0])
    mean = shares * np.sqrt(noise * (1.0 + ratio))
    found = information_rule(noise)(mean, np.full(len(mean), noise * ratio))
    expected = [slow.information_gain(m, noise * ratio, noise) for m in mean]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=EXPECTATION)
    assert found[0] > found[1] > found[2] > found[3] > found[4] >= 0.0


@pytest.mark.parametrize("noise", [1e-4, 1.0, 30.0])
@pytest.mark.parametrize("ratio", [1e-6, 0.01, 1.0, 10.0, 1e6])
@pytest.mark.parametrize("margin", [0.01, 0.5, 3.0, 40.0])
def test_information_with_ties_is_its_integral(noise: float, ratio: float, margin: float) -> None:
    shares = np.array([0.0, 0.1, 1.0, 6.0, 10.0, -3.0])
    mean = shares * np.sqrt(noise * (1.0 + ratio))
    margin *= np.sqrt(noise)
    found = information_rule(noise, margin)(mean, np.full(len(mean), noise * ratio))
    expected = [slow.information_gain(m, noise * ratio, noise, margin) for m in mean]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=EXPECTATION)


def test_a_margin_that_vanishes_leaves_two_outcomes() -> None:
    mean, variance = np.linspace(-3, 3, 7), np.linspace(0.01, 4.0, 7)
    for function in (lambda m, v, *noise: information_rule(*noise)(m, v), expected_reduction):
        two, three = (function(mean, variance, 0.7, margin) for margin in (0.0, 1e-12))
        np.testing.assert_allclose(three, two, rtol=1e-9)
    np.testing.assert_array_equal(information_rule(0.7, 0.3)(mean, 0.0 * mean), 0.0)
    far = information_rule(1.0, 0.3)(np.array([60.0, -1e4, 1e150]), np.array([1e-3, 1.0, 2.0]))
    np.testing.assert_array_equal(far, 0.0)


def test_information_at_the_ends() -> None:
    zero = np.zeros(1)
    assert information_rule(1.0)(np.array([0.7]), zero)[0] == pytest.approx(0.0, abs=EXPECTATION)
    # A coin that is known to be decided, but not how, is worth a whole bit.
    known = information_rule(1.0)(zero, np.array([1e16]))[0]
    assert known == pytest.approx(np.log(2.0), abs=1e-7)
    # Far out nothing overflows, and nothing is negative.
    far = information_rule(1.0)(np.array([60.0, -1e4, 1e150]), np.array([1e-3, 1.0, 2.0]))
    np.testing.assert_array_equal(far, 0.0)
    assert len(information_rule(1.0)(np.zeros(0), np.zeros(0))) == 0


def test_information_is_near_the_published_approximation() -> None:
    # Houlsby et al. 2011, section 2.3: E H is near C exp(-m²/2(v + C²)) / sqrt(v + C²), in bits.
    mean, variance = np.linspace(-3, 3, 13), np.linspace(0.01, 4.0, 13)
    c2 = 0.5 * np.pi * np.log(2.0)
    near = np.sqrt(c2 / (variance + c2)) * np.exp(-0.5 * mean**2 / (variance + c2)) * np.log(2.0)
    approximate = entropy(mean / np.sqrt(1.0 + variance)) - near
    found = information_rule(1.0)(mean, variance)
    # Their own error, 0.27 % of a bit at most; here it is another formula that agrees to that.
    assert 0.0 < np.max(np.abs(found - approximate)) < 0.003 * np.log(2.0) * 2.0


def test_pairs_in_parts_are_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=23), rng.uniform(0.0, 3.0, 23)
    whole = information_rule(0.7)(mean, variance)
    monkeypatch.setattr(acquisition, "_AT_ONCE", 5 * 32)
    np.testing.assert_allclose(information_rule(0.7)(mean, variance), whole, rtol=ROUNDING)


@pytest.mark.parametrize(
    ("margin", "within"),
    [(0.1, TURNED_ENTROPY), (0.4, TURNED_ENTROPY), (2.4, TURNED_ENTROPY_OF_CUTS)],
)
def test_an_unknown_judge_with_a_margin_of_its_own_is_its_slow_average(
    margin: float, within: float
) -> None:
    rule = ratios_of_unknown(0.0, 1.0, (0.0, 0.5))
    mean, variance = np.array([0.0, 0.7, -4.0, 0.2]), np.array([0.05, 1.0, 1.0, 5.0])
    found = information_rule(0.6, margin, rule)(mean, 0.6 * variance)
    expected = [
        slow_noise.information_under(m, 0.6 * v, 0.6, margin, rule)
        for m, v in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=within)


def test_an_unknown_judge_is_averaged_once_for_all_pairs_and_picks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluated: list[int] = []

    def counted(z: np.ndarray) -> np.ndarray:
        evaluated.append(z.size)
        return np.asarray(ndtr(z))

    monkeypatch.setattr(acquisition, "ndtr", counted)
    judges = ratios_of_unknown(0.0, 1.0, (0.0, 0.5))
    told = acquisition.information_rule(1.0, 0.3, judges)
    assert sum(evaluated) < 3000 * len(judges.ratios)
    evaluated.clear()
    told(np.linspace(-1.0, 1.0, 435), np.full(435, 0.1))
    # Both limits of a tie, of each pair once, whatever happens at the nodes of the difference.
    assert sum(evaluated) == 2 * 435 * len(judges.ratios)


def test_entropy_in_both_tails() -> None:
    x = np.array([-2.0, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(entropy(x), [slow.entropy(v) for v in x], rtol=EXPECTATION)
    assert entropy(np.zeros(1))[0] == pytest.approx(np.log(2.0), rel=ROUNDING)
    far = np.array([30.0])
    expected = np.exp(norm.logsf(30.0)) * (1.0 - norm.logsf(30.0))
    np.testing.assert_allclose(entropy(far), expected, rtol=EXPECTATION)
    np.testing.assert_array_equal(entropy(far), entropy(-far))


def test_the_better_of_two_is_what_draws_say() -> None:
    rng = np.random.default_rng(1)
    draws = 400_000
    for first, second, a, b, cross in ((0.3, -0.2, 1.0, 2.0, 0.5), (2.0, -1.0, 0.2, 0.1, -0.1)):
        covariance = np.array([[a, cross], [cross, b]])
        f = rng.multivariate_normal([first, second], covariance, draws).max(1)
        variance = a + b - 2.0 * cross
        found = expected_best(np.array([first]), np.array([second]), np.array([variance]))[0]
        error = f.std() / np.sqrt(draws)
        assert abs(found - f.mean()) < MONTE_CARLO_STANDARD_ERRORS * error
        exact = second + slow.expected_improvement(first - second, variance, 0.0)
        assert found == pytest.approx(exact, rel=EXPECTATION)


def test_the_better_of_two_without_variance() -> None:
    first, second = np.array([1.0, -1.0, 0.5]), np.array([0.0, 0.5, 0.5])
    np.testing.assert_array_equal(
        expected_best(first, second, np.zeros(3)), np.maximum(first, second)
    )


@pytest.mark.parametrize("mean", [0.0, 0.4, -2.0, 5.0])
@pytest.mark.parametrize("variance", [0.01, 1.0, 25.0])
@pytest.mark.parametrize("margin", [0.0, 0.2, 4.0])
def test_an_answer_takes_what_all_outcomes_take_on_average(
    mean: float, variance: float, margin: float
) -> None:
    noise, other, cross = 0.8, 2.0, 0.1 * np.sqrt(2.0 * variance)
    reduction = expected_reduction(np.array([mean]), np.array([variance]), noise, margin)[0]
    expected = slow.variance_once_answered(mean, variance, noise, other, cross, margin)
    # The trapezoidal sum over 200,000 steps is exact to rounding for a smooth density.
    assert other - reduction * cross**2 == pytest.approx(expected, rel=EXPECTATION)
    # Of a coin that is decided 2/pi is left; three outcomes can tell more.
    assert 0.0 < reduction * variance < (1.0 if margin else 2.0 / np.pi)


def test_an_answer_that_is_known_takes_nothing() -> None:
    for margin in (0.0, 0.3):
        mean, one = np.array([80.0, -80.0]), np.ones(2)
        reduction = expected_reduction(mean, one, 1.0, margin)
        assert np.all(reduction >= 0.0) and np.all(reduction < 1e-300)
