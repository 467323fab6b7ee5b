"""Model selection: hyperparameters and inducing inputs."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.learning import checkpoint as checkpoint
    from sparse_prefgp.learning import initial as initial
    from sparse_prefgp.learning import optimise as optimise
    from sparse_prefgp.learning import report as report
    from sparse_prefgp.learning import tastes as tastes

__getattr__, __dir__ = public(__name__)
