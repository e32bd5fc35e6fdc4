"""Checkpoints of torchao: `quant_method: torchao`, linear layers only.

The setting is a serialised object of torchao: one for all layers, or one for each name
or expression. Version 2 of the settings is modelled, which torchao writes since 0.15.

Source: vLLM 0.33.0 `layers/quantization/torchao.py`; torchao 0.18.0
`quantization/quant_api.py` and `quantization/quantize_/workflows/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from planner.engine.generations import ADA
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    listed,
)
from planner.models.quantization.padding import round_up
from planner.models.tensors import LinearMethod, LinearOnRank, Tensor, Tensors
from planner.values import frozen

_VERSION = 2
_INT8 = ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig")
_FP8_WEIGHTS = "Float8WeightOnlyConfig"
_FP8 = "Float8DynamicActivationFloat8WeightConfig"
_INT4 = "Int4WeightOnlyConfig"
_BY_NAME = ("ModuleFqnToConfig", "FqnToConfig")
_GROUP = 128
_TILED = "TILE_PACKED_TO_4D"
_TILE_ROWS, _TILE_COLUMNS = 8, 1024
_FORMATS = ("PLAIN", "PRESHUFFLED", _TILED)


@frozen
class TorchAOInt8Linear:
    """A byte for each weight, a scale and a zero point for each row.

    Source: torchao 0.18.0 `workflows/int8/int8_tensor.py` Int8Tensor.
    """

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and zero points on a rank."""
        rows = on_rank.output_size_per_partition
        elements = rows * on_rank.input_size_per_partition
        return (Tensor(elements, "int8"), Tensor(rows, "float32"), Tensor(rows, "int8"))


@frozen
class TorchAOFp8Linear:
    """FP8 with a scale for each row, or one for all.

    Source: torchao 0.18.0 `workflows/float8/float8_tensor.py` Float8Tensor.
    """

    is_by_row: bool
    is_dynamic: bool
    """Whether activations are FP8 too."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for FP8 activations on older GPUs.
        """
        if self.is_dynamic and layout.compute_capability < ADA:
            major, minor = layout.compute_capability
            raise Refused(
                f"torchao FP8 activation quantization config '{_FP8}' requires GPU "
                "compute capability >= 8.9 (e.g., NVIDIA Ada Lovelace / Hopper or AMD "
                f"MI300+) (current GPU compute capability: {major}.{minor}). For older "
                "GPUs, consider using a non-FP8 config such as Int8WeightOnlyConfig or "
                "Int4WeightOnlyConfig."
            )
        rows = on_rank.output_size_per_partition
        elements = rows * on_rank.input_size_per_partition
        scales = rows if self.is_by_row else 1
        return (Tensor(elements, "float8_e4m3fn"), Tensor(scales, "float32"))


