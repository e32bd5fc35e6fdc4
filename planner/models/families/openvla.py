"""OpenVLA: timm's DINOv2 and SigLIP, whole on each rank, and Llama."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield both towers; vLLM takes no others.

    Source: vLLM 0.33.0 `models/openvla.py`; timm 1.0.31 `vision_transformer.py`.
    """
    if not facts.flag("use_fused_vision_backbone", default=True):
        raise facts.unsupported("use_fused_vision_backbone", "vLLM has no other.")
    dino, siglip, name = 1024, 1152, "vision_backbone"
    seen = dino + siglip
    # A class, four registers, a position for each of 16 x 16 patches.
    yield blocks.replicated(f"{name}.dinov2.embed", (1 + 4 + 256, dino))
    yield from _timm(f"{name}.dinov2_featurizer", dino, 24, 4096, scales=2)
    yield blocks.replicated(f"{name}.siglip.embed", (256, siglip))
    yield from _timm(f"{name}.siglip_featurizer", siglip, 27, 4304, scales=0)
    pooled = ((siglip,), (siglip, siglip), (2 * siglip, siglip), (siglip, siglip))
    biases = ((siglip,), (2 * siglip,), (siglip,))
    layer = *_timm_mlp(siglip, 4304), (siglip,), (siglip,)
    yield blocks.replicated(f"{name}.attn_pool", *pooled, *biases, *layer)
    yield blocks.column("projector.fc1", seen, 4 * seen, bias=True)
    yield blocks.row("projector.fc2", 4 * seen, text_size, bias=True)
    yield blocks.whole("projector.fc3", text_size, text_size, bias=True)


def _timm(
    name: str, size: int, depth: int, wide: int, *, scales: int
) -> Iterator[Module]:
    """Yield a vision transformer of timm, in patches of 14 x 14."""
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
    "OpenVLAForActionPrediction": Composite(
        _modules, text=Text("llama", "LlamaForCausalLM")
    )
}
