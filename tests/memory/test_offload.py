"""cpu_offload_gb: which parameters go to host memory, by release and model."""

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.settings import EngineSettings, settings_from
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.host.offload import without_offloaded
from planner.memory.host.offloading import Offloading, offloading_of
from planner.memory.weights import StageWeights, explain, stage_weights
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


def test_older_ways_to_offload_blocks_are_not_guessed() -> None:
    """Releases whose connectors were not read."""
    for size in (0, 10.0):
        with pytest.raises(UnknownArchitecture, match=f"kv_offloading_size={size}"):
            planner.plan(
                "Qwen/Qwen3-8B", kv_offloading_size=size, vllm_version="0.27.0"
            )


def test_blocks_lie_in_shared_memory_since_0_28() -> None:
    """10 GiB of all workers of an engine together, and the GPU is as without."""
    plan = planner.plan(
        "Qwen/Qwen3-8B", gpu="H100", tensor_parallel_size=2, vllm_version="0.28.0"
    )
    offloading = plan.changed(kv_offloading_size=10.0)
    kept = {line.name: line.size_bytes for a in offloading.host for line in a.lines}
    assert kept["offloaded KV blocks"] == 10 * GIB
    assert offloading.ranks == plan.ranks


def test_a_server_of_lmcache_keeps_the_blocks_itself() -> None:
    """VLLM hands the size to no one; a model of two caches would lose its manager."""
    asked = {"kv_offloading_size": 10.0, "kv_offloading_backend": "lmcache"}
    plan = planner.plan("Qwen/Qwen3-8B", **asked)
    names = [line.name for account in plan.host for line in account.lines]
    assert "offloaded KV blocks" not in names
    assert any("LMCache's own" in note for note in plan.notes)
    with pytest.raises(UnknownArchitecture, match="layers whose caches differ"):
        planner.plan("openai/gpt-oss-20b", **asked)


def test_experts_move_before_the_norms_of_their_layer() -> None:
    """1.2 GiB of Qwen3-30B-A3B: the first layer, and of the second up to w13.

    Its class registers attention (qkv 20,971,520 and o 16,777,216 bytes, two norms of
    256), the gate 524,288, w13 805,306,368, w2 402,653,184 and two norms of 4,096. One
    layer is 1,246,241,280 bytes; 1,288,490,188 are reached with w13 of the second:
    1,246,241,280 + 38,273,536 + 805,306,368 = 2,089,821,184.
    """
    plan = planner.plan(
        "Qwen/Qwen3-30B-A3B-Instruct-2507", cpu_offload_gb=1.2, max_model_len=4096
    )
    (rank,) = plan.ranks
    assert rank.offloaded_parameter_bytes == 2_089_821_184


def test_each_moved_parameter_is_pinned_in_a_power_of_two() -> None:
    """A byte moves Llama-3.1-8B's first qkv, 48 MiB: pinning takes 64 MiB."""
    plan = planner.plan(
        "meta-llama/Llama-3.1-8B-Instruct", cpu_offload_gb=1e-9, max_model_len=4096
    )
    (rank,) = plan.ranks
    assert rank.offloaded is not None
    assert (rank.offloaded_parameter_bytes, rank.offloaded.size_bytes) == (
        48 << 20,
        64 << 20,
    )


def test_only_named_modules_move() -> None:
    """cpu_offload_params=("mlp",): 32 layers of gate_up 224 MiB and down 112 MiB."""
    plan = planner.plan(
        "meta-llama/Llama-3.1-8B-Instruct",
        cpu_offload_gb=100,
        cpu_offload_params=["mlp"],
    )
    assert plan.ranks[0].offloaded_parameter_bytes == 32 * (GATE_UP + DOWN)
    with pytest.raises(UnknownArchitecture, match="cpu_offload_params"):
        plan.changed(cpu_offload_params=["weight"])


