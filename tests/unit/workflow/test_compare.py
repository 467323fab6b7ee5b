"""Comparing candidates: folds, scores, the rule, what is refused; and the automatic choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import linear_probit
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.io import read_choices, read_duels
from sparse_prefgp.support.machine import MEMORY
from sparse_prefgp.workflow import automatic as automatic_module
from sparse_prefgp.workflow import comparison as compare_module
from sparse_prefgp.workflow.automatic import automatic_candidates, choose
from sparse_prefgp.workflow.comparison import Comparison, compare, fit_candidate
from sparse_prefgp.workflow.failures import reason_of
from sparse_prefgp.workflow.finished import FinishedFit
from sparse_prefgp.workflow.folds import plan_folds
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import Candidate
from sparse_prefgp.workflow.settings import FitSettings
from tests.together import apart, refused
from tests.tolerances import IDENTITY, ROUNDING

N, T = 12, 90
BOTH: Any = {"kernel": "auto", "approximation": "auto"}


def _frames() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    kinds = ["red", "green"] * (N // 2)
    ids = [f"i{i}" for i in range(N)]
    items = pd.DataFrame({"item_id": ids, "a": x[:, 0], "b": x[:, 1], "kind": kinds})
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    order = np.argsort(x.sum(1)[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    columns = {"winner": winners, "loser": losers}
    duels = pd.DataFrame(columns).map(lambda i: f"i{i}")
    duels["person"] = [f"p{i % 9}" for i in range(T)]
    duels["day"] = np.arange(T) // 3
    duels["test"] = np.arange(T) % 4 // 3
    return items, duels


@pytest.fixture(scope="module")
def table() -> Duels:
    return read_duels(*_frames(), never_features=("person", "day", "test"))


@pytest.fixture(scope="module")
def duels(table: Duels) -> spg.Duels:
    return table.standardised()


Fit = Callable[..., FinishedFit]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Candidates are not fitted but have the nats given here: one number, or a function of the
    scored rows; an exception is raised. Those with a `position` go on from it after the first
    round, with the nats in `later`. `calls` holds what was fitted."""
    state: dict[str, Any] = {"nats": {}, "later": {}, "position": {}, "evidence": {}, "calls": []}

    def fit(candidate: Candidate, train: spg.Duels, test: Any, **more: Any) -> FinishedFit:
        won, lost = test.pairs.T
        state["calls"].append((str(candidate), train, won, lost, more))
        name, first = str(candidate), more["first"]
        value = state["nats"][name] if first else state["later"].get(name, state["nats"][name])
        if isinstance(value, Exception):
            raise value
        nats = value(len(won)) if callable(value) else np.full(len(won), value)
        evidence = state["evidence"].get(name, -0.5)
        position = state["position"].get(name) if first else None
        return FinishedFit(-np.asarray(nats, dtype=float), evidence, True, position=position)

    monkeypatch.setattr(compare_module, "fit_candidate", fit)
    return state


# Folds.


def test_every_duel_is_scored_once_and_never_fitted_to_in_its_fold(table: Duels) -> None:
    plan = plan_folds(table, 4, "duels", np.random.default_rng(0), None)
    assert sorted(np.concatenate([fold.test for fold in plan.folds])) == list(range(T))
    for fold in plan.folds:
        assert sorted([*fold.train, *fold.test]) == list(range(T))


def test_enough_scored_duels_end_the_folds(table: Duels) -> None:
    plan = plan_folds(table, 5, "duels", np.random.default_rng(0), None)
    sizes = [len(fold.test) for fold in plan.folds]
    plan.stop_after(sizes[0] + 1)
    assert [len(fold.test) for fold in plan.folds] == sizes[:2]
    assert plan.description.endswith("Of these the first 2 are scored.")
    plan.stop_after(10**6)
    assert len(plan.folds) == 2


def test_candidates_say_how_far_they_can_be_trusted(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"linear/vfe": 0.3, "se/vfe": lambda k: np.where(np.arange(k) % 4, 0.1, 0.8)}
    found = spg.compare(["linear/vfe", "se/vfe"], table, folds=3, race=False, enough=T)
    by_name = {score.candidate.kernel: score for score in found.scores}
    assert by_name["linear"].calibration_error == pytest.approx(1.0 - np.exp(-0.3))
    assert set(by_name["linear"].abstention.values()) == {1.0}
    right = by_name["se"].abstention
    assert right[1.0] < 0.8 < right[0.1]
    for one in found.to_dict()["candidates"]:
        assert sum(each["duels"] for each in one["reliability"]) == T
        assert next(iter(one["abstention"])) == "1"


@pytest.mark.parametrize("by", ["group:person", "items", "group:kind"])
def test_groups_and_items_are_on_one_side(table: Duels, by: str) -> None:
    folds = 2 if by == "group:kind" else 3
    plan = plan_folds(table, folds, by, np.random.default_rng(0), None)
    sides, kinds = table.given.pairs.T, table.raw.frame["kind"].to_numpy()
    names = {
        "group:person": [table.context["person"].to_numpy()] * 2,
        "items": sides,
        "group:kind": kinds[sides],
    }[by]
    held: list[str] = []
    for fold in plan.folds:
        sides = [{n for side in names for n in side[rows]} for rows in (fold.train, fold.test)]
        assert not sides[0] & sides[1]
        held += sides[1]
    assert len(held) == len(set(held)), "each is held out once"
    mixed = T - sum(len(fold.test) for fold in plan.folds)
    assert (mixed > 0) == (by != "group:person")
    assert (f"{mixed:,} of {T} duels" in plan.description) == (mixed > 0)


