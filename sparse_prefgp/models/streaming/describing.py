"""What is written of a `StreamedGP`: the posterior, without the duels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.models.describing import (
    STREAMED,
    as_bytes,
    described_as_any,
    described_columns,
    ids_as_array,
    label_names_as_list,
    transform_arrays,
)


def described(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    known, seen = model._inferred(), model.duels
    # The log of the rounds is of a run, not of a model.
    whole = described_as_any(model, replace(known.result, rounds=()))
    names, arrays = model.hyperparameters().described()
    arrays = {
        **arrays,
        "items": seen.items,
        "comparisons": seen.comparisons,
        "natural": known.solution.total.packed(),
        **transform_arrays(seen),
    }
    if seen.item_ids is not None:
        arrays["item_ids"] = ids_as_array(seen.item_ids)
    if seen.known.item is not None:
        arrays["item"] = seen.known.item
    if seen.item_rows is not None:
        arrays["item_rows"] = as_bytes(seen.item_rows.to_dict())
    description = {
        "kind": STREAMED,
        **whole,
        **names,
        "duels": {
            "number": seen.num_duels,
            "ties": seen.num_ties,
            "levels": None if seen.levels is None else list(seen.levels),
            "grade_counts": None if seen.grade_counts is None else seen.grade_counts.tolist(),
            "covariates": list(seen.covariate_names),
            "covariate_squares": None
            if seen.covariate_squares is None
            else seen.covariate_squares.tolist(),
            "groups": None if seen.group_names is None else list(seen.group_names),
            "roles": dict(seen.roles),
            "labels": label_names_as_list(seen.label_names),
            "group_levels": None if seen.group_levels is None else seen.group_levels.tolist(),
            "has_items": seen.has_items,
            "has_sets": seen.has_sets,
            **described_columns(seen),
        },
        "log_evidence": known.solution.log_evidence,
    }
    return description, arrays
