"""How far a model's engine is from the exact posterior, on its own data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gpflow.models import BayesianModel

from sparse_prefgp.sampling.draws import (
    ESS_PER_CHAIN,
    LARGEST_RHAT,
    PosteriorDraws,
    Summary,
    sample_posterior,
)
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_kind
from sparse_prefgp.support.words import of_the_mode
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table


@dataclass(frozen=True)
class Deviation:
    """Of a figure over pairs: root mean square and largest absolute, engine less sampler."""

    rmse: float
    largest: float
    monte_carlo: float
    """Root mean square of the sampler's own standard errors, which is what the first is about where
    the engine makes no error at all.
    """


@dataclass(frozen=True)
class PairsCheck:
    """Deviations on some pairs; skewness is the sampler's own, as every engine has 0."""

    pairs: int
    mean: Deviation
    sd: Deviation
    probability: Deviation
    skewness: Deviation
    rhat: float
    """Largest R-hat of the sampler's means."""
    ess: float
    """Smallest bulk effective sample size of the sampler's means."""


@dataclass(frozen=True, eq=False, repr=False)
class SamplingCheck(Result):
    """An engine next to draws of the exact posterior, `print` shows it as a table."""

    also, aside = ("largest_rhat", "smallest_ess", "converged"), ("draws",)

    engine: str
    """Engine that was checked."""
    approximation: str
    """Approximation that was checked."""
    engine_converged: bool
    """Whether the engine's inference converged."""
    own: PairsCheck
    """Check on the pairs of the model's duels."""
    new: PairsCheck | None
    """Check on the pairs given, None without."""
    draws: PosteriorDraws
    """The sampler's, with R-hat and effective sample sizes."""
    notes: tuple[str, ...]
    """What to know about the figures, one sentence each."""

    @property
    def converged(self) -> bool:
        """Whether the chains have, in every v and in the mean of every pair."""
        return self.draws.converged and not self._doubtful

    @property
    def _doubtful(self) -> list[tuple[str, PairsCheck]]:
        """Pairs of whose means the chains do not agree."""
        least = ESS_PER_CHAIN * len(self.draws.v)
        return [
            (name, pairs)
            for name, pairs in self._pairs
            if not (pairs.rhat <= LARGEST_RHAT and pairs.ess >= least)
        ]

    @property
    def _pairs(self) -> list[tuple[str, PairsCheck]]:
        return [("own", self.own), *([] if self.new is None else [("new", self.new)])]

    @property
    def largest_rhat(self) -> float:
        """Of the sampler's v."""
        return float(np.max(self.draws.rhat))

    @property
    def smallest_ess(self) -> float:
        """Of the sampler's v, in bulk."""
        return float(np.min(self.draws.ess))

    def table(self, most: int | None = None) -> Table:
        """Deviations on both sets of pairs."""
        chains, draws, duels = self.draws.v.shape
        title = (
            f"{self.engine} with {self.approximation} against {chains * draws:,} draws of the "
            f"exact posterior given {duels:,} duels"
        )
        columns = [
            Column("what", "f(a) - f(b)", left=True),
            Column("rmse", "RMSE", ".5f"),
            Column("largest", "largest", ".5f"),
            Column("monte_carlo", "Monte Carlo", ".5f"),
        ]
        named = {
            "mean": "posterior mean",
            "sd": "posterior sd",
            "probability": "duel probability",
            "skewness": "skewness (the engine has none)",
        }
        parts = [
            (
                f"{label} pairs ({part.pairs:,})",
                [{"what": what, **vars(getattr(part, key))} for key, what in named.items()],
            )
            for label, part in self._pairs
        ]
        return Table("sampling", title, columns, parts=parts)

    def sentences(self) -> list[str]:
        """What to know about the figures."""
        return [
            *self.notes,
            *(
                f"The chains have NOT converged on the {name} pairs: largest R-hat "
                f"{part.rhat:.4f}, smallest bulk effective sample size {part.ess:,.0f}; take more "
                "draws."
                for name, part in self._doubtful
            ),
        ]


