"""OpenVLA: timm's DINOv2 and SigLIP, whole on each rank, and Llama."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    named,
    read_language_model,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import Module


def read_openvla(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OpenVLA: timm's DINOv2 and SigLIP, whole on each rank, and Llama.

    vLLM takes no others.

    Source: vLLM 0.33.0 `models/openvla.py`; timm 1.0.31 `vision_transformer.py`.
    """
    if not facts.flag("use_fused_vision_backbone", default=True):
        raise facts.unsupported("use_fused_vision_backbone", "vLLM has no other.")
    text = named(text_facts(facts, "llama"), "LlamaForCausalLM", "llama")
    model = read_language_model(text, label)
    dino, siglip, wide = 1024, 1152, model.hidden_size
    name = "vision_backbone"
    seen = dino + siglip
    pooled = ((siglip,), (siglip, siglip), (2 * siglip, siglip), (siglip, siglip))
    biases = ((siglip,), (2 * siglip,), (siglip,))
    layer = *_timm_mlp(siglip, 4304), (siglip,), (siglip,)
    modules = (
        # A class, four registers, a position for each of 16 x 16 patches.
        blocks.replicated(f"{name}.dinov2.embed", (1 + 4 + 256, dino)),
        *_timm(f"{name}.dinov2_featurizer", dino, 24, 4096, scales=2),
        blocks.replicated(f"{name}.siglip.embed", (256, siglip)),
        *_timm(f"{name}.siglip_featurizer", siglip, 27, 4304, scales=0),
        blocks.replicated(f"{name}.attn_pool", *pooled, *biases, *layer),
        blocks.column("projector.fc1", seen, 4 * seen, bias=True),
        blocks.row("projector.fc2", 4 * seen, wide, bias=True),
        blocks.whole("projector.fc3", wide, wide, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=IMAGE, modules=modules))


def _timm(
    name: str, size: int, depth: int, wide: int, *, scales: int
) -> Iterator[Module]:
    """Return a vision transformer of timm, in patches of 14 x 14."""
    yield blocks.convolution(f"{name}.patch_embed.proj", size, 3, 14, 14, bias=True)
    attention = ((3 * size, size), (3 * size,), (size, size), (size,))
    vectors = ((size,),) * (4 + scales)
    for index in range(depth):
        block = f"{name}.blocks.{index}"
        yield blocks.replicated(block, *attention, *_timm_mlp(size, wide), *vectors)
    yield blocks.norms(f"{name}.norm", size, bias=True)


def _timm_mlp(size: int, wide: int) -> tuple[tuple[int, ...], ...]:
    return (wide, size), (wide,), (size, wide), (size,)


READERS = {
    "OpenVLAForActionPrediction": read_openvla,
}
