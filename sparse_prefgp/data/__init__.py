"""Duels, the table of events, features, splits, and the graph that the numerics see."""
