"""What is known of each data set: where it is, what it looks like, whose it is (`sets.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from sparse_prefgp.support.words import spelt_like

DUELS, CHOICES, RANKINGS, REGRESSION = "duels", "choices", "rankings", "regression"
_KINDS = (DUELS, CHOICES, RANKINGS, REGRESSION)
TARGET = "target"


@dataclass(frozen=True)
class RemoteFile:
    """A public file."""

    name: str
    """What it is called in the cache."""
    url: str
    """Its address."""
    sha256: str | None = None
    """Its checksum; None where none was known beforehand: that of the first download is recorded
    then and compared from then on.
    """


@dataclass(frozen=True)
class DataSet:
    """A data set by its name."""

    name: str
    """By which it is loaded, and of its folder."""
    kind: str
    """`duels` (real comparisons), `choices` (of one from a set), `rankings` or `regression`
    (features and a target).
    """
    files: dict[str, str | None]
    """The tidy files, each with the checksum of the copy in which the project's own figures were
    computed, or None; what is made from `remote` need not agree byte for byte.
    """
    title: str = ""
    """What is compared, or what the target is."""
    items: int = 0
    """Number of items in the tidy form; of choices, of distinct alternatives."""
    features: int = 0
    """Number of features in the tidy form."""
    duels: int = 0
    """Number of duels without ties, of choices or of rankings; 0 of regression sets."""
    licence: str = ""
    """Under which the data are passed on."""
    citation: str = ""
    """Whom to cite."""
    home: str = ""
    """The public page."""
    remote: tuple[RemoteFile, ...] = ()
    """The public files from which the tidy form is made."""
    columns: dict[str, str] = field(default_factory=dict)
    """What columns of a public table with names are called there, by what they are called here."""
    labels: dict[str, list[Any]] = field(default_factory=dict)
    """All that columns of public tables hold; a table that holds anything else is refused."""
    ignore: tuple[str, ...] = ()
    """Columns of the items that are not features."""
    split: str = "duels"
    """The usual way to hold duels out, in the words of `split_duels`."""
    options: str = ""
    """More options of the `fit` that suits it."""
    note: str = ""
    """What is not allowed, or not sure to be, in a sentence."""
    train_rows: int = 0
    """How many rows come first for training, the others for testing; 0 where nothing says so."""


def names(kind: str | None = None) -> tuple[str, ...]:
    """The names of all sets, or of one kind: `duels`, `choices`, `rankings` or `regression`.

    :raises ValueError: another kind.
    """
    if kind not in (None, *_KINDS):
        raise ValueError(
            f"The kind of data set {kind!r} is unknown; use {', '.join(_KINDS[:-1])} or "
            f"{_KINDS[-1]}."
        )
    return tuple(name for name, known in SETS.items() if kind in (None, known.kind))


def describe(name: str) -> DataSet:
    """What is known of a data set.

    :raises ValueError: no set has this name; the message has the nearest one.
    """
    check_name(name)
    if name in SETS:
        return SETS[name]
    near = spelt_like(str(name), SETS)
    hint = f"did you mean {near!r}?" if near else f"choose from {', '.join(SETS)}."
    raise ValueError(f"The data set {name!r} is unknown; {hint}")


def check_name(name: str) -> None:
    """Refuse what is not a name: another type, and a path that would lead out of a folder of sets.

    :raises ValueError: either.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"The name of a data set is {name!r}; give a text such as 'boston', one of names()."
        )
    if name.startswith(".") or set(name) & set("/\\:\0"):
        raise ValueError(
            f"The name of a data set is {name!r}, which is a path; give the name of a folder in "
            "the one that SPARSE_PREFGP_DATA names, or of a public set such as 'boston'."
        )


def _registered() -> dict[str, DataSet]:
    entries = tomllib.loads(files(__package__).joinpath("sets.toml").read_text("utf-8"))
    sets = {}
    for name, entry in entries.items():
        root = entry.pop("root")
        remote = [
            RemoteFile(file, root + path, *sums)
            for file, (path, *sums) in entry.pop("remote", {}).items()
        ]
        for pattern, (first, last) in entry.pop("yearly", {}).items():
            every = [pattern.format(year) for year in range(first, last + 1)]
            remote += [RemoteFile(file, root + file) for file in every]
        ignore = tuple(entry.pop("ignore", ()))
        sets[name] = DataSet(name, remote=tuple(remote), ignore=ignore, **entry)
    return sets


SETS = _registered()
