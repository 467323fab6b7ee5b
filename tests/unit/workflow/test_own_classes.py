"""Kernels, approximations and terms of one's own, by name: those of docs/write-your-own.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.support import registry
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import ApproximationChoice, Candidate
from tests.conftest import ROOT
from tests.together import refused
from tests.tolerances import ROUNDING

PAGE = (ROOT / "docs" / "write-your-own.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where one is, with the module of the page, which nobody has imported."""
    found = re.search(r"my_module.py <<'END'\n(.*?)END\n", PAGE, re.DOTALL)
    assert found is not None
    assert found[1].count("@spg.register") == 3 and len(re.findall(r"^.+$", found[1], re.M)) == 17
    (tmp_path / "my_module.py").write_text(found[1])
    assert spg.register  # ours are known from here on
    every = {kind: {**classes} for kind, classes in registry._CLASSES.items()}
    monkeypatch.setattr(registry, "_CLASSES", every)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"item_id": range(12), "price": rng.normal(size=12)}).to_csv("items.csv")
    pairs = np.sort(np.stack([rng.permutation(12)[:2] for _ in range(60)]), 1)
    duels = pd.DataFrame(pairs, columns=["winner", "loser"])
    duels = duels.assign(first=rng.choice([-1, 1], 60), weekday=["Mon", "Wed", "Sun"] * 20)
    duels.to_csv("duels.csv", index=False)
    yield tmp_path
    sys.modules.pop("my_module", None)


def forget() -> None:
    """What a new process would know."""
    for kind in (registry.KERNEL, registry.APPROXIMATION, registry.TERM):
        for one in registry.own(kind).values():
            del registry._CLASSES[kind][one.__name__]
    del sys.modules["my_module"]


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


FIT = ("fit", "--items", "items.csv", "--duels", "duels.csv", "--ignore", "Unnamed: 0")


@pytest.mark.slow
def test_fitted_saved_and_loaded_by_name(folder: Path) -> None:
    words = (*FIT, "--kernel", "linear+Cauchy(price)", "--approximation", "half-fitc")
    unknown = call(*words, "--out", "fitted")
    assert unknown.exit_code == 2 and "Cauchy" in unknown.stderr
    assert not Path("fitted").exists()
    more = ("--inducing", 4, "--max-iterations", 2, "--quiet", "--out", "fitted")
    more += ("--covariate", "first", "--term", "weekday")
    done = call(*words, *more, "--import", "my_module")
    assert done.exit_code == 0, done.stderr
    model = spg.load("fitted")
    before = model.log_evidence()
    forget()
    refused = call("rank", "--model", "fitted")
    assert refused.exit_code == 2
    assert "import my_module before loading (--import)" in " ".join(refused.stderr.split())
    done = call("rank", "--model", "fitted", "--import", "my_module", "--quiet")
    assert done.exit_code == 0, done.stderr
    again = spg.load("fitted")
    assert type(again.approximation).__name__ == "HalfFITC"
    assert again.terms.labels == ("weekday",) and len(again.coefficients().names) == 4
    assert float(again.log_evidence()) == pytest.approx(float(before), rel=ROUNDING)
    halves = spg.PreferenceGP(
        again.duels,
        again.kernel,
        approximation=spg.PriorPower(0.5),
        inducing_variable=again.inducing_variable,
        terms=again.terms,
        noise_variance=float(again.likelihood.noise.numpy()),
    )
    means = [each.predict_f(again.duels.items)[0] for each in (again.at_mode, halves)]
    np.testing.assert_allclose(*means, atol=1e-6)


def test_names_and_what_they_are(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"is 'half-fitc'; .* or --import its module"):
        ApproximationChoice.parse("half-fitc")
    sys.path.insert(0, str(folder))
    __import__("my_module")
    chosen = ApproximationChoice.parse("HalfFITC")
    assert str(chosen) == "half-fitc" and chosen.needs_inducing and chosen.summed_over_duels
    assert type(chosen.build()).__name__ == "HalfFITC"
    assert chosen.build().residual_share == 0.5 and not chosen.build().penalises_residual
    candidate = Candidate.parse("linear+cauchy(price)/half-fitc/4")
    assert str(candidate) == "linear+cauchy(price)/half-fitc/4"
    kernel = KernelChoice.parse("cauchy").build(4)
    np.testing.assert_allclose(kernel.lengthscales, np.full(4, 2.0))
    with pytest.raises(ValueError, match="unknown; did you mean cauchy"):
        KernelChoice.parse("cauchi")


class Half(spg.InducingApproximation):
    def correction(self, left: Any) -> Any:
        return -0.25 * left.summed(lambda ratio: ratio)


class HalfOfDeterminant(spg.InducingApproximation):
    def correction(self, left: Any) -> Any:
        return -0.25 * left.log_det()


def test_a_correction_is_said_once_for_all_answers() -> None:
    ranked = pd.DataFrame({"rank_1": ["a", "b"], "rank_2": ["b", "c"], "rank_3": ["c", "a"]})
    items = pd.DataFrame({"item_id": ["a", "b", "c"], "x": [0.0, 1.0, 3.0]})
    sets = spg.read_rankings(items, ranked)
    duels = spg.Duels(sets.items, [0, 1], [1, 2], people=["ann", "bo"])

    def added(to: spg.Duels, approximation: Any, **more: Any) -> float:
        model = spg.PreferenceGP(
            to,
            gpflow.kernels.Matern52(),
            approximation=approximation,
            inducing_variable=sets.items[:2],
            **more,
        )
        return float(model.approximation.prior(model.problem()).correction)

    assert Half().penalises_residual
    for given in (sets, duels):
        assert 2.0 * added(given, Half()) == pytest.approx(added(given, spg.VFE()), rel=ROUNDING)
    tight = added(sets, spg.TightVFE("block"))
    assert 2.0 * added(sets, HalfOfDeterminant()) == pytest.approx(tight, rel=ROUNDING)
    with refused("tastes", "approximations_of_one_utility"):
        added(duels, HalfOfDeterminant(), terms=[spg.Taste(gpflow.kernels.Matern52())])


@pytest.mark.parametrize("share", [7.0, -3.0, np.nan])
def test_a_share_is_from_0_to_1(share: float) -> None:
    class Odd(spg.InducingApproximation):
        residual_share = share

    with pytest.raises(ValueError, match=f"residual_share of Odd is {share}; give a number"):
        Odd()


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere_at_all", "is neither"), ("broken", "cannot be")]
)
def test_modules_that_cannot_be_imported(folder: Path, name: str, why: str) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    done = call(*FIT, "--out", "fitted", "--import", name)
    assert done.exit_code == 2 and f"The module '{name}' {why}" in " ".join(done.stderr.split())
