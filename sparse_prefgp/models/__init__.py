"""Models: a prior, duels, an approximation and an engine, composed."""

from sparse_prefgp.models.inducing_inputs import kmeans_inputs as kmeans_inputs
from sparse_prefgp.models.likelihood import Probit as Probit
from sparse_prefgp.models.preference_gp import PreferenceGP as PreferenceGP
from sparse_prefgp.models.preference_gp import replace as replace
from sparse_prefgp.models.registry import register as register
from sparse_prefgp.models.terms import Coefficients as Coefficients
from sparse_prefgp.models.terms import EntryLevel as EntryLevel
from sparse_prefgp.models.terms import Lean as Lean
from sparse_prefgp.models.terms import Taste as Taste
from sparse_prefgp.models.terms import Term as Term
