"""Models: a prior, duels, an approximation and an engine, composed."""

from sparse_prefgp.models.codec import register_kernel
from sparse_prefgp.disk.exporting import export_saved_model
from sparse_prefgp.models.inducing_inputs import kmeans_inputs
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.disk.saving import load, save
from sparse_prefgp.analysis.updating import UpdateReport, update

__all__ = [
    "PreferenceGP",
    "UpdateReport",
    "export_saved_model",
    "kmeans_inputs",
    "load",
    "register_kernel",
    "save",
    "update",
]
