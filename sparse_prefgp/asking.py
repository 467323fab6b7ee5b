"""Which duels to ask next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.analysis.suggestion import suggest as suggest

__getattr__, __dir__ = public(__name__)
