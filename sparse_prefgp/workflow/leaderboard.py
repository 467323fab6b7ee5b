"""A leaderboard of models from battles: fit, ranking and judges, told in one place."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.disk.folders import check_replaceable, contents, replaced_folder
from sparse_prefgp.disk.model_folder import foreign_files
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.io.forms import Form
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.learning.notes import is_warning
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_choice, level_of_interval, whole_number
from sparse_prefgp.support.plain import as_json_text, plain
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.support.versions import versions
from sparse_prefgp.support.words import agreeing, and_so, counted
from sparse_prefgp.tell.markup import as_latex
from sparse_prefgp.tell.page import as_html
from sparse_prefgp.tell.report import SVG, Picture, Report, Section, sections_of
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, chance, ends_in, facts_table, records
from sparse_prefgp.workflow.board_table import Battles, models_of, odd_of
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.folder import MODEL, PROGRAM
from sparse_prefgp.workflow.output import FitOutput, alone, command_line
from sparse_prefgp.workflow.reporting import Reporter
from sparse_prefgp.workflow.settings import AUTO, DEFAULT_ITERATIONS, FitSettings
from sparse_prefgp.workflow.workflow import heard, run_fit

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ranking import Ranking

ALL = "all"
BOARD, FIGURES, PAGE, LATEX = "board.csv", "board.json", "board.html", "board.tex"
TRUST = "trust.csv"
# Kinds with fewer battles have no board of their own.
LEAST_OF_KIND = 30
# Categories of which each is ranked under all points of the hyperparameters.
MOST_INTEGRATED = 5
# A tie at the top of more than this share of the models is no answer.
MOST_TIED = 0.5
_NAMED = 6
# Models of a board of a category, where not all are told.
FEW = 3
OF_KINDS = (
    "Boards by kind are fitted to their own battles alone, with a zero and a scale of their own: "
    "compare ranks between them, not points."
)


def _columns(top: int, versus: str) -> list[Column]:
    from sparse_prefgp.analysis.ranking import known_number

    return [
        Column("rank", "rank", ","),
        Column("model", "model", str, left=True),
        Column("elo", "Elo", ".0f"),
        Column("interval", "interval", ends_in(".0f"), spare=9),
        Column("ranks", "not ruled out", str, spare=10),
        Column("likely", "likely ranks", str, spare=4),
        Column("group", "group", known_number, spare=6),
        Column("score", f"against {versus}", chance, spare=3),
        Column("p_best", "best", chance, spare=8),
        Column("p_top_k", f"top {top}", chance, spare=7),
        Column("battles", "battles", ",", spare=5),
    ]


BIASES = (
    Column("name", "what differs", str, left=True),
    Column("unit", "by", str, left=True),
    Column("points", "Elo points", "z.1f"),
    Column("ends", "interval", ends_in("z.1f")),
)


class Part(NamedTuple):
    """What else is said of a board, under a title of its own and in a file of its own."""

    name: str
    """Of its file, without ending, and among the figures."""
    title: str
    result: Result
    rows: int = 100
    """Of its first table on the page; the file has all."""


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Result):
    """Models by how good they are, how sure that is, and what bends it."""

    rows_name = "board"
    aside = ("frame", "biases", "rankings", "parts_of", "fit", "table_of", "battles", "seen")

    frame: Any
    """Data frame with a row for each model of each board, the best first: `board` (`all`, a
    category or a kind of judge), `rank`, `model`, `elo`, `elo_lower` and `elo_upper` (points, and
    the interval of the distance from the average of the models), `score` (expected in a battle
    with `versus`, a tie counting half, sides and style being equal), `utility`, `sd`, `lower`,
    `upper`, `p_best`, `p_top_k`, `rank_low` and `rank_high` (not ruled out), `likely_low` and
    `likely_high`, `group`, as `rank` has them, and `battles`, those of the board alone.
    """
    biases: Any
    """Data frame of the covariates: what the side and one standard deviation of each style are
    worth, `points`, `points_lower` and `points_upper`."""
    rankings: Mapping[str, Ranking]
    """What `rank` said of each board."""
    parts_of: Sequence[Part]
    """Judges, and what else there is to say."""
    fit: FitOutput
    """The model of all battles, and its figures."""
    table_of: Duels
    """The battles as they were read."""
    battles: Battles
    """By which columns."""
    seen: tuple[list[str], FloatArray]
    """The models, the best first, and the share of points that each (row) won against each other,
    NaN where they never met."""
    abstention: Mapping[str, float]
    """By the share of the battles with a winner that is answered, the surest ones first, how often
    that is the one who is named, each battle being predicted from all others."""
    conclusion: str
    """Whether there is a winner, a tie at the top, or too little to tell; and, unless it is known
    who the first k are, whether more votes would settle it."""
    versus: str
    """The model that `score` is against: the anchor, else the first."""
    top: int
    """The k of `p_top_k`."""
    level: float
    """Of intervals and sets of ranks."""
    notes: tuple[str, ...]
    """What to know before relying on it."""

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self.fit.model

    @property
    def judges(self) -> Any:
        """What is known of each judge; None where nobody knows who judged, or there is one."""
        return self._part("judges")

    @property
    def audit(self) -> Any:
        """What bends the board, and what is clean; None where nobody looked."""
        return self._part("audit")

    def _part(self, name: str) -> Any:
        return next((part.result for part in self.parts_of if part.name == name), None)

    @property
    def reliance(self) -> str:
        """How to learn which verdicts of the board may be relied on: not of its own votes."""
        task = self.battles.roles.task
        of_each = "" if task is None else f" --task {shlex.quote(task)}"
        return (
            "From which probability on few verdicts are wrong is promised by votes that the board "
            "has not learned from: sparse-prefgp evaluate --model FOLDER --duels new.csv --risk "
            f"0.1{of_each} says it; to its own votes, in {TRUST}, the board is fitted. Below, each "
            "of them that one side won is predicted from all others, nothing being fitted again."
        )

    def board(self, name: str = ALL) -> Any:
        """The rows of one board.

        :raises ValueError: there is none of this name.
        """
        check_choice("The board", name, self.rankings)
        return self.frame[self.frame["board"] == name].drop(columns="board").reset_index(drop=True)

    def table(self, most: int | None = None, board: str = ALL) -> Table:
        """One board, or its first rows."""
        from sparse_prefgp.analysis.ranking import range_of_ranks

        found = self.board(board)
        shown = found if most is None else found.head(most)
        ends = {
            "interval": [*zip(shown["elo_lower"], shown["elo_upper"], strict=True)],
            "ranks": [*map(range_of_ranks, zip(shown.rank_low, shown.rank_high, strict=True))],
            "likely": [*map(range_of_ranks, zip(shown.likely_low, shown.likely_high, strict=True))],
        }
        part = "" if len(shown) == len(found) else f", the first {len(shown):,}"
        title = f"{counted(len(found), 'model')}{part}{'' if board == ALL else f': {board}'}"
        name = "board" if board == ALL else f"board_{board}"
        columns = _columns(min(self.top, len(found) - 1), self.versus)
        kinds = [other for other in self.rankings if other.startswith(f"{self.battles.by}: ")]
        caption = OF_KINDS if kinds[:1] == [board] else ""
        return Table(name, title, columns, records(shown.assign(**ends)), caption)

    def bias_table(self) -> Table:
        """What side and style are worth."""
        ends = [*zip(self.biases["points_lower"], self.biases["points_upper"], strict=True)]
        title = "What bends a verdict, in Elo points; the board is without it"
        return Table("biases", title, BIASES, records(self.biases.assign(ends=ends)))

    def sentences(self) -> list[str]:
        """How the figures of a board are to be read."""
        from sparse_prefgp.analysis.rank_sets import about_ranks

        ranking = self.rankings[ALL]
        equal = "sides" if self.biases.empty else "sides, " + ", ".join(self.battles.style)
        text = [
            f"Intervals hold {100 * self.level:g} %, of the distance from the average of the "
            f"models. {about_ranks(self.level)}",
            f"Against {self.versus}: expected score in a battle, a tie counting half, at equal "
            f"{equal.rstrip(', ')} and to a judge of the model's own noise.",
        ]
        if ranking.elo is not None:
            text.append(ranking.elo.sentence())
        if ranking.averaged:
            text.append(ranking.averaged)
        return text

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The conclusion, the boards, what bends verdicts, and all else."""
        found: list[str | Table] = [self.conclusion, self.table(most), *self.sentences()]
        found += [f"Note: {note}" for note in self.notes]
        few, others = None if most is None else min(most, FEW), [*self.rankings][1:]
        if most is not None and len(others) > MOST_INTEGRATED:
            found.append(f"There are {len(others)} boards more, in {BOARD} and {PAGE}.")
            others = []
        found += [self.table(few, name) for name in others]
        if not self.biases.empty:
            found.append(self.bias_table())
        for part in self.parts_of:
            found += part.result.parts(most)
        return found

    def to_latex(self, most: int | None = None) -> str:
        """The first board, with how its figures are to be read below it, to \\input; it needs the
        package booktabs.

        :param most: rows of it; None for all.
        """
        return as_latex(self.table(most), below=" ".join(self.sentences()))

    def to_dict(self) -> dict[str, Any]:
        """All figures: of the boards, biases, judges, all else, and the fit."""
        read_as = self.table_of.read_as
        return {
            **super().to_dict(),
            "biases": plain(self.biases),
            **{part.name: part.result.to_dict() for part in self.parts_of},
            "read_as": None if read_as is None else read_as.to_dict(),
            "fit": self.fit.figures["fit"],
        }

    def report(self, command: str | None = None) -> Report:
        """All that there is to say, with pictures.

        :param command: how to make it again.
        """
        from sparse_prefgp.analysis.verdicts import abstention_table

        first, rest = self.table(), [name for name in self.rankings if name != ALL]
        bent = [self.audit.conclusion] if self.audit and self.audit.findings else []
        sections = [
            Section(sentences=[self.conclusion]),
            Section("Before you rely on this", notes=[*bent, *filter(is_warning, self.notes)]),
            Section("The board", tables=[first], sentences=self.sentences()),
            Section("Pictures", pictures=self._pictures()),
            Section(
                "What bends a verdict", tables=[] if self.biases.empty else [self.bias_table()]
            ),
            *(
                Section(f"Board of {name}", tables=[self.table(None, name)], folded=True)
                for name in rest
            ),
        ]
        for part in self.parts_of:
            told = part.result.parts(part.rows)
            words = [one for one in told if isinstance(one, str)]
            tables = [one for one in told if not isinstance(one, str)]
            sections.append(Section(part.title, words, tables=tables))
        curve = [abstention_table(self.abstention)] if self.abstention else []
        sections.append(Section("Which verdicts to rely on", [self.reliance], tables=curve))
        if (read_as := self.table_of.read_as) is not None:
            reading = [f"{line}." for line in read_as.lines()]
            reading += [note for note in self.notes if not is_warning(note)]
            sections.append(Section("How the table was read", reading))
        about = [("seed", str(self.fit.settings.seed)), *versions().items()]
        sections.append(
            Section("To repeat this", code=command or "", tables=[facts_table("", about)])
        )
        number = self.table_of.given.counts.sum()
        subtitle = f"{counted(len(self.board()), 'model')}, {counted(int(number), 'battle')}"
        return Report("Leaderboard", f"{subtitle} · {PROGRAM}", sections_of(sections))

    def _pictures(self) -> list[Picture]:
        from sparse_prefgp.plotting import boards

        board, level = self.board(), self.level
        ranking = self.rankings[ALL]
        found = [
            Picture(
                "points",
                "How good, and how sure",
                "Elo points with their intervals; where these overlap widely the order is open.",
                lambda: boards.points(board, level=level),
                SVG,
            )
        ]
        if ranking.joint is not None:
            predicted = ranking.joint.scores(*self.model.likelihood.of_duels)
            all_drawn = len(board) <= boards.MOST_IN_MATRIX
            which = "" if all_drawn else f" The first {boards.MOST_IN_MATRIX} of {len(board):,}."
            found += [
                Picture(
                    "ranks",
                    "Which ranks are open",
                    "Grey: all ranks that are not ruled out; orange: the likely ones.",
                    lambda: boards.ranks(board, level=level),
                    SVG,
                ),
                Picture(
                    "who_beats_whom",
                    "Who beats whom",
                    "Left what the model expects of one battle at equal sides and style, right the "
                    f"points that were won; grey where two never met.{which}",
                    lambda: boards.who_beats_whom(self.seen[0], predicted, self.seen[1]),
                    SVG,
                ),
            ]
        if not self.biases.empty:
            found.append(
                Picture(
                    "biases",
                    "What each bias is worth",
                    "By how many points an answer seems better: the first side, and one standard "
                    "deviation more of each style.",
                    lambda: boards.worths(self.biases, level=level),
                    SVG,
                )
            )
        return found

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
        """Write `board.csv`, `board.json`, `board.tex`, `board.html`, `model/`, `trust.csv` (each
        vote with how probable it was, the most surprising first) and a table of each further part:
        `judges.csv`, `audit.csv`, `settled.csv`.

        :param folder: new, empty, or with `overwrite` that of an earlier board.
        :return: the names of what was written.
        :raises ValueError: a folder that holds something else, or a board.
        """
        from sparse_prefgp.analysis.trust import votes_by_surprise
        from sparse_prefgp.disk.saving import files_of, write_files

        place = Path(folder)
        check_board_folder(place, overwrite)
        files, roles = files_of(self.model), self.battles.roles
        about = [name for name in (roles.category, roles.task) if name is not None]
        of_votes = {name: self.table_of.context[name].to_numpy() for name in about}
        texts = {
            BOARD: csv_of(self.frame),
            **{f"{part.name}.csv": csv_of(part.result.to_frame()) for part in self.parts_of},
            TRUST: csv_of(votes_by_surprise(self.model, **of_votes)),
            LATEX: self.to_latex(),
            PAGE: as_html(self.report(command_line())),
        }
        everything = {"program": PROGRAM, **self.to_dict(), "files": [*texts]}
        texts[FIGURES] = as_json_text({**everything, "versions": versions()})
        with replaced_folder(place, _check_contents) as new:
            (new / MODEL).mkdir()
            write_files(new / MODEL, files)
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8")
        return [*texts, f"{MODEL}/"]


