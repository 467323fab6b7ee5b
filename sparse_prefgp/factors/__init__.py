"""What one factor of a duel is: truncated normals, expectations, links, sites."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.factors import sites as sites

__getattr__, __dir__ = public(__name__)
