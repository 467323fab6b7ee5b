"""A command from a function of settings values: every field that is an option becomes one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sparse_prefgp.cli.console import INTERRUPTED, STOPPED, sentences
from sparse_prefgp.cli.output_options import OutputOptions
from sparse_prefgp.support.options import Option, check_given, helps, is_default, option_of
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import dashed


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
        hints = {name: hint for name, hint in hints.items() if name not in ("console", "return")}
        kinds = {name: _typed(_class(hint)) for name, hint in hints.items()}
        common = _typed(OutputOptions)
        if not threads:
            del common["threads"]
        options = {name: one for kind in (*kinds.values(), common) for name, one in kind.items()}

        def run(**typed: Any) -> None:
            with sentences(**{name: typed[name] for name in common}) as console:
                given = _given(options, typed)
                declared = {name: one.option for name, one in options.items()}
                check_given(declared, given, lambda name: options[name].called)
                parts = {}
                for name, hint in hints.items():
                    own = {
                        one: typed_as.made_of(given[one])
                        for one, typed_as in kinds[name].items()
                        if one in given
                    }
                    parts[name] = own if get_origin(hint) is Annotated else hint(**own)
                function(console, **parts)

        run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, {}
        parameters = [one.parameter() for one in options.values()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.options = options  # type: ignore[attr-defined]
        return run

    return made


class Typed(NamedTuple):
    """A field, and how it is typed on the command line."""

    one: Field[Any]
    option: Option
    kind: Any
    """Type of what is typed."""
    help: str

    @property
    def flag(self) -> str:
        """What stands before a value."""
        if self.option.flag is not None:
            return self.option.flag
        return f"--{'no-' * (self.one.default is True)}{dashed(self.one.name)}"

    @property
    def called(self) -> str:
        """What a sentence calls it."""
        if self.option.argument:
            return (self.option.metavar or self.one.name.upper()).strip("[].")
        return self.flag.partition("/")[0]

    @property
    def is_path(self) -> bool:
        """Typed as text, in which an empty one is not the folder that one is in."""
        return Path in (self.kind, *get_args(self.kind))

    def made_of(self, value: Any) -> Any:
        """The value of the field."""
        if not self.is_path:
            return value
        return Path(value) if isinstance(value, str) else [Path(each) for each in value]

    def parameter(self) -> inspect.Parameter:
        """As Typer takes it."""
        default, option, kind = self.one.default, self.option, self.kind
        more: Record = {} if option.metavar is None else {"metavar": option.metavar}
        if kind is bool:
            default, more["metavar"] = False, ""
        if option.parse is not None and not isinstance(default, bool | int | float | str):
            default = None if default is not MISSING else MISSING
        if self.is_path:
            more.setdefault("metavar", "PATH")
            kind = list[str] if get_origin(kind) is list else str
        make: Any = typer.Argument if option.argument else typer.Option
        about = make(
            *([] if option.argument else [self.flag]),
            help=self.help,
            rich_help_panel=option.panel,
            show_default=default is not None and default is not MISSING,
            **more,
        )
        return inspect.Parameter(
            self.one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[kind | None if default is None else kind, about],
        )


def _class(hint: Any) -> Any:
    return get_args(hint)[1] if get_origin(hint) is Annotated else hint


def _typed(kind: Any) -> dict[str, Typed]:
    """The options of a class, by name."""
    hints, about = get_type_hints(kind), helps(kind)
    return {
        one.name: Typed(one, option, option.kind or hints[one.name], about[one.name])
        for one in fields(kind)
        if (option := option_of(one)).of_command
    }


def _given(options: Mapping[str, Typed], typed: Record) -> Record:
    """Values of what was typed, by the names of the fields; what was not keeps its default."""
    found = {}
    for name, asked in options.items():
        value, parse = typed.get(name), asked.option.parse
        if asked.one.default is True:  # the flag is that it is not so
            value = not value
        if value is None or is_default(asked.one, value):
            continue
        if parse is not None and value != "":
            try:
                value = parse(value)
            except ValueError as error:
                raise ValueError(f"{asked.called} cannot be read: {error}") from None
        found[name] = value
    return found
