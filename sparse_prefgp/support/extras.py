"""What the extra `studies` brings, and what to say where it is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

INSTALL = 'pip install "sparse_prefgp[studies]"'


def of_studies(module: str, package: str, what: str) -> Any:
    """A module of the extra `studies`.

    :param package: that it comes with, as people call it.
    :param what: needs it, as a sentence begins.
    :raises ModuleNotFoundError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs {package}; install it with {INSTALL}.", name=module
        ) from error
