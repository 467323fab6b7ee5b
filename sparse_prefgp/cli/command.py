"""A command from a function of settings values: every field that is an option becomes one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sparse_prefgp.cli.console import INTERRUPTED, STOPPED, sentences
from sparse_prefgp.cli.output_options import OutputOptions
from sparse_prefgp.support.options import Option, check_given, helps, is_default, option_of
from sparse_prefgp.support.plain import Record


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

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command line; also where a mistake is being told Ctrl-C leaves no traceback."""
        try:
            return super().main(*args, **more)
        except KeyboardInterrupt:
            typer.echo(STOPPED, err=True)
            sys.exit(INTERRUPTED)


def command(*, threads: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make of a function what Typer makes a command of.

    The function takes `console`, and dataclasses whose fields are the options, in their order; or
    `Annotated[Record, CLASS]` for those of a class by their names, where the value is made
    of more than them. How loud it is, and in which form, comes after them. What the options declare
    is checked before anything else; a mistake, also one of the dataclasses, becomes one sentence.

    :param threads: whether it takes `--threads`, as whatever computes does.
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        values = {name: hint for name, hint in hints.items() if name not in ("console", "return")}
        asked = [*map(_class, values.values()), OutputOptions]
        left_out = () if threads else ("threads",)
        options = {
            one.name: (one, about)
            for kind in asked
            for one, about in _options(kind)
            if one.name not in left_out
        }
        parameters = [
            one for kind in asked for one in _parameters(kind) if one.name not in left_out
        ]
        common = [one.name for one, _ in _options(OutputOptions) if one.name in options]

        def run(**typed: Any) -> None:
            with sentences(**{name: typed[name] for name in common}) as console:
                given = _given(options, typed)
                check_given(
                    {name: about for name, (_, about) in options.items()},
                    given,
                    lambda name: called(*options[name]),
                )
                function(console, **{name: _value(hint, given) for name, hint in values.items()})

        run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, {}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.options = options  # type: ignore[attr-defined]
        return run

    return made


def _class(hint: Any) -> Any:
    return get_args(hint)[1] if get_origin(hint) is Annotated else hint


def _given(options: Mapping[str, tuple[Field[Any], Option]], typed: Mapping[str, Any]) -> Record:
    """Values of what was typed, by the names of the fields; what was not keeps its default."""
    found = {}
    for name, (one, option) in options.items():
        value = typed.get(name)
        if one.default is True:  # the flag is that it is not so
            value = not value
        if value is None or is_default(one, value):
            continue
        if option.parse is not None and value != "":
            try:
                value = option.parse(value)
            except ValueError as error:
                raise ValueError(f"{called(one, option)} cannot be read: {error}") from None
        found[name] = value
    return found


def _value(hint: Any, given: Mapping[str, Any]) -> Any:
    """A value of the options that were given."""
    kind = _class(hint)
    found = {one.name: given[one.name] for one, _ in _options(kind) if one.name in given}
    for one, typed in _types(kind).items():
        if one in found and _of_paths(typed):
            value = found[one]
            found[one] = Path(value) if isinstance(value, str) else [Path(each) for each in value]
    return found if hint is not kind else kind(**found)


def _types(kind: Any) -> Record:
    """What is typed for each option."""
    hints = get_type_hints(kind)
    return {one.name: option.kind or hints[one.name] for one, option in _options(kind)}


def _of_paths(typed: Any) -> bool:
    return Path in (typed, *get_args(typed))


def _flag(one: Field[Any], option: Option, typed: Any) -> str:
    if option.flag is not None:
        return option.flag
    said = one.name.replace("_", "-")
    return f"--no-{said}" if typed is bool and one.default is True else f"--{said}"


def called(one: Field[Any], option: Option) -> str:
    """What a sentence calls it."""
    if option.argument:
        return (option.metavar or one.name.upper()).strip("[].")
    return _flag(one, option, bool if isinstance(one.default, bool) else None).partition("/")[0]


def _options(kind: Any) -> Iterator[tuple[Field[Any], Option]]:
    for one in fields(kind):
        if option_of(one).of_command:
            yield one, option_of(one)


def _parameters(kind: Any) -> list[inspect.Parameter]:
    types, about = _types(kind), helps(kind)
    return [
        _parameter(one, option, types[one.name], about[one.name]) for one, option in _options(kind)
    ]


def _parameter(one: Field[Any], option: Option, typed: Any, help: str) -> inspect.Parameter:
    """One option, as Typer takes it."""
    default = one.default
    more: Record = {} if option.metavar is None else {"metavar": option.metavar}
    flags = [] if option.argument else [_flag(one, option, typed)]
    if typed is bool:
        default, more["metavar"] = False, ""
    if option.parse is not None and not isinstance(default, bool | int | float | str):
        default = None if default is not MISSING else MISSING
    if _of_paths(typed):  # as text, in which an empty one is not the folder that one is in
        more.setdefault("metavar", "PATH")
        typed = list[str] if get_origin(typed) is list else str
    make: Any = typer.Argument if option.argument else typer.Option
    about = make(
        *flags,
        help=help,
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
