"""What a start asks of a Ray cluster, and what to say where no machine has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.ray.accelerators import ray_names, types_in
from planner.ray.bundles import ACCELERATOR, ACCELERATOR_SHARE
from planner.result import Plan

Resources = Mapping[str, float]


class Machines:
    """The machines of a cluster, by their logical resources."""

    def __init__(
        self, nodes: Sequence[Resources], types: Sequence[Resources] = ()
    ) -> None:
        self._nodes = tuple(nodes)
        self._all = (*nodes, *types)

    def asked(self, plan: Plan, cpus: float | None) -> dict[str, float]:
        """Return the resources of one start.

        GPUs are whole, so that nothing else changes their memory meanwhile.
        """
        if plan.gpu.is_cpu:
            return {"CPU": self._most("CPU") if cpus is None else cpus}
        asked = {"CPU": 1.0 if cpus is None else cpus, "GPU": float(plan.gpus_total)}
        names, there = ray_names(plan.gpu), types_in(self._all)
        if names and there:
            name = next((one for one in names if one in there), names[0])
            asked[f"{ACCELERATOR}{name}"] = ACCELERATOR_SHARE
        return asked

    def nowhere(self, asked: Resources) -> str:
        """Say that no machine has what is asked, and what the machines have."""
        have = sorted({_words(node) for node in self._nodes})
        there = "; ".join(have) if have else "no machines"
        return (
            f"No machine of the cluster has {_words(asked)} for one start; it has: "
            f"{there}. Add such a machine, or plan for these."
        )

    def _most(self, name: str) -> float:
        return max((one.get(name, 0.0) for one in self._all), default=1.0) or 1.0


def _words(resources: Resources) -> str:
    """Write resources as a reader counts them: 8 GPUs (H100), 16 CPUs."""
    cpus, gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    kinds = ", ".join(types_in((resources,)))
    words = []
    if gpus:
        words.append(_count(gpus, "GPU") + (f" ({kinds})" if kinds else ""))
    words.append(_count(cpus, "CPU"))
    return " and ".join(words)


def _count(number: float, name: str) -> str:
    return f"{number:g} {name}" + ("" if number == 1 else "s")
