"""What adapters keep beside experts, latent attention, states, heads and encoders."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.account import Basis, Per
from planner.memory.lora.lora import lora_config, with_adapters
from planner.memory.lora.towers import Encoding, adapters_on_host
from planner.models.architecture import ModelArchitecture
from planner.models.layers import Part
from tests.configs import architecture, gpu

FACTS = json.loads(
    (Path(__file__).parents[1] / "data" / "lora_stacks.json").read_text(
        encoding="utf-8"
    )
)
SIZES = {None: 2, "int32": 4, "int64": 8, "float32": 4, "uint8": 1}

EXPERTS: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def stacks(
    model: ModelArchitecture, layout: ParallelLayout | None = None, **asked: object
) -> dict[str, int]:
    """Bytes of all adapters of rank 8 by the last name of the layer."""
    settings = EngineSettings(
        **{"enable_lora": True, "max_lora_rank": 8, **asked}  # type: ignore[arg-type]
    )
    config = lora_config(settings, NEWEST_RELEASE, max_num_seqs=0)
    whole, found = with_adapters(model, config), dict[str, int]()
    groups = [
        (kind.modules, whole.layers.count(index))
        for index, kind in enumerate(whole.layer_kinds)
    ]
    for group in (whole.first_stage, whole.last_stage, whole.every_stage):
        groups.append((group, 1))
    for modules, times in groups:
        for module in modules:
            if module.part is not Part.LORA:
                continue
            name = module.name.rpartition(".")[2]
            tensors = module.tensors(layout or ParallelLayout(enable_lora=True))
            size = sum(tensor.elements * SIZES[tensor.dtype] for tensor in tensors)
            found[name] = found.get(name, 0) + times * size
    return {name: size for name, size in found.items() if size}


SWITCHES = 2 * 4
"""Whether each adapter is in use, and one more: int32."""


def test_each_expert_has_factors_of_its_own() -> None:
    """Gate and up: A 8 x 64, B 32 x 8; down: A 8 x 32, B 64 x 8; four experts."""
    gate_and_up = 2 * (8 * 64 + 32 * 8)
    down = 8 * 32 + 64 * 8
    expected = 2 * 4 * (gate_and_up + down) + SWITCHES
    assert stacks(architecture(EXPERTS))["experts"] == expected


def test_the_router_is_a_layer_like_others() -> None:
    """A 8 x 64, B 4 x 8."""
    assert stacks(architecture(EXPERTS))["gate"] == 2 * (8 * 64 + 4 * 8)


def test_ranks_cut_the_inner_side_of_experts() -> None:
    """Two ranks: columns 16; fully sharded cuts A of gate and up, and B of down."""
    layout = ParallelLayout(tensor_parallel_size=2, enable_lora=True)
    model = architecture(EXPERTS)
    halves = 2 * (8 * 64 + 16 * 8) + (8 * 16 + 64 * 8)
    assert stacks(model, layout)["experts"] == 2 * 4 * halves + SWITCHES

    quarters = 2 * (4 * 64 + 16 * 8) + (8 * 16 + 32 * 8)
    sharded = stacks(model, layout, fully_sharded_loras=True)
    assert sharded["experts"] == 2 * 4 * quarters + SWITCHES


def test_expert_parallel_ranks_keep_the_factors_of_their_experts() -> None:
    """Two of four experts, whole."""
    layout = ParallelLayout(
        tensor_parallel_size=2, enable_expert_parallel=True, enable_lora=True
    )
    whole = 2 * (8 * 64 + 32 * 8) + (8 * 32 + 64 * 8)
    model = architecture(EXPERTS)
    assert stacks(model, layout)["experts"] == 2 * 2 * whole + SWITCHES
    with pytest.raises(Refused, match="does not support enable_expert_parallel=True"):
        stacks(model, layout, fully_sharded_loras=True)


def test_experts_may_share_their_outer_factors() -> None:
    """A of gate and up and B of down once for all four experts."""
    shared = 2 * (8 * 64 + 4 * 32 * 8) + (4 * 8 * 32 + 64 * 8)
    found = stacks(architecture(EXPERTS), enable_moe_shared_loras=True)
    assert found["experts"] == 2 * shared + SWITCHES


def test_targets_leave_other_layers_alone() -> None:
    """lora_target_modules, by vLLM's names or those of what is packed in them."""
    found = stacks(architecture(EXPERTS), lora_target_modules=("q_proj", "o_proj"))
    assert sorted(found) == ["o_proj", "punica_wrapper", "qkv_proj"]
    with pytest.raises(UnknownArchitecture, match="a single layer"):
        stacks(architecture(EXPERTS), lora_target_modules=("model.layers.0.mlp",))


