"""Pictures: what is drawn is what the model predicts, and it can be read."""

import io
import sys

import gpflow
import numpy as np
import pytest
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp import plotting
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.analysis.ranking import rank
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.plotting.canvas import (
    MISSING,
    NAME_WIDTH,
    chance_text,
    drawable,
    new_figure,
    shortened_name,
)
from sparse_prefgp.plotting.items import principal_axes
from sparse_prefgp.plotting.quality import wilson
from sparse_prefgp.plotting.surfaces import item_row, utility_above_average
from tests.cases import random_duels
from tests.together import refused
from tests.tolerances import IDENTITY, ROUNDING

FEATURE_COUNTS = (1, 2, 5)
Z = norm.ppf(0.975)


@pytest.fixture(scope="module")
def models():
    """Models with inducing inputs on items with 1, 2 and 5 features."""
    result = {}
    for d in FEATURE_COUNTS:
        duels = random_duels(d, items=20, duels=60, features=d)
        kernel = gpflow.kernels.SquaredExponential(lengthscales=np.ones(d))
        inducing = np.concatenate([duels.items[:5], np.full((1, d), 50.0)])
        result[d] = spg.PreferenceGP(
            duels, kernel, approximation=spg.VFE(), inducing_variable=inducing
        )
    return result


@pytest.fixture(scope="module")
def raw_model():
    """One feature in raw units 100 x + 1000 with an id per item."""
    duels = random_duels(3, items=12, duels=40, features=1)
    transform = FeatureTransform(("price",), (1000.0,), (100.0,))
    duels = spg.Duels(
        duels.items,
        duels.winners,
        duels.losers,
        item_ids=[f"item {i}" for i in range(12)],
        feature_names=["price"],
        transform=transform,
    )
    return spg.PreferenceGP(duels, gpflow.kernels.Matern52(), approximation=spg.Exact())


def drawn(ax):
    """The picture as bytes; drawing it is where bad labels fail."""
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png")
    return buffer.getvalue()


def line(ax, label):
    (found,) = [artist for artist in ax.get_lines() if artist.get_label() == label]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def names_beside(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_no_pyplot_and_a_given_axis_is_used(models):
    figure = new_figure((7.0, 4.5))
    ax = figure.add_subplot()
    assert plotting.relevance(models[2], ax=ax) is ax
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )


# Reliability.


def test_reliability_shows_the_bins_of_the_calibration_error():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    counts = rng.integers(1, 4, size=400)
    ax = plotting.reliability(np.log(p), counts=counts)
    (points,) = [c for c in ax.containers if c.get_label() == "duels, with 95 % interval"]
    x, y = points.lines[0].get_data()
    numbers = np.array([int(text.get_text().replace(",", "")) for text in ax.texts])
    assert numbers.sum() == counts.sum()
    error = float(numbers @ np.abs(x - y) / numbers.sum())
    assert error == pytest.approx(
        score(np.log(p), counts=counts)["calibration_error"], abs=IDENTITY
    )
    assert f"{error:.3f}" in ax.get_title(loc="right")
    assert np.all((x >= 0.5) & (x <= 1.0))


def test_reliability_sees_each_duel_from_the_favoured_side():
    # Confidence 0.9 twice: once right, once wrong; and one duel in doubt, half won.
    ax = plotting.reliability(np.log([0.9, 0.1, 0.5]))
    (points,) = [c for c in ax.containers if c.get_label().startswith("duels")]
    x, y = points.lines[0].get_data()
    assert x == pytest.approx([0.5, 0.9]) and y == pytest.approx([0.5, 0.5])
    low, high = ax.get_ylim()
    assert low < 0.0 and high > 1.0  # whole intervals and the numbers below them


def test_wilson_solves_its_equation_and_stays_within_0_and_1():
    share, number = np.array([0.8, 0.3]), np.array([10.0, 250.0])
    for p in wilson(share, number):
        # The shares whose own normal interval just reaches what was seen.
        assert (share - p) ** 2 == pytest.approx(Z**2 * p * (1 - p) / number, rel=IDENTITY)
    low, high = wilson(np.array([0.0, 1.0]), np.array([5.0, 5.0]))
    assert low[0] == pytest.approx(0.0, abs=ROUNDING) and high[0] < 0.5
    assert high[1] == pytest.approx(1.0, abs=ROUNDING) and low[1] > 0.5


