"""A fit as one HTML file that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp import analysis
from sparse_prefgp.analysis.metrics import AHEAD, ELO_AHEAD
from sparse_prefgp.analysis.verdicts import (
    PREDICTOR_NAMES,
    compared_scores,
    named,
    rivals_in,
    rows_in,
)
from sparse_prefgp.learning.notes import fit_notes, is_warning, learned_from
from sparse_prefgp.plotting.canvas import chance_text
from sparse_prefgp.workflow.pages import embedded, page_template
from sparse_prefgp.workflow.pictures import TOP, Picture

# Column of the scores, heading, whether more is better.
SCORES = (
    ("accuracy", "accuracy", True),
    ("nlp_nats", "nlp, nats", False),
    ("nlp_bits", "nlp, bits", False),
    ("brier", "Brier score", False),
    ("calibration_error", "calibration error", False),
)
OUTCOME_SCORES = (
    ("accuracy", "accuracy", True),
    ("nlp_nats", "nlp, nats", False),
    ("nlp_bits", "nlp, bits", False),
    ("tie_rate", "ties", False),
    ("predicted_tie_rate", "ties predicted", False),
    ("tie_calibration_error", "calibration error of ties", False),
)
GRADE_SCORES = (
    ("accuracy", "accuracy", True),
    ("nlp_nats", "nlp, nats", False),
    ("nlp_bits", "nlp, bits", False),
    ("mean_distance", "levels off", False),
    ("calibration_error", "calibration error", False),
)
CHOICE_SCORES = (
    ("nlp_nats", "nlp, nats", False),
    ("nlp_se", "± of it", False),
    ("hit_rate", "hit rate", True),
    ("brier", "Brier score", False),
    ("calibration_error", "calibration error", False),
)
KINDS = {"nlp_bits": "bits"}  # left out on narrow screens
UNSEEN = "Pairs never compared in training"
PEOPLE_PARTS = {
    "known_people": "Of these, people with duels in training",
    "new_people": "Of these, new people",
}
# Columns of a ranking, as far as it has them; the others are for programs.
RANKING = {
    "rank": "rank",
    "item_id": "item",
    "utility": "utility",
    "sd": "sd",
    "lower": "lower",
    "upper": "upper",
    "p_best": "chance to be best",
    "p_top_k": "chance of the top k",
    "comparisons": "comparisons",
    "copies": "copies",
    "outside_range": "outside the range",
}
FEATURES_SHOWN = 30


def render_report(
    figures: Mapping[str, Any],
    pictures: Sequence[Picture | tuple[str, str, str]],
    ranking: analysis.ranking.Ranking | Mapping[str, Sequence[Any]] | Any,
    folder: Path,
    *,
    command: str | Sequence[str] | None = None,
    notes: Iterable[str] = (),
    data_rows: Iterable[tuple[str, str]] = (),
    title: str = "Report of a fit",
) -> str:
    """The report of a fit as the text of an HTML file, everything escaped and embedded.

    :param figures: what goes into `metrics.json`; figures that are missing are left out.
    :param pictures: what `write_pictures` returned.
    :param ranking: what `rank` returned, or a data frame or mapping from column to values like its
        frame; None where there is none.
    :param folder: where the files of the pictures are.
    :param command: how to repeat the fit, as one line or as a list of arguments.
    :param notes: further warnings, one sentence each, such as levels that are unknown or duels that
        are not independent; what the figures say (not converged, jitter) is added.
    :param data_rows: (label, value) about the data, such as `duels.summary().rows()`.
    :param title: of the page.
    :raises ModuleNotFoundError: jinja2 is not installed.
    :raises OSError: a picture cannot be read.
    """
    template = page_template("fit_report.html")
    told = [*dict.fromkeys([*fit_notes(figures), *notes])]
    fits = [(name, figures[name]) for name in ("fit", "refit_fit") if name in figures]
    both = len(fits) > 1
    headings = {
        "fit": "The fit to the training duels" if both else "The fit",
        "refit_fit": "The fit to all duels, which is kept",
    }
    return template.render(
        title=title,
        subtitle=_subtitle(figures),
        summary=[
            *_summary(figures),
            *people_lines(figures.get("people")),
            *time_lines(figures.get("in_time")),
        ],
        notes=[note for note in told if is_warning(note)],
        findings=[note for note in told if not is_warning(note)],
        split=figures.get("split_description", ""),
        score_tables=[*_score_tables(figures), *_candidates(figures)],
        top=None if ranking is None else _top(ranking, learned_from(figures)),
        pictures=[
            embedded(folder / shown.file, shown.title, shown.caption)
            for shown in (Picture(*picture) for picture in pictures)
        ],
        data=_data(figures, data_rows),
        fits=[(headings[name], _fit_rows(fit)) for name, fit in fits],
        command=command if command is None or isinstance(command, str) else shlex.join(command),
        versions=[
            *_present(figures, (("seed", "seed", str),)),
            *((name, str(version)) for name, version in figures.get("versions", {}).items()),
        ],
    )


def _subtitle(figures: Mapping[str, Any]) -> str:
    fit, data = figures.get("refit_fit", figures.get("fit", {})), figures.get("data", {})
    parts = []
    if "items" in data and "duels" in data:
        parts.append(f"{_plural(data['items'], 'item')}, {_plural(data['duels'], 'duel')}")
    if "approximation" in fit:
        parts.append(f"{fit['approximation']}, {fit.get('kernel', '')} kernel")
    return " · ".join([*parts, "sparse-prefgp"])


def _summary(figures: Mapping[str, Any]) -> list[str]:
    """The answer in one or two sentences."""
    scores = figures.get("held_out")
    if not scores:
        return ["No duels were held out, so nothing says how well the model predicts new ones."]
    if "model" not in scores:  # answers about sets
        return _summary_of_sets(scores)
    model = scores["model"]
    text = (
        f"Of {_plural(model['duels'], 'held-out duel')}, the model names the winner in "
        f"{_percent(model['accuracy'])}"
    )
    found, other = [f"{text}."], rivals_in(scores)[-1]
    if scores.get(other) is None:
        return found
    found = [f"{text}, {named(other)} in {_percent(scores[other]['accuracy'])}."]
    found += _verdict("Its probabilities", scores, "model", other)
    if AHEAD in scores:
        right = [_percent(scores[name]["accuracy"]) for name in (AHEAD, ELO_AHEAD)]
        found.append(f"Updated day by day it is right in {right[0]}, Elo so updated in {right[1]}.")
        found += _verdict("The updated probabilities", scores, AHEAD, ELO_AHEAD)
    return found


def _verdict(what: str, scores: Mapping[str, Any], who: str, other: str) -> list[str]:
    """By how much probabilities are better than those of another predictor, in a sentence; none
    where a score is not finite."""
    one, two = (scores[name]["nlp_nats"] for name in (who, other))
    if one is None or two is None or not math.isfinite(two - one):
        return []
    name = named(other).replace("Elo, updating", "Elo")
    return [f"{what} are {compared_scores(scores, who, other, f'those of {name}')}."]


def _summary_of_sets(scores: Mapping[str, Any]) -> list[str]:
    """The same of answers about sets."""
    found = []
    for part, each in scores.items():
        rival = "conditional_logit" if "conditional_logit" in each else "equal_shares"
        number = each["model"]["choices" if part == "choices" else "answers"]
        if part == "choices":
            found.append(
                f"Of {_plural(number, 'held-out choice')}, the model names what was chosen in "
                f"{_percent(each['model']['hit_rate'])}, {_article(rival)} in "
                f"{_percent(each[rival]['hit_rate'])}."
            )
        unit = "choice" if part == "choices" else "answer"
        verdict = compared_scores(each, "model", rival, f"those of {_article(rival)}", unit)
        found.append(f"Its probabilities are {verdict}.")
    return found


def _article(name: str) -> str:
    return PREDICTOR_NAMES[name] if name == "equal_shares" else f"the {PREDICTOR_NAMES[name]}"


def _score_tables(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = []
    if "model" not in figures.get("held_out", {"model": None}):
        for part, scores in figures["held_out"].items():
            columns = CHOICE_SCORES if part == "choices" else CHOICE_SCORES[:2]
            unit = "choices" if part == "choices" else "answers"
            tables.append(_outcome_table(f"All held-out {part}", columns, scores, unit))
        for name, parts in figures.get("held_out_people", {}).items():
            for part, scores in parts.items():
                columns = CHOICE_SCORES if part == "choices" else CHOICE_SCORES[:2]
                unit = "choices" if part == "choices" else "answers"
                title = f"{PEOPLE_PARTS[name]}: {part}"
                tables.append(_outcome_table(title, columns, scores, unit))
        return tables
    if figures.get("held_out"):
        outcomes = figures.get("held_out_outcomes")
        title = "Held-out duels that one side won" if outcomes else "All held-out duels"
        tables.append(_score_table(title, figures["held_out"]))
        if outcomes:
            title = "All held-out duels: win, tie or loss"
            tables.append(_outcome_table(title, OUTCOME_SCORES, outcomes))
        if figures.get("held_out_grades"):
            title = "Held-out duels: grades"
            tables.append(_outcome_table(title, GRADE_SCORES, figures["held_out_grades"]))
    if "held_out_people" in figures:
        parts = figures["held_out_people"].items()
        return [*tables, *(_score_table(PEOPLE_PARTS[name], scores) for name, scores in parts)]
    if unseen := figures.get("held_out_unseen_pairs", {}).get("either_order"):
        tables.append(_score_table(UNSEEN, unseen))
    return tables


def people_lines(people: Mapping[str, Any] | None) -> list[str]:
    """Sentences on the people of a model with tastes, from its figures; none without."""
    if people is None:
        return []
    share, each = people["share"], people["duels_each"]
    line = f"Of what is preferred, {100 * share['of_squares']:.0f} % is personal"
    if share["lower"] is not None:
        line += (
            f" ({100 * share['level']:g} % interval {100 * share['lower']:.0f} to "
            f"{100 * share['upper']:.0f} %)"
        )
    asked = f"{people['number']:,} people, {each['min']:,} to {each['max']:,} duels each"
    far = ", ".join(
        str(one["person"])
        if one["agreement"] is None
        else f"{one['person']} (agreement {one['agreement']:.2f})"
        for one in people["furthest"]
    )
    terms = ", ".join(f"{name} {value:.3g}" for name, value in people["variances"].items())
    return [
        f"{line}; {asked}.",
        f"Variances of tastes: {terms}.",
        f"Furthest from what all prefer: {far}.",
    ]


def time_lines(in_time: Mapping[str, Any] | None) -> list[str]:
    """Sentences on utilities that move, from their figures; none without."""
    if in_time is None:
        return []
    best = "; ".join(
        f"{season['date']} " + ", ".join(str(one["item"]) for one in season["best"])
        for season in in_time["seasons"]
    )
    return [
        f"Utilities move by {in_time['moved_in_a_year']:.2f} standard deviations of the noise of a "
        f"duel in a year; duels of a {in_time['slices']} are taken together.",
        f"Best when: {best}.",
    ]


def _candidates(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The candidates of a choice by itself, on what was held out for it."""
    chosen = figures.get("automatic")
    if not chosen:
        return []
    rows = []
    for one in chosen["candidates"]:
        right = one.get("abstention") or {}
        values = [one.get("nlp_nats"), one.get("nlp_se"), one.get("calibration_error")]
        cells = [(_number(value), "") for value in values]
        cells += [(_number(right.get(share)), "") for share in ("1", "0.5", "0.1")]
        name = one["candidate"]
        status = "chosen" if name == chosen["chosen"] else one["status"]
        rows.append((name, [*cells, (status, "")]))
    headings = (
        "nlp, nats",
        "± of it",
        "calibration error",
        "right of all",
        "of the surest half",
        "of the surest tenth",
        "",
    )
    return [
        {
            "title": "What was compared, on duels held out from the training part",
            "headings": [(heading, "") for heading in headings],
            "rows": rows,
        }
    ]


