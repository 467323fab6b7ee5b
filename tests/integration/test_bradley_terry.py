"""Items without features: an effect of each, exact, from `read_duels` and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

from tests.together import apart, sentence

pytest.importorskip("typer")

from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from tests.reference.slow_ep import slow_ep
from tests.tolerances import FIXED_POINT, IDENTITY, SOLVER

N, T = 12, 300
PLAYERS = [f"player {i}" for i in range(N)]


@pytest.fixture(scope="module")
def votes() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    skill = rng.normal(size=N)
    pairs = rng.permuted(np.tile(np.arange(N - 1), (T, 1)), axis=1)[:, :2]  # the last one never
    ahead = skill[pairs] @ [1.0, -1.0] + rng.normal(size=T) > 0.0
    won, lost = np.where(ahead, *pairs.T), np.where(ahead, *pairs.T[::-1])
    names = np.array(PLAYERS)
    return pd.DataFrame(
        {
            "winner": names[won],
            "loser": names[lost],
            "judge": np.array(["Ann", "Ben"])[rng.integers(0, 2, T)],
            "worth": rng.uniform(0.5, 2.0, T).round(2),
            "day": np.arange(T) // 10,
        }
    )


def call(*words: Any) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result


def refused(*words: Any) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    return str(result.stderr)


@pytest.fixture(scope="module")
def folder(votes: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bradley_terry")
    votes.to_csv(folder / "duels.csv", index=False)
    pd.DataFrame({"item_id": PLAYERS}).to_csv(folder / "items.csv", index=False)
    more = ("--max-iterations", 20, "--report")
    call("fit", "--duels", folder / "duels.csv", "--out", folder / "fitted", *more)
    return folder


@pytest.mark.slow
def test_read_without_items(votes: pd.DataFrame, folder: Path) -> None:
    duels = spg.read_duels(None, folder / "duels.csv")
    assert duels.items.shape == (N - 1, 0) and duels.num_features == 0
    order = pd.unique(votes[["winner", "loser"]].to_numpy().ravel())
    assert duels.item_ids == tuple(order), "in order of first appearance"
    assert duels.transform is not None and duels.feature_names == ()
    summary = duels.summary()
    assert summary.equal_feature_duels == 0 and summary.distinct_feature_rows == N - 1
    assert "none" in str(summary) and "equal features" not in str(summary)
    known = spg.read_duels(folder / "items.csv", folder / "duels.csv")
    assert known.item_ids == tuple(PLAYERS) and known.items.shape == (N, 0)
    tied = spg.read_duels(None, votes, ties=pd.DataFrame({"item_a": ["x"], "item_b": ["y"]}))
    assert {"x", "y"} < set(tied.item_ids or ())
    numbers = spg.read_duels(None, pd.DataFrame({"winner": [3, 7.0], "loser": [7, 11]}))
    assert numbers.item_ids == (3, 7, 11)


def test_choices_and_rankings_without_items() -> None:
    wide = spg.read_choices(
        None,
        pd.DataFrame(
            {
                "chosen": ["a", "b"],
                "option_1": ["a", "b"],
                "option_2": ["b", "c"],
                "option_3": ["c", ""],
            }
        ),
    )
    assert wide.item_ids == ("a", "b", "c") and wide.num_duels == 2
    long = pd.DataFrame(
        {"choice_set": [1, 1, 2, 2], "item_id": list("abbc"), "chosen": [1, 0, 0, 1]}
    )
    assert spg.read_choices(None, long).item_ids == ("a", "b", "c")
    ranked = spg.read_rankings(None, pd.DataFrame({"rank_1": ["a"], "rank_2": ["b"]}))
    assert ranked.item_ids == ("a", "b") and ranked.num_features == 0
    long = pd.DataFrame({"ranking": [1, 1], "item_id": ["b", "a"], "rank": [1, 2]})
    assert spg.read_rankings(None, long).item_ids == ("b", "a")


def test_the_posterior_is_that_of_independent_effects(votes: pd.DataFrame) -> None:
    """Next to EP one site at a time on the dense covariance of the noisy differences v."""
    few = votes[["winner", "loser"]][:40]
    duels = spg.read_duels(pd.DataFrame({"item_id": PLAYERS}), few)
    model = spg.PreferenceGP(duels, engine=spg.ParallelEP(tolerance=SOLVER))
    assert isinstance(model.kernel, spg.ItemEffect) and isinstance(model.approximation, spg.Exact)
    model.kernel.variance.assign(0.7)
    number = {name: i for i, name in enumerate(PLAYERS)}
    design = np.zeros((40, N))
    for row, (won, lost) in enumerate(few.itertuples(index=False)):
        design[row, [number[won], number[lost]]] = [-1.0, 1.0]
    prior = 0.7 * design @ design.T + np.eye(40)
    slow = slow_ep(np.zeros(40), prior)
    assert model.log_evidence() == pytest.approx(slow.log_evidence, abs=FIXED_POINT)
    gain = np.linalg.solve(prior, 0.7 * design).T  # E[f | v] = gain v
    mean = gain @ slow.mean
    covariance = 0.7 * np.eye(N) - gain @ (0.7 * design) + gain @ slow.covariance @ gain.T
    contrast = np.eye(N)[3] - np.eye(N)[5]
    variance = contrast @ covariance @ contrast
    found = spg.predict(model, pd.DataFrame({"first": ["player 3"], "second": ["player 5"]}))
    assert found["difference"][0] == pytest.approx(contrast @ mean, abs=FIXED_POINT)
    assert found["sd"][0] == pytest.approx(np.sqrt(variance), abs=FIXED_POINT)
    wins = special.ndtr(contrast @ mean / np.sqrt(variance + 1.0))
    assert found["probability"][0] == pytest.approx(wins, abs=FIXED_POINT)
    centre = np.eye(N) - 1.0 / N
    ranking = spg.rank(model).frame.set_index("item_id").loc[PLAYERS]
    assert ranking.loc["player 11", "comparisons"] == 0
    np.testing.assert_allclose(ranking["utility"], centre @ mean, atol=FIXED_POINT)
    sd = np.sqrt(np.diag(centre @ covariance @ centre.T))
    np.testing.assert_allclose(ranking["sd"], sd, atol=FIXED_POINT)


@pytest.mark.slow
def test_more_than_a_thousand_items_are_exact_too() -> None:
    duels = spg.Duels(np.empty((1100, 0)), np.arange(1099), 1 + np.arange(1099))
    model = spg.PreferenceGP(duels)
    assert isinstance(model.approximation, spg.Exact)
    assert model.infer().converged


@pytest.mark.slow
def test_saved_and_loaded(folder: Path, tmp_path: Path) -> None:
    model = spg.PreferenceGP(spg.read_duels(None, folder / "duels.csv"))
    spg.optimise(model, 10)
    spg.save(model, tmp_path / "saved")
    again = spg.load(tmp_path / "saved")
    assert again.duels.items.shape == (N - 1, 0)
    np.testing.assert_array_equal(spg.rank(model).frame, spg.rank(again).frame)
    array = spg.PreferenceGP(spg.Duels(np.empty((3, 0)), [0, 1], [1, 2]))
    spg.save(array, tmp_path / "array")
    assert spg.load(tmp_path / "array").log_evidence() == array.log_evidence()
    # An unknown item is worth the average, whatever stands next to its id.
    new = spg.predict(
        again,
        pd.DataFrame({"first": ["new", "player 1"], "second": ["newer", "new"]}),
        pd.DataFrame({"item_id": ["new", "newer"], "age": [3, 4]}),
    )
    assert new["probability"][0] == pytest.approx(0.5, abs=IDENTITY)
    assert not new["outside_range"].any()


def test_update_with_new_items(folder: Path) -> None:
    model = spg.PreferenceGP(spg.read_duels(None, folder / "duels.csv"))
    more = pd.DataFrame({"winner": ["new", "player 0"], "loser": ["player 0", "newer"]})
    updated, report = spg.update(model, more)
    assert report.new_items == 2 and updated.duels.item_ids[-2:] == ("new", "newer")
    whole = spg.PreferenceGP(updated.duels)
    assert updated.log_evidence() == pytest.approx(whole.log_evidence(), abs=1e-4)


@pytest.mark.slow
def test_every_command(folder: Path, tmp_path: Path) -> None:
    fitted = folder / "fitted"
    told = json.loads((fitted / "metrics.json").read_text())
    assert told["fit"]["kernel"] == "item" and told["fit"]["approximation"] == "exact"
    assert told["data"]["features"] == []
    coin = told["held_out"]["coin"]["nlp_nats"]
    assert told["held_out"]["linear_probit"]["nlp_nats"] == pytest.approx(coin)
    assert told["held_out"]["model"]["nlp_nats"] < coin - 0.05
    assert not (fitted / "pictures" / "relevance.png").exists()
    page = (fitted / "report.html").read_text(encoding="utf-8")
    assert "than Bradley–Terry" in page and "linear probit by" not in page
    ranking = pd.read_csv(fitted / "ranking.csv")
    assert len(ranking) == N - 1 and not ranking["outside_range"].any()
    pairs, later = tmp_path / "pairs.csv", tmp_path / "later.csv"
    pairs.write_text("first,second\nplayer 0,player 1\n")
    later.write_text("winner,loser\nplayer 0,player 1\nnew,player 2\n")
    call("rank", "--model", fitted, "--out", tmp_path / "ranking.csv")
    call("predict", "--model", fitted, "--pairs", pairs, "--out", tmp_path / "predicted.csv")
    call("evaluate", "--model", fitted, "--duels", folder / "duels.csv")
    assert "'new'" in refused("evaluate", "--model", fitted, "--duels", later)
    new = tmp_path / "items.csv"
    new.write_text("item_id\nnew\n")
    call("evaluate", "--model", fitted, "--duels", later, "--items", new)
    explained = call("explain", "--model", fitted, "--first", "player 0", "--second", "player 1")
    assert "item effect" in explained.stdout
    call("explain", "--model", fitted)
    call("suggest", "--model", fitted, "--batch", 2, "--out", tmp_path / "ask.csv")
    assert len(pd.read_csv(tmp_path / "ask.csv")) == 2
    updated = call(
        "update", "--model", fitted, "--duels", later, "--out", tmp_path / "new", "--json"
    )
    assert json.loads(updated.stdout)["new_items"] == 1


def ridge_bradley_terry(won: np.ndarray, lost: np.ndarray, n: int, ridge: float) -> np.ndarray:
    """Utilities that minimise -sum log sigmoid(f_won - f_lost) + ridge |f|² / 2."""

    def loss(f: np.ndarray) -> tuple[float, np.ndarray]:
        ahead = f[won] - f[lost]
        slope = -special.expit(-ahead)
        gradient = np.bincount(won, slope, n) - np.bincount(lost, slope, n) + ridge * f
        return float(np.logaddexp(0.0, -ahead).sum() + 0.5 * ridge * f @ f), gradient

    return np.asarray(optimize.minimize(loss, np.zeros(n), jac=True, method="L-BFGS-B").x)


@pytest.mark.slow
def test_votes_on_language_models(data_dir: Path) -> None:
    """As good as logistic Bradley-Terry with the ridge that suits the held-out votes best."""
    answers = pd.read_csv(data_dir / "llm_votes" / "items.csv.gz").set_index("item_id")["model"]
    votes = pd.read_csv(data_dir / "llm_votes" / "duels.csv.gz")
    votes = votes[votes["tie"] == 0]
    won, lost = (answers[votes[side]].to_numpy() for side in ("winner", "loser"))
    frame = pd.DataFrame({"winner": won, "loser": lost})
    behind = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(frame))
        train, test = np.split(order, [int(0.8 * len(order))])
        ridges = 10.0 ** np.linspace(-1, 2, 13)
        fits = [ridge_bradley_terry(won[train], lost[train], 59, ridge) for ridge in ridges]
        best = min(np.logaddexp(0.0, f[lost[test]] - f[won[test]]).mean() for f in fits)
        model = spg.PreferenceGP(spg.read_duels(None, frame.iloc[train]))
        spg.optimise(model)
        scores = spg.evaluate(model, frame.iloc[test])["held_out"]
        behind.append(scores["model"]["nlp_nats"] - best)
    assert len(frame) == 9478 and np.mean(behind) < 0.003


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ("--split", "time:day", "--refit"),
        ("--split", "group:judge", "--noise-by", "judge"),
        ("--weight", "worth", "--items", "{}/items.csv"),
        ("--kernel", "item", "--approximation", "exact", "--test-fraction", 0),
        ("--engine", "laplace-logit"),
        ("--approximation", "subset:100"),
    ],
)
def test_options(folder: Path, tmp_path: Path, more: tuple[Any, ...]) -> None:
    words = [str(word).format(folder) for word in more]
    base = ("fit", "--duels", folder / "duels.csv", "--max-iterations", 5, "--out")
    call(*base, tmp_path / "out", *words)
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["fit"]["kernel"] == "item"


def test_item_alone_is_exact_with_features_too() -> None:
    from sparse_prefgp.workflow.settings import FitSettings

    settings = FitSettings(kernel="item")
    assert str(settings.approximation_choice) == "exact"
    assert str(FitSettings().approximation_choice) == "vfe"
    assert str(FitSettings().kernel_choice) == "linear+matern52"
    with pytest.raises(ValueError, match=apart("effects_of_items_alone", "inducing")):
        FitSettings(kernel="item", approximation="fitc")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["item+pair", "pair"])
def test_effects_of_pairs_need_no_features(folder: Path, tmp_path: Path, kernel: str) -> None:
    out = tmp_path / "out"
    more = ("--kernel", kernel, "--max-iterations", 3, "--noise-by", "judge")
    call("fit", "--duels", folder / "duels.csv", "--out", out, *more)
    model = spg.load(out / "model")
    assert model.approximation == spg.Exact()
    assert len(spg.predict(model, folder / "duels.csv")) == T
    assert len(pd.read_csv(out / "ranking.csv")) == N - 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--split", "items"), (sentence("items_without_features", "split_of_items"),)),
        (
            ("--kernel", "linear"),
            ("kernel linear, which looks at features", "give items with features"),
        ),
        (("--kernel", "linear+item"), ("kernel linear+item, which looks at features",)),
        (("--approximation", "vfe"), (sentence("effects_of_items_alone", "inducing"), "exact")),
        (("--inducing", 5), (sentence("effects_of_items_alone", "inducing_variable"),)),
        (("--kernel", "auto"), (sentence("comparison", "items_without_features"),)),
        (("--approximation", "auto"), (sentence("comparison", "items_without_features"),)),
        (("--context", "day"), ("'day'", "tell no items apart", "item+linear")),
        (("--stream",), (sentence("chunks", "items_without_features"),)),
        (("--features", "height"), ("'height'",)),
    ],
)
def test_what_makes_no_sense(
    folder: Path, tmp_path: Path, more: tuple[Any, ...], words: tuple[str, ...]
) -> None:
    text = refused("fit", "--duels", folder / "duels.csv", "--out", tmp_path / "out", *more)
    assert all(word in text for word in words), text
    assert not (tmp_path / "out").exists()


def test_what_makes_no_sense_in_python(folder: Path) -> None:
    duels = spg.read_duels(None, folder / "duels.csv")
    with pytest.raises(ValueError, match=apart("items_without_features", "kernel_of_features")):
        spg.PreferenceGP(duels, gpflow.kernels.Matern52())
    with pytest.raises(ValueError, match=apart("items_without_features", "kernel_of_features")):
        spg.PreferenceGP(duels, gpflow.kernels.Matern52() + spg.ItemEffect())
    with pytest.raises(ValueError, match=apart("no_kernel", "features_of_items")):
        spg.PreferenceGP(spg.Duels(np.eye(3), [0], [1]))
    with pytest.raises(ValueError, match=apart("comparison", "items_without_features")):
        spg.compare(["linear"], duels)
    model = spg.PreferenceGP(duels)
    with pytest.raises(ValueError, match=apart("items_without_features", "picture_of_features")):
        from sparse_prefgp import plotting

        plotting.relevance(model)
