"""Fits of a comparison that have finished, kept so that a killed comparison repeats none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.events import Events
from sparse_prefgp.disk.checkpoint_folder import (
    CheckpointFolder,
    digest_of,
    of_something_else,
)
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.workflow.folds import FoldPlan

_MEANINGS = {
    "duels": "other duels, items or folds (by which to split, how many, which seed)",
    "settings": "another seed, noise variance, number of iterations, least gain or groups of "
    "features, or of inducing inputs that were (not) fixed",
}


@dataclass(frozen=True)
class FitKey:
    """Which fit: kernel, approximation, m (None without inducing inputs) and fold, from 0."""

    kernel: str
    approximation: str
    inducing: int | None
    fold: int


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """What came of it."""

    log_probabilities: FloatArray | None
    """(k,) of the scored rows in nats, None where it failed, as `reason` says."""
    log_evidence_per_duel: float = float("nan")
    converged: bool = False
    reason: str = ""
    seconds: float = 0.0


class FinishedFits:
    """The fits of one comparison, on the disk after each of them if there is a folder.

    :ivar reused: how many were taken from what was there at the beginning.
    """

    def __init__(
        self,
        folder: Path | None = None,
        resume: bool = False,
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        """Begin, or resume from what is in the folder.

        :raises ValueError: that is damaged or of something else; the folder holds other things.
        """
        self.folder, self.reused = folder, 0
        self._fits: dict[FitKey, FinishedFit] = {}
        self._store = None
        if folder is not None:
            self._store = CheckpointFolder(
                folder, fingerprints or {}, _MEANINGS, resume, "comparison"
            )
            if resume and self._store.there is not None:
                self._fits = _unpacked(folder, *self._store.there)

    def __len__(self) -> int:
        return len(self._fits)

    def find(self, key: FitKey) -> FinishedFit | None:
        """What is known already."""
        found = self._fits.get(key)
        self.reused += found is not None
        return found

    def add(self, key: FitKey, fit: FinishedFit) -> None:
        """One more; a full disk costs the checkpoint and not the comparison."""
        self._fits[key] = fit
        self._write()

    def interrupted(self) -> bool:
        """Whether all of them are kept now."""
        return bool(self._fits) and self._write()

    def _write(self) -> bool:
        return self._store is not None and self._store.write(*_packed(self._fits))


def fingerprints_of(plan: FoldPlan, settings: Sequence[Any]) -> dict[str, str]:
    """Of all duels in their folds with the features there, and of what decides a fit."""
    parts: list[Any] = [*_sides(plan.events), plan.counts, plan.sets]
    for fold in plan.folds:
        train = plan.train(fold)
        parts += [fold.train, fold.test, train.items, *_sides(train.events), train.counts]
        parts += [train.item, *train.events.said()]
    return {"duels": digest_of(parts), "settings": digest_of([repr(settings).encode()])}


def _sides(events: Events) -> list[Any]:
    """Who won and who lost, or the sides of sets and where those of each begin."""
    return [events.sides, events.offsets] if events.has_sets else [*events.pairs.T]


def _packed(
    fits: dict[FitKey, FinishedFit],
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays, rows = {}, []
    for number, (key, fit) in enumerate(fits.items()):
        if fit.log_probabilities is not None:
            arrays[f"fit_{number}"] = fit.log_probabilities
        rows.append({"key": asdict(key), **asdict(replace(fit, log_probabilities=None))})
    return arrays, {"fits": rows}


def _unpacked(
    folder: Path, arrays: dict[str, np.ndarray], words: dict[str, Any]
) -> dict[FitKey, FinishedFit]:
    if "fits" not in words:
        raise of_something_else(folder, "a single fit, not of a comparison")
    found = {}
    for number, row in enumerate(words["fits"]):
        key = FitKey(**row.pop("key"))
        found[key] = FinishedFit(**{**row, "log_probabilities": arrays.get(f"fit_{number}")})
    return found
