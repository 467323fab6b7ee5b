"""What the extras of the package bring, and what to say where one is missing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def install(extra: str) -> str:
    """How to install an extra, as the end of a sentence."""
    return f'pip install ".[{extra}]" in the folder of the repository'


def require_gpflow() -> None:
    """:raises ModuleNotFoundError: GPflow is not installed."""
    if "gpflow" not in sys.modules and find_spec("gpflow") is None:
        raise ModuleNotFoundError(
            "sparse_prefgp needs GPflow, which pip does not install of its own accord next to "
            "NumPy 2: run `pip install --no-deps gpflow==2.11.2`.",
            name="gpflow",
        )


def needed(module: str, package: str, what: str, extra: str = "cli") -> Any:
    """A module of an extra.

    :param package: that it comes with, as people call it.
    :param what: needs it, as a sentence begins.
    :raises ModuleNotFoundError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs {package}; install it with {install(extra)}.", name=module
        ) from error