def test_reliability_refuses_what_score_refuses():
    with pytest.raises(ValueError, match="at least one duel"):
        plotting.reliability([])


# Evidence.


@pytest.mark.slow
def test_evidence_per_duel(models):
    report = spg.optimise(models[1], max_iterations=3)
    ax = plotting.evidence(report, 60)
    x, y = line(ax, "during the fit")
    assert list(x) == list(range(len(report.history) + 1))
    assert y == pytest.approx(np.array([report.log_evidence_start, *report.history]) / 60)
    assert ax.get_lines()[1].get_ydata()[0] == pytest.approx(report.log_evidence / 60)
    assert "nats per duel, 60 duels" in ax.get_ylabel()
    drawn(ax)
    x, y = line(plotting.evidence([-5.0]), "during the fit")
    assert (list(x), list(y)) == ([1], [-5.0])


@pytest.mark.parametrize(
    ("history", "number", "words"), [([], None, "at least one"), ([-1.0], 0, "num_duels is 0")]
)
def test_evidence_refuses(history, number, words):
    with pytest.raises(ValueError, match=words):
        plotting.evidence(history, number)


# Utilities.

RANKING = {
    "rank": [3, 1, 2],
    "item_id": ["c", "a", "b"],
    "utility": [-1.0, 2.0, 0.5],
    "sd": [0.1, 0.2, 0.3],
}


def test_utilities_in_order_with_intervals():
    ax = plotting.utilities(RANKING, noise_variance=0.25)
    assert names_beside(ax) == ["a", "b", "c"]
    top, bottom = ax.get_ylim()
    assert top > bottom  # the first row is the uppermost
    (points,) = ax.containers
    assert list(points.lines[0].get_xdata()) == [2.0, 0.5, -1.0]
    ends = points.lines[2][0].get_segments()
    assert ends[0][:, 0] == pytest.approx([2.0 - 0.2 * Z, 2.0 + 0.2 * Z])
    assert "95 %" in ax.get_xlabel() and "(0.71 = sd of the noise of a duel)" in ax.get_xlabel()
    drawn(ax)


@pytest.mark.parametrize("number", [2, 20, 38])
@pytest.mark.covering(every=3)
def test_a_picture_of_many_items_is_higher(number):
    frame = {
        "rank": np.arange(1, number + 1),
        "item_id": [f"item {i}" for i in range(number)],
        "utility": -np.arange(float(number)),
        "sd": np.ones(number),
        "p_best": np.full(number, 0.1),
    }
    ax = plotting.utilities(frame, top=38)
    assert ax.figure.get_size_inches() == pytest.approx([7.0, 4.5 if number <= 20 else 7.92])
    drawn(ax)
    first, second = (label.get_window_extent() for label in ax.get_yticklabels()[:2])
    assert second.y1 <= first.y0


def test_utilities_with_the_intervals_and_chances_of_rank(models):
    ranking = rank(models[2], level=0.8)
    ax = plotting.utilities(ranking, top=7)
    by = {"lower": ", by the lower end", "mean": ""}[ranking.order]
    assert ax.get_title("left") == f"the first 7 of {len(ranking):,} items{by}"
    assert "= sd of the noise of a duel)" in ax.get_xlabel()
    in_order = plotting.utilities(rank(models[2], order="lower"), top=len(ranking))
    assert in_order.get_title("left") == f"{len(ranking):,} items, by the lower end"
    frame = ranking.frame.head(7)
    assert names_beside(ax) == [str(i) for i in frame["item_id"]]
    assert "80 %" in ax.get_xlabel() and "first 7 of 20" in ax.get_title(loc="left")
    ends = ax.containers[0].lines[2][0].get_segments()
    assert np.stack(ends)[:, 0, 0] == pytest.approx(frame["lower"].to_numpy())
    assert np.stack(ends)[:, 1, 0] == pytest.approx(frame["upper"].to_numpy())
    drawn(ax)
    (right,) = ax.child_axes
    shares = [label.get_text() for label in right.get_yticklabels()]
    assert shares == [chance_text(p) for p in frame["p_best"]]


