"""Tables with ties, weights, groups and context: against frames made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.io import read_duels
from sparse_prefgp.io.judgements import Roles
from sparse_prefgp.workflow.folds import plan_folds
from tests.together import apart
from tests.tolerances import EVIDENCE, IDENTITY

ITEMS = pd.DataFrame({"name": ["a", "b", "c", "d"], "x": [0.0, 1.0, 3.0, 7.0]})
DUELS = pd.DataFrame(
    {
        "winner": ["a", "b", "c", "a", "b"],
        "loser": ["b", "c", "d", "c", "a"],
        "judge": ["p", "q", "p", "q", "p"],
        "worth": [1.0, 2.0, 0.5, 1.0, 1.0],
        "surface": ["clay", "grass", "clay", "clay", "clay"],
        "winner_home": [1, 0, 0, 0, 1],
        "loser_home": [0, 1, 0, 0, 0],
    }
)
TIES = pd.DataFrame({"item_a": ["d", "c"], "item_b": ["a", "b"], "judge": ["r", "p"], "odd": 1})


def test_a_table_of_ties_is_a_column_of_flags(tmp_path: Path) -> None:
    for frame, name in ((ITEMS, "items.csv"), (DUELS, "duels.csv"), (TIES, "ties.csv")):
        frame.to_csv(tmp_path / name, index=False)
    found = read_duels(*(tmp_path / f"{x}.csv" for x in ("items", "duels")), ties=TIES)
    below = TIES.rename(columns={"item_a": "winner", "item_b": "loser"}).drop(columns="odd")
    flagged = pd.concat([DUELS.assign(tie=False), below.assign(tie=True)], ignore_index=True)
    other = read_duels(ITEMS, flagged)
    for table in (found, other):
        np.testing.assert_array_equal(table.ties, [False] * 5 + [True] * 2)
        assert table.num_ties == 2 and table.standardised().num_ties == 2
        assert "tie" not in table.context and list(table.context["judge"][5:]) == ["r", "p"]
    np.testing.assert_array_equal(found.winners, other.winners)
    np.testing.assert_array_equal(found.losers, other.losers)
    from_file = read_duels(ITEMS, tmp_path / "duels.csv", ties=tmp_path / "ties.csv")
    assert from_file.row_names is not None
    names = from_file.select([4, 6]).row_names
    assert names is not None
    assert [names(0), names(1)] == [
        "row 6 of duels.csv (the header is row 1)",
        "row 3 of ties.csv (the header is row 1)",
    ]


def test_counts_of_ties_are_one_unless_given() -> None:
    counted = DUELS.assign(count=3)
    table = read_duels(ITEMS, counted, ties=TIES)
    np.testing.assert_array_equal(table.given.counts, [3] * 5 + [1] * 2)
    table = read_duels(ITEMS, counted, ties=TIES.assign(count=2))
    assert table.num_ties == 4 and table.standardised().num_duels == 19


def test_weights_and_groups_come_with_their_rows() -> None:
    table = read_duels(ITEMS, DUELS, weights="worth", groups="judge")
    duels = table.select([1, 2, 4]).standardised()
    np.testing.assert_array_equal(duels.effective_counts, [2.0, 0.5, 1.0])
    assert duels.group_names == ("q", "p")
    np.testing.assert_array_equal(duels.groups, [0, 1, 1])
    numbers = read_duels(ITEMS, DUELS.assign(judge=[1.0, 2.0, 1.0, 2.0, 1.0]), groups="judge")
    assert numbers.standardised().group_names == (1, 2)


def test_items_in_context_have_its_features() -> None:
    table = read_duels(ITEMS, DUELS, context=["surface", "home"])
    assert table.shared == ("surface",)
    assert (table.raw.numeric, table.raw.categorical) == (("x", "home"), ("surface",))
    won, lost = ([table.item_ids[i] for i in side] for side in table.given.pairs.T)
    assert won == [
        "a @ surface=clay, home=1",
        "b @ surface=grass, home=0",
        "c @ surface=clay, home=0",
        "a @ surface=clay, home=0",
        "b @ surface=clay, home=1",
    ]
    assert lost[1] == "c @ surface=grass, home=1"
    for row, side, name in ((0, "winner", "a"), (1, "loser", "c"), (4, "loser", "a")):
        item = table.given.pairs[row, 0 if side == "winner" else 1]
        features = table.raw.frame.iloc[item]
        assert features["x"] == float(ITEMS.set_index("name")["x"][name])
        assert features["home"] == DUELS[f"{side}_home"][row]
        assert features["surface"] == DUELS["surface"][row]
    # The last duel's loser is the winner of the fourth: one item in one context.
    assert table.given.pairs[4, 1] == table.given.pairs[3, 0]
    assert len(set(table.item_ids)) == table.num_items
    plain = read_duels(ITEMS, DUELS)
    np.testing.assert_array_equal(table.item[table.given.pairs], plain.given.pairs)


def test_ties_have_a_context_on_each_side() -> None:
    ties = pd.DataFrame({"item_a": ["d"], "item_b": ["a"], "item_a_home": [1], "item_b_home": [0]})
    table = read_duels(ITEMS, DUELS, ties=ties, context=["home"])
    sides = [table.item_ids[i] for i in table.given.pairs[5]]
    assert sides == ["d @ home=1", "a @ home=0"]


def test_a_home_column_is_a_fixed_effect_under_a_linear_kernel() -> None:
    duels = read_duels(ITEMS, DUELS, context=["home"]).standardised()
    kernel = gpflow.kernels.Linear(variance=[0.7, 0.9])
    model = spg.PreferenceGP(duels, kernel, engine=spg.ParallelEP(tolerance=1e-10))
    # By hand: differences of standardised x and home, one pseudo-item a side and duel.
    x = ITEMS.set_index("name")["x"]
    raw = np.array(
        [
            [[x[row[side]], row[f"{side}_home"]] for side in ("winner", "loser")]
            for _, row in DUELS.iterrows()
        ],
        dtype=float,
    )
    rows = np.unique(
        [
            [x[row[side]], row[f"{side}_home"]]
            for _, row in DUELS.iterrows()
            for side in ("winner", "loser")
        ],
        axis=0,
    )
    z = (raw - rows.mean(0)) / rows.std(0)
    d = z[:, 1] - z[:, 0]  # loser minus winner
    k = (d * [0.7, 0.9]) @ d.T
    box = spg.truncated_normal_ep(
        0.0,
        k + np.eye(len(d)),
        np.full(len(d), -np.inf),
        np.zeros(len(d)),
        engine=spg.ParallelEP(tolerance=1e-10),
    )
    assert model.log_evidence() == pytest.approx(box.log_mass, abs=EVIDENCE)


def test_what_both_sides_share_cancels_in_a_linear_kernel() -> None:
    with_surface = read_duels(ITEMS, DUELS, context=["surface"]).standardised()
    assert with_surface.num_features == 3
    kernel = gpflow.kernels.Linear(variance=[1.0, 5.0, 5.0])
    one = spg.PreferenceGP(with_surface, kernel).log_evidence()
    kernel = gpflow.kernels.Linear(variance=[1.0, 0.1, 0.1])
    assert spg.PreferenceGP(with_surface, kernel).log_evidence() == pytest.approx(one, abs=IDENTITY)
    # A product of features lets the surface count.
    product = gpflow.kernels.Linear(active_dims=[0]) * gpflow.kernels.SquaredExponential(
        active_dims=[1, 2], lengthscales=[0.5, 0.5]
    )
    wide = gpflow.kernels.Linear(active_dims=[0]) * gpflow.kernels.SquaredExponential(
        active_dims=[1, 2], lengthscales=[50.0, 50.0]
    )
    values = [spg.PreferenceGP(with_surface, k).log_evidence() for k in (product, wide)]
    assert abs(values[0] - values[1]) > 1e-3


def test_an_item_is_held_out_in_all_its_contexts() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.permuted(np.tile(np.arange(4), (60, 1)), axis=1)[:, :2]
    names = ITEMS["name"].to_numpy()
    duels = pd.DataFrame(
        {
            "winner": names[pairs[:, 0]],
            "loser": names[pairs[:, 1]],
            "round": rng.integers(0, 3, 60),
        }
    )
    table = read_duels(ITEMS, duels, context=["round"])
    split = split_duels(table, "items", 0.5, rng)
    won, lost = table.item[table.given.pairs.T]
    train, test = (set(won[rows]) | set(lost[rows]) for rows in (split.train_rows, split.test_rows))
    assert not train & test and len(train) == len(test) == 2
    plan = plan_folds(table, 2, "items", rng, None)
    for fold in plan.folds:
        assert not {*won[fold.train], *lost[fold.train]} & {*won[fold.test], *lost[fold.test]}


def test_items_without_a_duel_have_no_context_and_it_is_said() -> None:
    with pytest.warns(UserWarning, match="1 of 4 items are in no duel"):
        table = read_duels(ITEMS, DUELS.iloc[[0, 3]], context=["home"])
    assert {name[0] for name in table.item_ids} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("duels", "options", "message"),
    [
        (DUELS.assign(tie=["x", 0, 0, 0, 0]), {}, r"'tie' has 'x' in row 0 .*; give 1 for a tie"),
        (DUELS.assign(tie=0), {"ties": TIES}, apart("ties_table", "ties_column")),
        (DUELS, {"ties": TIES.drop(columns="item_b")}, "no column 'item_b'"),
        (DUELS, {"ties": TIES.drop(columns=["item_a", "item_b"])}, "no columns 'winner' and"),
        (DUELS, {"ties": TIES.iloc[:0]}, "no ties in"),
        (DUELS, {"ties": TIES.assign(item_a="z")}, "Row 0 of the ties frame .* 'z'"),
        (DUELS, {"ties": TIES.assign(item_a="a")}, "with itself"),
        (DUELS, {"weights": "price"}, "The duels frame has no column 'price'.*worth"),
        (DUELS.assign(worth=-1), {"weights": "worth"}, "'worth' has -1 in row 0 .*; give a pos"),
        (
            DUELS.assign(worth="much"),
            {"weights": "worth"},
            "has 'much' in row 0 .*; give a positive",
        ),
        (DUELS, {"weights": "worth", "ties": TIES}, r"missing value in row 0 of the ties frame"),
        (DUELS, {"groups": "who"}, "The duels frame has no column 'who'"),
        (DUELS.assign(judge=[None, *"abcd"]), {"groups": "judge"}, "'judge'.*missing in row 0"),
        (
            DUELS,
            {"context": ["court"]},
            "'court' is not a column of the duels, nor are 'winner_court",
        ),
        (DUELS.assign(x=1.0), {"context": ["x"]}, "'x' is a column of the items too"),
        (
            DUELS.assign(surface=[None, "a", "b", "a", "a"]),
            {"context": ["surface"]},
            "'surface' has a missing value in row 0 of the duels frame",
        ),
        (DUELS, {"context": "home"}, "context is the text 'home'; give a list"),
    ],
)
def test_malformed_tables(duels: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_duels(ITEMS, duels, **options)


def test_a_context_column_that_is_no_feature_is_left_out_of_the_context() -> None:
    many = pd.concat([DUELS] * 12, ignore_index=True)
    many["town"] = [f"town {i}" for i in range(60)]
    with pytest.raises(ValueError, match="leave it out of the context, or encode"):
        read_duels(ITEMS, many, context=["town"])


@pytest.mark.parametrize("codes", ["codes", "labels"])
@pytest.mark.parametrize("column", ["winner", "loser", "tie", "chosen", "level", "home"])
def test_labels_are_not_what_was_answered(codes: str, column: str) -> None:
    with pytest.raises(ValueError, match=f"The column '{column}' is "):
        Roles(grade="level", covariates=("home",), **{codes: {column: column}})
