"""The documentation builds without a warning, says what the program does, and no link is dead."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.conftest import ROOT
from tools.examples import LARGEST_PICTURE, is_worked

pytest.importorskip("mkdocs")
pytest.importorskip("typer")

# What a browser fetches by itself, by element and attribute.
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """Links, anchors, what the browser loads, and the text of the article."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self._deep = 0
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._deep += tag == "article"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if LOADED.get(tag) in values and values.get("rel") != "canonical":
            self.loaded.append(values[LOADED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self._deep -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self._deep:
            self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, _Page]:
    """The pages as built, with their places."""
    folder = tmp_path_factory.mktemp("site")
    # The environment has no way to any server: what needs one fails here.
    environment = {"PATH": "", "NO_MKDOCS_2_WARNING": "1", "HTTPS_PROXY": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr, built.stderr
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    return pages


@pytest.mark.slow
def test_every_internal_link_and_anchor_is_alive(site):
    dead = []
    checked = 0
    for path, page in site.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in {*page.links, *page.loaded}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.is_file():
                dead.append(f"{path.name}: {link}")
            elif parts.fragment and parts.fragment not in {"__skip", *site[target].anchors}:
                dead.append(f"{path.name}: {link}")
    assert checked > 100
    assert dead == []


@pytest.mark.slow
def test_every_worked_page_leads_to_its_notebook(site):
    """Links to dead files are found above; here those in the notebooks, to places in pages too."""
    found = {
        path.with_suffix(".ipynb") for path, page in site.items() if "ipynb" in str(page.links)
    }
    worked = [page for page in (ROOT / "docs").rglob("*.md") if is_worked(page)]
    assert len(found) == len(worked) > 0
    for path in found:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert "%pip install" in "".join(cells[0]["source"])
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        for name, place in re.findall(r"\]\((?![a-z]+:|#)([^()\s#]+)(?:#([^()\s]+))?\)", text):
            target = (path.parent / name).resolve()
            assert target.is_file(), f"{path.name}: {name}"
            assert not place or place in site[target].anchors, f"{path.name}: {name}#{place}"


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site):
    for path, page in site.items():
        foreign = [link for link in page.loaded if urlsplit(link).netloc]
        assert foreign == [], path.name
    folder = min(site, key=lambda path: len(path.parts)).parent
    for sheet in folder.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()) == []


@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    import sparse_prefgp
    from tools.docs_pages import names_in

    (page,) = (page for path, page in site.items() if path.name == "reference.html")
    shown = {anchor.rpartition(".")[2] for anchor in page.anchors}
    names = set(sparse_prefgp.__all__) - {"__version__", *sparse_prefgp.MODULES}
    names |= {name for module in sparse_prefgp.MODULES for name in names_in(module)}
    assert names - shown == set()


@pytest.mark.slow
def test_no_docstring_field_is_left_raw(site):
    (page,) = (page for path, page in site.items() if path.name == "reference.html")
    assert re.findall(r":(?:param|raises|returns?)\b.{0,40}", page.text) == []
    assert re.findall(r"\b(?:Args|Raises|Returns): [a-z]\w*:.{0,40}", page.text) == []
    # A field of an engine, and a table of parameters.
    assert "share of each step taken at first" in page.text
    assert "Parameters: Name Type Description" in page.text
    assert page.text.index("(n, D) features, one row per item") > 0


@pytest.mark.slow
def test_the_command_line_page_has_every_command_and_option(site):
    import typer

    from sparse_prefgp.cli.app import app
    from sparse_prefgp.cli.console import INTERRUPTED, MISTAKE

    (page,) = (page for path, page in site.items() if path.name == "command-line.html")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        if command.hidden:
            continue
        assert name in page.anchors
        assert f"sparse-prefgp {name}" in page.text
        example = " ".join(command.epilog.partition(":")[2].split())
        assert example in page.text
        for parameter in command.params:
            # An argument stands there under what it is called for people.
            argument = parameter.param_type_name == "argument" and parameter.metavar
            for option in [parameter.metavar] if argument else getattr(parameter, "opts", ()):
                assert option.strip("[].") in page.text, f"{name} {option}"
    for code in (0, 1, MISTAKE, INTERRUPTED):
        assert re.search(rf"\b{code}\b", page.text.partition("Exit codes")[2]), code


def test_pictures_are_small():
    for picture in (ROOT / "docs").rglob("*.png"):
        assert picture.stat().st_size < LARGEST_PICTURE, picture.name


def _navigation(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    assert isinstance(part, dict | list)
    inner = part.values() if isinstance(part, dict) else part
    return [name for one in inner for name in _navigation(one)]


def test_every_page_but_the_last_names_its_next_one():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = _navigation(yaml.safe_load(nav.partition("\n\n")[0]))
    assert len(pages) > 30
    wrong = []
    for page in pages[:-1]:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        last = text.rstrip().rpartition("\n\n")[2]
        found = re.search(r"\]\(([^)#]+\.md)[^)]*\)", last)
        if not last.startswith("Next: ") or found is None or Path(found[1]).name == Path(page).name:
            wrong.append(page)
    assert wrong == []


@pytest.mark.slow
def test_pictures_of_pages_are_cards_and_in_the_gallery(site):
    """Every picture of a page is in the gallery, and leads to its page."""
    (gallery,) = (page for path, page in site.items() if path.name == "gallery.html")
    for path in (ROOT / "docs").rglob("*.md"):
        for place in re.findall(r"!\[[^\]]+\]\(([^):]+)\)", path.read_text(encoding="utf-8")):
            full = (path.parent / place).resolve().relative_to(ROOT / "docs").as_posix()
            assert full in gallery.loaded, full
            page = path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
            assert page == "index.html" or page in gallery.links, page
    (home,) = (page for path, page in site.items() if path.name == "index.html")
    assert len([place for place in home.loaded if place.endswith(".png")]) >= 5
