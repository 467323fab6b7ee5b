"""The folder that a fit writes: metrics, ranking and model, put in place all at once."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sparse_prefgp.disk.folders import check_place, check_replaceable, contents, replaced_folder
from sparse_prefgp.disk.model_folder import DESCRIPTION, foreign_files
from sparse_prefgp.support.plain import Record, as_json_text
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.support.versions import versions
from sparse_prefgp.workflow.failures import reason_of
from sparse_prefgp.workflow.fit_telling import COEFFICIENTS, RANKING
from sparse_prefgp.workflow.pictures import PICTURE_NAMES

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ranking import Ranking
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.models.streaming import StreamedGP

Result = TypeVar("Result")


class OtherModel(ValueError):
    """Another model lies where the one of this fit was written."""


PROGRAM = "sparse-prefgp"
METRICS, MODEL = "metrics.json", "model"
PEOPLE = "people.csv"
PICTURES, REPORT = "pictures", "report.html"
CHECKPOINTS = "checkpoint"
CANDIDATES, FIT_FILE, REFIT_FILE = "candidates.jsonl", "fit.npz", "refit.npz"


def check_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse a folder that cannot be made, or whose files must not be replaced.

    :param overwrite: the files of an earlier fit may be.
    :raises ValueError: it is a file, or holds something that a fit did not write, or, unless
        `overwrite`, a finished fit; a parent is a file, or cannot be written to.
    """
    check_contents(folder)
    if ours(folder / METRICS) and not overwrite:
        raise ValueError(
            f"The output folder {str(folder)!r} holds a finished fit; give another folder, or "
            "--overwrite (overwrite=True)."
        )
    check_place(_place_of(folder), folder)


def check_contents(folder: Path) -> None:
    """Refuse a folder that holds something other than a fit or its checkpoint.

    :raises ValueError: it is a file, or holds something that a fit did not write.
    """
    # What a killed fit resumes from is removed when the finished one takes its place.
    present = contents(folder) - ({CHECKPOINTS} if is_checkpoint(folder / CHECKPOINTS) else set())
    known = {METRICS, RANKING, COEFFICIENTS, PEOPLE, MODEL, PICTURES, REPORT}
    foreign = sorted(present - known if ours(folder / METRICS) else present)
    pictures = contents(folder / PICTURES) - {f"{name}.png" for name in PICTURE_NAMES}
    foreign += sorted(f"{PICTURES}/{name}" for name in pictures)
    foreign += [f"{MODEL}/{name}" for name in foreign_files(folder / MODEL)]
    check_replaceable(folder, foreign, "a fit")


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds what a killed fit resumes from, and nothing else; empty is enough.

    What a process killed while it wrote a checkpoint left next to it does not count.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    return contents(folder) <= {CANDIDATES, FIT_FILE, REFIT_FILE}


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder for checkpoints that cannot be made, or that holds other things.

    :raises ValueError: naming what is in the way.
    """
    foreign = [] if is_checkpoint(folder) else sorted(contents(folder))
    check_replaceable(folder, foreign, "a checkpoint")
    check_place(_place_of(folder), folder)


def check_not_of_a_fit(folder: Path) -> None:
    """Refuse the model folder within the output of a fit, which describes that model.

    :raises ValueError: it is one.
    """
    outer = _place_of(folder)
    if folder.resolve().name == MODEL and ours(outer / METRICS):
        raise ValueError(
            f"{str(folder)!r} is the model of a fit, which {METRICS} and {RANKING} next to it "
            "describe; give another folder."
        )


def _place_of(folder: Path) -> Path:
    return Path(os.path.realpath(folder)).parent


def ours(file: Path) -> Record | None:
    """What a file of JSON holds that this program wrote; None of others."""
    try:
        record: Record = json.loads(file.read_text("utf-8"))
        return record if record["program"] == PROGRAM else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_model(folder: Path, model: PreferenceGP | StreamedGP, figures: Record) -> bytes:
    """Write `model/` and `metrics.json`, so that a fit is kept whatever comes after it.

    :param folder: made if need be; the files of an earlier fit are removed, a checkpoint stays.
    :param model: what was fitted.
    :param figures: what is known of it so far.
    :return: the description of the model, which names all else of it by its contents.
    :raises ValueError: what `save` and `replaced_folder` raise.
    """
    from sparse_prefgp.disk.saving import files_of, write_files

    files = files_of(model)
    everything = {"program": PROGRAM, **figures, "versions": versions()}
    with replaced_folder(folder, check_contents, keep=(CHECKPOINTS,)) as new:
        (new / MODEL).mkdir()
        write_files(new / MODEL, files)
        (new / METRICS).write_text(as_json_text(everything), "utf-8")
    return files[DESCRIPTION]


class OptionalOutputs:
    """What is made after a fit, none of which may cost the fit.

    :ivar failed: the name of each thing that could not be made, and why.
    """

    def __init__(self, folder: Path) -> None:
        self.failed: dict[str, str] = {}
        self._folder = folder

    def made(self, name: str, make: Callable[[], Result]) -> Result | None:
        """What `make` returns; None, with a warning, where it fails by whatever error."""
        try:
            return make()
        except OtherModel:
            raise
        except Exception as error:
            reason = reason_of(error)
            self.failed[name] = reason
            warnings.warn(
                f"{name} could not be written ({reason.rstrip('.')}); model and metrics are in "
                f"{str(self._folder)!r}.",
                stacklevel=3,
            )
            return None

    def complete(
        self, everything: Record, names: list[str], written: bytes, write: Callable[[Path], None]
    ) -> tuple[list[str], Record]:
        """Add what `write` makes in a new folder to the model that was written, in one step."""
        folder = self._folder

        def check(folder: Path) -> None:
            check_contents(folder)
            there = folder / MODEL / DESCRIPTION
            if not there.is_file() or there.read_bytes() != written:
                raise OtherModel(
                    f"The model in {str(folder / MODEL)!r} is no longer the one that this fit "
                    "wrote, as another program has written there; fit again, into another folder."
                )

        def add() -> None:
            with replaced_folder(folder, check, keep=(MODEL, CHECKPOINTS)) as new:
                write(new)
                if self.failed:
                    everything["not_written"] = self.failed
                (new / METRICS).write_text(as_json_text(everything), "utf-8")

        if not names:
            return [METRICS, f"{MODEL}/"], everything
        both = ", ".join(names)
        self.made(both, add)
        lost = set(names) if both in self.failed else set(self.failed)
        order = (METRICS, RANKING, COEFFICIENTS, PEOPLE, f"{MODEL}/", f"{PICTURES}/", REPORT)
        there = {METRICS, f"{MODEL}/", *names} - lost
        return [name for name in order if name in there], everything


def rank_items(
    model: PreferenceGP | StreamedGP,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Ranking:
    """All items of the model."""
    from sparse_prefgp.analysis.ranking import rank

    return rank(model, rng=seeded(seed), progress=progress)
