"""A report: sections of sentences, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sparse_prefgp.tell.tables import Table

PNG, SVG = "png", "svg"


class Picture(NamedTuple):
    """A picture, and the words that go with it."""

    name: str
    """Of its file, without ending."""
    title: str
    caption: str
    source: Path | Callable[[], Any]
    """A PNG, or what draws it when it is wanted: returns matplotlib axes."""
    form: str = PNG
    """In which a page has what it draws: `png`, or `svg`, which has sharp letters at any size."""


@dataclass(frozen=True)
class Section:
    """Sentences, notes in a box, a text as it is, tables and pictures, in this order."""

    title: str = ""
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What to know before relying on the rest."""
    code: str = ""
    """Shown as it is: a command, a file."""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    folded: bool = False
    """Whether a page shows the title alone until it is asked for the rest."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but a title."""
        return not any((self.sentences, self.notes, self.code, self.tables, self.pictures))

    def __str__(self) -> str:
        notes = [f"Note: {note}" for note in self.notes]
        sentences = [self.title, *self.sentences, *notes, self.code]
        return "\n\n".join(
            filter(None, ["\n".join(filter(None, sentences)), *map(str, self.tables)])
        )


@dataclass(frozen=True)
class Report:
    """What a result says; `print` shows it as text, without pictures."""

    title: str
    subtitle: str
    sections: Sequence[Section]

    def __str__(self) -> str:
        head = "\n".join(filter(None, [self.title, self.subtitle]))
        return "\n\n".join(filter(None, [head, *map(str, self.sections)]))


def sections_of(parts: Iterable[Section]) -> list[Section]:
    """Those that say something."""
    return [section for section in parts if not section.is_empty]
