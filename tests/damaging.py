"""Saved models, damaged in every way that a hand, a disk or malice could, and signed again.

A description says of each value what could stand there instead: nothing, another name, a value of
another type. Arrays lose their name, rows, shape, type or finite values. Files are cut off, are
links, or are named where they are not.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.disk.model_folder import DESCRIPTION, checksum

Damage = Callable[[Path], None]
# What nothing reads that computes: other values there change no answer.
_SAID_ONLY = ("versions", "what")
# What may be missing is another model, and no damage: files of before had fewer fields.
_NULLABLE = ("transform", "prior")
_OPTIONAL = "fields"
# Columns of answers that are left out where all have the same there: without one it is other
# answers, and that the file of arrays is another is told by its name.
_LEFT_OUT = ("counts", "weights", "ties")


class Damaged(NamedTuple):
    """What is done to the folder of a model, and in words."""

    name: str
    damage: Damage


def _flipped(data: bytes) -> bytes:
    """With other bytes in the midst of what is packed."""
    some = slice(len(data) // 2, len(data) // 2 + 9)
    return data[: some.start] + bytes(b ^ 0xFF for b in data[some]) + data[some.stop :]


def _headed(places: tuple[int, int], value: int) -> Callable[[bytes], bytes]:
    """With this 16-bit number in the local and the central header of the first member."""

    def change(data: bytes) -> bytes:
        here, changed = (0, data.find(b"PK\x01\x02")), bytearray(data)
        for start, place in zip(here, places, strict=True):
            changed[start + place : start + place + 2] = value.to_bytes(2, "little")
        return bytes(changed)

    return change


# What may happen to an archive of arrays that is packed: from its bytes to others.
DAMAGED_ARRAYS: dict[str, Callable[[bytes], bytes]] = {
    "flipped": _flipped,
    "encrypted": _headed((6, 8), 1),
    "packed otherwise": _headed((8, 10), 99),
    "said to be bzip2": _headed((8, 10), 12),
    "said to be LZMA": _headed((8, 10), 14),
}


def damages(folder: Path) -> Iterator[Damaged]:
    """All that can be done to this model."""
    description = json.loads((folder / DESCRIPTION).read_text())
    yield from _of_description(description)
    with np.load(folder / description["arrays"]["file"]) as file:
        arrays = {name: file[name] for name in file.files}
    yield from _of_arrays(arrays)
    yield from _of_files(description["arrays"]["file"])


def _of_description(description: dict[str, Any]) -> Iterator[Damaged]:
    for place in _places(description):
        if place[0] in ("checksum", "format") or set(place) & set(_SAID_ONLY):
            continue
        where = "/".join(map(str, place))
        if place[-2:-1] != (_OPTIONAL,):
            yield Damaged(f"{where} gone", _changed(place, lambda parent, key: parent.pop(key)))
        if isinstance(place[-1], str):
            yield Damaged(f"{where} renamed", _changed(place, _renamed))
        for other in (None, "text", 7, 0.5, [], {}, True, [[]], "../model.json"):
            value = _at(description, place)
            alike = (int, float) if isinstance(value, int | float) else type(value)
            if place[-1] in _NULLABLE and other is None:
                continue
            if not isinstance(other, alike) or isinstance(other, str):
                name = f"{where} = {json.dumps(other)}"
                yield Damaged(name, _changed(place, _set(other)))


def _of_arrays(arrays: dict[str, np.ndarray]) -> Iterator[Damaged]:
    changes: dict[str, Callable[[np.ndarray], Any]] = {
        "with an axis": lambda a: a[None],
        "flat": lambda a: a.reshape(-1),
        "turned": lambda a: a.T,
        "empty": lambda a: a[:0] if a.ndim else np.zeros(0, a.dtype),
        "NaN": lambda a: np.full(a.shape, np.nan),
        "infinite": lambda a: np.full(a.shape, np.inf),
        "text": lambda a: np.full(a.shape, "x"),
        "complex": lambda a: a.astype(np.complex128),
        "large": lambda a: np.full(a.shape, 2**62) if a.dtype.kind in "iu" else a,
        "objects": lambda a: a.astype(object),
    }
    for how, damage in DAMAGED_ARRAYS.items():
        yield Damaged(f"arrays {how}", _rewritten(lambda _: None, damage))
    for name, array in arrays.items():
        if name not in _LEFT_OUT:
            yield Damaged(f"array {name} gone", _rewritten(lambda a, n=name: a.pop(n)))
        for new in ("../x", "", "other"):
            yield Damaged(
                f"array {name} called {new!r}",
                _rewritten(lambda a, n=name, to=new: a.update({to: a.pop(n)})),
            )
        if len(array.shape) and len(array) > 1 and not name.startswith("parameter"):
            changes["shorter"] = lambda a: a[:-1]
            changes["longer"] = lambda a: np.concatenate([a, a[-1:]])
        for how, change in changes.items():
            changed = change(array)
            if changed.dtype != array.dtype or not np.array_equal(changed, array):
                yield Damaged(
                    f"array {name} {how}",
                    _rewritten(lambda a, n=name, to=changed: a.update({n: to})),
                )
        changes.pop("shorter", None)
        changes.pop("longer", None)


def _of_files(arrays: str) -> Iterator[Damaged]:
    for name in (DESCRIPTION, arrays):
        for share in (0.0, 0.1, 0.5, 0.99):
            yield Damaged(f"{name} cut off at {share}", lambda f, n=name, s=share: _cut(f / n, s))
        yield Damaged(f"{name} gone", lambda f, n=name: (f / n).unlink())
        yield Damaged(f"{name} a link", lambda f, n=name: _link(f / n))
        yield Damaged(f"{name} a folder", lambda f, n=name: _folder(f / n))
        yield Damaged(f"{name} a pipe", lambda f, n=name: _pipe(f / n))
    for named in ("../outside.npz", "/etc/passwd", "", ".", arrays.upper(), f"{arrays}\0"):
        yield Damaged(f"arrays called {named!r}", lambda f, n=named: _call(f, arrays, n))
    for text in ("[" * 100_000, "1e999", "[1e999]", "9" * 5000, '{"format": "\\ud800"}', "\0"):
        yield Damaged(f"{DESCRIPTION} = {text[:9]}", lambda f, t=text: _write(f / DESCRIPTION, t))


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*before, key)
        if isinstance(one, dict | list) and not (isinstance(one, list) and len(one) > 5):
            yield from _places(one, (*before, key))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _changed(place: tuple[Any, ...], change: Callable[[Any, Any], Any]) -> Damage:
    def damage(folder: Path) -> None:
        values = copy.deepcopy(json.loads((folder / DESCRIPTION).read_text()))
        change(_at(values, place[:-1]), place[-1])
        _sign(folder, values)

    return damage


def _renamed(parent: dict[str, Any], key: str) -> None:
    parent[f"{key}s"] = parent.pop(key)


def _set(other: Any) -> Callable[[Any, Any], None]:
    def put(parent: Any, key: Any) -> None:
        parent[key] = other

    return put


def _rewritten(
    change: Callable[[dict[str, Any]], Any], after: Callable[[bytes], bytes] | None = None
) -> Damage:
    """Other arrays, or another file of them, which is signed as the first was."""

    def damage(folder: Path) -> None:
        values = json.loads((folder / DESCRIPTION).read_text())
        path = folder / values["arrays"]["file"]
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        change(arrays)
        buffer = io.BytesIO()
        (np.savez if after is None else np.savez_compressed)(buffer, **arrays)
        data = buffer.getvalue() if after is None else after(buffer.getvalue())
        path.unlink()
        digest = hashlib.sha256(data).hexdigest()
        values["arrays"] = {"file": f"arrays-{digest[:12]}.npz", "sha256": digest}
        (folder / values["arrays"]["file"]).write_bytes(data)
        _sign(folder, values)

    return damage


def _sign(folder: Path, values: dict[str, Any]) -> None:
    values["checksum"] = checksum(values)
    _write(folder / DESCRIPTION, json.dumps(values))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])


def _link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _call(folder: Path, arrays: str, name: str) -> None:
    values = json.loads((folder / DESCRIPTION).read_text())
    (folder / "../outside.npz").write_bytes((folder / arrays).read_bytes())
    values["arrays"]["file"] = name
    _sign(folder, values)
