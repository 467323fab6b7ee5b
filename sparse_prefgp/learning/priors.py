"""Weak priors of what is learned, by kinds of parameters: densities of their logarithms.

Standard deviations have half-Student-t priors with four degrees of freedom, whose density of log s
has its mode at the scale and falls as s below and as s^-4 above: neither 0 nor infinity is ever
most likely, however few the duels. (docs/method.md, section 16)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gpflow
import numpy as np
import tensorflow_probability as tfp
from scipy.stats import t as student

from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.covariances.projected import Projected
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.learning.notes import NO_PRIOR
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.parameters import LogParameter, half_t
from sparse_prefgp.support.checks import check_kind
from sparse_prefgp.support.words import id_text

WEAK, NONE = "weak", "none"
PRIORS = (WEAK, NONE)
# Values of a vector that are shown, and moved, one by one.
APART = 8
Z90 = 1.6448536269514722
# Scale of the movement of a utility in a year, in units of the noise of a difference.
DRIFT = 0.5
# Centres of the margin and of a step between cuts, in the same units, and all sds of logs.
MARGIN, STEP, LOG_SD = 0.5, 0.7, 1.0


def default_priors(model: Any) -> tuple[str, ...]:
    """Give weak priors to what is learned and has none.

    In units of the noise of a difference, √(2 sigma²), standard deviations of the terms of a kernel
    have half-t priors of scale 1/√(number of terms), over √D for each of D linear weights;
    lengthscales and other parameters log-normal ones about where they start, in time about half the
    span of the duels, and so have margin and steps of the cuts about 0.5 and 0.7; the movement of a
    Wiener process in a year has a half-t one of scale 0.5, the variance of a term of one's own one
    of where it starts.
    Coefficients, leans, noise and cuts of judges have theirs when they are made.

    :param model: `PreferenceGP` or `StreamedGP`; its parameters become `LogParameter`s of the same
        values.
    :return: what got one, by the paths of `gpflow.utilities.parameter_dict`.
    :raises ValueError: no model.
    """
    check_kind("model", model, DuelGP, "a PreferenceGP or a StreamedGP")
    unit = float(np.sqrt(2.0 * model.likelihood.noise.numpy()))
    new: dict[int, LogParameter] = {}
    taste = model.terms.taste
    for kernel in (model.kernel, *([] if taste is None else [taste])):
        terms = parts_of(kernel)
        for term in terms:
            for owner, name, parameter in _learned(term):
                if id(parameter) not in new:
                    prior, power = _of_kernel(owner, name, parameter, unit, len(terms), model)
                    new[id(parameter)] = LogParameter.of(parameter, prior, power)
                setattr(owner, name, new[id(parameter)])
    for term in model.terms:
        for name, parameter in list(vars(term).items()):
            if name == "variance" and _is_free(parameter):  # of one's own
                scale = np.sqrt(parameter.numpy())
                new[id(parameter)] = LogParameter.of(parameter, half_t(scale), 0.5)
                setattr(term, name, new[id(parameter)])
    likelihood = model.likelihood
    if _is_free(likelihood.margin):
        likelihood.margin = _about(likelihood.margin, MARGIN * unit)
    likelihood.steps = tuple(_about(x, STEP * unit) if _is_free(x) else x for x in likelihood.steps)
    cuts = [x for x in (likelihood.margin, *likelihood.steps) if isinstance(x, LogParameter)]
    named = {id(x): path for path, x in gpflow.utilities.parameter_dict(model).items()}
    return tuple(named[id(x)] for x in (*new.values(), *cuts))


def learned_paths(model: Any) -> list[tuple[str, gpflow.Parameter]]:
    """What a model learns, each once, by its path: without inducing inputs, directions of a
    projection and the parameters of a mean function."""
    fixed = [] if model.inducing_variable is None else [*model.inducing_variable.parameters]
    if model.mean_function is not None:
        fixed += [*getattr(model.mean_function, "parameters", ())]
    fixed += [part.W for part in model.kernel.submodules if isinstance(part, Projected)]
    held = set(map(id, fixed))
    learned = {
        id(x): (path, x)
        for path, x in gpflow.utilities.parameter_dict(model).items()
        if x.trainable and id(x) not in held and _is_positive(x)
    }
    return list(learned.values())


def _learned(term: gpflow.kernels.Kernel) -> Iterator[tuple[Any, str, gpflow.Parameter]]:
    """The learned parameters without priors of a term of a sum, with their owners."""
    for owner in (term, *term.submodules):
        if not isinstance(owner, gpflow.Parameter):
            for name, parameter in list(vars(owner).items()):
                if _is_free(parameter):
                    yield owner, name, parameter


def _is_free(parameter: Any) -> bool:
    is_one = isinstance(parameter, gpflow.Parameter)
    return (
        is_one and bool(parameter.trainable) and parameter.prior is None and _is_positive(parameter)
    )


def _is_positive(parameter: gpflow.Parameter) -> bool:
    """Whether it has a transform, as weights and inducing inputs have none."""
    return not isinstance(parameter.transform, tfp.bijectors.Identity | None)


def _of_kernel(
    owner: Any, name: str, parameter: gpflow.Parameter, unit: float, terms: int, model: Any
) -> tuple[Any, float]:
    """The prior of a parameter of a kernel, and of which power of its value it is."""
    if name == "rate":
        return half_t(np.full(parameter.shape, DRIFT * unit)), 0.5
    if name == "variance":
        scale = np.full(parameter.shape, unit / np.sqrt(terms))
        if isinstance(owner, gpflow.kernels.Linear):
            width = np.arange(model.duels.num_features)[owner.active_dims].size
            scale = scale / np.sqrt(max(width, 1))
        return half_t(scale), 0.5
    start, times = parameter.numpy(), model.duels.times
    if name.startswith("lengthscale") and isinstance(owner, MarkovKernel) and times is not None:
        start = np.full_like(start, np.ptp(times) / DAYS_A_YEAR / 2.0)
    return tfp.distributions.LogNormal(np.log(start), np.float64(LOG_SD)), 1.0


def _about(parameter: gpflow.Parameter, centre: float) -> LogParameter:
    prior = tfp.distributions.LogNormal(np.log(np.float64(centre)), np.float64(LOG_SD))
    return LogParameter.of(parameter, prior)


def learned_parameters(model: Any, log_sd: Mapping[str, float]) -> list[dict[str, Any]]:
    """What a model has learned: `name`, `value`, `prior` in words, `lower` and `upper` (between
    which the prior has 90 %), and `log_sd`, how well its logarithm is known, where that was found
    for it alone; of more than eight values one row of their geometric mean.

    :param log_sd: by the same names (`Integration.log_sd`).
    """
    rows = []
    for path, parameter in learned_paths(model):
        values = parameter.numpy().reshape(-1)
        words, *ends = _in_words(parameter)
        apart = values.size <= APART
        names = names_of_values(model, path, parameter) if apart else (name_of(path),)
        for i, name in enumerate(names):
            some = slice(i, i + 1) if apart else slice(None)
            one = [float(np.exp(np.mean(np.log(x[some])))) for x in (values, *ends)]
            keys = ("name", "value", "prior", "lower", "upper", "log_sd")
            there = (None, None) if not ends else one[1:]
            row = (name, one[0], words, *there, log_sd.get(name))
            rows.append(dict(zip(keys, row, strict=True)))
    return rows


def name_of(path: str) -> str:
    """What a parameter is called, by its path of `gpflow.utilities.parameter_dict`."""
    return path.lstrip(".")


def names_of_values(model: Any, path: str, parameter: gpflow.Parameter) -> tuple[str, ...]:
    """What each value of a parameter is called: of a vector with the feature, covariate or judge
    that it is of, or its place where these have no names."""
    size, name = int(np.prod(parameter.shape)), name_of(path)
    if size == 1:
        return (name,)
    return tuple(f"{name}[{one}]" for one in _whose_values(model, parameter) or range(size))


def _whose_values(model: Any, parameter: gpflow.Parameter) -> tuple[str, ...]:
    """Features, covariates or judges that the values of a vector are of, where they have names."""
    duels, of = model.duels, model.likelihood
    names: Any = ()
    if parameter is of.noise_ratio or parameter is of.cut_scale:
        names = duels.group_names
    elif any(parameter is x for term in model.terms for x in vars(term).values()):
        names = duels.covariate_names
    elif duels.feature_names is not None:
        for part in model.kernel.submodules:
            if any(parameter is x for x in vars(part).values()):
                names = np.array(duels.feature_names, object)[part.active_dims]
    there = names is not None and len(names) == int(np.prod(parameter.shape))
    return tuple(map(id_text, names)) if there else ()


def _in_words(parameter: gpflow.Parameter) -> tuple[Any, ...]:
    """The prior, and the ends of 90 % of it in units of the parameter, a value each."""
    prior, size = parameter.prior, int(np.prod(parameter.shape))
    of = "" if getattr(parameter, "power", 1.0) == 1.0 else " of its root"
    if isinstance(prior, tfp.distributions.HalfStudentT):
        freedom, scale = (np.broadcast_to(x, size) for x in (prior.df, prior.scale))
        ends = [scale * student.ppf(0.5 + 0.5 * p, freedom) for p in (0.05, 0.95)]
        words = f"half-t{of}, scale {np.exp(np.mean(np.log(scale))):.2g}"
    elif isinstance(prior, tfp.distributions.LogNormal):
        centre, sd = (np.broadcast_to(x, size) for x in (prior.loc, prior.scale))
        ends = [np.exp(centre + z * sd) for z in (-Z90, Z90)]
        words = (
            f"log-normal{of} about {np.exp(np.mean(centre)):.2g}, sd {np.mean(sd):.2g} of its log"
        )
    else:
        return (NO_PRIOR if prior is None else type(prior).__name__,)
    power = parameter.power if isinstance(parameter, LogParameter) else 1.0
    return words, *(end ** (1.0 / power) for end in ends)
