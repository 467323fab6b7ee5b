"""The store as a running page has it: one thing after another, and answers that wait together."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException

from sparse_prefgp.ask.store import Answer, Kept, VoteStore


class Disk:
    """All that touches the file while the page runs, in a thread of its own."""

    def __init__(self, store: VoteStore) -> None:
        self._store, self._thread = store, ThreadPoolExecutor(1)
        self._waiting: asyncio.Queue[tuple[Answer, asyncio.Future[Kept]]] = asyncio.Queue()

    async def call(self, act: Callable[..., Any], *values: Any) -> Any:
        """What a method of the store gives.

        :raises HTTPException: the disk is full, or lets nobody write.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act, *values)
        except sqlite3.Error as error:
            raise HTTPException(
                507, f"Nothing can be kept now ({error}); try again when the disk has room."
            ) from None

    async def keep(self, answer: Answer) -> Kept:
        """What became of an answer, once it is on disk.

        :raises HTTPException: it is not.
        """
        future: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        await self._waiting.put((answer, future))
        return await future

    async def write(self) -> None:
        """Answers that wait go to disk together, since each step to disk takes as long as many."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            answers = [answer for answer, _ in batch]
            try:
                kept = await loop.run_in_executor(self._thread, self._store.keep, answers)
            except Exception as error:  # the next ones may do
                for _, future in batch:
                    if not future.done():
                        future.set_exception(_not_kept(error))
                continue
            for (_, future), one in zip(batch, kept, strict=True):
                if not future.done():
                    future.set_result(one)

    def close(self) -> None:
        """When all that was begun is done."""
        self._thread.shutdown()


def _not_kept(error: Exception) -> HTTPException:
    return HTTPException(
        507, f"The answer could not be kept ({error}); it is sent again until it can."
    )
