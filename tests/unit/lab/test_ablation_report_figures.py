"""Figures of a report: what stands on the axes is what the points say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sparse_prefgp.lab.report import arrange, points_of, read_results
from sparse_prefgp.lab.report.calibration import reliabilities
from sparse_prefgp.lab.report.figures import (
    MOST_LINES,
    draw_against_duels,
    draw_against_time,
    draw_metric,
    draw_reliability,
    looks_of,
    scale_of,
)
from tests.reference.made_studies import made_frame, write_study
from tests.tolerances import IDENTITY


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    def read_frame(name, frame):
        return read_results([write_study(tmp_path_factory.mktemp(name) / "study", frame)])

    return read_frame


@pytest.fixture(scope="module")
def results(read):
    return read(
        "made", made_frame(fails=[("fitc", 64, 3), ("dtc", 16, 0), ("dtc", 16, 1), ("dtc", 16, 2)])
    )


def drawn(results, metric, draw=draw_metric):
    (found,) = draw(arrange(results), results.metric(metric))
    found.figure.canvas.draw()  # where bad labels fail
    return found


def curves(ax):
    """(x, y) of the lines with a marker's points, by colour."""
    found = {}
    for container in ax.containers:
        x, y = container.lines[0].get_data()
        found[container.lines[0].get_color()] = (np.asarray(x), np.asarray(y))
    return found


def levels(ax):
    """y of the horizontal lines, by label."""
    return {
        line.get_label(): line.get_ydata()[0]
        for line in ax.get_lines()
        if list(line.get_xdata()) == [0, 1] and not line.get_label().startswith("_")
    }


def text_of(figure):
    import matplotlib.text

    return " ".join(artist.get_text() for artist in figure.findobj(matplotlib.text.Text))


def test_curves_errors_and_levels_are_the_points(results):
    found = drawn(results, "nlp_nats")
    (ax,) = found.figure.axes
    arrangement = arrange(results)
    looks = looks_of(arrangement)
    points = points_of(arrangement, results.metric("nlp_nats"))
    for name in ("VFE", "FITC", "DTC"):
        method = arrangement.method(name)
        own = [p for p in points if p.key.method == method]
        x, y = curves(ax)[looks[method].colour]
        assert list(x) == [p.key.m for p in own]
        assert y == pytest.approx([p.mean for p in own], rel=IDENTITY)
    (bars,) = [c for c in ax.containers if c.lines[0].get_color() == looks[method].colour]
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    assert ends[:, 1] - ends[:, 0] == pytest.approx([2 * p.error for p in own], rel=1e-6)
    exact = next(p for p in points if p.key.method.label == "exact")
    assert levels(ax)["exact"] == pytest.approx(exact.mean, rel=IDENTITY)
    assert ax.get_xscale() == "log" and [t.get_text() for t in ax.get_xticklabels()] == [
        *("8", "16", "32", "64", "128")
    ]
    assert ax.get_ylabel() == "negative log predictive (nats)"
    # A coin is far away, and said rather than drawn.
    assert "coin" not in levels(ax) and "↑ coin 0.693" in text_of(found.figure)


def test_what_is_missing_is_said_in_figure_and_caption(results):
    found = drawn(results, "nlp_nats")
    for text in (found.caption, text_of(found.figure)):
        assert "seed 3 is left out throughout, missing for FITC at m = 64" in text
        assert "DTC at m = 16 is a mean over fewer seeds" in text
    hollow = [a for a in found.figure.axes[0].get_lines() if a.get_label() == "_alone"]
    assert [list(a.get_xdata()) for a in hollow] == [[16]]


def test_a_divergence_is_on_a_log_axis_and_zeros_are_told(results):
    found = drawn(results, "kl_from_exact")
    (ax,) = found.figure.axes
    assert ax.get_yscale() == "log"
    assert "triangles): 1 of 0 or less" in found.caption
    (cut,) = [line for line in ax.get_lines() if line.get_label() == "_cut"]
    assert list(cut.get_xdata()) == [128] and cut.get_marker() == "v"
    # Not among the exact, which has no divergence from itself.
    assert levels(ax) == {}


def test_scales(read):
    frame = made_frame(fails=())
    small = frame["metric"] == "evidence_gap"
    results = read("scales", frame)
    metric = results.metric("evidence_gap")
    assert scale_of(metric, points_of(arrange(results), metric)).kind == "symlog"
    assert "linear within ±1" in drawn(results, "evidence_gap").caption
    frame.loc[small, "value"] *= 1e-3
    results = read("small", frame)
    assert scale_of(metric, points_of(arrange(results), metric)).kind == "linear"
    frame.loc[frame["metric"] == "kl_from_exact", "value"] = 0.0
    results = read("zeros", frame)
    metric = results.metric("kl_from_exact")
    assert scale_of(metric, points_of(arrange(results), metric)).kind == "linear"
    drawn(results, "kl_from_exact")


