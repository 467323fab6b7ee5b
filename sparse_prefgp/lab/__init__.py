"""Ablation studies, their report, benchmarks and the Gaussian limit."""
