"""How a table of answers was understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparse_prefgp.support.words import and_so, counted, some_of

# What several answers of a kind are called, where an s is not enough.
_SEVERAL = {
    "choice": "choices",
    "top": "rankings of the first alone",
    "best_worst": "best and worst",
    "best_worst_at_once": "best and worst at once",
}


@dataclass(frozen=True)
class ReadAs:
    """What was made of the columns and values of a table, which `fit` prints and keeps."""

    form: str
    """Which of the forms of the documentation the table has."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column is what."""
    verdicts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """What each value of the verdict means, and in how many rows it stands."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many rows were left out, by the reason."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """How many answers of each kind there are."""
    notes: tuple[str, ...] = ()
    """Sentences on what could have been read in another way."""
    unused: tuple[str, ...] = ()
    """Columns of which nothing is made."""

    def noting(self, *notes: str) -> ReadAs:
        """The same with more sentences."""
        return replace(self, notes=(*self.notes, *notes))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        verdicts = {
            value: {"means": means, "rows": rows} for value, (means, rows) in self.verdicts.items()
        }
        return {**vars(self), "verdicts": verdicts}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> ReadAs:
        """What `to_dict` gave."""
        verdicts = {v: (word["means"], word["rows"]) for v, word in kept["verdicts"].items()}
        tuples = {name: tuple(kept[name]) for name in ("notes", "unused")}
        return cls(**{**kept, "verdicts": verdicts, **tuples})

    def lines(self) -> Iterator[str]:
        """The same for people, a line each."""
        columns = (
            f"{role} {'(a column without a name)' if column.startswith('Unnamed: ') else column}"
            for role, column in self.columns.items()
        )
        yield f"Read as {self.form}: {', '.join(columns)}".rstrip(": ")
        if self.verdicts:
            meanings = (
                f"{value or '(empty)'} = {means} ({rows:,})"
                for value, (means, rows) in self.verdicts.items()
            )
            yield f"Verdicts: {some_of([*meanings], 12)}"
        if self.answers:
            yield "Answers: " + and_so(
                counted(number, kind.replace("_", " and "), _SEVERAL.get(kind, ""))
                for kind, number in self.answers.items()
            )
        for reason, rows in self.left_out.items():
            yield f"Left out: {counted(rows, 'row')}, {reason}"
        yield from self.notes
        if self.unused:
            yield f"Not used: {some_of([*map(str, self.unused)])}"

    def __str__(self) -> str:
        return "\n".join(self.lines())
