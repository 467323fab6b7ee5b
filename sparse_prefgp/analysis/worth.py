"""What a step of each attribute is worth in units of another, such as the price."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gpflow
import numpy as np
from scipy import special

from sparse_prefgp.analysis.items import feature_columns, resolve_items
from sparse_prefgp.analysis.people import Person, seen_by
from sparse_prefgp.analysis.rivals import LinearRival
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES, FeatureTransform, require_pandas
from sparse_prefgp.models.protocols import Predicts
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
        shown = self.frame.iloc[:most]
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
    person: Person = None,
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
    steps = dict(steps or {})
    if isinstance(model, LinearRival):
        if person is not None:
            raise together.refused(
                one_utility="a conditional logit", people=f"the person {shortened(person)}"
            )
        return _of_logit(model, unit, steps, level)
    asked: Predicts = seen_by(model, person)
    transform = asked.duels.transform or NO_FEATURES
    attributes = _attributes(asked.duels, transform, unit, steps, level)
    found = resolve_items(asked, items)
    compared = np.arange(len(found)) if items is not None else np.flatnonzero(found.comparisons)
    linear = _is_linear(asked)
    unmeasured = _without_units(transform)
    together.check(plane=not (linear or by_item), unmeasured=unmeasured)
    inputs = found.inputs[compared][:, : asked.duels.num_features]
    if by_item or linear:
        at, here = "each item" if by_item else AVERAGE, attributes.at_average(asked, inputs)
    else:
        weight = found.comparisons[compared] if items is None else np.ones(len(compared))
        at, here = PLANE, attributes.plane(asked, inputs, weight.astype(np.float64))
    rows = attributes.rows(here)
    if by_item:
        rows = [
            {"item": found.ids[row], **values}
            for row, place in zip(compared, inputs, strict=True)
            for values in attributes.rows(attributes.changes(asked, place))
        ]
    return attributes.told(rows, here, at, linear)


class _Step(NamedTuple):
    """A change of one attribute."""

    attribute: str
    column: int
    """That it changes, the first of a number's."""
    usual: int | None = None
    """The column of the level that is left; None of a number."""
    words: str = ""
    """From one level to the other."""


class _Changes(NamedTuple):
    """Changes of utility, the unit's last."""

    steps: list[_Step]
    mean: FloatArray
    """(c,) of numeric ones by one standard unit."""
    covariance: FloatArray
    """(c, c)."""

    @classmethod
    def of(
        cls, model: Predicts, steps: list[_Step], weights: FloatArray, features: FloatArray
    ) -> _Changes:
        """Sums, with these weights (c, n), of the utilities of one unknown item with such features
        (n, D), of which nothing else is said."""
        layout, n = model.inputs.layout, len(features)
        numbers = np.full((n, int(layout.numbered)), -1.0)
        beside = np.zeros((n, layout.covariates)), np.full((n, layout.levels), -1.0)
        rows = np.column_stack([features, numbers, *beside])
        mean, covariance = (x.numpy() for x in model.posterior().joint(as_float(rows)))
        return cls(steps, weights @ mean, weights @ covariance @ weights.T)


