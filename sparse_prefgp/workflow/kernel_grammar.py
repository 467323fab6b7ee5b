"""The grammar of kernels: what a command line or a configuration writes, as a tree.

    sum      product + product + …
    product  factor * factor * …
    factor   (sum), a kernel, a column, or "a column" in quotes
    kernel   linear, se, matern32, matern52, item, pair, additive-se, …, or a registered one
             kernel(column, column), iso(kernel),
             projected(kernel, directions), projected(kernel, directions, leading),
             item-in-time(in time), item-in-time(in time, slices)
    in time  wiener, matern12, matern32, constant, or in time + in time

Nothing here knows of GPflow; `kernel_names.py` makes kernels of trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

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
_WITH_BRACKETS = ("iso", "projected", IN_TIME)
_EXAMPLES = {
    "iso": "iso(matern52)",
    "projected": "projected(matern52, 4)",
    IN_TIME: f"{IN_TIME}(wiener)",
}
# What a projection has where its number of directions is left out.
DIRECTIONS = 4
_TOKEN = re.compile(
    r"\s*(?:(?P<mark>[()+*,])|(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<word>[^\s()+*,\"']+))"
)
_DEEPEST = 20


@dataclass(frozen=True)
class Plain:
    """A kernel by its name."""

    name: str
    columns: tuple[str, ...] = ()
    """Those that it sees; none are all features."""
    iso: bool = False
    """Whether its features share a lengthscale."""
    directions: int = 0
    """Onto how many learned directions its features are projected; 0 for themselves."""
    leading: int = 0
    """Of how many of the first features; 0 for all."""

    def __str__(self) -> str:
        inside = f"({', '.join(map(_written, self.columns))})" if self.columns else ""
        if self.directions:
            first = f", {self.leading}" if self.leading else ""
            return f"projected({self.name}{inside}, {self.directions}{first})"
        return f"iso({self.name}{inside})" if self.iso else f"{self.name}{inside}"


@dataclass(frozen=True)
class ColumnTerm:
    """A column that stands for a kernel, in a product with `item`."""

    name: str

    def __str__(self) -> str:
        return _written(self.name)


@dataclass(frozen=True)
class Moving:
    """A utility of each item that moves in time."""

    kernels: tuple[str, ...]
    """Names of Markov kernels, which are added."""
    slices: str = AUTO
    """Of time in which duels are taken together."""

    def __str__(self) -> str:
        slices = "" if self.slices == AUTO else f", {self.slices}"
        return f"{IN_TIME}({'+'.join(self.kernels)}{slices})"


@dataclass(frozen=True)
class Product:
    """Of two factors or more; an item comes first."""

    factors: tuple[Term, ...]

    def __str__(self) -> str:
        return "*".join(f"({x})" if isinstance(x, Sum) else str(x) for x in self.factors)


@dataclass(frozen=True)
class Sum:
    """Of two terms or more."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.terms))


Term = Plain | ColumnTerm | Moving | Product | Sum
ITEM = Plain("item")
PAIR = Plain("pair")


def parsed(text: str) -> tuple[Term, ...]:
    """The terms of the sum that a text describes.

    A product of `item` and a sum alone is the sum of the products.

    :raises ValueError: a text that is none of the grammar, with the place; an unknown name, with
        the nearest one; a term twice.
    """
    reader = _Reader(text)
    terms = reader.sum()
    reader.end()
    for term in terms:
        _check(term, text)
        if terms.count(term) > 1:
            raise ValueError(f"The kernel {text!r} has {term} twice; once is enough.")
    moving = [term for term in terms if isinstance(term, Moving)]
    if len(moving) > 1 or (moving and ITEM in terms):
        other = moving[1] if len(moving) > 1 else ITEM
        raise ValueError(
            f"The kernel {text!r} has {moving[0]} and {other}, of which duels see only the sum; "
            f"keep one of them, or add them up in brackets, as {IN_TIME}(constant+matern12)."
        )
    return terms


def columns_of(term: Term) -> tuple[str, ...]:
    """The columns that a term names, each once."""
    if isinstance(term, Plain):
        return tuple(dict.fromkeys(term.columns))
    if isinstance(term, ColumnTerm):
        return (term.name,)
    if isinstance(term, Moving):
        return ()
    inner = term.factors if isinstance(term, Product) else term.terms
    return tuple(dict.fromkeys(name for one in inner for name in columns_of(one)))


def has_item(term: Term) -> bool:
    """Whether a term of a sum is an effect of items, or of items in a context."""
    return term == ITEM or (isinstance(term, Product) and term.factors[0] == ITEM)


def nearest(name: str, names: Iterable[str]) -> str:
    """The beginning of a sentence about the name that is meant, or nothing."""
    near = spelt_like(name, names, cutoff=0.5)
    return f"did you mean {near}? Otherwise " if near else ""


