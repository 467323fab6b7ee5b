"""The distributions: one version everywhere, extras that exist, what a wheel and an sdist hold."""

import re
import tomllib

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
