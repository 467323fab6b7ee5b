"""Forecasts of later duels, each from the results of all days before its own, next to Elo's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.analysis.elo import Elo, Matches
from sparse_prefgp.analysis.metrics import AHEAD, DUELS, ELO, ELO_AHEAD, MODEL, OUTCOMES
from sparse_prefgp.analysis.scoring import HeldOut
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support.arrays import FloatArray, IntArray

# A filter follows results day by day, whatever slices its constants were learned on.
FOLLOWED_BY = "day"


class InOrder(NamedTuple):
    """Duels as matches in the order of their dates."""

    matches: Matches
    order: IntArray
    """(t,) the place of each among the duels."""

    @classmethod
    def of(cls, events: Answers, item: IntArray) -> InOrder:
        """Those of duels with dates.

        :param item: (n,) number of the item of each row.
        """
        events = events.in_order()
        doors, times = events.pair_doors(), events.time
        assert times is not None
        order = np.argsort(times, kind="stable")
        won, lost = item[doors.features[order]].T
        said = events.covariate_differences
        matches = Matches(
            won,
            lost,
            np.floor(times[order]),
            ~doors.decided[order],
            None if said is None else said[order],
            events.totals[order],
        )
        return cls(matches, order)

    def back(self, values: FloatArray) -> FloatArray:
        """Rows of the matches in the order of the duels."""
        found = np.empty_like(values)
        found[self.order] = values
        return found


def with_forecasts(held_out: HeldOut, model: Any, test: Duels) -> HeldOut:
    """What a model that learns as it goes gives to held-out duels, and Elo, frozen and learning.

    Elo's constants are those that forecast best over the later half of the training duels, one day
    ahead of each.

    :param held_out: of the same duels, in the same order.
    :param model: a `PreferenceGP` with utilities in time, of the training duels.
    :param test: the held-out ones, between items of the model by their ids, none before the last
        training duel.
    :raises ValueError: what `PreferenceGP.filter` raises.
    """
    given = test.given.in_order()
    decided = given.pair_doors().decided
    passed = model.filter(test, slices=FOLLOWED_BY)
    known, later = InOrder.of(model.duels.events, model.duels.item), InOrder.of(given, test.item)
    elo = Elo.learned(known.matches, 1 + int(max(model.duels.item.max(), test.item.max())))
    # Without ties in training Elo knows of none, and gives them no probability.
    with np.errstate(divide="ignore"):
        said = {
            AHEAD: model.forecast_of(passed.mean, passed.variance, given.judge).results,
            ELO: np.log(later.back(elo.frozen(later.matches))),
            ELO_AHEAD: np.log(later.back(elo.ahead(later.matches))),
        }
    found, after = held_out, MODEL
    for name, three in said.items():
        won, lost = three[decided, 0], three[decided, 2]
        found = found.with_predictor(name, DUELS, won - np.logaddexp(won, lost), after)
        if OUTCOMES in found.forecasts:
            found = found.with_predictor(name, OUTCOMES, three)
        after = name
    return found
