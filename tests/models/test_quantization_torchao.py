"""Checkpoints of torchao."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.torchao import (
    TorchAOConfig,
    TorchAOFp8Linear,
    TorchAOInt4Linear,
    TorchAOInt8Linear,
    read_torchao,
)
from planner.models.tensors import LinearMethod, LinearOnRank, Tensor

A100, H100 = (
    ParallelLayout(compute_capability=capability, num_sms=108, tensor_parallel_size=1)
    for capability in ((8, 0), (9, 0))
)
DOWN = Place(prefix="model.layers.0.mlp.down_proj")
QKV = Place(
    prefix="model.layers.0.self_attn.qkv_proj", shards=("q_proj", "k_proj", "v_proj")
)
LAYER = LinearOnRank(
    name="layer",
    input_size=1024,
    output_size=512,
    input_size_per_partition=1024,
    output_partition_sizes=(512,),
)


def setting(kind: str, version: int = 2, **data: Any) -> dict[str, Any]:
    """A serialised setting."""
    return {"_type": kind, "_version": version, "_data": data}


def read(default: Any, **others: Any) -> TorchAOConfig:
    """A checkpoint of this setting."""
    given = {"quant_method": "torchao", "quant_type": {"default": default}, **others}
    return read_torchao(given, Context())


BY_ROW = {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}
INT8 = setting("Int8WeightOnlyConfig")
FP8 = "Float8DynamicActivationFloat8WeightConfig"
INT4 = "Int4WeightOnlyConfig"
TILED = {"_type": "Int4PackingFormat", "_data": "TILE_PACKED_TO_4D"}


@pytest.mark.parametrize(
    ("default", "method"),
    [
        (INT8, TorchAOInt8Linear()),
        (setting("Int8DynamicActivationInt8WeightConfig"), TorchAOInt8Linear()),
        (
            setting("Float8WeightOnlyConfig"),
            TorchAOFp8Linear(is_by_row=True, is_dynamic=False),
        ),
        (
            setting(FP8, granularity=[BY_ROW, BY_ROW]),
            TorchAOFp8Linear(is_by_row=True, is_dynamic=True),
        ),
        (setting(FP8), TorchAOFp8Linear(is_by_row=False, is_dynamic=True)),
        (
            setting(INT4, group_size=64),
            TorchAOInt4Linear(group_size=64, is_tiled=False),
        ),
        (
            setting(INT4, int4_packing_format=TILED),
            TorchAOInt4Linear(group_size=128, is_tiled=True),
        ),
    ],
)
def test_settings_that_are_read(default: Any, method: LinearMethod) -> None:
    """Of version 2, as torchao 0.18 writes them."""
    assert read(default).linear(DOWN) == method


@pytest.mark.parametrize(
    ("method", "size_bytes"),
    [
        (TorchAOInt8Linear(), 526_848),
        (TorchAOFp8Linear(is_by_row=True, is_dynamic=False), 526_336),
        (TorchAOFp8Linear(is_by_row=False, is_dynamic=True), 512 * 1024 + 4),
        (
            TorchAOInt4Linear(group_size=128, is_tiled=False),
            512 * 512 + 2 * 512 * 8 * 2,
        ),
    ],
)
def test_what_a_layer_takes(method: LinearMethod, size_bytes: int) -> None:
    """512 rows of 1,024 columns; the first two as torchao 0.18.0 made them."""
    sizes = {"int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float32": 4, None: 2}
    made = method.tensors(LAYER, H100)
    assert sum(t.elements * sizes[t.dtype] for t in made) == size_bytes


def test_tiles_pad_rows_and_columns() -> None:
    """To 8 rows and 1,024 columns; columns that no group fills stay plain."""
    method = TorchAOInt4Linear(group_size=128, is_tiled=True)
    narrow = LinearOnRank(
        name="layer",
        input_size=1152,
        output_size=500,
        input_size_per_partition=1152,
        output_partition_sizes=(500,),
    )
    scales = Tensor(504 * 16)
    assert method.tensors(narrow, H100) == (
        Tensor(504 * 1024, "uint8"),
        scales,
        scales,
    )
    odd = TorchAOInt4Linear(group_size=256, is_tiled=False)
    assert odd.tensors(narrow, H100) == (Tensor(500 * 1152),)


def test_names_and_expressions_choose() -> None:
    """A merged layer goes by its own name; `_default` is for the others."""
    named = {
        "re:.*self_attn.*": setting("Float8WeightOnlyConfig"),
        DOWN.prefix: None,
        "_default": INT8,
    }
    config = read(setting("ModuleFqnToConfig", 1, module_fqn_to_config=named))
    assert config.linear(QKV) == TorchAOFp8Linear(is_by_row=True, is_dynamic=False)
    assert config.linear(DOWN) is None
    assert config.linear(Place(prefix="model.layers.1.mlp.down_proj")) == (
        TorchAOInt8Linear()
    )


def test_a_list_leaves_parts_of_names_out() -> None:
    """`layers.0` is not `layers.10`; experts are never quantised."""
    config = read(INT8, modules_to_not_convert=["layers.0"])
    assert config.linear(DOWN) is None
    assert config.linear(Place(prefix="model.layers.10.mlp.down_proj")) is not None
    assert config.experts(Place(prefix="model.layers.1.mlp.experts")) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quant_type": None}, "quant_type must be specified"),
        ({"quant_type": {"a": INT8}}, "Expected only one key 'default'"),
    ],
)
def test_what_vllm_refuses(changes: dict[str, Any], message: str) -> None:
    """In its words."""
    with pytest.raises(Refused, match=f"^{message}"):
        read(INT8, **changes)


def test_fp8_activations_need_ada() -> None:
    """Weights alone do not."""
    both = TorchAOFp8Linear(is_by_row=True, is_dynamic=True)
    with pytest.raises(Refused, match=r"compute capability >= 8\.9"):
        both.tensors(LAYER, A100)
    assert TorchAOFp8Linear(is_by_row=True, is_dynamic=False).tensors(LAYER, A100)


@pytest.mark.parametrize(
    "default",
    [
        setting("Int8WeightOnlyConfig", 1),
        setting("UIntXWeightOnlyConfig"),
        setting(INT4, int4_packing_format={"_data": "MARLIN_SPARSE"}),
        "int4_weight_only",
    ],
)
def test_what_is_not_modelled(default: Any) -> None:
    """Older versions, other classes and layouts, and names alone."""
    with pytest.raises(UnknownArchitecture, match="not modelled"):
        read(default)
