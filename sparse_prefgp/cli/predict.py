"""`sparse-prefgp predict`: who would win, and by how much in utility."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sparse_prefgp.cli.console import (
    Cells,
    cells_table,
    chances,
    intervals,
    open_model,
    sentences,
)
from sparse_prefgp.cli.output_options import (
    AsJson,
    Items,
    Level,
    Model,
    Overwrite,
    Quiet,
    Threads,
    check_file,
    write_file,
)

TIE = "tie_probability"
EXAMPLE = "Example: sparse-prefgp predict --model fitted --pairs pairs.csv --out predicted.csv"


def predict(
    model: Model,
    pairs: Annotated[
        Path,
        typer.Option(help="Pairs: columns first and second (or winner and loser) hold item ids."),
    ],
    items: Items = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all predictions here (.csv).", show_default=False),
    ] = None,
    overwrite: Overwrite = False,
    show: Annotated[int, typer.Option(min=0, help="How many pairs to print.")] = 20,
    level: Level = 0.95,
    noise_by: Annotated[
        str | None,
        typer.Option(
            help="Column of the pairs that says who judges, for a model with noise by group.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Predict pairs: probability that the first beats the second, interval of the difference."""
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items, pairs)
        fitted = open_model(console, model)
        from sparse_prefgp.analysis.prediction import predict as predict_pairs

        with console.status("Predicting …"):
            frame = predict_pairs(fitted, pairs, items, level=level, groups=noise_by)
        if len(frame) == 0:
            raise ValueError(f"There are no pairs in {str(pairs)!r}; give at least one row.")
        if out is not None:
            write_file(out, frame.to_csv(index=False))
        console.print(_table(frame.head(show), len(frame)))
        console.print(
            Text(
                "Probability that the first beats the second; difference of their utilities, with "
                f"its {100 * level:g} % interval."
            )
        )
        if out is not None:
            console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit({"level": level, "pairs": frame.to_dict("records")})


def _table(frame: Any, total: int) -> Cells:
    first, second = ("first", "second") if "first" in frame else ("winner", "loser")
    columns = {
        first: [str(item) for item in frame[first]],
        second: [str(item) for item in frame[second]],
        "probability": chances(frame["probability"]),
        **({"tie": chances(frame[TIE])} if TIE in frame else {}),
        "difference": [f"{value:z.3f}" for value in frame["difference"]],
        "interval": intervals(frame["lower"], frame["upper"]),
    }
    if frame["outside_range"].any():
        columns["outside"] = ["yes" if flag else "" for flag in frame["outside_range"]]
    title = "All pairs" if len(frame) == total else f"The first {len(frame):,} of {total:,} pairs"
    return cells_table(title, columns, left=(first, second), spare=("outside", "interval"))
