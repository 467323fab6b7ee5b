"""The lab is for its own builders: all but its commands and what they refuse is slow."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
QUICK = {"test_ablation_configuration.py", "test_ablation_named.py"}
ALWAYS = ("test_the_command", "test_mistakes", "test_reference", "test_evidence_and_gradient_are")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in QUICK:
            if not item.name.startswith(ALWAYS):
                item.add_marker(pytest.mark.slow)
