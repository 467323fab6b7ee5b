"""`sparse-prefgp select`: kernels, approximations and m compared on held-out duels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from sparse_prefgp.cli.console import Cells, Output, cells_table, import_tensorflow, sentences
from sparse_prefgp.cli.output_options import (
    AsJson,
    Overwrite,
    Quiet,
    Seed,
    Threads,
    check_file,
    write_file,
)
from sparse_prefgp.cli.tables import (
    Choices,
    Duels,
    Features,
    FixedInducing,
    Ignore,
    ItemTable,
    LeastGain,
    NoiseVariance,
    Rankings,
    Resume,
    names,
    optional_names,
)
from sparse_prefgp.support.randomness import seeded

if TYPE_CHECKING:
    from sparse_prefgp.workflow.comparison import CompareProgress, Comparison
    from sparse_prefgp.workflow.model_names import Candidate

EXAMPLE = (
    "Example: sparse-prefgp select --items items.csv --duels duels.csv "
    "--candidates linear/vfe,linear+matern52/vfe,matern52/fitc/64 --out table.csv"
)


def select(
    items: ItemTable,
    duels: Duels = None,
    choices: Choices = None,
    rankings: Rankings = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help="What to compare, each kernel/approximation or kernel/approximation/m: a/b,c/d. "
            "By default what fit --kernel auto --approximation auto compares.",
            show_default=False,
        ),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            help="Instead of --candidates, every one of these kernels with every one of "
            "--approximations and --inducing: a,b.",
            show_default=False,
        ),
    ] = None,
    approximations: Annotated[
        str | None, typer.Option(help="vfe,fitc and so on; vfe by default.", show_default=False)
    ] = None,
    inducing: Annotated[
        str | None,
        typer.Option(
            help="Numbers of inducing inputs: 32,128; 128 by default, or all distinct items if "
            "fewer.",
            show_default=False,
        ),
    ] = None,
    fixed_inducing: FixedInducing = False,
    split: Annotated[
        str,
        typer.Option(
            help="What a fold holds out: duels, items, group:COLUMN, or time:COLUMN (one fold, the "
            "last 1/folds of the duels)."
        ),
    ] = "duels",
    folds: Annotated[int, typer.Option(help="Each part is held out once.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Columns that additive kernels take together: a,b;c,d. Others stay single.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    max_iterations: Annotated[
        int, typer.Option(help="At most so many optimiser steps for each fit.")
    ] = 60,
    least_gain: LeastGain = 1e-5,
    max_train: Annotated[
        int, typer.Option(help="At most so many training duels for each fit.")
    ] = 20_000,
    noise_variance: NoiseVariance = 0.5,
    time_budget: Annotated[
        float | None,
        typer.Option(help="Begin no fit after so many seconds.", show_default=False),
    ] = None,
    no_race: Annotated[
        bool,
        typer.Option(
            "--no-race", metavar="", help="Fit also those that are clearly behind on every fold."
        ),
    ] = False,
    features: Features = None,
    ignore: Ignore = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the table here (.csv).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep finished fits in this folder until the comparison has succeeded.",
            show_default=False,
        ),
    ] = None,
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Compare kernels, approximations and m on held-out duels, and say which to take."""
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items, duels, choices, rankings)
        # Imported here to keep `--help` quick.
        from sparse_prefgp.cli.checkpoints import Checkpoints
        from sparse_prefgp.workflow.automatic import automatic_candidates
        from sparse_prefgp.workflow.comparison import compare
        from sparse_prefgp.workflow.fit_sources import Sources
        from sparse_prefgp.workflow.folder import check_checkpoint

        listed = _candidates(candidates, kernels, approximations, inducing)
        if resume and checkpoint is None:
            raise ValueError("--resume needs the folder of --checkpoint; give that too.")
        checkpoints = None
        if checkpoint is not None:
            check_checkpoint(checkpoint)
            checkpoints = Checkpoints(checkpoint, "comparison", 1, resume)
        sources = Sources(
            items, duels, choices, rankings, optional_names(features), names(ignore or "")
        )
        table = sources.table(split)
        with nullcontext() if checkpoints is None else checkpoints.reporting():
            place, goes_on = (None, False) if checkpoints is None else checkpoints.comparison()
            # Compared and checked in one call: TensorFlow is loaded by the first fit, not before.
            with compare_bar(console) as progress:
                comparison = compare(
                    automatic_candidates(table) if listed is None else listed,
                    table,
                    folds=folds,
                    by=split,
                    rng=seeded(seed),
                    max_iterations=max_iterations,
                    least_gain=least_gain or None,
                    max_train=max_train,
                    noise_variance=noise_variance,
                    fixed_inducing=fixed_inducing,
                    groups=None if groups is None else [names(each) for each in groups.split(";")],
                    race=not no_race,
                    time_budget=time_budget,
                    checkpoint=place,
                    resume=goes_on,
                    callback=progress,
                )
            _tell(console, comparison, out)


