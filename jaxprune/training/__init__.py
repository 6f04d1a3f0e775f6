"""Runs: training, evaluation, checkpoints, sweeps."""
