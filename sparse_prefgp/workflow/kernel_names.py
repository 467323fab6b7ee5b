"""Kernels by name: trees of the grammar as GPflow kernels.

Names are checked without TensorFlow; only `build` loads it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.registry import KERNEL, own
from sparse_prefgp.workflow.kernel_grammar import (
    ADDITIVE,
    ITEM,
    KERNEL_NAMES,
    MARKOV_KERNELS,
    PAIR,
    STATIONARY_KERNELS,
    Moving,
    Plain,
    Product,
    Sum,
    Term,
    nearest,
    parsed,
)

if TYPE_CHECKING:
    from gpflow.kernels import Kernel

    from sparse_prefgp.data.features import FeatureTransform

# Limits of what is learned, in units of standardised features: a lengthscale of 1e-4 takes any two
# values for unrelated, and one of 1e-10 changes the evidence of a million duels by 1e-4 nats.
LEAST_LENGTHSCALE = 1e-4
LEAST_VARIANCE = 1e-10


# Up to so many features each has a variance of its own in a linear term: under VFE more of them
# take over while a stationary term recovers, which then is lost (docs/embeddings.md).
OWN_VARIANCES = 16
# Of more features: in chunks, or of texts that have few, and in memory.
MANY_DEFAULT, MANY_OWN = "linear+iso(matern52)", "linear+ard(matern52)"


class KernelStarts(Protocol):
    """What training duels say of where a kernel starts; `columns` are features, None for all."""

    def distance(self, columns: Sequence[int] | None) -> float:
        """The median distance of the items."""
        ...

    def projection(self, directions: int, columns: Sequence[int] | None) -> FloatArray:
        """Where so many directions start, (D, q)."""
        ...


@dataclass(frozen=True)
class KernelChoice:
    """A sum of kernels by name."""

    terms: tuple[Term, ...]
    """As trees."""

    @classmethod
    def parse(cls, text: str) -> KernelChoice:
        """Read a kernel of the grammar, such as `se`, `linear+matern52` or `item+item*surface`.

        `se`, `matern32`, `matern52` and `linear` see all features, or those of the columns in their
        brackets; `iso(se)` has one lengthscale, `iso(se, 16)` the same for the first 16 features
        alone, and `ard(se)` begins as `iso(se)`, and has one for each column once that is learned.
        `additive-se` and its like are sums over groups of features; see `feature_groups`. `item` is
        an effect of each item, `pair` one of each pair of items on the duels between them. In a
        product with `item`, a column of categories is an effect of each item at each of its levels,
        and a column of numbers a slope of each item; a kernel is a function of its columns for each
        item. `item-in-time(wiener)` and its like are a utility of each item that moves in time.

        :raises ValueError: what cannot be read, an unknown name (the message has the nearest one),
            or a term twice.
        """
        return cls(parsed(text))

    @property
    def parts(self) -> tuple[str, ...]:
        """The terms as the grammar writes them, such as `("linear", "matern52")`."""
        return tuple(map(str, self.terms))

    def build(
        self,
        num_features: int,
        groups: Sequence[FeatureGroup] | None = None,
        columns: Sequence[FeatureGroup] | None = None,
        starts: KernelStarts | None = None,
    ) -> Kernel:
        """The kernel with starting values for `num_features` standardised features.

        Stationary terms have variance 1 and one lengthscale per feature, at first sqrt(D): the
        size of a typical distance between items. That of `iso(…)` starts at the median distance of
        the items, and directions of `projected(…)` where `initial_projection` has them. The linear
        term has one variance per feature, at first 1 / D, and above 16 features one for all. Item
        effects have variance 1, and utilities in time begin as `spg.markov` has them. D counts the
        features that a term sees. An additive kernel is a sum over `groups`, which are by default
        the single columns; each term sees the columns of its group alone, with lengthscales as
        above for so many features, and the G terms share a variance of 1.

        A product has one variance: that of its linear factors, which stand for themselves, or of
        its first. Those of the other factors are 1 and stay so.

        By their transforms, no lengthscale can be learned below 1e-4 (of the spread of a feature)
        and no variance below 1e-10.

        Terms are in the order of `term_names`.

        :param columns: the features of each raw column; by default single ones.
        :param starts: what the training duels say of where to start; without it `iso(…)` starts at
            sqrt(D), and `projected(…)` with the first features.
        :raises ValueError: a column that is not among them; a projection onto more directions than
            items vary along.
        """
        import gpflow

        single = single_columns(num_features)
        groups = single if groups is None else groups
        features = {group.name: group.columns for group in (single if columns is None else columns)}
        maker = _Maker(num_features, features, starts, len(groups))
        terms = [maker.kernel(*each) for each in self._each(groups)]
        return terms[0] if len(terms) == 1 else gpflow.kernels.Sum(terms)

    def term_names(
        self, num_features: int, groups: Sequence[FeatureGroup] | None = None
    ) -> tuple[str, ...]:
        """A name for each term of `build`; those of an additive kernel end in their group."""
        groups = single_columns(num_features) if groups is None else groups
        return tuple(
            str(term) if group is None else f"{term}[{group.name}]"
            for term, group in self._each(groups)
        )

    def _each(self, groups: Sequence[FeatureGroup]) -> list[tuple[Term, FeatureGroup | None]]:
        """Every term, an additive one with each of its groups."""
        return [
            (term, group)
            for term in self.terms
            for group in (groups if term.is_additive else [None])
        ]

    def check_columns(
        self,
        transform: FeatureTransform | None,
        covariates: Sequence[str] = (),
    ) -> None:
        """Refuse columns that are no features.

        :param transform: of the training items; None knows columns by their numbers alone.
        :param covariates: columns of the duel that have a coefficient instead.
        :raises ValueError: such a column, with the nearest one.
        """
        if transform is None:
            return
        known = [group.name for group in feature_groups(transform)]
        for name in self.named_columns:
            if name in known:
                continue
            if self.lacking(transform) is not None:
                why = f"{self.lacking(transform)}; leave that term out."
            elif name in covariates:
                why = (
                    f"{name!r}, which is a covariate: it has a coefficient and is no feature; "
                    "leave it out of the kernel, or make it a context (--context) instead of a "
                    "covariate."
                )
            elif name in transform.dropped:
                why = (
                    f"the column {name!r}, which is the same for all training items; leave it out."
                )
            elif transform.reduced is not None and name in transform.reduced.names:
                why = (
                    f"{name!r}, which was reduced ({transform.reduced}); leave the name out, for a "
                    "kernel of all features, or name directions, such as "
                    f"{transform.reduced.reduction.names[0]}."
                )
            else:
                raise ValueError(_no_column(name, known))
            raise ValueError(f"The kernel {self} names {why}")

    @property
    def first_stage(self) -> KernelChoice:
        """The same before columns get a lengthscale each."""
        return KernelChoice(
            tuple(replace(x, ard=False) if isinstance(x, Plain) else x for x in self.terms)
        )

    @property
    def taste(self) -> KernelChoice:
        """That of a person's own taste, by default: the terms that are neither linear nor effects,
        or the linear ones where there are none, and an effect of each item."""
        plain = [term for term in self.terms if term != PAIR and not term.of_items]
        own = [term for term in plain if not term.is_linear] or plain
        return KernelChoice((*own, ITEM)).first_stage

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that terms name, each once."""
        return Sum(self.terms).columns

    def staged(self, kernel: Kernel, groups: Sequence[FeatureGroup]) -> list[Kernel]:
        """The terms of a kernel, made by `build` of the same groups, whose columns get a
        lengthscale each after one for all."""
        from sparse_prefgp.covariances.finite import parts_of

        if not any(term.ard for term in self.terms):
            return []
        # A kernel that is a sum itself, alone, has more parts than there are terms.
        each = zip(parts_of(kernel), self._each(groups), strict=False)
        return [part for part, (term, _) in each if term.ard]

    @property
    def is_additive(self) -> bool:
        """Whether a term is a sum over groups of features."""
        return any(term.is_additive for term in self.terms)

    @property
    def has_items(self) -> bool:
        """Whether items have effects, of themselves, in a context or in time."""
        return any(term.of_items for term in self.terms)

    @property
    def in_time(self) -> bool:
        """Whether utilities move in time."""
        return any(term.moves for term in self.terms)

    @property
    def finite_in_time(self) -> bool:
        """Whether utilities move in time and all other terms have finitely many features, so that
        nothing need be approximated."""
        return self.in_time and all(term.moves or term.is_linear for term in self.terms)

    @property
    def is_projected(self) -> bool:
        """Whether a term sees learned directions of the features."""
        return any(term.directions for term in self.terms)

    @property
    def only_items(self) -> bool:
        """Whether there is nothing else, so that inducing inputs have nothing to explain."""
        return all(term.of_items or term == PAIR for term in self.terms)

    @property
    def plain(self) -> bool:
        """Whether each term is a name alone."""
        return all(part in KERNEL_NAMES for part in self.parts)

    @property
    def cancels_shared(self) -> bool:
        """Whether features that both sides share change nothing."""
        return all(
            term.is_linear or term.of_each_item or term == PAIR
            for term in self.terms
            if not term.is_additive
        )

    def item_columns(self) -> dict[str, tuple[str, ...]]:
        """By term, the columns in which effects of items in a context differ."""
        return {str(term): term.columns for term in self.terms if term.in_context}

    def lacking(self, transform: FeatureTransform | None) -> str | None:
        """A score of words that it names and that the texts of some items do not have, in words;
        None without.

        :param transform: of the items.
        """
        for text in () if transform is None else transform.texts:
            if text.score in self.named_columns and text.transform.score is None:
                scored = text.transform.scored
                why = "duels in chunks, or no word in two texts" if scored is None else str(scored)
                return f"{text.score!r}, which the texts do not have ({why})"
        return None

    def num_parameters(
        self,
        num_features: int,
        groups: Sequence[FeatureGroup] | None = None,
        columns: Sequence[FeatureGroup] | None = None,
    ) -> int:
        """How many kernel parameters are learned; arguments as for `build`."""
        kernel = self.build(num_features, groups, columns)
        named = len(single_columns(num_features) if columns is None else columns)
        more = sum((len(x.columns) or named) - 1 for x in self.terms if x.ard)
        return more + sum(int(np.prod(p.shape)) for p in kernel.trainable_parameters)

    def __str__(self) -> str:
        return "+".join(self.parts)


