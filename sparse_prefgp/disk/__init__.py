"""Folders as they lie on the disk: models, checkpoints, output."""
