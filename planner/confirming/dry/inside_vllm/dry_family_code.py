"""Families whose checkpoints bring the code of their processors, or whose vLLM has it.

Stand-ins take the place of code that is not at hand (`dry_stand_ins`).
"""

from __future__ import annotations

from typing import Any

from dry_family import Config, Made, preprocessor, settings, square


def _with_code(
    module: str, names: tuple[str, str], sizes: dict[str, Any]
) -> dict[str, Any]:
    """Return stand-ins for a checkpoint's own code, in files of the same names."""
    image, processor = names
    places = {
        "AutoImageProcessor": f"image_processing_{module}.{image}",
        "AutoProcessor": f"processing_{module}.{processor}",
    }
    files: dict[str, Any] = {
        f"{place.partition('.')[0]}.py": f"from dry_stand_ins import {name}\n"
        for place, name in zip(places.values(), names, strict=True)
    }
    return {**files, **preprocessor(processor, image, auto_map=places, **sizes)}


def _minicpmv(config: Config) -> Made:
    """Images in at most 9 slices with a small copy."""
    texts = ("image", "image_id", "slice")
    marks = (f"<{slash}{text}>" for text in texts for slash in ("", "/"))
    sizes = {
        "image_feature_size": config.get("query_num", 64),
        **settings(config, "patch_size", scale_resolution="image_size"),
    }
    names = ("MiniCPMVImageProcessor", "MiniCPMVProcessor")
    return Made(
        special=dict.fromkeys(("<unk>", *marks)),
        named={"unk_token": "<unk>", "im_start": "<image>", "im_end": "</image>"},
        files=_with_code("minicpmv", names, sizes),
    )


def _ovis(config: Config) -> Made:
    """Images in at most 9 tiles of the tower's size with a small copy.

    Source: vLLM 0.33.0 `models/ovis.py` IMAGE_PAD_TOKEN_MAP (texts by language model),
    `transformers_utils/processors/ovis.py`.
    """
    texts = {
        "gemma2": "<unused0>",
        "llama": "<|reserved_special_token_0|>",
        "qwen2": "<|image_pad|>",
    }
    side = config["visual_tokenizer_config"]["backbone_config"]["image_size"]
    return Made(
        special={texts[config["llm_config"]["model_type"]]: None, "<image>": None},
        files=preprocessor(
            "OvisProcessor",
            "CLIPImageProcessor",
            size={"shortest_edge": side},
            crop_size=square(side),
        ),
    )


def _ovis2_5(config: Config) -> Made:
    """Images of any size: vLLM has the largest.

    Source: vLLM 0.33.0 `transformers_utils/processors/ovis2_5.py`.
    """
    vision = config["vit_config"]
    marks = ("visual_atom", "image_start", "image_end", "video_start", "video_end")
    texts = ("<image>", "<video>", "<|image_pad|>")
    return Made(
        special=dict.fromkeys((*texts, *(f"<ovis_{mark}>" for mark in marks))),
        files=preprocessor(
            "Ovis2_5_Processor",
            "Qwen2VLImageProcessor",
            min_pixels=448 * 448,
            max_pixels=1792 * 1792,
            **settings(vision, "patch_size", "temporal_patch_size"),
            merge_size=vision["hidden_stride"],
        ),
    )


def _phi3_v(_config: Config) -> Made:
    """Images in at most 16 crops with a small copy."""
    names = ("Phi3VImageProcessor", "Phi3VProcessor")
    return Made(special={"<|image|>": 32_044}, files=_with_code("phi3_v", names, {}))


FAMILIES = {
    "minicpmv": _minicpmv,
    "ovis": _ovis,
    "ovis2_5": _ovis2_5,
    "phi3_v": _phi3_v,
}