def split_outside(text: str, mark: str) -> list[str]:
    """The parts between marks that stand in no brackets and no quotes, without outer blanks."""
    parts, start, depth, quote = [], 0, 0, ""
    for i, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and letter in text[i + 1 :]:
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == mark and depth <= 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*parts, text[start:])]


def listed(text: str) -> list[str]:
    """Kernels, or what begins with one, separated by commas, as `support/options.py: names`."""
    return split_outside(text, ",")


class _Token(NamedTuple):
    kind: str
    text: str
    place: int
    """Counted from 1."""


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._next, self._depth = text, 0, 0
        self._tokens: list[_Token] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                self._refuse(start + 1, "a quote is not closed")
            kind = str(found.lastgroup)
            inside = found[kind][1:-1] if kind == "quoted" else found[kind]
            self._tokens.append(_Token(kind, inside, found.start(kind) + 1))
            place = found.end()

    def sum(self) -> tuple[Term, ...]:
        terms: list[Term] = []
        while True:
            product = self._product()
            terms += product.terms if isinstance(product, Sum) else (product,)
            if not self._takes("+"):
                return tuple(terms)

    def end(self) -> None:
        token = self._peek()
        if token is not None:
            self._refuse(token.place, f"{token.text!r} is not expected")

    def _product(self) -> Term:
        factors: list[Term] = []
        while True:
            factor = self._factor()
            factors += factor.factors if isinstance(factor, Product) else (factor,)
            if not self._takes("*"):
                break
        if len(factors) == 1:
            return factors[0]
        factors.sort(key=lambda factor: factor != ITEM)
        if len(factors) == 2 and factors[0] == ITEM and isinstance(factors[1], Sum):
            return Sum(tuple(_times_item(term) for term in factors[1].terms))
        return Product(tuple(factors))

    def _factor(self) -> Term:
        token = self._taken("a kernel")
        if token.kind == "quoted":
            return ColumnTerm(token.text)
        if token.text == "(":
            self._depth += 1
            if self._depth > _DEEPEST:
                self._refuse(token.place, f"there are more than {_DEEPEST} brackets in each other")
            terms = self.sum()
            self._closes(token)
            self._depth -= 1
            return terms[0] if len(terms) == 1 else Sum(terms)
        if token.kind == "mark":
            self._refuse(token.place, f"a kernel is missing before {token.text!r}")
        name, bracket, known = spelt(KERNEL, token.text), self._peek(), own(KERNEL)
        if bracket is None or bracket.text != "(" or bracket.kind != "mark":
            if name in _WITH_BRACKETS:
                example = _EXAMPLES[name]
                self._refuse(token.place, f"{name} needs a kernel in brackets, as {example}")
            is_kernel = name in KERNEL_NAMES or name in known
            return Plain(name) if is_kernel else ColumnTerm(token.text)
        self._next += 1
        if name == IN_TIME:
            return self._in_time(bracket)
        if name in ("iso", "projected"):
            inner = self._factor()
            number = leading = 0
            if name == "projected":
                number = self._number("directions", DIRECTIONS)
                leading = self._number("leading features", 0)
            self._closes(bracket)
            plain = isinstance(inner, Plain) and not (inner.iso or inner.directions)
            if not (isinstance(inner, Plain) and plain and inner.name in STATIONARY_KERNELS):
                self._refuse(
                    token.place, f"{name} takes one of {', '.join(STATIONARY_KERNELS)}, not {inner}"
                )
            if leading and inner.columns:
                self._refuse(token.place, "name columns or how many lead, not both")
            return Plain(inner.name, inner.columns, name == "iso", number, leading)
        if name in KERNEL_NAMES and name not in OF_COLUMNS:
            self._refuse(token.place, f"{name} takes no columns; {', '.join(OF_COLUMNS)} do")
        if name not in KERNEL_NAMES and name not in known:
            _unknown(token.text, self._text)
        return Plain(name, self._columns(bracket))

    def _in_time(self, bracket: _Token) -> Moving:
        found: list[str] = []
        while True:
            token = self._taken("a kernel in time")
            name = token.text.lower()
            if token.kind != "word" or name not in MARKOV_KERNELS:
                near = nearest(name, MARKOV_KERNELS).removesuffix(" Otherwise ")
                self._refuse(
                    token.place,
                    f"{IN_TIME} takes {', '.join(MARKOV_KERNELS)} or sums of these, not "
                    f"{token.text!r}{'; ' + near if near else ''}",
                )
            if name in found:
                self._refuse(token.place, f"{name} is there twice")
            found.append(name)
            if not self._takes("+"):
                break
        if found == ["constant"] or {"constant", "wiener"} <= {*found}:
            why = "does not move" if found == ["constant"] else "begins at a level of its own"
            self._refuse(bracket.place, f"{'+'.join(found)} {why}; write item, or wiener alone")
        slices = AUTO
        if self._takes(","):
            token = self._taken("slices of time")
            slices = token.text.lower()
            if slices not in (AUTO, *SLICES):
                self._refuse(
                    token.place, f"slices are {', '.join((AUTO, *SLICES))}, not {token.text!r}"
                )
        self._closes(bracket)
        return Moving(tuple(found), slices)

    def _number(self, of: str, default: int) -> int:
        if not self._takes(","):
            return default
        token = self._taken(f"a number of {of}")
        if not token.text.isdecimal() or int(token.text) < 1:
            self._refuse(token.place, f"{token.text!r} is no number of {of} of at least 1")
        return int(token.text)

    def _columns(self, bracket: _Token) -> tuple[str, ...]:
        found: list[str] = []
        while True:
            token = self._taken("a column")
            if token.kind == "mark":
                self._refuse(token.place, f"a column is missing before {token.text!r}")
            if token.text in found:
                self._refuse(token.place, f"the column {token.text!r} is there twice")
            found.append(token.text)
            if not self._takes(","):
                self._closes(bracket)
                return tuple(found)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, mark: str) -> bool:
        token = self._peek()
        if token is None or token.kind != "mark" or token.text != mark:
            return False
        self._next += 1
        return True

    def _taken(self, wanted: str) -> _Token:
        token = self._peek()
        if token is None:
            self._refuse(len(self._text) + 1, f"{wanted} is missing")
        self._next += 1
        return token

    def _closes(self, bracket: _Token) -> None:
        token = self._peek()
        if token is None:
            self._refuse(bracket.place, "a bracket is not closed")
        if not self._takes(")"):
            self._refuse(token.place, f"{token.text!r} is not expected; quote names with blanks")

    def _refuse(self, place: int, why: str) -> NoReturn:
        raise ValueError(
            f"The kernel {self._text!r} cannot be read at character {place}: {why}; write, for "
            "example, linear+matern52(price, age) or item+item*surface."
        )


