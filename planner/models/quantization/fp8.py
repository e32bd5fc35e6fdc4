"""Checkpoints of `quant_method: fp8`: one scale a tensor, or one a block.

Those of `fbgemm_fp8` have one a row.

Source: vLLM 0.33.0 `layers/quantization/fp8.py` and `fbgemm_fp8.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization import fp8_kernels
from planner.models.quantization.experts import fp8 as experts
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    listed,
    required,
)
from planner.models.quantization.matching import is_layer_skipped
from planner.models.quantization.padding import round_up
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensor,
    Tensors,
)
from planner.values import frozen


@frozen
class Fp8TensorLinear:
    """A weight with one scale, which vLLM makes from one per merged part.

    Source: vLLM 0.33.0 `layers/quantization/fp8.py` Fp8LinearMethod;
    `layers/quantization/utils/fp8_utils.py` process_fp8_weight_tensor_strategy.
    """

    has_input_scale: bool
    """Whether activations have one scale, published with the weights."""
    loads_unquantised: bool = False
    """Whether vLLM quantises each weight as it is loaded, in the model's dtype."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        return fp8_kernels.scaled_tensors(
            on_rank,
            layout,
            num_scales=1,
            is_act_per_tensor=self.has_input_scale,
            has_input_scale=self.has_input_scale,
        )


@frozen
class Fp8BlockLinear:
    """A weight with one scale for each 128 x 128 block.

    Source: vLLM 0.33.0 `layers/quantization/fp8.py` Fp8LinearMethod.
    """

    model_type: str
    is_checked: bool = True
    """False for weights quantised while loading, which need not fill blocks."""
    keeps_shape_on_hopper: ClassVar[bool] = True
    """Whether its kernels leave weights and scales as loaded there."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks cut through a block.
        """
        if self.is_checked:
            check_block_shape(on_rank, layout)
        return fp8_kernels.block_tensors(on_rank, layout, model_type=self.model_type)


@frozen
class Fp8ChannelLinear:
    """A weight with one scale for each row, activations with one for each token.

    Source: vLLM 0.33.0 `layers/quantization/online/fp8.py` Fp8PtpcOnlineLinearMethod.
    """

    loads_unquantised: ClassVar[bool] = True
    """Whether vLLM quantises each weight as it is loaded, in the model's dtype."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: on GPUs without FP8 arithmetic.
        """
        if fp8_kernels.runs_marlin(layout):
            raise Refused(
                "FP8 PTPC online quant requires a kernel that honors per-token "
                "activation quantization; MarlinFP8 is W8A16 weight-only. Requires "
                "SM89+ for Cutlass FP8 or ROCm MI3xx for rowwise scaled_mm."
            )
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(on_rank, layout, num_scales=rows)


