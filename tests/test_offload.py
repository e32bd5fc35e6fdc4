"""cpu_offload_gb: which parameters go to host memory, by release and model."""

import pytest

import planner
from planner.engine import EngineSettings, settings_from
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.offload import without_offloaded
from planner.memory.offloading import Offloading, offloading_of
from planner.memory.weights import StageWeights, explain, stage_weights
from planner.parallel import ParallelLayout
from planner.releases import Release
from planner.units import GIB
from tests.configs import BERT, LLAMA_8B, QWEN3_MOE, QWEN3_SMALL, architecture, gpu

V0_17 = Release((0, 17, 1))
QKV = 2 * (32 + 2 * 8) * 128 * 4096
OUTPUT = 2 * 4096 * 4096
GATE_UP = 2 * 2 * 14336 * 4096
DOWN = 2 * 14336 * 4096
LAYER = QKV + OUTPUT + GATE_UP + DOWN + 2 * 2 * 4096


def left_and_moved(
    budget_bytes: int, layout: ParallelLayout | None = None
) -> list[tuple[int, int]]:
    """Llama-3.1-8B in bfloat16: bytes that leave each stage, as both figures say."""
    layout, model = layout or ParallelLayout(), architecture(LLAMA_8B)
    whole = stage_weights(model, layout, "bfloat16")
    asked = Offloading(cpu_offload_gb=budget_bytes / GIB)
    left = without_offloaded(whole, model, layout, "bfloat16", asked)
    return [
        (before.weights_bytes - after.weights_bytes, after.offloaded_bytes)
        for before, after in zip(whole, left, strict=True)
    ]


def test_the_parameter_that_reaches_the_budget_is_the_last() -> None:
    """12 GiB are 29 layers of 416 MiB, then qkv, o and gate_up of the thirtieth.

    29 x 436,224,000 + 50,331,648 + 33,554,432 + 234,881,024 bytes, which is 12.08 GiB.
    """
    moved = 29 * LAYER + QKV + OUTPUT + GATE_UP
    assert 12_969_263_104 == moved
    assert [(moved, moved)] == left_and_moved(12 * GIB)


def test_a_budget_of_one_byte_moves_one_parameter() -> None:
    """The first layer's query, key and value: 48 MiB."""
    assert [(QKV, QKV)] == left_and_moved(1)


def test_embeddings_head_and_buffers_stay() -> None:
    """With more room than layers: all 32 layers and nothing else."""
    assert [(32 * LAYER, 32 * LAYER)] == left_and_moved(1000 * GIB)


def test_each_rank_has_the_budget_for_itself() -> None:
    """Two stages of two ranks: one parameter of half the size each."""
    layout = ParallelLayout(tensor_parallel_size=2, pipeline_parallel_size=2)
    assert [(QKV // 2, QKV // 2)] * 2 == left_and_moved(1, layout)


def test_the_arithmetic_names_what_lies_in_host_memory() -> None:
    """48 MiB of a line that adds up without them."""
    stage = StageWeights(
        weights_bytes=0, allocated_bytes=0, parts=(), offloaded_bytes=48 << 20
    )
    assert "with 48.0 MiB more in host memory" in explain(stage, "bfloat16")


def test_a_plan_counts_what_stays() -> None:
    """The measured case: 2.91 GiB of 14.99 on the GPU."""
    answer = planner.plan(
        architecture(LLAMA_8B), gpu=gpu(), cpu_offload_gb=12, vllm_version="0.17.1"
    )
    assert answer.model is not None
    (rank,) = answer.ranks
    assert "2.91" == f"{rank.allocated_weights_bytes / GIB:.2f}"


@pytest.mark.parametrize(
    ("config", "number", "expected"),
    [
        (LLAMA_8B, (0, 22, 1), 4 * GIB),
        (LLAMA_8B, (0, 23, 0), 0),
        (QWEN3_SMALL, (0, 22, 0), 0),
        (QWEN3_SMALL, (0, 21, 0), 4 * GIB),
        (LLAMA_8B, (0, 27, 1), 0),
        (LLAMA_8B, (0, 28, 0), 4 * GIB),
    ],
)
def test_the_second_runner_came_without_an_offloader(
    config: dict[str, object], number: tuple[int, int, int], expected: int
) -> None:
    """From 0.22.0 to 0.27.1 it leaves cpu_offload_gb alone."""
    asked = EngineSettings(cpu_offload_gb=4)
    found = offloading_of(asked, architecture(config), Release(number))
    assert expected == (0 if found is None else found.budget_bytes)


@pytest.mark.parametrize("config", [BERT, QWEN3_MOE])
def test_other_models_are_not_guessed(config: dict[str, object]) -> None:
    """Experts are shuffled after loading; encoders are not built by make_layers."""
    asked = EngineSettings(cpu_offload_gb=4)
    with pytest.raises(UnknownArchitecture, match="cpu_offload_gb"):
        offloading_of(asked, architecture(config), V0_17)


def test_quantised_weights_are_not_guessed() -> None:
    """They are packed anew after loading."""
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "fp8"}}
    asked = EngineSettings(cpu_offload_gb=4)
    with pytest.raises(UnknownArchitecture, match="quantised by fp8"):
        offloading_of(asked, architecture(config), V0_17)


@pytest.mark.parametrize("value", [-1, "much", True])
def test_an_amount_is_a_number_from_zero(value: object) -> None:
    """GiB, whole or not."""
    with pytest.raises(PlannerError, match="cpu_offload_gb="):
        settings_from({"cpu_offload_gb": value})


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
def test_blocks_in_host_memory_leave_the_gpu_as_it_is(name: str) -> None:
    """As vLLM's own configuration and planning do: blocks, groups and bytes alike."""
    plan = planner.plan(name, gpu="H100", max_model_len=8192)
    offloading = plan.changed(kv_offloading_size=10.0)
    assert offloading.ranks == plan.ranks
    assert offloading.kv_groups == plan.kv_groups
    assert offloading.max_concurrency == plan.max_concurrency
    assert any("10 GiB of host memory" in note for note in offloading.notes)


@pytest.mark.parametrize(
    "other", [{"kv_offloading_backend": "lmcache"}, {"vllm_version": "0.32.0"}]
)
def test_other_ways_to_offload_blocks_are_not_guessed(other: dict[str, object]) -> None:
    """LMCache's own process, and releases whose connectors were not read."""
    for size in (0, 10.0):
        with pytest.raises(UnknownArchitecture, match=f"kv_offloading_size={size}"):
            planner.plan("Qwen/Qwen3-8B", kv_offloading_size=size, **other)


def test_an_offloading_size_of_nothing_is_refused_as_vllm_does() -> None:
    """Anything but None starts the connector, which takes 0 for a missing size."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", kv_offloading_size=0)
    assert "refused" == plan.outcome.name.lower()
    assert "cpu_bytes_to_use must be specified" in plan.error.message
    assert "kv_offloading_size=0" in plan.error.message
    assert plan.changed(kv_offloading_size=None).fits
