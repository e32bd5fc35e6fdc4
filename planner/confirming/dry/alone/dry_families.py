"""Processor files and special tokens of the families of models with encoders.

Sizes are those that the families' checkpoints publish: from config.json where it has
them, otherwise the defaults of Transformers' class, where checkpoints leave it at
these, or figures named here with their source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Config = Mapping[str, Any]


class Cannot(ValueError):
    """Files cannot be made from config.json alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a family needs beside config.json."""

    special: Mapping[str, int | None] = field(default_factory=dict)
    """Text of a special token -> its id; None: any."""
    words: tuple[str, ...] = ()
    """Texts that must be one token each, without being special."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Attributes that a processor reads of its tokenizer, as `image_token` -> text."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a file -> its content."""


FAMILIES: dict[str, Callable[[Config], Made]] = {}
"""model_type of config.json -> function."""


def made_for(config: Config) -> Made:
    """Return the files of a model's family; a text-only model needs none.

    Raises:
        Cannot: for a family that is not known, or whose processor is remote code.
    """
    kind = str(config.get("model_type"))
    if kind in FAMILIES:
        return FAMILIES[kind](config)
    if kind in _REMOTE:
        raise Cannot(
            f"{kind}: its processor is Python code of the checkpoint "
            "(trust_remote_code), which cannot be made. Copy the checkpoint's files "
            "except the weights into a folder, or set skip_tokenizer_init with "
            "limit_mm_per_prompt of 0."
        )
    if listening_or_seeing := sorted(_ENCODERS & config.keys()):
        raise Cannot(
            f"{kind}: config.json has {', '.join(listening_or_seeing)}, and the "
            "family's processor files are not known here. Copy the checkpoint's "
            "files except the weights into a folder and name that folder."
        )
    return Made()


_ENCODERS = {"vision_config", "audio_config", "vit_config", "thinker_config", "sound_config"}
_REMOTE = frozenset(
    {"phi3_v", "phi4mm", "molmo", "kimi_vl", "minicpmv", "minicpmo", "ultravox"}
)


def family(*kinds: str) -> Callable[[Callable[[Config], Made]], Callable[[Config], Made]]:
    """Register a family under the names that config.json gives it."""

    def register(make: Callable[[Config], Made]) -> Callable[[Config], Made]:
        FAMILIES.update(dict.fromkeys(kinds, make))
        return make

    return register


def _preprocessor(
    name: str, image: str | None = None, **settings: object
) -> dict[str, dict[str, Any]]:
    """Return preprocessor_config.json."""
    of_images = {} if image is None else {"image_processor_type": image}
    content = {"processor_class": name, **of_images, **settings}
    return {"preprocessor_config.json": content}


def _id(config: Config, *names: str) -> int | None:
    """Return the first of these token ids that config.json has."""
    found = (config.get(f"{name}_{end}") for name in names for end in ("id", "index"))
    return next((number for number in found if isinstance(number, int)), None)


def _settings(part: Config, *names: str, **other_names: str) -> dict[str, Any]:
    """Return entries that a part of config.json has, some under other names."""
    wanted = {name: name for name in names} | other_names
    return {
        name: part[source]
        for name, source in wanted.items()
        if part.get(source) is not None
    }


def _edges(shortest: int, longest: int) -> dict[str, int]:
    return {"shortest_edge": shortest, "longest_edge": longest}


def _square(side: Any) -> dict[str, int]:  # noqa: ANN401 - a number or a pair
    height, width = side if isinstance(side, list) else (side, side)
    return {"height": height, "width": width}


# ---- Qwen ----


def _qwen_tokens(config: Config) -> dict[str, int | None]:
    return {
        "<|endoftext|>": None,
        "<|im_end|>": None,
        "<|vision_start|>": _id(config, "vision_start_token"),
        "<|vision_end|>": _id(config, "vision_end_token"),
        "<|image_pad|>": _id(config, "image_token"),
        "<|video_pad|>": _id(config, "video_token"),
    }


def _patches(vision: Config) -> dict[str, Any]:
    names = ("patch_size", "temporal_patch_size")
    return _settings(vision, *names, merge_size="spatial_merge_size")


@family("qwen2_vl", "qwen2_5_vl")
def _qwen2_vl(config: Config) -> Made:
    """Images of 3,136 to 12,845,056 pixels.

    Source: preprocessor_config.json of Qwen2.5-Omni-7B, with the same pixels as
    Qwen2-VL's and Qwen2.5-VL's.
    """
    is_first = config["model_type"] == "qwen2_vl"
    return Made(
        special=_qwen_tokens(config),
        files=_preprocessor(
            "Qwen2VLProcessor" if is_first else "Qwen2_5_VLProcessor",
            "Qwen2VLImageProcessor",
            **_QWEN2_PIXELS,
            **_patches(config["vision_config"]),
        ),
    )


_QWEN2_PIXELS = {
    "size": _edges(3136, 12_845_056),
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
}


@family("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
def _qwen3_vl(config: Config) -> Made:
    """Images of 65,536 to 16,777,216 pixels, videos of 4,096 to 25,165,824.

    Source: preprocessor_config.json of Qwen3.5-0.8B; video_preprocessor_config.json of
    Qwen3-VL, as in `planner/models/families/towers/items.py`.
    """
    sizes = _patches(config["vision_config"])
    images = _edges(65_536, 16_777_216)
    return Made(
        special=_qwen_tokens(config),
        files={
            **_preprocessor(
                "Qwen3VLProcessor", "Qwen2VLImageProcessor", size=images, **sizes
            ),
            "video_preprocessor_config.json": {
                "processor_class": "Qwen3VLProcessor",
                "video_processor_type": "Qwen3VLVideoProcessor",
                "size": _edges(4096, 25_165_824),
                **sizes,
            },
        },
    )


@family("qwen2_5_omni")
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
        special={text: _id(thinker, ids[name]) for name, text in texts.items()},
        named=texts,
        files=_preprocessor(
            "Qwen2_5OmniProcessor",
            "Qwen2VLImageProcessor",
            **_QWEN2_PIXELS,
            **_patches(thinker["vision_config"]),
            **_whisper_settings(thinker["audio_config"], seconds=300),
        ),
    )


# ---- sounds ----


def _whisper_settings(audio: Config, seconds: int = 30) -> dict[str, Any]:
    """Return Whisper's spectrogram: windows of 10 ms, which Transformers' class has."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": audio["num_mel_bins"],
        "chunk_length": seconds,
        "n_samples": seconds * 16_000,
        "nb_max_frames": seconds * 100,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
    }


