"""The options of a start besides its plan, and the events that report its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.values import frozen

if TYPE_CHECKING:
    from planner.ray.bundles import NodeType

WEIGHTS = ("dummy", "real")


@frozen
class RunOptions:
    """How to start vLLM for a plan.

    Raises:
        PlannerError: for an invalid value.
    """

    weights: str = "dummy"
    """dummy: random numbers in the right shapes, without a download; real: the
    checkpoint's, from the Hub or the model's folder."""
    python: str | None = None
    """Python of vLLM's environment; None: PLANNER_VLLM_PYTHON, else this one."""
    time_limit_seconds: float = 1800.0
    """Time after which vLLM is ended, ready or not."""
    load_requests: int | None = None
    """Requests of the planned length to send at once when vLLM is ready; None: none."""
    port: int | None = None
    """The server's port; None: a free one."""
    is_stored: bool = True
    """Whether the figures are stored for later plans."""
    is_filmed: bool = False
    """Whether the memory of the first GPU is sampled while vLLM starts."""

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
        check_time_limit(self.time_limit_seconds)


def check_time_limit(seconds: float) -> None:
    """Refuse a limit that ends a start before it begins.

    Raises:
        PlannerError: for a limit that is not above 0.
    """
    if seconds <= 0:
        raise PlannerError(f"time_limit_seconds={seconds!r}: a number above 0.")


@frozen
class ClusterOptions:
    """How to start vLLM on the machines of a Ray cluster.

    Raises:
        PlannerError: for an invalid value.
    """

    address: str
    """auto, local, host:port, or ray://host:port."""
    retries: int = 2
    """How often a start is repeated after its worker or machine was lost."""
    cpus: float | None = None
    """CPUs that a start requests. None: one for starts on GPUs; for the CPU backend all
    CPUs of the largest machine, since two starts on one would share its memory."""
    wait_seconds: float = 1800.0
    """How long a start waits for a machine that an autoscaler may add."""
    patience_seconds: float = 15.0
    """How long it waits if no machine has what it needs and none may be added."""
    silence_seconds: float = 60.0
    """Time without a message after which the cluster counts as gone."""
    node_types: tuple[NodeType, ...] = ()
    """Machines that an autoscaler may add, if it does not report them itself."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """Ray's runtime_env of all starts, such as variables; the planner is added."""

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


@frozen
class Event:
    """A new stage, new lines of the log, or both."""

    stage: StartStage
    """The current stage of the run."""
    fraction: float = 0.0
    """Completed share of the whole run, 0 to 1, for a progress bar."""
    lines: tuple[str, ...] = ()
    """Lines of the log since the last event."""
    seconds: float = 0.0
    """Time since the run began."""
    reached: tuple[StartStage, ...] = ()
    """The stages until now, this one included; empty: unknown."""


@frozen
class ClusterEvent(Event):
    """An event of one of several starts on a cluster."""

    number: int
    """Number of the plan, from 0."""
    attempt: int = 0
    """How often it was started before."""
    machine: str = ""
    """Where it runs; empty if it does not run yet."""
    note: str = ""
    """That it waits for a machine, or why it is started again."""


Listener: TypeAlias = Callable[[Event], None]
"""Called in the run's thread, not in the caller's; on a cluster in the caller's."""
