"""Public files: downloaded once, checked against a checksum, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from sparse_prefgp.datasets.registry import DataSet, RemoteFile
from sparse_prefgp.disk.folders import write_file
from sparse_prefgp.support.extras import needed

DATA_VARIABLE = "SPARSE_PREFGP_DATA"
CACHE_VARIABLE = "SPARSE_PREFGP_CACHE"
RECORD = "checksums.json"

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
    known: DataSet, *, refresh: bool = False, progress: Progress | None = None
) -> dict[str, Path]:
    """The public files of a set, from the cache where they are there already.

    :param known: the set.
    :param refresh: download again what is there already; it must be the same as before.
    :param progress: called with how many files are there and how many there are in all.
    :return: The files by name.
    :raises ValueError: a checksum that differs from the known or recorded one; the file from before
        stays. A place that cannot be written.
    :raises ConnectionError: no network, or an address that does not answer with the file.
    :raises ModuleNotFoundError: pooch is not installed.
    """
    root = cache_folder()
    folder = root / known.name / "raw"
    paths = {}
    for i, file in enumerate(known.remote):
        path = folder / file.name
        key = f"{known.name}/{file.name}"
        if path.is_file() and not refresh:
            _check(path, expected_sum(root, key, file))
        else:
            _download(path, file, root, key)
        paths[file.name] = path
        if progress is not None:
            progress(i + 1, len(known.remote))
    return paths


def expected_sum(root: Path, key: str, file: RemoteFile) -> str | None:
    """The checksum that a file must have: the known one, else the recorded one, else None."""
    return file.sha256 or recorded(root).get(key, {}).get("sha256")


def recorded(root: Path) -> dict[str, dict[str, str]]:
    """What was recorded at first downloads: checksum, address and date by set and file.

    :raises ValueError: the record is damaged.
    """
    path = root / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(entry, dict) for entry in found.values()):
        raise ValueError(
            f"The record of checksums {str(path)!r} is damaged; put it right, or delete it to have "
            "the checksums recorded again."
        )
    return found


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_record(content: Any) -> str:
    """JSON in an order that does not depend on what was first."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _check(path: Path, expected: str | None) -> None:
    """Refuse a cached file that is not what was downloaded."""
    if expected is None:
        return
    found = sha256(path)
    if found != expected:
        raise ValueError(
            f"The cached file {str(path)!r} has the checksum {found}, not {expected}, so it was "
            "changed since its download; delete it to download it again."
        )


def _download(path: Path, file: RemoteFile, root: Path, key: str) -> None:
    """Download next to the place, compare, put in place, record: whole files or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=path.parent) as scratch:
        fetched = _retrieve(file.url, Path(scratch))
        found, expected = sha256(fetched), expected_sum(root, key, file)
        if expected is not None and found != expected:
            since = recorded(root).get(key, {}).get("date")
            when = f"recorded on {since}" if file.sha256 is None else "known"
            kept = "the file from before stays" if path.exists() else "it was not kept"
            remedy = (
                f"to accept the new one, delete the entry {key!r} in {str(root / RECORD)!r}"
                if file.sha256 is None
                else "try again later, or see whether a newer version of sparse_prefgp knows it"
            )
            raise ValueError(
                f"The download of {file.url} has the checksum {found}, not the one {when}, "
                f"{expected}: {kept}; {remedy}."
            )
        os.replace(fetched, path)
    if file.sha256 is None and expected is None:
        entry = {"sha256": found, "url": file.url, "date": date.today().isoformat()}
        write_file(root / RECORD, as_record(recorded(root) | {key: entry}))


def _retrieve(url: str, scratch: Path) -> Path:
    """Download a file into an empty folder.

    :raises ConnectionError: the address does not answer with the file.
    """
    import requests

    pooch = _pooch()
    try:
        with _quiet(pooch.get_logger()):
            return Path(pooch.retrieve(url, known_hash=None, fname="file", path=scratch))
    except requests.HTTPError as error:
        status = "an error" if error.response is None else f"status {error.response.status_code}"
        reason = f"the address answers with {status}"
    except requests.ConnectionError:
        reason = "no connection"
    except requests.Timeout:
        reason = "no answer in time"
    except requests.RequestException as error:
        reason = f"broken off: {type(error).__name__}"
    raise ConnectionError(
        f"{url} cannot be downloaded ({reason}); try again with a network, or let {DATA_VARIABLE} "
        "name a local folder that holds the data sets."
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without pooch's messages about each download."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _pooch() -> Any:
    return needed("pooch", "pooch", "Downloading data sets")
