"""The answers that a page gathered, as a table of battles; `ask/store.py` writes them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.words import counted

_BY_EFFECTIVE = os.access in os.supports_effective_ids
FILE = "votes.sqlite"
# What tells a file of ours: SQLite keeps both numbers in its head.
APPLICATION_ID, VERSION = 0x53504750, 2
LEFT, RIGHT, TIE, SKIP = VERDICTS = ("left", "right", "tie", "skip")
ANSWERS = """
create table answers (
    id text primary key not null,
    person text not null,
    "left" text not null,
    "right" text not null,
    verdict text not null check (verdict in ('left', 'right', 'tie', 'skip')),
    shown text not null,
    at text not null,
    undone text,
    note text not null default ''
)
"""


class Votes(NamedTuple):
    """What people answered, in the order in which it was kept."""

    frame: Any
    """A row for each answer: `left`, `right` (ids of items, by their sides), `verdict` (left, right
    or tie), `judge`, `at` (when it was kept, UTC)."""
    notes: Any
    """The same columns and `note`, of the answers, skips too, with which somebody wrote one."""
    skips: Any
    """The columns of `frame`, of the pairs that somebody skipped."""
    undone: int

    @property
    def said(self) -> str:
        """What was left out, in words; empty where nothing was."""
        parts = [
            f"{counted(number, 'answer')} {what}"
            for number, what in ((len(self.skips), "skipped"), (self.undone, "undone"))
            if number
        ]
        return f"{FILE}: {' and '.join(parts)} left out." if parts else ""


def votes_in(path: Path) -> Path | None:
    """The file of votes that a path means, a folder or the file; None where it means something
    else."""
    place = path / FILE if path.is_dir() else path
    return place if place.is_file() and place.name.endswith(FILE) else None


def connected(path: Path, writing: bool = False) -> sqlite3.Connection:
    """A file of votes, opened.

    :raises ValueError: it is damaged, or holds something else.
    """
    mode = "mode=rwc" if writing else "mode=ro"
    if not writing and _is_whole_and_still(path):
        mode = "immutable=1"
    connection = sqlite3.connect(
        f"file:{quote(str(path.resolve()))}?{mode}",
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        found = connection.execute("pragma application_id").fetchone()[0]
        version = connection.execute("pragma user_version").fetchone()[0]
        problems = [row[0] for row in connection.execute("pragma quick_check(1)")]
        empty = not connection.execute("select count(*) from sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise ValueError(
                f"The votes in {str(path)!r} cannot be opened ({error}); see that the folder can "
                "be read and written, and that there is room."
            ) from None
        raise _damaged(path, str(error)) from None
    if problems != ["ok"]:
        connection.close()
        raise _damaged(path, problems[0])
    if (writing and empty and not found) or (found, version) == (APPLICATION_ID, VERSION):
        return connection
    connection.close()
    raise ValueError(
        f"{str(path)!r} is no file of votes of this version; give the folder that `sparse-prefgp "
        "ask` wrote."
    )


def _is_whole_and_still(path: Path) -> bool:
    """Whether a file is in a folder that cannot be written, where SQLite cannot make what it needs
    to read next to others who write, and has nothing in a file next to it: it was closed."""
    place = path.resolve()
    beside = place.with_name(f"{place.name}-wal")
    return not os.access(place.parent, os.W_OK, effective_ids=_BY_EFFECTIVE) and not beside.exists()


def _damaged(path: Path, problem: str) -> ValueError:
    return ValueError(
        f"The votes in {str(path)!r} are damaged ({problem}); save what `sqlite3 {path.name} "
        ".recover` gives, or a copy of before, in their place."
    )


def read_votes(path: Path) -> Votes:
    """The answers of a file.

    :raises ValueError: what `connected` raises; nobody has answered yet.
    """
    connection = connected(path)
    try:
        rows = connection.execute(
            'select "left", "right", verdict, person, at, note, undone from answers order by rowid'
        ).fetchall()
    finally:
        connection.close()
    columns = ["left", "right", "verdict", "judge", "at", "note"]
    stand = [row[:-1] for row in rows if row[-1] is None]
    frame = require_pandas().DataFrame(stand, columns=columns, dtype=object)
    skipped, notes = frame["verdict"] == SKIP, frame[frame["note"] != ""]
    plain = frame.drop(columns="note")
    kept, skips = (plain[one].reset_index(drop=True) for one in (~skipped, skipped))
    return Votes(kept, notes, skips, len(rows) - len(stand))
