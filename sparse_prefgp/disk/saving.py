"""Models as a folder of arrays and JSON: `save`, `load`."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import (
    PITC,
    Approximation,
)
from sparse_prefgp.covariances.item_effect import item_effects, know_effects
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.disk.folders import replaced_folder
from sparse_prefgp.disk.model_folder import (
    Arrays,
    check_model_place,
    damaged,
    model_files,
    read_model,
)
from sparse_prefgp.engines import (
    InferenceResult,
    Status,
)
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.codec import decoded
from sparse_prefgp.models.describing import (
    STREAMED,
    events_of_arrays,
    from_bytes,
    given_blocks,
    items_of_arrays,
    roles_of,
    value_of,
)
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.models.registry import UnknownClass
from sparse_prefgp.models.streaming.model import StreamedGP
from sparse_prefgp.models.streaming.rebuilding import rebuilt
from sparse_prefgp.support.checks import check_kind
from sparse_prefgp.support.machine import NotEnoughMemory
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE

# Of how many items next to inducing inputs a model knew the effects when files did not say it.
_EFFECTS_BEFORE = 1000
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
    return model_files(*model.described())


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
        streamed = description.get("kind") == STREAMED
        model = rebuilt(description, arrays) if streamed else _rebuilt(description, arrays)
        if "integrated" in description:
            model = IntegratedGP.rebuilt(model, description["integrated"], arrays)
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


def _rebuilt(description: dict[str, Any], arrays: Arrays) -> PreferenceGP:
    """The model that `describing.described` has described."""
    parts, data = decoded(description, arrays), description["duels"]
    kernel, centre = parts["kernel"], parts.pop("centre")
    items, people = items_of_arrays(data, arrays), from_bytes(arrays.get("people_features"))
    if people is not None:
        made, names = people["transform"], people["names"]
        people = PeopleFeatures(
            tuple(names),
            np.array(people["values"], dtype=np.float64).reshape(len(names), -1),
            tuple(people["feature_names"]),
            None if made is None else FeatureTransform.from_dict(made),
        )
    if "effects_of" not in data and item_effects(kernel):  # before, each row had one of its own
        items = replace(items, item=None)
    know_effects(kernel, data.get("effects_known", _EFFECTS_BEFORE))
    events = events_of_arrays(data, arrays)
    if description.get("lean_by_group") is not None:  # before, groups leaned
        assert events.judge is not None
        events = events.saying(labels={parts["terms"].labels[0]: events.judge})
    duels = Duels.from_events(
        items,
        events,
        people_features=people,
        roles=roles_of(data),
    )
    entry = description["engine"]
    if entry["type"] == "PartitionedEP":  # before, in memory too, with the steps of ParallelEP
        kept = {k: x for k, x in entry["fields"].items() if k not in ("parts", "local_sweeps")}
        entry = {"type": "ParallelEP", "fields": kept}
    engine = value_of(ENGINE, entry)

    def build(approximation: Approximation) -> PreferenceGP:
        with warnings.catch_warnings():  # whoever saved the model has been warned of its kernel
            warnings.simplefilter("ignore")
            return PreferenceGP(duels, approximation=approximation, engine=engine, **parts)

    model = build(_approximation(description["approximation"], arrays))
    if "blocks" in arrays and not np.array_equal(given_blocks(model), arrays["blocks"]):
        # Another version of k-means finds others; the sites belong to those that were saved.
        model = build(PITC(arrays["blocks"]))
    model.centre = centre
    inference = dict(description["inference"])
    inference["status"] = Status[inference["status"]]
    model.inference.restore(arrays["site_nu"], arrays["site_tau"], InferenceResult(**inference))
    return model


def _approximation(entry: dict[str, Any], arrays: Arrays) -> Approximation:
    fields = entry["fields"]
    if isinstance(fields.get("blocks"), list):
        labels = [fields["blocks"][number] for number in arrays["blocks"]]
        entry = {**entry, "fields": {**fields, "blocks": labels}}
    return value_of(APPROXIMATION, entry)
