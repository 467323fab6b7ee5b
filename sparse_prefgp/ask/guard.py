"""What comes before every request: which hosts are meant, who sends it, and how large it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES = 64_000
# Nothing from elsewhere is loaded, nothing inline runs, and nobody frames the page.
_CSP = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A picture may be SVG, which has styles of its own; opened alone it is put in a sandbox.
CSP_OF_PICTURES = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_HEADERS = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


def host_of(text: str) -> str:
    """A host without its port, in small letters."""
    try:
        return (urlsplit(f"//{text}").hostname or "").lower()
    except ValueError:
        return ""


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class Guard:
    """Refuses requests for other hosts (a name that somebody points here), from other pages, and
    with large bodies; puts its headers on every answer."""

    def __init__(self, app: Any, hosts: Collection[str]) -> None:
        """:param hosts: names by which the page may be reached."""
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        origin = headers.get(b"origin")
        if host_of(host) not in self._hosts:
            await _refuse(send, 421, "This name of the host is not known here; see --allow-host.")
            return
        if origin is not None and _place_of(origin) != host.lower():
            await _refuse(send, 403, "The request comes from another page.")
            return
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            await _refuse(send, 413, f"More than {MOST_BYTES:,} bytes were sent.")
            return
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                return {"type": "http.disconnect"}
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.encode() not in own
                    ),
                ]
            await send(message)

        await self._app(scope, bounded, with_headers)


async def _refuse(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
