"""The makers: functions that propose changes, one per kind of change, in one table.

A maker yields candidates for a situation, from the smallest change to the largest. It
need not know whether they are legal or help: planning decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from planner.solve.advice.makers import (
    batch,
    budget,
    cache,
    checkpoints,
    features,
    hardware,
    media,
    weights,
)
from planner.solve.advice.situation import Candidate, Situation

Maker = Callable[[Situation], Iterable[Candidate]]

MAKERS: Mapping[str, Maker] = {
    "blocks as measured": budget.blocks_as_measured,
    "cache as measured": budget.cache_as_measured,
    "less of the GPU": budget.less_of_the_gpu,
    "more of the GPU": budget.more_of_the_gpu,
    "more requests": batch.more_requests,
    "fewer requests": batch.fewer_requests,
    "fewer tokens": batch.fewer_tokens,
    "fewer graphs": batch.fewer_graphs,
    "capture sizes": batch.fewer_sizes,
    "eager": batch.eager,
    "shorter requests": batch.shorter,
    "8-bit cache": cache.eight_bits,
    "4-bit cache": cache.four_bits,
    "prefix caching": cache.no_prefix_caching,
    "hybrid manager": cache.hybrid_manager,
    "block size": cache.block_size,
    "state dtype": cache.state_dtype,
    "online quantisation": weights.quantised_online,
    "8-bit checkpoint": checkpoints.eight_bits,
    "AWQ checkpoint": checkpoints.awq,
    "GPTQ checkpoint": checkpoints.gptq,
    "NVFP4 checkpoint": checkpoints.nvfp4,
    "MXFP4 checkpoint": checkpoints.mxfp4,
    "offloading": weights.offloaded,
    "16 bits": features.sixteen_bits,
    "text only": media.text_only,
    "one modality less": media.one_modality_less,
    "fewer images": media.fewer_items,
    "smaller images": media.smaller_images,
    "fewer tiles": media.fewer_tiles,
    "encoder cut": media.encoder_cut,
    "encoder whole": media.encoder_whole,
    "adapter rank": features.smaller_rank,
    "fewer adapters": features.fewer_adapters,
    "adapters cut": features.sharded,
    "no adapters": features.without_adapters,
    "fewer guesses": features.fewer_guesses,
    "no draft": features.without_draft,
    "offloaded blocks": features.fewer_offloaded_blocks,
    "offloaded weights": features.less_offloaded_weights,
    "no sleep": features.without_sleep,
    "no video decoding": media.no_video_decoding,
    "balanced": features.balanced,
    "attention replicas": hardware.attention_replicas,
    "context parallel": hardware.context_parallel,
    "expert parallel": hardware.expert_parallel,
    "tensor parallel": hardware.tensor_parallel,
    "pipeline parallel": hardware.pipeline_parallel,
    "fewer ranks": hardware.fewer_ranks,
    "fewer stages": hardware.fewer_stages,
    "data parallel": hardware.data_parallel,
    "larger GPU": hardware.larger_gpu,
    "taken back": features.taken_back,
}

LADDERS = (
    *("fewer requests", "fewer tokens", "fewer graphs", "smaller images"),
    *("adapter rank", "fewer adapters", "fewer guesses", "capture sizes"),
)
"""Makers whose last candidate frees the most."""

MORE_GPUS = ("tensor parallel", "pipeline parallel", "fewer ranks", "fewer stages")
"""Makers that may be paired with another GPU."""

IN_THE_WAY = ("less of the GPU", "fewer ranks", "fewer stages")
"""Makers that remove what vLLM refuses first, even if something is then missing."""

NEVER_SECOND = ("data parallel", "taken back", "offloading")
"""Makers that are never the second change of a pair."""
