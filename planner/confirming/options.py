"""What a user chooses about a start, beside the plan itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.ray.nodes import NodeType

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """How to start vLLM on the machines of a Ray cluster.

    Raises:
        PlannerError: for a choice that there is not.
    """

    address: str
    """auto, local, host:port, or ray://host:port."""
    retries: int = 2
    """How often a start is tried again whose worker or machine went away."""
    cpus: float | None = None
    """CPUs that a start takes of a machine. None: one beside GPUs; for the CPU backend
    all that the largest machine has, since two starts on one would share its memory."""
    wait_seconds: float = 1800.0
    """How long a start waits for a machine that an autoscaler may add."""
    patience_seconds: float = 15.0
    """How long it waits where no machine has what it needs, nor may one be added."""
    silence_seconds: float = 60.0
    """After so long without a word the cluster counts as gone."""
    node_types: tuple[NodeType, ...] = ()
    """What an autoscaler may add, where it does not tell it itself."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """Of Ray, for all starts, such as variables; the planner itself is sent along."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise PlannerError(f"retries={self.retries!r}: a whole number from 0.")
        if self.cpus is not None and self.cpus < 0:
            raise PlannerError(f"cpus={self.cpus!r}: a number from 0, or None.")
        for name in ("wait_seconds", "patience_seconds", "silence_seconds"):
            if getattr(self, name) < 0:
                raise PlannerError(f"{name}={getattr(self, name)!r}: a number from 0.")
        if not self.address:
            raise PlannerError(
                "address='': auto, local, host:port or ray://host:port; None confirms "
                "on this machine without Ray."
            )


CLUSTER = tuple(one.name for one in fields(ClusterOptions) if one.name != "address")
