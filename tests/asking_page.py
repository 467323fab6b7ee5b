"""A page in a process of its own, and people who answer it by a script."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.killing import started


async def learns_nothing(results: Any) -> None:
    """In place of `Results.learn`."""


@dataclass
class Running:
    """A page that runs."""

    process: subprocess.Popen[str]
    page: str
    results: str
    people: dict[str, str]

    def end(self, how: signal.Signals = signal.SIGINT) -> str:
        """What it said at its end."""
        self.process.send_signal(how)
        return self.process.communicate(timeout=600)[0]


@contextmanager
def running(*words: str, out: Path, port: int = 0) -> Iterator[Running]:
    """`sparse-prefgp ask`, killed at the end if it still runs."""
    call = ["ask", *words, "--out", str(out), "--no-browser", "--port", str(port)]
    process = started(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = ""
    while "Ctrl-C" not in said:
        line = process.stdout.readline()
        assert line, f"it ended: {said}"
        said += line
    page = re.search(r"Page: (\S+)", said)
    results = re.search(r"alone: (\S+)", said)
    assert page and results, said
    people = dict(re.findall(r"^  (.+): (http\S+)$", said, re.MULTILINE))
    try:
        yield Running(process, page[1], results[1], people)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@dataclass
class Person:
    """Answers as the page does: sends again what was not acknowledged."""

    root: str
    name: str
    pause: float = 0.0
    acknowledged: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """What each id said: left, right and verdict."""
    answer_seconds: list[float] = field(default_factory=list)
    pair_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def answer(self, goes_on: Callable[[], bool], client: Any) -> None:
        """Answer as long as it goes on.

        :param client: of httpx, with cookies of its own.
        """
        pairs: list[Any] = []
        while goes_on() and not pairs:
            joined = await self._sent(client.post, "api/join", {"name": self.name})
            if joined is None:
                continue
            if joined.status_code == 409:  # acknowledged before a kill
                joined = await self._sent(client.get, "api/begin")
            if joined is not None and joined.status_code == 200:
                client.headers["ask-person"] = joined.json()["person"]
                pairs = joined.json()["pairs"]
        while goes_on():
            if not pairs:
                more = await self._sent(client.get, "api/more")
                pairs = more.json()["pairs"] if more is not None else []
                if more is not None and not pairs:
                    return
                continue
            left, right = (one["name"] for one in pairs.pop(0))
            verdict = "left" if left < right else "right"
            sent = {"id": uuid4().hex, "left": left, "right": right, "verdict": verdict}
            while goes_on():
                begun = time.monotonic()
                response = await self._sent(client.post, "api/answers", {**sent, "more": False})
                if response is not None and response.status_code == 409:
                    break  # a pair that was asked again
                if response is not None and response.status_code == 200:
                    self.answer_seconds.append(time.monotonic() - begun)
                    self.acknowledged[sent["id"]] = (left, right, verdict)
                    break
            begun = time.monotonic()
            more = await self._sent(client.get, "api/more")
            if more is not None and more.status_code == 200:
                self.pair_seconds.append(time.monotonic() - begun)
                pairs += more.json()["pairs"][:1]
            await asyncio.sleep(self.pause)

    async def _sent(self, call: Any, path: str, value: Any = None) -> Any:
        import httpx

        try:
            more = {} if value is None else {"json": value}
            response = await call(f"{self.root}{path}", **more)
        except httpx.HTTPError as error:
            self.errors.append(type(error).__name__)
            await asyncio.sleep(0.1)
            return None
        if response.status_code >= 500:
            self.errors.append(str(response.status_code))
        return response


def answered(root: str, number: int, goes_on: Callable[[], bool], pause: float) -> list[Person]:
    """What so many people did as long as it went on."""
    import httpx

    people = [Person(root, f"person {i}", pause) for i in range(number)]

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=1)
        clients = [httpx.AsyncClient(limits=limits, timeout=600.0) for _ in people]
        try:
            await asyncio.gather(
                *(one.answer(goes_on, client) for one, client in zip(people, clients, strict=True))
            )
        finally:
            for client in clients:
                await client.aclose()

    with ThreadPoolExecutor(1) as apart:  # a browser that is driven here has a loop of its own
        apart.submit(lambda: asyncio.run(all_of_them())).result()
    return people