class _Maker(NamedTuple):
    """Makes kernels of trees."""

    num_features: int
    columns: dict[str, tuple[int, ...]]
    """The features of each raw column."""
    starts: KernelStarts | None
    num_groups: int

    def kernel(self, term: Term, group: FeatureGroup | None = None) -> Kernel:
        """That of a term, or of one of the groups of an additive one."""
        import gpflow

        from sparse_prefgp.covariances import ItemInTime, ItemTimes, markov

        if group is not None:
            seen, name = list(group.columns), STATIONARY_KERNELS[term.name.removeprefix(ADDITIVE)]
            scales = np.full(len(seen), math.sqrt(len(seen)))
            make = getattr(gpflow.kernels, name)
            return _limited(
                make(variance=1.0 / self.num_groups, lengthscales=scales, active_dims=seen)
            )
        if self._is_coded(term):
            return self._same_level(term)
        if isinstance(term, Plain):
            return self._plain(term)
        if isinstance(term, Moving):
            made = [getattr(markov, MARKOV_KERNELS[name])() for name in term.kernels]
            in_time = made[0] if len(made) == 1 else markov.MarkovSum(made)
            return ItemInTime(in_time, slices=term.slices)
        assert isinstance(term, Sum | Product)
        if isinstance(term, Sum):
            return gpflow.kernels.Sum([self.kernel(part) for part in term.parts])
        if not term.in_context:
            return _product([self.kernel(part) for part in term.parts])
        # Levels of several columns count jointly.
        coded = [part for part in term.parts if self._is_coded(part)]
        kernels = [self._same_level(*coded)] if coded else []
        kernels += [self.kernel(part) for part in term.parts[1:] if part not in coded]
        return ItemTimes(_product(kernels))

    def _plain(self, term: Plain) -> Kernel:
        import gpflow

        from sparse_prefgp.covariances import ItemEffect, PairEffect, Projected

        if term in (ITEM, PAIR):
            return _limited(ItemEffect() if term == ITEM else PairEffect())
        if term.leading > self.num_features:
            raise ValueError(
                f"The kernel {term} sees the first {term.leading} features, but there are "
                f"{self.num_features}; lower the number, or leave it out for all."
            )
        seen = self._features(term) or list(range(term.leading)) or None
        size = self.num_features if seen is None else len(seen)
        if term.is_linear or not term.name:
            each = np.full(size, 1.0 / size) if size <= OWN_VARIANCES else 1.0 / size
            return _limited(gpflow.kernels.Linear(variance=each, active_dims=seen))
        if term.name not in STATIONARY_KERNELS:
            return _registered(own(KERNEL)[term.name], size, seen)
        make = getattr(gpflow.kernels, STATIONARY_KERNELS[term.name])
        if term.directions:
            w = np.eye(size, term.directions)
            if self.starts is not None:
                w = self.starts.projection(term.directions, seen)
            return Projected(_limited(make()), w, active_dims=seen)
        distance = math.sqrt(size)
        if term.iso and self.starts is not None:
            distance = self.starts.distance(seen)
        scales = distance if term.iso else np.full(size, distance)
        return _limited(make(lengthscales=scales, active_dims=seen))

    def _is_coded(self, term: Term) -> bool:
        """Whether it is a column of categories, which has a feature for each level."""
        column = isinstance(term, Plain) and not term.name
        return column and len(self.columns.get(term.columns[0], ())) > 1

    def _same_level(self, *terms: Term) -> Kernel:
        from sparse_prefgp.covariances import SameLevel

        return _limited(SameLevel(active_dims=self._features(Product(terms))))

    def _features(self, term: Term) -> list[int]:
        for name in term.columns:
            if name not in self.columns:
                raise ValueError(_no_column(name, tuple(self.columns)))
        return [i for name in term.columns for i in self.columns[name]]


