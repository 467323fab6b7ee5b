"""The folder that a fit writes: metrics, ranking and model, put in place all at once."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.folders import check_place, contents, replaced_folder
from sparse_prefgp.studies.holdout import Holdout
from sparse_prefgp.versions import versions

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

PROGRAM = "sparse-prefgp"
METRICS, RANKING, MODEL = "metrics.json", "ranking.csv", "model"
_ROWS_AT_ONCE = 10_000


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, or whose files are not those of an earlier fit.

    Raises:
        ValueError: it is a file, or holds something that a fit did not write; a parent is a file,
            or cannot be written to.
    """
    _check_contents(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)


def _check_contents(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    present = contents(folder)
    if not present:
        return
    try:
        ours = json.loads((folder / METRICS).read_text(encoding="utf-8"))["program"] == PROGRAM
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise ValueError(
            f"The output folder {str(folder)!r} has files that {PROGRAM} did not write; give a "
            "new or empty folder."
        )
    foreign = sorted(present - {METRICS, RANKING, MODEL})
    if foreign:
        raise ValueError(
            f"The output folder {str(folder)!r} also holds {foreign[0]!r}, which would be lost; "
            "move it away, or give another folder."
        )


def write_fit(folder: Path, holdout: Holdout, model: PreferenceGP, figures: dict[str, Any]) -> None:
    """Write `metrics.json`, `ranking.csv` and `model/`, replacing those of an earlier fit.

    Args:
        folder: made if need be; left as it was when anything goes wrong.
        holdout: the data the model was fitted to.
        model: the model to keep.
        figures: what goes into `metrics.json`; program and versions are added, and
            `negative_variances_set_to_zero` (in the ranking) to the figures of the kept fit.

    Raises:
        ValueError: what `save` and `replaced_folder` raise.
    """
    from sparse_prefgp.models.saving import model_files, write_files

    files = model_files(model)
    with replaced_folder(folder, _check_contents) as new:
        negative = write_ranking(new / RANKING, holdout, model)
        (new / MODEL).mkdir()
        write_files(new / MODEL, files)
        kept = "refit_fit" if "refit_fit" in figures else "fit"
        fit = {**figures.get(kept, {}), "negative_variances_set_to_zero": negative}
        everything = {"program": PROGRAM, **figures, kept: fit, "versions": versions()}
        _write_json(new / METRICS, everything)


def write_ranking(path: Path, holdout: Holdout, model: PreferenceGP) -> int:
    """All items by falling utility: rank, item_id, utility, sd, comparisons.

    Utilities are centred over the items; sd is the posterior standard deviation of each item's
    own utility; comparisons are its duels among those the model was fitted to.

    Returns:
        How many variances rounding had made negative; their sd is 0.
    """
    duels = model.duels
    n = duels.num_items
    utility, variances = np.empty(n), np.empty(n)
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        mean, variance = model.predict_f(duels.items[rows])
        utility[rows] = mean.numpy()[:, 0]
        variances[rows] = variance.numpy()[:, 0]
    deviation = np.sqrt(np.maximum(variances, 0.0))
    utility -= utility.mean()
    sides = np.concatenate([duels.winners, duels.losers])
    comparisons = np.bincount(sides, weights=np.tile(duels.counts, 2), minlength=n).astype(int)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["rank", "item_id", "utility", "sd", "comparisons"])
        # Stable, so that items of equal utility stay in the order of the table.
        for rank, i in enumerate(np.argsort(-utility, kind="stable"), start=1):
            row = (rank, holdout.table.item_ids[i], float(utility[i]), float(deviation[i]))
            writer.writerow([*row, comparisons[i]])
    return int(np.count_nonzero(variances < 0.0))


def _write_json(path: Path, values: dict[str, Any]) -> None:
    text = json.dumps(_plain(values), indent=2, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """JSON has no infinities or NaN: they become null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
