"""Models as a folder of arrays and JSON: `save`, `load`.

`model.json` says what the arrays are; `arrays-….npz` holds them and is named by its contents, so
that a `model.json` never meets the arrays of another model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import (
    DTC,
    FITC,
    VFE,
    Exact,
    HeteroscedasticVFE,
    PriorPower,
    SubsetOfData,
    TightVFE,
)
from sparse_prefgp.covariances.item_effect import numbered_kernel
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.duels import Duels
from sparse_prefgp.engines import InferenceResult, ParallelEP, SequentialEP, Status
from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.folders import contents, replaced_folder
from sparse_prefgp.models.codec import Decoder, Encoder
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.versions import versions

FORMAT = "sparse_prefgp model"
FORMAT_VERSION = 1
DESCRIPTION = "model.json"
SUBFOLDER = "model"  # where `sparse-prefgp fit` puts the model within its output
_ARRAYS = "arrays-"
_KNOWN_ENGINES: tuple[type, ...] = (ParallelEP, SequentialEP)
_KNOWN_APPROXIMATIONS: tuple[type, ...] = (
    Exact,
    DTC,
    VFE,
    TightVFE,
    FITC,
    HeteroscedasticVFE,
    PriorPower,
    SubsetOfData,
)
_ENGINES = {kind.__name__: kind for kind in _KNOWN_ENGINES}
_APPROXIMATIONS = {kind.__name__: kind for kind in _KNOWN_APPROXIMATIONS}


def save(model: PreferenceGP, path: str | os.PathLike[str]) -> None:
    """Write a model into a folder, or replace the model that is there.

    The folder holds the prior, all parameters with their transforms, priors and `trainable`
    marks, the duels, and the sites, so that the loaded model predicts what this one does: to the
    bit on the same machine with the same versions. Nothing is pickled. A process killed half way
    leaves the old model or the new one.

    :param path: a new or empty folder, or one that holds a saved model.
    :raises ValueError: a folder with other things in it; a kernel class that `register_kernel`
        does not know; an approximation or engine of your own; item ids that are neither text nor
        numbers; sites that are not finite.
    """
    if not isinstance(model, PreferenceGP):
        raise ValueError(f"save takes a PreferenceGP, not {type(model).__name__}.")
    files = model_files(model)
    with replaced_folder(Path(path), check_replaceable) as folder:
        write_files(folder, files)


def model_files(model: PreferenceGP) -> dict[str, bytes]:
    """The files of a saved model by name; everything that can be refused is refused here."""
    description, arrays = _describe(model)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    name = f"{_ARRAYS}{digest[:12]}.npz"
    description = {**description, "arrays": {"file": name, "sha256": digest}}
    description["checksum"] = _checksum(description)
    text = json.dumps(description, indent=1, allow_nan=False) + "\n"
    return {name: data, DESCRIPTION: text.encode("utf-8")}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write what `model_files` gave into a folder that exists."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


def load(path: str | os.PathLike[str]) -> PreferenceGP:
    """Read a model that `save` wrote, or that `sparse-prefgp fit` wrote into its output folder.

    :param path: the folder of the model, or the output folder of a fit.
    :raises ValueError: no such folder; a folder that holds no model, one that is damaged or was
        edited, or one of a newer or much older format; a kernel class that is not registered;
        another `gpflow.default_float`.
    """
    folder = find_model(path)
    description = _read_description(folder)
    arrays = _read_arrays(folder, description)
    if gpflow.default_float().__name__ != description["float"]:
        raise ValueError(
            f"The model in {str(folder)!r} was made with {description['float']} numbers, but "
            f"gpflow.default_float() is {gpflow.default_float().__name__}; call "
            f"gpflow.config.set_default_float(np.{description['float']}) first."
        )
    decoder = Decoder(description["parameters"], arrays)
    function, inducing = description["mean_function"], description["inducing_inputs"]
    data = description["duels"]
    ids, transform = data["item_ids"], data["transform"]
    if ids is not None:
        ids = json.loads(arrays[ids].tobytes().decode("utf-8"))
    duels = Duels.from_rows(
        arrays["items"],
        arrays["winners"],
        arrays["losers"],
        arrays["counts"],
        item_ids=ids,
        feature_names=data["feature_names"],
        transform=None if transform is None else FeatureTransform.from_dict(transform),
    )
    points = None
    if inducing is not None:
        points = gpflow.inducing_variables.InducingPoints(decoder.parameter(inducing))
    noise = decoder.parameter(description["noise_variance"])
    with warnings.catch_warnings():  # whoever saved the model has been warned of its kernel
        warnings.simplefilter("ignore")
        model = PreferenceGP(
            duels,
            decoder.module(description["kernel"]),
            approximation=_value(description["approximation"], _APPROXIMATIONS),
            inducing_variable=points,
            engine=_value(description["engine"], _ENGINES),
            noise_variance=float(noise.numpy()),
            mean_function=None if function is None else decoder.module(function),
        )
    model.noise_variance = noise
    inference = dict(description["inference"])
    inference["status"] = Status[inference["status"]]
    model.restore(arrays["site_nu"], arrays["site_tau"], InferenceResult(**inference))
    return model


def find_model(path: str | os.PathLike[str]) -> Path:
    """The folder with `model.json` at or just below a path.

    :raises ValueError: there is none.
    """
    folder = Path(path)
    if not folder.exists():
        raise ValueError(f"There is no model folder {str(folder)!r}; correct the path.")
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; give the folder of a saved model.")
    for place in (folder, folder / SUBFOLDER):
        if (place / DESCRIPTION).is_file():
            return place
    raise ValueError(
        f"The folder {str(folder)!r} holds no model (no {DESCRIPTION}); give a folder that "
        "spg.save or sparse-prefgp fit wrote."
    )


def _describe(model: PreferenceGP) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    inference = model.infer()
    encoder = Encoder()
    kernel = encoder.module(model.kernel, "The kernel")
    function = None
    if model.mean_function is not None:
        function = encoder.module(model.mean_function, "The mean function")
    noise = encoder.parameter(model.noise_variance, "the noise variance")
    inducing = None
    if model.inducing_variable is not None:
        inducing = encoder.parameter(model.inducing_variable.Z, "the inducing inputs")
    duels, (nu, tau) = model.duels, model.sites()
    arrays = {
        **encoder.arrays,
        "items": duels.items,
        "winners": duels.winners,
        "losers": duels.losers,
        "counts": duels.counts,
        "site_nu": nu,
        "site_tau": tau,
    }
    if not (np.all(np.isfinite(nu)) and np.all(np.isfinite(tau))):
        raise ValueError(
            f"The sites are not finite, so the model cannot predict and is not saved: {inference}."
        )
    if duels.item_ids is not None:
        arrays["item_ids"] = _ids(duels.item_ids)
    transform = duels.transform
    fields = dataclasses.asdict(inference)
    fields["status"] = inference.status.name
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        "kernel": kernel,
        "mean_function": function,
        "noise_variance": noise,
        "inducing_inputs": inducing,
        "parameters": encoder.parameters,
        "approximation": _named(model.approximation, _APPROXIMATIONS, "The approximation"),
        "engine": _named(model.engine, _ENGINES, "The engine"),
        "duels": {
            "item_ids": None if duels.item_ids is None else "item_ids",
            "feature_names": None if duels.feature_names is None else list(duels.feature_names),
            "transform": None if transform is None else transform.to_dict(),
        },
        "inference": fields,
    }
    _check_rebuilds(model, description, arrays)
    return description, arrays


def _check_rebuilds(
    model: PreferenceGP, description: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """A class may compute with more than its constructor's arguments; found before it is lost."""
    decoder = Decoder(description["parameters"], arrays)
    rows, columns = model.graph.rows[:3], model.duels.num_features
    numbered, features = as_float(rows), as_float(rows[:, :columns])

    def on_rows(kernel: gpflow.kernels.Kernel) -> np.ndarray:
        if model.has_item_effect:
            kernel = numbered_kernel(kernel, columns)
        return kernel(numbered).numpy()

    entry = description["kernel"]
    same = np.array_equal(on_rows(model.kernel), on_rows(decoder.module(entry)))
    if same and model.mean_function is not None:
        entry = description["mean_function"]
        again = decoder.module(entry)
        same = np.array_equal(model.mean_function(features), again(features))
    if not same:
        raise ValueError(
            f"The class {entry['type']} does not compute the same again from its constructor's "
            "arguments and parameters; keep everything it computes with in attributes named "
            "like those arguments."
        )


