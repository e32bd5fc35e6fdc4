"""Families whose encoders take images of any size, as Qwen-VL and Pixtral."""

from __future__ import annotations

from typing import Any

from dry_family import (
    Config,
    Made,
    edges,
    preprocessor,
    processor,
    settings,
    square,
    token_id,
    tokens,
    videos,
)
from dry_family_sounds import whisper_settings


def _qwen_tokens(config: Config) -> dict[str, int | None]:
    texts = {
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
    }
    return {"<|endoftext|>": None, "<|im_end|>": None, **tokens(config, texts)}


def patches(vision: Config) -> dict[str, Any]:
    """Return the tower's patches under the names that processors have for them."""
    names = ("patch_size", "temporal_patch_size")
    found: dict[str, Any] = settings(vision, *names, merge_size="spatial_merge_size")
    return found


def _both(
    name: str, image: str, sizes: dict[str, Any], **of_videos: object
) -> dict[str, dict[str, Any]]:
    """Return the settings of images, and those of videos where they differ."""
    of_class = f"{name}Processor"
    return {
        **preprocessor(of_class, f"{image}ImageProcessor", **sizes),
        **videos(
            f"{name}VideoProcessor", processor_class=of_class, **sizes | of_videos
        ),
    }


def _qwen2_vl(config: Config) -> Made:
    """Images of 3,136 to 12,845,056 pixels.

    Source: preprocessor_config.json of Qwen2.5-Omni-7B, with the same pixels as
    Qwen2-VL's and Qwen2.5-VL's.
    """
    is_first = config["model_type"] == "qwen2_vl"
    return Made(
        special=_qwen_tokens(config),
        files=preprocessor(
            "Qwen2VLProcessor" if is_first else "Qwen2_5_VLProcessor",
            "Qwen2VLImageProcessor",
            **_QWEN2_PIXELS,
            **patches(config["vision_config"]),
        ),
    )


_QWEN2_PIXELS = {
    "size": edges(3136, 12_845_056),
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
}


def _qwen3_vl(config: Config) -> Made:
    """Images of 65,536 to 16,777,216 pixels, videos of 4,096 to 25,165,824.

    Source: preprocessor_config.json of Qwen3.5-0.8B; video_preprocessor_config.json of
    Qwen3-VL, as in `planner/models/families/towers/items.py`.
    """
    sizes = patches(config["vision_config"])
    images, frames = edges(65_536, 16_777_216), edges(4096, 25_165_824)
    return Made(
        special=_qwen_tokens(config),
        files=_both("Qwen3VL", "Qwen2VL", sizes | {"size": images}, size=frames),
    )


def _qwen2_5_omni(config: Config) -> Made:
    """As Qwen2-VL, and sounds of up to 300 seconds.

    Source: preprocessor_config.json of Qwen2.5-Omni-7B.
    """
    thinker = config["thinker_config"]
    texts = {
        "image_token": "<|IMAGE|>",
        "video_token": "<|VIDEO|>",
        "audio_token": "<|AUDIO|>",
        "vision_bos_token": "<|vision_bos|>",
        "vision_eos_token": "<|vision_eos|>",
        "audio_bos_token": "<|audio_bos|>",
        "audio_eos_token": "<|audio_eos|>",
    }
    ids = {name: name.replace("bos", "start").replace("eos", "end") for name in texts}
    return Made(
        special=tokens(thinker, {ids[name]: text for name, text in texts.items()}),
        named=texts,
        files=preprocessor(
            "Qwen2_5OmniProcessor",
            "Qwen2VLImageProcessor",
            **_QWEN2_PIXELS,
            **patches(thinker["vision_config"]),
            **whisper_settings(thinker["audio_config"], seconds=300),
        ),
    )


