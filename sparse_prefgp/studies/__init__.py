"""Whole pieces of work on a set of duels: hold some out, fit, score, write the files."""
