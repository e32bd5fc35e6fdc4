"""MXFP4 experts: 4 bit floats with a power of two for each 32.

Source: vLLM 0.33.0 `layers/quantization/mxfp4.py`,
`layers/fused_moe/oracle/mxfp4.py`, `layers/quantization/compressed_tensors/
compressed_tensors_moe/compressed_tensors_moe_w4a4_mxfp4.py`.
"""

from __future__ import annotations

from enum import StrEnum

from planner.engine.generations import (
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import KNOWS_BLACKWELL_FAMILY, PADS_MXFP4_LESS
from planner.errors import UnknownArchitecture
from planner.models.quantization.experts import serving
from planner.models.quantization.experts.kernels import is_datacenter_blackwell
from planner.models.quantization.experts.serving import (
    HummingWeights,
    prefers_humming,
)
from planner.models.quantization.padding import ceil_div, round_up
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsOnRank,
    ServedExperts,
    Tensors,
)
from planner.values import frozen

_GROUP = 32
_HUMMING = HummingWeights(num_bits=4, group_size=_GROUP, scale_dtype="float8_e8m0fnu")
_WARP_ROWS = 256
"""Rows that Triton's kernel for Hopper reads at once, with eight warps."""
_KEEPS_RAW_MXFP4_SCALES = Change(
    until=(0, 25),
    what=(
        "MXFP4 experts that Triton serves hold the published scales beside those of "
        "Triton's kernel."
    ),
    source="vLLM 0.24.0 and 0.25.0 `layers/fused_moe/oracle/mxfp4.py`",
)
_PADS_BOTH = Change(
    since=(0, 17),
    until=(0, 22),
    what=(
        "Triton's kernel for Hopper pads both dimensions of packed MXFP4 weights to "
        "64. Before and later, it pads them to 16 and 32."
    ),
    source=(
        "vLLM 0.19.1, 0.21.0 and 0.22.0 `third_party/triton_kernels/tensor_details/"
        "layout_details/hopper_value.py` swizzle_data, as in triton_kernels 3.6.0, "
        "which 0.17.0 brought"
    ),
)
_PADS_MORE_GROUPS = Change(
    since=(0, 26),
    what=(
        "Triton's kernel for Hopper pads the scales of MXFP4 experts to 4 groups. "
        "Before, it padded them to 2."
    ),
    source="vLLM 0.26.0 `layers/quantization/utils/mxfp4_utils.py` _swizzle_mxfp4",
)
_LEAVES_ADAPTERS_TO_MARLIN = Change(
    since=(0, 28),
    what="Marlin or Humming serves MXFP4 experts where LoRA is enabled.",
    source=(
        "vLLM 0.28.0 and 0.33.0 `layers/fused_moe/oracle/mxfp4.py` (TRITON_UNFUSED is "
        "not on the list)"
    ),
)
_RUNS_TRITON_MXFP4_ON_RTX = Change(
    until=(0, 12),
    what="Triton serves the experts of gpt-oss on RTX Blackwell as on Hopper.",
    source="vLLM 0.12.0 `layers/quantization/mxfp4.py` get_mxfp4_backend",
)


class Mxfp4Source(StrEnum):
    """Who published the weights, by which vLLM chooses kernels."""

    GPT_OSS = "gpt_oss_mxfp4"
    MXFP4 = "mxfp4"
    """DeepSeek-V4, Kimi-K3 and others."""
    COMPRESSED_TENSORS = "compressed-tensors"


