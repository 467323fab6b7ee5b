"""Imports point one way, and the light parts of the package stay light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import nodes_of

PACKAGE = Path(__file__).resolve().parents[2] / "sparse_prefgp"

# From the bottom up: a room may import from those before it, and from itself.
ROOMS = (
    "support",
    "tell",
    "data",
    "io",
    "factors",
    "covariances",
    "approximations",
    "evidence",
    "engines",
    "sampling",
    "gpflow_blocks",
    "models",
    "disk",
    "learning",
    "analysis",
    "plotting",
    "datasets",
    "workflow",
    "lab",
    "cli",
)
LEVEL = {room: level for level, room in enumerate(ROOMS)}
TOP = "__init__"  # the public names may be of any room, and no room imports them
# Modules of public names besides those of the package itself.
FACADES = ("asking", "exact", "gpflow", "markov", "results")


def _room(path: Path) -> str:
    """The top-level module or subpackage a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return TOP if first in FACADES else first


def _imported_rooms(path: Path) -> set[tuple[str, int]]:
    """Rooms that a file imports, at its head, inside functions or for type checking, with lines."""
    package = ("sparse_prefgp", *path.relative_to(PACKAGE).parent.parts)
    rooms = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            # `from sparse_prefgp import sites` names the room only in the list of names.
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "sparse_prefgp":
                known = len(parts) > 1 and parts[1] not in FACADES and _exists(parts[1])
                rooms.add((parts[1] if known else TOP, node.lineno))
    return rooms


def _exists(room: str) -> bool:
    return (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_its_place() -> None:
    there = {_room(path) for path in FILES} - {TOP}
    assert there == set(ROOMS), f"ROOMS of {Path(__file__).name} and the package differ"


def test_the_map_has_all_rooms_in_their_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows == [*reversed(ROOMS)]


def test_nothing_but_the_command_line_uses_the_lab() -> None:
    for path in FILES:
        if _room(path) not in ("lab", "cli", TOP):
            assert "lab" not in {room for room, _ in _imported_rooms(path)}, path


def test_no_import_runs_back() -> None:
    wrong = []
    for path in FILES:
        room = _room(path)
        if room == TOP:
            continue
        for imported, line in sorted(_imported_rooms(path)):
            where = f"{path.relative_to(PACKAGE.parent)}:{line}"
            if imported == TOP:
                # The command line stands above the public names and may use them.
                if room != "cli":
                    wrong.append(f"{where} imports the public names instead of their module")
            elif LEVEL[imported] > LEVEL[room]:
                wrong.append(f"{where}: {room} imports {imported}, which stands above it")
    assert not wrong, "\n".join(wrong)


def test_nothing_uses_the_inside_of_tensorflow() -> None:
    assert not [path for path in FILES if "tensorflow.python" in path.read_text(encoding="utf-8")]


def _loaded(module: str, unwanted: tuple[str, ...]) -> list[str]:
    """Which of the unwanted packages are loaded by importing a module in a fresh process."""
    code = (
        f"import sys, {module}\n"
        f"print(','.join(name for name in {unwanted!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [name for name in done.stdout.strip().split(",") if name]


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("sparse_prefgp", ("tensorflow", "gpflow", "tensorflow_probability", "pandas", "sklearn")),
        ("sparse_prefgp.cli", ("tensorflow", "gpflow", "tensorflow_probability", "sklearn")),
        # What refuses a fit, a comparison or a study before anything slow is there.
        ("sparse_prefgp.workflow.workflow", ("tensorflow", "sklearn", "scipy.stats", "matplotlib")),
        ("sparse_prefgp.lab.ablation", ("tensorflow", "gpflow", "sklearn", "scipy.stats")),
        ("sparse_prefgp.plotting", ("tensorflow", "gpflow", "matplotlib")),
    ],
)
@pytest.mark.covering(every=4)
def test_import_is_light(module: str, unwanted: tuple[str, ...]) -> None:
    assert _loaded(module, unwanted) == []


@pytest.mark.slow
def test_commands_import_what_they_need() -> None:
    """Keras and all that it brings are not among it: 3.4 s for 5.8 s (tools/import_times.py)."""
    import_all = "sparse_prefgp.cli.console as c; c.import_packages(lambda: None)"
    unwanted = ("keras", "matplotlib", "sklearn", "scipy.stats", "dask")
    assert _loaded(import_all, unwanted) == []


def test_settings_of_imports_do_not_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from sparse_prefgp.cli import console

    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with console._older_keras():
        assert os.environ["TF_USE_LEGACY_KERAS"] == "1"
    assert "TF_USE_LEGACY_KERAS" not in os.environ
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    with console._older_keras():
        assert os.environ["TF_USE_LEGACY_KERAS"] == "0"
    assert os.environ["TF_USE_LEGACY_KERAS"] == "0"


def test_public_names_are_those_that_type_checkers_see() -> None:
    import sparse_prefgp as spg

    declared = {}
    for node in nodes_of(PACKAGE / "__init__.py"):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            declared |= {line.names[0].name: line.module for line in node.body}
    assert declared == {name: f"sparse_prefgp.{home}" for name, home in spg._HOMES.items()}
    assert all(getattr(spg, name) is not None for name in spg.__all__)
    assert set(spg.__all__) == set(dir(spg))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = spg.nothing
