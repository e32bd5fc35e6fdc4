"""GLM-4.1V, GLM-4.5V, GLM-4.6V and GLM-OCR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.engine.releases.change import Change
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    Composite,
    Text,
    Tie,
    composed,
    read_as,
    sub_config,
    text_facts,
)
from planner.models.families.facts import Facts
from planner.models.families.qwen_vl import QWEN3_RENAMES
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import (
    GATE_AND_UP,
    IMAGE_AND_VIDEO,
    QKV_SHARDS,
)
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass

_PASSES_RAW_PIXELS = Change(
    since=(0, 32),
    what="The GPU gets the pixels of GLM-4.1V as bytes and normalises them.",
    source="vLLM 0.31.0 and 0.32.0 `models/glm4_1v.py` (input_norm)",
)


def read_glm4v(
    facts: Facts, label: Label, *, is_flat_read: bool = False
) -> ModelArchitecture:
    """Return GLM-4.1V and GLM-4.6V-Flash.

    The first ones' flat configs say nothing to the language model, which has its
    class's defaults. `is_flat_read`: they do, as in Transformers before 5.20.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vForConditionalGeneration; Transformers'
    Glm4vConfig.
    """
    if facts.model_type != "glm4v":
        raise facts.unsupported("model_type", "glm4v is.")
    flat_keys = tuple(facts.config) if is_flat_read else ()
    model = _dense(facts, label, kind="glm4v_text", flat_keys=flat_keys)
    vision = sub_config(facts, "vision_config", "glm4v_vision")
    return composed(facts, label, model, _tower(vision), renames=QWEN3_RENAMES)


def _dense(
    facts: Facts, label: Label, *, kind: str, flat_keys: tuple[str, ...] = ()
) -> ModelArchitecture:
    """Return GLM-4, which rotates half of each head unless the config says otherwise.

    Source: vLLM 0.33.0 `models/glm4.py`.
    """
    text = text_facts(facts, kind, flat_keys=flat_keys, tie=Tie.EITHER)
    text = Facts(text.config, kind, {"partial_rotary_factor": 0.5})
    return read_as(text, label, "Glm4ForCausalLM")


def _sparse(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vMoeForConditionalGeneration."""
    if facts.model_type != "glm4v_moe":
        raise facts.unsupported("model_type", "glm4v_moe is.")
    return Text("glm4v_moe_text", "Glm4MoeForCausalLM", tie=Tie.EITHER)(facts, label)


def _moe_tower(facts: Facts, _text_size: int) -> Tower:
    vision = sub_config(facts, "vision_config", "glm4v_moe_vision")
    return _tower(vision, gate_and_up=GATE_AND_UP)


