"""Compares the headers of a checkpoint with the computed weights.

The computed weights are what vLLM holds after loading; the headers describe what the
files contain. Where the two should agree but do not, the user must see it: the config
may belong to other files, or the architecture may be misunderstood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from planner.engine.layout import ParallelLayout
from planner.memory.weights import stage_weights
from planner.models.architecture import ModelArchitecture
from planner.models.files import PartDifference, Reconciliation
from planner.models.layers import Part

_FLOATS = ("F64", "F32", "F16", "BF16")
_BITS = {"F4": 4, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U8": 8, "I8": 8}
_BITS |= {"I16": 16, "I32": 32, "I64": 64, "BOOL": 8, "U32": 32, "U16": 16}

_PARTS = (
    # The first pattern found in a tensor's name decides.
    (r"inv_freq|masked_bias|attn\.bias$|_extra_state", None),
    (r"visual|vision|audio|image_newline|projector|mm_", Part.TOWERS),
    (r"lm_head|embed_out|^output\.", Part.LM_HEAD),
    (r"^score\.|classifier", Part.CLASSIFIER),
    (r"shared_expert", Part.SHARED_EXPERTS),
    (r"\.experts\.", Part.EXPERTS),
    (r"e_score_correction_bias|router|\.gate\.|\.gate\.wg", Part.ROUTER),
    (r"mamba|linear_attn|\.mixer\.", Part.MIXERS),
    (r"norm|ln_|layernorm", Part.NORMS),
    (r"mlp|feed_forward|ffn|\.fc[12]\.", Part.MLP),
    (r"embed|wte|wpe", Part.EMBEDDINGS),
    (r"attn|attention|q_proj|k_proj|v_proj|o_proj", Part.ATTENTION),
)
_NUMBER = r"(?<=\.)\d+(?=\.)"
_LAYER = r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\."
_MOST_DIGITS = 9
"""Of a layer's number: a longer one is beyond any model's."""


def reconcile(
    model: ModelArchitecture, shapes: Mapping[str, tuple[str, tuple[int, ...]]]
) -> Reconciliation | None:
    """Compare the computed weights with the tensors that a checkpoint's headers list.

    Left out are rotary tables and other buffers, which no checkpoint contains, and
    what vLLM does not load: layers beyond the model's own (multi-token prediction) and
    a tied head.

    Args:
        model: as read from the config.
        shapes: safetensors dtype and shape of each tensor.

    Returns:
        None where there are no headers, or one names a dtype of unknown width.
    """
    if not shapes:
        return None
    (stage,) = stage_weights(
        model,
        ParallelLayout(),
        "bfloat16",
        towers=tuple((tower, ParallelLayout()) for tower in model.towers),
    )
    computed = {
        part.name: part.size_bytes
        for part in stage.parts
        if part.name != str(Part.BUFFERS)
    }
    published = _published(model, shapes)
    if not published:
        return None
    names = dict.fromkeys((*computed, *published))
    parts = [
        PartDifference(
            name=name,
            computed_bytes=computed.get(name, 0),
            checkpoint_bytes=published.get(name, 0),
        )
        for name in names
    ]
    return Reconciliation(
        computed_bytes=sum(computed.values()),
        checkpoint_bytes=sum(published.values()),
        parts=tuple(sorted(parts, key=lambda p: -abs(p.difference_bytes))),
    )


def _published(
    model: ModelArchitecture, shapes: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, int]:
    total: dict[str, int] = {}
    has_head = any(
        module.part is Part.LM_HEAD
        for module in (*model.last_stage, *model.every_stage)
    )
    for name, (dtype, shape) in shapes.items():
        part = _part(name)
        is_foreign = part is None or (part is Part.LM_HEAD and not has_head)
        if is_foreign or _is_beyond(name, part, model.num_hidden_layers):
            continue
        # vLLM loads plain floats in the model's dtype, counted as two bytes on both
        # sides; packed and scaled tensors keep their own dtype.
        bits = 16 if dtype in _FLOATS else _BITS.get(dtype)
        if bits is None:
            return {}
        total[str(part)] = total.get(str(part), 0) + prod(shape) * bits // 8
    return total


def _part(name: str) -> Part | None:
    return _part_of_kind(re.sub(_NUMBER, "0", name))


@lru_cache(maxsize=4096)
def _part_of_kind(name: str) -> Part | None:
    """Return the part; cached, since layers and experts are alike."""
    for pattern, part in _PARTS:
        if re.search(pattern, name):
            return part
    return Part.MLP


def _is_beyond(name: str, part: Part | None, num_hidden_layers: int) -> bool:
    if name.startswith("mtp.") or ".mtp." in name:
        return True
    if part is Part.TOWERS:
        return False
    found = re.search(_LAYER, name)
    if found is None:
        return False
    return len(found[1]) > _MOST_DIGITS or int(found[1]) >= num_hidden_layers
