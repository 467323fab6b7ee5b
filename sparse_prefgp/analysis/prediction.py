"""Predicted duels between the items of a table of pairs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from sparse_prefgp.analysis.alternatives import (
    only_one,
    predict_sets,
    refuse_options,
)
from sparse_prefgp.analysis.contexts import met
from sparse_prefgp.analysis.dates import seen_on
from sparse_prefgp.analysis.people import seen_by
from sparse_prefgp.analysis.roles import Columns, roles_in
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.io.dates import dates_of
from sparse_prefgp.io.judgements import codes_in, covariates_in, load_pairs, names_covariates
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.checks import level_of_interval

TIE, LOSS = "tie_probability", "loss_probability"
GRADE = "p_"
ADDED = ("probability", "difference", "sd", "lower", "upper", "outside_range")


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
    besides = {"block", *(() if person is None else ["person"])}
    codes = {role: column for role, column in roles.codes.items() if role not in besides}
    names, said = model.duels.covariate_names, None
    if names_covariates(table.frame.columns, names, sides):
        said = covariates_in(table, names, sides)
    asked = Answers.between(
        first,
        second,
        covariates=said,
        covariate_names=() if said is None else names,
        **codes_in(table, replace(roles, codes=codes)),
    )
    if roles.date is not None and at is None:
        asked = asked.saying(time=dates_of(table.frame[roles.date], roles.date, table.row))
    forecast = model.predict(asked, found.inputs)
    won, tied, lost = np.exp(forecast.results).T
    mean, variance = forecast.mean, forecast.variance
    assert mean is not None and variance is not None
    negative = variance < 0.0
    sd = np.sqrt(np.where(negative, 0.0, variance))
    half_width = float(special.ndtri(0.5 + 0.5 * level)) * sd
    frame = table.frame.assign(
        probability=won,
        **({} if model.margin is None else {TIE: tied, LOSS: lost}),
        **{name: forecast.p[:, k] for k, name in enumerate(grades)},
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
