"""How well later duels are predicted, each before its slice of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.analysis.metrics import OUTCOMES, Score, score
from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.filtering import Filtering
from sparse_prefgp.models.questions import forecast_of
from sparse_prefgp.support import together
from sparse_prefgp.tell.result import Figures


@dataclass(frozen=True, eq=False)
class AheadScore(Figures):
    """What `score_ahead` found."""

    aside = ("filtering",)

    nats: float
    """Mean negative log probability of the winner, given that there is one, of a decided duel."""
    accuracy: float
    """Share of the decided duels whose winner had more than half; of one half, half of it."""
    log_predictive: float
    """Log probability of all that came, slice after slice, in nats; no evidence of the model."""
    num_duels: int
    """How many duels were scored, ties too."""
    scores: Score
    """Of the decided duels, as by `metrics.score`."""
    outcomes: Score
    """The same of win, tie and loss; empty for a model without a margin."""
    filtering: Filtering
    """The pass itself, with a probability for each duel, and the model of all of them."""

    def __str__(self) -> str:
        return (
            f"{self.nats:.4f} nats, {100.0 * self.accuracy:.1f} % right, each before its slice "
            f"({self.num_duels:,} duels in {self.filtering.slices:,} slices); log predictive "
            f"{self.log_predictive:.2f}"
        )


def score_ahead(model: PreferenceGP, duels: Duels | None = None, slices: Any = None) -> AheadScore:
    """Score a model one step ahead: each slice of duels is predicted, and then learned from.

    Hyperparameters stay. (`model.in_time.filter`, docs/time.md)

    :param duels: later ones; None for those of the model, from the first on.
    :param slices: of these, as `ItemInTime` takes them; by default as before.
    :raises ValueError: what `model.in_time.filter` raises; no decided duel.
    """
    found = model.in_time.filter(duels, slices)
    everything = found.model.duels.given
    new = everything.take(np.arange(len(everything) - len(found.mean), len(everything)))
    forecast = forecast_of(found.model, found.mean, found.variance, new.judge)
    tied = new.kind == TIE
    together.check(only_ties=tied.all(), scores=True)
    decided = score(forecast.log_first[~tied], counts=new.counts[~tied])
    three: Score = {}
    if model.likelihood.margin is not None:
        three = score(forecast.results, tied.astype(int), new.counts, of=OUTCOMES)
    return AheadScore(
        decided["nlp_nats"],
        decided["accuracy"],
        found.log_predictive,
        new.num_events,
        decided,
        three,
        found,
    )
