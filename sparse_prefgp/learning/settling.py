"""When a run has settled: its last ten iterations together brought next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Iterations over which it is said what they brought together.
WINDOW = 10


@dataclass(frozen=True)
class Settling:
    """What ten iterations must bring for a run to continue."""

    least_gain: float | None
    """In nats a duel; None: a run continues to an optimum or its limit."""
    duels: float
    """How many the objective is about, as often as they count."""

    def settled(self, gained: float, promised: float) -> str:
        """Why the run ends now; empty while it runs.

        A step that is still promised more is waited for: slow iterations are not always the last.

        :param gained: nats by the last ten iterations, NaN before there are so many.
        :param promised: nats up to the optimum of the quadratic model of the optimiser.
        """
        if self.least_gain is None or math.isnan(gained):
            return ""
        enough = self.least_gain * self.duels
        if gained >= enough or promised >= enough:
            return ""
        return (
            f"settled: the last {WINDOW} iterations together brought {gained / self.duels:.1e} "
            "nats a duel"
        )
