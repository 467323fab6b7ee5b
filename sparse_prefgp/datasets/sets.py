"""What a data set is once it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparse_prefgp.datasets.registry import DataSet
from sparse_prefgp.io import DuelTable, read_table
from sparse_prefgp.support.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class DuelSet:
    """Real comparisons."""

    about: DataSet
    """What is known of the set: licence, citation, shape."""
    items: Any
    """Data frame, one row per item: `item_id`, columns that are not features (`about.ignore`),
    features.
    """
    duels: Any
    """Data frame, one row per duel: `winner`, `loser`, context."""
    ties: Any = None
    """Data frame of tied pairs, `item_a` and `item_b`, or None."""
    gold: Any = None
    """Data frame of duels that the authors of the set settled on, or None."""

    def table(self, *, gold: bool = False, ties: bool = False, **options: Any) -> DuelTable:
        """The table from which splits and `Duels` are made.

        :param gold: the gold duels instead of the single votes.
        :param ties: the tied votes too.
        :param options: more of `read_table`, such as `weights`, `groups` or `context`.
        :raises ValueError: the set has no gold duels or no ties, or both are wanted together; what
            `read_table` raises.
        """
        if gold and ties:
            raise ValueError("Gold duels have no ties; leave out gold or ties.")
        for wanted, found, what in ((gold, self.gold, "gold duels"), (ties, self.ties, "ties")):
            if wanted and found is None:
                raise ValueError(f"The data set {self.about.name!r} has no {what}; leave them out.")
        ignore = [name for name in self.about.ignore if name in self.items.columns]
        ignore += list(options.pop("ignore", ()))
        return read_table(
            self.items,
            self.gold if gold else self.duels,
            ignore=ignore,
            ties=self._located_ties() if ties else None,
            **options,
        )

    def _located_ties(self) -> Any:
        """The ties with context that the duels have and the ties leave to their items."""
        missing = [
            name
            for name in self.duels.columns
            if name not in self.ties.columns and name in self.items.columns
        ]
        of_items = self.items.set_index("item_id").loc[self.ties["item_a"]]
        return self.ties.assign(**{name: of_items[name].to_numpy() for name in missing})

    def __repr__(self) -> str:
        return (
            f"DuelSet({self.about.name!r}, items={len(self.items)}, duels={len(self.duels)}, "
            f"ties={0 if self.ties is None else len(self.ties)}, "
            f"gold={0 if self.gold is None else len(self.gold)})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class RegressionSet:
    """Features and a target, from which `duels_from_targets` makes duels."""

    about: DataSet
    """What is known of the set."""
    features: Any
    """Data frame (n, D), unscaled unless the public file is scaled."""
    target: FloatArray
    """(n,) what is to be predicted."""
    parts: tuple[IntArray, IntArray] | None = None
    """Row numbers of the standard training and test part, or None where there are none."""
    more_inputs: Any = None
    """Data frame of further rows of features without a target, or None."""

    def __repr__(self) -> str:
        parts = None if self.parts is None else tuple(len(rows) for rows in self.parts)
        rows, columns = self.features.shape
        return f"RegressionSet({self.about.name!r}, rows={rows}, features={columns}, parts={parts})"
