"""`spg.fit`: the command's way through a fit, for people in a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.workflow.holdout import Training
from sparse_prefgp.workflow.reporting import FITTING, HOLDING, LOADING, PLACING, READING, SCORING
from sparse_prefgp.workflow.settings import FitSettings
from tests.cases import assert_same_scores
from tests.together import refused, sentence
from tests.tolerances import FIXED_POINT

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

N, T = 14, 120
SMALL: dict[str, Any] = {"kernel": "se", "inducing": 5, "max_iterations": 3}
WORDS = ["--kernel", "se", "--inducing", "5", "--max-iterations", "3"]


@pytest.fixture(scope="module")
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    first = rng.integers(N, size=T)
    pairs = np.stack([first, (first + rng.integers(1, N, size=T)) % N], 1)
    noisy = x.sum(1)[pairs] + rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, 1), 1).T
    items = pd.DataFrame({"item_id": np.arange(N), "a": x[:, 0], "b": x[:, 1]})
    ties = (rng.uniform(size=T) < 0.15).astype(int)
    return items, pd.DataFrame({"winner": winners, "loser": losers, "tie": ties})


@pytest.fixture(scope="module")
def whole(frames: tuple[pd.DataFrame, pd.DataFrame]) -> spg.results.FitOutput:
    return spg.fit(*frames, **SMALL)


def check_same(mine: Any, theirs: Any, at: str = "") -> None:
    """The same keys and values but for seconds; those of files are rounded."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), at
        for key in mine:
            if "seconds" not in key:
                check_same(mine[key], theirs[key], f"{at}/{key}")
    elif isinstance(mine, list):
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            check_same(one, other, f"{at}[{number}]")
    elif isinstance(mine, float):
        assert mine == pytest.approx(theirs, rel=FIXED_POINT, abs=FIXED_POINT), at
    else:
        assert mine == theirs, at


@pytest.mark.parametrize(
    ("approximation", "kernel", "inducing", "held"),
    [
        ("vfe", "se", N, True),
        ("vfe", "se", N - 1, False),
        ("vfe", "projected(se, 1)", N, False),  # where items are is learned
        ("fitc", "se", N, False),  # no bound, so that others may look better
    ],
)
def test_inducing_inputs_that_are_all_items_stay(
    frames: tuple[pd.DataFrame, pd.DataFrame],
    approximation: str,
    kernel: str,
    inducing: int,
    held: bool,
) -> None:
    items, duels = frames
    table = spg.read_duels(items, duels.drop(columns="tie"))
    settings = FitSettings(kernel=kernel, approximation=approximation, inducing=inducing)
    training = Training(settings, table.standardised())
    model = training.model(training.first_inputs())
    trained = [p.trainable for p in model.inducing_variable.parameters]
    assert trained and not any(trained) if held else all(trained)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.covering(every=2)
def test_inducing_inputs_lie_among_learned_directions(
    frames: tuple[pd.DataFrame, pd.DataFrame], directions: int
) -> None:
    """Where they are all items, streamed or not, and where their number is found."""
    from sparse_prefgp.workflow.fit_sources import Sources
    from sparse_prefgp.workflow.holdout import hold

    items, duels = frames[0], frames[1].drop(columns="tie")
    kernel = f"projected(se, {directions})"
    for stream, inducing in ((False, N), (True, N), (False, "auto:0.2")):
        settings = FitSettings(kernel=kernel, inducing=inducing, stream=stream, test_fraction=0)
        training = hold(Sources(items, duels).read(settings), settings)
        model = training.model(training.first_inputs())
        whole = spg.read_duels(items, duels)
        rows = whole.distinct_rows()[0] @ spg.initial_projection(whole, directions)
        z = model.inducing_variable.Z.numpy()
        assert z.shape[1] == directions
        if inducing == N:
            np.testing.assert_allclose(z, rows[np.lexsort(rows.T[::-1])], atol=FIXED_POINT)
        else:  # centres of items, which their projections lie between
            assert len(z) < N and np.all((z >= rows.min(0)) & (z <= rows.max(0)))
            assert np.ptp(z, 0).min() > 0.3 * np.ptp(rows, 0).min()


@pytest.mark.slow
def test_what_is_said_per_duel_divides_by_weights(
    frames: tuple[pd.DataFrame, pd.DataFrame], whole: spg.results.FitOutput, tmp_path: Path
) -> None:
    items, duels = frames
    assert whole.figures["fit"]["weight"] is None
    for weight, less in ((0.25, False), (1e-9, True)):
        given = duels.assign(worth=weight)
        found = spg.fit(items, given, weight="worth", **SMALL)
        fit = found.figures["fit"]
        assert fit["weight"] == pytest.approx(weight * fit["duels"])
        per_duel = fit["log_evidence"] / (weight * fit["duels"])
        assert fit["log_evidence_per_duel"] == pytest.approx(per_duel) and per_duel < -0.3
        assert any("less than one duel" in note for note in found.notes) == less
    items.to_csv(tmp_path / "items.csv", index=False)
    duels.assign(worth=0.25).to_csv(tmp_path / "duels.csv", index=False)
    files = ["--items", str(tmp_path / "items.csv"), "--duels", str(tmp_path / "duels.csv")]
    words = ["fit", *files, "--weight", "worth", *WORDS, "--out", str(tmp_path / "out")]
    printed = " ".join(CliRunner().invoke(app, words).output.split())
    assert f"per unit of weight (weights add up to {0.25 * fit['duels']:,.4g})" in printed


