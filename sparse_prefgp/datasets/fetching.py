"""Public files: downloaded once by pooch, checked against a checksum, kept in the cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparse_prefgp.datasets.registry import DataSet
from sparse_prefgp.support.extras import needed

DATA_VARIABLE = "SPARSE_PREFGP_DATA"
CACHE_VARIABLE = "SPARSE_PREFGP_CACHE"

Progress = Callable[[int, int], None]


def data_folder() -> Path | None:
    """The local folder to use instead of downloads, or None.

    :raises ValueError: SPARSE_PREFGP_DATA names no folder.
    """
    given = os.environ.get(DATA_VARIABLE, "")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ValueError(
            f"{DATA_VARIABLE} is {given!r}, which is not a folder; name the folder that holds the "
            "data sets, or unset it to download them."
        )
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: SPARSE_PREFGP_CACHE, else the system's place for caches.

    :raises ModuleNotFoundError: pooch, which knows the system's place, is not installed.
    """
    given = os.environ.get(CACHE_VARIABLE, "")
    return Path(given).expanduser() if given else Path(_pooch().os_cache("sparse_prefgp"))


def download(
    known: DataSet,
    recorded: Mapping[str, str],
    *,
    refresh: bool = False,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """The public files of a set by name, from the cache where they are there already.

    :param recorded: checksums of earlier downloads, for files whose own is not known.
    :param refresh: download again what is there already; it must be the same as before.
    :param progress: called with how many files are there and how many there are in all.
    :raises ValueError: another checksum; the file from before stays.
    :raises ConnectionError: no network, or an address that does not answer with the file.
    :raises ModuleNotFoundError: pooch is not installed.
    """
    folder = cache_folder() / known.name
    paths = {file.name: folder / "raw" / file.name for file in known.remote}
    pooch = _pooch()
    pooch.get_logger().setLevel("WARNING")
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch:
        for number, file in enumerate(known.remote, start=1):
            place = scratch if refresh else folder / "raw"
            expected = file.sha256 or recorded.get(file.name)
            import requests  # which pooch brings

            try:
                fetched = pooch.retrieve(file.url, expected, file.name, place)
            except requests.RequestException as error:
                status = getattr(error.response, "status_code", None)
                reason = type(error).__name__ if status is None else f"status {status}"
                raise ConnectionError(
                    f"{file.url} cannot be downloaded ({reason}); try again with a network, or let "
                    f"{DATA_VARIABLE} name a local folder that holds the data sets."
                ) from None
            except ValueError as error:
                remedy = "see whether a newer version of sparse_prefgp knows it"
                if file.sha256 is None:
                    remedy = f"accept it by deleting the folder {str(folder)!r}"
                raise ValueError(
                    f"{file.url}: {str(error).partition('. ')[0]}; try again later, or {remedy}."
                ) from None
            os.replace(fetched, paths[file.name])
            if progress is not None:
                progress(number, len(known.remote))
    return paths


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pooch() -> Any:
    return needed("pooch", "pooch", "Downloading data sets")
