"""The distributions: one version everywhere, extras that exist, what a wheel and an sdist hold."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

import sparse_prefgp
from sparse_prefgp.support.versions import versions
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_version_stands_in_one_place() -> None:
    """Everything else reads it, or is compared with it here."""
    version = sparse_prefgp.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert "version" not in PROJECT["project"], "pyproject.toml states a version of its own"
    assert PROJECT["project"]["dynamic"] == ["version"]
    place = PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, _, name = place.rpartition(".")
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    assert f'{name} = "{version}"' in source
    # Saved models, checkpoints and metrics.json record the code that ran, installed or not.
    assert versions()["sparse_prefgp"] == version


def test_changelog_and_citation_are_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\S+) - (\d{4}-\d{2}-\d{2})$", changes, flags=re.MULTILINE)
    # Between releases there is a section "Unreleased" above that of the version.
    headings = [line for line in re.findall(r"^## (.*)$", changes, flags=re.MULTILINE)]
    assert [h for h in headings if h != "Unreleased"] == [f"{v} - {day}" for v, day in releases]
    assert "Unreleased" not in headings[1:]
    assert releases[0][0] == sparse_prefgp.__version__
    assert releases == sorted(releases, key=_numbers, reverse=True)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["date-released"]) == releases[0]


# Of the Citation File Format 1.2.0: what every file must have, and every reference.
CITED = {"cff-version", "message", "title", "authors"}
REFERENCE = {"type", "title", "authors"}
# The papers that the method stands on, by the family name of the first author and the year.
PAPERS = {
    ("Chu", 2005),
    ("Minka", 2001),
    ("Snelson", 2005),
    ("Titsias", 2009),
    ("Cunningham", 2011),
    ("Houlsby", 2011),
    ("Matthews", 2017),
    ("Fieller", 1954),
    ("Sundararajan", 2017),
    ("Simpson", 2020),
}


def test_citation_names_the_papers() -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert CITED <= set(cited)
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["license"] == PROJECT["project"]["license"]
    assert [author["name"] for author in cited["authors"]] == ["The sparse_prefgp authors"]
    papers = cited["references"]
    for paper in papers:
        assert REFERENCE <= set(paper), paper
        assert paper["type"] in ("article", "conference-paper", "report"), paper
        assert (
            "journal" in paper
            or "collection-title" in paper
            or "number" in paper
            or ("identifiers" in paper)
        ), f"{paper['title']} does not say where it appeared"
        assert re.fullmatch(r"10\.\d{4,}/\S+", paper.get("doi", "10.0000/none")), paper
    assert len({paper["title"] for paper in papers}) == len(papers)
    assert {(paper["authors"][0]["family-names"], paper["year"]) for paper in papers} >= PAPERS


def _numbers(release: tuple[str, str]) -> list[int]:
    return [int(part) for part in release[0].split(".")]


def test_extras_that_pages_and_messages_name_exist() -> None:
    sources = [*PAGES, *sorted((ROOT / "sparse_prefgp").rglob("*.py"))]
    named = {
        (extra.strip(), path.name)
        for path in sources
        for extras in re.findall(
            r"(?:sparse_prefgp|sparse-prefgp|\.|\.whl)\[([a-z, ]+)\]",
            path.read_text(encoding="utf-8"),
        )
        for extra in extras.split(",")
    }
    assert {"cli", "studies", "scale", "tensorboard"} <= {extra for extra, _ in named}
    known = set(PROJECT["project"]["optional-dependencies"])
    assert [(extra, where) for extra, where in sorted(named) if extra not in known] == []


def test_nothing_of_the_package_is_left_out() -> None:
    """Whatever lies in the package besides modules is named as its data, and all are packages."""
    named = PROJECT["tool"]["setuptools"]["package-data"]["sparse_prefgp"]
    package = ROOT / "sparse_prefgp"
    for path in package.rglob("*"):
        inside = path.relative_to(package).as_posix()
        if path.is_dir() or "__pycache__" in inside:
            continue
        if path.suffix == ".py":
            assert (path.parent / "__init__.py").is_file(), f"{inside} lies in no package"
        else:
            assert any(fnmatch(inside, pattern) for pattern in named), f"{inside} is left out"


LARGEST = 2_000_000  # bytes
NOT_COPIED = (".*", "build", "dist", "site", "out", "*.egg-info", "__pycache__")


def _copied(folder: Path) -> Path:
    """The repository without what commands leave in it, where they may leave more."""
    return shutil.copytree(ROOT, folder / "copy", ignore=shutil.ignore_patterns(*NOT_COPIED))


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, built from the sdist, and the sdist; with this environment's setuptools."""
    pytest.importorskip("build")
    copy = _copied(tmp_path_factory.mktemp("package"))
    done = _run([sys.executable, "-m", "build", "--no-isolation"], copy)
    told = [line for line in (done.stdout + done.stderr).splitlines() if "warning" in line.lower()]
    # That PYTHONDONTWRITEBYTECODE is set is no mistake.
    assert [line for line in told if "byte-compiling is disabled" not in line] == []
    (wheel,), (sdist,) = (copy / "dist").glob("*.whl"), (copy / "dist").glob("*.tar.gz")
    return wheel, sdist


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that succeeds, with nothing on its path that leads back here."""
    known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAKEFLAGS")}
    done = subprocess.run(
        command, cwd=folder, env=known, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.mark.slow
def test_wheel_has_the_package_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    wheel, _ = distributions
    version = sparse_prefgp.__version__
    assert wheel.name == f"sparse_prefgp-{version}-py3-none-any.whl"
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        told = file.read(f"sparse_prefgp-{version}.dist-info/METADATA").decode("utf-8")
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sparse_prefgp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"sparse_prefgp/py.typed", "sparse_prefgp/tell/templates/page.html"} <= ours
    about = {name for name in names if name.startswith(f"sparse_prefgp-{version}.dist-info/")}
    assert names - about == ours
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }
    assert re.findall(r"^Version: (.*)$", told, flags=re.MULTILINE) == [version]
    extras = re.findall(r"^Provides-Extra: (.*)$", told, flags=re.MULTILINE)
    assert set(extras) == set(PROJECT["project"]["optional-dependencies"])


@pytest.mark.slow
def test_sdist_has_what_it_takes_to_build(distributions: tuple[Path, Path]) -> None:
    """That the wheel was built from it says so too; what else is there is for people."""
    _, sdist = distributions
    version = sparse_prefgp.__version__
    assert sdist.name == f"sparse_prefgp-{version}.tar.gz"
    assert sdist.stat().st_size < LARGEST
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for_people = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"}
    assert for_people | {"pyproject.toml", "MANIFEST.in"} <= names
    outside = {name.partition("/")[0] for name in names} - for_people
    assert outside - {""} == {
        "MANIFEST.in",
        "PKG-INFO",
        "pyproject.toml",
        "setup.cfg",  # by setuptools
        "sparse_prefgp",
        "sparse_prefgp.egg-info",
    }


@pytest.mark.slow
def test_both_pass_the_check_of_the_index(distributions: tuple[Path, Path]) -> None:
    pytest.importorskip("twine")
    files = [str(path) for path in distributions]
    done = _run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], distributions[0].parent
    )
    assert done.stdout.count("PASSED") == 2


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """As a library without extras, then with the command line; it takes some minutes."""
    copy = _copied(tmp_path)
    done = _run(["make", "wheel", f"PYTHON={sys.executable}"], copy)
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    for stage in ("core", "cli"):
        assert f"The wheel works ({stage}, {python})." in done.stdout
    assert not list((copy / "build").glob("wheel-*")), "what was tried is still there"
