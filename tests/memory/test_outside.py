"""What takes memory beside the budget, and the warnings of it."""

import re

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.memory.lines.outside import lines
from planner.show.verdict import verdict_text
from planner.units import GIB, MIB
from tests.configs import LLAMA_8B, architecture, gpu
from tests.runs import run
from tools.configs import named

SIZES = tuple(range(8, 513, 8))


def names(**facts: object) -> dict[str, int]:
    """Return the lines beside the budget by name."""
    start = run(**facts)  # type: ignore[arg-type]
    return {
        line.name: line.size_bytes
        for line in lines(start, (), charged_graph_bytes=0, peak_bytes=0)
    }


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
        next(
            each
            for each in lines(start, (), charged_graph_bytes=0, peak_bytes=0)
            if each.name == "CUDA context"
        )
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


def lora(**changes: object) -> planner.Plan:
    """Plan Qwen3-4B with one adapter on an RTX 4090, as published with 0.27.1."""
    given = {"max_model_len": 8192, "enable_lora": True, **changes}
    card = GPU.named("RTX4090", total_memory_bytes=round(23.52 * GIB))
    model = named("Qwen--Qwen3-4B")
    return planner.plan(model, card, vllm_version="0.27.1", **given)  # type: ignore[arg-type]


def test_graphs_that_do_not_fit_beside_the_budget_are_part_of_the_verdict() -> None:
    """A published start at 0.92 failed while it captured graphs; 0.85 started."""
    made = lora(gpu_memory_utilization=0.92)
    assert not made.fits
    assert made.error is not None
    assert re.search(r"graph capture (may )?fails?: use 0\.[89]", verdict_text(made))
    assert "1.88 GiB outside vLLM's budget" in made.error.message
    assert lora(gpu_memory_utilization=0.85).fits


def test_the_safe_share_is_the_largest_that_fits() -> None:
    """One hundredth more is in doubt; JSON has it, and advice keeps it."""
    safe = lora(gpu_memory_utilization=0.92).to_dict()["safe_gpu_memory_utilization"]
    assert 0.85 < safe < 0.92
    assert lora(gpu_memory_utilization=safe).fits
    assert lora(gpu_memory_utilization=safe).safe_gpu_memory_utilization is None
    above = lora(gpu_memory_utilization=round(safe + 0.01, 2))
    assert (above.fits, above.outcome.value) == (False, "too close to call")
    assert above.error is not None
    assert above.error.kind == "too_close"
    assert "graph capture may fail" in verdict_text(above)
    shares = [
        item.changes["gpu_memory_utilization"]
        for item in planner.advise(lora(gpu_memory_utilization=0.92)).items
        if set(item.changes) == {"gpu_memory_utilization"}
    ]
    assert shares
    assert max(shares) <= safe


def test_other_programs_of_a_desktop_are_part_of_the_risk() -> None:
    """A published first start at 0.92 failed beside a program of 500 MiB.

    Free memory that was measured says what others hold, and no GPU of a server draws a
    desktop.
    """
    first = {"gpu_memory_utilization": 0.92, "compile_cache": "cold"}
    made = lora(**first)
    assert made.outcome.value == "too close to call"
    assert made.error is not None
    assert "desktop took up to 0.44 GiB" in made.error.message
    total = round(23.52 * GIB)
    alone = GPU.named("RTX4090", total_memory_bytes=total, free_memory_bytes=total)
    assert made.changed(gpu=alone).fits
    server = GPU.named("RTX4090", total_memory_bytes=total, device_name="NVIDIA L40")
    assert made.changed(gpu=server).fits


@pytest.mark.parametrize("share", [0.85, 0.8])
def test_specialised_graphs_of_adapters_multiply_what_is_needed(share: float) -> None:
    """Two published starts with 64 adapters failed: 459 + 315 graphs, 4.5 times."""
    args = {"max_loras": 64, "gpu_memory_utilization": share}
    assert lora(**args).fits
    made = lora(**args, specialize_active_lora=True)
    assert made.error is not None
    assert (made.error.kind, made.outcome.value) == ("outside_budget", "does not fit")
    assert "graph capture fails" in verdict_text(made)
    assert made.max_model_len_that_fits is None


def test_the_samplers_warm_up_needs_what_the_profile_run_did_not() -> None:
    """0.27's second runner samples without parameters first: 14 bytes a logit later."""
    start = run(version="0.27.1", max_num_seqs=256)
    found = {
        line.name: line.size_bytes
        for line in lines(start, (), charged_graph_bytes=0, peak_bytes=100 * MIB)
    }
    assert found["sampler's warm-up"] == 256 * 128_256 * 14 - 100 * MIB
    assert "sampler's warm-up" not in names(max_num_seqs=256)


def test_a_share_that_leaves_enough_is_not_mentioned() -> None:
    """Nor is one where nothing is allocated after the first check."""
    assert plan(gpu(), gpu_memory_utilization=0.9).fits
    eager = plan(gpu(), gpu_memory_utilization=0.98, enforce_eager=True)
    assert eager.error is None


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
        for each in lines(
            run(gpu=GPU.named(name)), (), charged_graph_bytes=0, peak_bytes=0
        )
        if each.name == "CUDA context"
    )
    assert abs(line.size_bytes / GIB - kept_gib) < 0.12


def test_windows_and_shared_memory_keep_more() -> None:
    """Linux beside Windows: 22.45 of 23.99 GiB were free; GB10: 112.26 of 119.63."""

    def kept_gib(device: GPU) -> float:
        found = lines(run(gpu=device), (), charged_graph_bytes=0, peak_bytes=0)
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
    made = planner.plan(architecture(LLAMA_8B), "GB10")
    (note,) = (note for note in made.notes if "share their memory" in note)
    pinned = made.ranks[0].available_kv_cache_low_bytes // GIB * GIB
    assert f"kv_cache_memory_bytes={pinned}" in note
    fixed = made.changed(kv_cache_memory_bytes=pinned)
    assert not any("kv_cache_memory_bytes=" in note for note in fixed.notes)


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
