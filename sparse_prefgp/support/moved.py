"""Modules under the names that they had before, for one release."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
# Old name: new name, of modules and rooms; what stands in a room has moved with it.
# The first that fits counts, so that a module stands before the room it was in.
MOVED = {
    "studies.choices": "workflow.model_names",
    "studies.figures": "workflow.fit_metrics",
    "studies.sources": "workflow.fit_sources",
    "selection.climb": "learning.lbfgs",
    "parts.workplace": "models.streaming.inference",
    "approximations.form": "approximations.layout",
    "gpflow_blocks.data": "gpflow_blocks.stacking",
    "benchmarks.figures": "lab.benchmarks.drawing",
    "streams": "support.quiet",
    "clusters": "support.workers",
    "packed": "support.pickled_calls",
    "studies.ablation_report": "lab.report",
    "studies.ablation": "lab.ablation",
    "studies": "workflow",
    "selection": "learning",
    "parts": "models.streaming",
    "benchmarks": "lab.benchmarks",
    "io.table": "data.table",
    "duels": "data.duels",
    "features": "data.features",
    "graph": "data.graph",
    "splits": "data.splits",
    "truncated_normal": "factors.truncated_normal",
    "links": "factors.links",
    "sites": "factors.sites",
    "tilted": "factors.power_moments",
    "metrics": "analysis.metrics",
    "models.saving": "disk.saving",
    "models.exporting": "disk.exporting",
    "models.items": "analysis.items",
    "models.updating": "analysis.updating",
    "models.regression": "lab.regression",
}


def new_name(name: str) -> str | None:
    """The full new name of a module of the package that has moved; None of any other."""
    package, _, rest = name.partition(".")
    for old, new in MOVED.items() if package == PACKAGE else ():
        if rest == old or rest.startswith(f"{old}."):
            return f"{PACKAGE}.{new}{rest.removeprefix(old)}"
    return None


class _Moved(MetaPathFinder, Loader):
    """An old name is the module of the new one, and says so."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None if new_name(name) is None else ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = new_name(spec.name)
        assert new is not None
        warnings.warn(
            f"{spec.name} is {new} now; the old name goes with the next release.",
            DeprecationWarning,
            stacklevel=2,
        )
        module = import_module(new)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import system has put that of the old name there


def install() -> None:
    """Let old names be found; once."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
