"""The answers and the people of a page, in one SQLite file: what is acknowledged is on disk."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from sparse_prefgp.io.votes import (
    ANSWERS,
    APPLICATION_ID,
    FILE,
    SKIP,
    VERSION,
    connected,
    votes_in,
)
from sparse_prefgp.support.words import shortened

# So many of one's last answers may be undone.
LAST = 10
# Of a person, in letters.
LONGEST_PERSON = 60
# What else the folder holds, all of it made again from the answers.
MODEL = "model"
_ENDS = ("", "-wal", "-shm", "-journal")
_PEOPLE = """
create table people (
    name text primary key not null, token text unique not null, invited integer not null
);
create table settings (name text primary key not null, value text not null);
create index answers_of on answers (person);
"""


@dataclass(frozen=True)
class Answer:
    """What somebody said of a pair; `id` is made in the page, so that it may be sent again."""

    id: str
    person: str
    left: str
    right: str
    verdict: str
    shown: str
    note: str = ""


class Kept(Enum):
    """What became of an answer."""

    NEW = "new"
    AGAIN = "again"
    """It was there already."""
    OTHER = "other"
    """Another answer has its id, and stands."""


def alike(name: str) -> str:
    """The same of names that differ by case and blanks alone."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def now() -> str:
    """The time, UTC, as it is kept."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class VoteStore:
    """A folder with `votes.sqlite`, for the one process that writes to it.

    The order of answers is that in which they were kept, whatever the clock says.
    """

    tokens: Mapping[str, str]
    """Of those who were invited when it was opened, by their names."""
    joined_before: Sequence[str]
    """Of these who answered under a name they gave, without a link, which ends here."""

    def __init__(self, folder: Path, invited: Sequence[str] = ()) -> None:
        """Open it, or make it.

        :param invited: names of people who come by links of their own, each by its own alone.
        :raises ValueError: a folder of something else, or one that cannot be written; a file that
            is damaged. What was made goes again.
        """
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{str(folder)!r} is a file; give a folder for the votes (--out).")
        if (folder / FILE).is_dir():
            raise ValueError(
                f"{str(folder / FILE)!r} is a folder, where the file of the votes would be; give "
                "another folder (--out)."
            )
        others = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        if others and votes_in(folder) is None:
            raise ValueError(
                f"The folder {str(folder)!r} has {shortened(others[0])} in it but no {FILE}; give "
                "a new folder, or one that `sparse-prefgp ask` wrote (--out)."
            )
        self.folder, self.path = folder, folder / FILE
        with _removed_if_refused(folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if not self.path.exists():
                    self.path.touch(0o600)  # it holds tokens; what SQLite makes next to it is alike
                self._connection = connected(self.path, writing=True)
                try:
                    self._prepare()
                    self.tokens, self.joined_before = self._invite(invited)
                except BaseException:
                    self._connection.close()
                    raise
            except (OSError, sqlite3.OperationalError) as error:
                raise ValueError(
                    f"Votes cannot be kept in {str(folder)!r} "
                    f"({getattr(error, 'strerror', error)}); give a folder that can be written, on "
                    "a disk with room (--out)."
                ) from None

    def _prepare(self) -> None:
        connection = self._connection
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma secure_delete = on")
        if not connection.execute("select count(*) from sqlite_master").fetchone()[0]:
            connection.executescript(
                f"begin immediate; {ANSWERS}; {_PEOPLE} "
                f"insert into settings values ('owner', '{secrets.token_urlsafe(16)}'), "
                f"('key', '{secrets.token_urlsafe(16)}'); "
                f"pragma application_id = {APPLICATION_ID}; pragma user_version = {VERSION}; "
                "commit"
            )
        with self._in_one_step():  # whether it can be written is known at once
            pass

    @contextlib.contextmanager
    def _in_one_step(self) -> Iterator[sqlite3.Connection]:
        """What the block writes is kept, or nothing of it."""
        connection = self._connection
        connection.execute("begin immediate")
        try:
            yield connection
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    def close(self) -> None:
        """All that was kept into the one file."""
        with contextlib.suppress(sqlite3.Error):  # a full disk: it stays in the file next to it
            self._connection.execute("pragma wal_checkpoint(truncate)")
        self._connection.close()

    def setting(self, name: str) -> str:
        """The token of the owner (`owner`) or of whoever may come in (`key`)."""
        query = "select value from settings where name = ?"
        return str(self._connection.execute(query, (name,)).fetchone()[0])

    def _invite(self, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        those = set(map(alike, names))
        with self._in_one_step() as connection:
            joined = connection.execute("select name from people where not invited").fetchall()
            # Whoever gave the name may be somebody else: what was said under it stays, and no more.
            ended = [name for (name,) in joined if alike(name) in those]
            connection.executemany("delete from people where name = ?", [(name,) for name in ended])
            rows = [(name, secrets.token_urlsafe(16)) for name in names]
            connection.executemany("insert or ignore into people values (?, ?, 1)", rows)
        tokens = dict(connection.execute("select name, token from people"))
        answered = "select 1 from answers where person = ? and undone is null limit 1"
        return (
            {name: tokens[name] for name in names},
            [name for name in ended if connection.execute(answered, (name,)).fetchone()],
        )

    def is_invited(self, name: str) -> bool:
        """Whether a name, or one alike, has a link of its own."""
        names = self._connection.execute("select name from people where invited").fetchall()
        return alike(name) in {alike(one) for (one,) in names}

    def join(self, name: str) -> str | None:
        """A token for somebody who gives a name; None where somebody else has it, or one alike."""
        names = self._connection.execute(
            "select name from people union select person from answers"
        ).fetchall()
        if alike(name) in {alike(one) for (one,) in names}:
            return None
        token = secrets.token_urlsafe(16)
        self._connection.execute("insert into people values (?, ?, 0)", (name, token))
        return token

    def people(self) -> dict[str, str]:
        """Names by tokens."""
        return dict(self._connection.execute("select token, name from people"))

    def keep(self, answers: Sequence[Answer]) -> list[Kept]:
        """Put answers on disk, all in one step.

        :return: of each what became of it; what is sent again is kept once.
        :raises sqlite3.Error: nothing of it was kept.
        """
        insert = "insert or ignore into answers values (?, ?, ?, ?, ?, ?, ?, null, ?)"
        found, at = [], now()
        with self._in_one_step() as connection:
            for one in answers:
                said = (one.person, one.left, one.right, one.verdict)
                row = (one.id, *said, one.shown, at, one.note)
                if connection.execute(insert, row).rowcount:
                    found.append(Kept.NEW)
                else:
                    found.append(Kept.AGAIN if self.has(one) else Kept.OTHER)
        return found

    def last(self, person: str) -> list[dict[str, Any]]:
        """The last answers of a person, the latest first; those that stand may be undone."""
        rows = self._connection.execute(
            'select id, "left", "right", verdict, undone is not null from answers '
            "where person = ? order by rowid desc limit ?",
            (person, LAST),
        )
        names = ("id", "left", "right", "verdict", "undone")
        return [dict(zip(names, (*row, bool(undone)), strict=True)) for *row, undone in rows]

    def has(self, answer: Answer) -> bool:
        """Whether this very answer is there."""
        query = 'select person, "left", "right", verdict from answers where id = ?'
        said = (answer.person, answer.left, answer.right, answer.verdict)
        return self._connection.execute(query, (answer.id,)).fetchone() == said

    def undo(self, id: str, person: str) -> tuple[str, ...] | None:
        """Take back one of a person's last answers.

        :return: its left, right and verdict; nothing where it was taken back before; None where it
            is none of them.
        """
        if id in [one["id"] for one in self.last(person) if not one["undone"]]:
            self._connection.execute("update answers set undone = ? where id = ?", (now(), id))
            query = 'select "left", "right", verdict from answers where id = ?'
            found: tuple[str, ...] = self._connection.execute(query, (id,)).fetchone()
            return found
        query = "select 1 from answers where id = ? and person = ? and undone is not null"
        undone = self._connection.execute(query, (id, person)).fetchone() is not None
        return () if undone else None

    def knows(self, person: str) -> bool:
        """Whether somebody has this name, or is to be forgotten and not wholly gone."""
        query = (
            "select 1 from people where name = :name union select 1 from answers where person = "
            ":name union select 1 from settings where name = :mark"
        )
        values = {"name": person, "mark": self._mark(person)}
        return self._connection.execute(query, values).fetchone() is not None

    def forget(self, person: str) -> int:
        """Remove a person, and all that the person said, from the file.

        Until the file holds nothing of it, a mark without the name says that this is to be done.

        :return: how many answers.
        :raises sqlite3.Error: not all of it is gone; it can be called again.
        """
        mark = (self._mark(person),)
        with self._in_one_step() as connection:
            removed = connection.execute("delete from answers where person = ?", (person,)).rowcount
            connection.execute("delete from people where name = ?", (person,))
            connection.execute("insert or ignore into settings values (?, '')", mark)
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("delete from settings where name = ?", mark)
        return removed

    def _mark(self, person: str) -> str:
        key = f"{self.setting('owner')} {person}".encode()
        return f"forgetting {hashlib.sha256(key).hexdigest()}"

    def answers(self) -> list[tuple[str, str, str, str]]:
        """Person, left, right and verdict of all that stand, in order."""
        return self._connection.execute(
            'select person, "left", "right", verdict from answers where undone is null '
            "order by rowid"
        ).fetchall()

    def number(self) -> int:
        """How many answers stand that are no skips."""
        query = "select count(*) from answers where undone is null and verdict != ?"
        return int(self._connection.execute(query, (SKIP,)).fetchone()[0])


@contextlib.contextmanager
def _removed_if_refused(folder: Path) -> Iterator[None]:
    """Remove the file, and the folders it needed, when the block makes them and raises."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    files = [] if (folder / FILE).exists() else [folder / f"{FILE}{end}" for end in _ENDS]
    try:
        yield
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        for one in missing:
            with contextlib.suppress(OSError):
                one.rmdir()
        raise
