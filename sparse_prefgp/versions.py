"""Versions of what figures depend on."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib import metadata

VERSIONED = ("sparse_prefgp", "gpflow", "tensorflow", "tensorflow-probability", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that figures depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
