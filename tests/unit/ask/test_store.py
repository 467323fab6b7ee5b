"""What is kept, what is taken back and what is forgotten."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sparse_prefgp as spg
from sparse_prefgp.ask.running import forget
from sparse_prefgp.ask.store import LAST, MODEL, Answer, Kept, VoteStore
from sparse_prefgp.io.votes import FILE, read_votes


def answer(number: int, person: str = "Ann", verdict: str = "left") -> Answer:
    return Answer(f"{number:032x}", person, f"a{number % 5}", f"b{number % 3}", verdict, "then")


@pytest.fixture
def store(tmp_path: Path) -> VoteStore:
    return VoteStore(tmp_path / "votes")


def test_an_answer_that_is_sent_again_is_kept_once(store: VoteStore) -> None:
    one = answer(1)
    assert store.keep([one, answer(2), one]) == [Kept.NEW, Kept.NEW, Kept.AGAIN]
    assert store.keep([one]) == [Kept.AGAIN]
    # An id of somebody else's answer, or of another one, changes nothing.
    assert store.keep([replace(one, person="Bob")]) == [Kept.OTHER]
    assert store.keep([replace(one, verdict="right")]) == [Kept.OTHER]
    assert store.answers() == [("Ann", "a1", "b1", "left"), ("Ann", "a2", "b2", "left")]


def test_only_ones_own_last_answers_are_taken_back(store: VoteStore) -> None:
    store.keep([answer(number) for number in range(LAST + 2)])
    assert store.last("Ann")[0]["id"] == answer(LAST + 1).id
    assert store.undo(answer(0).id, "Ann") is None
    assert store.undo(answer(5).id, "Bob") is None
    assert store.undo(answer(5).id, "Ann") == ("a0", "b2", "left")
    assert store.undo(answer(5).id, "Ann") == ()
    assert store.number() == LAST + 1
    # What was taken back lets none of before come in.
    assert store.undo(answer(1).id, "Ann") is None
    assert sum(store.undo(answer(i).id, "Ann") is not None for i in range(LAST + 2)) == LAST
    assert store.number() == 2


def test_a_folder_goes_on_where_it_was_and_is_read_as_battles(tmp_path: Path) -> None:
    store = VoteStore(tmp_path)
    verdicts = ["left", "right", "tie", "skip", "left"]
    store.keep([answer(i, "Ann", verdict) for i, verdict in enumerate(verdicts)])
    store.undo(answer(4).id, "Ann")
    owner = store.setting("owner")
    assert all(one.stat().st_mode & 0o077 == 0 for one in tmp_path.iterdir())
    store.close()
    again = VoteStore(tmp_path)
    assert again.setting("owner") == owner
    assert len(again.answers()) == 4
    again.close()
    votes = read_votes(tmp_path / FILE)
    assert votes.frame["verdict"].tolist() == ["left", "right", "tie"]
    assert votes.said == f"{FILE}: 1 answer skipped and 1 answer undone left out."
    with pytest.warns(UserWarning, match="1 answer skipped"):
        duels = spg.fit(answers=tmp_path, test_fraction=0.0, integrate=False).model.duels
    assert duels.num_duels == 3


def test_what_a_person_said_is_gone_from_the_file(tmp_path: Path) -> None:
    store = VoteStore(tmp_path)
    store.join("Unforgettable")
    store.keep([answer(i, "Unforgettable") for i in range(30)] + [answer(99, "Bob")])
    assert store.knows("Unforgettable") and store.knows("Bob") and not store.knows("Ann")
    assert store.forget("Unforgettable") == 30
    assert not store.knows("Unforgettable")
    store.close()
    assert [one[0] for one in VoteStore(tmp_path).answers()] == ["Bob"]
    for file in tmp_path.iterdir():
        assert b"Unforgettable" not in file.read_bytes()


@pytest.mark.parametrize("step", ["delete from answers", "commit", "vacuum", "delete from sett"])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk is full"), SystemExit("killed")])
def test_to_forget_is_said_again_until_all_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    class Full:
        """A connection that fails at one step."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def execute(self, words: str, *values: Any) -> Any:
            if words.startswith(step):
                raise error
            return self.connection.execute(words, *values)

    folder = tmp_path / "votes"
    with closing(VoteStore(folder)) as store:
        store.join("Unforgettable")
        store.keep([answer(i, "Unforgettable") for i in range(300)] + [answer(999, "Bob")])
    half_written = folder / f".{MODEL}.a.unfinished"
    for place in (folder / MODEL, half_written):
        place.mkdir()
        (place / "weights").write_text("of Unforgettable")
    forget_whole = VoteStore.forget

    def forget_in_part(store: VoteStore, person: str) -> int:
        connection = store._connection
        store._connection = Full(connection)  # type: ignore[assignment]
        try:
            return forget_whole(store, person)
        finally:
            store._connection = connection

    monkeypatch.setattr(VoteStore, "forget", forget_in_part)
    if isinstance(error, SystemExit):
        with pytest.raises(SystemExit):
            forget(folder, "Unforgettable")
    else:
        with pytest.raises(ValueError, match=r"Not all .* \(disk is full\).* call it again"):
            forget(folder, "Unforgettable")
    assert not (folder / MODEL).exists() and not half_written.exists()
    monkeypatch.setattr(VoteStore, "forget", forget_whole)
    forget(folder, " Unforgettable")
    with pytest.raises(ValueError, match="Nobody called 'Unforgettable'"):
        forget(folder, "Unforgettable")
    with closing(VoteStore(folder)) as store:
        assert [one[0] for one in store.answers()] == ["Bob"]
    for file in folder.iterdir():
        assert b"Unforgettable" not in file.read_bytes()


