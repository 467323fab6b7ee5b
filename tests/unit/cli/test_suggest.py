"""A first round of pairs, which no model chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from tests.together import sentence


@pytest.mark.parametrize(
    "words", [["--score", "bald"], ["--top", "3"], ["--at", "a=b"], ["--max-pairs", "9"], []]
)
def test_what_says_how_a_model_chooses_is_refused(tmp_path: Path, words: list[str]) -> None:
    items = tmp_path / "items.csv"
    items.write_text("item_id\na\nb\nc\n")
    call = ["suggest", "--first-round", "--items", str(items), "--seed", "1", *words]
    result = CliRunner().invoke(app, call)
    said = " ".join(result.output.split())
    assert result.exit_code == (2 if words else 0), said
    wanted = f"the option {words[0]}{sentence('first_round', 'choosing')}" if words else "Ask first"
    assert wanted in said
