"""Versions of what figures depend on."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata

VERSIONED = ("sparse_prefgp", "gpflow", "tensorflow", "tensorflow-probability", "numpy", "scipy")


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python and of the installed packages that figures depend on, and of `more`."""
    found = {"python": platform.python_version()}
    for name in (*VERSIONED, *more):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
