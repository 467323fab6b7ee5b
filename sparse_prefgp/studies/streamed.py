"""A scored fit to duels that are taken in chunks, from files or from tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.baselines import Coin, LinearProbit
from sparse_prefgp.io.streams import StreamedDuels, stream_duels
from sparse_prefgp.studies.choices import feature_groups
from sparse_prefgp.studies.holdout import HoldoutSettings, fix, prepare

if TYPE_CHECKING:
    from sparse_prefgp.analysis.scoring import Baseline, HeldOut
    from sparse_prefgp.io import DuelTable
    from sparse_prefgp.parts import StreamedGP
    from sparse_prefgp.parts.model import StreamProgress
    from sparse_prefgp.selection.checkpoint import Checkpoint
    from sparse_prefgp.selection.streamed import StreamedReport, StreamedStep
    from sparse_prefgp.splits import Split

# Their corrections are sums over duels.
SUMMED = ("vfe", "fitc", "dtc", "tight-vfe", "hetero-vfe", "prior-power")
# Training rows that the linear probit and the first inducing inputs are made of.
_SAMPLE = 50_000


@dataclass(frozen=True)
class StreamSettings:
    """What `fit --stream` takes beside the settings of every fit.

    parts: of the duels. scheduler: of the parts, None for this process. gradients: "chunks",
    "subset", or "subset:ROWS". polish: exact steps after those on a subset. sites: file for the
    sites, None for memory. local_sweeps: of a part in a round, 0 until it has settled. chunk:
    duels worked on at a time, None chooses. timeout: seconds that a part on a scheduler has for an
    answer, None goes by the last round.

    Raises:
        ValueError: gradients of neither kind, no number of parts, a timeout without a scheduler,
            or an approximation that needs all duels at once.
    """

    plain: HoldoutSettings
    parts: int = 1
    scheduler: str | None = None
    gradients: str = "chunks"
    polish: int = 0
    sites: Path | None = None
    local_sweeps: int = 1
    chunk: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"The number of parts is {self.parts}; give at least 1.")
        if self.local_sweeps < 0:
            raise ValueError(
                f"The number of local sweeps is {self.local_sweeps}; give at least 1, or 0 to go "
                "on until a part has settled."
            )
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"A chunk of {self.chunk} duels makes no sense; give at least 1.")
        if self.timeout is not None and self.scheduler is None:
            raise ValueError(
                f"--timeout {self.timeout:g} is about parts on a scheduler, but there is none; "
                "give --scheduler, or leave it out."
            )
        if self.timeout is not None and not self.timeout > 0.0:
            raise ValueError(f"A timeout of {self.timeout:g} s makes no sense; give more than 0.")
        approximation = self.plain.approximation_choice
        if approximation.name not in SUMMED:
            raise ValueError(
                f"The approximation {approximation} needs all duels at once, which --stream never "
                f"has; choose from {', '.join(SUMMED)}."
            )
        if self.kind == "chunks" and self.gradients != "chunks":
            raise ValueError(
                f"The gradients {self.gradients!r} tell a number of rows, but chunks are of all "
                "duels; give chunks, or subset:ROWS."
            )
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"The gradients {self.gradients!r} are of no rows; give at least 1.")
        if self.kind not in ("chunks", "subset"):
            raise ValueError(
                f"The gradients {self.gradients!r} are unknown; choose chunks, subset or "
                "subset:ROWS."
            )
        if self.polish and self.kind != "subset":
            raise ValueError(
                f"--polish {self.polish} is about steps after those on a subset, but the gradients "
                f"are {self.gradients}; give --gradients subset, or leave it out."
            )

    @property
    def sites_files(self) -> tuple[Path, ...]:
        """The files that the sites are to be in, one for each part."""
        path = self.sites
        if path is None or self.parts == 1:
            return () if path is None else (path,)
        return tuple(path.with_name(f"{path.stem}.{k}{path.suffix}") for k in range(self.parts))

    @property
    def kind(self) -> str:
        return self.gradients.partition(":")[0]

    @property
    def subset(self) -> int | None:
        """Rows of the subset; None for the default."""
        _, colon, number = self.gradients.partition(":")
        if not colon:
            return None
        if not number.isdecimal():
            raise ValueError(
                f"The gradients {self.gradients!r} need a whole number of rows, such as "
                "subset:20000."
            )
        return int(number)


@contextmanager
def sites_kept_if_done(settings: StreamSettings, resumed: bool = False) -> Iterator[None]:
    """Check the files of the sites before anything slow; none stays unless all goes well, so that a
    fit that is resumed can make them again.

    resumed: whether the run that is gone on with may have been killed, and so have left them.

    Raises:
        ValueError: a file that exists already, is no .npy file, or lies in no folder; sites with a
            scheduler.
    """
    files = settings.sites_files
    if files and settings.scheduler is not None:
        raise ValueError(
            "With --scheduler the sites stay in the memory of the workers; leave --sites out."
        )
    for path in files:
        if path.suffix != ".npy":
            raise ValueError(
                f"The file for the sites {str(path)!r} is no .npy file; let its name end so."
            )
        if path.exists() and not (resumed and is_sites_file(path)):
            raise ValueError(
                f"The file for the sites {str(path)!r} exists already; remove it, or give another "
                "name."
            )
        if not path.parent.is_dir():
            raise ValueError(
                f"The file for the sites {str(path)!r} lies in no folder; make the folder "
                f"{str(path.parent)!r} first."
            )
    # Not lost unless the fit is done: it may be refused.
    left = {path: path.with_name(f"{path.name}.left") for path in files if path.exists()}
    for path, aside in left.items():
        path.replace(aside)
    try:
        yield
    except BaseException:  # Ctrl-C too
        for path in files:
            path.unlink(missing_ok=True)
        for path, aside in left.items():
            aside.replace(path)
        raise
    for aside in left.values():
        aside.unlink()


def is_sites_file(path: Path) -> bool:
    """Whether it is an array of sites, nu and tau, as a fit keeps it."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return False
    if not isinstance(array, np.ndarray):  # an archive of several
        return False
    return bool(array.ndim == 2 and len(array) == 2 and array.dtype == np.float64)


