"""All public ways to one probability agree, or refuse in a sentence."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import tensorflow as tf

from tests.tolerances import IDENTITY
from tests.ways import CHOICES, COLUMNS, DUELS, Case, NotAsked, predict_choice, predict_duel

TRIPLES = """
    tastes+judges+ties tastes+items+covariates pairs+judges+grades contexts+leans+ties
    dates+judges+covariates
""".split()
KNOWN = {"tastes", "judges", "leans"}


def cases() -> list[Case]:
    pairs = combinations([name for name in COLUMNS if name != "plain"], 2)
    every = [(name,) for name in COLUMNS] + [*pairs] + [tuple(x.split("+")) for x in TRIPLES]
    known = [Case(features) for features in every]
    return known + [Case(features, known=False) for features in every if KNOWN & set(features)]


def called(case: Case) -> str:
    return "+".join(case.features) + ("" if case.known else "-unknown")


@pytest.mark.covering(
    *(f"tastes-unknown-{way}" for way in ("by_table", "served", "compiled")),
    *(f"tastes-{way}" for way in ("explained", "viewed", "compiled_view")),
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [*DUELS, *CHOICES])
@pytest.mark.parametrize("case", cases(), ids=called)
def test_every_way_says_the_same(way: str, case: Case) -> None:
    try:
        # Where ties may be, a choice is another thing than a win.
        chosen = way in CHOICES and case.model.likelihood.margin is not None
        wanted = predict_choice(case) if chosen else predict_duel(case)
        found = {**DUELS, **CHOICES}[way](case)
    except NotAsked:
        return
    except ValueError as refusal:
        text = str(refusal)
        assert text[0].isupper() and text.endswith(".") and "\n" not in text, text
        return
    np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=IDENTITY)


def test_compiled_as_one_writes_it_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(["plain"])
    logger = tf.get_logger()
    logger.addHandler(caplog.handler)
    try:
        found = tf.function(case.model.predict_duel)(*map(tf.constant, case.rows))
    finally:
        logger.removeHandler(caplog.handler)
    assert not [text for text in caplog.messages if "AutoGraph" in text]
    np.testing.assert_allclose(found, predict_duel(case), rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.parametrize("name", ["plain", "tastes"])
@pytest.mark.slow
def test_few_ways_refuse(name: str) -> None:
    """What refuses everything would agree with everything."""
    case = Case([name])
    refusing = set()
    for way_name, way in {**DUELS, **CHOICES}.items():
        try:
            way(case)
        except ValueError:
            refusing.add(way_name)
    expected = {"compiled_choice"}
    assert refusing == expected | ({"compiled", "compiled_view"} if name == "tastes" else set())
