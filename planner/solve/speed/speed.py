"""SpeedBound: an upper bound on the speed of a plan's GPUs, not a forecast."""

from __future__ import annotations

from typing import Any

from planner.memory.account import Basis
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.units import counted
from planner.values import frozen
from planner.views import Framed

CAUTION = (
    "A bound, not a forecast: token by token no start is faster, and most are slower. "
    "It ignores kernel efficiency, communication between GPUs, scheduling, sampling "
    "and the processor."
)


@frozen
class BoundFigure:
    """One figure of a bound with its arithmetic."""

    name: str
    value: float | int | None
    """None: unknown, or never."""
    unit: str
    """seconds, tokens per second, bytes, requests or parameters."""
    basis: Basis
    """assumed where all experts are taken to be used equally."""
    why: str


@frozen
class SpeedBound(Framed):
    """An upper bound on the speed of a plan's GPUs under a load."""

    plan: Plan
    load: Load
    requests: int
    """Running at once, at most: the load's, as far as max_num_seqs and the KV cache
    allow, at the high end of its range and with what requests hold on average."""
    decode_at_least_seconds: float
    """Time between two tokens of a request, on average over the answer, beside the
    requests that are sure to run."""
    decode_at_full_length_at_least_seconds: float
    """The same at the end of the answer."""
    prefill_at_least_seconds: float
    """Prefill time of one prompt, running alone."""
    request_at_least_seconds: float
    """Time of one request: its prefill, then its decode beside the others."""
    per_request_at_most_tokens_per_second: float
    """Output tokens of one request."""
    total_at_most_tokens_per_second: float
    """Output tokens of all requests together."""
    memory_holds: int | None
    """Requests of the load's full length that the KV cache holds at once, even at the
    low end of the estimate's range; None: no limit."""
    compute_limits_from: int | None
    """Requests at once from which computing takes longer than reading; None: never, or
    unknown."""
    limited_first_by: str
    """memory, compute or unknown: the limit that more requests reach first."""
    figures: tuple[BoundFigure, ...]
    """All figures with their arithmetic."""
    notes: tuple[str, ...]

    @property
    def limit(self) -> str:
        """What limits, from which number of requests on, in words."""
        holds, ridge = self.memory_holds, self.compute_limits_from
        full = "There is no KV cache to fill"
        if holds is not None:
            full = (
                f"The KV cache is full at {counted(holds, 'requests')} of this length"
            )
        if self.limited_first_by == "unknown":
            return f"{full}; from how many on compute is the limit is not known."
        if ridge is None:
            return (
                f"{full}: memory, not compute, is the limit. Reading takes longer "
                "than computing for any number of requests."
            )
        if self.limited_first_by == "memory":
            return (
                f"{full}: memory, not compute, is the limit. Computing would take "
                f"longer than reading from {counted(ridge, 'requests')} on."
            )
        before = "" if holds is None else ", before memory is"
        return (
            f"From {counted(ridge, 'requests')} at once on, computing takes longer "
            "than reading: "
            f"compute is the limit{before}. {full}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: seconds, tokens per second, whole bytes."""
        return {
            "caution": CAUTION,
            "model": self.plan.name,
            "gpu": self.plan.gpu.name,
            "load": self.load.to_dict(),
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
