"""Modules of whoever runs a command, which register kernels and approximations of their own."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple


class OwnModules(NamedTuple):
    """Modules by name, and the folders that they are looked for in before all others."""

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def load(self) -> dict[str, Path]:
        """Import them, here or in another process; those that are imported already stay.

        :return: the files that they are in, by their places within packages.
        :raises ValueError: one that is nowhere, or that cannot be imported.
        """
        if self.names:
            sys.path[:0] = [folder for folder in self.folders if folder not in sys.path]
        files = {}
        for name in self.names:
            try:
                module = import_module(name)
            except Exception as error:
                places = " and ".join(map(repr, dict.fromkeys(self.folders)))
                nowhere = name.startswith(".") or (
                    isinstance(error, ModuleNotFoundError)
                    and f"{name}.".startswith(f"{error.name}.")
                )
                why = (
                    f"is neither installed nor in {places}; correct the name (no folder, no .py)"
                    if nowhere
                    else f"cannot be imported ({type(error).__name__}: {error}); correct it"
                )
                raise ValueError(f"The module {name!r} {why}.") from error
            file, package = getattr(module, "__file__", None), module.__package__ or ""
            if file is not None:
                path = Path(file)
                files[Path(*package.split("."), path.name).as_posix()] = path
        return files
