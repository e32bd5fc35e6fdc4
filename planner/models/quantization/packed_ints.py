"""Integer weights packed into 32 bit words, and how each kernel repacks them.

GPTQ, AWQ and compressed-tensors checkpoints differ in how they are loaded; one of
three kernels then repacks them: Machete on Hopper, Marlin elsewhere, and Humming for
what these cannot.

Source: vLLM 0.33.0 `kernels/linear/__init__.py` choose_mp_linear_kernel and the
kernels of `kernels/linear/mixed_precision/`.
"""

from __future__ import annotations

from enum import Enum

from planner.engine.generations import HOPPER
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.releases.shared import PREFERS_HUMMING
from planner.errors import Refused
from planner.models.quantization.padding import (
    WORD_BITS,
    Packing,
    humming_tensors,
    padded_nk,
)
from planner.models.tensors import LinearOnRank, Tensor, Tensors

_INT4, _INT8 = 4, 8
_MARLIN_GROUPS = (-1, 32, 64, 128)
_MACHETE_GROUPS = (-1, 64, 128)
_TRITON_GROUPS = (-1, 32, 64, 128, 256)
_MARLIN_ROWS, _MARLIN_COLUMNS = 64, 128
"""What rows and columns have to fill in releases that do not pad them."""
_MACHETE_COLUMNS, _MACHETE_ROWS = 64, 128
_PADS_FOR_MARLIN = Change(
    since=(0, 24),
    what=(
        "Integer weights are padded to Marlin's tiles. Before, they had to fill them."
    ),
    source="vLLM 0.24.0 `layers/quantization/utils/marlin_utils.py` marlin_padded_nk",
)
_UNPACKS_ANY_SHAPE = Change(
    since=(0, 23),
    what=(
        "Triton and Humming serve integer weights that Machete, Marlin and Exllama do "
        "not."
    ),
    source="vLLM 0.22.1 and 0.23.0 `kernels/linear/__init__.py` _POSSIBLE_KERNELS",
)
_NO_KERNEL = "Failed to find a kernel that can implement the WNA16 linear layer."


class Kernel(Enum):
    """A kernel for integer weights and 16 bit activations."""

    MACHETE = "Machete"
    MARLIN = "Marlin"
    EXLLAMA = "Exllama"
    TRITON = "Triton"
    HUMMING = "Humming"


def choose(packing: Packing, on_rank: LinearOnRank, layout: ParallelLayout) -> Kernel:
    """Return the kernel that serves a layer: the first that can.

    Raises:
        Refused: in vLLM's words, where a release has none that can.
    """
    if layout.compute_capability == HOPPER:
        if _suits_machete(packing, on_rank):
            return Kernel.MACHETE
        if layout.release.has(PREFERS_HUMMING):
            return Kernel.HUMMING
    if _suits_marlin(packing, on_rank, layout):
        return Kernel.MARLIN
    if layout.dtype == "float16" and _suits_exllama(packing, on_rank):
        return Kernel.EXLLAMA
    if not layout.release.has(_UNPACKS_ANY_SHAPE):
        raise Refused(_NO_KERNEL)
    if _suits_triton(packing, on_rank):
        return Kernel.TRITON
    return Kernel.HUMMING


def _suits_exllama(packing: Packing, on_rank: LinearOnRank) -> bool:
    """Whether Exllama takes it; source: ExllamaLinearKernel.can_implement."""
    return (
        packing.num_bits in (_INT4, _INT8)
        and not packing.has_zero_points
        and packing.group_size > 0
        and on_rank.input_size % packing.group_size == 0
        and on_rank.output_size_per_partition * packing.num_bits % WORD_BITS == 0
    )


def _suits_triton(packing: Packing, on_rank: LinearOnRank) -> bool:
    """Whether Triton takes it; source: TritonW4A16LinearKernel.can_implement."""
    columns = on_rank.input_size_per_partition
    size = packing.group_size
    return (
        packing.num_bits == _INT4
        and size in (*_TRITON_GROUPS, on_rank.input_size)
        and on_rank.output_size_per_partition * _INT4 % WORD_BITS == 0
        and columns % (columns if size == -1 else size) == 0
    )


def _suits_machete(packing: Packing, on_rank: LinearOnRank) -> bool:
    """Whether Machete takes the shape; source: MacheteLinearKernel.can_implement."""
    return (
        packing.num_bits in (_INT4, _INT8)
        and packing.group_size in _MACHETE_GROUPS
        and on_rank.input_size_per_partition % _MACHETE_COLUMNS == 0
        and on_rank.output_size_per_partition % _MACHETE_ROWS == 0
    )


