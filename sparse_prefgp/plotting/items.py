"""Items: the best of them, and where the inducing inputs lie among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.data.features import NO_FEATURES
from sparse_prefgp.plotting.canvas import (
    BLACK,
    GREY,
    SMALL,
    VERMILION,
    FloatArray,
    axes_or_new,
    chance_text,
    draw_intervals,
    drawable,
    legend_above,
    name_style,
    set_rows,
    utility_label,
)
from sparse_prefgp.plotting.features import compared_items, feature_scales
from sparse_prefgp.plotting.quality import Z_95
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.randomness import generator

# In standardised units: what reading a number back may cost.
ROUNDING = 1e-9

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.analysis.ranking import Ranking
    from sparse_prefgp.models import PreferenceGP

MOST_POINTS = 5000


def utilities(
    ranking: Ranking | Mapping[str, Sequence[Any]] | Any,
    *,
    top: int = 20,
    level: float | None = None,
    noise_variance: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Utilities of the best items with their intervals, the best on top.

    :param ranking: what `rank` returned; or a data frame, or a mapping from column to values, with
        `rank`, `item_id`, `utility`, `sd` and, if it has them, `lower` and `upper` (else 95 %
        intervals are made from `sd`) and `p_best` (then printed at the right).
    :param top: at most so many items.
    :param level: what share the intervals `lower` to `upper` hold, for the label; known of `rank`.
    :param noise_variance: sigma² per side of a duel, for the label; known of `rank`.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: fewer than 1 item asked for or given, or a column that is missing.
    """
    from sparse_prefgp.analysis.ranking import Ranking

    top = whole_number("top", top, 1)
    by = ""
    if isinstance(ranking, Ranking):
        by = ", by the lower end" if ranking.order == "lower" else ""
        level = ranking.level
        noise_variance = ranking.noise_variance if noise_variance is None else noise_variance
        ranking = ranking.frame
    columns = list(ranking.keys())
    for name in ("rank", "item_id", "utility", "sd"):
        if name not in columns:
            raise ValueError(
                f"The ranking has no column {name!r} (columns found: "
                f"{', '.join(map(str, columns))}); give the result of rank."
            )
    ranks = np.asarray(ranking["rank"], dtype=np.float64)
    if len(ranks) == 0:
        raise ValueError("The ranking has 0 items; give at least one.")
    rows = np.argsort(ranks, kind="stable")[:top]

    def shown(name: str) -> FloatArray:
        return np.asarray(ranking[name], dtype=np.float64)[rows]

    utility, sd = shown("utility"), shown("sd")
    if "lower" in columns and "upper" in columns:
        lower, upper = shown("lower"), shown("upper")
        share = "" if level is None else f"{100 * level:g} % "
    else:
        lower, upper, share = utility - Z_95 * sd, utility + Z_95 * sd, "95 % "

    ax = axes_or_new(ax, len(rows))
    place = np.arange(len(rows))
    if lower.min() <= 0.0 <= upper.max():
        ax.axvline(0.0, color=GREY, linewidth=1)
    draw_intervals(ax, utility, place, lower, upper)
    ids = list(ranking["item_id"])
    set_rows(ax, [ids[i] for i in rows])
    ax.set_xlabel(utility_label(f"utility above the average item, {share}interval", noise_variance))
    if "p_best" in columns:
        right = ax.secondary_yaxis("right")
        right.set_yticks(place, list(map(chance_text, shown("p_best"))), fontsize=SMALL)
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        ax.set_title("chance of being best", fontsize=SMALL, loc="right")
    which = f"{len(ranks):,} items"
    if len(rows) < len(ranks):
        which = f"the first {len(rows)} of {which}"
    if by or len(rows) < len(ranks):
        ax.set_title(f"{which}{by}", fontsize=SMALL, loc="left")
    return ax


