"""What lies in the folder of a saved model; light, so that a wrong folder is found at once.

`model.json` says what the arrays are; `arrays-….npz` holds them and is named by its contents, so
that a `model.json` never meets the arrays of another model, also while a model is being replaced.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.disk.folders import check_replaceable, contents, has_format
from sparse_prefgp.support.numpy_files import read_archive

FORMAT = "sparse_prefgp model"
# 2: duels may have ties, weights and groups. 3: duels are a table of events. 4: there are terms
# and a likelihood. 5: approximations and engines are written as these, names of streams as events.
FORMAT_VERSION = 5
DESCRIPTION = "model.json"
SUBFOLDER = "model"  # where `sparse-prefgp fit` puts the model within its output
_ARRAYS = "arrays-"
_NAMED = re.compile(rf"{_ARRAYS}([0-9a-f]{{12}})\.npz")
_ARRAY = re.compile("[A-Za-z0-9_]+")


class Arrays(UserDict[str, np.ndarray]):
    """The arrays of a saved model.

    :ivar unread: names of those that nobody has asked for.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.unread = set(arrays)
        super().__init__(arrays)

    def __getitem__(self, name: str) -> np.ndarray:
        self.unread.discard(name)
        return super().__getitem__(name)


def model_files(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """The files of a saved model by name."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    name = f"{_ARRAYS}{digest[:12]}.npz"
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **description,
        "arrays": {"file": name, "sha256": digest},
    }
    description["checksum"] = checksum(description)
    text = json.dumps(description, indent=1, allow_nan=False) + "\n"
    return {name: data, DESCRIPTION: text.encode("utf-8")}


def find_model(path: str | os.PathLike[str]) -> Path:
    """The folder with `model.json` at or just below a path.

    :raises ValueError: there is none.
    """
    folder = Path(path)
    if not folder.exists():
        raise ValueError(f"There is no model folder {str(folder)!r}; correct the path.")
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; give the folder of a saved model.")
    for place in (folder, folder / SUBFOLDER):
        if (place / DESCRIPTION).is_file():
            return place
    raise ValueError(
        f"The folder {str(folder)!r} holds no model (no {DESCRIPTION}); give a folder that "
        "spg.save or sparse-prefgp fit wrote."
    )


def read_model(path: str | os.PathLike[str]) -> tuple[Path, dict[str, Any], Arrays]:
    """The folder, the description and the arrays of a saved model.

    :raises ValueError: no model there, or one that is damaged, was edited, or is of a newer or
        much older format.
    """
    folder = find_model(path)
    description = _read_description(folder)
    if not (folder / _named_arrays(description)[0]).exists():
        description = _read_description(folder)  # it may just have been replaced
    return folder, description, _read_arrays(folder, description)


def damaged(folder: Path, reason: str) -> ValueError:
    """The sentence on a saved model that is."""
    return ValueError(
        f"The model in {str(folder)!r} is damaged ({reason}); copy it again, or save it again."
    )


def check_model_place(folder: Path) -> None:
    """Refuse a folder that holds anything but a saved model.

    :raises ValueError: naming what would be lost.
    """
    description = folder / DESCRIPTION
    lost = description.exists() and not has_format(description, FORMAT)
    foreign = [DESCRIPTION] if lost else []
    check_replaceable(folder, foreign_files(folder) or foreign, "a saved model")


def foreign_files(folder: Path) -> list[str]:
    """Names in a folder that are not part of a saved model, which may be damaged."""
    ours = set() if (folder / DESCRIPTION).is_symlink() else {DESCRIPTION}
    if has_format(folder / DESCRIPTION, FORMAT):
        file, _ = _named_arrays(json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")))
        # Of any other name it would be somebody else's, whatever the description says.
        if _NAMED.fullmatch(file) and not (folder / file).is_symlink():
            ours.add(file)
    rest = sorted(contents(folder) - ours)
    return [name for name in rest if not is_named_by_contents(folder / name)]


def is_named_by_contents(path: Path) -> bool:
    """Whether a file is named by its contents, as the arrays of a saved model are."""
    named = _NAMED.fullmatch(path.name)
    if named is None or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().startswith(named[1])


def checksum(description: dict[str, Any]) -> str:
    """Of everything in a description but itself."""
    plain = {key: value for key, value in description.items() if key != "checksum"}
    text = json.dumps(plain, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _read_description(folder: Path) -> dict[str, Any]:
    data = _bytes(folder, DESCRIPTION)
    try:
        description = json.loads(data.decode("utf-8"), parse_constant=_no_number)
        sum_here = checksum(description) if isinstance(description, dict) else ""
    except (ValueError, RecursionError):
        raise damaged(folder, f"{DESCRIPTION} is not readable as JSON") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        old = isinstance(description, dict) and {"kernel", "approximation"} <= set(description)
        if old:
            raise ValueError(
                f"The model in {str(folder)!r} was written before models could be loaded; fit "
                "again with this version."
            )
        raise ValueError(
            f"The {DESCRIPTION} in {str(folder)!r} is not that of a saved model; give a folder "
            "that spg.save or sparse-prefgp fit wrote."
        )
    version = description.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise damaged(folder, f"its format version is {version!r}")
    if version > FORMAT_VERSION:
        written = description.get("versions", {})
        by = written.get("sparse_prefgp", "?") if isinstance(written, dict) else "?"
        raise ValueError(
            f"The model in {str(folder)!r} has format {version}, written by sparse_prefgp {by}, "
            f"but this version reads formats up to {FORMAT_VERSION}; upgrade sparse_prefgp."
        )
    if description.get("checksum") != sum_here:
        raise damaged(folder, f"{DESCRIPTION} was changed after it was written")
    return description


def _no_number(name: str) -> float:
    """JSON has no NaN and no infinities, though Python reads and writes them."""
    raise ValueError(name)


def _named_arrays(description: dict[str, Any]) -> tuple[str, str]:
    """What a description says are the name and the checksum of the file of arrays."""
    entry = description.get("arrays")
    entry = entry if isinstance(entry, dict) else {}
    return str(entry.get("file")), str(entry.get("sha256"))


def _read_arrays(folder: Path, description: dict[str, Any]) -> Arrays:
    name, digest = _named_arrays(description)
    if not _NAMED.fullmatch(name):
        raise damaged(folder, f"{DESCRIPTION} names no file of arrays")
    data = _bytes(folder, name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise damaged(folder, f"{name} is not what was written")
    try:
        arrays = read_archive(data)
        wrong = [each for each in arrays if not _ARRAY.fullmatch(each)]
        if wrong:
            raise ValueError(f"it has an array {wrong[0]!r}")
        return Arrays(arrays)
    except (ValueError, MemoryError) as error:
        raise damaged(folder, f"{name} cannot be read ({error})") from None


def _bytes(folder: Path, name: str) -> bytes:
    """What a file holds; a link could lead anywhere, and a pipe has no end."""
    path = folder / name
    if path.is_symlink():
        raise ValueError(
            f"{name} in the model {str(folder)!r} is a link; copy what it leads to (cp -rL)."
        )
    if path.exists() and not path.is_file():
        raise damaged(folder, f"{name} is no file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise damaged(folder, f"{name} cannot be read ({error.strerror})") from None
