"""AWQ checkpoints.

Source: vLLM 0.33.0 `layers/quantization/auto_awq.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts.wna16 import AWQExperts
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    flag,
    given_integer,
    listed,
    required,
)
from planner.models.quantization.matching import is_layer_skipped
from planner.models.quantization.packed_ints import (
    fills_marlin,
    is_marlin_group,
    repacked,
    repacked_by_marlin,
)
from planner.models.quantization.padding import WORD_BITS, Packing
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensor,
    Tensors,
)
from planner.values import frozen

_BITS = 4
_CHOOSES_A_KERNEL = Change(
    since=(0, 19),
    what=(
        "Machete serves AWQ layers on Hopper. Before, Marlin did wherever they fill "
        "its tiles."
    ),
    source=(
        "vLLM 0.18.1 and 0.19.0 `layers/quantization/awq_marlin.py` "
        "AWQMarlinConfig.get_quant_method, AWQMarlinLinearMethod"
    ),
)


@frozen
class AWQLinear:
    """4 bit weights with a scale and a zero point for each group of columns.

    Source: vLLM 0.33.0 AutoAWQMarlinLinearMethod, and AutoAWQLinearMethod where Marlin
    cannot run: for ranks that cut through groups, and other sizes of groups.
    """

    packing: Packing
    uses_marlin: bool
    """Whether Marlin supports the groups; Machete and Humming may still be chosen."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and zero points on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a group.
        """
        size = self.packing.group_size
        columns = on_rank.input_size_per_partition
        is_whole = size in (-1, on_rank.input_size) or columns % size == 0
        if not self.uses_marlin or not (is_whole or size >= on_rank.input_size):
            return self._unpacked(on_rank)
        if not layout.release.has(_CHOOSES_A_KERNEL):
            if not fills_marlin(on_rank):
                return self._unpacked(on_rank)
            return repacked_by_marlin(self.packing, on_rank)
        return repacked(self.packing, on_rank, layout)

    def _unpacked(self, on_rank: LinearOnRank) -> Tensors:
        """Return the tensors as they are published.

        Source: vLLM 0.33.0 BaseAWQLinearMethod.create_weights.
        """
        rows, columns = on_rank.shape
        size = (
            on_rank.input_size
            if self.packing.group_size == -1
            else self.packing.group_size
        )
        if columns % size:
            raise Refused(
                "The input size is not aligned with the quantized weight shape. This "
                "can be caused by too large tensor parallel size."
            )
        if rows % (WORD_BITS // _BITS):
            raise Refused(
                "The output size is not aligned with the quantized weight shape. This "
                "can be caused by too large tensor parallel size."
            )
        return (
            self.packing.words(rows * columns),
            self.packing.zero_points(on_rank),
            Tensor(rows * (columns // size)),
        )


@frozen
class AWQConfig(QuantizationConfig):
    """AWQ as read from a checkpoint."""

    group_size: int
    has_zero_points: bool
    has_quantised_head: bool
    ignored: tuple[str, ...]
    name: str = "auto_awq"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer whose name contains none of the listed parts."""
        if is_layer_skipped(place, self.ignored, "substring"):
            return None
        return AWQLinear(
            packing=Packing(
                num_bits=_BITS,
                group_size=self.group_size,
                has_zero_points=self.has_zero_points,
            ),
            # Without zero points Marlin has no kernel for unsigned integers.
            uses_marlin=self.has_zero_points and is_marlin_group(self.group_size),
        )

    def head(self, place: Place) -> LinearMethod | None:
        """Quantise the LM head only where the checkpoint says so."""
        return self.linear(place) if self.has_quantised_head else None

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts whose names contain none of the listed parts."""
        own = Place(prefix=place.prefix)
        if is_layer_skipped(own, self.ignored, "substring"):
            return None
        return AWQExperts(
            num_bits=_BITS,
            group_size=self.group_size,
            has_zero_points=self.has_zero_points,
        )


def read_awq(given: Mapping[str, Any], context: Context) -> AWQConfig:
    """Read `quantization_config` of an AWQ checkpoint.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for groups of no columns.

    Source: vLLM 0.33.0 `layers/quantization/auto_awq.py` AutoAWQConfig.
    """
    bits = given_integer(given, "w_bit", "bits")
    if bits != _BITS:
        raise Refused(
            f"Unsupported num_bits = {bits}. Supported: 4. For 8-bit AWQ, use Marlin "
            "backend by setting backend='awq:marlin' or backend='marlin'."
        )
    group_size = given_integer(given, "q_group_size", "group_size")
    if not group_size:  # vLLM divides by it
        raise UnknownArchitecture(
            "quantization_config.q_group_size is 0: the number of columns that share a "
            "scale, or -1 for all of them, is needed."
        )
    return AWQConfig(
        group_size=group_size,
        has_zero_points=bool(required(given, "zero_point")),
        has_quantised_head=flag(given, "lm_head"),
        ignored=context.vllm_names(
            listed(given, "modules_to_not_convert") or sorted(context.plain_layers())
        ),
    )
