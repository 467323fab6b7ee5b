"""Utility and probability to win over one or two features."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparse_prefgp.io.ids import meant_id
from sparse_prefgp.plotting.canvas import (
    BLACK,
    BLUE,
    GREY,
    SEQUENTIAL,
    SMALL,
    VERMILION,
    FloatArray,
    axes_or_new,
    drawable,
    legend_above,
    name_style,
    sd_of,
    shortened_name,
    utility_label,
)
from sparse_prefgp.plotting.features import FeatureScale, compared_items, feature_scales, noise_of
from sparse_prefgp.plotting.items import inducing_points
from sparse_prefgp.plotting.quality import Z_95
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import id_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.models import PreferenceGP

CURVE, SIDE = 200, 60  # points of a curve, and along each side of a surface
REFERENCE = 300  # items that stand for the average item
_AT_ONCE = 600
MARGIN = 0.05  # of the range of the items, on either side


def utility_1d(
    model: PreferenceGP, *, rng: np.random.Generator | None = None, ax: Axes | None = None
) -> Axes:
    """Utility over the only feature, above that of the average item, with a 95 % band.

    The band is that of the difference from the mean utility of the compared items, because
    utilities have no zero of their own.

    :param model: one whose items have one feature; with item effects, the utility of new items.
    :param rng: of the 300 items that stand for the average where there are more.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: the items have another number of features.
    """
    _check_features(model, (1,), "utility_1d needs items with 1 feature")
    scale = feature_scales(model.duels)[0]
    grid = _side(model, 0, CURVE)
    mean, sd = utility_above_average(model, grid[:, None], rng=rng)
    ax = axes_or_new(ax)
    x = scale.raw(grid)
    ax.fill_between(
        x, mean - Z_95 * sd, mean + Z_95 * sd, color=BLUE, alpha=0.2, lw=0, label="95 % band"
    )
    ax.plot(x, mean, color=BLUE, label="mean utility")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    _mark_along(ax, model, scale, x)
    ax.set_ylabel(utility_label("utility above the average item", noise_of(model)))
    return ax


def utility_2d(
    model: PreferenceGP,
    *,
    show: Literal["mean", "sd"] = "mean",
    rng: np.random.Generator | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Contours of the utility over both features, above that of the average item.

    :param model: one whose items have two features; with item effects, the utility of new items.
    :param show: the posterior mean, or the standard deviation, of that difference.
    :param rng: as for `utility_1d`.
    :param ax: the axis to draw on, which loses some room to a colour bar; None makes a figure.
    :raises ValueError: the items have another number of features, or `show` is neither.
    """
    check_choice("show", show, ("mean", "sd"))
    return draw_utility(model, utility_over_grid(model, rng), show, ax)


