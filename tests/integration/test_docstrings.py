"""All docstrings of the package are of one dialect, that of GPflow: reST fields.

It reads the files and imports nothing of the package.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.sources import nodes_of

ROOT = Path(__file__).parents[2]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
SECTION = re.compile(
    r"^\s*(Args|Arguments|Parameters|Returns?|Raises|Yields?|Warns|Attributes):?\s*$", re.M
)
KNOWN_FIELDS = re.compile(r":(param \*{0,2}\w+|ivar \w+|return|raises [\w.]+):( |\n|$)")


@cache
def _documented() -> list[tuple[str, Documented, str]]:
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node, text)
        for path in sorted((ROOT / "sparse_prefgp").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, Documented) and (text := ast.get_docstring(node))
    ]


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None}


def test_no_docstring_has_sections_of_another_dialect() -> None:
    found = [where for where, _, text in _documented() if SECTION.search(text)]
    assert found == []


def test_fields_are_of_known_kinds_and_come_last() -> None:
    wrong = []
    for where, _, text in _documented():
        lines = text.splitlines()
        starts = [i for i, line in enumerate(lines) if re.match(r":\w+[^`]*?: ", line)]
        if not starts:
            continue
        tail = lines[starts[0] :]
        fields = all(KNOWN_FIELDS.match(line) or line.startswith("    ") for line in tail)
        if not fields or (starts[0] > 0 and lines[starts[0] - 1].strip()):
            wrong.append(where)
    assert wrong == []


def test_documented_parameters_are_those_of_the_signature() -> None:
    wrong = []
    for where, node, text in _documented():
        named = re.findall(r"^:param \*{0,2}(\w+):", text, re.M)
        if len(named) != len(set(named)):
            wrong.append(f"{where}: one parameter twice")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            wrong += [f"{where}: {name}" for name in named if name not in _parameters(node)]
    assert wrong == []


def test_fields_of_dataclasses_are_documented_under_their_lines() -> None:
    """Not in a paragraph `name: meaning. name: meaning.` of the class."""
    wrong = []
    for where, node, text in _documented():
        if isinstance(node, ast.ClassDef):
            own = {
                line.target.id
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            }
            told = re.findall(r"(?:^|[.;] )(\w+)(?:, \w+)*: ", text, re.M)
            told += re.findall(r"^:ivar (\w+):", text, re.M)
            if not any(getattr(line, "name", "") == "__init__" for line in node.body):
                told += re.findall(r"^:param (\w+):", text, re.M)
            wrong += [f"{where}: {name}" for name in told if name in own]
    assert wrong == []


# "Warn", "rebuild", "resume", "is ignored" and "besides" or "next to" say it at once.
UNCLEAR = re.compile(
    r"\b(made anew|anew|has no say|goes? on|went on|[Bb]eside|as (it was|they were) given"
    r"|(is|are) told(?! apart))\b"
)


def test_docstrings_and_messages_use_plain_verbs() -> None:
    found = []
    for path in sorted((ROOT / "sparse_prefgp").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                unclear = UNCLEAR.search(" ".join(node.value.split()))
                if unclear:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {unclear[0]}")
    assert found == []
