"""Models saved and loaded: equal bits, refusals, and a process that is killed half way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sparse_prefgp as spg
from sparse_prefgp.covariances.item_effect import know_effects, known_effects
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.disk import upgrading
from sparse_prefgp.disk.model_folder import DESCRIPTION, checksum
from sparse_prefgp.engines import Status
from sparse_prefgp.support import registry
from tests.tolerances import ROUNDING

N, D = 14, 3
Z = np.random.default_rng(5).normal(size=(4, D))


@pytest.fixture(scope="module")
def duels() -> spg.Duels:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(N, D))
    pairs = rng.permuted(np.tile(np.arange(N), (70, 1)), axis=1)[:, :2]
    ahead = items[:, 0][pairs] + 0.7 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(ahead, 1), 1).T
    ids = [f"item {i}" for i in range(N)]
    return spg.Duels.from_events(
        items, Answers.between(winners, losers), item_ids=ids, feature_names=["a", "b", "c"]
    )


class Ridge(gpflow.kernels.Kernel):
    """A kernel of one's own: a number, a parameter, a parameter made inside, and a kernel."""

    def __init__(self, base: gpflow.kernels.Kernel, slope: Any = 1.0, power: int = 2) -> None:
        super().__init__()
        self.base, self.power = base, power
        self.slope = gpflow.Parameter(slope, transform=gpflow.utilities.positive())
        self.inner = gpflow.Parameter(np.full(D, 0.3))

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        rows, columns = self.slope * X * self.inner, (X if X2 is None else X2) * self.inner
        return tf.matmul(rows, columns, transpose_b=True) ** self.power + self.base(X, X2)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        inner = self.slope * tf.reduce_sum((X * self.inner) ** 2, -1)
        return inner**self.power + self.base(X, full_cov=False)


class _Odd(tfp.bijectors.Exp):
    """A transform of one's own."""


def se() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=[1.1, 0.7, 2.3])


def shared() -> gpflow.kernels.Kernel:
    """Two terms with one variance, a prior, a bounded transform and a chained one."""
    first, second = se(), gpflow.kernels.Matern32(active_dims=[0, 2])
    second.variance = first.variance
    first.variance.prior = tfp.distributions.Gamma(np.float64(2.0), np.float64(3.0))
    second.lengthscales = gpflow.Parameter(
        [0.4, 0.9], transform=tfp.bijectors.Sigmoid(np.float64(0.1), np.float64(3.0))
    )
    linear = gpflow.kernels.Linear(active_dims=slice(1, 3))
    linear.variance = gpflow.Parameter(0.3, transform=gpflow.utilities.positive(1e-3))
    linear.variance.prior_on = "unconstrained"
    gpflow.set_trainable(linear, False)
    return gpflow.kernels.Sum([first * linear, second])


