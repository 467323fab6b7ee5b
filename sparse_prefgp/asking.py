"""Which duels to ask next."""

from sparse_prefgp.analysis.suggestion import suggest as suggest
