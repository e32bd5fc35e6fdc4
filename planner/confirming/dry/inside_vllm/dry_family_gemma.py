"""Gemma's families, whose tokenizers have newlines and places as words."""

from __future__ import annotations

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

_NEWLINES = tuple("\n" * count for count in range(1, 5))


def _gemma3(config: Config) -> Made:
    """Images of the tower's size, 256 tokens each."""
    texts = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    return Made(
        special=tokens(config, texts),
        words=_NEWLINES,
        named=texts,
        files={
            **processor(
                "Gemma3Processor", image_seq_length=config["mm_tokens_per_image"]
            ),
            **preprocessor(
                "Gemma3Processor",
                "Gemma3ImageProcessor",
                size=square(config["vision_config"]["image_size"]),
            ),
        },
    )


def _gemma3n(config: Config) -> Made:
    """Images of 768 x 768 pixels, and sounds as Transformers' class has them.

    Source: Transformers 5.20 Gemma3nAudioFeatureExtractor; preprocessor_config.json of
    gemma-3n-E2B-it (size).
    """
    texts = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
        "boa_token": "<start_of_audio>",
        "eoa_token": "<end_of_audio>",
        "audio_token": "<audio_soft_token>",
    }
    lengths = settings(
        config,
        image_seq_length="vision_soft_tokens_per_image",
        audio_seq_length="audio_soft_tokens_per_image",
    )
    return Made(
        special=tokens(config, texts),
        words=_NEWLINES,
        named=texts,
        files={
            **processor("Gemma3nProcessor", **lengths),
            **preprocessor(
                "Gemma3nProcessor",
                "SiglipImageProcessor",
                size=square(768),
                feature_extractor_type="Gemma3nAudioFeatureExtractor",
            ),
        },
    )


def _gemma4(config: Config) -> Made:
    """Images of 280 tokens, videos of 32 frames of 70, sounds of 30 seconds.

    Source: Transformers 5.20 Gemma4ImageProcessor, Gemma4VideoProcessor,
    Gemma4AudioFeatureExtractor.
    """
    texts = {
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "image_token": "<|image|>",
        "boa_token": "<|audio>",
        "eoa_token": "<audio|>",
        "audio_token": "<|audio|>",
    }
    most = config.get("vision_soft_tokens_per_image") or 280
    return Made(
        special=tokens(config, texts | {"video_token": "<|video|>"}),
        named=texts,
        files={
            **processor("Gemma4Processor", image_seq_length=most),
            **preprocessor(
                "Gemma4Processor",
                "Gemma4ImageProcessor",
                max_soft_tokens=most,
                feature_extractor_type="Gemma4AudioFeatureExtractor",
            ),
            **videos("Gemma4VideoProcessor"),
        },
    )


def _paligemma(config: Config) -> Made:
    """One image of the tower's size."""
    vision = config["vision_config"]
    side = vision["image_size"]
    places = (f"<loc{number:0>4}>" for number in range(1024))
    segments = (f"<seg{number:0>3}>" for number in range(128))
    return Made(
        special={"<image>": token_id(config, "image_token")},
        words=("\n", *places, *segments),
        named={"image_token": "<image>"},
        files=preprocessor(
            "PaliGemmaProcessor",
            "SiglipImageProcessor",
            size=square(side),
            image_seq_length=(side // vision["patch_size"]) ** 2,
        ),
    )


FAMILIES = {
    "gemma3": _gemma3,
    "gemma3n": _gemma3n,
    "gemma4": _gemma4,
    "paligemma": _paligemma,
}
