"""Tables of people: an id and features, one row a person."""

from __future__ import annotations

from dataclasses import replace

from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.io.columns import feature_kinds
from sparse_prefgp.io.dates import in_iso
from sparse_prefgp.io.files import Source, Table, load_with_ids
from sparse_prefgp.support import together
from sparse_prefgp.support.words import id_text

PERSON_ID = "person_id"
PEOPLE_REMEDY = "from the table of people"


def load_people(source: Source) -> Table:
    """A table of people, whose id is the column `person_id`, else the first.

    :raises ValueError: what `load` raises; no rows.
    """
    return replace(load_with_ids(source, "people", PERSON_ID), omit=PEOPLE_REMEDY)


def people_of(source: Source | None, people: Codes | None) -> RawItems | None:
    """Features of people, of each of whom there has to be a row.

    :param people: whose preferences the duels are; None where nobody said.
    :raises ValueError: features without people; what `load_people` and the columns raise; no
        features; a person without a row.
    """
    if source is None:
        return None
    if people is None:
        raise together.refused(features_of_people=True, duels_of_nobody=True)
    table = load_people(source)
    others = [column for column in table.frame.columns if column != table.id_column]
    names, lookup = table.ids("person")
    if not others:
        raise ValueError(
            f"{table.name} has no column but the id {table.id_column!r}; add features of the "
            "people, or leave the table out."
        )
    folded = {text.casefold(): text for text in lookup}
    for name in people.names:
        text = id_text(name)
        if text in lookup:
            continue
        other = folded.get(text.casefold())
        spelt = "" if other is None else f", which spells {other!r}; write both alike"
        raise ValueError(
            f"The person {text!r} (column {people.column!r} of the duels) has no row in "
            f"{table.name}{spelt or '; add one, or leave the table of people out'}."
        )
    table = in_iso(table, others)
    kinds = feature_kinds(replace(table, id_column=None), others)
    numeric, categorical = map(tuple, kinds)
    return RawItems(
        table.frame[others], names, table.row, numeric, categorical, apart=tuple(others)
    )


def people_like(source: Source, known: PeopleFeatures | None) -> PeopleFeatures:
    """Features of people, made as those of the people of a model were.

    :param known: of these; None where they have none.
    :raises ValueError: people without features, or with such as were made of no table; what
        `load_people` raises; a column that is missing, or a value that is.
    """
    transform = None if known is None else known.transform
    if transform is None:
        raise together.refused(features_of_people=True, no_features_of_people=True)
    table = load_people(source)
    table = in_iso(table, [n for n in transform.numeric_columns if n in table.frame.columns])
    names, _ = table.ids("person")
    values = transform.apply(table.frame, table.row)
    return PeopleFeatures(names, values, transform.feature_names, transform)