def _tell(console: Output, comparison: Comparison, out: Path | None) -> None:
    """Write and print it.

    :raises ValueError: no candidate could be scored.
    """
    if out is not None:
        write_file(out, comparison.frame().to_csv(index=False))
    print_comparison(console, comparison)
    if out is not None:
        console.print(Text(f"Written to {out}."), soft_wrap=True)
    console.manners.emit(comparison.to_dict())
    if comparison.chosen is None:
        first = next((score for score in comparison.scores if score.reason), None)
        why = "" if first is None else f" ({first.candidate}: {first.reason})"
        raise ValueError(f"None of the candidates could be scored{why}; give others, or more time.")


@contextmanager
def compare_bar(console: Output) -> Iterator[Callable[[CompareProgress], None]]:
    """A bar over the fits of a comparison; also loads TensorFlow before the first of them."""
    columns: Any = (
        TextColumn("Comparing"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}"),
    )
    loaded: list[bool] = []
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("", total=None, what="preparing", visible=False)

        def update(progress: CompareProgress) -> None:
            if not loaded:
                import_tensorflow(_quiet(console))
                loaded.append(True)
            what = f"fold {progress.fold}/{progress.folds}: {progress.candidate}"
            bar.update(task, completed=progress.done, total=progress.total, what=what, visible=True)

        yield update
        done = int(bar.tasks[0].completed) + 1
        bar.update(task, total=done, completed=done, what="")


def print_comparison(console: Output, comparison: Comparison) -> None:
    """The table, the choice, and what else to know."""
    console.print(_table(comparison))
    console.print(Text(comparison.description))
    for score in comparison.scores:
        if score.reason:
            console.print(Text(f"{score.candidate}: {score.status}, {score.reason}"))
    console.print(Text(comparison.reason))
    gain, error = comparison.gain
    if gain >= 0.0:  # a note says so where it is worse
        console.print(
            Text(
                f"On held-out duels it is better than the linear probit by {gain:.4f} nats a duel "
                f"(standard error {error:.4f})."
            )
        )
    for note in comparison.notes:
        console.print(Text(f"Note: {note}", style="yellow"))
    console.print(Text(f"The rule: {comparison.rule}."))


def _table(comparison: Comparison) -> Cells:
    rows = [
        (
            str(score.candidate),
            _with_error(score.nlp, score.nlp_se),
            _with_error(score.difference, score.difference_se),
            _number(score.log_evidence_per_duel),
            f"{score.seconds:.0f}",
            "chosen" if score.candidate == comparison.chosen else score.status,
        )
        for score in comparison.scores
    ]
    rows.append(("linear probit", _with_error(*comparison.linear_probit), "", "", "", ""))
    headings = ("candidate", "nlp nats ± se", "behind ± se", "evidence", "s", "")
    columns = dict(zip(headings, zip(*rows, strict=True), strict=True))
    table = cells_table("Held-out duels, best first", columns, left=("candidate", ""))
    table.padding = (0, 1, 0, 0)  # so that names fit in 80 characters
    return table


def _with_error(value: float, error: float) -> str:
    return "" if value != value else f"{value:z.4f} ± {error:.4f}"


def _number(value: float) -> str:
    return "" if value != value else f"{value:z.4f}"


def _quiet(console: Output) -> Output:
    """The same options without a second live display next to the bar."""
    silent = Output(console.manners)
    silent.quiet = True
    return silent


def _candidates(
    candidates: str | None, kernels: str | None, approximations: str | None, inducing: str | None
) -> tuple[Candidate, ...] | None:
    """What was asked for; None is the automatic list.

    :raises ValueError: both ways of naming them, parts without kernels, or what cannot be read.
    """
    from sparse_prefgp.workflow.model_names import DEFAULT_APPROXIMATION, Candidate, candidates_from

    if candidates is not None:
        if not (kernels is None and approximations is None and inducing is None):
            raise ValueError(
                "Candidates were given, and --kernels, --approximations or --inducing as well; "
                "give one or the other."
            )
        return tuple(Candidate.parse(text) for text in names(candidates))
    if kernels is None:
        if approximations is not None or inducing is not None:
            raise ValueError(
                "--approximations and --inducing go with --kernels; give the kernels too."
            )
        return None
    numbers: list[int | None] = [None]
    if inducing is not None:
        wrong = [text for text in names(inducing) if not text.isdecimal()]
        if wrong:
            raise ValueError(
                f"--inducing has {wrong[0]!r}; give whole numbers of at least 1, such as 32,128."
            )
        numbers = [int(text) for text in names(inducing)]
    chosen = [DEFAULT_APPROXIMATION] if approximations is None else names(approximations)
    return candidates_from(names(kernels), chosen, numbers)
