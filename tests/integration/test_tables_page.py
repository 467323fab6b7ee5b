"""The forms of tables that pages show are read as they say."""

import re
import shlex
import warnings
from dataclasses import fields

import pytest

from sparse_prefgp.support.options import option_of
from sparse_prefgp.workflow.fit_sources import Sources
from tests.conftest import ROOT

pytest.importorskip("pandas")

FORM = re.compile(
    r"^```console\n\$ cat (?P<file>\S+)\n(?P<rows>.*?)^\$ sparse-prefgp fit (?P<words>.*?)\n"
    r"(?P<printed>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
PAGES = [ROOT / "docs" / "tables.md", *sorted((ROOT / "docs" / "coming-from").glob("*.md"))]
FORMS = [
    pytest.param(form, id=f"{page.stem}-{form['file']}")
    for page in PAGES
    for form in FORM.finditer(page.read_text(encoding="utf-8"))
]


def lines_of(words):
    """How `fit` reads a table, line by line; an option and its value take turns."""
    table, *told = shlex.split(words)
    parsers = {one.name: option_of(one).parse for one in fields(Sources)}
    names = [name.removeprefix("--").replace("-", "_") for name in told[::2]]
    options = {
        name: (parsers[name] or str)(value) for name, value in zip(names, told[1::2], strict=True)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [*Sources(answers=table, **options).table("duels").read_as.lines()]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_as_its_page_says(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / form["file"]).write_text(form["rows"], encoding="utf-8")
    assert form["printed"].split() == " ".join(lines_of(form["words"])).split()


def test_every_form_is_compared():
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert len(FORMS) == shown.count("$ cat ") > 15
