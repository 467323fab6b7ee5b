"""Settings that must hold before anything heavy is imported, in every test process."""

import os

from hypothesis import settings

pytest_plugins = ["tests.processor_time"]

# TensorFlow reads these when it is first imported; `make test` sets the numbers of threads.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The first call of a compiled function takes seconds, so a time limit for an example means nothing.
settings.register_profile("default", deadline=None)
# The same examples each time where nobody watches: a failure there must be one that can be redone.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")
