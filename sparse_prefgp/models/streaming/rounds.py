"""Synchronous rounds of partitioned EP: the side that adds up what the parts say."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.engines import InferenceResult, PartitionedEP, Status
from sparse_prefgp.engines.base import Pace
from sparse_prefgp.evidence import summed_log_evidence
from sparse_prefgp.models.streaming.algebra import Algebra
from sparse_prefgp.models.streaming.gaussian import Natural, Size
from sparse_prefgp.models.streaming.part import Part, Replies, Reply, Seen, Task
from sparse_prefgp.support.arrays import FloatArray

# A part that is lost so often in one run is not lost by chance.
MAX_REBUILDS = 5


class Pool(Protocol):
    """Where the parts are."""

    seen: Seen | None
    """Called with how many duels have been passed in this round; None calls nobody."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Duels of each part."""

    def work(self, tasks: dict[int, Task]) -> Replies:
        """Let the parts of these numbers work at once.

        :raises ValueError: a part that cannot do its work anywhere, such as a file that cannot be
            read. OSError: nobody left to do it.
        """

    def rebuild(self, number: int) -> None:
        """Rebuild a part, elsewhere if need be, with its sites at zero."""

    def sites(self) -> list[FloatArray]:
        """nu and tau of each part, (2, rows) each.

        :raises ValueError: the parts are in other processes.
        """

    def close(self) -> None:
        """Let go of everything."""


class InProcess:
    """Parts in this process, one after the other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self.seen: Seen | None = None

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(part.duels.num_rows for part in self._parts)

    @property
    def streams(self) -> tuple[Duels, ...]:
        """The duels of each part."""
        return tuple(part.duels for part in self._parts)

    def learn_by(self, algebra: Algebra) -> None:
        """Go on with other kernels or inducing inputs; a new coordinator must begin at zero."""
        for part in self._parts:
            part.algebra = algebra

    def work(self, tasks: dict[int, Task]) -> Replies:
        before = 0
        replies: Replies = {}

        def seen(rows: int) -> None:
            if self.seen is not None:
                self.seen(before + rows)

        for number, task in tasks.items():
            part = self._parts[number]
            replies[number] = part.work(task, seen)
            before += part.duels.num_rows
        return replies

    def rebuild(self, number: int) -> None:
        raise AssertionError(f"part {number} of this process cannot be lost")

    def sites(self) -> list[FloatArray]:
        return [part.store.all() for part in self._parts]

    def close(self) -> None:
        self._parts = []


def wire_size(message: Any) -> int:
    """Bytes of a message as it is sent, the frame of the connection apart."""
    return len(pickle.dumps(message, protocol=5))


@dataclass(frozen=True)
class Round:
    """One round."""

    number: int
    """From 1 within a run."""
    change: float
    """The largest that an undamped sweep over all duels would make, before it."""
    damping: float
    """Share of each local step."""
    log_evidence: float
    """Before the round, in nats."""
    sweeps: int
    """Most local sweeps of a part."""
    bytes_sent: tuple[int, ...]
    """Bytes sent to each part."""
    bytes_received: tuple[int, ...]
    """Bytes received from each part."""
    seconds: float
    """Wall seconds of the round."""
    part_seconds: tuple[float, ...]
    """Seconds of each part's own work."""
    rebuilt: tuple[str, ...] = ()
    """What was lost and rebuilt, in words."""

    def __str__(self) -> str:
        text = (
            f"round {self.number}: change {self.change:.1e}, damping {self.damping:g}, "
            f"log evidence {self.log_evidence:.6f}, {max(self.bytes_sent):,} bytes to and "
            f"{max(self.bytes_received):,} from each part, {self.seconds:.2f} s"
        )
        return "; ".join([text, *self.rebuilt])


class PassLabel(NamedTuple):
    """What is being done: in words, in which round, and the change that the last one saw."""

    what: str
    round: int
    change: float


