"""How good a fit is: calibration of its predictions, and the evidence as it rose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.metrics import (
    DUELS,
    CalibrationBin,
    calibration_bins,
    calibration_error,
)
from sparse_prefgp.plotting.canvas import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    SMALL,
    SMALLEST,
    FloatArray,
    axes_or_new,
    legend_above,
)
from sparse_prefgp.support.checks import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.learning.report import OptimisationReport

Z_95 = 1.959963984540054  # of the standard normal
# Told apart without colours too.
_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "marker": marker, "linestyle": line}
    for color, marker, line in (
        (BLUE, "o", "-"),
        (ORANGE, "s", "--"),
        (GREY, "^", "-."),
        (PALE, "v", ":"),
    )
)
_OF_DUELS = (
    0.5,
    "duels",
    "confidence: probability given to the predicted winner (below: duels per bin)",
    "share of duels that the predicted winner won",
)
_OF_ALTERNATIVES = (
    0.0,
    "alternatives",
    "probability given to an alternative (below: alternatives per bin)",
    "share of them that was chosen",
)


def reliability(
    log_probabilities: npt.ArrayLike,
    happened: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    of: str = "duels",
    ax: Axes | None = None,
) -> Axes:
    """Reliability diagram: how often the predicted winner won, against how sure the model was; or
    how often alternatives were chosen, against how probable the model made that.

    Each duel counts once, seen from the side the model favours: its confidence is max(p, 1 - p),
    in ten equal bins on [0.5, 1] (the bins of `calibration_error`; p = 0.5 counts as half won). So
    does every alternative of every set, in ten equal bins on [0, 1]. A point has the mean
    confidence and the share won of its bin; bars are Wilson's 95 % intervals for independent duels
    (Wilson 1927). Below: the number of duels per bin.

    :param log_probabilities: as for `metrics.score`, as are the others.
    :param of: `duels` or `choices`.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: what `metrics.score` raises.
    """
    bins = calibration_bins(log_probabilities, happened, counts, of=of)
    # The lowest confidence that there can be, and what is counted.
    least, what, x_label, y_label = _OF_DUELS if of == DUELS else _OF_ALTERNATIVES
    x, share, number, start, end = np.array(
        [[one.confidence, one.accuracy, one.duels, one.lower, one.upper] for one in bins]
    ).T
    lower, upper = wilson(share, number)

    ax = axes_or_new(ax)
    bottom = min(0.4, np.floor(10 * lower.min()) / 10) if least else 0.0
    strip = 0.2 * (1.0 - bottom)  # below the diagram, so that no point can hide the numbers
    ax.plot([least, 1], [least, 1], "--", color=GREY, linewidth=1, label="perfectly calibrated")
    ax.errorbar(
        x,
        share,
        # A bin without a miss has its interval below the point only.
        yerr=np.maximum([share - lower, upper - share], 0.0),
        fmt="o",
        color=BLUE,
        markersize=5,
        capsize=3,
        linewidth=1.2,
        label=f"{what}, with 95 % interval",
    )
    centres = 0.5 * (start + end)
    heights = 0.6 * strip * number / number.max()
    ax.bar(
        centres, heights, width=0.09 * (1.0 - least), bottom=bottom - strip, color=PALE, zorder=0.5
    )
    thousands = number.max() >= 100_000
    for centre, height, count in zip(centres, heights, number, strict=True):
        short = thousands and count >= 1000
        ax.text(
            centre,
            bottom - strip + height,
            f"{count / 1000:,.0f} k" if short else f"{count:,.0f}",
            ha="center",
            va="bottom",
            fontsize=SMALLEST,
        )
    ax.axhline(bottom, color=GREY, linewidth=0.8)
    ticks = np.arange(round(10 * bottom), 11) / 10
    ax.set_yticks(ticks if len(ticks) <= 8 else ticks[len(ticks) % 2 == 0 :: 2])
    ax.set_xlim(least - 0.01 - 0.03 * (least == 0.0), 1.01)
    ax.set_ylim(bottom - 1.02 * strip, 1.02)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    error = calibration_error(bins)
    ax.set_title(f"calibration error {error:.3f}", fontsize=SMALL, loc="right")
    legend_above(ax)
    return ax


def abstention(curves: Mapping[str, Mapping[float, float]], *, ax: Axes | None = None) -> Axes:
    """Abstention curves: how many are right of the duels that each predictor is surest of.

    :param curves: by the name of a predictor, what `metrics.abstention_curve` gives.
    :param ax: the axis to draw on; None makes a figure.
    """
    ax = axes_or_new(ax)
    for (name, curve), style in zip(curves.items(), cycle(_STYLES), strict=False):
        ax.plot(list(curve), list(curve.values()), label=name, markersize=4, **style)
    ax.set_xlabel("share of the duels that are answered, the surest ones")
    ax.set_ylabel("share of these that is right")
    ax.set_xlim(1.02, 0.08)
    legend_above(ax)
    return ax


def reliabilities(bins: Mapping[str, Sequence[CalibrationBin]], *, ax: Axes | None = None) -> Axes:
    """Reliability of several predictors as lines: how often the predicted winner won, against how
    sure each was.

    :param bins: by the name of a predictor, what `metrics.calibration_bins` gives.
    :param ax: the axis to draw on; None makes a figure.
    """
    ax = axes_or_new(ax)
    ax.plot([0.5, 1], [0.5, 1], color=GREY, linewidth=0.8, label="perfectly calibrated")
    for (name, found), style in zip(bins.items(), cycle(_STYLES), strict=False):
        x, y = [one.confidence for one in found], [one.accuracy for one in found]
        ax.plot(x, y, label=name, markersize=4, **style)
    ax.set_xlabel("confidence: probability given to the predicted winner")
    ax.set_ylabel(_OF_DUELS[-1])
    legend_above(ax)
    return ax


def evidence(
    history: OptimisationReport | Sequence[float],
    num_duels: float | None = None,
    *,
    unit: str = "duel",
    ax: Axes | None = None,
) -> Axes:
    """Log evidence over the iterations of the optimiser.

    :param history: what `optimise` returned, or the log evidence in nats after each iteration. A
        report also gives the start (iteration 0) and the end, from a tight run of inference.
    :param num_duels: to divide by, counts and weights included: then the axis is in nats per duel.
    :param unit: what one of them is.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: no value at all, or a number of duels that is not positive.
    """
    from matplotlib.ticker import MaxNLocator

    scale, nats = 1.0, "nats"
    if num_duels is not None:
        check_number("num_duels", num_duels, above=0)
        scale = float(num_duels)
        whole = f" per {unit}, {num_duels:,.0f} {unit}s"
        nats += whole if scale.is_integer() else " per unit of weight"
    if not isinstance(history, Sequence) and hasattr(history, "history"):
        steps = np.array([history.log_evidence_start, *history.history]) / scale
        first, end = 0, history.log_evidence / scale
    else:
        steps = np.asarray(history, dtype=np.float64) / scale
        first, end = 1, None
        if steps.ndim != 1 or len(steps) == 0:
            raise ValueError(
                f"The history has shape {steps.shape}; give the log evidence after each "
                "iteration, at least one."
            )
    ax = axes_or_new(ax)
    iterations = first + np.arange(len(steps))
    few = "o-" if len(steps) < 40 else "-"
    ax.plot(iterations, steps, few, color=BLUE, linewidth=1.5, markersize=3, label="during the fit")
    if end is not None:
        label = f"at the end, inference run again: {end:,.4f}".replace("-", "−")
        ax.plot(iterations[-1], end, "D", color=ORANGE, markeredgecolor="black", label=label)
        ax.legend(loc="lower right", fontsize=SMALL)
    if len(steps) == 1:
        ax.set_xlim(iterations[0] - 1, iterations[0] + 1)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_xlabel("iteration of the optimiser")
    ax.set_ylabel(f"log evidence ({nats})")
    return ax


def wilson(share: FloatArray, number: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's 95 % interval for a binomial share seen in `number` trials, (k,) each."""
    centre = (share + Z_95**2 / (2 * number)) / (1 + Z_95**2 / number)
    half = np.sqrt(share * (1 - share) / number + (Z_95 / (2 * number)) ** 2)
    half *= Z_95 / (1 + Z_95**2 / number)
    return centre - half, centre + half
