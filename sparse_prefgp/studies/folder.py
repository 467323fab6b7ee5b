"""The folder that a fit writes: metrics, ranking and model, put in place all at once."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.folders import check_place, contents, replaced_folder
from sparse_prefgp.model_folder import checkpoint_foreign_files, foreign_files
from sparse_prefgp.studies.holdout import HeldOut
from sparse_prefgp.studies.pictures import PICTURE_NAMES
from sparse_prefgp.versions import versions

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.selection import OptimisationReport

PROGRAM = "sparse-prefgp"
METRICS, RANKING, MODEL = "metrics.json", "ranking.csv", "model"
PICTURES, REPORT = "pictures", "report.html"
CHECKPOINTS = "checkpoint"
COMPARE_STAGE, FIT_STAGE, REFIT_STAGE = CHECKPOINT_STAGES = ("compare", "fit", "refit")


def check_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse a folder that cannot be made, or whose files must not be replaced.

    overwrite: the files of an earlier fit may be.

    Raises:
        ValueError: it is a file, or holds something that a fit did not write, or, unless
            `overwrite`, a finished fit; a parent is a file, or cannot be written to.
    """
    check_contents(folder)
    if _is_ours(folder) and not overwrite:
        raise ValueError(
            f"The output folder {str(folder)!r} holds a finished fit; give another folder, or "
            "--overwrite."
        )
    check_place(Path(os.path.realpath(folder)).parent, folder)


def check_contents(folder: Path) -> None:
    """Refuse a folder that holds something other than a fit or its checkpoint.

    Raises:
        ValueError: it is a file, or holds something that a fit did not write.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    # What a killed fit goes on from is removed when the finished one takes its place.
    present = contents(folder) - ({CHECKPOINTS} if is_checkpoint(folder / CHECKPOINTS) else set())
    if not present:
        return
    if not _is_ours(folder):
        raise ValueError(
            f"The output folder {str(folder)!r} has files that {PROGRAM} did not write; give a "
            "new or empty folder."
        )
    foreign = sorted(present - {METRICS, RANKING, MODEL, PICTURES, REPORT})
    pictures = contents(folder / PICTURES) - {f"{name}.png" for name in PICTURE_NAMES}
    foreign += sorted(f"{PICTURES}/{name}" for name in pictures)
    foreign += [f"{MODEL}/{name}" for name in foreign_files(folder / MODEL)]
    if foreign:
        raise ValueError(
            f"The output folder {str(folder)!r} also holds {foreign[0]!r}, which would be lost; "
            "move it away, or give another folder."
        )


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds what a killed fit goes on from, and nothing else; empty is enough.

    What a process killed while it wrote a checkpoint left beside it does not count.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    stages = contents(folder)
    return stages <= set(CHECKPOINT_STAGES) and all(
        not checkpoint_foreign_files(folder / stage) for stage in stages
    )


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder for checkpoints that cannot be made, or that holds other things.

    Raises:
        ValueError: naming what is in the way.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The checkpoint {str(folder)!r} is a file; give a folder.")
    if folder.exists() and not is_checkpoint(folder):
        raise ValueError(
            f"The folder {str(folder)!r} holds something that is no part of a checkpoint and would "
            "be lost; give a new or empty folder."
        )
    check_place(Path(os.path.realpath(folder)).parent, folder)


def check_not_of_a_fit(folder: Path) -> None:
    """Refuse the model folder within the output of a fit, which describes that model.

    Raises:
        ValueError: it is one.
    """
    outer = Path(os.path.realpath(folder)).parent
    if folder.resolve().name == MODEL and _is_ours(outer):
        raise ValueError(
            f"{str(folder)!r} is the model of a fit, which {METRICS} and {RANKING} beside it "
            "describe; give another folder."
        )


def _is_ours(folder: Path) -> bool:
    try:
        text = (folder / METRICS).read_text(encoding="utf-8")
        return bool(json.loads(text)["program"] == PROGRAM)
    except (OSError, ValueError, KeyError, TypeError):
        return False


@dataclass(frozen=True, eq=False)
class FitOutput:
    """What a fit leaves behind.

    model: the one to keep. report: how it was optimised. figures: what goes into `metrics.json`;
    program, versions and the figures of the ranking are added, and
    `negative_variances_set_to_zero` (in the ranking) to the figures of the kept fit. held_out:
    predictions of the test duels, if any. seed: of the ranking's samples. notes, command, data:
    for the HTML report, warnings, how to repeat the fit, and (label, value) rows.
    """

    model: PreferenceGP
    report: OptimisationReport
    figures: dict[str, Any]
    held_out: HeldOut | None = None
    seed: int = 0
    notes: Sequence[str] = ()
    command: str | None = None
    data: Sequence[tuple[str, str]] = ()


def write_fit(
    folder: Path,
    output: FitOutput,
    *,
    html: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write `metrics.json`, `ranking.csv`, `model/`, `pictures/` and, if asked to, `report.html`.

    Args:
        folder: made if need be; those files of an earlier fit are replaced; left as it was when
            anything goes wrong.
        output: what to write.
        html: write `report.html` too.
        progress: told how far the ranking is, as by `rank`.

    Returns:
        The names of what was written, and what `metrics.json` holds.

    Raises:
        ValueError: what `save` and `replaced_folder` raise.
    """
    from sparse_prefgp.analysis.ranking import rank
    from sparse_prefgp.models.saving import files_of, write_files
    from sparse_prefgp.studies.fit_report import render_report
    from sparse_prefgp.studies.pictures import write_pictures

    model = output.model
    files = files_of(model)
    ranking = rank(model, seed=output.seed, progress=progress)
    kept = "refit_fit" if "refit_fit" in output.figures else "fit"
    fit = {
        **output.figures.get(kept, {}),
        "negative_variances_set_to_zero": ranking.negative_variances,
    }
    everything = {
        "program": PROGRAM,
        **output.figures,
        kept: fit,
        "ranking": ranking.figures(),
        "versions": versions(),
    }
    with replaced_folder(folder, check_contents) as new:
        (new / RANKING).write_text(ranking.frame.to_csv(index=False), encoding="utf-8")
        (new / MODEL).mkdir()
        write_files(new / MODEL, files)
        pictures = write_pictures(
            new / PICTURES,
            model,
            ranking,
            report=output.report,
            held_out=output.held_out,
        )
        if html:
            text = render_report(
                everything,
                pictures,
                ranking,
                new / PICTURES,
                command=output.command,
                notes=output.notes,
                data_rows=output.data,
            )
            (new / REPORT).write_text(text, encoding="utf-8")
        (new / METRICS).write_text(as_json_text(everything), encoding="utf-8")
    names = [METRICS, RANKING, f"{MODEL}/", f"{PICTURES}/", *([REPORT] if html else [])]
    return names, everything


def as_json_text(values: dict[str, Any]) -> str:
    """JSON as files hold it."""
    return json.dumps(plain(values), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """What JSON can hold; it has no infinities or NaN, which become null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
