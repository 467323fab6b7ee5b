"""Which contents of files a study is of: their checksums, by which changed data are noticed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sparse_prefgp.datasets.fetching import sha256
from sparse_prefgp.datasets.loading import checksums

if TYPE_CHECKING:
    from sparse_prefgp.lab.ablation.configuration import Data


def source_sums(data: Data) -> dict[str, str]:
    """SHA-256 of the files that the duels are read from as they are now; none for `made` ones.

    By the names of the files of a set, by `items` and `duels` for files.

    :raises ValueError: of a set, as `fetch`.
    :raises ConnectionError: of a set, as `fetch`.
    :raises ModuleNotFoundError: of a set, as `fetch`.
    """
    if data.set is not None:
        return checksums(data.set)
    if data.files is not None:
        paths = {"items": data.files.items, "duels": data.files.duels}
        return {name: sha256(Path(path)) for name, path in paths.items()}
    return {}


def check_unchanged(data: Data, expected: Mapping[str, str]) -> None:
    """Refuse data that are not those of the study, here or where a worker is.

    :raises ValueError: other files, or other contents.
    """
    found = source_sums(data)
    if found == expected:
        return
    other = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    raise ValueError(
        f"The data {data.label!r} are not those that the study began with, by {', '.join(other)}; "
        "put back the same files, on all machines, or give another output folder."
    )
