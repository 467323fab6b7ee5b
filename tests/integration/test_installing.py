"""What the first import says and sets, and that requirements and constraints agree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import ROOT

WITHOUT_GPFLOW = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "gpflow" else real(name, *more)
import sparse_prefgp
try:
    sparse_prefgp.fit
except ModuleNotFoundError as error:
    assert error.name == "gpflow"
    print(error)
sys.argv[1:] = ["demo", "--quiet"]
from sparse_prefgp.cli import main
main()
"""

QUIET = """
import os, sys
level = "TF_CPP_MIN_LOG_LEVEL"
os.environ[level] = "1"
import sparse_prefgp
assert os.environ[level] == "1", "a level that was set is kept"
del os.environ[level], sys.modules["sparse_prefgp"]
import sparse_prefgp as spg
assert os.environ[level] == "3"
assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "17"
spg.truncated_normal_ep([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])
assert "tensorflow" in sys.modules
"""

PINS = {
    path.stem.removeprefix("python"): path for path in (ROOT / "constraints").glob("python*.txt")
}
LOWEST = ROOT / "constraints" / "lowest.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _run(code: str) -> subprocess.CompletedProcess[str]:
    known = {
        k: v
        for k, v in os.environ.items()
        if k not in ("TF_CPP_MIN_LOG_LEVEL", "OPENBLAS_THREAD_TIMEOUT")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**known, "PYTHONPATH": str(ROOT)},
    )


def _pins(version: str) -> dict[str, str]:
    return _pins_in(PINS[version])


def _pins_in(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    assert len({line.partition("==")[0].lower() for line in lines}) == len(lines)
    return dict(line.split("==") for line in lines)


def test_without_gpflow_one_sentence_says_what_to_run() -> None:
    done = _run(WITHOUT_GPFLOW)
    sentence = done.stdout.strip()
    command = f"pip install --no-deps gpflow=={_pins('3.13')['gpflow']}"
    assert done.returncode == 2
    assert f"`{command}`" in sentence
    assert sentence.count("\n") == 0
    assert done.stderr == f"Error: {sentence}\n"
    for page in ("README.md", "docs/get-started.md", "pyproject.toml"):
        assert command in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.mark.slow
def test_tensorflow_prints_nothing_of_its_own() -> None:
    done = _run(QUIET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_constraints_of_every_version_are_pins() -> None:
    project = PROJECT["project"]
    versions = [
        found[1]
        for line in project["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    assert sorted(PINS) == versions
    for version in versions:
        pins = {name.lower().replace("_", "-") for name in _pins(version)}
        extras = project["optional-dependencies"]
        listed = [*project["dependencies"], *(x for e in EXTRAS for x in extras[e])]
        wanted = {re.match(r"[\w-]+", line)[0].lower().replace("_", "-") for line in listed}
        assert wanted <= pins


def test_lower_bounds_are_the_versions_that_are_run() -> None:
    """Of all that the package itself needs; what its development needs has none."""
    pins = {canonicalize_name(name): pin for name, pin in _pins_in(LOWEST).items()}
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra, listed in extras.items():
        if extra in ("dev", "docs", "peers"):
            assert not [line for line in listed if set(line) & set("<>=")], extra
        else:
            lines += listed
    of_each: dict[str, set[Version]] = {}
    for wanted in map(Requirement, lines):
        found = of_each.setdefault(canonicalize_name(wanted.name), set())
        found |= {Version(each.version) for each in wanted.specifier if each.operator == ">="}
    assert of_each == {name: {Version(pins[name])} for name in of_each}


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (("3.11", "3.12", "3.13"), "3.11"),
        (("3.12",), "3.12"),
        (("3.13", "3.12"), "3.12"),
        (("3.10", "3.13"), "3.13"),
        (("3.10",), "3.11"),  # which is then asked for
    ],
)
def test_the_first_python_that_is_there_is_taken(
    there: tuple[str, ...], taken: str, tmp_path: Path
) -> None:
    """As a machine's only python3.12, under that name or as python3."""
    for name in ("python3", *(f"python{version}" for version in there)):
        version = there[0] if name == "python3" else name.removeprefix("python")
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\ncase "$2" in *version*) echo {version} ;; esac\n')
        path.chmod(0o755)
    done = subprocess.run(
        [shutil.which("sh") or "sh", str(ROOT / "tools" / "make_venv.sh"), "--first"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, f"python{taken}\n"), done.stderr


@pytest.mark.parametrize("python", ["python3.10", "python3.14", "no-such-python", "./nowhere"])
def test_another_python_is_refused_in_one_sentence(python: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(ROOT / "tools" / "make_venv.sh"), str(tmp_path / "venv"), python],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"[^\n]+ 3\.11, 3\.12 or 3\.13, such as [^\n]+\.\n", done.stderr)
    assert python in done.stderr
    assert list(tmp_path.iterdir()) == []


EXTRAS = ("cli", "ask", "dev", "docs", "studies", "scale")


@pytest.mark.parametrize("version", sorted(PINS))
def test_numpy_of_every_version(version: str) -> None:
    """GPflow's own requirement, wherever pip installs GPflow."""
    assert (int(_pins(version)["numpy"].partition(".")[0]) < 2) == (version != "3.13")
