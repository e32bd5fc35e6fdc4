"""How a group of a compressed-tensors config quantises weights and activations.

Source: compressed-tensors `quantization/quant_args.py` QuantizationArgs, which vLLM
0.33.0 reads configs with; vLLM's CompressedTensorsConfig for what each scheme is
(`layers/quantization/compressed_tensors/compressed_tensors.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import UnknownArchitecture
from planner.values import frozen

_ACTIVATION_FORMATS = (
    "naive-quantized",
    "int-quantized",
    "float-quantized",
    "nvfp4-pack-quantized",
)
_FP8_STRATEGIES = ("tensor", "channel", "block")
_NV_GROUP, _MX_GROUP = 16, 32
_FOUR, _EIGHT = 4, 8


@frozen
class Args:
    """How weights, or activations, are quantised."""

    num_bits: int
    kind: str
    """int or float."""
    strategy: str
    group_size: int | None
    block: tuple[int, ...] | None
    is_symmetric: bool
    is_dynamic: bool
    scale_dtype: str | None = None

    @property
    def is_int(self) -> bool:
        """Whether they are whole numbers."""
        return self.kind == "int"

    @property
    def is_nvfp4(self) -> bool:
        """4 bit floats with a scale for 16 and one for all."""
        return (
            self._is_float(_FOUR)
            and self.strategy == "tensor_group"
            and self.group_size == _NV_GROUP
        )

    @property
    def is_mxfp4(self) -> bool:
        """4 bit floats with a power of two for 32."""
        return self._is_mx(_FOUR)

    @property
    def is_mxfp8(self) -> bool:
        """FP8 with a power of two for 32."""
        return self._is_mx(_EIGHT) and self.scale_dtype == "uint8"

    @property
    def is_fp8(self) -> bool:
        """FP8 weights with a scale per tensor, row or block."""
        return (
            not self.is_int
            and self.is_symmetric
            and not self.is_dynamic
            and self.strategy in _FP8_STRATEGIES
        )

    @property
    def is_grouped(self) -> bool:
        """Published scales by group of columns, or by row."""
        return self.strategy in ("channel", "group") and not self.is_dynamic

    def _is_float(self, num_bits: int) -> bool:
        return not self.is_int and self.num_bits == num_bits and self.is_symmetric

    def _is_mx(self, num_bits: int) -> bool:
        is_group = self.strategy == "group" and self.group_size == _MX_GROUP
        return self._is_float(num_bits) and is_group


def read_args(given: Mapping[str, Any] | None) -> Args | None:
    """Read one of `weights`, `input_activations` and `output_activations`.

    Raises:
        UnknownArchitecture: for a number that is none.
    """
    if not given:
        return None
    num_bits, group_size = given.get("num_bits", _EIGHT), given.get("group_size")
    for value in (num_bits, 0 if group_size is None else group_size):
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnknownArchitecture(
                f"quantization_config.config_groups: {value!r} is not a whole number."
            )
    scale_dtype = given.get("scale_dtype")
    return Args(
        num_bits=num_bits,
        kind=str(given.get("type", "int")).lower(),
        strategy=_strategy(given.get("strategy"), group_size),
        group_size=group_size,
        block=_block(given.get("block_structure")),
        is_symmetric=bool(given.get("symmetric", True)),
        is_dynamic=bool(given.get("dynamic", False)),
        scale_dtype=None if scale_dtype is None else str(scale_dtype)[-5:],
    )


def _strategy(given: str | None, group_size: int | None) -> str:
    """Return the strategy, which the group size implies where it is missing."""
    if given is not None:
        return str(given).lower()
    if group_size is None:
        return "tensor"
    return "channel" if group_size == -1 else "group"


def _block(given: Any) -> tuple[int, ...] | None:  # noqa: ANN401 - untyped border
    if given is None:
        return None
    sizes = given.split("x") if isinstance(given, str) else given
    return tuple(int(size) for size in sizes)


@frozen
class Scheme:
    """A group of the config: the settings its layers share."""

    weights: Args
    inputs: Args | None
    outputs: Args | None
    format: str | None

    @property
    def is_activation_format(self) -> bool:
        """Whether layers of this format may have their activations quantised."""
        return self.format in _ACTIVATION_FORMATS

    @property
    def is_w8a8_fp8(self) -> bool:
        """FP8 weights and activations."""
        inputs = self.inputs
        if inputs is None or inputs.is_int or not self.weights.is_fp8:
            return False
        is_static = inputs.is_symmetric and inputs.strategy == "tensor"
        return inputs.is_dynamic or is_static

    @property
    def is_w8a8_int8(self) -> bool:
        """INT8 weights and activations."""
        weights, inputs = self.weights, self.inputs
        if inputs is None or weights.num_bits != _EIGHT or inputs.num_bits != _EIGHT:
            return False
        expected = "token" if inputs.is_dynamic else "tensor"
        return (
            weights.strategy in ("tensor", "channel")
            and inputs.strategy == expected
            and weights.is_symmetric
            and not weights.is_dynamic
        )

    @property
    def is_w4a8(self) -> bool:
        """INT4 weights with 8 bit activations scaled by token."""
        weights, inputs = self.weights, self.inputs
        if inputs is None or not weights.is_int:
            return False
        return (
            weights.num_bits == _FOUR
            and inputs.num_bits == _EIGHT
            and weights.is_grouped
            and weights.is_symmetric
            and inputs.strategy == "token"
            and inputs.is_dynamic
        )

    @property
    def is_w4a8_fp8(self) -> bool:
        """The same with FP8 activations."""
        inputs = self.inputs
        is_float = inputs is not None and not inputs.is_int and inputs.is_symmetric
        return self.is_w4a8 and is_float and self.weights.strategy == "group"

    @property
    def is_weight_only_int(self) -> bool:
        """Packed integers with 16 bit activations."""
        return self.weights.is_grouped and self.inputs is None
