"""Memory of the profile run for a model's encoder of images, videos and audio.

vLLM encodes as many of the largest items as a step may have, keeps their outputs, and
then runs the language model. Two figures follow: what is still allocated while the
language model runs, and the peak of the encoder itself (`peak`).
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.allocator import beyond_tensor
from planner.memory.media.pixels import resized
from planner.memory.media.towers import is_of
from planner.memory.profile_run import ProfileRun, once
from planner.models.architecture import MediaItem, Tower
from planner.values import frozen

_ASSUMED_PATCHES = 4
"""Patches per token of an unknown family: most merge 2 x 2."""
_ASSUMED_INPUTS = 1176
"""Values per patch of one: two frames of 14 x 14 pixels in three colours."""
_UNLIMITED = 999
_PROFILES_ENCODER_IN_V2 = Change(
    since=(0, 27),
    what=(
        "The second model runner runs the encoder in the profile run, on the first "
        "pipeline stage."
    ),
    source="vLLM 0.27.0 `v1/worker/gpu/model_runner.py` profile_run",
)
_EXTENDS_OUTPUTS = Change(
    since=(0, 11),
    until=(0, 13),
    what=(
        "In the profile run of the first model runner, the encoder's outputs are "
        "copied into longer ones."
    ),
    source="vLLM 0.11.0 and 0.12.0 `v1/worker/gpu_model_runner.py` profile_run",
)
_EXTENDS_OUTPUTS_TO_ITEM = Change(
    since=(0, 12),
    what=(
        "Where the profile run copies the encoder's outputs into longer ones, these "
        "have the rows of the largest item. Before, those of the whole encoder budget."
    ),
    source="vLLM 0.12.0 `v1/worker/gpu_model_runner.py` profile_run",
)
_PREFERS_VIDEOS = Change(
    since=(0, 17),
    what=(
        "Of the largest items of several modalities with equally many tokens, the "
        "profile run encodes the video, else the image. Before, the first."
    ),
    source="vLLM 0.17.0 `multimodal/encoder_budget.py` get_modality_with_max_tokens",
)
_COUNTS_MARKS = Change(
    since=(0, 10, 1),
    until=(0, 13),
    what="The tokens of an image or video include the text between its placeholders.",
    source="vLLM 0.12.0 `multimodal/profiling.py` get_mm_max_contiguous_tokens",
)
_BUILDS_VIDEOS_FOR_STEPS = Change(
    until=(0, 11),
    what=(
        "The profile run builds a video for max_num_batched_tokens, not for "
        "max_model_len."
    ),
    source="vLLM 0.10.2 `v1/worker/gpu_model_runner.py` _get_mm_dummy_batch",
)
_ROUNDS_ITEMS_UP = Change(
    until=(0, 10),
    what=(
        "The number of items that the profile run encodes is rounded up, and not "
        "limited by max_model_len."
    ),
    source="vLLM 0.9.2 `v1/worker/gpu_model_runner.py` profile_run",
)


@frozen
class EncoderBatch:
    """The items that the profile run encodes at once."""

    modality: str
    items: int
    tokens_per_item: int
    """Tokens as vLLM counts them for its budget."""
    embeddings: int
    """Rows for the language model, over all items."""
    patches: int
    """Rows of the encoder, over all items."""
    inputs: int
    """Input values, over all items."""
    pieces: int | None = None
    """Of an item, which are encoded in turns; None: all items are at once."""
    is_assumed: bool = False
    """Whether the family's sizes are unknown, so that `max_num_batched_tokens` is used
    in their place."""


@once
def encoder_budget_tokens(run: ProfileRun) -> int:
    """Return the tokens of vLLM's encoder budget; 0 where there is no encoder.

    Source: vLLM 0.33.0 `v1/core/encoder_cache_manager.py` compute_mm_encoder_budget.
    """
    largest = _most_tokens(run)
    return max(run.max_num_batched_tokens, largest) if largest else 0


def check_whole_items(run: ProfileRun, *, is_whole: bool) -> None:
    """Refuse a step that is too small for an item that may not be split over steps.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `v1/core/encoder_cache_manager.py` compute_mm_encoder_budget;
    `platforms/cuda.py` check_and_update_config (is_mm_prefix_lm).
    """
    tokens, step = _most_tokens(run), run.max_num_batched_tokens
    is_known = any(tower.items for tower, _layout in run.towers)
    if is_whole and is_known and tokens > step:
        raise Refused(
            f"Chunked MM input disabled but max_tokens_per_mm_item ({tokens}) is "
            f"larger than max_num_batched_tokens ({step}). Please increase "
            "max_num_batched_tokens."
        )


def _most_tokens(run: ProfileRun) -> int:
    """Return the tokens of the largest item; 0 where there is none."""
    embedded_only = (
        item
        for tower in run.embeds_only
        for item in tower.items
        if is_of(item, run.release)
    )
    items = (*_items(run), *embedded_only)
    return max((_counted_tokens(run, item) for item in items), default=0)


@once
def items_per_prompt(run: ProfileRun) -> int:
    """Return the items per prompt of the modality with the most; 0 without any.

    Source: vLLM 0.33.0 `multimodal/encoder_budget.py` MultiModalBudget._get_max_items.
    """
    return max((_per_prompt(run, item) for item in _items(run)), default=0)


@once
def profiled_items(run: ProfileRun) -> EncoderBatch | None:
    """Return the items that the profile run encodes; None where there are none.

    Source: vLLM 0.33.0 `multimodal/encoder_budget.py` MultiModalBudget; 0.9.2
    `v1/worker/gpu_model_runner.py` profile_run.
    """
    if not _profiles_encoder(run):
        return None
    candidates = [(_counted_tokens(run, item), item) for item in _items(run)]
    if not candidates:
        return None
    tokens, item = _largest(run, candidates)
    count = _count(run, item, tokens)
    parts = 1 if item.most_parts == 1 else _parts(item, _encoded_length(run))
    item = _encoded(run, item)
    parts = min(parts, item.most_parts)
    rows = item.tokens if item.embeddings is None else item.embeddings
    return EncoderBatch(
        modality=item.modality,
        items=count,
        tokens_per_item=tokens,
        embeddings=count * rows * parts,
        patches=count * item.patches * parts,
        inputs=count * item.inputs * parts,
        pieces=item.pieces,
        is_assumed=not any(tower.items for tower, _layout in run.towers),
    )


@once
def encoder_kept_bytes(run: ProfileRun) -> int:
    """Return what the encoder leaves on the GPU while the language model runs.

    These are its outputs, and with the first model runner its inputs. In some releases
    each shorter output is copied into a longer one, and a name keeps the last.

    Source: vLLM 0.33.0 `v1/worker/gpu_model_runner.py` profile_run (the batch of
    dummy inputs exists until the method returns), `v1/worker/gpu/model_runner.py`
    profile_run; 0.11.0 to 0.12.0 the former's encoder_output_shape.
    """
    batch = profiled_items(run)
    if batch is None:
        return 0
    width = run.model.hidden_size * (1 + run.model.deepstack_layers)
    rows = _gathered_rows(run, batch)
    if batch.embeddings // batch.items < (padded := _padded_rows(run, batch)):
        rows += batch.items * padded
    inputs = 0 if run.uses_v2_runner else batch.inputs
    outputs = rows * width * run.element_size
    beyond = beyond_tensor(outputs, run.release, _left_bytes(run, batch))
    return outputs + beyond + inputs * run.element_size


def _left_bytes(run: ProfileRun, batch: EncoderBatch) -> int:
    """Return the largest of the freed tensors whose blocks outputs may take."""
    each = batch.patches // batch.items * run.element_size
    left = (
        each * tower.forward.left
        for tower, _layout in run.towers
        if tower.forward is not None and batch.modality in tower.modalities
    )
    return max(left, default=0)


def _gathered_rows(run: ProfileRun, batch: EncoderBatch) -> int:
    """Return the rows of all outputs, which views of what was gathered keep in full.

    Ranks that encode whole items pad their outputs to the longest before they gather
    them. Of tiles, the projector makes a tensor of its own.

    Source: vLLM 0.33.0 `models/vision.py` run_dp_sharded_mrope_vision_model,
    run_dp_sharded_vision_model.
    """
    ranks = max(
        (
            data_parallel_ranks(run, tower, layout)
            for tower, layout in run.towers
            if batch.modality in tower.modalities and not tower.tile_rows
        ),
        default=1,
    )
    each = batch.embeddings // batch.items
    return ranks * -(-batch.items // ranks) * each


def data_parallel_ranks(run: ProfileRun, tower: Tower, layout: ParallelLayout) -> int:
    """Return the ranks that divide the items of a tower among them."""
    ranks = run.layout.tensor_parallel_size
    is_whole = layout.tensor_parallel_size < ranks
    return ranks if tower.supports_data_parallel and is_whole else 1


def _profiles_encoder(run: ProfileRun) -> bool:
    """Whether the runner runs the encoder on this rank.

    The first model runner does in every release, and on every stage.
    """
    if run.skip_mm_profiling:
        return False
    if not run.uses_v2_runner:
        return True
    return run.release.has(_PROFILES_ENCODER_IN_V2) and run.is_first_stage


def _padded_rows(run: ProfileRun, batch: EncoderBatch) -> int:
    """Return the rows to which each output is extended; 0 where none is."""
    if run.uses_v2_runner or not run.release.has(_EXTENDS_OUTPUTS):
        return 0
    by_item = run.release.has(_EXTENDS_OUTPUTS_TO_ITEM)
    return batch.tokens_per_item if by_item else encoder_budget_tokens(run)


@once
def _items(run: ProfileRun) -> tuple[MediaItem, ...]:
    """Return the largest items of the enabled modalities."""
    limits = dict(run.mm_limits)
    served = [m for tower, _layout in run.towers for m in tower.modalities]
    switched_on = [m for m in served if limits.get(m, _UNLIMITED)]
    known = [item for tower, _layout in run.towers for item in tower.items]
    if known:
        return tuple(
            _counted(run, item)
            for item in known
            if item.modality in switched_on
            and is_of(item, run.release)
            and (item.for_lengths is None or run.max_model_len in item.for_lengths)
        )
    tokens = run.max_num_batched_tokens
    return tuple(
        MediaItem(
            modality=modality,
            tokens=tokens,
            patches=tokens * _ASSUMED_PATCHES,
            inputs=tokens * _ASSUMED_PATCHES * _ASSUMED_INPUTS,
        )
        for modality in dict.fromkeys(switched_on)
    )


def _counted(run: ProfileRun, item: MediaItem) -> MediaItem:
    """Return the item that determines the budget's tokens.

    Source: vLLM 0.33.0 `multimodal/encoder_budget.py` get_mm_max_toks_per_item.
    """
    largest = resized(item, dict(run.mm_settings), run.release)
    sizing, sizes = largest.sizing, dict(run.mm_sizes).get(item.modality)
    if sizing is None or sizes is None or not sizing.is_counted:
        return largest
    return replace(sizing.shrunk(largest, sizes), sizing=None)


def _encoded(run: ProfileRun, item: MediaItem) -> MediaItem:
    """Return the item that is encoded, which may be smaller than the counted one."""
    sizes = dict(run.mm_sizes).get(item.modality)
    if item.sizing is None or sizes is None:
        return item
    return item.sizing.shrunk(item, sizes)


def _largest(
    run: ProfileRun, candidates: list[tuple[int, MediaItem]]
) -> tuple[int, MediaItem]:
    """Return the item with the most tokens."""
    if run.release.has(_PREFERS_VIDEOS):
        return max(candidates, key=lambda pair: (pair[0], pair[1].modality))
    return max(candidates, key=lambda pair: pair[0])


def _counted_tokens(run: ProfileRun, item: MediaItem) -> int:
    """Return an item's tokens as the budget counts them."""
    has_marks = run.release.has(_COUNTS_MARKS)
    # Of a config whose sizes leave no tokens, an item counts as one.
    tokens = max(item.tokens + (item.marks if has_marks else 0), 1)
    if item.most_parts == 1:
        return tokens
    length = run.max_model_len
    if item.leaves_room:
        length -= max(
            (i.tokens for i in _items(run) if i.modality == "image"), default=0
        )
    return tokens * _parts(item, length)


