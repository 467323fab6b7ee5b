"""`sparse-prefgp datasets`: which data sets there are, and where one is once it is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar
from sparse_prefgp.cli.shared_options import Shared
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.tell.tables import Column, Table, facts_table

if TYPE_CHECKING:
    from sparse_prefgp.datasets import DataSet

EXAMPLE = "Example: sparse-prefgp datasets boston"


@option_class
class DatasetsOptions:
    """Which one."""

    name: str | None = option(metavar="[NAME]", argument=True)
    """Fetch this one."""
    refresh: bool = option(False, needs="name")
    """Download it again; it must be the same as before."""
    out: Path | None = option(needs="name")
    """Also write its tables into this folder, as the CSV files that fit reads."""
    overwrite: bool = same_as(Shared, "overwrite")
    """Replace files in --out that exist."""


@command(threads=False)
def datasets(console: Output, options: DatasetsOptions) -> None:
    """List the public data sets, or fetch one and say where it is and how to cite it."""
    if options.name is not None:
        _fetch(console, options.name, options)
        return
    from sparse_prefgp.datasets import describe, names
    from sparse_prefgp.datasets.loading import where

    rows = [_plain(known) | {"where": where(known)} for known in map(describe, names())]
    columns = (
        *(Column(key, key, left=True) for key in ("name", "kind")),
        Column("items", "items", ","),
        Column("features", "features", ",", spare=1),
        Column("duels", "duels", lambda number: f"{number:,}" if number else ""),
        *(Column(key, key, left=True) for key in ("licence", "where")),
    )
    title = "Data sets; sparse-prefgp datasets NAME fetches one"
    console.tell(Table("datasets", title, columns, rows))
    console.manners.emit(rows)


def _fetch(console: Output, name: str, options: DatasetsOptions) -> None:
    from sparse_prefgp.datasets import describe, fetch
    from sparse_prefgp.datasets.converters import DERIVED
    from sparse_prefgp.datasets.fetching import data_folder
    from sparse_prefgp.datasets.loading import where

    known, refresh = describe(name), options.refresh
    if where(known) == "download" or (refresh and data_folder() is None):
        with counting_bar(console, "Public files") as progress:
            files = fetch(name, refresh=refresh, progress=progress)
    else:
        files = fetch(name, refresh=refresh)
    if options.out is not None:
        files = _written(options.out, name, options.overwrite)
    answers = f", {known.duels:,} {known.kind}" if known.duels else ""
    rows = [
        ("what", known.title),
        ("size", f"{known.items:,} items, {known.features:,} features{answers}"),
        ("licence", known.licence),
        ("note", known.note or None),
        ("cite", known.citation),
        ("from", known.home),
        *(("file", str(path)) for path in files.values()),
    ]
    console.tell(facts_table(name, rows))
    if known.kind != "regression":
        ready = options.out is not None or name not in DERIVED
        words = (
            "Write the tables that fit reads, and see the command that suits them, with: "
            f"sparse-prefgp datasets {known.name} --out {known.name}"
        )
        words = _next(known, files) if ready else words
        console.say(words)
    result = _plain(known) | {"files": {file: str(path) for file, path in files.items()}}
    console.manners.emit(result)


def _written(folder: Path, name: str, overwrite: bool) -> dict[str, Path]:
    """The tables of a set, written as CSV."""
    from sparse_prefgp.cli.output_options import check_file
    from sparse_prefgp.datasets import load
    from sparse_prefgp.disk.folders import write_file
    from sparse_prefgp.io.formats import csv_of

    frames = load(name).frames
    paths = {f"{table}.csv": folder / f"{table}.csv" for table in frames}
    for path in paths.values():
        check_file(path, overwrite)
    for path, frame in zip(paths.values(), frames.values(), strict=True):
        write_file(path, csv_of(frame))
    return paths


def _next(known: DataSet, files: dict[str, Path]) -> str:
    """The command that fits it."""
    found = {file.partition(".")[0]: path for file, path in files.items()}
    tables = ("choices",) if known.kind == "choices" else ("items", known.kind)
    words = [f"--{table} {found[table]}" for table in tables]
    # A column that an option names, such as that of texts, is not left out.
    ignored = [name for name in known.ignore if name not in known.options.split()]
    words += [f"--ignore {','.join(ignored)}"] if ignored else []
    words += [known.options] if known.options else []
    words += [] if "--time" in known.options else [f"--split {known.split}"]
    return f"Fit it with: sparse-prefgp fit {' '.join(words)} --out {known.name}_fit"


def _plain(known: DataSet) -> Record:
    names = ("name", "kind", "title", "items", "features", "duels", "licence")
    more = ("split", "options", "note")
    return {
        **{name: getattr(known, name) for name in names},
        "cite": known.citation,
        "from": known.home,
        "ignore": list(known.ignore),
        **{name: getattr(known, name) for name in more},
    }
