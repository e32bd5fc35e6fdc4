"""This machine's processor and its memory, as vLLM's CPU build reads them.

Everything comes from files of the operating system: the memory node that the first
worker is bound to, that node's memory, and the control group's limit.

Source: vLLM 0.33.0 `utils/cpu_resource_utils.py`, `v1/worker/cpu_worker.py` CPUWorker.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from planner.engine.gpu import CPU, GPU, Processor
from planner.errors import PlannerError
from planner.units import KIB, whole_number
from planner.values import frozen

_ROOT = Path("/")
_NODES = Path("sys/devices/system/node")
_NO_LIMIT = 1 << 62
"""Version 1 of control groups writes about 2**63 for no limit."""
_VISIBLE_NODES = "CPU_VISIBLE_MEMORY_NODES"
_SIMULATED = "VLLM_CPU_SIM_MULTI_NUMA"
_BINDING = "VLLM_CPU_OMP_THREADS_BIND"
_AUTO, _UNBOUND = "auto", "nobind"
_MOST_PROCESSORS = 1 << 16
"""No machine has as many; a list that a user writes may name more."""
_AVAILABLE_FIELDS = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


@frozen
class NodeMemory:
    """The memory of one NUMA node."""

    total_bytes: int
    available_bytes: int
    """Free, or used by caches that can be dropped."""


@frozen
class GroupMemory:
    """A control group's memory limit and usage."""

    limit_bytes: int
    usage_bytes: int


def processor_gpu(
    root: Path = _ROOT,
    *,
    environment: Mapping[str, str] | None = None,
    processors: Sequence[int] | None = None,
) -> GPU:
    """Return this machine's processor as a GPU to plan with.

    Args:
        root: root of the operating system's files.
        environment: environment variables; None for this process's.
        processors: numbers of the allowed processors; None for this process's.

    Raises:
        PlannerError: if the operating system does not report its memory.
    """
    environment = os.environ if environment is None else environment
    node = _memory_node(root, environment, _first(processors))
    memory = limited(_node_memory(root, node), group_memory(root))
    text = _read(root / "proc/cpuinfo")
    return GPU(
        name=CPU,
        total_memory_bytes=memory.total_bytes,
        free_memory_bytes=memory.available_bytes,
        device_name=model_name(text) or platform.processor(),
        processor=Processor(
            architecture=platform.machine().lower(),
            flags=processor_flags(text),
            memory_node=node,
        ),
        source=f"memory node {node} of this machine, as vLLM's CPU build reads it",
        total_basis="measured",
    )


def _first(processors: Sequence[int] | None) -> int:
    if processors is None:
        if not hasattr(os, "sched_getaffinity"):
            return 0
        processors = sorted(os.sched_getaffinity(0))
    return min(processors, default=0)


def node_memory(text: str) -> NodeMemory:
    """Read a memory node's meminfo, with lines such as "Node 0 MemTotal: 4 kB".

    Raises:
        PlannerError: if a figure is missing.
    """
    kib = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[3].isdigit():  # noqa: PLR2004 - Node 0 Name: 1
            kib[words[2].rstrip(":")] = int(words[3])
    return _from_kib(kib, _AVAILABLE_FIELDS)


def system_memory(text: str) -> NodeMemory:
    """Read /proc/meminfo, for machines without memory nodes.

    Raises:
        PlannerError: if a figure is missing.
    """
    kib = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            kib[name] = int(words[0])
    return _from_kib(kib, ("MemAvailable",))


def _from_kib(kib: Mapping[str, int], available: Sequence[str]) -> NodeMemory:
    missing = [name for name in ("MemTotal", *available) if name not in kib]
    if missing:
        raise PlannerError(
            "The operating system does not report this machine's memory "
            f"({', '.join(missing)} missing). Describe it as planner.GPU(name='CPU', "
            "total_memory_bytes=...)."
        )
    return NodeMemory(
        total_bytes=kib["MemTotal"] * KIB,
        available_bytes=sum(kib[name] for name in available) * KIB,
    )


def limited(memory: NodeMemory, group: GroupMemory | None) -> NodeMemory:
    """Return the part of a node's memory that the control group allows."""
    if group is None or group.limit_bytes >= memory.total_bytes:
        return memory
    left = group.limit_bytes - group.usage_bytes
    return NodeMemory(
        total_bytes=group.limit_bytes,
        available_bytes=max(0, min(memory.available_bytes, left)),
    )


def group_memory(root: Path = _ROOT) -> GroupMemory | None:
    """Return the control group's limit and usage; None without a limit."""
    groups = root / "sys/fs/cgroup"
    limit = _number(groups / "memory.max")
    if limit is not None:
        usage = _number(groups / "memory.current")
        return GroupMemory(limit_bytes=limit, usage_bytes=usage or 0)
    limit = _number(groups / "memory/memory.limit_in_bytes")
    if limit is None or limit >= _NO_LIMIT:
        return None
    usage = _number(groups / "memory/memory.usage_in_bytes")
    return GroupMemory(limit_bytes=limit, usage_bytes=usage or 0)


def id_list(text: str) -> tuple[int, ...]:
    """Read a list of numbers and ranges.

    >>> id_list("0-2,5")
    (0, 1, 2, 5)
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        begin, end = whole_number(first.strip()), whole_number(last.strip())
        if begin is not None:
            last_one = begin if end is None else end
            found.update(range(begin, min(last_one + 1, _MOST_PROCESSORS)))
    return tuple(sorted(found))


def processor_flags(text: str) -> tuple[str, ...] | None:
    """Return the first processor's instruction sets; None if unknown."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "flags":
            return tuple(rest.split())
    return None


def model_name(text: str) -> str:
    """Return the processor's name in /proc/cpuinfo; empty if unknown."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "model name":
            return rest.strip()
    return ""


def _memory_node(root: Path, environment: Mapping[str, str], processor: int) -> int:
    """Return the first worker's node: the first allowed one, if vLLM binds it.

    Source: vLLM 0.33.0 `utils/ompmultiprocessing.py` OMPProcessManager.
    """
    allowed = _allowed_nodes(root, environment)
    binding = environment.get(_BINDING) or _AUTO
    if binding == _AUTO:
        return allowed[0] if allowed else _node_of(root, processor)
    bound = () if binding == _UNBOUND else id_list(binding.split("|")[0])
    own = _node_of(root, bound[0] if bound else processor)
    return own if own in allowed or not allowed else allowed[0]


def _allowed_nodes(root: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return the nodes that this process may use, in the user's order if set."""
    allowed: tuple[int, ...] = ()
    for line in _read(root / "proc/self/status").splitlines():
        if line.startswith("Mems_allowed_list:"):
            allowed = id_list(line.partition(":")[2])
    visible = environment.get(_VISIBLE_NODES)
    if not visible or _SIMULATED in environment:
        return allowed
    nodes = [whole_number(word.strip()) for word in visible.split(",")]
    return tuple(node for node in nodes if node is not None and node in allowed)


def _node_of(root: Path, processor: int) -> int:
    """Return the memory node that a processor belongs to; 0 without nodes."""
    nodes = root / _NODES
    folders = sorted(nodes.glob("node[0-9]*")) if nodes.is_dir() else []
    for folder in folders:
        if processor in id_list(_read(folder / "cpulist")):
            return int(folder.name.removeprefix("node"))
    return 0


def _node_memory(root: Path, node: int) -> NodeMemory:
    text = _read(root / _NODES / f"node{node}" / "meminfo")
    if text:
        return node_memory(text)
    return system_memory(_read(root / "proc/meminfo"))


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    """Return a file's text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