def test_a_model_that_cannot_be_removed_keeps_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    with closing(VoteStore(tmp_path)) as store:
        store.keep([answer(1)])
    (tmp_path / MODEL).mkdir()
    monkeypatch.setattr("shutil.rmtree", busy)
    with pytest.raises(ValueError, match=r"Not all of 'Ann'.*busy"):
        forget(tmp_path, "Ann")
    with closing(VoteStore(tmp_path)) as store:
        assert store.number() == 1


def test_a_name_is_one_persons(store: VoteStore) -> None:
    token = store.join("Ann")
    assert token is not None
    assert store.join("Ann") is None
    assert store.join(" aN n") is None
    store.keep([answer(1, "Cid")])
    assert store.join("Cid") is None


def test_a_link_stays_and_is_nobodys_who_gave_the_name(tmp_path: Path) -> None:
    store = VoteStore(tmp_path)
    tokens = {store.join(name) for name in ("Ann", "bob", "Dan")}
    store.keep([answer(1, "Ann")])
    store.close()
    links = []
    for _ in range(2):
        store = VoteStore(tmp_path, ["Ann", "Bob", "Cid"])
        links.append(dict(store.tokens))
        assert store.people().keys() & tokens == {store_token(store, "Dan")}
        assert store.joined_before == (["Ann"] if len(links) == 1 else [])
        assert [one[0] for one in store.answers()] == ["Ann"]
        store.close()
    assert links[0] == links[1] and len(set(links[0].values())) == 3


def store_token(store: VoteStore, name: str) -> str:
    return next(token for token, one in store.people().items() if one == name)


def test_what_was_made_goes_again_where_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(VoteStore, "_invite", full)
    for folder in (tmp_path / "deep" / "votes", tmp_path / "empty"):
        with pytest.raises(ValueError, match="disk is full"):
            VoteStore(folder)
    assert [one.name for one in tmp_path.rglob("*")] == ["empty"]


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match=r"has 'thesis.tex' in it but no votes.sqlite"):
        VoteStore(tmp_path / "other")
    with pytest.raises(ValueError, match="is a file"):
        VoteStore(tmp_path / "other" / "thesis.tex")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    sqlite3.connect(foreign / FILE).execute("create table t (x)").connection.close()
    with pytest.raises(ValueError, match="no file of votes of this version"):
        VoteStore(foreign)


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = VoteStore(tmp_path)
    store.keep([answer(i) for i in range(2000)])
    store.close()
    path = tmp_path / FILE
    content = bytearray(path.read_bytes())
    content[8192:60000] = os.urandom(60000 - 8192)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        VoteStore(tmp_path)
    assert path.read_bytes() == bytes(content)


def test_nothing_of_a_step_is_kept_where_it_fails(
    store: VoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._connection.execute("pragma max_page_count = 12")
    long = replace(answer(1), note="x" * 2000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.keep([replace(long, id=f"{i:032x}") for i in range(40)])
    assert store.answers() == []
    with pytest.raises(UnicodeEncodeError):
        store.keep([answer(2), replace(answer(3), note="\ud800")])
    assert store.answers() == []
    store._connection.execute("pragma max_page_count = 100000")
    assert store.keep([long]) == [Kept.NEW]


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    """As on a disk that is mounted to be read alone; whoever may write everywhere is somebody
    else meanwhile."""
    folder = Path(tempfile.mkdtemp())  # which others may enter, unlike those of pytest
    try:
        with closing(VoteStore(folder)) as store:
            store.keep([answer(i, "Ann") for i in range(3)])
        (folder / FILE).chmod(0o444)
        folder.chmod(0o555)
        before = sorted(one.name for one in folder.iterdir())
        with somebody_else():
            assert len(read_votes(folder / FILE).frame) == 3
        assert sorted(one.name for one in folder.iterdir()) == before
        # What was not closed may have answers in the file next to it, which are not left out.
        (folder / f"{FILE}-wal").write_bytes(b"")
        with somebody_else(), pytest.raises(ValueError, match="cannot be opened"):
            read_votes(folder / FILE)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Nobody, in place of whoever is not kept from anything by permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
