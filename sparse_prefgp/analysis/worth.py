"""What a step of each attribute is worth in units of another, such as the price."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gpflow
import numpy as np
from scipy import special

from sparse_prefgp.analysis.items import feature_columns, resolve_items
from sparse_prefgp.analysis.people import seen_by
from sparse_prefgp.analysis.rivals import LinearRival
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.models.seen import KnownDuels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, level_of_interval
from sparse_prefgp.support.words import shortened
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, first_of, records

# Half of the distance of a central difference, in standard deviations of the feature. It errs by
# its square times the third derivative; rounding by some 1e-16 over it.
STEP = 1e-3
AVERAGE = "the average"
PLANE = "the plane that is closest to the utilities of the items"
# Items that the plane is fitted to: those compared most.
MOST_ITEMS = 2000


class Ratio(NamedTuple):
    """Minus one normal over another, and where it may lie."""

    value: float
    lower: float
    upper: float
    bounded: bool
    """Whether the interval has two ends: whether the divisor's own interval leaves out 0."""


def ratio(mean: FloatArray, covariance: FloatArray, level: float) -> Ratio:
    """The w at which a + w b is 0 in the mean, and those at which 0 is in the interval of a + w b.

    Fieller (1954). Where the interval of b itself holds 0, no w can be ruled out on one side at
    least, and the interval is everything.

    :param mean: (2,) of a and b.
    :param covariance: (2, 2).
    :param level: of both intervals.
    """
    z = float(special.ndtri(0.5 + 0.5 * level))
    (a, b), (aa, ab), bb = mean, covariance[0], covariance[1, 1]
    value = -a / b if b != 0.0 else math.nan
    two, one, none = b * b - z * z * bb, a * b - z * z * ab, a * a - z * z * aa
    root = one * one - two * none
    if two <= 0.0:
        return Ratio(value, -math.inf, math.inf, False)
    half = math.sqrt(max(root, 0.0))  # below 0 by rounding alone
    return Ratio(value, (-one - half) / two, (-one + half) / two, True)


@dataclass(frozen=True, eq=False, repr=False)
class Worth(Result):
    """What attributes are worth in units of another; `print` shows it as text."""

    rows_name = "attributes"

    frame: Any
    """Data frame with a row for each attribute, or each level of a text column but its most common
    one: `item` (where it was asked for by item), `attribute`, `step` (as text), `worth`, `lower`,
    `upper`, `bounded`, and `slope` and `slope_sd`, the change of utility by the step."""
    unit: str
    """The attribute that the others are measured in."""
    level: float
    """What share of the posterior the intervals hold."""
    unit_slope: tuple[float, float, float]
    """Utility of one more of the unit (of the plane, or at the average item), and its interval."""
    at: str
    """Where slopes were taken, in words."""
    linear: bool
    """Whether they are the same everywhere."""

    def table(self, most: int | None = None) -> Table:
        """The attributes, or the first of them."""
        shown = self.frame if most is None else self.frame.head(most)
        rows = records(shown)
        for row in rows:
            ends = f"{row['lower']:.4g} to {row['upper']:.4g}"
            row["ends"] = ends if row["bounded"] else "without ends"
        columns = [
            *(Column(name, name, str, left=True) for name in ("item", "attribute", "step")),
            Column("worth", f"worth in {self.unit}", ".4g"),
            Column("ends", f"{100 * self.level:g} % interval", str),
        ]
        return Table("worth", first_of(len(shown), len(self.frame), "steps"), columns, rows)

    def sentences(self) -> list[str]:
        """What there is to know, a sentence each."""
        slope, low, high = self.unit_slope
        share = f"{100 * self.level:g} % interval"
        found = [
            f"One more of {self.unit} changes utility by {slope:.3g} ({share} {low:.3g} to "
            f"{high:.3g}); the worth of a step is how much more of it leaves utility as it was."
        ]
        if not bool(np.all(self.frame["bounded"])):
            found.append(
                f"Where the {share} of the slope of {self.unit} holds 0, a worth may be anything; "
                "choose a unit that matters, or get more answers."
            )
        if not self.linear:
            found.append(f"Slopes differ from place to place; these are those of {self.at}.")
        return found


