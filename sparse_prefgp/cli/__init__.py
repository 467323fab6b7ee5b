"""The command line `sparse-prefgp`; heavy packages are imported only inside its commands."""

from __future__ import annotations

import sys

from sparse_prefgp.support.extras import install


def main() -> None:
    """Run the command line."""
    try:
        from sparse_prefgp.cli.commands import app_of

        app = app_of(sys.argv[1:])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        print(
            f"Error: The command line needs {error.name}; install it with {install('cli')}.",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:  # what is imported takes its time
        print("Stopped before the end; no file was left half written.", file=sys.stderr)
        sys.exit(130)
    app(prog_name="sparse-prefgp")
