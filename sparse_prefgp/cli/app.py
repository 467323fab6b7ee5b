"""The commands of `sparse-prefgp`, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from sparse_prefgp.cli import (
    ablate,
    datasets,
    demo,
    evaluate,
    explain,
    fit,
    meet,
    predict,
    rank,
    report,
    select,
    shares,
    suggest,
    trajectories,
    update,
    worth,
)
from sparse_prefgp.cli.command import PlainCommand, PlainGroup

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
_PANELS = {
    "Begin": (demo, fit, select, datasets),
    "Use a fitted model": (
        rank,
        predict,
        evaluate,
        explain,
        shares,
        worth,
        trajectories,
        meet,
        suggest,
        update,
    ),
    "Studies of the method": (ablate, report),
}
for panel, modules in _PANELS.items():
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        kind = getattr(module, "Command", PlainCommand)  # what else it makes of its words
        app.command(name, epilog=module.EXAMPLE, cls=kind, rich_help_panel=panel)(
            getattr(module, name)
        )


def _print_version(wanted: bool) -> None:
    if wanted:
        from sparse_prefgp import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
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
