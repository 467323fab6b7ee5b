"""Running the page until its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import MODEL, VoteStore
from sparse_prefgp.ask.things import Things
from sparse_prefgp.io.votes import votes_in
from sparse_prefgp.support.words import shortened

# Connections that wait to be taken.
_WAITING = 1024
_ENDING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Collected:
    """What is in the folder at the end."""

    answers: int
    """That stand and are no skips."""
    people: int


@dataclass(frozen=True)
class Links:
    """What to open, and what to send to whom."""

    page: str
    results: str
    people: Mapping[str, str]
    here: str
    """What to open on this machine."""


def serve(
    store: VoteStore,
    things: Things,
    settings: PageSettings,
    *,
    listening: socket.socket,
    host: str,
    seconds: float | None = None,
    began: Callable[[Links], None] = lambda links: None,
) -> Collected:
    """Serve the page until somebody ends it, or what was asked for is there.

    :param listening: where it is reached, of `listening_at` this host.
    :param seconds: after which it ends.
    :return: what was collected.
    """
    import uvicorn

    from sparse_prefgp.ask.server import Page

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """At a second Ctrl-C uvicorn would leave what it has begun, with a traceback."""
            self.should_exit = True

    port = listening.getsockname()[1]

    def root_at(name: str) -> str:
        return f"http://{f'[{name}]' if ':' in name else name}:{port}{settings.base_path}/"

    root = root_at(settings.address or host)
    key = "" if settings.open_to_all else f"?key={store.setting('key')}"
    results = f"{root}results?key={store.setting('owner')}"
    links = Links(
        page=f"{root} (by the links of the people alone)" if store.tokens else f"{root}{key}",
        results=results,
        people={name: f"{root}?person={token}" for name, token in store.tokens.items()},
        here=results if store.tokens else f"{root_at(host)}{key}",
    )

    def end() -> None:
        server.should_exit = True

    page = Page(store, things, settings, then=end)
    config = uvicorn.Config(
        page.app(),
        log_level="error",  # not of what strangers send, such as other protocols
        access_log=False,
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    server = Server(config)

    async def run() -> None:
        if settings.most_answers is not None and page.number >= settings.most_answers:
            page.finish()
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, page.finish)
        await server.serve(sockets=[listening])

    # From before anything is said: whoever stops a service closes it as Ctrl-C does.
    before = {one: signal.signal(one, lambda *_: end()) for one in _ENDING}
    try:
        began(links)
        asyncio.run(run())
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    return Collected(page.number, page.people)


def open_browser(link: str, unopened: Callable[[], None]) -> threading.Thread:
    """Open a page in the browser, meanwhile; call `unopened` where that cannot be."""

    def opened() -> bool:
        # Without a display what would open is a browser in the terminal, which runs no script.
        needs = os.name == "posix" and sys.platform != "darwin" and "BROWSER" not in os.environ
        if needs and not {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}:
            return False
        try:
            return webbrowser.open(link)
        except (webbrowser.Error, OSError):
            return False

    def run() -> None:
        if not opened():
            unopened()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def listening_at(host: str, port: int) -> socket.socket:
    """A socket at which whoever comes before the page is there waits.

    :raises ValueError: the port is in use, or the host is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is said.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((host, port))
        one.listen(_WAITING)
    except (OSError, UnicodeError) as error:
        one.close()
        raise ValueError(
            f"The page cannot listen on {host} at port {port} "
            f"({getattr(error, 'strerror', None) or error}); give another port (--port, 0 for any "
            "that is free), or a host of this machine (--host)."
        ) from None
    one.set_inheritable(False)
    return one


def forget(folder: Path, name: str) -> int:
    """Remove a person from a folder of votes, and the model that learned from them.

    :return: how many answers went.
    :raises ValueError: no such folder, nobody of this name in it, or not all could be removed; it
        can be called again until all is gone.
    """
    if votes_in(folder) is None:
        raise ValueError(f"There are no votes in {str(folder)!r}; give the folder of ask (--out).")
    person = " ".join(name.split())
    with contextlib.closing(VoteStore(folder)) as store:
        if not store.knows(person):
            raise ValueError(
                f"Nobody called {shortened(name)} has answered in {str(folder)!r}; give the name "
                "as it stands there (--forget)."
            )
        try:
            # First, as without the answers nothing would say that the model is to go, with what a
            # killed process left of it.
            for place in (folder / MODEL, *folder.glob(f".{MODEL}.*")):
                if place.is_dir():
                    shutil.rmtree(place)
            return store.forget(person)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(
                f"Not all of {shortened(name)} could be removed from {str(folder)!r} ({error}); "
                "see that the disk has room and the folder can be written, and call it again."
            ) from None
