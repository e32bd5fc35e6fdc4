"""PaddleOCR-VL: SigLIP with rotary positions, and ERNIE 4.5."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import MODEL_RENAMES, Tie, sub_config
from planner.models.families.qwen2_vl import FLAT_KEYS
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module


def _tower(facts: Facts, text_size: int) -> Tower:
    vision = sub_config(facts, "vision_config", "paddleocr_vl_vision")
    return Tower(
        IMAGE,
        tuple(_modules(vision, text_size)),
        items=items.paddle_ocr_items(vision),
        rotates_in_fp32=True,
    )


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower and its projector over 2 x 2 patches.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py` SiglipVisionModel and Projector;
    `models/siglip.py` SiglipMLP.
    """
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    name = "visual.vision_model.encoder.rotary_pos_emb"
    rotary = blocks.inverse_frequencies(name, size // heads)
    *layers, last = siglip_vision(facts, "visual")
    yield from (*layers, rotary, last)
    merged = 4 * size
    yield blocks.norms("mlp_AR.pre_norm", size, bias=True)
    yield blocks.linear("mlp_AR.linear_1", merged, merged, bias=True)
    yield blocks.linear("mlp_AR.linear_2", merged, text_size, bias=True)


READERS = {
    "PaddleOCRVLForConditionalGeneration": Composite(
        _tower,
        text=Text(
            "paddleocr_vl_text",
            "Ernie4_5ForCausalLM",
            tie=Tie.EITHER,
            flat_keys=(*FLAT_KEYS, "head_dim", "use_bias"),
        ),
        renames=MODEL_RENAMES,
        supports_pp=False,
    )
}
