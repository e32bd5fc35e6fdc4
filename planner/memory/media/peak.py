"""The peak of encoding the profile run's images or sounds, inputs included."""

from __future__ import annotations

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.memory.account import Ranged, around
from planner.memory.allocator import SPLITS_ANY_BLOCK, beyond_tensors
from planner.memory.media.encoder import (
    EncoderBatch,
    data_parallel_ranks,
    profiled_items,
)
from planner.memory.media.towers import activation_width, widths
from planner.memory.profile_run import ProfileRun
from planner.models.architecture import Tower
from planner.units import format_size
from planner.values import frozen

_ASSUMED_RANGE = 4
_SHARE_OF_A_TURN = 10
"""A turn may take a tenth of the GPU's memory, as its class estimates it.

Source: vLLM 0.33.0 `models/gemma4_mm.py` _encoder_chunk.
"""
_NORMALISES_IN_THE_ENCODER = Change(
    since=(0, 30),
    what=(
        "Pixels that come as bytes are normalised within the encoder, which frees the "
        "result. Before, its caller held both while it ran."
    ),
    source=(
        "vLLM 0.29.0 and 0.30.0 `models/qwen2_5_vl.py` _process_video_input, "
        "Qwen2_5_VisionTransformer.forward, `models/qwen2_vl.py` the same"
    ),
)

_FUSES_ACTIVATIONS = Change(
    since=(0, 15),
    what=(
        "In starts that compile the language model, the compiler also makes a kernel "
        "of an encoder's gated activation: no tensor lies beside its input and output."
    ),
    source=(
        "vLLM 0.14.0 and 0.15.0 `model_executor/custom_op.py` maybe_compile, "
        "`layers/activation.py` SiluAndMul"
    ),
)


@frozen
class _Rows:
    """Rows of a tower that exist at its peak."""

    at_once: int
    earlier: int = 0
    """Of turns before, whose outputs exist."""
    of_piece: int = 0
    """Of what attends to itself, where pieces are encoded in turns."""
    is_share: bool = False
    """Whether they are a rank's share of the items, be it of one rank."""


def encoder_peak_bytes(run: ProfileRun) -> Ranged:
    """Return the encoder's peak, including its inputs.

    Where a tower's code has not been counted, the low and high ends count few and many
    of a block's intermediate results. For a family whose items are unknown the range is
    from 0 to four times the middle.

    Source: vLLM 0.33.0 `models/qwen2_5_vl.py` Qwen2_5_VisionBlock, Qwen2_5_VisionMLP
    (what a block still refers to while it computes), `models/vision.py`
    run_dp_sharded_mrope_vision_model.
    """
    batch = profiled_items(run)
    if batch is None:
        return Ranged(size_bytes=0, low_bytes=0, high_bytes=0)
    served = [
        _tower_peak(run, batch, tower, layout)
        for tower, layout in run.towers
        if batch.modality in tower.modalities
    ]
    low = max(one.low_bytes for one in served)
    middle = max(one.size_bytes for one in served)
    high = max(one.high_bytes for one in served)
    high += batch.embeddings * run.model.hidden_size * run.element_size
    if batch.is_assumed:
        low, high = 0, _ASSUMED_RANGE * middle
    why = next(one.why for one in served if one.size_bytes == middle)
    return Ranged(low_bytes=low, size_bytes=middle, high_bytes=high, why=why)


def tuned_activation_bytes(run: ProfileRun, tuning_bytes: int) -> Ranged:
    """Return what an encoder has while the kernel of its activation is tuned.

    The compiler does so in a first start; `tuning_bytes` is its benchmark's buffer.

    Source: a traced dry run of GLM-4.1V-9B.
    """
    batch, found = profiled_items(run), [around(0, 0, "")]
    if batch is None or not (run.compiles and run.release.has(_FUSES_ACTIVATIONS)):
        return found[0]
    for tower, layout in run.towers:
        width = activation_width(tower, layout)
        if not width or batch.modality not in tower.modalities:
            continue
        rows = _rows(run, batch, tower, layout)
        beside = _beside_bytes(run, batch, tower, rows)
        size_bytes = rows.at_once * run.element_size * width + beside + tuning_bytes
        why = (
            f"tuning an encoder's activation: {rows.at_once:,} patches x "
            f"{run.element_size} bytes x {width:,} values + inputs and tables "
            f"{format_size(beside)} + a benchmark's buffer {format_size(tuning_bytes)}"
        )
        found.append(around(size_bytes, 0, why))
    return max(found, key=lambda one: one.size_bytes)