def test_time_scores_the_last_part_and_fits_to_the_latest_before(table: Duels) -> None:
    (fold,) = plan_folds(table, 3, "time:day", np.random.default_rng(0), 20).folds
    day = table.context["day"].to_numpy()
    assert sorted(fold.test) == list(range(60, 90))
    assert len(fold.train) == 20
    assert sorted(fold.train) == list(range(40, 60))
    assert day[fold.train].max() < day[fold.test].min()


def test_a_column_that_says_what_is_held_out_has_one_fold(table: Duels) -> None:
    plan = plan_folds(table, 5, "given:test", np.random.default_rng(0), 20)
    (fold,) = plan.folds
    assert sorted(fold.test) == list(range(3, T, 4)) and len(fold.train) == 20
    assert not {*fold.test} & {*fold.train}
    assert plan.description == f"Held out by the column 'test': 22 of {T} duels."
    with refused("stated_split", "folds"):
        spg.CompareSettings(by="given:test", folds=3)
    with refused("stated_split", "test_fraction"):
        FitSettings(split="given:test", test_fraction=0.3)


def test_copies_of_equal_duels_are_parted(duels: spg.Duels) -> None:
    many = spg.Duels(duels.items, duels.winners, duels.losers, 2 * duels.counts)
    plan = plan_folds(many, 5, "duels", np.random.default_rng(1), None)
    assert len(plan.events) == 2 * T and np.all(plan.counts == 1)
    assert sum(plan.train(fold).num_duels for fold in plan.folds) == 4 * 2 * T


def test_given_groups_stay_whole_and_counts_are_kept(duels: spg.Duels) -> None:
    by = np.arange(duels.num_pairs) % 4
    plan = plan_folds(duels, 2, by, np.random.default_rng(0), None)
    assert np.array_equal(plan.counts, duels.counts)
    for fold in plan.folds:
        assert not set(by[fold.train]) & set(by[fold.test])


def test_training_parts_are_standardised_on_their_own_items(table: Duels) -> None:
    plan = plan_folds(table, 3, "items", np.random.default_rng(0), None)
    for fold in plan.folds:
        train = plan.train(fold)
        used = np.unique([train.winners, train.losers])
        np.testing.assert_allclose(train.items[used, 0].mean(), 0.0, atol=IDENTITY)


def test_duels_of_one_choice_are_never_parted() -> None:
    items, _ = _frames()
    rows = [
        {"choice_set": s, "item_id": f"i{(s + j) % N}", "chosen": int(j == 0)}
        for s in range(30)
        for j in range(3)
    ]
    with pytest.warns(UserWarning, match="expanded"):
        table = read_choices(items, pd.DataFrame(rows), as_duels=True)
    plan = plan_folds(table, 3, "duels", np.random.default_rng(0), 25)
    sets = table.sets()
    for fold in plan.folds:
        assert not set(sets[fold.train]) & set(sets[fold.test])
        assert len(fold.train) <= 25 and plan.thinned > 0
        assert all(np.sum(sets[fold.train] == s) == np.sum(sets == s) for s in sets[fold.train])


# Scores and the rule.


