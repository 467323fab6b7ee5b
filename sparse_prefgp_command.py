"""What the command `sparse-prefgp` starts.

It is no part of the package: where GPflow is missing, importing the package fails, and whoever
gave a command is to read one sentence and no traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exit code 2 where GPflow is missing."""
    try:
        from sparse_prefgp.cli import main as run

        run()
    except ModuleNotFoundError as error:
        if error.name != "gpflow":
            raise
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # what is imported takes its time
        print("Stopped before the end; no file was left half written.", file=sys.stderr)
        sys.exit(130)
