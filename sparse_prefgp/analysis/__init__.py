"""What a fitted model says: rankings, predictions, scores and reasons."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.analysis import answers as answers
    from sparse_prefgp.analysis import forecasts as forecasts
    from sparse_prefgp.analysis import history as history
    from sparse_prefgp.analysis import people as people
    from sparse_prefgp.analysis import projection as projection
    from sparse_prefgp.analysis import ranking as ranking
    from sparse_prefgp.analysis import rivals as rivals
    from sparse_prefgp.analysis import scoring as scoring

__getattr__, __dir__ = public(__name__)