def test_scores_are_means_and_errors_over_five_folds(table: Duels, fits: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    drawn: dict[str, list[Any]] = {"se/vfe/4": [], "linear/vfe/4": []}

    def draw(name: str) -> Callable[[int], Any]:
        def nats(k: int) -> Any:
            drawn[name].append(rng.uniform(0.4, 0.8, k))
            return drawn[name][-1]

        return nats

    fits["nats"] = {name: draw(name) for name in drawn}
    found = compare(list(drawn), table, folds=5, race=False)
    means = {name: np.array([v.mean() for v in values]) for name, values in drawn.items()}
    for score in found.scores:
        mine = means[str(score.candidate)]
        np.testing.assert_allclose(score.fold_nlp_nats, mine)
        assert score.nlp_nats == pytest.approx(mine.mean())
        assert score.nlp_se == pytest.approx(mine.std(ddof=1) / math.sqrt(5))
        apart = mine - means[str(found.best)]
        assert score.difference == pytest.approx(apart.mean())
        assert score.difference_se == pytest.approx(apart.std(ddof=1) / math.sqrt(5))
        assert score.log_evidence_per_duel == -0.5
    assert found.scores[0].candidate == found.best
    assert found.scores[0].nlp_nats < found.scores[1].nlp_nats


def test_linear_probit_is_scored_on_the_same_folds(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": 0.6}
    found = compare(["se/vfe/4"], table, folds=3)
    means = []
    for _, train, won, lost, _ in fits["calls"]:
        probit = linear_probit(train, rng=np.random.default_rng(0))
        means.append(-probit.predict(Answers.between(won, lost), train.items).log_first.mean())
    assert found.linear_probit[0] == pytest.approx(np.mean(means))
    assert found.gain[0] == pytest.approx(np.mean(means) - 0.6)
    assert not any("linear probit predicts better" in note for note in found.notes)
    fits["nats"] = {"se/vfe/4": 3.0}
    worse = compare(["se/vfe/4"], table, folds=3)
    assert worse.gain[0] < 0
    (note,) = (n for n in worse.notes if "linear probit predicts better" in n)
    assert "try the kernel linear" in note


def test_ties_within_a_standard_error_go_to_the_simplest(
    table: Duels, fits: dict[str, Any]
) -> None:
    def wobbling(k: int) -> Any:  # 0.002 worse with a standard error of 0.01
        return 0.502 + 0.01 * math.sqrt(3.0 * T) * np.linspace(-1.0, 1.0, k)

    def too_far(k: int) -> Any:  # 0.004 worse: no error is so rough that it is a tie
        return wobbling(k) + 0.002

    fits["nats"] = {"linear+se/vfe/4": 0.5, "se/vfe/4": wobbling, "se/vfe/3": 0.502}
    fits["nats"]["se/vfe/2"] = too_far
    found = compare(list(fits["nats"]), table, folds=2, race=False)
    # se/vfe/3 is simpler still, but surely behind.
    assert str(found.best) == "linear+se/vfe/4" and str(found.chosen) == "se/vfe/4"
    assert "the simplest of 2 that are tied" in found.reason
    assert "one standard error" in found.rule

    fits["nats"]["se/vfe/4"] = 0.501
    found = compare(list(fits["nats"]), table, folds=2, race=False)
    assert str(found.chosen) == "linear+se/vfe/4" and "predicts best" in found.reason


def test_a_single_fold_has_errors_over_duels(table: Duels, fits: dict[str, Any]) -> None:
    values = np.random.default_rng(5).uniform(0.4, 0.8, 30)
    fits["nats"] = {"se/vfe/4": lambda k: values, "linear/vfe/4": 0.9}
    found = compare(list(fits["nats"]), table, folds=3, by="time:day")
    score = found.scores[0]
    assert score.nlp_se == pytest.approx(values.std(ddof=1) / math.sqrt(30))
    assert (
        found.folds == 1
        and "One fold was scored, so standard errors are over duels." in found.notes
    )


def test_a_failed_candidate_stays_in_the_table(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": ValueError("It went\nwrong."), "linear/vfe/4": 0.5}
    found = compare(list(fits["nats"]), table, folds=3)
    good, bad = found.scores
    assert (good.status, bad.status) == ("ok", "failed")
    assert bad.reason == "fold 1: It went" and math.isnan(bad.nlp_nats)
    assert [call[0] for call in fits["calls"]].count("se/vfe/4") == 1
    assert str(found.chosen) == "linear/vfe/4"
    frame = found.to_frame()
    assert list(frame["status"]) == ["ok", "failed", "reference"]
    assert list(frame["chosen"]) == [True, False, False]

    fits["nats"]["linear/vfe/4"] = ArithmeticError()
    none = compare(list(fits["nats"]), table, folds=3)
    assert none.chosen is None and none.best is None and "No candidate" in none.reason
    assert none.scores[1].reason == "fold 1: ArithmeticError"
    assert math.isnan(none.gain[0]) and str(none)


def test_those_clearly_behind_are_given_up(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": 0.5, "linear/vfe/4": 0.501, "matern52/vfe/4": 0.516}
    seen: list[tuple[int, int]] = []
    found = compare(
        list(fits["nats"]), table, folds=4, callback=lambda p: seen.append((p.done, p.total))
    )
    statuses = {str(score.candidate): score.status for score in found.scores}
    assert statuses == {"se/vfe/4": "ok", "linear/vfe/4": "ok", "matern52/vfe/4": "behind"}
    assert len(found.scores[-1].fold_nlp_nats) == 1 and "given up" in found.scores[-1].reason
    assert len(fits["calls"]) == 9
    assert seen[0] == (0, 15) and seen[-1] == (10, 11)
    whole = compare(list(fits["nats"]), table, folds=4, race=False)
    assert all(len(score.fold_nlp_nats) == 4 for score in whole.scores)
    rest = {"linear/vfe/4": 0.514, "matern52/vfe/4": lambda k: np.linspace(0.0, 1.1, k)}
    fits["nats"] |= rest  # no further than .015, and within two standard errors
    close = compare(list(fits["nats"]), table, folds=4)
    assert all(score.status == "ok" for score in close.scores)


def test_the_others_go_on_from_where_they_stopped(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"linear/vfe/4": 0.5, "se/fitc/4": 0.7, "matern52/vfe/4": 0.7, "se/vfe/4": 0.501}
    fits["nats"]["se+item/vfe/4"] = 0.7
    fits["position"] = {"matern52/vfe/4": np.arange(3.0), "se/vfe/4": np.arange(4.0)}
    fits["evidence"] = {"se/fitc/4": -0.1, "se+item/vfe/4": -0.2, "matern52/vfe/4": -0.4}
    fits["later"] = {"matern52/vfe/4": 0.4}
    found = compare(list(fits["nats"]), table, folds=5, max_iterations=40)
    of_fold = [
        (name, more["first"], more["settings"].max_iterations, more["start"])
        for name, _, _, _, more in fits["calls"]
    ]
    assert [one[:3] for one in of_fold[:7]] == [
        *((name, True, 15) for name in fits["nats"]),
        ("matern52/vfe/4", False, 25),  # spared: of no other can evidence tell more
        ("se/vfe/4", False, 25),
    ]
    assert np.array_equal(of_fold[5][3], np.arange(3.0))
    assert all(steps == 40 and start is None for _, _, steps, start in of_fold[7:])
    statuses = {str(score.candidate): score.status for score in found.scores}
    assert statuses == {
        "matern52/vfe/4": "ok",
        "linear/vfe/4": "behind",
        "se/vfe/4": "behind",
        "se/fitc/4": "behind",
        "se+item/vfe/4": "behind",
    }
    reasons = {str(score.candidate): score.reason for score in found.scores}
    assert "after 15 steps on the first of 5 folds, given up" in reasons["se/fitc/4"]
    assert "after 1 of 5 folds, given up" in reasons["se/vfe/4"]
    assert str(found.chosen) == "matern52/vfe/4" and found.folds == 5
    assert found.scores[0].fold_nlp_nats == pytest.approx([0.4] * 5)

    fits["calls"].clear()
    short = compare(list(fits["nats"]), table, folds=5, max_iterations=40, enough=10_000)
    assert len(fits["calls"]) == 7 and short.folds == 1, "one is left"
    assert short.chosen == found.chosen


def test_time_budget_counts_whole_folds_only(
    table: Duels, fits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr(compare_module, "perf_counter", lambda: clock["now"])

    def ticking(value: float) -> Callable[[int], Any]:
        def nats(k: int) -> Any:
            clock["now"] += 1.0
            return np.full(k, value)

        return nats

    fits["nats"] = {"se/vfe/4": ticking(0.5), "linear/vfe/4": ticking(0.501)}
    found = compare(list(fits["nats"]), table, folds=4, time_budget=4.5)
    assert found.folds == 2 and {len(s.fold_nlp_nats) for s in found.scores} == {2}
    assert any("ended the comparison after 2 of 4 folds" in note for note in found.notes)
    clock["now"] = 0.0
    fits["position"] = dict.fromkeys(fits["nats"], np.zeros(2))
    fits["later"] = {"se/vfe/4": ticking(0.1)}
    found = compare(list(fits["nats"]), table, folds=4, time_budget=2.5)
    assert [score.nlp_nats for score in found.scores] == pytest.approx([0.5, 0.501]), "alike"
    fits["position"], fits["later"] = {}, {}
    clock["now"] = 0.0
    found = compare(list(fits["nats"]), table, folds=4, time_budget=0.5)
    assert [score.status for score in found.scores] == ["ok", "not reached"]
    assert str(found.chosen) == "se/vfe/4" and "0.5 s were over" in found.scores[1].reason


def test_thinning_is_told(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": 0.5}
    found = compare(["se/vfe/4"], table, folds=3, max_train=30)
    assert all(call[1].num_duels == 30 for call in fits["calls"])
    assert any("at most 30 training duels" in note for note in found.notes)


def test_errors_of_few_folds_are_over_duels(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": lambda k: np.arange(float(k))}

    def compared(folds: int, **more: Any) -> tuple[float, list[str]]:
        found = compare(["se/vfe/4"], table, folds=folds, **more)
        return found.scores[0].nlp_se, [x for x in found.notes if "standard errors are" in x]

    error, (note,) = compared(3)
    assert error == pytest.approx(np.tile(np.arange(30.0), 3).std(ddof=1) / math.sqrt(T))
    assert note == "3 folds were scored, so standard errors are over duels."
    assert "over values of 'person'." in compared(3, by="group:person")[1][0]
    error, notes = compared(5)
    assert error == 0.0 and notes == []


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate"), RuntimeError("It broke.\n")])
def test_no_failure_of_a_candidate_ends_the_comparison(
    table: Duels, fits: dict[str, Any], error: Exception
) -> None:
    fits["nats"] = {"se/vfe/4": error, "linear/vfe/4": 0.5}
    found = compare(list(fits["nats"]), table, folds=2)
    assert str(found.chosen) == "linear/vfe/4"
    failed = found.scores[1]
    assert failed.status == "failed" and failed.reason.startswith("fold 1: ")
    assert failed.reason.removeprefix("fold 1: ") in (MEMORY, "It broke.")


def test_a_bug_still_ends_it(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": AssertionError("never")}
    with pytest.raises(AssertionError, match="never"):
        compare(["se/vfe/4"], table, folds=2)


def _raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(tf.errors.OpError) as caught:
        call()
    return caught.value


def test_tensorflow_errors_become_one_plain_sentence() -> None:
    matrix = tf.constant([[1.0, 2.0], [2.0, 1.0]], tf.float64)

    @tf.function(autograph=False)
    def checked(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.assert_positive(x, message="must be > 0")]):
            return tf.identity(x)

    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: matrix @ tf.zeros([3, 3], tf.float64), "Matrix size-incompatible"),
        (lambda: tf.debugging.check_numerics(matrix * np.nan, "Here"), "Here : Tensor had NaN"),
        (lambda: checked(matrix - 5.0), "assertion failed: [must be > 0"),
    ]
    for call, words in calls:
        reason = reason_of(_raised(call))
        assert reason.startswith(f"TensorFlow reports '{words}") and reason.endswith(".")
        assert "\n" not in reason and len(reason) < 200
        for noise in ("node", "device", "[Op", "Graph execution", "File "):
            assert noise not in reason
    full = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    assert reason_of(full) == MEMORY


# Kept fits.


LISTED = {"se/vfe/4": 0.5, "linear/vfe/4": 0.501, "matern52/vfe/4": ValueError("It failed.")}


def same(first: Comparison, second: Comparison) -> None:
    """But for time, and the note on what came from a checkpoint."""
    for mine, other in zip(first.scores, second.scores, strict=True):
        assert mine.candidate == other.candidate
        assert (mine.status, mine.reason, mine.fold_nlp_nats) == (
            other.status,
            other.reason,
            other.fold_nlp_nats,
        )
        assert (mine.inducing, mine.parameters) == (other.inducing, other.parameters)
        np.testing.assert_equal(mine.log_evidence_per_duel, other.log_evidence_per_duel)
    assert (first.chosen, first.reason, first.gain) == (second.chosen, second.reason, second.gain)


@pytest.fixture
def stopped(table: Duels, fits: dict[str, Any], tmp_path: Path) -> tuple[Path, Comparison]:
    """A comparison of seven fits that was interrupted in the fifth, and the same one whole."""
    fits["nats"] = dict(LISTED)
    whole = compare(list(LISTED), table, folds=3)
    assert len(fits["calls"]) == 7

    place = tmp_path / "kept"

    def before(progress: Any) -> None:
        if (
            progress.done == 6
        ):  # two of the first round have ended, and are no more fitted to fold 1
            raise KeyboardInterrupt

    fits["nats"] = dict(LISTED)
    fits["calls"].clear()
    with pytest.raises(KeyboardInterrupt, match=r"after 4 fits.*kept'.*resume=True"):
        compare(list(LISTED), table, folds=3, checkpoint=place, callback=before)
    assert len(fits["calls"]) == 4
    fits["calls"].clear()
    assert len(place.read_text().splitlines()) == 1 + 4  # a line each
    return place, whole


def test_a_stopped_comparison_repeats_no_fit(
    table: Duels, fits: dict[str, Any], stopped: tuple[Path, Comparison]
) -> None:
    place, whole = stopped
    seen: list[int] = []
    found = compare(
        list(LISTED),
        table,
        folds=3,
        checkpoint=place,
        resume=True,
        callback=lambda p: seen.append(p.done),
    )
    same(found, whole)
    assert [(name, len(won)) for name, _, won, _, _ in fits["calls"]] == [
        ("linear/vfe/4", 30),
        ("se/vfe/4", 30),
        ("linear/vfe/4", 30),
    ]
    assert seen == [6, 7, 8]
    assert found.resumed_fits == 4 and found.to_dict()["resumed_fits"] == 4
    assert "4 of 7 fits came from a checkpoint." in found.notes
    assert whole.resumed_fits == 0 and not any("checkpoint" in note for note in whole.notes)

    # All of them are kept now, and other candidates may join.
    fits["calls"].clear()
    fits["nats"]["se/fitc/4"] = 0.4
    more = compare([*LISTED, "se/fitc/4"], table, folds=3, checkpoint=place, resume=True)
    assert {call[0] for call in fits["calls"]} == {"se/fitc/4"} and len(fits["calls"]) == 3
    assert str(more.chosen) == "se/fitc/4"


def test_a_resumed_comparison_goes_on_from_the_same_places(
    table: Duels, fits: dict[str, Any], tmp_path: Path
) -> None:
    fits["nats"] = dict(LISTED)
    places = np.random.default_rng(0).normal(size=(2, 5))
    fits["position"] = dict(zip(LISTED, places, strict=False))
    whole = compare(list(LISTED), table, folds=3)
    starts = [more["start"] for *_, more in fits["calls"] if more["start"] is not None]
    assert np.array_equal(starts, places)

    def before(progress: Any) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    more = {"folds": 3, "checkpoint": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt, match="after 3 fits"):
        compare(list(LISTED), table, callback=before, **more)
    fits["calls"].clear()
    same(compare(list(LISTED), table, resume=True, **more), whole)
    assert len(fits["calls"]) == 6
    assert np.array_equal([more["start"] for *_, more in fits["calls"][:2]], places)


def test_without_resume_it_begins_again(
    table: Duels, fits: dict[str, Any], stopped: tuple[Path, Comparison]
) -> None:
    place, whole = stopped
    same(compare(list(LISTED), table, folds=3, checkpoint=place), whole)
    assert len(fits["calls"]) == 7


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"rng": np.random.default_rng(1)}, "of other duels, items or folds"),
        ({"folds": 4}, "of other duels, items or folds"),
        ({"by": "group:person"}, "of other duels, items or folds"),
        ({"max_train": 30}, "of other duels, items or folds"),
        ({"max_iterations": 7}, "of another seed, noise variance, number of iterations"),
        ({"least_gain": None}, "number of iterations, least gain"),
        ({"noise_variance": 0.3}, "of another seed, noise variance"),
        ({"fixed_inducing": True}, "inducing inputs that were"),
    ],
)
@pytest.mark.covering(every=4)
def test_kept_fits_of_something_else_are_refused(
    table: Duels,
    fits: dict[str, Any],
    stopped: tuple[Path, Comparison],
    settings: dict[str, Any],
    text: str,
) -> None:
    place, _ = stopped
    before = place.read_bytes()
    with pytest.raises(ValueError, match=text) as caught:
        compare(
            list(LISTED), table, **{"folds": 3, "checkpoint": place, "resume": True, **settings}
        )
    assert "\n" not in str(caught.value) and "rm " in str(caught.value)
    assert not fits["calls"] and place.read_bytes() == before


def test_other_items_damage_and_strangers_are_refused(
    table: Duels, fits: dict[str, Any], stopped: tuple[Path, Comparison], tmp_path: Path
) -> None:
    place, _ = stopped

    def refused(text: str, source: Duels = table, folder: Path = place) -> None:
        with pytest.raises(ValueError, match=text):
            compare(list(LISTED), source, folds=3, checkpoint=folder, resume=True)
        with pytest.raises(ValueError, match=text):
            compare(list(LISTED), source, folds=3, checkpoint=folder)
        assert not fits["calls"]

    items, duels = _frames()
    items.loc[0, "a"] += 1e-3
    refused("of other duels, items", read_duels(items, duels, never_features=("person", "day")))
    (tmp_path / "thesis.txt").write_text("mine")
    refused("no checkpoint of this version, or damaged", folder=tmp_path / "thesis.txt")
    refused("is a folder; give a file in it", folder=tmp_path)
    place.write_text(place.read_text()[:-9])
    refused("no checkpoint of this version, or damaged")
    with pytest.raises(ValueError, match=apart("resume", "no_checkpoint")):
        compare(["se"], table, folds=3, resume=True)


def test_nothing_kept_is_said_and_a_full_disk_costs_no_fit(
    table: Duels, fits: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits["nats"] = {"se/vfe/4": 0.5}
    with pytest.warns(UserWarning, match="no checkpoint .*kept.* begins at the beginning"):
        compare(["se/vfe/4"], table, folds=2, checkpoint=tmp_path / "kept", resume=True)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sparse_prefgp.disk.kept_file.write_file", full)
    with pytest.warns(UserWarning, match="No checkpoint could be written.*No space left"):
        found = compare(["se/vfe/4"], table, folds=2, checkpoint=tmp_path / "full")
    assert str(found.chosen) == "se/vfe/4" and not (tmp_path / "full").exists()


def test_time_of_kept_fits_counts_in_the_budget(
    table: Duels, fits: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr(compare_module, "perf_counter", lambda: clock["now"])

    def ticking(k: int) -> Any:
        clock["now"] += 1.0
        return np.full(k, 0.5)

    fits["nats"] = {"se/vfe/4": ticking, "linear/vfe/4": ticking}
    more = {"folds": 4, "race": False, "checkpoint": tmp_path / "kept"}
    whole = compare(list(fits["nats"]), table, time_budget=4.5, **more)
    clock["now"] = 0.0
    found = compare(list(fits["nats"]), table, time_budget=4.5, resume=True, **more)
    same(found, whole)
    assert found.folds == whole.folds == 2 and found.seconds == whole.seconds == 5.0
    assert clock["now"] == 0.0


# Mistakes.


@pytest.mark.parametrize(
    ("candidates", "more", "text"),
    [
        ([], {}, "There are no candidates"),
        (["se", "se"], {}, "in the list twice; once"),
        (["se+linear/vfe/5", "linear+se/vfe/5"], {}, "twice"),
        (["se/vfe", f"se/vfe/{N}"], {}, "as se/vfe too"),
        (["se/vfe/40"], {}, f"more inducing inputs than the {N} distinct items"),
        (["se/subset:81"], {}, "more than the 60 duels"),
        (["se"], {"folds": 10, "by": "group:person"}, "10 folds are more than the 9 values"),
        (["se"], {"folds": 91}, "91 folds are more than the 90 duels"),
        (["se"], {"folds": 1}, "folds is 1; give a whole number, at least 2"),
        (["se"], {"by": "group:nobody"}, "column is 'nobody'"),
        (["se"], {"by": "groups"}, "split 'groups' is unknown"),
        (["se"], {"by": np.zeros(4)}, r"by has shape \(4,\)"),
        (["se"], {"by": np.full(T, np.nan)}, "no value"),
        (["se"], {"time_budget": 0.0}, "time_budget is 0.0; give a number, above 0"),
        (["se"], {"max_train": 0}, "max_train is 0; give a whole number, at least 1"),
        (["se"], {"groups": [["a"]]}, apart("feature_groups", "no_additive_kernel")),
        (["additive-se"], {"groups": [["a", "z"]]}, "names 'z'"),
        (["se"], {"folds": 12, "by": "items"}, "has no duels that can be scored"),
    ],
)
def test_mistakes_are_one_sentence(
    table: Duels, fits: dict[str, Any], candidates: list[str], more: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        compare(candidates, table, **{"folds": 3, **more})
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert not fits["calls"]


def test_duels_with_features_have_no_other_columns(duels: spg.Duels) -> None:
    with pytest.raises(ValueError, match="column is 'person'; choose from a, b, kind"):
        compare(["se"], duels, by="group:person")


# With real fits.


@pytest.fixture(scope="module")
def fitted(table: Duels) -> Comparison:
    return compare(
        ["linear/vfe/4", "additive-se+item/exact"],
        table,
        folds=2,
        by="group:person",
        max_iterations=4,
        race=False,
    )


@pytest.mark.slow
def test_a_fold_is_a_fit_to_its_training_part(table: Duels, fitted: Comparison) -> None:
    plan = plan_folds(table, 2, "group:person", np.random.default_rng(0), None)
    (score,) = (s for s in fitted.scores if s.candidate.kernel == "linear")
    expected, evidence = [], []
    for fold in plan.folds:
        train = table.standardised(fold.train)
        rows = train.distinct_rows()[0]
        model = spg.PreferenceGP(
            train,
            gpflow.kernels.Linear(variance=np.full(train.num_features, 1 / train.num_features)),
            inducing_variable=spg.kmeans_inputs(rows, 4, np.random.default_rng(0)),
            approximation=spg.VFE(),
        )
        spg.default_priors(model)
        evidence.append(spg.optimise(model, 4).log_evidence / train.num_duels)
        won, lost = table.given.pairs[fold.test].T
        p = model.predict_duel(train.items[won], train.items[lost]).numpy()
        expected.append(-np.log(p).mean())
    np.testing.assert_allclose(score.fold_nlp_nats, expected, rtol=IDENTITY)
    assert score.log_evidence_per_duel == pytest.approx(np.mean(evidence), rel=IDENTITY)


@pytest.mark.slow
def test_going_on_is_a_fit_from_the_place_of_another(table: Duels) -> None:
    train, test = table.standardised(), table.events
    settings = spg.CompareSettings(max_iterations=3)
    given = {"settings": settings, "inducing": 3, "groups": ()}
    first = fit_candidate(Candidate("se", "vfe", 3), train, test, first=True, **given)
    found = fit_candidate(Candidate("se", "vfe", 3), train, test, start=first.position, **given)
    z = spg.kmeans_inputs(train.distinct_rows()[0], 3, np.random.default_rng(0))
    kernel = KernelChoice.parse("se").build(train.num_features)
    model = spg.PreferenceGP(train, kernel, inducing_variable=z, approximation=spg.VFE())
    spg.default_priors(model)
    spg.optimise(model, 3)
    begun = np.concatenate([v.numpy().ravel() for v in model.trainable_variables])
    np.testing.assert_allclose(first.position, begun, rtol=ROUNDING)
    expected = model.predict(test).log_first
    np.testing.assert_allclose(first.log_probabilities, expected, rtol=ROUNDING)
    model.inference.start_from(*map(np.zeros_like, model.inference.sites()))
    spg.optimise(model, 3)
    expected = model.predict(test).log_first
    np.testing.assert_allclose(found.log_probabilities, expected, rtol=ROUNDING)
    assert found.position is None


@pytest.mark.slow
def test_columns_get_their_own_lengthscales_after_the_first_round(table: Duels) -> None:
    train, test = table.standardised(), table.events
    given = {"settings": spg.CompareSettings(max_iterations=8), "inducing": 3, "groups": ()}
    one, each = (
        fit_candidate(Candidate(kernel, "vfe", 3), train, test, first=True, **given)
        for kernel in ("iso(se)", "ard(se)")
    )
    assert each.position is not None and np.array_equal(one.position, each.position)
    whole = fit_candidate(Candidate("ard(se)", "vfe", 3), train, test, start=each.position, **given)
    alike = fit_candidate(Candidate("iso(se)", "vfe", 3), train, test, start=one.position, **given)
    assert train.num_duels * (whole.log_evidence_per_duel - alike.log_evidence_per_duel) > 2.0


@pytest.mark.slow
def test_inducing_inputs_may_stay_where_k_means_puts_them(table: Duels) -> None:
    (fold, _) = plan_folds(table, 2, "duels", np.random.default_rng(0), None).folds
    train = table.standardised(fold.train)
    z = spg.kmeans_inputs(train.distinct_rows()[0], 3, np.random.default_rng(0))
    model = spg.PreferenceGP(
        train,
        KernelChoice.parse("se").build(4),
        inducing_variable=z,
        approximation=spg.VFE(),
    )
    gpflow.set_trainable(model.inducing_variable, False)
    spg.default_priors(model)
    spg.optimise(model, 4)
    won, lost = table.given.pairs[fold.test].T
    expected = -np.log(model.predict_duel(train.items[won], train.items[lost]).numpy()).mean()
    fixed, learned = (
        compare(["se/vfe/3"], table, folds=2, max_iterations=4, fixed_inducing=held).scores[0]
        for held in (True, False)
    )
    assert fixed.fold_nlp_nats[0] == pytest.approx(expected, rel=IDENTITY)
    assert learned.fold_nlp_nats[0] != pytest.approx(expected, rel=IDENTITY)


@pytest.mark.slow
def test_item_effects_and_additive_kernels_take_part(fitted: Comparison) -> None:
    assert [score.status for score in fitted.scores] == ["ok", "ok"]
    (score,) = (s for s in fitted.scores if s.candidate.kernel == "additive-se+item")
    assert score.parameters == 4 + 3 + 1 and score.inducing is None
    assert all(0.0 < nats < math.log(2.0) for nats in score.fold_nlp_nats), "better than a coin"
    told = fitted.to_dict()
    assert {row["kernel"] for row in told["candidates"]} == {"linear", "additive-se+item"}
    assert told["chosen"] == str(fitted.chosen)


# The automatic choice.


def test_automatic_candidates_suit_the_duels(table: Duels, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [str(c) for c in automatic_candidates(table)]
    assert small[0] == "linear/exact" and "additive-matern52/exact" in small
    assert all(name.endswith("/exact") for name in small)
    found = [str(c) for c in automatic_candidates(table, inducing="auto")]
    assert "se/fitc" in found and not any("exact" in name for name in found)
    monkeypatch.setattr(automatic_module, "EXACT_ITEMS", 2)
    middling = [str(c) for c in automatic_candidates(table)]
    assert "matern52/exact" in middling and "se/exact" not in middling and "se/vfe" in middling
    alone = automatic_candidates(table, kernel="se")
    assert [c.approximation for c in alone] == ["vfe", "fitc", "exact"]
    monkeypatch.setattr(automatic_module, "EXACT_TOO_ITEMS", 2)
    assert not any(c.approximation == "exact" for c in automatic_candidates(table))
    given = [str(c) for c in automatic_candidates(table, inducing=5)]
    assert "linear/vfe/5" in given and "linear/fitc/5" not in given and "se/fitc/5" in given
    assert {c.kernel for c in automatic_candidates(table, kernel="se+linear")} == {"linear+se"}
    assert {c.approximation for c in automatic_candidates(table, approximation="dtc")} == {"dtc"}


def test_names_that_are_left_to_be_chosen() -> None:
    assert FitSettings(kernel="auto", approximation="fitc").is_automatic
    assert FitSettings(kernel="se", approximation=" AUTO").is_automatic
    settings = FitSettings(kernel="se", approximation="exact")
    assert not settings.is_automatic and str(settings.kernel_choice) == "se"


@pytest.mark.parametrize("split", ["duels", "group:person", "time:day", "given:test"])
@pytest.mark.covering(every=4)
def test_the_choice_sees_training_duels_only(
    table: Duels, fits: dict[str, Any], split: str
) -> None:
    fits["nats"] = {str(c): 0.6 for c in automatic_candidates(table)} | {"matern32/exact": 0.5}
    more: Any = {"max_iterations": 7, "least_gain": 2e-4, **BOTH}
    settings = FitSettings(split=split, seed=3, **more)
    found = choose(table, settings)
    assert (found.settings.kernel, found.settings.approximation) == ("matern32", "exact")
    assert found.settings.split == split and found.settings.seed == 3
    assert "training duels alone" in found.reason and "linear probit" in found.reason
    outer = split_duels(table, split, 0.2, np.random.default_rng(3))
    given = {(x["settings"].max_iterations, x["settings"].least_gain) for *_, x in fits["calls"]}
    assert given == {(7, 2e-4)}
    pairs = _pairs(table.item_ids, *table.given.pairs[outer.train_rows].T)
    for _, train, won, lost, _ in fits["calls"]:
        assert _pairs(train.item_ids, won, lost) <= pairs
        assert _pairs(train.item_ids, train.winners, train.losers) <= pairs
    assert not any(more["settings"].fixed_inducing for *_, more in fits["calls"])
    assert found.comparison.folds == 1, "the others are behind"
    fits["nats"] = dict.fromkeys(fits["nats"], 0.6)
    tied = choose(table, settings)
    times = 1 if split == "time:day" else automatic_module.FOLDS
    assert tied.comparison.folds == times and tied.settings.kernel == "linear"


def test_the_choice_keeps_inducing_inputs_fixed_and_leaves_their_number_open(
    table: Duels, fits: dict[str, Any]
) -> None:
    fits["nats"] = {"se/vfe": 0.5, "se/fitc": 0.6}
    settings = FitSettings(
        inducing="auto:0.2", fixed_inducing=True, kernel="se", approximation="auto"
    )
    found = choose(table, settings)
    assert {more["settings"].fixed_inducing for *_, more in fits["calls"]} == {True}
    assert (found.settings.kernel, found.settings.approximation) == ("se", "vfe")
    assert found.settings.inducing_share == 0.2
    assert "the number for the fit is found afterwards" in found.reason


def test_the_choice_is_kept_too(table: Duels, fits: dict[str, Any], tmp_path: Path) -> None:
    fits["nats"] = {"se/vfe": 0.5, "se/fitc": 0.6}
    settings = FitSettings(inducing="auto", kernel="se", approximation="auto")
    place = tmp_path / "kept"
    first = choose(table, settings, checkpoint=place)
    fits["calls"].clear()
    again = choose(table, settings, checkpoint=place, resume=True)
    same(again.comparison, first.comparison)
    assert not fits["calls"] and again.comparison.resumed_fits > 0


def _pairs(ids: Any, winners: Any, losers: Any) -> set[Any]:
    return {(ids[won], ids[lost]) for won, lost in zip(winners, losers, strict=True)}


def test_nothing_is_chosen_when_all_fail(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {str(c): ValueError("No.") for c in automatic_candidates(table)}
    with pytest.raises(ValueError, match="None of the 7 candidates could be compared"):
        choose(table, FitSettings(**BOTH))


def test_same_seed_same_choice(table: Duels, fits: dict[str, Any]) -> None:
    fits["nats"] = {"se/vfe/4": 0.5}
    for _ in range(2):
        compare(["se/vfe/4"], table, folds=3, rng=np.random.default_rng(4))
    compare(["se/vfe/4"], table, folds=3, rng=np.random.default_rng(5))
    first, second, other = (fits["calls"][k : k + 3] for k in (0, 3, 6))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a[2], b[2]) and np.array_equal(a[1].winners, b[1].winners)
    assert any(not np.array_equal(a[2], b[2]) for a, b in zip(first, other, strict=True))
