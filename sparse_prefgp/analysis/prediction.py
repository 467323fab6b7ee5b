"""Predicted duels between the items of a table of pairs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from sparse_prefgp.analysis.alternatives import (
    only_one,
    predict_sets,
    refuse_options,
)
from sparse_prefgp.analysis.contexts import met
from sparse_prefgp.analysis.dates import seen_on
from sparse_prefgp.analysis.items import ItemSet
from sparse_prefgp.analysis.people import seen_by
from sparse_prefgp.analysis.roles import Columns, roles_in
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.io.dates import dates_of
from sparse_prefgp.io.judgements import covariates_in, labels_in, load_pairs, names_covariates
from sparse_prefgp.models.outcomes import known_labels, known_levels
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import level_of_interval

TIE, LOSS = "tie_probability", "loss_probability"
GRADE = "p_"
ADDED = ("probability", "difference", "sd", "lower", "upper", "outside_range")
# Pairs that are in TensorFlow at a time.
_PAIRS_AT_ONCE = 50_000


def predict(
    model: Predicts,
    pairs: Any = None,
    items: Any = None,
    *,
    level: float = 0.95,
    columns: Columns = None,
    person: Hashable | list[Hashable] | None = None,
    at: Any = None,
    choices: Any = None,
    rankings: Any = None,
    best_worst: Any = None,
    **options: Any,
) -> Any:
    """Who wins, for pairs of items; or what is chosen of sets.

    An item against itself has sd 0 and equal probabilities, ½ without ties.

    Warns of groups that the model does not know, which are averaged over in the same way.

    :param model: whose posterior counts.
    :param pairs: path or data frame with the columns `first` and `second`, or else `winner` and
        `loser`, which hold item ids.
    :param items: raw items, as `resolve_items` takes them; ids are looked up there first and then
        among the model's own items. By default the model's own alone.
    :param level: of the intervals.
    :param columns: by role, columns that are called otherwise than those that the model learned
        from, as for `evaluate`. Where nothing says who judges, probabilities are averaged over the
        prior of a group's noise.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default the table says it, or else
        it is somebody of whom nothing is known.
    :param at: where utilities move in time, the date of all pairs, such as 2014-07-13; by default
        the table says it, or else it is that of the last duel.
    :param choices: in place of pairs, sets of alternatives as `read_choices` takes them, of which
        nobody needs to have said what was chosen; then the result is that of
        `alternatives.predict_sets`: the probability of each alternative.
    :param rankings: rankings as `read_rankings` takes them, of which the probability is found.
    :param best_worst: the same of best and worst, as `read_best_worst` takes them.
    :param options: of these readers, such as `at_once=True`.
    :return: The pairs as a data frame, all columns as they are, with `probability` (that the first,
        or the winner, beats the second), for a model with a margin `tie_probability` and
        `loss_probability` (that the second wins; the three add up to 1), for one with grades
        `p_LEVEL` for each of them (of the first over the second, worst first), `difference`
        (expected utility of the first less that of the second), `sd`, `lower` and `upper` (of that
        difference) and `outside_range` (either item outside the range of the training items).
        `frame.attrs` holds `level`, `grades` (their columns, if any), `negative_variances` (how
        many variances rounding had made negative; their sd is 0), and of the items in the pairs
        `outside_items` (the features in which each one outside is so), `outside_features` and
        `unknown_levels`.
    :raises ValueError: a missing column, one named like a column that is added, an unknown id (with
        its row), a missing group, a level outside (0, 1), a role that the model has not, and what
        `resolve_items` raises.
    """
    level = level_of_interval(level)
    model = seen_on(seen_by(model, person), at)
    kind, source = only_one(pairs=pairs, choices=choices, rankings=rankings, best_worst=best_worst)
    refuse_options(kind, options)
    if kind != "pairs":
        if person is not None:
            options["person"] = None  # whoever the table names
        return predict_sets(model, kind, source, items, columns, **options)
    table, sides = load_pairs(pairs)
    grades = grade_columns(model)
    table.refuse_added((*ADDED, TIE, LOSS, *grades))
    found, placed = met(model, items, table, sides, "pair")
    first, second = (found.rows_in(placed, name, "pair") for name in sides)
    roles = roles_in(model, table.frame.columns, table.name, columns)
    labels = None if roles.judge is None else labels_in(table, roles.judge)
    leaning = {name: labels_in(table, c, "label") for name, c in roles.labels.items()}
    names, said = model.duels.covariate_names, None
    if names_covariates(table.frame.columns, names, sides):
        said = covariates_in(table, names, sides)
    whose = dates = None
    if roles.person is not None and person is None:
        whose = labels_in(table, roles.person)
    if roles.date is not None and at is None:
        dates = dates_of(table.frame[roles.date], roles.date, table.row)
    outcome = predicted(model, found, first, second, labels, said, whose, dates, leaning)
    mean, variance = outcome.mean, outcome.variance
    negative = variance < 0.0
    sd = np.sqrt(np.where(negative, 0.0, variance))
    half_width = float(special.ndtri(0.5 + 0.5 * level)) * sd
    ties = {TIE: np.exp(outcome.tied), LOSS: np.exp(outcome.lost)}
    frame = table.frame.assign(
        probability=np.exp(outcome.won),
        **({} if model.margin is None else ties),
        **{name: np.exp(outcome.grades[:, k]) for k, name in enumerate(grades)},
        difference=mean,
        sd=sd,
        lower=mean - half_width,
        upper=mean + half_width,
        outside_range=found.outside[first] | found.outside[second],
    )
    there = found.select(np.unique(np.concatenate([first, second])))
    frame.attrs = {
        "level": float(level),
        **({"grades": list(grades)} if grades else {}),
        **({"covariates": list(names) if said is not None else []} if names else {}),
        "negative_variances": int(negative.sum()),
        "outside_items": there.outside_of_items,
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }
    return frame


def grade_columns(model: Predicts) -> tuple[str, ...]:
    """Names of the columns with probabilities of grades, worst first; none without grades."""
    return tuple(f"{GRADE}{name}" for name in model.duels.levels or ())


class Outcomes(NamedTuple):
    """What is predicted for pairs, (N,) each."""

    won: FloatArray
    """Log probability that the first wins, in nats."""
    tied: FloatArray
    """Log probability of a tie; -inf without a margin."""
    lost: FloatArray
    """Log probability that the first loses."""
    mean: FloatArray
    """Mean of the difference of utilities."""
    variance: FloatArray
    """Variance of the difference of utilities."""
    grades: FloatArray
    """Log probabilities (N, L) of the grades of the first, worst first; (N, 0) without grades."""

    @property
    def winner(self) -> FloatArray:
        """Log probability that the first wins, given that either does."""
        if np.all(np.isneginf(self.tied)):
            return self.won
        return self.won - np.logaddexp(self.won, self.lost)

    @property
    def all_three(self) -> FloatArray:
        """Log probabilities that the first wins, ties and loses, (N, 3)."""
        return np.column_stack([self.won, self.tied, self.lost])


def predicted(
    model: Predicts,
    items: ItemSet,
    first: IntArray,
    second: IntArray,
    groups: npt.NDArray[np.object_] | None = None,
    covariates: FloatArray | None = None,
    people: npt.NDArray[np.object_] | None = None,
    dates: FloatArray | None = None,
    leaning: Mapping[str, npt.NDArray[np.object_]] | None = None,
) -> Outcomes:
    """Predictions for pairs of rows of `items`, in bounded memory.

    :param groups: (N,) labels of who judges; a warning tells of unknown ones.
    :param covariates: (N, C) of the first less those of the second; None for 0.
    :param people: (N,) whose utility it is, for a model with tastes; None for nobody yet.
    :param dates: (N,) days since 1970, where utilities move in time; None for that of the model.
    :param leaning: (N,) labels that lean, by their columns; a warning tells of unknown ones.
    """
    count = len(first)
    levels = len(model.duels.levels or ())
    columns = [np.empty(count) for _ in range(len(Outcomes._fields) - 1)]
    result = Outcomes._make([*columns, np.empty((count, levels))])
    labels = None if groups is None else known_labels(model, groups)
    known = known_levels(model, leaning or {}, count)
    for start in range(0, count, _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        a, b = items.inputs[first[part]], items.inputs[second[part]]
        who = None if labels is None else labels[part]
        # Not even rounding, nor an effect of its own for either side, parts an item from itself.
        same = first[part] == second[part]
        if covariates is not None:
            if model.has_item_effect:  # of whatever item, the same effect on both sides is none
                unknown = (same & (a[:, -1] < 0.0))[:, None] & (
                    np.arange(a.shape[1]) + 1 == a.shape[1]
                )
                a, b = (np.where(unknown, 0.0, side) for side in (a, b))
        said, whose, at = (
            None if values is None else values[part] for values in (covariates, people, dates)
        )
        own = {column: values[part] for column, values in known.items()}
        found = model.predict_difference(a, b, said, own, whose, at)
        same &= covariates is None
        mean, variance = (as_float(np.where(same, 0.0, x.numpy())) for x in found)
        for values, more in zip(result, outcomes_of(model, mean, variance, who), strict=True):
            values[part] = more
    return result


def outcomes_of(
    model: Predicts, mean: Any, variance: Any, groups: npt.NDArray[np.object_] | None = None
) -> Outcomes:
    """From mean and variance of differences, tensors (N,) each."""
    logs = (
        model.log_win(mean, variance, groups),
        model.log_tie(mean, variance, groups),
        model.log_win(-mean, variance, groups),
    )
    grades = np.empty((len(mean), 0))
    if model.duels.levels is not None:
        grades = model.log_grades(mean, variance, groups).numpy()
    return Outcomes._make([*(x.numpy() for x in (*logs, mean, variance)), grades])
