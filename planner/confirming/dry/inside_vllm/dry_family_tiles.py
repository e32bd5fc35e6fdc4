"""Families whose encoders take images of one size, or tiles of it."""

from __future__ import annotations

from typing import Any

from dry_family import (
    Config,
    Made,
    preprocessor,
    processor,
    settings,
    square,
    token_id,
    tokens,
    videos,
)
from dry_family_sizes import pixtral


def _clip_files(
    config: Config, name: str, image: str, **of_images: object
) -> dict[str, dict[str, Any]]:
    """Return what LLaVA's processors read; images have the size of CLIP's tower."""
    return {
        **processor(
            name,
            patch_size=config["vision_config"]["patch_size"],
            vision_feature_select_strategy=config["vision_feature_select_strategy"],
            num_additional_image_tokens=1,  # the class token of CLIP's tower
        ),
        **preprocessor(name, image, **_image_of_tower(config), **of_images),
    }


def _image_of_tower(config: Config) -> dict[str, Any]:
    side = config["vision_config"]["image_size"]
    return {"size": {"shortest_edge": side}, "crop_size": square(side)}


def _llava(config: Config) -> Made:
    """Images of the tower's size: a square of CLIP's, or Pixtral's longest edge."""
    if config["vision_config"]["model_type"] == "pixtral":
        return pixtral(config)
    return Made(
        special={"<image>": token_id(config, "image_token")},
        files=_clip_files(config, "LlavaProcessor", "CLIPImageProcessor"),
    )


def _llava_next(config: Config) -> Made:
    """Images in tiles of the tower's size, as many as config.json's pinpoints have."""
    has_videos = config["model_type"] == "llava_next_video"
    name = "LlavaNextVideo" if has_videos else "LlavaNext"
    texts = {"image_token": "<image>"}
    files = _clip_files(
        config,
        f"{name}Processor",
        "LlavaNextImageProcessor",
        **settings(config, "image_grid_pinpoints"),
    )
    if has_videos:
        texts["video_token"] = "<video>"
        files |= videos("LlavaNextVideoVideoProcessor", **_image_of_tower(config))
    return Made(special=tokens(config, texts), files=files)


