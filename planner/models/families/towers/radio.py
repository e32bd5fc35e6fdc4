"""The RADIO tower of Nemotron's models."""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.intern_vit import InternShape, intern_layer
from planner.models.layers import Module

_DIMENSIONS = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
    "vit_so400m_patch16_224": (1152, 27, 16, 4304),
}
"""Width, layers, heads and MLP of each tower.

Source: vLLM 0.33.0 `transformers_utils/configs/radio.py` VIT_TIMM_DIM_BY_NAME.
"""

_POSITIONS_UP_TO = 2048


def radio(facts: Facts) -> tuple[Module, ...]:
    """Return the tower that args of the vision config name.

    Source: vLLM 0.33.0 `models/radio.py` RadioModel.
    """
    inner = sub_config(facts, "vision_config", "radio")
    args = Facts(inner.mapping("args"), "radio")
    if args.value("model") not in _DIMENSIONS:
        raise args.unsupported("model", f"{', '.join(_DIMENSIONS)} are.")
    size, num_layers, heads, wide = _DIMENSIONS[str(args.value("model"))]
    patch = inner.integer("patch_size", default=16)
    side = round(args.integer("cpe_max_size", default=_POSITIONS_UP_TO) / patch)
    name = "vision_model.model"
    modules: list[Module] = [
        blocks.replicated(
            f"{name}.patch_generator",
            (size, 3 * patch * patch),
            (side * side, size),
            (_class_tokens(args), size),
        )
    ]
    frames = inner.integer("video_temporal_patch_size", default=1)
    if frames > 1:
        modules.append(
            blocks.replicated(
                f"{name}.patch_generator.video_embedder",
                (size, 3 * frames * patch * patch),
            )
        )
    shape = InternShape(
        hidden_size=size,
        num_heads=heads,
        num_dummy_heads=0,
        intermediate_size=wide,
        qkv_bias=True,
        has_qk_norm=False,
        norm_bias=True,
    )
    for index in range(num_layers):
        modules += blocks.unquantised(
            *intern_layer(f"{name}.encoder.layers.{index}", shape)
        )
    return tuple(modules)


def _class_tokens(args: Facts) -> int:
    """Return class tokens and the registers that fill them up."""
    teachers = args.value("teachers") or ()
    count = 1
    if args.flag("cls_token_per_teacher"):
        count = len({teacher["name"] for teacher in teachers})
    multiple = args.optional_integer("register_multiple")
    return count + (multiple - count % multiple if multiple else 0)
