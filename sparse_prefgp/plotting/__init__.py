"""Pictures, each a function on a matplotlib axis that it also returns.

Without `ax` a figure of its own is made, outside pyplot: `ax.figure.savefig("picture.png")` writes
it, and the last line `ax.figure` of a notebook's cell shows it. No global style is changed.
"""

from sparse_prefgp.plotting.features import any_matters as any_matters
from sparse_prefgp.plotting.features import coefficients as coefficients
from sparse_prefgp.plotting.features import feature_relevance as feature_relevance
from sparse_prefgp.plotting.features import relevance as relevance
from sparse_prefgp.plotting.in_time import trajectories as trajectories
from sparse_prefgp.plotting.items import all_are_inducing as all_are_inducing
from sparse_prefgp.plotting.items import inducing_inputs as inducing_inputs
from sparse_prefgp.plotting.items import utilities as utilities
from sparse_prefgp.plotting.people import person as person
from sparse_prefgp.plotting.people import tastes as tastes
from sparse_prefgp.plotting.quality import abstention as abstention
from sparse_prefgp.plotting.quality import evidence as evidence
from sparse_prefgp.plotting.quality import reliabilities as reliabilities
from sparse_prefgp.plotting.quality import reliability as reliability
from sparse_prefgp.plotting.sets import shares as shares
from sparse_prefgp.plotting.sets import worth as worth
from sparse_prefgp.plotting.surfaces import probability_to_beat as probability_to_beat
from sparse_prefgp.plotting.surfaces import utility_1d as utility_1d
from sparse_prefgp.plotting.surfaces import utility_2d as utility_2d
