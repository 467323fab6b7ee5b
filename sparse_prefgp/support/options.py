"""A field of a settings value that is an option of commands too: default and help, declared once.

Nothing here knows what parses a command line; `cli/command.py` makes options of these fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any

_KEY = "option"


class Panel:
    """Headings under which the help of a command shows its options."""

    DATA = "What was compared"
    COLUMNS = "Columns of the duels, choices or rankings"
    HELD_OUT = "What is held out"
    MODEL = "Model"
    FITTING = "Fitting"
    STREAMS = "More duels than memory"


@dataclass(frozen=True)
class Option:
    """How a field is given on the command line, and what it cannot go together with."""

    help: str | None = None
    """None: the field is no option of a command."""
    flag: str | None = None
    """By default the name of the field behind two dashes, and `--no-NAME` where it is True."""
    kind: Any = None
    """Type of what is typed; by default that of the field."""
    parse: Callable[[Any], Any] | None = None
    """Makes the value of what was typed; by default that is the value."""
    metavar: str | None = None
    hidden: bool = False
    """Not in the help."""
    panel: str | None = None
    """One of `Panel`; None for the options that stand first."""
    argument: bool = False
    """Given by its place, without a flag."""
    least: float | None = None
    """The parser refuses numbers below it."""
    needs: str | None = None
    """The field without which this one means nothing."""
    excludes: str | None = None
    """The field that this one cannot be given along with."""


def option(help: str | None = None, default: Any = MISSING, **more: Any) -> Any:
    """A field of a dataclass that is an option.

    :param default: by default there is none, and the option must be given.
    :param more: the other fields of `Option`.
    """
    return field(default=default, metadata={_KEY: Option(help, **more)})


def same_as(kind: type, name: str, **changes: Any) -> Any:
    """A field like that of another dataclass; under no heading unless `panel` names one.

    :param changes: another `default`, or other fields of `Option`.
    """
    one = next(one for one in fields(kind) if one.name == name)
    return field(
        default=changes.pop("default", one.default),
        metadata={_KEY: replace(one.metadata[_KEY], **{"panel": None, **changes})},
    )


def option_of(one: Field[Any]) -> Option:
    """What is said about the field; nothing of most."""
    found: Option = one.metadata.get(_KEY, Option())
    return found


def names(text: str) -> list[str]:
    """Words separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
