"""NVFP4 experts: 4 bit floats with a scale for 16, and one for the expert.

Source: vLLM 0.33.0 `layers/quantization/modelopt.py` ModelOptNvFp4FusedMoE,
`layers/quantization/compressed_tensors/compressed_tensors_moe/
compressed_tensors_moe_w4a4_nvfp4.py`, `layers/fused_moe/oracle/nvfp4.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from planner.engine.layout import ParallelLayout
from planner.engine.releases.shared import KEEPS_RAW_NVFP4_SCALES
from planner.errors import Refused
from planner.models.quantization.experts import serving
from planner.models.quantization.experts.kernels import (
    Kernel,
    is_datacenter_blackwell,
    nvfp4_kernel,
)
from planner.models.quantization.experts.serving import (
    HummingWeights,
    prefers_humming,
)
from planner.models.quantization.padding import round_up
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    ServedExperts,
    Tensors,
)
from planner.values import frozen

_GROUP = 16
_HUMMING = HummingWeights(
    num_bits=4,
    group_size=_GROUP,
    scale_dtype="float8_e4m3fn",
    has_expert_scale=True,
)
_SCALE_ROWS, _SCALE_COLUMNS = 128, 4
"""Tiles of scales that CUTLASS kernels read."""


class _Padded(NamedTuple):
    """Experts with the sizes of a kernel, and the scales of w13 and w2 of each."""

    on_rank: ExpertsOnRank
    scales: tuple[int, int]


@frozen
class NvFp4Experts:
    """As ModelOpt and compressed-tensors publish them."""

    is_compressed_tensors: bool = False
    has_input_scale: bool = True
    """False: activations stay in 16 bits (W4A16)."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: in vLLM's words, for sizes that the kernel would have to pad.
        """
        kernel = nvfp4_kernel(on_rank, layout, has_input_scale=self.has_input_scale)
        if kernel is Kernel.MARLIN and prefers_humming(layout):
            return _HUMMING.tensors(on_rank)
        shards = 2 if on_rank.is_gated else 1
        # Scales by expert: of both weights; of both inputs; what TRT-LLM derives.
        scalars = {Kernel.MARLIN: 2, Kernel.FLASHINFER_CUTLASS: 4, Kernel.TRTLLM: 5}
        held = _held(_padded(on_rank, kernel, hidden_tile=256))
        per_expert = scalars[kernel]
        if self.is_compressed_tensors:
            # The published scales, turned upside down for the kernel, stay as well.
            per_expert += 2 * (shards + 1)
        raw: Tensors = ()
        if layout.release.has(KEEPS_RAW_NVFP4_SCALES) and kernel is not Kernel.MARLIN:
            raw = _raw_scales(on_rank)
        return (
            *held,
            *raw,
            *on_rank.each(per_expert, dtype="float32"),
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        kernel = nvfp4_kernel(on_rank, layout, has_input_scale=self.has_input_scale)
        return _served(on_rank, layout, kernel, hidden_tile=256)


@frozen
class NvFp4OnlineExperts:
    """Weights made NVFP4 while loading, activations scaled token by token.

    Source: vLLM 0.33.0 `layers/quantization/online/nvfp4.py` Nvfp4OnlineMoEMethod;
    `layers/quantization/utils/flashinfer_utils.py` trtllm_nvfp4_hidden_alignment.
    """

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank.

        Raises:
            Refused: in vLLM's words, on GPUs other than B200 and B300.
        """
        if not is_datacenter_blackwell(layout):
            raise Refused(
                "nvfp4_per_token online quantization requires a Blackwell (SM100) GPU."
            )
        padded = _padded(on_rank, Kernel.TRTLLM, hidden_tile=_online_tile(on_rank))
        return (
            *_held(padded),
            *on_rank.each(5, dtype="float32"),
            *on_rank.biases(),
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        tile = _online_tile(on_rank)
        return _served(on_rank, layout, Kernel.TRTLLM, hidden_tile=tile)


def _online_tile(on_rank: ExpertsOnRank) -> int:
    return 256 if on_rank.is_gated else 512


def _served(
    on_rank: ExpertsOnRank, layout: ParallelLayout, kernel: Kernel, *, hidden_tile: int
) -> ServedExperts:
    """Return the kernel and its sizes; TRT-LLM's inputs and outputs are padded too.

    Source: vLLM 0.33.0 `layers/quantization/utils/flashinfer_fp4_moe.py`
    prepare_nvfp4_moe_layer_for_fi_or_cutlass (moe_config.hidden_dim).
    """
    found = serving.by_nvfp4(on_rank, layout, kernel)
    if found.kernel is not ExpertsKernel.TRTLLM:
        return found
    padded = _padded(on_rank, kernel, hidden_tile=hidden_tile).on_rank
    return replace(
        found,
        hidden_size=padded.hidden_size,
        intermediate_size=padded.intermediate_size_per_partition,
    )


def _held(padded: _Padded) -> Tensors:
    on_rank = padded.on_rank
    return (
        *on_rank.weights("uint8", per_element=2),
        *on_rank.each(*padded.scales, dtype="float8_e4m3fn"),
    )


def _raw_scales(on_rank: ExpertsOnRank) -> Tensors:
    """Return the scales as published."""
    columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
    counts = on_rank.w13_rows * (hidden // _GROUP), hidden * (columns // _GROUP)
    return on_rank.each(*counts, dtype="float8_e4m3fn")


def _padded(on_rank: ExpertsOnRank, kernel: Kernel, *, hidden_tile: int) -> _Padded:
    if kernel is Kernel.FLASHINFER_CUTLASS:
        return _padded_for_cutlass(on_rank)
    columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
    if kernel is Kernel.TRTLLM:
        columns = round_up(columns, 64 if on_rank.is_gated else 128)
        hidden = round_up(hidden, hidden_tile)
    else:
        columns = round_up(columns, 64 if hidden % 128 == 0 else 128)
    padded = on_rank.padded(columns, hidden)
    scales = padded.w13_rows * (hidden // _GROUP), hidden * (columns // _GROUP)
    return _Padded(padded, scales)


def _padded_for_cutlass(on_rank: ExpertsOnRank) -> _Padded:
    """Return the sizes for kernels that read scales in tiles.

    Raises:
        Refused: in vLLM's words, for experts with a gate whose rows fill no tiles.

    Source: vLLM 0.33.0 `layers/quantization/utils/flashinfer_fp4_moe.py`
    prepare_nvfp4_moe_layer_for_fi_or_cutlass; `layers/quantization/utils/
    nvfp4_utils.py` swizzle_blockscale.
    """
    columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
    rows = on_rank.w13_rows
    padding = round_up(rows, _SCALE_ROWS) - rows
    if padding and on_rank.is_gated:
        raise Refused(
            "('Intermediate size padding for w1 and w3, for %s NvFp4 backend, but this "
            "is not currently supported', 'FLASHINFER_CUTLASS')"
        )
    columns += padding
    padded = on_rank.padded(columns)
    of_w13 = _tiles(padded.w13_rows, hidden // _GROUP)
    return _Padded(padded, (of_w13, _tiles(hidden, columns // _GROUP)))


def _tiles(rows: int, columns: int) -> int:
    return round_up(rows, _SCALE_ROWS) * round_up(columns, _SCALE_COLUMNS)
