"""Confirm: start vLLM, read what it measured, compare it with the estimate.

Read in this order: `run` (one start, from arguments to figures), `stages` (the progress
of a start), `log/` (vLLM's log), `measurement` (what vLLM measured), `comparison`
(estimate and measurement side by side), `confirmation` (the result). `many` confirms
several plans, `many_cluster` does so on a Ray cluster. `beside_vllm/` has the programs
that run beside vLLM, in vLLM's Python environment.
"""
