"""Imports point one way, and the light parts of the package stay light."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sparse_prefgp.support.public import declared
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


IMPORTED_AS = {"pyyaml": "yaml"}


def _extras() -> set[str]:
    """What the packages of the extras are imported as."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"]["optional-dependencies"].values()
    wanted = {re.split(r"[^\w-]", one)[0] for group in groups for one in group}
    return {IMPORTED_AS.get(name.lower(), name.replace("-", "_")) for name in wanted}


# What takes so long to import that it is `lazy.late`, and who may: names, settings and refusals
# come before TensorFlow; half a second of SciPy or scikit-learn is for those who use it.
LATE = {
    "analysis/far.py": {"sklearn.metrics"},
    "analysis/metrics.py": {"scipy.stats", "sklearn.metrics"},
    "data/duels.py": {"scipy.sparse", "scipy.sparse.csgraph"},
    "data/features.py": {"sklearn.preprocessing"},
    "data/reduction.py": {"scipy.linalg"},
    "data/texts.py": {"scipy.sparse.linalg", "sklearn.feature_extraction.text"},
    "data/vectors.py": {"sparse_prefgp.data.vector_column"},
    "datasets/demo.py": {"sklearn.datasets"},
    "datasets/fetching.py": {"requests"},
    "factors/orthants.py": {"scipy.stats"},
    "io/streams/dataset.py": {"tensorflow"},
    "lab/ablation/cluster.py": {"tensorflow"},
    "lab/ablation/data.py": {"gpflow"},
    "lab/ablation/execution.py": {"gpflow", "tensorflow"},
    "lab/ablation/fitting.py": {"gpflow"},
    "models/streaming/cluster.py": {"cloudpickle"},
    "sampling/diagnostics.py": {"scipy.stats"},
    "support/kmeans.py": {"sklearn.cluster", "sklearn.exceptions"},
    "workflow/failures.py": {"tensorflow"},
    "workflow/holdout.py": {"gpflow"},
    "workflow/kernel_names.py": {"gpflow"},
}


def test_imports_stand_at_the_head() -> None:
    """But for the command line, and for packages that need not be installed."""
    extras, wrong = _extras(), []
    assert {"pandas", "yaml", "distributed", "pydantic"} <= extras and "scipy" not in extras
    for path in FILES:
        if _room(path) == "cli":
            continue
        functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
        for node in {inner for one in functions for inner in ast.walk(one)}:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            else:
                continue
            if not {name.split(".")[0] for name in names} <= extras:
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {', '.join(names)}")
    assert not wrong, "\n".join(sorted(wrong))


def test_only_what_is_slow_is_imported_late() -> None:
    found = {}
    for path in FILES:
        calls = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
        late = {
            ast.literal_eval(c.args[0])
            for c in calls
            if isinstance(c.func, ast.Name) and c.func.id == "late"
        }
        if late:
            found[path.relative_to(PACKAGE).as_posix()] = late
    assert found == LATE


def test_rooms_have_the_names_that_type_checkers_see() -> None:
    rooms = [path.parent for path in FILES if path.name == "__init__.py"]
    names = [".".join(room.relative_to(PACKAGE.parent).parts) for room in rooms]
    lazy = [name for name in names if declared(name)]
    assert len(lazy) > 10
    for name in lazy:
        room = importlib.import_module(name)
        for public in room.__all__:
            assert getattr(room, public) is not None
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = room.nothing


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
        (
            "sparse_prefgp.asking, sparse_prefgp.exact, sparse_prefgp.gpflow, sparse_prefgp.lab, "
            "sparse_prefgp.results",
            ("tensorflow", "gpflow", "pandas"),
        ),
        ("sparse_prefgp.cli", ("tensorflow", "gpflow", "tensorflow_probability", "sklearn")),
        # What refuses a fit, a comparison or a study before anything slow is there.
        ("sparse_prefgp.workflow.workflow", ("tensorflow", "sklearn", "scipy.stats", "matplotlib")),
        ("sparse_prefgp.lab.ablation", ("tensorflow", "gpflow", "sklearn", "scipy.stats")),
        ("sparse_prefgp.models", ("tensorflow", "gpflow", "sklearn", "scipy.stats")),
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


def test_public_names_are_where_they_are_declared() -> None:
    import sparse_prefgp as spg
    from sparse_prefgp.support.public import declared

    assert spg.plotting.__name__ == "sparse_prefgp.plotting"
    for module in ("sparse_prefgp", *(f"sparse_prefgp.{name}" for name in spg.MODULES)):
        for name, home in declared(module).items():
            here = getattr(importlib.import_module(module), name)
            assert here is getattr(importlib.import_module(home), name)
    assert set(declared("sparse_prefgp")) < set(spg.__all__) and set(spg.__all__) == set(dir(spg))
    assert "Ranking" in dir(spg.results) and "Ranking" not in dir(spg)
    for module in (spg, spg.results):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = module.nothing
