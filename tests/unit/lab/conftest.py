"""The lab is for its own builders: all but its commands and what they refuse is slow."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
QUICK = {
    f"test_ablation_{name}.py"
    for name in ("configuration", "named", "execution", "runner", "report")
}
ALWAYS = ("test_the_command", "test_mistakes", "test_reference", "test_evidence_and_gradient_are")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in QUICK:
            if not item.name.startswith(ALWAYS):
                item.add_marker(pytest.mark.slow)