@frozen
class Fp8OnlineBlockLinear:
    """A weight quantised while loading, with one scale for each 128 x 128 block.

    Rows are first padded to whole blocks. Where the columns need no padding, the weight
    that is kept is a view of the padded one, whose memory stays allocated.

    Source: vLLM 0.33.0 `layers/quantization/online/fp8.py`
    Fp8PerBlockOnlineLinearMethod; `utils/deep_gemm.py` per_block_cast_to_fp8.
    """

    model_type: str

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank."""
        plain = Fp8BlockLinear(model_type=self.model_type, is_checked=False)
        weight, *scales = plain.tensors(on_rank, layout)
        rows, columns = on_rank.shape
        is_as_cast = weight == Tensor(rows * columns, "float8_e4m3fn")
        if is_as_cast and columns % fp8_kernels.BLOCK == 0:
            weight = Tensor(
                round_up(rows, fp8_kernels.BLOCK) * columns, "float8_e4m3fn"
            )
        return (weight, *scales)


def check_block_shape(on_rank: LinearOnRank, layout: ParallelLayout) -> None:
    """Refuse ranks that cut through blocks of 128 x 128.

    vLLM accepts it for layers merged along their outputs.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/quantization/utils/fp8_utils.py`
    validate_fp8_block_shape; `layers/linear.py` _maybe_allow_fp8_block_shape_mismatch.
    """
    block = fp8_kernels.BLOCK
    parts = on_rank.output_partition_sizes
    is_merged = len(parts) > 1
    if is_merged and not on_rank.is_replicated and any(n % block for n in parts):
        return
    ranks = layout.tensor_parallel_size
    columns = on_rank.input_size_per_partition
    is_row_split = ranks > 1 and on_rank.input_size // columns == ranks
    if is_row_split and columns % block:
        raise Refused(
            f"Weight input_size_per_partition = {columns} is not divisible by weight "
            f"quantization block_k = {block}."
        )
    is_split = ranks > 1 and on_rank.output_size // sum(parts) == ranks
    checked = parts if is_split else parts[:-1]
    for rows in checked:
        if rows % block:
            raise Refused(
                f"Weight output_partition_size = {rows} is not divisible by weight "
                f"quantization block_n = {block}."
            )


@frozen
class Fp8Config(QuantizationConfig):
    """FP8 as read from a checkpoint."""

    is_static: bool
    """Whether activations have published scales."""
    is_block: bool
    ignored: tuple[str, ...]
    model_type: str
    stores_mxfp4_experts: bool = False
    name: str = "fp8"
    has_kv_scales: bool = True

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer that is not left out."""
        if is_layer_skipped(place, self.ignored):
            return None
        if self.is_block:
            return Fp8BlockLinear(model_type=self.model_type)
        return Fp8TensorLinear(has_input_scale=self.is_static)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts that are not left out."""
        if is_layer_skipped(place, self.ignored):
            return None
        return experts.fp8_experts(
            is_block=self.is_block,
            is_static=self.is_static,
            stores_mxfp4=self.stores_mxfp4_experts,
            model_type=self.model_type,
        )


def read_fp8(given: Mapping[str, Any], context: Context) -> Fp8Config:
    """Read `quantization_config` of an FP8 checkpoint.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for blocks of another size.

    Source: vLLM 0.33.0 `layers/quantization/fp8.py` Fp8Config.from_config.
    """
    scheme = required(given, "activation_scheme")
    if scheme not in ("static", "dynamic"):
        raise Refused(f"Unsupported activation scheme {scheme}")
    block = given.get("weight_block_size")
    if block is not None:
        _check_block(block, scheme)
    ignored = listed(given, "ignored_layers") or listed(given, "modules_to_not_convert")
    return Fp8Config(
        is_static=scheme == "static",
        is_block=block is not None,
        ignored=context.vllm_names(ignored),
        model_type=context.text_model_type,
        stores_mxfp4_experts=given.get("store_dtype") == "mxfp4",
    )


_FBGEMM_CHOOSES_KERNELS = Change(
    since=(0, 15),
    what=(
        "Quantisation by fbgemm_fp8 chooses a kernel on every GPU. Before, GPUs "
        "without FP8 arithmetic needed none."
    ),
    source="vLLM 0.14.1 and 0.15.1 `layers/quantization/fbgemm_fp8.py`",
)
_FBGEMM_FINDS_MARLIN = Change(
    since=(0, 19),
    what="Quantisation by fbgemm_fp8 may choose Marlin.",
    source="vLLM 0.18.0 and 0.19.0 `kernels/linear/__init__.py` _POSSIBLE_FP8_KERNELS",
)
_FBGEMM_REPACKS_TWICE = Change(
    since=(0, 20),
    what=(
        "Quantisation by fbgemm_fp8 repacks weights that its kernel repacks as well, "
        "with which Marlin fails."
    ),
    source="vLLM 0.19.1 and 0.20.0 `layers/quantization/fbgemm_fp8.py`",
)


@frozen
class FbgemmLinear:
    """A weight with one scale for each row, activations with a limit of theirs.

    Source: vLLM 0.33.0 `layers/quantization/fbgemm_fp8.py` FBGEMMFp8LinearMethod.
    """

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and the activations' limit on a rank.

        Raises:
            Refused: on GPUs without FP8 arithmetic, where a release fails there.
        """
        if fp8_kernels.runs_marlin(layout):
            _check_fbgemm_on_marlin(layout)
            return fp8_kernels.marlin_tensors(on_rank, group_size=-1)
        rows = on_rank.output_size_per_partition
        made = fp8_kernels.scaled_tensors(on_rank, layout, num_scales=rows)
        return (*made, Tensor(1, "float32"))


def _check_fbgemm_on_marlin(layout: ParallelLayout) -> None:
    """Refuse releases that fail on GPUs without FP8 arithmetic.

    Raises:
        Refused: as vLLM fails.
    """
    release = layout.release
    if release.has(_FBGEMM_REPACKS_TWICE):
        raise Refused(
            "AssertionError: (vLLM says no more: it repacks fbgemm_fp8 weights twice "
            "on GPUs without FP8 arithmetic, below compute capability 8.9)"
        )
    finds_marlin = release.has(_FBGEMM_FINDS_MARLIN)
    if release.has(_FBGEMM_CHOOSES_KERNELS) and not finds_marlin:
        raise Refused(
            "Failed to find a kernel that can implement the ScaledMM linear layer: "
            "fbgemm_fp8 needs compute capability 8.9 in this release."
        )


@frozen
class FbgemmConfig(QuantizationConfig):
    """FBGEMM's FP8 as read from a checkpoint: linear layers only."""

    ignored: tuple[str, ...]
    name: str = "fbgemm_fp8"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer that is not left out."""
        return None if is_layer_skipped(place, self.ignored) else FbgemmLinear()


def read_fbgemm(
    given: Mapping[str, Any],
    context: Context,  # names are taken as they are
) -> FbgemmConfig:
    """Read `quantization_config` of an FBGEMM checkpoint.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/quantization/fbgemm_fp8.py` from_config.
    """
    required(given, "modules_to_not_convert")
    required(given, "activation_scale_ub")
    return FbgemmConfig(ignored=listed(given, "modules_to_not_convert"))


def _check_block(block: Any, scheme: str) -> None:  # noqa: ANN401 - untyped border
    if len(block) != 2:  # noqa: PLR2004 - rows and columns
        raise Refused(
            "The quantization block size of weight must have 2 dimensions, but got "
            f"{len(block)} dimensions"
        )
    if scheme != "dynamic":
        raise Refused(
            "The block-wise quantization only supports dynamic activation scheme for "
            f"now, but got {scheme} activation scheme."
        )
    if list(block) != [fp8_kernels.BLOCK] * 2:
        raise UnknownArchitecture(
            f"quantization_config.weight_block_size = {block!r} is not modelled: "
            "[128, 128] is."
        )
