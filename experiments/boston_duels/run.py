"""How far sparse approximations are from exact EP on duels made from the Boston data.

    python experiments/boston_duels/run.py

Every line of the table is kept as soon as it is there, so that a run that was stopped resumes; the
lines of other data or settings are refused.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparse_prefgp import Duels, PreferenceGP
    from sparse_prefgp.approximations import Approximation

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", ROOT.parent / "shared" / "data"))
SEED = 0
TRAINING_ITEMS = 455
CIRCLES = 5  # each gives every item two duels
NOISE_SHARE = 0.25  # of the targets' standard deviation, on either side of a duel
INDUCING = (8, 16, 32, 64, 128, 256, 455)
EXACT_ITERATIONS, JOINT_ITERATIONS = 300, 100
NUDGE = 0.02  # standard deviations of the features
FLOOR = 1e-6  # of the divergences in the figure
REGIMES = {"fixed": "hyperparameters of the exact model", "joint": "all learned jointly"}
KMEANS, RANDOM_ITEMS, RANDOM_DUELS = "VFE, k-means", "VFE, random items", "random duels"
APPROXIMATIONS = (
    "VFE", KMEANS, RANDOM_ITEMS, "TightVFE diagonal", "TightVFE rank", "FITC", "DTC", RANDOM_DUELS,
)  # fmt: skip
# Where inducing inputs start; those that are not named, by greedy conditional variance.
METHODS = {KMEANS: "kmeans", RANDOM_ITEMS: "random"}
# Okabe & Ito's colours and a dark red, each with a marker of its own.
LOOKS = {
    "VFE": ("#0072B2", "o"),
    KMEANS: ("#E69F00", "P"),
    RANDOM_ITEMS: ("#882255", "*"),
    "TightVFE diagonal": ("#56B4E9", "s"),
    "TightVFE rank": ("#009E73", "^"),
    "FITC": ("#D55E00", "v"),
    "DTC": ("#CC79A7", "D"),
    RANDOM_DUELS: ("#767676", "x"),
}
KLS = ("joint_sparse_exact", "joint_exact_sparse", "marginal_sparse_exact", "marginal_exact_sparse")
COLUMNS = (
    "regime", "approximation", "m", "log_evidence", "exact_evidence", *KLS, "kernel_variance",
    "duels", "iterations", "failed_evaluations", "converged", "jitter", "seconds",
)  # fmt: skip


def boston_duels(folder: Path) -> tuple[Duels, np.ndarray]:
    """Duels between 455 training items, and the features (51, 13) of the others.

    Five times all training items are laid out in a circle in random order, and neighbours are
    compared: ten duels an item. The larger target wins, after each of the two has got normal noise
    of a quarter of the targets' standard deviation, fresh for every duel. Features are standardised
    by the training items.
    """
    import sparse_prefgp as spg

    table = np.loadtxt(folder / "boston" / "boston.csv", delimiter=",", skiprows=1)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(table))
    training, test = table[order[:TRAINING_ITEMS]], table[order[TRAINING_ITEMS:]]
    mean, spread = training[:, :-1].mean(0), training[:, :-1].std(0)
    circles = [rng.permutation(TRAINING_ITEMS) for _ in range(CIRCLES)]
    pairs = np.concatenate([np.stack([c, np.roll(c, -1)], 1) for c in circles])
    noise = NOISE_SHARE * training[:, -1].std() * rng.standard_normal(pairs.shape)
    target = training[:, -1][pairs] + noise
    first = target[:, 0] > target[:, 1]
    winners, losers = np.where(first, pairs.T, pairs.T[::-1])
    return (
        spg.Duels((training[:, :-1] - mean) / spread, winners, losers),
        np.unique((test[:, :-1] - mean) / spread, axis=0),
    )


def settings_of(data: Path) -> dict[str, Any]:
    """All that a line depends on besides what it names, and the versions it was computed with."""
    from sparse_prefgp.support.versions import versions

    return {
        "data": hashlib.sha256((data / "boston" / "boston.csv").read_bytes()).hexdigest(),
        "seed": SEED,
        "training items": TRAINING_ITEMS,
        "circles": CIRCLES,
        "noise share": NOISE_SHARE,
        "exact iterations": EXACT_ITERATIONS,
        "joint iterations": JOINT_ITERATIONS,
        "nudge": NUDGE,
        "versions": versions(),
    }


def read_lines(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What an earlier run kept; a last line that was not written whole is taken out of the file.

    :raises ValueError: lines of other settings, or something else than such lines.
    """
    again = f"give another --work, or remove {str(path)!r} to begin again."
    text = path.read_text(encoding="utf-8")
    whole, end, rest = text.rpartition("\n")
    found = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            found.append(json.loads(line))
        except ValueError:
            raise ValueError(f"Line {number} of {str(path)!r} is damaged; {again}") from None
    kept = found[0].get("settings") if found and isinstance(found[0], dict) else None
    if not isinstance(kept, dict):
        raise ValueError(f"{str(path)!r} does not say what its lines were made with; {again}")
    for name, value in settings.items():
        if kept.get(name) != value:
            raise ValueError(
                f"The lines in {str(path)!r} are of another {name!r} ({kept.get(name)}, now "
                f"{value}); {again}"
            )
    if rest:
        whole_file = path.with_suffix(".tmp")
        whole_file.write_text(whole + end, encoding="utf-8")
        os.replace(whole_file, path)
    return found[1:]