def _times_item(term: Term) -> Term:
    rest = term.factors if isinstance(term, Product) else (term,)
    return Product((ITEM, *rest))


def _check(term: Term, text: str, top: bool = True, of_item: bool = False) -> None:
    """Refuse what is no kernel where it stands.

    :param top: it is a term of the whole sum.
    :param of_item: it stands in a product with `item`.
    """
    if isinstance(term, ColumnTerm):
        if not of_item:
            _unknown(term.name, text)
    elif isinstance(term, Plain):
        if not top and term.name in ADDITIVE_KERNELS:
            raise ValueError(
                f"The kernel {text!r} has {term} inside a product; let it be a term of its own, or "
                f"name columns, as {term.name.removeprefix(ADDITIVE)}(price)."
            )
        if not top and term == PAIR:
            raise ValueError(
                f"The kernel {text!r} has pair inside a product; write it as a term, as in se+pair."
            )
        if not top and term == ITEM:
            raise ValueError(
                f"The kernel {text!r} has item in brackets; write it as a term, or "
                "item*surface for effects in a context."
            )
    elif isinstance(term, Moving):
        if not top:
            raise ValueError(
                f"The kernel {text!r} has {term} inside a product; write it as a term, as in "
                f"linear+{term}."
            )
    elif isinstance(term, Product):
        with_item = term.factors[0] == ITEM
        twice = [str(x) for x in term.factors if term.factors.count(x) > 1]
        if with_item and twice:
            raise ValueError(
                f"The kernel {text!r} has {twice[0]} twice in a product; once is enough."
            )
        for factor in term.factors[with_item:]:
            _check(factor, text, top=False, of_item=of_item or with_item)
    else:
        for inner in term.terms:
            _check(inner, text, top=False, of_item=of_item)


def _unknown(name: str, text: str) -> NoReturn:
    where = "" if name == text.strip() else f" in {text!r}"
    known = (*KERNEL_NAMES, *own(KERNEL))
    raise ValueError(
        f"The kernel {name!r}{where} is unknown; {nearest(name.lower(), known)}"
        f"choose from {', '.join(known)}, or a sum such as linear+matern52; columns stand "
        "in brackets, as linear(price), or in a product with item."
    )


def _written(column: str) -> str:
    """A column as it can be read again."""
    plain = column and not re.search(r"[\s()+*,/\"']", column)
    if plain and spelt(KERNEL, column) not in (*KERNEL_NAMES, *_WITH_BRACKETS, *own(KERNEL)):
        return column
    return f"'{column}'" if '"' in column else f'"{column}"'
