"""Qwen's models that hear, and see where their thinker does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    MODEL_RENAMES,
    Composite,
    Text,
    nested,
    sub_config,
)
from planner.models.families.conversion import without_head
from planner.models.families.facts import Facts
from planner.models.families.qwen_vl import read_qwen3_5
from planner.models.families.towers import blocks, sounds
from planner.models.families.towers.audio import (
    convolutions,
    whisper_of_transformers,
    whisper_sizes,
    whole_layers,
)
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.qwen_vl import (
    qwen2_5_vl_tower,
    qwen3_omni_vision_tower,
)
from planner.models.layers import Module, Part, Replicated
from planner.models.passes import Moment, TowerPass


def _qwen2_audio_tower(outer: Facts, text_size: int) -> Tower:
    """Return Qwen2-Audio's encoder and projector, Transformers' own modules.

    Every rank holds them in full, and nothing in them is quantised.

    Source: vLLM 0.33.0 `models/qwen2_audio.py`; Transformers' Qwen2AudioEncoder.
    """
    facts = sub_config(outer, "audio_config", "qwen2_audio_encoder")
    projector, size = "multi_modal_projector.linear", facts.integer("d_model")
    return Tower(
        AUDIO,
        (
            *whisper_of_transformers(facts, "audio_tower"),
            blocks.linear(projector, size, text_size, bias=True),
        ),
        items=sounds.qwen2_audio_items(facts),
        forward=_transformers_pass(facts, beside=4),
    )


def qwen2_5_omni_audio_tower(facts: Facts) -> Tower:
    """Return Qwen2.5-Omni's encoder, Transformers' own modules as above.

    Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`; Transformers'
    Qwen2_5OmniAudioEncoder.
    """
    name, size = "audio_tower", facts.integer("d_model")
    output_size = facts.integer("output_dim")
    return Tower(
        AUDIO,
        (
            *convolutions(facts, name),
            blocks.replicated(f"{name}.audio_bos_eos_token", (2, output_size)),
            _sinusoids(facts, name),
            *whole_layers(facts, name),
            blocks.norms(f"{name}.ln_post", size, bias=True),
            blocks.linear(f"{name}.proj", size, output_size, bias=True),
        ),
        items=sounds.qwen2_audio_items(facts),
        forward=_transformers_pass(facts, beside=3, input_copies=2),
    )


def _transformers_pass(
    facts: Facts, *, beside: int, input_copies: int = 1
) -> TowerPass:
    """Return the widest point of Whisper's layers where every rank holds them whole.

    Source: Transformers' Qwen2AudioEncoderLayer, Qwen2_5OmniAudioEncoderLayer (whose
    encoder pads and copies the spectrogram: chunk_and_pad_features).
    """
    size, mlp_size = facts.integers("d_model", "encoder_ffn_dim")
    whole = Moment("MLP", whole=beside * size + 2 * mlp_size)
    return TowerPass(moments=(whole,), input_copies=input_copies)


def qwen3_omni_audio_tower(facts: Facts) -> Tower:
    """Return Qwen3-Omni's encoder, cut over the ranks where they divide its heads."""
    return Tower(
        AUDIO,
        tuple(_qwen3_omni(facts, "audio_tower")),
        items=sounds.qwen3_asr_items(facts),
        whole_unless_heads_divide=facts.integer("encoder_attention_heads"),
    )


def _qwen3_omni(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioEncoder.

    It passes no quantisation on.
    """
    size, channels = facts.integers("d_model", "downsample_hidden_size")
    mel_bins = facts.integer("num_mel_bins")
    for _halving in range(3):
        mel_bins = (mel_bins + 1) // 2
    yield _sinusoids(facts, name)
    for number, given in enumerate((1, channels, channels), start=1):
        conv = f"{name}.conv2d{number}"
        yield blocks.convolution(conv, channels, given, 3, 3, bias=True)
    yield blocks.replicated(f"{name}.conv_out", (size, channels * mel_bins))
    parts = blocks.Parts(mlp=("fc1", "fc2"), norms_last=True)
    layers = blocks.layers(f"{name}.layers", whisper_sizes(facts), parts)
    yield from blocks.unquantised(*layers)
    yield blocks.norms(f"{name}.ln_post", size, bias=True)
    yield blocks.linear(f"{name}.proj1", size, size, bias=True)
    yield blocks.linear(f"{name}.proj2", size, facts.integer("output_dim"), bias=True)


def _sinusoids(facts: Facts, name: str) -> Module:
    shape = (facts.integer("max_source_positions"), facts.integer("d_model"))
    return blocks.replicated(f"{name}.positional_embedding", shape, dtype="float32")


# The thinker of Qwen2.5-Omni; vLLM leaves out talker and vocoder.
THINKER_RENAMES = (
    ("thinker.lm_head.", "language_model.lm_head."),
    ("thinker.model.", "language_model.model."),
    ("thinker.", ""),
)


def read_thinker(
    facts: Facts, label: Label, *, model_type: str, architecture: str
) -> ModelArchitecture:
    """Return the language model, with the outer config's fields of the whole."""
    whole = ("tie_word_embeddings", "dtype", "torch_dtype")
    given = nested(facts, "thinker_config").config
    outer = {key: facts.config[key] for key in whole if key in facts.config}
    inner = {key: value for key, value in given.items() if key not in whole}
    thinker = Facts({**inner, **outer}, facts.model_type)
    return Text(model_type, architecture)(thinker, label)


def _qwen2_5_omni_towers(facts: Facts, _text_size: int) -> tuple[Tower, ...]:
    """Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`."""
    thinker = nested(facts, "thinker_config")
    vision = sub_config(thinker, "vision_config", "qwen2_5_omni_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen2_5_omni_audio_encoder")
    return qwen2_5_omni_audio_tower(audio), qwen2_5_vl_tower(vision, is_omni=True)


def _qwen3_omni_towers(facts: Facts, text_size: int) -> tuple[Tower, ...]:
    """Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py`."""
    thinker = nested(facts, "thinker_config")
    vision = sub_config(thinker, "vision_config", "qwen3_omni_moe_vision_encoder")
    audio = sub_config(thinker, "audio_config", "qwen3_omni_moe_audio_encoder")
    return (
        qwen3_omni_audio_tower(audio),
        qwen3_omni_vision_tower(vision, deepstack_columns=text_size),
    )


read_qwen3_omni = Composite(
    _qwen3_omni_towers,
    text=partial(
        read_thinker,
        model_type="qwen3_omni_moe_text",
        architecture="Qwen3MoeForCausalLM",
    ),
    renames=(*THINKER_RENAMES, *reversed(MODEL_RENAMES)),
)


# Qwen3-ASR: Qwen3-Omni's ears on a dense Qwen3; its forced aligner.
def _qwen3_asr_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen3_asr.py`; `configs/qwen3_asr.py`."""
    thinker = nested(facts, "thinker_config")
    audio = sub_config(thinker, "audio_config", "qwen3_asr_audio_encoder")
    return qwen3_omni_audio_tower(audio)


_read = Composite(
    _qwen3_asr_tower,
    text=partial(
        read_thinker, model_type="qwen3_asr_text", architecture="Qwen3ForCausalLM"
    ),
    renames=(
        *THINKER_RENAMES,
        ("model.audio_tower.", "audio_tower."),
        ("model.language_model.", "language_model.model."),
    ),
)


def _read_forced_aligner(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR with a classifier in its head's place.

    Source: vLLM 0.33.0 `models/qwen3_asr_forced_aligner.py`.
    """
    model = _read(facts, label)
    labels = Facts(facts.mapping("thinker_config"), facts.model_type)
    classifier = Replicated(
        "classifier",
        Part.CLASSIFIER,
        ((labels.integer("classify_num"), model.hidden_size),),
    )
    return replace(
        model,
        every_stage=(*model.every_stage, classifier),
        last_stage=without_head(model.last_stage),
        is_pooling=True,
    )


