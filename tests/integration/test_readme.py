"""The README's example runs as printed and learns the utility it made."""

import re

import numpy as np

from tests.conftest import ROOT


def test_readme_example_runs(capsys):
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scope: dict = {}
    exec(compile(block, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "log evidence" in printed
    utility, mean = scope["utility"], scope["mean"].numpy()[:, 0]
    assert np.corrcoef(mean, utility)[0, 1] > 0.95
    assert scope["model"].infer().converged
