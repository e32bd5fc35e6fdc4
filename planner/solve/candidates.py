"""What a search of set-ups tries: numbers of GPUs, and the layouts on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from planner.engine.gpu import GPU
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.planning.serving import Serving
from planner.solve.fewest_gpus import Search
from planner.solve.formats import ServedFormat
from planner.solve.layouts import Layout, Room, keeps_given, spread, variants

Generation: TypeAlias = "tuple[str, tuple[int, int], str]"
"""A format, a compute capability, and the name of a GPU that is like no other."""


def generation_of(gpu: GPU, form: ServedFormat) -> Generation:
    """Return by what layouts are legal, and weights and tokens take as much."""
    is_own = gpu.is_cpu or gpu.is_integrated or gpu.free_memory_bytes is not None
    return form.name, gpu.compute_capability, gpu.name if is_own else ""


def numbers_of_gpus(inputs: Inputs, room: Room) -> list[int]:
    """Return the numbers of GPUs to try: all multiples of the sizes that are given.

    >>> numbers_of_gpus(Inputs(model="m"), Room(gpus_per_node=3, nodes=1))
    [1, 2, 3]
    """
    base = 1
    for name in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    ):
        base *= inputs.engine_args.get(name) or 1
    return list(range(base, room.gpus + 1, base))


def layouts_on(count: int, room: Room, inputs: Inputs, start: Plan) -> Iterator[Layout]:
    """Yield the layouts on so many GPUs that keep the sizes that are given."""
    for layout in spread(count, room):
        if keeps_given(layout, inputs):
            yield from variants(layout, inputs, start)


def largest(search: Search, inputs: Inputs, start: Plan, room: Room) -> Serving | None:
    """Return the start on most GPUs, where memory rules out all layouts."""
    for count in reversed(numbers_of_gpus(inputs, room)):
        for layout in layouts_on(count, room, inputs, start):
            serving = search.serve(layout, search.load)
            if serving is not None:
                return serving
    return None
