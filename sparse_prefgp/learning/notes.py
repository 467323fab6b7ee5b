"""What to know about a fit, in sentences: one text for every place that tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparse_prefgp.support.words import agreeing, counted, listing

# Iterations over which it is said what they brought together, at most.
WINDOW = 10
# How a sentence begins that warns of nothing.
NO_LINE = "No straight-line effect was found for "
OWN_LENGTHSCALES = "Lengthscales of"
LINEAR_TAKEN = "The kernel linear was taken"
_HARMLESS_JITTER = "A harmless jitter"
# How the prior of what is learned without one is called.
NO_PRIOR = "none"
# Duels below which it is no finding that they tell no item from another.
FEW = 100
# Share of the variance of differences from which on it is told that duels leave it.
MUCH_LEFT = 0.1
# Times the gain at which a fit settles: below, more iterations hardly help.
_NEARLY = 10.0
# Below, what was clipped is the rounding of any sum.
_ROUNDING = 1e-10
# A jitter below this share of the variances of noise and kernel moves no digit that is shown.
_HARMLESS = 1e-8


def fit_notes(figures: Mapping[str, Any]) -> list[str]:
    """What to know about the fits in the figures, one sentence each: on the terminal, on the page
    and in `metrics.json`."""
    fits = [figures[name] for name in ("fit", "refit_fit") if name in figures]
    taken, linear = [], figures.get("next_to_linear", {})
    if linear.get("linear_taken"):  # no kernel was named, and it is as good as the default
        taken = [
            f"{LINEAR_TAKEN}: {linear['kernel']} has {linear['gain']:z.1f} nats of evidence "
            f"more for {counted(linear['parameters'], 'parameter')} more, which new "
            f"{figures['fit']['unit']}s would hardly tell; --kernel {linear['kernel']} takes it."
        ]
    if len(fits) < 2:
        return [*dict.fromkeys([*taken, *(note for fit in fits for note in notes_of(fit))])]
    nouns = f"{fits[0].get('unit', 'duel')}s"
    names = [f"the fit to the training {nouns}", f"the fit to all {nouns}"]
    told = [notes_of(fit, f" of {name}") for fit, name in zip(fits, names, strict=True)]
    both = {*told[0]} & {*told[1]}
    return [
        *taken,
        *dict.fromkeys(
            note if note in both or name in note else f"{name[0].upper()}{name[1:]}: {note}"
            for name, notes in zip(names, told, strict=True)
            for note in notes
        ),
    ]


def learned_from(figures: Mapping[str, Any]) -> str:
    """Of how many of the duels the model that is kept has learned; empty where that is not known.

    :param figures: as in `metrics.json`.
    """
    data, nouns = figures.get("data", {}), f"{figures.get('fit', {}).get('unit', 'duel')}s"
    some, whole = data.get("train_duels"), data.get("duels")
    if some is None or whole is None:
        return ""
    if some >= whole or "refit_fit" in figures:
        return f"Learned from all {whole:,} {nouns}."
    return f"Learned from {some:,} of {whole:,} {nouns}; fit --refit (refit=True) learns from all."


INTEGRATED = "Intervals include what is not known of the hyperparameters"
# Standard deviation of a logarithm.
UNKNOWN = 3.0
# Share by which intervals are longer or shorter that says nothing.
HARDLY = 0.03
# Of eight points three, or of seven.
FEW_LEFT = 0.375
NOT_INTEGRATED = "Hyperparameters are not integrated out"
FEW_TELL = "intervals that overlap say that little is known, not that items do not differ"
_FINDINGS = (
    FEW_TELL,
    NO_LINE,
    OWN_LENGTHSCALES,
    LINEAR_TAKEN,
    _HARMLESS_JITTER,
    INTEGRATED,
    NOT_INTEGRATED,
)


def is_warning(note: str) -> bool:
    """Whether it is to be known before anybody relies on the fit; others say what was found."""
    return not any(words in note for words in _FINDINGS)


def notes_of(fit: Mapping[str, Any], after: str = "") -> list[str]:
    """What to know about one fit, causes first; `after` says which, where there are two."""
    integration = fit.get("integration")
    return [
        *fit.get("limits", []),
        *filter(None, [fit.get("restarted"), fit.get("own_lengthscales")]),
        *_about_inference(fit, after),
        *_about_the_optimiser(fit, after),
        *_about_chunks(fit),
        *_about_weights(fit),
        *_about_the_kernel(fit),
        *(about_integration(integration) if integration is not None else ()),
        *_about_certainty(fit),
    ]


def about_integration(integration: Mapping[str, Any]) -> list[str]:
    """What to know of how hyperparameters were integrated out.

    :param integration: the fields of `Integration`.
    """
    unknown = [name for name, sd in integration["log_sd"].items() if sd > UNKNOWN]
    notes = []
    if unknown:
        names = listing(unknown)
        notes = [f"Duels and priors say next to nothing of {names}; take --priors weak."]
    if not integration["used"]:
        return [*notes, f"{NOT_INTEGRATED}: {integration['reason']}."]
    longer = integration["longer"]
    by = ", which makes them hardly longer or shorter"
    if longer >= HARDLY:
        by = f": without, intervals would be {longer / (1.0 + longer):.0%} shorter"
    elif longer <= -HARDLY:
        by = f", which makes them {-longer:.0%} shorter"
    few = few_points(integration["effective_points"], integration["points"])
    return [
        *notes,
        f"{INTEGRATED}{by}.",
        *([few] if few else []),
    ]


def _about_certainty(fit: Mapping[str, Any]) -> list[str]:
    """After few answers how little they tell: of the hyperparameters, where nothing else says that,
    and of the items."""
    number = fit.get("duels", FEW)
    certain = any(row["prior"] == NO_PRIOR for row in fit.get("learned", ()))
    if certain and fit.get("integration") is None and number < FEW:
        return [
            f"{counted(number, fit['unit'])} tell little of the hyperparameters, which count as "
            "certain, so that predictions may be sure of nonsense; take --priors weak, and leave "
            "out --integrate no."
        ]
    left = fit.get("variance_left")
    if left is None or left < MUCH_LEFT:
        return []
    return [
        f"{counted(number, fit['unit'])} {agreeing(number, 'leaves', 'leave')} {left:.0%} of the "
        f"variance that differences between items had before: {FEW_TELL}."
    ]


def how_of_gradients(gradients: str, subset: int | None) -> str:
    """How the gradients of streamed duels were made, as `OptimisationReport` has it."""
    if subset is not None:
        return f"gradients from {subset:,} random rows"
    return f"exact gradients {'in memory' if gradients == 'memory' else 'from chunks'}"


def few_points(effective: float, points: int) -> str:
    """What to know where few points of the hyperparameters count; else nothing."""
    if effective >= FEW_LEFT * points:
        return ""
    return (
        f"Of the {points} points of the hyperparameters only {effective:.1f} count, so that "
        "intervals may be too short; fit all duels again."
    )


def _about_weights(fit: Mapping[str, Any]) -> list[str]:
    weight = fit.get("weight")
    if weight is None or weight >= 1.0:
        return []
    return [
        f"The weights of the {counted(fit['duels'], 'duel')} add up to {weight:.2g}, which is less "
        "than one duel: they say next to nothing; give weights of which 1 is a whole duel."
    ]


def _about_the_kernel(fit: Mapping[str, Any]) -> list[str]:
    idle = fit.get("idle_kernel_terms")
    if not idle:
        return []
    if len(idle) == len(fit.get("kernel_variances", ())):
        by = "" if list(idle) == ["item"] else " by its features"
        if fit.get("duels", FEW) < FEW:
            return [
                f"Nearly no variance is left to the kernel: so few {fit['unit']}s can hardly tell "
                f"items apart{by}, and say nothing of how alike these are; take --priors weak."
            ]
        return [
            f"Nearly no variance is left to the kernel: the duels tell no item from another{by}."
        ]
    return [idle_note(idle)]


def idle_note(names: Sequence[str]) -> str:
    """What to know when some of the terms of the kernel have lost their variance."""
    terms = f"term {names[0]}" if len(names) == 1 else f"terms {', '.join(names)}"
    return (
        f"Nearly no variance is left to the kernel {terms}, which is the same as leaving it out; "
        "another approximation or more inducing inputs may use it."
    )


def _about_inference(fit: Mapping[str, Any], after: str) -> list[str]:
    notes = []
    if not fit.get("converged", True):
        notes.append(f"Inference{after} did not converge: {fit.get('inference', 'no reason')}.")
    if fit.get("warm"):
        notes.append(
            f"Inference{after} had not converged from cold sites, and resumed from those of the "
            "optimiser."
        )
    if fit.get("jitter"):
        notes.append(_about_jitter(fit, after))
    if (fit.get("clipped") or 0.0) > _ROUNDING:
        notes.append(
            f"Residual variances that rounding had made negative, down to "
            f"{-abs(fit['clipped']):.1e}, were set to 0{after}."
        )
    if fit.get("negative_variances_set_to_zero"):
        notes.append(
            f"{fit['negative_variances_set_to_zero']:,} variances in the ranking that rounding "
            "had made negative were set to 0."
        )
    return notes


def _about_jitter(fit: Mapping[str, Any], after: str) -> str:
    """It is harmless next to both variances: predictions move by about its share of them."""
    jitter = fit["jitter"]
    text = f" of {jitter:.1e} was added to the diagonal of a covariance{after}"
    variances = [fit.get("noise_variance"), sum(fit.get("kernel_variances", {}).values())]
    if not all(variances):
        return f"A jitter{text}; compare it with the variance of the kernel."
    if jitter <= _HARMLESS * min(variances):
        return f"{_HARMLESS_JITTER}{text}."
    return (
        f"A jitter{text}, which may move the figures; leave out items or inducing inputs that "
        "nearly coincide."
    )


def _about_the_optimiser(fit: Mapping[str, Any], after: str) -> list[str]:
    notes = []
    if fit.get("resumed_at"):
        notes.append(f"The optimiser{after} was resumed from iteration {fit['resumed_at']}.")
    if not fit.get("optimiser_converged", True):
        limit, message = fit.get("max_iterations"), fit.get("optimiser_message", "no reason")
        which = after.removeprefix(" of ") or "the fit"
        if limit is not None and fit.get("iterations", 0) >= limit:
            gained, least, more = fit.get("last_gain"), fit.get("least_gain"), "; more may help"
            if gained is not None and least and gained < _NEARLY * least:
                more = (
                    f", which had nearly settled: the last {WINDOW} iterations brought "
                    f"{gained:.1e} nats per {fit.get('unit', 'duel')}"
                )
            if fit["iterations"] > limit:
                which = f"a stage of {which}, which took {fit['iterations']} in all"
            notes.append(f"The limit of {limit} iterations (max_iterations) ended {which}{more}.")
        else:
            notes.append(f"The optimiser{after} stopped early: {message}.")
    failed = [i for i, start in enumerate(fit.get("starts", ())) if start["log_evidence"] is None]
    if failed:
        numbers = ", ".join(str(i + 1) for i in failed)
        notes.append(
            f"The evidence{after} was not finite at the first parameters of start {numbers}."
        )
    if fit.get("failed_evaluations"):
        notes.append(
            f"{fit['failed_evaluations']:,} of {fit['evaluations']:,} evaluations{after} failed "
            "and were backed off from."
        )
    if fit.get("unconverged_evaluations"):
        notes.append(
            f"In {fit['unconverged_evaluations']:,} of {fit['evaluations']:,} evaluations{after} "
            "inference had not converged."
        )
    return notes


def _about_chunks(fit: Mapping[str, Any]) -> list[str]:
    notes = []
    if fit.get("polish"):
        notes.append(
            f"{fit['polish']} exact iterations after the subset gained {fit['polished']:.3f} nats."
        )
    if fit.get("evidence_left") is not None:
        left = f"about {fit['evidence_left']:.3g} nats"
        if fit.get("all_rows"):
            notes.append(f"Further iterations would gain {left}.")
        else:
            notes.append(f"The subset cost {left} that are still to gain.")
    if fit.get("rebuilt"):
        notes.append(
            f"{len(fit['rebuilt'])} times a part was lost and rebuilt: {fit['rebuilt'][0]}."
        )
    return notes