def _score_table(title: str, scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    # The coin is always perfectly calibrated, so it is not a rival.
    rivals = [values for name, values in scores.items() if name != "coin"]
    best = {}
    for column, _, more in SCORES:
        known = [values[column] for values in rivals if values.get(column) is not None]
        best[column] = (max if more else min)(known) if len(known) > 1 else None
    rows = []
    for name, label in rows_in(scores):
        values, cells = scores[name], []
        for column, _, _ in SCORES:
            value = values.get(column)
            wins = name != "coin" and value is not None and value == best[column]
            cells.append((_number(value), f"{KINDS.get(column, '')}{' best' if wins else ''}"))
        rows.append((label, [*cells, (f"{values['duels']:,}", "")]))
    headings = [(heading, KINDS.get(column, "")) for column, heading, _ in SCORES]
    return {"title": title, "headings": [*headings, ("duels", "")], "rows": rows}


def _outcome_table(
    title: str,
    columns: Sequence[tuple[Any, ...]],
    scores: Mapping[str, Mapping[str, Any]],
    unit: str = "duels",
) -> dict[str, Any]:
    """Scores of outcomes or grades, by columns that have a key and a heading."""
    rows = [
        (
            PREDICTOR_NAMES[name],
            [
                *((_number(values.get(key)), KINDS.get(key, "")) for key, *_ in columns),
                (f"{values[unit]:,}", ""),
            ],
        )
        for name, values in scores.items()
    ]
    headings = [(heading, KINDS.get(key, "")) for key, heading, _ in columns]
    return {
        "title": title,
        "headings": [*headings, (unit, "")],
        "rows": rows,
    }


def _top(ranking: Any, learned: str) -> dict[str, Any]:
    frame = getattr(ranking, "frame", ranking)
    ranks = np.asarray(frame["rank"], dtype=np.float64)
    order = np.argsort(ranks, kind="stable")[:TOP]
    columns = [name for name in RANKING if name in list(frame.keys())]
    values = {name: list(frame[name]) for name in columns}
    if "outside_range" in columns and not any(values["outside_range"][i] for i in order):
        columns.remove("outside_range")  # a column of no
    if "copies" in columns and all(values["copies"][i] == 1 for i in order):
        columns.remove("copies")
    headings = dict(RANKING)
    explanation = "Only differences of utilities mean anything. "
    if hasattr(ranking, "notes"):
        headings["p_top_k"] = f"chance of the top {ranking.top_k}"
        explanation += " ".join(ranking.notes())
    else:
        explanation += "The average item has 0."
    kinds = {name: "id" if name == "item_id" else "number" for name in columns}
    return {
        "headings": [(headings[name], kinds[name]) for name in columns],
        "rows": [
            [(_ranking_cell(name, values[name][i]), kinds[name]) for name in columns] for i in order
        ],
        "total": len(ranks),
        "explanation": f"{explanation} {learned}".rstrip(),
    }


def _ranking_cell(name: str, value: Any) -> str:
    if name == "item_id":
        return str(value)
    if name == "outside_range":
        return _yes_no(bool(value))
    if name in ("rank", "comparisons", "copies"):
        return f"{int(value):,}"
    if name in ("p_best", "p_top_k"):
        return chance_text(value)
    return _signed(f"{float(value):z.3f}")


def _data(
    figures: Mapping[str, Any], data_rows: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    data = figures.get("data", {})
    rows = [*data_rows]
    if not rows:
        rows += _present(data, (("items", "items", _count), ("duels", "duels", _count)))
    rows += _present(
        data,
        (
            ("train_duels", "training duels", _count),
            ("test_duels", "test duels", _count),
            ("dropped_rows", "rows dropped by the split", _count),
            ("unused_rows", "rows not used", _count),
            ("features", "names of the features", _features),
            ("reduced", "made of", str),
        ),
    )
    if figures.get("split_description"):
        rows.append(("split", str(figures["split_description"])))
    return rows


def _fit_rows(fit: Mapping[str, Any]) -> list[tuple[str, str]]:
    if fit.get("coefficients") and fit.get("leans"):  # which come last
        own = len(fit["coefficients"]) - sum(lean["groups"] for lean in fit["leans"])
        fit = {**fit, "coefficients": fit["coefficients"][:own]}
    fit = {**fit, "leans": fit.get("leans") or None}
    rows = _present(
        fit,
        (
            ("approximation", "approximation", str),
            ("kernel", "kernel", str),
            ("kernel_variances", "kernel variances", _variances),
            ("pair_share", "share of it that is of pairs", _share),
            ("inducing", "inducing inputs", _count),
            ("fixed_inducing", "inducing inputs held fixed", _yes_no),
            ("noise_variance", "noise variance per side", _short),
            ("margin", "margin of ties", _short),
            ("fixed_margin", "margin held fixed", _yes_no),
            ("cuts", "cuts of grades", _cuts),
            ("coefficients", "coefficients, 90 % intervals", _coefficients),
            ("leans", "leans", _leans),
            ("noise_ratios", "noise of groups, times that", _ratios),
            ("cut_scales", "cuts of groups, times those", _ratios),
            ("duels", "duels", _count),
            ("weight", "sum of their weights", _short),
            ("log_evidence", "log evidence, nats", lambda value: _signed(f"{value:z,.2f}")),
            (
                "log_evidence_per_duel",
                "per duel or unit of weight, nats",
                lambda value: _signed(f"{value:z.4f}"),
            ),
            ("inference", "inference", str),
            ("iterations", "iterations", _count),
            ("max_iterations", "limit of iterations", _count),
            ("least_gain", "least gain of ten iterations, nats per duel", _short),
            ("optimiser_message", "the optimiser says", str),
            ("evaluations", "evaluations", _count),
            ("sweeps", "sweeps of inference in all", _count),
            ("seconds", "time of the fit", lambda value: f"{value:,.1f} s"),
        ),
    )
    return rows


def _coefficients(rows: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{row['name']} {row['mean']:.3g} ({row['lower']:.3g} to {row['upper']:.3g})"
        for row in rows[:FEATURES_SHOWN]
    )


def _leans(found: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"of {lean['groups']:,} labels in {lean['by']} by {lean['covariate']}, standard deviation "
        f"{math.sqrt(lean['variance']):.3g}"
        for lean in found
    )


def _present(
    values: Mapping[str, Any], wanted: Iterable[tuple[str, str, Any]]
) -> list[tuple[str, str]]:
    """(label, text) of the entries that are there and known."""
    return [
        (label, text(values[key])) for key, label, text in wanted if values.get(key) is not None
    ]


def _features(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:FEATURES_SHOWN]))
    rest = len(names) - FEATURES_SHOWN
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _variances(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def _cuts(values: Sequence[float]) -> str:
    return ", ".join(map(_short, values))


def _ratios(values: Mapping[str, float]) -> str:
    return (
        f"{_short(values['min'])} to {_short(values['max'])}, median {_short(values['median'])}, "
        f"{_plural(int(values['groups']), 'group')}"
    )


def _count(value: float) -> str:
    return f"{value:,}"


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _number(value: float | None) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.4f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"  # no line break before the sign


def _signed(text: str) -> str:
    """With a minus sign as long as a plus."""
    return text.replace("-", "−")
