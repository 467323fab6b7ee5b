"""Which sampler of the exact posterior of duels mixes best, on the reference cases.

    python experiments/samplers/run.py

Effective draws a second of the sampler in use and of the slow ones in tests/reference.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sparse_prefgp import PreferenceGP

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHAINS, WARMUP, DRAWS = 4, 250, 1000

Array = npt.NDArray[np.float64]


def case_model(case: dict[str, Any]) -> PreferenceGP:
    import gpflow

    import sparse_prefgp as spg

    kernel = {"se": gpflow.kernels.SquaredExponential, "matern52": gpflow.kernels.Matern52}
    return spg.PreferenceGP(
        spg.Duels(np.array(case["items"]), case["winners"], case["losers"]),
        kernel[case["kernel"]](variance=case["variance"], lengthscales=case["lengthscales"]),
        approximation=spg.Exact(),
        noise_variance=case["noise_variance"],
    )


def samplers(model: PreferenceGP) -> dict[str, Callable[[], Array]]:
    """Each draws v (chains, draws, t); EP's sites are given to those that use them."""
    from sparse_prefgp.approximations import Exact
    from sparse_prefgp.sampling.proposals import (
        TruncatedNormal,
        independence_metropolis,
        propose,
    )
    from sparse_prefgp.sampling.target import duel_features
    from tests.reference import slow_sampling as slow

    model.infer()
    graph = model.graph
    prior = Exact().prior(model.problem())
    # Sharp sites first, as in `sample_posterior`.
    order = np.argsort(-model.inference.sites()[1], kind="stable")
    site = np.repeat(order, graph.counts[order].astype(int))
    kernel = model.kernel(graph.rows).numpy()
    features = duel_features(kernel, graph.winners, graph.losers)[0][site]
    noise, upper = (x.numpy()[site] for x in (prior.factors.noise, prior.factors.upper))
    nu, tau = (x[site] for x in model.inference.sites())
    lower = np.full(len(site), -np.inf)
    rng = np.random.default_rng(0)
    run = (CHAINS, WARMUP, DRAWS, rng)

    def metropolis() -> Array:
        target = TruncatedNormal(features, noise, None, upper, nu, tau)
        v, log_weights = propose(target, CHAINS * (WARMUP + DRAWS), rng)
        path = independence_metropolis(log_weights.reshape(CHAINS, -1), WARMUP, rng)
        every = v.reshape(CHAINS, WARMUP + DRAWS, -1)
        return np.stack([own[at] for own, at in zip(every, path, strict=True)])

    return {
        "independence Metropolis": metropolis,
        "elliptical slices around EP": lambda: slow.elliptical_slices(
            features, noise, upper, nu, tau, *run
        ),
        "Gibbs on v": lambda: slow.gibbs(features, noise, lower, upper, *run),
        "alternation of f and v": lambda: slow.alternation(features, noise, lower, upper, *run),
        "linear elliptical slices": lambda: slow.linear_slices(features, noise, upper, *run),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="where the table goes")
    settings = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from sparse_prefgp.sampling.diagnostics import bulk_ess, split_rhat

    text = (ROOT / "tests/data/duel_ep_cases.json").read_text(encoding="utf-8")
    lines = [
        "| case | duels | 2 sigma² | sampler | smallest bulk ESS | largest R-hat | seconds | "
        "ESS a second |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, case in enumerate(json.loads(text)["cases"], 1):
        for name, sampler in samplers(case_model(case)).items():
            started = time.process_time()
            v = sampler()
            seconds = time.process_time() - started
            ess, rhat = float(np.min(bulk_ess(v))), float(np.max(split_rhat(v)))
            lines.append(
                f"| {number} | {len(case['winners'])} | {2 * case['noise_variance']:g} | {name} | "
                f"{ess:,.0f} | {rhat:.3f} | {seconds:.3f} | {ess / seconds:,.0f} |"
            )
    table = "\n".join(lines) + "\n"
    print(table)
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / "table.md").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