def worth(
    model: Predicts | LinearRival,
    unit: str = "price",
    *,
    steps: Mapping[str, float] | None = None,
    by_item: bool = False,
    items: Any = None,
    level: float = 0.9,
    person: Hashable | list[Hashable] | None = None,
) -> Worth:
    """What a step of each attribute is worth in units of another.

    A step changes utility by `a`, one more of the unit by `b`, both of the posterior, and the worth
    is the w with a + w b = 0: how much more of the unit one puts up with for the step. With a
    linear kernel that is the same everywhere. Otherwise slopes are those of the plane closest to
    the utilities of the items, by least squares with the comparisons of each for its weight; or,
    with `by_item`, those at each item, where the utility may well be flat or unknown. Intervals are
    Fieller's, of the joint posterior of a and b; where the slope of the unit may be 0, they have no
    ends, which is said. The noise of choices does not matter.

    :param model: of items with features, learned from choices, rankings or duels; or a conditional
        logit, in the units of the features that it was fitted to.
    :param unit: name of a numeric feature.
    :param steps: of numeric features, in raw units; 1 for all others.
    :param by_item: at each item, not of the plane.
    :param items: raw items, as `predict` takes them, at or over which slopes are taken; by default
        those of the model that were compared. The plane takes the 2,000 compared most.
    :param level: of the intervals.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default what all share.
    :return: A row for each attribute (and item).
    :raises ValueError: a model without features, or with one alone; a unit that is none of them, is
        a text, or does not vary; steps of what is no numeric feature; too few items for a plane, or
        features that are sums of multiples of others; a level outside (0, 1); what `resolve_items`
        and `model.of_person` raise; a person of a conditional logit.
    """
    level = level_of_interval(level)
    if isinstance(model, LinearRival):
        if person is not None:
            raise together.refused(
                one_utility="a conditional logit", people=f"the person {shortened(person)}"
            )
        return _of_logit(model, unit, dict(steps or {}), level)
    asked: Predicts = seen_by(model, person)
    columns = _columns(asked.duels)
    numeric = _checked(asked.duels, columns, unit)
    scale = {name: _scale(asked.duels, name) for name in numeric}
    wanted = dict(steps or {})
    _check_steps(wanted, numeric, unit)
    found = resolve_items(asked, items)
    compared = np.arange(len(found)) if items is not None else np.flatnonzero(found.comparisons)
    linear = _is_linear(asked)
    transform = asked.duels.transform
    unmeasured = None if transform is None else _without_units(transform)
    if not linear and not by_item and unmeasured is not None:
        raise ValueError(
            f"The model has {unmeasured}, which a plane over the others leaves out; ask by item "
            "(by_item=True, --by-item)."
        )
    inputs = found.inputs[compared][:, : asked.duels.num_features]
    if by_item:
        rows = []
        for row, place in zip(compared, inputs, strict=True):
            changes = _changes(asked, place, columns, numeric, unit)
            for values in _rows(changes, scale, wanted, unit, level):
                rows.append({"item": found.ids[row], **values})
        at, here = "each item", _at_average(asked, inputs, columns, numeric, unit)
    else:
        if linear:
            at, here = AVERAGE, _at_average(asked, inputs, columns, numeric, unit)
        else:
            weight = np.ones(len(compared))
            if items is None:
                weight = found.comparisons[compared].astype(np.float64)
            at, here = PLANE, _plane(asked, inputs, weight, columns, numeric, unit)
        rows = _rows(here, scale, wanted, unit, level)
    frame = require_pandas().DataFrame(rows)
    return Worth(frame, unit, level, _slope(here, scale[unit], level), at, linear)


def _at_average(
    model: Predicts,
    inputs: FloatArray,
    columns: Mapping[str, IntArray],
    numeric: list[str],
    unit: str,
) -> _Changes:
    """Changes at the average of numbers, and the most common levels."""
    average = np.asarray(inputs.mean(0))
    for name in columns.keys() - {*numeric}:
        index = columns[name]
        average[index] = np.eye(len(index))[int(np.argmax(average[index]))]
    return _changes(model, average, columns, numeric, unit)


def _plane(
    model: Predicts,
    inputs: FloatArray,
    weight: FloatArray,
    columns: Mapping[str, IntArray],
    numeric: list[str],
    unit: str,
) -> _Changes:
    """Slopes of the plane closest to the utilities of some items (n, D), weights (n,)."""
    most = np.sort(np.argsort(-weight, kind="stable")[:MOST_ITEMS])
    x, c = inputs[most], np.asarray(weight[most], np.float64)
    names: list[tuple[str, str | None, str]] = []
    values = []
    for name, index in columns.items():
        if name in numeric:
            continue
        levels = _levels(model.duels, name)
        usual = int(np.argmax(c @ x[:, index]))
        for j, text in enumerate(levels):
            if j != usual and np.ptp(x[:, index[j]]) > 0.0:
                names.append((name, text, f"{text} for {levels[usual]}"))
                values.append(x[:, index[j]])
    for name in [*(n for n in numeric if n != unit), unit]:
        names.append((name, None, ""))
        values.append(x[:, columns[name][0]])
    design = np.column_stack([*values, np.ones(len(x))])
    root = np.sqrt(c / c.mean())[:, None]
    q, r = np.linalg.qr(root * design)
    least = np.abs(np.diag(r)) if len(x) >= design.shape[1] else np.zeros(design.shape[1])
    weak = np.flatnonzero(least <= 1e-9 * max(float(least.max()), 1e-300))
    if weak.size:
        what = "there are too few items"
        if len(x) >= design.shape[1]:
            column = names[min(int(weak[0]), len(names) - 1)]
            what = f"{column[0]!r} is a sum of multiples of others over these items"
        raise ValueError(
            f"No plane is closest to the utilities of {len(x):,} items with {len(names)} slopes, "
            f"as {what}; leave features out of the fit, or ask by item (by_item=True, --by-item)."
        )
    slopes = np.linalg.solve(r, q.T * root.T)[:-1]
    return _Changes.of(model, names, slopes, x)