def test_sampled_chances_are_never_certain():
    texts = [chance_text(p).replace("\u00a0", " ") for p in (0.0, 0.0004, 0.25, 0.9996, 1.0, None)]
    assert texts == ["< 0.1 %", "< 0.1 %", "25.0 %", "> 99.9 %", "> 99.9 %", "–"]


def test_utilities_all_equal_and_a_single_item():
    flat = {**RANKING, "utility": [0.0, 0.0, 0.0], "sd": [0.0, 0.0, 0.0]}
    assert drawn(plotting.utilities(flat))
    assert drawn(plotting.utilities({name: values[:1] for name, values in RANKING.items()}))


def test_utilities_refuse():
    with pytest.raises(ValueError, match="'sd'"):
        plotting.utilities({name: RANKING[name] for name in ("rank", "item_id", "utility")})
    with pytest.raises(ValueError, match="0 items"):
        plotting.utilities({name: [] for name in RANKING})
    with pytest.raises(ValueError, match="at least 1"):
        plotting.utilities(RANKING, top=0)


# Names.


def test_names_are_shortened_in_the_middle():
    assert shortened_name("x" * NAME_WIDTH) == "x" * NAME_WIDTH
    long = "argument about school uniforms " * 5 + "4711"
    short = shortened_name(long)
    assert len(short) <= NAME_WIDTH and "…" in short
    assert short.startswith("argument") and short.endswith("4711")
    assert shortened_name("a\nb\tc") == "a b c"


def test_names_that_look_like_formulas_or_have_no_font():
    names = ["$x^2$", "$", r"\$ \alpha", "_hidden", "\U000e0001 tag", "<b>"]
    ax = plotting.utilities(
        {
            "rank": range(1, 7),
            "item_id": names,
            "utility": np.arange(6.0)[::-1],
            "sd": np.ones(6),
        }
    )
    assert drawn(ax)
    assert drawable(["$5"]) == [r"\$5"]
    assert shortened_name("\U000e0001") == MISSING


# Relevance.


def test_relevance_of_a_linear_utility_is_weight_times_sd():
    rng = np.random.default_rng(0)
    duels = random_duels(4, items=15, duels=50, features=3)
    model = spg.PreferenceGP(
        duels, gpflow.kernels.Linear(variance=np.ones(3)), approximation=spg.Exact()
    )
    names, values = plotting.feature_relevance(model, rng=rng)
    used = np.unique(np.concatenate([duels.winners, duels.losers]))
    base = np.zeros((4, 3))
    base[1:] = np.eye(3)
    f = model.predict_f(base)[0].numpy()[:, 0]
    # All ordered pairs are used, so that the estimate is exact: half the mean square difference.
    expected = np.abs(f[1:] - f[0]) * duels.items[used].std(0, ddof=1)
    assert values == pytest.approx(expected, rel=IDENTITY)
    assert names == ("feature 1", "feature 2", "feature 3")


def test_relevance_of_a_feature_the_kernel_does_not_see_is_zero():
    duels = random_duels(5, items=15, duels=50, features=3)
    kernel = gpflow.kernels.SquaredExponential(active_dims=[0, 2])
    _, values = plotting.feature_relevance(spg.PreferenceGP(duels, kernel))
    assert values[1] == pytest.approx(0.0, abs=ROUNDING) and min(values[0], values[2]) > 0.01


def test_relevance_where_each_item_has_an_effect_by_a_feature():
    """As `item+item*category` has them: each item keeps its own effects."""
    duels = random_duels(5, items=8, duels=60, features=2)
    effect = spg.ItemTimes(gpflow.kernels.Linear(active_dims=[0]))
    model = spg.PreferenceGP(duels, spg.ItemEffect() + effect, approximation=spg.Exact())
    _, values = plotting.feature_relevance(model)
    used = np.unique(duels.events.sides)
    pairs = np.array([(i, j) for i in used for j in used if i != j])
    own = model.inputs.of_items()
    moved = own[pairs[:, 0]]
    moved[:, 0] = own[pairs[:, 1], 0]
    change = model.predict_f(moved)[0] - model.predict_f(own[pairs[:, 0]])[0]
    assert values[0] == pytest.approx(np.sqrt(0.5 * np.mean(change.numpy() ** 2)), rel=IDENTITY)
    assert values[0] > 0.01 and values[1] == pytest.approx(0.0, abs=ROUNDING)


