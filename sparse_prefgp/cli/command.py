"""A command from a function of settings values: every field that is an option becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sparse_prefgp.cli.console import sentences
from sparse_prefgp.cli.output_options import OutputOptions
from sparse_prefgp.support.options import Option, option_of


class _PlainFlags:
    """The help shows no type next to a flag, as nothing is typed there."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, with that of the help."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class PlainCommand(_PlainFlags, TyperCommand):
    """A command as Typer runs it."""


class PlainGroup(_PlainFlags, TyperGroup):
    """The commands together."""


def command(*, threads: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make of a function what Typer makes a command of.

    The function takes `console`, and dataclasses whose fields are the options, in their order; or
    `Annotated[dict[str, Any], CLASS]` for those of a class by their names, where the value is made
    of more than them. How loud it is, and in which form, comes after them. A ValueError, also one
    of the dataclasses, becomes one sentence.

    :param threads: whether it takes `--threads`, as whatever computes does.
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        values = {name: hint for name, hint in hints.items() if name not in ("console", "return")}
        common = [one for one in _parameters(OutputOptions) if threads or one.name != "threads"]

        def run(**given: Any) -> None:
            with sentences(**{one.name: given[one.name] for one in common}) as console:
                function(console, **{name: _value(hint, given) for name, hint in values.items()})

        run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, {}
        asked = [one for hint in values.values() for one in _parameters(_class(hint))]
        signature = inspect.Signature([*asked, *common])
        run.__signature__ = signature  # type: ignore[attr-defined]
        return run

    return made


def _class(hint: Any) -> Any:
    return get_args(hint)[1] if get_origin(hint) is Annotated else hint


def _value(hint: Any, given: Mapping[str, Any]) -> Any:
    """A value of what was given; what was not keeps the default of its field."""
    found = {}
    for one, option in _options(_class(hint)):
        value = given[one.name]
        if one.default is True:  # the flag is that it is not so
            value = not value
        if one.default is not MISSING and (value is None or value == one.default):
            continue
        found[one.name] = value if option.parse is None else option.parse(value)
    return found if hint is not _class(hint) else hint(**found)


def _options(kind: Any) -> Iterator[tuple[Field[Any], Option]]:
    for one in fields(kind):
        if option_of(one).help is not None:
            yield one, option_of(one)


def _parameters(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind)
    return [_parameter(one, option, hints[one.name]) for one, option in _options(kind)]


def _parameter(one: Field[Any], option: Option, hint: Any) -> inspect.Parameter:
    """One option, as Typer takes it."""
    typed = option.kind or hint
    default = one.default
    flags: list[str] = []
    more: dict[str, Any] = {}
    if option.flag is not None:
        flags = [option.flag]
    if typed is bool:
        said = one.name.replace("_", "-")
        flags = flags or [f"--no-{said}" if default is True else f"--{said}"]
        default, more["metavar"] = False, ""
    if option.parse is not None and not isinstance(default, bool | int | float | str):
        default = None if default is not MISSING else MISSING
    if option.metavar is not None:
        more["metavar"] = option.metavar
    if option.least is not None:
        more["min"] = option.least
    make: Any = typer.Argument if option.argument else typer.Option
    about = make(
        *flags,
        help=option.help,
        hidden=option.hidden,
        rich_help_panel=option.panel,
        show_default=default is not None and default is not MISSING,
        **more,
    )
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[typed | None if default is None else typed, about],
    )
