"""Settings that must hold before anything heavy is imported, in every test process."""

import gc
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

pytest_plugins = ["tests.processor_time"]

# TensorFlow reads these when it is first imported; `make test` sets the numbers of threads.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The first call of a compiled function takes seconds, so a time limit for an example means nothing.
settings.register_profile("default", deadline=None)
# The same examples each time where nobody watches: a failure there must be one that can be redone.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Modules are imported, and stay: garbage is not looked for among them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without the slow tests, graphs run as they are written.

    Each is run a few times on a few rows, for which rewriting it first takes longer than it saves;
    `make test-all` has all tests with graphs as users run them.
    """
    if session.config.option.markexpr == "not slow" and "tensorflow" in sys.modules:
        optimizer = sys.modules["tensorflow"].config.optimizer
        optimizer.set_experimental_options({"disable_meta_optimizer": True})
