"""What a sentence of the table of what cannot go together says, for the tests that meet it.

Each test of a combination names its row by these, and `test_together.py` looks that none is left
out.
"""

from __future__ import annotations

import re

import pytest

from sparse_prefgp.support.together import TABLE


def sentence(one: str, other: str) -> str:
    """The end of the sentence, behind what the first of the two is called; the second by a `*`."""
    for row in (row for rows in TABLE.values() for row in rows):
        if row.one == one and other in row.others:
            return row.sentence("", "*").partition(" and * ")[2]
    raise KeyError((one, other))


def apart(one: str, other: str) -> str:
    """The same as a pattern."""
    return re.escape(sentence(one, other))


def refused(one: str, other: str) -> pytest.RaisesExc[ValueError]:
    """What is asked in here does not go together."""
    return pytest.raises(ValueError, match=apart(one, other))
