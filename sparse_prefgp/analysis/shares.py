"""Shares of new sets: how many would choose each alternative, and how well that is known.

For utilities that are known, an alternative's share is an integral over its noise; a posterior of
utilities is a posterior of shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.analysis.answers import load_sets, shown_sets
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.factors.choice_probabilities import (
    choice_log_probabilities,
    independent_choice_log_probabilities,
)
from sparse_prefgp.factors.orthants import sobol_points
from sparse_prefgp.io.answers import NONE
from sparse_prefgp.io.files import ITEM_ID
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.sets import CHOICE_SET, OPTIONS
from sparse_prefgp.models.choosing import judge_numbers, look_noise, set_posterior
from sparse_prefgp.models.posterior import SetPosterior
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.models.questions import as_known
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import level_of_interval, whole_number
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.normals import allotted
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import id_text
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, chance, first_of, records

DRAWS = 2000
ADDED = ("share", "lower", "upper", "sd")
OVER_PEOPLE = ("people_lower", "people_upper")
# Of the integral over tastes, by separation of variables: within some 0.001.
_POINTS = 128
# Sets times draws times alternatives, at a time.
_AT_ONCE = 200_000
# The same, of draws that are kept at a time, and how many arrays of them there are.
_NUMBERS_AT_ONCE, _ARRAYS_OF_DRAWS = 2**23, 4


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Result):
    """Shares of the alternatives of sets; `print` shows them as text."""

    rows_name = "alternatives"

    frame: Any
    """Data frame with a row for each alternative: what was given of it, and `share`, `lower`,
    `upper` (of the interval: how sure the share is) and `sd`; with tastes also `people_lower` and
    `people_upper`, between which the chances of `level` of the people are."""
    level: float
    """What share of the posterior the intervals hold."""
    draws: int
    """Of the posterior; the shares err by `sd / sqrt(draws)`."""
    sets: tuple[int, ...]
    """(rows,) the number of the set of each row."""

    def table(self, most: int | None = None) -> Table:
        """The alternatives, or the first of them."""
        return described_table("shares", self.frame, (*ADDED[:3], *OVER_PEOPLE), most, ADDED[3:])

    def sentences(self) -> list[str]:
        """What the numbers are, in words."""
        what = f"{100 * self.level:g} %"
        text = f"Shares with their {what} intervals, from {self.draws:,} draws of the utilities."
        if OVER_PEOPLE[0] in self.frame:
            text += (
                f" These say how sure the share among all people is; the chances of {what} of the "
                f"people are between {OVER_PEOPLE[0]} and {OVER_PEOPLE[1]}."
            )
        return [text]


def shares(
    model: Predicts,
    alternatives: Any,
    items: Any = None,
    *,
    level: float = 0.9,
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
    columns: Columns = None,
) -> Shares:
    """How many would choose each alternative of sets that nobody needs to have seen.

    Each of `draws` posterior draws of the utilities of a set gives the shares of its alternatives
    by one integral each (Train 2009, section 5.6): their mean is the share, their quantiles are the
    interval. "None of these" is an alternative like others. What the model has learned of noise is
    taken as it is.

    With tastes, and where nobody is named, the utilities that are drawn are those that all share,
    and a draw's shares are averages over tastes: the interval is that of the mean share. How far
    the chances of people are apart is another thing: their quantiles, each of a person of whom
    nothing is known, are columns of their own.

    :param model: of choices, or of duels.
    :param alternatives: path or data frame with a row for each alternative: ids (`item_id`) or
        features, in one set, or in those that a column `choice_set` names; or columns `option_1`,
        `option_2`, …; or a list of ids, one set; or an array (k, D) or (sets, k, D) of features in
        the units of `model.duels.items`.
    :param items: raw items, as `predict` takes them.
    :param level: of the intervals.
    :param draws: how many.
    :param rng: draws them; by default a generator with seed 0.
    :param columns: those that are called otherwise than in training, as for `evaluate`. Where
        nothing says who chooses, shares are averaged over the prior of a group's noise.
    :return: The alternatives, their shares and intervals.
    :raises ValueError: a set of one alternative, `draws` below 2, a level outside (0, 1), columns
        named like those that are added, and what `predict` raises.
    """
    level = level_of_interval(level)
    draws = whole_number("draws", draws, 2)
    rng = generator(rng)
    if isinstance(alternatives, np.ndarray) and alternatives.dtype.kind in "fiu":
        return _of_array(model, np.asarray(alternatives, np.float64), level, draws, rng)
    if isinstance(alternatives, Sequence) and not isinstance(alternatives, str):
        alternatives = require_pandas().DataFrame({ITEM_ID: list(alternatives)})
    table = load_sets(model, alternatives, "alternatives")
    table.refuse_added((*ADDED, *OVER_PEOPLE))
    table.refuse_empty("alternatives")
    wide = Header(table.frame.columns).numbered(*OPTIONS)
    if not wide and CHOICE_SET not in table.frame.columns and len(table.frame) < 2:
        raise ValueError(
            f"There is one alternative in {table.name}, which everybody chooses; give two or more."
        )
    found = shown_sets(model, table, items, columns, how={"unsaid": ("judge", "person")})
    added = _columns(model, found.items.inputs, found.events, level, draws, rng)
    frame = found.table.assign(**{name: found.in_rows(v) for name, v in added.items()})
    event = found.events.event_of_side
    number = np.empty(len(event), np.int64)
    number[found.place] = event
    return Shares(frame, level, draws, tuple(number.tolist()))


def _of_array(
    model: Predicts, x: FloatArray, level: float, draws: int, rng: np.random.Generator
) -> Shares:
    if x.ndim == 2:
        x = x[None]
    if x.ndim != 3 or x.shape[1] < 2 or not len(x):
        raise ValueError(
            f"alternatives has shape {x.shape}; give (k, D) or (sets, k, D), k of at least 2."
        )
    b, k = x.shape[:2]
    sets = np.arange(0, b * k + 1, k)
    events = Answers(np.arange(b * k), sets, kind=np.full(b, CHOICE, np.int8))
    found = _columns(model, x.reshape(b * k, -1), events, level, draws, rng)
    which, number = np.divmod(np.arange(b * k), k)
    frame = require_pandas().DataFrame({"set": which, "alternative": number})
    frame = frame.assign(**{name: v.reshape(-1) for name, v in found.items()})
    return Shares(frame, level, draws, tuple(which.tolist()))


def _columns(
    model: Predicts,
    inputs: FloatArray,
    events: Answers,
    level: float,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, FloatArray]:
    """What is added to the alternatives, (b, k) each."""
    events, mixture = as_known(model, events), model.mixture
    parts = [
        (set_posterior(point, inputs, events), look_noise(point, judge_numbers(events)))
        for point in mixture.points
    ]
    k = parts[0][0].mean.shape[1]
    ask(
        _ARRAYS_OF_DRAWS * 8 * draws * k,
        f"{draws:,} draws of {k:,} alternatives",
        "ask for fewer draws (--draws)",
    )
    # The same draws for each set: what else is in the table changes nothing.
    normal = rng.standard_normal((k, draws)).T
    normals = np.split(normal, np.cumsum(allotted(mixture.weights, draws))[:-1])
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    nobody = np.full(len(events), model.terms.taste is not None and model.view.of_nobody)
    if events.person is not None:
        nobody &= events.person.numbers < 0
    of_all, names = [sets for sets, _ in parts], [*ADDED]
    if nobody.any():
        shared = model.consensus().mixture.points
        of_all = [set_posterior(point, inputs, events) for point in shared]
        names += [*OVER_PEOPLE]

    def drawn(some: IntArray, shared: bool) -> FloatArray:
        """Shares of some sets, for one utility or over tastes about what all share."""
        each = []
        for (sets, noise), one, own in zip(parts, of_all, normals, strict=True):
            tastes = sets.covariance[some] - one.covariance[some] if shared else None
            whose = (noise[0][:, some], noise[1][:, some])
            each.append(_drawn((one if shared else sets).take(some), whose, own, tastes))
        return np.concatenate(each)

    def of(some: IntArray) -> FloatArray:
        each = drawn(some, False)
        ends = np.quantile(each, tails, axis=0)
        over_people = np.where(nobody[some, None], ends, np.nan)
        here = some[nobody[some]]
        if len(here):
            each[:, nobody[some]] = drawn(here, True)
            ends = np.quantile(each, tails, axis=0)
        return np.stack([each.mean(0), *ends, each.std(0, ddof=1), *over_people])

    step = max(1, _NUMBERS_AT_ONCE // (draws * k))
    every = np.arange(len(events))
    found = np.concatenate([of(every[i : i + step]) for i in range(0, len(every), step)], 1)
    return dict(zip(names, found[: len(names)], strict=True))


def _drawn(
    sets: SetPosterior,
    noises: tuple[FloatArray, FloatArray],
    normal: FloatArray,
    tastes: FloatArray | None = None,
) -> FloatArray:
    """Shares of each alternative by draw, (draws, b, k).

    :param noises: variances and their weights, (K, b) each.
    :param normal: (draws, k), standard ones.
    :param tastes: (b, k, k), covariances of what each draw's shares are averaged over besides.
    """
    b, k = sets.mean.shape
    values, vectors = np.linalg.eigh(sets.covariance)
    # What is below 0 is rounding: a covariance of differences has at least one value of 0.
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    root = scaled @ vectors.transpose(0, 2, 1)  # the symmetric one, whatever stands beside it
    draws = len(normal)
    found = np.empty((draws, b, k))
    points = None
    if tastes is not None:
        points = sobol_points(_POINTS, k - 1, np.random.default_rng(0))
    step = max(1, _AT_ONCE // (b * k * (1 if points is None else len(points))))
    for start in range(0, draws, step):
        number = min(step, draws - start)
        z = normal[start : start + number]
        f = (sets.mean + np.einsum("bij,dj->dbi", root, z)).reshape(-1, k)
        mask = np.broadcast_to(sets.mask, (number, b, k)).reshape(-1, k)
        total = np.zeros((number, b, k))
        for each, weight in zip(*noises, strict=True):
            s = np.broadcast_to(each, (number, b)).reshape(-1)
            if tastes is None:
                shares = np.exp(independent_choice_log_probabilities(f, np.zeros_like(f), s, mask))
            else:
                apart = np.broadcast_to(tastes, (number, b, k, k)).reshape(-1, k, k)
                shares = np.exp(choice_log_probabilities(f, apart, s, mask, points))
                shares /= shares.sum(1, keepdims=True)  # as `predict_choice` has it
            total += weight[:, None] * shares.reshape(number, b, k)
        found[start : start + number] = total
    return found


def described_table(
    name: str,
    frame: Any,
    probabilities: Sequence[str],
    most: int | None = None,
    hidden: Sequence[str] = (),
    what: str = "alternatives",
) -> Table:
    """Alternatives and what is known of them: missing cells are empty, and of one of which nothing
    is said the first is `none`.

    :param probabilities: columns of the data frame that hold them.
    :param most: rows; None for all.
    :param hidden: columns that are not shown.
    """
    shown = frame.iloc[:most]
    others = [one for one in frame.columns if one not in (*probabilities, *hidden)]
    cells = {one: [str(x) if id_text(x) else "" for x in shown[one]] for one in others}
    said = [one for one in others if one not in (CHOICE_SET, NONE)]
    for i in range(len(shown)):
        if said and not any(cells[one][i] for one in said):
            cells[said[0]][i] = NONE
    columns = [
        Column(one, one, left=True, spare=len(others) - place) for place, one in enumerate(others)
    ]
    columns += [Column(one, one, chance) for one in probabilities]
    title = first_of(len(shown), len(frame), what)
    return Table(name, title, columns, records(shown.assign(**cells)))
