"""What the pages "Coming from ..." print of other packages is what their last run printed."""

import os
import re
from pathlib import Path

import pytest

from experiments.peers import compare
from experiments.peers import pages as peers
from tests.conftest import ROOT
from tests.tolerances import EXAMPLE_ABSOLUTE, EXAMPLE_RELATIVE
from tools import examples

PAGES = [pytest.param(page, id=page.stem) for page in peers.pages()]
# The Python of the environment that has the other packages.
PYTHON = "SPARSE_PREFGP_PEERS"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_states_what_its_last_run_printed(page):
    kept = peers.kept()[page.stem]
    stated = [{"digest": b.digest, "output": b.output} for b in peers.blocks(page)]
    assert stated == kept["blocks"], "run experiments/peers/pages.py --refresh"
    here = examples.difference(peers.stated(page), kept["here"], EXAMPLE_RELATIVE, EXAMPLE_ABSOLUTE)
    assert here == "", "run experiments/peers/pages.py --refresh"


def test_the_comparison_is_what_its_command_writes():
    page = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")
    assert page == compare.page(peers.kept()), "run experiments/peers/compare.py --write"


def test_nothing_is_kept_of_pages_that_are_gone():
    assert set(peers.kept()) == {page.stem for page in peers.pages()}


def test_output_goes_below_its_own_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```{.python .peers}\nprint(2)\n```\n\n"
        "```text\nold\n```\n\nAnd\n\n"
        "```{.python .peers}\ny = 3\n```\n"
    )
    assert [(b.code, b.output) for b in peers.blocks(page)] == [
        ("print(2)\n", "old\n"),
        ("y = 3\n", ""),
    ]
    text = examples.refreshed(page, ["2\n", ""], peers.BLOCK)
    assert "```text\n2\n```\n\nAnd" in text
    assert "old" not in text


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_in_the_other_environment(page, tmp_path, request):
    python = os.environ.get(PYTHON)
    if python is None:
        pytest.skip(f"{PYTHON} does not name the Python of that environment")
    request.getfixturevalue("data_dir")
    here, there, _ = peers.run(page, Path(python), tmp_path)
    assert peers.differences(page, here, there) == []


def test_every_page_names_its_next_one():
    for page in sorted((ROOT / "docs" / "coming-from").glob("*.md")):
        last = page.read_text(encoding="utf-8").rstrip().splitlines()[-1]
        assert re.match(r"Next: .*\]\(\S+\.md", last), page.name