def inducing_inputs(
    model: PreferenceGP, *, rng: np.random.Generator | None = None, ax: Axes | None = None
) -> Axes:
    """Where the inducing inputs lie among the items that were compared.

    One or two features are drawn as they are, in raw units where the transform is known. Of more,
    the first two principal components of the items, onto which the inducing inputs are projected;
    the labels give the share of variance of each. Under a `Projected` kernel these are of its
    directions. The legend counts the inducing inputs that lie
    outside the range of the items in one numeric feature or more; they may lie anywhere between and
    next to the 0 and 1 of a level.

    :param model: one that has inducing inputs.
    :param rng: of the 5,000 items drawn where there are more.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: the model has no inducing inputs.
    """
    from sparse_prefgp.covariances.projected import ProjectedPoints, seen_by_inducing

    Z = inducing_points(model)
    if Z is None:
        approximation = f"the approximation {model.approximation!r}"
        raise together.refused(no_inducing=approximation, picture_of_inputs=True)
    rows = compared_items(model.duels)
    items = seen_by_inducing(model.kernel, model.duels.items[rows])
    projected = isinstance(model.inducing_variable, ProjectedPoints)
    numeric = np.arange(Z.shape[1])
    if not projected:  # those that are no 0 or 1 of a level
        transform = model.duels.transform or NO_FEATURES
        first, levels = len(transform.numeric), sum(map(len, transform.categories))
        numeric = np.delete(numeric, np.arange(first, first + levels))
    if projected and Z.shape[1] == 1:  # next to each other, as there is nothing else to show
        items, Z = (np.column_stack([values, np.zeros(len(values))]) for values in (items, Z))
    low, high = items[:, numeric].min(0), items[:, numeric].max(0)
    outside = ((Z[:, numeric] < low - ROUNDING) | (Z[:, numeric] > high + ROUNDING)).any(1)
    scales = feature_scales(model.duels)
    shown = items
    if len(rows) > MOST_POINTS:
        kept = generator(rng).choice(len(rows), MOST_POINTS, replace=False)
        shown = items[np.sort(kept)]
    some = f"{len(shown):,} of {len(rows):,} items" if len(shown) < len(rows) else "items"

    gone = f"{outside.sum()} of {len(Z)} outside the range of the items"
    if len(numeric) == 0:
        gone = f"{len(Z)}, all features are levels"

    ax = axes_or_new(ax)
    if len(scales) < 3 and not projected:
        points, inducing = (
            np.stack([scale.raw(values[:, j]) for j, scale in enumerate(scales)], 1)
            for values in (shown, Z)
        )
        labels = drawable(scale.name for scale in scales)
    else:
        axes, shares = principal_axes(items)
        centre = items.mean(0)
        points, inducing = (shown - centre) @ axes, (Z - centre) @ axes
        of = "of the directions " if projected else ""
        labels = [
            f"{name} principal component {of}({100 * share:.0f} % of the variance)"
            for name, share in zip(("first", "second"), shares, strict=True)
        ]
    ax.set_xlabel(labels[0], **name_style())
    if len(labels) == 1:
        ax.plot(points, np.zeros(len(points)), "|", ms=14, color=GREY)
        ax.plot(inducing, np.ones(len(Z)), "x", ms=8, mew=1.6, color=VERMILION)
        ax.set_yticks([0, 1], [some, "inducing inputs"])
        ax.set_ylim(-1.2, 2.2)
        ax.set_title(f"inducing inputs: {gone}", fontsize=SMALL, loc="left")
        return ax
    few = len(shown) < 500  # these stay visible above the crosses, a crowd would hide them
    faint, above = (1.0, 3) if few else (0.4, 1)
    ax.plot(*points.T, ".", color=BLACK, ms=5, alpha=faint, mew=0, zorder=above, label=some)
    ax.plot(*inducing.T, "x", color=VERMILION, ms=7, mew=1.6, label=f"inducing inputs ({gone})")
    ax.set_ylabel(labels[1], **name_style())
    legend_above(ax)
    return ax


def inducing_points(model: PreferenceGP) -> FloatArray | None:
    """Z (m, D) in the units of `duels.items`, or (m, q) among directions; or None."""
    if model.inducing_variable is None:
        return None
    return model.inducing_variable.Z.numpy()


def all_are_inducing(model: PreferenceGP) -> bool:
    """Whether all items that were compared are inducing inputs, so that a picture shows nothing.

    :param model: with or without inducing inputs; without any it is False.
    """
    from sparse_prefgp.covariances.projected import seen_by_inducing

    Z = inducing_points(model)
    if Z is None:
        return False
    items = seen_by_inducing(model.kernel, model.duels.items[compared_items(model.duels)])
    items = np.unique(items, axis=0)
    return len(items) <= len(Z) and all(
        np.any(np.all(np.abs(Z - item) <= ROUNDING, axis=1)) for item in items
    )


def principal_axes(items: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Directions (D, 2) of the largest variances of items (n, D), and their shares of it.

    Each direction has its largest entry positive, so that the picture is the same every time.
    """
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(items.T, bias=True)))
    axes = vectors[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), [0, 1]])
    total = values.sum()
    return axes, np.maximum(values[::-1][:2], 0.0) / (total if total > 0.0 else 1.0)
