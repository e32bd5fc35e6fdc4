"""This machine's processor, read from the operating system's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.devices import gpu_named, processor
from planner.engine.devices.processor import NodeMemory, id_list, processor_gpu
from planner.engine.gpu import GPU, Processor
from planner.errors import PlannerError

_NODE = """\
Node {node} MemTotal:       {total} kB
Node {node} MemFree:        1000 kB
Node {node} MemUsed:        3000 kB
Node {node} Active(file):   300 kB
Node {node} Inactive(file): 200 kB
Node {node} SReclaimable:   50 kB
"""
_CPUINFO = """\
processor\t: 0
model name\t: A Processor
flags\t\t: fpu avx512f avx512_bf16

processor\t: 1
flags\t\t: fpu
"""


def write(root: Path, path: str, text: str) -> None:
    """Write one of the operating system's files."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a machine of two memory nodes, 4,000 and 8,000 kB."""
    for node, total, cpus in ((0, 4000, "0-3"), (1, 8000, "4-7")):
        folder = f"sys/devices/system/node/node{node}"
        write(tmp_path, f"{folder}/meminfo", _NODE.format(node=node, total=total))
        write(tmp_path, f"{folder}/cpulist", f"{cpus}\n")
    write(tmp_path, "proc/cpuinfo", _CPUINFO)
    write(tmp_path, "proc/self/status", "Name:\tpython\nMems_allowed_list:\t0-1\n")
    return tmp_path


def read(root: Path, *processors: int, **environment: str) -> GPU:
    """Read the machine as a process that may use these processors."""
    return processor_gpu(root, environment=environment, processors=processors)


def test_free_and_file_memory_is_available(root: Path) -> None:
    """1,000 + 300 + 200 + 50 kB of the 4,000 kB of node 0."""
    found = read(root, 0, 1)

    assert found.total_memory_bytes == 4000 * 1024
    assert found.free_memory_bytes == 1550 * 1024
    assert found.device_name == "A Processor"
    assert found.is_cpu


@pytest.mark.parametrize(
    ("binding", "node"), [("auto", 0), ("nobind", 1), ("2-3|4-5", 0), ("6|0", 1)]
)
def test_the_node_that_the_first_worker_is_bound_to_counts(
    root: Path, binding: str, node: int
) -> None:
    """Processors 4 to 7 belong to node 1; vLLM binds by itself to the first node."""
    found = read(root, 7, 5, VLLM_CPU_OMP_THREADS_BIND=binding)
    assert found.processor is not None

    assert found.processor.memory_node == node
    assert found.total_memory_bytes == (4000, 8000)[node] * 1024


@pytest.mark.parametrize(
    ("environment", "node"),
    [
        ({"CPU_VISIBLE_MEMORY_NODES": "1"}, 1),
        ({"CPU_VISIBLE_MEMORY_NODES": "0,1"}, 0),
        ({"CPU_VISIBLE_MEMORY_NODES": "1,0"}, 1),
        ({"CPU_VISIBLE_MEMORY_NODES": ""}, 0),
        ({"CPU_VISIBLE_MEMORY_NODES": "1", "VLLM_CPU_SIM_MULTI_NUMA": "1"}, 0),
    ],
)
def test_nodes_may_be_chosen(
    root: Path, environment: dict[str, str], node: int
) -> None:
    """The first of them, where the processor's own is not among them."""
    found = read(root, 0, **environment).processor
    assert found is not None
    assert found.memory_node == node