@dataclass(frozen=True, eq=False)
class _Attributes:
    """What is changed, and in which units."""

    columns: Mapping[str, IntArray]
    """Of the features, those that each attribute has."""
    levels: Mapping[str, tuple[str, ...]]
    """Of those that hold texts."""
    scale: Mapping[str, float]
    """Of the numbers, how much of each is one standard unit."""
    unit: str
    wanted: Mapping[str, float]
    """Steps of numbers, where they are not 1."""
    level: float

    def __post_init__(self) -> None:
        for name, step in self.wanted.items():
            if name == self.unit:
                raise ValueError(
                    f"{name!r} is what worth is measured in, so that a step of it is worth just "
                    "that; leave it out (--step, step=)."
                )
            check_choice("The feature of a step", name, [n for n in self.scale if n != self.unit])
            if not np.isfinite(step) or step == 0.0:
                raise ValueError(f"The step of {name!r} is {step}; give a number other than 0.")

    def steps(self, place: FloatArray) -> list[_Step]:
        """By levels from the most common one at a place (D,), by numbers, and by the unit."""
        found = []
        for name, levels in self.levels.items():
            index = self.columns[name]
            usual = int(np.argmax(place[index]))
            found += [
                _Step(name, int(index[j]), int(index[usual]), f"{text} for {levels[usual]}")
                for j, text in enumerate(levels)
                if j != usual
            ]
        numbers = [*(name for name in self.scale if name != self.unit), self.unit]
        return found + [_Step(name, int(self.columns[name][0])) for name in numbers]

    def changes(self, model: Predicts, place: FloatArray) -> _Changes:
        """At a place (D,)."""
        steps = self.steps(place)
        ends = np.tile(place, (2, len(steps), 1))
        for first, second, step in zip(*ends, steps, strict=True):
            index = self.columns[step.attribute]
            if step.usual is None:
                first[index] += STEP
                second[index] -= STEP
            else:
                first[index] = second[index] = 0.0
                first[step.column] = second[step.usual] = 1.0
        every = np.eye(len(steps))
        by = np.array([2.0 * STEP if step.usual is None else 1.0 for step in steps])
        signs = np.hstack([every, -every]) / by[:, None]
        return _Changes.of(model, steps, signs, ends.reshape(-1, len(place)))

    def at_average(self, model: Predicts, inputs: FloatArray) -> _Changes:
        """At the average of numbers, and the most common levels."""
        average = np.asarray(inputs.mean(0))
        for name in self.levels:
            index = self.columns[name]
            average[index] = np.eye(len(index))[int(np.argmax(average[index]))]
        return self.changes(model, average)

    def plane(self, model: Predicts, inputs: FloatArray, weight: FloatArray) -> _Changes:
        """Slopes of the plane closest to the utilities of some items (n, D), weights (n,)."""
        most = np.sort(np.argsort(-weight, kind="stable")[:MOST_ITEMS])
        x, c = inputs[most], weight[most]
        steps = [
            step
            for step in self.steps(c @ x)
            if step.usual is None or np.ptp(x[:, step.column]) > 0.0
        ]
        design = np.column_stack([x[:, [step.column for step in steps]], np.ones(len(x))])
        root = np.sqrt(c / c.mean())[:, None]
        q, r = np.linalg.qr(root * design)
        enough = len(x) >= design.shape[1]
        least = np.abs(np.diag(r)) if enough else np.zeros(design.shape[1])
        weak = np.flatnonzero(least <= 1e-9 * max(float(least.max()), 1e-300))
        if weak.size:
            what = "there are too few items"
            if enough:
                name = steps[min(int(weak[0]), len(steps) - 1)].attribute
                what = f"{name!r} is a sum of multiples of others over these items"
            raise ValueError(
                f"No plane is closest to the utilities of {len(x):,} items with {len(steps)} "
                f"slopes, as {what}; leave features out of the fit, or ask by item (by_item=True, "
                "--by-item)."
            )
        return _Changes.of(model, steps, np.linalg.solve(r, q.T * root.T)[:-1], x)

    def rows(self, changes: _Changes) -> list[dict[str, Any]]:
        """What each step is worth."""
        found, last = [], len(changes.mean) - 1
        for i, step in enumerate(changes.steps[:-1]):
            much, by_one = self.wanted.get(step.attribute, 1.0), 1.0
            if step.usual is None:
                by_one = much / self.scale[step.attribute]
            by, pair = np.array([by_one, 1.0 / self.scale[self.unit]]), np.array([i, last])
            mean = by * changes.mean[pair]
            covariance = np.outer(by, by) * changes.covariance[np.ix_(pair, pair)]
            value = ratio(mean, covariance, self.level)
            found.append(
                {
                    "attribute": step.attribute,
                    "step": step.words or f"{much:+g}",
                    "worth": value.value,
                    "lower": value.lower,
                    "upper": value.upper,
                    "bounded": value.bounded,
                    "slope": float(mean[0]),
                    "slope_sd": math.sqrt(max(float(covariance[0, 0]), 0.0)),
                }
            )
        return found

    def told(self, rows: list[dict[str, Any]], here: _Changes, at: str, linear: bool) -> Worth:
        """The result, with the slope of the unit and its interval."""
        scale = self.scale[self.unit]
        slope, sd = here.mean[-1] / scale, math.sqrt(here.covariance[-1, -1]) / scale
        reach = float(special.ndtri(0.5 + 0.5 * self.level)) * sd
        slopes = slope, slope - reach, slope + reach
        return Worth(require_pandas().DataFrame(rows), self.unit, self.level, slopes, at, linear)


