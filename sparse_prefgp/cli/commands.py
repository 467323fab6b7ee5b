"""The commands of `sparse-prefgp`, put together."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from sparse_prefgp.cli.command import PlainCommand, PlainGroup

# The modules of the commands, by the headings under which the help shows them.
_PANELS = {
    "Begin": ("demo", "ask", "fit", "leaderboard", "select", "datasets"),
    "Use a fitted model": (
        "rank",
        "predict",
        "evaluate",
        "explain",
        "shares",
        "worth",
        "trajectories",
        "meet",
        "suggest",
        "update",
    ),
    "Studies of the method": ("ablate", "report"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}


def app_of(words: Sequence[str] = ()) -> typer.Typer:
    """The command that the first of these words names, so that no other is imported; all of them
    where it names none."""
    app = typer.Typer(
        cls=PlainGroup,
        name="sparse-prefgp",
        help="Sparse preference Gaussian processes: learn utilities of items from duels.",
        epilog="Exit codes: 0 done; 2 a mistake that can be mended, in one sentence; 130 "
        "interrupted; 1 a fault of the program.",
        no_args_is_help=True,
        # A traceback with every local variable helps nobody.
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    named = [word for word in words[:1] if word in _PANEL_OF]
    for name in named or _PANEL_OF:
        module = import_module(f"sparse_prefgp.cli.{name}")
        kind = getattr(module, "Command", PlainCommand)  # what else it makes of its words
        app.command(name, epilog=module.EXAMPLE, cls=kind, rich_help_panel=_PANEL_OF[name])(
            getattr(module, name)
        )
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from sparse_prefgp import __version__

        typer.echo(__version__)
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    pass