# Clef: a head that answers all questions of a prompt together.
_QUESTIONS = 3


def read_clef(facts: Facts, label: Label, *, base: Reader) -> ModelArchitecture:
    """Return a model whose head answers all questions of a prompt together.

    Source: vLLM 0.33.0 `models/clef_flash.py`, `clef_omni.py` and
    `clef_joint_schema.py` JointSchemaHead.
    """
    model = base(facts, label)
    head = Facts(facts.mapping("joint_head_config"), facts.model_type)
    modules = tuple(_joint_head(head))
    return replace(model, every_stage=(*model.every_stage, *modules), is_pooling=True)


def _joint_head(facts: Facts) -> Iterator[Module]:
    hidden, width = facts.integer("hidden_size"), facts.integer("width")
    wide = facts.integer("feedforward")
    norm = ((width,),) * 2
    attention = ((3 * width, width), (3 * width,), (width, width), (width,))
    mlp = ((wide, width), (wide,), (width, wide), (width,))
    head = partial(Replicated, part=Part.CLASSIFIER)
    yield head(
        name="pooler.head",
        shapes=(
            *((hidden,),) * 2,
            *((width, hidden),) * 6,
            (_QUESTIONS, width),
            *norm * 3,
            *((width, 4 * width), (width,), (1, width), (1,), (), (), ()),
        ),
    )
    for index in range(facts.integer("routing_layers")):
        name = f"pooler.head.evidence_layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention, *mlp))
    for index in range(facts.integer("layers")):
        name = f"pooler.head.layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention * 2, *mlp))


READERS: dict[str, Reader] = {
    "Qwen2AudioForConditionalGeneration": Composite(
        _qwen2_audio_tower, text=Text("qwen2", "Qwen2ForCausalLM")
    ),
    **dict.fromkeys(
        ("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
        Composite(
            _qwen2_5_omni_towers,
            text=partial(
                read_thinker,
                model_type="qwen2_5_omni_text",
                architecture="Qwen2ForCausalLM",
            ),
            renames=THINKER_RENAMES,
        ),
    ),
    "Qwen3OmniMoeForConditionalGeneration": read_qwen3_omni,
    "Qwen3ASRForConditionalGeneration": _read,
    "Qwen3ASRRealtimeGeneration": _read,
    "Qwen3ASRForcedAlignerForTokenClassification": _read_forced_aligner,
    "ClefFlashForJointSchema": partial(read_clef, base=read_qwen3_5),
    "ClefOmniForJointSchema": partial(read_clef, base=read_qwen3_omni),
}
