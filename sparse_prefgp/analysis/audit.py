"""What bends a board of battles between models that judges judged: findings, and what is clean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from sparse_prefgp.analysis.audit_columns import (
    ByKind,
    Categories,
    CategoriesOfBoard,
    Circles,
    Drifts,
    Leans,
    label_of_row,
)
from sparse_prefgp.analysis.audit_families import (
    FEWEST_VOTES,
    Duplicates,
    Family,
    Fitted,
    LeftOut,
    Pairs,
    Round,
)
from sparse_prefgp.analysis.audit_judges import Margins, Noises, Reversals, TieAll
from sparse_prefgp.analysis.audit_result import CLEAN, DECIDING, NOT_ASKED, Audit, LookedAt
from sparse_prefgp.analysis.audit_run import AuditRun, refitted
from sparse_prefgp.analysis.board_votes import LeanOfVotes, Votes
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import NoCommonNoise
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.slices import DAYS_A_YEAR, days_of
from sparse_prefgp.support.arrays import BoolArray, FloatArray
from sparse_prefgp.support.checks import check_choice, check_shape, level_of_interval
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import shortened, some_of, spelling


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
    The board without some votes is asked last, once nothing else is left.
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
    first = Round(Board.of(votes), *_own(votes))
    families, unasked = _families(first, columns, date, category, by, side, rng)
    run = AuditRun(first, families)
    findings = refitted(model.at_mode, votes, run, run.findings(level), level)
    counts = [run.told(family) for family in families]
    strongest_first = tuple(sorted(findings, key=lambda one: one.p))
    looked_at = (*counts, *unasked, *_counted_checks(votes))
    return Audit(strongest_first, looked_at, level, model.at_mode is not model)


def _own(votes: Votes) -> tuple[BoolArray, BoolArray]:
    """The judges who have no part in the common noise, and in the common margin, (J,) each: of the
    margin those who called many things a tie, and nothing else, which has no likeliest value."""
    if votes.judge is None:
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    size = len(votes.judge.names)
    many = np.bincount(votes.judge.numbers, votes.counts, size) >= FEWEST_VOTES
    return np.zeros(size, dtype=bool), many & votes.tie_all


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
            return labels[column].take(self.duels.merged.rows).labels
        known = [*([] if self.battles is None else self.battles.columns), *labels]
        check_choice(label, column, map(str, known), " (battles=)")
        return None

    def labels(self, label: str, column: Any) -> Codes | None:
        """The same as labels; None for no column."""
        values = self.values(label, column)
        if values is None:
            return None
        codes = Codes.of([str(value) for value in values.tolist()])
        return codes._replace(numbers=codes.numbers.astype(np.int64))

    def years(self, column: Any) -> FloatArray | None:
        """(t,) dates in years; None for undated votes."""
        if column is None:
            days = self.duels.times
            return None if days is None else days[self.duels.merged.rows] / DAYS_A_YEAR
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
    first: Round,
    columns: _Columns,
    date: Any,
    category: Any,
    by: Any,
    side: str | None,
    rng: np.random.Generator,
) -> tuple[list[Family], list[LookedAt]]:
    """What can be asked, and what cannot, with the reason."""
    votes = first.board.votes
    place = _side_of(votes, side)
    styles = [i for i in range(len(votes.covariate_names)) if i != place]
    families: list[Family] = []
    unasked: list[LookedAt] = []

    def cannot(what: str, reason: str) -> None:
        unasked.append(LookedAt(what, 0, None, f"{NOT_ASKED}: {reason}"))

    if place is None:
        cannot("side", "no covariate says which side was shown first")
    else:
        both = "Show each pair both ways round; the board compares at equal side."
        families.append(Fitted(votes, "side", both, [place]))
    if styles:
        as_it_is = "Read the board at equal {}, as it stands."
        families.append(Fitted(votes, "style", as_it_is, styles))
    else:
        cannot("style", "the board has no covariate of style")
    kinds = columns.labels("by", by)
    if kinds is not None:
        _check_kinds(votes, kinds, place)
    if kinds is None:
        cannot("side by kind", "no column of kinds, such as those of judges (by=)")
    elif len(kinds.names) < 2 or not votes.covariate_names:
        cannot("side by kind", "there is one kind, or no covariate")
    else:
        families.append(ByKind(votes, kinds))
    families += _of_judges(first, place, cannot)
    if not any(isinstance(family, TieAll) for family in families):
        unasked += _tie_all(votes)
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
    elif not in_board:
        families.append(Categories(votes, categories))
    elif (of_row := label_of_row(votes, categories)) is None:
        cannot("category", "the board has utilities by another context: rank each by itself")
    else:
        families.append(CategoriesOfBoard(votes, categories, of_row))
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
    groups = [codes for codes in (votes.judge, categories) if codes is not None]
    if not groups:
        cannot("left out", "nobody knows who judged, or in which category")
    elif all(len(codes.names) < 2 for codes in groups):
        cannot("left out", "all votes are of one judge or one category")
    else:
        families.append(LeftOut(votes, votes.judge, categories))
    return families, unasked


def _check_kinds(votes: Votes, kinds: Codes, place: int | None) -> None:
    """Refuse kinds that say who met or who won: of them nothing can be asked.

    :param place: of the covariate of the side; None where there is none.
    :raises ValueError: they do.
    """
    labels, says = {*map(str, kinds.names)}, ""
    if labels <= {*map(str, votes.names)}:
        says = "names models"
    elif place is not None:
        first = np.where(votes.tied, 0.0, np.sign(votes.covariates[:, place]))
        verdicts = {*zip(kinds.numbers.tolist(), first.tolist(), strict=True)}
        if len(verdicts) == len(labels) > 1 and len({*first.tolist()}) > 1:
            says = "says who won"
    if says:
        raise ValueError(
            f"by {says}, such as {shortened(kinds.names[0])}; give a column that is known before a "
            "vote is cast, such as the kind of its judge."
        )


def _of_judges(first: Round, place: int | None, cannot: Any) -> list[Family]:
    votes = first.board.votes
    judge = votes.judge
    several = [lean for lean in votes.leans if len(lean.labels.names) > 1]
    families: list[Family] = [Leans(votes, lean, True) for lean in several]
    if judge is None or len(judge.names) < 2:
        for what in ("lean", "careless", "tie", "reversed"):
            cannot(what, "nobody knows who judged" if judge is None else "there is one judge")
        return families
    if place is None:
        cannot("lean", "no covariate says which side was shown first")
    elif not any(lean.covariate == place and lean.of_judges for lean in votes.leans):
        own = LeanOfVotes(place, "judge", judge, np.inf, True)
        families.append(Leans(votes, own, False))
    try:
        _ = first.common
    except NoCommonNoise:
        for what in ("careless", "tie", "reversed"):
            cannot(what, "the votes tell no common noise and margin of the judges")
        return families
    of_each = [Noises(judge, votes.margin is not None)]
    if votes.margin is None:
        cannot("tie", "there are no ties")
    else:
        of_each.append(Margins(judge, True))
    for family in of_each:  # of ties alone neither is known
        family.settled |= {*np.flatnonzero(first.own_margin).tolist()}
    tie_all = [TieAll(judge, votes.tie_all)] * bool(votes.tie_all.any())
    return [*families, *of_each, *tie_all, Reversals(judge)]


def _tie_all(votes: Votes) -> list[LookedAt]:
    """Judges who called everything a tie, where nobody else says how rare that is."""
    if votes.judge is None or not votes.tie_all.any():
        return []
    names = [str(votes.judge.names[i]) for i in np.flatnonzero(votes.tie_all)]
    return [LookedAt(DECIDING, 0, len(names), f"called everything a tie: {some_of(names)}")]


def _counted_checks(votes: Votes) -> list[LookedAt]:
    """What is counted and not tested."""
    names, ends, counts = votes.names, votes.of_models, votes.counts
    _, group = connected_components(abs(ends).T @ abs(ends), directed=False)
    wins, losses = ((sign * ends > 0.0).T @ (counts * ~votes.tied) for sign in (1.0, -1.0))
    battles = abs(ends).T @ counts
    alone = group != np.argmax(np.bincount(group))
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(spelling(str(name)), []).append(str(name))
    spelt = [" and ".join(found) for found in alike.values() if len(found) > 1]

    def of_models(which: Any) -> list[str]:
        return [str(names[i]) for i in np.flatnonzero(which)]

    enough = f"models with {FEWEST_VOTES} battles or more"
    listed: list[tuple[str, list[str], str]] = [
        ("battles link all models", of_models(alone), "the prior alone compares with the others: "),
        ("models that won a battle", of_models(wins == 0), "never won: "),
        ("models that lost a battle", of_models(losses == 0), "never lost: "),
        (enough, of_models(battles < FEWEST_VOTES), "fewer: "),
        ("names of models that look alike", spelt, "perhaps one model: "),
    ]
    return [
        LookedAt(what, 0, len(some), said + some_of(some) if some else CLEAN)
        for what, some, said in listed
    ]