@pytest.mark.parametrize(
    ("files", "total_kib", "free_kib"),
    [
        ({"memory.max": "max"}, 4000, 1550),
        ({"memory.max": str(2000 * 1024), "memory.current": "1024"}, 2000, 1550),
        (
            {"memory.max": str(2000 * 1024), "memory.current": str(1900 * 1024)},
            2000,
            100,
        ),
        ({"memory.max": str(5000 * 1024), "memory.current": "0"}, 4000, 1550),
        (
            {
                "memory/memory.limit_in_bytes": str(2000 * 1024),
                "memory/memory.usage_in_bytes": str(3000 * 1024),
            },
            2000,
            0,
        ),
        ({"memory/memory.limit_in_bytes": str((1 << 63) - 4096)}, 4000, 1550),
    ],
)
def test_a_control_group_limits_both(
    root: Path, files: dict[str, str], total_kib: int, free_kib: int
) -> None:
    """Both versions of control groups; a limit above the node's total is none."""
    for name, text in files.items():
        write(root, f"sys/fs/cgroup/{name}", text + "\n")
    found = read(root, 0)

    assert found.total_memory_bytes == total_kib * 1024
    assert found.free_memory_bytes == free_kib * 1024


def test_without_memory_nodes_the_systems_memory_counts(tmp_path: Path) -> None:
    """As on small boards: MemTotal and MemAvailable."""
    text = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 7000 kB\nHugePages: 0\n"
    write(tmp_path, "proc/meminfo", text)
    found = read(tmp_path, 0)

    assert found.total_memory_bytes == 9000 * 1024
    assert found.free_memory_bytes == 7000 * 1024
    assert found.processor == Processor(
        architecture=found.processor.architecture if found.processor else "",
        flags=None,
    )


def test_a_system_that_tells_nothing_is_named(tmp_path: Path) -> None:
    """What to do instead is said."""
    with pytest.raises(PlannerError, match=r"planner\.GPU\(name='CPU'"):
        read(tmp_path, 0)


def test_the_flags_are_the_first_processors(root: Path) -> None:
    """Of x86; other architectures have none of its instruction sets."""
    found = read(root, 0).processor
    assert found is not None

    assert found.flags == ("fpu", "avx512f", "avx512_bf16")
    x86 = Processor(flags=found.flags)
    assert (x86.has("avx512_bf16"), x86.has("amx_tile")) == (True, False)
    assert Processor(architecture="aarch64").has("amx_tile") is False
    assert Processor().has("amx_tile") is None


def test_lists_of_numbers_are_read_with_their_ranges() -> None:
    """Unreadable parts are left out."""
    assert id_list("0-2,4,7-8\n") == (0, 1, 2, 4, 7, 8)
    assert id_list("") == ()
    assert id_list("x,3") == (3,)
    assert id_list(f"\u00b2,{'9' * 5000},3-\u00b2") == (3,)
    assert len(id_list("0-999999999")) == 1 << 16


def test_the_name_cpu_reads_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any case."""
    mine = GPU(name="CPU", total_memory_bytes=1 << 30)
    monkeypatch.setattr("planner.engine.devices.processor.processor_gpu", lambda: mine)

    assert gpu_named("cpu ") is mine


def test_a_limit_leaves_what_is_not_used_of_it() -> None:
    """3,000 of a limit of 4,000 bytes are used: 1,000 are available."""
    memory = NodeMemory(total_bytes=10_000, available_bytes=9_000)
    group = processor.GroupMemory(limit_bytes=4_000, usage_bytes=3_000)

    assert processor.limited(memory, group) == NodeMemory(
        total_bytes=4_000, available_bytes=1_000
    )
    assert processor.limited(memory, None) is memory


def test_a_processor_is_named_with_its_memory() -> None:
    """Without it, what to do is said."""
    assert GPU.named("cpu", total_memory_bytes=1 << 30) == GPU(
        name="CPU", total_memory_bytes=1 << 30
    )
    with pytest.raises(PlannerError, match="gpu='CPU'"):
        GPU.named("CPU")


def test_a_described_processor_needs_no_compute_capability() -> None:
    """A GPU does."""
    assert GPU(name="CPU", total_memory_bytes=1 << 30).is_cpu
    with pytest.raises(PlannerError, match="compute_capability"):
        GPU(name="mine", total_memory_bytes=1 << 30)
