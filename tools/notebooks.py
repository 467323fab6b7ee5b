"""Makes Jupyter notebooks of the worked pages in docs/: text, code, output and pictures.

    python tools/examples.py --notebook docs/get-started.md get-started.ipynb

The page is the only source. The build of the documentation writes a notebook next to each worked
page (`docs_pages.py`), and no notebook is kept in the repository.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from markdown.extensions.toc import slugify
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.examples import BLOCK, ROOT

# Its first line must be the magic, so that what follows is what the page has.
SHELL = "%%sh -e\n"
# The extra that a page needs besides `cli`, by a word in its code.
EXTRAS = {"studies": r"\bablate\b", "scale": r"\bdask\b|--scheduler\b"}
HEADING = re.compile(r"^##+ (.+?)(?: *\{[^{}\n]*\})?$", re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)(?:\{[^{}\n]*\})?")
PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<name>[^()\s]+)\)(?:\{[^{}\n]*\})?$", re.MULTILINE)
ADMONITION = re.compile(
    r'^!!! \w+(?: "(?P<title>[^"\n]*)")?\n(?P<body>(?:\n*    .*\n?)+)', re.MULTILINE
)
MARKED = re.compile(r"^``` ?\{\.(\w+)[^{}\n]*\}$", re.MULTILINE)
COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)
PIP = re.compile(r'pip install "(?P<source>[^"\[\]]+)\[')
SECOND = re.compile(r"pip install (--no-deps gpflow==[\w.]+)")
SETUP = """\
# Run this cell first. It installs the package where that is missing: from SOURCE, which is the
# folder of the repository, or the path of a wheel.
SOURCE = "{source}"

import importlib.metadata
import os
import sys
import sysconfig
import tempfile

try:
    importlib.metadata.version("sparse_prefgp")
except importlib.metadata.PackageNotFoundError:
    if not (SOURCE.endswith(".whl") or os.path.exists(os.path.join(SOURCE, "pyproject.toml"))):
        raise FileNotFoundError(
            f"The package is not in {{SOURCE!r}}; set SOURCE, above, to the folder of the "
            "repository or to the path of a wheel."
        )
    %pip install --quiet "{{SOURCE}}[{extras}]"
    if sys.version_info >= (3, 13):
        %pip install --quiet {second}

# Commands are those of this Python. Cells that begin with %%sh need a shell, on Windows Git's.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
os.environ["COLUMNS"] = "84"
for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):  # set by the kernel; a cell is no terminal
    os.environ.pop(name, None)
os.chdir(tempfile.mkdtemp())  # what is written below goes into a new folder
"""


def notebook(page: Path, link: Callable[[str], str]) -> nbformat.NotebookNode:
    """The notebook of a page, with the output that the page states.

    :param link: where a link to another page, such as `tables.md#columns`, leads from the notebook.
    """
    text = _anchored(page.read_text(encoding="utf-8"))
    cells = [new_code_cell(_setup(text))]
    end = 0
    code = ""
    for match in BLOCK.finditer(text):
        cells += _prose(text[end : match.start()], page, code, link)
        source = (SHELL if match["kind"] == "sh" else "") + match["code"].rstrip("\n")
        cells.append(new_code_cell(source, outputs=_printed(match["output"] or "")))
        code += match["code"]
        end = match.end()
    cells += _prose(text[end:], page, code, link)
    _name(cells)
    return new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )


def written(page: Path, link: Callable[[str], str]) -> str:
    """The text of the notebook's file, the same for the same page."""
    found = notebook(page, link)
    nbformat.validate(found)
    return nbformat.writes(found) + "\n"


def _setup(text: str) -> str:
    """The first cell, with the commands of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = PIP.search(readme), SECOND.search(readme)
    if first is None or second is None:
        raise ValueError('README.md has no line `pip install "SOURCE[cli]"`, or no second one.')
    code = "".join(match["code"] for match in BLOCK.finditer(text))
    extras = ["cli", *(extra for extra, word in EXTRAS.items() if re.search(word, code))]
    return SETUP.format(source=first["source"], extras=",".join(extras), second=second[1]).rstrip(
        "\n"
    )


def _printed(output: str) -> list[nbformat.NotebookNode]:
    return [new_output("stream", name="stdout", text=output)] if output else []


def _prose(
    text: str, page: Path, code: str, link: Callable[[str], str]
) -> Iterator[nbformat.NotebookNode]:
    """Cells of what stands between two pieces of code; its pictures are read from their files.

    :param code: all code so far: a picture that it saves is shown by a cell of code.
    """
    end = 0
    for match in [*PICTURE.finditer(text), None]:
        words = text[end : match.start() if match else len(text)]
        if words.strip():
            yield _markdown(words, link)
        if match is None:
            return
        end = match.end()
        picture = base64.b64encode((page.parent / match["name"]).read_bytes()).decode()
        if Path(match["name"]).name in code:
            output = new_output(
                "display_data", data={"image/png": picture, "text/plain": match["alt"]}
            )
            show = (
                f'from IPython.display import Image, display\n\ndisplay(Image("{match["name"]}"))'
            )
            yield new_code_cell(show, outputs=[output])
        else:
            name = Path(match["name"]).name
            cell = new_markdown_cell(f"![{match['alt']}](attachment:{name})")
            cell.attachments = {name: {"image/png": picture}}
            yield cell


def _markdown(text: str, link: Callable[[str], str]) -> nbformat.NotebookNode:
    """A cell of text, with what only mkdocs knows said in plain Markdown."""
    text = ADMONITION.sub(_quote, COMMENT.sub("", MARKED.sub(r"```\1", text)))
    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(lambda match: f"]({_address(match[1], link)})", p) for p in parts[::2]]
    return new_markdown_cell("".join(parts).strip("\n"))


def _anchored(text: str) -> str:
    """The text with an anchor before each heading that a link of the same page leads to.

    Programs that show notebooks make anchors of headings each in its own way.
    """
    targets = set(re.findall(r"\]\(#([^()\s]+)\)", text))

    def anchor(match: re.Match[str]) -> str:
        slug = slugify(match[1], "-")
        return f'<a id="{slug}"></a>\n\n{match[0]}' if slug in targets else match[0]

    return HEADING.sub(anchor, text)


def _quote(match: re.Match[str]) -> str:
    body = re.sub(r"^    ", "", match["body"].strip("\n"), flags=re.MULTILINE)
    title = [f"**{match['title']}**", ""] if match["title"] else []
    lines = [*title, *body.splitlines()]
    return "".join(f"> {line}".rstrip() + "\n" for line in lines) + "\n"


def _address(target: str, link: Callable[[str], str]) -> str:
    """Addresses and places on the same page stay, other pages are where `link` says."""
    return target if re.match(r"[a-z]+:|#", target) else link(target)


def _name(cells: list[nbformat.NotebookNode]) -> None:
    """Ids from what a cell says, so that they stay while other cells change."""
    seen: dict[str, int] = {}
    for cell in cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
