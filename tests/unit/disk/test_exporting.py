"""Exported predictions, in a process that has nothing but TensorFlow."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.disk import exporting
from sparse_prefgp.factors.orthants import SETTLED
from tests.together import refused
from tests.tolerances import IDENTITY, ROUNDING

# What a server does; it is run outside the repository, so that the package is not at hand either.
SERVER = """
import sys
import numpy as np
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
given = np.load(sys.argv[2])
f = model.signatures["predict_f"](items=tf.constant(given["items"]))
p = model.signatures["predict_duel"](
    first=tf.constant(given["first"]), second=tf.constant(given["second"])
)
c = model.signatures["predict_choice"](
    items=tf.constant(given["sets"]), mask=tf.constant(given["mask"])
)
again = model.predict_duel(tf.constant(given["first"]), tf.constant(given["second"]))
np.testing.assert_array_equal(again["probability"], p["probability"])
np.savez(
    sys.argv[3], mean=f["mean"], variance=f["variance"], probability=p["probability"],
    choice=c["probability"], change=c["change"],
)
loaded = {name.partition(".")[0] for name in sys.modules}
unwanted = {"sparse_prefgp", "gpflow", "tensorflow_probability"} & loaded
assert not unwanted, unwanted
"""


@pytest.mark.slow
def test_margins_are_served_and_logit_factors_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(9, 2))
    winners = rng.integers(0, 9, 40)
    losers = (winners + rng.integers(1, 9, 40)) % 9
    ties = rng.random(40) < 0.3
    duels = spg.Duels(items, winners, losers, ties=ties, groups=np.arange(40) % 2)
    model = spg.PreferenceGP(
        duels, gpflow.kernels.Matern52(), likelihood=spg.Probit(by="judge", margin=0.5)
    )
    model.likelihood.noise_ratio.assign([0.3, 2.0])
    spg.export_saved_model(model, tmp_path / "out")
    found = tf.saved_model.load(str(tmp_path / "out")).predict_duel(items[:5], items[4:])
    served = tf.saved_model.load(str(tmp_path / "out")).predict_choice
    chosen = served(items[None, :4], np.ones((1, 4), bool))["probability"]
    np.testing.assert_allclose(chosen, model.predict_choice(items[None, :4]), rtol=IDENTITY)
    three = model.predict_outcome(items[:5], items[4:]).numpy()
    np.testing.assert_allclose(found["probability"], three[:, 0], rtol=ROUNDING)
    np.testing.assert_allclose(found["tie_probability"], three[:, 1], rtol=ROUNDING)
    logit = spg.PreferenceGP(
        spg.Duels(items, winners, losers),
        gpflow.kernels.Matern52(),
        engine=spg.Laplace(link="logit"),
    )
    with refused("logistic", "export"):
        spg.export_saved_model(logit, tmp_path / "other")


def fitted(effects: bool = False, approximation: object = None) -> spg.PreferenceGP:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(25, 3))
    winners = rng.integers(0, 25, 80)
    losers = (winners + rng.integers(1, 25, 80)) % 25
    duels = spg.Duels(items, winners, losers, feature_names=["a", "b", "c"])
    kernel = gpflow.kernels.Matern52(lengthscales=[1.0, 2.0, 0.7]) + gpflow.kernels.Linear()
    return spg.PreferenceGP(
        duels,
        kernel + spg.ItemEffect(0.4) if effects else kernel,
        approximation=approximation or spg.FITC(),
        inducing_variable=None if isinstance(approximation, spg.Exact) else items[:7],
        mean_function=gpflow.functions.Linear(np.ones((3, 1)), np.zeros(1)),
        noise_variance=0.3,
    )


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of `fitted()`, to be left as it is."""
    folder = tmp_path_factory.mktemp("export") / "out"
    spg.export_saved_model(fitted(), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("effects", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_process_with_tensorflow_alone_predicts_the_same(
    effects: bool, export: Path, tmp_path: Path
) -> None:
    model, out = fitted(effects), export
    if effects:
        out = tmp_path / "out"
        spg.export_saved_model(model, out)
        description = json.loads((out / "assets.extra" / "sparse_prefgp.json").read_text())
        assert description["columns"][-1] == "row number of the item"
    rng = np.random.default_rng(1)
    # More rows than a chunk, among them items of the training data.
    items = np.concatenate([rng.normal(size=(2100, 3)), model.duels.items])
    first, second = items[:50], items[-50:]
    if effects:
        numbers = np.r_[np.full(2100, -1.0), np.arange(25.0)]
        items = np.column_stack([items, numbers])
        first, second = items[:50], items[-50:]
    sets = items[-60:].reshape(12, 5, -1)
    mask = np.arange(5) < rng.integers(1, 6, (12, 1))
    np.savez(tmp_path / "given.npz", items=items, first=first, second=second, sets=sets, mask=mask)
    arguments = [out, tmp_path / "given.npz", tmp_path / "found.npz"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", SERVER, *map(str, arguments)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    mean, variance = model.predict_f(items)
    np.testing.assert_allclose(found["mean"], mean, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(found["variance"], variance, rtol=ROUNDING, atol=ROUNDING)
    probability = model.predict_duel(first, second)
    np.testing.assert_allclose(found["probability"], probability, rtol=ROUNDING)
    assert found["mean"].dtype == np.float64
    choice = model.predict_choice(sets, mask)
    np.testing.assert_allclose(found["choice"], choice, rtol=IDENTITY, atol=ROUNDING)
    assert (found["change"] <= SETTLED).all()


@pytest.mark.slow
def test_any_number_of_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = fitted(approximation=spg.Exact())
    logger = tf.get_logger()
    logger.addHandler(caplog.handler)  # TensorFlow's own does not pass on what it logs
    before = logger.level
    logger.setLevel("INFO")  # as in a notebook
    try:
        spg.export_saved_model(model, tmp_path / "out")
        assert "Assets written" not in caplog.text and logger.level == logging.INFO
    finally:
        logger.setLevel(before)
        logger.removeHandler(caplog.handler)
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    for rows in (0, 1, 3):
        items = tf.constant(model.duels.items[:rows])
        assert loaded.predict_duel(items, items)["probability"].shape == (rows,)
        two = tf.stack([items, items + 0.3], 1)
        chosen = loaded.predict_choice(two, tf.ones([rows, 2], tf.bool))["probability"]
        duel = loaded.predict_duel(items, items + 0.3)["probability"]
        np.testing.assert_allclose(chosen[:, 0], duel, rtol=IDENTITY)
        found = loaded.predict_f(items)
        expected = model.predict_f(items) if rows else (np.zeros((0, 1)), np.zeros((0, 1)))
        np.testing.assert_allclose(found["mean"], expected[0], rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(found["variance"], expected[1], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
def test_it_holds_the_parameters_as_they_were(export: Path) -> None:
    model = fitted()
    items = model.duels.items
    before = model.predict_f(items)[0].numpy()
    model.likelihood.noise.assign(2.0)
    loaded = tf.saved_model.load(str(export))
    found = loaded.predict_f(tf.constant(items))["mean"]
    np.testing.assert_allclose(found, before, rtol=ROUNDING, atol=ROUNDING)
    assert np.abs(model.predict_f(items)[0] - before).max() > 0.01
    for signature in loaded.signatures.values():
        assert not signature.variables


def test_the_folder_says_what_goes_in(export: Path) -> None:
    text = (export / "assets.extra" / "sparse_prefgp.json").read_text(encoding="utf-8")
    description = json.loads(text)
    assert description["columns"] == ["a", "b", "c"]
    assert description["float"] == "float64"
    assert description["versions"]["tensorflow"] == tf.__version__


@pytest.mark.slow
def test_only_an_export_is_replaced(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = fitted(), tmp_path / "out"
    shutil.copytree(export, out)
    model.likelihood.noise.assign(2.0)
    spg.export_saved_model(model, out)
    items = tf.constant(model.duels.items)
    found = tf.saved_model.load(str(out)).predict_f(items)["mean"]
    np.testing.assert_allclose(found, model.predict_f(items)[0], rtol=ROUNDING, atol=ROUNDING)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]

    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'notes\.txt', which is no part"):
        spg.export_saved_model(model, out)
    foreign = tmp_path / "foreign"
    tf.saved_model.save(tf.Module(), str(foreign))
    names = sorted(path.name for path in foreign.iterdir())
    with pytest.raises(ValueError, match="which is no part of an exported model"):
        spg.export_saved_model(model, foreign)
    assert sorted(path.name for path in foreign.iterdir()) == names
    with pytest.raises(ValueError, match="is a file; give a folder"):
        spg.export_saved_model(model, out / "notes.txt")

    (out / "notes.txt").unlink()
    kept = (out / "saved_model.pb").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk is full"):
        spg.export_saved_model(model, out)
    assert (out / "saved_model.pb").read_bytes() == kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign", "out"]


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="of type dict; give a PreferenceGP"):
        spg.export_saved_model({}, tmp_path / "out")
    monkeypatch.setattr(exporting, "_MOST_ROWS", 5)
    with pytest.raises(ValueError, match="7 inducing variables or items, but a SavedModel holds"):
        spg.export_saved_model(fitted(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
