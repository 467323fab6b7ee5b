"""The parts of a stream at work: where they are, what they have copies of, and who watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from sparse_prefgp.approximations import SummedApproximation
from sparse_prefgp.approximations.layout import fits_in_memory
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.engines import PartitionedEP
from sparse_prefgp.models.base import same_objects
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.streaming.algebra import Algebra, size_of
from sparse_prefgp.models.streaming.cluster import Cluster
from sparse_prefgp.models.streaming.part import Part, algebra_for, shared_items
from sparse_prefgp.models.streaming.rounds import Coordinator, InProcess, Pool
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_kind, check_number


@dataclass(frozen=True)
class StreamProgress:
    """Within a round: what a progress bar shows."""

    what: str
    """Which pass this is."""
    round: int
    """Number of the round, from 1."""
    rows: int
    """Duels passed so far."""
    total: int
    """Duels of the pass."""
    change: float
    """The largest change seen by the last whole round, NaN before the first."""
    duels_per_second: float
    """Speed within this pass."""
    seconds_left: float
    """Expected until the end of this pass."""


@dataclass(frozen=True)
class PartsOptions:
    """Where the parts work, and how."""

    sites: str | os.PathLike[str] | None = None
    chunk: int | None = None
    scheduler: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        hint = "the path of a new .npy file"
        check_kind("sites", self.sites, str | os.PathLike | None, hint)
        hint = "'local' or the address of a Dask scheduler"
        check_kind("scheduler", self.scheduler, str | None, hint)
        if self.timeout is not None:
            check_number("timeout", self.timeout, above=0.0, hint=", of seconds")
        together.check(
            sites=self.sites is not None,
            scheduler=self.scheduler is not None,
            no_scheduler=self.scheduler is None,
            timeout=self.timeout is not None,
        )

    @property
    def of_sites(self) -> str:
        """Where the sites are, in words."""
        if self.scheduler is not None:
            return "in the memory of the workers"
        return "in memory" if self.sites is None else f"in {str(self.sites)!r}"

    def file(self, number: int, parts: int) -> Path | None:
        """For the sites of a part."""
        if self.sites is None:
            return None
        path = Path(self.sites)
        return path if parts == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")


@dataclass(eq=False)
class StreamInference:
    """The parts of a stream, with their sites, and the coordinator of their rounds.

    They are made when they are first needed.
    """

    stream: Duels | None
    """None for a model that was loaded, which can predict but not learn."""
    seen: Duels
    approximation: SummedApproximation
    engine: PartitionedEP
    place: PartsOptions = PartsOptions()
    pool: Pool | None = None
    """The parts; None before they are needed and after `close`."""
    rebuilt: list[str] = field(default_factory=list)
    """What was lost on other machines and rebuilt, in words."""
    _coordinator: Coordinator | None = None
    _copied: tuple[tf.Module, ...] | None = None

    @property
    def holds_sites(self) -> bool:
        """Whether the parts have sites of earlier calls."""
        return self._coordinator is not None

    def fits_in_memory(self, parameters: Hyperparameters) -> bool:
        """Whether a fit in memory takes the place of chunks, which it does where they are not asked
        for, its sites are those of a stream, and there is room for it."""
        stream, place = self.stream, self.place
        if stream is None or place.scheduler is not None or place.chunk is not None:
            return False
        # Equal duels with weights below 1 are one site there, and so another approximation.
        if self.approximation.over == "duels" or "weights" in stream.said.columns:
            return False
        n = shared_items(stream, parameters, self.approximation)
        m = size_of(parameters, self.approximation, self.seen.has_sets).u
        width = parameters.columns.layout.width
        return n is not None and fits_in_memory(n, stream.batches.num_sites, m, width)

    def coordinator(self, parameters: Hyperparameters) -> Coordinator:
        """That of parts which learn by these parameters: the same one as long as it is possible."""
        self._follow(parameters)
        if self._coordinator is None:
            size = size_of(parameters, self.approximation, self.seen.has_sets)
            self._coordinator = Coordinator(self.parts(parameters), size, self.engine)
        return self._coordinator

    def parts(self, parameters: Hyperparameters) -> Pool:
        """The pool."""
        if self.pool is not None:
            return self.pool
        assert self.stream is not None
        place, parts = self.place, self.stream.cut(self.engine.parts)
        if place.scheduler is not None:
            self.pool = Cluster(
                parts,
                parameters.described(),
                self.approximation,
                place.chunk,
                place.scheduler,
                place.timeout,
            )
        else:
            algebra = self._algebra(parameters, parts)
            self.pool = InProcess(
                [Part(part, algebra, place.file(k, len(parts))) for k, part in enumerate(parts)]
            )
        return self.pool

    @contextmanager
    def telling(
        self, parameters: Hyperparameters, progress: Callable[[StreamProgress], None] | None
    ) -> Iterator[Coordinator]:
        """The coordinator; within the block `progress` hears of the rows of each pass."""
        coordinator, pool = self.coordinator(parameters), self.parts(parameters)
        last, total = 0, sum(pool.rows)
        started = seen_at = time.perf_counter()

        def seen(rows: int) -> None:
            nonlocal last, started, seen_at
            if progress is None:
                return
            now = time.perf_counter()
            if rows <= last:  # another pass has begun
                started = seen_at
            last, seen_at = rows, now
            at, speed = coordinator.at, rows / max(now - started, 1e-9)
            left = (total - rows) / speed
            progress(StreamProgress(at.what, at.round, rows, total, at.change, speed, left))

        pool.seen = seen
        try:
            yield coordinator
        finally:
            pool.seen = None

    def close(self) -> None:
        """Let go of the parts: their sites, and the workers that were started for them."""
        if self.pool is not None:
            self.pool.close()
        self.pool = self._coordinator = None

    def _follow(self, parameters: Hyperparameters) -> None:
        """Parts have copies of the kernel and all else: rebuild them where one was replaced."""
        modules = tuple(parameters.submodules)
        if self._copied is not None and not same_objects(modules, self._copied):
            if isinstance(self.pool, InProcess):
                self.pool.learn_by(self._algebra(parameters, self.pool.streams))
                self._coordinator = None
            else:
                self.close()
        self._copied = modules

    def _algebra(self, parameters: Hyperparameters, parts: Sequence[Duels]) -> Algebra:
        """For parts in this process, from a copy of the parameters."""
        copied = parameters.described().rebuilt()
        return algebra_for(parts, copied, self.approximation, self.place.chunk)
