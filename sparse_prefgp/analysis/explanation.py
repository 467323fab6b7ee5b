"""Why one item is preferred to another: what each feature adds to the utility difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from sparse_prefgp.analysis.boards import at_a_date
from sparse_prefgp.analysis.contexts import contexts_at, has_contexts, met, stated
from sparse_prefgp.analysis.items import (
    feature_columns,
    feature_parts,
    known_items,
    raw_value,
)
from sparse_prefgp.analysis.people import Person, seen_by
from sparse_prefgp.covariances.item_effect import context_columns, item_effects
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES, require_pandas
from sparse_prefgp.data.items import check_features
from sparse_prefgp.data.texts import without_markup
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.judgements import load_pairs
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.models.time_posterior import TimePosterior
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.words import agreeing, shortened
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, records

EXACT = "exact: what each feature alone changes"
PATH = "integrated path"
ITEM_EFFECT, PAIR_EFFECT = "item effect", "pair effect"
ITEM_AND_PAIR = "item and pair effects"
IN_TIME = "utility in time"
STEPS, MOST_STEPS = 32, 4096
# Of the larger of the utility difference and its standard deviation.
RELATIVE_TOLERANCE = 1e-6
FEATURES_SHOWN = 20
# Below, three decimals show a 0.
SHOWN_AS_0 = 5e-4
# Of the words behind texts, so many are shown for each direction, and kept.
WORDS_SHOWN, WORDS_KEPT = 8, 100


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Contributions of the features to E f(first) - E f(second); `print` shows it as text."""

    rows_name = "contributions"

    first: str
    """What the first item is called."""
    second: str
    """What the second item is called."""
    frame: Any
    """Data frame, the largest absolute contribution first: `feature`, `first`, `second` (values in
    raw units where the model records them, the level of a categorical feature), `contribution` (in
    units of utility) and `sd` (its posterior standard deviation; NaN for an integrated path).
    """
    difference: float
    """Expected utility difference."""
    sd: float
    """Posterior standard deviation of the difference."""
    probability: float
    """Probability that the first beats the second."""
    method: str
    """`exact: what each feature alone changes`, or `integrated path`."""
    residual: float
    """The difference less the sum of the contributions."""
    tolerance: float
    """The largest residual, and the largest change by twice the steps of a path, that were aimed
    at."""
    steps: int | None
    """Points on the path; None for the exact method."""
    converged: bool
    """Whether the tolerance was met."""
    negative_variances: int = 0
    """How many variances rounding had made negative; their sd is 0."""
    tie_probability: float | None = None
    """Probability of a tie; None for a model without a margin."""
    words: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    """For each column of texts its words, those that tell most first, with how fast expected
    utility rises with the weight (tf-idf) of each, on average between the two items.
    """
    scored: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]] = field(default_factory=dict)
    """For each score of words, by the name of an item whose text was given: its words, those that
    count most first, with what each adds to the score, in standard deviations of training texts.
    """

    @property
    def headline(self) -> str:
        """The text above the table: who is preferred, and by how much."""
        tie = ""
        if self.tie_probability is not None:
            tie = f", and of a tie {self.tie_probability:.3f}"
        return (
            f"The probability that {self.first} beats {self.second} is {self.probability:.3f}{tie}"
            f"; its expected utility is {abs(self.difference):.3f} "
            f"{'above' if self.difference >= 0.0 else 'below'} the other's, sd {self.sd:.3f}."
        )

    def table(self, most: int | None = None) -> Table:
        """What the features contribute, without those that show as 0, at most 20."""
        return self._rows(most)[0]

    def _rows(self, most: int | None) -> tuple[Table, list[str]]:
        """The table, and what is left out of it."""
        # What does not differ between the items contributes nothing, not even uncertainty.
        some = (self.frame["contribution"] != 0.0) | (self.frame["sd"] > 0.0)
        differing = self.frame[some]
        large = differing[["contribution", "sd"]].abs().max(axis=1).to_numpy() >= SHOWN_AS_0
        # Those that would show as 0.000 are summed up, unless all would.
        number = int(large.nonzero()[0][-1]) + 1 if large.any() else len(differing)
        shown = differing.head(min(number, FEATURES_SHOWN if most is None else most))
        columns = [
            Column("feature", "feature", str, left=True),
            Column("first", self.first, _text),
            Column("second", self.second, _text),
            Column("contribution", "contribution", "+z.3f"),
            Column("sd", "sd", lambda sd: "" if math.isnan(sd) else f"{sd:.3f}"),
        ]
        if differing["sd"].isna().all():  # as an integrated path has none
            columns.pop()
        lines = []
        rest, nothing = differing.iloc[len(shown) :], len(self.frame) - len(differing)
        if len(rest):
            lines.append(f"and {len(rest)} more, {rest['contribution'].sum():+z.3f} together")
        if nothing:
            lines.append(
                f"and {nothing} that {agreeing(nothing, 'contributes', 'contribute')} nothing"
            )
        return Table("explanation", "", columns, records(shown)), lines

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The headline, the table, and how it came about."""
        table, lines = self._rows(most)
        for name, found in self.words.items():
            for sign, what in ((1.0, "raise"), (-1.0, "lower")):
                chosen = [word for word, slope in found if sign * slope > 0.0][:WORDS_SHOWN]
                if chosen:
                    lines.append(
                        f"{name} that {what} expected utility, where a text has them: "
                        f"{', '.join(chosen)}"
                    )
        for name, items in self.scored.items():
            for item, counted in items.items():
                for sign, what in ((1.0, "for"), (-1.0, "against")):
                    weights = [f"{word} {much:+.2f}" for word, much in counted if sign * much > 0.0]
                    if weights:
                        shown = ", ".join(weights[:WORDS_SHOWN])
                        lines.append(f"{name} of {item}, what counts {what} it: {shown}")
        missed = f"miss the difference by {abs(self.residual):.0e}"
        adds_up = abs(self.residual) <= RELATIVE_TOLERANCE * abs(self.difference)
        how = "add up to the difference" if adds_up else missed
        lines.append(f"Contributions {how}; + speaks for {self.first}.")
        if self.steps is None:
            lines.append(f"They are {self.method}.")
        else:
            of_path = f", and {missed}" if adds_up else ""
            lines.append(
                f"They are those of an {self.method} of {self.steps} points (Sundararajan, Taly & "
                f"Yan 2017){of_path}."
            )
        if not self.converged:
            lines.append(
                f"Warning: the tolerance of {self.tolerance:.1e} was not met; the contributions "
                "are not exact."
            )
        return [self.headline, table, *lines]


def explain(
    model: Predicts,
    first: Any,
    second: Any,
    items: Any = None,
    *,
    steps: int = STEPS,
    at: Any = None,
    person: Person = None,
) -> Explanation:
    """What each feature adds to the expected utility of `first` over that of `second`.

    Where what each feature changes alone, as this feature of `second` becomes that of `first`, adds
    up to the difference, these are the contributions: so it is where the utility is a sum of
    functions of one feature each (a linear kernel, kernels that act on one feature through
    `active_dims`, and sums of them). Otherwise a contribution is the
    integral of the feature's part of the gradient of E f along the straight line from second to
    first (integrated gradients, Sundararajan, Taly & Yan 2017): contributions still add up to the
    difference, but depend on that path. The levels of a categorical column count together. Of what
    was reduced, each raw column and each vector has the part of the step from second to first that
    the scores tell is its own (the directions' entries in it, times their transpose). For a
    model with item effects, features are changed for an item it does not know, and what the two
    items have besides their features is a contribution of its own, `item effect`; with effects of
    pairs `pair effect`, or `item and pair effects`; where utilities move `utility in time`, what
    the two have of it at the date.

    :param model: any model.
    :param first: id of an item, or an array in model units: (D,) features, or (D + 1,) for a model
        with item effects, the last being the row of the item in `model.duels.items`.
    :param second: the item it is compared with, in the same form.
    :param items: where ids are looked up before the model's own items, as in `resolve_items`.
    :param at: for a model with contexts, that of both sides as text or a mapping, by the columns of
        a table of pairs: `surface=clay,first_home=1,second_home=0`. Where utilities move in time,
        also the date, as `date=2014-07-13`; by default that of the last duel.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default that of somebody of whom nothing is known, of
        which what all share is expected.
    :param steps: Gauss-Legendre points on the path at first, doubled until the tolerance is met or
        there are 4,096.
    :raises ValueError: an unknown id, an item against itself, an array of the wrong length, `steps`
        below 1, an expected utility whose gradient is not finite on the path.
    """
    steps = whole_number("steps", steps, 1)
    model = seen_by(model, person)
    model, at = at_a_date(model, () if at is None else at)
    if isinstance(at, list | tuple):
        if len(at) > 1:
            raise ValueError(
                f"Several contexts were asked for, {at[0]} and {at[1]}; give those of both sides "
                "in one, as surface=clay,first_home=1 (--at)."
            )
        at = at[0] if at else None
    if np.ndim(first) == 0 and np.ndim(second) == 0:
        first, second, items = _in_context(model, first, second, items, at)
    else:
        together.check(context=at is not None, features_for_ids=True)
    names, inputs, texts = _pair(model, first, second, items)
    d = model.duels.num_features
    sides = inputs[:, :d]
    mean, variance = (np.asarray(x)[0] for x in model.predict_difference(inputs[:1], inputs[1:]))
    won, tied, _ = model.predict_outcome(inputs[:1], inputs[1:]).numpy()[0]

    parts = feature_parts(model.duels)
    taken = [part.taken_over(sides[1], sides[0]) for part in parts]
    points_at = np.array(taken).reshape(len(parts), d)
    # The change when one feature of the second item becomes the first's.
    second_item = np.broadcast_to(sides[1], points_at.shape)
    means, variances = _differences(model, np.stack([points_at, second_item], axis=1))
    method, points, converged = EXACT, None, True
    tolerance = RELATIVE_TOLERANCE * max(abs(mean), math.sqrt(max(variance, 0.0)))
    target = _differences(model, sides[None])[0][0]
    if not abs(target - means.sum()) <= tolerance:
        method = PATH
        means, points, converged = _path(model, sides, points_at, target, steps, tolerance)
        variances = np.full(len(means), np.nan)
    rows = [
        (part.name, *(raw_value(model.duels, part.name, side[part.columns]) for side in sides))
        for part in parts
    ]
    if model.inputs.layout.numbered:
        numbers = inputs[:, d] if inputs.shape[1] > d else np.full(2, -1.0)
        known = [_acquaintance(model.duels, int(number)) for number in numbers]
        for name, more_mean, more_variance in _own(model, sides, numbers):
            means, variances = np.append(means, more_mean), np.append(variances, more_variance)
            rows.append((name, known[0], known[1]))
    said = (model.duels.transform or NO_FEATURES).texts
    words: dict[str, Any] = {}
    scored: dict[str, Any] = {}
    slopes = _slopes(model, sides, steps) if said else np.zeros(0)
    for text in said:
        own = np.flatnonzero(np.isin(feature_columns(model.duels), text.made_of))
        words[text.words] = text.transform.word_weights(slopes[own])[:WORDS_KEPT]
        if text.transform.score is not None:
            counted = text.transform.score.contributions
            of_items = {
                name: counted(without_markup(given[text.column]))[:WORDS_KEPT]
                for name, given in zip(names, texts, strict=True)
                if given.get(text.column)
            }
            scored |= {text.score: of_items} if of_items else {}
    frame = require_pandas().DataFrame(rows, columns=["feature", "first", "second"])
    frame["contribution"] = means + 0.0
    frame["sd"] = np.sqrt(np.maximum(variances, 0.0))
    order = np.argsort(-np.abs(means), kind="stable")
    return Explanation(
        first=names[0],
        second=names[1],
        frame=frame.iloc[order].reset_index(drop=True),
        difference=float(mean),
        sd=math.sqrt(max(variance, 0.0)),
        probability=float(won),
        method=method,
        residual=float(mean - means.sum()),
        tolerance=tolerance,
        steps=points,
        converged=converged,
        negative_variances=int(variance < 0.0) + int((variances < 0.0).sum()),
        tie_probability=None if model.likelihood.margin is None else float(tied),
        words=words,
        scored=scored,
    )


# ---- the pair ----------------------------------------------------------------------------------


def _pair(
    model: Predicts, first: Any, second: Any, items: Any
) -> tuple[tuple[str, ...], FloatArray, tuple[dict[str, str], ...]]:
    """What the items are called, their inputs (2, D) or (2, D + 1), and what is known of their
    texts, by column."""
    d = model.duels.num_features
    known, found = None, []
    for label, value in (("first", first), ("second", second)):
        if np.ndim(value) == 0:
            known = known_items(model, items) if known is None else known
            row = known.by_id.find(id_text(value))
            if row is None:
                raise ValueError(
                    f"The {label} item {shortened(value)} is not an item id of {known.name}; "
                    f"{known.by_id.meant(id_text(value))}correct the id, or give a table with that "
                    "item (--items, items=)."
                )
            texts = {name: each[row] for name, each in known.texts.items()}
            found.append((str(value), known.inputs[row], texts))
            continue
        array = check_features(np.asarray(value)[None], label, model.duels.feature_names)[0]
        if len(array) != d and not (model.inputs.layout.numbered and len(array) == d + 1):
            raise ValueError(
                f"The {label} item has {len(array)} features, but the model has {d}; give an id, "
                "or the features in the units of model.duels.items."
            )
        if model.inputs.layout.numbered and len(array) == d:
            array = np.append(array, -1.0)
        found.append((f"the {label} item", array, {}))
    if np.ndim(first) == 0 and np.ndim(second) == 0 and id_text(first) == id_text(second):
        raise ValueError(
            f"The first and the second item are both {shortened(first)}; give two different items."
        )
    names, rows, of_texts = zip(*found, strict=True)
    return names, np.stack(rows), of_texts


def _in_context(
    model: Predicts, first: Any, second: Any, items: Any, at: Any
) -> tuple[Any, Any, Any]:
    """Ids of the rows of both sides in a context, and where these are found."""
    if not has_contexts(model, items):
        if at is None:
            return first, second, items
        contexts_at(model, [at])  # refused of a model without
    row = {"first": first, "second": second, **({} if at is None else stated(at))}
    table, names = load_pairs(require_pandas().DataFrame([row]))
    found, placed = met(model, items, table, names, "pair")
    return placed.frame["first"].iloc[0], placed.frame["second"].iloc[0], found


# ---- contributions -----------------------------------------------------------------------------


def _differences(model: Predicts, pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of utility differences (k,) for pairs (k, 2, D) of features.

    With item effects all are of one unknown item, so that its effect cancels.
    """
    return _apart(model, _unknown(model, pairs))


def _apart(model: Predicts, pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of utility differences (k,) for pairs (k, 2, D) of inputs."""
    found = model.posterior_of_outcomes().difference(as_float(pairs)).numpy()
    return found[:, 0], found[:, 1]


def _unknown(model: Predicts, features: FloatArray) -> FloatArray:
    """Inputs of one item that the model does not know, whatever its features."""
    if not model.inputs.layout.numbered:
        return features
    return np.concatenate([features, np.full((*features.shape[:-1], 1), -1.0)], axis=-1)


def _own(
    model: Any, sides: FloatArray, numbers: FloatArray
) -> list[tuple[str, FloatArray, FloatArray]]:
    """What two items have besides their features: names, means and variances, (1,) each.

    The variance is NaN where items have effects in a context and theirs differ.
    """
    # Two unknown items have two effects.
    apart = np.where(numbers < 0, [-1.0, -2.0], numbers)
    context = context_columns(model.kernel, sides.shape[1])
    alike = np.array_equal(sides[0, context], sides[1, context])
    # In one context the features of one of them serve for both, and cancel.
    pair = np.column_stack([sides[[1, 1]] if alike else sides, apart])[None]
    mean, variance = _apart(model, pair)
    if not alike:
        mean, variance = mean - _differences(model, sides[None])[0], np.full(1, np.nan)
    if not model.inputs.layout.dated:
        name = ITEM_EFFECT
        if pair_effect(model.kernel) is not None:
            name = ITEM_AND_PAIR if item_effects(model.kernel) else PAIR_EFFECT
        return [(name, mean, variance)]
    rows = model.in_time.with_dates(np.column_stack([sides, apart]))
    moved, of_it = model.in_time.posterior().moved_apart(as_float(rows))
    found = [(IN_TIME, np.array([moved]), np.array([of_it]))]
    if item_effects(model.kernel):
        found.insert(0, (ITEM_EFFECT, mean - moved, np.full(1, np.nan)))
    return found


def _acquaintance(duels: Duels, number: int) -> str:
    """How well a model knows an item by its number; negative ones are unknown items."""
    if number < 0:
        return "unknown"
    return "known" if duels.comparisons[duels.item == number].any() else "never compared"


def _path(
    model: Predicts,
    sides: FloatArray,
    changed: FloatArray,
    target: float,
    steps: int,
    tolerance: float,
) -> tuple[FloatArray, int, bool]:
    """Contributions by integrated gradients, the points it took, whether the tolerance was met."""
    # Of the gradient of E f from second to first, that along each feature's part of the step.
    steps_of_parts, found = changed - sides[1], None
    while True:
        finer = steps_of_parts @ _slopes(model, sides, steps)
        change = np.inf if found is None else float(np.abs(finer - found).max())
        found = finer
        if max(change, abs(target - float(found.sum()))) <= tolerance:
            return found, steps, True
        if steps >= MOST_STEPS and np.isfinite(change):
            return found, steps, False
        steps *= 2


def _slopes(model: Predicts, sides: FloatArray, steps: int) -> FloatArray:
    """(D,) the mean gradient of E f on the straight line from second to first."""
    node, weight = np.polynomial.legendre.leggauss(steps)
    step = sides[0] - sides[1]
    points = sides[1] + (0.5 * (node + 1.0))[:, None] * step
    inputs = as_float(_unknown(model, points))
    posterior = model.posterior_of_outcomes()
    if isinstance(posterior, TimePosterior):  # a sweep in NumPy, but for one date features alone
        inputs = as_float(model.in_time.with_dates(inputs.numpy()))
        posterior = posterior.at_its_date
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        mean = posterior.mean(inputs)
    gradient = np.asarray(tape.gradient(mean, inputs))[:, : len(step)]
    if not np.isfinite(gradient).all():
        raise ValueError(
            "The expected utility has no finite gradient between the two items, so there is no "
            f"integrated path with the kernel {type(model.kernel).__name__}; use a kernel that is "
            "additive over the features."
        )
    return 0.5 * weight @ gradient


# ---- text --------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return f"{value:z.6g}" if isinstance(value, float) else str(value)
