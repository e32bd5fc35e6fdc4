"""What vLLM refuses while it builds a model, before it comes to the decoder layers.

Sizes are checked again with the weights; here it is the order that counts, for vLLM's
first complaint is the one that the user reads.
"""

from __future__ import annotations

from functools import lru_cache

from planner.errors import Refused
from planner.model import ModelArchitecture, Tower
from planner.parallel import ParallelLayout


@lru_cache(maxsize=256)
def check_before_layers(
    model: ModelArchitecture,
    layout: ParallelLayout,
    towers: tuple[tuple[Tower, ParallelLayout], ...],
) -> None:
    """Refuse ranks that do not divide a tower or the vocabulary, in this order.

    Raises:
        Refused: in vLLM's words.
    """
    for tower, ranks in towers:
        for module in tower.modules:
            module.tensors(ranks)
    for module in (*model.first_stage, *model.every_stage):
        module.tensors(layout)


def check_deepstack(model: ModelArchitecture, layout: ParallelLayout) -> None:
    """Refuse a first stage without all the layers that take a tower's features.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3VLForConditionalGeneration.
    """
    first, *others = layout.stage_sizes(model.num_hidden_layers)
    if others and first < model.deepstack_layers:
        raise Refused(
            "start_layer should be greater than or equal to "
            "len(deepstack_visual_indexes)"
        )


def check_kv_sources(model: ModelArchitecture, layout: ParallelLayout) -> None:
    """Refuse a stage whose layers read keys and values that an earlier stage keeps.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/attention/attention.py` validate_kv_sharing_target.
    """
    if not model.kv_sources:
        return
    begin = 0
    for size in layout.stage_sizes(model.num_hidden_layers):
        for layer in range(begin, begin + size):
            source = model.kv_sources[layer]
            if source < begin:
                names = [
                    f"{model.layer_prefix}.{i}.self_attn.attn" for i in (layer, source)
                ]
                raise Refused(
                    f"Specified KV sharing target layer for {names[0]} is not valid: "
                    f"target layer {names[1]} is not a valid Attention layer in the "
                    "model."
                )
        begin += size
