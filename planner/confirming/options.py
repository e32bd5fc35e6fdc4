"""What a user chooses about a start, beside the plan itself."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import PlannerError

WEIGHTS = ("dummy", "real")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to start vLLM; the plan says what.

    Raises:
        PlannerError: for a choice that there is not.
    """

    weights: str = "dummy"
    """dummy: random numbers of the right shapes, nothing is downloaded; real: the
    checkpoint's, from the Hub or the model's folder."""
    python: str | None = None
    """Python of the environment that holds vLLM; None: PLANNER_VLLM_PYTHON, else this
    one."""
    time_limit_seconds: float = 1800.0
    """After this long vLLM is ended, ready or not."""
    load_requests: int | None = None
    """Requests of the planned length to send at once when it is ready; None: none."""
    port: int | None = None
    """Of the server; None: a free one."""
    is_stored: bool = True
    """Whether the figures are kept for later plans."""

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise PlannerError(
                f"weights={self.weights!r}: use dummy (random numbers, no download) or "
                "real (the checkpoint's)."
            )
        if self.load_requests is not None and self.load_requests < 1:
            raise PlannerError(
                f"load_requests={self.load_requests!r}: a whole number from 1, or None "
                "for no load probe."
            )
        if self.time_limit_seconds <= 0:
            raise PlannerError(
                f"time_limit_seconds={self.time_limit_seconds!r}: a number above 0."
            )
