"""Draws `docs/assets/rooms.svg`: the rooms of the package in their order, and who imports whom.

    python tools/rooms.py

A room may import from those below it. Left of the rooms are their lines, right an arc for every
room that imports from another; one that is imported by all, `support`, has none.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sparse_prefgp"
PICTURE = ROOT / "docs" / "assets" / "rooms.svg"


def order() -> tuple[str, ...]:
    """The rooms from the bottom up, as the test of imports has them."""
    path = ROOT / "tests" / "integration" / "test_imports.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            return tuple(ast.literal_eval(node.value))
    raise SystemExit(f"{path} holds no ROOMS.")


def files_of(room: str) -> list[Path]:
    """The Python files of a room, which is a folder or a single file."""
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def lines_of(room: str) -> int:
    """Physical lines."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files_of(room))


def imported_by(room: str, rooms: tuple[str, ...]) -> set[str]:
    """The rooms that a room imports from, wherever the import stands."""
    found = set()
    for path in files_of(room):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = str(getattr(node, "module", "")).split(".")
            if isinstance(node, ast.ImportFrom) and names[0] == "sparse_prefgp" and names[1:]:
                found.add(names[1])
    return (found & set(rooms)) - {room}


def draw() -> None:
    """Write the picture."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from matplotlib.patches import Arc

    rooms = order()
    mpl.rcParams["svg.hashsalt"] = "rooms"  # the same picture gives the same file
    figure, axis = plt.subplots(figsize=(7.0, 7.5))
    level = {room: i for i, room in enumerate(rooms)}
    for room, y in level.items():
        width = lines_of(room) / 1000.0
        axis.barh(y, -width, height=0.7, color="0.8")
        axis.text(-width - 0.2, y, f"{lines_of(room):,}", ha="right", va="center", fontsize=8)
        axis.text(0.15, y, room, va="center", fontsize=10)
    for room, y in level.items():
        for other in imported_by(room, rooms):
            if other == "support":
                continue
            far = y - level[other]
            middle = (y + level[other]) / 2.0
            arc = Arc((4.6, middle), 0.55 * far, far, theta1=-90, theta2=90, color="C0", alpha=0.35)
            axis.add_patch(arc)
    axis.set_xlim(-13.0, 10.0)
    axis.set_ylim(-0.7, len(rooms) - 0.3)
    axis.axis("off")
    figure.savefig(PICTURE, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    draw()
