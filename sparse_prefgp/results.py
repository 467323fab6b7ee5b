"""Types of what functions and methods return, and of what callbacks are given."""

from sparse_prefgp.analysis.ahead import AheadScore as AheadScore
from sparse_prefgp.analysis.certificates import EvidenceReport as EvidenceReport
from sparse_prefgp.analysis.consistency import Consistency as Consistency
from sparse_prefgp.analysis.explanation import Explanation as Explanation
from sparse_prefgp.analysis.importance import SampledEvidence as SampledEvidence
from sparse_prefgp.analysis.ranking import Ranking as Ranking
from sparse_prefgp.analysis.suggestion import Suggestions as Suggestions
from sparse_prefgp.analysis.updating import UpdateReport as UpdateReport
from sparse_prefgp.engines import InferenceResult as InferenceResult
from sparse_prefgp.engines import Status as Status
from sparse_prefgp.engines import TruncatedNormalResult as TruncatedNormalResult
from sparse_prefgp.learning.greedy import GreedyReport as GreedyReport
from sparse_prefgp.learning.initial import AutoInputs as AutoInputs
from sparse_prefgp.learning.report import OptimisationReport as OptimisationReport
from sparse_prefgp.learning.report import Progress as Progress
from sparse_prefgp.models.filtering import Filtering as Filtering
from sparse_prefgp.models.in_time import InTimeModel as InTimeModel
from sparse_prefgp.models.inference import Inference as Inference
from sparse_prefgp.models.posterior import Posterior as Posterior
from sparse_prefgp.models.streaming import StreamedResult as StreamedResult
from sparse_prefgp.sampling import PosteriorDraws as PosteriorDraws
from sparse_prefgp.sampling import SamplingCheck as SamplingCheck
from sparse_prefgp.workflow.comparison import Comparison as Comparison
from sparse_prefgp.workflow.leaderboard import Leaderboard as Leaderboard
from sparse_prefgp.workflow.output import FitOutput as FitOutput