def _parts(item: MediaItem, length: int) -> int:
    """Return the parts of the longest video that fits in `length` tokens."""
    each = max(item.tokens + item.marks, 1)  # a config may leave none
    return min(max(length // each, 1), item.most_parts)


def _encoded_length(run: ProfileRun) -> int:
    """Return the tokens for which the profile run builds a video."""
    is_by_step = run.release.has(_BUILDS_VIDEOS_FOR_STEPS)
    return run.max_num_batched_tokens if is_by_step else run.max_model_len


def _count(run: ProfileRun, item: MediaItem, tokens: int) -> int:
    """Return how many items vLLM encodes at once."""
    budget = encoder_budget_tokens(run)
    if run.release.has(_ROUNDS_ITEMS_UP):
        limit = _limit(run, item)
        return min(-(-budget // tokens), run.max_num_seqs * limit)
    most = run.max_num_seqs * _per_prompt(run, item)
    return max(1, min(budget // tokens, most))


def _per_prompt(run: ProfileRun, item: MediaItem) -> int:
    tokens = _counted_tokens(run, item)
    return max(1, min(_limit(run, item), run.max_model_len // tokens))


def _limit(run: ProfileRun, item: MediaItem) -> int:
    limit = dict(run.mm_limits).get(item.modality, _UNLIMITED)
    return limit if item.per_prompt is None else min(limit, item.per_prompt)
