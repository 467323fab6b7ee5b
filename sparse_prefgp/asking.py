"""Which duels to ask next."""

from sparse_prefgp.analysis.challenger import hallucination_believer as hallucination_believer
from sparse_prefgp.analysis.suggestion import suggest as suggest
