"""Chunks that are worked on at the same time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_limits: list[Any] = []
_users = 0
Label = TypeVar("Label")
Found = TypeVar("Found")


def in_order(
    calls: Iterator[tuple[Label, Callable[[], Found]]], at_once: int
) -> Iterator[tuple[Label, Found]]:
    """What calls return, in their order, so that sums do not depend on which thread was first.

    One call more than `at_once` is taken from the iterator ahead of what was returned, so that all
    threads have work while what one returned is used. Linear algebra has one thread in each.
    """
    if at_once == 1:
        for label, call in calls:
            yield label, call()
        return
    waiting: deque[tuple[Label, Future[Found]]] = deque()
    with _one_thread_each(), ThreadPoolExecutor(at_once) as pool:
        try:
            for label, call in calls:
                waiting.append((label, pool.submit(call)))
                if len(waiting) > at_once:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:  # left early: nothing of it is to begin any more
            for _, future in waiting:
                future.cancel()


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, and each pass would do so."""
    return ThreadpoolController()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Linear algebra on one thread, until the last who asked for it is done: it is of the process,
    in which several models may work."""
    global _users
    with _lock:
        if _users == 0:
            _limits.append(_controller().limit(limits=1, user_api="blas"))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.pop().restore_original_limits()
