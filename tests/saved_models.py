"""Small saved models, and what they answered on the day they were saved.

`tests/data/saved/<kind>/model` is what `save` wrote, and `answers.json` next to it what the model
said then, all digits. `tests/integration/test_saved_before.py` loads each with the code of today
and asks again. What is there is never made again: it stands for models that users have. For a new
kind add a function to `KINDS` (or a folder of a fit to `FOLDERS`) and run, in the root of the
repository,

    python -m tests.saved_models

which makes the kinds that are missing and leaves the others as they are.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import tensorflow_probability as tfp

import sparse_prefgp as spg
from tests.cases import DATA, in_block

SAVED = DATA / "saved"
ANSWERS = "answers.json"

ITEMS = np.array(
    [
        [0.31, -1.12],
        [1.24, 0.45],
        [-0.73, 0.88],
        [0.05, 1.91],
        [-1.42, -0.36],
        [0.67, -0.21],
        [2.03, -0.94],
    ]
)
WINNERS = np.array([0, 1, 2, 3, 5, 6, 1, 1, 4, 2, 3, 6])
LOSERS = np.array([1, 2, 3, 0, 4, 0, 2, 4, 0, 5, 6, 1])
TIES = np.arange(12) % 5 == 3
JUDGES = ["ann", "bob", "cy", "ann", "bob", "cy", "cy", "ann", "bob", "cy", "ann", "bob"]
Z = np.array([[-0.9, -0.5], [0.1, 1.2], [0.8, -0.7], [1.6, 0.2]])
# Where a model is asked: items it knows nothing of, and the same again as opponents.
NEW = np.array([[0.2, 0.1], [-1.1, 1.3], [1.7, -1.6], [0.31, -1.12]])
OTHERS = NEW[[1, 2, 3, 0]]
# Rows of items that it knows, for models whose items have effects.
KNOWN, RIVALS = [0, 2, 5, 6], [3, 1, 4, 0]


def duels(**more: Any) -> spg.Duels:
    return spg.Duels(ITEMS, WINNERS, LOSERS, **more)


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.Matern52(variance=1.3, lengthscales=[0.9, 1.6])


def sparse(approximation: Any, **more: Any) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels(), kernel(), approximation=approximation, inducing_variable=Z, **more
    )


def exact() -> spg.PreferenceGP:
    model = spg.PreferenceGP(duels(), kernel(), approximation=spg.Exact(), noise_variance=0.2)
    model.kernel.lengthscales.prior = tfp.distributions.LogNormal(np.float64(0.0), np.float64(0.7))
    return model


def item_effects() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels(item_ids=[f"i{k}" for k in range(7)]),
        kernel() + spg.ItemEffect(variance=0.4),
        approximation=spg.FITC(),
        inducing_variable=Z,
    )


def item_effects_alone() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels(np.zeros((7, 0)), WINNERS, LOSERS), spg.ItemEffect(variance=0.8)
    )


def judges() -> spg.PreferenceGP:
    model = spg.PreferenceGP(
        duels(groups=JUDGES),
        kernel(),
        approximation=spg.VFE(),
        inducing_variable=Z,
        likelihood=spg.Probit(by="judge"),
    )
    assert model.likelihood.noise_ratio is not None
    model.likelihood.noise_ratio.assign([0.6, 1.1, 2.3])
    return model


def weights() -> spg.PreferenceGP:
    data = duels(weights=np.linspace(0.3, 1.7, 12), counts=1 + np.arange(12) % 3)
    return spg.PreferenceGP(data, kernel(), approximation=spg.TightVFE(), inducing_variable=Z)


def ties() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels(ties=TIES),
        kernel(),
        approximation=spg.VFE(),
        inducing_variable=Z,
        likelihood=spg.Probit(margin=0.35),
    )


def in_contexts() -> spg.Duels:
    """Items with one feature, met at home or away: rows of two features."""
    import pandas as pd

    items = pd.DataFrame({"item_id": [f"i{k}" for k in range(7)], "size": ITEMS[:, 0]})
    ends = {"winner": [f"i{k}" for k in WINNERS], "loser": [f"i{k}" for k in LOSERS]}
    home = np.arange(12) % 3 == 0
    sides = {"winner_home": home.astype(int), "loser_home": 1 - home.astype(int)}
    return spg.read_duels(items, pd.DataFrame({**ends, **sides}), context=["home"])


def streamed(data: spg.Duels, approximation: Any, parts: int, **more: Any) -> spg.StreamedGP:
    return spg.StreamedGP(
        spg.stream_duels(data),
        kernel(),
        approximation=approximation,
        inducing_variable=Z,
        engine=spg.PartitionedEP(parts=parts),
        **more,
    )


def leaning(**more: Any) -> dict[str, Any]:
    """Duels in which judges lean to a side; the models that are kept had them as groups."""
    sides = np.column_stack([np.where(np.arange(12) % 2, 1.0, -1.0), np.cos(np.arange(12.0))])
    labels = {"group": JUDGES}
    return {"covariates": sides, "covariate_names": ["first", "length"], "labels": labels, **more}


KINDS: dict[str, Callable[[], spg.PreferenceGP | spg.StreamedGP]] = {
    "exact": exact,
    "dtc": lambda: sparse(spg.DTC()),
    "vfe": lambda: sparse(spg.VFE()),
    "vfe_over_duels": lambda: sparse(spg.VFE(over="duels")),
    "tight_vfe": lambda: sparse(spg.TightVFE()),
    "tight_vfe_rank": lambda: sparse(spg.TightVFE(residual="rank")),
    "tight_vfe_logdet": lambda: sparse(spg.TightVFE(residual="logdet")),
    "fitc": lambda: sparse(spg.FITC()),
    "hetero_vfe": lambda: sparse(spg.HeteroscedasticVFE()),
    "prior_power": lambda: sparse(spg.PriorPower(0.4)),
    "pitc": lambda: sparse(spg.PITC(JUDGES)),
    "pitc_kmeans": lambda: sparse(spg.PITC(3, seed=1)),
    "subset": lambda: spg.PreferenceGP(duels(), kernel(), approximation=spg.SubsetOfData(8, 2)),
    "item_effects": item_effects,
    "item_effects_alone": item_effects_alone,
    "contexts": lambda: spg.PreferenceGP(
        in_contexts(), kernel(), approximation=spg.VFE(), inducing_variable=Z
    ),
    "context_effects": lambda: spg.PreferenceGP(
        in_contexts(), kernel() + spg.ItemEffect(variance=0.4), approximation=spg.Exact()
    ),
    "ties": ties,
    "judges": judges,
    "weights": weights,
    "mean_function": lambda: sparse(
        spg.FITC(), mean_function=gpflow.functions.Linear(A=[[0.7], [-0.2]], b=[0.1])
    ),
    "laplace": lambda: sparse(spg.FITC(), engine=spg.Laplace()),
    "laplace_logit": lambda: sparse(spg.VFE(), engine=spg.Laplace(link="logit")),
    "variational": lambda: sparse(spg.VFE(), engine=spg.Variational()),
    "sequential": lambda: sparse(spg.FITC(), engine=spg.SequentialEP()),
    "site_power": lambda: sparse(spg.FITC(), engine=spg.ParallelEP(site_power=0.5)),
    "partitioned": lambda: sparse(spg.FITC()),  # then in parts
    "streamed": lambda: streamed(duels(), spg.VFE(), 1),
    "streamed_parts": lambda: streamed(duels(), spg.FITC(), 3, noise_variance=0.2),
    "streamed_ties": lambda: streamed(
        duels(ties=TIES), spg.FITC(), 2, likelihood=spg.Probit(margin=0.35)
    ),
    "leans": lambda: spg.PreferenceGP(
        duels(**leaning()), kernel(), terms=[spg.Lean("first", "group")]
    ),
    "streamed_leans": lambda: streamed(
        duels(**leaning(groups=JUDGES)),
        spg.VFE(),
        2,
        terms=[spg.Lean("first", "group")],
        likelihood=spg.Probit(by="judge"),
    ),
}


def answers(model: spg.PreferenceGP | spg.StreamedGP) -> dict[str, Any]:
    """What a model says at fixed places: plain lists and numbers, of all digits."""
    new, others = NEW, OTHERS
    if model.duels.num_features == 0:
        new, others = (np.zeros((4, 0)) for _ in range(2))
    mean, variance = model.predict_f(new)
    joint = model.predict_f(new, full_cov=True)[1]
    difference = model.predict_difference(new, others)
    found: dict[str, Any] = {
        "log_evidence": model.log_evidence(),
        "log_prior": model.log_prior_density(),
        "mean": mean,
        "variance": variance,
        "covariance": joint,
        "difference": difference[0],
        "difference_variance": difference[1],
        "probability": model.predict_duel(new, others),
        "log_probability": np.log(model.predict_duel(others, new)),
        "outcome": model.predict_outcome(new, others),
    }
    if model.inputs.layout.numbered:
        ahead, behind = model.inputs.of_items(KNOWN), model.inputs.of_items(RIVALS)
        found["known"] = model.predict_f(ahead, full_cov=True)
        found["known_probability"] = model.predict_duel(ahead, behind)
    if model.likelihood.noise_ratio is not None:
        found["judged"] = model.predict_duel(new, others, groups=["ann", "bob", "cy", "ann"])
    if model.terms.labels:
        x, who = [1.0, -0.3], ["ann", "bob", "cy", None]
        groups = None if model.likelihood.noise_ratio is None else who
        said = {"groups": groups, "covariates": x, "labels": {"group": who}}
        found["leaned"] = model.predict_duel(new, others, **said)
        found["coefficients"] = model.coefficients().mean, model.coefficients().sd
    if isinstance(model, spg.PreferenceGP):
        nu, tau = model.inference.sites()
        found |= {"nu": nu, "tau": tau}
        if model.engine.link_function.has_normal_noise:
            found["lower_bounds"] = [float(value) for value in model.lower_bounds().rows.values()]
        if isinstance(model.approximation, spg.PITC):
            first = model.approximation.labels[0] if model.approximation.labels else 0
            found["in_block"] = in_block(model, new, first, full_cov=True)
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return np.asarray(value).tolist()


# Folders of `sparse-prefgp fit`: what was added to the command. Each lies next to items.csv,
# duels.csv and pairs.csv, and what predict, rank and evaluate answered with --json.
FOLDERS: dict[str, tuple[str, ...]] = {
    "fit": ("--approximation", "fitc", "--inducing", "4", "--max-iterations", "3"),
    "fit_stream": ("--stream", "--inducing", "4", "--max-iterations", "2"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "predict": ("--pairs", "pairs.csv"),
    "rank": ("--top", "2"),
    "evaluate": ("--duels", "duels.csv"),
}


def tables(folder: Path) -> None:
    """items.csv with a number and a level, duels.csv and pairs.csv."""
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(size=14), 3)
    rows = [f"i{k},{value},{'red' if k % 3 else 'blue'}" for k, value in enumerate(x)]
    (folder / "items.csv").write_text("item_id,size,colour\n" + "\n".join(rows) + "\n")
    pairs = rng.permuted(np.tile(np.arange(14), (60, 1)), axis=1)[:, :2]
    order = np.argsort(np.sin(x)[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    lines = [f"i{a},i{b}" for a, b in zip(winners, losers, strict=True)]
    (folder / "duels.csv").write_text("winner,loser\n" + "\n".join(lines) + "\n")
    (folder / "pairs.csv").write_text("first,second\ni0,i1\ni5,i3\ni9,i12\ni4,i4\n")


def asked(folder: Path, command: str) -> Any:
    """What a command says of `folder`/model, as the object that it prints."""
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    options = [str(folder / x) if x.endswith(".csv") else x for x in COMMANDS[command]]
    done = CliRunner().invoke(app, [command, "--model", str(folder / "model"), *options, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def main() -> None:
    """Make what is missing."""
    SAVED.mkdir(exist_ok=True)
    for kind, build in KINDS.items():
        if (SAVED / kind).exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            model = build()
            spg.save(model, Path(scratch) / kind / "model")
            _write(Path(scratch) / kind, answers(model))
            shutil.move(Path(scratch) / kind, SAVED / kind)
        print(f"{kind}: made")
    for kind, options in FOLDERS.items():
        if (SAVED / kind).exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / kind
            folder.mkdir()
            tables(folder)
            _fit(folder, options)
            shutil.rmtree(folder / "model" / "pictures", ignore_errors=True)  # nothing reads them
            _write(folder, {command: asked(folder, command) for command in COMMANDS})
            shutil.move(folder, SAVED / kind)
        print(f"{kind}: made")


def _fit(folder: Path, options: tuple[str, ...]) -> None:
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    data = ("--items", f"{folder}/items.csv", "--duels", f"{folder}/duels.csv")
    done = CliRunner().invoke(app, ["fit", *data, "--out", f"{folder}/model", "--quiet", *options])
    assert done.exit_code == 0, done.output


def _write(folder: Path, values: dict[str, Any]) -> None:
    text = json.dumps(values, indent=1, sort_keys=True)
    (folder / ANSWERS).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
