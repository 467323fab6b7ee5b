"""What a page asks about: rows of a table, files of a folder, or shapes that the page draws."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.ask.store import LONGEST_PERSON, alike
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.columns import (
    MAX_LEVELS,
    FeatureNames,
    feature_kinds,
    item_columns,
    said_of_id,
)
from sparse_prefgp.io.files import CONTROL, ITEM_ID, Table, load, load_items
from sparse_prefgp.io.texts import with_texts
from sparse_prefgp.support.words import agreeing, counted, listing, shortened, some_of

# What browsers show, and as what it is sent.
MEDIA = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}
MOST_BYTES = 50_000_000
FEWEST = 2
# Bytes of a name, which every answer has twice.
LONGEST_NAME = 2_000
COLOURS = {"red": "#b3261e", "blue": "#1d5fa8", "green": "#1e7d3c", "brown": "#8a4f00"}
CORNERS = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "circle": 72}
Source = str | os.PathLike[str] | Any


@dataclass(frozen=True)
class Things:
    """What is asked about, each by its name."""

    names: Sequence[str]
    fields: Sequence[Mapping[str, str]]
    """Of each what the page shows, by column."""
    files: Sequence[str | None]
    """Of each its picture in `folder`."""
    items: Any
    """The table of items that a model learns from; of their ids alone where only these are known.
    """
    folder: Path | None = None
    votes_alone: str = ""
    """Why nothing else is learned from, though the table has more columns."""
    left_out: Sequence[str] = ()
    """What else is in the folder: links, folders, and files that browsers do not show."""
    shapes: Sequence[Mapping[str, Any]] = ()
    """Of each what the page draws."""
    number: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.names) < FEWEST:
            raise ValueError(
                f"There {'is one item' if self.names else 'are no items'} to ask about; two "
                "are needed."
            )
        numbers = {name: i for i, name in enumerate(self.names)}
        object.__setattr__(self, "number", numbers)

    @property
    def learned_from(self) -> str:
        """What a model learns from, in words."""
        columns = self.items.columns[1:]
        if len(columns):
            return listing(columns)
        return f"the votes alone{self.votes_alone and f': {self.votes_alone}'}"

    def shown(self, i: int) -> dict[str, Any]:
        """What the page needs to show one."""
        return {
            "name": self.names[i],
            "fields": dict(self.fields[i]),
            "media": i if self.files[i] is not None else None,
            "shape": dict(self.shapes[i]) if self.shapes else None,
        }

    def path(self, i: int) -> Path | None:
        """The file of the picture of one; None where it has none, or where what stands there now is
        no file of the folder itself."""
        name = self.files[i]
        if name is None or self.folder is None:
            return None
        path = self.folder / name
        return path if path.is_file() and not path.is_symlink() else None


def things_of(items: Source | None, media: Path | None, text: Sequence[str] = ()) -> Things:
    """Those of a table, of a folder of pictures, or of a table whose cells name files in one.

    A model learns from columns of numbers and of categories.

    :param text: columns of texts from which it learns too.
    :raises ValueError: no items, or one, or one twice; a picture that is missing or too large; what
        `fit` would refuse of these columns.
    """
    names_of_files = _pictures(media) if media is not None else {}
    if items is None:
        if media is None:
            raise ValueError("Nothing to ask about was given; give --items, --media or --demo.")
        if not names_of_files:
            raise ValueError(
                f"The folder {str(media)!r} has no pictures ({' '.join(MEDIA)}); give another."
            )
        names = list(names_of_files)
        others = sorted({one.name for one in media.iterdir()} - set(names))
        return Things(names, [{}] * len(names), names, _ids(names), media, left_out=others)
    table = load_items(items, text)
    table.require(*text, remedy=" that --text names")
    frame, name_column = table.frame, str(table.id_column)
    _, row_of = table.ids()
    texts = list(row_of)
    for name in texts:
        if len(name.encode()) > LONGEST_NAME:
            raise ValueError(
                f"The item {shortened(name)} of {table.name} has a name of {len(name):,} "
                "characters; add a column item_id with short names (the first column is taken, "
                f"{name_column!r})."
            )
    files: list[str | None] = [None] * len(texts)
    pictured = None
    if media is not None:
        files, pictured = _named(frame, names_of_files, media, table)
    shown = [name for name in frame.columns if name not in (name_column, pictured)]
    cells = {name: _texts(frame[name]) for name in shown}
    fields = [{n: cells[n][i] for n in shown if cells[n][i]} for i in range(len(texts))]
    of_items = [name for name in shown if name in text or _is_feature(frame[name])]
    why = _not_told_apart(replace(table, frame=frame[[name_column, *of_items]]), text)
    known = frame[[name_column, *([] if why else of_items)]]
    return Things(texts, fields, files, known, media, why)


def demo_things() -> Things:
    """Shapes of some corners and colours."""
    shapes = [
        {"corners": corners, "colour": colour}
        for corners in CORNERS.values()
        for colour in COLOURS.values()
    ]
    names = [f"{colour} {shape}" for shape in CORNERS for colour in COLOURS]
    return Things(names, [{}] * len(names), [None] * len(names), _ids(names), shapes=shapes)


def _is_feature(column: Any) -> bool:
    if column.isna().any():
        return False
    if require_pandas().api.types.is_numeric_dtype(column):
        return True
    return int(column.nunique()) <= min(MAX_LEVELS, int(column.count()) // 2)


def _not_told_apart(table: Table, text: Sequence[str]) -> str:
    """Why the features of items, as `fit` reads them, do not tell all of them apart; empty where
    they do, or where there are none.

    :param text: columns of texts.
    :raises ValueError: what `fit` would refuse.
    """
    columns = [name for name in table.frame.columns if name != table.id_column]
    varying = [name for name in columns if table.frame[name].nunique(dropna=False) > 1]
    if not varying:
        are = agreeing(len(columns))
        return f"{listing(columns)} {are} the same for all items" if columns else ""
    table = replace(table, frame=table.frame[[str(table.id_column), *varying]])
    if len(varying) == 1 and varying[0] not in text:
        numeric, _ = feature_kinds(table, varying)
        if numeric and said_of_id(table, varying[0], named=False) is not None:
            return f"{varying[0]} numbers the items"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` says it again
        table = with_texts(table, [name for name in text if name in varying])
        raw = item_columns(table, table, FeatureNames()).items
        features = raw.standardised(raw.learned_transform()).features
    different = len(np.unique(features + 0.0, axis=0))  # -0.0 is 0.0
    if different == len(features):
        return ""
    tell = agreeing(len(varying), "tells", "tell")
    return f"{listing(varying)} {tell} only {different:,} of the {len(features):,} items apart"


def _ids(names: Sequence[str]) -> Any:
    return require_pandas().DataFrame({ITEM_ID: names})


def _texts(column: Any) -> list[str]:
    return ["" if value != value or value is None else str(value) for value in column.tolist()]


def _pictures(folder: Path) -> dict[str, Path]:
    """The pictures of a folder by their names.

    :raises ValueError: no such folder, or a picture that is too large.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"The folder {str(folder)!r} {what}; correct the path (--media).")
    found = {
        one.name: one
        for one in sorted(folder.iterdir())
        if one.suffix.lower() in MEDIA and one.is_file() and not one.is_symlink()
    }
    for name in found:
        problem = "with a control character in it" if CONTROL.search(name) else ""
        try:
            name.encode()
        except UnicodeEncodeError:
            problem = "that is no UTF-8"
        if problem:
            raise ValueError(
                f"A picture in {str(folder)!r} has a name {problem}, {shortened(name)}; give it "
                "another name."
            )
    large = [name for name, one in found.items() if one.stat().st_size > MOST_BYTES]
    if large:
        raise ValueError(
            f"{some_of(large)} in {str(folder)!r} {agreeing(len(large))} larger than "
            f"{MOST_BYTES // 1_000_000} MB; make smaller pictures of them."
        )
    return found


