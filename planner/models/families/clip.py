"""CLIP with both its halves, for embeddings."""

from __future__ import annotations

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import clip_layers
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding


def read_clip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return CLIP with both its halves.

    Source: vLLM 0.33.0 `models/clip.py` CLIPEmbeddingModel.
    """
    text = text_facts(facts, "clip_text_model")
    vision = sub_config(facts, "vision_config", "clip_vision_model")
    columns = facts.integer("projection_dim")
    head = Replicated(
        name="text_projection",
        part=Part.CLASSIFIER,
        shapes=((columns, text.integer("hidden_size")),),
    )
    model = text_encoder(text, label, is_causal=True, head=(head,))
    modules = (
        *clip_layers(vision, "vision_model"),
        blocks.replicated(
            "visual_projection", (columns, vision.integer("hidden_size"))
        ),
    )
    tower = Tower(modalities=IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="text_model.")


def text_encoder(
    facts: Facts, label: Label, *, is_causal: bool, head: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the text half of CLIP, which has a KV cache, or of SigLIP."""
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    positions = facts.integer("max_position_embeddings")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
        heeds_kv_cache_dtype=False,
    )
    kind = LayerKind(
        caches=(kv_of(shape) if is_causal else encoder_only(shape),),
        modules=(
            *attention(shape),
            *plain_mlp(size, facts.integer("intermediate_size")),
            norms(size, bias=True),
        ),
    )
    numbers = Replicated(
        name="embeddings.position_ids",
        part=Part.BUFFERS,
        shapes=((positions,),),
        dtype="int64",
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        extra_embeddings=(
            VocabParallelEmbedding(
                name="position_embedding",
                num_embeddings=positions,
                embedding_dim=size,
            ),
            *(() if is_causal else (numbers,)),
        ),
        classifier=head,
    )
    body = Body.alike(kind, facts.integer("num_hidden_layers"))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=not is_causal,
    )


READERS = {
    "CLIPModel": read_clip,
}
