"""New tables of a model are read as that was which it has learned from."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.answers import read_answers


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(text.replace("; ", "\n")), dtype=str)


def model_of(text: str, **options: Any) -> spg.PreferenceGP:
    duels = spg.read(table(text), **options).standardised()
    tied = duels.ties is not None or duels.levels is not None
    return spg.PreferenceGP(
        duels,
        spg.ItemEffect(),
        approximation=spg.Exact(),
        likelihood=spg.Probit(margin=0.3 if tied else None),
    )


def pairs_of(model: spg.PreferenceGP, text: str, kind: str = "duels", **options: Any) -> list[str]:
    """Who was better than whom, first sides first."""
    found = read_answers(model, kind, table(text), **options)
    ids, events = found.items.ids, found.events
    ends = zip(events.offsets[:-1], events.offsets[1:], strict=True)
    return ["".join(str(ids[i]) for i in events.sides[a:b]) for a, b in ends]


def test_verdicts_mean_what_they_meant():
    model = model_of("a,b,winner; u,v,1; v,z,0; z,u,0.5", sides=["a", "b"])
    assert pairs_of(model, "a,b,winner; u,v,0; v,z,1") == ["vu", "vz"]
    # Also under other names of columns.
    renamed = {"a": "left", "b": "right", "winner": "who"}
    assert pairs_of(model, "left,right,who; u,v,0", columns=renamed) == ["vu"]


def test_grades_keep_their_strength():
    grades = "left,right,said; {}; v,z,right better; z,u,tie; z,v,right slightly better"
    model = model_of(grades.format("u,v,left much better"), outcome="said")
    assert model.duels.levels == ("-3", "-2", "-1", "0", "1", "2", "3")
    found = read_answers(model, "duels", table("left,right,said; u,v,right much better"))
    assert found.events.answer is not None and found.events.answer.numbers.tolist() == [3]


def test_positions_are_counted_as_they_were():
    shown = "option_1,option_2,option_3,chosen; k,o,n,{}"
    model = model_of(f"{shown.format(0)}; n,k,o,2; o,n,k,1")
    assert pairs_of(model, shown.format(2), "choices")[0][0] == "n"
    assert pairs_of(model, shown.format(1), "choices")[0][0] == "o"


COLUMN = "home,away,result,neutral,home_rest,away_rest"
PLAYED = f"{COLUMN}; u,v,H,1,2,1; v,z,A,0,1,4; z,u,A,1,3,3; u,z,H,0,1,2"


def test_a_column_of_a_row_is_of_the_first_less_the_second():
    read = spg.read(table(PLAYED), covariate=["neutral", "rest"], side=True)
    steps = read.events.covariate_differences
    assert read.events.covariate_names == ("neutral", "rest", "side")
    # Winner less loser: where the second side won, what is of the first counts the other way.
    np.testing.assert_array_equal(steps, [[1, 1, 1], [0, 3, -1], [-1, 0, -1], [0, -1, 1]])


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("home,away,neutral,home_rest,away_rest; v,u,1,5,2", {}, [1, 3, 1]),
        ("first,second,neutral,first_rest,second_rest; v,u,1,5,2", {}, [1, 3, 0]),
        ("first,second,neutral,first_rest,second_rest,side; v,u,1,5,2,-1", {}, [1, 3, -1]),
        ("first,second,neutral,first_rest,second_rest; v,u,0,5,2", {"side": 1.0}, [0, 3, 1]),
    ],
)
def test_questions_know_their_sides(text, options, expected):
    model = model_of(PLAYED, covariate=["neutral", "rest"], side=True)
    found = read_answers(model, "pairs", table(text), covariates=options)
    np.testing.assert_array_equal(found.events.covariate_differences, [expected])


def test_what_a_question_lacks_counts_as_0():
    model = model_of(PLAYED, covariate=["neutral", "rest"], side=True)
    with pytest.warns(UserWarning, match="no column 'neutral'"):
        found = read_answers(model, "pairs", table("first,second; v,u"), covariates={"side": 1.0})
    np.testing.assert_array_equal(found.events.covariate_differences, [[0, 0, 1]])
    with pytest.warns(UserWarning, match="no column 'neutral'"):
        found = read_answers(model, "duels", table("winner,loser; v,u"))
    assert found.events.covariates is None


def test_leans_may_be_by_the_side():
    judged = table(PLAYED).assign(judge=["p", "q", "p", "q"])
    assert spg.read(judged, lean_by="judge:side", side=True).events.labels["judge"].names
