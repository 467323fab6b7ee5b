"""When a run has settled: its last iterations together brought next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Iterations over which it is said what they brought together, at most and at least.
WINDOW, SHORT = 10, 3


def window(parameters: int) -> int:
    """Ten iterations, or as many as there are numbers to learn where these are fewer.

    After so many the quadratic model of L-BFGS has seen every direction that there is.
    """
    return max(SHORT, min(WINDOW, parameters))


@dataclass(frozen=True)
class Settling:
    """What a window of iterations must bring for a run to continue."""

    least_gain: float | None
    """In nats per duel; None: a run continues to an optimum or its limit."""
    duels: float
    """How many the objective is about, as often as they count."""
    unit: str = "duel"
    """What one of them is called."""

    def settled(self, gained: float, promised: float, iterations: int = WINDOW) -> str:
        """Why the run ends now; empty while it runs.

        A step that is still promised more is waited for: slow iterations are not always the last.

        :param gained: nats by the last iterations, NaN before there are so many.
        :param promised: nats up to the optimum of the quadratic model of the optimiser.
        :param iterations: how many the last ones are.
        """
        if self.least_gain is None or math.isnan(gained):
            return ""
        enough = self.least_gain * self.duels
        if gained >= enough or promised >= enough:
            return ""
        return (
            f"settled: the last {iterations} iterations together brought {gained / self.duels:.1e} "
            f"nats per {self.unit}"
        )
