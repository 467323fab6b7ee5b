"""A process of its own at low priority that learns from the answers, ranks, and says which pairs to
ask: the page never waits for it."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.ask.memory import ask_for_names, names_alone
from sparse_prefgp.ask.pairing import Uneven
from sparse_prefgp.ask.queue import Left, next_pairs
from sparse_prefgp.ask.settings import PageSettings
from sparse_prefgp.ask.store import MODEL
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.io.votes import LEFT, TIE, Votes, read_votes
from sparse_prefgp.support.words import of_the_mode
from sparse_prefgp.tell.page import parts_as_html
from sparse_prefgp.tell.tables import Column, Table, chance, first_of, records

SETTLE = "settle"
# An update every so many answers; hyperparameters are learned again when there are so many times
# as many.
EVERY, GROWN = 10, 1.3
# Fewer answers say nothing.
FEWEST_ANSWERS = 6
NICE = 10
# Rows of the ranking on the page, and of its picture; all are in its CSV.
MOST_SHOWN, MOST_DRAWN, MOST_NOTES = 100, 30, 50


@dataclass(frozen=True)
class Learned:
    """What the process says of the answers."""

    answers: int
    """How many it is of."""
    pairs: Sequence[tuple[str, str]] = ()
    uneven: Uneven | None = None
    """Pairs that may be asked, by the order of the items; None for all."""
    html: str = ""
    """The first ones of the ranking, people and notes, as a part of a page."""
    csv: bytes = b""
    """The whole ranking."""
    picture: bytes = b""
    """Of it, as SVG."""
    settled: float | None = None
    """Chance that the first ones are settled."""
    problem: str = ""
    """Why there is nothing else, in words."""


@dataclass
class Learner:
    """From the answers of a folder to a model, a ranking and pairs to ask."""

    path: Path
    """The file of votes."""
    items: Any
    """The table of items; of their ids alone where nothing else is known."""
    settings: PageSettings
    _model: Any = field(default=None, init=False)
    _learned_at: int = field(default=0, init=False)
    _rows: Any = field(default=None, init=False)

    @property
    def _names(self) -> Any:
        return self.items.iloc[:, 0].map(id_text)

    def learn(self) -> Learned:
        """From all answers that stand.

        :raises ValueError: what `fit`, `update`, `rank` and `settled` raise.
        """
        from sparse_prefgp.analysis.ranking import rank
        from sparse_prefgp.analysis.settling import settled
        from sparse_prefgp.disk.saving import save

        store = read_votes(self.path)
        votes = store.frame
        asked = votes[["left", "right"]].isin([*self._names]).all(axis=1)
        votes = votes[asked].reset_index(drop=True)
        number = len(votes)
        if number < FEWEST_ANSWERS or votes["verdict"].eq("tie").all():
            return Learned(number)
        if self._model is None:
            ask_for_names(self.items)
        model = self._fitted(votes)
        folder = self.path.parent / MODEL
        with contextlib.suppress(OSError, ValueError):  # a full disk: the answers are what counts
            save(model, folder)
        rng = np.random.default_rng(self.settings.seed + number)
        ranking = rank(model, top_k=self.settings.top, rng=rng)
        said = [*parts_of(ranking), of_the_mode("Intervals and chances")]
        pairs, problem = self._pairs(model, store, rng)
        return Learned(
            number,
            pairs,
            self._uneven(model, ranking),
            parts_as_html([*said, people_of(votes), *notes_of(store.notes)]),
            csv_of(ranking.frame).encode(),
            picture_of(ranking),
            settled(model, self.settings.top, rng=rng).chance_now,
            problem,
        )

    def _fitted(self, votes: Any) -> Any:
        from sparse_prefgp.analysis.updating import update
        from sparse_prefgp.workflow.fit_sources import read
        from sparse_prefgp.workflow.workflow import fit

        before = self._rows
        grown = before is None or len(votes) >= GROWN * self._learned_at
        # An answer that was taken back is no longer in the table: then all is learned again.
        joined = not grown and votes.head(len(before)).equals(before)
        if joined:
            new = votes.iloc[len(before) :]
            if len(new):
                self._model, _ = update(self._model, new)
        else:
            # By all items, which these features tell apart, not by those asked about so far.
            text = [name for name in self.settings.text if name in self.items.columns]
            duels = read(votes, self.items, text=text).standardised()
            self._model = fit(
                duels=duels, test_fraction=0.0, integrate=False, seed=self.settings.seed
            ).model
            self._learned_at = len(votes)
        self._rows = votes
        return self._model

    def _uneven(self, model: Any, ranking: Any) -> Uneven | None:
        if self.settings.closest <= 0.5:
            return None
        own = ranking.frame.set_index(ranking.frame["item_id"].map(id_text)).reindex(self._names)
        noise, _ = model.likelihood.of_duels
        return Uneven(
            own["utility"].to_numpy(), own["sd"].to_numpy() ** 2, noise, least=self.settings.closest
        )

    def _pairs(
        self, model: Any, votes: Votes, rng: np.random.Generator
    ) -> tuple[list[tuple[str, str]], str]:
        """What to ask next, and why there is nothing."""
        answers = require_pandas().concat([votes.frame, votes.skips])
        left = None if self.settings.repeat else Left(answers, self.settings.invited)
        score = self.settings.score or (SETTLE if names_alone(self.items) else "bald")
        try:
            return next_pairs(model, score, self.settings.top, self.settings.closest, left, rng), ""
        except ValueError as error:
            return [], str(error)


def parts_of(ranking: Any) -> list[str | Table]:
    """A ranking in words and tables, without what speaks of options that a page lacks."""
    from sparse_prefgp.analysis.ranking import BY_MEAN

    parts = ranking.parts(MOST_SHOWN)
    return [part.replace(BY_MEAN, "") if isinstance(part, str) else part for part in parts]


def picture_of(ranking: Any) -> bytes:
    """Utilities with their intervals, as SVG; chances are in the table."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from sparse_prefgp import plotting

    axes = plotting.utilities(
        replace(ranking, frame=ranking.frame.drop(columns="p_best")), top=MOST_DRAWN
    )
    file = io.BytesIO()
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return file.getvalue()


