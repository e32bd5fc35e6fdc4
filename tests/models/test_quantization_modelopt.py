"""ModelOpt and DeepSeek-V4 checkpoints: which layer is held how."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.files import ModelFiles
from planner.models.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts
from planner.models.quantization.experts.nvfp4 import NvFp4Experts
from planner.models.quantization.fp8 import Fp8TensorLinear
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.later import LaterLinear
from planner.models.quantization.linear_kernels import (
    ModelOptBlockLinear,
    ModelOptChannelLinear,
    ModelOptNvFp4Linear,
    Mxfp8Linear,
)
from planner.models.quantization.methods import METHODS
from planner.models.quantization.modelopt import kv_cache_dtype, read_modelopt
from planner.models.quantization.mxfp4 import read_deepseek_v4_fp8
from planner.models.tensors import LinearOnRank, Tensor

NVFP4 = {
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.0*", "*.mlp.gate"],
    }
}
QKV = ("q_proj", "k_proj", "v_proj")


def place(prefix: str, **changes: Any) -> Place:
    """A layer of this name."""
    return Place(prefix=prefix, **changes)


def linear(rows: int, columns: int) -> LinearOnRank:
    """A layer that a single rank holds."""
    return LinearOnRank(
        name="layer",
        input_size=columns,
        output_size=rows,
        input_size_per_partition=columns,
        output_partition_sizes=(rows,),
    )


def test_layers_are_left_out_by_name_tree_and_wildcard() -> None:
    """The head by name, layer 0 with all below it, gates by their end."""
    config = read_modelopt("modelopt_fp4", NVFP4, Context())
    assert config.head(place("lm_head")) is None
    assert config.linear(place("model.layers.0.self_attn.o_proj")) is None
    assert config.linear(place("model.layers.1.mlp.gate")) is None
    held = config.linear(place("model.layers.1.self_attn.o_proj"))
    assert ModelOptNvFp4Linear(has_input_scale=True) == held
    assert NvFp4Experts() == config.experts(place("model.layers.1.mlp.experts"))
    assert config.experts(place("model.layers.0.mlp.experts")) is None


def test_packed_layers_are_left_out_together() -> None:
    """All three of query, key and value, or none."""
    names = [f"model.layers.3.self_attn.{shard}" for shard in QKV]
    qkv = place("model.layers.3.self_attn.qkv_proj", shards=QKV)

    def held(count: int) -> object:
        given = {"quant_algo": "FP8", "ignore": names[:count]}
        return read_modelopt("modelopt", given, Context()).linear(qkv)

    assert Fp8TensorLinear(has_input_scale=True) == held(0)
    assert held(3) is None
    with pytest.raises(Refused, match="some but not all shards"):
        held(2)


def test_names_follow_vllms_class() -> None:
    """A checkpoint's "backbone." is vLLM's "model."."""
    context = Context(prefix_renames=(("backbone.", "model."),))
    given = {"quant_algo": "FP8", "ignore": ["backbone.layers.4.mixer.in_proj"]}
    config = read_modelopt("modelopt", given, context)
    assert config.linear(place("model.layers.4.mixer.in_proj")) is None
    assert config.linear(place("model.layers.5.mixer.in_proj")) is not None


def test_towers_are_never_quantised() -> None:
    """Whatever the list of exceptions says."""
    config = read_modelopt("modelopt", {"quant_algo": "FP8"}, Context())
    assert config.linear(place("vision_tower.blocks.0.qkv")) is None


@pytest.mark.parametrize(
    ("name", "algorithm", "held", "experts"),
    [
        ("modelopt", "fp8", Fp8TensorLinear, Fp8TensorExperts),
        (
            "modelopt",
            "FP8_PER_CHANNEL_PER_TOKEN",
            ModelOptChannelLinear,
            Fp8TensorExperts,
        ),
        ("modelopt", "FP8_PB_WO", ModelOptBlockLinear, Fp8TensorExperts),
        ("modelopt_mxfp8", "MXFP8", Mxfp8Linear, Mxfp8Experts),
        ("modelopt_fp4", "W4A16_NVFP4", ModelOptNvFp4Linear, NvFp4Experts),
    ],
)
def test_each_algorithm_has_its_methods(
    name: str, algorithm: str, held: type, experts: type
) -> None:
    """Of linear layers and of experts, which know fewer."""
    config = read_modelopt(name, {"quant_algo": algorithm}, Context())
    assert isinstance(config.linear(place("layer")), held)
    assert isinstance(config.experts(place("mlp.experts")), experts)


def test_nvfp4_without_input_scales_is_weight_only() -> None:
    """Its groups say so, whatever it calls itself."""
    given = {"quant_algo": "NVFP4", "config_groups": {"0": {"weights": {}}}}
    config = read_modelopt("modelopt_fp4", given, Context())
    assert NvFp4Experts(has_input_scale=False) == config.experts(place("experts"))


def test_mixed_checkpoints_name_every_layer() -> None:
    """FP8 for the parts of one layer, NVFP4 for experts one by one, the rest plain."""
    layers = {
        **{f"model.layers.0.attn.{shard}": {"quant_algo": "FP8"} for shard in QKV},
        "model.layers.1.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
        "model.layers.2.mlp.up_proj": {"quant_algo": "FP8_PB_WO"},
        "lm_head": {"quant_algo": "W4A16_NVFP4"},
        "odd": {"quant_algo": "IQ4_NL"},
    }
    given = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    config = read_modelopt("modelopt_mixed", given, Context())
    qkv = place("model.layers.0.attn.qkv_proj", shards=QKV)
    assert Fp8TensorLinear(has_input_scale=True) == config.linear(qkv)
    assert config.linear(place("model.layers.0.attn.o_proj")) is None
    names = ("gate_proj", "up_proj", "down_proj")
    experts = [
        config.experts(place(f"model.layers.{n}.mlp.experts", projections=names))
        for n in (1, 2, 3)
    ]
    assert [NvFp4Experts(), Fp8BlockExperts(), None] == experts
    head = config.head(place("language_model.lm_head"))
    assert isinstance(head, LaterLinear)
    assert ModelOptNvFp4Linear(has_input_scale=False) == head.method
    with pytest.raises(UnknownArchitecture, match="IQ4_NL"):
        config.linear(place("odd"))


def test_a_release_builds_what_it_does_not_know_in_16_bits() -> None:
    """W4A16_NVFP4 in a mixed checkpoint before 0.22: four times the experts' bytes."""

    def experts_bytes(version: str) -> int:
        made = planner.plan(
            "nvidia/Qwen3.6-35B-A3B-NVFP4",
            "H200",
            vllm_version=version,
            max_model_len=8192,
        )
        (part,) = (one for one in made.ranks[0].weight_parts if one.name == "experts")
        return part.size_bytes

    # 40 layers of 256 experts, each of 3 x 512 x 2,048 weights.
    assert experts_bytes("0.19.1") == 40 * 256 * 3 * 512 * 2048 * 2
    assert experts_bytes("0.22.1") < experts_bytes("0.19.1") * 0.29


