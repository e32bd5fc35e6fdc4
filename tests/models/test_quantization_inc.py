"""Checkpoints of AutoRound, vLLM's method `inc`."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.awq import AWQLinear
from planner.models.quantization.experts.fp8 import Mxfp8Experts
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts
from planner.models.quantization.experts.wna16 import AWQExperts, GPTQExperts
from planner.models.quantization.gptq import GPTQLinear
from planner.models.quantization.inc import INCConfig, SinceLinear, read_inc
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.padding import Packing
from planner.models.tensors import LinearOnRank

PUBLISHED = {
    "quant_method": "auto-round",
    "bits": 4,
    "group_size": 128,
    "sym": True,
    "packing_format": "auto_round:auto_gptq",
}
AWQ = {"packing_format": "auto_round:auto_awq", "sym": False}
MX = {"data_type": "mx_fp", "packing_format": "auto_round:llm_compressor"}
O_PROJ = Place(prefix="model.layers.0.self_attn.o_proj")
GATE_UP = Place(
    prefix="model.layers.0.mlp.gate_up_proj", shards=("gate_proj", "up_proj")
)
HEAD = Place(prefix="lm_head")
EXPERTS = Place(prefix="model.layers.0.mlp.experts")
FOUR = Packing(num_bits=4, group_size=128)
LAYER = LinearOnRank(
    name="layer",
    input_size=1024,
    output_size=512,
    input_size_per_partition=1024,
    output_partition_sizes=(512,),
)


def _read(**changes: Any) -> INCConfig:
    return read_inc({**PUBLISHED, **changes}, Context())


def _layout(release: str) -> ParallelLayout:
    return ParallelLayout(
        compute_capability=(8, 0),
        num_sms=108,
        tensor_parallel_size=1,
        release=Release(tuple(int(part) for part in release.split("."))),
    )


def test_integers_are_held_as_gptqs_or_awqs() -> None:
    """By the packing format; the kernels are the same."""
    assert _read().linear(O_PROJ) == GPTQLinear(packing=FOUR)
    assert _read(bits=8).experts(EXPERTS) == GPTQExperts(num_bits=8, group_size=128)
    packing = Packing(num_bits=4, group_size=128, has_zero_points=True)
    assert _read(**AWQ).linear(O_PROJ) == AWQLinear(packing=packing, uses_marlin=True)
    assert _read(**AWQ).experts(EXPERTS) == AWQExperts(
        num_bits=4, group_size=128, has_zero_points=True
    )


def test_the_backend_may_name_the_packing() -> None:
    """GPTQ's where either names it."""
    config = _read(packing_format="auto_round:auto_awq", backend="gptq:marlin")
    assert config.linear(O_PROJ) == GPTQLinear(packing=FOUR)


def test_the_head_is_left_unless_it_is_named() -> None:
    """By its short name too."""
    assert _read().head(HEAD) is None
    named = _read(extra_config={"lm_head": {"bits": 4}})
    assert named.head(Place(prefix="language_model.lm_head")) == GPTQLinear(
        packing=FOUR
    )


@pytest.mark.parametrize(
    "name", ["model.layers.0.self_attn.o_proj", r".*\.0\.self_attn\..*"]
)
def test_exceptions_are_names_or_expressions(name: str) -> None:
    """16 bits leave a layer as it is."""
    config = _read(extra_config={name: {"bits": 16}})
    assert config.linear(O_PROJ) is None
    assert config.linear(Place(prefix="model.layers.1.self_attn.o_proj")) is not None


def test_packed_layers_have_one_setting() -> None:
    """Both of gate and up, or none."""
    both = {f"model.layers.0.mlp.{name}_proj": {"bits": 8} for name in ("gate", "up")}
    eight = GPTQLinear(packing=Packing(num_bits=8, group_size=128))
    assert _read(extra_config=both).linear(GATE_UP) == eight
    both.popitem()
    with pytest.raises(Refused, match=r"^Fused module 'model\.layers\.0\.mlp\.gate_up"):
        _read(extra_config=both).linear(GATE_UP)


def test_only_listed_blocks_are_quantised() -> None:
    """As for models whose encoder stays as it is."""
    config = _read(block_name_to_quantize="model.layers,model.other")
    assert config.linear(O_PROJ) is not None
    assert config.linear(Place(prefix="visual.blocks.0.attn.qkv")) is None


