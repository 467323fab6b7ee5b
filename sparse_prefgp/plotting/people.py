"""Pictures of people: what sets their tastes apart, and one of them next to all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.plotting.canvas import (
    BLUE,
    GREY,
    SMALL,
    VERMILION,
    axes_or_new,
    drawable,
    name_style,
    utility_label,
)
from sparse_prefgp.plotting.labels import label_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Items whose names are drawn.
_NAMED = 8


def tastes(model: Any, *, ax: Axes | None = None) -> Axes:
    """People along the two directions in which their own tastes differ most, a point each.

    Arrows are the items that these directions tell apart most: a person far along an arrow likes
    that item more than all do. Directions are the leading singular ones of expected own utilities
    (people by items, each less its mean), of the 200 items with the most duels.

    :param model: with tastes.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: a model without tastes; fewer than two items.
    """
    from sparse_prefgp.analysis.people import compared_on

    items = compared_on(model)
    own = model.people.tastes(items.inputs)
    own = own - own.mean(1, keepdims=True)
    own = own - own.mean(0)
    left, sizes, right = np.linalg.svd(own, full_matrices=False)
    if len(sizes) < 2:
        raise ValueError("A picture of tastes needs at least two people and two items.")
    total = float((sizes**2).sum()) or 1.0
    share = sizes[:2] ** 2 / total
    points = left[:, :2] * sizes[:2] / np.sqrt(own.shape[1])
    loads = right[:2].T
    ax = axes_or_new(ax)
    ax.plot(*points.T, ".", color=BLUE, alpha=0.5, markersize=6)
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    reach, lengths = np.abs(points).max() or 1.0, np.linalg.norm(loads, axis=1)
    shown = np.argsort(-lengths, kind="stable")[:_NAMED]
    tips = reach / (lengths.max() or 1.0) * loads[shown]
    ax.plot(*tips.T, " ")  # arrows do not count for the limits of the axes
    for tip in tips:
        ax.annotate(
            "",
            tuple(tip),
            (0.0, 0.0),
            arrowprops={"arrowstyle": "->", "color": VERMILION, "linewidth": 1.0},
        )
    ax.margins(0.18)
    ax.set_xlabel(f"first direction of own tastes ({100 * share[0]:.0f} % of them)")
    ax.set_ylabel(f"second direction of own tastes ({100 * share[1]:.0f} % of them)")
    ax.set_title(
        f"{len(points):,} people (points), items that they differ about (arrows)",
        fontsize=SMALL,
        loc="left",
    )
    arrows = np.stack([np.zeros_like(tips), tips], 1)
    names = [items.ids[i] for i in shown]
    label_points(ax, tips, names, tips, lines=arrows, color=VERMILION)
    return ax


def person(model: Any, who: Hashable, *, ax: Axes | None = None) -> Axes:
    """Utilities of items for all and for one person, with the standard deviation of the latter.

    On the dashed line the person prefers what all do; the items furthest from it have names.
    Utilities are less their means over these items, the 200 with the most duels.

    :param model: with tastes.
    :param who: the person's name; None for somebody of whom nothing is known.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: a model without tastes; a person that it does not know.
    """
    from sparse_prefgp.analysis.people import compared_on, seen_by

    items = compared_on(model)
    shared = model.predict_f(items.inputs)[0].numpy()[:, 0]
    shared = shared - shared.mean()
    view = seen_by(model, who) if who is not None else model.of_person(None)
    found = view.predict_f(items.inputs, full_cov=True)
    (mean,), (covariance,) = found[0].numpy().T, found[1].numpy()
    mean = mean - mean.mean()
    # Of utilities less their mean: the level is not known.
    left = covariance - covariance.mean(0) - covariance.mean(1)[:, None] + covariance.mean()
    sd = np.sqrt(np.maximum(np.diagonal(left), 0.0))
    ax = axes_or_new(ax)
    ax.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=1, linestyle="--")
    ax.errorbar(
        shared, mean, yerr=sd, fmt="o", color=BLUE, markersize=4, linewidth=0.8, elinewidth=0.6
    )
    furthest = np.argsort(-np.abs(mean - shared), kind="stable")[:_NAMED]
    noise = 0.5 * model.likelihood.duel_noise
    (named,) = drawable(["nobody yet" if who is None else who])
    ax.set_xlabel(utility_label("utility that all share", noise))
    ax.set_ylabel(f"utility for {named}, ± sd", **name_style())
    bars = np.stack([np.stack([shared, mean - sd], 1), np.stack([shared, mean + sd], 1)], 1)
    names = [items.ids[i] for i in furthest]
    points = np.stack([shared, mean], 1)[furthest]
    label_points(ax, points, names, np.tile([1.0, 0.5], (len(points), 1)), lines=bars)
    return ax