def exact_model(duels: Duels, folder: Path, known: bool) -> PreferenceGP:
    """Exact EP with hyperparameters by maximum evidence, kept in `folder`.

    :param known: whether the one that is there is of these settings.
    """
    import gpflow

    import sparse_prefgp as spg

    if known and (folder / "exact").is_dir():
        return spg.load(folder / "exact")
    lengthscales = np.full(duels.num_features, np.sqrt(duels.num_features))
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(lengthscales=lengthscales),
        approximation=spg.Exact(),
    )
    print(spg.optimise(model, EXACT_ITERATIONS), flush=True)
    spg.save(model, folder / "exact")
    return model


def approximations(m: int, duels: Duels) -> dict[str, Approximation]:
    """By name; the random duels are the same share of all duels as m is of all items."""
    import sparse_prefgp as spg

    share = m / duels.num_items
    return {
        **dict.fromkeys(("VFE", *METHODS), spg.VFE()),
        "TightVFE diagonal": spg.TightVFE(residual="diagonal"),
        "TightVFE rank": spg.TightVFE(residual="rank"),
        "FITC": spg.FITC(),
        "DTC": spg.DTC(),
        RANDOM_DUELS: spg.SubsetOfData(round(share * duels.num_duels), seed=SEED),
    }


def divergences(model: PreferenceGP, exact: PreferenceGP, items: np.ndarray) -> dict[str, float]:
    """Both joint divergences over the test items, and the means of both marginal ones, in nats."""
    from sparse_prefgp.lab.kl import divergences as both_ways

    def predictive(one: PreferenceGP) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = one.predict_f(items, full_cov=True)
        return mean.numpy()[:, 0], covariance.numpy()[0]

    noise = float(exact.likelihood.noise.numpy())
    found = both_ways(*predictive(model), *predictive(exact), noise)
    return {
        "joint_sparse_exact": found.kl_to_exact,
        "joint_exact_sparse": found.kl_from_exact,
        "marginal_sparse_exact": found.marginal_kl_to_exact,
        "marginal_exact_sparse": found.marginal_kl_from_exact,
    }


def measure(
    regime: str, name: str, m: int, exact: PreferenceGP, items: np.ndarray
) -> dict[str, Any]:
    """One line of the table. Both regimes begin at the exact model's hyperparameters.

    Where all is learned, inducing inputs begin a little next to the training items: all training
    items at the exact hyperparameters are a stationary point of every objective, a maximum of some
    and a saddle of others, which no gradient would leave.
    """
    import gpflow

    import sparse_prefgp as spg

    approximation = approximations(m, exact.duels)[name]
    started = time.perf_counter()
    method = METHODS.get(name, "variance")
    start = spg.initial_inputs(method, exact.duels, exact.kernel, m, np.random.default_rng(SEED))
    if regime == "joint":
        start = start + NUDGE * np.random.default_rng(SEED).standard_normal(start.shape)
    model = spg.PreferenceGP(
        exact.duels,
        gpflow.utilities.deepcopy(exact.kernel),
        approximation=approximation,
        inducing_variable=start if approximation.needs_inducing else None,
        noise_variance=float(exact.likelihood.noise.numpy()),
    )
    iterations, failed = 0, 0
    if regime == "joint":
        report = spg.optimise(model, JOINT_ITERATIONS)
        iterations, failed = report.iterations, report.failed_evaluations
    result = model.infer()
    return {
        "regime": regime,
        "approximation": name,
        "m": m,
        "log_evidence": model.log_evidence(),
        "exact_evidence": exact.log_evidence(),
        **divergences(model, exact, items),
        "kernel_variance": float(model.kernel.variance.numpy()),
        "duels": int(model.graph.counts.sum()),
        "iterations": iterations,
        "failed_evaluations": failed,
        "converged": result.converged,
        "jitter": result.jitter,
        "seconds": time.perf_counter() - started,
    }