def check_board_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse a folder that cannot be made, or whose files must not be replaced.

    :param overwrite: an earlier board may be.
    :raises ValueError: it is a file, holds something else, or, unless `overwrite`, a board.
    """
    _check_contents(folder)
    if (folder / FIGURES).exists() and not overwrite:
        raise ValueError(
            f"The output folder {str(folder)!r} holds a board; give another folder, or "
            "--overwrite (overwrite=True)."
        )


def _check_contents(folder: Path) -> None:
    there, is_board = contents(folder), (folder / FIGURES).is_file()
    ours = {name for name in there if is_board and name.endswith(".csv")}
    foreign = sorted(there - ours - {BOARD, FIGURES, PAGE, LATEX, MODEL})
    foreign += [f"{MODEL}/{name}" for name in foreign_files(folder / MODEL)]
    check_replaceable(folder, foreign, "a board")


def leaderboard(
    battles: Any,
    *,
    style: str | Sequence[str] = (),
    by: str | None = None,
    top: int = 5,
    anchor: Any = None,
    judge: str | None = None,
    category: str | None = None,
    task: str | None = None,
    date: str | None = None,
    level: float = 0.9,
    audit: bool = True,
    prices: Any = None,
    max_iterations: int = DEFAULT_ITERATIONS,
    integrate: str = AUTO,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
    form: Form | None = None,
    **columns: Any,
) -> Leaderboard:
    """Rank models by battles of two each, with judges or without: `sparse-prefgp leaderboard`.

    Each model has a utility, and one more in each category; side and style have coefficients, which
    the board is without; each judge has a noise, a margin of ties and a lean to the first side.

    :param battles: path or data frame, a row for each: two sides and a verdict in any form that
        `read` takes, such as `model_a`, `model_b` and `winner`.
    :param style: what columns of both sides are of, such as `length` for `length_a` and `length_b`.
    :param by: a column, such as that of the kind of judge: each label with 30 battles or more has a
        board of its own battles besides, fitted to them alone.
    :param top: k of the chance to be among the first k.
    :param anchor: as for `rank`.
    :param judge: the column that says who judged; by default `judge`, `annotator`, `rater` or
        `worker` where there is one; `none` for none.
    :param category: the same of what a battle was about, by default `category`.
    :param task: the same of which prompt it was, for notes, by default `task` or `prompt`.
    :param date: the same of when it was, by default `date`.
    :param level: of intervals and sets of ranks.
    :param audit: look at what bends the board: `audit`.
    :param prices: what a vote of each judge costs, as `settled` takes it: who is best asked next.
    :param max_iterations: largest number of steps of the optimiser.
    :param integrate: as for `fit`: intervals average over what is not known of hyperparameters;
        those of more than five categories are at the most likely ones.
    :param seed: of all that is drawn at random.
    :param out: a folder to write to, see `Leaderboard.write`.
    :param overwrite: an earlier board there may be replaced.
    :param reporter: called as the fit proceeds, see `Reporter`; by default nobody.
    :param form: how the table is read; by default made of `columns`.
    :param columns: fields of `Form`, such as `sides`, `outcome` and `verdicts`.
    :raises ValueError: what the reader and the fit raise; fewer than two models; a folder that
        holds something else.
    """
    level, top = level_of_interval(level), whole_number("top", top, 1)
    place = None if out is None else Path(out)
    with alone(place):
        if place is not None:
            check_board_folder(place, overwrite)
        asked = {"judge": judge, "category": category, "task": task, "date": date}
        settings = FitSettings(
            max_iterations=max_iterations, integrate=integrate, seed=seed, test_fraction=0.0
        )
        said: list[str] = []
        with heard(said):
            opened = Battles.opened(battles, style, asked, form or Form(**columns), by)
            table = opened.read()
        _check_anchor(anchor, models_of(table)[1])
        if prices is not None:
            _check_prices(prices, opened, table)
        fitted = _fitted(opened, table, settings, reporter)
        found = _told(
            opened,
            table,
            replace(fitted, notes=(*said, *fitted.notes)),
            top=top,
            anchor=anchor,
            level=level,
            audited=audit,
            prices=prices,
        )
        if place is not None:
            found.write(place, overwrite=overwrite)
    return found


def _fitted(
    battles: Battles,
    table: Duels,
    settings: FitSettings,
    reporter: Reporter | None = None,
) -> FitOutput:
    """The model of all battles of a table."""
    category = battles.roles.category
    judge = battles.roles.judge if battles.has_judges else None
    terms = replace(
        settings,
        kernel="item" if category is None else f"item+item*{category}",
        noise_by_group=judge is not None,
        leans=((judge, SIDE),) if judge and SIDE in table.given.covariate_names else (),
    )
    return run_fit(Sources(answers=battles.remembering(table)), terms, reporter=reporter)


def _name_of(anchor: Any) -> str | None:
    """The model that is the anchor; None for none."""
    name = anchor if isinstance(anchor, str | None) else anchor[0]
    return None if name is None else id_text(name)


def _check_anchor(anchor: Any, models: Sequence[Any]) -> None:
    """Refuse an anchor that is none of the models, before anything is fitted."""
    name = _name_of(anchor)
    if name is not None:
        check_choice("The anchor", name, map(id_text, models), " (--anchor, anchor=)")


def _check_prices(prices: Any, battles: Battles, table: Duels) -> None:
    """Refuse prices of who is no judge, before anything is fitted."""
    from sparse_prefgp.analysis.prices import priced

    judge = table.given.judge
    if judge is None or not battles.has_judges:
        raise together.refused(prices=True, one_judge=True)
    priced(judge.names, prices)


def _told(
    battles: Battles,
    table: Duels,
    fitted: FitOutput,
    *,
    top: int,
    anchor: Any,
    level: float,
    audited: bool,
    prices: Any,
) -> Leaderboard:
    """All that a fit says of a board."""
    from sparse_prefgp.analysis.audit import audit
    from sparse_prefgp.analysis.judges import judges as judges_of
    from sparse_prefgp.analysis.ranking import rank
    from sparse_prefgp.analysis.settling import settled
    from sparse_prefgp.analysis.trust import own_abstention

    model, seed = fitted.model, fitted.settings.seed
    number = len(models_of(table)[1])
    most = min(top, number - 1)
    how = {"order": "mean", "level": level, "top_k": most, "anchor": anchor}
    rankings = {ALL: rank(model, rng=seeded(seed), **how)}
    category, notes = battles.roles.category, odd_of(battles, table)
    if most < top:
        notes.append(
            f"There are {counted(number, 'model')}, so that chances are those of being among the "
            f"first {most:,}, not {top:,} (--top)."
        )
    if category is not None:
        labels = sorted(battles.texts(category).unique())
        quick = model if len(labels) <= MOST_INTEGRATED else model.at_mode
        if quick is not model:
            notes.append(
                f"Intervals of the {len(labels)} categories are those at the most likely "
                "hyperparameters; those of all battles include what is not known of them."
            )
        for label in labels:
            where = {category: label}
            rankings[f"{category}: {label}"] = rank(quick, at=where, rng=seeded(seed), **how)
    kinds = battles.kinds
    if len(kinds) == 1:
        notes.append(
            f"The column {battles.by!r} of kinds has one label, {next(iter(kinds))!r}: its board "
            "is that of all battles (--by)."
        )
    elif kinds:
        of_kinds, odd = _of_kinds(battles, fitted.settings, how)
        rankings |= of_kinds
        notes += odd
    stated = _name_of(anchor)
    versus = str(rankings[ALL].frame["item_id"].iloc[0] if stated is None else stated)
    parts = []
    if battles.has_judges:
        parts.append(Part("judges", "The judges", judges_of(model, level=level)))
    if audited:
        said, of = table.context, category or battles.only_audited
        days = battles.days(said)
        audited_as = audit(model, said, date=days, category=of, by=battles.by, level=level)
        parts.append(Part("audit", "What bends it, and what is clean", audited_as))
    settling = settled(model, most, prices=prices, rng=seeded(seed))
    parts.append(Part("settled", "What next", settling, 20))
    frames = [
        _rows(model, ranking, versus).assign(board=name) for name, ranking in rankings.items()
    ]
    frame = require_pandas().concat(frames, ignore_index=True)
    frame.insert(0, "board", frame.pop("board"))
    notes += [note for note in fitted.notes if note not in notes]
    first, all_tied = frames[0], bool((table.given.kind == TIE).all())
    in_words = conclusion(first, level, all_tied)
    clear = int((first["group"] == 1).sum()) == 1
    if not all_tied and not (clear and (most == 1 or settling.settled)):
        in_words = f"{in_words} {settling.outlook}"
    return Leaderboard(
        frame=frame,
        biases=_biases(model, table, rankings[ALL], level),
        rankings=rankings,
        parts_of=parts,
        fit=fitted,
        table_of=table,
        battles=battles,
        seen=_seen(table, first["model"].tolist()),
        abstention=own_abstention(model),
        conclusion=in_words,
        versus=versus,
        top=most,
        level=level,
        notes=tuple(notes),
    )


def _of_kinds(
    battles: Battles, settings: FitSettings, how: Mapping[str, Any]
) -> tuple[dict[str, Ranking], list[str]]:
    """Boards of the battles of each label, and what is odd of them, a sentence each."""
    from sparse_prefgp.analysis.ranking import rank

    found, small, notes = {}, [], []
    by, anchor = battles.by, _name_of(how["anchor"])
    for label, number in battles.kinds.items():
        if number < LEAST_OF_KIND:
            small.append(label)
            continue
        own, board = battles.of_kind(label), f"{by}: {label}"
        with warnings.catch_warnings():  # what there is to say was said of all battles
            warnings.simplefilter("ignore")
            table = own.read()
            fitted = _fitted(own, table, settings)
        if (table.given.kind == TIE).all():
            notes.append(
                f"All {counted(number, 'battle')} of {by} {label} are ties: on that board models "
                "are equals, and how long intervals are is what the prior says."
            )
        models = models_of(table)[1]
        asked = {**how, "top_k": min(how["top_k"], len(models) - 1)}
        if anchor is not None and anchor not in {id_text(name) for name in models}:
            asked["anchor"] = None
            notes.append(
                f"The board of {by} {label} has no anchor, as {anchor} has no battle there: the "
                "average of its models has 1,000 points."
            )
        notes += [f"Board of {by} {label}: {note[0].lower()}{note[1:]}" for note in own.notes]
        found[board] = rank(fitted.model, rng=seeded(settings.seed), **asked)
    if small:
        have = agreeing(len(small), "has", "have")
        notes.append(
            f"{and_so(small)} of {by} {have} fewer than {LEAST_OF_KIND} battles and no board."
        )
    return found, notes


def _rows(model: Any, ranking: Ranking, versus: str) -> Any:
    """The rows of a board, as `Leaderboard.frame` has them."""
    frame, scale = ranking.frame, ranking.elo
    assert scale is not None
    against = np.full(len(frame), np.nan)
    place = [i for i, name in enumerate(frame["item_id"]) if id_text(name) == versus]
    if ranking.joint is not None and place:
        against = ranking.joint.scores(*model.likelihood.of_duels)[:, place[0]]
    ends = {f"elo_{end}": scale.of(frame[end].to_numpy()) for end in ("lower", "upper")}
    kept = ["rank", "item_id", "elo", "elo_lower", "elo_upper", "score", "utility", "sd", "lower"]
    kept += ["upper", "p_best", "p_top_k", "rank_low", "rank_high", "likely_low", "likely_high"]
    kept += ["group", "comparisons"]
    made = frame.assign(score=against, **ends)[kept]
    return made.rename(columns={"item_id": "model", "comparisons": "battles"})


def conclusion(board: Any, level: float, all_tied: bool = False) -> str:
    """Whether there is a winner, a tie at the top, or too little to tell, in a sentence.

    :param board: rows as of `Leaderboard.frame`, the best first.
    :param level: of the sets of ranks.
    :param all_tied: whether no battle was decided.
    """
    names, count = [str(name) for name in board["model"]], len(board)
    if all_tied:
        return (
            f"The {count} models are equals: all battles are ties, and how long intervals are is "
            "what the prior says."
        )
    if board["group"].isna().any():
        return f"{names[0]} leads by expected utility; how sure that is was not asked."
    tied = int((board["group"] == 1).sum())
    sure = f"by the ranks not ruled out at {100 * level:g} %"
    if tied == 1:
        apart = board["elo"].iloc[0] - board["elo"].iloc[1]
        return f"A clear winner, {sure}: {names[0]}, {apart:,.0f} points ahead of {names[1]}."
    shown = and_so(names[:tied]) if tied <= _NAMED else f"{', '.join(names[:_NAMED])} and others"
    if tied > MOST_TIED * count and tied > 2:
        return (
            f"Not enough votes: {sure}, {tied} of {count} models cannot be told apart from the "
            f"first, {names[0]}."
        )
    return f"A tie at the top of {tied} models, {sure}: {shown}."


def _seen(table: Duels, names: Sequence[Any]) -> tuple[list[str], FloatArray]:
    """Shares of points that models won against each other, (c, c), in this order of names."""
    ends, known = models_of(table)
    place = {id_text(name): i for i, name in enumerate(names)}
    number = np.array([place[id_text(name)] for name in known])[ends]
    points, won = np.zeros((len(names), len(names))), np.where(table.given.kind == TIE, 0.5, 1.0)
    np.add.at(points, tuple(number.T), won * table.given.counts)
    np.add.at(points, tuple(number.T[::-1]), (1.0 - won) * table.given.counts)
    total = points + points.T
    with np.errstate(invalid="ignore"):
        return [str(name) for name in names], points / np.where(total > 0.0, total, np.nan)


def _biases(model: Any, table: Duels, ranking: Ranking, level: float) -> Any:
    """What side and style are worth in Elo points, the side once and style by one sd."""
    names, scale = table.given.covariate_names, ranking.elo
    columns = ["name", "unit", "points", "points_lower", "points_upper"]
    if not names or scale is None:
        return require_pandas().DataFrame(columns=columns)
    known, differences = model.coefficients(level), table.given.covariate_differences
    assert differences is not None
    coefficients, rows = known.marginals.times(model.mixture.units), []
    mean, ends = coefficients.mean, coefficients.interval(level)
    for i, name in enumerate(names):
        spread = 1.0 if name == SIDE else float(np.sqrt(np.mean(differences[:, i] ** 2)))
        unit = "being the first" if name == SIDE else f"{spread:.3g}, one sd of the difference"
        values = [mean[i], *ends[i]]
        rows.append([name, unit, *(scale.points * spread * value for value in values)])
    return require_pandas().DataFrame(rows, columns=columns)
