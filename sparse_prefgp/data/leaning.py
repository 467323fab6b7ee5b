"""Which labels of duels lean by which of their covariates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.words import shortened

OF_LABELS = " (labels= of duels; groups= says whose noise and cuts they are)"


@dataclass(frozen=True)
class Leaning:
    """Which labels of duels lean by which covariates."""

    pairs: tuple[tuple[str, str], ...] = ()
    """The column of labels of each lean, and the covariate."""

    @classmethod
    def of(
        cls, given: Any, covariates: Sequence[str], columns: Collection[str] | None = None
    ) -> Leaning:
        """What `--lean-by` says: "COLUMN:COVARIATE", or pairs of both, one or several of either.

        :param covariates: names of those that there are; of one alone none need be named.
        :param columns: names of the labels that there are; None for any.
        :raises ValueError: another column or covariate, or the same lean twice.
        """
        if given is None:
            return cls()
        pairs = []
        for one in (given,) if isinstance(given, str) else given:
            column, covariate = one if not isinstance(one, str) else _parted(one, covariates)
            what = f"Leans by {shortened(one if isinstance(one, str) else ':'.join(one))} were"
            if covariate not in covariates or not column:
                problem = (
                    "which is no covariate of the duels" if column else "which names no column"
                )
                if not covariate:
                    problem = "which names no covariate" if covariates else "without covariates"
                known = ", ".join(f"{column or 'COLUMN'}:{name}" for name in covariates)
                remedy = f"choose from {known}" if known else "name some"
                raise ValueError(
                    f"{what} asked for, {problem}; {remedy} (--lean-by, lean_by=; --covariate, "
                    "covariates=)."
                )
            if columns is not None:
                label = "The column of labels (--lean-by, lean_by=)"
                check_choice(label, column, columns, OF_LABELS)
            if (column, covariate) in pairs:
                raise ValueError(
                    f"{what} asked for twice; leave one of them out (--lean-by, lean_by=)."
                )
            pairs.append((column, covariate))
        return cls(tuple(pairs))

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of labels, each once, in the order of their numbers in a row."""
        return tuple(dict.fromkeys(column for column, _ in self.pairs))


def _parted(text: str, covariates: Sequence[str]) -> tuple[str, str]:
    """Column and covariate of "COLUMN:COVARIATE"; the only covariate where none is named."""
    for name in covariates:
        if text.endswith(f":{name}") and len(text) > len(name) + 1:
            return text.removesuffix(f":{name}"), name
    column, colon, covariate = text.rpartition(":")
    if colon:
        return column, covariate
    return text, covariates[0] if len(covariates) == 1 and not colon else ""