@dataclass(frozen=True, eq=False)
class StreamHoldout:
    """Rows to learn from, and rows to score on; None holds nothing out. split: what parted them."""

    train: StreamedDuels
    test: StreamedDuels | None
    split: str = "last rows"

    @classmethod
    def of_table(
        cls, table: DuelTable, settings: HoldoutSettings, split: Split | None = None
    ) -> StreamHoldout:
        """Of tables in memory: by the split of the settings, with items standardised as there.

        :param split: as for `prepare`.

        Raises:
            ValueError: what `prepare` and `stream_duels` raise; items without features.
        """
        if not table.has_features:
            raise ValueError(
                "The items have no features, which a fit in chunks needs; leave out --stream, for "
                "an effect of each item."
            )
        plain = prepare(table, settings, split)
        rows = plain.split.test_rows
        test = None
        if len(rows):
            test = stream_duels(table.to_duels(rows, transform=plain.train.transform))
        return cls(stream_duels(plain.train), test, settings.split)

    @classmethod
    def of(cls, duels: StreamedDuels, test_fraction: float) -> StreamHoldout:
        """Of a stream: its last rows are held out."""
        rows = duels.num_rows
        held = round(test_fraction * rows)
        if not held:
            return cls(duels, None)
        if held == rows:
            raise ValueError(
                f"A test fraction of {test_fraction} holds out all {rows} duels; give a smaller "
                "one."
            )
        return cls(duels.part(0, rows - held), duels.part(rows - held, rows))


