"""What the extras of the package bring, and what to say where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def install(extra: str) -> str:
    """How to install an extra, as the end of a sentence."""
    return f'pip install ".[{extra}]" in the folder of the repository'


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
