"""Duels in parts: each works on its own duels, and only sums over inducing inputs are shared."""

from sparse_prefgp.models.streaming.inference import StreamProgress as StreamProgress
from sparse_prefgp.models.streaming.model import StreamedGP as StreamedGP
from sparse_prefgp.models.streaming.model import StreamedResult as StreamedResult
from sparse_prefgp.models.streaming.rounds import Round as Round
