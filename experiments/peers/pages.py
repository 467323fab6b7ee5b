"""Runs what the pages "Coming from ..." say of other packages, in the peers' environment.

    python experiments/peers/pages.py --peers .venv-peers/bin/python            say what differs
    python experiments/peers/pages.py --peers .venv-peers/bin/python --refresh  put output in pages

Blocks of a page marked `python` run here, as in every page; then the blocks marked
`{.python .peers}` run in the other environment, in the same folder, one after the other in one
scope. What they printed, and with which versions, is kept in `results/pages.json`, and a test
holds the pages to that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.tolerances import EXAMPLE_ABSOLUTE, EXAMPLE_RELATIVE  # noqa: E402
from tools import examples  # noqa: E402

PAGES = ROOT / "docs" / "coming-from"
RESULTS = HERE / "results" / "pages.json"
BLOCK = re.compile(
    r"^```(?P<kind>\{\.python \.peers\})\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
# Runs in the other environment: blocks from a file, what each printed to another.
DRIVER = """
import contextlib, io, json, sys
from importlib.metadata import distributions
source, target = sys.argv[1:]
scope, printed = {"__name__": "__main__"}, []
for code in json.load(open(source, encoding="utf-8")):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        exec(compile(code, "block", "exec"), scope)
    printed.append(stream.getvalue())
found = {d.metadata["Name"].lower(): d.version for d in distributions()}
json.dump({"printed": printed, "versions": found}, open(target, "w", encoding="utf-8"))
"""
# Packages whose versions are told where a page imports them.
NAMED = {
    "botorch": ("botorch", "gpytorch", "torch"),
    "choice_learn": ("choice-learn", "tensorflow"),
    "choix": ("choix",),
    "evalica": ("evalica",),
    "kickscore": ("kickscore",),
    "trueskill": ("trueskill",),
    "xlogit": ("xlogit",),
}


@dataclass(frozen=True)
class Block:
    """Code for the other environment and the output that the page states."""

    code: str
    output: str

    @property
    def digest(self) -> str:
        """What tells whether the code has changed since it ran."""
        return hashlib.sha256(self.code.encode()).hexdigest()


def blocks(page: Path) -> list[Block]:
    """The blocks of a page for the other environment, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(m["code"], m["output"] or "") for m in BLOCK.finditer(text)]


def pages() -> list[Path]:
    """The pages, also those without such blocks."""
    return sorted(PAGES.glob("*.md"))


def stated(page: Path) -> str:
    """What a page says that its blocks print here."""
    return "".join(block.output for block in examples.blocks(page))


def run(page: Path, python: Path, folder: Path) -> tuple[list[str], list[str], dict[str, str]]:
    """What the blocks print here and there, and the versions of what is imported there.

    :raises subprocess.CalledProcessError: a block failed in the other environment.
    """
    here = examples.run(page, folder)
    there = blocks(page)
    if not there:
        return here, [], {}
    source, target = folder / "blocks.json", folder / "printed.json"
    source.write_text(json.dumps([block.code for block in there]), encoding="utf-8")
    # The packages of this environment are not to be found in the other one.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(python.absolute()), "-c", DRIVER, str(source), str(target)]
    subprocess.run(command, check=True, cwd=folder, env=environment)
    found = json.loads(target.read_text(encoding="utf-8"))
    code = "\n".join(block.code for block in there)
    imported = set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
    wanted = [name for key in sorted(imported & set(NAMED)) for name in NAMED[key]]
    return here, found["printed"], {name: found["versions"][name] for name in wanted}


def differences(page: Path, here: list[str], there: list[str]) -> list[str]:
    """What a page states and its code does not print."""
    found = []
    for which, stated, printed in (
        ("here", [block.output for block in examples.blocks(page)], here),
        ("there", [block.output for block in blocks(page)], there),
    ):
        for a, b in zip(stated, printed, strict=True):
            problem = examples.difference(a, b, EXAMPLE_RELATIVE, EXAMPLE_ABSOLUTE)
            if problem:
                found.append(f"{page.name}, {which}: {problem}")
    return found


def own_versions() -> dict[str, str]:
    """Of this package and of what it stands on."""
    import sparse_prefgp

    found = {name: version(name) for name in ("gpflow", "tensorflow")}
    return {"sparse_prefgp": sparse_prefgp.__version__} | found


def kept() -> dict[str, Any]:
    """What the last run kept of every page."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def main() -> int:
    """Run the pages; 1 if one of them states what is not printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all, unless some are named")
    parser.add_argument("--peers", type=Path, required=True, help="the other environment's Python")
    parser.add_argument("--refresh", action="store_true", help="write output into the pages")
    given = parser.parse_args()
    wrong = []
    for page in [path.resolve() for path in given.pages] or pages():
        with tempfile.TemporaryDirectory() as folder:
            here, there, versions = run(page, given.peers, Path(folder))
        if given.refresh:
            page.write_text(examples.refreshed(page, here), encoding="utf-8")
            page.write_text(examples.refreshed(page, there, BLOCK), encoding="utf-8")
            told = {
                "date": datetime.now(UTC).strftime("%Y-%m-%d"),
                "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                "versions": own_versions() | versions,
                "here": stated(page),
                "blocks": [vars(block) | {"digest": block.digest} for block in blocks(page)],
            }
            for block in told["blocks"]:
                del block["code"]
            everything = kept() | {page.stem: told}
            RESULTS.write_text(
                json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8"
            )
        else:
            wrong += differences(page, here, there)
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