@frozen
class Mxfp4Experts:
    """As gpt-oss, DeepSeek-V4 and compressed-tensors checkpoints publish them."""

    source: str = Mxfp4Source.MXFP4

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and biases on a rank."""
        if self.source == Mxfp4Source.COMPRESSED_TENSORS:
            return _as_published(on_rank)
        if self.source == Mxfp4Source.GPT_OSS:
            _check_known(layout)
        if is_datacenter_blackwell(layout) and not _is_left_to_marlin(layout):
            if self.source == Mxfp4Source.GPT_OSS or on_rank.activation != "swiglustep":
                # FlashInfer's TRT-LLM kernel reads biases in 32 bits.
                tile = 128 if layout.release.has(PADS_MXFP4_LESS) else 256
                return _padded(on_rank, bias_dtype="float32", tile=tile)
            return _for_deepgemm(on_rank)
        if self._uses_triton(on_rank, layout):
            return _for_triton(on_rank, layout.release)
        if prefers_humming(layout):
            columns = round_up(on_rank.intermediate_size_per_partition, 64)
            return _HUMMING.tensors(on_rank.padded(columns))
        return _padded(on_rank, bias_dtype=None)

    def _uses_triton(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> bool:
        """Whether OpenAI's Triton kernel serves the experts: gpt-oss on Hopper.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/mxfp4.py`
        _get_priority_backends_for_gpt_oss; `layers/fused_moe/experts/
        gpt_oss_triton_kernels_moe.py` OAITritonExperts.
        """
        return (
            self.source == Mxfp4Source.GPT_OSS
            and on_rank.activation == "swigluoai"
            and HOPPER <= layout.compute_capability < DATACENTER_BLACKWELL
            and not _is_left_to_marlin(layout)
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes.

        FlashInfer reads inputs of 16 bits for gpt-oss, else MXFP8.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/mxfp4.py` _get_priority_backends
        and _get_priority_backends_for_gpt_oss.
        """
        kernel = self._kernel(on_rank, layout)
        is_oss = self.source == Mxfp4Source.GPT_OSS
        reads_mxfp8 = kernel is ExpertsKernel.TRTLLM and not is_oss
        copy = serving.MXFP8 if reads_mxfp8 else None
        return serving.by_mxfp4(on_rank, layout, kernel, input_copy=copy)

    def _kernel(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ExpertsKernel:
        if self.source == Mxfp4Source.COMPRESSED_TENSORS:
            is_blackwell = layout.compute_capability >= DATACENTER_BLACKWELL
            return ExpertsKernel.CUTLASS_FP4 if is_blackwell else ExpertsKernel.MARLIN
        if is_datacenter_blackwell(layout) and not _is_left_to_marlin(layout):
            if self.source == Mxfp4Source.GPT_OSS or on_rank.activation != "swiglustep":
                return ExpertsKernel.TRTLLM
            return ExpertsKernel.DEEPGEMM
        if self._uses_triton(on_rank, layout):
            return ExpertsKernel.OAI_TRITON
        is_humming = prefers_humming(layout)
        return ExpertsKernel.HUMMING if is_humming else ExpertsKernel.MARLIN


def _is_left_to_marlin(layout: ParallelLayout) -> bool:
    """Whether Marlin or Humming is asked for, or no other supports adapters."""
    if layout.moe_backend in ("marlin", "humming"):
        return True
    return layout.enable_lora and layout.release.has(_LEAVES_ADAPTERS_TO_MARLIN)


def _check_known(layout: ParallelLayout) -> None:
    """Raise where early releases took Triton's kernel for GPUs other than Hopper.

    Raises:
        UnknownArchitecture: naming the method, the GPU and the release.
    """
    release = layout.release
    is_b300 = (
        is_datacenter_blackwell(layout)
        and layout.compute_capability != DATACENTER_BLACKWELL
    )
    if (is_b300 and not release.has(KNOWS_BLACKWELL_FAMILY)) or (
        layout.compute_capability[0] == WORKSTATION_BLACKWELL.major
        and release.has(_RUNS_TRITON_MXFP4_ON_RTX)
    ):
        major, minor = layout.compute_capability
        raise UnknownArchitecture(
            f"quantization_config.quant_method 'mxfp4': how vLLM {release.version} "
            f"lays experts out on compute capability {major}.{minor} is not modelled."
        )


def _padded(
    on_rank: ExpertsOnRank, *, bias_dtype: str | None, tile: int = 128
) -> Tensors:
    """Return what FlashInfer's TRT-LLM kernel and Marlin hold.

    Source: vLLM 0.33.0 `layers/fused_moe/oracle/mxfp4.py`
    mxfp4_round_up_hidden_size_and_intermediate_size.
    """
    columns = round_up(on_rank.intermediate_size_per_partition, tile)
    padded = on_rank.padded(columns, round_up(on_rank.hidden_size, 256))
    return (*_as_published(padded), *padded.biases(bias_dtype))


def _scales(on_rank: ExpertsOnRank) -> Tensors:
    columns, hidden = on_rank.intermediate_size_per_partition, on_rank.hidden_size
    counts = on_rank.w13_rows * (hidden // _GROUP), hidden * (columns // _GROUP)
    return on_rank.each(*counts, dtype="uint8")


def _as_published(on_rank: ExpertsOnRank) -> Tensors:
    return (*on_rank.weights("uint8", per_element=2), *_scales(on_rank))


def _for_deepgemm(on_rank: ExpertsOnRank) -> Tensors:
    """Return what DeepGEMM holds: four scales of a row in a 32 bit word."""
    columns = round_up(on_rank.intermediate_size_per_partition, 128)
    hidden = round_up(on_rank.hidden_size, 128)
    padded = on_rank.padded(columns, hidden)
    words = (
        round_up(padded.w13_rows, 4) * ceil_div(hidden // _GROUP, 4),
        round_up(hidden, 4) * ceil_div(columns // _GROUP, 4),
    )
    return (
        *padded.weights("uint8", per_element=2),
        *padded.each(*words, dtype="int32"),
        *padded.biases(),
    )


def _for_triton(on_rank: ExpertsOnRank, release: Release) -> Tensors:
    """Return what OpenAI's Triton kernel holds on Hopper.

    Scales are padded to 256 rows and whole tiles of groups, weights to 16 rows and 64
    inputs.

    Source: vLLM 0.33.0 `layers/quantization/utils/mxfp4_utils.py` _swizzle_mxfp4,
    `third_party/triton_kernels/tensor_details/layout_details/hopper_value.py` and
    `hopper_scale.py`.
    """
    columns = round_up(on_rank.intermediate_size_per_partition, 64)
    padded, hidden = on_rank.padded(columns), on_rank.hidden_size
    rows, groups = padded.w13_rows, _triton_mxfp4_groups(release)
    keeps_raw = release.has(_KEEPS_RAW_MXFP4_SCALES)
    return (
        *on_rank.each(
            _triton_bytes(rows, hidden, release),
            _triton_bytes(hidden, columns, release),
            _triton_scales(rows, hidden, groups),
            _triton_scales(hidden, columns, groups),
            dtype="uint8",
        ),
        *(_scales(padded) if keeps_raw else ()),
        *padded.biases("float32"),
    )


def _triton_bytes(rows: int, inputs: int, release: Release) -> int:
    """Return the bytes of a matrix of experts as Triton's kernel packs it."""
    if release.has(_PADS_BOTH):
        return round_up(rows, 64) * round_up(inputs // 2, 64)
    return round_up(rows, 16) * round_up(inputs // 2, 32)


def _triton_scales(rows: int, inputs: int, groups: int) -> int:
    return round_up(rows, _WARP_ROWS) * round_up(inputs // _GROUP, groups)


def _triton_mxfp4_groups(release: Release) -> int:
    """Return to how many groups the scales of Triton's kernel are padded on Hopper."""
    return 4 if release.has(_PADS_MORE_GROUPS) else 2
