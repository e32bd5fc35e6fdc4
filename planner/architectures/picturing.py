"""Readers of the families with images that share a tower or a way to join it."""

from __future__ import annotations

from planner.architectures import (
    deepseek_ocr,
    deepseek_vl2,
    gemma3_mm,
    gemma4,
    idefics3,
    kimi_k25,
    kimi_vl,
    llama4_mm,
    llava,
    molmo,
    muse_glimmer,
    ocr,
    paligemma,
    phi_vision,
)

READERS = {
    **deepseek_ocr.READERS,
    **deepseek_vl2.READERS,
    **gemma3_mm.READERS,
    **gemma4.READERS,
    **idefics3.READERS,
    **kimi_k25.READERS,
    **kimi_vl.READERS,
    **llama4_mm.READERS,
    **llava.READERS,
    **molmo.READERS,
    **muse_glimmer.READERS,
    **ocr.READERS,
    **paligemma.READERS,
    **phi_vision.READERS,
}
