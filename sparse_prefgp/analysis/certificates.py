"""What is known about the evidence of a model, from certain to estimated, side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from sparse_prefgp.analysis.importance import SampledEvidence, sample_evidence
from sparse_prefgp.approximations import DTC, Approximation, DuelPrior, Exact
from sparse_prefgp.covariances.kernels import as_float, pair_difference_variance
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines.base import FixedPoint, describe
from sparse_prefgp.evidence import (
    LowerBounds,
    lower_bounds,
    residual_corrections,
    residual_variance,
    why_no_lower_bound,
)
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.sampling import SAMPLED_UP_TO
from sparse_prefgp.support.checks import check_kind, check_number
from sparse_prefgp.support.randomness import seed_of
from sparse_prefgp.support.words import counted, of_the_mode
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table

EXACT_UP_TO = 2000
SAMPLES = 10_000
# By how many nats a duel exact EP's evidence was off at most, with and without ties and with duels
# that repeat one another, by the noise of a difference over its prior variance: from this ratio on
# (docs/method.md, section 3). Measured, not bounded.
EP_ERROR_PER_DUEL = (
    (0.0, 0.1),
    (0.01, 0.049),
    (0.03, 0.034),
    (0.1, 0.018),
    (0.3, 0.007),
    (1.0, 0.0014),
    (3.0, 0.00025),
    (10.0, 0.000025),
)
# At least so much a row of an answer about a set, of which EP is not exact even where utilities are
# equal: best and worst at once of ten are 0.054 too many of 16 rows.
EP_ERROR_PER_ROW_OF_SETS = 0.0034
# A ratio that rounding has put below a step it is on.
_ROUNDING = 1e-9
BOUND_LABELS = {
    "vfe": "VFE",
    "diagonal": "TightVFE, diagonal",
    "block": "TightVFE, block",
    "pairs": "TightVFE, pairs",
    "rank": "TightVFE, rank",
    "logdet": "TightVFE, log-determinant",
}
ROW_LABELS = {
    "expected": "residual in the expectations",
    "diagonal": "residual by duel",
    "block": "residual by set",
    "pairs": "residual by pair",
    "rank": "residual by rank",
    "logdet": "residual by log-determinant",
}


@dataclass(frozen=True)
class EvidenceReport(Result):
    """Evidence of a model and what is certain about it, in nats over all duels."""

    also = ("log_evidence_per_duel", "lower_bound_per_duel", "gap")

    approximation: str
    """Name of the approximation."""
    duels: int
    """Duels of the data, or answers about sets and duels."""
    duels_used: int
    """In `log_evidence`, fewer only for `SubsetOfData`."""
    weight: float
    """As how many duels all of them count, the sum of their weights, by which figures per duel
    divide; without weights the same number.
    """
    weight_used: float
    """As how many duels those in `log_evidence` count."""
    log_evidence: float
    """What EP and the approximation's correction give, and what is optimised."""
    lower_bound: float
    """Rigorous, of the exact evidence; NaN where there is none."""
    lower_bound_row: str
    """Which of `evidence.LowerBounds` it is; empty where there is none."""
    lower_bounds: dict[str, float]
    """All of them, for the model's own q."""
    refitted_bounds: dict[str, float]
    """The same with sites run at noise 2 sigma² alone, which bound better than those of
    approximations that put residual variance there; empty where they are equal.
    """
    bounds: dict[str, float]
    """EP's log evidence of the bounds `vfe`, `diagonal`, `pairs` (of answers about sets `block`),
    `rank` and `logdet` with this Z and these parameters; bounds to EP's own error. Empty without
    inducing inputs.
    """
    exact: float | None
    """Exact EP's log evidence; None where it was not run."""
    exact_converged: bool | None
    """Whether exact EP converged; None where it was not run."""
    sampled: SampledEvidence | None
    """The importance-sampling estimate of the true evidence; None where it was not run."""
    skipped: tuple[str, ...]
    """Why something was not run, one sentence each."""
    warnings: tuple[str, ...]
    """One sentence each."""
    unit: str = "duel"
    """What figures are divided by: a duel, or an answer where some are about sets."""
    at_mode: bool = False
    """Whether hyperparameters are the most likely ones, though the model integrates over them."""

    @property
    def gap(self) -> float:
        """Best estimate of the true evidence (sampled, else exact EP) less the lower bound.

        NaN where neither was run, or there is no bound.
        """
        best = self.exact if self.sampled is None else self.sampled.log_evidence
        return float("nan") if best is None else best - self.lower_bound

    @property
    def log_evidence_per_duel(self) -> float:
        """Of those that are in it, by their weights."""
        return self.log_evidence / self.weight_used

    @property
    def lower_bound_per_duel(self) -> float:
        """By the weights of all."""
        return self.lower_bound / self.weight

    def table(self, most: int | None = None) -> Table:
        """Evidence and bounds in nats, of all and per duel or unit of weight."""
        rows = [(f"log evidence, {self.approximation}", self.log_evidence, self.weight_used)]
        if self.lower_bounds:
            how = f", {ROW_LABELS[self.lower_bound_row]}" if self.bounds else ""
            rows.append((f"lower bound{how}", self.lower_bound, self.weight))
        rows += [
            (f"bound to EP's error, {BOUND_LABELS[name]}", value, self.weight)
            for name, value in self.bounds.items()
        ]
        if self.exact is not None:
            rows.append(("log evidence, exact EP", self.exact, self.weight))
        if self.sampled is not None:
            rows.append(("true log evidence, sampled", self.sampled.log_evidence, self.weight))
        columns = [
            Column("what", "", left=True),
            Column("nats", "nats", ",.3f"),
            Column("each", f"per {self.unit}", ".4f"),
        ]
        values = [{"what": name, "nats": nats, "each": nats / of} for name, nats, of in rows]
        return Table("evidence", "", columns, values)

    def sentences(self) -> list[str]:
        """What else is known, and what was not run."""
        lines = [of_the_mode("Evidence and bounds")] if self.at_mode else []
        if self.sampled is not None:
            s = self.sampled
            lines.append(
                f"Sampled: standard error {s.standard_error:.4f} nats, "
                f"{s.effective_samples:,.0f} effective of {s.samples:,} samples."
            )
        if np.isfinite(self.gap):
            lines.append(
                f"The lower bound is {self.gap:,.3f} nats ({self.gap / self.weight:.4f} per "
                f"{self.unit}) below the best estimate of the true evidence."
            )
        if self.weight != self.duels:
            lines.append(
                f"The {counted(self.duels, self.unit)} count as {self.weight:,.4g}, the sum of "
                f"their weights; figures per {self.unit} are by that."
            )
        lines += self.skipped
        lines += [f"Warning: {text}" for text in self.warnings]
        return lines