def _llava_onevision(config: Config) -> Made:
    """Images in tiles, and frames, of the tower's size."""
    vision = config["vision_config"]
    side = square(vision["image_size"])
    name = "LlavaOnevisionProcessor"
    return Made(
        special=tokens(config, {"image_token": "<image>", "video_token": "<video>"}),
        files={
            **processor(
                name,
                num_image_tokens=(vision["image_size"] // vision["patch_size"]) ** 2,
                **settings(
                    config, "vision_feature_select_strategy", "vision_aspect_ratio"
                ),
            ),
            **preprocessor(
                name,
                "LlavaOnevisionImageProcessor",
                size=side,
                **settings(config, "image_grid_pinpoints"),
            ),
            **videos("LlavaOnevisionVideoProcessor", size=side),
        },
    )


def _rows_and_columns(pattern: str, most: int) -> dict[str, None]:
    numbers = range(1, most + 1)
    return {pattern.format(row, column): None for row in numbers for column in numbers}


def _idefics3(config: Config) -> Made:
    """Images in tiles of the tower's size, four along the longer side.

    Source: Transformers 5.20 Idefics3ImageProcessor; `Splits` in
    `planner/models/families/towers/grids.py`.
    """
    vision = config["vision_config"]
    side, patch = vision["image_size"], vision["patch_size"]
    name = "Idefics3" if config["model_type"] == "idefics3" else "SmolVLM"
    sizes = {
        "size": {"longest_edge": 4 * side},
        "max_image_size": {"longest_edge": side},
    }
    of_videos = videos("SmolVLMVideoProcessor", **sizes) if name == "SmolVLM" else {}
    return Made(
        special={
            "<image>": token_id(config, "image_token"),
            "<fake_token_around_image>": None,
            "<end_of_utterance>": None,
            "<global-img>": None,
            **_rows_and_columns("<row_{}_col_{}>", 6),
        },
        files={
            **processor(
                f"{name}Processor",
                image_seq_len=(side // patch // config["scale_factor"]) ** 2,
            ),
            **preprocessor(f"{name}Processor", f"{name}ImageProcessor", **sizes),
            **of_videos,
        },
    )


def _llama4(config: Config) -> Made:
    """Images in at most 16 tiles of the tower's size.

    Source: Transformers 5.20 Llama4ImageProcessor (max_patches).
    """
    vision = config["vision_config"]
    texts = (
        "image",
        "image_start",
        "image_end",
        "tile_x_separator",
        "tile_y_separator",
    )
    return Made(
        special={
            "<|patch|>": token_id(config, "image_token"),
            **dict.fromkeys(f"<|{text}|>" for text in texts),
        },
        files={
            **processor(
                "Llama4Processor",
                **settings(vision, "patch_size", "pixel_shuffle_ratio"),
            ),
            **preprocessor(
                "Llama4Processor",
                "Llama4ImageProcessor",
                size=square(vision["image_size"]),
                max_patches=16,
            ),
        },
    )


def _internvl(config: Config) -> Made:
    """Images in at most 12 tiles of the tower's size with a small copy.

    Source: Transformers 5.20 GotOcr2ImageProcessor (min_patches, max_patches),
    InternVLProcessorKwargs (crop_to_patches).
    """
    texts = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    side = square(config["vision_config"]["image_size"])
    return Made(
        special={
            text: token_id(config, "image_token") if "CONTEXT" in text else None
            for text in texts.values()
        },
        named=texts,
        files={
            **processor("InternVLProcessor", **settings(config, "image_seq_length")),
            **preprocessor(
                "InternVLProcessor",
                "GotOcr2ImageProcessor",
                size=side,
                crop_to_patches=True,
            ),
            **videos("InternVLVideoProcessor", size=side),
        },
    )


def _internvl_chat(config: Config) -> Made:
    """Only tokens: vLLM takes the sizes from config.json."""
    texts: tuple[str, ...] = ("<img>", "</img>", "<IMG_CONTEXT>", "<image>", "<video>")
    if config["model_type"] == "NVLM_D":
        tiles = (f"<tile_{number}>" for number in range(1, 13))
        texts = ("<Image>", "</Image>", "<|vision_pad|>", *tiles)
    of_videos = ("<|video_pad|>", "<|reserved_200000|>")
    return Made(special=dict.fromkeys((*texts, *of_videos)))


def _step3_vl(config: Config) -> Made:
    """Only tokens: vLLM has the sizes."""
    texts = ("im_start", "im_end", "patch_start", "patch_end", "patch_newline")
    return Made(
        special={
            "<im_patch>": token_id(config, "image_token"),
            **dict.fromkeys(f"<{text}>" for text in texts),
        }
    )


def _deepseek_vl2(config: Config) -> Made:
    """Images in tiles: config.json's resolutions; DeepSeek-OCR's sizes are vLLM's.

    Source: vLLM 0.33.0 `transformers_utils/processors/deepseek_vl2.py` and
    `deepseek_ocr.py`.
    """
    is_ocr = "OCR" in str(config.get("architectures"))
    texts = ("ref", "/ref", "det", "/det", "grounding", "User", "Assistant")
    sizes = {
        **settings(config, "candidate_resolutions"),
        **settings(config["vision_config"], "patch_size"),
        "downsample_ratio": config["projector_config"].get("downsample_ratio", 2),
    }
    return Made(
        special=dict.fromkeys(("<image>", *(f"<|{text}|>" for text in texts))),
        files=processor(
            f"Deepseek{'OCR' if is_ocr else 'VLV2'}Processor",
            **({} if is_ocr else sizes),
        ),
    )


def _lfm2_vl(config: Config) -> Made:
    """Images in tiles by config.json, as Transformers' class has them otherwise."""
    names = (
        *("downsample_factor", "do_image_splitting", "min_tiles", "max_tiles"),
        *("use_thumbnail", "min_image_tokens", "max_image_tokens", "tile_size"),
        *("encoder_patch_size", "max_pixels_tolerance"),
    )
    return Made(
        special={
            "<image>": token_id(config, "image_token"),
            **dict.fromkeys(("<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")),
            **_rows_and_columns("<|img_row_{}_col_{}|>", 10),
        },
        files=preprocessor(
            "Lfm2VlProcessor", "Lfm2VlImageProcessor", **settings(config, *names)
        ),
    )


def _cohere2_vision(config: Config) -> Made:
    """Images in at most 12 tiles.

    Source: Transformers 5.20 Cohere2VisionImageProcessor.
    """
    texts = {
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "image_token": "<|IMG_PATCH|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }
    vision = config["vision_config"]
    return Made(
        special=tokens(config, texts),
        named=texts,
        files=preprocessor(
            "Cohere2VisionProcessor",
            "Cohere2VisionImageProcessor",
            size=square(vision["image_size"]),
            **settings(vision, "patch_size"),
        ),
    )


FAMILIES = {
    "cohere2_vision": _cohere2_vision,
    "deepseek_vl_v2": _deepseek_vl2,
    "idefics3": _idefics3,
    "internvl": _internvl,
    "internvl_chat": _internvl_chat,
    "lfm2_vl": _lfm2_vl,
    "llama4": _llama4,
    "llava": _llava,
    "llava_next": _llava_next,
    "llava_next_video": _llava_next,
    "llava_onevision": _llava_onevision,
    "mistral3": _llava,
    "NVLM_D": _internvl_chat,
    "smolvlm": _idefics3,
    "step3_vl": _step3_vl,
}
