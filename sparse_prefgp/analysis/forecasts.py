"""Forecasts of later duels, each from the results of all days before its own, next to Elo's."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.analysis.elo import Elo
from sparse_prefgp.analysis.metrics import AHEAD, DUELS, ELO, ELO_AHEAD, MODEL, OUTCOMES
from sparse_prefgp.analysis.scoring import HeldOut
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.models.questions import forecast_of
from sparse_prefgp.support.arrays import IntArray

# A filter follows results day by day, whatever slices its constants were learned on.
FOLLOWED_BY = "day"


def _matches(events: Answers, item: IntArray) -> tuple[Answers, IntArray]:
    """Duels with dates as matches of items day by day, in their order, and which each is, (t,).

    :param item: (n,) number of the item of each row.
    """
    assert events.time is not None
    order = np.argsort(events.time, kind="stable")
    days = events.saying(item[events.sides], time=np.floor(events.time))
    return days.take(order), order


def with_forecasts(held_out: HeldOut, model: Any, test: Duels) -> HeldOut:
    """What a model that learns as it goes gives to held-out duels, and Elo, frozen and learning.

    Elo's constants are those that forecast best over the later half of the training duels, one day
    ahead of each.

    :param held_out: of the same duels, in the same order.
    :param model: a `PreferenceGP` with utilities in time, of the training duels.
    :param test: the held-out ones, between items of the model by their ids, none before the last
        training duel.
    :raises ValueError: what `model.in_time.filter` raises.
    """
    given = test.given.in_order()
    decided = given.pair_doors().decided
    passed = model.in_time.filter(test, slices=FOLLOWED_BY)
    known, _ = _matches(model.duels.events.in_order(), model.duels.item)
    later, order = _matches(given, test.item)
    place = np.argsort(order)
    elo = Elo.learned(known, 1 + int(max(model.duels.item.max(), test.item.max())))
    # Without ties in training Elo knows of none, and gives them no probability.
    with np.errstate(divide="ignore"):
        said = {
            AHEAD: forecast_of(model, passed.mean, passed.variance, given.judge).results,
            ELO: np.log(elo.frozen(later)[place]),
            ELO_AHEAD: np.log(elo.ahead(later)[place]),
        }
    found, after = held_out, MODEL
    for name, three in said.items():
        won, lost = three[decided, 0], three[decided, 2]
        found = found.with_predictor(name, DUELS, won - np.logaddexp(won, lost), after)
        if OUTCOMES in found.forecasts:
            found = found.with_predictor(name, OUTCOMES, three)
        after = name
    return found
