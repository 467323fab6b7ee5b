"""What looks on while something is fitted: the command line prints, a notebook is silent."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

# Stages of a fit, in their order.
READING, COMPARING, HOLDING, LOADING = "reading", "comparing", "holding", "loading"
PLACING, FITTING, ALIKE = "placing", "fitting", "one utility for all"
UNDATED, SCORING, REFITTING, WRITING = "without dates", "scoring", "refitting", "writing"


class Reporter:
    """Follows the stages of a fit; this one says nothing."""

    def started(self, stage: str, about: Any = None) -> AbstractContextManager[Any]:
        """A stage begins, and ends with the context.

        :param stage: one of those above.
        :param about: when fitting, the duels as they are held.
        :return: a context that hands out what is to be called with its progress: when fitting a
            `FitCallbacks`; when reading a stream and when writing a function of what is done and
            the total; when comparing one of `CompareProgress`; else None.
        """
        return nullcontext()

    def done(self, stage: str, result: Any) -> None:
        """What came of a stage: the duels as they are held, what was chosen or placed, a fit with
        its figures and report, the held-out duels, or the names of files that were written."""

    def note(self, text: str) -> None:
        """One sentence on what to know about a fit."""
