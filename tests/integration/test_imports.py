"""Imports point one way, and the light parts of the package stay light."""

import ast
import os
import re
import subprocess
import sys
import tomllib
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
    "ask",
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


# Rooms whose files import each other in one order only.
IN_ORDER = ("data", "approximations", "covariances", "engines", "factors", "models", "workflow")


@pytest.mark.parametrize("room", IN_ORDER)
def test_no_circle_inside_a_room(room: str) -> None:
    """Imports inside functions and for type checking count too."""
    left = {}
    for path in (PACKAGE / room).rglob("*.py"):
        names = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}", *(f"{node.module}.{one.name}" for one in node.names)}
        left[".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)] = names
    assert left
    while free := [name for name, names in left.items() if not names & (left.keys() - {name})]:
        for name in free:
            del left[name]
    # What is left imports a circle, or is one.
    assert not left, sorted(left)


def _extras() -> set[str]:
    """What the packages of the extras are imported as."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"]["optional-dependencies"].values()
    wanted = {re.split(r"[^\w-]", one)[0] for group in groups for one in group}
    return {"yaml" if name == "pyyaml" else name.replace("-", "_") for name in wanted}


# What takes so long to import that functions do it, and of which modules: names, settings and
# refusals come before TensorFlow; half a second of SciPy or scikit-learn is for those who use it.
LATE = {
    "analysis/items.py": {"sklearn"},
    "analysis/metrics.py": {"scipy", "sklearn"},
    "ask/queue.py": {"analysis"},
    "ask/refitting.py": {"analysis", "disk", "plotting", "workflow"},
    "ask/running.py": {"ask"},
    "data/duels.py": {"scipy"},
    "data/features.py": {"data"},
    "data/reduction.py": {"scipy"},
    "data/texts.py": {"sklearn"},
    "data/word_score.py": {"scipy", "sklearn"},
    "datasets/demo.py": {"sklearn"},
    "datasets/fetching.py": {"requests"},
    "factors/orthants.py": {"scipy"},
    "io/streams/dataset.py": {"tensorflow"},
    "lab/ablation/duels.py": {"gpflow"},
    "lab/ablation/execution.py": {"engines"},
    "lab/ablation/fitting.py": {"gpflow", "learning"},
    "models/streaming/cluster.py": {"cloudpickle"},
    "plotting/features.py": {"analysis"},
    "plotting/in_time.py": {"analysis"},
    "plotting/items.py": {"analysis", "covariances"},
    "plotting/people.py": {"analysis"},
    "plotting/sets.py": {"analysis"},
    "plotting/surfaces.py": {"analysis", "covariances"},
    "sampling/diagnostics.py": {"scipy"},
    "support/kmeans.py": {"sklearn"},
    "support/machine.py": {"tensorflow"},
    "support/normals.py": {"scipy"},
    "workflow/checkpoints.py": {"learning"},
    "workflow/comparison.py": {"analysis", "learning"},
    "workflow/failures.py": {"tensorflow"},
    "workflow/fit_metrics.py": {"analysis", "covariances", "learning", "models"},
    "workflow/fit_sources.py": {"models"},
    "workflow/folder.py": {"analysis", "disk"},
    "workflow/holdout.py": {"analysis", "covariances", "engines", "gpflow", "learning", "models"},
    "workflow/in_time.py": {"analysis", "covariances", "learning", "models"},
    "workflow/kernel_names.py": {"covariances", "gpflow"},
    "workflow/leaderboard.py": {"analysis", "disk", "plotting"},
    "workflow/model_names.py": {"approximations", "engines"},
    "workflow/output.py": {"analysis"},
    "workflow/pictures.py": {"analysis"},
}


def test_only_what_is_slow_is_imported_late() -> None:
    """But for the command line, and for packages that need not be installed."""
    extras, late = _extras(), {}
    assert {"pandas", "yaml", "distributed", "pydantic"} <= extras and "scipy" not in extras
    for path in FILES:
        functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
        names = set()
        for node in {inner for one in functions for inner in ast.walk(one)}:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        rooms = {name.removeprefix("sparse_prefgp.").split(".")[0] for name in names} - extras
        if rooms and _room(path) != "cli":
            late[path.relative_to(PACKAGE).as_posix()] = rooms
    assert late == LATE


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
        (
            "sparse_prefgp.lab, sparse_prefgp.workflow.holdout, sparse_prefgp.analysis.rivals",
            ("tensorflow", "gpflow", "pandas", "sklearn"),
        ),
        ("sparse_prefgp.plotting", ("tensorflow", "gpflow", "matplotlib")),
    ],
)
@pytest.mark.covering(every=4)
def test_import_is_light(module: str, unwanted: tuple[str, ...]) -> None:
    assert _loaded(module, unwanted) == []


@pytest.mark.parametrize(
    ("duels", "options"),
    [
        ("winner,model_a,model_b\nAnn,Ann,Bob\n", ()),
        ("winner,loser\nAnn,Bob\nAnn,Bob\n", ("--split", "group:town")),
        ("winner,loser\nAnn,\n", ()),
    ],
)
def test_a_table_is_refused_before_anything_slow(
    tmp_path: Path, duels: str, options: tuple[str, ...]
) -> None:
    path = tmp_path / "duels.csv"
    path.write_text(duels)
    words = ["fit", "--duels", str(path), "--out", str(tmp_path / "out"), *options]
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        f"sys.argv[1:] = {words!r}\n"
        "from sparse_prefgp.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2 and done.stderr.startswith("Error: "), done.stderr
    slow = {"tensorflow", "gpflow", "scipy", "sklearn", "matplotlib", "sparse_prefgp.cli.rank"}
    there = {*done.stdout.split()}
    assert "pandas" in there and not slow & there


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
