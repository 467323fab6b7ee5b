"""An audit in rounds: the strongest finding becomes part of the board, and all is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from sparse_prefgp.analysis.audit_families import (
    FEWEST_VOTES,
    Duplicates,
    Family,
    Fitted,
    LeftOut,
    Round,
    Size,
)
from sparse_prefgp.analysis.audit_judges import Margins, Noises, Reversals
from sparse_prefgp.analysis.audit_result import (
    CLEAN,
    COUNTED,
    FALSE,
    FITTED,
    MOST_REFITTED,
    NOT_ASKED,
    ONE_STEP,
    REFITTED,
    Finding,
    LookedAt,
)
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.verdict_scores import NoCommonNoise
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.support.arrays import FloatArray, IntArray


def discoveries(p: FloatArray, level: float) -> IntArray:
    """Which of p (k,) are discoveries at a level (Benjamini & Hochberg 1995); NaN are no tests."""
    asked = np.flatnonzero(np.isfinite(p))
    order = asked[np.argsort(p[asked], kind="stable")]
    below = p[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1)
    last = np.flatnonzero(below)
    return order[: last[-1] + 1] if len(last) else order[:0]


class AuditRun:
    """Asks all families, settles the strongest finding, and asks again until none is left; what
    votes left out move comes last."""

    def __init__(self, first: Round, families: Sequence[Family]) -> None:
        self.families, self.board, self._first = families, first.board, first
        self._own_noise, self._own_margin = first.own_noise.copy(), first.own_margin.copy()
        self.tests: dict[Family, int] = {}
        self.settled: list[tuple[Family, int]] = []
        self.columns: list[sparse.csr_array | None] = []
        self.signs: list[float] = []

    def findings(self, level: float) -> list[Finding]:
        """All, in the order in which they were settled."""
        found: list[Finding] = []
        now = self._first
        # What is wrong of some votes may have a name: that they move the board is asked last.
        by_name = [family for family in self.families if not isinstance(family, LeftOut)]
        unnamed = [family for family in self.families if isinstance(family, LeftOut)]
        while True:
            for families in (by_name, unnamed):
                self._ask(families, now)
                strongest = self._strongest(families)
                if strongest is not None:
                    break
            else:
                return found
            family, tests = strongest
            for test in tests if family.at_once else tests[:1]:
                found.append(_finding(family, test, level))
                self._settle(family, test)
            now = Round(self.board, self._own_noise, self._own_margin)

    def _ask(self, families: Sequence[Family], now: Round) -> None:
        for family in families:
            if isinstance(family, Reversals):  # after those who err more
                family.noisy = self._noisy()
            try:
                family.ask(now)
            except NoCommonNoise:  # of those that are left nothing more can be asked
                family.p = np.full_like(family.p, np.nan)
            if family not in self.tests:
                self.tests[family] = int(np.isfinite(family.p).sum())

    def _noisy(self) -> list[int]:
        """Judges whose noise is a discovery: of a clean board nobody."""
        (noises,) = (family for family in self.families if type(family) is Noises)
        return discoveries(noises.p, FALSE / self.asked).tolist()

    def _strongest(self, families: Sequence[Family]) -> tuple[Family, list[int]] | None:
        """The family with the strongest finding, and its discoveries, strongest first."""
        level = FALSE / self.asked
        found = {family: discoveries(family.p, level).tolist() for family in families}
        best: tuple[float, Family, list[int]] | None = None
        for family, tests in found.items():
            if isinstance(family, Reversals):
                if tests:
                    return family, tests  # whose noise and leans are shadows of it
            elif tests:
                adjusted = float(family.p[tests[0]]) * int(np.isfinite(family.p).sum())
                if best is None or adjusted < best[0]:
                    best = adjusted, family, tests
        return None if best is None else best[1:]

    @property
    def asked(self) -> int:
        """Over how many families the level is shared: all but reversals, of which a clean board is
        asked nothing."""
        return max(sum(not isinstance(family, Reversals) for family in self.families), 1)

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
        if isinstance(family, Reversals):
            tests = len(family.p)
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


def refitted(
    model: Any, votes: Votes, run: AuditRun, findings: Sequence[Finding], level: float
) -> list[Finding]:
    """Findings, of which the strongest that are columns have their size in a board with these."""
    order = np.argsort([one.p for one in findings], kind="stable").tolist()
    chosen = [i for i in order if run.columns[i] is not None][:MOST_REFITTED]
    if not chosen:
        return list(findings)
    names = [f"{findings[i].kind}: {findings[i].about}" for i in chosen]
    columns = np.concatenate([run.columns[i].toarray() for i in chosen], 1)
    known = with_columns(model, votes, columns, names).coefficients(level)
    found = list(findings)
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
        found[i] = replace(
            findings[i], size=size.value, interval=(size.lower, size.upper), how=REFITTED
        )
    return found


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
