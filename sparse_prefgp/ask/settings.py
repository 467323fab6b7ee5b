"""How a page asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


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


def host_of(text: str) -> str:
    """A host without its port, in small letters."""
    try:
        return (urlsplit(f"//{text}").hostname or "").lower()
    except ValueError:
        return ""