def pixtral(config: Config) -> Made:
    """Images whose longest edge is that of the tower's.

    Source: Transformers 5.20 PixtralImageProcessor.
    """
    vision = config["vision_config"]
    patch, merge = vision["patch_size"], config.get("spatial_merge_size", 1)
    return Made(
        special={
            "[IMG]": token_id(config, "image_token"),
            **dict.fromkeys(("[IMG_BREAK]", "[IMG_END]")),
        },
        files={
            **processor("PixtralProcessor", patch_size=patch, spatial_merge_size=merge),
            **preprocessor(
                "PixtralProcessor",
                "PixtralImageProcessor",
                patch_size=square(patch),
                size={"longest_edge": vision["image_size"]},
            ),
        },
    )


def _glm_tokens(config: Config) -> dict[str, int | None]:
    texts = {
        "image": "image",
        "video": "video",
        "image_start": "begin_of_image",
        "image_end": "end_of_image",
        "video_start": "begin_of_video",
        "video_end": "end_of_video",
    }
    return {f"<|{texts[it]}|>": token_id(config, f"{it}_token") for it in texts}


def _glm4v(config: Config) -> Made:
    """Images of 12,544 to 9,633,792 pixels, videos of up to 47,040,000.

    Source: preprocessor_config.json of GLM-4.1V-9B-Thinking; Transformers 5.20
    Glm4vVideoProcessor.
    """
    sizes = patches(config["vision_config"]) | {"size": edges(12_544, 9_633_792)}
    return Made(
        special=_glm_tokens(config),
        files=_both("Glm4v", "Glm4v", sizes, size=edges(12_544, 47_040_000)),
    )


def _glm5_next(config: Config) -> Made:
    """Images of 16 to 8,000 tokens, videos of up to 240,000.

    Source: Transformers 5.20 Glm5NextImageProcessor, Glm5NextVideoProcessor.
    """
    return Made(special=_glm_tokens(config), files=_both("Glm5Next", "Glm5Next", {}))


def _muse_glimmer(config: Config) -> Made:
    """Images of up to 4,096 tokens, videos of 96 frames of up to 144.

    Source: Transformers 5.20 MuseGlimmerImageProcessor, MuseGlimmerVideoProcessor.
    """
    texts = ("image_start", "image_end", "vid_frame_separator", "vid_start", "vid_end")
    return Made(
        special={
            "<|patch|>": token_id(config, "image_token"),
            "<|video|>": token_id(config, "video_token"),
            **dict.fromkeys(f"<|{text}|>" for text in texts),
        },
        files=_both("MuseGlimmer", "MuseGlimmer", {}, return_metadata=True),
    )


def _kimi_k25(config: Config) -> Made:
    """Images of up to 16,384 patches, 512 along a side; pairs of frames of up to 4,096.

    Source: Transformers 5.20 Kimi_K25ImageProcessor, Kimi_K25VideoProcessor, under the
    names of vLLM 0.33.0 `transformers_utils/processors/kimi_k25_vision_fused.py`.
    """
    limits = {
        "in_patch_limit": 16_384,
        "in_patch_limit_each_frame": 4096,
        "in_patch_limit_video": None,
        "patch_limit_on_one_side": 512,
        "fixed_output_tokens": None,
        "temporal_merge_kernel_size": 4,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        **settings(config["vision_config"], "patch_size", "merge_kernel_size"),
    }
    return Made(
        special={"<|media_pad|>": token_id(config, "image_token")},
        files=preprocessor("KimiK25Processor", media_proc_cfg=limits),
    )


def _minimax_m3(config: Config) -> Made:
    """Images of up to 451,584 pixels, frames of up to 602,112.

    Source: vLLM 0.33.0 `transformers_utils/processors/minimax_m3.py`.
    """
    texts = ("image", "video", "start of image", "end of image")
    return Made(
        special={f"]<]{text}[>[": token_id(config, f"{text}_token") for text in texts},
        files=preprocessor("MiniMaxVLProcessor"),
    )


FAMILIES = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "qwen2_5_omni": _qwen2_5_omni,
    "glm4v": _glm4v,
    "glm4v_moe": _glm4v,
    "glm5_next": _glm5_next,
    "kimi_k25": _kimi_k25,
    "minimax_m3_vl": _minimax_m3,
    "muse_glimmer": _muse_glimmer,
}