def _of_logit(logit: LinearRival, unit: str, wanted: dict[str, float], level: float) -> Worth:
    """By the normal distribution of the coefficients at their maximum."""
    if unit not in logit.names:
        raise ValueError(
            f"The unit {shortened(unit)} is no feature of the conditional logit; choose from "
            f"{', '.join(logit.names) or 'none'}."
        )
    columns = {name: np.array([i]) for i, name in enumerate(logit.names)}
    attributes = _Attributes(columns, {}, dict.fromkeys(columns, 1.0), unit, wanted, level)
    assert logit.covariance is not None
    steps = attributes.steps(logit.coefficients)
    order = [step.column for step in steps]
    covariance = logit.covariance[np.ix_(order, order)]
    changes = _Changes(steps, logit.coefficients[order], covariance)
    return attributes.told(attributes.rows(changes), changes, "anywhere", True)


def _without_units(transform: FeatureTransform) -> str | None:
    """What the features have besides that no unit measures, in words."""
    if transform.reduced is not None:
        return f"reduced features ({transform.reduced})"
    words = [text.words for text in transform.texts if text.transform.directions.size]
    if not words:
        return f"a score of words ({transform.scores[0]})" if transform.scores else None
    return f"directions of words ({words[0]})"


def _attributes(
    duels: Duels,
    transform: FeatureTransform,
    unit: str,
    wanted: Mapping[str, float],
    level: float,
) -> _Attributes:
    """Those of a model; refuses a unit that is no number."""
    names, reduced = np.array(feature_columns(duels), dtype=object), transform.reduced
    if reduced is not None:  # directions have no units
        names = names[: -reduced.size]
        if unit in reduced.names:
            raise ValueError(
                f"The feature {unit!r} was reduced along with others ({reduced}), so that nothing "
                "can be measured in its units; keep it apart by naming it in the kernel, as in "
                f"--kernel linear({unit})+matern52."
            )
    words = {name for text in transform.texts for name in (text.words, text.score)}
    columns = {str(n): np.flatnonzero(names == n) for n in dict.fromkeys(names) if n not in words}
    if len(columns) < 2:
        raise ValueError(
            f"The model has {'one feature' if columns else 'no features'}, so that nothing can be "
            "measured in units of another; fit one with two or more."
        )
    levels = {name: transform.levels(name) for name in columns if name in transform.categorical}
    units = {name: transform.units(name) or (0.0, 1.0) for name in columns if name not in levels}
    choose = f"choose from {', '.join(units) or 'none'}."
    if unit in transform.dropped:
        raise ValueError(
            f"The unit {unit!r} is the same for all items, so that nothing is known of it; {choose}"
        )
    if unit not in units:
        problem = "holds texts" if unit in transform.categorical else "is no feature of the model"
        raise ValueError(f"The unit {shortened(unit)} {problem}; {choose}")
    scale = {name: one for name, (_, one) in units.items()}
    return _Attributes(columns, levels, scale, unit, wanted, level)


def _is_linear(model: Predicts) -> bool:
    """Whether slopes are the same everywhere: of linear kernels, and effects of whole items."""
    kinds = gpflow.kernels

    def plain(kernel: Any) -> bool:
        if isinstance(kernel, kinds.Sum):
            return all(plain(part) for part in kernel.kernels)
        return type(kernel) is kinds.Linear or isinstance(kernel, kinds.Constant)

    parts = map(feature_part, model.view.kernels(model))
    return all(part is None or plain(part) for part in parts)
