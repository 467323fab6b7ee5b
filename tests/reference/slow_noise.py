"""Outcomes of a duel whose judge is not known: averages over the ratio of noise, by hand."""

import math
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import entr, ndtr
from scipy.stats import norm

from sparse_prefgp.factors.noise import NoiseRatios

Array = NDArray[np.float64]


@cache
def nodes(log_sd: float = 1.0) -> tuple[Array, Array]:
    """20 ratios r with log r ~ N(0, log_sd²), and their weights, by Gauss–Hermite."""
    x, weights = np.polynomial.hermite.hermgauss(20)
    return np.exp(math.sqrt(2.0) * log_sd * x), weights / math.sqrt(math.pi)


def outcomes(
    mean: float, variance: float, noise: float, margin: float = 0.0, log_sd: float = 1.0
) -> tuple[float, float, float]:
    """Probabilities of win, tie and loss for d ~ N(mean, variance) and noise 2 sigma² r."""
    ratios, weights = nodes(log_sd)
    sd = np.sqrt(variance + noise * ratios)
    won, lost = ndtr((mean - margin) / sd), ndtr((-mean - margin) / sd)
    # On the side where both are small, lest one less the other cancel.
    tied = ndtr((margin - abs(mean)) / sd) - ndtr((-margin - abs(mean)) / sd)
    return float(weights @ won), float(weights @ tied), float(weights @ lost)


def won_by_integral(mean: float, variance: float, noise: float, margin: float, sd: float) -> float:
    """P(win) with the integral over log r adaptive in place of 20 nodes."""

    def integrand(u: float) -> float:
        scale = math.sqrt(variance + noise * math.exp(u))
        return float(norm.pdf(u, 0.0, sd) * norm.cdf((mean - margin) / scale))

    return float(quad(integrand, -12.0 * sd, 12.0 * sd, epsabs=1e-12)[0])


def entropy(mean: float, variance: float, noise: float, margin: float, log_sd: float) -> float:
    three = outcomes(mean, variance, noise, margin, log_sd)
    return -sum(p * math.log(p) for p in three if p > 0.0)


def information_gain(
    mean: float, variance: float, noise: float, margin: float = 0.0, log_sd: float = 1.0
) -> float:
    """H[outcome] - E H[outcome | d], by adaptive quadrature over d ~ N(mean, variance)."""
    sd, s = math.sqrt(variance), math.sqrt(noise)

    def integrand(d: float) -> float:
        density = math.exp(-0.5 * ((d - mean) / sd) ** 2) / (sd * math.sqrt(2.0 * math.pi))
        return density * entropy(d, 0.0, noise, margin, log_sd)

    turns = s * np.geomspace(0.1, 500.0, 12)
    steps = [mean + sd * np.arange(-9.0, 9.5, 3.0), [0.0], turns, -turns]
    if margin > 0.0:
        steps += [margin + turns, margin - turns, turns - margin, -margin - turns]
    low, high = mean - 9.0 * sd, mean + 9.0 * sd
    breaks = np.unique(np.clip(np.concatenate(steps), low, high))
    expected = sum(quad(integrand, a, b, epsabs=1e-11)[0] for a, b in pairwise(breaks))
    return entropy(mean, variance, noise, margin, log_sd) - expected


def information_under(
    mean: float, variance: float, noise: float, margin: float, judges: NoiseRatios
) -> float:
    """The same under noises and scales of the margin, by equal steps of d: a quarter of the least
    noise, and every noise at every step."""

    def entropy_of(d: Array, more: float) -> Array:
        won, lost = np.zeros_like(d), np.zeros_like(d)
        for ratio, weight, scale in zip(*judges, strict=True):
            sd = math.sqrt(noise * ratio + more)
            won += weight * ndtr((d - margin * scale) / sd)
            lost += weight * ndtr((-d - margin * scale) / sd)
        tied = np.maximum(1.0 - won - lost, 0.0)
        return np.asarray(entr(won) + entr(lost) + entr(tied))

    sd = math.sqrt(variance)
    step = min(0.25 * math.sqrt(noise * judges.ratios.min()), 0.1 * sd)
    d = mean + np.arange(-9.0 * sd, 9.0 * sd, step)
    density = norm.pdf(d, mean, sd)
    expected = density @ entropy_of(d, 0.0) / density.sum()
    return float(entropy_of(np.array([mean]), variance)[0] - expected)
