"""Utility and probability to win over one or two features."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
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
from sparse_prefgp.plotting.features import compared_items, feature_scales, noise_of
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


@dataclass(frozen=True, eq=False)
class _Ground:
    """One or two features, in raw units, that a picture is over."""

    names: list[str]
    sides: list[FloatArray]
    """Values of each across the range of the compared items and a little beyond."""
    points: FloatArray
    """(N, D) all that these make, as the model takes them."""
    items: list[FloatArray]
    """Of the compared items."""
    inducing: list[FloatArray]
    """Of the inducing inputs, of which there may be none."""

    @classmethod
    def of(cls, model: PreferenceGP, wanted: tuple[int, ...], needs: str) -> _Ground:
        """That of a model.

        :param wanted: how many features there may be, as `needs` says.
        :raises ValueError: another number.
        """
        from sparse_prefgp.covariances.projected import ProjectedPoints

        duels, d = model.duels, model.duels.num_features
        if d not in wanted:
            raise ValueError(f"{needs}, but these have {d}; use relevance for items with more.")
        compared, sides = duels.items[compared_items(duels)], []
        for low, high in zip(compared.min(0), compared.max(0), strict=True):
            beyond = MARGIN * (high - low) if high > low else 1.0
            sides.append(np.linspace(low - beyond, high + beyond, CURVE if d == 1 else SIDE))
        Z = inducing_points(model)
        if Z is None or isinstance(model.inducing_variable, ProjectedPoints):
            Z = np.empty((0, d))
        scales = feature_scales(duels)
        raw, items, inducing = (
            [scale.raw(values) for scale, values in zip(scales, columns, strict=True)]
            for columns in (sides, compared.T, Z.T)
        )
        points = np.stack(np.meshgrid(*sides), -1).reshape(-1, d)
        return cls(drawable(scale.name for scale in scales), raw, points, items, inducing)

    @property
    def inducing_label(self) -> str:
        """What a legend calls the inducing inputs."""
        both = zip(self.inducing, self.sides, strict=True)
        inside = np.all([(x >= side[0]) & (x <= side[-1]) for x, side in both], axis=0)
        beyond = int(np.count_nonzero(~inside))
        return f"inducing inputs ({beyond} outside the picture)" if beyond else "inducing inputs"

    def mark_along(self, ax: Axes) -> None:
        """Items as ticks along the bottom, inducing inputs as crosses along the top."""
        (x,), (items,), (raw,) = self.sides, self.items, self.inducing
        style: dict[str, Any] = {"transform": ax.get_xaxis_transform()}
        ax.plot(items, np.full(len(items), 0.02), "|", ms=8, color=BLACK, label="items", **style)
        if len(raw):
            style["label"] = self.inducing_label
            ax.plot(raw, np.full(len(raw), 0.97), "x", color=VERMILION, **style)
        ax.set_xlim(x[0], x[-1])
        ax.set_xlabel(self.names[0], **name_style())
        legend_above(ax)

    def surface(self, ax: Axes, values: FloatArray, label: str, levels: Any) -> None:
        """Filled contours with a colour bar, the items and the inducing inputs."""
        x, y = self.sides
        grid = values.reshape(len(y), len(x))
        filled = ax.contourf(x, y, grid, levels, cmap=SEQUENTIAL)
        ax.contour(x, y, grid, filled.levels, colors="white", linewidths=0.4, linestyles="solid")
        bar = ax.figure.colorbar(filled, ax=ax)
        bar.set_label(label, fontsize=SMALL, **name_style())
        bar.ax.tick_params(labelsize=SMALL)
        size = 5 if len(self.items[0]) < 1000 else 2
        # Above the crosses, so that an inducing input on an item does not hide it.
        dots: dict[str, Any] = {"mec": BLACK, "mew": 0.4, "ms": size, "zorder": 3}
        ax.plot(*self.items, ".", color="white", label="items", **dots)
        if len(self.inducing[0]):
            ax.plot(*self.inducing, "x", color="white", ms=8, mew=3)
            label = self.inducing_label
            ax.plot(*self.inducing, "x", color=VERMILION, ms=7, mew=1.6, label=label)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(y[0], y[-1])
        ax.grid(visible=False)
        ax.set_xlabel(self.names[0], **name_style())
        ax.set_ylabel(self.names[1], **name_style())
        legend_above(ax)


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
    ground = _Ground.of(model, (1,), "utility_1d needs items with 1 feature")
    mean, sd = utility_above_average(model, ground.points, rng=rng)
    ax = axes_or_new(ax)
    (x,) = ground.sides
    ax.fill_between(
        x, mean - Z_95 * sd, mean + Z_95 * sd, color=BLUE, alpha=0.2, lw=0, label="95 % band"
    )
    ax.plot(x, mean, color=BLUE, label="mean utility")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ground.mark_along(ax)
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
) -> tuple[_Ground, FloatArray, FloatArray]:
    """Two features, and mean and sd of the utility above average over them."""
    ground = _Ground.of(model, (2,), "utility_2d needs items with 2 features")
    return ground, *utility_above_average(model, ground.points, rng=rng)


def draw_utility(
    model: PreferenceGP,
    grid: tuple[_Ground, FloatArray, FloatArray],
    show: str,
    ax: Axes | None = None,
) -> Axes:
    """What `utility_2d` shows of a `utility_over_grid`, of which mean and sd are drawn in turn."""
    from sparse_prefgp.analysis.ranking import ROUNDING

    (ground, mean, sd), noise = grid, noise_of(model)
    values, label = sd, "sd of that utility"
    levels: Any = 12
    if show == "mean":
        values, label = mean, utility_label("utility above the average item", noise)
    if np.ptp(values) <= ROUNDING * noise**0.5:  # no contour runs through it
        levels = values[0] + np.array([-1e-3, 1e-3])
    ax = axes_or_new(ax)
    ground.surface(ax, values, label, levels)
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
    needs = "probability_to_beat needs items with 1 or 2 features"
    ground = _Ground.of(model, (1, 2), needs)
    row, ids = item_row(model, item), model.duels.item_ids
    (name,) = drawable([f"item {row}" if ids is None else ids[row]], 24)
    label, points, chosen = f"probability to beat {name}", ground.points, model.duels.items[row]
    scales = feature_scales(model.duels)
    star: list[Any] = [scale.raw(value) for scale, value in zip(scales, chosen, strict=True)]
    if model.inputs.layout.numbered:
        # The last column is the item's row, negative for an item that is new.
        points = np.column_stack([points, np.full(len(points), -1.0)])
        chosen = np.append(chosen, float(row))
    p = model.predict_duel(points, np.tile(chosen, (len(points), 1))).numpy()
    ax = axes_or_new(ax)
    if len(star) == 1:
        ax.plot(*ground.sides, p, color=BLUE)
        ax.axhline(0.5, color=GREY, linewidth=0.8)
        star.append(0.5)
    else:
        ground.surface(ax, p, label, np.linspace(0, 1, 11))
        if p.min() < 0.5 < p.max():
            for colour, width in (("white", 4), (BLACK, 1.8)):
                half = p.reshape(SIDE, SIDE)
                ax.contour(*ground.sides, half, [0.5], colors=colour, linewidths=width)
    ax.plot(*star, "*", color="white", mec=BLACK, ms=14, label=name, zorder=5)
    if len(scales) == 1:
        ground.mark_along(ax)
        ax.set_ylim(-0.08, 1.08)
        ax.set_yticks(np.linspace(0, 1, 6))
        ax.set_ylabel(label, **name_style())
    else:
        legend_above(ax)
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