def _product(kernels: list[Kernel]) -> Kernel:
    """Of one variance."""
    import gpflow

    if len(kernels) == 1:
        return kernels[0]
    linear = [type(kernel) is gpflow.kernels.Linear for kernel in kernels]
    keeps = linear if any(linear) else [k == 0 for k in range(len(kernels))]
    for kernel, keep in zip(kernels, keeps, strict=True):
        if not keep and hasattr(kernel, "variance"):
            gpflow.set_trainable(kernel.variance, False)
    return gpflow.kernels.Product(kernels)


class FeatureGroup(NamedTuple):
    """Features that one term of an additive kernel sees."""

    name: str
    """Of the raw column, or columns joined by `,`."""
    columns: tuple[int, ...]
    """Their numbers among the features."""


def single_columns(num_features: int) -> tuple[FeatureGroup, ...]:
    """Every column a group of its own, named by its number."""
    return tuple(FeatureGroup(str(i), (i,)) for i in range(num_features))


def feature_groups(
    transform: FeatureTransform, given: Sequence[Sequence[str]] | None = None
) -> tuple[FeatureGroup, ...]:
    """Groups of features for an additive kernel.

    Each numeric column is a group, and so are the levels of each categorical column, and each
    direction of a reduction.

    :param transform: says which raw column each feature comes from.
    :param given: raw columns that are to form a group together; the others stay single. Columns
        that were dropped because they were constant are passed over.
    :raises ValueError: a column that is not a feature, or that is in two groups.
    """
    sizes = dict.fromkeys(transform.numeric, 1)
    levels = zip(transform.categorical, transform.categories, strict=True)
    sizes |= {name: len(known) for name, known in levels}
    sizes |= dict.fromkeys(transform.feature_names[sum(sizes.values()) :], 1)
    ends = pairwise(np.cumsum([0, *sizes.values()]).tolist())
    blocks = {name: tuple(range(*end)) for name, end in zip(sizes, ends, strict=True)}
    names_taken: list[str] = []
    groups: list[FeatureGroup] = []
    for names in given or ():
        for name in names:
            if name not in blocks and name not in transform.dropped:
                raise ValueError(
                    f"The group {','.join(names)!r} names {name!r}, which is not a feature; choose "
                    f"from {', '.join(blocks)}."
                )
            if name in names_taken:
                raise ValueError(
                    f"The feature {name!r} is in two groups; every feature belongs to one."
                )
            names_taken.append(name)
        here = [name for name in blocks if name in names]
        groups.append(FeatureGroup(",".join(here), tuple(i for name in here for i in blocks[name])))
    groups += [FeatureGroup(*block) for block in blocks.items() if block[0] not in names_taken]
    return tuple(sorted((group for group in groups if group.columns), key=lambda x: x.columns))


