"""`sparse-prefgp fit`: a person's own items and duels, from tables to a scored model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparse_prefgp.cli.console import sentences
from sparse_prefgp.cli.output_options import AsJson, Overwrite, Quiet, Seed, Threads
from sparse_prefgp.cli.tables import (
    Choices,
    Context,
    Duels,
    Features,
    FixedInducing,
    Ignore,
    LeastGain,
    NoiseBy,
    NoiseVariance,
    OptionalItems,
    Rankings,
    Resume,
    Ties,
    Weight,
    names,
    optional_names,
)

EXAMPLE = "Example: sparse-prefgp fit --items items.csv --duels duels.csv --out fitted"


def fit(
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for metrics.json, ranking.csv, model/ and pictures/; new or ours."
        ),
    ],
    items: OptionalItems = None,
    duels: Duels = None,
    choices: Choices = None,
    rankings: Rankings = None,
    ties: Ties = None,
    split: Annotated[
        str, typer.Option(help="What to hold out: duels, items, group:COLUMN or time:COLUMN.")
    ] = "duels",
    test_fraction: Annotated[
        float, typer.Option(help="Share to hold out; 0 fits to everything and scores nothing.")
    ] = 0.2,
    seed: Seed = 0,
    approximation: Annotated[
        str | None,
        typer.Option(
            help="exact, dtc, vfe, tight-vfe, tight-vfe-rank, tight-vfe-logdet, fitc, hetero-vfe, "
            "prior-power:P, pitc:BLOCKS, pitc:COLUMN of the duels or subset:SIZE; auto compares "
            "some on the training duels. By default vfe, or exact for item effects alone.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="ep, laplace, laplace-logit (logistic noise), variational or power-ep:P; a "
            "comparison by auto is by ep."
        ),
    ] = "ep",
    inducing: Annotated[
        str | None,
        typer.Option(
            help="Number of inducing inputs; 128, or all distinct items if fewer. auto takes as "
            "many as leave 0.01 of the variance of the duels unexplained at first, auto:SHARE "
            "another share.",
            show_default=False,
        ),
    ] = None,
    fixed_inducing: FixedInducing = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            help="se, matern32, matern52, linear, item (an independent effect of each item), "
            "additive-se and its like (a sum over the columns), or a sum such as linear+se; auto "
            "compares some on the training duels. By default linear+matern52, or item for items "
            "without features.",
            show_default=False,
        ),
    ] = None,
    max_iterations: Annotated[int, typer.Option(help="At most so many optimiser steps.")] = 100,
    least_gain: LeastGain = 1e-5,
    mode: Annotated[str, typer.Option(hidden=True)] = "nested",
    starts: Annotated[
        int, typer.Option(help="Fit from so many different first parameters; the best is kept.")
    ] = 1,
    features: Features = None,
    ignore: Ignore = None,
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
    noise_variance: NoiseVariance = 0.5,
    margin: Annotated[
        float | None,
        typer.Option(
            help="By how much a noisy utility must exceed the other for a win; within it a duel is "
            "a tie. With ties it is learned, from 0.3 by default; without it stays as given.",
            show_default=False,
        ),
    ] = None,
    fixed_margin: Annotated[
        bool,
        typer.Option("--fixed-margin", metavar="", help="Do not learn the margin."),
    ] = False,
    weight: Weight = None,
    noise_by: NoiseBy = None,
    context: Context = None,
    report: Annotated[
        bool,
        typer.Option("--report", metavar="", help="Also write report.html: tables and pictures."),
    ] = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    checkpoint_every: Annotated[
        int,
        typer.Option(
            help="Optimiser steps between two checkpoints, kept in --out until the fit has "
            "succeeded; 0 for none."
        ),
    ] = 10,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            metavar="",
            help="Read the duels in chunks, for more than fit into memory: --duels is a Parquet "
            "file or a folder of such files, with columns winner and loser, or winner_x and "
            "loser_x for every feature x and no --items. A folder is always read so. The last "
            "rows are held out. Tables that are not Parquet are read whole, split as asked, and "
            "the model is computed in chunks.",
        ),
    ] = False,
    parts: Annotated[
        int, typer.Option(help="With --stream: cut the duels into so many parts.")
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="With --stream: where the parts work, local or the address of a Dask scheduler.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="With --scheduler: seconds after which a part that has not answered is rebuilt "
            "on another worker; by default ten times what the slowest took in the last round, at "
            "least 60.",
            show_default=False,
        ),
    ] = None,
    local_sweeps: Annotated[
        int,
        typer.Option(
            help="With --parts: sweeps of a part over its own duels in a round; 0 until it has "
            "settled, at most 50."
        ),
    ] = 1,
    chunk: Annotated[
        int | None,
        typer.Option(
            help="With --stream: duels worked on at a time; by default chosen by sizes and free "
            "memory.",
            show_default=False,
        ),
    ] = None,
    gradients: Annotated[
        str,
        typer.Option(
            help="With --stream: chunks, exact, or subset:ROWS, of random rows, with inference on "
            "all duels at the end."
        ),
    ] = "chunks",
    polish: Annotated[
        int,
        typer.Option(help="With --gradients subset: so many exact steps on all duels after it."),
    ] = 0,
    sites: Annotated[
        Path | None,
        typer.Option(
            help="With --stream: a new .npy file for two numbers for each duel, in place of "
            "memory.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Fit a preference model to your duels, score it on held-out ones, and rank the items."""
    given = dict(locals())
    with sentences(quiet, as_json, threads) as console:
        # Imported here to keep `--help` quick.
        from sparse_prefgp.cli.checkpoints import Checkpoints
        from sparse_prefgp.cli.fit_printer import Printer
        from sparse_prefgp.io.streams import is_stream
        from sparse_prefgp.workflow.folder import CHECKPOINTS
        from sparse_prefgp.workflow.settings import FitSettings
        from sparse_prefgp.workflow.workflow import fit as fit_duels

        settings = FitSettings.of_options(
            given,
            inducing=_number(inducing),
            least_gain=least_gain or None,
            noise_by_group=noise_by is not None,
            stream=stream or is_stream(duels),
        )
        checkpoints = Checkpoints(out / CHECKPOINTS, "fit", checkpoint_every, resume)
        with checkpoints.reporting():
            output = fit_duels(
                items,
                duels,
                settings,
                choices=choices,
                rankings=rankings,
                features=optional_names(features),
                ignore=names(ignore or ""),
                ties=ties,
                weight=weight,
                noise_by=noise_by,
                context=names(context or ""),
                out=out,
                overwrite=overwrite or checkpoints.resumes,
                html=report,
                reporter=Printer(console, out, show_columns=True),
                checkpoints=checkpoints,
            )
        output.close()
        console.manners.emit(output.figures)


def _number(text: str | None) -> int | str | None:
    """A number where it is one; the settings say what is wrong with anything else."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return text
