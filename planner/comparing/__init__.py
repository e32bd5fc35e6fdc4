"""Plans side by side, sweeps over arguments, and GPUs against each other."""

from planner.comparing.curves import (
    context_against_concurrency,
    gpus_against_concurrency,
)

__all__ = ["context_against_concurrency", "gpus_against_concurrency"]