def of_scores(transform: FeatureTransform, in_chunks: bool = False) -> tuple[str, ...]:
    """A weighted sum of the scores of words of texts, alone and with all features; none without a
    score."""
    if not transform.scores:
        return ()
    alone = str(Plain("linear", transform.scores))
    many = len(transform.feature_names) > OWN_VARIANCES and not in_chunks
    return alone, f"{alone}+{MANY_OWN if many else MANY_DEFAULT}"


def default_for(transform: FeatureTransform, in_chunks: bool = False) -> str | None:
    """The kernel that features ask for where none was named; None is the usual one.

    Above 16 features one variance of the linear term, and one lengthscale, from whose optimum each
    column gets its own, but for duels in chunks, where that costs many passes; with scores of words
    a linear term of these besides, whatever the number.
    """
    if transform.scores:
        return of_scores(transform, in_chunks)[-1]
    many = MANY_DEFAULT if in_chunks else MANY_OWN
    return many if len(transform.feature_names) > OWN_VARIANCES else None


def _no_column(name: str, known: Sequence[str]) -> str:
    return (
        f"The kernel names the column {name!r}, which is not a feature; {nearest(name, known)}"
        f"choose from {', '.join(known)}."
    )


def _registered(make: Any, size: int, seen: Sequence[int] | None) -> Kernel:
    """One's own kernel of so many features, which starts as stationary ones do."""
    takes = inspect.signature(make).parameters
    scales = {"lengthscales": np.full(size, math.sqrt(size))} if "lengthscales" in takes else {}
    return _limited(make(**scales, active_dims=seen))


def _limited(kernel: Kernel) -> Kernel:
    """Let no lengthscale or variance be learned below its limit."""
    import gpflow

    for name, least in (("lengthscales", LEAST_LENGTHSCALE), ("variance", LEAST_VARIANCE)):
        parameter = getattr(kernel, name, None)
        if parameter is not None:
            transform = gpflow.utilities.positive(lower=least)
            setattr(kernel, name, gpflow.Parameter(parameter.numpy(), transform=transform))
    return kernel