@dataclass(frozen=True)
class Outcome:
    """Where the rounds ended, as `engines.FixedPoint` for parts."""

    result: InferenceResult
    total: Natural
    """The posterior's natural parameters."""
    log_evidence: float
    """With the correction, in nats."""
    rounds: tuple[Round, ...]


class Coordinator:
    """Knows of each part its Gaussian site over u, and nothing of its duels.

    :param size: of these.
    """

    def __init__(self, pool: Pool, size: Size, settings: PartitionedEP) -> None:
        self._pool = pool
        self._size = size
        self.settings = settings
        number = len(pool.rows)
        self._sites = [Natural.zeros(size) for _ in range(number)]
        self._values: list[Any] = [None] * number  # what each has
        self._fresh = True  # all sites are zero
        self._correction: tuple[bytes, float, float] | None = None
        self._lost = 0
        self._news: list[str] = []
        self.at = PassLabel("", 0, math.nan)

    @property
    def total(self) -> Natural:
        """Prior times the sites of all parts."""
        total = Natural.prior(self._size)
        for site in self._sites:
            total = total.plus(site)
        return total

    def run(
        self,
        values: FloatArray,
        tolerance: float | None = None,
        restart: bool = False,
        report: Callable[[Round], None] | None = None,
    ) -> Outcome:
        """Rounds until no site would move by more than the tolerance.

        :param values: of the hyperparameters, `Hyperparameters.values`.
        :param restart: forget the sites.
        """
        settings = self.settings
        tolerance = settings.tolerance if tolerance is None else tolerance
        self._lost = 0
        if restart and not self._fresh:
            self._sites = [Natural.zeros(self._size) for _ in self._sites]
        elif not self._fresh and not all(np.array_equal(known, values) for known in self._values):
            self.at = PassLabel("sums", 0, math.nan)
            self._ask(values, sweeps=0)  # the same sites mean other sums now
        begin = restart or self._fresh
        self._fresh = False
        pace = Pace.start(settings.damping, tf.float64)
        rounds: list[Round] = []
        while True:
            self.at = PassLabel("sweep", len(rounds) + 1, rounds[-1].change if rounds else math.nan)
            round_, jitter, clipped = self._round(
                values, len(rounds) + 1, float(pace.damping), tolerance, begin
            )
            begin = False
            rounds.append(round_)
            if report is not None:
                report(round_)
            change = round_.change
            if not (math.isfinite(change) and math.isfinite(round_.log_evidence)):
                status = Status.NOT_FINITE
                # Sites that are not finite are nothing to resume from.
                self._values = [None] * len(self._values)
                self._sites = [Natural.zeros(self._size) for _ in self._sites]
                self._fresh = True
                break
            if change <= tolerance and not round_.rebuilt:
                status = Status.CONVERGED
                break
            if len(rounds) >= settings.max_sweeps:
                status = Status.MAX_SWEEPS
                break
            # A part that started over moves more than all others: no sign that steps are too long.
            pace = pace.forget() if round_.rebuilt else pace.after(tf.constant(change, tf.float64))
        converged, damping = status is Status.CONVERGED, float(pace.damping)
        result = InferenceResult(converged, len(rounds), status, change, damping, jitter, clipped)
        return Outcome(result, self.total, round_.log_evidence, tuple(rounds))

    def gradient(
        self, values: FloatArray, tolerance: float | None
    ) -> tuple[float, FloatArray, Outcome | None]:
        """Evidence and its gradient in all hyperparameters, at the sites as they are; and the
        outcome of the rounds that it took to rebuild a part that was lost, None without any.

        The coordinator sends the posterior, from which the derivatives in `Phi' T Phi` and
        `Phi' s` follow, -½ (P⁻¹ + mu mu') and mu; each part pulls them through its own duels.
        """
        outcome = None
        while True:
            lost = self._lost
            half_log_det = float(self.total.posterior().half_log_det)
            self.at = PassLabel("gradient", 0, self.at.change)
            replies, *_ = self._ask(values, gradient=True)
            if self._lost == lost:
                break
            outcome = self.run(values, tolerance)  # a part that was rebuilt is not a fixed point
        gradient = np.sum([r.gradient for r in replies if r.gradient is not None], axis=0)
        seen = [reply.seen for reply in replies]
        evidence = summed_log_evidence((s.evidence + s.correction for s in seen), half_log_det)
        return evidence, gradient, outcome

    def _round(
        self, values: FloatArray, number: int, damping: float, tolerance: float, begin: bool
    ) -> tuple[Round, float, float]:
        started = time.perf_counter()
        half_log_det = float(self.total.posterior().half_log_det)
        known = self._correction
        correct = known is None or known[0] != values.tobytes()
        replies, sent, received = self._ask(
            values,
            sweeps=self.settings.local_sweeps,
            damping=damping,
            tolerance=tolerance,
            correct=correct,
            restart=begin,
        )
        seen = [reply.seen for reply in replies]
        if correct:
            total = sum(s.correction for s in seen), max(s.clipped for s in seen)
            self._correction = (values.tobytes(), *total)
        assert self._correction is not None
        _, correction, clipped = self._correction
        changes = [s.change for s in seen]
        # Also of what was lost between the rounds.
        news, self._news = tuple(self._news), []
        return (
            Round(
                number,
                math.nan if any(map(math.isnan, changes)) else max(changes),
                damping,
                summed_log_evidence((s.evidence for s in seen), half_log_det, correction),
                max(reply.sweeps for reply in replies),
                sent,
                received,
                time.perf_counter() - started,
                tuple(reply.seconds for reply in replies),
                news,
            ),
            max(reply.jitter for reply in replies),
            clipped,
        )

    def _ask(
        self, values: FloatArray, **task: Any
    ) -> tuple[list[Reply], tuple[int, ...], tuple[int, ...]]:
        """One task for all parts; lost parts are rebuilt and asked again.

        :return: their replies, and the bytes sent to and received from each.
        """
        total = self.total
        tasks = {
            k: Task(
                total.minus(site).packed(),
                None if np.array_equal(self._values[k], values) else values,
                **task,
            )
            for k, site in enumerate(self._sites)
        }
        # Parts may have taken these values and moved their sites though no answer comes: whatever
        # ends this early, the next task sends the values, and asks for the sums, again.
        self._values = [None] * len(tasks)
        replies: dict[int, Reply] = {}
        sent, received = np.zeros(len(tasks), int), np.zeros(len(tasks), int)
        while tasks:
            again = {}
            for k, reply in self._pool.work(tasks).items():
                sent[k] += wire_size(tasks[k])
                if isinstance(reply, Reply):
                    received[k] += wire_size(reply)
                    replies[k] = reply
                    continue
                self._lost += 1
                self._news.append(f"part {k} was rebuilt from its last message: {reply}")
                if self._lost > MAX_REBUILDS * len(self._sites):
                    raise ConnectionError(
                        f"Parts were lost {self._lost} times in one run, the last time because "
                        f"{reply}; check the workers and their memory, or give a longer timeout."
                    )
                # Its sites begin at zero, in the cavity of its last message.
                again[k] = tasks[k]._replace(values=values, restart=True)
            for k in again:
                self._pool.rebuild(k)
            tasks = again
        for k, reply in replies.items():
            if reply.rows != self._pool.rows[k]:
                raise ValueError(
                    f"Part {k} has worked through {reply.rows} of its {self._pool.rows[k]} duels; "
                    "no model is made of fewer duels than were given: start again."
                )
            self._sites[k] = Natural.unpacked(reply.site, self._size)
            self._values[k] = values.copy()
        in_order = [replies[k] for k in sorted(replies)]
        return in_order, tuple(sent.tolist()), tuple(received.tolist())
