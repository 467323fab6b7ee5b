"""By which columns a new table is read: those that a model remembers, by their roles and names."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sparse_prefgp.data.roles import LAST_DATE, LEANING, ROLES
from sparse_prefgp.io.files import Table
from sparse_prefgp.io.judgements import (
    FIRST,
    LOSER,
    SECOND,
    WINNER,
    Roles,
    names_covariates,
)
from sparse_prefgp.support.checks import check_choice, check_kind
from sparse_prefgp.support.words import and_so, listing

Columns = Mapping[str, str] | None
# Roles of answers about sets, and of duels that are read in chunks.
OF_SETS = ("judge", "person", "count", "weight")
OF_STREAMS = ("judge", "count", "grade", *LEANING)
# What has to be said of new answers if it was said of the old ones.
_NEEDED = {role for role, column in ROLES.items() if column.fill is None}
# What is done where a table does not say what a model knows.
_WITHOUT = {
    "judge": "noise is averaged over the prior",
    "person": "they count as those of somebody of whom nothing is known",
    "date": "utilities are those of the last date",
    "grade": "each row counts as won by its winner",
}
# What columns that say something of one side begin with.
_BEFORE = ("", *(f"{side}_" for side in (WINNER, LOSER, FIRST, SECOND)))


def read_by(model: Any, table: Table, columns: Columns = None, **how: Any) -> tuple[Roles, Table]:
    """The columns of roles in a table, and the table as a model knows its columns.

    :param how: as for `roles_in`.
    :raises ValueError: what `roles_in` raises.
    """
    roles, called = roles_in(model, table.frame.columns, table.name, columns, **how)
    if called == {name: name for name in table.frame.columns}:
        return roles, table
    return roles, replace(table, frame=table.frame[[*called.values()]].set_axis([*called], axis=1))


def roles_in(
    model: Any,
    header: Collection[str],
    source: str,
    columns: Columns = None,
    *,
    among: Collection[str] = ROLES,
    sides: tuple[str, str] = (WINNER, LOSER),
    stated: Collection[str] = (),
    unsaid: Collection[str] = (),
    learning: bool = False,
    dates: bool = False,
) -> tuple[Roles, dict[str, str]]:
    """The columns of a table that say what a model knows of its answers, where they are there, and
    all of its columns by the names that the model has for them.

    Warns of columns that the model has learned from and that are not among these roles, and of
    those that are not there.

    :param header: all columns of the table.
    :param source: whose they are, in messages.
    :param columns: those that are called otherwise than in training, by their names there, or by
        their roles.
    :param among: the roles that there are in such tables.
    :param sides: the columns of both sides.
    :param stated: roles that the caller states, whatever the table or `columns` say; of a view of
        people the person is one.
    :param unsaid: roles that such a table need not have, of which no warning is given.
    :param learning: the model is to learn from the table: of new answers all has to be said that
        was said of the old ones, and weights count.
    :param dates: read dates where those of training are known, though nothing moves in time.
    :raises ValueError: a name or role that there is not, or of which the model has learned nothing;
        a column that is not there.
    """
    given = {} if columns is None else columns
    check_kind("columns", given, Mapping, "columns by their roles, such as {'judge': 'rater'}")
    if model.people.names and not (learning or model.view.of_nobody):
        stated = {*stated, "person"}
    among = [role for role in among if role not in stated and (learning or role != "weight")]
    duels, leaning = model.duels, model.terms.labels
    learned = {
        "judge": duels.group_names is not None,
        "person": duels.people_names is not None or bool(model.people.names),
        "date": duels.times is not None or model.inputs.layout.dated,
        "grade": duels.levels is not None,
        "block": model.approximation.labels is not None,
        **{role: role in leaning for role in LEANING},
    }
    dated = learned["date"] or LAST_DATE in duels.roles
    may_be_said = {**learned, "date": dated if dates else learned["date"]}
    contexts = () if duels.item_rows is None else duels.item_rows.columns
    names = [name for name in (*duels.covariate_names, *contexts, *leaning) if name not in LEANING]
    named, renamed, replaced = dict[str, str](), dict[str, str](), set[str]()
    of_table = f" ({source}; columns=, --columns)"
    for key, column in given.items():
        own = key in names
        meant = [r for r in ROLES if may_be_said.get(r, not own) and duels.roles[r] == key]
        if not meant and not own:
            check_choice("The role", key, [*ROLES, *dict.fromkeys(names)], " (columns=, --columns)")
            meant = [key]
        for role in meant:
            if role in stated:
                continue
            if role not in among:
                raise ValueError(
                    f"The role {role!r} is not read of such a table ({source}), "
                    f"whose roles are {listing(among) or 'none'}; leave it out (columns=, "
                    "--columns)."
                )
            check_choice(f"The column of {role}", column, header, of_table)
            if not may_be_said.get(role, True):
                raise ValueError(
                    f"The model has learned from answers without a {role}, for which the column "
                    f"{column!r} was named; leave {role} out (columns=, --columns)."
                )
            named[role] = column
        if own:
            ends = {f"{before}{key}": f"{before}{column}" for before in _BEFORE}
            there = {name: old for name, old in ends.items() if old in header and name not in sides}
            if not there:
                check_choice(f"The column of {key}", column, {*header} - {column}, of_table)
            renamed |= there
            replaced |= {*ends} - {*sides}
    called = {**duels.roles, **named}
    replaced |= {*renamed.values()} - {*called.values()}
    here = {name: name for name in header if name not in replaced} | renamed
    for role in ROLES:
        if role not in {*among, *stated, "block"} and learned.get(role) and called[role] in here:
            warnings.warn(
                f"The column {called[role]!r} of {source}, the {role} of each answer, is not read "
                f"of such a table, whose roles are {listing(among) or 'none'}; the model is asked "
                "as if nobody knew it.",
                stacklevel=4,
            )
    use = {**learned, "count": True}
    if learning:
        use["weight"] = "weight" in named or duels.merged.weights is not None
        for role in among:
            if role in _NEEDED and use[role] and called[role] not in here:
                raise ValueError(
                    f"The model has learned from answers with a {role}, but {source} has no column "
                    f"{called[role]!r} that says it; name the column that does (columns=, "
                    f"--columns {role}=…)."
                )
    else:
        use |= {
            "judge": model.likelihood.noise_ratio is not None,
            "person": bool(model.people.names),
            "date": model.inputs.layout.dated,
            "block": use["block"] and duels.held,
        }
    use["date"] |= dates and dated
    there = {r: called[r] for r in among if use.get(r) and called[r] in here}
    codes = {role: there[role] for role in there if ROLES[role].holds == "code"}
    otherwise = {duels.roles[role]: column for role, column in named.items()}
    labels = {name: otherwise.get(name, name) for name in leaning if name not in LEANING}
    said = names_covariates(here, duels.covariate_names, sides)
    roles = Roles(
        **{role: there[role] for role in there if role not in codes},
        codes=codes,
        levels=duels.levels if "grade" in there else None,
        covariates=duels.covariate_names if said else (),
        labels={name: column for name, column in labels.items() if column in here},
    )
    known = {*unsaid, *there, *(_WITHOUT if learning else ())}
    if model.inputs.layout.dated and model.in_time.date != model.in_time.last_date:
        known.add("date")
    lacking = [
        *((called[r], _WITHOUT[r]) for r in among if r in _WITHOUT and use[r] and r not in known),
        *((name, "it counts as 0") for name in duels.covariate_names if not said),
        *((name, "what leans by it is unknown") for name in leaning if name not in roles.leaning),
    ]
    if lacking and among:  # else the table is of no answers
        told = and_so(f"no column {column!r} ({without})" for column, without in lacking)
        warnings.warn(
            f"{source} has {told}, though the model has learned from such; if a column is called "
            f"otherwise, name it (columns=, --columns {lacking[0][0]}=…).",
            stacklevel=5,
        )
    return roles, here
