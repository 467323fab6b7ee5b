"""Duels parted into those to fit to and those to score on: in memory, or taken in chunks.

The two ways of holding duels differ here and nowhere else in a fit. `prepare` and `StreamHoldout`
do everything that needs no TensorFlow, so that bad input is found at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from sparse_prefgp.analysis.metrics import ONE_UTILITY, WITHOUT_DATES
from sparse_prefgp.data.answers import WIN, Answers, Codes
from sparse_prefgp.data.duels import PERSON, Duels
from sparse_prefgp.data.flags import refuse_cells
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.splits import (
    Grouping,
    Split,
    grouping_of,
    holding_out_people,
    last_rows,
    split_columns,
    split_duels,
    units_of,
)
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.streams import stream_duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_inducing_count
from sparse_prefgp.support.defaults import number_of_inducing
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import shortened, some_of
from sparse_prefgp.workflow.kernel_names import (
    FeatureGroup,
    KernelChoice,
    default_for,
    feature_groups,
    single_columns,
)
from sparse_prefgp.workflow.settings import NO, YES, FitSettings

if TYPE_CHECKING:
    from gpflow.kernels import Kernel

    from sparse_prefgp.analysis.scoring import Asked, HeldOut
    from sparse_prefgp.approximations import Approximation
    from sparse_prefgp.learning.checkpoint import Checkpoint
    from sparse_prefgp.learning.initial import AutoInputs
    from sparse_prefgp.learning.report import OptimisationReport
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.models.streaming import StreamedGP, StreamProgress
    from sparse_prefgp.models.terms import Term


# Training rows of a stream that the linear probit and the first inducing inputs are made of.
_SAMPLE = 50_000
# Training duels of a person, on average, below which tastes cannot be told from noise.
FEWEST_EACH = 2


class FitCallbacks(NamedTuple):
    """What looks on while a model is fitted: after each iteration, and after each chunk."""

    step: Callable[[Any], None] | None = None
    chunk: Callable[[StreamProgress], None] | None = None


@dataclass(frozen=True, eq=False)
class Training:
    """Events to fit to, and how; in memory, but for a `StreamHoldout`."""

    settings: FitSettings
    train: Duels
    groups: Sequence[FeatureGroup] = field(default=(), kw_only=True)
    """Of features, which an additive kernel sums over; by default those of the columns that the
    features were made of.
    """

    @property
    def streamed(self) -> bool:
        """Whether its events are read in chunks."""
        return not self.train.held

    @property
    def margin(self) -> float | None:
        """The margin to start from."""
        return self.settings.first_margin(self.train)

    @property
    def approximation(self) -> Approximation:
        """That of the settings."""
        return self.settings.approximation_choice.build(self.settings.seed)

    @property
    def num_inducing(self) -> int | None:
        """m, None where the approximation has no inducing inputs, or where their number is yet to
        be found."""
        settings = self.settings
        if not settings.approximation_choice.needs_inducing or settings.inducing_share is not None:
            return None
        return number_of_inducing(len(self.train.distinct_rows()[0]), settings.inducing)

    def sample(self, rng: Generator) -> Duels:
        """Duels in memory that stand for all of them: of those in chunks at most 50,000 rows."""
        return self.train.sample(_SAMPLE, rng) if self.streamed else self.train

    def kernel(self, choice: KernelChoice | None = None) -> Kernel:
        """That of the settings as it starts, or another one."""
        raw, choice = groups_of(self.train), choice or self.settings.kernel_choice
        return choice.build(self.train.num_features, self.groups or raw, raw, self)

    def distance(self, columns: Sequence[int] | None) -> float:
        """Where lengthscales start, as `KernelStarts` has it."""
        from sparse_prefgp.analysis.projection import median_distance

        return median_distance(self._seen(columns).distinct_rows()[0], self._rng())

    def projection(self, directions: int, columns: Sequence[int] | None) -> FloatArray:
        """Where directions start, as `KernelStarts` has it; each is found once."""
        from sparse_prefgp.analysis.projection import initial_projection

        key = (directions, None if columns is None else tuple(columns))
        if key not in self._projections:
            found = initial_projection(self._seen(columns), directions, rng=self._rng())
            self._projections[key] = found
        return self._projections[key]

    @cached_property
    def _projections(self) -> dict[Any, FloatArray]:
        return {}

    def _rng(self) -> Generator:
        return default_rng(self.settings.seed)

    def _seen(self, columns: Sequence[int] | None) -> Duels:
        duels = self.sample(self._rng())
        if columns is None:
            return duels
        return Duels.from_events(duels.items[:, list(columns)], duels.events)

    def first_inputs(self, rng: Generator | None = None) -> FloatArray | AutoInputs | None:
        """First inducing inputs, k-means centres of the training items; None where there are none.

        Where their number is `auto`, the kernel has its starting values; the `AutoInputs` says why
        it is that number.

        :param rng: by default that of the seed of the settings.
        """
        from sparse_prefgp.covariances.projected import seen_by_inducing
        from sparse_prefgp.learning.initial import auto_inputs
        from sparse_prefgp.models import kmeans_inputs

        settings, rng = self.settings, self._rng() if rng is None else rng
        if settings.inducing_share is not None:
            kernel = self.kernel()
            found = auto_inputs("kmeans", self.train, kernel, rng, share=settings.inducing_share)
            return replace(found, inputs=seen_by_inducing(kernel, found.inputs))
        if not settings.approximation_choice.needs_inducing:
            return None
        rows = self.sample(rng).distinct_rows()[0]
        number = number_of_inducing(len(rows), settings.inducing)
        if settings.kernel_choice.is_projected:
            rows = seen_by_inducing(self.kernel(), rows)
        return kmeans_inputs(rows, number, rng)

    def model(
        self,
        inputs: FloatArray | AutoInputs | None,
        kernel: Kernel | None = None,
        margin: float | None = None,
        terms: Sequence[Term] | None = None,
    ) -> Any:
        """The model of the settings before anything is learned.

        :param kernel: in place of that of the settings.
        :param margin: the same.
        :param terms: the same.
        """
        import gpflow

        from sparse_prefgp.models.likelihood import BOX, JUDGE, Probit

        settings, train = self.settings, self.train
        # By default each judge has cuts of its own where anything tells of them; with "margin-only"
        # the margin is found after the utilities.
        told = settings.tie_model == BOX and (train.num_ties > 0 or train.levels is not None)
        by = JUDGE if settings.noise_by_group else None
        likelihood = Probit(
            settings.noise_variance,
            by=by,
            margin=self.margin if margin is None else margin,
            cuts_by=by if told and not settings.shared_cuts else None,
            ties=settings.tie_model,
        )
        make, more = self._kind_of_model()
        model = make(
            train,
            self.kernel() if kernel is None else kernel,
            approximation=self.approximation,
            inducing_variable=inputs,
            terms=self._terms() if terms is None else terms,
            likelihood=likelihood,
            **more,
        )
        if model.inducing_variable is not None and (
            settings.fixed_inducing or self._covered(model)
        ):
            gpflow.set_trainable(model.inducing_variable, False)
        if settings.fixed_margin and model.likelihood.margin is not None:
            gpflow.set_trainable(model.likelihood.margin, False)
        return model

    def _kind_of_model(self) -> tuple[Any, Record]:
        """A class, and what else it takes."""
        from sparse_prefgp.models import PreferenceGP

        return PreferenceGP, {"engine": self.settings.engine_choice.build()}

    def _terms(self) -> list[Term]:
        from sparse_prefgp.models.registry import term_named
        from sparse_prefgp.models.terms import Lean, Taste

        settings, taste = self.settings, self.settings.taste_choice
        terms = Lean.several(settings.leans, self.train.covariate_names)
        terms += map(term_named, settings.terms)
        return [*terms, *([] if taste is None else [Taste(self.kernel(taste))])]

    def _covered(self, model: Any) -> bool:
        """Whether inducing inputs are all the distinct items, and so the best ones of a bound."""
        from sparse_prefgp.covariances.projected import projection_of

        if self.streamed:
            return False  # nobody has counted the items
        if not self.approximation.is_bound or projection_of(model.kernel) is not None:
            return False  # where the items are is learned
        number = model.inducing_variable.num_inducing
        return bool(number == len(self.train.distinct_rows()[0]))

    def learning(self, watch: FitCallbacks, rng: Generator) -> Record:
        """What `optimise` is given for duels in memory."""
        return {"starts": self.settings.starts, "rng": self._rng()}


@dataclass(frozen=True, eq=False)
class Holdout(Training):
    """A table split into duels for training and for testing.

    :param train: training duels; `train.items` has every item of the table, standardised on the
        training items alone.
    """

    table: Duels
    split: Split
    everything: Duels
    """All duels of the table in the same units."""

    @property
    def margin(self) -> float | None:
        """The margin to start from."""
        return self.settings.first_margin(self.table)

    @property
    def approximation(self) -> Approximation:
        """That of the settings; blocks may be a column of the table."""
        choice = self.settings.approximation_choice
        if choice.column is None:
            return choice.build(self.settings.seed)
        column = self.table.context[choice.column].to_numpy()[self.split.train_rows]
        return choice.build(labels=[id_text(x) for x in column.tolist()])

    def without_dates(self) -> Holdout:
        """The same duels, to be fitted with utilities of items that stay as they are."""
        settings, choice = self.settings, self.settings.kernel_choice
        kernel = "+".join("item" if x.moves else str(x) for x in choice.terms)
        exact = str(settings.approximation_choice)
        plain = replace(settings, dated=False, kernel=kernel, approximation=exact, starts=1)
        return replace(self, settings=plain)

    def of_everything(self) -> Holdout:
        """All duels, to fit to once more from where a fitted model is."""
        rows = np.arange(self.table.num_rows)
        return replace(
            self,
            settings=replace(self.settings, starts=1),
            train=self.everything,
            split=replace(self.split, train_rows=rows),
        )

    @property
    def decided_rows(self) -> IntArray:
        """Test rows that one side won."""
        rows, ties = self.split.test_rows, self.table.given.ties
        return rows if ties is None else rows[~ties[rows]]

    def counts(self, rows: IntArray) -> IntArray:
        """How often each duel in these rows of the table was seen."""
        return self.table.given.counts[rows]

    @property
    def num_train(self) -> int:
        """Training duels, counts included."""
        return self.train.num_duels

    @property
    def num_test(self) -> int:
        """Test duels, counts and ties included."""
        return int(self.counts(self.split.test_rows).sum())

    def test_wins(self) -> Answers:
        """Which items won against which, as far as the test rows say."""
        doors = self.table.given.take(self.split.test_rows).pair_doors()
        return Answers.between(*doors.features[doors.decided].T)

    def rivals(self, rng: Generator) -> Record:
        """What the model is scored next to."""
        from sparse_prefgp.analysis.rivals import rivals_of

        people = None
        if self.train.events.has_sets and PERSON in self.table.context.columns:
            people = self.table.context[PERSON].to_numpy()[self.split.train_rows]
        return rivals_of(self.train, rng, people)

    def test_rows(self, model: PreferenceGP) -> list[Asked]:
        """The test duels as the model takes them, ties too; or answers about sets."""
        from sparse_prefgp.analysis.scoring import Asked

        table, rows = self.table, self.split.test_rows
        events, sets = table.given.take(rows), self.train.events.has_sets
        column = self.settings.approximation_choice.column
        if column is not None:
            events = events.saying(block=Codes.of(table.context[column].to_numpy()[rows].tolist()))
        if model.terms.taste is not None and events.person is not None:
            # New people without features are nobody in particular.
            known = _known_people(events, model.people.described)
            people = zip(events.person.labels.tolist(), known, strict=True)
            events = events.saying(
                person=Codes.of([who if there else None for who, there in people])
            )
        return [Asked(events, model.inputs.of_items(), sets=sets)]

    def asks_for_outcomes(self, model: PreferenceGP) -> bool:
        """Whether win, tie and loss are scored: where the table has ties, held out or not."""
        return self.table.num_ties > 0

    @property
    def grouping(self) -> Grouping | None:
        """What standard errors of scores are over, by the test rows."""
        units = units_of(self.table, self.settings.split)
        return grouping_of(self.table, self.split.test_rows, units)

    def unseen(self) -> dict[str, BoolArray]:
        """Which pairs that one side won were not in training; sets are not told apart."""
        from sparse_prefgp.analysis.scoring import unseen_pairs

        if self.train.events.has_sets:
            return {}
        sides = (self.train.item[rows] for rows in self.test_wins().pairs.T)
        return unseen_pairs(self.train, *sides)


@dataclass(frozen=True, eq=False)
class StreamHoldout(Training):
    """Rows to learn from, and rows to score on; None holds nothing out."""

    test: Duels | None
    split: str = "last rows"
    """What separated them: where tables were read, the split of the settings; else the last rows
    are held out.
    """
    grouping: Grouping | None = None
    """What standard errors of scores are over, by the test events."""

    @classmethod
    def of_table(
        cls, table: Duels, settings: FitSettings, split: Split | None = None
    ) -> StreamHoldout:
        """Of tables in memory: by the split of the settings, with items standardised as there.

        :param split: as for `prepare`.
        :raises ValueError: what `prepare` and `stream_duels` raise; items without features.
        """
        together.check(chunks=True, items_without_features=not table.has_features)
        plain = prepare(table, settings, split)
        settings, rows = plain.settings, plain.split.test_rows
        train = stream_duels(plain.train)
        if not len(rows):
            return cls(settings, train, None, settings.split)
        test, grouping = table.standardised(rows, transform=plain.train.transform), plain.grouping
        if grouping is not None:  # equal duels are one row, taken for one of the first's group
            first = np.unique(test.merged.rows, return_index=True)[1]
            grouping = grouping.take(first)
        return cls(settings, train, stream_duels(test), settings.split, grouping)

    @classmethod
    def of(cls, duels: Duels, settings: FitSettings) -> StreamHoldout:
        """Of a stream: its last rows are held out.

        :raises ValueError: all rows would be held out; an option that a stream has no columns for.
        """
        together.check(
            chunks=True,
            split=settings.split != "duels" and f"--split {settings.split}",
            max_train=settings.max_train is not None and f"--max-train {settings.max_train}",
        )
        names = duels.covariate_names
        settings.kernel_choice.check_columns(duels.transform, names)
        noisy = settings.noise_by_group
        together.check(noise_by_group=noisy, duels_without_judges=duels.said.judge is None)
        Leaning.of(settings.leans, names, duels.label_names)
        rows = duels.num_rows
        held = last_rows(rows, settings.test_fraction)
        if not held:
            return cls(settings, duels, None)
        return cls(settings, duels.part(0, rows - held), duels.part(rows - held, rows))

    @property
    def num_test(self) -> int:
        """Test rows; their duels would cost a pass."""
        return 0 if self.test is None else self.test.num_rows

    def _kind_of_model(self) -> tuple[Any, Record]:
        from sparse_prefgp.engines import PartitionedEP
        from sparse_prefgp.models.streaming import StreamedGP

        settings = self.settings
        engine = PartitionedEP(parts=settings.parts, local_sweeps=settings.local_sweeps or None)
        own = ("sites", "chunk", "scheduler", "timeout")
        return StreamedGP, {"engine": engine} | {name: getattr(settings, name) for name in own}

    def learning(self, watch: FitCallbacks, rng: Generator) -> Record:
        """What `optimise` is given for duels in chunks alone."""
        settings = self.settings
        return {
            "gradients": settings.gradients_kind,
            "subset": settings.subset,
            "polish": settings.polish,
            "rng": rng,
            "progress": watch.chunk,
        }

    def rivals(self, rng: Generator) -> Record:
        """What the model is scored next to, fitted to at most 50,000 training rows."""
        from sparse_prefgp.analysis.rivals import rivals_of

        return rivals_of(self.sample(rng), rng)

    def test_rows(self, model: StreamedGP) -> Iterator[Asked]:
        """The test duels as the model takes them, ties too; or answers about sets."""
        from sparse_prefgp.analysis.scoring import asked_of_stream

        assert self.test is not None
        return asked_of_stream(self.test, model)

    def asks_for_outcomes(self, model: StreamedGP) -> bool:
        """Whether win, tie and loss are scored: where there are ties among the held-out duels."""
        from sparse_prefgp.analysis.scoring import asks_for_outcomes

        assert self.test is not None
        return asks_for_outcomes(model, self.test.num_ties)

    def unseen(self) -> dict[str, BoolArray]:
        """Pairs are not told apart."""
        return {}


def hold(duels: Duels, settings: FitSettings) -> Holdout | StreamHoldout:
    """Part duels as the settings say, held as they are or, with `stream`, in chunks.

    :raises ValueError: what `prepare`, `StreamHoldout.of` and `StreamHoldout.of_table` raise.
    """
    if not duels.held:
        return StreamHoldout.of(duels, settings)
    if settings.stream:
        return StreamHoldout.of_table(duels, settings)
    return prepare(duels, settings)


def fit_model(
    training: Training,
    watch: FitCallbacks = FitCallbacks(),  # noqa: B008
    checkpoint: Checkpoint | None = None,
    inputs: FloatArray | AutoInputs | None = None,
    rng: Generator | None = None,
    model: Any = None,
    start: FloatArray | None = None,
) -> tuple[Any, Any]:
    """Fit the model of the settings to the training duels.

    :param checkpoint: where the optimiser keeps what a killed fit resumes from.
    :param inputs: what `first_inputs` gives, if that was called already, with the same `rng`.
    :param model: in place of that of the settings.
    :param start: (p,) of the trainable parameters, unconstrained, from which it continues.
    :return: The model and what the optimiser says of it.
    """
    from sparse_prefgp.learning.objective import InMemory
    from sparse_prefgp.learning.optimise import optimise
    from sparse_prefgp.learning.own_lengthscales import learn_own
    from sparse_prefgp.learning.priors import WEAK, default_priors
    from sparse_prefgp.learning.tastes import begin_tastes

    settings = training.settings
    rng = default_rng(settings.seed) if rng is None else rng
    again = model is not None
    if not again:
        model = training.model(training.first_inputs(rng) if inputs is None else inputs)
    if settings.priors == WEAK:
        default_priors(model)
    if not (again or training.streamed or model.terms.taste is None):
        begin_tastes(model)
    if start is not None:
        InMemory(model, list(model.trainable_variables)).set(start)

    def learn(most: int, kept: Checkpoint | None = None, **more: Any) -> OptimisationReport:
        options = {**training.learning(watch, rng), **more}
        return optimise(
            model,
            min(most, settings.max_iterations),
            callback=watch.step,
            checkpoint=kept,
            least_gain=settings.least_gain,
            **options,
        )

    report = learn(settings.max_iterations, checkpoint)
    groups = groups_of(training.train)
    staged = [] if again else settings.kernel_choice.staged(model.kernel, groups)
    if staged:
        more: Record = {} if training.streamed else {"starts": 1}
        attributes = [group.columns for group in groups]
        report = learn_own(model, staged, attributes, report, lambda most: learn(most, **more))
    return model, report


def integrated(model: Any, settings: FitSettings) -> Any:
    """The model with its hyperparameters integrated out where the settings ask for that and it
    changes anything; `integration` says what was done, and why.

    :param model: at its optimum.
    """
    from sparse_prefgp.learning.integration import SKIP_BELOW, integrate
    from sparse_prefgp.models.integrated import Integration

    if settings.integrate == NO:
        return model
    if (settings.stream and settings.integrate != YES) or model.inputs.layout.dated:
        what = (
            "duels are in chunks (--integrate yes finds what that costs)"
            if settings.stream
            else "utilities move in time"
        )
        model.integration = Integration(False, what)
        return model
    return integrate(model, skip_below=0.0 if settings.integrate == YES else SKIP_BELOW)


def refit_model(
    holdout: Holdout,
    model: PreferenceGP,
    watch: FitCallbacks = FitCallbacks(),  # noqa: B008
    checkpoint: Checkpoint | None = None,
) -> tuple[PreferenceGP, OptimisationReport]:
    """Fit to all duels, starting from the parameters of a model fitted to the training duels."""
    whole = holdout.of_everything()
    margin = model.likelihood.margin
    again = whole.model(
        model.inducing_variable,
        model.kernel,
        None if margin is None else float(margin.numpy()),
        model.terms,
    )
    again.likelihood.continue_from(model.likelihood)
    return fit_model(whole, watch, checkpoint, model=again)


def predict_held_out(holdout: Holdout | StreamHoldout, model: Any, other: Any = None) -> HeldOut:
    """Let the model, the linear probit and the coin predict the test duels; of answers about sets
    a conditional logit and equal shares in place of the last two.

    With noise by group each has that of its own group; for unknown groups, of which a warning
    tells, probabilities are averaged over the prior. With tastes each person has an own one.

    :param other: a model of the same duels without tastes, or without dates, to be scored too.
    """
    from sparse_prefgp.analysis.forecasts import with_forecasts
    from sparse_prefgp.analysis.scoring import score_events

    rivals = holdout.rivals(default_rng(holdout.settings.seed))
    scored = score_events(
        model,
        rivals,
        holdout.test_rows(model),
        outcomes=holdout.asks_for_outcomes(model),
        grouping=holdout.grouping,
        unseen=holdout.unseen(),
    )
    if not isinstance(holdout, Holdout):
        return scored
    if other is not None:
        plain = score_events(other, {}, holdout.test_rows(other))
        name = WITHOUT_DATES if model.inputs.layout.dated else ONE_UTILITY
        scored = scored.with_model(plain, name)
    if model.inputs.layout.dated:
        transform, rows = holdout.train.transform, holdout.split.test_rows
        test = holdout.table.standardised(rows, transform=transform)
        scored = with_forecasts(scored, model, test)
    if model.terms.taste is None:
        return scored
    events = holdout.table.given.take(holdout.split.test_rows)
    known = np.array(_known_people(events, model.people.names), dtype=bool)
    return replace(scored, parts={"known_people": known, "new_people": ~known})


def _known_people(events: Answers, names: Iterable[Any]) -> list[bool]:
    """Whether each event is the preference of one of these."""
    assert events.person is not None
    known = set(map(id_text, names))
    return [id_text(label) in known for label in events.person.labels.tolist()]


def groups_of(
    train: Duels, given: Sequence[Sequence[str]] | None = None
) -> tuple[FeatureGroup, ...]:
    """The features of each raw column, which an additive kernel sums over.

    :param given: as `feature_groups` takes it.
    """
    if train.transform is not None:
        return feature_groups(train.transform, given)
    together.check(feature_groups=given is not None, no_columns=True)
    return single_columns(train.num_features)


def prepare(table: Duels, settings: FitSettings, split: Split | None = None) -> Holdout:
    """Split the table, standardise on the training items, and check what can be checked.

    Warns of features that winner and loser share, which the kernel cannot use. Of texts the kernel
    is that of `default_for` where none was named.

    :param split: how, where that is known already; by default as the settings say.
    :raises ValueError: what `split_duels`, `Duels.standardised` and `FitSettings.of` raise; more
        inducing inputs than distinct training items; a subset larger than the training duels; more
        blocks than distinct pairs; noise by group without groups; only ties in training or among
        the held-out duels, where some are held out; of ties alone none are.
    """
    events = table.given
    Leaning.of(settings.leans, events.covariate_names, events.labels)
    settings = settings.of(table)
    together.check(
        noise_by_group=settings.noise_by_group,
        duels_without_judges=events.judge is None,
        tastes=settings.tastes,
        duels_of_nobody=events.person is None,
        in_time=settings.kernel_choice.in_time and f"the kernel {settings.kernel_choice}",
        duels_without_dates=events.time is None,
        dated_fit=settings.kernel_choice.in_time,
        integrate=settings.integrate == YES,
        margin_only=settings.tie_model != "box",
    )
    _warn_of_shared(table, settings)
    table = table.keeping_apart(settings.kernel_choice.named_columns)
    column = settings.approximation_choice.column
    if column is not None:
        roles = {**table.roles, "block": column}
        table = table.using([column]).replacing(roles=roles)
    table = table.using(split_columns(settings.split))
    if not events.has_sets and events.ties is not None and events.ties.all():
        warnings.warn(
            f"All {int(events.counts.sum()):,} {events.noun} are ties: as far as they tell all "
            "items are equal, and how long intervals are is what the priors say. None is held out, "
            "as nothing tells of who wins.",
            stacklevel=3,
        )
        split = split_duels(table, "duels", 0.0, default_rng(settings.seed))
    if split is None:
        rng = default_rng(settings.seed)
        split = split_duels(
            table, settings.split, settings.test_fraction, rng, max_train=settings.max_train
        )
        if settings.tastes and settings.split == "duels":
            split = holding_out_people(table, split, settings.test_fraction / 2.0, rng)
    settings = _with_tastes_told(settings, table, split)
    _check_order(settings, table.given, split)
    train = table.standardised(split.train_rows)
    everything = train
    if not np.array_equal(split.train_rows, np.arange(table.num_rows)):
        people = train.people_features
        everything = table.standardised(transform=train.transform, people_features=people)
    if settings.kernel is None and not settings.dated and table.raw.texts and train.transform:
        settings = replace(settings, kernel=default_for(train.transform, settings.stream))
    choice = settings.approximation_choice
    settings.kernel_choice.check_columns(train.transform, train.covariate_names)
    _check_effects_in_context(settings.kernel_choice, train)
    if choice.column is not None:
        hint = " (the same within a set), or a number, such as pitc:20"
        check_choice("The column of pitc", choice.column, table.context.columns, hint)
        labels = table.context[choice.column]
        missing = [not id_text(label) for label in labels.tolist()]
        where = "row {} of the duels".format
        refuse_cells(missing, labels, choice.column, where, "give each duel a block")
    holdout = Holdout(settings, train, table, split, everything)
    if isinstance(settings.inducing, int):
        check_inducing_count(settings.inducing, len(train.distinct_rows()[0]))
    undecided = len(split.test_rows) and not len(holdout.decided_rows)
    together.check(only_ties=undecided and "held-out duels that are all ties", scores=True)
    return holdout


def _check_order(settings: FitSettings, events: Answers, split: Split) -> None:
    """Refuse to let later duels tell of utilities at an earlier date.

    :raises ValueError: a held-out duel before the last training one.
    """
    rows, time = split.test_rows, events.time
    if not settings.kernel_choice.in_time or time is None or not len(rows):
        return
    last = time[split.train_rows].max()
    early = rows[time[rows] < last]
    if early.size:
        dates = np.floor([time[early].min(), last]).astype("datetime64[D]")
        raise ValueError(
            f"The split {settings.split!r} holds out {len(early):,} duels before the last training "
            f"one, the first of {dates[0]} before {dates[1]}, of which later results would tell; "
            "hold out the last dates (no --split, or time:COLUMN), or nothing (--test-fraction 0)."
        )


def _with_tastes_told(settings: FitSettings, table: Duels, split: Split) -> FitSettings:
    """The settings, without tastes where training duels cannot tell of any, and a warning."""
    person = table.given.person
    if not settings.tastes or person is None:
        return settings
    names = person.take(split.train_rows).used().names
    each = float(table.given.counts[split.train_rows].sum()) / max(1, len(names))
    noun = table.given.noun
    if len(names) < 2:
        why = f"All training {noun} are those of {shortened(names[0])}, whose taste is all there is"
    elif each < FEWEST_EACH:
        why = (
            f"The {len(names):,} people have {each:.2g} training {noun} each on average, fewer "
            f"than {FEWEST_EACH}, which tell no taste from noise"
        )
    else:
        judge = table.given.judge
        if settings.noise_by_group and judge is not None:
            # Where whoever judges is whose preference it is, both say why answers look odd.
            pairs = len(np.unique(np.stack([judge.numbers, person.numbers], 1), axis=0))
            if pairs == len(np.unique(person.numbers)) == len(np.unique(judge.numbers)):
                warnings.warn(
                    "Each person has a noise and a taste, which duels tell apart only where people "
                    "judge related pairs again and again; leave out one of them (--noise-by, "
                    "--person) unless held-out duels ask for both.",
                    stacklevel=3,
                )
        _warn_of_contradictions(table.given)
        return settings
    warnings.warn(f"{why}; one utility is fitted for all.", stacklevel=3)
    return replace(settings, tastes=False, taste=None)


def _warn_of_contradictions(events: Answers) -> None:
    """Of people who won each pair as often as they lost it, and tell of no taste."""
    if events.has_sets or events.person is None:
        return
    plain = events.without_grades()
    ends, who = plain.sides.reshape(-1, 2), events.person.numbers
    won = np.where(plain.kind == WIN, plain.totals, 0.0)
    keys = np.stack([who, ends.min(1), ends.max(1)])
    pairs, number = np.unique(keys, axis=1, return_inverse=True)
    net = np.bincount(number.reshape(-1), np.where(ends[:, 0] < ends[:, 1], won, -won))
    people = len(events.person.names)
    decided = np.bincount(pairs[0], net != 0.0, minlength=people) > 0
    idle = np.flatnonzero((np.bincount(who, won, minlength=people) > 0.0) & ~decided)
    if len(idle):
        warnings.warn(
            f"{len(idle):,} of {people:,} people, {shortened(events.person.names[idle[0]])} among "
            "them, preferred either side of each of their pairs equally often, which tells of no "
            "taste; look whether winners and losers are in the right columns.",
            stacklevel=4,
        )


def _check_effects_in_context(kernel: KernelChoice, train: Duels) -> None:
    """Refuse effects of items in a context where none of them has more than one."""
    groups = () if train.transform is None else groups_of(train)
    columns = {group.name: group.columns for group in groups}
    same = np.unique(train.item, return_index=True, return_inverse=True)
    first = same[1][same[2].reshape(-1)]
    for term, names in kernel.item_columns().items():
        seen = [i for name in names for i in columns.get(name, ())]
        if seen and np.array_equal(train.items[:, seen], train.items[first][:, seen]):
            raise ValueError(
                f"The kernel has {term}, but no item is in more than one context: each has always "
                f"the same {', '.join(map(repr, names))}; name columns of the duels that are its "
                "context (--context), or use item alone."
            )


def _warn_of_shared(table: Duels, settings: FitSettings) -> None:
    """Of features that both sides share, and what the kernel or the approximation makes of them."""
    choice, people = settings.approximation_choice, table.described_people
    if table.shared and settings.kernel_choice.cancels_shared:
        names = ", ".join(repr(name) for name in table.shared)
        warnings.warn(
            f"Winner and loser share their {names}, which cancels in the kernel "
            f"{settings.kernel_choice}; use one that lets features act together, such as "
            "linear+matern52.",
            stacklevel=3,
        )
    if people and choice.remembers_people:
        warnings.warn(
            f"The approximation {choice} remembers the {people:,} people whose "
            f"{some_of([*map(repr, table.shared)])} both sides share, and its evidence rewards "
            "that, though it predicts new people worse; use vfe.",
            stacklevel=3,
        )
