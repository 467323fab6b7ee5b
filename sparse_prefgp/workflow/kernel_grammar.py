"""The grammar of kernels: what a command line or a configuration writes, as a tree.

    sum      product + product + …
    product  factor * factor * …
    factor   (sum), a kernel, a column, or "a column" in quotes
    kernel   linear, se, matern32, matern52, item, pair, additive-se, …, or a registered one
             kernel(column, column), iso(kernel), iso(kernel, leading), ard(kernel),
             projected(kernel, directions), projected(kernel, directions, leading),
             item-in-time(in time), item-in-time(in time, slices)
    in time  wiener, matern12, matern32, constant, or in time + in time

That is Python's grammar of expressions, whose parser reads it once every word has become a name of
the same length. Nothing here knows of GPflow; `kernel_names.py` makes kernels of trees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn, TypeVar

from sparse_prefgp.data.slices import AUTO, SLICES
from sparse_prefgp.support.registry import KERNEL, own, spelt
from sparse_prefgp.support.words import spelt_like

# By name, the class of GPflow.
STATIONARY_KERNELS = {"se": "SquaredExponential", "matern32": "Matern32", "matern52": "Matern52"}
ADDITIVE = "additive-"
ADDITIVE_KERNELS = tuple(f"{ADDITIVE}{name}" for name in STATIONARY_KERNELS)
KERNEL_NAMES = (*STATIONARY_KERNELS, "linear", "item", "pair", *ADDITIVE_KERNELS)
# What can have columns in brackets.
OF_COLUMNS = (*STATIONARY_KERNELS, "linear")
IN_TIME = "item-in-time"
# By name, the class of `spg.markov`.
MARKOV_KERNELS = {
    "wiener": "Wiener",
    "matern12": "Matern12",
    "matern32": "Matern32",
    "constant": "Constant",
}
# What has a kernel in brackets: with how much at most, and an example.
_AROUND = {
    "iso": (2, "iso(matern52) or iso(matern52, 10)"),
    "ard": (1, "ard(matern52)"),
    "projected": (3, "projected(matern52, 4) or projected(matern52, 4, 10)"),
    IN_TIME: (2, f"{IN_TIME}(wiener) or {IN_TIME}(wiener, month)"),
}
# What a projection has where its number of directions is left out.
DIRECTIONS = 4
_T = TypeVar("_T")
_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s()+*,\"'])+")


class Term:
    """Of the tree of a kernel; what is said here holds unless a class says otherwise."""

    columns: tuple[str, ...] = ()
    """Those that it names, each once."""
    name, ard, directions, moves, in_context = "", False, 0, False, False

    @property
    def is_linear(self) -> bool:
        return self.name == "linear"

    @property
    def is_additive(self) -> bool:
        """Whether it is a sum over groups of features."""
        return self.name.startswith(ADDITIVE)

    @property
    def of_each_item(self) -> bool:
        """Whether it is an effect of items by themselves or in time."""
        return self.moves or self == ITEM

    @property
    def of_items(self) -> bool:
        """Whether it is an effect of items, by themselves, in a context or in time."""
        return self.of_each_item or self.in_context


@dataclass(frozen=True)
class Plain(Term):
    """A kernel by its name, or without one a column that stands for a kernel next to `item`."""

    name: str
    columns: tuple[str, ...] = ()
    """Those that it sees; none are all features."""
    iso: bool = False
    """Whether its features share a lengthscale, at first if it is `ard`."""
    ard: bool = False
    """Whether each column gets a lengthscale of its own from the optimum of one for all."""
    directions: int = 0
    """Onto how many learned directions its features are projected; 0 for themselves."""
    leading: int = 0
    """Of how many of the first features; 0 for all."""

    def __str__(self) -> str:
        columns = ", ".join(map(_written, self.columns))
        if not self.name:
            return columns
        inside = f"({columns})" if columns else ""
        first = f", {self.leading}" if self.leading else ""
        if self.directions:
            return f"projected({self.name}{inside}, {self.directions}{first})"
        around = "ard" if self.ard else "iso" if self.iso else ""
        return f"{around}({self.name}{inside}{first})" if around else f"{self.name}{inside}"


@dataclass(frozen=True)
class Moving(Term):
    """A utility of each item that moves in time."""

    moves = True

    kernels: tuple[str, ...]
    """Names of Markov kernels, which are added."""
    slices: str = AUTO
    """Of time in which duels are taken together."""

    def __str__(self) -> str:
        slices = "" if self.slices == AUTO else f", {self.slices}"
        return f"{IN_TIME}({'+'.join(self.kernels)}{slices})"


@dataclass(frozen=True)
class _Several(Term):
    parts: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of all parts."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))


class Product(_Several):
    """Of two factors or more; an item comes first."""

    @property
    def in_context(self) -> bool:  # type: ignore[override]
        """Whether it is an effect of items in a context."""
        return self.parts[0] == ITEM

    def __str__(self) -> str:
        return "*".join(f"({x})" if isinstance(x, Sum) else str(x) for x in self.parts)


class Sum(_Several):
    """Of two terms or more."""

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))


ITEM = Plain("item")
PAIR = Plain("pair")


def parsed(text: str) -> tuple[Term, ...]:
    """The terms of the sum that a text describes.

    A product of `item` and a sum alone is the sum of the products.

    :raises ValueError: a text that is none of the grammar, with the place; an unknown name, with
        the nearest one; a term twice.
    """
    terms = _Reader(text.strip()).whole()
    moving = sorted((term for term in terms if term.of_each_item), key=lambda term: term == ITEM)
    if len(moving) > 1:
        raise ValueError(
            f"The kernel {text!r} has {moving[0]} and {moving[1]}, of which duels see only the "
            f"sum; keep one of them, or add them up in brackets, as {IN_TIME}(constant+matern12)."
        )
    return terms


def nearest(name: str, names: Iterable[str]) -> str:
    """The beginning of a sentence about the name that is meant, or nothing."""
    near = spelt_like(name, names, cutoff=0.5)
    return f"did you mean {near}? Otherwise " if near else ""


def split_outside(text: str, mark: str) -> list[str]:
    """The parts between marks that stand in no brackets and no quotes, without outer blanks."""
    parts, depth = [""], 0
    for token in re.findall(r"\"[^\"]*\"|'[^']*'|.", text, re.DOTALL):
        depth += (token == "(") - (token == ")")
        if token == mark and depth <= 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def listed(text: str) -> list[str]:
    """Kernels, or what begins with one, separated by commas, as `support/options.py: names`."""
    return split_outside(text, ",")


class _Reader:
    """Makes terms of the tree that Python's parser makes of a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def whole(self) -> tuple[Term, ...]:
        names = _WORD.sub(lambda word: "x" * len(word[0]), re.sub(r"\s", " ", self._text))
        if not names or names[-1] in "(+*,":
            self._refuse(len(names), "a kernel is missing")
        try:
            return self._once(self._terms(ast.parse(names, mode="eval").body))
        except SyntaxError as error:
            start, end = (error.offset or 1) - 1, (error.end_offset or 0) - 1
            unexpected = f"{self._text[start:end]!r} is not expected; quote names with blanks"
            known = error.msg.partition(" (detected")[0]
            self._refuse(start, unexpected if known.startswith("invalid") else known)
        except (MemoryError, RecursionError):
            self._refuse(0, "it is too long")

    def _terms(
        self, node: ast.expr, inside: bool = False, of_item: bool = False
    ) -> tuple[Term, ...]:
        """Those of a sum.

        :param inside: it stands in a product.
        :param of_item: that product is with `item`.
        """
        terms: list[Term] = []
        for product in _operands(node, ast.Add):
            operands = _operands(product, ast.Mult)
            if len(operands) == 1:
                terms.append(self._factor(product, inside, of_item))
                continue
            others = [one for one in operands if self._source(one).lower() != "item"]
            items = (ITEM,) * (len(operands) - len(others))
            factors = [self._terms(one, True, of_item or bool(items)) for one in others]
            if items and len(factors) == 1:
                parts = [x.parts if isinstance(x, Product) else (x,) for x in factors[0]]
            else:
                parts = [tuple(x[0] if len(x) == 1 else Sum(x) for x in factors)]
            for part in parts:
                terms.append(Product(self._once((*items, *part))) if items else Product(part))
        return tuple(terms)

    def _factor(self, node: ast.expr, inside: bool = False, of_item: bool = False) -> Term:
        arguments = node.args if isinstance(node, ast.Call) and not node.keywords else []
        called = node.func if isinstance(node, ast.Call) and arguments else node
        word, name = self._word(called), spelt(KERNEL, self._source(called))
        known = (*KERNEL_NAMES, *own(KERNEL))
        term: Term
        if name in _AROUND:
            most, example = _AROUND[name]
            if not 0 < len(arguments) <= most:
                self._refuse(node, f"write {name} as {example}")
            make = self._moving if name == IN_TIME else partial(self._around, name)
            term = make(*arguments)
        elif name in known:
            if arguments and name in KERNEL_NAMES and name not in OF_COLUMNS:
                self._refuse(node, f"{name} takes no columns; {', '.join(OF_COLUMNS)} do")
            term = Plain(name, self._once(tuple(map(self._word, arguments))))
        elif of_item and not arguments:
            return Plain("", (word,))
        else:
            where = "" if word == self._text else f" in {self._text!r}"
            raise ValueError(
                f"The kernel {word!r}{where} is unknown; {nearest(word.lower(), known)}"
                f"choose from {', '.join(known)}, a sum such as linear+matern52, or --import its "
                "module; columns stand in brackets, as linear(price), or in a product with item."
            )
        if inside and (term.ard or term.name not in (*OF_COLUMNS, *own(KERNEL))):
            effects = ", or item*surface for effects in a context" if term == ITEM else ""
            raise ValueError(
                f"The kernel {self._text!r} has {term} inside a product; write it as a term of its "
                f"own, as in linear+{term}{effects}."
            )
        return term

    def _around(self, name: str, inner: ast.expr, *sizes: ast.expr) -> Plain:
        kernel = self._factor(inner)
        if str(kernel).split("(")[0] not in STATIONARY_KERNELS:
            self._refuse_other(inner, name, STATIONARY_KERNELS)
        assert isinstance(kernel, Plain)
        for size in sizes:
            if not re.fullmatch("0*[1-9][0-9]*", self._source(size)):
                self._refuse_other(size, name, ["numbers of at least 1"])
        numbers = [int(self._source(size)) for size in sizes]
        directions = (numbers.pop(0) if numbers else DIRECTIONS) if name == "projected" else 0
        if numbers and kernel.columns:
            self._refuse(inner, "name columns or how many lead, not both")
        leading = numbers[0] if numbers else 0
        iso, ard = not directions, name == "ard"
        return replace(kernel, iso=iso, ard=ard, directions=directions, leading=leading)

    def _moving(self, inner: ast.expr, *slices: ast.expr) -> Moving:
        kernels = self._once(
            tuple(self._one_of(one, MARKOV_KERNELS) for one in _operands(inner, ast.Add))
        )
        if kernels == ("constant",) or {"constant", "wiener"} <= {*kernels}:
            why = "does not move" if len(kernels) == 1 else "begins at a level of its own"
            self._refuse(inner, f"{'+'.join(kernels)} {why}; write item, or wiener alone")
        return Moving(kernels, *(self._one_of(one, (AUTO, *SLICES)) for one in slices))

    def _one_of(self, node: ast.expr, names: Iterable[str]) -> str:
        name = self._source(node).lower()
        if name not in names:
            self._refuse_other(node, IN_TIME, names)
        return name

    def _word(self, node: ast.expr) -> str:
        """A name, without its quotes."""
        text = self._source(node)
        if not isinstance(node, ast.Name) or not re.fullmatch(r"\"[^\"]*\"|'[^']*'|[^\"']*", text):
            self._refuse(node, f"{text!r} is not expected; quote names with blanks")
        return text[1:-1] if text[0] in "\"'" else text

    def _once(self, parts: tuple[_T, ...]) -> tuple[_T, ...]:
        if len({*parts}) < len(parts):
            repeated = next(part for k, part in enumerate(parts) if part in parts[:k])
            raise ValueError(f"The kernel {self._text!r} has {repeated} twice; once is enough.")
        return parts

    def _source(self, node: ast.expr) -> str:
        return self._text[node.col_offset : node.end_col_offset]

    def _refuse_other(self, node: ast.expr, name: str, names: Iterable[str]) -> NoReturn:
        source = self._source(node)
        near = nearest(source, names).removesuffix(" Otherwise ")
        what = f"{name} takes {', '.join(names)}, not {source!r}{near and '; '}{near}"
        self._refuse(node, what)

    def _refuse(self, place: ast.expr | int, why: str) -> NoReturn:
        """:param place: a character, from 0, or where a node begins."""
        at = place if isinstance(place, int) else place.col_offset
        raise ValueError(
            f"The kernel {self._text!r} cannot be read at character {at + 1}: {why}; write, for "
            "example, linear+matern52(price, age) or item+item*surface."
        )


def _operands(node: ast.expr, kind: type[ast.operator]) -> list[ast.expr]:
    """From left to right, of those operators that stand in no others."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        return [*_operands(node.left, kind), *_operands(node.right, kind)]
    return [node]


def _written(column: str) -> str:
    """A column as it can be read again."""
    plain = column and not re.search(r"[\s()+*,/\"']", column)
    if plain and spelt(KERNEL, column) not in (*KERNEL_NAMES, *_AROUND, *own(KERNEL)):
        return column
    return f"'{column}'" if '"' in column else f'"{column}"'
