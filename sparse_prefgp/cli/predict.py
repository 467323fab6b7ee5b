"""`sparse-prefgp predict`: who would win, and by how much in utility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import (
    Cells,
    Output,
    cells_table,
    chances,
    intervals,
    open_model,
)
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared
from sparse_prefgp.support.options import option, same_as

TIE, GRADE = "tie_probability", "p_"
EXAMPLE = "Example: sparse-prefgp predict --model fitted --pairs pairs.csv --out predicted.csv"


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """What is predicted, and where to."""

    pairs: Path = option("Pairs: columns first and second (or winner and loser) hold item ids.")
    out: Path | None = option("Write all predictions here (.csv).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option("How many pairs to print.", default=20, least=0)
    level: float = same_as(Shared, "level")
    noise_by: str | None = option(
        "Column of the pairs that says who judges, for a model with noise by group; the column of "
        "--lean-by is known.",
        default=None,
    )


@command()
def predict(console: Output, saved: SavedModel, options: PredictOptions) -> None:
    """Predict pairs: probability that the first beats the second, interval of the difference."""
    check_file(options.out, options.overwrite, saved.items, options.pairs)
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.prediction import predict as predict_pairs

    with console.status("Predicting …"):
        frame = predict_pairs(
            fitted, options.pairs, saved.items, level=options.level, groups=options.noise_by
        )
    if len(frame) == 0:
        raise ValueError(f"There are no pairs in {str(options.pairs)!r}; give at least one row.")
    if options.out is not None:
        write_file(options.out, frame.to_csv(index=False))
    grades = frame.attrs.get("grades", ())
    console.print(_table(frame.head(options.show), len(frame), grades))
    console.print(
        Text(
            "Probability that the first beats the second; difference of their utilities, with "
            f"its {100 * options.level:g} % interval."
        )
    )
    console.finish({"level": options.level, "pairs": frame.to_dict("records")}, options.out)


def _table(frame: Any, total: int, grades: Sequence[str]) -> Cells:
    first, second = ("first", "second") if "first" in frame else ("winner", "loser")
    columns = {
        first: [str(item) for item in frame[first]],
        second: [str(item) for item in frame[second]],
        "probability": chances(frame["probability"]),
        **({"tie": chances(frame[TIE])} if TIE in frame else {}),
        **{name.removeprefix(GRADE): chances(frame[name]) for name in grades},
        "difference": [f"{value:z.3f}" for value in frame["difference"]],
        "interval": intervals(frame["lower"], frame["upper"]),
    }
    if frame["outside_range"].any():
        columns["outside"] = ["yes" if flag else "" for flag in frame["outside_range"]]
    shown = [name.removeprefix(GRADE) for name in grades]
    title = "All pairs" if len(frame) == total else f"The first {len(frame):,} of {total:,} pairs"
    return cells_table(title, columns, left=(first, second), spare=("outside", "interval", *shown))
