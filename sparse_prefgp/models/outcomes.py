"""Labels of new duels, such as who judged, by the numbers that a model has for them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.io.files import id_text
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.checks import one_each
from sparse_prefgp.support.words import shortened

# What is done about labels that a model does not know.
LEANS, NOISE = "its lean is averaged over the prior", "noise is averaged over the prior"


def label_columns(model: Any, columns: Any) -> tuple[str, ...]:
    """The columns of a table whose labels lean in a model."""
    return tuple(column for column in model.terms.labels if column in columns)


def known_codes(
    codes: Codes,
    names: tuple[Hashable, ...],
    one: str,
    then: str,
    often: npt.NDArray[Any] | None = None,
) -> Codes:
    """Labels by the numbers that a model has for them, -1 for those that it does not know, of which
    one warning is given; of a label None none is.

    Labels are compared as they are, else as text: 7 and "7" are one group.

    :param names: those of the model.
    :param one: of them is, and `then` what is done about unknown ones.
    :param often: (e,) how often each was said, where these are the duels of a stream.
    """
    if codes.names == names:
        return codes._replace(numbers=codes.numbers.astype(np.int64))
    number = np.maximum(codes.numbers, -1)
    found = np.append(places_of(codes.names, names), -1)[number]
    named = np.array([*(name is not None for name in codes.names), False])[number]
    unknown = np.flatnonzero((found < 0) & named)
    if unknown.size:
        each, what = (np.ones(len(found), int), "pairs") if often is None else (often, "duels")
        warnings.warn(
            f"The {one} {shortened(codes.names[number[unknown[0]]])} is unknown to the model "
            f"({each[unknown].sum():,} of {each.sum():,} {what} have unknown ones); {then}.",
            stacklevel=4,
        )
    return Codes(found, names, codes.column)


def warn_without_blocks(model: Any, in_chunks: bool = False) -> None:
    """Say that a model with blocks predicts new duels from the inducing values alone, and why."""
    role = model.duels.roles["block"]
    why = f"there is no column {role!r} of their blocks; name it (columns=, --columns block=…)"
    if model.approximation.labels is None:
        why = "k-means, which made the blocks of the model, gives them none"
    elif not model.duels.held:
        why = "a model of streamed duels does not keep what its blocks know"
    elif in_chunks:
        why = "duels that are read in chunks join no block"
    warnings.warn(
        f"These duels are predicted from the inducing values alone, since {why}.", stacklevel=4
    )


def known_blocks(model: Any, events: Answers) -> Codes | None:
    """The blocks of duels by the numbers that the approximation has for them, as `known_codes`;
    None where it was given none, or the model does not keep what its blocks know.
    """
    labels = model.approximation.labels
    if events.block is None or labels is None or not model.duels.held or events.has_sets:
        return None
    then = "these duels are predicted from the inducing values alone"
    return known_codes(events.block, labels, "block", then)


def group_numbers(model: Any, groups: Any, pairs: int | None) -> IntArray | None:
    """The number of each pair's group, (pairs,), -1 where it is None or unknown, of which a warning
    is given; None where nobody said.

    Labels are compared as they are, else as text: 7 and "7" are one group.

    :param pairs: None while a prediction is compiled.
    :raises ValueError: labels of another length; a model without noise by group.
    """
    if groups is None:
        return None
    together.check(compiled=pairs is None, groups=True)
    assert pairs is not None
    together.check(groups=True, one_noise=model.likelihood.noise_ratio is None)
    return numbers_of(groups, pairs, model.duels.group_names or (), "groups", "group", NOISE)


def numbers_of(
    given: Any, pairs: int, names: Sequence[Hashable], what: str, one: str, then: str
) -> IntArray:
    """The place of each pair's label, (pairs,), -1 where it is None or unknown.

    :param what: the labels are, and `one` of them.
    :param then: what is done about unknown ones.
    """
    codes = Codes.of(one_each(what, given, pairs).tolist())
    return known_codes(codes, tuple(names), one, then).numbers


def places_of(labels: Sequence[Hashable], names: Sequence[Hashable]) -> IntArray:
    """The place of each label among some names, (k,), -1 where it is None or none of them.

    Labels are compared as they are, else as text: 7 and "7" are one group.
    """
    known: dict[Hashable, int] = {id_text(name): i for i, name in enumerate(names)}
    known.update({name: i for i, name in enumerate(names)})
    known.update({None: -1})
    return np.array([known.get(x, known.get(id_text(x), -1)) for x in labels], dtype=np.int64)