KERNELS: dict[str, Callable[[], gpflow.kernels.Kernel]] = {
    "se": se,
    "shared": shared,
    "item effect": lambda: se() + spg.ItemEffect(0.4),
    "items in a context": lambda: (
        se()
        + spg.ItemEffect(0.4)
        + spg.ItemTimes(spg.SameLevel(0.3, active_dims=[1]))
        + spg.ItemTimes(gpflow.kernels.Linear([0.2, 0.5], active_dims=[0, 2]))
    ),
    "rational quadratic": lambda: gpflow.kernels.RationalQuadratic(alpha=0.7),
    "periodic": lambda: gpflow.kernels.Periodic(se(), period=[1.0, 2.0, 3.0]),
    "arc cosine": lambda: gpflow.kernels.ArcCosine(order=1, weight_variances=[1.0, 0.5, 0.2]),
    "polynomial": lambda: gpflow.kernels.Polynomial(degree=2.0) + gpflow.kernels.Cosine(),
    "white": lambda: gpflow.kernels.White(0.2) + gpflow.kernels.Exponential(),
    "ours": lambda: Ridge(se(), 0.4, power=3),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "exact": {"approximation": spg.Exact()},
    "exact over duels": {"approximation": spg.Exact(over="duels")},
    "vfe": {"approximation": spg.VFE(), "inducing_variable": Z},
    "fitc": {"approximation": spg.FITC(over="items"), "inducing_variable": Z},
    "power": {"approximation": spg.PriorPower(0.3), "inducing_variable": Z},
    "logdet": {"approximation": spg.TightVFE("logdet"), "inducing_variable": Z},
    "subset": {"approximation": spg.SubsetOfData(30, seed=3)},
    "k-means blocks": {"approximation": spg.PITC(4, seed=1), "inducing_variable": Z},
    "sequential": {"engine": spg.SequentialEP(tolerance=1e-6)},
    "power ep": {"engine": spg.ParallelEP(site_power=0.3), "approximation": spg.Exact()},
    "sequential power": {"engine": spg.SequentialEP(site_power=0.5, max_sweeps=3)},
    "variational": {
        "engine": spg.Variational(damping=0.6),
        "approximation": spg.VFE(),
        "inducing_variable": Z,
    },
    "laplace": {"engine": spg.Laplace(tolerance=1e-10)},
    "laplace logit": {
        "engine": spg.Laplace(link="logit"),
        "approximation": spg.FITC(),
        "inducing_variable": Z,
    },
    "mean": {"mean_function": gpflow.functions.Linear(A=[[1.0], [0.2], [0.0]], b=[0.3])},
    "noise": {"noise_variance": 0.1},
}
WITH_QUADRATURE = {"power ep", "sequential power", "variational", "laplace", "laplace logit"}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {kind: {**classes} for kind, classes in registry._CLASSES.items()}
    monkeypatch.setattr(registry, "_CLASSES", every)
    spg.register(Ridge)


def assert_same(first: spg.PreferenceGP, second: spg.PreferenceGP) -> None:
    inputs = np.concatenate([first.duels.items, Z])
    for full in (False, True):
        for mine, theirs in zip(
            first.predict_f(inputs, full_cov=full),
            second.predict_f(inputs, full_cov=full),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, theirs)
    a, b = inputs[:7], inputs[7:14]
    np.testing.assert_array_equal(first.predict_duel(a, b), second.predict_duel(a, b))
    assert second.infer() == first.infer()
    assert second.log_evidence() == pytest.approx(first.log_evidence(), rel=ROUNDING)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.covering(every=12)
def test_every_kernel_comes_back_to_the_bit(name: str, duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, KERNELS[name]())
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert_same(model, again)
    before, after = (gpflow.utilities.parameter_dict(m) for m in (model, again))
    assert list(before) == list(after)
    for path, parameter in before.items():
        other = after[path]
        np.testing.assert_array_equal(
            parameter.unconstrained_variable, other.unconstrained_variable
        )
        assert parameter.trainable == other.trainable
        assert parameter.prior_on == other.prior_on
        assert type(parameter.transform) is type(other.transform)
        assert type(parameter.prior) is type(other.prior)
    assert len(model.trainable_variables) == len(again.trainable_variables)
    assert float(again.log_prior_density()) == float(model.log_prior_density())


# Other engines are those of `test_saved_before`.
@pytest.mark.covering(*OPTIONS.keys() - WITH_QUADRATURE)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_model_comes_back_to_the_bit(name: str, duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, se(), **OPTIONS[name])
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert_same(model, again)
    assert (again.approximation, again.engine) == (model.approximation, model.engine)
    assert str(again) == str(model)
    for field in ("items", "winners", "losers", "counts"):
        np.testing.assert_array_equal(getattr(again.duels, field), getattr(duels, field))
    assert again.duels.item_ids == duels.item_ids
    assert again.duels.feature_names == duels.feature_names


