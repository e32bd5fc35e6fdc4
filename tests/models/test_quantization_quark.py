"""Checkpoints of AMD's Quark."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.compressed_schemes import Int8Linear
from planner.models.quantization.experts.fp8 import (
    Fp8ChannelExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.int8 import Int8ChannelExperts
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.linear_kernels import (
    Mxfp4Linear,
    Mxfp8Linear,
    NvFp4Linear,
)
from planner.models.quantization.padding import Packing
from planner.models.quantization.quark import QuarkConfig, read_quark
from planner.models.quantization.quark_schemes import (
    QuarkFp8Linear,
    QuarkInt4Linear,
    QuarkMxLinear,
)
from planner.models.tensors import LinearMethod, LinearOnRank, Tensor

QKV = Place(
    prefix="model.layers.0.self_attn.qkv_proj", shards=("q_proj", "k_proj", "v_proj")
)
DOWN = Place(prefix="model.layers.0.mlp.down_proj")
EXPERTS = Place(prefix="model.layers.0.mlp.experts")
A100, H100 = (
    ParallelLayout(compute_capability=capability, num_sms=108, tensor_parallel_size=1)
    for capability in ((8, 0), (9, 0))
)


def spec(dtype: str, scheme: str, **others: Any) -> dict[str, Any]:
    """How weights, or activations, are quantised."""
    return {
        "dtype": dtype,
        "qscheme": scheme,
        "is_dynamic": False,
        "symmetric": True,
        **others,
    }


FP8, FP8_ROW = spec("fp8_e4m3", "per_tensor"), spec("fp8_e4m3", "per_channel")
BY_TOKEN = spec("fp8_e4m3", "per_channel", is_dynamic=True)
BLOCK = spec("fp8_e4m3", "per_block", block_size=[128, 128])
BY_GROUP = spec("fp8_e4m3", "per_group", is_dynamic=True, group_size=128)
INT8_ROW = spec("int8", "per_channel")
INT8_TOKEN = spec("int8", "per_channel", is_dynamic=True)
MX = {"group_size": 32, "scale_format": "e8m0"}
MXFP4, MXFP8 = spec("fp4", "per_group", **MX), spec("fp8_e4m3", "per_group", **MX)
MX_INPUT = {**MXFP4, "is_dynamic": True}
MX8_INPUT = {**MXFP8, "is_dynamic": True}
INT4 = spec("int4", "per_group", group_size=128)
NVFP4 = [spec("fp4", "per_group", group_size=16), FP8]
NVFP4_INPUT = [spec("fp4", "per_group", group_size=16, is_dynamic=True), FP8]


def layer(weight: Any, inputs: Any, output: Any = None) -> dict[str, Any]:
    """The setting of a layer."""
    return {"weight": weight, "input_tensors": inputs, "output_tensors": output}


def read(weight: Any, inputs: Any, **others: Any) -> QuarkConfig:
    """A checkpoint whose layers have one setting."""
    given = {
        "quant_method": "quark",
        "export": {"kv_cache_group": [], "pack_method": "reorder"},
        "global_quant_config": layer(weight, inputs),
        "layer_quant_config": {},
        "exclude": ["lm_head"],
        **others,
    }
    return read_quark(given, Context(text_model_type="qwen3"))


@pytest.mark.parametrize(
    ("weight", "inputs", "method"),
    [
        (FP8, FP8, QuarkFp8Linear(is_channel=False, is_static=True)),
        (FP8_ROW, BY_TOKEN, QuarkFp8Linear(is_channel=True, is_static=False)),
        (BLOCK, BY_GROUP, Fp8BlockLinear(model_type="qwen3")),
        (
            INT8_ROW,
            INT8_TOKEN,
            Int8Linear(is_channel=True, is_static=False, is_symmetric=True),
        ),
        (INT4, None, QuarkInt4Linear(packing=Packing(num_bits=4, group_size=128))),
        (MXFP4, MX_INPUT, QuarkMxLinear(method=Mxfp4Linear())),
        (MXFP4, None, QuarkMxLinear(method=Mxfp4Linear())),
        (MXFP8, MX8_INPUT, QuarkMxLinear(method=Mxfp8Linear())),
        (NVFP4, NVFP4_INPUT, NvFp4Linear()),
        ([FP8], [FP8], QuarkFp8Linear(is_channel=False, is_static=True)),
    ],
)
def test_each_format_has_its_kernels(
    weight: Any, inputs: Any, method: LinearMethod
) -> None:
    """They are those of other checkpoints in the same format."""
    assert read(weight, inputs).linear(QKV) == method


@pytest.mark.parametrize(
    ("weight", "inputs", "method"),
    [
        (FP8, FP8, Fp8TensorExperts(is_static=True)),
        (FP8_ROW, BY_TOKEN, Fp8ChannelExperts()),
        (INT8_ROW, INT8_TOKEN, Int8ChannelExperts()),
        (MXFP4, MX_INPUT, Mxfp4Experts()),
        (MXFP8, MX8_INPUT, Mxfp8Experts()),
    ],
)
def test_experts_too(weight: Any, inputs: Any, method: object) -> None:
    """As far as they are modelled."""
    assert read(weight, inputs).experts(EXPERTS) == method


def test_a_list_leaves_layers_out() -> None:
    """Names and expressions; experts as a whole where any of them is named."""
    exclude = ["re:.*self_attn.*", "model.layers.0.mlp.experts.3.down_proj"]
    config = read(MXFP4, MX_INPUT, exclude=exclude)
    assert config.linear(QKV) is None
    assert config.linear(DOWN) is not None
    assert config.experts(EXPERTS) is None
    assert config.experts(Place(prefix="model.layers.1.mlp.experts")) is not None


def test_patterns_have_settings_of_their_own() -> None:
    """The layers of a merged one must agree."""
    config = read(MXFP4, MX_INPUT, layer_quant_config={"*self_attn*": layer(FP8, FP8)})
    assert config.linear(QKV) == QuarkFp8Linear(is_channel=False, is_static=True)
    assert config.linear(DOWN) == QuarkMxLinear(method=Mxfp4Linear())
    some = read(MXFP4, MX_INPUT, layer_quant_config={"*q_proj": layer(FP8, FP8)})
    with pytest.raises(Refused, match=r"^Found a different quantization conf"):
        some.linear(QKV)


def test_a_quantised_cache_is_not_an_output() -> None:
    """The settings of k and v carry that of the KV cache; FP8 is taken."""
    groups = {"kv_cache_group": ["*k_proj", "*v_proj"], "pack_method": "reorder"}
    carried = {name: layer(FP8, FP8, FP8) for name in groups["kv_cache_group"]}
    config = read(FP8, FP8, export=groups, layer_quant_config=carried)
    assert config.linear(QKV) is not None
    assert config.has_kv_scales
    other = {name: layer(FP8, FP8, INT8_ROW) for name in groups["kv_cache_group"]}
    with pytest.raises(Refused, match="dtype=fp8_e4m3, however received int8"):
        read(FP8, FP8, export=groups, layer_quant_config=other)
    with pytest.raises(Refused, match="no kv_cache quantization settings"):
        read(FP8, FP8, export=groups)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"export": None}, "The export key should be included"),
        ({"global_quant_config": layer(FP8, FP8, FP8)}, "Currently, Quark models with"),
        ({"global_quant_config": layer(FP8, None)}, "No quark compatible scheme"),
        ({"global_quant_config": layer([FP8, FP8], FP8)}, "Multi-entry weight"),
    ],
)
def test_what_vllm_refuses(changes: dict[str, Any], message: str) -> None:
    """In its words."""
    with pytest.raises(Refused, match=f"^{message}"):
        read(FP8, FP8, **changes).linear(DOWN)


def test_what_is_not_modelled() -> None:
    """Six bits, and experts in INT4."""
    six = spec("fp6_e3m2", "per_group", **MX)
    with pytest.raises(UnknownArchitecture, match="6 bits"):
        read(six, None).linear(DOWN)
    with pytest.raises(UnknownArchitecture, match="experts"):
        read(INT4, None).experts(EXPERTS)


def _rows(columns: int) -> LinearOnRank:
    return LinearOnRank(
        name="layer",
        input_size=columns,
        output_size=512,
        input_size_per_partition=columns,
        output_partition_sizes=(512,),
    )


def test_fp8_needs_its_arithmetic() -> None:
    """Which Ampere lacks; other checkpoints are unpacked there."""
    method = QuarkFp8Linear(is_channel=True, is_static=False)
    assert method.tensors(_rows(1024), H100) == (
        Tensor(512 * 1024, "float8_e4m3fn"),
        Tensor(512, "float32"),
    )
    with pytest.raises(Refused, match=r"Min capability: 89\. Current"):
        method.tensors(_rows(1024), A100)


def test_ranks_divide_no_group() -> None:
    """32 weights share a scale of MXFP4, 128 one of INT4."""
    with pytest.raises(Refused, match=r"^OCP MX linear layer 'layer' has an input"):
        QuarkMxLinear(method=Mxfp4Linear()).tensors(_rows(48), H100)
    packing = Packing(num_bits=4, group_size=128)
    with pytest.raises(Refused, match=r"^The input size is not aligned"):
        QuarkInt4Linear(packing=packing).tensors(_rows(192), H100)


def test_zero_points_of_int4_stay() -> None:
    """Symmetric weights have none, but the checkpoint's stay where they are."""
    packing = Packing(num_bits=4, group_size=128)
    zeros = QuarkInt4Linear(packing=packing).tensors(_rows(1024), H100)[-1]
    assert zeros == Tensor(512 * 4 // 32 * 8, "int32")


@pytest.mark.parametrize(
    ("gpu", "weight", "inputs", "attention", "mlp"),
    [
        ("H100", FP8, FP8, 1_509_950_016, 5_435_818_560),
        ("H100", BLOCK, BY_GROUP, 1_510_318_080, 5_437_145_088),
        ("H100", INT4, None, 784_465_920, 2_824_077_312),
        ("B200", MXFP4, MX_INPUT, 802_160_640, 2_887_778_304),
        ("B200", MXFP8, MX8_INPUT, 1_557_135_360, 5_605_687_296),
        ("B200", NVFP4, NVFP4_INPUT, 849_347_712, 3_057_648_768),
    ],
)
def test_what_vllm_holds(
    gpu: str, weight: Any, inputs: Any, attention: int, mlp: int
) -> None:
    """Qwen3-8B, as vLLM 0.33.0's own code held it after loading."""
    config = {
        "quant_method": "quark",
        "export": {"kv_cache_group": [], "pack_method": "reorder"},
        "global_quant_config": layer(weight, inputs),
        "exclude": ["lm_head"],
    }
    made = planner.plan(
        "Qwen/Qwen3-8B", gpu=gpu, hf_overrides={"quantization_config": config}
    )
    parts = {part.name: part.size_bytes for part in made.ranks[0].weight_parts}
    assert (parts["attention"], parts["mlp"]) == (attention, mlp)
