"""What scores say: names of predictors, and how they compare, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparse_prefgp.analysis.metrics import (
    AHEAD,
    ELO,
    ELO_AHEAD,
    GAIN_SE,
    ONE_UTILITY,
    SE_OVER,
    WITHOUT_DATES,
)
from sparse_prefgp.support.words import counted
from sparse_prefgp.tell.tables import APART, Column, Table, score_text

PREDICTOR_NAMES = {
    "model": "model",
    ONE_UTILITY: "one utility for all",
    WITHOUT_DATES: "model without dates",
    AHEAD: "model, updating",
    ELO: "Elo",
    ELO_AHEAD: "Elo, updating",
    "linear_probit": "linear probit",
    "bradley_terry": "Bradley–Terry",
    "coin": "coin",
    "constant_shares": "constant shares",
    "conditional_logit": "conditional logit",
    "equal_shares": "equal shares",
}
# Of these a sentence says no "the".
_WITHOUT_ARTICLE = ("equal_shares", "bradley_terry", ONE_UTILITY, ELO, ELO_AHEAD)
# How to read a table of scores, by what was scored.
_LEGENDS = {
    "duels": "accuracy: how often the winner was named. nlp: the surprise at what happened, lower "
    "is better; a coin has 0.6931 nats. brier: lower is better, a coin has 0.25. calibration "
    "error: how far what was stated is from what came true, 0 for a coin, which claims nothing; "
    "lower is better.",
    "choices": "nlp: the surprise at what was chosen, lower is better. hit rate: how often what "
    "was chosen had the largest probability. brier: lower is better. calibration error: how far "
    "what was stated is from what came true, 0 for equal shares, which claim nothing; lower is "
    "better.",
    "answers": "nlp: the surprise at the whole answer, lower is better.",
}
_BY_CHANCE = ("coin", "equal_shares")
# Of the curve of risk and coverage what a narrow table keeps.
_KEPT_SHARES = ("1", "0.8", "0.6", "0.4", "0.2")
SCORES = (
    Column("predictor", "", left=True),
    Column("accuracy", "accuracy", score_text, better=1),
    Column("nlp_nats", "nlp nats", score_text, better=-1),
    Column("nlp_se", "± of it", score_text),
    Column("nlp_bits", "nlp bits", score_text, better=-1, spare=1),
    Column("hit_rate", "hit rate", score_text, better=1),
    Column("tie_rate", "ties", score_text),
    Column("predicted_tie_rate", "ties predicted", score_text),
    Column("tie_calibration_error", "calibration of ties", score_text, better=-1),
    Column("mean_distance", "levels off", score_text, better=-1),
    Column("brier", "brier", score_text, better=-1),
    Column("calibration_error", "calibration error", score_text, better=-1),
    Column("duels", "duels", ","),
    Column("choices", "choices", ","),
    Column("answers", "answers", ","),
)
# What tables of each kind of answer do without.
_LEFT_OUT = {"duels": ["nlp_se"], "choices": ["nlp_bits"], "answers": ["nlp_bits"]}
PARTS = {
    "known_people": "Of these, people with {kind} in training",
    "new_people": "Of these, new people",
}
UNSEEN = "Of these, pairs never compared in training"
# Nats; scores of some thousand duels differ by as much by chance.
LITTLE, _MUCH = 0.01, 0.03
# Standard errors from which on a gain is not taken for luck.
_SURE = 2.0
# Answers from which on a standard error over them says anything.
_FEWEST = 10
# Nats by which a rival that is surely better is named with what takes it.
_BEHIND = 0.003
_TAKEN_BY = {
    "linear_probit": "take --kernel linear",
    "conditional_logit": "take --kernel linear",
    "bradley_terry": "take --kernel item",
    WITHOUT_DATES: "leave --time out",
    ONE_UTILITY: "leave --person out",
}
# Below, four decimals show a 0.
_SHOWN_AS_0 = 5e-5
# A rival that knows of no feature and no covariate is this one, to so many nats.
_KNOWING_NOTHING = {"linear_probit": "coin", "conditional_logit": "equal_shares"}
_WITHIN = 1e-9

Scores = Mapping[str, Mapping[str, Any]]


def knows_nothing(scores: Scores, rival: str) -> bool:
    """Whether a rival does no better than chance because there is nothing that it could know.

    :param scores: as by `score`, by predictor.
    """
    one, other = scores.get(rival), scores.get(_KNOWING_NOTHING.get(rival, ""))
    if not one or not other or one.get("nlp_nats") is None:
        return False
    return bool(abs(one["nlp_nats"] - other["nlp_nats"]) <= _WITHIN)


def rivals_in(scores: Scores) -> list[str]:
    """What a model is compared with in sentences: chance, what is linear in the features, Bradley
    and Terry where there are none, and Elo where duels have dates; none that knows nothing."""
    rivals = (*_BY_CHANCE, *_KNOWING_NOTHING, "bradley_terry", ELO)
    return [name for name in rivals if name in scores and not knows_nothing(scores, name)]


def score_table(name: str, title: str, scores: Scores, without: Sequence[str] = ()) -> Table:
    """A row for each predictor that knows something, and how to read the scores.

    :param without: keys of scores that are not shown.
    """
    rows = [
        {
            "predictor": PREDICTOR_NAMES.get(who, who),
            # Whoever claims nothing is always calibrated.
            APART: who in _BY_CHANCE,
            **values,
        }
        for who, values in scores.items()
        if not knows_nothing(scores, who)
    ]
    kinds = [kind for kind in _LEFT_OUT if any(kind in values for values in scores.values())]
    hidden = {*without, *(key for kind in kinds for key in _LEFT_OUT[kind])}
    columns = [column for column in SCORES if column.key not in hidden]
    return Table(name, title, columns, rows, close=True)


def score_parts(figures: Mapping[str, Any], what: str = "Held-out ") -> list[str | Table]:
    """Sentences and tables of all scores in figures, in the order to tell them.

    :param figures: with `held_out` and, as far as they are there, `held_out_outcomes`,
        `held_out_grades`, `held_out_unseen_pairs`, `held_out_people` and `fit`, as in
        `metrics.json`.
    :param what: before the noun of what was scored; empty where nothing was held out.
    """
    scores, people = figures["held_out"], figures.get("held_out_people", {})
    parts: list[str | Table] = []
    if scores and "model" not in scores:  # of answers about sets
        for kind, each in scores.items():
            parts += _told(kind, _title(what, kind), each, what)
    elif scores:
        outcomes = figures.get("held_out_outcomes")
        won = " that one side won" if outcomes else ""
        parts += _told("duels", f"{_title(what, 'duels')}{won}", scores, what, won)
    if figures.get("held_out_abstention"):
        parts.append(abstention_table(figures["held_out_abstention"]))
    no_bits = ("nlp_bits", "brier")
    for key, of in (("held_out_outcomes", "win, tie or loss"), ("held_out_grades", "grades")):
        if figures.get(key):
            title = f"{_title(what, 'duels')}: {of}"
            parts.append(score_table(key, title, figures[key], no_bits))
    # With tastes a pair is new where this person was not asked: those parts are of people.
    unseen = {} if people else figures.get("held_out_unseen_pairs") or {}
    if unseen.get("either_order"):
        parts.append(score_table("unseen_pairs", UNSEEN, unseen["either_order"]))
    for kind, each in _by_kind(scores):
        parts += verdicts(each, _UNITS[kind], figures.get("fit"))
    for name, part in people.items():
        for kind, each in _by_kind(part):
            title = PARTS[name].format(kind=kind)
            parts.append(score_table(f"{name}_{kind}", title, each))
            if ONE_UTILITY in each:
                parts.append(verdict(each, ONE_UTILITY, _UNITS[kind], fit=figures.get("fit")))
    return parts


def abstention_table(curve: Mapping[str, float]) -> Table:
    """The curve of risk and coverage: how often the winner is named if only those duels are
    answered of which the model is surest.

    :param curve: as by `HeldOut.abstention`.
    """
    columns = [
        Column(share, f"{100 * float(share):.0f} %", ".3f", spare=0 if share in _KEPT_SHARES else 1)
        for share in curve
    ]
    named = {"answered": "winner named", **curve}
    title = "If only the surest duels are answered"
    return Table("abstention", title, [Column("answered", "", left=True), *columns], [named])


_UNITS = {"duels": "duel", "choices": "choice", "rankings": "answer"}


def _by_kind(scores: Mapping[str, Any]) -> list[tuple[str, Scores]]:
    """Scores of each kind of answer."""
    return [("duels", scores)] if "model" in scores else [*scores.items()]


def _title(what: str, kind: str) -> str:
    title = f"{what}{kind}"
    return f"{title[:1].upper()}{title[1:]}"


def _told(kind: str, title: str, scores: Scores, what: str, won: str = "") -> list[str | Table]:
    """How often the model was right, and the table with its legend."""
    right = called_right(scores, f"{what.lower()}{_UNITS[kind]}", bool(won))
    table = replace(score_table(kind, title, scores), caption=legend(scores))
    return [*filter(None, [right]), table]


def named(predictor: str) -> str:
    """A predictor in a sentence."""
    article = "" if predictor in _WITHOUT_ARTICLE else "the "
    return f"{article}{PREDICTOR_NAMES[predictor]}"


def compared(
    gain: float, other: str, unit: str = "duel", error: float | None = None, over: str = ""
) -> str:
    """How a score compares with that of another, after "is" or "are" in a sentence.

    :param gain: nats for each of the `unit` by which it is better.
    :param other: as in the sentence, such as "the coin".
    :param error: the standard error of the gain, where it is known; without limit where there is
        too little to tell.
    :param over: what it is over: so many duels, or what was held out whole.
    """
    if abs(gain) < _SHOWN_AS_0:
        return f"no better than {other}"
    more = ", which is little" if abs(gain) < LITTLE else ""
    if error is not None and abs(gain) < _SURE * error:
        more += f"; {over} are too few to rule out luck"
    within = "" if error is None or math.isinf(error) else f" ± {error:.4f}"
    return (
        f"{'better' if gain > 0.0 else 'worse'} than {other}{',' if ',' in other else ''} by "
        f"{abs(gain):.4f}{within} nats per {unit}{more}"
    )


def _number_of(scored: Mapping[str, Any]) -> int:
    """How many answers were scored."""
    return next((int(scored[name]) for name in _LEGENDS if name in scored), 0)


def no_better_than_a_coin(scores: Scores, who: str = "model") -> bool:
    """Whether a model is hardly better than a coin, on duels that one side won: neither its score
    nor its accuracy is, to two standard errors, and these leave no room for more. Few duels do not
    tell.

    :param who: the model, or a rival, for which the standard error of the model's gain serves.
    """
    coin, model = scores.get("coin"), scores.get(who)
    if who == "model":
        model = scores.get(AHEAD, model)
    if coin is None or model is None or coin.get(GAIN_SE) is None or model["duels"] < _FEWEST:
        return False
    gain, error = coin["nlp_nats"] - model["nlp_nats"], _SURE * coin[GAIN_SE]
    unsure = gain < error and model["accuracy"] <= 0.5 + _luck(model["duels"])
    return bool(unsure and gain + error < _MUCH)


def said_of_a_coin(scores: Scores, others: str) -> str:
    """A note on a model that is hardly better than a coin.

    Whether winner and loser are in the right columns is asked only where there is no rival: one
    that is no better either shows that the features tell little, and one that is better learned
    from these columns.

    :param others: a sentence on columns that were not read, or nothing.
    """
    rivals = [name for name in rivals_in(scores) if name not in _BY_CHANCE]
    better = [name for name in rivals if not no_better_than_a_coin(scores, name)]
    little = "little can be said about who wins."
    if not rivals:
        rest = f": does winner hold who won?{others} If it does, {little}"
    elif better:
        rest = f", other than {named(better[0])}, which tells more of who wins.{others}"
    else:
        rest = f", and so is {named(rivals[0])}; {little}{others}"
    return f"The model is hardly better than a coin on the held-out duels{rest}"


def is_reversed(scores: Scores) -> bool:
    """Whether a model is wrong more often than luck explains, to two standard errors."""
    model = scores.get("model")
    return model is not None and bool(model["accuracy"] < 0.5 - _luck(model["duels"]))


def _luck(number: float) -> float:
    """By how much the share of a coin may differ from a half, to two standard errors."""
    return _SURE * 0.5 / float(number) ** 0.5


def called_right(scores: Scores, what: str = "held-out duel", with_ties: bool = False) -> str:
    """How often the model named the winner, or what was chosen, and its rivals, in a sentence;
    empty where there is more to an answer.

    :param what: one of the answers, in words.
    :param with_ties: other duels were tied.
    """
    model = scores["model"]
    key, named_it = "accuracy", "the winner"
    if "choices" in model:
        key, named_it = "hit_rate", "what was chosen"
    if key not in model:
        return ""
    rivals = [f"{named(name)} {100.0 * scores[name][key]:.1f} %" for name in rivals_in(scores)]
    right = ", ".join([f"{100.0 * model[key]:.1f} %", *rivals])
    won = " that one side won" if with_ties else ""
    number = counted(_number_of(model), what)
    return f"Of {number}{won}, the model named {named_it} in {right}."


def legend(scores: Scores) -> str:
    """How to read a table of scores."""
    shown = next(iter(scores.values()))
    unit = next(unit for unit in _LEGENDS if unit in shown)
    linear = [PREDICTOR_NAMES[name] for name in rivals_in(scores) if name in _KNOWING_NOTHING]
    more = [
        f" {name}: a weighted sum of the features, which a model should beat." for name in linear
    ]
    return "".join([_LEGENDS[unit], *more])


def verdict(
    scores: Scores,
    other: str,
    unit: str = "duel",
    who: str = "model",
    fit: Mapping[str, Any] | None = None,
) -> str:
    """By how much one predictor in a table of scores is better than another, as a sentence.

    :param fit: figures of the fit of the model, of which a sentence on a rival that is surely
        better names what would take it; None where nothing is fitted.
    """
    comma = "," if "," in PREDICTOR_NAMES[who] else ""
    theirs, mine = scores[other], scores[who]
    gain = theirs["nlp_nats"] - mine["nlp_nats"]
    error, over = theirs.get(GAIN_SE), theirs.get(SE_OVER)
    if error is not None and _number_of(theirs) < _FEWEST:
        error = math.inf
    number = counted(_number_of(theirs), unit)
    if over is not None and over not in _LEGENDS:
        number = f"the {over} of {number}"
    found = compared(gain, named(other), unit, error, number)
    if fit is not None and error is not None and -gain > max(_BEHIND, _SURE * error):
        found += "".join(f"; {advice}" for advice in _taken_by(other, fit))
    return f"The {PREDICTOR_NAMES[who]}{comma} is {found}."


def _taken_by(rival: str, fit: Mapping[str, Any]) -> list[str]:
    """The option that would take a rival, unless it is in force."""
    advice = [_TAKEN_BY[rival]] if rival in _TAKEN_BY else []
    if rival == "bradley_terry" and (fit.get("noise_ratios") or fit.get("leans")):
        return [f"{advice[0]} without what is learned by judge"]
    return [one for one in advice if one != f"take --kernel {fit.get('kernel')}"]


def verdicts(scores: Scores, unit: str = "duel", fit: Mapping[str, Any] | None = None) -> list[str]:
    """By how much the model is better than each rival; of duels those that one side won. Empty
    where there are none.

    :param unit: what one of the answers is called.
    :param fit: as for `verdict`.
    """
    logs = {name: values["nlp_nats"] for name, values in scores.items()}
    known = {name for name, value in logs.items() if value is not None and math.isfinite(value)}
    if "model" not in known:
        return []
    rivals = [name for name in rivals_in(scores) if name in known]
    if WITHOUT_DATES in scores and logs[WITHOUT_DATES] < logs["model"] - _SHOWN_AS_0:
        rivals.append(WITHOUT_DATES)
    found = [verdict(scores, rival, unit, fit=fit) for rival in rivals]
    if AHEAD in scores:
        found.append(verdict(scores, ELO_AHEAD, who=AHEAD))
    over = next((one[SE_OVER] for one in scores.values() if GAIN_SE in one and SE_OVER in one), "")
    if over and any("±" in sentence for sentence in found):
        found[-1] += f" (± is a standard error over {over}.)"
    return found
