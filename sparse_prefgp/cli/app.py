"""All commands of `sparse-prefgp`."""

from sparse_prefgp.cli.commands import app_of

app = app_of()
