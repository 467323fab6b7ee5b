"""Which pictures a fit gets, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp import plotting
from sparse_prefgp.analysis.metrics import CHOICES, DUELS, MODEL
from sparse_prefgp.plotting.canvas import MISSING, SMALL, new_figure, save, shortened_name
from sparse_prefgp.plotting.surfaces import draw_utility, utility_over_grid
from sparse_prefgp.support.plain import Record
from sparse_prefgp.tell.report import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.analysis.ranking import Ranking
    from sparse_prefgp.analysis.scoring import HeldOut, Scored
    from sparse_prefgp.learning.report import OptimisationReport
    from sparse_prefgp.models import PreferenceGP

TOP = 20
# Two axes next to each other, whose letters can still be read at the width of a telephone.
OVERVIEW_SIZE, OVERVIEW_TOP = (6.4, 3.2), 8
# By these a later fit knows the pictures that it may replace.
PICTURE_NAMES = (
    "reliability",
    "candidates_reliability",
    "candidates_abstention",
    "utilities",
    "trajectories",
    "tastes",
    "person",
    "relevance",
    "coefficients",
    "evidence",
    "inducing_inputs",
    "utility_1d",
    "utility_2d",
    "utility_2d_sd",
    "probability_to_beat",
)


def write_pictures(
    folder: Path,
    model: PreferenceGP,
    ranking: Ranking | Mapping[str, Sequence[Any]] | Any,
    *,
    report: OptimisationReport | Sequence[float] | None = None,
    held_out: HeldOut | None = None,
    candidates: Sequence[Record] = (),
) -> list[Picture]:
    """Write the pictures of a fit as PNG files, 7 × 4.5 inches at 150 dots per inch.

    :param folder: made if need be; files of the same names are replaced.
    :param model: the model that is kept.
    :param ranking: its items as `plotting.utilities` takes them, best what `rank` returned; None
        leaves out what is drawn of a ranking.
    :param report: what `optimise` returned for it, or its history, for the evidence.
    :param held_out: predictions of held-out duels, for the calibration.
    :param candidates: those of a choice by itself, as `Comparison.to_dict` has them.
    :return: Each with its file, in the order to show them. There is always
        `utilities.png`, where utilities move in time `trajectories.png`, and with features that
        move the utility `relevance.png`; then, where they apply,
        `reliability.png`, `candidates_reliability.png` and `candidates_abstention.png`,
        `coefficients.png`, `evidence.png`, `inducing_inputs.png` (unless every item is one), and
        for one or two numeric features `utility_1d.png` or `utility_2d.png` and
        `utility_2d_sd.png`, and `probability_to_beat.png`.
    :raises ModuleNotFoundError: matplotlib is not installed.
    :raises OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Picture] = []

    def add(name: str, draw: Callable[[], Axes], title: str, caption: str) -> None:
        assert name in PICTURE_NAMES
        file = folder / f"{name}.png"
        save(draw().figure, file)
        written.append(Picture(name, title, caption, file))

    forecasts = {} if held_out is None else held_out.forecasts
    if CHOICES in forecasts:
        add(
            "reliability",
            lambda: _reliability(forecasts[CHOICES]),
            "Can the probabilities be trusted?",
            "Alternatives of held-out choices by the probability the model gave to each: on the "
            "dashed line as many are chosen as it says.",
        )
    if DUELS in forecasts:
        add(
            "reliability",
            lambda: _reliability(forecasts[DUELS]),
            "Can the probabilities be trusted?",
            "Held-out duels by the probability the model gave to the winner it predicted: on the "
            "dashed line probabilities are right, below it the model is too sure of itself.",
        )
    _add_candidates(add, [one for one in candidates if one.get("reliability")])
    first: list[Hashable] = []
    names = model.duels.feature_names or ()
    noise = float(model.likelihood.noise.numpy())
    if ranking is not None:
        frame: Any = getattr(ranking, "frame", ranking)
        ids, ranks = list(frame["item_id"]), np.asarray(frame["rank"], dtype=np.float64)
        first = [ids[i] for i in np.argsort(ranks, kind="stable")[:TOP]]
        add(
            "utilities",
            lambda: plotting.utilities(ranking, top=TOP, noise_variance=noise),
            "The best items",
            "Utilities with their intervals; where these overlap widely, the order may well be "
            f"another one.{_missing(first)}",
        )
    if model.terms.taste is not None:
        _add_people(add, model)
    if model.inputs.layout.dated:
        add(
            "trajectories",
            lambda: plotting.trajectories(model),
            "Who was good when",
            "Those who led most often, above the average of the items active at each date, with "
            f"90 % bands of that difference.{_missing(first)}",
        )
    matter = plotting.feature_relevance(model) if model.duels.num_features else ((), np.empty(0))
    # Features that the kernel does not see have neither bars nor surfaces.
    if len(matter[1]) and plotting.any_matters(model, matter[1]):
        add(
            "relevance",
            lambda: plotting.relevance(model, found=matter),
            "Which features matter",
            "How far the mean utility moves when an item gets the value of another one in this "
            "feature alone; features that go together share what they have in "
            f"common.{_missing(names)}",
        )
        _add_surfaces(add, model, first)
    if model.duels.covariate_names:
        columns = " and ".join(model.terms.labels)
        leans = f"; below, how the labels in {columns} lean" if columns else ""
        labels = [x for column in model.terms.labels for x in model.duels.label_names[column]]
        add(
            "coefficients",
            lambda: plotting.coefficients(model),
            "What the duel adds",
            "The coefficient of each covariate: what one unit of its column adds to the utility of "
            "a side. A small one may still do much where sides differ by many units"
            f"{leans}."
            f"{_missing([*model.duels.covariate_names, *labels])}",
        )
    if report is not None and (hasattr(report, "history") or len(report)):
        duels, events = model.graph.weight, model.duels.events
        add(
            "evidence",
            lambda: plotting.evidence(report, duels, unit=events.unit),
            "How the fit went",
            f"Log evidence of the training {events.noun} after each iteration; a curve that still "
            "rises at its end asks for more iterations.",
        )
    if model.inducing_variable is not None and not plotting.all_are_inducing(model):
        add(
            "inducing_inputs",
            lambda: plotting.inducing_inputs(model),
            "Where the inducing inputs lie",
            "Inducing inputs, the points that stand for all items, among the items that were "
            "compared. Where they are learned with the rest they may leave the range of the items.",
        )
    return written


