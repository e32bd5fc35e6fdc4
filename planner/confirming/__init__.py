"""Confirm: start vLLM, read what it measured, lay it over the estimate.

Read in this order: `run` (one start, from arguments to figures), `stages` (how far it
is), `measurement` (what vLLM told), `comparison` (estimate and measurement side by
side), `confirmation` (the answer). `alone/` holds the programs that run beside vLLM,
in an environment of its own.
"""