def encoder_tables_bytes(run: ProfileRun) -> int:
    """Return what a tower remembers of the size of the items: rotary tables.

    Source: vLLM 0.33.0 `models/qwen2_5_vl.py` get_rope_by_thw (_rope_by_thw_cache).
    """
    batch = profiled_items(run)
    if batch is None:
        return 0
    each = batch.patches // batch.items * run.element_size
    return sum(
        each * tower.forward.stays + tower.forward.kept_tables_bytes
        for tower, _layout in run.towers
        if tower.forward is not None and batch.modality in tower.modalities
    )


def _tower_peak(
    run: ProfileRun, batch: EncoderBatch, tower: Tower, layout: ParallelLayout
) -> Ranged:
    rows = _rows(run, batch, tower, layout)
    beside = _beside_bytes(run, batch, tower, rows)
    beside += _beyond_bytes(run, tower, layout, rows)
    low, middle, high = widths(
        tower,
        layout,
        is_native=run.compiles,
        is_unfused=run.compiles and not run.release.has(_FUSES_ACTIVATIONS),
    )
    row_bytes = rows.at_once * run.element_size
    return Ranged(
        low_bytes=low * row_bytes + beside,
        size_bytes=middle * row_bytes + beside,
        high_bytes=high * row_bytes + beside,
        why=f"encoding {batch.items:,} x {batch.modality}: {rows.at_once:,} patches x "
        f"{run.element_size} bytes x {middle:,} values + inputs and tables "
        f"{format_size(beside)} = {format_size(middle * row_bytes + beside)}",
    )


def _beyond_bytes(
    run: ProfileRun, tower: Tower, layout: ParallelLayout, rows: _Rows
) -> int:
    """Return what the blocks of a tower's tensors have beyond them."""
    if tower.forward is None or run.release.has(SPLITS_ANY_BLOCK):
        return 0
    each, ranks = rows.at_once * run.element_size, layout.tensor_parallel_size
    return beyond_tensors(
        (step.name, step.values(ranks) * each) for step in tower.forward.steps
    )


def _beside_bytes(
    run: ProfileRun, batch: EncoderBatch, tower: Tower, rows: _Rows
) -> int:
    """Return the inputs, their copies, tables, and what earlier turns left."""
    is_raw = _reads_raw_pixels(run)
    normalises_before = is_raw and not run.release.has(_NORMALISES_IN_THE_ENCODER)
    each = 1 if is_raw and not normalises_before else run.element_size
    inputs, raw = batch.inputs * each, batch.inputs * normalises_before
    forward = tower.forward
    if forward is None:
        return inputs + raw
    tables = forward.stays * (batch.patches // batch.items) * run.element_size
    size_bytes = inputs * forward.input_copies + raw + tables + forward.tables_bytes
    if forward.copies_share and rows.is_share:
        size_bytes += inputs * rows.at_once // batch.patches
    turns = forward.turns
    if turns is None or not rows.of_piece:
        return size_bytes
    if batch.modality in turns.copied:
        size_bytes += inputs * rows.at_once // batch.patches
    mask = rows.at_once * rows.of_piece
    return size_bytes + mask + turns.kept * rows.earlier * run.element_size


def _rows(
    run: ProfileRun, batch: EncoderBatch, tower: Tower, layout: ParallelLayout
) -> _Rows:
    """Return the rows on the rank: its share of the items, or a turn's.

    Source: vLLM 0.33.0 `models/vision.py` run_dp_sharded_mrope_vision_model, which puts
    a share together on one rank as well, and run_dp_sharded_vision_model, which divides
    tiles.
    """
    if batch.pieces is None:
        ranks = data_parallel_ranks(run, tower, layout)
        each = batch.patches // batch.items
        share = each * -(-batch.items // ranks)
        if tower.tile_rows and ranks > 1:
            tiles = batch.patches // tower.tile_rows
            share = tower.tile_rows * -(-tiles // ranks)
        is_divided = run.divides_items and tower.supports_data_parallel
        return _Rows(at_once=share, is_share=is_divided or ranks > 1)
    count = batch.items * batch.pieces
    each = batch.patches // count
    turns = None if tower.forward is None else tower.forward.turns
    if turns is None or not run.release.has(turns.since):
        return _Rows(at_once=each)
    budget = run.gpu.total_memory_bytes // _SHARE_OF_A_TURN
    in_turn = min(count, max(1, budget // (each * turns.bytes_per_row)))
    before = count // in_turn - 1
    return _Rows(at_once=in_turn * each, earlier=before * in_turn * each, of_piece=each)


def _reads_raw_pixels(run: ProfileRun) -> bool:
    """Whether pixels reach the GPU as bytes, which it normalises."""
    since = (tower.reads_raw_pixels_since for tower, _layout in run.towers)
    return any(first is not None and run.release.has(first) for first in since)
