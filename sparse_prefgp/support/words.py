"""Numbers and values in sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Control characters, by which a text could steer a terminal.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
# The same but for ends of lines and tabs, and what turns the direction of writing.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What a spreadsheet takes for a formula begins so, unless it is a number.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]\d*([.,]\d+)*([eE][+-]?\d+)?")
# Spellings that are compared in about a second.
_MOST_COMPARED = 50_000


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 duel`, `1,200 duels`; the plural takes an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def agreeing(number: int, one: str = "is", more: str = "are") -> str:
    """The verb of so many things."""
    return one if number == 1 else more


def of_the_mode(what: str) -> str:
    """What is to be known of figures of one model where hyperparameters are not integrated out.

    :param what: these figures, in the plural, as a sentence begins.
    """
    return (
        f"{what} are those at the most likely hyperparameters, and leave out what is not known of "
        "these."
    )


def one_of(names: Sequence[str], given: Sequence[str]) -> str:
    """That one of these arguments is to be given, and not what was.

    :param names: of arguments, which are options too.
    """
    ways = [f"{dashed(name)} (--{dashed(name)} FILE, {name}=)" for name in names]
    problem = f"{' and '.join(map(dashed, given))} were given" if given else "none was given"
    return f"Give one of {', '.join(ways[:-1])} and {ways[-1]}; {problem}."


def dashed(name: str) -> str:
    """The name of an argument as that of an option."""
    return name.replace("_", "-")


def listing(columns: Iterable[Any]) -> str:
    """At most twenty names, for a message."""
    names = [str(column) for column in columns]
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def shortened(value: Any) -> str:
    """How a message shows a value that may be very long."""
    if isinstance(value, int) and abs(value) >= 10**40:
        # Python refuses to write out integers of several thousand digits.
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, np.generic):
        value = value.item()
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return repr(text) if isinstance(value, str) else text


def squeezed(name: str) -> str:
    """The same for all spellings of a name that differ in capitals, blanks and marks alone."""
    return re.sub(r"[\s_.-]", "", name).casefold()


def escaped(text: str) -> str:
    """A text that steers no terminal: control characters in it, but ends of lines, as `\\x1b`."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def spelling(name: str) -> str:
    """The same for names that look alike: in capitals, blanks, Unicode form or characters of no
    width they may differ."""
    plain = "".join(
        x for x in unicodedata.normalize("NFKC", name) if unicodedata.category(x) != "Cf"
    )
    return "".join(plain.casefold().split())


def guarded(value: Any) -> Any:
    """A cell of a CSV file: a text that a spreadsheet would take for a formula has an apostrophe
    before it, which `unguarded` takes off again."""
    risky = isinstance(value, str) and len(value) > 1 and value.startswith(_FORMULA)
    return f"'{value}" if risky and not _NUMBER.fullmatch(value) else value


def unguarded(text: str) -> str:
    """Without the apostrophe of `guarded`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def id_text(value: Any) -> str:
    """An id as text: whole numbers alike whether stored as 3, 3.0 or '3'; missing is empty."""
    if isinstance(value, str):
        return unguarded(value.strip()).strip()
    # pandas' NA first: whether it differs from itself it does not say.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def spelt_like(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of these names that is spelt most like another, whatever its case; None where none
    comes near.

    :param names: of very many, one that differs in case alone.
    :param cutoff: how alike they have to be, from 0 to 1, as for `difflib`.
    """
    folded = {other.casefold(): other for other in names}
    wanted = name.casefold()
    if wanted in folded or len(folded) > _MOST_COMPARED:
        return folded.get(wanted)
    near = get_close_matches(wanted, folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def grouped(names: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """All names that have one key, each in their order."""
    found: dict[K, list[T]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def some_of(names: Sequence[str], most: int = 10) -> str:
    """The names, or the first of them and how many more there are."""
    rest = len(names) - most
    # "and 1 more" is no shorter than the name.
    if rest <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {rest} more"


def and_so(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
