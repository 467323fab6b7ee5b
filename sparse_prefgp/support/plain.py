"""Values as JSON can hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _nothing(value: float) -> None:
    return None


def plain(value: Any, not_finite: Callable[[float], Any] = _nothing) -> Any:
    """Dictionaries with keys of text, lists, and Python's own numbers.

    :param not_finite: what becomes of infinities and NaN, which JSON does not have; by default
        None.
    """
    if isinstance(value, dict):
        return {str(key): plain(entry, not_finite) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, not_finite) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    return value


def as_json_text(values: Any) -> str:
    """JSON as files hold it."""
    return json.dumps(plain(values), indent=2, allow_nan=False) + "\n"
