"""Says what `pip check` finds amiss in this environment beyond what is known and harmless.

    python tools/check_packages.py constraints/python3.13.txt

GPflow 2.11 asks for NumPy below 2 and runs with NumPy 2, which Python 3.13 needs: there that line,
and no other, is what `pip check` prints.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """0 where `pip check` prints what it should, else 1 and what it prints."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").split()
    pins = dict(line.split("==") for line in lines)
    expected = "No broken requirements found."
    if int(pins["numpy"].partition(".")[0]) >= 2:
        expected = (
            f"gpflow {pins['gpflow']} has requirement numpy<2, but you have numpy {pins['numpy']}."
        )
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    print(done.stdout, end="")
    if done.stdout.strip() == expected:
        return 0
    print(f"Expected: {expected}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