def utility_over_grid(
    model: PreferenceGP, rng: np.random.Generator | None = None
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Values of two features, and mean and sd of the utility above average at all pairs of them."""
    _check_features(model, (2,), "utility_2d needs items with 2 features")
    sides, points = _grid(model)
    return sides, *utility_above_average(model, points, rng=rng)


def draw_utility(
    model: PreferenceGP,
    grid: tuple[list[FloatArray], FloatArray, FloatArray],
    show: str,
    ax: Axes | None = None,
) -> Axes:
    """What `utility_2d` shows of a `utility_over_grid`, of which mean and sd are drawn in turn."""
    sides, mean, sd = grid
    ax = axes_or_new(ax)
    if show == "mean":
        label = utility_label("utility above the average item", noise_of(model))
        _surface(ax, model, sides, mean, label)
    else:
        _surface(ax, model, sides, sd, "sd of that utility")
    return ax


def probability_to_beat(
    model: PreferenceGP, item: Hashable | int, *, ax: Axes | None = None
) -> Axes:
    """Probability that an item with given features beats a chosen one: a curve, or contours.

    :param model: one whose items have one or two features; with item effects, the challenger is a
        new item and the chosen one has its own effect.
    :param item: an id of `duels.item_ids`, else a row of `duels.items`.
    :param ax: the axis to draw on; two features take room from it for a colour bar. None makes a
        figure.
    :raises ValueError: more than two features, or an item that is not there.
    """
    _check_features(model, (1, 2), "probability_to_beat needs items with 1 or 2 features")
    row, ids = item_row(model, item), model.duels.item_ids
    (name,) = drawable([f"item {row}" if ids is None else ids[row]], 24)
    scales = feature_scales(model.duels)
    there = model.duels.items[row]
    ax = axes_or_new(ax)
    if len(scales) == 1:
        grid = _side(model, 0, CURVE)
        p = _beats(model, grid[:, None], row)
        x = scales[0].raw(grid)
        ax.plot(x, p, color=BLUE)
        ax.axhline(0.5, color=GREY, linewidth=0.8)
        _star(ax, scales[0].raw(there[0]), 0.5, name)
        _mark_along(ax, model, scales[0], x)
        ax.set_ylim(-0.08, 1.08)
        ax.set_yticks(np.linspace(0, 1, 6))
        ax.set_ylabel(f"probability to beat {name}", **name_style())
        return ax
    sides, points = _grid(model)
    p = _beats(model, points, row)
    label = f"probability to beat {name}"
    _surface(ax, model, sides, p, label, levels=np.linspace(0, 1, 11))
    x, y = (scale.raw(values) for scale, values in zip(scales, sides, strict=True))
    if p.min() < 0.5 < p.max():
        for colour, width in (("white", 4), (BLACK, 1.8)):
            ax.contour(x, y, p.reshape(SIDE, SIDE), [0.5], colors=colour, linewidths=width)
    _star(ax, scales[0].raw(there[0]), scales[1].raw(there[1]), name)
    return ax


def utility_above_average(
    model: PreferenceGP, points: FloatArray, *, rng: np.random.Generator | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and sd (N,) of f(x) minus the mean utility of the compared items, x of points (N, D).

    At most 300 compared items, drawn by `rng`, stand for all of them. A variance that
    rounding made negative counts as 0, with a warning.
    """
    rows = compared_items(model.duels)
    if len(rows) > REFERENCE:
        rows = np.sort(generator(rng).choice(rows, REFERENCE, replace=False))
    average = model.duels.items[rows]
    mean, variance = np.empty(len(points)), np.empty(len(points))
    for start in range(0, len(points), _AT_ONCE):
        part = points[start : start + _AT_ONCE]
        k = len(part)
        found = model.predict_f(np.concatenate([part, average]), full_cov=True)
        (f,), (joint,) = found[0].numpy().T, found[1].numpy()
        mean[start : start + k] = f[:k] - f[k:].mean()
        variance[start : start + k] = (
            np.diagonal(joint)[:k] - 2.0 * joint[:k, k:].mean(1) + joint[k:, k:].mean()
        )
    return mean, sd_of(variance)


def item_row(model: PreferenceGP, item: Hashable | int) -> int:
    """The row of `duels.items` that an id, or a row number where no id is equal, stands for.

    :raises ValueError: neither.
    """
    ids = model.duels.item_ids
    if ids is not None and item in ids:
        return ids.index(item)
    n = model.duels.num_items
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool) and 0 <= item < n:
        return int(item)
    meant = meant_id(id_text(item), map(id_text, ids or ()))
    raise ValueError(
        f"There is no item {shortened_name(repr(item), 60)}; {meant}give one of the model's item "
        f"ids, or a row from 0 to {n - 1}."
    )


def _beats(model: PreferenceGP, points: FloatArray, row: int) -> FloatArray:
    chosen = model.duels.items[row]
    if model.inputs.layout.numbered:
        # The last column is the item's row, negative for an item that is new.
        points = np.column_stack([points, np.full(len(points), -1.0)])
        chosen = np.append(chosen, float(row))
    return model.predict_duel(points, np.tile(chosen, (len(points), 1))).numpy()


def _side(model: PreferenceGP, feature: int, count: int) -> FloatArray:
    """Values of a feature (count,) across the range of the compared items and a little beyond."""
    values = model.duels.items[compared_items(model.duels), feature]
    low, high = float(values.min()), float(values.max())
    beyond = MARGIN * (high - low) if high > low else 1.0
    return np.linspace(low - beyond, high + beyond, count)