def write_overview(file: Path, ranking: Ranking, held_out: HeldOut) -> None:
    """Write one picture of two: the best items with their intervals, and the calibration.

    :param file: a PNG, 6.4 × 3.2 inches at 150 dots per inch; replaced if it is there.
    :param ranking: what `rank` returned.
    :param held_out: predictions of held-out duels.
    :raises ModuleNotFoundError: matplotlib is not installed.
    :raises OSError: the file cannot be written.
    """
    figure = new_figure(OVERVIEW_SIZE)
    left, right = figure.subplots(1, 2)
    columns = ["rank", "item_id", "utility", "sd", "lower", "upper"]
    plotting.utilities(ranking.frame[columns], top=OVERVIEW_TOP, ax=left)
    by = ", by the lower end" if ranking.order == "lower" else ""
    left.set_title(f"the first {OVERVIEW_TOP} of {len(ranking.frame):,}{by}", fontsize=SMALL)
    left.set_title("", loc="left")
    left.set_xlabel(f"utility, {100 * ranking.level:g} % interval", fontsize=SMALL)
    duels = held_out.forecasts[DUELS]
    _reliability(duels, right)
    right.get_legend().remove()
    for number in list(right.texts):  # of duels in each bin: too many figures for this width
        number.remove()
    right.set_title(f"{duels.counts.sum():,} held-out duels", fontsize=SMALL)
    right.set_title("", loc="right")
    right.set_xlabel("how sure it was (grey: number)", fontsize=SMALL)
    right.set_ylabel("how often it was right", fontsize=SMALL)
    save(figure, file)


def _reliability(forecasts: Scored, ax: Axes | None = None) -> Axes:
    """Of the model."""
    logs = forecasts.log_probabilities[MODEL]
    return plotting.reliability(logs, forecasts.happened, forecasts.counts, of=forecasts.of, ax=ax)


def _add_people(add: Callable[..., None], model: PreferenceGP) -> None:
    """What sets people apart, and the one furthest from all."""
    from sparse_prefgp.analysis.people import people

    furthest = people(model)["person"].iloc[0]
    add(
        "tastes",
        lambda: plotting.tastes(model),
        "What sets people apart?",
        "People along the two directions in which their own tastes differ most; whoever is far "
        "along the arrow of an item likes it more than all do.",
    )
    add(
        "person",
        lambda: plotting.person(model, furthest),
        "Who differs most?",
        "Utilities for the person furthest from what all prefer, and those that all share: on the "
        f"dashed line both agree.{_missing([furthest])}",
    )


def _add_candidates(add: Callable[..., None], candidates: Sequence[Record]) -> None:
    """What the candidates of a choice knew about themselves."""
    from sparse_prefgp.analysis.metrics import CalibrationBin

    if not candidates:
        return
    names = [one["candidate"] for one in candidates]
    bins = [[CalibrationBin(**values) for values in one["reliability"]] for one in candidates]
    curves = [
        {float(share): right for share, right in one["abstention"].items()} for one in candidates
    ]
    add(
        "candidates_reliability",
        lambda: plotting.reliabilities(dict(zip(names, bins, strict=True))),
        "Which candidate knew how sure to be?",
        "Duels that were held out for the choice, by the probability that each candidate gave to "
        "the winner it predicted: on the thin line probabilities are right.",
    )
    add(
        "candidates_abstention",
        lambda: plotting.abstention(dict(zip(names, curves, strict=True))),
        "Which candidate knew what it did not know?",
        "How many each candidate had right of all held-out duels (left), and of those that it was "
        "surest of (to the right): the steeper, the more its uncertainty tells.",
    )


def _missing(names: Iterable[object]) -> str:
    if any(MISSING in shortened_name(str(name)) for name in names):
        return f" {MISSING} stands for a character that no installed font has."
    return ""


def _add_surfaces(
    add: Callable[[str, Callable[[], Axes], str, str], None],
    model: PreferenceGP,
    ranked: Sequence[Hashable],
) -> None:
    transform, number = model.duels.transform, model.duels.num_features
    # Between the 0 and 1 of a level there is nothing to draw.
    if number > 2 or (transform is not None and transform.categorical):
        return
    if number == 1:
        add(
            "utility_1d",
            lambda: plotting.utility_1d(model),
            "Utility over the feature",
            "Utility above that of the average item, with its 95 % band; ticks are the items.",
        )
    else:
        grid = utility_over_grid(model)
        add(
            "utility_2d",
            lambda: draw_utility(model, grid, "mean"),
            "Utility over both features",
            "Mean utility above that of the average item; dots are the items.",
        )
        add(
            "utility_2d_sd",
            lambda: draw_utility(model, grid, "sd"),
            "Where the utility is known",
            "Standard deviation of that utility: small where many items were compared.",
        )
    # An item in contexts or states is several rows, of which none is the one ranked first.
    if not ranked or model.duels.item_rows is not None:
        return
    add(
        "probability_to_beat",
        lambda: plotting.probability_to_beat(model, ranked[0]),
        "What would beat the best item",
        "Probability that an item with these features wins against the one ranked first (star).",
    )