def _suits_marlin(
    packing: Packing, on_rank: LinearOnRank, layout: ParallelLayout
) -> bool:
    """Whether Marlin takes the layer; source: MarlinLinearKernel.can_implement."""
    if not layout.release.has(_PADS_FOR_MARLIN) and not fills_marlin(on_rank):
        return False
    widths = (_INT4,) if packing.has_zero_points else (_INT4, _INT8)
    return (
        packing.num_bits in widths
        and packing.group_size in _MARLIN_GROUPS
        and not _splits_group(packing, on_rank)
    )


def _splits_group(packing: Packing, on_rank: LinearOnRank) -> bool:
    """Whether a group is split between two ranks."""
    return (
        packing.group_size != -1
        and packing.group_size < on_rank.input_size
        and on_rank.input_size_per_partition % packing.group_size != 0
    )


def fills_marlin(on_rank: LinearOnRank) -> bool:
    """Whether rows and columns fill Marlin's tiles without padding."""
    rows, columns = on_rank.shape
    return not rows % _MARLIN_ROWS and not columns % _MARLIN_COLUMNS


def is_marlin_group(group_size: int) -> bool:
    """Whether Marlin has kernels for groups of this size."""
    return group_size in _MARLIN_GROUPS


def repacked(
    packing: Packing,
    on_rank: LinearOnRank,
    layout: ParallelLayout,
    *,
    leftovers: Tensors = (),
) -> Tensors:
    """Return weight, scales and zero points as the kernel holds them.

    `leftovers` are tensors of the checkpoint that Machete leaves where they are.
    """
    kernel = choose(packing, on_rank, layout)
    if kernel is Kernel.MACHETE:
        return (*_machete(packing, on_rank), *leftovers)
    if kernel is Kernel.MARLIN:
        return repacked_by_marlin(packing, on_rank)
    if kernel is Kernel.HUMMING:
        return humming_tensors(packing, on_rank, layout)
    return _as_published(packing, on_rank, kernel, leftovers)


def order_of(on_rank: LinearOnRank) -> Tensor:
    """Return the order of the columns on a rank (`g_idx`)."""
    return Tensor(on_rank.input_size_per_partition, "int32")


def in_order(
    packing: Packing, on_rank: LinearOnRank, layout: ParallelLayout
) -> Tensors:
    """Return what a kernel holds of columns in the order of their activations.

    Every rank holds the scales of all groups, the order and its inverse.

    Raises:
        Refused: where no kernel takes the layer.

    Source: vLLM 0.25.1 `kernels/linear/mixed_precision/`: can_implement and
    process_weights_after_loading of machete.py, marlin.py and exllama.py.
    """
    rows, columns = on_rank.shape
    groups = packing.groups(on_rank.input_size)
    held = (packing.words(rows * columns), Tensor(rows * groups))
    zeros = packing.words(rows * groups)
    order = order_of(on_rank)
    is_whole = columns == on_rank.input_size
    if (
        layout.compute_capability == HOPPER
        and is_whole
        and _suits_machete(packing, on_rank)
    ):
        return (*held, zeros, order, order)
    if fills_marlin(on_rank) and _suits_marlin(packing, on_rank, layout):
        return (*held, order, order)
    if layout.dtype == "float16" and is_whole and _suits_exllama(packing, on_rank):
        return (*held, zeros, order)
    raise Refused(_NO_KERNEL)


def _as_published(
    packing: Packing,
    on_rank: LinearOnRank,
    kernel: Kernel,
    leftovers: Tensors,
) -> Tensors:
    """Exllama reads zero points in any case, Triton where they are used."""
    rows, columns = on_rank.shape
    zeros = packing.zero_points(on_rank)
    if kernel is Kernel.TRITON and not packing.has_zero_points:
        kept = leftovers
    else:
        kept = (zeros,)
    scales = Tensor(rows * packing.groups(columns))
    return (packing.words(rows * columns), scales, *kept)


def _machete(packing: Packing, on_rank: LinearOnRank) -> Tensors:
    """Zero points become products with the scales, in the model's dtype."""
    rows, columns = on_rank.shape
    scales = Tensor(rows * packing.groups(columns))
    zeros = (scales,) if packing.has_zero_points else ()
    return (packing.words(rows * columns), scales, *zeros)


def repacked_by_marlin(packing: Packing, on_rank: LinearOnRank) -> Tensors:
    """Rows and columns are padded to a tile, the bias with them."""
    rows, columns = on_rank.shape
    padded_rows, padded_columns = padded_nk(rows, columns, packing.group_size)
    groups = packing.groups(padded_columns)
    tensors = [
        packing.words(padded_rows * padded_columns),
        Tensor(padded_rows * groups),
    ]
    if packing.has_zero_points:
        tensors.append(packing.words(padded_rows * groups))
    if on_rank.has_bias and padded_rows != rows:
        tensors.append(Tensor(padded_rows - rows))
    return tuple(tensors)