def _points(model: PreferenceGP) -> list[list[FloatArray]]:
    """The features, in raw units, of the compared items, and of inducing inputs if it has any."""
    from sparse_prefgp.covariances.projected import ProjectedPoints

    points = [model.duels.items[compared_items(model.duels)]]
    Z = inducing_points(model)
    if Z is not None and not isinstance(model.inducing_variable, ProjectedPoints):
        points.append(Z)
    scales = feature_scales(model.duels)
    return [[scale.raw(one[:, j]) for j, scale in enumerate(scales)] for one in points]


def _grid(model: PreferenceGP) -> tuple[list[FloatArray], FloatArray]:
    """Values of both features, and all pairs of them, (N, 2)."""
    sides = [_side(model, j, SIDE) for j in (0, 1)]
    return sides, np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)


def _mark_along(ax: Axes, model: PreferenceGP, scale: FeatureScale, x: FloatArray) -> None:
    """Items as ticks along the bottom, inducing inputs as crosses along the top."""
    across = ax.get_xaxis_transform()
    (items,), *inducing = _points(model)
    ax.plot(
        items, np.full(len(items), 0.02), "|", ms=8, color=BLACK, transform=across, label="items"
    )
    for (raw,) in inducing:
        label = _inducing_label((raw >= x[0]) & (raw <= x[-1]))
        ax.plot(raw, np.full(len(raw), 0.97), "x", color=VERMILION, transform=across, label=label)
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel(drawable([scale.name])[0], **name_style())
    legend_above(ax)


def _surface(
    ax: Axes,
    model: PreferenceGP,
    sides: list[FloatArray],
    values: FloatArray,
    label: str,
    levels: Any = None,
) -> None:
    """Filled contours in raw units with a colour bar, the items and the inducing inputs."""
    from sparse_prefgp.analysis.ranking import ROUNDING

    scales = feature_scales(model.duels)
    x, y = (scale.raw(side) for scale, side in zip(scales, sides, strict=True))
    grid = values.reshape(len(y), len(x))
    if levels is None:
        levels = 12
        if np.ptp(grid) <= ROUNDING * noise_of(model) ** 0.5:  # no contour runs through it
            levels = grid.flat[0] + np.array([-1e-3, 1e-3])
    filled = ax.contourf(x, y, grid, levels, cmap=SEQUENTIAL)
    ax.contour(x, y, grid, filled.levels, colors="white", linewidths=0.4, linestyles="solid")
    bar = ax.figure.colorbar(filled, ax=ax)
    bar.set_label(label, fontsize=SMALL, **name_style())
    bar.ax.tick_params(labelsize=SMALL)
    items, *inducing = _points(model)
    size = 5 if len(items[0]) < 1000 else 2
    # Above the crosses, so that an inducing input on an item does not hide it.
    ax.plot(*items, ".", color="white", mec=BLACK, mew=0.4, ms=size, zorder=3, label="items")
    for raw in inducing:
        inside = (raw[0] >= x[0]) & (raw[0] <= x[-1]) & (raw[1] >= y[0]) & (raw[1] <= y[-1])
        ax.plot(*raw, "x", color="white", ms=8, mew=3)
        ax.plot(*raw, "x", color=VERMILION, ms=7, mew=1.6, label=_inducing_label(inside))
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    ax.grid(visible=False)
    names = drawable(scale.name for scale in scales)
    ax.set_xlabel(names[0], **name_style())
    ax.set_ylabel(names[1], **name_style())
    legend_above(ax)


def _star(ax: Axes, x: Any, y: Any, name: str) -> None:
    ax.plot(x, y, "*", color="white", mec=BLACK, ms=14, label=name, zorder=5)
    if ax.get_legend() is not None:
        legend_above(ax)


def _inducing_label(inside: Any) -> str:
    beyond = int(np.count_nonzero(~inside))
    return f"inducing inputs ({beyond} outside the picture)" if beyond else "inducing inputs"


def _check_features(model: PreferenceGP, wanted: tuple[int, ...], words: str) -> None:
    found = model.duels.num_features
    if found not in wanted:
        raise ValueError(f"{words}, but these have {found}; use relevance for items with more.")