@pytest.mark.slow
def test_what_comes_back(whole: spg.results.FitOutput) -> None:
    assert isinstance(whole.model, spg.PreferenceGP)
    assert isinstance(whole.report, spg.results.OptimisationReport)
    assert whole.settings.kernel == "se" and not whole.streamed
    assert set(whole.scores) == {"model", "linear_probit", "coin"}
    assert whole.scores == whole.figures["held_out"]
    assert whole.figures["notes"] == list(whole.notes)
    assert "The limit of 3 iterations (max_iterations) ended the fit; more may help." in whole.notes
    assert whole.figures["fit"]["log_evidence"] == whole.report.log_evidence
    text, data = str(whole), whole.figures["data"]
    assert "held-out duels that one side won" in text and "win, tie or loss" in text
    assert sum(line.startswith("The model is ") for line in text.splitlines()) == 2
    assert str(whole.report_of()).count("Log evidence") == 1
    assert f"Learned from {data['train_duels']:,} of {data['duels']:,} duels; fit --refit" in text
    for note in whole.notes:
        assert text.count(note) == 1


@pytest.mark.slow
def test_a_model_no_better_than_a_coin_names_the_columns_that_were_not_read(
    frames: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    """As of two sides in the place of winner and loser, and the answer in a column not read."""
    rng = np.random.default_rng(1)
    left = rng.integers(N, size=600)
    right = (left + rng.integers(1, N, size=600)) % N
    sides = pd.DataFrame({"winner": left, "loser": right, "preferred": rng.choice(["l", "r"], 600)})
    with pytest.warns(
        UserWarning, match="hardly better than a coin .* not read: preferred"
    ) as said:
        found = spg.fit(frames[0], sides, **SMALL)
    assert str(said[-1].message) in found.notes
    assert "does winner hold" not in str(said[-1].message), "as the probit is none either"


@pytest.mark.slow
def test_a_refit_says_once_what_is_kept(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    found = spg.fit(*frames, **SMALL, refit=True)
    lines, number = str(found).splitlines(), found.figures["data"]["duels"]
    (at,) = [i for i, line in enumerate(lines) if line.startswith("the fit to all duels: log evid")]
    assert lines[at + 1] == f"Learned from all {number:,} duels."
    assert sum("The limit of 3 iterations" in line for line in lines) == 2


@pytest.mark.slow
def test_the_folder_is_that_of_the_command(
    frames: tuple[pd.DataFrame, pd.DataFrame], whole: spg.results.FitOutput, tmp_path: Path
) -> None:
    for frame, name in zip(frames, ("items", "duels"), strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = ["--items", str(tmp_path / "items.csv"), "--duels", str(tmp_path / "duels.csv")]
    command = tmp_path / "command"
    done = CliRunner().invoke(app, ["fit", *tables, *WORDS, "--out", str(command), "--report"])
    assert done.exit_code == 0, done.output
    written = whole.write(tmp_path / "mine", html=True)
    assert written == ["metrics.json", "ranking.csv", "model/", "pictures/", "report.html"]
    folders = (tmp_path / "mine", command)
    mine, theirs = (json.loads((folder / "metrics.json").read_text()) for folder in folders)
    check_same(mine, theirs)
    names = [
        sorted(str(p.relative_to(f)) for p in f.rglob("*") if p.suffix != ".npz") for f in folders
    ]
    assert names[0] == names[1]
    printed, page = " ".join(done.output.split()), (command / "report.html").read_text()
    for note in theirs["notes"]:
        assert note in printed and note in page
    with pytest.raises(ValueError, match="holds a finished fit"):
        whole.write(tmp_path / "mine")
    assert whole.write(tmp_path / "mine", overwrite=True) == [*written[:-1]]


@pytest.mark.slow
def test_arrays_and_duels_are_taken_too(
    frames: tuple[pd.DataFrame, pd.DataFrame], whole: spg.results.FitOutput
) -> None:
    items, duels = frames
    decided = duels[duels.tie == 0]
    from_frames = spg.fit(items, decided.drop(columns="tie"), **SMALL)
    pairs = decided[["winner", "loser"]].to_numpy()
    from_arrays = spg.fit(items[["a", "b"]].to_numpy(), pairs, **SMALL)
    assert from_arrays.scores == from_frames.scores
    own = spg.Duels(items[["a", "b"]].to_numpy(), *pairs.T)
    kept = spg.fit(duels=own, **SMALL)
    assert kept.scores["model"]["duels"] == from_frames.scores["model"]["duels"]
    np.testing.assert_array_equal(kept.model.duels.items, own.items)  # in the units that it had
    everything = spg.fit(None, own, test_fraction=0, **SMALL)
    assert everything.held_out is None and everything.scores == {}
    assert everything.model.duels.num_duels == own.num_duels


def test_memory_and_streams_give_the_same_scores(
    frames: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    """One model, which has learned nothing: only how the duels are held differs."""
    from sparse_prefgp.workflow.fit_sources import Sources
    from sparse_prefgp.workflow.holdout import hold, predict_held_out

    found = []
    for stream in (False, True):
        settings = spg.FitSettings(kernel="se", inducing=5, stream=stream)
        holdout = hold(Sources(*frames).read(settings), settings)
        model = holdout.model(holdout.first_inputs())
        found.append(predict_held_out(holdout, model))
    for name, scores in found[0].scores().items():
        assert_same_scores(found[1].scores()[name], scores, abs=FIXED_POINT)
    for name, scores in found[0].table("outcomes").items():
        assert_same_scores(found[1].table("outcomes")[name], scores, abs=FIXED_POINT)


@pytest.mark.slow
def test_streams_in_one_call(frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    items, duels = frames
    duels.to_parquet(tmp_path / "duels.parquet")
    stream = spg.stream_duels(tmp_path / "duels.parquet", items)
    found = spg.fit(duels=stream, parts=2, **SMALL)
    assert isinstance(found.model, spg.StreamedGP) and found.streamed
    assert found.figures["split"] == "last rows" and found.figures["fit"]["parts"] == 2
    assert found.write(tmp_path / "out") == ["metrics.json", "ranking.csv", "model/"]
    found.close()


@pytest.mark.slow
def test_a_reporter_is_told_of_every_stage(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    class Listener:
        def __init__(self) -> None:
            self.begun: list[str] = []
            self.ended: list[str] = []
            self.notes: list[str] = []

        @contextmanager
        def started(self, stage: str, about: Any = None) -> Iterator[None]:
            self.begun.append(stage)
            yield None

        def done(self, stage: str, result: Any) -> None:
            self.ended.append(stage)

        def note(self, text: str) -> None:
            self.notes.append(text)

    listener = Listener()
    found = spg.fit(*frames, reporter=listener, **SMALL)
    assert listener.begun == [READING, LOADING, PLACING, FITTING, SCORING]
    assert listener.ended == [READING, HOLDING, FITTING, SCORING]
    assert tuple(listener.notes) == found.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernal": "se"}, "no option 'kernal' of a fit; did you mean kernel"),
        ({"kernel": "sse"}, "The kernel 'sse' is unknown"),
        ({"kernel": 3}, "kernel is 3; give text"),
        ({"integrate": 1}, "integrate is 1; choose from auto, yes, no"),
        ({"priors": None}, "priors is None; choose from none, weak"),
        ({"test_fraction": 1.5}, "test_fraction is 1.5; give a number, at least 0 and below 1"),
        ({"test_fraction": "a"}, "test_fraction is 'a'; give a number"),
        ({"seed": -1}, "seed is -1; give a whole number, at least 0"),
        ({"starts": 10**12}, "starts is 1000000000000; give a whole number"),
        ({"timeout": float("nan"), "scheduler": "local", "stream": True}, "timeout is nan; give"),
        ({"taste": "se"}, "taste was given without person"),
        ({"kernel": " "}, "kernel is empty; give a value"),
        ({"features": [""]}, "features is empty; give a value"),
        ({"features": ["size", ""]}, "features has an empty part among 'size', ''"),
        ({"seed": 1.5}, "seed is 1.5; give a whole number"),
        ({"refit": "yes"}, "refit is 'yes'; give True or False"),
        ({"inducing": 99}, "99 inducing inputs are more than"),
        ({"settings": spg.FitSettings(), "seed": 3}, "'seed' was given along with settings"),
        ({"settings": {"seed": 3}}, "settings is a dict"),
        ({"parts": 3}, "parts was given without stream"),
        ({"stream": True, "engine": "laplace"}, sentence("chunks", "engine")),
        ({"stream": True, "html": True, "out": "x"}, sentence("chunks", "report")),
        ({"html": True}, sentence("report", "no_folder")),
        ({"choices": "choices.csv"}, "duels and choices were given"),
        ({"weight": "worth"}, "has no column 'worth'"),
    ],
)
def test_mistakes_are_one_sentence(
    frames: tuple[pd.DataFrame, pd.DataFrame], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError) as error:
        spg.fit(*frames, **options)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_has_its_own_takes_no_more(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    own = spg.Duels([[0.0], [1.0]], [0], [1])
    for wrong in ({"items": frames[0]}, {"weight": "worth"}, {"context": ["home"]}):
        with refused("duels_object", "column"):
            spg.fit(duels=own, **wrong)
    with pytest.raises(ValueError, match=r"duels has shape \(3,\); give \(t, 2\)"):
        spg.fit(np.eye(3), np.arange(3))
