"""Thresholds by brute force: every share, every vote, sums of binomial terms."""

from __future__ import annotations

import math
from collections.abc import Sequence


def at_most(wrong: int, votes: int, risk: float) -> float:
    """P(X <= wrong) for X of `votes` trials of probability `risk`, term by term."""
    return sum(
        math.comb(votes, k) * risk**k * (1.0 - risk) ** (votes - k) for k in range(wrong + 1)
    )


def threshold(won: Sequence[float], risk: float, confidence: float) -> float | None:
    """The least probability of the named side to rely on, of votes whose winner had these; None
    without one."""
    sure = [max(p, 1.0 - p) for p in won]
    ranked = sorted(sure, reverse=True)
    accepted = None
    for share in range(10, 101, 5):
        limit = ranked[math.ceil(share * len(won) / 100) - 1]
        above = [p for p, s in zip(won, sure, strict=True) if s >= limit]
        if (1.0 - risk) ** len(above) > 1.0 - confidence:
            continue
        if at_most(sum(p <= 0.5 for p in above), len(above), risk) > 1.0 - confidence:
            break
        accepted = limit
    return accepted