def _tower(vision: Facts, gate_and_up: tuple[str, ...] = ()) -> Tower:
    found = _glm_tower(vision, tuple(_modules(vision, "visual", gate_and_up)))
    size, heads, wide = vision.integers("hidden_size", "num_heads", "out_hidden_size")
    return replace(
        found,
        reads_raw_pixels_since=_PASSES_RAW_PIXELS,
        forward=_pass(size, size // heads, wide),
    )


def _pass(size: int, head_size: int, mlp_size: int) -> TowerPass:
    """Return the widest points, with position embeddings that have a name to the end.

    Queries, keys and values as projected and as copied, queries and keys together and
    rotated. Natively the norm that adds up returns tensors of its own.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vVisionAttention, Glm4vVisionBlock,
    Glm4vVisionTransformer.forward; traced dry runs of GLM-4.1V-9B.
    """
    tables = head_size  # cosines and sines of half a head
    whole = 3 * size + tables
    return TowerPass(
        moments=(
            Moment("attention", whole=whole, cut=10 * size),
            Moment(
                "attention's output", whole=whole + size, cut=9 * size, reduced=size
            ),
            Moment(
                "MLP",
                whole=whole,
                cut=3 * mlp_size,
                unfused=mlp_size,
                native_whole=2 * size,
            ),
        ),
        copies_share=True,
    )


def _glm_tower(vision: Facts, modules: tuple[Module, ...]) -> Tower:
    return Tower(
        IMAGE_AND_VIDEO,
        modules,
        items=items.glm4v_items(vision),
        supports_data_parallel=True,
    )


def _modules(facts: Facts, name: str, gate_and_up: tuple[str, ...]) -> Iterator[Module]:
    """Yield the tower of GLM-4.1V, GLM-4.5V and GLM-4.6V.

    `gate_and_up` are the checkpoint's layers packed in gate_up_proj, as the class's
    packed_modules_mapping has them.

    Source: vLLM 0.33.0 `models/glm4_1v.py` Glm4vVisionTransformer, whose blocks take
    the output's size for that of their MLP, and whose merger the MLP's.
    """
    size, output = facts.integers("hidden_size", "out_hidden_size")
    heads, depth = facts.integers("num_heads", "depth")
    yield from _before(facts, name)
    yield from blocks.repeated(
        f"{name}.blocks",
        depth,
        blocks.norms("norm", size, count=2, bias=False),
        # Its name where a checkpoint names exceptions (compressed-tensors).
        blocks.qkv("attn.qkv_proj", size, heads, bias=False, shards=QKV_SHARDS),
        blocks.row("attn.proj", size, size, bias=False),
        *blocks.gated_mlp("mlp", size, output, bias=False, shards=gate_and_up),
    )
    wide = facts.integer("intermediate_size")
    yield from tower_merger(f"{name}.merger", output, wide, gate_and_up)
    positions = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    table = f"{name}.embeddings"
    yield blocks.replicated(f"{table}.position_embedding", (positions, size))
    yield blocks.replicated(f"{table}.position_ids", (positions,), dtype="int64")
    yield blocks.norms(f"{name}.post_conv_layernorm", size, bias=False)
    yield from downsampling(facts, name)


def _glm_ocr_tower(facts: Facts, _text_size: int) -> Tower:
    """Return GLM-OCR's tower, whose merger is as wide as the language model's MLP.

    Source: vLLM 0.33.0 `models/glm_ocr.py` GlmOcrVisionTransformer.
    """
    vision, name = sub_config(facts, "vision_config", "glm_ocr_vision"), "visual"
    text = text_facts(facts, "glm_ocr_text", tie=Tie.EITHER)
    output, wide = vision.integer("out_hidden_size"), text.integer("intermediate_size")
    modules = (
        *_before(vision, name),
        *ocr_blocks(vision, name),
        *tower_merger(f"{name}.merger", output, wide, ()),
        *downsampling(vision, name),
    )
    return _glm_tower(vision, modules)


def ocr_blocks(
    facts: Facts,
    name: str,
    *,
    qkv: str = "attn.qkv_proj",
    qkv_shards: tuple[str, ...] = QKV_SHARDS,
    gate_and_up: tuple[str, ...] = (),
) -> tuple[Module, ...]:
    """Return the blocks of GLM-OCR's tower, as a class names and packs them."""
    size, heads = facts.integers("hidden_size", "num_heads")
    wide = facts.integer("intermediate_size")
    return blocks.repeated(
        f"{name}.blocks",
        facts.integer("depth"),
        blocks.norms("norm", size, count=2, bias=False),
        blocks.norms("attn.qk_norm", size // heads, count=2, bias=False),
        blocks.qkv(qkv, size, heads, bias=True, shards=qkv_shards),
        blocks.row("attn.proj", size, size, bias=True),
        *blocks.gated_mlp("mlp", size, wide, bias=True, shards=gate_and_up),
    )


def _before(facts: Facts, name: str) -> Iterator[Module]:
    size, patch = facts.integers("hidden_size", "patch_size")
    kernel = facts.integer("temporal_patch_size"), patch, patch
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("in_channels")
    yield blocks.convolution(embedding, size, channels, *kernel, bias=True)
    yield blocks.input_norm(name)
    head_size = size // facts.integer("num_heads")
    yield blocks.rotary_cache(f"{name}.rotary_pos_emb", head_size)


def downsampling(facts: Facts, name: str) -> Iterator[Module]:
    """Yield what makes one of several patches, and the norm after it."""
    size, output = facts.integers("hidden_size", "out_hidden_size")
    kernel = (facts.integer("spatial_merge_size"),) * 2
    yield blocks.convolution(f"{name}.downsample", output, size, *kernel, bias=True)
    yield blocks.norms(f"{name}.post_layernorm", size, bias=False)


def tower_merger(
    name: str, size: int, mlp_size: int, gate_and_up: tuple[str, ...]
) -> Iterator[Module]:
    """Yield the projection and the MLP behind a tower of GLM."""
    yield blocks.column(f"{name}.proj", size, size, bias=False)
    yield blocks.norms(f"{name}.post_projection_norm", size, bias=True)
    yield from blocks.gated_mlp(name, size, mlp_size, bias=False, shards=gate_and_up)


READERS: dict[str, Reader] = {
    "Glm4vForConditionalGeneration": read_glm4v,
    "Glm4vMoeForConditionalGeneration": Composite(
        _moe_tower, text=_sparse, renames=QWEN3_RENAMES
    ),
    # Less its layers for speculation. Source: vLLM 0.33.0 `models/glm_ocr.py`.
    "GlmOcrForConditionalGeneration": Composite(
        _glm_ocr_tower, text=partial(_dense, kind="glm_ocr_text"), renames=QWEN3_RENAMES
    ),
}
