"""Models: a prior, duels, an approximation and an engine, composed."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.models import checks as checks
    from sparse_prefgp.models import outcomes as outcomes
    from sparse_prefgp.models.inducing_inputs import kmeans_inputs as kmeans_inputs
    from sparse_prefgp.models.preference_gp import PreferenceGP as PreferenceGP
    from sparse_prefgp.models.registry import register as register

__getattr__, __dir__ = public(__name__)