def test_the_last_layers_of_each_group_are_prefetched() -> None:
    """Groups of 8 with 2 of 32 layers: 8 move, buffers for one layer stay, for two 2x.

    A layer is 436,224,000 bytes; its six parameters have different names, though the
    norms' sizes are alike: two norms of 8,192 bytes share no buffer.
    """
    plain = planner.plan("meta-llama/Llama-3.1-8B-Instruct", max_model_len=4096)
    asked = {"offload_group_size": 8, "offload_num_in_group": 2}
    one = plain.changed(**asked)
    two = plain.changed(**asked, offload_prefetch_step=2)

    moved = 8 * LAYER
    assert one.ranks[0].weights_bytes == plain.ranks[0].weights_bytes - moved
    assert one.ranks[0].offloaded_parameter_bytes == moved
    before, after, twice = (
        plan.ranks[0].line("persistent buffers").size_bytes
        for plan in (plain, one, two)
    )
    assert (after - before, twice - before) == (LAYER, 2 * LAYER)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"offload_group_size": 2, "offload_num_in_group": 3},
            "offload_num_in_group (3) must be <= offload_group_size (2)",
        ),
        (
            {"offload_group_size": 2, "offload_prefetch_step": 0},
            "offload_prefetch_step (0) must be >= 1 when prefetch offloading",
        ),
        ({"offload_backend": "prefetch"}, "must be <= offload_group_size (0)"),
    ],
)
def test_groups_that_cannot_be_are_refused_as_vllm_does(asked, words) -> None:
    """In its configuration class's words."""
    plan = planner.plan("Qwen/Qwen3-8B", **asked)
    assert plan.error is not None
    assert plan.error.kind == "refused"
    assert words in plan.error.message


def test_encoders_move_first_and_whole_or_not_at_all() -> None:
    """Qwen2.5-VL's 1,353,100,288 bytes of encoder come before any layer."""
    model = "Qwen/Qwen2.5-VL-7B-Instruct"
    plan = planner.plan(model, cpu_offload_gb=1.3, max_model_len=4096)
    (rank,) = plan.ranks
    assert rank.offloaded_parameter_bytes > 1_353_100_288
    with pytest.raises(UnknownArchitecture, match="encoders of images"):
        planner.plan(model, cpu_offload_gb=1, max_model_len=4096)


def test_an_offloading_size_of_nothing_is_refused_as_vllm_does() -> None:
    """Anything but None starts the connector, which takes 0 for a missing size."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", kv_offloading_size=0)
    assert "refused" == plan.outcome.name.lower()
    assert "cpu_bytes_to_use must be specified" in plan.error.message
    assert "kv_offloading_size=0" in plan.error.message
    assert plan.changed(kv_offloading_size=None).fits


BLOCKS = {
    "activation_scheme": "dynamic",
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
}


def test_weights_with_a_scale_for_each_block_stay_where_they_were_moved() -> None:
    """0.1 GiB of Llama-3.1-8B in FP8 on an H100, in the order of vLLM's class.

    qkv 25,165,824 bytes with 48 x 32 scales of 4 bytes, o 16,777,216 with 32 x 32, and
    gate_up 117,440,512, which goes beyond 107,374,182.
    """
    model = architecture({**LLAMA_8B, "quantization_config": BLOCKS})
    plan = planner.plan(model, gpu=gpu(), cpu_offload_gb=0.1)
    moved = 25_165_824 + 48 * 32 * 4 + 16_777_216 + 32 * 32 * 4 + 117_440_512
    assert plan.ranks[0].offloaded_parameter_bytes == moved


@pytest.mark.parametrize(
    "asked", [{"gpu": "A100"}, {"gpu": "B200"}, {"vllm_version": "0.32.0"}]
)
def test_weights_that_are_repacked_are_not_guessed(asked: dict[str, object]) -> None:
    """Other GPUs' kernels, and releases that make parameters anew."""
    model = architecture({**LLAMA_8B, "quantization_config": BLOCKS})
    with pytest.raises(UnknownArchitecture, match="cpu_offload_gb"):
        planner.plan(model, cpu_offload_gb=1, **{"gpu": "H100", **asked})


def test_latent_attention_moves_in_the_order_of_its_class() -> None:
    """0.01 GiB of DeepSeek-V2-Lite: the first projections, a norm, and what ends it.

    kv_a 576 x 2,048, q 3,072 x 2,048: 14,942,208 bytes of 10,737,418. Nothing more.
    Groups of layers are left out: vLLM then keeps copies of kv_b_proj on the GPU.
    """
    model = "deepseek-ai/DeepSeek-V2-Lite"
    plan = planner.plan(model, gpu="H100", cpu_offload_gb=0.01)
    assert plan.ranks[0].offloaded_parameter_bytes == 2 * 2048 * (576 + 3072)
    with pytest.raises(UnknownArchitecture, match="latent attention"):
        planner.plan(model, gpu="H100", offload_group_size=4)
