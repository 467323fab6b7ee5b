"""The folder that a fit writes: metrics, ranking and model, put in place all at once."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.studies.holdout import Holdout

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

PROGRAM = "sparse-prefgp"
METRICS, RANKING, MODEL = "metrics.json", "ranking.csv", "model"
VERSIONED = ("sparse_prefgp", "gpflow", "tensorflow", "tensorflow-probability", "numpy", "scipy")
_ROWS_AT_ONCE = 10_000


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, or whose files are not those of an earlier fit.

    Raises:
        ValueError: it is a file, or holds something that a fit did not write; a parent is a file,
            or cannot be written to.
    """
    _check_contents(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)


def check_place(place: Path, folder: Path) -> None:
    """Refuse a place, existing or not, in which nothing can be made; `folder` names it.

    Raises:
        ValueError: the nearest part that exists is a file or cannot be written to.
    """
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    cannot = f"The output folder {str(folder)!r} cannot be made"
    if not place.is_dir():
        raise ValueError(f"{cannot}: {str(place)!r} is a file; give another place.")
    try:
        # Permissions alone do not tell: root may write where a file system lets nobody write.
        os.rmdir(tempfile.mkdtemp(prefix=f".{PROGRAM}.", dir=place))
    except OSError as error:
        raise ValueError(
            f"{cannot}: {str(place)!r} is not writable ({error.strerror}); give another place."
        ) from None


def _check_contents(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
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


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` to write into, which takes its place when the block succeeds.

    Raises:
        ValueError: what `check_folder` raises, or a place that cannot be written.
    """
    check_folder(folder)
    target = Path(os.path.realpath(folder))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ValueError(
            f"The output folder {str(folder)!r} cannot be made ({error.strerror}); give another "
            "place."
        ) from None
    try:
        new = scratch / "new"
        new.mkdir()  # with the permissions of any new folder, which mkdtemp does not give
        yield new
        _check_contents(folder)  # again: a fit takes long enough for somebody to add a file
        _put_in_place(new, target, scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put_in_place(new: Path, target: Path, old: Path) -> None:
    if not target.exists():
        os.rename(new, target)
        return
    try:
        os.rename(target, old)
    except OSError:
        # A mount point cannot be renamed, but an empty one can be filled.
        if any(target.iterdir()):
            raise
        _fill(target, new)
        return
    try:
        os.rename(new, target)
    except OSError:
        os.rename(old, target)
        raise


def _fill(target: Path, new: Path) -> None:
    """Move everything in `new` into the empty folder `target`, or leave that empty."""
    try:
        for path in sorted(new.iterdir()):
            shutil.move(path, target / path.name)
    except BaseException:
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        raise


def write_fit(folder: Path, holdout: Holdout, model: PreferenceGP, figures: dict[str, Any]) -> None:
    """Write `metrics.json`, `ranking.csv` and `model/`, replacing those of an earlier fit.

    Args:
        folder: made if need be; left as it was when anything goes wrong.
        holdout: the data the model was fitted to.
        model: the model to keep.
        figures: what goes into `metrics.json`; program and versions are added, and
            `negative_variances_set_to_zero` (in the ranking) to the figures of the kept fit.

    Raises:
        ValueError: what `replaced_folder` raises.
    """
    with replaced_folder(folder) as new:
        negative = write_ranking(new / RANKING, holdout, model)
        write_model(new / MODEL, holdout, model)
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


def write_model(folder: Path, holdout: Holdout, model: PreferenceGP) -> None:
    """The values of all parameters (`parameters.npz`) and what they belong to (`model.json`)."""
    import gpflow

    folder.mkdir()
    values = {
        name: np.asarray(value) for name, value in gpflow.utilities.parameter_dict(model).items()
    }
    np.savez(folder / "parameters.npz", **values)
    settings, transform = holdout.settings, model.duels.transform
    description = {
        "kernel": str(settings.kernel_choice),
        "approximation": str(settings.approximation_choice),
        "inducing": holdout.num_inducing,
        "features": list(model.duels.feature_names or ()),
        "transform": None if transform is None else transform.to_dict(),
        "versions": versions(),
    }
    _write_json(folder / "model.json", description)


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that figures depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


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
