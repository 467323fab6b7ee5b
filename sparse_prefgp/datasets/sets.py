"""What a data set is once it is read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparse_prefgp.data.duels import PERSON, Duels
from sparse_prefgp.datasets.registry import CHOICES, RANKINGS, TARGET, DataSet
from sparse_prefgp.io import read_choices, read_duels, read_rankings
from sparse_prefgp.io.choices import CHOICE_SET, CHOSEN, RANK, RANKING
from sparse_prefgp.support.arrays import FloatArray, IntArray

TIE = "tie"
# Which of a few named things an alternative is, which the reader takes for the item.
ALTERNATIVE = "alternative"


@contextmanager
def no_guess_of_draws() -> Iterator[None]:
    """Reads duels of which it is known which are tied: other columns of 0 and 1 need no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Columns? .* holds? only 0 and 1 ", UserWarning)
        yield


@dataclass(frozen=True, eq=False, repr=False)
class _Named:
    about: DataSet
    """What is known of the set: licence, citation, shape."""

    @property
    def _numbers(self) -> dict[str, Any]:
        """What its representation says, by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        numbers = [f"{what}={number}" for what, number in self._numbers.items()]
        return f"{type(self).__name__}({', '.join([repr(self.about.name), *numbers])})"


@dataclass(frozen=True, eq=False, repr=False)
class DuelSet(_Named):
    """Real comparisons."""

    items: Any
    """Data frame, one row per item: `item_id`, columns that are not features (`about.ignore`),
    features.
    """
    duels: Any
    """Data frame, one row per duel: `winner`, `loser`, context; a column `tie` has 1 for ties."""
    ties: Any = None
    """Data frame of tied pairs where they have a table of their own, `item_a` and `item_b`."""
    gold: Any = None
    """Data frame of duels that the authors of the set settled on, or None."""
    battles: Any = None
    """Data frame of the same duels between the models that made the items, as `leaderboard` takes
    it, or None."""

    def to_duels(self, *, gold: bool = False, ties: bool = False, **options: Any) -> Duels:
        """The duels as they are read.

        :param gold: the gold duels instead of the single votes.
        :param ties: the tied votes too.
        :param options: more of `read_duels`, such as `weights`, `groups` or `context`.
        :raises ValueError: the set has no gold duels or no ties, or both are wanted together; what
            `read_duels` raises.
        """
        if gold and ties:
            raise ValueError("Gold duels have no ties; leave out gold or ties.")
        has_ties = self.ties is not None or TIE in self.duels
        for wanted, is_there, what in (
            (gold, self.gold is not None, "gold duels"),
            (ties, has_ties, "ties"),
        ):
            if wanted and not is_there:
                raise ValueError(f"The data set {self.about.name!r} has no {what}; leave them out.")
        duels, tied = self.gold if gold else self.duels, self.ties if ties else None
        if TIE in duels and not ties:
            duels = duels[duels[TIE] == 0].reset_index(drop=True)
        if TIE in duels and (not ties or "grade" in options):  # grades tell ties too
            duels = duels.drop(columns=TIE)
        if tied is not None:
            # Context that the duels have and the ties leave to their items.
            missing = self.items.columns.intersection(duels.columns.difference(tied.columns))
            of_items = self.items.set_index("item_id").loc[tied["item_a"], missing]
            tied = tied.assign(**{name: of_items[name].to_numpy() for name in missing})
        texts = options.get("text", ())
        named = {texts} if isinstance(texts, str) else set(texts)
        ignore = [n for n in self.about.ignore if n in self.items.columns and n not in named]
        ignore += list(options.pop("ignore", ()))
        with no_guess_of_draws():
            return read_duels(self.items, duels, ignore=ignore, ties=tied, **options)

    @property
    def frames(self) -> dict[str, Any]:
        """Its data frames by the names that files of them have."""
        frames = {"items": self.items, "duels": self.duels}
        frames |= {"ties": self.ties, "gold_duels": self.gold, "battles": self.battles}
        return {name: frame for name, frame in frames.items() if frame is not None}

    @property
    def size(self) -> dict[str, int]:
        """Numbers of `items`, `features`, and `duels` without ties."""
        features = len(self.items.columns) - 1 - len(self.about.ignore)
        tied = int(self.duels[TIE].sum()) if TIE in self.duels else 0
        return {"items": len(self.items), "features": features, "duels": len(self.duels) - tied}

    @property
    def _numbers(self) -> dict[str, Any]:
        items, _, duels = self.size.values()
        ties = len(self.duels) - duels + (0 if self.ties is None else len(self.ties))
        gold = 0 if self.gold is None else len(self.gold)
        return {"items": items, "duels": duels, "ties": ties, "gold": gold}


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceSet(_Named):
    """Choices of one alternative from a set."""

    choices: Any
    """Data frame, one row per alternative: `choice_set` (which choice it belongs to), `chosen` (1
    for one in each set), `person`, attributes, columns that are none (`about.ignore`).
    """

    @property
    def attributes(self) -> list[str]:
        """Columns that describe the alternatives, besides their names."""
        others = {CHOICE_SET, CHOSEN, PERSON, ALTERNATIVE, *self.about.ignore}
        return [name for name in self.choices.columns if name not in others]

    @property
    def frames(self) -> dict[str, Any]:
        """Its data frame by the name that a file of it has."""
        return {CHOICES: self.choices}

    @property
    def size(self) -> dict[str, int]:
        """Numbers of distinct alternatives (`items`), of their `features`, and of choices
        (`duels`)."""
        attributes = self.attributes
        names = [x for x in self.choices.columns if x == ALTERNATIVE and x not in self.about.ignore]
        return {
            "items": len(self.choices.drop_duplicates([*names, *attributes])),
            "features": len(attributes),
            "duels": int(self.choices[CHOICE_SET].nunique()),
        }

    def to_duels(self, **options: Any) -> Duels:
        """The choices as they are read: alternatives that are equal in name and attributes are one
        item.

        :param options: more of `read_choices`, such as `features` or `person`.
        :raises ValueError: what `read_choices` raises.
        """
        return read_choices(None, self.choices, **{"features": self.attributes} | options)

    @property
    def _numbers(self) -> dict[str, Any]:
        return {"choices": self.size["duels"], "alternatives": len(self.choices)}


@dataclass(frozen=True, eq=False, repr=False)
class RankingSet(_Named):
    """Rankings of items."""

    items: Any
    """Data frame, one row per item: `item_id`, features."""
    rankings: Any
    """Data frame, one row per item in a ranking: `ranking` (which one it belongs to), `item_id`,
    `rank` (1 is the best, missing for who was there and got none), context.
    """

    @property
    def frames(self) -> dict[str, Any]:
        """Its data frames by the names that files of them have."""
        return {"items": self.items, RANKINGS: self.rankings}

    @property
    def size(self) -> dict[str, int]:
        """Numbers of `items`, of their `features`, and of rankings (`duels`)."""
        return {
            "items": len(self.items),
            "features": len(self.items.columns) - 1 - len(self.about.ignore),
            "duels": int(self.rankings[RANKING].nunique()),
        }

    def to_duels(self, *, unranked_last: bool = False, **options: Any) -> Duels:
        """The rankings as they are read.

        :param unranked_last: who has no rank stands below all others; by default left out.
        :param options: more of `read_rankings`, such as `covariates`.
        :raises ValueError: what `read_rankings` raises.
        """
        rankings = self.rankings if unranked_last else self.rankings.dropna(subset=RANK)
        return read_rankings(self.items, rankings, unranked_last=unranked_last, **options)

    @property
    def _numbers(self) -> dict[str, Any]:
        return {"items": len(self.items), "rankings": self.size["duels"]}


@dataclass(frozen=True, eq=False, repr=False)
class RegressionSet(_Named):
    """Features and a target, from which `duels_from_targets` makes duels."""

    features: Any
    """Data frame (n, D), unscaled unless the public file is scaled."""
    target: FloatArray
    """(n,) what is to be predicted."""
    parts: tuple[IntArray, IntArray] | None = None
    """Row numbers of the standard training and test part, or None where there are none."""
    more_inputs: Any = None
    """Data frame of further rows of features without a target, or None."""

    @property
    def frames(self) -> dict[str, Any]:
        """Features and target in one data frame, by the name that a file of it has."""
        return {self.about.name: self.features.assign(**{TARGET: self.target})}

    @property
    def size(self) -> dict[str, int]:
        """Numbers of rows (`items`) and of `features`."""
        return dict(zip(("items", "features"), self.features.shape, strict=True))

    @property
    def _numbers(self) -> dict[str, Any]:
        parts = None if self.parts is None else tuple(map(len, self.parts))
        rows, columns = self.features.shape
        return {"rows": rows, "features": columns, "parts": parts}


AnySet = DuelSet | ChoiceSet | RankingSet | RegressionSet