def run(data: Path, folder: Path) -> list[dict[str, Any]]:
    """All lines of the table; those in `folder` are not computed again.

    :raises ValueError: what `read_lines` raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept, settings = folder / "lines.jsonl", settings_of(data)
    known = kept.exists()
    earlier = read_lines(kept, settings) if known else []
    done = {(line["regime"], line["approximation"], line["m"]): line for line in earlier}
    duels, items = boston_duels(data)
    exact = exact_model(duels, folder, known)
    if not known:
        kept.write_text(json.dumps({"settings": settings}) + "\n", encoding="utf-8")
    lines = []
    for regime, m, name in itertools.product(REGIMES, INDUCING, APPROXIMATIONS):
        line = done.get((regime, name, m))
        if line is None:
            line = measure(regime, name, m, exact, items)
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(
                f"{regime:6} {name:18} m {m:4d}  evidence {line['log_evidence']:11.3f}  "
                f"KLs {line['joint_sparse_exact']:.3g} {line['joint_exact_sparse']:.3g}  "
                f"{line['seconds']:.1f} s",
                flush=True,
            )
        lines.append(line)
    return lines


def write_table(lines: list[dict[str, Any]], folder: Path) -> None:
    """`table.csv`, and `table.md` with the joint divergences."""
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for line in lines:
            rounded = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in line.items()}
            rounded["seconds"] = f"{line['seconds']:.1f}"
            writer.writerow(rounded)
    parts = []
    for regime, label in REGIMES.items():
        chosen = [line for line in lines if line["regime"] == regime]
        by_cell = {(line["approximation"], line["m"]): line for line in chosen}
        parts.append(f"**{label[0].upper()}{label[1:]}**\n")
        parts.append("| | " + " | ".join(f"m = {m}" for m in INDUCING) + " |")
        parts.append("|---|" + "---|" * len(INDUCING))
        for name in APPROXIMATIONS:
            row = [by_cell[name, m] for m in INDUCING]
            # The evidence of a subset is that of its own duels.
            cells = []
            for line in row:
                evidence = "" if name == RANDOM_DUELS else f"{line['log_evidence']:,.1f}<br>"
                both = (_short(line[way]) for way in KLS[:2])
                cells.append(evidence + ", ".join(both))
            parts.append(f"| {name} | " + " | ".join(cells) + " |")
        parts.append("")
    (folder / "table.md").write_text("\n".join(parts), encoding="utf-8")


def _short(value: float) -> str:
    """Two digits, and no exponent for what is large."""
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Evidence and divergences against m, a row for each regime."""
    from sparse_prefgp.plotting.canvas import new_figure, save

    figure = new_figure((12.0, 7.5))
    axes = figure.subplots(len(REGIMES), 3, sharex=True)
    handles: list[Any] = []
    for row, (regime, label) in zip(axes, REGIMES.items(), strict=True):
        line = row[0].axhline(lines[0]["exact_evidence"], color="black", linewidth=1.0)
        line.set_label("exact EP")
        handles = [line]
        for name, (colour, marker) in LOOKS.items():
            mine = [x for x in lines if (x["regime"], x["approximation"]) == (regime, name)]
            m = [x["m"] for x in mine]
            style: dict[str, Any] = {
                "color": colour,
                "marker": marker,
                "markersize": 5,
                "linewidth": 1.3,
                "markerfacecolor": "none",
            }
            if name != RANDOM_DUELS:
                row[0].plot(m, [x["log_evidence"] for x in mine], **style)
            for ax, kind in ((row[1], "joint"), (row[2], "marginal")):
                one, other = (
                    [max(x[f"{kind}_{way}"], FLOOR) for x in mine]
                    for way in ("sparse_exact", "exact_sparse")
                )
                handles += ax.plot(m, one, label=name, **style) if ax is row[1] else []
                if ax is not row[1]:
                    ax.plot(m, one, **style)
                ax.plot(m, other, linestyle="--", **style)
        row[0].set_title(f"{label}\nlog evidence, nats", fontsize=10)
        row[1].set_title("KL over all test items jointly, nats", fontsize=10)
        row[2].set_title("KL of one test item, mean, nats", fontsize=10)
        for ax in row:
            ax.set_xscale("log", base=2)
            ax.set_xticks(INDUCING, [str(m) for m in INDUCING])
            ax.grid(color="#DDDDDD", linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        for ax in row[1:]:
            ax.set_yscale("log")
            ax.set_ylim(bottom=0.5 * FLOOR)
    axes[0, 0].set_yscale("symlog", linthresh=100.0)
    axes[0, 0].set_ylim(top=-580.0)
    ticks = (-10000, -5000, -2000, -1000, -640)
    axes[0, 0].set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    for ax in axes[-1]:
        ax.set_xlabel("inducing inputs m")
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=(len(handles) + 1) // 2,
        fontsize=9,
        title="solid: KL[sparse ‖ exact], dashed: KL[exact ‖ sparse]; "
        "what is below 10⁻⁶ is drawn there",
    )
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds boston/")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "boston_duels")
    parser.add_argument("--out", type=Path, default=HERE, help="where table and figure go")
    settings = parser.parse_args()
    if not (settings.data / "boston" / "boston.csv").is_file():
        parser.error(f"there is no boston/boston.csv in {str(settings.data)!r}; give --data")
    started = time.perf_counter()
    try:
        lines = run(settings.data, settings.work)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    write_table(lines, settings.out)
    draw(lines, settings.out / "boston_duels.png")
    print(f"{len(lines)} lines; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
