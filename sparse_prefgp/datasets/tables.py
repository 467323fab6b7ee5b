"""From public files of regression sets to features and a last column `target`."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.registry import TARGET

BOSTON = [*"crim zn indus chas nox rm age dis rad tax ptratio b lstat".split(), TARGET]
SARCOS_INPUTS = 21
_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.+)", re.IGNORECASE)


def tidy_arff(name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy file of a set whose public file is in ARFF, its cells parted by commas or blanks.

    Names become lower case with underscores; an attribute with levels becomes one 0/1 column per
    level, in the order in which the file declares them. The last attribute is the target.
    """
    (path,) = files.values()
    text = path.read_text(encoding="utf-8", errors="replace")
    head, data = re.split("(?im)^@data", text, maxsplit=1)
    lines = [line.strip() for line in data.splitlines()]
    rows = [re.split(r"[,\s]+", line) for line in lines if line and not line.startswith("%")]
    attributes = _ATTRIBUTE.findall(head)
    columns: dict[str, Any] = {}
    for (attribute, kind), cells in zip(attributes, zip(*rows, strict=True), strict=True):
        plain = _plain(attribute)
        if kind.startswith("{"):
            levels = [level.strip() for level in kind.strip("{} \t").split(",")]
            codes = np.array([levels.index(cell) for cell in cells])
            for code, level in enumerate(levels):
                columns[f"{plain}_{_plain(level)}"] = (codes == code).astype(int)
        else:
            columns[plain] = np.array(cells, dtype=np.float64)
    columns[TARGET] = columns.pop(_plain(attributes[-1][0]))
    return {name: require_pandas().DataFrame(columns)}


def tidy_boston(files: Mapping[str, Path]) -> dict[str, Any]:
    """The file of StatLib: words, then fourteen numbers per home over two lines."""
    (path,) = files.values()
    lines = path.read_text(encoding="latin-1").splitlines()
    numbers = [x for line in lines if re.fullmatch(r"[\d.\s]+", line) for x in line.split()]
    cells = np.array(numbers, dtype=np.float64).reshape(-1, len(BOSTON))
    return {"boston.csv": require_pandas().DataFrame(cells, columns=BOSTON)}


def tidy_kin40k(files: Mapping[str, Path]) -> dict[str, Any]:
    """Four files of numbers: inputs and targets, for training and testing."""
    parts = {}
    for part in ("train", "test"):
        x = np.loadtxt(files[f"kin40k_{part}_data.asc"], ndmin=2)
        frame = require_pandas().DataFrame(x, columns=[f"x{i + 1}" for i in range(x.shape[1])])
        target = np.loadtxt(files[f"kin40k_{part}_labels.asc"], ndmin=1)
        parts[f"{part}.csv.gz"] = frame.assign(**{TARGET: target})
    return parts


def tidy_sarcos(files: Mapping[str, Path]) -> dict[str, Any]:
    """A MATLAB file with one array: 21 inputs and 7 torques in each row."""
    (path,) = files.values()
    (array,) = (value for value in loadmat(path).values() if isinstance(value, np.ndarray))
    x, y = np.hsplit(array.astype(np.float32), [SARCOS_INPUTS])
    return {"sarcos_test.npz": {"x": x, "y": y}}


def tidy_snelson(files: Mapping[str, Path]) -> dict[str, Any]:
    """An archive with the files `train_inputs`, `train_outputs` and `test_inputs` in it."""
    pd = require_pandas()
    (path,) = files.values()
    with zipfile.ZipFile(path) as archive:
        numbers = {
            name.rpartition("/")[2]: np.loadtxt(archive.open(name), ndmin=1)
            for name in archive.namelist()
            if name.endswith(("/train_inputs", "/train_outputs", "/test_inputs"))
        }
    columns = {"x": numbers["train_inputs"], TARGET: numbers["train_outputs"]}
    return {
        "train.csv": pd.DataFrame(columns),
        "test_inputs.csv": pd.DataFrame({"x": numbers["test_inputs"]}),
    }


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")
