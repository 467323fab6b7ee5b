"""The version of the package; pyproject.toml reads it here, and no other module states it."""

__version__ = "0.2.0"