@family("qwen2_audio")
def _qwen2_audio(config: Config) -> Made:
    """Sounds of 30 seconds. Source: preprocessor_config.json of Qwen2-Audio-7B."""
    audio = "<|AUDIO|>"
    return Made(
        special={
            audio: _id(config, "audio_token"),
            **dict.fromkeys(("<|audio_bos|>", "<|audio_eos|>")),
        },
        files=_preprocessor(
            "Qwen2AudioProcessor", **_whisper_settings(config["audio_config"])
        ),
    )


@family("whisper")
def _whisper(config: Config) -> Made:
    """Sounds of 30 seconds. Source: preprocessor_config.json of whisper-base."""
    texts = ("transcribe", "translate", "startofprev", "notimestamps", "en")
    return Made(
        special={
            "<|endoftext|>": _id(config, "eos_token"),
            "<|startoftranscript|>": _id(config, "decoder_start_token"),
            **dict.fromkeys(f"<|{text}|>" for text in texts),
        },
        files=_preprocessor("WhisperProcessor", **_whisper_settings(config)),
    )


@family("granite_speech")
def _granite_speech(config: Config) -> Made:
    """Spectrograms of 80 bins, which Transformers' class has.

    Source: Transformers 5.20 GraniteSpeechFeatureExtractor, whose window and rate of
    the projector are config.json's.
    """
    rates = _settings(
        config,
        projector_window_size="window_size",
        projector_downsample_rate="downsample_rate",
    )
    return Made(
        special={"<|audio|>": _id(config, "audio_token")},
        files=_preprocessor(
            "GraniteSpeechProcessor",
            feature_extractor_type="GraniteSpeechFeatureExtractor",
            **rates,
        ),
    )


# ---- LLaVA ----


def _llava_settings(config: Config, processor: str) -> dict[str, Any]:
    return {
        "processor_class": processor,
        "patch_size": config["vision_config"]["patch_size"],
        "vision_feature_select_strategy": config["vision_feature_select_strategy"],
        "num_additional_image_tokens": 1,  # the class token of CLIP's tower
    }


