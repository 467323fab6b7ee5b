"""Runs the code of the worked examples in docs/, as a reader would, and compares what it prints.

    python tools/examples.py docs/examples/tennis.md             run, and say what differs
    python tools/examples.py --refresh docs/examples/tennis.md   put output and pictures in the page
    python tools/examples.py --notebook docs/ties.md ties.ipynb  the page as a notebook, not run

Blocks marked `python` run one after the other in one scope, blocks marked `sh` in a shell, all in
one empty folder. A block marked `text` right after one of them is what it prints, and pictures that
the code saves belong next to the page. Blocks with other marks are not run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
# A number as people print it: 1,810.26, -0.45, 1e-08, 79 %.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
# NumPy fills up arrays whose numbers end in zeros: [0.5 0.25 ] next to [0.5 0.249].
FILLED = re.compile(r"(?<=\[) | (?=\])")
# How the machine got there, and how fast: no part of what is promised.
EFFORT = re.compile(r"\b[\d,.]+(/\d+)?(?= (?:s|sweeps|iterations|evaluations|evidence per)\b)")
# Kernel variance and lengthscales together move along a ridge on which the evidence is flat.
RIDGE = "Kernel variance"
# In a stated output: lines that are not shown.
LEFT_OUT = "…"
DATA = "SPARSE_PREFGP_DATA"
LARGEST_PICTURE = 100_000  # bytes of one in docs/


@dataclass(frozen=True)
class Block:
    """A piece of code in a page and the output that the page states, "" for none."""

    kind: str
    code: str
    output: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The code of a page that is run, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["kind"], m["code"], m["output"] or "", text.count("\n", 0, m.start()) + 1)
        for m in BLOCK.finditer(text)
    ]


def run(page: Path, folder: Path) -> list[str]:
    """What each block of a page prints when run in a folder; pictures are left in the folder.

    :raises subprocess.CalledProcessError: a command failed; and whatever the Python code raises.
    """
    printed = []
    with contextlib.chdir(folder), _environment(), _plain():
        scope: dict[str, Any] = {"__name__": "__main__"}
        for block in blocks(page):
            if block.kind == "sh":
                printed.append(_shell(block.code))
                continue
            stream = io.StringIO()
            # Empty lines before it make tracebacks name the line of the page.
            source = "\n" * block.line + block.code
            with contextlib.redirect_stdout(stream):
                exec(compile(source, str(page), "exec"), scope)
            printed.append(stream.getvalue())
    return printed


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """The data next to the repository, if they are there; the variables as they were afterwards."""
    before = dict(os.environ)
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():
        os.environ.setdefault(DATA, str(data))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    """Pictures without a window, and none left open for the next page."""
    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("agg")
    import matplotlib.pyplot

    try:
        yield
    finally:
        matplotlib.pyplot.close("all")
        matplotlib.use(before)


def _shell(code: str) -> str:
    here = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": os.pathsep.join([here, os.environ.get("PATH", "")]),
        "COLUMNS": "84",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        ["sh", "-e", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{code.strip()!r} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def difference(stated: str, printed: str, relative: float, absolute: float) -> str:
    """The first difference between two outputs as a sentence, "" for none.

    Texts must be equal but for spaces; numbers may differ by the two tolerances together, and
    seconds, sweeps, iterations and the kernel variances of `fit` by anything. A line of three dots
    stands for any lines.
    """
    wanted_lines, found_lines = _lines(stated), _lines(printed)
    if LEFT_OUT in wanted_lines:
        before = wanted_lines.index(LEFT_OUT)
        after = len(found_lines) - (len(wanted_lines) - before - 1)
        found_lines = [*found_lines[:before], LEFT_OUT, *found_lines[max(after, before) :]]
    if len(wanted_lines) != len(found_lines):
        return f"{len(wanted_lines)} lines are stated, {len(found_lines)} printed"
    for wanted, found in zip(wanted_lines, found_lines, strict=True):
        if NUMBER.sub("#", wanted) != NUMBER.sub("#", found):
            return f"stated {wanted!r}, printed {found!r}"
        if wanted.startswith(RIDGE):
            continue
        for a, b in zip(_numbers(wanted), _numbers(found), strict=True):
            if abs(a - b) > absolute + relative * max(abs(a), abs(b)):
                return f"stated {wanted!r}, printed {found!r}: {a:g} is not near {b:g}"
    return ""


def _lines(text: str) -> list[str]:
    lines = (" ".join(EFFORT.sub("_", line).split()) for line in text.splitlines())
    return [FILLED.sub("", line) for line in lines if line]


def _numbers(line: str) -> list[float]:
    return [float(match.replace(",", "")) for match in NUMBER.findall(line)]


def refreshed(page: Path, printed: list[str], block: re.Pattern[str] = BLOCK) -> str:
    """The text of a page with what was printed in place of what is stated.

    :param block: finds the pieces of code, with the groups `kind` (behind the fence) and `code`.
    """
    left = iter(printed)

    def write(match: re.Match[str]) -> str:
        shown = "".join(f"{line.rstrip()}\n" for line in next(left).splitlines())
        code = f"```{match['kind']}\n{match['code']}```\n"
        return code + (f"\n```text\n{shown}```\n" if shown.strip() else "")

    return block.sub(write, page.read_text(encoding="utf-8"))


def keep_picture(drawn: Path, kept: Path) -> None:
    """Put a picture next to its page: in 256 colours if it would be too large as it is."""
    from PIL import Image

    shutil.copy(drawn, kept)
    if drawn.stat().st_size >= LARGEST_PICTURE:
        with Image.open(drawn) as picture:
            fewer = picture.quantize(256, Image.Quantize.FASTOCTREE)
            fewer.save(kept, optimize=True, dpi=picture.info.get("dpi", (72, 72)))


def is_worked(page: Path) -> bool:
    """Whether a page shows what its code prints, and so is run by the tests."""
    return any(block.output for block in blocks(page))


def _write_notebook(page: Path, notebook: Path) -> None:
    """A notebook whose links lead to the pages from where it lies."""
    from tools import notebooks

    def link(target: str) -> str:
        place = os.path.relpath(page.resolve().parent / target, notebook.resolve().parent)
        return Path(place).as_posix()

    notebook.write_text(notebooks.written(page, link), encoding="utf-8")


def main() -> int:
    """Run the pages named on the command line; 1 if one of them states what is not printed."""
    sys.path.insert(0, str(ROOT))
    from tests.tolerances import EXAMPLE_ABSOLUTE, EXAMPLE_RELATIVE

    parser = argparse.ArgumentParser(description="Run the worked examples.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--refresh", action="store_true", help="write output and pictures")
    parser.add_argument("--notebook", action="store_true", help="write a page as a notebook")
    arguments = parser.parse_args()
    if arguments.notebook:
        if len(arguments.pages) != 2:
            parser.error("--notebook takes a page and the notebook to write.")
        _write_notebook(*arguments.pages)
        return 0
    wrong = 0
    for page in (path.resolve() for path in arguments.pages):
        with tempfile.TemporaryDirectory() as folder:
            printed = run(page, Path(folder))
            if arguments.refresh:
                page.write_text(refreshed(page, printed), encoding="utf-8")
                for picture in Path(folder).glob("*.png"):
                    keep_picture(picture, page.parent / picture.name)
                continue
        for block, found in zip(blocks(page), printed, strict=True):
            problem = difference(block.output, found, EXAMPLE_RELATIVE, EXAMPLE_ABSOLUTE)
            if problem:
                wrong = 1
                print(f"{page.name}, line {block.line}: {problem}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
