"""What is kept of a thing in files: plain values for JSON, and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.support.arrays import AnyArray


class Kept:
    """Things are equal where what is kept of them is."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; floats keep every bit. The rest is in `arrays`."""
        raise NotImplementedError

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by name."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) or self.to_dict() != other.to_dict():
            return False
        mine, theirs = self.arrays(), other.arrays()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(str(self.to_dict()))


def in_tuples(value: Any) -> Any:
    """Plain values whose lists are tuples."""
    return tuple(map(in_tuples, value)) if isinstance(value, list | tuple) else value
