"""`sparse-prefgp demo`: the same path as `fit`, on duels made without any download."""

from __future__ import annotations

from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar
from sparse_prefgp.cli.output_options import check_file
from sparse_prefgp.cli.shared_options import Shared
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp demo --picture demo.png"


@option_class
class DemoOptions:
    """What is made and fitted, and where to."""

    out: Path | None = option()
    """Also write the files that fit writes."""
    duels: int = option(5_000, least=1, most=10_000_000)
    """How many duels to make."""
    approximation: str = option("vfe")
    """As for fit."""
    inducing: int | None = option(least=1)
    """As for fit."""
    kernel: str = option("linear+matern52")
    """As for fit."""
    max_iterations: int = option(50, least=1)
    """As for fit."""
    seed: int = same_as(FitSettings, "seed")
    report: bool = option(False, needs="out")
    """With --out, also write report.html."""
    picture: Path | None = option()
    """Draw the best items and the calibration next to each other here (.png)."""
    overwrite: bool = same_as(Shared, "overwrite")


@command()
def demo(console: Output, options: DemoOptions) -> None:
    """A first look: fit duels made from data that ship inside scikit-learn."""
    from sparse_prefgp.cli.fit_printer import Printer
    from sparse_prefgp.datasets.demo import NOISE_SHARE, demo_tables
    from sparse_prefgp.workflow.folder import check_folder, rank_items
    from sparse_prefgp.workflow.workflow import fit

    if options.out is not None:
        check_folder(options.out, options.overwrite)
    check_file(options.picture, options.overwrite, endings=[".png"])
    own = ("approximation", "inducing", "kernel", "max_iterations", "seed")
    settings = FitSettings(**{name: getattr(options, name) for name in own})
    tables = demo_tables(options.duels, options.seed)
    console.tell(
        "442 patients from scikit-learn's diabetes data are the items. In each duel two of them, "
        "drawn at random, are compared by how far the disease has progressed after a year; the "
        f"larger value wins, after each has got noise of {NOISE_SHARE:g} standard deviations."
    )
    output = fit(
        *tables,
        settings,
        out=options.out,
        overwrite=options.overwrite,
        html=options.report,
        reporter=Printer(console, options.out),
    )
    if options.picture is not None:
        from sparse_prefgp.workflow.pictures import write_overview

        assert output.held_out is not None
        with counting_bar(console, "Ranking") as progress:
            ranking = rank_items(output.model, settings.seed, progress)
        write_overview(options.picture, ranking, output.held_out)
        console.say(f"Drawn in {options.picture}.")
    console.manners.emit(output.figures)
    console.say(
        "Next, your own data: sparse-prefgp fit --items items.csv --duels duels.csv --out fitted"
    )