def evidence_report(
    model: PreferenceGP,
    *,
    samples: int = SAMPLES,
    rng: np.random.Generator | None = None,
    exact_up_to: int = EXACT_UP_TO,
    sample_up_to: int = 500,
) -> EvidenceReport:
    """Log evidence along with its rigorous lower bound, tighter bounds, exact EP and sampling.

    :param model: with its parameters as they are; its own inference is run if need be.
    :param samples: of `importance_sampling`; 0 samples leaves it out.
    :param rng: of `importance_sampling`.
    :param exact_up_to: exact EP is run for at most so many distinct rows of items (or, where they
        are fewer, distinct duels; rows of answers about sets): O(n³) a sweep, half a minute at
        2,000.
    :param sample_up_to: the truth is sampled for at most so many duels, or rows of answers about
        sets, 2,000 at most.
    :raises ValueError: not a PreferenceGP; 1 sample or a negative number; a limit beyond what
        sampling takes.
    """
    check_kind("model", model, PreferenceGP, "a PreferenceGP")
    if samples != 0:
        check_number("samples", samples, least=2, whole=True, hint=", or 0 to leave sampling out")
    check_number("sample_up_to", sample_up_to, most=SAMPLED_UP_TO)
    mixed, model = model.at_mode is not model, model.at_mode
    graph = model.all_duels
    about_sets, weight = graph.noises is not None, graph.weight
    no_bound = why_no_lower_bound(graph)
    certified = None if no_bound else model.lower_bounds()
    bounds, refitted, bounds_converged = _with_inducing_inputs(model, certified is not None)
    best = certified
    if certified is not None and refitted is not None and refitted.value > certified.value:
        best = refitted
    skipped = [no_bound] if no_bound else []
    exact = converged = sampled = None
    drawn, what = model.duels.num_duels, "duels"
    smaller = min(graph.num_rows, graph.num_sites)
    large = (
        f"{graph.num_rows:,} distinct rows of items and {graph.num_sites:,} distinct duels are both"
    )
    if about_sets:
        smaller, what = int(graph.counts.sum()), "rows of answers"
        drawn, large = smaller, f"{smaller:,} rows of answers are"
    if model.approximation.is_exact:  # has been run already, however large
        exact, converged = model.log_evidence(), model.infer().converged
    elif smaller <= exact_up_to:
        exact, converged = _exact(model)
    else:
        skipped.append(f"Exact EP was not run: {large} more than {exact_up_to:,}.")
    why = ""
    if not samples:
        why = "no samples were asked for."
    elif drawn > sample_up_to:
        why = f"{drawn:,} {what} are more than {sample_up_to:,}."
    else:
        try:
            sampled = sample_evidence(model, samples, seed_of(rng))
        except ValueError as error:  # parameters at which it cannot be
            why = str(error)
    if why:
        skipped.append(f"The true evidence was not sampled: {why}")
    value, own = model.log_evidence(), model.infer()
    warnings = [] if own.converged else [f"Inference did not converge: {own}."]
    if not bounds_converged:
        warnings.append("Inference for the bounds did not converge; only the lower bound is one.")
    report = EvidenceReport(
        approximation=model.approximation.name,
        duels=model.duels.num_duels,
        duels_used=model.num_duels_used,
        weight=weight,
        weight_used=model.graph.weight,
        log_evidence=value,
        lower_bound=float("nan") if best is None else best.value,
        lower_bound_row="" if best is None else best.row,
        lower_bounds={} if certified is None else certified.rows,
        refitted_bounds={} if refitted is None else refitted.rows,
        bounds=bounds,
        exact=exact,
        exact_converged=converged,
        sampled=sampled,
        skipped=tuple(skipped),
        warnings=(),
        unit="answer" if about_sets else "duel",
        at_mode=mixed,
    )
    warnings += _warnings(report, model.approximation, ep_error(model))
    return replace(report, warnings=tuple(warnings))


