"""Duels in parts: each works on its own duels, and only sums over inducing inputs are shared."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.models.streaming.inference import StreamProgress as StreamProgress
    from sparse_prefgp.models.streaming.model import StreamedGP as StreamedGP
    from sparse_prefgp.models.streaming.model import StreamedResult as StreamedResult
    from sparse_prefgp.models.streaming.rounds import Round as Round

__getattr__, __dir__ = public(__name__)
