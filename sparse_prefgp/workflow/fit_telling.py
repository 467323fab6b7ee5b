"""What a fit says: sentences, tables and a report of its figures, ranking and pictures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sparse_prefgp.analysis.verdicts import score_parts
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.learning.notes import fit_notes, how_of_gradients, is_warning, learned_from
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.tell.report import Picture, Report, Section, sections_of
from sparse_prefgp.tell.tables import MISSING, Column, Table, facts_table, first_of, typeset
from sparse_prefgp.workflow.comparison import candidates_table

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ranking import Ranking

# How the fact begins that names the kernel.
KERNEL = "Kernel"
# Files that sentences name.
RANKING, COEFFICIENTS = "ranking.csv", "coefficients.csv"
FEATURES_SHOWN = 30
# Items that a page shows at once, and those that it has at all.
TOP, MOST_ITEMS = 20, 10_000


class Fact(NamedTuple):
    """One thing to know of a fit: a row of a table, and a sentence."""

    label: str
    text: str
    joint: str = ": "
    """Between the two in a sentence."""
    told: bool = True
    """Whether it is said as the fit ends; what went into it was said before."""

    def __str__(self) -> str:
        return f"{self.label}{self.joint}{self.text}"


def facts_of(fit: Record) -> list[Fact]:
    """What was fitted and how it went.

    :param fit: `fit` or `refit_fit` of `metrics.json`.
    """
    settings = (
        ("approximation", "Approximation", str),
        ("kernel", KERNEL, str),
        ("pair_share", "Share of its variance that is of pairs", "{:.1%}".format),
        ("inducing", "Inducing inputs", "{:,}".format),
        ("fixed_inducing", "Inducing inputs held fixed", ("no", "yes").__getitem__),
        ("noise_variance", "Noise variance per side", _short),
        ("duels", f"{fit['unit']}s".capitalize(), "{:,}".format),
        ("max_iterations", "Limit of iterations", "{:,}".format),
        ("least_gain", f"Least gain of ten iterations, nats per {fit['unit']}", _short),
    )
    effort = (
        ("evaluations", "Evaluations", "{:,}".format),
        ("sweeps", "Sweeps of inference in all", "{:,}".format),
    )
    facts = [*_there(fit, settings), _evidence(fit)]
    values = [start["log_evidence"] for start in fit.get("starts", ())]
    if len(values) > 1:
        shown = ", ".join("not finite" if v is None else f"{v:,.2f}" for v in values)
        text = f"number {fit['kept_start'] + 1} (log evidence {shown})"
        facts.append(Fact(f"Best of {len(values)} starts", text))
    sweeps, converged = fit.get("inference_sweeps"), fit["converged"]
    inference = Fact("Inference", fit["inference"], " ", converged)
    if converged and sweeps is not None:
        inference = Fact("Inference", f"converged in {counted(sweeps, 'sweep')}", " ")
    return [
        *facts,
        Fact("The optimiser", fit["optimiser_message"], " ", fit["optimiser_converged"]),
        Fact("Kernel variance, in units of the noise", _listed(fit["kernel_variances"])),
        *_about_duels(fit),
        *_of_groups(fit),
        inference,
        *_there(fit, effort),
    ]


def learned_table(fit: Record) -> list[Table]:
    """What was learned, its prior and how well it is known; none of a fit of before."""
    rows = fit.get("learned", ())
    columns = [
        Column("name", "learned", left=True),
        Column("value", "value", _short),
        Column("prior", "prior", left=True),
        Column("lower", "90 % of the prior from", _short),
        Column("upper", "to", _short),
        Column("log_sd", "sd of its log, learned", _short),
    ]
    known = [one for one in columns if any(row[one.key] is not None for row in rows)]
    return [Table("learned", "", known, rows)] if rows else []


def _there(fit: Record, wanted: Iterable[tuple[str, str, Any]]) -> list[Fact]:
    """Facts that are known and need no sentence."""
    return [
        Fact(label, shown(fit[key]), told=False)
        for key, label, shown in wanted
        if fit.get(key) is not None
    ]


def _evidence(fit: Record) -> Fact:
    how, unit = "", fit["unit"]
    if fit.get("gradients"):
        of = how_of_gradients(fit["gradients"], fit["subset"])
        how = f" ({of}, {fit['evaluations']:,} evaluations of all duels)"
    if fit["weight"] is not None:
        unit = f"unit of weight (weights add up to {fit['weight']:,.4g})"
    text = (
        f"{fit['log_evidence']:,.2f} nats, {fit['log_evidence_per_duel']:z.4f} per {unit}, after "
        f"{counted(fit['iterations'], 'iteration')} in {fit['seconds']:.1f} s{how}"
    )
    return Fact("Log evidence", text, " ")


def _about_duels(fit: Record) -> list[Fact]:
    """Margin, coefficients and cuts."""
    facts, leans = [], fit["leans"]
    if fit["margin"] is not None:
        known = "as given" if fit["fixed_margin"] else "learned"
        facts.append(Fact("Margin within which a duel is a tie", f"{fit['margin']:.3g}, {known}"))
    rows = fit["coefficients"] or []
    for row in rows[: len(rows) - sum(lean["groups"] for lean in leans)]:
        ends = f"{row['lower']:.3g} to {row['upper']:.3g}"
        text = f"{row['mean']:.3g} (90 % interval {ends})"
        facts.append(Fact(f"Coefficient of {row['name']}", text))
    for lean in leans:
        text = (
            f"lean by {lean['covariate']} with the standard deviation "
            f"{lean['variance'] ** 0.5:.3g}; each is in {COEFFICIENTS}"
        )
        facts.append(Fact(f"{counted(lean['groups'], 'label')} in {lean['by']}", text, " "))
    if fit["grades"] is not None:
        steps = ", ".join(map(str, fit["grades"]["steps_by_prior"]))
        note = f"; by the prior, as nobody used a grade next to it: step {steps}" if steps else ""
        cuts = ", ".join(f"{cut:.3g}" for cut in fit["cuts"])
        facts.append(Fact("Cuts of the grades", f"{cuts}{note}"))
    return facts


def _of_groups(fit: Record) -> list[Fact]:
    facts = []
    for key, what, whose in (
        ("noise_ratios", "Noise variance", "that"),
        ("cut_scales", "Margin and cuts", "those"),
    ):
        ratios = fit[key]
        if ratios is None:
            continue
        groups, of_model = ratios["groups"], f"times {whose} of the model"
        text, label = f"{ratios['median']:.2g} {of_model}", f"{what} of the one group"
        if groups > 1:
            label = f"{what} of {groups:,} groups"
            ends = f"{ratios['min']:.2g} to {ratios['max']:.2g}"
            text = f"{ends} {of_model}, median {ratios['median']:.2g}"
        facts.append(Fact(label, text))
    return facts


def answer_parts(figures: Record) -> list[str | Table]:
    """How well what was held out is predicted, and what is known of people and time: sentences and
    tables in the order to tell them."""
    nouns = _nouns(figures)
    nothing = f"No {nouns} were held out: nothing says how well new ones are predicted."
    return [
        *(score_parts(figures) if figures.get("held_out") else [nothing]),
        *people_sentences(figures.get("people"), nouns),
        *time_sentences(figures.get("in_time")),
    ]


def people_sentences(people: Record | None, nouns: str = "duels") -> list[str]:
    """On the people of a model with tastes, from its figures; none without."""
    if people is None:
        return []
    share, each = people["share"], people["duels_each"]
    line = f"Of what is preferred, {100 * share['of_squares']:.0f} % is personal"
    if share["lower"] is not None:
        line += (
            f" ({100 * share['level']:g} % interval {100 * share['lower']:.0f} to "
            f"{100 * share['upper']:.0f} %)"
        )
    asked = f"{people['number']:,} people, {each['min']:,} to {each['max']:,} {nouns} each"
    far = ", ".join(
        str(one["person"])
        if one["agreement"] is None
        else f"{one['person']} (agreement {one['agreement']:.2f})"
        for one in people["furthest"]
    )
    return [
        f"{line}; {asked}.",
        f"Variances of tastes: {_listed(people['variances'])}.",
        f"Furthest from what all prefer: {far}.",
    ]


def time_sentences(in_time: Record | None) -> list[str]:
    """On utilities that move, from their figures; none without."""
    if in_time is None:
        return []
    best = "; ".join(
        f"{season['date']} " + ", ".join(str(one["item"]) for one in season["best"])
        for season in in_time["seasons"]
    )
    return [
        f"Utilities move by {in_time['moved_in_a_year']:.2f} standard deviations of the noise of a "
        f"duel in a year; duels of a {in_time['slices']} are taken together.",
        *_decided(in_time),
        f"Best when: {best}.",
    ]


def _decided(in_time: Record) -> list[str]:
    """What was decided on the training duels about utilities that move, in a sentence; none where
    there was nothing to decide."""
    parts = []
    if len(in_time.get("learned_on", ())) > 1:
        first, *later = in_time["learned_on"]
        parts.append(f"learned on slices of a {first}, then of a {', then of a '.join(later)}")
    kernels = in_time.get("kernels", ())
    if kernels:
        never = {False: ", which comes back to no mean while the duels last"}
        gains = ", ".join(
            f"{one['kernel']} {one['gain']:+,.1f}{never.get(one.get('returns'), '')}"
            for one in kernels[1:]
        )
        beside = f"nats of evidence on {kernels[0]['kernel']}, 2 are asked for: {gains}"
        parts.append(f"{in_time['kernel']} was taken ({beside})")
    entry = in_time.get("entry_level", {})
    if entry.get("kept"):
        where = "lower" if entry["level"] < 0.0 else "higher"
        parts.append(
            f"items whose first duel is after {entry['after']} come in {where} by "
            f"{abs(entry['level']):.2f} ({entry['gain']:.1f} nats of evidence; the last fifth has "
            f"{entry['last_fifth']:.4f} in place of {entry['last_fifth_without']:.4f} nats a duel)"
        )
    return [f"Decided on the training duels: {'; '.join(parts)}."] if parts else []


def answer_sections(figures: Record, notes: Iterable[str] = ()) -> list[Section]:
    """The answer, what to know before relying on it, and its scores.

    :param notes: warnings besides those that follow from the figures.
    """
    nouns, parts = _nouns(figures), answer_parts(figures)
    sentences = [part for part in parts if isinstance(part, str)]
    tables = [part for part in parts if not isinstance(part, str)]
    if figures.get("automatic"):
        tables.append(candidates_table(figures["automatic"], _unit(figures), certainty=True))
    notes = [*dict.fromkeys([*fit_notes(figures), *notes])]
    split = figures.get("split_description")
    scores = Section(f"Scores on held-out {nouns}", [split] if split else [], tables=tables)
    return sections_of(
        [
            Section(sentences=sentences),
            Section("Before you rely on this", notes=[*filter(is_warning, notes)]),
            Section(sentences=[note for note in notes if not is_warning(note)]),
            *([scores] if tables else []),
        ]
    )


def fit_report(
    figures: Record,
    ranking: Ranking | None = None,
    pictures: Sequence[Picture] = (),
    *,
    command: str | Sequence[str] | None = None,
    notes: Iterable[str] = (),
    data_rows: Iterable[tuple[str, str]] = (),
) -> Report:
    """All that a fit says.

    :param figures: what goes into `metrics.json`.
    :param ranking: what `rank` returned.
    :param pictures: what `write_pictures` returned.
    :param command: how to repeat the fit, as one line or as a list of arguments.
    :param notes: warnings besides those that follow from the figures, one sentence each.
    :param data_rows: (label, value) about the data, such as `duels.summary().rows()`.
    """
    nouns = _nouns(figures)
    headings = {"fit": "The fit", "refit_fit": f"The fit to all {nouns}, which is kept"}
    if "refit_fit" in figures:
        headings["fit"] = f"The fit to the training {nouns}"
    fits = [
        Section(
            heading,
            tables=[
                facts_table("", [(f.label, typeset(f.text)) for f in facts_of(figures[key])]),
                *learned_table(figures[key]),
            ],
        )
        for key, heading in headings.items()
        if key in figures
    ]
    # Figures of before say nothing of it.
    read_as = figures.get("read_as")
    reading = [] if read_as is None else [f"{x}." for x in ReadAs.from_dict(read_as).lines()]
    fit, data = figures["refit_fit" if "refit_fit" in figures else "fit"], figures["data"]
    subtitle = [f"{fit['approximation']}, {fit['kernel']} kernel", "sparse-prefgp"]
    if data.get("duels") is not None:
        answers = counted(data["duels"], _unit(figures))
        subtitle.insert(0, f"{counted(data['items'], 'item')}, {answers}")
    versions = [("seed", str(figures["seed"])), *figures.get("versions", {}).items()]
    line = command if command is None or isinstance(command, str) else shlex.join(command)
    sections = [
        *answer_sections(figures, notes),
        *_items(ranking, learned_from(figures)),
        Section("Pictures", pictures=pictures),
        Section("How the table was read", sentences=reading),
        Section("The data", tables=[facts_table("", _data(figures, data_rows))]),
        *fits,
        Section("To repeat this", code=line or "", tables=[facts_table("", versions)]),
    ]
    return Report("Report of a fit", " · ".join(subtitle), sections_of(sections))


def _unit(figures: Record) -> str:
    return str(figures["fit"]["unit"])


def _nouns(figures: Record) -> str:
    """What was asked: `duels`, `choices`, `answers`."""
    return f"{_unit(figures)}s"


def _items(ranking: Ranking | None, learned: str) -> list[Section]:
    """The best items, and the others folded."""
    if ranking is None:
        return []
    table, total = ranking.table(), len(ranking.frame)
    last = min(total, MOST_ITEMS)
    first = table.part(0, TOP, "")
    sentences = ["Only differences of utilities mean anything.", *ranking.sentences()]
    heading = first_of(min(TOP, total), total, "items")
    sections = [Section(heading, [" ".join([*sentences, learned]).rstrip()], tables=[first])]
    if last > TOP:
        rest = f"Those from {TOP + 1:,} to {last:,}"
        more = [f"All {total:,} are in {RANKING}."] if total > last else []
        part = table.part(TOP, last, "")
        sections.append(Section(rest, more, tables=[part], folded=True))
    return sections


def _data(figures: Record, data_rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    data, nouns = figures["data"], _nouns(figures)
    wanted = (
        ("train_duels", f"training {nouns}", "{:,}".format),
        ("test_duels", f"test {nouns}", "{:,}".format),
        ("dropped_rows", "rows dropped by the split", "{:,}".format),
        ("unused_rows", "rows not used", "{:,}".format),
        ("features", "names of the features", lambda names: some_of(names, FEATURES_SHOWN)),
        ("reduced", "made of", str),
    )
    rows = [(label, shown(data[key])) for key, label, shown in wanted if data.get(key)]
    return [*data_rows, *rows, ("split", figures.get("split_description") or figures["split"])]


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _short(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"
