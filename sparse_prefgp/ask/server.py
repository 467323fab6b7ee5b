"""The page itself: hands out pairs, and keeps answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from sparse_prefgp.ask.disk import Disk
from sparse_prefgp.ask.doors import Doors, digest
from sparse_prefgp.ask.guard import CSP_OF_PICTURES, Guard
from sparse_prefgp.ask.pairing import Pair, Pairing
from sparse_prefgp.ask.refitting import Learned, Learner
from sparse_prefgp.ask.results import PAGE, Results
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import LONGEST_PERSON, Answer, Kept, VoteStore
from sparse_prefgp.ask.things import MEDIA, Things
from sparse_prefgp.io.votes import SKIP, TIE, VERDICTS

_FILES = {
    "page.js": "text/javascript",
    "results.js": "text/javascript",
    "page.css": "text/css",
}
_ID = re.compile(r"[0-9a-f]{32}")
LONGEST_NOTE = 2000
# Pairs that a page holds at a time: that which is shown, and the next.
AHEAD = 2
# Seconds in which every open page asks once; for so long it waits for pages at its end.
LINGERS = 15.0
# The header in which a page says which one it is: a person may have several open.
SENT_BY = "ask-page"
# What a person reads who gets no pair.
ANSWERED_ALL = "You have answered every pair there is. Thank you!"
FINISHED = "All answers that were wanted are there. Thank you! You can close this page."
TOO_EVEN = (
    "Of the pairs that are left, as far as is known, none is uneven enough to be asked. Thank you! "
    "Leave this page open: it shows others when there are some."
)


class Page:
    """What a running page knows."""

    def __init__(
        self,
        store: VoteStore,
        things: Things,
        settings: PageSettings,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """:param then: is called when what was asked for is there."""
        self.store, self._things, self._settings, self._then = store, things, settings, then
        self._finished = False
        # When each page last asked, and which have not been told that all is there.
        self._seen: dict[str, float] = {}
        self._untold: set[str] = set()
        rng = np.random.default_rng(settings.seed)
        self._pairing = Pairing(len(things.names), rng, settings.explore, settings.repeat)
        self._doors, self._disk = Doors(store, settings), Disk(store)
        learner = Learner(store.path, things.items, settings)
        self.results = Results(learner, self._doors, lambda: self.number, self._take)
        self._mine: dict[str, int] = {}
        # By person and pair, the id of an answer that is not on disk yet.
        self._under_way: dict[tuple[str, tuple[int, int]], str] = {}
        for person, left, right, verdict in store.answers():
            self._count(person, left, right, verdict)

    @property
    def number(self) -> int:
        """Answers that stand and are no skips."""
        return sum(self._mine.values())

    @property
    def people(self) -> int:
        """How many have such answers."""
        return sum(number > 0 for number in self._mine.values())

    def finish(self) -> None:
        """What was asked for is there: nobody gets a pair from now on, and it ends as soon as every
        page that is open has been told."""
        if self._finished:
            return
        self._finished = True
        since = time.monotonic() - LINGERS
        self._untold = {page for page, at in self._seen.items() if at > since}
        if self._untold:
            asyncio.get_running_loop().call_later(LINGERS, self._then)
        else:
            self._then()

    def _told(self, page: str) -> None:
        now = time.monotonic()
        self._seen.pop(page, None)
        self._seen[page] = now  # the last one, so that the first ones are those to forget
        while self._seen[first := next(iter(self._seen))] < now - LINGERS:
            del self._seen[first]
        if page in self._untold:
            self._untold.remove(page)
            if not self._untold:
                self._then()

    def _count(self, person: str, left: str, right: str, verdict: str) -> None:
        pair = self._pair(left, right)
        if pair is not None:  # of items that are no longer there nothing is asked
            self._pairing.count(person, pair)
        self._mine[person] = self._mine.get(person, 0) + (verdict != SKIP)

    def _pair(self, left: str, right: str) -> Pair | None:
        number = self._things.number
        return Pair(number[left], number[right]) if left in number and right in number else None

    @contextlib.asynccontextmanager
    async def running(self, _: Any = None) -> AsyncIterator[None]:
        """The writer, and the process that learns."""
        acts = (self._disk.write, self.results.learn)
        tasks = [asyncio.create_task(act()) for act in acts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await self.results.end()
            self._disk.close()

    def _take(self, learned: Learned) -> None:
        pairs = [self._pair(*names) for names in learned.pairs]
        self._pairing.refill([pair for pair in pairs if pair is not None], learned.uneven)

    # Requests.

    async def show(self, request: Request) -> Response:
        """The page; a link with a key or a person's own leads to it without either."""
        response = self._doors.by_link(request)
        if response is not None:
            return response
        self._doors.refuse_strangers(request)
        return FileResponse(PAGE / "page.html", media_type="text/html")

    async def file(self, request: Request) -> Response:
        """A script or a style."""
        name = request.path_params["name"]
        if name not in _FILES:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(PAGE / name, media_type=_FILES[name])

    async def media(self, request: Request) -> Response:
        """A picture, by the number of its item and the version of its file."""
        self._doors.refuse_strangers(request)
        number = request.path_params["number"]
        path = self._things.path(number) if 0 <= number < len(self._things.names) else None
        if path is None or request.path_params["version"] != _version(path):
            raise HTTPException(404, "There is no such picture.")
        headers = {
            "content-security-policy": CSP_OF_PICTURES,
            "cache-control": "private, max-age=3600",
        }
        return FileResponse(path, media_type=MEDIA[path.suffix.lower()], headers=headers)

    async def begin(self, request: Request) -> Response:
        """What the page needs to begin, also after a reload."""
        self._doors.refuse_strangers(request)
        name = self._doors.name_of(request)
        waiting = request.query_params.get("waiting", "").split(",")
        about = {
            "question": self._settings.question,
            "ties": self._settings.ties,
            "joining": not self._settings.invited,
            "folder": self._doors.folder,
            "gone": [one for one in waiting if self._doors.is_gone(one)],
            "name": name,
        }
        if name is not None:
            about |= await self._begun(request, name, self._doors.id_of(request))
        return JSONResponse(about)

    async def _begun(self, request: Request, name: str, person: str) -> dict[str, Any]:
        last = await self._disk.call(self.store.last, name)
        return {"name": name, "person": person, "last": last} | self._next(request, name, AHEAD)

    async def join(self, request: Request) -> Response:
        """Somebody gives a name."""
        self._doors.refuse_strangers(request)
        if self._settings.invited:
            raise HTTPException(403, "Open the link that you were given; it is yours alone.")
        name = " ".join(_text(await _json(request), "name").split())
        if not name or len(name) > LONGEST_PERSON or not name.isprintable():
            raise HTTPException(422, f"Give a name of 1 to {LONGEST_PERSON} letters.")
        again = self._doors.again(name, request)
        if again is not None:
            name, token = again
        elif await self._disk.call(self.store.is_invited, name):
            raise HTTPException(
                409, "This name has a link of its own; open that, or give another name."
            )
        else:
            token = await self._disk.call(self.store.join, name)
        if token is None:
            raise HTTPException(409, "Somebody has this name already; add a letter to yours.")
        response = JSONResponse(await self._begun(request, name, digest(token)))
        self._doors.by_name(response, name, token, request)
        return response

    async def more(self, request: Request) -> Response:
        """Pairs to show; none where a page only asks whether all is there."""
        count = 0 if request.query_params.get("pairs") == "0" else AHEAD
        return JSONResponse(self._next(request, self._doors.person(request), count))

    async def answer(self, request: Request) -> Response:
        """An answer; acknowledged when it is on disk."""
        person, sent = self._doors.person(request), await _json(request)
        answer = Answer(
            **{name: _text(sent, name) for name in ("id", "left", "right", "verdict")},
            person=person,
            shown=_text(sent, "shown")[:40],
            note=_text(sent, "note")[:LONGEST_NOTE],
        )
        pair = self._pair(answer.left, answer.right)
        allowed = [one for one in VERDICTS if one != TIE or self._settings.ties]
        if pair is None or pair.left == pair.right or answer.verdict not in allowed:
            raise HTTPException(422, "This answer is about nothing that is asked here.")
        if not _ID.fullmatch(answer.id):
            raise HTTPException(422, "An answer needs an id of 32 hexadecimal digits.")
        met = self._pairing.has_met(person, pair)
        place = person, pair.unordered
        if (met and not await self._disk.call(self.store.has, answer)) or (
            not self._settings.repeat and self._under_way.get(place, answer.id) != answer.id
        ):
            raise HTTPException(409, "You have answered this pair already.")
        self._under_way[place] = answer.id
        try:
            kept = await self._disk.keep(answer)
        finally:
            self._under_way.pop(place, None)
        if kept is Kept.OTHER:
            raise HTTPException(409, "Another answer has this id.")
        if kept is Kept.NEW:
            self._count(person, answer.left, answer.right, answer.verdict)
            self.results.changed()
            most = self._settings.most_answers
            if most is not None and self.number >= most:
                self.finish()
        return JSONResponse(
            self._next(request, person, 1 if sent.get("more", True) else 0, self._held(sent))
        )

    async def undo(self, request: Request) -> Response:
        """One of one's last answers is taken back."""
        person, sent = self._doors.person(request), await _json(request)
        id = _text(sent, "id")
        if self._finished:
            raise HTTPException(409, "All answers that were wanted are there; none is taken back.")
        taken = await self._disk.call(self.store.undo, id, person)
        if taken is None:
            raise HTTPException(409, "This is none of your last answers.")
        if taken:
            *sides, verdict = taken
            pair = self._pair(*sides)
            if pair is not None:
                self._pairing.uncount(person, pair)
            self._mine[person] -= verdict != SKIP
            self.results.changed()
        return JSONResponse(self._next(request, person, 0))

    def _held(self, sent: Mapping[str, Any]) -> list[tuple[int, int]]:
        """The pairs that a page has."""
        listed = sent.get("held", [])
        pairs = [one for one in listed if isinstance(one, list)] if isinstance(listed, list) else []
        known = [self._pair(*map(str, one)) for one in pairs if len(one) == 2]
        return [pair.unordered for pair in known if pair is not None]

    def _next(
        self, request: Request, person: str, count: int, held: Sequence[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """So many more pairs, and how far everybody is."""
        pairs: list[list[dict[str, Any]]] = []
        known = [*held]
        self._told(request.headers.get(SENT_BY, person))
        for _ in range(0 if self._finished else count):
            pair = self._pairing.next(person, known)
            if pair is not None:
                known.append(pair.unordered)
                pairs.append([self._shown(i) for i in pair])
        return {
            "pairs": pairs,
            "mine": self._mine.get(person, 0),
            "all": self.number,
            "most": self._settings.most_answers,
            "none": FINISHED if self._finished else self._none(person, count - len(pairs)),
            "finished": self._finished,
        }

    def _none(self, person: str, missing: int) -> str:
        """Why a person gets fewer pairs than the page wants; empty where it gets them."""
        if missing and self._pairing.has_met_all(person):
            return ANSWERED_ALL
        return TOO_EVEN if missing and self._settings.closest > 0.5 else ""

    def _shown(self, i: int) -> dict[str, Any]:
        """What the page needs to show an item, with where its picture is."""
        path = self._things.path(i)
        place = None if path is None else f"media/{i}/{_version(path)}"
        return self._things.shown(i) | {"media": place}

    def app(self) -> Any:
        """The page as an ASGI application."""
        routes = [
            Route("/", self.show),
            Route("/api/begin", self.begin),
            Route("/api/more", self.more),
            Route("/api/join", self.join, methods=["POST"]),
            Route("/api/answers", self.answer, methods=["POST"]),
            Route("/api/undo", self.undo, methods=["POST"]),
            Route("/media/{number:int}/{version}", self.media),
            *self.results.routes,
            Route("/{name}", self.file),
        ]
        base = self._settings.base_path
        app = Starlette(
            routes=[Mount(base, routes=routes)] if base else routes,
            lifespan=self.running,
            exception_handlers={HTTPException: _as_json, ClientDisconnect: _as_json},
        )
        return Guard(app, self._settings.hosts)


def _version(path: Path) -> str:
    """Of a file: browsers keep pictures by their address, also those of another folder."""
    file = path.stat()
    return digest(f"{path.resolve()} {file.st_size} {file.st_mtime_ns}")


async def _as_json(request: Request, error: Exception) -> Response:
    status, detail = 413, "Too much was sent."
    if isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
    if "text/html" in request.headers.get("accept", ""):  # somebody reads it
        return PlainTextResponse(detail, status)
    return JSONResponse({"problem": detail}, status)


def _text(sent: Mapping[str, Any], name: str) -> str:
    value = sent.get(name, "")
    if not isinstance(value, str):
        raise HTTPException(422, f"Send {name} as a text.")
    return value


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
