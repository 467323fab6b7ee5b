"""Versions of what figures depend on."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata

from sparse_prefgp.support.version import __version__

VERSIONED = ("gpflow", "tensorflow", "tensorflow-probability", "numpy", "scipy")


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python, of this package and of the others that figures depend on, and of `more`.

    That of this package is of the code that runs, which need not be installed.
    """
    found = {"python": platform.python_version(), "sparse_prefgp": __version__}
    for name in (*VERSIONED, *more):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
