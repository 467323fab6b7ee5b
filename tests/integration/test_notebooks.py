"""The notebooks of the worked pages: valid, the same each time, and run as a reader runs them."""

import base64
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.integration.test_examples import DOCS, PAGES, take_data
from tests.tolerances import EXAMPLE_ABSOLUTE, EXAMPLE_RELATIVE
from tools import examples

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("markdown")

from tools import notebooks  # noqa: E402

pytestmark = pytest.mark.data

SMALL = """\
# A page

See [tables](tables.md#columns), [below](#the-end) and `[this](that.md)`.

!!! warning "Look out"
    Of two
    lines.

```python
from PIL import Image

Image.new("RGB", (4, 4)).save("drawn.png")
print(1 + 1)
```

```text
2
```

![Drawn here](drawn.png)

![Was there](other.png)

```sh
echo one
echo "two$FORCE_COLOR$CLICOLOR_FORCE"
```

```text
one
two
```

## The end

```sh
echo one
echo two
```
"""


@pytest.fixture
def small(tmp_path) -> Path:
    """A page with each kind of block, and its pictures."""
    from PIL import Image

    page = tmp_path / "small.md"
    page.write_text(SMALL, encoding="utf-8")
    for name in ("drawn.png", "other.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    return page


def _made(page: Path):
    return notebooks.notebook(page, lambda target: target)


def _run(made, folder: Path):
    client = nbclient.NotebookClient(
        made, timeout=3600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's own sockets
        return client.execute()


def _printed(cell) -> str:
    return "".join(o.text for o in cell.outputs if o.get("name") == "stdout")


def _pictures(cell) -> list[str]:
    return [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]


def test_a_page_becomes_cells(small):
    made = _made(small)
    nbformat.validate(made)
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    kinds = [cell.cell_type for cell in made.cells]
    assert kinds == ["code", "markdown", "code", "code", "markdown", "code", "markdown", "code"]
    setup, words, code, drawn, other, shell, end, _ = made.cells
    assert "[tables](tables.md#columns), [below](#the-end) and `[this](that.md)`" in words.source
    assert words.source.endswith("> **Look out**\n>\n> Of two\n> lines.")
    assert "%pip install" in setup.source
    assert code.source.endswith("print(1 + 1)")
    assert _printed(code) == "2\n"
    picture = base64.b64encode((small.parent / "drawn.png").read_bytes()).decode()
    assert _pictures(drawn) == [picture]
    assert other.attachments["other.png"]["image/png"] == picture
    assert shell.source.startswith("%%sh -e\necho one\necho")
    assert end.source == '<a id="the-end"></a>\n\n## The end'


def test_ids_stay_while_other_cells_change(small):
    before = [cell.id for cell in _made(small).cells]
    assert len(set(before)) == len(before)
    assert [cell.id for cell in _made(small).cells] == before
    small.write_text(SMALL.replace("Was there", "Something else"), encoding="utf-8")
    after = [cell.id for cell in _made(small).cells]
    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1


def test_a_notebook_is_run(small):
    made = _made(small)
    wanted = [
        (_printed(cell), bool(_pictures(cell))) for cell in made.cells[:6] if "outputs" in cell
    ]
    done = _run(made, small.parent)
    found = [
        (_printed(cell), bool(_pictures(cell))) for cell in done.cells[:6] if "outputs" in cell
    ]
    assert found == wanted
    # What it writes goes elsewhere.
    assert {path.name for path in small.parent.iterdir()} == {"small.md", "drawn.png", "other.png"}


@pytest.mark.slow
def test_a_failing_command_ends_the_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```sh\nfalse\necho later\n```\n", encoding="utf-8")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="false"):
        _run(_made(page), tmp_path)


def test_the_install_cell_has_the_commands_of_the_readme(small):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup = _made(DOCS / "get-started.md").cells[0].source
    source = re.search(r'SOURCE = "(.+)"', setup)[1]
    assert f'pip install "{source}[' in readme
    assert re.search(r"%pip install --quiet (--no-deps gpflow==.+)", setup)[1] in readme
    assert "`" not in setup
    assert '"{SOURCE}[cli]"' in setup
    small.write_text("# A page\n\n```sh\nsparse-prefgp ablate x.yaml\n```\n", encoding="utf-8")
    assert '"{SOURCE}[cli,studies]"' in _made(small).cells[0].source


@pytest.mark.slow
def test_the_install_cell_installs_what_is_missing(small, tmp_path, monkeypatch):
    """A package that stands for ours, of which pip says that it would be installed."""
    source = tmp_path / "a package"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "nothing-yet"\nversion = "1"\noptional-dependencies = {cli = []}\n'
        "[tool.setuptools]\npackages = []\n",
        encoding="utf-8",
    )
    for name in ("DRY_RUN", "NO_DEPS", "NO_INDEX"):
        monkeypatch.setenv(f"PIP_{name}", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # which is how pip spells "without"
    made = _made(small)
    made.cells = made.cells[:1]
    cell = made.cells[0]
    assert 'version("sparse_prefgp")' in cell.source
    cell.source = cell.source.replace('version("sparse_prefgp")', 'version("nothing-yet")')
    cell.source = re.sub(r'SOURCE = ".*"', f'SOURCE = "{source}"', cell.source)
    cell.source = cell.source.replace("--quiet ", "")
    assert "Would install nothing-yet-1" in _printed(_run(made, tmp_path).cells[0])


@pytest.mark.parametrize("page", [page.values[0] for page in PAGES])
def test_every_worked_page_is_a_notebook(page):
    path = DOCS / page
    made = _made(path)
    nbformat.validate(made)
    ids = [cell.id for cell in made.cells]
    assert len(set(ids)) == len(ids)
    blocks = examples.blocks(path)
    code = [cell for cell in made.cells if cell.cell_type == "code" and not _shows(cell)]
    assert [cell.source.removeprefix(notebooks.SHELL) for cell in code[1:]] == [
        block.code.rstrip("\n") for block in blocks
    ]
    assert [_printed(cell) for cell in code[1:]] == [block.output for block in blocks]
    text = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    # Only mkdocs would understand these, and a relative picture is lost when the file is moved.
    assert (
        re.findall(r"^(?:!!!|\?\?\?|===) .*|\{[ :.#][^}\n]*\}$|<img .*", text, re.MULTILINE) == []
    )
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert target.startswith("attachment:"), target


def _shows(cell) -> bool:
    return "display(Image(" in cell.source


@pytest.mark.slow
@pytest.mark.parametrize(("page", "data_set"), PAGES)
def test_the_notebook_prints_what_the_page_states(page, data_set, tmp_path, request, monkeypatch):
    take_data(data_set, request, monkeypatch)
    made = _made(DOCS / page)
    stated = [(_printed(cell), len(_pictures(cell))) for cell in made.cells if "outputs" in cell]
    done = [cell for cell in _run(made, tmp_path).cells if "outputs" in cell]
    for (text, pictures), cell in zip(stated, done, strict=True):
        found = "".join(f"{line.rstrip()}\n" for line in _printed(cell).splitlines())
        problem = examples.difference(text, found, EXAMPLE_RELATIVE, EXAMPLE_ABSOLUTE)
        assert not problem, f"{page}, {cell.source[:60]!r}: {problem}"
        assert len(_pictures(cell)) == pictures, cell.source[:60]
        assert not any(output.output_type == "execute_result" for output in cell.outputs)


def test_the_command_writes_a_notebook_with_live_links(tmp_path):
    out = tmp_path / "there" / "out.ipynb"
    out.parent.mkdir()
    command = [sys.executable, "tools/examples.py", "--notebook"]
    page = "docs/get-started.md"
    done = subprocess.run(
        [*command, page, str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = nbformat.read(out, as_version=4)
    text = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^()\s:#]+)(?:#[^()\s]+)?\)", text)
    assert links
    assert all((out.parent / link).is_file() for link in links)
    wrong = subprocess.run([*command, page], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "takes a page and the notebook" in wrong.stderr