ENDS: dict[str, tuple[tfp.bijectors.Bijector, list[float]]] = {
    "softplus": (gpflow.utilities.positive(), [-800.0, 0.3, -np.inf]),
    "shifted softplus": (gpflow.utilities.positive(1e-6), [-800.0, 0.3, -np.inf]),
    "exponential": (tfp.bijectors.Exp(), [-800.0, 0.3, -np.inf]),
    "both ends": (tfp.bijectors.Sigmoid(np.float64(0.0), np.float64(3.0)), [800.0, 0.3, -800.0]),
}


@pytest.mark.covering("both ends")
@pytest.mark.parametrize("name", ENDS)
def test_parameters_at_the_end_of_their_range(name: str, duels: spg.Duels, tmp_path: Path) -> None:
    transform, unconstrained = ENDS[name]
    for margin in (None, 0.3):
        linear = gpflow.kernels.Linear()
        linear.variance = gpflow.Parameter([0.5, 0.2, 0.1], transform=transform)
        model = spg.PreferenceGP(duels, linear + se(), likelihood=spg.Probit(margin=margin))
        linear.variance.unconstrained_variable.assign(unconstrained)
        if model.likelihood.margin is not None:
            model.likelihood.margin.unconstrained_variable.assign(-800.0)
        spg.save(model, tmp_path / f"{margin}")
        again = spg.load(tmp_path / f"{margin}")
        assert_same(model, again)
        np.testing.assert_array_equal(
            again.kernel.kernels[0].variance.unconstrained_variable, unconstrained
        )


