"""Which inputs of plans differ, and the shortest names that distinguish the plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.planning.inputs import Inputs
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.engine.gpu import GPU
    from planner.planning.result import Plan

_LETTERS = "ABCDEFGH"
_LONGEST_NAME = 36
"""Characters; a longer name does not fit above a bar on a phone."""
_MOST_NAMED = 2
"""The most differing inputs in a name."""


@frozen
class Difference:
    """One input that is not the same in all plans."""

    name: str
    """model, gpu, vllm_version, entrypoint, an environment variable or an argument."""
    values: tuple[Any, ...]
    """One per plan, as given; None: not given."""
    defaults: tuple[Any, ...]
    """vLLM's default where nothing was given; None: given, or not known."""

    def text(self, number: int) -> str:
        """Write the value of one plan.

        >>> Difference(name="a", values=(1, None), defaults=(None, 4096)).text(1)
        '4,096 (default)'
        """
        if self.values[number] is not None:
            return _written(self.values[number])
        default = self.defaults[number]
        return "not given" if default is None else f"{_written(default)} (default)"


def _written(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return str(value)


def differences(plans: Sequence[Plan]) -> tuple[Difference, ...]:
    """Return the inputs that differ, in the order of a plan's arguments."""
    given = [_given(plan) for plan in plans]
    labels = _gpu_labels([plan.gpu for plan in plans])
    for inputs, label in zip(given, labels, strict=True):
        inputs["gpu"] = label
    names = dict.fromkeys(name for inputs in given for name in inputs)
    values = {name: tuple(inputs.get(name) for inputs in given) for name in names}
    return tuple(
        Difference(name=name, values=found, defaults=_defaults(name, plans, found))
        for name, found in values.items()
        if any(value != found[0] for value in found)
    )


def _given(plan: Plan) -> dict[str, Any]:
    """Return all inputs of a plan by name, as given."""
    inputs = Inputs.of(plan)
    return {
        "model": plan.name,
        "gpu": plan.gpu.name,
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
        **inputs.env,
        **inputs.engine_args,
    }


def _gpu_labels(gpus: Sequence[GPU]) -> list[str]:
    """Name GPUs; where GPUs of one name differ, add what differs.

    The origin of a total does not count as a difference.
    """
    bare = [replace(gpu, source="", total_basis="") for gpu in gpus]
    same_name = [
        {one for one, other in zip(bare, gpus, strict=True) if other.name == gpu.name}
        for gpu in gpus
    ]
    return [
        gpu.name if len(alike) == 1 else f"{gpu.name} ({_facts(gpu)})"
        for gpu, alike in zip(gpus, same_name, strict=True)
    ]


def _facts(gpu: GPU) -> str:
    total = f"{format_gib(gpu.total_memory_bytes)}"
    if gpu.free_memory_bytes is not None:
        total += f", {format_gib(gpu.free_memory_bytes)} free"
    return total


def _defaults(
    name: str, plans: Sequence[Plan], values: Sequence[Any]
) -> tuple[Any, ...]:
    return tuple(
        getattr(plan.resolved, name, None) if value is None else None
        for plan, value in zip(plans, values, strict=True)
    )


def short_names(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Name plans by their differences, or by letters where those are unsuitable."""
    found = differences(plans)
    letters = tuple(_LETTERS[: len(plans)])
    if not 1 <= len(found) <= _MOST_NAMED:
        return letters
    names = tuple(
        ", ".join(_short(difference, number) for difference in found)
        for number in range(len(plans))
    )
    is_useful = len(set(names)) == len(names)
    is_short = all(len(name) <= _LONGEST_NAME for name in names)
    return names if is_useful and is_short else letters


def _short(difference: Difference, number: int) -> str:
    """Write a value, with its argument's name where that is not obvious."""
    text = difference.text(number).removesuffix(" (default)")
    if difference.name == "model":
        return text.rstrip("/").rpartition("/")[2]
    if difference.name in ("gpu", "entrypoint"):
        return text
    if difference.name == "vllm_version":
        return f"vLLM {text}"
    return f"{difference.name} {text}"