def test_levels_of_a_column_are_swapped_together():
    rng = np.random.default_rng(1)
    codes = rng.integers(3, size=30)
    x = np.column_stack([rng.normal(size=30), np.eye(3)[codes]])
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(80)])
    transform = FeatureTransform(("size",), (0.0,), (1.0,), ("colour",), (("r", "g", "b"),))
    duels = spg.Duels(
        x, pairs[:, 0], pairs[:, 1], feature_names=transform.feature_names, transform=transform
    )
    model = spg.PreferenceGP(duels, gpflow.kernels.Linear(variance=np.ones(4)))
    names, values = plotting.feature_relevance(model)
    assert names == ("size", "colour")
    zeros = np.zeros((4, 4))
    zeros[1:, 1:] = np.eye(3)
    level = model.predict_f(zeros)[0].numpy()[1:, 0]
    used = np.unique(pairs)
    assert values[1] == pytest.approx(level[codes[used]].std(ddof=1), rel=IDENTITY)


def test_relevance_bars(models):
    names, values = plotting.feature_relevance(models[5])
    ax = plotting.relevance(models[5], top=3)
    order = np.argsort(-values)[:3]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(values[order])
    assert names_beside(ax) == [names[j] for j in order]
    assert "3 most relevant of 5" in ax.get_title(loc="right")
    with pytest.raises(ValueError, match="at least 1"):
        plotting.relevance(models[5], top=0)
    with pytest.raises(ValueError, match="at least 1"):
        plotting.feature_relevance(models[5], swaps=0)


# Inducing inputs.


def test_inducing_inputs_on_the_axes(models):
    ax = plotting.inducing_inputs(models[2])
    x, y = line(ax, "inducing inputs (1 of 6 outside the range of the items)")
    assert np.column_stack([x, y]) == pytest.approx(models[2].inducing_variable.Z.numpy())
    left, right = ax.get_xlim()
    assert left < x.min() and right > 50.0  # what has left the items is in the picture
    ax = plotting.inducing_inputs(models[1])
    assert ax.get_lines()[1].get_xdata() == pytest.approx(models[1].inducing_variable.Z[:, 0])
    assert "of 6 outside" in ax.get_title(loc="left")
    drawn(ax)


def test_inducing_inputs_on_principal_components(models):
    ax = plotting.inducing_inputs(models[5])
    items = models[5].duels.items
    used = np.unique(np.concatenate([models[5].duels.winners, models[5].duels.losers]))
    x, _ = line(ax, "items")
    shares = np.linalg.svd(items[used] - items[used].mean(0), compute_uv=False) ** 2
    assert x.var() == pytest.approx(shares[0] / len(used), rel=IDENTITY)
    assert f"{100 * shares[0] / shares.sum():.0f} % of the variance" in ax.get_xlabel()
    assert f"{100 * shares[1] / shares.sum():.0f} % of the variance" in ax.get_ylabel()
    drawn(ax)


def test_principal_axes_of_equal_items():
    axes, shares = principal_axes(np.ones((4, 3)))
    assert axes.shape == (3, 2) and list(shares) == [0.0, 0.0]


def test_inducing_inputs_refuse_a_model_without(raw_model):
    with refused("no_inducing", "picture_of_inputs"):
        plotting.inducing_inputs(raw_model)


# Utility and probabilities over features.


def test_utility_above_average_is_that_of_the_joint_posterior(models):
    model = models[2]
    points = np.array([[0.3, -0.2], [1.0, 1.0]])
    used = np.unique(np.concatenate([model.duels.winners, model.duels.losers]))
    items = model.duels.items[used]
    mean, sd = utility_above_average(model, points)
    f, joint = model.predict_f(np.concatenate([points, items]), full_cov=True)
    weights = np.column_stack([np.eye(2), np.full((2, len(used)), -1.0 / len(used))])
    assert mean == pytest.approx(weights @ f.numpy()[:, 0], abs=IDENTITY)
    variance = np.diag(weights @ joint.numpy()[0] @ weights.T)
    assert sd == pytest.approx(np.sqrt(variance), abs=IDENTITY)


