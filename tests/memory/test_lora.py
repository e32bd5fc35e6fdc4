"""enable_lora: the room that adapters keep beside a model, by release."""

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.compilation import specializes_lora_graphs
from planner.memory.lora.lora import graph_cases, lora_config, with_adapters
from planner.memory.lora.lora_stacks import LoRAConfig
from planner.memory.weights import stage_weights
from tests.configs import BERT, GPT2, LLAMA_8B, QWEN3_MOE, architecture, gpu

TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
"""Heads of 16 dimensions: query 64, key and value 32 each."""

QKV = 3 * 8 * 64 + (64 + 32 + 32) * 8
OUTPUT = 8 * 64 + 64 * 8
GATE_UP = 2 * 8 * 64 + 2 * 128 * 8
DOWN = 8 * 128 + 64 * 8
LAYERS = 2 * (QKV + OUTPUT + GATE_UP + DOWN)
EMBEDDINGS = 1000 * 8 + 64 * 8
LOGITS = 8 * 64 + 1000 * 8


def tiny(name: str, **changes: object) -> dict[str, Any]:
    """The small model as another class."""
    kind = name.removesuffix("ForCausalLM").lower()
    return {**TINY, "architectures": [name], "model_type": kind, **changes}


def adapter_bytes(
    config: dict[str, Any],
    layout: ParallelLayout | None = None,
    *,
    number: tuple[int, int, int] = (0, 33, 0),
    asked: EngineSettings | None = None,
    grown: bool = False,
) -> int:
    """Bytes beside a model for an adapter of rank 8, without tokens or sequences.

    `grown`: with what the words that adapters add take in embeddings and head.
    """
    asked = asked or EngineSettings(enable_lora=True, max_lora_rank=8)
    adapters = lora_config(asked, Release(number), max_num_seqs=0)
    model, layout = architecture(config), layout or ParallelLayout()
    (plain,) = stage_weights(model, layout, "bfloat16")
    (stage,) = stage_weights(with_adapters(model, adapters), layout, "bfloat16")
    if grown:
        return stage.weights_bytes - plain.weights_bytes
    return {p.name: p.size_bytes for p in stage.parts}["LoRA adapters"]


COUNTS = 2 * (2 + 2 + 3) * 4
"""Two tables of int32: active adapters, their tokens, where they start."""


def test_each_layer_keeps_both_factors() -> None:
    """Rank 8: A is 8 x inputs, B is outputs x 8, a pair for each packed layer."""
    assert 2 * (LAYERS + EMBEDDINGS + LOGITS) + COUNTS == adapter_bytes(TINY)


def test_qwen2_wraps_linear_layers_only() -> None:
    """Its class names no embedding_modules."""
    assert 2 * LAYERS + COUNTS == adapter_bytes(tiny("Qwen2ForCausalLM"))


def test_phi3_has_one_pair_for_a_packed_layer() -> None:
    """Its checkpoints hold qkv_proj and gate_up_proj as they are."""
    spared = 2 * (2 * 8 * 64 + 8 * 64)
    config = tiny("Phi3ForCausalLM")
    expected = LAYERS - spared + EMBEDDINGS + LOGITS
    assert 2 * expected + COUNTS == adapter_bytes(config)


def test_ranks_cut_one_factor() -> None:
    """Two ranks: B of columns, A of rows; embeddings and head whole.

    The head keeps the order of 1,024 padded rows as int64.
    """
    layers = 2 * (
        (3 * 8 * 64 + 64 * 8)
        + (8 * 32 + 64 * 8)
        + (2 * 8 * 64 + 2 * 64 * 8)
        + (8 * 64 + 64 * 8)
    )
    layout = ParallelLayout(tensor_parallel_size=2)
    expected = 2 * (layers + EMBEDDINGS + LOGITS) + 1024 * 8 + COUNTS
    assert expected == adapter_bytes(TINY, layout)


def test_fully_sharded_adapters_cut_both() -> None:
    """Two ranks: A of columns has 4 rows, B of rows 32."""
    layers = 2 * (
        (3 * 4 * 64 + 64 * 8)
        + (8 * 32 + 32 * 8)
        + (2 * 4 * 64 + 2 * 64 * 8)
        + (8 * 64 + 32 * 8)
    )
    asked = EngineSettings(enable_lora=True, max_lora_rank=8, fully_sharded_loras=True)
    layout = ParallelLayout(tensor_parallel_size=2)
    config = tiny("Qwen2ForCausalLM")
    assert 2 * layers + COUNTS == adapter_bytes(config, layout, asked=asked)


