"""Pictures, each a function on a matplotlib axis that it also returns.

Without `ax` a figure of its own is made, outside pyplot: `ax.figure.savefig("picture.png")` writes
it, and the last line `ax.figure` of a notebook's cell shows it. No global style is changed.
"""

from sparse_prefgp.plotting.features import feature_relevance, relevance
from sparse_prefgp.plotting.items import inducing_inputs, utilities
from sparse_prefgp.plotting.quality import evidence, reliability
from sparse_prefgp.plotting.surfaces import probability_to_beat, utility_1d, utility_2d

__all__ = [
    "evidence",
    "feature_relevance",
    "inducing_inputs",
    "probability_to_beat",
    "relevance",
    "reliability",
    "utilities",
    "utility_1d",
    "utility_2d",
]
