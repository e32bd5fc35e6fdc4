"""Ray's names of accelerators: what a node's GPUs are called as a resource."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from planner.gpu import GPU
from planner.ray.bundles import ACCELERATOR

# Newer releases join words in capitals up to a number; older ones take the first word.
# Source: Ray 2.60.0 and 2.44.1 `_private/accelerators/nvidia_gpu.py`
# NVIDIA_GPU_NAME_PATTERN, _gpu_name_to_accelerator_type.
_NUMBERED = re.compile(r"\w+\s+((?:[A-Z]+\s+)*[A-Z0-9]*\d[A-Z0-9]*)")
_FIRST_WORD = re.compile(r"\w+\s+([A-Z0-9]+)")


def ray_names(gpu: GPU) -> tuple[str, ...]:
    """Return what releases of Ray call a GPU, the newest first; empty: nobody knows.

    >>> ray_names(GPU.named("H100"))
    ('H100',)
    >>> ray_names(GPU.named("RTX 4090"))
    ('GeForce-RTX-4090',)
    >>> ray_names(GPU.named("RTX PRO 6000"))
    ('RTX-PRO-6000', 'RTX')
    """
    told = gpu.device_name
    if gpu.is_cpu or not told:
        return ()
    newer, older = _NUMBERED.match(told), _FIRST_WORD.match(told)
    whole = re.sub(r"^NVIDIA\s+", "", told).strip()
    names = [(newer[1] if newer else whole).replace(" ", "-")]
    if older and len(older[1]) > 1:
        names.append(older[1])
    return tuple(dict.fromkeys(names))


def types_in(totals: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the accelerator types that nodes have, from their resources."""
    found = {
        name.removeprefix(ACCELERATOR)
        for total in totals
        for name in total
        if name.startswith(ACCELERATOR)
    }
    return tuple(sorted(found))
