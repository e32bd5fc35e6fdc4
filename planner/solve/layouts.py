"""Layouts that vLLM accepts: tensor parallel in a machine, pipeline parallel across.

No rule about heads, vocabularies, experts or quantised blocks is repeated here: a
layout is legal when its plan is not refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError, UnknownArchitecture
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.solve.arguments import Start, read_start, refuse_load, whole_number
from planner.values import frozen

SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
MOST_GPUS = 256
"""That are searched; each number of them has its own layouts, and a plan for each."""


@frozen
class Room:
    """The machines that may be used."""

    gpus_per_node: int = 8
    nodes: int = 1

    @classmethod
    def of(cls, gpus_per_node: object, nodes: object) -> Room:
        """Return the machines.

        Raises:
            PlannerError: for counts below 1, and for more than `MOST_GPUS`.
        """
        room = cls(
            gpus_per_node=whole_number("gpus_per_node", gpus_per_node),
            nodes=whole_number("nodes", nodes),
        )
        if room.gpus > MOST_GPUS:
            raise PlannerError(
                f"gpus_per_node={gpus_per_node}, nodes={nodes}: at most {MOST_GPUS} "
                "GPUs are searched. Give fewer."
            )
        return room

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.gpus_per_node * self.nodes

    def within(self, gpu: GPU) -> Room:
        """Return the part of the machines in which such GPUs can work together.

        A CPU is used alone, as is a MIG slice, which cannot communicate with others; a
        GPU that shares the CPU's memory is the only one in its machine.
        """
        if gpu.is_cpu or gpu.mig_profile:
            return Room(gpus_per_node=1, nodes=1)
        if gpu.is_integrated:
            return Room(gpus_per_node=1, nodes=self.nodes)
        return self


@frozen
class Layout:
    """How a model is spread over GPUs.

    >>> Layout(tensor_parallel_size=4, pipeline_parallel_size=2).gpus
    8
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False

    @property
    def gpus(self) -> int:
        """Total number of GPUs: tensor x pipeline x data parallel."""
        return (
            self.tensor_parallel_size
            * self.pipeline_parallel_size
            * self.data_parallel_size
        )

    def arguments(self) -> dict[str, Any]:
        """Return vLLM's engine arguments; None removes one that is not needed."""
        sizes = {name: getattr(self, name) for name in SIZES}
        needed = {name: size if size > 1 else None for name, size in sizes.items()}
        return needed | {"enable_expert_parallel": self.enable_expert_parallel or None}


@named_in_errors
def layouts(
    model: Start,
    gpu: str | GPU | None = None,
    *,
    gpus_per_node: int = 8,
    nodes: int = 1,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> tuple[Layout, ...]:
    """Return the layouts of one replica of a model that vLLM does not refuse.

    A layout may still be too small for the model. Expert parallel is used where vLLM
    refuses to shard experts.

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused.
        gpu: as `planner.plan` accepts it; None: the plan's, else H100.
        gpus_per_node: GPUs in a machine; tensor parallel stays inside it.
        nodes: number of machines; pipeline stages may be on several.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned.
    """
    refuse_load(
        gpu,
        "vLLM takes a layout whatever the load. planner.solve.fewest_gpus asks which "
        "serves one.",
    )
    inputs, _ = read_start(model, gpu, None, arguments)
    start = inputs.plan()
    room = Room.of(gpus_per_node, nodes).within(start.gpu)
    found = []
    for count in range(1, room.gpus + 1):
        for layout in spread(count, room):
            if layout.data_parallel_size == 1:
                found += _legal(inputs, layout, start)
    return tuple(found)


def _legal(inputs: Inputs, layout: Layout, start: Plan) -> list[Layout]:
    for variant in variants(layout, inputs, start):
        try:
            plan = inputs.changed(**variant.arguments()).plan()
        except UnknownArchitecture:
            continue
        if not is_refused(plan):
            return [variant]
    return []


def spread(count: int, room: Room) -> Iterator[Layout]:
    """Yield every layout over `count` GPUs, the usual ones first.

    Layouts with few pipeline stages come first, then those with few replicas; the rest
    is tensor parallel. A stage stays inside its machine.
    """
    for pipeline in _divisors(count):
        for copies in _divisors(count // pipeline):
            tensor = count // pipeline // copies
            if tensor > room.gpus_per_node:
                continue
            if pipeline * copies <= room.nodes * (room.gpus_per_node // tensor):
                yield Layout(
                    tensor_parallel_size=tensor,
                    pipeline_parallel_size=pipeline,
                    data_parallel_size=copies,
                )


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def variants(layout: Layout, inputs: Inputs, start: Plan) -> tuple[Layout, ...]:
    """Return a layout and, for sharded experts, the same with expert parallel."""
    is_moe = start.model is not None and start.model.is_moe
    is_cut = layout.tensor_parallel_size * layout.data_parallel_size > 1
    if not (is_moe and is_cut):
        return (layout,)
    both = (layout, replace(layout, enable_expert_parallel=True))
    given = inputs.engine_args.get("enable_expert_parallel")
    return both if given is None else both[bool(given) :][:1]


def keeps_given(layout: Layout, inputs: Inputs) -> bool:
    """Whether a layout has the sizes that the user gave."""
    given = inputs.engine_args
    return all(given.get(name) in (None, getattr(layout, name)) for name in SIZES)


def is_refused(plan: Plan) -> bool:
    """Whether vLLM refuses the plan's settings."""
    return plan.error is not None and plan.error.kind == "refused"
