"""The RADIO tower of Nemotron's models."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.intern_vit import InternShape, intern_layer
from planner.models.layers import Module

_SIZES = {
    "vit_small_patch16_224": blocks.Sizes(384, 6, 1536, 12),
    "vit_base_patch16_224": blocks.Sizes(768, 12, 3072, 12),
    "vit_large_patch16_224": blocks.Sizes(1024, 16, 4096, 24),
    "vit_huge_patch16_224": blocks.Sizes(1280, 16, 5120, 32),
    "vit_so400m_patch16_224": blocks.Sizes(1152, 16, 4304, 27),
}
"""Source: vLLM 0.33.0 `transformers_utils/configs/radio.py` VIT_TIMM_DIM_BY_NAME."""
_POSITIONS_UP_TO = 2048


def radio(facts: Facts) -> Iterator[Module]:
    """Yield the tower that args of this vision config name.

    Source: vLLM 0.33.0 `models/radio.py` RadioModel.
    """
    args = Facts(facts.mapping("args"), "radio")
    if args.value("model") not in _SIZES:
        raise args.unsupported("model", f"{', '.join(_SIZES)} are.")
    sizes = _SIZES[str(args.value("model"))]
    size, patch = sizes.width, facts.integer("patch_size", default=16)
    side = round(args.integer("cpe_max_size", default=_POSITIONS_UP_TO) / patch)
    name, pixels = "vision_model.model.patch_generator", 3 * patch * patch
    tokens = ((side * side, size), (_class_tokens(args), size))
    yield blocks.replicated(name, (size, pixels), *tokens)
    frames = facts.integer("video_temporal_patch_size", default=1)
    if frames > 1:
        yield blocks.replicated(f"{name}.video_embedder", (size, frames * pixels))
    shape = InternShape(sizes=sizes)
    for index in range(sizes.depth):
        layer = f"vision_model.model.encoder.layers.{index}"
        yield from blocks.unquantised(*intern_layer(layer, shape))


def _class_tokens(args: Facts) -> int:
    """Return class tokens and the registers that fill them up."""
    teachers = args.value("teachers") or ()
    count = 1
    if args.flag("cls_token_per_teacher"):
        count = len({teacher["name"] for teacher in teachers})
    multiple = args.optional_integer("register_multiple")
    return count + (multiple - count % multiple if multiple else 0)
