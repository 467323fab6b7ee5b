"""What is written of a `StreamedGP`, and the model of it: the posterior, without the duels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.engines import Status
from sparse_prefgp.models.describing import (
    APPROXIMATIONS,
    ENGINES,
    STREAMED,
    described_as_any,
    described_columns,
    ids_as_array,
    value_of,
)
from sparse_prefgp.models.streaming.gaussian import Natural
from sparse_prefgp.models.streaming.hyperparameters import Description
from sparse_prefgp.models.streaming.seen import SeenDuels

if TYPE_CHECKING:
    from sparse_prefgp.models.streaming.model import StreamedGP


def described(model: StreamedGP) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    kept = model.kept()
    # The log of the rounds is of a run, not of a model.
    seen, whole = kept.seen, described_as_any(model, replace(kept.result, rounds=()))
    names, arrays = model.hyperparameters().described()
    arrays = {
        **arrays,
        "items": seen.items,
        "comparisons": seen.comparisons,
        "natural": kept.total.packed(),
    }
    if seen.item_ids is not None:
        arrays["item_ids"] = ids_as_array(seen.item_ids)
    description = {
        "kind": STREAMED,
        **whole,
        **names,
        "duels": {
            "number": seen.num_duels,
            "ties": seen.num_ties,
            "has_items": seen.has_items,
            **described_columns(seen),
        },
        "log_evidence": kept.log_evidence,
    }
    return description, arrays


def rebuilt(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> StreamedGP:
    """The model that `described` has described."""
    from sparse_prefgp.models.streaming.model import LoadedPosterior, StreamedGP, StreamedResult

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
    kept = LoadedPosterior(
        seen,
        Natural.unpacked(arrays["natural"]),
        description["log_evidence"],
        StreamedResult(**inference),
    )
    return StreamedGP.without_duels(
        Description(description, arrays).rebuilt(),
        value_of(description["approximation"], APPROXIMATIONS),
        value_of(description["engine"], ENGINES),
        kept,
    )
