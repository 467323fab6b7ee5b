"""Which duels to ask next."""

from sparse_prefgp.analysis.first_round import first_round as first_round
from sparse_prefgp.analysis.suggestion import suggest as suggest
