"""The commands of `sparse-prefgp`, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from sparse_prefgp.cli import bench, demo, fit

app = typer.Typer(
    name="sparse-prefgp",
    help="Sparse preference Gaussian processes: learn utilities of items from duels.",
    no_args_is_help=True,
    add_completion=False,
    # A traceback with every local variable helps nobody.
    pretty_exceptions_enable=False,
)
app.command(epilog=fit.EXAMPLE)(fit.fit)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.command(epilog=bench.EXAMPLE)(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        from sparse_prefgp import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass
