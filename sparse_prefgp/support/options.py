"""A field of a settings value that is an option of commands too: default, what values make sense
and which other options it goes with, declared once. Its help is the docstring below the field.

Nothing here knows what parses a command line; `cli/command.py` makes options of these fields.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from sparse_prefgp.support.checks import check_number, is_number
from sparse_prefgp.support.words import shortened

T = TypeVar("T")
_KEY = "option"
# Of a whole number, where nothing else is declared: what all packages below take.
MOST = 2**31 - 1


class Panel:
    """Headings under which the help of a command shows its options."""

    DATA = "What was compared"
    FORM = "How the table is read"
    COLUMNS = "Columns of the duels, choices or rankings"
    HELD_OUT = "What is held out"
    MODEL = "Model"
    FITTING = "Fitting"
    STREAMS = "More duels than memory"


@dataclass(frozen=True)
class Option:
    """How a field is given on the command line, and what it cannot go together with."""

    of_command: bool = True
    """Whether the field is an option of a command."""
    like: tuple[type, str] | None = None
    """A class and its field, whose docstring is the help where this one has none."""
    flag: str | None = None
    """By default the name of the field behind two dashes, and `--no-NAME` where it is True."""
    kind: Any = None
    """Type of what is typed; by default that of the field."""
    parse: Callable[[Any], Any] | None = None
    """Makes the value of what was typed; by default that is the value."""
    metavar: str | None = None
    panel: str | None = None
    """One of `Panel`; None for the options that stand first."""
    argument: bool = False
    """Given by its place, without a flag."""
    least: float | None = None
    """The smallest number that makes sense."""
    most: float | None = None
    """The largest one; `MOST` of whole numbers."""
    above: float | None = None
    """Numbers are larger than this."""
    below: float | None = None
    """Numbers are smaller than this."""
    may_be_empty: bool = False
    """Empty text makes sense."""
    needs: str | tuple[str, ...] = ()
    """Fields without all of which this one means nothing."""
    excludes: str | tuple[str, ...] = ()
    """Fields that this one cannot be given along with."""

    def check(self, called: str, value: Any) -> None:
        """Refuse a value that makes no sense, also one among several.

        :param called: what the option is called.
        :raises ValueError: text without a character, or no number where only some make sense, or
            one that is out of the range.
        """
        if isinstance(value, str) and not value.strip() and not self.may_be_empty:
            raise ValueError(f"{called} is empty; give a value, or leave it out.")
        if is_number(value):
            whole = isinstance([*self._bounds.values(), value][0], int)
            bounds: dict[str, Any] = {"most": MOST if whole else None, **self._bounds}
            check_number(called, value, **bounds, whole=whole)
        elif (
            isinstance(value, bool | str)
            and self._bounds
            and (self.parse is None or self.kind in (int, float))  # what is typed is the number
        ):
            raise ValueError(f"{called} is {shortened(value)}; give a number.")
        if not isinstance(value, list | tuple):
            return
        for one in value:
            if (
                isinstance(one, str)
                and not one.strip()
                and not self.may_be_empty
                and len(value) > 1
            ):
                raise ValueError(
                    f"{called} has an empty part among {', '.join(map(repr, value))}; leave it out."
                )
            self.check(called, one)

    @property
    def _bounds(self) -> dict[str, Any]:
        bounds = {name: getattr(self, name) for name in ("least", "above", "most", "below")}
        return {name: bound for name, bound in bounds.items() if bound is not None}


def option(default: Any = None, **more: Any) -> Any:
    """A field of a dataclass that is an option.

    :param default: of the field; `required` has none, and must be given.
    :param more: the other fields of `Option`.
    """
    return field(default=default, metadata={_KEY: Option(**more)})


required = partial(option, MISSING)
# The same under the headings of the help.
of_data, of_columns, held_out, of_model, of_fitting, of_streams = (
    partial(option, panel=panel)
    for panel in (
        Panel.DATA,
        Panel.COLUMNS,
        Panel.HELD_OUT,
        Panel.MODEL,
        Panel.FITTING,
        Panel.STREAMS,
    )
)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def option_class(kind: type[T]) -> type[T]:
    """Make a frozen dataclass of options, which are given by their names."""
    return dataclass(frozen=True, kw_only=True)(kind)


def same_as(kind: type, name: str, **changes: Any) -> Any:
    """A field like that of another dataclass; under no heading unless `panel` names one.

    :param changes: another `default`, or other fields of `Option`.
    """
    one = next(one for one in fields(kind) if one.name == name)
    return field(
        default=changes.pop("default", one.default),
        metadata={
            _KEY: replace(one.metadata[_KEY], like=(kind, name), **{"panel": None, **changes})
        },
    )


def part_of(kind: type, *names: str) -> type:
    """A dataclass of some fields of another, each like there."""
    types = get_type_hints(kind)
    own = [(name, types[name], same_as(kind, name)) for name in names]
    return make_dataclass(kind.__name__, own, frozen=True, kw_only=True)


def option_of(one: Field[Any]) -> Option:
    """What is said about the field; nothing of most."""
    found: Option = one.metadata.get(_KEY, Option(of_command=False))
    return found


@cache
def helps(kind: type) -> dict[str, str]:
    """What the docstrings below the fields of a dataclass say, up to the first empty line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        found |= _docstrings(each.__module__).get(each.__name__, {})
    for one in fields(kind):
        like = option_of(one).like
        if one.name not in found and like is not None:
            found[one.name] = helps(like[0])[like[1]]
    return found


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Those below the fields of the classes of a module."""
    nodes = ast.parse(inspect.getsource(sys.modules[module])).body
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    found: dict[str, dict[str, str]] = {}
    for one in classes:
        for line, below in pairwise(one.body):
            match line, below:
                case (
                    ast.AnnAssign(target=ast.Name(name)),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    first = text.partition("\n\n")[0].replace("`", "")
                    found.setdefault(one.name, {})[name] = " ".join(first.split())
    return found


def check_given(
    options: Mapping[str, Option], given: Mapping[str, Any], called: Callable[[str], str]
) -> None:
    """Refuse values that make no sense, and options that make none next to each other.

    :param options: by the names of their fields.
    :param given: values of those that were given.
    :param called: what an option is called in a sentence.
    :raises ValueError: see above.
    """
    for name, value in given.items():
        options[name].check(called(name), value)
    for name in given:
        for other in several(options[name].excludes):
            if other in given:
                raise ValueError(
                    f"{called(name)} and {called(other)} were both given, but one leaves nothing "
                    "for the other; leave one of them out."
                )
    for name in given:
        needed = [other for other in several(options[name].needs) if other in options]
        if needed and not any(other in given for other in needed):
            *before, last = map(called, needed)
            others = f"{', '.join(before)} or {last}" if before else last
            raise ValueError(
                f"{called(name)} was given without {others}, and says nothing alone; give that "
                "too, or leave it out."
            )


def check_fields(value: Any) -> None:
    """The same for a dataclass whose fields are options; one was given if it is not the default."""
    declared = {one.name: one for one in fields(value) if _KEY in one.metadata}
    check_given(
        {name: option_of(one) for name, one in declared.items()},
        {
            name: getattr(value, name)
            for name, one in declared.items()
            if not is_default(one, getattr(value, name))
        },
        lambda name: _by_name(declared[name]),
    )


def is_default(one: Field[Any], value: Any) -> bool:
    """Whether a field has what it has if nobody says; arrays and tables are never that."""
    plain = isinstance(value, bool | int | float | str | Path | list | tuple)
    return value is one.default or (plain and bool(value == one.default))


def names(text: str) -> list[str]:
    """Words separated by commas; one that is empty is left for the check of the option."""
    return [name.strip() for name in text.split(",")]


def several(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or some."""
    return (names,) if isinstance(names, str) else tuple(names)


def _by_name(one: Field[Any]) -> str:
    """What Python calls it."""
    flag = option_of(one).flag
    return one.name if flag is None or flag.startswith("-") else flag