def _slope(changes: _Changes, scale: float, level: float) -> tuple[float, float, float]:
    """Of the unit, and its interval."""
    b, sd = changes.mean[-1] / scale, math.sqrt(changes.covariance[-1, -1]) / scale
    z = float(special.ndtri(0.5 + 0.5 * level))
    return b, b - z * sd, b + z * sd


def _check_steps(wanted: Mapping[str, float], numeric: Sequence[str], unit: str) -> None:
    for name, step in wanted.items():
        if name == unit:
            raise ValueError(
                f"{name!r} is what worth is measured in, so that a step of it is worth just that; "
                "leave it out (--step, step=)."
            )
        check_choice("The feature of a step", name, [n for n in numeric if n != unit])
        if not np.isfinite(step) or step == 0.0:
            raise ValueError(f"The step of {name!r} is {step}; give a number other than 0.")


def _of_logit(logit: LinearRival, unit: str, wanted: dict[str, float], level: float) -> Worth:
    """By the normal distribution of the coefficients at their maximum."""
    names = list(logit.names)
    if unit not in names:
        raise ValueError(
            f"The unit {shortened(unit)} is no feature of the conditional logit; choose from "
            f"{', '.join(names) or 'none'}."
        )
    _check_steps(wanted, names, unit)
    assert logit.covariance is not None
    order = [i for i, name in enumerate(names) if name != unit] + [names.index(unit)]
    changes = _Changes(
        [(names[i], None, "") for i in order],
        logit.coefficients[order],
        logit.covariance[np.ix_(order, order)],
    )
    scale = dict.fromkeys(names, 1.0)
    frame = require_pandas().DataFrame(_rows(changes, scale, wanted, unit, level))
    return Worth(frame, unit, level, _slope(changes, 1.0, level), "anywhere", True)


# ---- what is changed ---------------------------------------------------------------------------


class _Changes(NamedTuple):
    """Changes of utility, the unit's last."""

    names: list[tuple[str, str | None, str]]
    """Attribute, level (None of a number), and the step in words."""
    mean: FloatArray
    """(c,) of numeric ones by one standard unit."""
    covariance: FloatArray
    """(c, c)."""

    @classmethod
    def of(
        cls,
        model: Predicts,
        names: list[tuple[str, str | None, str]],
        weights: FloatArray,
        features: FloatArray,
    ) -> _Changes:
        """Sums, with these weights (c, n), of the utilities of one unknown item with such features
        (n, D), of which nothing else is said."""
        layout, n = model.inputs.layout, len(features)
        numbers = np.full((n, int(layout.numbered)), -1.0)
        beside = np.zeros((n, layout.covariates)), np.full((n, layout.levels), -1.0)
        rows = np.column_stack([features, numbers, *beside])
        mean, covariance = (x.numpy() for x in model.posterior().joint(as_float(rows)))
        return cls(names, weights @ mean, weights @ covariance @ weights.T)


def _rows(
    changes: _Changes,
    scale: Mapping[str, float],
    wanted: Mapping[str, float],
    unit: str,
    level: float,
) -> list[dict[str, Any]]:
    found = []
    last = len(changes.mean) - 1
    for i, (name, level_name, words) in enumerate(changes.names[:-1]):
        step = wanted.get(name, 1.0)
        by = np.array([1.0 if level_name is not None else step / scale[name], 1.0 / scale[unit]])
        pair = np.array([i, last])
        mean = by * changes.mean[pair]
        covariance = np.outer(by, by) * changes.covariance[np.ix_(pair, pair)]
        value = ratio(mean, covariance, level)
        found.append(
            {
                "attribute": name,
                "step": words if level_name is not None else f"{step:+g}",
                "worth": value.value,
                "lower": value.lower,
                "upper": value.upper,
                "bounded": value.bounded,
                "slope": float(mean[0]),
                "slope_sd": math.sqrt(max(float(covariance[0, 0]), 0.0)),
            }
        )
    return found