def _named(
    frame: Any, pictures: Mapping[str, Path], folder: Path, table: Any
) -> tuple[list[str | None], str | None]:
    """The picture of each row, and the column that names them."""
    hits = {name: sum(text in pictures for text in _texts(frame[name])) for name in frame.columns}
    column = max(hits, key=lambda name: hits[name])
    if not hits[column]:
        raise ValueError(
            f"No column of {table.name} names pictures of the folder {str(folder)!r}, such as "
            f"{next(iter(pictures), 'photo.jpg')!r}; add one, or give the folder alone."
        )
    texts = _texts(frame[column])
    missing = [text for text in texts if text and text not in pictures]
    if missing:
        raise ValueError(
            f"{counted(len(missing), 'picture')} of the column {column!r} of {table.name} "
            f"{agreeing(len(missing))} not in the folder {str(folder)!r} "
            f"({some_of(missing)}); add them, or leave the cells empty."
        )
    return [text or None for text in texts], column


def names_of_people(path: Path) -> list[str]:
    """The names in a table of people: its column `name`, else the first.

    :raises ValueError: a name that is missing, too long, or there twice but for case and blanks; an
        unreadable table.
    """
    table = load(path, "people", lambda header: [_name_column(header)])
    table.refuse_empty("people")
    table = replace(table, id_column=_name_column(list(table.frame.columns)))
    names = [" ".join(str(name).split()) for name in table.ids("person")[1]]
    by_likeness: dict[str, str] = {}
    for name in names:
        if len(name) > LONGEST_PERSON:
            raise ValueError(
                f"{table.name} has the person {shortened(name)}, a name of {len(name)} letters; "
                f"give one of {LONGEST_PERSON} at most."
            )
        other = by_likeness.setdefault(alike(name), name)
        if other is not name:
            raise ValueError(
                f"{table.name} has the people {shortened(other)} and {shortened(name)}, which "
                "differ by case and blanks alone; add a letter to one."
            )
    return names


def _name_column(columns: list[str]) -> str:
    return "name" if "name" in columns or not columns else columns[0]
