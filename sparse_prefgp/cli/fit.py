"""`sparse-prefgp fit`: a person's own items and duels, from tables to a scored model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparse_prefgp.cli.console import sentences
from sparse_prefgp.cli.manners import AsJson, Quiet, Seed, Threads

if TYPE_CHECKING:
    from sparse_prefgp.io import DuelTable

EXAMPLE = "Example: sparse-prefgp fit --items items.csv --duels duels.csv --out fitted"


def fit(
    items: Annotated[
        Path,
        typer.Option(
            help="Items: CSV, gzipped CSV or Parquet, a row each. The id is the column item_id, "
            "else the first; other numeric or categorical columns are features."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for metrics.json, ranking.csv, model/ and pictures/; new or ours."
        ),
    ],
    duels: Annotated[
        Path | None,
        typer.Option(
            help="Duels: columns winner and loser hold item ids; count is optional.",
            show_default=False,
        ),
    ] = None,
    choices: Annotated[
        Path | None,
        typer.Option(
            help="Instead of duels, choices of one item from a set: a row for each option with "
            "columns choice_set, item_id and chosen (1 or 0), or a row for each choice with "
            "columns chosen, option_1, option_2, …",
            show_default=False,
        ),
    ] = None,
    rankings: Annotated[
        Path | None,
        typer.Option(
            help="Instead of duels, rankings, best first: columns rank_1, rank_2, … hold item ids; "
            "or a row for each item with columns ranking, item_id and rank.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="What to hold out: duels, items, group:COLUMN or time:COLUMN.")
    ] = "duels",
    test_fraction: Annotated[
        float, typer.Option(help="Share to hold out; 0 fits to everything and scores nothing.")
    ] = 0.2,
    seed: Seed = 0,
    approximation: Annotated[
        str,
        typer.Option(
            help="exact, dtc, vfe, tight-vfe, tight-vfe-rank, tight-vfe-logdet, fitc, hetero-vfe, "
            "prior-power:P, pitc:BLOCKS or subset:SIZE; auto compares some on the training duels."
        ),
    ] = "vfe",
    inducing: Annotated[
        int | None,
        typer.Option(
            help="Number of inducing inputs; 128, or all distinct items if fewer.",
            show_default=False,
        ),
    ] = None,
    fixed_inducing: Annotated[
        bool,
        typer.Option("--fixed-inducing", metavar="", help="Leave them where k-means puts them."),
    ] = False,
    kernel: Annotated[
        str,
        typer.Option(
            help="se, matern32, matern52, linear, item (an independent effect of each item), "
            "additive-se and its like (a sum over the columns), or a sum such as linear+se; auto "
            "compares some on the training duels."
        ),
    ] = "linear+matern52",
    max_iterations: Annotated[int, typer.Option(help="At most so many optimiser steps.")] = 100,
    features: Annotated[
        str | None, typer.Option(help="Use only these columns: a,b,c.", show_default=False)
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(help="Columns that are no features: x,y.", show_default=False)
    ] = None,
    refit: Annotated[
        bool,
        typer.Option("--refit", metavar="", help="After scoring, fit the kept model to all duels."),
    ] = False,
    max_train: Annotated[
        int | None,
        typer.Option(
            help="At most so many training duels: the last ones of a time split, else at random.",
            show_default=False,
        ),
    ] = None,
    noise_variance: Annotated[
        float, typer.Option(help="Of each side of a duel; 0.5 is the standard probit scale.")
    ] = 0.5,
    report: Annotated[
        bool,
        typer.Option("--report", metavar="", help="Also write report.html: tables and pictures."),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            metavar="",
            help="Go on with a fit that was killed or interrupted: the same command.",
        ),
    ] = False,
    checkpoint_every: Annotated[
        int,
        typer.Option(
            help="Optimiser steps between two checkpoints, kept in --out until the fit has "
            "succeeded; 0 for none."
        ),
    ] = 10,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Fit a preference model to your duels, score it on held-out ones, and rank the items."""
    with sentences(quiet, as_json, threads) as console:
        # Imported here to keep `--help` quick.
        from sparse_prefgp.cli.fitting import Checkpoints, run
        from sparse_prefgp.splits import split_columns
        from sparse_prefgp.studies.automatic import plain_names
        from sparse_prefgp.studies.folder import check_folder
        from sparse_prefgp.studies.holdout import HoldoutSettings

        named_kernel, named_approximation, automatic = plain_names(kernel, approximation)
        settings = HoldoutSettings(
            split=split,
            test_fraction=test_fraction,
            seed=seed,
            approximation=named_approximation,
            kernel=named_kernel,
            inducing=inducing,
            fixed_inducing=fixed_inducing,
            max_iterations=max_iterations,
            max_train=max_train,
            noise_variance=noise_variance,
            refit=refit,
        )
        checkpoints = Checkpoints(out, checkpoint_every, resume)
        check_folder(out)  # before a large table is read in vain
        read, source = _reader(duels, choices, rankings)
        table = read(
            items,
            source,
            features=None if features is None else _names(features),
            ignore=() if ignore is None else _names(ignore),
            never_features=split_columns(split),
        )
        run(
            console,
            table,
            settings,
            out,
            show_columns=True,
            report=report,
            checkpoints=checkpoints,
            automatic=(kernel, approximation) if automatic else None,
        )


def _reader(
    duels: Path | None, choices: Path | None, rankings: Path | None
) -> tuple[Callable[..., DuelTable], Path]:
    """How to read the one of the three that was given.

    Raises:
        ValueError: none was, or more than one.
    """
    from sparse_prefgp.io import read_choice_table, read_ranking_table, read_table

    readers = (
        ("--duels", read_table, duels),
        ("--choices", read_choice_table, choices),
        ("--rankings", read_ranking_table, rankings),
    )
    given = [(name, read, path) for name, read, path in readers if path is not None]
    if len(given) != 1:
        found = " and ".join(name for name, *_ in given)
        problem = f"{found} were given" if given else "none was given"
        raise ValueError(f"Give one of --duels, --choices and --rankings; {problem}.")
    ((_, read, path),) = given
    return read, path


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