@frozen
class TorchAOInt4Linear:
    """Two weights in a byte, a scale and a zero point for each group.

    A rank's columns that groups do not fill are left in the model's dtype.

    Source: torchao 0.18.0 `workflows/int4/` Int4Tensor, Int4PreshuffledTensor and
    Int4TilePackedTo4dTensor; `quant_api.py` _int4_weight_only_quantize_tensor.
    """

    group_size: int
    is_tiled: bool
    """Whether rows and columns are padded to tiles."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and zero points on a rank."""
        rows, columns = on_rank.shape
        if columns % self.group_size:
            return (Tensor(rows * columns),)
        if self.is_tiled:
            rows = round_up(rows, _TILE_ROWS)
            columns = round_up(columns, _TILE_COLUMNS)
        scales = Tensor(rows * (columns // self.group_size))
        return (Tensor(rows * columns // 2, "uint8"), scales, scales)


@frozen
class TorchAOConfig(QuantizationConfig):
    """torchao as read from a checkpoint."""

    method: LinearMethod | None
    """Of layers that no name or expression matches."""
    by_name: Mapping[str, LinearMethod | None] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    name: str = "torchao"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise a layer by its own name; a merged one is not taken apart.

        Source: vLLM 0.33.0 TorchAOConfig.get_quant_method, should_skip.
        """
        prefix = place.prefix
        dotted = f".{prefix}."
        if any(name == prefix or f".{name}." in dotted for name in self.skipped):
            return None
        if prefix in self.by_name:
            return self.by_name[prefix]
        for name, method in self.by_name.items():
            if name.startswith("re:") and re.fullmatch(name[3:], prefix):
                return method
        return self.method


def read_torchao(given: Mapping[str, Any], context: Context) -> TorchAOConfig:
    """Read `quantization_config` of a torchao checkpoint.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for settings that are not modelled.

    Source: vLLM 0.33.0 TorchAOConfig.from_config.
    """
    kinds = given.get("quant_type")
    if kinds is None:
        raise Refused("quant_type must be specified")
    if not isinstance(kinds, Mapping) or set(kinds) != {"default"}:
        raise Refused("Expected only one key 'default' in quant_type dictionary")
    setting = kinds["default"]
    skipped = context.vllm_names(listed(given, "modules_to_not_convert"))
    if not isinstance(setting, Mapping) or setting.get("_type") not in _BY_NAME:
        return TorchAOConfig(method=_method(setting), skipped=skipped)
    data = setting.get("_data") or {}
    named = data.get("module_fqn_to_config") or data.get("fqn_to_config") or {}
    methods = {
        name: None if one is None else _method(one) for name, one in named.items()
    }
    return TorchAOConfig(
        method=methods.pop("_default", None),
        by_name={context.vllm_name(name): method for name, method in methods.items()},
        skipped=skipped,
    )


def _method(setting: Any) -> LinearMethod:  # noqa: ANN401 - untyped border
    """Return how a layer of a serialised setting is held.

    Raises:
        UnknownArchitecture: for one that is not modelled.
    """
    kind, data = _parts(setting)
    if kind in _INT8:
        return TorchAOInt8Linear()
    if kind in (_FP8_WEIGHTS, _FP8):
        is_weight_only = kind == _FP8_WEIGHTS
        return TorchAOFp8Linear(
            is_by_row=is_weight_only or _is_by_row(data.get("granularity")),
            is_dynamic=not is_weight_only,
        )
    packing = _enum(data.get("int4_packing_format") or "PLAIN")
    if packing not in _FORMATS:
        raise UnknownArchitecture(
            f"quantization_config.quant_type: torchao's packing {packing} is not "
            f"modelled; {', '.join(_FORMATS)} are."
        )
    return TorchAOInt4Linear(
        group_size=int(data.get("group_size") or _GROUP), is_tiled=packing == _TILED
    )


def _parts(setting: Any) -> tuple[str, Mapping[str, Any]]:  # noqa: ANN401 - border
    """Return a setting's class and fields.

    Raises:
        UnknownArchitecture: for a class or a version that is not modelled.
    """
    known = (*_INT8, _FP8_WEIGHTS, _FP8, _INT4)
    found = setting if isinstance(setting, Mapping) else {}
    kind, version = found.get("_type"), found.get("_version")
    if kind not in known or version != _VERSION:
        shown = setting if kind is None else f"{kind}, version {version}"
        raise UnknownArchitecture(
            f"quantization_config.quant_type: torchao's {shown} is not modelled; "
            f"version {_VERSION} of {', '.join(known)} is."
        )
    return str(kind), found.get("_data") or {}


def _is_by_row(granularity: Any) -> bool:  # noqa: ANN401 - untyped border
    """Whether weights have a scale for each row: the last of two granularities."""
    if isinstance(granularity, list):
        granularity = granularity[-1] if granularity else None
    found = granularity if isinstance(granularity, Mapping) else {}
    return found.get("_type") == "PerRow"


def _enum(value: Any) -> str:  # noqa: ANN401 - untyped border
    """Return the name of a serialised choice."""
    if isinstance(value, Mapping):
        value = value.get("_data")
    return str(value).upper()