def people_of(votes: Any) -> Table:
    """How many answers each person gave, and how often most others said the same of a pair."""
    sides = votes[["left", "right"]]
    pair = [sides.min(axis=1), sides.max(axis=1)]
    is_first = votes["left"].eq(pair[0]) == votes["verdict"].eq(LEFT)
    said = np.where(votes["verdict"].eq(TIE), 2, is_first)
    # How often each of the three was said, by all of the pair less whoever it is.
    each = require_pandas().DataFrame(np.eye(3)[said], index=votes.index)
    own = each.groupby([*pair, votes["judge"]]).transform("sum")
    others = (each.groupby(pair).transform("sum") - own).to_numpy()
    agreed = others[np.arange(len(said)), said] == others.max(1)
    shared = others.any(1)
    frame = votes.assign(shared=shared, agreed=np.where(shared, agreed, np.nan))
    people = frame.groupby("judge").agg(
        answers=("left", "size"), shared=("shared", "sum"), agreed=("agreed", "mean")
    )
    people = people.loc[votes["judge"].value_counts().index].rename_axis("person").reset_index()
    columns = [
        Column("person", "person", str, left=True),
        Column("answers", "answers", ","),
        Column("shared", "of pairs that others had too", ",", spare=1),
        Column("agreed", "share as most of these said", chance),
    ]
    return Table("people", "People", columns, records(people))


def notes_of(notes: Any) -> list[Table]:
    """What people wrote with their last answers; nothing where nobody wrote."""
    columns = [Column(name, name, str, left=True) for name in ("note", "left", "right", "verdict")]
    columns.insert(1, Column("judge", "person", str, left=True))
    last = notes.iloc[::-1].head(MOST_NOTES)
    title = first_of(len(last), len(notes), "notes, the last first")
    return [Table("notes", title, columns, records(last))] if len(notes) else []


def run(learner: Learner, pipe: Connection) -> None:
    """Learn whenever the pipe asks, until it is closed."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICE)
    # The console is the page's: what TensorFlow says at its start, before its levels count, is not.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            learned = learner.learn()
        except KeyboardInterrupt:
            return
        except ValueError as error:
            learned = Learned(0, problem=str(error))
        except Exception:
            learned = Learned(0, problem=traceback.format_exc(limit=-1))
        try:
            pipe.send(learned)
        except (BrokenPipeError, OSError):
            return


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Whoever begins here is not interrupted by Ctrl-C, as that is for the page, which ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """End at once where the page was killed, in the middle of a fit too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Refitting:
    """The process, as the page sees it."""

    def __init__(self, learner: Learner) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=run, args=(learner, other), daemon=True)
        with _without_interrupts():
            self._process.start()
        other.close()

    def learned(self) -> Learned:
        """From the answers that are there now.

        :raises EOFError: the process has ended; where that is seen as it is asked, an `OSError`.
        """
        self._pipe.send(None)
        learned: Learned = self._pipe.recv()
        return learned

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join(5.0)
        self._pipe.close()
