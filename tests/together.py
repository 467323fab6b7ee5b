"""What a sentence of the table of what cannot go together says, for the tests that meet it.

Each test of a combination names its row by these.
"""

from __future__ import annotations

import re

import pytest

from sparse_prefgp.support.together import TABLE


def sentence(one: str, other: str) -> str:
    """What the sentence says behind what the two are called, whichever comes first."""
    instead = TABLE.get(one, {}).get(other) or TABLE[other][one]
    return f" do not go together: {instead}."


def apart(one: str, other: str) -> str:
    """The same as a pattern."""
    return re.escape(sentence(one, other))


def refused(one: str, other: str) -> pytest.RaisesExc[ValueError]:
    """What is asked in here does not go together."""
    return pytest.raises(ValueError, match=apart(one, other))
