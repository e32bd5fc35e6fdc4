"""SigLIP 2, for images of any shape, beside a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import (
    Composite,
    Text,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import (
    attention,
    attention_shape,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import ALL_LAYERS, Depth
from planner.models.families.towers.grids import RGB
from planner.models.layers import Module
from planner.models.passes import Attention, TowerPass, block_pass


def siglip2_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> Iterator[Module]:
    """Yield the vision model, with fewer layers than it has where configured.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2Model.
    """
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, name = sizes.width, f"{name}.vision_model"
    embedding, pixels = f"{name}.embeddings", facts.integer("num_channels") * patch**2
    patches = blocks.whole(f"{embedding}.patch_embedding", pixels, size, bias=True)
    yield replace(patches, is_quantizable=False)
    positions = (facts.integer("num_patches"), size)
    yield blocks.replicated(f"{embedding}.position_embedding", positions)
    if depth.num_layers is not None:
        sizes = replace(sizes, depth=depth.num_layers)
    yield from blocks.layers(f"{name}.encoder.layers", sizes)
    if depth.has_post_norm is not False:
        yield blocks.norms(f"{name}.post_layernorm", size, bias=True)


_TOKENS = 256
"""Most tokens of an image where a config does not say."""


def _lfm2_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/lfm2_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    joined = facts.integer("downsample_factor") ** 2
    merged = vision.integer("hidden_size") * joined
    wide, bias = facts.integer("projector_hidden_size"), facts.flag("projector_bias")
    norm = blocks.norms(f"{PROJECTOR}.layer_norm", merged, bias=True)
    modules = (
        *siglip2_vision(vision, TOWER),
        *((norm,) if facts.flag("projector_use_layernorm") else ()),
        blocks.linear(f"{PROJECTOR}.linear_1", merged, wide, bias=bias),
        blocks.linear(f"{PROJECTOR}.linear_2", wide, text_size, bias=bias),
    )
    tokens = facts.optional_integer("max_image_tokens") or _TOKENS
    patches = tokens * joined
    inputs = patches * RGB * vision.integer("patch_size") ** 2
    image = MediaItem("image", tokens, patches=patches, inputs=inputs)
    return Tower(
        IMAGE,
        modules,
        items=(image,),
        supports_data_parallel=True,
        forward=_pass(vision, patches),
    )


def _pass(vision: Facts, patches: int) -> TowerPass:
    """Return SigLIP 2's widest points, of images whose patches were put together.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2EncoderLayer,
    `models/lfm2_vl.py` image_pixels_to_features, get_image_size_with_most_features.
    """
    size, heads = vision.integers("hidden_size", "num_attention_heads")
    attention = Attention(num_heads=heads, head_size=size // heads, length=patches)
    passed = block_pass(size, vision.integer("intermediate_size"), beside=4)
    return replace(passed, attention=attention, input_copies=2)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/phi4siglip.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    count, size = vision.integer("num_hidden_layers"), facts.integer("mm_hidden_size")
    depth = Depth(num_layers=count - 1, has_post_norm=False)
    yield from siglip2_vision(vision, TOWER, depth)
    yield blocks.column(f"{PROJECTOR}.linear_1", size, text_size, bias=True)
    yield blocks.row(f"{PROJECTOR}.linear_2", text_size, text_size, bias=True)


# Isaac: Qwen3 after SigLIP 2, whose neighbouring patches are merged.
def _isaac_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3, whose heads time, height and width share in its class's way."""
    text = text_facts(facts, "qwen3") if facts.mapping("text_config") else facts
    rope = text.mapping("rope_parameters") or text.mapping("rope_scaling")
    size = text.integer("head_dim")
    shared = {**rope, "mrope_section": [size // 4, size // 8, size // 8]}
    own = Facts({**text.config, "rope_parameters": shared}, "qwen3")
    return read_language_model(named(own, "Qwen3ForCausalLM"), label)


def _isaac_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/isaac.py`."""
    vision = sub_config(facts, "vision_config", "pixel_shuffle_siglip2")
    factor = vision.integer("pixel_shuffle_scale_factor")
    merged = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip2_vision(vision, "vision_embedding.transformer"),
        blocks.column("vision_embedding.1", merged, 4 * merged, bias=False),
        blocks.row("vision_embedding.3", 4 * merged, text_size, bias=False),
    )
    return Tower(IMAGE, modules, supports_data_parallel=True)


# Cosmos 3 Edge: SigLIP 2, and a decoder like Nemotron-H's.
def _cosmos_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/cosmos3_edge.py`."""
    vision = sub_config(facts, "vision_config", "cosmos3_edge_vision")
    size, wide = vision.integer("hidden_size"), facts.integer("projector_hidden_size")
    merged, name = size * vision.integer("spatial_merge_size") ** 2, "visual.projector"
    mlp = (
        blocks.column(f"{name}.linear_fc1", merged, wide, bias=True),
        blocks.row(f"{name}.linear_fc2", wide, text_size, bias=True),
    )
    return Tower(
        IMAGE_AND_VIDEO,
        (
            *siglip2_vision(vision, "visual.encoder"),
            blocks.norms(f"{name}.norm", size, bias=True),
            *blocks.unquantised(*mlp),
        ),
        supports_data_parallel=True,
    )


def _cosmos_text(outer: Facts, label: Label) -> ModelArchitecture:
    """Return the blocks: attention with a norm, then an MLP with a norm."""
    facts = text_facts(outer, "cosmos3_edge_text")
    shape = attention_shape(facts)
    size = shape.hidden_size
    mlp = plain_mlp(size, facts.integer("intermediate_size"), bias=False)
    norm = norms(size, count=1)
    pair = (
        LayerKind((kv_of(shape),), (*attention(shape), norm)),
        LayerKind((), (*mlp, norm)),
    )
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(size, rope)
    inner = label.of("Cosmos3EdgeForCausalLM")
    return assemble(facts, inner, frame, pair * facts.integer("num_hidden_layers"))


READERS: dict[str, Reader] = {
    "Lfm2VlForConditionalGeneration": Composite(_lfm2_tower, renames=RENAMES),
    "Phi4ForCausalLMV": Composite(
        _modules, text=Text("phi3", "Phi3ForCausalLM", name="")
    ),
    "IsaacForConditionalGeneration": Composite(_isaac_tower, text=_isaac_text),
    "Cosmos3EdgeForConditionalGeneration": Composite(_cosmos_tower, text=_cosmos_text),
}
