"""The forms that docs/tables.md shows are read as it says."""

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
PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
FORMS = [pytest.param(form, id=form["file"]) for form in FORM.finditer(PAGE)]


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
def test_a_form_of_the_page_is_read_as_it_says(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / form["file"]).write_text(form["rows"], encoding="utf-8")
    assert form["printed"].split() == " ".join(lines_of(form["words"])).split()


def test_the_page_shows_many_forms():
    assert len(FORMS) == PAGE.count("$ cat ") > 15
