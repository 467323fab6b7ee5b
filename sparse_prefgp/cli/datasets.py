"""`sparse-prefgp datasets`: which data sets there are, and where one is once it is fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, cells_table, counting_bar, rows_table
from sparse_prefgp.support.options import option

if TYPE_CHECKING:
    from sparse_prefgp.datasets import DataSet

EXAMPLE = "Example: sparse-prefgp datasets boston"


@dataclass(frozen=True, kw_only=True)
class DatasetsOptions:
    """Which one.

    :raises ValueError: a download of none.
    """

    name: str | None = option("Fetch this one.", default=None, metavar="[NAME]", argument=True)
    refresh: bool = option("Download it again; it must be the same as before.", default=False)

    def __post_init__(self) -> None:
        if self.refresh and self.name is None:
            raise ValueError("--refresh needs the name of a data set; give one.")


@command(threads=False)
def datasets(console: Output, options: DatasetsOptions) -> None:
    """List the public data sets, or fetch one and say where it is and how to cite it."""
    if options.name is None:
        _list(console)
    else:
        _fetch(console, options.name, options.refresh)


def _list(console: Output) -> None:
    from sparse_prefgp.datasets import describe, names
    from sparse_prefgp.datasets.loading import where

    known = [describe(name) for name in names()]
    places = [where(found) for found in known]
    columns = {
        "name": [found.name for found in known],
        "kind": [found.kind for found in known],
        "items": [f"{found.items:,}" for found in known],
        "features": [f"{found.features:,}" for found in known],
        "duels": [f"{found.duels:,}" if found.duels else "" for found in known],
        "licence": [found.licence for found in known],
        "where": places,
    }
    title = "Data sets; sparse-prefgp datasets NAME fetches one"
    console.print(
        cells_table(title, columns, left=("name", "kind", "licence", "where"), spare=("features",))
    )
    console.manners.emit(
        [_plain(found) | {"where": place} for found, place in zip(known, places, strict=True)]
    )


def _fetch(console: Output, name: str, refresh: bool) -> None:
    from sparse_prefgp.datasets import describe, fetch
    from sparse_prefgp.datasets.fetching import data_folder
    from sparse_prefgp.datasets.loading import where

    known = describe(name)
    if where(known) == "download" or (refresh and data_folder() is None):
        with counting_bar(console, "Public files") as progress:
            files = fetch(name, refresh=refresh, progress=progress)
    else:
        files = fetch(name, refresh=refresh)
    rows = [
        ("what", known.title),
        ("size", _size(known)),
        ("licence", known.licence),
        ("cite", known.citation),
        ("from", known.home),
        *(("file", str(path)) for path in files.values()),
    ]
    console.print(rows_table(name, rows))
    if known.kind == "duels":
        console.print(Text(_next(known, files)), soft_wrap=True)
    result = _plain(known) | {"files": {file: str(path) for file, path in files.items()}}
    console.manners.emit(result)


def _size(known: DataSet) -> str:
    duels = f", {known.duels:,} duels" if known.duels else ""
    return f"{known.items:,} items, {known.features:,} features{duels}"


def _next(known: DataSet, files: dict[str, Path]) -> str:
    """The command that fits it."""
    found = {file.partition(".")[0]: path for file, path in files.items()}
    ignore = f" --ignore {','.join(known.ignore)}" if known.ignore else ""
    return (
        f"Fit it with: sparse-prefgp fit --items {found['items']} --duels {found['duels']}{ignore} "
        f"--split {known.split} --out {known.name}"
    )


def _plain(known: DataSet) -> dict[str, Any]:
    return {
        "name": known.name,
        "kind": known.kind,
        "title": known.title,
        "items": known.items,
        "features": known.features,
        "duels": known.duels,
        "licence": known.licence,
        "cite": known.citation,
        "from": known.home,
        "ignore": list(known.ignore),
        "split": known.split,
    }
