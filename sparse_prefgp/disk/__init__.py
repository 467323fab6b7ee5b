"""Folders as they lie on the disk: models, checkpoints, output."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.disk import saving as saving

__getattr__, __dir__ = public(__name__)
