"""What all commands take alike: how loud, in which form, with how many threads, and where to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from sparse_prefgp.disk.folders import check_place
from sparse_prefgp.disk.folders import write_file as write_file  # commands take it from here
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.machine import limit_threads
from sparse_prefgp.support.options import option
from sparse_prefgp.support.plain import as_json_text
from sparse_prefgp.tell.result import Result


@dataclass(frozen=True)
class OutputOptions:
    """How a command speaks and computes."""

    quiet: bool = option(False)
    """Print nothing but mistakes and warnings."""
    as_json: bool = option(False, flag="--json")
    """Print the result as one JSON document, and nothing else."""
    threads: int | None = option(least=1, most=1_024)
    """Processor threads to use; all of them by default."""

    @property
    def silent(self) -> bool:
        """Whether standard output is kept free of tables and progress."""
        return self.quiet or self.as_json

    def limit_threads(self) -> None:
        """Call this before TensorFlow has done anything."""
        if self.threads is not None:
            limit_threads(self.threads)

    def emit(self, result: Any) -> None:
        """Print the result, if as JSON; infinities and NaN become null."""
        if self.as_json:
            typer.echo(as_json_text(result), nl=False)


# In which forms a result is written.
FORMS: Mapping[str, Callable[[Result], str | bytes]] = {
    ".csv": lambda result: csv_of(result.to_frame()),
    ".tex": Result.to_latex,
    ".md": Result.to_markdown,
    ".html": Result.to_html,
}


def check_file(
    path: Path | None, overwrite: bool, *inputs: Path | None, endings: Sequence[str] = tuple(FORMS)
) -> None:
    """Refuse an output file that cannot be written, exists already, or is one of the inputs.

    :raises ValueError: any of these.
    """
    if path is None:
        return
    for given in inputs:
        if given is not None and path.exists() and given.exists() and path.samefile(given):
            raise ValueError(f"The output {str(path)!r} is an input as well; give another name.")
    if path.is_dir():
        raise ValueError(f"The output {str(path)!r} is a folder; give the name of a file.")
    if path.exists() and not overwrite:
        raise ValueError(
            f"The output {str(path)!r} exists already; give another name, or --overwrite."
        )
    if path.suffix.lower() not in endings:
        raise ValueError(f"The output {str(path)!r} must end in {' or '.join(endings)}.")
    check_place(Path(os.path.realpath(path)).parent, path)