def test_other_widths_came_with_humming() -> None:
    """Three bits: refused before 0.30."""
    method = _read(bits=3).linear(O_PROJ)
    assert isinstance(method, SinceLinear)
    weight = method.tensors(LAYER, _layout("0.33.0"))[0]
    assert weight.elements == 512 * 1024 * 3 // 32
    with pytest.raises(Refused, match="bits=3"):
        method.tensors(LAYER, _layout("0.29.0"))


def test_mx_formats_came_later() -> None:
    """MXFP4 and MXFP8 since 0.27, blocks of FP8 since 0.29."""
    four, eight = _read(group_size=32, **MX), _read(bits=8, group_size=32, **MX)
    assert isinstance(four.experts(EXPERTS), Mxfp4Experts)
    assert isinstance(eight.experts(EXPERTS), Mxfp8Experts)
    method = four.linear(O_PROJ)
    assert method is not None
    assert method.tensors(LAYER, _layout("0.27.0"))
    with pytest.raises(Refused, match="Unsupported data_type: mx_fp"):
        method.tensors(LAYER, _layout("0.26.0"))
    blocks = _read(bits=8, data_type="fp8", group_size=[128, 128], packing_format=None)
    method = blocks.linear(O_PROJ)
    assert method is not None
    with pytest.raises(Refused, match="Unsupported data_type: fp"):
        method.tensors(LAYER, _layout("0.28.0"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 9}, "Unsupported weight_bits: 9"),
        ({"data_type": "nv_fp"}, "Unsupported data_type: nv_fp"),
        ({"packing_format": "auto_gptq"}, "Unsupported packing_format: auto_gptq"),
        ({"backend": "ipex"}, "Unsupported backend: ipex"),
        ({"packing_format": "auto_round:fp8"}, "INC int quantization only supports"),
    ],
)
def test_what_vllm_refuses(changes: dict[str, Any], message: str) -> None:
    """In its words."""
    with pytest.raises(Refused, match=f"^{message}"):
        _read(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sym": False}, "bits=4, sym=False is not supported"),
        ({**AWQ, "bits": 8}, "Unsupported num_bits = 8"),
    ],
)
def test_which_integers_have_no_kernel(changes: dict[str, Any], message: str) -> None:
    """GPTQ without symmetry, AWQ of 8 bits."""
    with pytest.raises(Refused, match=message):
        _read(**changes).linear(O_PROJ)


def test_what_is_not_modelled() -> None:
    """Experts of other widths, blocks of another size."""
    with pytest.raises(UnknownArchitecture, match="3 bits"):
        _read(bits=3).experts(EXPERTS)
    with pytest.raises(UnknownArchitecture, match="group_size"):
        _read(bits=8, data_type="fp", group_size=[64, 64], packing_format=None)


def test_a_plan_is_that_of_the_gptq_release() -> None:
    """The weights are GPTQ's; vLLM calls the method inc."""
    auto = planner.plan(
        "Qwen/Qwen3-8B",
        gpu="A100-80GB",
        hf_overrides={"quantization_config": PUBLISHED},
    )
    gptq = {**PUBLISHED, "quant_method": "gptq", "desc_act": False}
    same = planner.plan(
        "Qwen/Qwen3-8B", gpu="A100-80GB", hf_overrides={"quantization_config": gptq}
    )
    assert auto.resolved is not None
    assert auto.resolved.quantization == "inc"
    assert auto.ranks[0].weights_bytes == same.ranks[0].weights_bytes


FP8_BLOCKS = {"bits": 8, "group_size": [128, 128], "packing_format": "auto_round:fp8"}


@pytest.mark.parametrize(
    ("gpu", "changes", "attention", "mlp"),
    [
        ("H100", {}, 784_465_920, 2_824_077_312),
        ("H100", {"bits": 8}, 1_545_338_880, 5_563_219_968),
        ("H100", AWQ, 802_160_640, 2_887_778_304),
        ("H100", {**FP8_BLOCKS, "data_type": "fp"}, 1_510_318_080, 5_437_145_088),
        ("B200", {**MX, "group_size": 32}, 802_160_640, 2_887_778_304),
    ],
)
def test_what_vllm_holds(
    gpu: str, changes: dict[str, Any], attention: int, mlp: int
) -> None:
    """Qwen3-8B, as vLLM 0.33.0's own code held it after loading."""
    config = {**PUBLISHED, **changes}
    made = planner.plan(
        "Qwen/Qwen3-8B", gpu=gpu, hf_overrides={"quantization_config": config}
    )
    parts = {part.name: part.size_bytes for part in made.ranks[0].weight_parts}
    assert (parts["attention"], parts["mlp"]) == (attention, mlp)
