"""What takes memory beside the budget, and the warnings of it."""

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.memory.lines.outside import lines
from planner.units import GIB
from tests.configs import LLAMA_8B, architecture, gpu
from tests.runs import run
from tools.configs import named

SIZES = tuple(range(8, 513, 8))


def names(**facts: object) -> dict[str, int]:
    """Return the lines beside the budget by name."""
    start = run(**facts)  # type: ignore[arg-type]
    return {line.name: line.size_bytes for line in lines(start, (), 0)}


def test_a_context_is_always_there() -> None:
    """About half a GiB; more where NCCL starts before the first look."""
    alone = names()["CUDA context"]
    two = names(layout=ParallelLayout(tensor_parallel_size=2))["CUDA context"]
    assert 0.4 * GIB < alone < 0.7 * GIB
    assert two > alone


def test_nccl_starts_with_less_where_there_is_no_switch() -> None:
    """Two H100 miss 0.51 + 1.02 GiB; four RTX PRO 6000 0.54 + 0.42 GiB."""
    two = ParallelLayout(tensor_parallel_size=2)
    joined, apart = (
        next(each for each in lines(start, (), 0) if each.name == "CUDA context")
        for start in (
            run(layout=two),
            run(layout=two, gpu=GPU.named("RTXPRO6000")),
        )
    )
    assert abs(joined.size_bytes - 1.535 * GIB) < 0.01 * GIB
    # Four RTX PRO 6000 without NVLink: 95.01 GiB less 94.05 GiB that were free.
    assert abs(apart.size_bytes - (95.01 - 94.05) * GIB) < 0.02 * GIB
    assert apart.low_bytes < (95.01 - 94.05) * GIB < apart.high_bytes
    assert ("measured", "assumed") == (joined.basis.value, apart.basis.value)


def test_two_t4_start_at_nine_tenths() -> None:
    """A published start of 0.31 asked for 13.1 of 14.56 GiB, and had them."""
    plan = planner.plan(
        named("Qwen--Qwen2.5-3B"),
        "T4",
        tensor_parallel_size=2,
        gpu_memory_utilization=0.9,
        max_model_len=4096,
        dtype="float16",
        vllm_version="0.31.0",
    )
    assert plan.error is None


def test_older_releases_leave_sampler_state_and_graphs_uncharged() -> None:
    """0.19 charges neither."""
    older = names(version="0.19.0", capture_sizes=SIZES, uses_v2_runner=False)
    assert older["CUDA graphs not charged"] > 0
    assert older["buffers not counted"] == 13 * 8192 + 12 * 1024
    assert "buffers not counted" not in names()


def plan(device: GPU, **settings: object) -> planner.Plan:
    """Plan Llama-3.1-8B."""
    return planner.plan(architecture(LLAMA_8B), device, **settings)  # type: ignore[arg-type]


def test_a_utilization_that_leaves_too_little_is_warned_of() -> None:
    """Half a GiB and more is needed beside the budget; 0.9 leaves enough."""
    assert not plan(gpu(), gpu_memory_utilization=0.9).notes
    (note,) = plan(gpu(), gpu_memory_utilization=0.992, vllm_version="0.19.0").notes
    assert note.startswith("gpu_memory_utilization=0.992 leaves 0.63 GiB")
    safe = float(note.rsplit("Use ", 1)[1].split()[0])
    assert 0.9 < safe < 0.992
    assert not plan(gpu(), gpu_memory_utilization=safe, vllm_version="0.19.0").notes


def test_all_of_a_gpu_is_never_free() -> None:
    """CUDA's context is gone before vLLM looks."""
    whole = plan(gpu(), gpu_memory_utilization=1.0)
    assert whole.error is not None
    assert whole.error.kind == "free_memory"


def test_memory_of_others_is_named() -> None:
    """10 GiB in use by somebody else."""
    total = 80 * GIB
    device = GPU.named(
        "H100", total_memory_bytes=total, free_memory_bytes=total - 10 * GIB
    )
    notes = plan(device, gpu_memory_utilization=0.5).notes
    assert any(note.startswith("10.00 GiB of this GPU are in use") for note in notes)


@pytest.mark.parametrize(
    ("name", "kept_gib"),
    # Total less free memory at the start of published runs of one card.
    [
        ("A100-80GB", 79.25 - 78.84),
        ("A10G", 22.06 - 21.83),
        ("H100", 79.19 - 78.68),
        ("RTXPRO6000", 94.97 - 94.43),
        ("RTX4090", 23.65 - 23.21),
        ("TitanRTX", 23.47 - 23.3),
        ("RTX5080", 15.51 - 15.28),
    ],
)
def test_the_context_grows_with_the_threads_a_gpu_can_hold(
    name: str, kept_gib: float
) -> None:
    """Local memory is reserved for each of them; within 0.12 GiB of what was seen."""
    (line,) = (
        each
        for each in lines(run(gpu=GPU.named(name)), (), 0)
        if each.name == "CUDA context"
    )
    assert abs(line.size_bytes / GIB - kept_gib) < 0.12


def test_windows_and_shared_memory_keep_more() -> None:
    """Linux beside Windows: 22.45 of 23.99 GiB were free; GB10: 112.26 of 119.63."""

    def kept_gib(device: GPU) -> float:
        found = lines(run(gpu=device), (), 0)
        return next(x for x in found if x.name == "CUDA context").size_bytes / GIB

    beside = GPU.named("RTX4090", is_under_wsl=True)
    assert abs(kept_gib(beside) - (23.99 - 22.45)) < 0.12
    assert 6 < kept_gib(GPU.named("GB10")) < 11


def test_a_t4_starts_with_nearly_all_of_its_memory() -> None:
    """A published start had 0.99 of 14.56 GiB; the context has about 0.08 GiB."""
    start = planner.plan(
        architecture(LLAMA_8B),
        "T4",
        dtype="half",
        gpu_memory_utilization=0.99,
        max_model_len=1024,
        quantization="bitsandbytes",
        vllm_version="0.25.1",
    )
    assert start.error is None or start.error.kind != "free_memory"


def test_unified_memory_is_warned_of() -> None:
    """GB10 shares its memory with the processor."""
    notes = planner.plan(architecture(LLAMA_8B), "GB10").notes
    assert any("share their memory" in note for note in notes)


def test_an_ignored_offload_is_warned_of() -> None:
    """0.27 with the second runner."""
    notes = {
        version: plan(gpu(), cpu_offload_gb=4, vllm_version=version).notes
        for version in ("0.27.1", "0.28.0")
    }
    assert any("ignores cpu_offload_gb" in note for note in notes["0.27.1"])
    assert not any("ignores" in note for note in notes["0.28.0"])


def test_wsl_is_warned_of() -> None:
    """1,024 x 8,192 x 4 bytes of token ids may lie on the GPU."""
    device = GPU.named("H100", is_under_wsl=True)
    notes = plan(device, max_model_len=8192).notes
    assert any("WSL" in note and "0.03 GiB" in note for note in notes)
    assert not any("WSL" in note for note in plan(gpu(), max_model_len=8192).notes)