def test_cost_has_exponents_and_no_baselines(results):
    found = drawn(results, "fit_seconds")
    text = text_of(found.figure)
    assert r"VFE: $\propto m^{1." in text
    assert "linear probit" not in text and "coin" not in text
    assert found.figure.axes[0].get_yscale() == "log"


def test_many_methods_get_panels_with_equal_colours(read):
    names = ("exact", "vfe", "fitc", "dtc", "subset:40")
    frame = made_frame(
        approximations=names,
        inputs=("random", "kmeans", "learned"),
        ms=(8, 16, 32),
        seeds=(0, 1),
        fails=(),
    )
    results = read("many", frame)
    found = drawn(results, "nlp_nats")
    axes = found.figure.axes
    assert [ax.get_title(loc="left") for ax in axes] == [
        *("boston, random", "boston, k-means", "boston, learned")
    ]
    assert len(looks_of(arrange(results))) > MOST_LINES
    for ax in axes:
        assert len(curves(ax)) == 3
        assert {"exact", "subset of 40 duels"} <= set(levels(ax))
        assert ax.get_ylim() == axes[0].get_ylim()
    (legend,) = [box for box in found.figure.legends if box.get_texts()]
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:3] == ["VFE", "FITC", "DTC"] and len(labels) == len(set(labels))


def test_quality_against_time_is_a_path_along_m(results):
    found = drawn(results, "nlp_nats", draw_against_time)
    (ax,) = found.figure.axes
    arrangement = arrange(results)
    look = looks_of(arrangement)[arrangement.method("VFE")]
    (path,) = [line for line in ax.get_lines() if line.get_color() == look.colour]
    points = points_of(arrangement, results.metric("nlp_nats"))
    own = [p for p in points if p.key.method.label == "VFE"]
    seconds = arrangement.cells["fit_seconds"]
    wanted = [np.mean([seconds[p.key][seed] for seed in p.seeds]) for p in own]
    assert path.get_xdata() == pytest.approx(wanted, rel=IDENTITY)
    assert path.get_ydata() == pytest.approx([p.mean for p in own], rel=IDENTITY)
    assert "coin" not in text_of(found.figure)


def seconds_of(frame, approximation, m, t):
    own = frame[(frame["approximation"] == approximation) & (frame["duels"] == t)]
    own = own[(own["inducing"] == m) & (own["metric"] == "fit_seconds")]
    return list(own["value"])


def _line_of(ax, colour):
    (line,) = [
        line
        for line in ax.get_lines()
        if line.get_color() == colour and not line.get_label().startswith("_")
    ]
    return line.get_data()


def test_cost_against_duels(read):
    frame = made_frame(
        approximations=("vfe", "fitc"),
        sizes=(1000, 4000, 16_000),
        ms=(8, 16),
        seeds=(0, 1),
        fails=(),
    )
    results = read("sizes", frame)
    found = drawn(results, "fit_seconds", draw_against_duels)
    (ax,) = found.figure.axes
    assert ax.get_xscale() == ax.get_yscale() == "log"
    bars = [c for c in ax.containers if c.lines[0].get_label() == "_points"]
    assert [list(c.lines[0].get_xdata()) for c in bars] == [[1000, 4000, 16_000]] * 2
    for container, name in zip(bars, ("vfe", "fitc"), strict=True):
        line = _line_of(ax, container.lines[0].get_color())
        ends = np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])
        residuals = []
        for i, t in enumerate((1000, 4000, 16_000)):
            runs = seconds_of(frame, name, 16, t)
            mean = math.exp(sum(map(math.log, runs)) / 2)
            spread = math.exp(abs(math.log(runs[0] / runs[1])) / 2)
            assert container.lines[0].get_ydata()[i] == pytest.approx(mean, rel=IDENTITY)
            assert ends[i] == pytest.approx([mean / spread, mean * spread], rel=IDENTITY)
            residuals.append(math.log(mean) - np.interp(math.log(t), *np.log(line)))
        # The line is fitted to what is drawn: it lies neither above nor below.
        assert sum(residuals) == pytest.approx(0.0, abs=IDENTITY)
    assert r"VFE, m = 16: $\propto t^{" in text_of(found.figure)
    assert list(draw_against_duels(arrange(results), results.metric("nlp_nats"))) == []


def boxes_above(ax, renderer):
    """Of the words above an axis that are not empty."""
    texts = [ax._left_title, ax.title, ax._right_title, *ax.texts]
    return [text.get_window_extent(renderer) for text in texts if text.get_text()]


