"""By which columns of tables more is said of answers than who won: what a model remembers."""

from __future__ import annotations

from collections.abc import Mapping

ROLES = ("judge", "person", "date", "count", "weight", "grade", "block")


def columns_of_roles(named: Mapping[str, str]) -> dict[str, str]:
    """The column of each role: the one that was named, else that of its own name."""
    return {role: named.get(role, role) for role in ROLES}
