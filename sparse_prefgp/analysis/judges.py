"""Judges: how noisy each is, what he calls a tie, where he leans, and whether the others agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import ends_of_share
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.models.likelihood import usual
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import level_of_interval
from sparse_prefgp.support.words import agreeing, and_so, counted, of_the_mode
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import MISSING, Column, Table, ends_in, flag, records

# A judge whose votes are as rare as that among those of a coin is told to reverse, over all judges.
REVERSED_BELOW = 0.01
_NAMED = 5


_INTERVALS = ("noise", "margin", "lean", "agreement")
COLUMNS = (
    Column("judge", "judge", str, left=True),
    Column("votes", "votes", ","),
    Column("noise", "noise", "z.2f"),
    Column("noise_interval", "noise interval", ends_in("z.2f"), spare=5),
    Column("margin", "margin", "z.2f"),
    Column("margin_interval", "margin interval", ends_in("z.2f"), spare=3),
    Column("lean", "lean", "z.2f"),
    Column("lean_interval", "lean interval", ends_in("z.2f"), spare=4),
    Column("agreement", "agrees", "z.2f"),
    Column("agreement_interval", "interval", ends_in("z.2f"), spare=6),
    Column("expected", "expected", "z.2f", spare=7),
    Column("reversed", "reversed", flag),
)


@dataclass(frozen=True, eq=False, repr=False)
class Judges(Result):
    """Those of a model, the busiest first."""

    rows_name = "judges"

    frame: Any
    """Data frame, a row for each: `judge`, `votes`, `noise` (variance of the noise, times that of
    the usual judge: the geometric mean of all by votes), `margin` (the same of the margin of ties;
    NaN without), `lean` (to the side of more of the covariate beyond that of all, in utility; NaN
    without), `decided` (votes that are no ties), `agreement` (the share of them that names the side
    which all other judges' votes call the better one), `expected` (what his noise lets expect of
    it), `reversed`; and `_lower` and `_upper` of each of `noise`, `margin`, `lean` and `agreement`.
    """
    level: float
    """Of the intervals."""
    lean_by: str = ""
    """The covariate by which judges lean; empty where they do not."""
    at_mode: bool = False
    """Whether hyperparameters are the most likely ones, though the model integrates over them."""

    def table(self, most: int | None = None) -> Table:
        """The judges, or the busiest of them."""
        shown = self.frame if most is None else self.frame.head(most)
        silent = set() if shown["reversed"].any() else {"reversed"}
        for name in ("margin", "lean"):
            if self.frame[name].isna().all():
                silent |= {name, f"{name}_interval"}
        ends = {
            f"{name}_interval": [*zip(shown[f"{name}_lower"], shown[f"{name}_upper"], strict=True)]
            for name in _INTERVALS
        }
        columns = [column for column in COLUMNS if column.key not in silent]
        of = "" if len(shown) == len(self.frame) else f", the first {len(shown):,}"
        title = f"{counted(len(self.frame), 'judge')}{of}"
        return Table("judges", title, columns, records(shown.assign(**ends)))

    def sentences(self) -> list[str]:
        """What the columns are, and whose votes seem reversed."""
        lean = ""
        if self.lean_by:
            where = "first side" if self.lean_by == SIDE else f"side of more {self.lean_by}"
            lean = f"lean: to the {where} beyond that of all, in utility; "
        text = [
            "Noise (above 1: more than usual, and the audit says of whom that is no luck) and "
            "margin of ties: times those of the usual judge, the geometric mean by votes; "
            f"{lean}agrees: the share of decided votes for the side that the votes of all others "
            "call the better one, next to what the noise lets expect; intervals hold "
            f"{100 * self.level:g} %."
        ]
        if self.at_mode:
            text.append(of_the_mode("Noise and margin"))
        odd = self.frame.loc[self.frame["reversed"], "judge"].tolist()
        if odd:
            names = and_so([*map(str, odd[:_NAMED]), *([MISSING] if len(odd) > _NAMED else [])])
            text.append(
                f"{counted(len(odd), 'judge')} {agreeing(len(odd), 'seems', 'seem')} to name the "
                f"worse side ({names}); look whether the sides are in the right columns."
            )
        return text


def judges(model: Any, *, level: float = 0.9) -> Judges:
    """What a board has learned of its judges.

    Intervals of noise and margin are by the information of the votes at the cavities of expectation
    propagation, and their prior; those of leans are of the posterior; those of agreement, which is
    `Board.agreement`, are Clopper-Pearson's. A judge is `reversed` where a coin agrees so rarely
    with a probability below 0.01, divided by the number of judges.

    :param model: of a board, with noise by judge.
    :param level: of the intervals.
    :raises ValueError: a level outside (0, 1); a model without noise by judge; what `Votes.of`
        raises.
    """
    level = level_of_interval(level)
    at_mode = model.at_mode
    together.check(one_noise=at_mode.likelihood.noise_ratio is None, judges_apart=True)
    board, names = Board.of(Votes.of(at_mode)), at_mode.duels.group_names
    assert board.votes.judge is not None
    judge, counts = board.votes.judge.numbers, board.votes.counts
    votes = np.bincount(judge, counts, len(names)).astype(np.float64)
    lean_by, leans = _leans(model, level, len(names))
    decided, agreed, expected = np.transpose([*map(board.agreement, range(len(names)))])
    known = np.where(decided > 0.0, decided, np.nan)
    ends = ends_of_share(agreed, decided, level)
    lower, upper = (np.where(decided > 0.0, end, np.nan) for end in ends)
    by_chance = special.bdtr(np.floor(agreed), np.ceil(np.maximum(decided, 1.0)).astype(int), 0.5)
    frame = {
        "judge": [*names],
        "votes": votes.astype(np.int64),
        **_noises(at_mode, board, level, votes),
        **leans,
        "decided": decided,
        "agreement": agreed / known,
        "agreement_lower": lower,
        "agreement_upper": upper,
        "expected": expected,
        "reversed": (decided > 0.0) & (by_chance < REVERSED_BELOW / len(names)),
    }
    table = require_pandas().DataFrame(frame).sort_values("votes", ascending=False, kind="stable")
    return Judges(table.reset_index(drop=True), level, lean_by, at_mode is not model)


def _noises(model: Any, board: Board, level: float, votes: FloatArray) -> dict[str, FloatArray]:
    """Noise and margin of each judge, times those of the usual judge, with intervals."""
    parameters = model.likelihood.noise_ratio, model.likelihood.cut_scale
    judge = board.votes.judge
    assert judge is not None
    information = board.verdicts.informations(board.votes.counts, judge.numbers, len(judge.names))
    for place, parameter in enumerate(parameters):
        if parameter is not None and parameter.prior is not None:
            information[:, place, place] += float(np.asarray(parameter.prior.scale)) ** -2.0
    if parameters[1] is None:
        information = information[:, :1, :1]
    with np.errstate(divide="ignore"):
        covariance = np.linalg.inv(information)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    reach = float(special.ndtri(0.5 + 0.5 * level)) * sd
    found: dict[str, FloatArray] = {}
    far = {"noise": reach[:, 0], "margin": reach[:, -1]}  # which is of no use without margins
    for name, parameter in zip(far, parameters, strict=True):
        values = np.full(len(votes), np.nan) if parameter is None else parameter.numpy()
        values = values / usual(values, votes)
        found |= {name: values, f"{name}_lower": values * np.exp(-far[name])}
        found[f"{name}_upper"] = values * np.exp(far[name])
    return found


def _leans(model: Any, level: float, number: int) -> tuple[str, dict[str, FloatArray]]:
    """By which covariate judges lean, the first if by several, and how far each."""
    judge = model.duels.roles.get("judge")
    own = [one for one in model.terms.effects(model.inputs.columns) if one.by == judge]
    nothing = np.full(number, np.nan)
    if not own:
        return "", dict.fromkeys(("lean", "lean_lower", "lean_upper"), nothing)
    known, effect = model.coefficients(level), own[0]
    place = {name: row for row, name in enumerate(known.names)}
    several = f"{effect.by} " if len(model.terms.labels) > 1 else ""
    rows = [place[f"{effect.covariate} of {several}{name}"] for name in model.duels.group_names]
    lower, upper = known.interval[rows].T
    values = {"lean": known.mean[rows], "lean_lower": lower, "lean_upper": upper}
    return effect.covariate, values
