"""What `sparse-prefgp ask` refuses, and that nothing is on disk then."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparse_prefgp.ask import running
from sparse_prefgp.ask.store import Answer, VoteStore
from sparse_prefgp.cli import ask as ask_command
from sparse_prefgp.cli.app import app
from sparse_prefgp.io.votes import FILE

pytest.importorskip("uvicorn", reason="the extra ask is not installed")
Calls = Callable[[Path, pytest.MonkeyPatch], list[str]]


def everything(folder: Path) -> dict[str, tuple[bytes | None, float]]:
    """All there is in a folder, with when it was changed."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else None,
            path.stat().st_mtime if path.is_file() else 0.0,
        )
        for path in folder.rglob("*")
    }


def port_in_use(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    monkeypatch.setattr(running, "_TAKEN", taken, raising=False)  # open as long as the test
    return ["--demo", "--port", str(taken.getsockname()[1])]


def without(module: str) -> Calls:
    def call(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        monkeypatch.setitem(sys.modules, module, None)
        return ["--demo"]

    return call


def no_network(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def unreachable(*_: Any) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", unreachable_socket(unreachable))
    return ["--demo", "--host", "0.0.0.0"]


def unreachable_socket(connect: Callable[..., None]) -> Any:
    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            connect(address)

    return Socket


def full_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(VoteStore, "_prepare", full)
    return ["--demo"]


def of(*words: str, **files: str) -> Calls:
    """These words, and files whose names take the place of theirs."""

    def call(place: Path, _: pytest.MonkeyPatch) -> list[str]:
        for name, text in files.items():
            (place / f"{name}.csv").write_text(text)
        return [str(place / f"{word}.csv") if word in files else word for word in words]

    return call


def large_picture(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from sparse_prefgp.ask import things

    monkeypatch.setattr(things, "MOST_BYTES", 3)
    media = place / "media"
    media.mkdir()
    for name in "ab":
        (media / f"{name}.png").write_bytes(b"\x89PNG")
    return ["--media", str(media)]


ITEMS = "item_id,size\na,1\nb,2\n"
BEGAN = "nothing was refused"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page runs here."""

    def serve(*_: Any, **__: Any) -> None:
        raise AssertionError(BEGAN)

    monkeypatch.setattr(running, "serve", serve)


REFUSED: dict[str, tuple[Calls, str]] = {
    "port in use": (port_in_use, "give another port"),
    "host of another machine": (of("--demo", "--host", "192.0.2.7"), "a host of this machine"),
    "host that is none": (of("--demo", "--host", "no such host"), "a host of this machine"),
    "no network": (no_network, "Network is unreachable"),
    "no Starlette": (without("starlette"), "needs Starlette"),
    "no uvicorn": (without("uvicorn"), "needs uvicorn"),
    "disk full": (full_disk, "disk is full"),
    "no items": (of(), "Nothing to ask about"),
    "one item": (of("--items", "items", items="id\nx\n"), "one item"),
    "items that are not there": (of("--items", "nowhere.csv"), "does not exist"),
    "no such column": (of("--items", "items", "--text", "prose", items=ITEMS), "no column 'prose'"),
    "item twice": (of("--items", "items", items="id\nx\nx\n"), "used before"),
    "inf": (
        of("--items", "items", items="id,size\nx,1.5\ny,inf\nz,3\n"),
        "'size' has inf in row 3",
    ),
    "a text as name": (of("--items", "items", items=f"essay\n{'x' * 50_000}\ny\n"), "50,000"),
    "media that are not there": (of("--media", "nowhere"), "does not exist"),
    "large picture": (large_picture, "larger than"),
    "people twice": (of("--demo", "--people", "p", p="name\nAnn\naNN \n"), "case and blanks"),
    "people that are not there": (of("--demo", "--people", "nowhere.csv"), "does not exist"),
    "score": (of("--demo", "--score", "best"), "--score"),
    "until": (of("--demo", "--until", "soon"), "no number of answers"),
    "until never": (of("--demo", "--until", "0"), "no number of answers"),
    "until long after": (of("--demo", "--until", f"{'9' * 400}min"), "no number of answers"),
    "until too many": (of("--demo", "--until", "9" * 5000), "no number of answers"),
    "media that are a file": (of("--media", "ok", ok="x"), "is a file"),
    "long name": (of("--demo", "--people", "p", p=f"name\n{'x' * 61}\n"), "61 letters"),
    "base path": (of("--demo", "--base-path", "/a b"), "--base-path"),
    "allowed host": (of("--demo", "--allow-host", "http://"), "--allow-host"),
    "allowed address": (of("--demo", "--allow-host", "http://a.org/"), "--allow-host"),
    "port that is none": (of("--demo", "--port", "70000"), "port"),
    "closest": (of("--demo", "--closest", "0.3"), "closest"),
    "two sources": (of("--demo", "--media", "nowhere"), "demo"),
}


@pytest.mark.parametrize("made_before", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_start_leaves_the_disk_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, made_before: bool
) -> None:
    call, sentence = REFUSED[name]
    out = tmp_path / "deep" / "votes"
    if made_before:
        with closing(VoteStore(out, ["Ann"])) as store:
            store.keep([Answer("0" * 32, "Ann", "a", "b", "left", "then")])
    words = call(tmp_path, monkeypatch)
    before = everything(tmp_path)
    result = CliRunner().invoke(app, ["ask", *words, "--out", str(out), "--no-browser"])
    said = " ".join(result.output.split())
    assert result.exit_code == 2, said
    assert sentence in said and "Traceback" not in said
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["something else", "damaged", "other version", "file", "folder of its name", "read only"],
)
def test_a_folder_that_is_refused_is_left_alone(tmp_path: Path, name: str) -> None:
    out = tmp_path / "votes"
    if name == "file":
        out.write_text("x")
    elif name == "folder of its name":
        (out / FILE).mkdir(parents=True)
    elif name == "something else":
        out.mkdir()
        (out / "thesis.tex").write_text("x")
    else:
        VoteStore(out).close()
    if name == "damaged":
        (out / FILE).write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    if name == "other version":
        with closing(sqlite3.connect(out / FILE)) as connection:
            connection.execute("pragma user_version = 99")
    before = everything(tmp_path)
    call = ["ask", "--demo", "--out", str(out), "--no-browser", "--port", "0"]
    if name == "read only":
        out.chmod(0o555)
        (out / FILE).chmod(0o444)
        if os.access(out, os.W_OK):
            pytest.skip("whoever may write everywhere is not kept from it by permissions")
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2 and "Traceback" not in result.output
    if name == "folder of its name":
        assert "votes.sqlite' is a folder" in result.output
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["votes.example.org", "votes.example.org:443", "[fe80::1]:80"])
def test_names_behind_a_proxy(tmp_path: Path, name: str) -> None:
    call = ["ask", "--demo", "--out", str(tmp_path / "votes"), "--port", "0", "--allow-host", name]
    assert BEGAN in str(CliRunner().invoke(app, call).exception)


def test_to_forget_needs_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(VoteStore(tmp_path / "votes", ["Ann B"])):
        pass
    for module in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, module, None)
    call = ["ask", "--out", str(tmp_path / "votes"), "--forget", "Ann  B"]
    assert "0 answers were removed" in CliRunner().invoke(app, call).output.replace("\n", " ")
    with closing(VoteStore(tmp_path / "votes", ["Ann B"])):
        pass
    as_json = CliRunner().invoke(app, [*call, "--json"]).stdout
    assert json.loads(as_json) == {"forgotten": "Ann  B", "answers": 0}


@pytest.mark.parametrize("display", [True, False])
@pytest.mark.parametrize("opens", [True, False, webbrowser.Error("none"), OSError("none")])
def test_a_browser_that_cannot_be_opened_is_said(
    monkeypatch: pytest.MonkeyPatch, opens: Any, display: bool
) -> None:
    asked: list[str] = []

    def opened(link: str) -> bool:
        asked.append(link)
        if isinstance(opens, Exception):
            raise opens
        return bool(opens)

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", opened)
    said = threading.Event()
    running.open_browser("http://here/", said.set).join()
    # What would open without a display runs in the terminal.
    assert asked == (["http://here/"] if display else [])
    assert said.is_set() is not (display and opens is True)


def serving(links: running.Links, answers: int) -> Callable[..., running.Collected]:
    """A page that ends at once."""

    def serve(*_: Any, began: Callable[[running.Links], None], **__: Any) -> running.Collected:
        began(links)
        return running.Collected(answers, people=1)

    return serve


@pytest.mark.parametrize(("answers", "people"), [(0, {}), (3, {"Ann": "ANN"})])
def test_what_is_said_however_little_is_to_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int, people: dict[str, str]
) -> None:
    links = running.Links("PAGE", "RESULTS", people, here="HERE")
    monkeypatch.setattr(running, "serve", serving(links, answers))
    call = ["ask", "--demo", "--out", str(tmp_path / "votes"), "--port", "0", "--no-browser"]
    whole = CliRunner().invoke(app, call).stdout
    assert "Ctrl-C ends it." in whole and ("Next: " in whole) is (answers > 0)
    assert f"{answers} answers by 1 person in" in whole
    of_people = [f"  {name}: {link}" for name, link in people.items()]
    said = ["Page: PAGE", *of_people, "Results, for you alone: RESULTS"]
    quiet = CliRunner().invoke(app, [*call, "--quiet"])
    assert quiet.stdout.splitlines() == said
    as_json = CliRunner().invoke(app, [*call, "--json"])
    assert as_json.stderr.splitlines() == said
    assert json.loads(as_json.stdout) == {
        "folder": str(tmp_path / "votes"),
        "links": {"page": None if people else "PAGE", "results": "RESULTS", "people": people},
        "answers": answers,
        "answered_by": 1,
    }


@pytest.mark.parametrize("words", [[], ["--no-browser"], ["--host", "0.0.0.0"]])
def test_a_link_to_open_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    links = running.Links("page", "results", {}, here="http://here/")
    monkeypatch.setattr(running, "serve", serving(links, 0))
    monkeypatch.setattr(running, "open_browser", lambda link, unopened: unopened())
    monkeypatch.setattr(ask_command, "_address_of", lambda host: "127.0.0.1")
    call = ["ask", "--demo", "--out", str(tmp_path / "votes"), "--port", "0", *words]
    output = CliRunner().invoke(app, call).output
    assert ("No browser could be opened here; open http://here/ yourself." in output) is (not words)
