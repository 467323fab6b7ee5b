"""Models as a folder of arrays and JSON: `save`, `load`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.disk import describing
from sparse_prefgp.disk.folders import replaced_folder
from sparse_prefgp.disk.model_folder import (
    check_model_place,
    damaged,
    model_files,
    read_model,
)
from sparse_prefgp.disk.upgrading import upgraded
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.integrated import IntegratedGP, described_mixture, rebuilt_mixture
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.models.registry import UnknownClass
from sparse_prefgp.models.streaming.model import StreamedGP
from sparse_prefgp.support.checks import check_kind
from sparse_prefgp.support.machine import NotEnoughMemory

_FLOATS = ("float32", "float64")
_LONGEST = 200  # what is said of the cause of damage


def save(model: Predicts, path: str | os.PathLike[str]) -> None:
    """Write a model into a folder, or replace the model that is there.

    The folder holds the prior, all parameters with their transforms, priors and `trainable`
    marks, the duels, and the sites, so that the loaded model predicts what this one does: to the
    bit on the same machine with the same versions. Nothing is pickled. A process killed half way
    leaves the old model or the new one.

    :param model: a `PreferenceGP`, or a `StreamedGP`, of which the posterior is kept, and what is
        known of the items, but neither duels nor sites.
    :param path: a new or empty folder, or one that holds a saved model.
    :raises ValueError: a folder with other things in it; a class that was not given to
        `register`; item ids that are neither text nor
        numbers; sites that are not finite.
    """
    check_kind("model", model, DuelGP, "a PreferenceGP")
    files = files_of(model)
    with replaced_folder(Path(path), check_model_place) as folder:
        write_files(folder, files)


def files_of(model: Any) -> dict[str, bytes]:
    """The files of a saved model by name; everything that can be refused is refused here."""
    description, arrays = describing.described(model.at_mode)
    if isinstance(model, IntegratedGP):
        integrated, integral = described_mixture(model)
        description, arrays = description | integrated, arrays | integral
    return model_files(description, arrays)


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write what `files_of` gave into a folder that exists."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


def load(path: str | os.PathLike[str]) -> PreferenceGP | StreamedGP:
    """Read a model that `save` wrote, or that `sparse-prefgp fit` wrote into its output folder.

    :param path: the folder of the model, or the output folder of a fit.
    :raises ValueError: no such folder; a folder that holds no model, one that is damaged or was
        edited, or one of a newer or much older format; a class that is not registered;
        another `gpflow.default_float`.
    """
    folder, description, arrays = read_model(path)
    if description.get("float") not in _FLOATS:
        raise damaged(folder, f"its numbers are of the type {description.get('float')!r}")
    if gpflow.default_float().__name__ != description["float"]:
        raise ValueError(
            f"The model in {str(folder)!r} was made with {description['float']} numbers, but "
            f"gpflow.default_float() is {gpflow.default_float().__name__}; call "
            f"gpflow.config.set_default_float(np.{description['float']}) first."
        )
    try:
        description = upgraded(description, arrays)
        model: Any = describing.rebuilt(description, arrays)
        if "integrated" in description:
            model = rebuilt_mixture(model, description["integrated"], arrays)
        if arrays.unread:
            raise ValueError(f"nothing says what the array {min(arrays.unread)!r} is of")
        for parameter in model.parameters:
            if 0 in parameter.shape[:1] or not np.all(np.isfinite(parameter.numpy())):
                raise ValueError(f"the parameter {parameter.name!r} is empty or not finite")
    except (UnknownClass, NotEnoughMemory):  # no damage
        raise
    except Exception as error:  # whatever can be wrong with what somebody else has written
        said = f"{type(error).__name__}: " * (not isinstance(error, ValueError))
        reason = " ".join(f"{said}{error}".split()).rstrip(".")
        raise damaged(folder, reason[:_LONGEST]) from error
    return model
