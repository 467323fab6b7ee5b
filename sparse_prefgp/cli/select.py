"""`sparse-prefgp select`: kernels and approximations compared on held-out duels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, import_tensorflow
from sparse_prefgp.cli.output_options import check_file
from sparse_prefgp.cli.shared_options import OwnClasses, Shared
from sparse_prefgp.disk.folders import held
from sparse_prefgp.io.forms import FORM_OPTIONS
from sparse_prefgp.support.options import names, option, option_class, part_of, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.kernel_grammar import listed
from sparse_prefgp.workflow.model_names import DEFAULT_APPROXIMATION, Candidate, candidates_from
from sparse_prefgp.workflow.settings import CompareSettings

if TYPE_CHECKING:
    from sparse_prefgp.workflow.comparison import CompareProgress

EXAMPLE = (
    "Example: sparse-prefgp select --items items.csv --duels duels.csv "
    "--candidates linear/vfe,linear+matern52/vfe,matern52/fitc/64 --out table.csv"
)


# What is compared on.
TABLES = part_of(
    Sources,
    "items",
    "answers",
    "duels",
    "choices",
    "rankings",
    "best_worst",
    "as_duels",
    "at_once",
    "unranked_last",
    *FORM_OPTIONS,
    "embedding",
    "text",
    "features",
    "ignore",
    "context",
    "item",
    "covariate",
    "lean_by",
    "day_first",
)


@option_class
class Candidates:
    """What is compared, in one of two forms."""

    candidates: Sequence[str] | None = option(kind=str, parse=listed)
    """What to compare, each kernel/approximation or kernel/approximation/m: a/b,c/d. By default
    what fit --kernel auto --approximation auto compares.
    """
    kernels: Sequence[str] | None = option(kind=str, parse=listed, excludes="candidates")
    """Instead of --candidates, every one of these kernels with every one of --approximations and
    --inducing: a,b.
    """
    approximations: Sequence[str] = option(
        (DEFAULT_APPROXIMATION,), kind=str, parse=names, needs="kernels"
    )
    """vfe,fitc and so on; vfe by default."""
    inducing: Sequence[str] = option((), kind=str, parse=names, needs="kernels")
    """Numbers of inducing inputs: 32,128; 128 by default, or all distinct items if fewer."""

    def chosen(self) -> tuple[Candidate, ...] | None:
        """What was asked for; None is the automatic list.

        :raises ValueError: what cannot be read.
        """
        if self.candidates is not None:
            return tuple(map(Candidate.parse, self.candidates))
        if self.kernels is None:
            return None
        wrong = [text for text in self.inducing if not text.isdecimal()]
        if wrong:
            raise ValueError(
                f"--inducing has {wrong[0]!r}; give whole numbers of at least 1, such as 32,128."
            )
        numbers: list[int | None] = [int(text) for text in self.inducing]
        return candidates_from(self.kernels, self.approximations, numbers or [None])


@option_class
class TableOptions(OwnClasses):
    """Where the table is written to, and what is kept of a comparison that is killed."""

    out: Path | None = option()
    """Write the table here, in the form of its ending: .csv, .tex (LaTeX), .md or .html."""
    overwrite: bool = same_as(Shared, "overwrite")
    checkpoint: Path | None = option()
    """Keep finished fits in this folder until the comparison has succeeded; --overwrite replaces
    those of one that was interrupted.
    """
    resume: bool = same_as(Shared, "resume", needs="checkpoint")


@command()
def select(
    console: Output,
    tables: Annotated[Record, TABLES],
    candidates: Candidates,
    settings: CompareSettings,
    options: TableOptions,
) -> None:
    """Compare kernels, approximations and numbers of inducing inputs on held-out duels.

    It also says which to take.
    """
    # Imported here to keep `--help` quick.
    from sparse_prefgp.workflow.automatic import automatic_candidates
    from sparse_prefgp.workflow.checkpoints import Checkpoints
    from sparse_prefgp.workflow.comparison import compare
    from sparse_prefgp.workflow.folder import check_checkpoint

    sources = Sources(**tables)
    with ExitStack() as stack:
        for place in filter(None, (options.out, options.checkpoint)):
            stack.enter_context(held(place, "comparison"))
        check_file(options.out, options.overwrite, *sources.files)
        asked = candidates.chosen()
        settings = replace(settings, leans=sources.leaning.pairs)
        if options.checkpoint is not None:
            check_checkpoint(options.checkpoint)
        checkpoints = Checkpoints(
            options.checkpoint, "comparison", resume=options.resume, overwrite=options.overwrite
        )
        table = sources.table(str(settings.by))
        stack.enter_context(checkpoints.reporting())
        kept, resume = checkpoints.file()
        # Compared and checked in one call: TensorFlow is loaded by the first fit, not before.
        with compare_bar(console) as progress:
            comparison = compare(
                automatic_candidates(table) if asked is None else asked,
                table,
                settings,
                checkpoint=kept,
                resume=resume,
                callback=progress,
            )
        if comparison.chosen is None:
            console.tell(*comparison.parts())
            first = next((score for score in comparison.scores if score.reason), None)
            why = "" if first is None else f" ({first.candidate}: {first.reason})"
            raise ValueError(
                f"None of the candidates could be scored{why}; give others, or more time."
            )
        console.show(comparison, options)


@contextmanager
def compare_bar(console: Output) -> Iterator[Callable[[CompareProgress], None]]:
    """A bar over the fits of a comparison; also loads TensorFlow before the first of them."""
    fits: list[CompareProgress] = []
    with counting_bar(console, "Comparing") as bar:

        def update(progress: CompareProgress) -> None:
            if not fits:
                silent = Output(console.manners)
                silent.quiet = True  # without a second live display next to the bar
                import_tensorflow(silent)
            fits.append(progress)
            at = f"fold {progress.fold}/{progress.folds}: {progress.candidate}"
            bar(progress.done, progress.total, f"Comparing, {at}")

        yield update
        for last in fits[-1:]:
            bar(last.done + 1, last.done + 1)
