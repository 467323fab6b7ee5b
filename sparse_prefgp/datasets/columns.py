"""What converters ask of public files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def require_columns(frame: Any, columns: Iterable[str], path: Path) -> None:
    """Refuse a public file that lacks a column.

    :raises ValueError: it does.
    """
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{path.name} has no column {missing[0]!r}; give the public file, or one with its "
            "columns."
        )
