"""The table of what cannot go together: every row has a test that meets it, and a page."""

import ast
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.meeting import meet
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.sampling import exact_problem
from sparse_prefgp.support import together
from sparse_prefgp.workflow.holdout import StreamHoldout
from tests.conftest import ROOT
from tests.together import apart, refused
from tests.unit.analysis.test_contexts import ITEMS as CLAY
from tests.unit.analysis.test_contexts import in_contexts
from tools.together_page import PAGE, page

# What is given things by name.
ASKING = ("together.check", "together.refused", ".allow")
PAIRS = [(one, other) for one, others in together.TABLE.items() for other in others]


def _met() -> set[tuple[str, ...]]:
    """The pairs that tests name."""
    calls = (
        node
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    return {
        tuple(part.value for part in call.args if isinstance(part, ast.Constant))
        for call in calls
        if call.func.id in ("apart", "refused", "sentence")
    }


def test_each_pair_is_met_by_a_test() -> None:
    met = {*map(frozenset, _met()), *map(frozenset, CASES)}
    assert not [pair for pair in PAIRS if frozenset(pair) not in met]


def test_each_pair_is_there_once_and_nothing_is_called_in_vain() -> None:
    assert len({*map(frozenset, PAIRS)}) == len(PAIRS)
    assert together.CALLED.keys() <= {name for pair in PAIRS for name in pair}


def test_nothing_is_asked_that_is_in_no_pair() -> None:
    known = {name for pair in PAIRS for name in pair}
    for path in (ROOT / "sparse_prefgp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(ASKING):
                assert {k.arg for k in node.keywords if k.arg} <= known, (path, node.lineno)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_that_do_not_go_together_are_refused(one: str, other: str) -> None:
    together.check(**{one: True, other: False})
    together.check(**{one: None, other: "this"})
    with refused(one, other):
        together.check(**{one: True, other: True})
    with pytest.raises(ValueError, match=f"^Those and these{apart(one, other)}$"):
        raise together.refused(**{one: "those", other: "these"})


X, PAIR = np.eye(4), ([0, 1, 2], [1, 2, 3])
DUELS = spg.Duels(X, *PAIR)
OF_PEOPLE = spg.Duels(X, *PAIR, people=["a", "a", "b"])
DATED = spg.Duels(X, *PAIR, times=[18000, 18001, 18002], item_ids=list("xyzw"))
NEW = pd.DataFrame({"winner": [0, 1], "loser": [1, 2], "home": [1, 2]})
CHOICES = pd.DataFrame({"chosen": [0, 1], "option_1": [0, 1], "option_2": [2, 0]})
ITEMS = pd.DataFrame({"item_id": range(3), "size": [1.0, 2.0, 4.0]})
RANKINGS = pd.DataFrame({"rank_1": ["x", "y"], "rank_2": ["y", "z"], "rank_3": ["z", "x"]})
PAIRS_TO_ASK = pd.DataFrame({"first": [0], "second": [1]})


def _sets(**more: Any) -> spg.Duels:
    offsets, kind = np.array([0, 3, 6]), np.full(2, CHOICE)
    sides = np.array([0, 1, 2, 1, 2, 3])
    return spg.Duels.from_events(X, Answers(sides, offsets, kind=kind, **more))


def _model(duels: spg.Duels = DUELS, kernel: Any = None, **more: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(duels, gpflow.kernels.Linear() if kernel is None else kernel, **more)


def _asked(model: spg.PreferenceGP, **more: Any) -> Any:
    return spg.suggest(model, rng=np.random.default_rng(0), **more)


def _pairs_apart() -> spg.PreferenceGP:
    return _model(kernel=gpflow.kernels.Linear() + spg.PairEffect())


def _of_sides() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"winner": X, "loser": X[::-1]})


def _compiled(model: spg.PreferenceGP, **more: Any) -> Any:
    return tf.function(lambda: model.predict_difference(X[:1], X[1:2], **more))()


# What no other test shows.
CASES: dict[tuple[str, str], Callable[[], Any]] = {
    ("in_time", "sets"): lambda: _model(
        _sets(time=np.array([18000.0, 18001.0])),
        gpflow.kernels.Linear() + spg.ItemInTime(spg.markov.Wiener()),
    ),
    ("sets", "by_items"): lambda: _model(_sets(), approximation=spg.Exact(over="items")),
    ("effects_by_kernel", "inducing"): lambda: _model(
        kernel=gpflow.kernels.Linear() + spg.ItemTimes(gpflow.kernels.Matern52()),
        approximation=spg.VFE(),
    ),
    ("tastes_of_streamed_duels", "blocks"): lambda: spg.StreamedGP(
        spg.stream_duels(OF_PEOPLE),
        gpflow.kernels.Linear(),
        terms=[spg.Taste(gpflow.kernels.Linear())],
        approximation=spg.PITC([0, 0, 1]),
    ),
    ("chunks", "blocks"): lambda: spg.FitSettings(stream=True, approximation="pitc:2"),
    ("chunks", "refit"): lambda: spg.FitSettings(stream=True, refit=True),
    ("chunks", "starts"): lambda: spg.FitSettings(stream=True, starts=2),
    ("chunks", "tie_model"): lambda: spg.FitSettings(stream=True, tie_model="margin-only"),
    ("chunks", "person"): lambda: spg.FitSettings(stream=True, tastes=True),
    ("chunks", "taste"): lambda: spg.FitSettings(stream=True, taste="se"),
    ("integrate", "in_time"): lambda: spg.integrate(
        _model(DATED, spg.ItemInTime(spg.markov.Wiener()))
    ),
    ("own_terms", "auto"): lambda: spg.FitSettings(terms=("weekday",), kernel="auto"),
    ("chunks", "auto"): lambda: spg.FitSettings(stream=True, kernel="auto"),
    ("chunks", "auto_inducing"): lambda: spg.FitSettings(stream=True, inducing="auto"),
    ("chunks", "max_train"): lambda: StreamHoldout.of(
        spg.stream_duels(DUELS), spg.FitSettings(stream=True, max_train=2)
    ),
    ("comparison", "grades"): lambda: spg.compare(
        ["linear/exact"], spg.Duels(X, *PAIR, grades=[1, 2, 1], levels=["a", "b", "c", "d"])
    ),
    ("comparison", "block_column"): lambda: spg.compare(["linear/pitc:home"], DUELS, folds=2),
    ("answers", "ahead"): lambda: spg.evaluate(_model(), choices=CHOICES, ahead=True),
    ("answers", "dated_duels"): lambda: spg.update(
        _model(DATED), choices=CHOICES.replace({0: "x", 1: "y", 2: "z"})
    ),
    ("logistic", "choice"): lambda: _model(engine=spg.Laplace(link="logit")).predict_choice(
        X[None, :3]
    ),
    ("pair_effects", "export"): lambda: spg.export_saved_model(_pairs_apart(), "nowhere"),
    ("margin_only", "sampling"): lambda: exact_problem(
        _model(
            spg.Duels(X, *PAIR, ties=[True, False, False]),
            likelihood=spg.Probit(margin=0.3, ties="margin-only"),
        )
    ),
    ("set_size", "context"): lambda: _asked(_model(), set_size=3, at="surface=clay"),
    ("set_size", "contexts"): lambda: _asked(in_contexts(), set_size=3),
    ("context", "pairs"): lambda: _asked(in_contexts(), pairs=PAIRS_TO_ASK, at="surface=clay"),
    ("no_pairs", "column"): lambda: _asked(_model(), columns={"surface": "ground"}),
    ("contexts", "answers"): lambda: spg.evaluate(in_contexts(), choices=CHOICES),
    ("contexts", "meeting"): lambda: meet(in_contexts(), NEW),
    ("groups", "one_noise"): lambda: _model().predict_duel(X, X, groups="a"),
    ("duels_object", "column"): lambda: spg.evaluate(_model(), DUELS, columns={"count": "n"}),
    ("compiled", "people"): lambda: _compiled(_model(OF_PEOPLE), people="a"),
    ("compiled", "covariates"): lambda: _compiled(_model(), covariates=[[1.0]]),
    ("compiled", "date"): lambda: _compiled(_model(DATED), at=18000),
    ("compiled", "choice"): lambda: tf.function(_model().predict_choice)(X[None, :3]),
    ("compiled", "streamed"): lambda: tf.function(
        spg.StreamedGP(spg.stream_duels(DUELS), gpflow.kernels.Linear()).training_loss
    )(),
    ("compiled", "groups"): lambda: tf.function(
        lambda x: _model().predict_duel(x, x, groups="a"), [tf.TensorSpec((None, 4), tf.float64)]
    )(X),
    ("stacked", "grades"): lambda: spg.gpflow.stacked_duels(spg.Duels(X, *PAIR, grades=[1, 2, 1])),
    ("feature_groups", "no_columns"): lambda: spg.compare(
        ["additive-se/vfe"], DUELS, folds=2, groups=[["a"]]
    ),
    ("only_ties", "margin_only"): lambda: _model(
        spg.Duels(X, *PAIR, ties=[True] * 3),
        likelihood=spg.Probit(margin=0.3, ties="margin-only"),
    ),
    ("no_items", "texts"): lambda: spg.with_texts(None, "said"),
    ("answers", "idle_option"): lambda: spg.fit(answers=NEW[["winner", "loser"]], at_once=True),
    ("items_without_features", "split_of_items"): lambda: spg.fit(
        duels=NEW[["winner", "loser"]], split="items", test_fraction=0.5
    ),
    ("features_of_contexts", "kernel_of_features"): lambda: spg.fit(
        duels=NEW, context=["home"], kernel="linear"
    ),
    ("leaderboard", "sets"): lambda: spg.leaderboard(RANKINGS),
    ("context", "context_columns"): lambda: spg.rank(
        in_contexts(), CLAY.assign(surface="clay", home=1), at="surface=clay"
    ),
    ("context", "features_for_ids"): lambda: spg.explain(_model(), X[0], X[1], at="surface=clay"),
    ("features_of_sides", "own_items"): lambda: spg.rank(
        spg.StreamedGP(spg.stream_duels(_of_sides()), gpflow.kernels.Linear())
    ),
    ("dataset", "features"): lambda: spg.stream_duels(_of_sides(), features=["x0"]),
    ("check_against_sampling", "view"): lambda: spg.check_against_sampling(
        _model(OF_PEOPLE, terms=[spg.Taste(gpflow.kernels.Linear())]).consensus(),
        rng=np.random.default_rng(0),
    ),
    ("asked_features", "items_without_features"): lambda: spg.read_duels(
        ITEMS[["item_id"]], NEW, features=["size"]
    ),
}


@pytest.mark.parametrize("pair", CASES, ids=" and ".join)
def test_what_does_not_go_together(pair: tuple[str, str]) -> None:
    with refused(*pair):
        CASES[pair]()


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf8") == page(), "make it again: python tools/together_page.py"
