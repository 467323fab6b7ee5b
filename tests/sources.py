"""The files of the package as trees, parsed once for all the tests that read them."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, those outside first."""
    return tuple(ast.walk(tree_of(path)))