def test_a_streamed_model_at_the_end_of_a_range(duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.StreamedGP(
        spg.stream_duels(duels), gpflow.kernels.Linear([0.5, 0.2, 0.1]) + se(), inducing_variable=Z
    )
    model.kernel.kernels[0].variance.unconstrained_variable.assign([-800.0, 0.3, -np.inf])
    model.infer()
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    for mine, theirs in zip(model.predict_f(Z), again.predict_f(Z), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_a_loaded_model_trains_on(duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, shared(), approximation=spg.VFE(), inducing_variable=Z)
    spg.save(model, tmp_path)
    again = spg.load(tmp_path)
    first, second = spg.optimise(model, 5), spg.optimise(again, 5)
    assert second.log_evidence > second.log_evidence_start
    assert second.log_evidence == pytest.approx(first.log_evidence, rel=1e-9)
    # What was one parameter is one again.
    assert again.kernel.kernels[0].kernels[0].variance is again.kernel.kernels[1].variance


def test_predictions_need_no_sweep_and_the_evidence_one(
    duels: spg.Duels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep over all sites is what reading a large model would wait for."""
    model = spg.PreferenceGP(duels, se(), approximation=spg.VFE())
    spg.save(model, tmp_path / "model")
    calls = []
    at, run = spg.ParallelEP.at, spg.ParallelEP.run
    monkeypatch.setattr(spg.ParallelEP, "at", lambda *a: calls.append("at") or at(*a))
    monkeypatch.setattr(spg.ParallelEP, "run", lambda *a: calls.append("run") or run(*a))
    loaded = spg.load(tmp_path / "model")
    inputs = duels.items[:5]
    for mine, theirs in zip(loaded.predict_f(inputs), model.predict_f(inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert loaded.infer() == model.infer()
    assert loaded.lower_bound() == model.lower_bound()
    assert not calls
    assert loaded.log_evidence() == pytest.approx(model.log_evidence(), abs=ROUNDING)
    assert loaded.log_evidence() == pytest.approx(model.log_evidence(), abs=ROUNDING)
    assert calls == ["at"]


def test_inference_that_did_not_converge_is_kept_as_it_is(duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, se(), engine=spg.ParallelEP(max_sweeps=2))
    assert model.infer().status is Status.MAX_SWEEPS
    spg.save(model, tmp_path)
    assert_same(model, spg.load(tmp_path))


@pytest.mark.parametrize(
    "ids", [None, list(range(100, 100 + N)), [0.5 * i for i in range(N)], ["ü", "007", *range(12)]]
)
@pytest.mark.covering(every=4)
def test_item_ids(ids: Any, duels: spg.Duels, tmp_path: Path) -> None:
    named = spg.Duels.from_events(duels.items, duels.events, item_ids=ids)
    spg.save(spg.PreferenceGP(named, se()), tmp_path)
    assert spg.load(tmp_path).duels.item_ids == named.item_ids


PREDICT = """
import sys
import numpy as np
import sparse_prefgp as spg

model = spg.load(sys.argv[1])
mean, covariance = model.predict_f(np.load(sys.argv[2]), full_cov=True)
np.savez(sys.argv[3], mean=mean, covariance=covariance)
"""


@pytest.mark.slow
def test_another_process_elsewhere_predicts_the_same_bits(duels: spg.Duels, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, KERNELS["shared"]())
    spg.optimise(model, 3)
    spg.save(model, tmp_path / "here" / "model")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    np.save(tmp_path / "inputs.npy", duels.items)
    files = [str(tmp_path / name) for name in ("there/model", "inputs.npy", "out.npz")]
    subprocess.run([sys.executable, "-c", PREDICT, *files], check=True, timeout=300)
    found = np.load(tmp_path / "out.npz")
    mean, covariance = model.predict_f(duels.items, full_cov=True)
    np.testing.assert_array_equal(found["mean"], mean)
    np.testing.assert_array_equal(found["covariance"], covariance)


# Refusals.


@pytest.fixture
def saved(duels: spg.Duels, tmp_path: Path) -> Path:
    spg.save(spg.PreferenceGP(duels, se()), tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, sign: bool = True, **changes: Any) -> None:
    path = folder / DESCRIPTION
    values = {**json.loads(path.read_text()), **changes}
    if sign:
        values["checksum"] = checksum(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    "named",
    [
        {"class": "experimental", "arguments": {}},  # there, but no bijector
        {"class": "NoSuchTransform", "arguments": {}},
        # With the module's own loader a file could write any other file.
        {
            "class": "Exp",
            "arguments": {
                "name": {
                    "of": "__loader__",
                    "class": "set_data",
                    "arguments": {
                        "path": {"value": "written"},
                        "data": {"numbers": [104, 105], "dtype": "uint8"},
                    },
                }
            },
        },
    ],
)
def test_a_file_names_nothing_but_transforms_and_priors(
    saved: Path, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = json.loads((saved / DESCRIPTION).read_text())["parameters"]
    edit(saved, parameters=[{**parameters[0], "transform": named}, *parameters[1:]])
    monkeypatch.chdir(saved.parent)
    with pytest.raises(ValueError, match="of TensorFlow Probability; save it again"):
        spg.load(saved)
    assert not Path("written").exists()


def test_a_folder_that_is_missing_or_foreign(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, message in (
        ("nowhere", "There is no model folder"),
        ("empty", "holds no model"),
        ("file", "is a file"),
    ):
        with pytest.raises(ValueError, match=message):
            spg.load(tmp_path / name)
    (saved / DESCRIPTION).write_text('{"a": 1}')
    with pytest.raises(ValueError, match="not that of a saved model"):
        spg.load(saved)
    (saved / DESCRIPTION).write_text('{"kernel": "se", "approximation": "vfe"}')
    with pytest.raises(ValueError, match="before models could be loaded; fit again"):
        spg.load(saved)


def test_truncated_or_edited_files(saved: Path) -> None:
    arrays = next(saved.glob("*.npz"))
    whole, text = arrays.read_bytes(), (saved / DESCRIPTION).read_text()
    arrays.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"damaged \(arrays-.* is not what was written\)"):
        spg.load(saved)
    arrays.unlink()
    with pytest.raises(ValueError, match=r"cannot be read \(No such file"):
        spg.load(saved)
    arrays.write_bytes(whole)
    for broken in (text[: len(text) // 2], "", "[" * 100_000, "[]"):
        (saved / DESCRIPTION).write_text(broken)
        with pytest.raises(ValueError, match=r"damaged|not that of a saved model"):
            spg.load(saved)
    (saved / DESCRIPTION).write_text(text.replace('"trainable": true', '"trainable": false'))
    with pytest.raises(ValueError, match="changed after it was written"):
        spg.load(saved)
    (saved / DESCRIPTION).write_text(text)
    spg.load(saved)


def test_other_formats(saved: Path) -> None:
    edit(saved, sign=False, format_version=6)
    with pytest.raises(ValueError, match=r"has format 6, written by .* upgrade"):
        spg.load(saved)
    edit(saved, format_version="new")
    with pytest.raises(ValueError, match="its format version is 'new'"):
        spg.load(saved)
    edit(saved, format_version=1, float="float32")
    with pytest.raises(ValueError, match="set_default_float"):
        spg.load(saved)


def test_a_kernel_that_is_not_registered(
    duels: spg.Duels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spg.PreferenceGP(duels, KERNELS["ours"]())
    spg.save(model, tmp_path / "model")
    del registry._CLASSES[registry.KERNEL]["Ridge"]
    remedy = rf"class Ridge, which is not registered here; import {__name__} before loading"
    with pytest.raises(ValueError, match=remedy):
        spg.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"call spg.register\(Ridge\) first"):
        spg.save(model, tmp_path / "model")


def test_classes_that_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="takes a class of kernels"):
        spg.register(se())  # type: ignore[type-var]
    other = type("Other", (gpflow.kernels.Kernel,), {})
    with pytest.raises(ValueError, match="Other lacks K, K_diag"):
        spg.register(other)
    other = type("SquaredExponential", (Ridge,), {})
    with pytest.raises(ValueError, match="named SquaredExponential is known already"):
        spg.register(other)
    assert spg.register(Ridge) is Ridge


def test_kernels_that_do_not_say_what_they_are_made_of(duels: spg.Duels, tmp_path: Path) -> None:
    @spg.register
    class Forgetful(gpflow.kernels.SquaredExponential):
        def __init__(self, factor: float) -> None:
            super().__init__(variance=factor)

    @spg.register
    class Sloppy(gpflow.kernels.SquaredExponential):
        def __init__(self, factor: float = 1.0) -> None:
            super().__init__()
            self._factor = factor

        def K_r2(self, r2: tf.Tensor) -> tf.Tensor:
            return self._factor * super().K_r2(r2)

    with pytest.raises(ValueError, match="does not keep its constructor's argument 'factor'"):
        spg.save(spg.PreferenceGP(duels, Forgetful(2.0)), tmp_path / "model")
    with pytest.raises(ValueError, match="Sloppy does not compute the same again"):
        spg.save(spg.PreferenceGP(duels, Sloppy(2.0)), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_cannot_be_written_is_refused_before_anything_is(
    duels: spg.Duels, tmp_path: Path
) -> None:
    class Own(gpflow.functions.MeanFunction):
        def __call__(self, X: tf.Tensor) -> tf.Tensor:
            return tf.zeros_like(X[:, :1])

    odd = se()
    odd.variance = gpflow.Parameter(1.0, transform=_Odd())
    tuples = spg.Duels.from_events(duels.items, duels.events, item_ids=[(i,) for i in range(N)])
    for model, message in (
        (spg.PreferenceGP(duels, se(), mean_function=Own()), "class Own"),
        (spg.PreferenceGP(duels, odd), "_Odd"),
        (spg.PreferenceGP(tuples, se()), r"item id \(0,\) is of type tuple"),
    ):
        with pytest.raises(ValueError, match=message):
            spg.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="give a PreferenceGP"):
        spg.save("model", tmp_path / "model")  # type: ignore[arg-type]
    assert not (tmp_path / "model").exists()


def test_folders_of_others_are_left_alone(duels: spg.Duels, saved: Path, tmp_path: Path) -> None:
    model = spg.PreferenceGP(duels, se(), noise_variance=0.3)
    spg.save(model, saved)  # replaces
    assert len(list(saved.iterdir())) == 2
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="which is no part of a saved model"):
        spg.save(model, saved)
    assert (saved / "notes.txt").read_text() == "mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / DESCRIPTION).write_text("{}")
    with pytest.raises(ValueError, match=r"is no part of a saved model"):
        spg.save(model, tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file"):
        spg.save(model, tmp_path / "file")


# A process for each line that it reads, which all share what takes seconds to import.
SAVE_FOR_EVER = """
import os, sys
import gpflow
import sparse_prefgp as spg
from sparse_prefgp.disk import saving

for _ in sys.stdin:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    models = [spg.load(path) for path in sys.argv[2:4]]
    print(os.getpid(), flush=True)
    while True:
        for model in models:
            spg.save(model, sys.argv[1])
"""


def alive(process: int) -> bool:
    """Whether a process is there, as its parent sees it."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_killed_twenty_times_there_is_always_a_loadable_model(
    duels: spg.Duels, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    expected = []
    for i, noise in enumerate((0.3, 0.7)):
        # Large enough that writing takes its time.
        items = np.concatenate([duels.items, np.zeros((20_000, D))])
        many = spg.Duels(items, duels.winners, duels.losers)
        model = spg.PreferenceGP(many, se(), noise_variance=noise)
        spg.save(model, tmp_path / f"source{i}")
        expected.append(model.predict_f(Z)[0].numpy())
    shutil.copytree(tmp_path / "source0", target)
    rng, seen = np.random.default_rng(0), set()
    command = [sys.executable, "-c", SAVE_FOR_EVER, str(target)]
    command += [str(tmp_path / f"source{i}") for i in range(2)]
    started = time.perf_counter()
    spg.save(spg.load(tmp_path / "source0"), target)
    longest = 3.0 * (time.perf_counter() - started)  # of some saves, on this machine as it is
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes)
    assert process.stdin is not None and process.stdout is not None
    for _ in range(20):
        print(file=process.stdin, flush=True)
        child = int(process.stdout.readline())
        time.sleep(rng.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        while alive(child):
            time.sleep(0.01)
        mean = spg.load(target).predict_f(Z)[0].numpy()
        seen.add([np.array_equal(mean, values) for values in expected].index(True))
    process.communicate()
    assert seen == {0, 1}
    # What the killed left behind goes with the next save, empty folders after a second.
    time.sleep(1.1)
    spg.save(spg.load(target), target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "source0", "source1"]


def test_private_and_current_folders_stay_what_they_are(
    duels: spg.Duels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spg.PreferenceGP(duels, se())
    (tmp_path / "private").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "private")
    for _ in range(2):
        spg.save(model, ".")
        assert_same(model, spg.load("."))
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["arrays-mine.npz", "arrays-0123456789ab.npz", "x.unfinished"])
@pytest.mark.covering(every=3)
def test_files_that_only_look_like_ours_are_kept(
    name: str, duels: spg.Duels, saved: Path, tmp_path: Path
) -> None:
    model = spg.PreferenceGP(duels, se())
    (tmp_path / "other").mkdir()
    for folder in (saved, tmp_path / "other"):
        (folder / name).write_text("precious")
        with pytest.raises(ValueError, match="would be lost"):
            spg.save(model, folder)
        assert (folder / name).read_text() == "precious"


def test_a_damaged_model_can_be_replaced(duels: spg.Duels, saved: Path) -> None:
    next(saved.glob("*.npz")).write_bytes(b"half")
    spg.save(spg.PreferenceGP(duels, se(), noise_variance=0.3), saved)
    assert len(list(saved.iterdir())) == 2 and spg.load(saved).infer().converged


def test_arrays_of_a_save_that_was_killed_are_ours(duels: spg.Duels, saved: Path) -> None:
    (saved / DESCRIPTION).unlink()
    spg.save(spg.PreferenceGP(duels, se(), noise_variance=0.3), saved)
    assert len(list(saved.iterdir())) == 2


def test_a_model_without_finite_values_is_not_saved(duels: spg.Duels, tmp_path: Path) -> None:
    @spg.register
    class Indefinite(gpflow.kernels.SquaredExponential):
        def __init__(self) -> None:
            super().__init__(variance=50.0)

        def K_r2(self, r2: tf.Tensor) -> tf.Tensor:
            return self.variance * tf.where(r2 < 4.0, tf.exp(-0.01 * r2), tf.zeros_like(r2))

    model = spg.PreferenceGP(duels, Indefinite(), approximation=spg.Exact(over="duels"))
    if model.infer().status is not Status.NOT_FINITE:
        model.likelihood.noise = gpflow.Parameter(np.nan)
    with pytest.raises(ValueError, match="not come to finite values"):
        spg.save(model, tmp_path / "model")


def test_numbers_that_json_does_not_have_are_damage(saved: Path) -> None:
    text = (saved / DESCRIPTION).read_text()
    (saved / DESCRIPTION).write_text(text.replace('"jitter": 0.0', '"jitter": NaN'))
    with pytest.raises(ValueError, match="damaged"):
        spg.load(saved)


@pytest.mark.covering("sum", "own")
@pytest.mark.parametrize("name", ["sum", "product", "polynomial", "own"])
def test_mean_functions(name: str, duels: spg.Duels, tmp_path: Path) -> None:
    class Own(gpflow.functions.MeanFunction):
        def __init__(self, slope: Any = 0.4) -> None:
            super().__init__()
            self.slope = gpflow.Parameter(slope)

        def __call__(self, X: tf.Tensor) -> tf.Tensor:
            return self.slope * X[:, :1]

    linear = gpflow.functions.Linear(A=[[1.0], [0.2], [0.0]], b=[0.3])
    function = {
        "sum": linear + gpflow.functions.Constant(np.ones(1)),
        "product": linear * linear,
        "polynomial": gpflow.functions.Polynomial(2, input_dim=D),
        "own": Own(),
    }[name]
    model = spg.PreferenceGP(duels, se(), mean_function=function)
    if name == "own":
        with pytest.raises(ValueError, match=r"call spg.register\(Own\) first"):
            spg.save(model, tmp_path)
        spg.register(Own)
    spg.save(model, tmp_path)
    assert_same(model, spg.load(tmp_path))


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.covering(every=2)
def test_a_model_of_before_goes_on_with_the_effects_that_it_knew(
    duels: spg.Duels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    kernel = gpflow.kernels.Matern52() + spg.ItemEffect(0.8)
    know_effects(kernel, 5)
    model = spg.PreferenceGP(duels, kernel, approximation=spg.FITC(), inducing_variable=Z)
    inputs = model.inputs.of_items()
    before = *model.predict_f(inputs, full_cov=True), model.log_evidence()
    spg.save(model, tmp_path / "model")
    if not written:  # as files were before they said it
        monkeypatch.setattr(upgrading, "EFFECTS_KNOWN", 5)
        path = tmp_path / "model" / DESCRIPTION
        description = json.loads(path.read_text())
        del description["duels"]["effects_known"]
        description["checksum"] = checksum(description)
        path.write_text(json.dumps(description))
    loaded = spg.load(tmp_path / "model")
    assert known_effects(loaded.kernel) == 5
    after = *loaded.predict_f(inputs, full_cov=True), loaded.log_evidence()
    for mine, theirs in zip(before, after, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    know_effects(kernel, None)
    now = spg.PreferenceGP(duels, kernel, approximation=spg.FITC(), inducing_variable=Z)
    assert np.abs(now.predict_f(inputs)[0] - loaded.predict_f(inputs)[0]).max() > 0.01
