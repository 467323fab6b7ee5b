"""Whole pieces of work on a set of duels: hold some out, fit, score, compare, write the files."""
