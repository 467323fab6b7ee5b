"""What the columns of a row of the graph are: features, then what is no feature."""

from __future__ import annotations

from typing import NamedTuple


class RowLayout(NamedTuple):
    """The columns of a row, in this order."""

    features: int
    """D, how many features."""
    numbered: bool = False
    """Whether the number of the item follows."""
    covariates: int = 0
    """C, how many covariates of a side of a duel follow; 0 for a row that nothing is said of."""
    levels: int = 0
    """How many numbers of labels of the duel follow; below 0 for one that is not known."""
    dated: bool = False
    """Whether, next after the number of the item, the date of the duel and that of the item's first
    one follow, in days since 1970."""

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.first_level + self.levels

    @property
    def number(self) -> int:
        """The column of the item's number."""
        return self.features

    @property
    def first_covariate(self) -> int:
        """The column of the first covariate."""
        return self.date + 2 * self.dated

    @property
    def date(self) -> int:
        """The column of the date; the next one is that of the item's first duel."""
        return self.features + self.numbered

    @property
    def first_level(self) -> int:
        """The column of the first label's number."""
        return self.first_covariate + self.covariates

    @property
    def plain(self) -> bool:
        """Whether there is nothing but features."""
        return self.width == self.features


NO_FEATURES = RowLayout(0)