def fit_streamed(
    holdout: StreamHoldout,
    settings: StreamSettings,
    *,
    step: Callable[[StreamedStep], None] | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[StreamedGP, StreamedReport]:
    """Fit the model of the settings to the training rows.

    step: after each iteration of the optimiser; progress: after each chunk. checkpoint: for a fit
    that may be killed.
    """
    from sparse_prefgp.engines import PartitionedEP
    from sparse_prefgp.models import kmeans_inputs
    from sparse_prefgp.models.preference_gp import DEFAULT_INDUCING
    from sparse_prefgp.parts import StreamedGP
    from sparse_prefgp.selection.streamed import DEFAULT_SUBSET, optimise_streamed

    plain, train = settings.plain, holdout.train
    rng = np.random.default_rng(plain.seed)
    rows, _ = train.sample(_SAMPLE, rng).distinct_rows()
    wanted = plain.inducing if isinstance(plain.inducing, int) else DEFAULT_INDUCING
    if plain.inducing is None:
        wanted = min(wanted, len(rows))
    groups = None if train.transform is None else feature_groups(train.transform)
    model = StreamedGP(
        train,
        plain.kernel_choice.build(train.num_features, groups),
        approximation=plain.approximation_choice.build(plain.seed),
        inducing_variable=kmeans_inputs(rows, wanted, rng),
        engine=PartitionedEP(parts=settings.parts, local_sweeps=settings.local_sweeps or None),
        noise_variance=plain.noise_variance,
        margin=plain.first_margin(train.num_ties),
        sites=settings.sites,
        chunk=settings.chunk,
        scheduler=settings.scheduler,
        timeout=settings.timeout,
    )
    fix(model, plain)
    report = optimise_streamed(
        model,
        plain.max_iterations,
        gradients=settings.kind,
        subset=settings.subset or DEFAULT_SUBSET,
        polish=settings.polish,
        least_gain=plain.least_gain,
        rng=rng,
        callback=step,
        progress=progress,
        checkpoint=checkpoint,
    )
    return model, report


def score_streamed(holdout: StreamHoldout, model: StreamedGP, seed: int) -> HeldOut:
    """The held-out rows as predicted by the model, a linear probit of 50,000 training rows, and a
    coin."""
    from sparse_prefgp.analysis.scoring import (
        COIN,
        LINEAR_PROBIT,
        asks_for_outcomes,
        rows_of_stream,
        score_rows,
    )

    test = holdout.test
    assert test is not None
    rng = np.random.default_rng(seed)
    probit = LinearProbit.of(holdout.train.sample(_SAMPLE, rng), rng)
    outcomes = asks_for_outcomes(model, test.num_ties)
    baselines: dict[str, Baseline] = {LINEAR_PROBIT: probit, COIN: Coin()}
    return score_rows(model, baselines, rows_of_stream(test), outcomes=outcomes)


def streamed_figures(
    holdout: StreamHoldout, settings: StreamSettings, model: StreamedGP, report: StreamedReport
) -> dict[str, Any]:
    """What was fitted and how it went, ready for JSON."""
    plain, train = settings.plain, holdout.train
    rows, duels = train.num_rows, model.duels.num_duels
    return {
        "split": holdout.split,
        "test_fraction": plain.test_fraction,
        "seed": plain.seed,
        "data": {
            "items": None if train.items is None else train.items.num_items,
            "features": list(train.feature_names or ()),
            "rows": rows + (0 if holdout.test is None else holdout.test.num_rows),
            "train_rows": rows,
            "test_rows": 0 if holdout.test is None else holdout.test.num_rows,
            "train_duels": duels,
            "train_ties": train.num_ties,
        },
        "fit": {
            "approximation": str(plain.approximation_choice),
            "kernel": str(plain.kernel_choice),
            "inducing": int(model.inducing_variable.num_inducing),
            "fixed_inducing": plain.fixed_inducing,
            "noise_variance": plain.noise_variance,
            "margin": None if model.margin is None else float(model.margin.numpy()),
            "fixed_margin": None if model.margin is None else not model.margin.trainable,
            "gradients": report.gradients,
            "subset": report.subset,
            "evidence_left": report.evidence_left,
            "polish": report.polish,
            "polished": report.polished,
            "parts": settings.parts,
            "local_sweeps": settings.local_sweeps,
            "chunk": settings.chunk,
            "scheduler": settings.scheduler,
            "sites": report.inference.sites,
            "log_evidence": report.log_evidence,
            "log_evidence_per_duel": report.log_evidence / duels,
            "iterations": report.iterations,
            "max_iterations": plain.max_iterations,
            "least_gain": plain.least_gain,
            "optimiser_converged": report.converged,
            "optimiser_message": report.message,
            "limits": list(report.limits),
            "evaluations": report.evaluations,
            "resumed_at": report.resumed_at,
            "seconds": report.seconds,
            "converged": report.inference.converged,
            "inference": str(report.inference),
            "rounds": len(report.inference.rounds),
            "round_log": [asdict(round_) for round_ in report.inference.rounds],
            "rebuilt": list(report.rebuilt),
            "jitter": report.inference.jitter,
            "clipped": report.inference.clipped,
        },
    }
