"""Plans side by side, sweeps over arguments, and comparisons of GPUs."""

from planner.solve.comparing.sweep import (
    context_against_concurrency,
    gpus_against_concurrency,
)

__all__ = ["context_against_concurrency", "gpus_against_concurrency"]