def test_a_head_that_classifies_may_be_replaced_as_a_whole() -> None:
    """A 8 x 64, B 3 x 8; weight 3 x 64, bias in float32, a switch; or 5 labels."""
    model = architecture(
        {
            **EXPERTS,
            "architectures": ["LlamaForSequenceClassification"],
            "model_type": "llama",
            "num_labels": 3,
        }
    )
    factors = 2 * (8 * 64 + 3 * 8)
    assert stacks(model)["score"] == factors + 2 * 3 * 64 + 4 * 3 + 1
    wider = stacks(model, max_lora_cls_labels=5)["score"]
    assert wider == factors + 2 * 5 * 64 + 4 * 5 + 1
    assert "logits_processor" not in stacks(model)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: str(fact["model"]))
def test_every_layer_is_as_vllm_wraps_it(
    fact: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes by layer, asked of vLLM 0.33.0's own code; models cut to a few layers.

    Two ranks, rank 16, one adapter, on an H100, where `arguments` says no other. Where
    adapters change encoders too, vLLM was told `encoding`: tokens of a step, and items
    of a prompt.
    """
    if "encoding" in fact:
        tokens, items = fact["encoding"]
        encoding = Encoding(budget_tokens=tokens, items_per_prompt=items)
        monkeypatch.setattr("planner.planning.stages._encoding", lambda *_: encoding)
    (tmp_path / "config.json").write_text(json.dumps(fact["config"]))
    plan = planner.plan(tmp_path, gpu=gpu(), **fact["arguments"])
    parts = {part.name: part.size_bytes for part in plan.ranks[0].weight_parts}
    assert parts["LoRA adapters"] == sum(fact["adapters"].values())


def test_cpu_memory_holds_whole_adapters_at_most() -> None:
    """Two ranks change nothing: each worker reads every adapter as it is.

    Rank 8, one layer: attention, router, experts, embeddings, head. Each factor is
    pinned in a power of two, which all of them are but those of 1,000 words, 8 x 1000
    x 2 bytes in 16 KiB, and the switches of the experts, which are two numbers.
    """
    model = architecture(EXPERTS)
    whole = {k: v for k, v in stacks(model).items() if k != "punica_wrapper"}
    words = 2 * (16 * 1024 - 16_000)
    line = adapters_on_host(
        model,
        EngineSettings(enable_lora=True, max_lora_rank=8, max_loras=2, max_cpu_loras=5),
        ParallelLayout(tensor_parallel_size=2, enable_lora=True),
        "bfloat16",
    )
    assert line is not None
    assert line.size_bytes == 5 * (sum(whole.values()) + words)
    assert line.per is Per.WORKER
    assert line.basis is Basis.ASSUMED


def test_without_adapters_nothing_lies_in_cpu_memory() -> None:
    """max_cpu_loras alone keeps nothing."""
    settings = EngineSettings(max_cpu_loras=5)
    model = architecture(EXPERTS)
    assert adapters_on_host(model, settings, ParallelLayout(), "bfloat16") is None


LLAVA: dict[str, Any] = next(
    fact["config"] for fact in FACTS if fact["model"] == "llava-hf/llava-1.5-7b-hf"
)


def planned(folder: Path, config: dict[str, Any], **asked: Any) -> int:
    """Bytes of adapters on the first rank of an H100."""
    (folder / "config.json").write_text(json.dumps(config))
    plan = planner.plan(folder, gpu=gpu(), enable_lora=True, **asked)
    parts = {part.name: part.size_bytes for part in plan.ranks[0].weight_parts}
    return parts["LoRA adapters"]


def test_encoders_have_tables_for_the_items_of_a_prompt(tmp_path: Path) -> None:
    """LLaVA encodes 576 tokens an image: 7 of them in 4,096, 3 where that is the limit.

    Two sets of tables (encoder and projector), each with three numbers of 8 bytes for
    every item of 1,024 requests.
    """
    asked = {"enable_tower_connector_lora": True, "max_model_len": 4096}
    seven = planned(tmp_path, LLAVA, **asked)
    three = planned(tmp_path, LLAVA, **asked, limit_mm_per_prompt={"image": 3})
    assert seven - three == 2 * 3 * 8 * 1024 * (7 - 3)


def test_a_language_model_alone_has_no_adapters_beside_encoders(tmp_path: Path) -> None:
    """vLLM then disables the argument itself."""
    without = planned(tmp_path, LLAVA, language_model_only=True)
    asked = {"enable_tower_connector_lora": True, "language_model_only": True}
    assert planned(tmp_path, LLAVA, **asked) == without


def test_no_image_at_all_ends_the_start(tmp_path: Path) -> None:
    """vLLM takes the largest of no limits."""
    (tmp_path / "config.json").write_text(json.dumps(LLAVA))
    plan = planner.plan(
        tmp_path,
        gpu=gpu(),
        enable_lora=True,
        enable_tower_connector_lora=True,
        limit_mm_per_prompt={"image": 0},
    )
    assert "max() iterable argument is empty" in str(plan.error)
