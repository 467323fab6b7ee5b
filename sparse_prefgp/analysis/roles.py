"""By which columns a new table is read: those that a model remembers, by their roles."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from sparse_prefgp.data.roles import LEANING, ROLES
from sparse_prefgp.io.judgements import Roles
from sparse_prefgp.support.checks import check_choice, check_kind
from sparse_prefgp.support.words import listing

Columns = Mapping[str, str] | None
# Roles of answers about sets, and of duels that are read in chunks.
OF_SETS = ("judge", "person", "count", "weight")
OF_STREAMS = ("judge", "count", "weight", "grade", *LEANING)
# What has to be said of new answers if it was said of the old ones.
_NEEDED = {role for role, column in ROLES.items() if column.fill is None}


def roles_in(
    model: Any,
    header: Collection[str],
    source: str,
    columns: Columns = None,
    *,
    among: Collection[str] = ROLES,
    stated: Collection[str] = (),
    learning: bool = False,
) -> Roles:
    """The columns of a table that say what a model knows of its answers, where they are there.

    Warns of columns that the model has learned from and that are not among these roles.

    :param header: all columns of the table.
    :param source: whose they are, in messages.
    :param columns: by role, those that are called otherwise than in training.
    :param among: the roles that there are in such tables.
    :param stated: roles that the caller states, whatever the table or `columns` say.
    :param learning: the model is to learn from the table: of new answers all has to be said that
        was said of the old ones, and weights count.
    :raises ValueError: a role that there is not, or of which the model has learned nothing; a
        column that is not there.
    """
    named = {} if columns is None else columns
    check_kind("columns", named, Mapping, "columns by their roles, such as {'judge': 'rater'}")
    named = {role: column for role, column in named.items() if role not in stated}
    among = [role for role in among if role not in stated]
    duels = model.duels
    learned = {
        "judge": duels.group_names is not None,
        "person": duels.people_names is not None or bool(model.people),
        "date": duels.times is not None or model.row_layout.dated,
        "grade": duels.levels is not None,
        "block": model.approximation.labels is not None,
        **{role: role in model.leaning.columns for role in LEANING},
    }
    for role, column in named.items():
        check_choice("The role", role, ROLES, " (columns=, --columns)")
        if role not in among:
            raise ValueError(
                f"The role {role!r} is not read of such a table ({source}), but "
                f"{listing(among)}; leave it out (columns=, --columns)."
            )
        check_choice(f"The column of {role}", column, header, f" ({source}; columns=, --columns)")
        if not learned.get(role, True):
            raise ValueError(
                f"The model has learned from answers without a {role}, for which the column "
                f"{column!r} was named; leave {role} out (columns=, --columns)."
            )
    called = {**duels.roles, **named}
    for role in ROLES:
        if role not in {*among, *stated, "block"} and learned.get(role) and called[role] in header:
            warnings.warn(
                f"The column {called[role]!r} of {source}, the {role} of each answer, is not read "
                f"of such a table, but {listing(among)}; the model is asked as if nobody knew it.",
                stacklevel=4,
            )
    use = {**learned, "count": True}
    if learning:
        use["weight"] = "weight" in named or duels.weights_given is not None
        for role in among:
            if role in _NEEDED and use[role] and called[role] not in header:
                raise ValueError(
                    f"The model has learned from answers with a {role}, but {source} has no column "
                    f"{called[role]!r} that says it; name the column that does (columns=, "
                    f"--columns {role}=…)."
                )
    else:
        use["judge"], use["person"] = model.noise_ratio is not None, bool(model.people)
        use["date"], use["block"] = model.row_layout.dated, use["block"] and duels.held
    there = {r: called[r] for r in among if use.get(r) and called[r] in header}
    otherwise = {duels.roles[role]: column for role, column in named.items()}
    leaning = [name for name in model.leaning.columns if name not in LEANING]
    labels = {name: otherwise.get(name, name) for name in leaning}
    codes = {role: column for role, column in there.items() if ROLES[role].holds == "code"}
    return Roles(
        **{role: column for role, column in there.items() if role not in codes},
        codes=codes,
        levels=duels.levels if "grade" in there else None,
        labels={name: column for name, column in labels.items() if column in header},
    )
