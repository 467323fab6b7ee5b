"""Predicted duels between the items of a table of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.analysis.answers import (
    load_sets,
    notes_on,
    only_one,
    read_answers,
    shown_sets,
)
from sparse_prefgp.analysis.boards import at_a_date
from sparse_prefgp.analysis.people import Person, seen_by
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.checks import level_of_interval

TIE, LOSS = "tie_probability", "loss_probability"
GRADE = "p_"
PROBABILITY, LOG_PROBABILITY = "probability", "log_probability"
ADDED = ("probability", "difference", "sd", "lower", "upper", "outside_range")


def predict(
    model: Predicts,
    pairs: Any = None,
    items: Any = None,
    *,
    level: float = 0.95,
    columns: Columns = None,
    person: Person = None,
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
    :param columns: those that are called otherwise than in training, as for `evaluate`. Where
        nothing says who judges, probabilities are averaged over the prior of a group's noise.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default the table says it, or else
        it is somebody of whom nothing is known.
    :param at: where utilities move in time, the date of all pairs, such as 2014-07-13; by default
        the table says it, or else it is that of the last duel. Or a covariate of all pairs, such as
        `side=1` where the first of each stands on the first side; by default 0, unless the table
        says it, or has the two columns of sides that the model has learned from.
    :param choices: in place of pairs, sets of alternatives as `read_choices` takes them, of which
        nobody needs to have said what was chosen. The long form gets a column `probability`, of
        each alternative to be chosen, which add up to 1 in each set; the wide form a row for each
        alternative with the columns `choice_set`, `item_id` and `probability`.
    :param rankings: rankings as `read_rankings` takes them: a row for each, with `probability` and
        `log_probability` (nats) of the answer.
    :param best_worst: the same of best and worst, as `read_best_worst` takes them.
    :param options: of these readers, such as `at_once=True`.
    :return: The pairs as a data frame, all columns as they are, with `probability` (that the first,
        or the winner, beats the second), for a model with a margin `tie_probability` and
        `loss_probability` (that the second wins; the three add up to 1), for one with grades
        `p_LEVEL` for each of them (of the first over the second, worst first), `difference`
        (expected utility of the first less that of the second), `sd`, `lower` and `upper` (of that
        difference) and `outside_range` (either item outside the range of the training items).
        `frame.attrs` holds `level`, `sides` (the columns of both), `grades` (their columns, if
        any), `negative_variances` (how
        many variances rounding had made negative; their sd is 0), and of the items in the pairs
        `outside_items` (the features in which each one outside is so), `outside_features` and
        `unknown_levels`.
    :raises ValueError: a missing column, one named like a column that is added, an unknown id (with
        its row), a missing group, a level outside (0, 1), a role that the model has not, and what
        `resolve_items` raises.
    """
    level = level_of_interval(level)
    at, covariates = _parted(model, at)
    model, rest = at_a_date(seen_by(model, person), at or ())
    if rest:
        raise ValueError(
            f"{rest[0] if isinstance(rest, list | tuple) else rest!s} was asked for (at=, --at), "
            "which is no date of utilities that move in time; give date=2014-07-13, or leave it "
            "out."
        )
    kind, source = only_one(
        options, pairs=pairs, choices=choices, rankings=rankings, best_worst=best_worst
    )
    if kind != "pairs":
        if person is not None:
            options["person"] = None  # whoever the table names
        return _predict_sets(model, kind, source, items, columns, options)
    given = {"person": person, "date": at}
    how = {"stated": [role for role, value in given.items() if value is not None]}
    read = read_answers(model, kind, source, items, columns, how, covariates=covariates)
    table, found, there = read.table, read.items, read.there
    grades = [f"{GRADE}{name}" for name in model.duels.levels or ()]  # worst first
    first, second = read.events.pairs.T
    table.refuse_added((*ADDED, TIE, LOSS, *grades))
    forecast = model.predict(read.events, found.inputs)
    won, tied, lost = np.exp(forecast.results).T
    assert forecast.variance is not None
    negative = forecast.variance < 0.0
    lower, upper = forecast.difference.interval(level).T
    frame = table.frame.assign(
        probability=won,
        **({} if model.likelihood.margin is None else {TIE: tied, LOSS: lost}),
        **{name: forecast.p[:, k] for k, name in enumerate(grades)},
        difference=forecast.mean,
        sd=np.sqrt(np.where(negative, 0.0, forecast.variance)),
        lower=lower,
        upper=upper,
        outside_range=found.outside[first] | found.outside[second],
    )
    names = model.duels.covariate_names
    frame.attrs = {
        "level": level,
        "sides": read.sides,
        **({"grades": grades} if grades else {}),
        **({"covariates": list(read.events.covariate_names)} if names else {}),
        "negative_variances": int(negative.sum()),
        "outside_items": there.outside_of_items,
        **notes_on(there),
    }
    return frame


def _parted(model: Predicts, at: Any) -> tuple[Any, dict[str, float]]:
    """The date, and the covariates by name, among what was said of all pairs.

    :raises ValueError: a covariate that is no number.
    """
    if not isinstance(at, str):
        return at, {}
    dates, values = [], {}
    for part in map(str.strip, at.split(",")):
        name, _, text = part.partition("=")
        if name not in model.duels.covariate_names or "=" not in part:
            dates.append(part)
            continue
        try:
            values[name] = float(text)
        except ValueError:
            raise ValueError(
                f"{name} is {text!r} at all pairs (at=, --at); give a number, such as side=1."
            ) from None
    return (at if not values else ",".join(dates) or None), values


def _predict_sets(
    model: Predicts, kind: str, source: Any, items: Any, columns: Columns, options: dict[str, Any]
) -> Any:
    """What is chosen of sets, or how probable rankings are, in tables of them."""
    table = load_sets(model, source, kind.replace("_", "-"))
    table.refuse_added((PROBABILITY, LOG_PROBABILITY))
    if kind == "choices":
        found = shown_sets(model, table, items, columns, **options)
        chances = found.in_rows(model.predict(found.events, found.items.inputs).p)
        frame = found.table.assign(**{PROBABILITY: chances})
    else:
        found = read_answers(model, kind, source, items, columns, **options)
        logs = model.predict(found.events, found.items.inputs).log_first
        frame = found.table.context.assign(**{PROBABILITY: np.exp(logs), LOG_PROBABILITY: logs})
    frame.attrs = notes_on(found.there)
    return frame