def test_packed_layers_of_two_algorithms_are_refused() -> None:
    """Query in FP8, key in NVFP4."""
    layers = {
        "a.q_proj": {"quant_algo": "FP8"},
        "a.k_proj": {"quant_algo": "NVFP4"},
    }
    given = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    config = read_modelopt("modelopt_mixed", given, Context())
    with pytest.raises(Refused, match="Mixed quant_algo within fused layer"):
        config.linear(place("a.qkv_proj", shards=QKV))


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("modelopt", {}, "Missing 'quant_algo'"),
        ("modelopt", {"quant_algo": "INT4"}, "ModelOpt currently only supports"),
        ("modelopt", {"quant_algo": "NVFP4"}, "Unsupported ModelOpt FP8 quant_algo"),
        ("modelopt_fp4", {"quant_algo": "FP8"}, "Unsupported ModelOpt NVFP4"),
        (
            "modelopt_fp4",
            {"quantization": {"quant_algo": "NVFP4"}},
            "NVFP4 quantization requires the following fields",
        ),
        (
            "modelopt_mixed",
            {"quant_algo": "MIXED_PRECISION"},
            "requires a non-empty 'quantized_layers'",
        ),
    ],
)
def test_settings_vllm_refuses(name: str, given: dict[str, Any], words: str) -> None:
    """In its words."""
    with pytest.raises(Refused, match=words):
        read_modelopt(name, given, Context())


