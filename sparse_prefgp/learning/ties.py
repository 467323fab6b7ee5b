"""The margin of a model whose ties tell only the margin: found afterwards, at utilities held."""

from __future__ import annotations

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import optimize

from sparse_prefgp.models.likelihood import MARGIN_ONLY
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray

# How far beyond the differences, in their sd, a margin may lie.
_REACH = 8.0


class TieFit(NamedTuple):
    """What the ties of the training duels tell."""

    margin: float
    """That under which ties are most likely."""
    log_likelihood: float
    """Of tied or not under it, in nats."""
    share: float
    """The share of ties, where it is the same for all duels."""
    log_likelihood_of_share: float
    """Of tied or not under that, in nats."""

    @property
    def is_constant(self) -> bool:
        """Whether a constant share says more."""
        return self.log_likelihood_of_share > self.log_likelihood


def fit_tie_margin(model: PreferenceGP) -> TieFit:
    """Set the margin of a model with `Probit(ties="margin-only")`, or its share of ties.

    Maximises `sum_ties log P(|v| < d) + sum_decided log(1 - P)` over d at the posterior as it is;
    where one share of ties for all duels is more likely, predictions take that. `optimise` does so
    at its end. (docs/ties.md)

    :raises ValueError: a model whose ties tell of the utilities too.
    """
    apart = model.likelihood.ties == MARGIN_ONLY and model.likelihood.margin is not None
    together.check(ties_in_utilities=not apart, tie_margin=True)
    seen = _Seen.of(model)
    least, most = 1e-6 * seen.sd.min(), np.max(np.abs(seen.mean) + _REACH * seen.sd)
    found = optimize.minimize_scalar(
        lambda log_margin: -seen.log_likelihood(np.exp(log_margin)),
        bounds=(np.log(least), np.log(most)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    share = float(seen.weights[seen.tied].sum() / seen.weights.sum())
    result = TieFit(
        float(np.exp(found.x)), -float(found.fun), share, seen.log_likelihood_of_share(share)
    )
    model.likelihood.margin.assign(result.margin)
    model.likelihood.tie_share = None
    if result.is_constant:
        model.likelihood.tie_share = gpflow.Parameter(
            share, transform=tfp.bijectors.Sigmoid(), trainable=False
        )
    return result


class _Seen(NamedTuple):
    """The training duels under q: v ~ N(mean, sd²), noise included, (t,) each."""

    mean: FloatArray
    sd: FloatArray
    tied: BoolArray
    weights: FloatArray

    @classmethod
    def of(cls, model: PreferenceGP) -> _Seen:
        events = model.duels.events
        forecast = model.predict(events)
        mean, variance = forecast.mean, forecast.variance
        assert mean is not None and variance is not None
        noise = 2.0 * float(model.likelihood.noise.numpy())
        ratio = np.ones(len(mean))
        if model.likelihood.noise_ratio is not None and events.judge is not None:
            ratio = model.likelihood.noise_ratio.numpy()[events.judge.numbers]
        sd = np.sqrt(np.maximum(variance, 0.0) + noise * ratio)
        return cls(mean, sd, ~events.pair_doors().decided, events.totals)

    def log_likelihood(self, margin: float) -> float:
        """Of tied or not, in nats."""
        low, high = (-margin - self.mean) / self.sd, (margin - self.mean) / self.sd
        normal = tfp.distributions.Normal(np.float64(0.0), np.float64(1.0))
        between = tfp.math.log_sub_exp(
            normal.log_cdf(np.where(low > 0.0, -low, high)),
            normal.log_cdf(np.where(low > 0.0, -high, low)),
        )
        beyond = tf.math.reduce_logsumexp(
            tf.stack([normal.log_cdf(low), normal.log_survival_function(high)]), 0
        )
        return float(self.weights @ np.where(self.tied, between, beyond))

    def log_likelihood_of_share(self, share: float) -> float:
        """Of tied or not at one share of ties, in nats."""
        tied = float(self.weights[self.tied].sum())
        return float(tied * np.log(share) + (self.weights.sum() - tied) * np.log1p(-share))