def check_against_sampling(
    model: Any,
    Xa: Any = None,
    Xb: Any = None,
    *,
    num_draws: int = 2000,
    rng: np.random.Generator | None = None,
    chains: int = 4,
    draws: PosteriorDraws | None = None,
    people: Any = None,
) -> SamplingCheck:
    """How far engine and approximation are from the exact posterior, by draws from it.

    (docs/method.md, section 11)

    :param model: a `PreferenceGP`, whose approximation and engine are checked, at its parameters as
        they are.
    :param Xa: (N, D) first items of new pairs to check on besides the model's own.
    :param Xb: (N, D) their second items.
    :param num_draws: of each chain.
    :param rng: of all draws.
    :param chains: how many, at least 2.
    :param draws: in place of rng, what `sample_posterior` drew for another engine on the same
        duels, kernel, mean and noise.
    :param people: whose utility the new pairs are of, as for `predict_difference`.
    :raises ValueError: a view or a stream; one of Xa and Xb without the other; both or neither of
        rng and draws; more than 2,000 duels, draws of another posterior, and what else
        `sample_posterior` raises.
    """
    check_kind("model", model, BayesianModel, "a PreferenceGP")
    assert model.graph is not None  # refuses a stream
    model.allow(check_against_sampling=True, view=model.view is not type(model).view)
    # That of the mode is the posterior that is checked.
    mixed, model = model.at_mode is not model, model.at_mode
    if (rng is None) == (draws is None):
        raise ValueError(
            "Give rng, such as np.random.default_rng(0), to draw, or draws that there are already."
        )
    if (Xa is None) != (Xb is None):
        raise ValueError("Xa and Xb are the two sides of pairs; give both, or neither.")
    if draws is not None:
        draws.check_of(model)
    else:
        assert rng is not None
        draws = sample_posterior(model, num_draws, rng, chains=chains)
    inferred = model.infer()
    graph = draws.graph
    rows, who = graph.rows, None
    if model.people.names:  # rows end with the person
        assert graph.people is not None
        rows, who = rows[:, :-1], [model.people.names[i] for i in graph.people]
    own = _compare(model, rows[graph.winners], rows[graph.losers], draws.own_duels(), who)
    new = None
    if Xa is not None:
        new = _compare(model, Xa, Xb, draws.difference(Xa, Xb, people), people)
    approximation, notes = model.approximation, [str(draws)]
    if mixed:
        notes.append(of_the_mode("Posterior and draws"))
    if not inferred.converged:
        notes.append(f"The engine did not converge: {inferred}.")
    if approximation.needs_inducing:
        notes.append(
            f"The differences hold the error of {approximation.name} and its inducing inputs as "
            "well as the engine's; Exact() would show the engine's alone."
        )
    elif not approximation.uses_all_duels:
        notes.append("The model uses a subset of the duels, the exact posterior all of them.")
    return SamplingCheck(
        engine=model.engine.label,
        approximation=approximation.name,
        engine_converged=inferred.converged,
        own=own,
        new=new,
        draws=draws,
        notes=tuple(notes),
    )


def _compare(model: Any, Xa: Any, Xb: Any, truth: Summary, people: Any) -> PairsCheck:
    mean, variance = (x.numpy() for x in model.predict_difference(Xa, Xb, people=people))
    sd = np.sqrt(np.maximum(variance, 0.0))
    probability = model.predict_duel(Xa, Xb, people=people).numpy()
    return PairsCheck(
        pairs=len(truth.mean),
        mean=_deviation(mean - truth.mean, truth.mean_error),
        sd=_deviation(sd - truth.sd, truth.sd_error),
        probability=_deviation(probability - truth.probability, truth.probability_error),
        skewness=_deviation(truth.skewness, truth.skewness_error),
        rhat=float(np.max(truth.rhat)),
        ess=float(np.min(truth.ess)),
    )


def _deviation(difference: FloatArray, error: FloatArray) -> Deviation:
    return Deviation(
        float(np.sqrt(np.mean(difference**2))),
        float(np.max(np.abs(difference))),
        float(np.sqrt(np.mean(error**2))),
    )
