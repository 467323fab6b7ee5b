"""Who comes in, and as whom: cookies that links set."""

from __future__ import annotations

import hashlib
import secrets

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import VoteStore, alike

# The header in which a page says on whose behalf it sends.
PERSON = "ask-person"
# Names that a browser comes back to, as on a tablet that goes round: cookies have little room.
_MOST_NAMES = 20
_YEAR = 365 * 24 * 3600


class Doors:
    """Lets people in by a link with a key, by one of their own, or by a name they give; results are
    their owner's."""

    def __init__(self, store: VoteStore, settings: PageSettings) -> None:
        self._settings = settings
        invited, people = settings.invited, store.people()
        self._names = {
            token: name for token, name in people.items() if not invited or name in invited
        }
        self._key, self._owner = store.setting("key"), store.setting("owner")
        # Of this folder, as pages on other ports have the same cookies.
        self._cookie = f"ask_{digest(self._key)}"
        self._ids = set(map(digest, people))

    def by_link(self, request: Request) -> Response | None:
        """From a link with a key or a person's own to the page without either; None where it has
        none that is known."""
        tokens = {"key": {self._key}, "person": set(self._names)}
        known = {
            what: request.query_params[what]
            for what, those in tokens.items()
            if request.query_params.get(what) in those
        }
        if not known:
            return None
        response = RedirectResponse("./", 303)
        for what, token in known.items():
            self._set(response, what, token, request)
        return response

    def by_name(self, response: Response, name: str, token: str, request: Request) -> None:
        """Somebody gave a name, which is nobody else's."""
        self._names[token] = name
        self._ids.add(digest(token))
        self._set(response, "person", token, request)
        tokens = [token, *(one for one in self._before(request) if one != token)]
        self._set(response, "before", ".".join(tokens[:_MOST_NAMES]), request)

    def again(self, name: str, request: Request) -> tuple[str, str] | None:
        """Name and token of somebody who gave this name, or one alike, in the same browser."""
        for token in self._before(request):
            one = self._names.get(token)
            if one is not None and alike(one) == alike(name):
                return one, token
        return None

    def _before(self, request: Request) -> list[str]:
        """The tokens of names that were given in a browser, the latest first."""
        return self._cookie_of(request, "before").split(".")

    def by_link_of_results(self, request: Request) -> Response | None:
        """The same of the owner."""
        if request.query_params.get("key") != self._owner:
            return None
        response = RedirectResponse("./results", 303)
        self._set(response, "owner", self._owner, request)
        return response

    def _cookie_of(self, request: Request, what: str) -> str:
        return request.cookies.get(f"{self._cookie}_{what}", "")

    def name_of(self, request: Request) -> str | None:
        """Who it is; None where nobody has said yet."""
        return self._names.get(self._cookie_of(request, "person"))

    def person(self, request: Request) -> str:
        """Who it is.

        :raises HTTPException: nobody has said yet, or the page says on whose behalf it sends and
            this is somebody else.
        """
        name, sent = self.name_of(request), request.headers.get(PERSON, "")
        if self.is_gone(sent):
            raise HTTPException(410, "Whoever said this is no longer known here.")
        if name is None:
            raise HTTPException(401, f"Nobody is signed in here now; {self._stays}")
        if sent != self.id_of(request):
            raise HTTPException(412, f"{name} is signed in here now; {self._stays}")
        return name

    def id_of(self, request: Request) -> str:
        """What tells a person from all others, and lets nobody in."""
        return digest(self._cookie_of(request, "person"))

    def is_gone(self, id: str) -> bool:
        """Whether an id is that of nobody, as of somebody who was forgotten."""
        return id != "" and id not in self._ids

    @property
    def folder(self) -> str:
        """By which a page tells what it keeps from what it keeps of other folders."""
        return self._cookie

    @property
    def _stays(self) -> str:
        by = "link is opened" if self._settings.invited else "name is given"
        return f"what you said before and is not saved waits until your own {by} here again."

    def refuse_strangers(self, request: Request) -> None:
        """:raises HTTPException: a key is needed, and not there."""
        if self._settings.open_to_all or self.name_of(request) is not None:
            return
        by_key = not self._settings.invited and self._has(request, "key", self._key)
        if not by_key and not self._is_owner(request):
            raise HTTPException(403, "Open the link that you were given; this page needs its key.")

    def refuse_others(self, request: Request) -> None:
        """:raises HTTPException: it is not the owner of the results."""
        if not self._is_owner(request):
            raise HTTPException(403, "Results are for their owner: open the link that ask printed.")

    def _is_owner(self, request: Request) -> bool:
        return self._has(request, "owner", self._owner)

    def _has(self, request: Request, what: str, token: str) -> bool:
        return secrets.compare_digest(self._cookie_of(request, what).encode(), token.encode())

    def _set(self, response: Response, what: str, value: str, request: Request) -> None:
        response.set_cookie(
            f"{self._cookie}_{what}",
            value,
            max_age=_YEAR,
            path=f"{self._settings.base_path}/",
            httponly=True,
            samesite="lax",
            secure=request.headers.get("x-forwarded-proto", request.url.scheme) == "https",
        )


def digest(text: str) -> str:
    """Twelve digits of a text, which do not say what it was."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
