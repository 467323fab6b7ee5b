"""One part of the duels: it keeps its own sites, and answers with sums over them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from sparse_prefgp.approximations import SummedApproximation
from sparse_prefgp.approximations.layout import choose_stream_layout
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines.propagation import MAX_LOCAL_SWEEPS
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.streaming.algebra import (
    Algebra,
    SiteSums,
    size_of,
)
from sparse_prefgp.models.streaming.gaussian import Natural
from sparse_prefgp.models.streaming.threads import in_order
from sparse_prefgp.support.arrays import FloatArray

Found = TypeVar("Found")
# Rows that a pass has seen, after each chunk.
Seen = Callable[[int], None]


class Task(NamedTuple):
    """What the coordinator asks of a part in one round."""

    cavity: FloatArray
    """`Natural.packed`, the posterior of u without this part."""
    values: FloatArray | None = None
    """Hyperparameters, where they have changed since its last task."""
    sweeps: int | None = 1
    """Local sweeps, 0 to hold the sites and give the sums, None until the part has settled to the
    tolerance.
    """
    damping: float = 1.0
    """Share of each local step."""
    tolerance: float = 1e-8
    correct: bool = False
    """Whether the approximation's correction is wanted."""
    gradient: bool = False
    """Hold the sites, and pull the derivative of the evidence in both sums, which follows from
    posterior and sites, through the part's own duels.
    """
    restart: bool = False
    """Begin the sites at zero."""


class Reply(NamedTuple):
    """What a part answers."""

    site: FloatArray
    """`Natural.packed` of its Gaussian site over u."""
    seen: SiteSums
    """Sums over its sites as they were at the beginning, under the posterior they were part of."""
    gradient: FloatArray | None
    """In all hyperparameters, or None."""
    rows: int
    """Duels worked through."""
    sweeps: int
    """Passes over these duels."""
    jitter: float
    seconds: float


# Of each part by its number what it replied, or why it was lost.
Replies: TypeAlias = dict[int, Reply | str]


class SiteStore:
    """nu and tau of t sites, (2, t), in memory or in a memory-mapped `.npy` file.

    :param path: of the file, which must not exist; None keeps them in memory.
    :raises ValueError: the file exists, or cannot be made.
    """

    def __init__(self, sites: int, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._values: FloatArray
        if self.path is None:
            self._values = np.zeros((2, sites))
            return
        try:
            self.path.open("xb").close()
        except FileExistsError:
            raise ValueError(
                f"The file for the sites {str(self.path)!r} exists already; remove it, or give "
                "another name."
            ) from None
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"The file for the sites {str(self.path)!r} lies in no folder; make the folder "
                f"{str(self.path.parent)!r} first."
            ) from None
        self._values = np.lib.format.open_memmap(self.path, mode="w+", shape=(2, sites))

    def read(self, start: int, sites: int, size: int) -> FloatArray:
        """Sites start to start + sites, (2, size), with zeros after them."""
        values = np.zeros((2, size))
        values[:, :sites] = self._values[:, start : start + sites]
        return values

    def write(self, start: int, sites: int, values: FloatArray) -> None:
        self._values[:, start : start + sites] = values[:, :sites]

    def clear(self) -> None:
        self._values[:] = 0.0

    def all(self) -> FloatArray:
        """(2, t), nu and tau."""
        return np.array(self._values)


def algebra_for(
    streams: Sequence[Duels],
    parameters: Hyperparameters,
    approximation: SummedApproximation,
    size: int | None = None,
) -> Algebra:
    """What parts in one process share: compiled passes, and features of items.

    :param streams: of the parts.
    :param parameters: a copy that is theirs.
    :param size: duels in a chunk; None chooses by m. What was chosen is logged at debug level.
    """
    layout = choose_stream_layout(
        shared_items(streams[0], parameters, approximation),
        max(stream.batches.num_sites for stream in streams),
        size_of(parameters, approximation, streams[0].has_sets).u,
        streams[0].num_features,
        size,
    )
    return Algebra(parameters, approximation, layout, streams[0])


