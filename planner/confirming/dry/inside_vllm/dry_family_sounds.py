"""Families that hear: sounds of 30 seconds as spectrograms."""

from __future__ import annotations

import base64
from typing import Any

from dry_family import Config, Made, preprocessor, settings, token_id


def whisper_settings(audio: Config, seconds: int = 30) -> dict[str, Any]:
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


def _qwen2_audio(config: Config) -> Made:
    """Sounds of 30 seconds. Source: preprocessor_config.json of Qwen2-Audio-7B."""
    audio = "<|AUDIO|>"
    return Made(
        special={
            audio: token_id(config, "audio_token"),
            **dict.fromkeys(("<|audio_bos|>", "<|audio_eos|>")),
        },
        files=preprocessor(
            "Qwen2AudioProcessor", **whisper_settings(config["audio_config"])
        ),
    )


def _whisper(config: Config) -> Made:
    """Sounds of 30 seconds. Source: preprocessor_config.json of whisper-base."""
    texts = ("transcribe", "translate", "startofprev", "notimestamps", "en")
    return Made(
        special={
            "<|endoftext|>": token_id(config, "eos_token"),
            "<|startoftranscript|>": token_id(config, "decoder_start_token"),
            **dict.fromkeys(f"<|{text}|>" for text in texts),
        },
        files=preprocessor("WhisperProcessor", **whisper_settings(config)),
    )


def _granite_speech(config: Config) -> Made:
    """Spectrograms of 80 bins, which Transformers' class has.

    Source: Transformers 5.20 GraniteSpeechFeatureExtractor, whose window and rate of
    the projector are config.json's.
    """
    rates = settings(
        config,
        projector_window_size="window_size",
        projector_downsample_rate="downsample_rate",
    )
    return Made(
        special={"<|audio|>": token_id(config, "audio_token")},
        files=preprocessor(
            "GraniteSpeechProcessor",
            feature_extractor_type="GraniteSpeechFeatureExtractor",
            **rates,
        ),
    )


# Source: mistral_common 1.13 `tokens/tokenizers/tekken.py` DEPRECATED_SPECIAL_TOKENS;
# Transformers 5.20 VoxtralProcessor (audio_token_id).
_TEKKEN = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]"),
    *("[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]"),
    *("[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]"),
    *("[THINK]", "[/THINK]", "[AUDIO]", "[BEGIN_AUDIO]", "[TRANSCRIBE]"),
)
_TEKKEN_SPECIAL = 1000
"""Ids of special tokens, which come first."""
_BYTES = 256


def _voxtral(config: Config) -> Made:
    """Mistral's own tokenizer, and Whisper's spectrogram in frames of its conv layers.

    Source: Transformers 5.20 VoxtralProcessor (WhisperFeatureExtractor), VoxtralConfig
    (a token holds what `intermediate_size` has of `hidden_size`); vLLM's configuration
    made of params.json says it as `downsample_factor`.
    """
    whisper = whisper_settings(config["audio_config"])
    audio = config["audio_config"]
    steps = 2 * (
        audio.get("downsample_factor")
        or audio["intermediate_size"] // audio["hidden_size"]
    )
    spectrogram = {
        "num_mel_bins": whisper["feature_size"],
        "hop_length": whisper["hop_length"],
        "window_size": whisper["n_fft"],
    }
    sound = {
        "sampling_rate": whisper["sampling_rate"],
        "frame_rate": whisper["sampling_rate"] / whisper["hop_length"] / steps,
        "chunk_length_s": float(whisper["chunk_length"]),
        "audio_encoding_config": spectrogram,
    }
    return Made(files={"tekken.json": _tekken(config, sound)})


def _tekken(config: Config, audio: Config) -> dict[str, Any]:
    size = config["text_config"]["vocab_size"] - _TEKKEN_SPECIAL
    # Longer tokens are never made: none of their parts is a token.
    texts = (bytes([n]) if n < _BYTES else b"\xff" + n.to_bytes(3) for n in range(size))
    return {
        "config": {
            "pattern": r"[^\s]+|\s+",
            "num_vocab_tokens": size,
            "default_vocab_size": size + _TEKKEN_SPECIAL,
            "default_num_special_tokens": _TEKKEN_SPECIAL,
            "version": "v7",
        },
        "vocab": [
            {
                "rank": n,
                "token_bytes": base64.b64encode(text).decode(),
                "token_str": None,
            }
            for n, text in enumerate(texts)
        ],
        "special_tokens": [
            {"rank": n, "token_str": text, "is_control": True}
            for n, text in enumerate(_TEKKEN)
        ],
        "audio": audio,
    }


FAMILIES = {
    "granite_speech": _granite_speech,
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "whisper": _whisper,
}