def _ids(item_ids: tuple[Any, ...]) -> np.ndarray:
    plain = [value.item() if isinstance(value, np.generic) else value for value in item_ids]
    for value in plain:
        finite = not isinstance(value, float) or np.isfinite(value)
        if not isinstance(value, (str, int, float)) or not finite:
            raise ValueError(
                f"The item id {value!r} is of type {type(value).__name__}; a saved model holds "
                "ids that are text or numbers."
            )
    return np.frombuffer(json.dumps(plain).encode("utf-8"), dtype=np.uint8)


def _named(value: Any, known: dict[str, type], role: str) -> dict[str, Any]:
    """A frozen value of ours as its class and its fields."""
    name = type(value).__name__
    if known.get(name) is not type(value):
        raise ValueError(
            f"{role} has the class {name}, which a saved model cannot name; use one of "
            f"{', '.join(known)}."
        )
    fields = {}
    for entry in dataclasses.fields(known[name]):
        field = getattr(value, entry.name)
        fields[entry.name] = field.item() if isinstance(field, np.generic) else field
    return {"type": name, "fields": fields}


def _value(entry: dict[str, Any], known: dict[str, type]) -> Any:
    return known[entry["type"]](**entry["fields"])


def _checksum(description: dict[str, Any]) -> str:
    plain = {key: value for key, value in description.items() if key != "checksum"}
    text = json.dumps(plain, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that holds anything but a saved model.

    :raises ValueError: naming what would be lost.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    present = contents(folder)
    foreign = sorted(
        name
        for name in present
        if name != DESCRIPTION and not (name.startswith(_ARRAYS) and name.endswith(".npz"))
    )
    if foreign:
        raise ValueError(
            f"The folder {str(folder)!r} holds {foreign[0]!r}, which is no part of a saved model "
            "and would be lost; give a new or empty folder, or one that holds only a saved model."
        )
    if DESCRIPTION in present and not _is_ours(folder / DESCRIPTION):
        raise ValueError(
            f"The folder {str(folder)!r} has a {DESCRIPTION} that spg.save did not write; give a "
            "new or empty folder."
        )


def _is_ours(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(folder, f"{DESCRIPTION} is not readable as JSON") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        old = isinstance(description, dict) and {"kernel", "approximation"} <= set(description)
        if old:
            raise ValueError(
                f"The model in {str(folder)!r} was written before models could be loaded; fit "
                "again with this version."
            )
        raise ValueError(
            f"The {DESCRIPTION} in {str(folder)!r} is not that of a saved model; give a folder "
            "that spg.save or sparse-prefgp fit wrote."
        )
    version = description.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise _damaged(folder, f"its format version is {version!r}")
    if version > FORMAT_VERSION:
        written = description.get("versions", {})
        by = written.get("sparse_prefgp", "?") if isinstance(written, dict) else "?"
        raise ValueError(
            f"The model in {str(folder)!r} has format {version}, written by sparse_prefgp {by}, "
            f"but this version reads formats up to {FORMAT_VERSION}; upgrade sparse_prefgp."
        )
    if description.get("checksum") != _checksum(description):
        raise _damaged(folder, f"{DESCRIPTION} was changed after it was written")
    return description


def _read_arrays(folder: Path, description: dict[str, Any]) -> dict[str, np.ndarray]:
    entry = description["arrays"]
    path = folder / entry["file"]
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _damaged(folder, f"{entry['file']} cannot be read ({error.strerror})") from None
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise _damaged(folder, f"{entry['file']} is not what was written")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise _damaged(folder, f"{entry['file']} cannot be read ({error})") from None


def _damaged(folder: Path, reason: str) -> ValueError:
    return ValueError(
        f"The model in {str(folder)!r} is damaged ({reason}); copy it again, or save it again."
    )