def test_slots_multiply_the_factors() -> None:
    """Three adapters; the tables grow by two entries each."""
    asked = EngineSettings(enable_lora=True, max_lora_rank=8, max_loras=3)
    counts = 2 * (4 + 4 + 5) * 4
    config = tiny("Qwen2ForCausalLM")
    assert 3 * 2 * LAYERS + counts == adapter_bytes(config, asked=asked)


def test_older_llamas_made_room_for_added_words() -> None:
    """Until 0.11.2: 256 rows more in embeddings, head and their factors.

    Embeddings 1,024 + 256 rows, head 1,024 + 256 for 1,024 of 64 each; B of the head
    has 1,256 rows padded to 1,280; added words once for each of the two.
    """
    rows = 2 * 256 * 64
    embeddings = 1256 * 8 + 64 * 8 + 256 * 64
    logits = 8 * 64 + 1280 * 8 + 256 * 64
    expected = 2 * (LAYERS + embeddings + logits + rows) + COUNTS
    assert expected == adapter_bytes(TINY, number=(0, 11, 2), grown=True)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ((0, 15, 1), LAYERS),
        ((0, 27, 1), LAYERS + 2 * EMBEDDINGS + LOGITS),
        ((0, 28, 0), LAYERS + EMBEDDINGS + LOGITS),
    ],
)
def test_a_tied_qwen3_wrapped_its_embeddings_twice(
    number: tuple[int, int, int], expected: int
) -> None:
    """From 0.16.0 it names them; until 0.27.1 the head was the same module."""
    config = tiny("Qwen3ForCausalLM", tie_word_embeddings=True, head_dim=16)
    assert 2 * expected + COUNTS == adapter_bytes(config, number=number)


@pytest.mark.parametrize(
    ("number", "by_token"),
    [
        ((0, 33, 0), 4 * 8 + 4 * 4),
        ((0, 28, 0), 5 * 8 + 4 * 4),
        ((0, 11, 0), 5 * 8 + 2 * 4),
        ((0, 9, 2), 6 * 8 + 2 * 4),
    ],
)
def test_tables_have_a_row_for_each_token(
    number: tuple[int, int, int], by_token: int
) -> None:
    """int64 indices and int32 orders; one more token takes so many bytes."""
    model = architecture(tiny("Qwen2ForCausalLM"))
    adapters = with_adapters(model, LoRAConfig(release=Release(number)))
    sizes = [
        stage_weights(
            adapters, ParallelLayout(max_num_batched_tokens=tokens), "bfloat16"
        )[0].weights_bytes
        for tokens in (1000, 1001)
    ]
    assert by_token == sizes[1] - sizes[0]


@pytest.mark.parametrize(
    ("number", "uses_v2_runner", "cases"),
    [
        ((0, 11, 0), False, 1),
        ((0, 11, 1), False, 2),
        ((0, 23, 0), True, 1),
        ((0, 24, 0), True, 2),
    ],
)
def test_graphs_are_captured_with_and_without_adapters(
    number: tuple[int, int, int], uses_v2_runner: bool, cases: int
) -> None:
    """cudagraph_specialize_lora, which is on."""
    config = LoRAConfig(release=Release(number))
    assert cases == graph_cases(config, uses_v2_runner=uses_v2_runner)
    assert 1 == graph_cases(None, uses_v2_runner=uses_v2_runner)


@pytest.mark.parametrize(
    ("number", "asked", "message"),
    [
        ((0, 11, 0), {"max_lora_rank": 1}, r"max_lora_rank \(1\) must be one of \(8,"),
        ((0, 33, 0), {"max_lora_rank": 12}, "Input should be 1, 8, 16, .* or 512"),
        ((0, 33, 0), {"max_loras": 4, "max_cpu_loras": 2}, r">= max_loras \(4\)\.$"),
        ((0, 13, 0), {"max_loras": 4, "max_cpu_loras": 2}, r">= max_loras \(4\)$"),
    ],
)
def test_sizes_that_vllm_refuses(
    number: tuple[int, int, int], asked: dict[str, int], message: str
) -> None:
    """In its words."""
    settings = EngineSettings(enable_lora=True, **asked)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=message):
        lora_config(settings, Release(number), max_num_seqs=0)


@pytest.mark.parametrize(
    ("number", "vocab_size", "message"),
    [
        ((0, 33, 0), 258_049, "must be <= 258048"),
        ((0, 16, 0), 257_025, "32000 >= vocab_size <= 257024"),
        ((0, 11, 2), 256_769, "32000 >= vocab_size <= 257024"),
    ],
)
def test_the_head_has_a_largest_vocabulary(
    number: tuple[int, int, int], vocab_size: int, message: str
) -> None:
    """One word less is served."""
    with pytest.raises(Refused, match=message):
        adapter_bytes({**TINY, "vocab_size": vocab_size}, number=number)
    assert adapter_bytes({**TINY, "vocab_size": vocab_size - 1}, number=number)


MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}


def test_factors_heed_no_quantisation() -> None:
    """Weights in FP8, factors in the model's dtype."""
    config = tiny("Qwen2ForCausalLM", quantization_config={"quant_method": "fp8"})
    assert 2 * LAYERS + COUNTS == adapter_bytes(config)


@pytest.mark.parametrize(
    "config",
    [
        BERT,
        QWEN3_MOE,
        {**LLAMA_8B, "quantization_config": MODELOPT},
    ],
)
def test_older_releases_know_dense_text_models(config: dict[str, Any]) -> None:
    """Encoders, experts and rarer quantisation are answered later."""
    model = architecture(config)
    with pytest.raises(UnknownArchitecture, match=r"before vLLM 0\.22\.0"):
        with_adapters(model, LoRAConfig(release=Release((0, 21, 0))))
    assert with_adapters(model, LoRAConfig(release=NEWEST_RELEASE)) is not model


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ((0, 33, 0), r"LoRA is not supported for GPT2LMHeadModel \(.*Supported models"),
        ((0, 32, 0), "GPT2LMHeadModel does not support LoRA yet."),
    ],
)
def test_a_class_without_the_interface_is_refused(
    number: tuple[int, int, int], message: str
) -> None:
    """In vLLM's words."""
    with pytest.raises(Refused, match=message):
        with_adapters(architecture(GPT2), LoRAConfig(release=Release(number)))


def test_without_adapters_the_model_is_the_same() -> None:
    """Their sizes alone change nothing."""
    model = architecture(TINY)
    asked = EngineSettings(max_loras=4)
    adapters = lora_config(asked, NEWEST_RELEASE, max_num_seqs=0)
    assert with_adapters(model, adapters) is model


def test_a_plan_counts_them_among_the_weights() -> None:
    """Without graphs the KV cache is smaller by as much."""
    plans = [
        planner.plan(
            architecture(LLAMA_8B), gpu=gpu(), enable_lora=asked, enforce_eager=True
        )
        for asked in (False, True)
    ]
    (without,), (adapted,) = (plan.ranks for plan in plans)
    grown = adapted.allocated_weights_bytes - without.allocated_weights_bytes
    less = without.available_kv_cache_bytes - adapted.available_kv_cache_bytes
    assert grown == less > 0


@pytest.mark.parametrize(
    ("loras", "cases"), [(1, 1 + 2), (2, 1 + 3), (4, 1 + 4), (7, 1 + 4)]
)
def test_graphs_may_be_told_apart_by_the_adapters_in_a_batch(
    loras: int, cases: int
) -> None:
    """Without; 1, 2, 4, ...; and all with requests that have none."""
    config = LoRAConfig(
        max_loras=loras, has_graphs_by_count=True, release=NEWEST_RELEASE
    )
    assert cases == graph_cases(config, uses_v2_runner=True)


def test_batches_with_adapters_have_graphs_of_their_own() -> None:
    """Twice 51 pieces and 51 whole steps; once before the second runner heeded it."""
    arithmetic = {
        version: planner.plan(
            architecture(LLAMA_8B), gpu=gpu(), enable_lora=True, vllm_version=version
        )
        .ranks[0]
        .line("CUDA graphs")
        .why
        for version in ("0.20.0", "0.33.0")
    }
    assert arithmetic["0.20.0"].startswith("102 piecewise + 102 full graphs")
    assert arithmetic["0.33.0"].startswith("102 piecewise graphs")


def test_one_graph_may_serve_batches_with_adapters_and_without() -> None:
    """cudagraph_specialize_lora=false halves the first runner's graphs.

    The second runner keeps those of batches without adapters.
    """
    config = lora_config(
        EngineSettings(enable_lora=True), NEWEST_RELEASE, max_num_seqs=1
    )
    assert graph_cases(config, uses_v2_runner=False, is_specialized=False) == 1
    assert graph_cases(config, uses_v2_runner=True, is_specialized=False) == 2


def test_the_switch_of_graphs_is_read_from_compilation_config() -> None:
    """It is true where nothing says otherwise, and no word."""
    assert specializes_lora_graphs(EngineSettings())
    off = {"cudagraph_specialize_lora": False}
    assert not specializes_lora_graphs(EngineSettings(compilation_config=off))
    word = EngineSettings(compilation_config={"cudagraph_specialize_lora": "no"})
    with pytest.raises(Refused, match="cudagraph_specialize_lora"):
        specializes_lora_graphs(word)