def _image_of_tower(config: Config) -> dict[str, Any]:
    side = config["vision_config"]["image_size"]
    return {"size": {"shortest_edge": side}, "crop_size": _square(side)}


@family("llava", "mistral3")
def _llava(config: Config) -> Made:
    """Images of the tower's size: a square of CLIP's, or Pixtral's longest edge."""
    if config["vision_config"]["model_type"] == "pixtral":
        return _pixtral(config)
    return Made(
        special={"<image>": _id(config, "image_token")},
        files={
            "processor_config.json": _llava_settings(config, "LlavaProcessor"),
            **_preprocessor(
                "LlavaProcessor", "CLIPImageProcessor", **_image_of_tower(config)
            ),
        },
    )


def _pixtral(config: Config) -> Made:
    vision = config["vision_config"]
    patch, merge = vision["patch_size"], config.get("spatial_merge_size", 1)
    return Made(
        special={
            "[IMG]": _id(config, "image_token"),
            **dict.fromkeys(("[IMG_BREAK]", "[IMG_END]")),
        },
        files={
            "processor_config.json": {
                "processor_class": "PixtralProcessor",
                "patch_size": patch,
                "spatial_merge_size": merge,
            },
            **_preprocessor(
                "PixtralProcessor",
                "PixtralImageProcessor",
                patch_size=_square(patch),
                size={"longest_edge": vision["image_size"]},
            ),
        },
    )


@family("llava_next", "llava_next_video")
def _llava_next(config: Config) -> Made:
    """Images in tiles of the tower's size, as many as config.json's pinpoints have."""
    has_videos = config["model_type"] == "llava_next_video"
    name = "LlavaNextVideo" if has_videos else "LlavaNext"
    videos = {
        "video_preprocessor_config.json": {
            "video_processor_type": "LlavaNextVideoVideoProcessor",
            **_image_of_tower(config),
        }
    }
    return Made(
        special={
            "<image>": _id(config, "image_token"),
            **({"<video>": _id(config, "video_token")} if has_videos else {}),
        },
        files={
            "processor_config.json": _llava_settings(config, f"{name}Processor"),
            **_preprocessor(
                f"{name}Processor",
                "LlavaNextImageProcessor",
                **_image_of_tower(config),
                **_settings(config, "image_grid_pinpoints"),
            ),
            **(videos if has_videos else {}),
        },
    )


