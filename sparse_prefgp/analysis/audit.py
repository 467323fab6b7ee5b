"""What bends a board of battles between models that judges judged: findings, and what is clean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sparse_prefgp.analysis.audit_families import (
    FEWEST_VOTES,
    ByKind,
    Categories,
    Circles,
    Drifts,
    Duplicates,
    Family,
    Fitted,
    Leans,
    LeftOut,
    Margins,
    Noises,
    Pairs,
    Reversals,
    Round,
    Size,
)
from sparse_prefgp.analysis.one_step import Board, LeanOfVotes, Votes
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.slices import DAYS_A_YEAR, days_of
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_shape, level_of_interval
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import agreeing, and_so, counted, some_of, spelling
from sparse_prefgp.tell.result import Figures, Result
from sparse_prefgp.tell.tables import MISSING, Column, Table

KINDS = (
    "side",
    "style",
    "lean",
    "careless",
    "tie",
    "reversed",
    "drift",
    "category",
    "circle",
    "duplicate",
    "left_out",
)
# The chance that a clean board has a false finding, over all families.
FALSE = 0.01
# Findings whose columns are fitted; the sizes of others are by one step.
MOST_REFITTED = 5
FITTED, REFITTED, ONE_STEP, COUNTED = "fitted", "refitted", "one step", "counted"
CLEAN, NOT_ASKED = "clean", "not asked"


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
    """`clean`, what was found, or why it was not asked."""


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """What bends a board, strongest first, and what is clean; `print` shows it as text."""

    aside: ClassVar[Sequence[str]] = ("findings", "looked_at")

    findings: tuple[Finding, ...]
    looked_at: tuple[LookedAt, ...]
    level: float
    """Of the intervals."""

    @property
    def conclusion(self) -> str:
        """The answer in one sentence."""
        clean = sum(one.findings == 0 for one in self.looked_at)
        asked = sum(one.findings is not None for one in self.looked_at)
        if not self.findings:
            return (
                f"Nothing was found that bends the board: all {asked} things that were looked at "
                "are clean."
            )
        kinds = [kind for kind in KINDS if any(one.kind == kind for one in self.findings)]
        words = [
            f"{kind.replace('_', ' ')} ({sum(one.kind == kind for one in self.findings)})"
            for kind in kinds
        ]
        return (
            f"{counted(len(self.findings), 'thing')} {agreeing(len(self.findings), 'bends', 'bend')}"
            f" the board: {and_so(words)}; {clean} of {asked} things that were looked at "
            f"{agreeing(clean)} clean."
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
                "ends": f"{one.interval[0]:z.3g} to {one.interval[1]:z.3g}",
            }
            for one in self.findings[:most]
        ]
        return Table("audit", "What bends the board", columns, rows)

    def looked_at_table(self) -> Table:
        """What was looked at, clean or not."""
        columns = [
            Column("what", "what", left=True),
            Column("tests", "tests", ","),
            Column("findings", "findings"),
            Column("told", "", left=True),
        ]
        rows = [
            {
                **one.figures(),
                "tests": one.tests or None,
                "findings": MISSING if one.findings is None else one.findings,
            }
            for one in self.looked_at
        ]
        caption = (
            f"A clean board has a false finding with a chance of about {FALSE:g}, over all tests "
            "(Benjamini & Hochberg 1995, inside each line)."
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


def audit(
    model: Any,
    battles: Any = None,
    *,
    date: Any = None,
    category: Any = None,
    by: Any = None,
    side: str | None = None,
    level: float = 0.9,
    rng: np.random.Generator | None = None,
) -> Audit:
    """What bends a board of battles, with sizes, and what was looked at and is clean.

    All is asked one step from the posterior that the model has: the score of a column that the
    board has not, with a flat prior and the sites held; leans without their prior; noise and ties
    of each judge by scores at the verdicts that the board without the vote lets expect, with
    saddlepoint tails; ties of each pair against the exact sum of their chances; the board without
    some votes. Inside each family false findings are held by Benjamini & Hochberg (1995) at 0.01
    over the number of families. The strongest finding becomes part of the board and the rest is
    asked again, until none is left: a circle of three models throws shadows on their neighbours.
    The columns of the five strongest findings are then fitted, from the sites of the board.

    :param model: a `PreferenceGP` of wins and ties between items with effects (`ItemEffect`),
        perhaps with covariates, leans and noise and margin by judge.
    :param battles: a data frame of the t votes that the model was fitted to, in their order.
    :param date: of each vote: a column of `battles`, or (t,) dates; by default those of the model.
    :param category: of each vote: a column of `battles`, one of the labels of the model, or (t,).
    :param by: the kind of who judged: the same.
    :param side: the covariate that says which side was shown first; by default one that is the
        same in all votes but for its sign.
    :param level: of the intervals.
    :param rng: of the randomised p of ties.
    :raises ValueError: a model that is no board; a column that there is not, or of another length.
    """
    level, rng = level_of_interval(level), generator(rng)
    votes = Votes.of(model)
    columns = _Columns(model.at_mode.duels, battles, len(votes.ahead))
    families, unasked = _families(votes, columns, date, category, by, side, rng)
    run = _Run(votes, families)
    findings = run.findings(level)
    findings = _refitted(model.at_mode, votes, run, findings, level)
    counts = [run.told(family) for family in families]
    order = np.argsort([one.p for one in findings], kind="stable")
    return Audit(
        tuple(findings[i] for i in order), (*counts, *unasked, *_counted_checks(votes)), level
    )


@dataclass(frozen=True, eq=False)
class _Columns:
    """Where what the model does not know of its votes is from."""

    duels: Duels
    battles: Any
    votes: int

    def values(self, label: str, column: Any) -> Any:
        """(t,) what a column says of each vote; None for no column.

        :raises ValueError: no such column, or one of another length.
        """
        if column is None:
            return None
        if not isinstance(column, str):
            check_shape(label, column, self.votes, hint=", one for each vote")
            return np.asarray(column)
        labels = self.duels.events.labels
        if self.battles is not None and column in self.battles.columns:
            values = self.battles[column].to_numpy()
            hint = ", one for each vote that the model was fitted to"
            check_shape(f"The column {column} of battles", values, self.votes, hint=hint)
            return values
        if column in labels:
            return labels[column].take(self.duels.rows_given).labels
        known = [*([] if self.battles is None else self.battles.columns), *labels]
        check_choice(label, column, map(str, known), " (battles=)")
        return None

    def labels(self, label: str, column: Any) -> Codes | None:
        """The same as labels; None for no column."""
        values = self.values(label, column)
        return None if values is None else Codes.of([str(value) for value in values.tolist()])

    def years(self, column: Any) -> FloatArray | None:
        """(t,) dates in years; None for undated votes."""
        if column is None:
            days = self.duels.times
            return None if days is None else days[self.duels.rows_given] / DAYS_A_YEAR
        return days_of(self.values("date", column), self.votes) / DAYS_A_YEAR


def _side_of(votes: Votes, side: str | None) -> int | None:
    """The place of the covariate of the side; None where there is none."""
    if side is not None:
        check_choice("side", side, votes.covariate_names)
        return votes.covariate_names.index(side)
    size = np.abs(votes.covariates)
    same = np.all(size == size[:1], 0)
    return int(np.flatnonzero(same)[0]) if same.any() else None


def _families(
    votes: Votes,
    columns: _Columns,
    date: Any,
    category: Any,
    by: Any,
    side: str | None,
    rng: np.random.Generator,
) -> tuple[list[Family], list[LookedAt]]:
    """What can be asked, and what cannot, with the reason."""
    place = _side_of(votes, side)
    styles = [i for i in range(len(votes.covariate_names)) if i != place]
    families: list[Family] = []
    unasked: list[LookedAt] = []

    def cannot(what: str, reason: str) -> None:
        unasked.append(LookedAt(what, 0, None, f"{NOT_ASKED}: {reason}"))

    if place is None:
        cannot("side", "no covariate says which side was shown first")
    else:
        families.append(Fitted(votes, "side", [place]))
    if styles:
        families.append(Fitted(votes, "style", styles))
    else:
        cannot("style", "the board has no covariate of style")
    kinds = columns.labels("by", by)
    if kinds is None:
        cannot("side by kind of judge", "no column says of what kind the judges are (by=)")
    elif len(kinds.names) < 2 or not votes.covariate_names:
        cannot("side by kind of judge", "there is one kind of judge, or no covariate")
    else:
        families.append(ByKind(votes, kinds, range(len(votes.covariate_names))))
    families += _of_judges(votes, place, cannot)
    years = columns.years(date)
    if years is None:
        cannot("drift", "the votes are not dated (date=)")
    elif np.ptp(years) == 0.0:
        cannot("drift", "all votes are of one day")
    else:
        families.append(Drifts(votes, years))
    categories = columns.labels("category", category)
    in_board = len(votes.model_of_row) > len(votes.names)
    if categories is None:
        cannot("category", "no column says of which category the votes are (category=)")
    elif len(categories.names) < 2:
        cannot("category", "there is one category")
    elif in_board:
        cannot("category", "the board has utilities by context: rank each by itself")
    else:
        families.append(Categories(votes, categories))
    pairs = Pairs.of(votes)
    circles = Circles(votes, pairs)
    if circles.count:
        families.append(circles)
    else:
        cannot("circle", "no three models met one another")
    if votes.margin is None:
        cannot("duplicate", "there are no ties")
    else:
        families.append(Duplicates(votes, pairs, rng))
    if votes.judge is None and categories is None:
        cannot("left out", "nobody knows who judged, or in which category")
    else:
        families.append(LeftOut(votes, votes.judge, categories))
    return families, unasked


def _of_judges(votes: Votes, place: int | None, cannot: Any) -> list[Family]:
    families: list[Family] = [Leans(votes, lean, True) for lean in votes.leans]
    judge = votes.judge
    if judge is None:
        for what in ("lean", "careless", "tie", "reversed"):
            cannot(what, "nobody knows who judged")
        return families
    if len(judge.names) < 2:
        for what in ("lean", "careless", "tie", "reversed"):
            cannot(what, "there is one judge")
        return families
    known = any(
        lean.covariate == place and np.array_equal(lean.labels.numbers, judge.numbers)
        for lean in votes.leans
    )
    if place is None:
        cannot("lean", "no covariate says which side was shown first")
    elif not known:
        own = LeanOfVotes(place, "judge", judge, np.inf)
        families.append(Leans(votes, own, False))
    families.append(Noises(votes))
    if votes.margin is None:
        cannot("tie", "there are no ties")
    else:
        families.append(Margins(votes))
    return [*families, Reversals(votes)]


def discoveries(p: FloatArray, level: float) -> IntArray:
    """Which of p (k,) are discoveries at a level (Benjamini & Hochberg 1995); NaN are no tests."""
    asked = np.flatnonzero(np.isfinite(p))
    order = asked[np.argsort(p[asked], kind="stable")]
    below = p[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1)
    last = np.flatnonzero(below)
    return order[: last[-1] + 1] if len(last) else order[:0]


class _Run:
    """Asks all families, settles the strongest finding, and asks again until none is left."""

    def __init__(self, votes: Votes, families: Sequence[Family]) -> None:
        self.families, self.board = families, Board.of(votes)
        judges = 0 if votes.judge is None else len(votes.judge.names)
        self._own_noise, self._own_margin = (np.zeros(judges, dtype=bool) for _ in range(2))
        self.tests: dict[Family, int] = {}
        self.settled: list[tuple[Family, int]] = []
        self.columns: list[sparse.csr_array | None] = []
        self.signs: list[float] = []

    def findings(self, level: float) -> list[Finding]:
        """All, in the order in which they were settled."""
        found: list[Finding] = []
        while True:
            now = Round(self.board, self._own_noise, self._own_margin)
            for family in self.families:
                family.ask(now)
                if family not in self.tests:
                    self.tests[family] = int(np.isfinite(family.p).sum())
            strongest = self._strongest()
            if strongest is None:
                return found
            family, tests = strongest
            for test in tests if family.at_once else tests[:1]:
                found.append(_finding(family, test, level))
                self._settle(family, test)

    def _strongest(self) -> tuple[Family, list[int]] | None:
        """The family with the strongest finding, and its discoveries, strongest first."""
        level = FALSE / self.asked
        found = {family: discoveries(family.p, level).tolist() for family in self.families}
        noisy = [test for family in found if type(family) is Noises for test in found[family]]
        best: tuple[float, Family, list[int]] | None = None
        for family, tests in found.items():
            if isinstance(family, Reversals):
                # Of noisy judges alone, of which a clean board has none: no share of the level.
                some = np.full(len(family.p), np.nan)
                some[noisy] = family.p[noisy]
                if reversed_ones := discoveries(some, level).tolist():
                    return family, reversed_ones  # whose noise and leans are shadows of it
            elif tests:
                adjusted = float(family.p[tests[0]]) * int(np.isfinite(family.p).sum())
                if best is None or adjusted < best[0]:
                    best = adjusted, family, tests
        return None if best is None else best[1:]

    @property
    def asked(self) -> int:
        """Over how many families the level is shared."""
        some = [family for family, tests in self.tests.items() if tests]
        return max(sum(not isinstance(family, Reversals) for family in some), 1)

    def _settle(self, family: Family, test: int) -> None:
        self.columns.append(family.column(self.board, test))
        self.signs.append(family.sign(test))
        self.settled.append((family, test))
        self.board = family.settle(self.board, test)
        family.settled.add(test)
        if isinstance(family, Reversals):
            for other in self.families:
                if isinstance(other, LeftOut):
                    other.settled.update(
                        each for each, judge in other.tests_of_judges if judge == test
                    )
                elif other.of_judges:
                    other.settled.add(test)
        elif isinstance(family, Margins):
            self._own_margin[test] = True
        elif isinstance(family, Noises):
            self._own_noise[test] = True

    def told(self, family: Family) -> LookedAt:
        """What came of a family."""
        tests = self.tests[family]
        found = sum(each is family for each, _ in self.settled)
        if not tests:
            reason = f"{NOT_ASKED}: nothing has {FEWEST_VOTES} votes"
            return LookedAt(family.what, 0, None, reason)
        return LookedAt(family.what, tests, found, "" if found else CLEAN)


def _finding(family: Family, test: int, level: float) -> Finding:
    size = family.size(test, level)
    how = FITTED if isinstance(family, Fitted) else ONE_STEP
    if isinstance(family, Duplicates | Reversals):
        how = COUNTED
    p, advice = float(family.p[test]), family.advice(test)
    ends = size.lower, size.upper
    return Finding(family.kind, family.about(test), size.value, ends, p, advice, size.unit, how)


def _refitted(
    model: Any, votes: Votes, run: _Run, findings: Sequence[Finding], level: float
) -> list[Finding]:
    """Findings, of which the strongest that are columns have their size in a board with these."""
    order = np.argsort([one.p for one in findings], kind="stable").tolist()
    chosen = [i for i in order if run.columns[i] is not None][:MOST_REFITTED]
    if not chosen:
        return list(findings)
    names = [f"{findings[i].kind}: {findings[i].about}" for i in chosen]
    columns = np.concatenate([run.columns[i].toarray() for i in chosen], 1)
    known = with_columns(model, votes, columns, names).coefficients(level)
    refitted = list(findings)
    for i, name in zip(chosen, names, strict=True):
        family, test = run.settled[i]
        weights = np.zeros(len(known.names))
        weights[known.names.index(name)] = run.signs[i]
        if (beside := family.beside(test)) is not None:
            covariate, by, label = beside
            called = f"{covariate} of {label}", f"{covariate} of {by} {label}"
            weights[next(k for k, name in enumerate(known.names) if name in called)] = 1.0
        sd = np.sqrt(weights @ known.covariance @ weights)
        size = Size.normal(float(weights @ known.mean), float(sd), level, findings[i].unit)
        refitted[i] = replace(
            findings[i], size=size.value, interval=(size.lower, size.upper), how=REFITTED
        )
    return refitted


def with_columns(model: Any, votes: Votes, columns: FloatArray, names: Sequence[str]) -> Any:
    """The model with covariates more, inference run from the sites of the model.

    :param columns: (t, k), winner less loser, in the order of the votes.
    """
    duels, graph = model.duels, model.graph
    given = duels.given
    # Which of two that tied comes first is not the same for all.
    first = votes.row_of_item[given.pairs[:, 0]]
    values = np.where(first == votes.ahead, 1.0, -1.0)[:, None] * columns
    before = given.covariate_differences
    values = values if before is None else np.concatenate([before, values], 1)
    said = given.with_differences(values, (*duels.covariate_names, *names))
    made = replace_answers(model, Duels.from_events(duels.known, said))
    sites, site = [], made.graph.event_of_duel
    for one in model.inference.sites():
        start = np.zeros(made.graph.num_sites)
        start[site] = one[graph.event_of_duel]
        sites.append(start)
    made.inference.start_from(*sites)
    return made


def _counted_checks(votes: Votes) -> list[LookedAt]:
    """What is counted and not tested."""
    names, ends = votes.names, votes.pairs[0]
    n, counts = len(names), votes.counts
    met = sparse.coo_array((np.ones(len(ends)), tuple(ends.T)), (n, n))
    _, group = connected_components(met, directed=False)
    winner, loser = votes.model_of_row[votes.ahead], votes.model_of_row[votes.behind]
    decided = counts * ~votes.tied
    wins, losses = (np.bincount(side, decided, n) for side in (winner, loser))
    battles = np.bincount(ends.reshape(-1), np.repeat(counts, 2), n)
    known = np.unique(group, return_counts=True)[1]
    alone = [name for name, k in zip(names, group, strict=True) if k != np.argmax(known)]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(spelling(str(name)), []).append(str(name))
    spelt = [" and ".join(found) for found in alike.values() if len(found) > 1]

    def of_models(which: Any) -> list[str]:
        return [str(names[i]) for i in np.flatnonzero(which)]

    listed = [
        ("battles link all models", alone, "the prior alone compares with the others: "),
        ("models that won a battle", of_models(wins == 0), "never won: "),
        ("models that lost a battle", of_models(losses == 0), "never lost: "),
        (f"models with {FEWEST_VOTES} battles", of_models(battles < FEWEST_VOTES), "fewer: "),
        ("names of models that look alike", spelt, "perhaps one model: "),
    ]
    return [
        LookedAt(what, 0, len(some), said + some_of(list(map(str, some))) if some else CLEAN)
        for what, some, said in listed
    ]