def test_utility_1d_in_raw_units(raw_model):
    ax = plotting.utility_1d(raw_model)
    x, y = line(ax, "mean utility")
    mean, _ = utility_above_average(raw_model, (x[:, None] - 1000.0) / 100.0)
    assert y == pytest.approx(mean, abs=IDENTITY)
    assert ax.get_xlabel() == "price"
    items, _ = line(ax, "items")
    assert set(items) <= set(raw_model.duels.items[:, 0] * 100.0 + 1000.0)
    assert items.min() > x.min() and items.max() < x.max()
    assert "above the average item" in ax.get_ylabel()
    drawn(ax)


def test_utility_1d_counts_inducing_inputs_out_of_sight(models):
    labels = plotting.utility_1d(models[1]).get_legend_handles_labels()[1]
    inducing, items = models[1].inducing_variable.Z.numpy()[:, 0], models[1].duels.items[:, 0]
    beyond = 0.05 * np.ptp(items)
    outside = np.count_nonzero(
        (inducing < items.min() - beyond) | (inducing > items.max() + beyond)
    )
    assert outside >= 1
    assert f"inducing inputs ({outside} outside the picture)" in labels


@pytest.mark.parametrize("show", ["mean", "sd"])
def test_utility_2d(models, show):
    ax = plotting.utility_2d(models[2], show=show)
    bar = ax.figure.axes[1]
    assert ("sd" in bar.get_ylabel().split("\n")[0]) == (show == "sd")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 1", "feature 2")
    corner = np.array([[ax.get_xlim()[i], ax.get_ylim()[j]] for i in (0, 1) for j in (0, 1)])
    values = utility_above_average(models[2], corner)[show == "sd"]
    low, high = bar.get_ylim()
    assert np.all((values >= low) & (values <= high))
    drawn(ax)


def test_probability_to_beat_1d(raw_model):
    ax = plotting.probability_to_beat(raw_model, "item 4")
    x, y = ax.get_lines()[0].get_data()
    grid = (np.asarray(x)[:, None] - 1000.0) / 100.0
    chosen = np.tile(raw_model.duels.items[4], (len(grid), 1))
    assert y == pytest.approx(raw_model.predict_duel(grid, chosen).numpy(), abs=IDENTITY)
    assert "item 4" in ax.get_ylabel()
    star, half = line(ax, "item 4")
    assert star[0] == pytest.approx(1000.0 + 100.0 * raw_model.duels.items[4, 0])
    assert half[0] == 0.5
    drawn(ax)


def test_probability_to_beat_2d(models):
    ax = plotting.probability_to_beat(models[2], 7)
    x, y = line(ax, "item 7")
    assert (x[0], y[0]) == pytest.approx(tuple(models[2].duels.items[7]))
    assert ax.figure.axes[1].get_ylim() == (0.0, 1.0)
    drawn(ax)


def test_constant_utility_is_drawn():
    items = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    won, lost = [0, 1, 2, 3], [1, 0, 3, 2]
    model = spg.PreferenceGP(spg.Duels(items, won, lost), gpflow.kernels.SquaredExponential())
    assert drawn(plotting.utility_2d(model)) and drawn(plotting.probability_to_beat(model, 0))
    ax = plotting.relevance(model)
    assert ax.get_xlim() == (0.0, 1.0)  # not bars of rounding errors


def test_two_items_of_equal_features():
    model = spg.PreferenceGP(
        spg.Duels([[-3.0], [-3.0]], [0], [1]), gpflow.kernels.SquaredExponential()
    )
    ax = plotting.utility_1d(model)
    assert ax.get_xlim() == (-4.0, -2.0)
    assert drawn(ax)