@family("llava_onevision")
def _llava_onevision(config: Config) -> Made:
    """Images in tiles, and frames, of the tower's size."""
    vision = config["vision_config"]
    side = _square(vision["image_size"])
    name = "LlavaOnevisionProcessor"
    return Made(
        special={
            "<image>": _id(config, "image_token"),
            "<video>": _id(config, "video_token"),
        },
        files={
            "processor_config.json": {
                "processor_class": name,
                "num_image_tokens": (vision["image_size"] // vision["patch_size"]) ** 2,
                **_settings(
                    config, "vision_feature_select_strategy", "vision_aspect_ratio"
                ),
            },
            **_preprocessor(
                name,
                "LlavaOnevisionImageProcessor",
                size=side,
                **_settings(config, "image_grid_pinpoints"),
            ),
            "video_preprocessor_config.json": {
                "video_processor_type": "LlavaOnevisionVideoProcessor",
                "size": side,
            },
        },
    )


# ---- Gemma ----

_NEWLINES = tuple("\n" * count for count in range(1, 5))


@family("gemma3")
def _gemma3(config: Config) -> Made:
    """Images of the tower's size, 256 tokens each."""
    texts = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    return Made(
        special={text: _id(config, name) for name, text in texts.items()},
        words=_NEWLINES,
        named=texts,
        files={
            "processor_config.json": {
                "processor_class": "Gemma3Processor",
                "image_seq_length": config["mm_tokens_per_image"],
            },
            **_preprocessor(
                "Gemma3Processor",
                "Gemma3ImageProcessor",
                size=_square(config["vision_config"]["image_size"]),
            ),
        },
    )


@family("gemma3n")
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
    lengths = _settings(
        config,
        image_seq_length="vision_soft_tokens_per_image",
        audio_seq_length="audio_soft_tokens_per_image",
    )
    return Made(
        special={text: _id(config, name) for name, text in texts.items()},
        words=_NEWLINES,
        named=texts,
        files={
            "processor_config.json": {"processor_class": "Gemma3nProcessor", **lengths},
            **_preprocessor(
                "Gemma3nProcessor",
                "SiglipImageProcessor",
                size=_square(768),
                feature_extractor_type="Gemma3nAudioFeatureExtractor",
            ),
        },
    )


@family("gemma4")
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
    tokens = config.get("vision_soft_tokens_per_image") or 280
    name = "Gemma4Processor"
    return Made(
        special={
            **{text: _id(config, name) for name, text in texts.items()},
            "<|video|>": _id(config, "video_token"),
        },
        named=texts,
        files={
            "processor_config.json": {
                "processor_class": name,
                "image_seq_length": tokens,
            },
            **_preprocessor(
                name,
                "Gemma4ImageProcessor",
                max_soft_tokens=tokens,
                feature_extractor_type="Gemma4AudioFeatureExtractor",
            ),
            "video_preprocessor_config.json": {
                "video_processor_type": "Gemma4VideoProcessor"
            },
        },
    )


@family("paligemma")
def _paligemma(config: Config) -> Made:
    """One image of the tower's size."""
    vision = config["vision_config"]
    side = vision["image_size"]
    places = (f"<loc{number:0>4}>" for number in range(1024))
    segments = (f"<seg{number:0>3}>" for number in range(128))
    return Made(
        special={"<image>": _id(config, "image_token")},
        words=("\n", *places, *segments),
        named={"image_token": "<image>"},
        files=_preprocessor(
            "PaliGemmaProcessor",
            "SiglipImageProcessor",
            size=_square(side),
            image_seq_length=(side // vision["patch_size"]) ** 2,
        ),
    )


# ---- tiles ----


def _rows_and_columns(pattern: str, most: int) -> dict[str, None]:
    numbers = range(1, most + 1)
    return {pattern.format(row, column): None for row in numbers for column in numbers}


@family("idefics3", "smolvlm")
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
    videos = {"video_processor_type": "SmolVLMVideoProcessor", **sizes}
    return Made(
        special={
            "<image>": _id(config, "image_token"),
            "<fake_token_around_image>": None,
            "<end_of_utterance>": None,
            "<global-img>": None,
            **_rows_and_columns("<row_{}_col_{}>", 6),
        },
        files={
            "processor_config.json": {
                "processor_class": f"{name}Processor",
                "image_seq_len": (side // patch // config["scale_factor"]) ** 2,
            },
            **_preprocessor(f"{name}Processor", f"{name}ImageProcessor", **sizes),
            **({"video_preprocessor_config.json": videos} if name == "SmolVLM" else {}),
        },
    )


@family("llama4")
def _llama4(config: Config) -> Made:
    """Images in at most 16 tiles of the tower's size.

    Source: Transformers 5.20 Llama4ImageProcessor (max_patches).
    """
    vision = config["vision_config"]
    texts = ("image", "image_start", "image_end", "tile_x_separator", "tile_y_separator")
    return Made(
        special={
            "<|patch|>": _id(config, "image_token"),
            **dict.fromkeys(f"<|{text}|>" for text in texts),
        },
        files={
            "processor_config.json": {
                "processor_class": "Llama4Processor",
                **_settings(vision, "patch_size", "pixel_shuffle_ratio"),
            },
            **_preprocessor(
                "Llama4Processor",
                "Llama4ImageProcessor",
                size=_square(vision["image_size"]),
                max_patches=16,
            ),
        },
    )


@family("internvl")
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
    side = _square(config["vision_config"]["image_size"])
    return Made(
        special={
            text: _id(config, "image_token") if "CONTEXT" in text else None
            for text in texts.values()
        },
        named=texts,
        files={
            "processor_config.json": {
                "processor_class": "InternVLProcessor",
                **_settings(config, "image_seq_length"),
            },
            **_preprocessor(
                "InternVLProcessor",
                "GotOcr2ImageProcessor",
                size=side,
                crop_to_patches=True,
            ),
            "video_preprocessor_config.json": {
                "video_processor_type": "InternVLVideoProcessor",
                "size": side,
            },
        },
    )


@family("internvl_chat", "NVLM_D")
def _internvl_chat(config: Config) -> Made:
    """Only tokens: vLLM takes the sizes from config.json."""
    texts = ("<img>", "</img>", "<IMG_CONTEXT>", "<image>", "<video>")
    if config["model_type"] == "NVLM_D":
        tiles = (f"<tile_{number}>" for number in range(1, 13))
        texts = ("<Image>", "</Image>", "<|vision_pad|>", *tiles)
    videos = ("<|video_pad|>", "<|reserved_200000|>")
    return Made(special=dict.fromkeys((*texts, *videos)))


@family("step3_vl")
def _step3_vl(config: Config) -> Made:
    """Only tokens: vLLM has the sizes."""
    texts = ("im_start", "im_end", "patch_start", "patch_end", "patch_newline")
    return Made(
        special={
            "<im_patch>": _id(config, "image_token"),
            **dict.fromkeys(f"<{text}>" for text in texts),
        }
    )


@family("deepseek_vl_v2")
def _deepseek_vl2(config: Config) -> Made:
    """Images in tiles: config.json's resolutions; DeepSeek-OCR's sizes are vLLM's.

    Source: vLLM 0.33.0 `transformers_utils/processors/deepseek_vl2.py`, `deepseek_ocr.py`.
    """
    is_ocr = "OCR" in str(config.get("architectures"))
    texts = ("ref", "/ref", "det", "/det", "grounding", "User", "Assistant")
    sizes = {
        **_settings(config, "candidate_resolutions"),
        **_settings(config["vision_config"], "patch_size"),
        "downsample_ratio": config["projector_config"].get("downsample_ratio", 2),
    }
    return Made(
        special=dict.fromkeys(("<image>", *(f"<|{text}|>" for text in texts))),
        files={
            "processor_config.json": {
                "processor_class": f"Deepseek{'OCR' if is_ocr else 'VLV2'}Processor",
                **({} if is_ocr else sizes),
            }
        },
    )


@family("lfm2_vl")
def _lfm2_vl(config: Config) -> Made:
    """Images in tiles by config.json, as Transformers' class has them otherwise."""
    names = (
        *("downsample_factor", "do_image_splitting", "min_tiles", "max_tiles"),
        *("use_thumbnail", "min_image_tokens", "max_image_tokens", "tile_size"),
        *("encoder_patch_size", "max_pixels_tolerance"),
    )
    return Made(
        special={
            "<image>": _id(config, "image_token"),
            **dict.fromkeys(("<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")),
            **_rows_and_columns("<|img_row_{}_col_{}|>", 10),
        },
        files=_preprocessor(
            "Lfm2VlProcessor", "Lfm2VlImageProcessor", **_settings(config, *names)
        ),
    )


@family("cohere2_vision")
def _cohere2_vision(config: Config) -> Made:
    """Images in at most 12 tiles. Source: Transformers 5.20 Cohere2VisionImageProcessor."""
    texts = {
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "image_token": "<|IMG_PATCH|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }
    vision = config["vision_config"]
    return Made(
        special={text: _id(config, name) for name, text in texts.items()},
        named=texts,
        files=_preprocessor(
            "Cohere2VisionProcessor",
            "Cohere2VisionImageProcessor",
            size=_square(vision["image_size"]),
            **_settings(vision, "patch_size"),
        ),
    )


# ---- GLM ----


@family("glm4v", "glm4v_moe")
def _glm4v(config: Config) -> Made:
    """Images of 12,544 to 9,633,792 pixels, videos of up to 47,040,000.

    Source: preprocessor_config.json of GLM-4.1V-9B-Thinking; Transformers 5.20
    Glm4vVideoProcessor.
    """
    texts = ("begin_of_image", "end_of_image", "begin_of_video", "end_of_video")
    starts = ("image_start", "image_end", "video_start", "video_end")
    sizes = _patches(config["vision_config"])
    return Made(
        special={
            "<|image|>": _id(config, "image_token"),
            "<|video|>": _id(config, "video_token"),
            **{
                f"<|{text}|>": _id(config, f"{name}_token")
                for text, name in zip(texts, starts, strict=True)
            },
        },
        files={
            **_preprocessor(
                "Glm4vProcessor",
                "Glm4vImageProcessor",
                size=_edges(12_544, 9_633_792),
                **sizes,
            ),
            "video_preprocessor_config.json": {
                "processor_class": "Glm4vProcessor",
                "video_processor_type": "Glm4vVideoProcessor",
                "size": _edges(12_544, 47_040_000),
                **sizes,
            },
        },
    )
