"""What an audit says: findings, and what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sparse_prefgp.support.words import agreeing, and_so, counted, of_the_mode
from sparse_prefgp.tell.result import Figures, Result
from sparse_prefgp.tell.tables import Column, Table, ends_in

# Kinds of findings, and what a count of them is of.
KINDS = {
    "side": "side",
    "style": "style",
    "lean": "leaning judges",
    "careless": "careless judges",
    "tie": "own rules of ties",
    "reversed": "reversed judges",
    "drift": "drift of models",
    "category": "models in a category",
    "circle": "circles of three models",
    "duplicate": "two names of one model",
    "left_out": "votes that move the board",
}
# The chance that a clean board has a false finding, over all families.
FALSE = 0.01
# Nothing is called clean of which chance alone makes as much less often than that.
NOT_CLEAN = 0.05
# Findings whose columns are fitted; the sizes of others are by one step.
MOST_REFITTED = 5
FITTED, REFITTED, ONE_STEP, COUNTED = "fitted", "refitted", "one step", "counted"
CLEAN, NOT_ASKED = "clean", "not asked"
DECIDING = "judges who decided a vote"


@dataclass(frozen=True)
class Finding(Figures):
    """Something that bends a board."""

    kind: str
    """One of `KINDS`."""
    about: str
    """Whom or what."""
    size: float
    interval: tuple[float, float]
    p: float
    """How rarely chance alone makes as much of it."""
    advice: str
    unit: str
    """What the size is in."""
    how: str
    """Where the size is from: `fitted`, as the board has it; `refitted` with its column; by `one
    step` from the fit; or `counted`."""


@dataclass(frozen=True)
class LookedAt(Figures):
    """What was looked at."""

    what: str
    tests: int
    """How many there were; 0 of what is counted, or was not asked."""
    findings: int | None
    """How many of them were findings; None where it was not asked."""
    told: str
    """`clean`, `no finding` with its p, what was found, or why it was not asked."""


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """What bends a board, strongest first, and what is clean; `print` shows it as text."""

    aside = ("findings", "looked_at")

    findings: tuple[Finding, ...]
    looked_at: tuple[LookedAt, ...]
    level: float
    """Of the intervals."""
    at_mode: bool = False
    """Whether hyperparameters are the most likely ones, though the model integrates over them."""

    @property
    def conclusion(self) -> str:
        """The answer in one sentence."""
        clean = sum(one.told == CLEAN for one in self.looked_at)
        asked = sum(one.findings is not None for one in self.looked_at)
        unasked = len(self.looked_at) - asked
        rest = f"; {unasked} could not be asked." if unasked else "."
        looked = f"{clean} of {asked} things that were looked at {agreeing(clean)} clean"
        if not self.findings:
            if clean == asked:
                looked = f"all {asked} things that were looked at are clean"
            else:  # what is counted, and not tested, or no finding but not clean
                looked += ", the others are named below"
            untested = [one.told for one in self.looked_at if one.what == DECIDING]
            if untested:
                return f"No test could be made of judges who {untested[0]}; {looked}{rest}"
            return f"Nothing was found that bends the board: {looked}{rest}"
        number, kinds = len(self.findings), Counter(one.kind for one in self.findings)
        words = [f"{what} ({kinds[kind]})" for kind, what in KINDS.items() if kind in kinds]
        return (
            f"{counted(number, 'thing')} {agreeing(number, 'bends', 'bend')} the board: "
            f"{and_so(words)}; {looked}{rest}"
        )

    def sentences(self) -> list[str]:
        """The conclusion, and where sizes are from."""
        found = [self.conclusion]
        hows = {one.how for one in self.findings}
        if ONE_STEP in hows:
            found.append(
                "Sizes by one step are from the posterior as it was fitted, nothing being fitted "
                "again; large ones come out a little small."
            )
        if REFITTED in hows:
            found.append(
                "Refitted sizes are those of a board with the columns of these findings, at the "
                "same hyperparameters."
            )
        if self.at_mode:
            found.append(of_the_mode("Sizes and intervals"))
        return found

    def table(self, most: int | None = None) -> Table:
        """The findings."""
        columns = [
            Column("kind", "kind", left=True),
            Column("about", "about", left=True),
            Column("size", "size", "z.3g"),
            Column("ends", f"{100 * self.level:g} % interval"),
            Column("unit", "of", left=True, spare=1),
            Column("p", "p", ".1g"),
            Column("how", "by", left=True, spare=2),
            Column("advice", "what to do", left=True),
        ]
        rows = [
            {
                **one.figures(),
                "kind": one.kind.replace("_", " "),
                "ends": ends_in("z.3g")(one.interval),
            }
            for one in self.findings[:most]
        ]
        return Table("audit", "What bends the board", columns, rows)

    def looked_at_table(self) -> Table:
        """What was looked at, clean or not."""
        columns = [
            Column("what", "what", left=True),
            Column("tests", "tests", ","),
            Column("findings", "findings", ","),
            Column("told", "", left=True),
        ]
        rows = [{**one.figures(), "tests": one.tests or None} for one in self.looked_at]
        caption = (
            f"A clean board has a false finding with a chance of about {FALSE:g}, over all tests "
            "(Benjamini & Hochberg 1995, inside each line), which is strict. No finding, and not "
            f"clean either, is what has a p below {NOT_CLEAN:g}, over all tests of its line."
        )
        return Table("looked_at", "What was looked at", columns, rows, caption)

    def parts(self, most: int | None = None) -> list[str | Table]:
        """Conclusion, findings and what was looked at."""
        findings = [self.table(most)] if self.findings else []
        return [*self.sentences(), *findings, self.looked_at_table()]

    def to_dict(self) -> dict[str, Any]:
        """Conclusion, findings and what was looked at."""
        return {
            "conclusion": self.conclusion,
            **self.figures(),
            "findings": [one.figures() for one in self.findings],
            "looked_at": [one.figures() for one in self.looked_at],
        }