def _changes(
    model: Predicts,
    place: FloatArray,
    columns: Mapping[str, IntArray],
    numeric: list[str],
    unit: str,
) -> _Changes:
    """Changes of utility at a place (D,): by numbers, by levels, and by the unit."""
    names: list[tuple[str, str | None, str]] = []
    ends: list[tuple[FloatArray, FloatArray, float]] = []
    for name, index in columns.items():
        if name in numeric:
            continue
        levels = _levels(model.duels, name)
        usual = int(np.argmax(place[index]))
        for j, text in enumerate(levels):
            if j == usual:
                continue
            first, second = place.copy(), place.copy()
            first[index] = np.eye(len(levels))[j]
            second[index] = np.eye(len(levels))[usual]
            names.append((name, text, f"{text} for {levels[usual]}"))
            ends.append((first, second, 1.0))
    for name in [*(n for n in numeric if n != unit), unit]:
        first, second = place.copy(), place.copy()
        first[columns[name]] += STEP
        second[columns[name]] -= STEP
        names.append((name, None, ""))
        ends.append((first, second, 2.0 * STEP))
    points = np.concatenate([np.stack([one for one, _, _ in ends]), [two for _, two, _ in ends]])
    c = len(ends)
    signs = np.hstack([np.eye(c), -np.eye(c)]) / np.array([by for _, _, by in ends])[:, None]
    return _Changes.of(model, names, signs, points)


def _columns(duels: KnownDuels) -> dict[str, IntArray]:
    names = np.array(feature_columns(duels), dtype=object)
    words: set[str] = set()
    if duels.transform is not None:  # directions have no units
        if duels.transform.reduced is not None:
            names = names[: -duels.transform.reduced.size]
        words = {name for text in duels.transform.texts for name in (text.words, text.score)}
    each = dict.fromkeys(names)
    return {str(name): np.flatnonzero(names == name) for name in each if name not in words}


def _without_units(transform: FeatureTransform) -> str | None:
    """What the features have besides that no unit measures, in words."""
    if transform.reduced is not None:
        return f"reduced features ({transform.reduced})"
    words = [text.words for text in transform.texts if text.transform.directions.size]
    if not words:
        return f"a score of words ({transform.scores[0]})" if transform.scores else None
    return f"directions of words ({words[0]})"


def _levels(duels: KnownDuels, name: str) -> tuple[str, ...]:
    assert duels.transform is not None
    return duels.transform.levels(name)


def _scale(duels: KnownDuels, name: str) -> float:
    """How much of a raw number is one standard unit."""
    units = None if duels.transform is None else duels.transform.units(name)
    return 1.0 if units is None else units[1]


def _checked(duels: KnownDuels, columns: Mapping[str, IntArray], unit: str) -> list[str]:
    """The numeric features; refuses a unit that is none."""
    reduced = None if duels.transform is None else duels.transform.reduced
    if reduced is not None and unit in reduced.names:
        raise ValueError(
            f"The feature {unit!r} was reduced along with others ({reduced}), so that nothing can "
            f"be measured in its units; keep it apart by naming it in the kernel, as in --kernel "
            f"linear({unit})+matern52."
        )
    if len(columns) < 2:
        raise ValueError(
            f"The model has {'one feature' if columns else 'no features'}, so that nothing can be "
            "measured in units of another; fit one with two or more."
        )
    texts = () if duels.transform is None else duels.transform.categorical
    numeric = [name for name in columns if name not in texts]
    dropped = () if duels.transform is None else duels.transform.dropped
    if unit in dropped:
        raise ValueError(
            f"The unit {unit!r} is the same for all items, so that nothing is known of it; choose "
            f"from {', '.join(numeric) or 'none'}."
        )
    if unit not in columns or unit in texts:
        problem = "holds texts" if unit in texts else "is no feature of the model"
        raise ValueError(
            f"The unit {shortened(unit)} {problem}; choose from {', '.join(numeric) or 'none'}."
        )
    return numeric


def _is_linear(model: Predicts) -> bool:
    """Whether slopes are the same everywhere: of linear kernels, and effects of whole items."""
    kinds = gpflow.kernels

    def plain(kernel: Any) -> bool:
        if isinstance(kernel, kinds.Sum):
            return all(plain(part) for part in kernel.kernels)
        return type(kernel) is kinds.Linear or isinstance(kernel, kinds.Constant)

    parts = map(feature_part, model.view.kernels(model))
    return all(part is None or plain(part) for part in parts)
