"""Packages that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def late(name: str) -> Any:
    """A module that takes long to import and that most runs do not need, to stand at the head."""
    return _Late(name)
