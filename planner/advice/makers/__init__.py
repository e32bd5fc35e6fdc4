"""Who proposes changes: one maker a kind of change, in one table.

A maker looks at a situation and yields candidates, from the one that asks least to the
one that asks most. It need not know whether they are legal, or help: planning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from planner.advice.candidate import Candidate
from planner.advice.makers import (
    adapters,
    asked,
    batch,
    budget,
    cache,
    drafts,
    hardware,
    host,
    length,
    media,
    parallel,
    weights,
)
from planner.advice.situation import Situation

Maker = Callable[[Situation], Iterable[Candidate]]

MAKERS: Mapping[str, Maker] = {
    "blocks as measured": budget.blocks_as_measured,
    "cache as measured": budget.cache_as_measured,
    "less of the GPU": budget.less_of_the_gpu,
    "more of the GPU": budget.more_of_the_gpu,
    "fewer requests": batch.fewer_requests,
    "fewer tokens": batch.fewer_tokens,
    "fewer graphs": batch.fewer_graphs,
    "capture sizes": batch.fewer_sizes,
    "eager": batch.eager,
    "shorter requests": length.shorter,
    "8-bit cache": cache.eight_bits,
    "4-bit cache": cache.four_bits,
    "prefix caching": cache.no_prefix_caching,
    "hybrid manager": cache.hybrid_manager,
    "block size": cache.block_size,
    "state dtype": cache.state_dtype,
    "online quantisation": weights.quantised_online,
    "published checkpoint": weights.published,
    "offloading": weights.offloaded,
    "16 bits": asked.sixteen_bits,
    "text only": media.text_only,
    "one modality less": media.one_modality_less,
    "fewer images": media.fewer_items,
    "smaller images": media.smaller_images,
    "fewer tiles": media.fewer_tiles,
    "encoder cut": media.encoder_cut,
    "encoder whole": media.encoder_whole,
    "adapter rank": adapters.smaller_rank,
    "fewer adapters": adapters.fewer_adapters,
    "adapters cut": adapters.sharded,
    "no adapters": adapters.without,
    "fewer guesses": drafts.fewer_guesses,
    "no draft": drafts.without,
    "offloaded blocks": host.fewer_offloaded_blocks,
    "offloaded weights": host.less_offloaded_weights,
    "no sleep": host.without_sleep,
    "no video decoding": media.no_video_decoding,
    "balanced": asked.balanced,
    "context parallel": parallel.context_parallel,
    "expert parallel": parallel.expert_parallel,
    "tensor parallel": parallel.tensor_parallel,
    "pipeline parallel": parallel.pipeline_parallel,
    "fewer ranks": parallel.fewer_ranks,
    "fewer stages": parallel.fewer_stages,
    "data parallel": parallel.data_parallel,
    "larger GPU": hardware.larger_gpu,
    "taken back": asked.taken_back,
}

LADDERS = (
    *("fewer requests", "fewer tokens", "fewer graphs", "smaller images"),
    *("adapter rank", "fewer adapters", "fewer guesses", "capture sizes"),
)
"""Makers of which the last candidate frees most."""

MORE_GPUS = ("tensor parallel", "pipeline parallel", "fewer ranks", "fewer stages")
"""Makers beside which another GPU may be the second of two changes."""

IN_THE_WAY = ("less of the GPU", "fewer ranks", "fewer stages")
"""Makers that take away what vLLM refuses at once, whatever is then missing."""

NEVER_SECOND = ("data parallel", "taken back", "offloading")
"""Makers that nobody needs as the second of two changes."""
