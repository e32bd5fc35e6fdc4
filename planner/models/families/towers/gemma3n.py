"""The towers of Gemma 3n, which vLLM takes from Transformers and timm.

Every rank holds them in full, and nothing in them is quantised; their projections to
the language model are vLLM's.

Source: vLLM 0.33.0 `models/gemma3n_mm.py`; Transformers' Gemma3nAudioEncoder; timm's
mobilenetv5_300m_enc.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module, Part, VocabParallelEmbedding

_ENCODER = "mobilenetv5_300m_enc"
_EDGES = ((64, 256, 128), (128, 512, 128), (128, 512, 128))
"""Channels of the first stage's blocks: before, within, behind."""
_INVERTED = (
    (
        (3, 128, 768, 5, 256),
        *((size, 256, 1024, 0, 256) for size in (5, 3, 5, 3)),
    ),
    ((5, 256, 1536, 5, 640), *((5, 640, 2560, 0, 640),) * 7, (0, 640, 640, 0, 640)),
    ((5, 640, 3840, 5, 1280),),
)
"""Of the other stages: sides of both kernels (0: none) between the channels."""
_ATTENDING = ((0, 0, 0, 0), (14, 640, 768, 64), (19, 1280, 1536, 96))
"""And then so many times attention and an MLP: channels, queries, keys."""
_FUSED = (1920, 3840, 2048)
_STEM = 64


def vision_tower(facts: Facts, text_size: int) -> Tower:
    """Return MobileNet V5 with its projection.

    What convolutions need while they run is not known.

    Raises:
        UnknownArchitecture: for another encoder.
    """
    if facts.value("architecture") not in (None, _ENCODER):
        raise facts.unsupported("architecture", f"{_ENCODER} is.")
    name = "vision_tower.timm_model"
    modules = (*_mobilenet(name), *_embedder(facts, "embed_vision", text_size))
    return Tower(("image",), modules)


def _mobilenet(name: str) -> Iterator[Module]:
    yield blocks.convolution(f"{name}.conv_stem", _STEM, 3, 3, 3, bias=True)
    yield blocks.norms(f"{name}.conv_stem.bn", _STEM, bias=False)
    for before, middle, behind in _EDGES:
        yield blocks.replicated(
            f"{name}.blocks.0",
            *((middle, before, 3, 3), (middle,), (behind, middle), (behind,)),
        )
    for stage, rows in enumerate(_INVERTED):
        part = f"{name}.blocks.{stage + 1}"
        for row in rows:
            yield blocks.replicated(part, *_inverted(*row))
        count, size, queries, keys = _ATTENDING[stage]
        for _index in range(count):
            yield blocks.replicated(part, *_attention(size, queries, keys))
            yield blocks.replicated(part, *_inverted(0, size, 2 * size, 0, size))
    before, middle, behind = _FUSED
    yield blocks.replicated(
        f"{name}.msfa", *_inverted(0, before, middle, 0, behind)[:-1], (behind,)
    )


def _inverted(
    first: int, before: int, middle: int, second: int, behind: int
) -> tuple[tuple[int, ...], ...]:
    """Return an inverted bottleneck: depthwise convolutions, and two others between."""
    depthwise = ((before, first, first), (before,)) if first else ()
    between = ((middle, second, second), (middle,)) if second else ()
    return (
        *depthwise,
        *((middle, before), (middle,)),
        *between,
        *((behind, middle), (behind,), (behind,)),
    )


def _attention(size: int, queries: int, keys: int) -> tuple[tuple[int, ...], ...]:
    """Return attention whose heads share keys, halved by convolutions at first."""
    halving = ((size, 3, 3), (size,)) * 2 if size == _INVERTED[1][-1][-1] else ()
    projections = ((queries, size), (keys, size), (keys, size), (size, queries))
    return ((size,), *projections, *halving, (size,))


def audio_tower(facts: Facts, text_size: int) -> Tower:
    """Return the conformer with its projection."""
    first, second = facts.value("sscp_conv_channel_size")
    sizes = facts.value("sscp_conv_kernel_size")
    strides = facts.value("sscp_conv_stride_size")
    bins = facts.integer("input_feat_size")
    for (_high, wide), (_down, step) in zip(sizes, strides, strict=True):
        bins = (bins + 2 - wide) // step + 1
    size, name = facts.integer("hidden_size"), "audio_tower"
    before = f"{name}.subsample_conv_projection"
    modules = [
        blocks.replicated(f"{before}.conv_0", (first, 1, *sizes[0]), (first,)),
        blocks.replicated(f"{before}.conv_1", (second, first, *sizes[1]), (second,)),
        blocks.replicated(f"{before}.input_proj_linear", (size, second * bins)),
        *_embedder(facts, "embed_audio", text_size),
    ]
    count = facts.integer("conf_num_hidden_layers")
    modules += blocks.repeated(f"{name}.conformer", count, *_conformer(facts))
    return Tower(AUDIO, tuple(modules))


def _conformer(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    head_size = size // facts.integer("conf_num_attention_heads")
    chunk = facts.integer("conf_attention_chunk_size", default=12)
    left = facts.integer("conf_attention_context_left", default=13)
    right = facts.integer("conf_attention_context_right", default=0)
    seen = chunk + max(0, left - 1) + right
    kernel = facts.integer("conf_conv_kernel_size")
    square = (size, size)
    return (
        blocks.replicated("ffw", *((4 * size, size), (size, 4 * size)) * 2),
        blocks.replicated("attention", *(square,) * 5, (head_size,)),
        blocks.replicated("lconv1d", (2 * size, size), (size, kernel), (size, size)),
        blocks.norms("norms", size, count=9, bias=False),
        blocks.replicated("clipping", *((),) * 6),
        blocks.replicated("times", (size // 2,), (), dtype="float32"),
        blocks.replicated("mask", (chunk, seen), dtype="uint8"),
    )


def _embedder(facts: Facts, name: str, text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/gemma3n_mm.py` Gemma3nMultimodalEmbedder."""
    size = facts.integer("hidden_size")
    words = VocabParallelEmbedding(
        f"{name}.embedding",
        facts.integer("vocab_size"),
        size,
        part=Part.TOWERS,
        is_quantizable=False,
    )
    projection = blocks.row(f"{name}.embedding_projection", size, text_size, bias=False)
    return (
        words,
        *blocks.unquantised(projection),
        blocks.norms(f"{name}.norms", size, count=2, bias=False),
    )
