"""Models: a prior, duels, an approximation and an engine, composed."""

from sparse_prefgp.models.inducing_inputs import kmeans_inputs as kmeans_inputs
from sparse_prefgp.models.preference_gp import PreferenceGP as PreferenceGP
from sparse_prefgp.models.registry import register as register
