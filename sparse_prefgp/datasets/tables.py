"""From public files of regression sets to features and a last column `target`."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import arff, loadmat

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.registry import TARGET
from sparse_prefgp.support.arrays import FloatArray

BOSTON = [*"crim zn indus chas nox rm age dis rad tax ptratio b lstat".split(), TARGET]
SARCOS_INPUTS = 21


def read_arff(path: Path) -> Any:
    """A data frame from a file in ARFF; the last attribute becomes `target`.

    Names become lower case with underscores; an attribute with levels becomes one 0/1 column per
    level, in the order in which the file declares them.

    :raises ValueError: a file that is not ARFF, or an attribute that is neither numbers nor levels.
    """
    pd = require_pandas()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            data, meta = arff.loadarff(file)
    except (arff.ParseArffError, NotImplementedError, StopIteration, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        raise ValueError(f"{path.name} cannot be read as ARFF ({reason}).") from None
    columns: dict[str, Any] = {}
    for name in meta.names()[:-1]:
        plain = _plain(name)
        kind, levels = meta[name]
        if kind == "nominal":
            for level in levels:
                columns[f"{plain}_{_plain(level)}"] = (data[name] == level.encode()).astype(int)
        else:
            columns[plain] = data[name]
    columns[TARGET] = data[meta.names()[-1]]
    return pd.DataFrame(columns)


def tidy_arff(name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy file of a set whose public file is in ARFF."""
    (path,) = files.values()
    return {name: read_arff(path)}


def tidy_boston(files: Mapping[str, Path]) -> dict[str, Any]:
    """The file of StatLib: words, then fourteen numbers per home over two lines.

    :raises ValueError: the numbers are not a multiple of fourteen.
    """
    (path,) = files.values()
    numbers: list[float] = []
    for line in path.read_text(encoding="latin-1").splitlines():
        try:
            numbers += [float(word) for word in line.split()]
        except ValueError:
            continue  # the description
    if not numbers or len(numbers) % len(BOSTON):
        raise ValueError(
            f"{path.name} has {len(numbers)} numbers, which are not {len(BOSTON)} for each home; "
            "give the file of StatLib."
        )
    frame = require_pandas().DataFrame(np.reshape(numbers, (-1, len(BOSTON))), columns=BOSTON)
    return {"boston.csv": frame}


def tidy_kin40k(files: Mapping[str, Path]) -> dict[str, Any]:
    """Four files of numbers: inputs and targets, for training and testing."""
    pd = require_pandas()
    parts = {}
    for part in ("train", "test"):
        x = np.loadtxt(files[f"kin40k_{part}_data.asc"], ndmin=2)
        y = np.loadtxt(files[f"kin40k_{part}_labels.asc"], ndmin=1)
        frame = pd.DataFrame(x, columns=[f"x{i + 1}" for i in range(x.shape[1])])
        parts[f"{part}.csv.gz"] = frame.assign(**{TARGET: y})
    return parts


def tidy_sarcos(files: Mapping[str, Path]) -> dict[str, Any]:
    """A MATLAB file with one array: 21 inputs and 7 torques in each row.

    :raises ValueError: there is no such array.
    """
    (path,) = files.values()
    width = SARCOS_INPUTS + 7
    arrays = [
        value
        for value in loadmat(path).values()
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == width
    ]
    if len(arrays) != 1:
        raise ValueError(f"{path.name} has {len(arrays)} arrays of {width} columns; give one.")
    (array,) = arrays
    x, y = array[:, :SARCOS_INPUTS], array[:, SARCOS_INPUTS:]
    return {"sarcos_test.npz": {"x": x.astype(np.float32), "y": y.astype(np.float32)}}


def tidy_snelson(files: Mapping[str, Path]) -> dict[str, Any]:
    """An archive with the files `train_inputs`, `train_outputs` and `test_inputs` in it.

    :raises ValueError: no archive, or one without them.
    """
    pd = require_pandas()
    (path,) = files.values()
    x, y, new = (_numbers(path, part) for part in ("train_inputs", "train_outputs", "test_inputs"))
    return {
        "train.csv": pd.DataFrame({"x": x, TARGET: y}),
        "test_inputs.csv": pd.DataFrame({"x": new}),
    }


def _numbers(archive: Path, name: str) -> FloatArray:
    try:
        with zipfile.ZipFile(archive) as opened:
            path = next(path for path in opened.namelist() if path.rpartition("/")[2] == name)
            with opened.open(path) as file:
                return np.loadtxt(file, ndmin=1)
    except (zipfile.BadZipFile, StopIteration):
        raise ValueError(
            f"{archive.name} is not an archive with the file {name!r} in it."
        ) from None


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")
