"""An audit in rounds: the strongest finding becomes part of the board, and all is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from sparse_prefgp.analysis.audit_families import Family, LeftOut, Round, Size
from sparse_prefgp.analysis.audit_judges import Noises, Reversals
from sparse_prefgp.analysis.audit_result import (
    CLEAN,
    FALSE,
    MOST_REFITTED,
    NOT_ASKED,
    NOT_CLEAN,
    REFITTED,
    Finding,
    LookedAt,
)
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.verdict_scores import NoCommonNoise
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.support.arrays import FloatArray, IntArray

REVERSED = Reversals.kind


def discoveries(p: FloatArray, level: float, before: int = 0) -> IntArray:
    """Which of p (k,) are discoveries at a level (Benjamini & Hochberg 1995); NaN are no tests.

    :param before: so many more are discoveries already, and no longer among p.
    """
    asked = np.flatnonzero(np.isfinite(p))
    order = asked[np.argsort(p[asked], kind="stable")]
    rank, tests = before + np.arange(1, len(order) + 1), before + len(order)
    below = p[order] <= level * rank / max(tests, 1)
    last = np.flatnonzero(below)
    return order[: last[-1] + 1] if len(last) else order[:0]


def of_all(p: FloatArray) -> float:
    """The smallest level at which any of p (k,) is a discovery; 1 of no tests."""
    asked = np.sort(p[np.isfinite(p)])
    return float(min(1.0, np.min(asked * len(asked) / np.arange(1, len(asked) + 1), initial=1.0)))


class AuditRun:
    """Asks all families, settles the strongest finding, and asks again until none is left; what
    votes left out move comes last."""

    def __init__(self, first: Round, families: Sequence[Family]) -> None:
        self.families, self._now = families, first
        # All share it but reversals, of which a clean board is asked nothing.
        self._level = FALSE / max(sum(family.kind != REVERSED for family in families), 1)
        self.tests: dict[Family, int] = {}
        self.settled: list[tuple[Family, int, sparse.csr_array | None]] = []
        """Findings with their columns."""

    def findings(self, level: float) -> list[Finding]:
        """All, in the order in which they were settled."""
        found: list[Finding] = []
        # What is wrong of some votes may have a name: that they move the board is asked last.
        unnamed = [family for family in self.families if family.kind == LeftOut.kind]
        by_name = [family for family in self.families if family not in unnamed]
        while True:
            for families in (by_name, unnamed):
                self._ask(families)
                strongest = self._strongest(families)
                if strongest is not None:
                    break
            else:
                return found
            family, tests = strongest
            while tests:
                found.append(family.finding(tests[0], level))
                self._settle(family, tests[0])
                if not family.by_itself:
                    break
                self._ask([family])
                tests = self._discoveries(family)

    def _ask(self, families: Sequence[Family]) -> None:
        for family in families:
            if isinstance(family, Reversals):  # after those who err more: of a clean board nobody
                (noises,) = (one for one in families if one.kind == Noises.kind)
                family.noisy = discoveries(noises.p, self._level).tolist()
            try:
                family.ask(self._now)
            except NoCommonNoise:  # of those that are left nothing more can be asked
                family.p = np.full_like(family.p, np.nan)
            self.tests.setdefault(family, int(np.isfinite(family.p).sum()))

    def _strongest(self, families: Sequence[Family]) -> tuple[Family, list[int]] | None:
        """The family with the strongest finding, and its discoveries, strongest first."""
        found = ((family, self._discoveries(family)) for family in families)

        def weakness(one: tuple[Family, list[int]]) -> tuple[bool, float]:
            family, tests = one
            # Of a reversed judge noise and leans are shadows.
            first = family.kind == REVERSED
            return not first, float(family.p[tests[0]]) * int(np.isfinite(family.p).sum())

        return min((one for one in found if one[1]), key=weakness, default=None)

    def _discoveries(self, family: Family) -> list[int]:
        """Of a family, strongest first, next to those that are settled."""
        before = sum(one is family for one, _, _ in self.settled)
        return discoveries(family.p, self._level, before).tolist()

    def _settle(self, family: Family, test: int) -> None:
        self.settled.append((family, test, family.column(test)))
        self._now = family.settle(self._now, test)
        family.settled.add(test)
        if family.kind == REVERSED:
            for other in self.families:
                other.settled |= other.about_judge(test)

    def told(self, family: Family) -> LookedAt:
        """What came of a family."""
        asked = family
        if family.kind == REVERSED:  # of whose noise is asked it is too, where that is large
            (asked,) = (one for one in self.families if one.kind == Noises.kind)
        tests = self.tests[asked]
        found = sum(one is family for one, _, _ in self.settled)
        if not tests:
            return LookedAt(family.what, 0, None, f"{NOT_ASKED}: {asked.unasked}")
        p = of_all(family.p)
        nothing = CLEAN if p >= NOT_CLEAN else f"no finding (p {p:.1g})"
        return LookedAt(family.what, tests, found, "" if found else nothing)


def refitted(
    model: Any, votes: Votes, run: AuditRun, findings: Sequence[Finding], level: float
) -> list[Finding]:
    """Findings, of which the strongest that are columns have their size in a board with these."""
    order = np.argsort([one.p for one in findings], kind="stable").tolist()
    chosen = [i for i in order if run.settled[i][2] is not None][:MOST_REFITTED]
    if not chosen:
        return list(findings)
    names = [f"{findings[i].kind}: {findings[i].about}" for i in chosen]
    columns = sparse.hstack([run.settled[i][2] for i in chosen]).toarray()
    known = with_columns(model, votes, columns, names).coefficients(level)
    found = list(findings)
    for i, name in zip(chosen, names, strict=True):
        family, test, _ = run.settled[i]
        weights = np.zeros(len(known.names))
        weights[known.names.index(name)] = 1.0
        if (beside := family.beside(test)) is not None:
            covariate, by, label = beside
            called = f"{covariate} of {label}", f"{covariate} of {by} {label}"
            weights[next(k for k, name in enumerate(known.names) if name in called)] = 1.0
        sd = np.sqrt(weights @ known.covariance @ weights)
        size = Size.normal(weights @ known.mean, sd, level)
        found[i] = replace(findings[i], size=size.value, interval=size.ends, how=REFITTED)
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
