"""The page itself: hands out pairs, keeps answers, and shows their owner what they come to."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import secrets
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route

from sparse_prefgp.ask.guard import CSP_OF_PICTURES, Guard
from sparse_prefgp.ask.pairing import Pair, Pairing
from sparse_prefgp.ask.refitting import EVERY, Learned, Learner, Refitting
from sparse_prefgp.ask.store import Answer, Kept, VoteStore
from sparse_prefgp.ask.things import MEDIA, Things
from sparse_prefgp.io.votes import SKIP, TIE, VERDICTS
from sparse_prefgp.support.words import counted

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "page.js": "text/javascript",
    "results.js": "text/javascript",
    "page.css": "text/css",
}
_ID = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME, LONGEST_NOTE = 60, 2000
# Pairs that a page holds at a time: that which is shown, and the next.
AHEAD = 2
# Seconds after which what few answers there are is learned from.
PAUSE = 10.0
_YEAR = 365 * 24 * 3600


@dataclass(frozen=True)
class PageSettings:
    """How a page asks."""

    question: str = "Which do you prefer?"
    ties: bool = False
    repeat: bool = False
    explore: float = 0.1
    closest: float = 0.5
    score: str | None = None
    top: int = 5
    text: Sequence[str] = ()
    seed: int = 0
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "::1")
    """Names by which it may be reached."""
    open_to_all: bool = True
    """Whether whoever reaches it may come in; else a link with a key is needed."""
    invited: Sequence[str] = ()
    """Names of those who alone are let in, by links of their own; empty for anybody."""
    address: str = ""
    """By which other machines reach this one, where they may."""
    base_path: str = ""
    most_answers: int | None = None


@dataclass
class Page:
    """What a running page knows."""

    store: VoteStore
    things: Things
    settings: PageSettings
    then: Callable[[], None] = lambda: None
    """Called when the answers that were asked for are there."""
    learned: Learned = field(default_factory=lambda: Learned(0), init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.settings.seed)
        self._pairing = Pairing(
            len(self.things.names),
            rng,
            self.settings.explore,
            self.settings.repeat,
            self.settings.closest,
        )
        invited = self.settings.invited
        self._names = {
            token: name
            for token, name in self.store.people().items()
            if not invited or name in invited
        }
        self._key, self._owner = self.store.setting("key"), self.store.setting("owner")
        self._mine: dict[str, int] = {}
        # By person and pair, the id of an answer that is not on disk yet.
        self._under_way: dict[tuple[str, tuple[int, int]], str] = {}
        self._serial = 0
        for person, left, right, verdict in self.store.answers():
            self._count(person, left, right, verdict)
        self._since_learned = 0
        self._waiting: asyncio.Queue[tuple[Answer, asyncio.Future[Kept]]] = asyncio.Queue()
        # All that touches the file, one thing after another.
        self._disk = ThreadPoolExecutor(1)
        self._refitting: Refitting | None = None

    @property
    def number(self) -> int:
        """Answers that stand and are no skips."""
        return sum(self._mine.values())

    @property
    def collected(self) -> str:
        """What was collected, in a sentence."""
        people = sum(number > 0 for number in self._mine.values())
        return (
            f"{counted(self.number, 'answer')} by {counted(people, 'person', 'people')} in "
            f"{self.store.folder}."
        )

    def _count(self, person: str, left: str, right: str, verdict: str) -> None:
        pair = self._pair(left, right)
        if pair is not None:  # of items that are no longer there nothing is asked
            self._pairing.count(person, pair)
        self._mine[person] = self._mine.get(person, 0) + (verdict != SKIP)

    def _pair(self, left: str, right: str) -> Pair | None:
        number = self.things.number
        return Pair(number[left], number[right]) if left in number and right in number else None

    # Beside the requests.

    @contextlib.asynccontextmanager
    async def running(self, _: Any = None) -> AsyncIterator[None]:
        """The writer, and the process that learns."""
        loop = asyncio.get_running_loop()
        learner = Learner(
            self.store.path,
            self.things.items,
            self.settings.score,
            self.settings.closest,
            self.settings.top,
            self.settings.seed,
            self.settings.text,
        )

        def then(learned: Learned) -> None:
            loop.call_soon_threadsafe(self._take, learned)

        self._refitting = Refitting(learner, then)
        threading.Thread(target=self._refitting.listen, daemon=True).start()
        self._refitting.ask()
        tasks = [asyncio.create_task(each()) for each in (self._write, self._learn_now_and_then)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(self._refitting.close)
            self._disk.shutdown()

    def _changed(self) -> None:
        """An answer came, or went."""
        self._since_learned += 1
        self._learn_from(EVERY)

    def _learn_from(self, least: int) -> None:
        """Learn again where there are so many changes."""
        if self._since_learned >= least and self._refitting is not None:
            self._since_learned = 0
            self._refitting.ask()

    async def _learn_now_and_then(self) -> None:
        """The last answers too come into the results."""
        while True:
            await asyncio.sleep(PAUSE)
            self._learn_from(1)

    def _take(self, learned: Learned) -> None:
        if learned.problem and not learned.html:
            self.learned = Learned(
                self.learned.answers, html=self.learned.html, problem=learned.problem
            )
            return
        self.learned = learned
        self._serial += 1
        number = self.things.number
        pairs = [
            (number[one], number[other])
            for one, other in learned.pairs
            if one in number and other in number
        ]
        self._pairing.refill(pairs, learned.utilities)

    async def _write(self) -> None:
        """Answers that wait go to disk together, since each step to disk takes as long as many."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            answers = [answer for answer, _ in batch]
            try:
                kept = await loop.run_in_executor(self._disk, self.store.keep, answers)
            except Exception as error:  # the next ones may do
                for _, future in batch:
                    if not future.done():
                        future.set_exception(_not_kept(error))
                continue
            for (_, future), one in zip(batch, kept, strict=True):
                if not future.done():
                    future.set_result(one)

    # Who asks.

    @cached_property
    def _cookie(self) -> str:
        """Of this folder, as pages on other ports have the same cookies."""
        return f"ask_{_digest(self._key)}"

    def _scope(self, name: str) -> str:
        """Of folder and person, by which a page keeps what it has not sent yet."""
        return _digest(f"{self._owner} {name}")

    def _may_come_in(self, request: Request) -> bool:
        if self.settings.open_to_all or self._name_of(request) is not None:
            return True
        by_key = not self.settings.invited and self._has(request, "key", self._key)
        return by_key or self._is_owner(request)

    def _refuse_strangers(self, request: Request) -> None:
        if not self._may_come_in(request):
            raise HTTPException(403, "Open the link that you were given; this page needs its key.")

    def _has(self, request: Request, what: str, token: str) -> bool:
        given = request.cookies.get(f"{self._cookie}_{what}", "")
        return secrets.compare_digest(given.encode(), token.encode())

    def _name_of(self, request: Request) -> str | None:
        return self._names.get(request.cookies.get(f"{self._cookie}_person", ""))

    def _is_owner(self, request: Request) -> bool:
        return self._has(request, "owner", self._owner)

    def _person(self, request: Request) -> str:
        name = self._name_of(request)
        if name is None:
            raise HTTPException(401, "Say who you are first.")
        return name

    def _set(self, response: Response, what: str, value: str, request: Request) -> None:
        response.set_cookie(
            f"{self._cookie}_{what}",
            value,
            max_age=_YEAR,
            path=f"{self.settings.base_path}/",
            httponly=True,
            samesite="lax",
            secure=request.headers.get("x-forwarded-proto", request.url.scheme) == "https",
        )

    # Requests.

    async def show(self, request: Request) -> Response:
        """The page; a link with a key or a person's own leads to it without either."""
        links = {"key": {self._key}, "person": set(self._names)}
        known = {
            what: request.query_params[what]
            for what, tokens in links.items()
            if request.query_params.get(what) in tokens
        }
        if known:
            response: Response = RedirectResponse("./", 303)
            for what, token in known.items():
                self._set(response, what, token, request)
            return response
        self._refuse_strangers(request)
        return FileResponse(_PAGE / "page.html", media_type="text/html")

    async def file(self, request: Request) -> Response:
        """A script or a style."""
        name = request.path_params["name"]
        if name not in _FILES:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(_PAGE / name, media_type=_FILES[name])

    async def media(self, request: Request) -> Response:
        """A picture, by the number of its item."""
        self._refuse_strangers(request)
        number = request.path_params["number"]
        path = self.things.path(number) if 0 <= number < len(self.things.names) else None
        if path is None:
            raise HTTPException(404, "There is no such picture.")
        headers = {
            "content-security-policy": CSP_OF_PICTURES,
            "cache-control": "private, max-age=3600",
        }
        return FileResponse(path, media_type=MEDIA[path.suffix.lower()], headers=headers)

    async def begin(self, request: Request) -> Response:
        """What the page needs to begin, also after a reload."""
        self._refuse_strangers(request)
        name = self._name_of(request)
        about = {
            "question": self.settings.question,
            "ties": self.settings.ties,
            "name": name,
            "scope": None if name is None else self._scope(name),
        }
        if name is None:
            return JSONResponse(about)
        last = await asyncio.get_running_loop().run_in_executor(self._disk, self.store.last, name)
        return JSONResponse(about | {"last": last} | self._next(name, AHEAD))

    async def join(self, request: Request) -> Response:
        """Somebody gives a name."""
        self._refuse_strangers(request)
        if self.settings.invited:
            raise HTTPException(403, "Open the link that you were given; it is yours alone.")
        sent = await _json(request)
        name = " ".join(str(sent.get("name", "")).split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise HTTPException(422, f"Give a name of 1 to {LONGEST_NAME} letters.")
        token = await self._on_disk(self.store.join, name)
        if token is None:
            raise HTTPException(409, "Somebody has this name already; add a letter to yours.")
        self._names[token] = name
        begun = {"name": name, "scope": self._scope(name), "last": []} | self._next(name, AHEAD)
        response = JSONResponse(begun)
        self._set(response, "person", token, request)
        return response

    async def more(self, request: Request) -> Response:
        """Pairs to show."""
        return JSONResponse(self._next(self._person(request), AHEAD))

    async def answer(self, request: Request) -> Response:
        """An answer; acknowledged when it is on disk."""
        person, sent = self._person(request), await _json(request)
        answer = Answer(
            **{name: str(sent.get(name, "")) for name in ("id", "left", "right", "verdict")},
            person=person,
            shown=str(sent.get("shown", ""))[:40],
            note=str(sent.get("note", ""))[:LONGEST_NOTE],
        )
        pair = self._pair(answer.left, answer.right)
        allowed = [one for one in VERDICTS if one != TIE or self.settings.ties]
        if pair is None or pair.left == pair.right or answer.verdict not in allowed:
            raise HTTPException(422, "This answer is about nothing that is asked here.")
        if not _ID.fullmatch(answer.id):
            raise HTTPException(422, "An answer needs an id of 32 hexadecimal digits.")
        met = self._pairing.has_met(person, pair)
        place = person, pair.unordered
        if (met and not await self._on_disk(self.store.has, answer)) or (
            not self.settings.repeat and self._under_way.get(place, answer.id) != answer.id
        ):
            raise HTTPException(409, "You have answered this pair already.")
        future: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        self._under_way[place] = answer.id
        try:
            await self._waiting.put((answer, future))
            kept = await future
        finally:
            self._under_way.pop(place, None)
        if kept is Kept.OTHER:
            raise HTTPException(409, "Another answer has this id.")
        if kept is Kept.NEW:
            self._count(person, answer.left, answer.right, answer.verdict)
            self._changed()
            most = self.settings.most_answers
            if most is not None and self.number >= most:
                self.then()
        return JSONResponse(
            self._next(person, 1 if sent.get("more", True) else 0, self._held(sent))
        )

    async def undo(self, request: Request) -> Response:
        """One of one's last answers is taken back."""
        person, sent = self._person(request), await _json(request)
        id = str(sent.get("id", ""))
        taken = await self._on_disk(self.store.undo, id, person)
        if taken is None:
            raise HTTPException(409, "This is none of your last answers.")
        if taken:
            left, right, verdict = taken
            pair = self._pair(left, right)
            if pair is not None:
                self._pairing.uncount(person, pair)
            self._mine[person] -= verdict != SKIP
            self._changed()
        return JSONResponse(self._next(person, 0))

    async def results(self, request: Request) -> Response:
        """What the answers come to, for their owner."""
        if request.query_params.get("key") == self._owner:
            response = RedirectResponse("./results", 303)
            self._set(response, "owner", self._owner, request)
            return response
        self._refuse_others(request)
        return FileResponse(_PAGE / "results.html", media_type="text/html")

    async def state(self, request: Request) -> Response:
        """The results as they stand."""
        self._refuse_others(request)
        learned = self.learned
        new = request.query_params.get("known") != str(self._serial)
        return JSONResponse(
            {
                "answers": self.number,
                "learned": learned.answers,
                "serial": self._serial,
                "html": learned.html if new else None,
                "problem": learned.problem,
                "settled": learned.settled,
                "top": min(self.settings.top, len(self.things.names) - 1),
                "picture": bool(learned.picture),
            }
        )

    async def picture(self, request: Request) -> Response:
        """The ranking as a picture."""
        self._refuse_others(request)
        if not self.learned.picture:
            raise HTTPException(404, "There is no picture yet.")
        headers = {"content-security-policy": CSP_OF_PICTURES}
        return Response(self.learned.picture, media_type="image/svg+xml", headers=headers)

    def _refuse_others(self, request: Request) -> None:
        if not self._is_owner(request):
            raise HTTPException(403, "Results are for their owner: open the link that ask printed.")

    async def _on_disk(self, call: Callable[..., Any], *values: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, call, *values)
        except sqlite3.Error as error:
            raise _not_kept(error) from None

    def _held(self, sent: Mapping[str, Any]) -> list[tuple[int, int]]:
        """The pairs that a page has."""
        listed = sent.get("held", [])
        pairs = [one for one in listed if isinstance(one, list)] if isinstance(listed, list) else []
        known = [self._pair(*map(str, one)) for one in pairs if len(one) == 2]
        return [pair.unordered for pair in known if pair is not None]

    def _next(
        self, person: str, count: int, held: Sequence[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """So many more pairs, and how far everybody is."""
        pairs: list[list[dict[str, Any]]] = []
        known = [*held]
        for _ in range(count):
            pair = self._pairing.next(person, known)
            known += [] if pair is None else [pair.unordered]
            if pair is not None:
                pairs.append([self.things.shown(i) for i in pair])
        return {
            "pairs": pairs,
            "mine": self._mine.get(person, 0),
            "all": self.number,
            "most": self.settings.most_answers,
        }

    def app(self) -> Any:
        """The page as an ASGI application."""
        routes = [
            Route("/", self.show),
            Route("/api/begin", self.begin),
            Route("/api/more", self.more),
            Route("/api/join", self.join, methods=["POST"]),
            Route("/api/answers", self.answer, methods=["POST"]),
            Route("/api/undo", self.undo, methods=["POST"]),
            Route("/media/{number:int}", self.media),
            Route("/results", self.results),
            Route("/results.svg", self.picture),
            Route("/api/results", self.state),
            Route("/{name}", self.file),
        ]
        base = self.settings.base_path
        app = Starlette(
            routes=[Mount(base, routes=routes)] if base else routes,
            lifespan=self.running,
            exception_handlers={HTTPException: _as_json, ClientDisconnect: _as_json},
        )
        return Guard(app, self.settings.hosts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _not_kept(error: Exception) -> HTTPException:
    return HTTPException(
        507, f"The answer could not be kept ({error}); it is sent again until it can."
    )


async def _as_json(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 413
    detail = error.detail if isinstance(error, HTTPException) else "Too much was sent."
    if "text/html" in request.headers.get("accept", ""):  # somebody reads it
        return PlainTextResponse(detail, status)
    return JSONResponse({"problem": detail}, status)


async def _json(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "Send JSON.")
    try:
        sent = await request.json()
        json.dumps(sent, ensure_ascii=False).encode()  # half a character cannot be kept
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict):
        raise HTTPException(422, "Send an object in JSON.")
    return sent
