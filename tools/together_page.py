"""Write `docs/what-goes-together.md` from the table that refuses what does not.

python tools/together_page.py
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sparse_prefgp.support.together import TABLE, called  # noqa: E402

PAGE = ROOT / "docs" / "what-goes-together.md"
HEAD = """# What goes together

Whatever is not in these tables goes together. Whoever asks for two things of one row is told so in
one sentence, as a rule before anything is computed. The page is made from the table that models,
fits and commands look at.
"""
COLUMNS = "| does not go with | why, or what instead |\n|---|---|\n"


def page() -> str:
    """The page as it is to be."""
    text = HEAD
    for one, others in TABLE.items():
        name = called(one)
        text += f"\n## {name[:1].upper()}{name[1:]}\n\n" + COLUMNS
        for instead, rows in groupby(others.items(), key=lambda row: row[1]):
            text += f"| {', '.join(called(other) for other, _ in rows)} | {instead} |\n"
    return text + "\nNext: [what it costs](benchmarks.md), measured.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
