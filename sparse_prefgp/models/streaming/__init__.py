"""Duels in parts: each works on its own duels, and only sums over inducing inputs are shared."""

from sparse_prefgp.models.streaming.model import StreamedGP, StreamedResult
from sparse_prefgp.models.streaming.rounds import Round

__all__ = ["Round", "StreamedGP", "StreamedResult"]
