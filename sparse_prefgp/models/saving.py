"""Models as a folder of arrays and JSON: `save`, `load`."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import (
    DTC,
    FITC,
    PITC,
    VFE,
    Approximation,
    Exact,
    HeteroscedasticVFE,
    PriorPower,
    SubsetOfData,
    TightVFE,
)
from sparse_prefgp.covariances.item_effect import numbered_kernel
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.duels import Duels
from sparse_prefgp.engines import (
    InferenceResult,
    Laplace,
    ParallelEP,
    PartitionedEP,
    SequentialEP,
    Status,
    Variational,
)
from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.folders import replaced_folder
from sparse_prefgp.model_folder import check_replaceable, model_files, read_model
from sparse_prefgp.models.codec import Decoder, Encoder
from sparse_prefgp.models.outcomes import GroupRatios
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.versions import versions

if TYPE_CHECKING:
    from sparse_prefgp.parts.model import StreamedGP

_ROWS_COMPARED = 50
STREAMED = "streamed"
_KNOWN_ENGINES: tuple[type, ...] = (
    ParallelEP,
    PartitionedEP,
    SequentialEP,
    Laplace,
    Variational,
)
_KNOWN_APPROXIMATIONS: tuple[type, ...] = (
    Exact,
    DTC,
    VFE,
    TightVFE,
    FITC,
    HeteroscedasticVFE,
    PriorPower,
    SubsetOfData,
    PITC,
)
_ENGINES = {kind.__name__: kind for kind in _KNOWN_ENGINES}
_APPROXIMATIONS = {kind.__name__: kind for kind in _KNOWN_APPROXIMATIONS}


def save(model: PreferenceGP | StreamedGP, path: str | os.PathLike[str]) -> None:
    """Write a model into a folder, or replace the model that is there.

    The folder holds the prior, all parameters with their transforms, priors and `trainable`
    marks, the duels, and the sites, so that the loaded model predicts what this one does: to the
    bit on the same machine with the same versions. Nothing is pickled. A process killed half way
    leaves the old model or the new one.

    :param model: a `PreferenceGP`, or a `StreamedGP`, of which the posterior is kept, and what is
        known of the items, but neither duels nor sites.
    :param path: a new or empty folder, or one that holds a saved model.
    :raises ValueError: a folder with other things in it; a kernel class that `register_kernel`
        does not know; an approximation or engine of your own; item ids that are neither text nor
        numbers; sites that are not finite.
    """
    from sparse_prefgp.parts.model import StreamedGP

    if not isinstance(model, PreferenceGP | StreamedGP):
        raise ValueError(f"save takes a PreferenceGP, not {type(model).__name__}.")
    files = files_of(model)
    with replaced_folder(Path(path), check_replaceable) as folder:
        write_files(folder, files)


def files_of(model: PreferenceGP | StreamedGP) -> dict[str, bytes]:
    """The files of a saved model by name; everything that can be refused is refused here."""
    if not isinstance(model, PreferenceGP):
        return model_files(*_describe_streamed(model))
    return model_files(*_describe(model))


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write what `files_of` gave into a folder that exists."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


def load(path: str | os.PathLike[str]) -> PreferenceGP:
    """Read a model that `save` wrote, or that `sparse-prefgp fit` wrote into its output folder.

    :param path: the folder of the model, or the output folder of a fit.
    :raises ValueError: no such folder; a folder that holds no model, one that is damaged or was
        edited, or one of a newer or much older format; a kernel class that is not registered;
        another `gpflow.default_float`.
    """
    folder, description, arrays = read_model(path)
    if gpflow.default_float().__name__ != description["float"]:
        raise ValueError(
            f"The model in {str(folder)!r} was made with {description['float']} numbers, but "
            f"gpflow.default_float() is {gpflow.default_float().__name__}; call "
            f"gpflow.config.set_default_float(np.{description['float']}) first."
        )
    if description.get("kind") == STREAMED:
        streamed: Any = _rebuild_streamed(description, arrays)
        return streamed
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
        ties=arrays.get("ties"),
        weights=arrays.get("weights"),
        groups=_group_labels(data.get("groups"), arrays),
    )
    points = None
    if inducing is not None:
        points = gpflow.inducing_variables.InducingPoints(decoder.parameter(inducing))
    noise = decoder.parameter(description["noise_variance"])
    margin, ratio = (
        None if description.get(name) is None else decoder.parameter(description[name])
        for name in ("margin", "noise_ratio")
    )
    kernel = decoder.module(description["kernel"])
    engine = _value(description["engine"], _ENGINES)
    mean_function = None if function is None else decoder.module(function)

    def build(approximation: Approximation) -> PreferenceGP:
        with warnings.catch_warnings():  # whoever saved the model has been warned of its kernel
            warnings.simplefilter("ignore")
            return PreferenceGP(
                duels,
                kernel,
                approximation=approximation,
                inducing_variable=points,
                engine=engine,
                mean_function=mean_function,
                margin=None if margin is None else 1.0,  # both are those that were saved, below
                noise_by_group=ratio is not None,
            )

    model = build(_approximation(description["approximation"], arrays))
    if "blocks" in arrays and not np.array_equal(_blocks(model), arrays["blocks"]):
        # Another version of k-means finds others; the sites belong to those that were saved.
        model = build(PITC(arrays["blocks"]))
    model.noise_variance, model.margin = noise, margin
    # A file names the prior, and the class what it is the density of.
    model.noise_ratio = None if ratio is None else GroupRatios.like(ratio)
    inference = dict(description["inference"])
    inference["status"] = Status[inference["status"]]
    model.restore(arrays["site_nu"], arrays["site_tau"], InferenceResult(**inference))
    return model


def _describe(model: PreferenceGP) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    inference = model.infer()
    encoder = Encoder()
    kernel = encoder.module(model.kernel, "The kernel")
    function = None
    if model.mean_function is not None:
        function = encoder.module(model.mean_function, "The mean function")
    noise = encoder.parameter(model.noise_variance, "the noise variance")
    margin, ratio = (
        None if value is None else encoder.parameter(value, where)
        for value, where in ((model.margin, "the margin"), (model.noise_ratio, "the noise ratios"))
    )
    inducing = None
    if model.inducing_variable is not None:
        inducing = encoder.parameter(model.inducing_variable.Z, "the inducing inputs")
    duels, (nu, tau) = model.duels, model.sites()
    arrays = {
        **encoder.arrays,
        "items": duels.items,
        **_duel_arrays(model),
        "site_nu": nu,
        "site_tau": tau,
    }
    if inference.status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"saved: {inference}."
        )
    if duels.item_ids is not None:
        arrays["item_ids"] = _ids(duels.item_ids)
    transform = duels.transform
    fields = dataclasses.asdict(inference)
    fields["status"] = inference.status.name
    approximation = _named(model.approximation, _APPROXIMATIONS, "The approximation")
    if model.approximation.labels is not None:
        approximation["fields"]["blocks"] = list(model.approximation.labels)
    description = {
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        "kernel": kernel,
        "mean_function": function,
        "noise_variance": noise,
        "margin": margin,
        "noise_ratio": ratio,
        "inducing_inputs": inducing,
        "parameters": encoder.parameters,
        "approximation": approximation,
        "engine": _named(model.engine, _ENGINES, "The engine"),
        "duels": {
            "item_ids": None if duels.item_ids is None else "item_ids",
            "groups": None if duels.group_names is None else list(duels.group_names),
            "feature_names": None if duels.feature_names is None else list(duels.feature_names),
            "transform": None if transform is None else transform.to_dict(),
        },
        "inference": fields,
    }
    _check_rebuilds(model, description, arrays)
    return description, arrays


def _describe_streamed(model: StreamedGP) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    kept = model.kept()
    seen, inference = kept.seen, dataclasses.asdict(kept.result)
    if kept.result.status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"saved: {kept.result}."
        )
    inference["status"] = kept.result.status.name
    inference["rounds"] = []  # the log of a run, not of a model
    names, arrays = model.hyperparameters().described()
    arrays = {
        **arrays,
        "items": seen.items,
        "comparisons": seen.comparisons,
        "natural": kept.total.packed(),
    }
    if seen.item_ids is not None:
        arrays["item_ids"] = _ids(seen.item_ids)
    description = {
        "kind": STREAMED,
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        **names,
        "approximation": _named(model.approximation, _APPROXIMATIONS, "The approximation"),
        "engine": _named(model.engine, _ENGINES, "The engine"),
        "duels": {
            "number": seen.num_duels,
            "ties": seen.num_ties,
            "has_items": seen.has_items,
            "feature_names": None if seen.feature_names is None else list(seen.feature_names),
            "transform": None if seen.transform is None else seen.transform.to_dict(),
        },
        "log_evidence": kept.log_evidence,
        "inference": inference,
    }
    return description, arrays


def _rebuild_streamed(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> StreamedGP:
    from sparse_prefgp.parts.gaussian import Natural
    from sparse_prefgp.parts.hyperparameters import Description
    from sparse_prefgp.parts.model import Kept, StreamedGP, StreamedResult
    from sparse_prefgp.parts.seen import SeenDuels

    data, inference = description["duels"], dict(description["inference"])
    inference |= {"status": Status[inference["status"]], "rounds": ()}
    ids, names, transform = arrays.get("item_ids"), data["feature_names"], data["transform"]
    seen = SeenDuels(
        arrays["items"],
        arrays["comparisons"],
        data["number"],
        data["has_items"],
        None if ids is None else tuple(json.loads(ids.tobytes().decode("utf-8"))),
        None if names is None else tuple(names),
        None if transform is None else FeatureTransform.from_dict(transform),
        data.get("ties", 0),
    )
    kept = Kept(
        seen,
        Natural.unpacked(arrays["natural"]),
        description["log_evidence"],
        StreamedResult(**inference),
    )
    return StreamedGP.without_duels(
        Description(description, arrays).rebuilt(),
        _value(description["approximation"], _APPROXIMATIONS),
        _value(description["engine"], _ENGINES),
        kept,
    )


def _check_rebuilds(
    model: PreferenceGP, description: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """A class may compute with more than its constructor's arguments; found before it is lost."""
    decoder = Decoder(description["parameters"], arrays)
    rows, columns = model.graph.rows[:_ROWS_COMPARED], model.duels.num_features
    numbered, features = as_float(rows), as_float(rows[:, :columns])

    def on_rows(kernel: gpflow.kernels.Kernel) -> np.ndarray:
        if model.has_item_effect:
            kernel = numbered_kernel(kernel, columns)
        diagonal = kernel(numbered, full_cov=False)
        return np.concatenate([kernel_matrix(kernel, numbered).numpy(), diagonal.numpy()[None]])

    entry = description["kernel"]
    same = np.array_equal(on_rows(model.kernel), on_rows(decoder.module(entry)))
    if same and model.mean_function is not None:
        entry = description["mean_function"]
        again = decoder.module(entry)
        same = np.array_equal(model.mean_function(features), again(features))
    if not same:
        raise ValueError(
            f"The class {entry['type']} does not compute the same again from its constructor's "
            "arguments and parameters; let the constructor take everything it computes with, "
            "kernels too, and keep each in an attribute named like its argument."
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


def _duel_arrays(model: PreferenceGP) -> dict[str, np.ndarray]:
    """Who beat whom, how often and by whose judgement.

    As it was given where each duel has its block or a weight, else with equal duels merged.
    """
    duels = model.duels
    in_blocks = model.approximation.has_blocks
    row = np.arange(duels.num_pairs)
    found: dict[str, np.ndarray] = {"counts": duels.counts}
    if in_blocks or duels.weights_given is not None:
        row, found = duels.rows_given, {"counts": duels.counts_given}
    if duels.weights_given is not None:
        found["weights"] = duels.weights_given
    if in_blocks:
        found["blocks"] = _blocks(model)
    for name, values in (
        ("winners", duels.winners),
        ("losers", duels.losers),
        ("ties", duels.ties),
        ("groups", duels.groups),
    ):
        if values is not None:
            found[name] = values[row]
    return found


def _group_labels(names: list[Any] | None, arrays: dict[str, np.ndarray]) -> list[Any] | None:
    """The label of each duel."""
    return None if names is None else [names[number] for number in arrays["groups"]]


def _blocks(model: PreferenceGP) -> np.ndarray:
    """The number of the block of each duel as it was given."""
    graph = model.graph
    assert graph.blocks is not None and graph.site_of_duel is not None
    blocks: np.ndarray = graph.blocks[graph.site_of_duel]
    return blocks


def _approximation(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> Approximation:
    fields = entry["fields"]
    if isinstance(fields.get("blocks"), list):
        labels = [fields["blocks"][number] for number in arrays["blocks"]]
        entry = {**entry, "fields": {**fields, "blocks": labels}}
    approximation: Approximation = _value(entry, _APPROXIMATIONS)
    return approximation


def _value(entry: dict[str, Any], known: dict[str, type]) -> Any:
    return known[entry["type"]](**entry["fields"])