def test_item_effects_join_the_chosen_item_only():
    duels = random_duels(6, items=10, duels=60, features=1)
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential() + spg.ItemEffect())
    ax = plotting.probability_to_beat(model, 3)
    x, y = ax.get_lines()[0].get_data()
    grid = np.column_stack([x, np.full(len(x), -1.0)])
    known = np.tile([duels.items[3, 0], 3.0], (len(grid), 1))
    assert y == pytest.approx(model.predict_duel(grid, known).numpy(), abs=IDENTITY)
    drawn(plotting.utility_1d(model))
    drawn(plotting.relevance(model))


def test_pictures_of_features_refuse(models):
    for draw, d in ((plotting.utility_1d, 2), (plotting.utility_2d, 1), (plotting.utility_1d, 5)):
        with pytest.raises(ValueError, match=f"have {d}"):
            draw(models[d])
    with pytest.raises(ValueError, match="1 or 2 features"):
        plotting.probability_to_beat(models[5], 0)
    with pytest.raises(ValueError, match="choose from mean, sd"):
        plotting.utility_2d(models[2], show="variance")


def test_items_are_found_by_id_or_row(raw_model, models):
    assert item_row(raw_model, "item 7") == 7 and item_row(raw_model, 7) == 7
    for item in ("item 99", 12, -1, True):
        with pytest.raises(ValueError, match="no item"):
            item_row(raw_model, item)
    duels = models[1].duels
    numbered = spg.Duels(
        duels.items,
        [f"{i}" for i in duels.winners],
        [f"{i}" for i in duels.losers],
        item_ids=[f"{i}" for i in range(20)],
    )
    model = spg.PreferenceGP(numbered, gpflow.kernels.SquaredExponential())
    assert item_row(model, "3") == 3


@pytest.mark.parametrize("judges", [0, 3, 30])
@pytest.mark.covering(every=3)
def test_coefficients_are_drawn_as_they_are(judges):
    rng = np.random.default_rng(2)
    items, sides = rng.normal(size=(5, 1)), rng.integers(0, 4, 90)
    said = np.column_stack([rng.choice([-1.0, 1.0], 90), 300.0 * rng.normal(size=90)])
    more = {"labels": {"by": [f"judge {k % judges}" for k in range(90)]}} if judges else {}
    duels = spg.Duels(
        items, sides, sides + 1, covariates=said, covariate_names=["first", "length"], **more
    )
    terms = [spg.Lean("length", "by")] if judges else []
    model = spg.PreferenceGP(duels, gpflow.kernels.Linear(), terms=terms)
    found, ax = model.coefficients(), plotting.coefficients(model)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert [name.split(" (")[0] for name in names[:2]] == ["first", "length"]
    assert len(names) == 2 + min(judges, 20)
    points = ax.lines[1].get_xdata()  # after the line at 0
    np.testing.assert_array_equal(points, found.mean[:2])
    if judges == 30:
        furthest = np.argsort(-found.mean[2:], kind="stable")
        assert names[2] == found.names[2 + furthest[0]]
        assert names[-1] == found.names[2 + furthest[-1]]
        assert "of 30" in ax.get_title(loc="left")
    with pytest.raises(ValueError, match="without covariates"):
        plotting.coefficients(
            spg.PreferenceGP(spg.Duels(items, sides, sides + 1), gpflow.kernels.Linear())
        )


def test_a_long_name_gives_way_to_its_coefficient():
    rng = np.random.default_rng(4)
    said, long = 3e6 * rng.normal(size=(60, 1)), "difference of the lengths of both answers"
    duels = spg.Duels(
        rng.normal(size=(60, 1)),
        np.arange(60),
        (1 + np.arange(60)) % 60,
        covariates=said,
        covariate_names=[long],
    )
    model = spg.PreferenceGP(duels, gpflow.kernels.Linear())
    (name,) = [text.get_text() for text in plotting.coefficients(model).get_yticklabels()]
    beta = f" ({model.coefficients().mean[0]:.3g})"
    assert len(beta) > 10 and len(long) + len(beta) > NAME_WIDTH
    assert name.startswith("difference") and name.endswith(beta) and len(name) <= NAME_WIDTH


def test_same_seed_same_bytes(models):
    assert drawn(plotting.relevance(models[5])) == drawn(plotting.relevance(models[5]))
