"""What comes before every request: which hosts are meant, who sends it, and how large it is."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparse_prefgp.ask.settings import host_of

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


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class Guard:
    """Refuses requests for other hosts (a name that somebody points here), from other pages, and
    with large bodies; puts its headers on every answer."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """:param hosts: names by which the page may be reached."""
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin, length = (headers.get(x) for x in ("host", "origin", "content-length"))
        refusal: tuple[str, int] | None = None
        if host_of(host or "") not in self._hosts:
            refusal = "This name of the host is not known here; see --allow-host.", 421
        elif origin is not None and _place_of(origin) != (host or "").lower():
            refusal = "The request comes from another page.", 403
        elif length is not None and not (length.isdecimal() and int(length) <= MOST_BYTES):
            refusal = f"More than {MOST_BYTES:,} bytes were sent.", 413
        if refusal is not None:
            await PlainTextResponse(*refusal)(scope, receive, send)
            return
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message if received <= MOST_BYTES else {"type": "http.disconnect"}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    said.setdefault(name, value)
            await send(message)

        await self._app(scope, bounded, with_headers)
