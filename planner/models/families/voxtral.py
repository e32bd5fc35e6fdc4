"""Voxtral: Whisper's encoder on a Mistral, published in Mistral's own format."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import joined, nested
from planner.models.families.towers import blocks
from planner.models.families.towers.facts import Items, if_known
from planner.models.families.whisper import encoder_modules
from planner.models.layers import Part
from planner.models.tensors import Tensor

_MOST_SOUNDS = 5
_SAMPLES = 1280
"""Of a token at 16 kHz: 12.5 tokens a second."""


def read_voxtral(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Voxtral as params.json describes it.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralForConditionalGeneration,
    VoxtralEncoderModel, AudioLanguageAdapter.
    """
    audio, text = nested(facts, "audio_config"), nested(facts, "text_config")
    factor = audio.optional_integer("downsample_factor")
    if factor is None:
        raise audio.unsupported(
            "downsample_factor",
            "vLLM reads it from params.json, which has to be next to config.json.",
        )
    if text.value("quantization", "moe", "qk_nope_head_dim"):
        raise text.unsupported("quantization", "a dense model without one is.")
    model = llama.read(
        text,
        Label(name=label.name, architecture="MistralForCausalLM"),
        style=llama.LLAMA,
    )
    size, name = audio.integer("d_model") * factor, "whisper_encoder"
    mel = (1 + audio.integer("window_size") // 2, audio.integer("num_mel_bins"))
    tower = Tower(
        modalities=("audio",),
        modules=(
            *encoder_modules(
                audio, f"{name}.whisper_encoder", positions_dtype="float32"
            ),
            OneStage(name=name),
            blocks.replicated(f"{name}.mel_filters", mel, dtype="float32"),
            blocks.replicated(
                "audio_language_adapter",
                (model.hidden_size, size),
                (model.hidden_size, model.hidden_size),
            ),
        ),
        items=_sounds(factor),
    )
    return joined(facts, label, model, tower, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStage:
    """What cannot be planned in several pipeline stages.

    vLLM cuts the encoder's layers over the stages as it does the decoder's, though it
    builds them on the first only.

    Source: vLLM 0.33.0 `models/whisper.py` WhisperEncoder (make_layers).
    """

    name: str
    part: Part = Part.TOWERS

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return nothing.

        Raises:
            UnknownArchitecture: for several stages.
        """
        if layout.pipeline_parallel_size > 1:
            raise UnknownArchitecture(
                f"pipeline_parallel_size={layout.pipeline_parallel_size}: which layers "
                "of Voxtral's encoder vLLM keeps then is not modelled. Use "
                "tensor_parallel_size, or limit_mm_per_prompt={'audio': 0}."
            )
        return ()


@if_known
def _sounds(factor: int) -> Items:
    """Return a sound as long as a request may be, five of them in a prompt.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralProcessingInfo get_max_audio_tokens.
    """
    return (
        MediaItem(
            modality="audio",
            tokens=1,
            patches=factor,
            inputs=_SAMPLES,
            most_parts=1 << 30,
            per_prompt=_MOST_SOUNDS,
        ),
    )


READERS = {"VoxtralForConditionalGeneration": read_voxtral}