def shared_items(
    stream: Duels, parameters: Hyperparameters, approximation: SummedApproximation
) -> int | None:
    """How many items sums can go over; None where these are over duels alone."""
    # Neither blocks nor tastes are those of items, nor covariates of sets.
    apart = approximation.has_blocks or parameters.terms.taste is not None
    apart = apart or (stream.has_sets and bool(parameters.columns.covariates))
    return None if apart or not stream.has_items else stream.num_items


class Part:
    """Duels of one part, with their sites and the Gaussian site over u that these make.

    :param duels: its part of a stream.
    :param algebra: which parts that work one after the other may share.
    :param sites_file: where its sites live; None for memory.
    """

    def __init__(
        self,
        duels: Duels,
        algebra: Algebra,
        sites_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.duels = duels
        self.store = SiteStore(duels.batches.num_sites, sites_file)
        self.algebra = algebra
        self._site = Natural.zeros(algebra.natural_size)

    def work(self, task: Task, seen: Seen | None = None) -> Reply:
        """Do what a task says.

        :raises ValueError: a file that cannot be read, or other duels than before.
        """
        started = time.perf_counter()
        if task.values is not None:
            self.algebra.use(task.values)
        if task.restart:
            self.store.clear()
            self._site = Natural.zeros(self.algebra.natural_size)
        cavity = Natural.unpacked(task.cavity, self.algebra.natural_size)
        found, gradient, sweeps = SiteSums(), None, 1
        if task.gradient:
            # Of what this part adds to the evidence, its sites held.
            self.algebra.begin(cavity.plus(self._site))
            own, by_source = np.zeros(self.algebra.num_values), np.zeros(())
            for _, (slope, here, slope_of_source) in self._pass(self.algebra.pull, seen):
                own, by_source = own + slope, by_source + slope_of_source
                found = found.plus(here)
            gradient = own + self.algebra.pull_source(by_source)
        elif task.sweeps == 0:
            # The Gaussian site that the sites make under the hyperparameters as they are.
            site = Natural.zeros(self.algebra.natural_size)
            for _, sums in self._pass(self.algebra.hold, seen):
                site = site.plus(sums)
            self._site = site
        else:
            most = MAX_LOCAL_SWEEPS if task.sweeps is None else task.sweeps
            found = last = self._sweep(cavity, task.damping, task.correct, seen)
            while sweeps < most and (task.sweeps is not None or last.change > task.tolerance):
                last, sweeps = self._sweep(cavity, task.damping, False, seen), sweeps + 1
        return Reply(
            self._site.packed(),
            found,
            gradient,
            self.duels.num_rows,
            sweeps,
            self.algebra.jitter,
            time.perf_counter() - started,
        )

    def _sweep(self, cavity: Natural, damping: float, correct: bool, seen: Seen | None) -> SiteSums:
        """One local sweep over all sites from the same marginals."""
        algebra, found, site = self.algebra, SiteSums(), Natural.zeros(self.algebra.natural_size)
        algebra.begin(cavity.plus(self._site))
        sweep = partial(algebra.sweep, damping=damping, look=correct)
        for at, (new, here, sums) in self._pass(sweep, seen):
            self.store.write(at.start, at.sites, new)
            site, found = site.plus(sums), found.plus(here)
        self._site = site
        return found

    def _pass(
        self, work: Callable[[DuelGraph, FloatArray], Found], seen: Seen | None
    ) -> Iterator[tuple[_At, Found]]:
        """What `work` makes of each chunk and its sites, in the order of the chunks."""
        algebra, size = self.algebra, self.algebra.size

        def one(chunk: Duels, sites: FloatArray) -> Found:
            return work(algebra.graph(chunk), sites)

        def given() -> Iterator[tuple[_At, Callable[[], Found]]]:
            start = stop = 0
            for chunk in self.duels.chunks(size):
                events = chunk.given
                sites = int(events.sites_next_to(algebra.about_sets).sum())
                stop += len(events)
                at = _At(start, sites, stop)
                start += at.sites
                length = at.sites if algebra.about_sets or events.block is not None else size
                yield at, partial(one, chunk, self.store.read(at.start, at.sites, length))

        for at, found in in_order(given(), algebra.at_once):
            yield at, found
            if seen is not None:
                seen(at.stop)


class _At(NamedTuple):
    """Which sites of a part a chunk has, and at which of its events it stops."""

    start: int
    sites: int
    stop: int