def test_the_kv_cache_follows_the_checkpoint() -> None:
    """By name in hf_quant_config.json, by scheme in config.json."""
    assert "fp8_e4m3" == kv_cache_dtype(NVFP4)
    scheme = {"dynamic": False, "num_bits": 8, "type": "float"}
    assert "fp8_e4m3" == kv_cache_dtype({"kv_cache_scheme": scheme})
    assert kv_cache_dtype({"kv_cache_scheme": {**scheme, "dynamic": True}}) is None
    assert kv_cache_dtype({"quant_algo": "FP8"}) is None


def test_minimax_has_mxfp8_settings_of_its_own() -> None:
    """`ignored_layers` instead of ModelOpt's names."""
    given = {"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}
    config = read_modelopt("modelopt_mxfp8", given, Context())
    assert config.head(place("lm_head")) is None
    assert Mxfp8Linear() == config.linear(place("layer"))


def test_a_checkpoint_may_call_the_format_mxfp8() -> None:
    """As MiniMax's do: the settings are ModelOpt's, the name stays."""
    given = {"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}
    config = METHODS["mxfp8"].read(given, Context())
    assert config.name == "mxfp8"
    assert config.head(Place(prefix="lm_head")) is None
    assert config.linear(Place(prefix="model.layers.0.mlp.down_proj")) == Mxfp8Linear()


def test_rows_of_blocks_are_filled_up() -> None:
    """2,624 rows are 20.5 blocks of 128, kept as 21."""
    made = ModelOptBlockLinear(model_type="llama").tensors(
        linear(2624, 256), ParallelLayout()
    )
    weight, scales = Tensor(2688 * 256, "float8_e4m3fn"), Tensor(21 * 2, "float32")
    assert (weight, scales) == made
    with pytest.raises(Refused, match="FP8_PB_WO requires in divisible by 128"):
        ModelOptBlockLinear(model_type="llama").tensors(
            linear(128, 100), ParallelLayout()
        )


def test_nvfp4_inputs_come_in_sixteens() -> None:
    """In vLLM's words."""
    with pytest.raises(Refused, match="in features size is not multiple of 16"):
        ModelOptNvFp4Linear(has_input_scale=True).tensors(
            linear(64, 24), ParallelLayout()
        )


DEEPSEEK_V4 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}


@pytest.mark.parametrize(
    ("config", "given", "held"),
    [
        ({}, {}, Mxfp4Experts()),
        ({"expert_dtype": "fp8"}, {}, Fp8BlockExperts()),
        ({"expert_dtype": "fp4"}, {"moe_quant_algo": "NVFP4"}, NvFp4Experts()),
    ],
)
def test_deepseek_v4_chooses_its_experts(
    config: dict[str, Any], given: dict[str, Any], held: object
) -> None:
    """MXFP4, unless the config says otherwise."""
    context = Context(files=ModelFiles(name="org/model", config=config))
    made = read_deepseek_v4_fp8({**DEEPSEEK_V4, **given}, context)
    assert "deepseek_v4_fp8" == made.name
    assert held == made.experts(place("model.layers.0.ffn.experts"))


def test_deepseek_v4_may_leave_experts_out() -> None:
    """By name; another dtype is refused."""
    skipped = {**DEEPSEEK_V4, "ignored_layers": ["model.layers.0.ffn.experts"]}
    made = read_deepseek_v4_fp8(skipped, Context())
    assert made.experts(place("model.layers.0.ffn.experts")) is None
    odd = ModelFiles(name="org/model", config={"expert_dtype": "int8"})
    with pytest.raises(Refused, match="Unsupported DeepSeek V4 expert_dtype='int8'"):
        read_deepseek_v4_fp8(DEEPSEEK_V4, Context(files=odd))
