"""Values as JSON can hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

# Values by their names.
Record = dict[str, Any]


def plain(value: Any, not_finite: Callable[[float], Any] = lambda value: None) -> Any:
    """Dictionaries with keys of text, lists, and Python's own numbers; of a dataclass its fields,
    of a data frame its rows, of what has `to_dict` that; all else as text.

    :param not_finite: what becomes of infinities and NaN, which JSON does not have; by default
        None.
    """
    if hasattr(value, "to_dict"):
        value = value.to_dict("records") if hasattr(value, "columns") else value.to_dict()
    elif is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry, not_finite) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, not_finite) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def as_json_text(values: Any) -> str:
    """JSON as files hold it."""
    return json.dumps(plain(values), indent=2, allow_nan=False) + "\n"
