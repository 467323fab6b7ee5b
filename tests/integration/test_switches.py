"""Nobody asks which approximation, engine, covariance or model is in use: it says what it is.

Facts stand on `Approximation`, `Engine` and `Link`; what a model cannot do it refuses itself.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.sources import nodes_of, tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "sparse_prefgp"
ROOMS = ("approximations", "engines", "covariances")
# Not `Duels`, which a caller may give.
MODELS = {"PreferenceGP", "StreamedGP", "RegressionGP"}
# File: how many are left, and why.
LEFT = {
    # What a caller gave is refused in a sentence, or is one of two kinds that may be given.
    "analysis/certificates.py": 1,
    "engines/box.py": 1,
    "engines/sequential.py": 1,
    "models/checks.py": 1,
    "disk/exporting.py": 1,
    "models/streaming/model.py": 2,
    "sampling/draws.py": 1,
    "learning/greedy.py": 1,
    "learning/optimise.py": 2,
    # The fingerprint of duels that are in memory, or not.
    "learning/checkpoint.py": 1,
    # Saved models of before, which had another engine.
    "disk/upgrading.py": 1,
}


def _classes() -> set[str]:
    """Names of the classes that nobody is to be asked for."""
    found = set(MODELS)
    for room in ROOMS:
        for path in (PACKAGE / room).glob("*.py"):
            found |= {node.name for node in tree_of(path).body if isinstance(node, ast.ClassDef)}
    # Kernels: GPflow has no other way to ask what a sum is made of, or where inputs lie.
    kernels = {"FiniteKernel", "ItemEffect", "ItemTimes", "PairEffect", "SameLevel", "TermOfDuels"}
    kernels |= {"CentredLinear", "Projected", "ProjectedPoints", "MarkovKernel", "ItemInTime"}
    return found - kernels


def _asked(path: Path, classes: set[str]) -> int:
    """How many tests of a module ask for a class, or for the name of one."""
    count = 0
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass") and len(node.args) == 2:
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                count += bool(names & classes)
        elif isinstance(node, ast.Compare):
            texts = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
            count += bool({t for t in texts if isinstance(t, str)} & classes)
    return count


def test_no_more_switches_than_are_known() -> None:
    classes = _classes()
    assert {"VFE", "PITC", "Laplace", "LowRankOverItems"} <= classes
    found = Counter(
        {str(path.relative_to(PACKAGE)): _asked(path, classes) for path in PACKAGE.rglob("*.py")}
    )
    more = {file: n for file, n in found.items() if n > LEFT.get(file, 0)}
    assert not more, f"say it by a fact or a protocol, or give a reason in LEFT: {more}"
