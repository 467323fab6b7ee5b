"""Fits of a comparison that have finished, kept so that a killed comparison repeats none.

`candidates.jsonl` has fingerprints of duels and settings in its first line, and a line for each
candidate on each fold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.disk.kept_file import KeptFile, digest_of
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.folds import FoldPlan

MEANINGS = {
    "duels": "other duels, items or folds (by which to split, how many, which seed)",
    "settings": "another seed, noise variance, number of iterations, least gain or groups of "
    "features, or of inducing inputs that were (not) fixed",
}


ARRAYS = ("log_probabilities", "position")


class FitKey(NamedTuple):
    """Which fit: kernel, approximation, m (None without inducing inputs), fold, from 0, the steps
    after which it begins, and after which it ends at the latest."""

    kernel: str
    approximation: str
    inducing: int | None
    fold: int
    begun: int
    steps: int


class FinishedFit(NamedTuple):
    """What came of it."""

    log_probabilities: FloatArray | None
    """(k,) of the scored rows in nats, None where it failed, as `reason` says."""
    log_evidence_per_duel: float = float("nan")
    converged: bool = False
    reason: str = ""
    seconds: float = 0.0
    position: FloatArray | None = None
    """(p,) of its trainable parameters, from which it can continue; None where it cannot, or ended
    by itself."""


class FinishedFits:
    """The fits of one comparison, on the disk after each of them if there is a file.

    :ivar reused: how many were taken from what was there at the beginning.
    """

    def __init__(self, file: KeptFile | None = None, resume: bool = False) -> None:
        """Begin, or resume from what is in the file.

        :raises ValueError: that is damaged or of something else.
        """
        self._file, self.reused = file, 0
        there = None if file is None else file.read(_reached, resume, "comparison")
        self._fits: dict[FitKey, FinishedFit] = there if there and resume else {}

    def __len__(self) -> int:
        return len(self._fits)

    def find(self, key: FitKey) -> FinishedFit | None:
        """What is known already."""
        known = self._fits.get(key)
        self.reused += known is not None
        return known

    def add(self, key: FitKey, fit: FinishedFit) -> None:
        """One more; a full disk costs the checkpoint and not the comparison."""
        self._fits[key] = fit
        self.kept()

    def kept(self) -> Path | None:
        """Where all of them are kept now, None if they are not."""
        if self._file is None or not self._fits:
            return None
        fits = ({"candidate": key, **fit._asdict()} for key, fit in self._fits.items())
        lines = (
            json.dumps(line, default=np.ndarray.tolist) for line in (self._file.fingerprints, *fits)
        )
        text = "".join(f"{line}\n" for line in lines)
        return self._file.path if self._file.write(text) else None


def fingerprints_of(plan: FoldPlan, settings: Sequence[Any]) -> dict[str, str]:
    """Of all duels in their folds with the features there, and of what decides a fit."""
    parts: list[Any] = [*_sides(plan.events), plan.counts, plan.sets]
    for fold in plan.folds:
        train = plan.train(fold)
        parts += [fold.train, fold.test, train.items, *_sides(train.events), train.counts]
        parts += [train.item, *train.events.said()]
    return {"duels": digest_of(parts), "settings": digest_of([repr(settings)])}


def _sides(events: Answers) -> list[Any]:
    """Who won and who lost, or the sides of sets and where those of each begin."""
    return [events.sides, events.offsets] if events.has_sets else [*events.pairs.T]


def _reached(content: bytes) -> tuple[Record, dict[FitKey, FinishedFit]]:
    fits = {}
    fingerprints, *lines = map(json.loads, content.decode("utf-8").splitlines())
    for line in lines:
        key = FitKey(*line.pop("candidate"))
        for name in ARRAYS:
            line[name] = None if line[name] is None else np.array(line[name], dtype=float)
        fits[key] = FinishedFit(**line)
    return fingerprints, fits
