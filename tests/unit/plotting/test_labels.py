"""Names next to points can be read."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from sparse_prefgp.plotting.canvas import axes_or_new, legend_at_the_right
from sparse_prefgp.plotting.labels import label_points


def boxes_of(ax: Any) -> dict[str, Any]:
    ax.figure.canvas.draw()
    return {text.get_text(): text.get_window_extent() for text in ax.texts}


def test_names_of_near_points_stand_apart() -> None:
    ax = axes_or_new(None)
    points = np.array([[3.0, 2.60], [2.95, 2.55], [-2.0, 1.0], [2.9, 2.65]])
    ax.plot(*points.T, "o")
    ax.margins(0.2)
    label_points(ax, points, ["4", "25", "a long name", 7], points)
    boxes = boxes_of(ax)
    assert set(boxes) == {"4", "25", "a long name", "7"}
    assert not any(one.overlaps(other) for one, other in combinations(boxes.values(), 2))
    frame = ax.get_window_extent()
    assert all(frame.contains(*box.min) and frame.contains(*box.max) for box in boxes.values())


def test_names_without_room_are_left_out_and_lines_are_not_crossed() -> None:
    ax = axes_or_new(None)
    ax.set_xlim(-1.0, 1.0)
    ax.set_ylim(-1.0, 1.0)
    points, lines = np.array([[0.5, 0.0]]), np.array([[[0.5, 0.0], [1.0, 0.0]]])
    label_points(ax, points, ["along the line"], np.array([[1.0, 0.0]]), lines=lines)
    (box,) = boxes_of(ax).values()
    on_line = ax.transData.transform(np.stack([np.linspace(0.5, 1.0, 500), np.zeros(500)], 1))
    assert not any(box.contains(*place) for place in on_line)
    same = np.zeros((40, 2))
    names = [f"one of many {i}" for i in range(40)]
    label_points(ax, same, names, np.ones((40, 2)))
    boxes = boxes_of(ax)
    assert "one of many 0" in boxes and 2 < len(boxes) < 41


def test_a_legend_at_the_right_hides_nothing() -> None:
    ax = axes_or_new(None)
    for name, end in (("low", 0.0), ("high", 2.0), ("middle", 1.0)):
        ax.plot([0.0, 1.0], [1.0, end], label=name)
    legend_at_the_right(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["high", "middle", "low"]
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1 - 1.0