def _with_inducing_inputs(
    model: PreferenceGP, bounded: bool
) -> tuple[dict[str, float], LowerBounds | None, bool]:
    """EP's value of every bound with this Z, the rigorous bounds of those sites, and whether they
    converged.

    The sites are the model's own where its noise is 2 sigma² already; then None in their place.

    :param bounded: whether there are rigorous ones.
    """
    if not model.approximation.needs_inducing:
        return {}, None, True
    problem = model.problem()
    prior = DTC().prior(problem)
    point, converged = _run(model, prior, problem.graph)
    value = float(point.log_evidence())
    corrections = residual_corrections(problem, residual_variance(problem))
    bounds = {key: value + corrections[key] for key in BOUND_LABELS if key in corrections}
    if not bounded or not model.approximation.sees_residual:
        return bounds, None, converged
    return bounds, lower_bounds(problem, point.sites), converged


def _exact(model: PreferenceGP) -> tuple[float, bool]:
    """Exact EP's log evidence of all duels, and whether it converged."""
    graph = Exact().select(model.all_duels)
    prior = Exact().prior(model.problem()._replace(graph=graph, inducing_variable=None))
    point, converged = _run(model, prior, graph)
    return float(point.log_evidence()), converged


def _run(model: PreferenceGP, prior: DuelPrior, graph: DuelGraph) -> tuple[FixedPoint, bool]:
    """The model's engine on another prior, from the model's sites where they are of this graph."""
    sites = Sites.zeros(graph.num_sites, prior.factors.upper.dtype)
    nu, tau = model.inference.sites()
    if graph is model.graph and np.all(np.isfinite(nu)) and np.all(np.isfinite(tau)):
        sites = Sites(tf.constant(nu), tf.constant(tau))
    point = model.engine.run(prior.covariance, prior.factors, sites)
    return point, describe(point, model.engine.tolerance, prior.correction).converged


def ep_error(model: PreferenceGP) -> float:
    """By how much exact EP's log evidence of all duels of a model may be off, in nats.

    The largest error that was measured at the noise of each duel, or each row of an answer about a
    set (`EP_ERROR_PER_DUEL`, `EP_ERROR_PER_ROW_OF_SETS`), summed.
    """
    graph = model.all_duels
    problem = model.problem()._replace(graph=graph)
    ends = (as_float(graph.rows[side]) for side in (graph.winners, graph.losers))
    prior = pair_difference_variance(problem.kernel, *ends).numpy()
    typical = float(np.average(prior, weights=graph.counts))
    starts, errors = np.array(EP_ERROR_PER_DUEL).T
    noise = problem.noise.numpy()
    # Without any prior variance each duel is a coin, and EP exact.
    ratio = noise / typical if typical > 0.0 else np.full_like(noise, np.inf)
    step = np.searchsorted(starts, ratio * (1.0 + _ROUNDING), side="right") - 1
    found = errors[step]
    if graph.noises is not None:
        several = np.bincount(graph.noises.look)[graph.noises.look] > 1
        found = np.where(several, np.maximum(found, EP_ERROR_PER_ROW_OF_SETS), found)
    return float(graph.counts @ found)


def _warnings(report: EvidenceReport, approximation: Approximation, error: float) -> list[str]:
    """About exact EP, sampling, subsets, and evidence above what can be."""
    found, exact, sampled = [], report.exact, report.sampled
    if exact is not None and not report.exact_converged:
        found.append("Exact EP did not converge; its log evidence is only what it had reached.")
    if sampled is not None and not sampled.reliable:
        found.append(sampled.doubt)
    if not approximation.uses_all_duels:
        found.append(
            "The log evidence is that of the subset of duels and does not compare with the other "
            "figures, which are about all duels."
        )
    if approximation.is_bound or not approximation.uses_all_duels:
        return found
    how, unless = "where it was measured at such noise", ""
    if sampled is not None and sampled.reliable:
        against, what, how = sampled.log_evidence, "the true evidence", "here"
        error = 4.0 * sampled.standard_error
        if exact is not None:
            error += abs(exact - sampled.log_evidence)
    elif exact is not None:
        against, what = exact, "exact EP"
    else:
        against, what = report.lower_bound, "the certified value"
        unless = ", unless the bound is loose"
    over = report.log_evidence - against
    if over > error:
        found.append(
            f"The log evidence of {approximation.name} lies {over:,.2f} nats "
            f"({over / report.weight:.4f} per {report.unit}) above {what}, more than EP's own "
            f"error explains, up to {error:,.2g} nats {how}: a sign of overfitting{unless}. Judge "
            "this model by held-out duels, not by its evidence."
        )
    return found
