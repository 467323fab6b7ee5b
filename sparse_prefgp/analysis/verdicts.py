"""What scores say: names of predictors, and how they compare, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparse_prefgp.analysis.metrics import AHEAD, ELO, ELO_AHEAD, GAIN_SE, ONE_UTILITY, SE_OVER
from sparse_prefgp.support.words import counted

PREDICTOR_NAMES = {
    "model": "model",
    ONE_UTILITY: "one utility for all",
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
# How to read a table of scores.
_LEGEND = (
    "accuracy: how often the winner was named. nlp: the surprise at what happened, lower is "
    "better; a coin has 0.6931 nats. brier: lower is better, a coin has 0.25. calibration error: "
    "how far what was stated is from what came true, 0 for a coin, which claims nothing; lower is "
    "better."
)
_OF_PROBIT = " linear probit: a weighted sum of the features, which a model should beat."
# Nats; scores of some thousand duels differ by as much by chance.
LITTLE, _MUCH = 0.01, 0.03
# Standard errors from which on a gain is not taken for luck.
_SURE = 2.0
# Keys of how many were scored.
_NUMBERS = ("duels", "choices", "answers")
# Below, four decimals show a 0.
_SHOWN_AS_0 = 5e-5
# Nats by which a linear probit differs from a coin where it knows of no feature and no covariate.
_COIN_WITHIN = 1e-9


def is_coin(scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the linear probit is but a coin, as where nothing is known of the items.

    :param scores: as by `score`, by predictor.
    """
    probit, coin = scores.get("linear_probit"), scores.get("coin")
    if not probit or not coin or probit.get("nlp_nats") is None:
        return False
    return bool(abs(probit["nlp_nats"] - coin["nlp_nats"]) <= _COIN_WITHIN)


def rows_in(scores: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each predictor of a table of scores, and what its row is called; a linear probit that is but
    a coin shares the row of the coin."""
    names = [name for name in scores if not (name == "linear_probit" and is_coin(scores))]
    rows = [(name, PREDICTOR_NAMES.get(name, name)) for name in names]
    if len(names) == len(scores):
        return rows
    both = f"{PREDICTOR_NAMES['linear_probit']}, {PREDICTOR_NAMES['coin']}"
    return [(name, both if name == "coin" else label) for name, label in rows]


def rivals_in(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a model is compared with in a sentence: the coin, the linear probit, unless it is but a
    coin, and Elo where duels have dates.

    :param scores: as by `score`, by predictor.
    """
    known = "linear_probit" in scores and not is_coin(scores)
    found = ["coin"] * ("coin" in scores) + ["linear_probit"] * known
    found += [name for name in ("bradley_terry", ELO) if name in scores]
    return found or ["coin"]


def named(predictor: str) -> str:
    """A predictor in a sentence."""
    article = "" if predictor in _WITHOUT_ARTICLE else "the "
    return f"{article}{PREDICTOR_NAMES[predictor]}"


def compared(
    gain: float, other: str, unit: str = "duel", error: float | None = None, number: int = 0
) -> str:
    """How a score compares with that of another, after "is" or "are" in a sentence.

    :param gain: nats for each of the `unit` by which it is better.
    :param other: as in the sentence, such as "the coin".
    :param error: the standard error of the gain, where it is known.
    :param number: of how many of the `unit` it is the mean.
    """
    if abs(gain) < _SHOWN_AS_0:
        return f"no better than {other}"
    more = ", which is little" if abs(gain) < LITTLE else ""
    if error is not None and abs(gain) < _SURE * error:
        more += f"; {counted(number, unit)} are too few to rule out luck"
    within = "" if error is None else f" ± {error:.4f}"
    return (
        f"{'better' if gain > 0.0 else 'worse'} than {other}{',' if ',' in other else ''} by "
        f"{abs(gain):.4f}{within} nats per {unit}{more}"
    )


def compared_scores(
    scores: Mapping[str, Mapping[str, Any]], who: str, other: str, called: str, unit: str = "duel"
) -> str:
    """The same of two predictors in a table of scores, as by `with_errors`.

    :param called: the other one, as in the sentence.
    """
    theirs = scores[other]
    gain = theirs["nlp_nats"] - scores[who]["nlp_nats"]
    number = next((theirs[name] for name in _NUMBERS if name in theirs), 0)
    return compared(gain, called, unit, theirs.get(GAIN_SE), number)


def no_better_than_a_coin(scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a model is hardly better than a coin, on duels that one side won: neither its score
    nor its accuracy is, to two standard errors, and these leave no room for more. Few duels do not
    tell.
    """
    coin, model = scores.get("coin"), scores.get(AHEAD, scores.get("model"))
    if coin is None or model is None or coin.get(GAIN_SE) is None:
        return False
    gain, error = coin["nlp_nats"] - model["nlp_nats"], _SURE * coin[GAIN_SE]
    unsure = gain < error and model["accuracy"] <= 0.5 + _luck(model["duels"])
    return bool(unsure and gain + error < _MUCH)


def is_reversed(scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a model is wrong more often than luck explains, to two standard errors."""
    model = scores.get("model")
    return model is not None and bool(model["accuracy"] < 0.5 - _luck(model["duels"]))


def _luck(number: float) -> float:
    """By how much the share of a coin may differ from a half, to two standard errors."""
    return _SURE * 0.5 / float(number) ** 0.5


def called_right(
    scores: Mapping[str, Mapping[str, Any]], what: str = "held-out duel", with_ties: bool = False
) -> str:
    """How often the model named the winner, and its rivals, in a sentence.

    :param what: one of the duels, in words.
    :param with_ties: other duels were tied.
    """
    rivals = [
        f"{named(name)} {100.0 * scores[name]['accuracy']:.1f} %"
        for name in rivals_in(scores)
        if name in scores
    ]
    model = scores["model"]
    right = ", ".join([f"{100.0 * model['accuracy']:.1f} %", *rivals])
    won = " that one side won" if with_ties else ""
    return f"Of {counted(model['duels'], what)}{won}, the model named the winner in {right}."


def legend(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """How to read a table of scores."""
    return _LEGEND + _OF_PROBIT * ("linear_probit" in rivals_in(scores))


def verdict(
    scores: Mapping[str, Mapping[str, Any]], other: str, unit: str = "duel", who: str = "model"
) -> str:
    """By how much one predictor in a table of scores is better than another, as a sentence."""
    comma = "," if "," in PREDICTOR_NAMES[who] else ""
    found = compared_scores(scores, who, other, named(other), unit)
    return f"The {PREDICTOR_NAMES[who]}{comma} is {found}."


def verdicts(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """By how much the model is better than each rival, on duels that one side won; empty where
    there are none."""
    if not scores:
        return []
    found = [verdict(scores, rival) for rival in rivals_in(scores)]
    if AHEAD in scores:
        found.append(verdict(scores, ELO_AHEAD, who=AHEAD))
    return _with_errors_named(found, scores)


def verdicts_on_sets(scores: Mapping[str, Mapping[str, Any]], unit: str) -> list[str]:
    """The same of choices, or of other answers about sets.

    :param unit: what one of them is called.
    """
    rivals = ("equal_shares", "conditional_logit")
    found = [verdict(scores, rival, unit) for rival in rivals if rival in scores]
    return _with_errors_named(found, scores)


def _with_errors_named(found: list[str], scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Sentences, the last one with what the standard errors in them are over."""
    over = next((one[SE_OVER] for one in scores.values() if GAIN_SE in one and SE_OVER in one), "")
    return [*found[:-1], f"{found[-1]} (± is a standard error over {over}.)"] if over else found
