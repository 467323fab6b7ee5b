"""Imports point one way, and the light parts of the package stay light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "sparse_prefgp"

# From the bottom up: a room may import from its own layer and from those below it.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "truncated_normal",
        "quadrature",
        "tilted",
        "expectations",
        "graph",
        "duels",
        "events",
        "linalg",
        "machine",
        "noise",
        "notes",
        "packed",
        "workers",
        "features",
        "io",
        "transform",
        "splits",
        "metrics",
        "baselines",
        "datasets",
        "folders",
        "checks",
        "clusters",
        "blocks",
        "model_folder",
        "checkpoint_folder",
        "versions",
        "streams",
        "words",
        "choices",
    ),
    ("covariances",),
    ("sites", "links"),
    ("approximations",),
    ("evidence",),
    ("engines",),
    ("sampling",),
    ("models", "gpflow_blocks", "parts"),
    ("selection",),
    ("analysis",),
    ("plotting",),
    ("studies", "benchmarks"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
TOP = "__init__"  # the list of public names may import anything, and nobody imports it


def _room(path: Path) -> str:
    """The top-level module or subpackage a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def _imported_rooms(path: Path) -> set[tuple[str, int]]:
    """Rooms that a file imports, at its head, inside functions or for type checking, with lines."""
    package = ("sparse_prefgp", *path.relative_to(PACKAGE).parent.parts)
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
                known = len(parts) > 1 and _exists(parts[1])
                rooms.add((parts[1] if known else TOP, node.lineno))
    return rooms


def _exists(room: str) -> bool:
    return (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_a_layer() -> None:
    unplaced = sorted({_room(path) for path in FILES} - set(LEVEL) - {TOP})
    assert not unplaced, f"give {unplaced} a place in LAYERS of {Path(__file__).name}"


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
            elif LEVEL.get(imported, -1) > LEVEL.get(room, len(LAYERS)):
                wrong.append(f"{where}: {room} imports {imported}, which stands above it")
    assert not wrong, "\n".join(wrong)


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
    ],
)
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
