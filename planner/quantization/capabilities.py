"""Compute capabilities, as one number, from which on kernels differ."""

TURING = 75
AMPERE = 80
ADA = 89
"""The first with FP8 arithmetic."""
HOPPER = 90
BLACKWELL = 100
