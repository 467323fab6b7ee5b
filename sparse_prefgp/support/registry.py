"""Classes that saved models, configurations and commands name: ours, GPflow's, and one's own.

Nothing here knows what they are classes of; `models/registry.py` does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

KERNEL, IN_TIME, MEAN_FUNCTION = "kernel", "kernel in time", "mean function"
APPROXIMATION, ENGINE = "approximation", "engine"
TERM, LIKELIHOOD = "term", "likelihood"
_OURS = ("sparse_prefgp", "gpflow")
_CLASSES: dict[str, dict[str, type]] = defaultdict(dict)


def keep(kind: str, one: type) -> None:
    """Let a class be named.

    :raises ValueError: another class of that name is known already.
    """
    known = _CLASSES[kind].setdefault(one.__name__, one)
    # Running a notebook cell again makes a new class of the same name in the same place.
    if (known.__module__, known.__qualname__) != (one.__module__, one.__qualname__):
        raise ValueError(
            f"A class named {one.__name__} is known already, from {known.__module__}; rename yours."
        )
    _CLASSES[kind][one.__name__] = one


def known(kind: str) -> Mapping[str, type]:
    """All classes of a kind, by their names."""
    return _CLASSES[kind]


def is_own(one: type) -> bool:
    """Whether it is neither of this package nor of GPflow."""
    return one.__module__.partition(".")[0] not in _OURS


def own(kind: str) -> dict[str, type]:
    """One's own, as commands and configurations name them: `MyKernel` is `my-kernel`."""
    return {
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower(): one
        for name, one in _CLASSES[kind].items()
        if is_own(one)
    }


def spelt(kind: str, text: str) -> str:
    """A name as it is written: that of one's own class, also without hyphens; else lower case."""
    plain = {name.replace("-", ""): name for name in own(kind)}
    return plain.get(re.sub("[-_]", "", text).lower(), text.lower())
