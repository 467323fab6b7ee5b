"""Says whether the sparse_prefgp that is installed works from an empty folder.

    build/wheel-3.12/bin/python tools/try_wheel.py core
    build/wheel-3.12/bin/python tools/try_wheel.py cli

Run it with the Python of an environment into which the wheel was installed: `core` without extras,
where the model by hand must run (docs/model.md) and the command must name the extra that it needs;
`cli` with that extra, where the command must run its demo and the README's Python must run.
`make wheel` does both.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRA = 'pip install ".[cli]"'
WHERE = "import sparse_prefgp as spg; print(spg.__version__, spg.__file__)"
NEEDS_PANDAS = """
import sparse_prefgp as spg
try:
    spg.read_duels("items.csv", "duels.csv")
except ModuleNotFoundError as error:
    print(error)
"""


def main() -> int:
    """0 where all works, else 1 with what does not."""
    stage = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            _check_place(folder)
            if stage == "cli":
                _check_demo(folder)
                _check_example("README.md", folder)
            else:
                _check_sentences(folder)
                _check_example("docs/model.md", folder)
        except AssertionError as error:
            print(f"try_wheel.py {stage}: {error}", file=sys.stderr)
            return 1
    print(f"The wheel works ({stage}, Python {'.'.join(map(str, sys.version_info[:2]))}).")
    return 0


def _check_place(folder: Path) -> None:
    """What is imported is what was installed, of the version of this repository."""
    version, place = _run([sys.executable, "-c", WHERE], folder).stdout.split(maxsplit=1)
    source = ROOT / "sparse_prefgp" / "support" / "version.py"
    stated = runpy.run_path(str(source))["__version__"]
    if version != stated:
        raise AssertionError(f"version {version} is installed, and this is {stated}")
    # The environment may lie inside the repository.
    if not Path(place.strip()).is_relative_to(sys.prefix):
        raise AssertionError(f"{place.strip()} is imported, which no wheel has put there")


def _check_example(page: str, folder: Path) -> None:
    """A page's blocks of Python, as one program in an empty folder."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    if not blocks:
        raise AssertionError(f"{page} has no block of Python")
    (folder / "example.py").write_text("\n".join(blocks), encoding="utf-8")
    print(_run([sys.executable, "example.py"], folder).stdout, end="")


def _check_demo(folder: Path) -> None:
    """The command runs its demo, and prints scores."""
    done = _run([str(_command()), "demo"], folder)
    if "Held-out duels" not in done.stdout:
        raise AssertionError(f"the demo printed no scores: {done.stdout[-2000:]}")


def _check_sentences(folder: Path) -> None:
    """Without the extra the command, and what reads tables, name it in one sentence."""
    done = _run([str(_command()), "demo"], folder, code=2)
    read = _run([sys.executable, "-c", NEEDS_PANDAS], folder)
    for told in (done.stderr, read.stdout):
        if EXTRA not in told or len(told.splitlines()) != 1:
            raise AssertionError(f"one sentence should name {EXTRA}: {told}")


def _command() -> Path:
    return Path(sys.prefix) / "bin" / "sparse-prefgp"


def _run(command: list[str], folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with nothing that leads back to the repository."""
    known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARSE_PREFGP_DATA")}
    done = subprocess.run(
        command, cwd=folder, env=known, capture_output=True, text=True, check=False
    )
    if done.returncode != code:
        words = " ".join(command)
        raise AssertionError(f"{words} ended with code {done.returncode}: {done.stderr[-2000:]}")
    return done


if __name__ == "__main__":
    sys.exit(main())