def test_what_is_off_the_axis_is_not_written_over_its_name(read):
    names = ("exact", "vfe", "fitc", "subset:30")
    frame = made_frame("long", "machine_cpu", approximations=names, sizes=(40, 80, 120), fails=())
    frame.loc[frame["metric"] == "accuracy", "value"] -= 0.3 * (
        frame["approximation"].isin(["coin", "linear-probit", "subset:30"])
    )
    figure = drawn(read("long", frame), "accuracy").figure
    renderer = figure.canvas.get_renderer()
    boxes = [box for ax in figure.axes for box in boxes_above(ax, renderer)]
    assert len(boxes) == 6
    assert "↓ linear probit 0.44, coin 0.2,\nsubset of 30 duels 0.497" in text_of(figure)
    for i, one in enumerate(boxes):
        assert figure.bbox.x0 <= one.x0 and one.x1 <= figure.bbox.x1
        assert not any(one.overlaps(two) for two in boxes[:i])
        assert not any(one.overlaps(box.get_window_extent(renderer)) for box in figure.legends)


@pytest.mark.parametrize(("metric", "best"), [("nlp_nats", 0.05), ("accuracy", 0.99)])
def test_a_baseline_that_is_best_stays_on_the_axis(read, metric, best):
    frame = made_frame(fails=())
    frame.loc[
        (frame["approximation"] == "linear-probit") & (frame["metric"] == metric), "value"
    ] = best
    found = drawn(read("best", frame), metric)
    (ax,) = found.figure.axes
    assert levels(ax)["linear probit"] == pytest.approx(best)
    low, high = ax.get_ylim()
    assert low < best < high
    assert "coin" not in levels(ax) and " coin 0." in text_of(found.figure)


@pytest.mark.parametrize(
    "values", [(622e6, 640e6), (845e6, 990e6), (1.01e9, 1.055e9), (1e9, 2.2e9), (3e3, 3.1e3)]
)
def test_narrow_log_axes_have_several_ticks(read, values):
    frame = made_frame(approximations=("vfe",), fails=(), baselines=False)
    memory = frame["metric"] == "peak_memory_bytes"
    frame.loc[memory, "value"] = np.where(frame.loc[memory, "inducing"] == 8, *values)
    found = drawn(read("narrow", frame), "peak_memory_bytes")
    (ax,) = found.figure.axes
    low, high = ax.get_ylim()
    ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    inside = [label.get_text() for tick, label in ticks if low <= tick <= high]
    assert ax.get_yscale() == "log"
    assert 3 <= len(inside) <= 8 and all(inside) and len(set(inside)) == len(inside)


def test_reliability_at_the_smallest_and_the_largest_m(results):
    found = drawn(results, "calibration_error", draw_reliability)
    assert found.name == "reliability" and "seed 3 is left out" in found.caption
    axes = found.figure.axes
    assert [ax.get_title(loc="left") for ax in axes] == ["boston, m = 8", "boston, m = 128"]
    arrangement = arrange(results)
    looks = looks_of(arrangement)
    curves = reliabilities(arrangement, results.metric("calibration_error"))
    for ax, m in zip(axes, (8, 128), strict=True):
        drawn_curves = {
            line.get_color(): line.get_xydata()
            for line in ax.get_lines()
            if line.get_label() == "_line"
        }
        own = [c for c in curves if c.key.m in (m, None) and not c.key.method.is_coin]
        assert len(own) == len(drawn_curves) == 6
        for curve in own:
            wanted = [(one.confidence, one.share_won) for one in curve.bins]
            assert drawn_curves[looks[curve.key.method].colour] == pytest.approx(np.array(wanted))
        low, high = ax.get_ylim()
        assert all(low <= y <= high for xy in drawn_curves.values() for y in xy[:, 1])
    assert all(word in text_of(found.figure) for word in ("VFE", "linear probit", "share won"))


def test_reliability_without_m_or_without_bins(read):
    results = read("no m", made_frame(approximations=("exact",), fails=()))
    found = drawn(results, "calibration_error", draw_reliability)
    assert [ax.get_title(loc="left") for ax in found.figure.axes] == ["boston"]
    bare = arrange(replace(results, bins={}))
    assert list(draw_reliability(bare, results.metric("calibration_error"))) == []


def test_nothing_against_m_without_m(read):
    results = read("exact", made_frame(approximations=("exact",), fails=()))
    assert list(draw_metric(arrange(results), results.metric("nlp_nats"))) == []


def test_names_are_never_formulas(read):
    results = read("odd", made_frame(data="$x_{$ 汉 <svg>", seeds=(0, 1), ms=(8, 16), fails=()))
    assert "x_{" in text_of(drawn(results, "nlp_nats").figure)
