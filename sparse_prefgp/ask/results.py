"""What the answers come to, learned while they come in, for their owner."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from sparse_prefgp.ask.doors import Doors
from sparse_prefgp.ask.guard import CSP_OF_PICTURES
from sparse_prefgp.ask.refitting import EVERY, Learned, Learner, Refitting

PAGE = Path(__file__).parent / "page"
# Seconds after which what few answers there are is learned from.
PAUSE = 10.0


class Results:
    """Learns from the answers, and shows what was learned."""

    def __init__(
        self,
        learner: Learner,
        doors: Doors,
        number: Callable[[], int],
        then: Callable[[Learned], None],
    ) -> None:
        """:param number: of answers that stand.
        :param then: is called with what was learned, if anything was.
        """
        self._learner, self._doors, self._number, self._then = learner, doors, number, then
        self._learned, self._serial, self._since_learned = Learned(0), 0, 0
        self._refitting: Refitting | None = None
        self._enough, self.is_learning = asyncio.Event(), False
        self.routes = [
            Route("/results", self.show),
            Route("/results.svg", self.picture),
            Route("/ranking.csv", self.csv),
            Route("/api/results", self.state),
        ]

    def changed(self) -> None:
        """An answer came, or went."""
        self._since_learned += 1
        if self._since_learned >= EVERY:
            self._enough.set()

    async def learn(self) -> None:
        """Learn from what is there, and again whenever enough has changed, or a while after
        anything has. One request is under way at a time."""
        self._refitting, self._since_learned = Refitting(self._learner), 1
        self._enough.set()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), PAUSE)
            if not self._since_learned:
                continue
            self._enough.clear()
            self._since_learned, self.is_learning = 0, True
            try:
                learned = await asyncio.to_thread(self._refitting.learned)
            except (EOFError, OSError):
                ended = "The process that ranks has ended; start ask again."
                self.take(Learned(0, problem=ended))
                return
            finally:
                self.is_learning = False
            self.take(learned)

    async def end(self) -> None:
        """End the process."""
        if self._refitting is not None:
            await asyncio.to_thread(self._refitting.close)

    def take(self, learned: Learned) -> None:
        """Show this from now on; where nothing was learned, what was before and the reason."""
        if learned.problem and not learned.html:
            self._learned = replace(self._learned, problem=learned.problem)
            return
        self._learned = learned
        self._serial += 1
        self._then(learned)

    # Requests.

    async def show(self, request: Request) -> Response:
        """The page of the results."""
        response = self._doors.by_link_of_results(request)
        if response is not None:
            return response
        self._doors.refuse_others(request)
        return FileResponse(PAGE / "results.html", media_type="text/html")

    async def state(self, request: Request) -> Response:
        """The results as they stand."""
        self._doors.refuse_others(request)
        learned = self._learned
        new = request.query_params.get("known") != str(self._serial)
        return JSONResponse(
            {
                "answers": self._number(),
                "learned": learned.answers,
                "learning": self.is_learning,
                "serial": self._serial,
                "html": learned.html if new else None,
                "problem": learned.problem,
                "settled": learned.settled,
                "top": self._learner.settings.top,
                "picture": bool(learned.picture),
            }
        )

    async def picture(self, request: Request) -> Response:
        """The ranking as a picture."""
        self._doors.refuse_others(request)
        headers = {"content-security-policy": CSP_OF_PICTURES}
        return Response(_there(self._learned.picture), media_type="image/svg+xml", headers=headers)

    async def csv(self, request: Request) -> Response:
        """The whole ranking."""
        self._doors.refuse_others(request)
        return Response(_there(self._learned.csv), media_type="text/csv")


def _there(content: bytes) -> bytes:
    if not content:
        raise HTTPException(404, "Nothing was learned yet.")
    return content
