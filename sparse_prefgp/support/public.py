"""Public names and names of rooms, imported when they are first used.

A module of names declares them where type checkers read them, as imports under
`if TYPE_CHECKING:`; a room may name its own modules too. At run time the same lines are the table:
nothing has to be listed twice. So a room costs nothing before something of it is used, and what
refuses before TensorFlow is there can name at its head what it needs afterwards.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sparse_prefgp.support.quiet import held_back_stderr

# TensorFlow reads it once, when it is first imported.
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@cache
def declared(module: str) -> dict[str, str]:
    """Names that a module declares, and the module that each comes from, as text."""
    spec = find_spec(module)
    source = spec and getattr(spec.loader, "get_source", lambda _: None)(module)
    if not source:
        raise ModuleNotFoundError(
            f"The source of {module} is not there, which names what it exports; install "
            "sparse_prefgp with its .py files.",
            name=module,
        )
    homes: dict[str, str] = {}
    for part in ast.parse(source).body:
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            for line in part.body:
                assert isinstance(line, ast.ImportFrom) and line.module is not None
                homes |= {alias.asname or alias.name: line.module for alias in line.names}
    return {name: home for name, home in homes.items() if not name.startswith("_")}


def quietly(module: str) -> Any:
    """Import a module; the notices that TensorFlow prints before it reads its level are dropped."""
    if "tensorflow" in sys.modules or os.environ.get(LOG_LEVEL) == "0":
        return import_module(module)
    with held_back_stderr():
        return import_module(module)


def public(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that declares names; `__all__` is among them."""

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(declared(module))
        if name.startswith("_") or name not in declared(module):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = declared(module)[name]
        if home == module:  # one of its own modules
            return quietly(f"{module}.{name}")
        return getattr(quietly(home), name)

    return get, lambda: sorted(declared(module))
