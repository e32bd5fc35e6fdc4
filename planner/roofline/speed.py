"""SpeedBound: what a plan's GPUs cannot be faster than. A bound, not a forecast."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from planner.load import Load
from planner.result import Basis, Plan

if TYPE_CHECKING:
    from pandas import DataFrame

CAUTION = (
    "A bound, not a forecast: token by token no start is faster, and most are slower. "
    "It leaves out how well kernels do, talk between GPUs, scheduling, sampling and "
    "the processor."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFigure:
    """One figure of a bound with its arithmetic."""

    name: str
    value: float | int | None
    """None: not known, or never."""
    unit: str
    """seconds, tokens per second, bytes, requests or parameters."""
    basis: Basis
    """assumed where routing to experts is taken to favour none."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedBound:
    """What a plan's GPUs cannot be faster than under a load."""

    plan: Plan
    load: Load
    requests: int
    """Worked on at once: the load's, as far as the KV cache and max_num_seqs allow."""
    decode_at_least_seconds: float
    """From one token of a request to its next, on average over the answer."""
    decode_at_full_length_at_least_seconds: float
    """The same at the end of the answer."""
    prefill_at_least_seconds: float
    """Of one prompt, alone."""
    request_at_least_seconds: float
    """Of one request: its prompt, then its answer beside the others'."""
    per_request_at_most_tokens_per_second: float
    """Of answers."""
    total_at_most_tokens_per_second: float
    """Of answers, all requests together."""
    memory_holds: int | None
    """Requests of the load's full length that the KV cache holds at once, even at the
    low end of the estimate's range; None: it sets no limit."""
    compute_limits_from: int | None
    """Requests at once from which computing takes longer than reading; None: never, or
    not known."""
    limited_first_by: str
    """memory, compute, or unknown: which ends first what more requests gain."""
    figures: tuple[BoundFigure, ...]
    """All of them with their arithmetic."""
    notes: tuple[str, ...]

    @property
    def limit(self) -> str:
        """Say beyond which concurrency what limits."""
        holds, ridge = self.memory_holds, self.compute_limits_from
        full = "Without a KV cache no number of requests fills it"
        if holds is not None:
            full = f"The KV cache is full at {holds:,} requests of this length"
        if self.limited_first_by == "unknown":
            return f"{full}; from how many on computing limits is not known."
        if ridge is None:
            return (
                f"{full}: beyond that memory, not compute, limits. Reading takes "
                "longer than computing however many requests there are."
            )
        if self.limited_first_by == "memory":
            return (
                f"{full}: beyond that memory, not compute, limits. Computing would "
                f"take longer than reading from {ridge:,} requests on."
            )
        before = "" if holds is None else ", before memory does"
        return (
            f"From {ridge:,} requests at once computing takes longer than reading: "
            f"beyond that compute limits{before}. {full}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: seconds, tokens per second, whole bytes."""
        return {
            "caution": CAUTION,
            "model": self.plan.name,
            "gpu": self.plan.gpu.name,
            "load": asdict(self.load),
            "requests": self.requests,
            "limited_first_by": self.limited_first_by,
            "limit": self.limit,
            "figures": {
                figure.name: {
                    "value": figure.value,
                    "unit": figure.unit,
                    "basis": str(figure.basis),
                    "why": figure.why,
                }
                for figure in self.figures
            },
            "notes": list(self.notes),
        }

    def to_frame(self) -> DataFrame:
        """Return a pandas frame, one row per figure.

        Raises:
            PlannerError: when pandas is not installed.
        """
        from planner.presentation.speed import frame  # noqa: PLC0415

        return frame(self)

    def __str__(self) -> str:
        """Return the bound as text for a terminal."""
        from planner.presentation.speed import speed_text  # noqa: PLC0415

        return speed_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        from planner.presentation.speed import mimebundle  # noqa: PLC0415

        return mimebundle(self)
