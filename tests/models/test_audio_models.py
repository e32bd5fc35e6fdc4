"""Models that listen: Whisper, Qwen2-Audio and the thinkers of Qwen's omni models."""

from typing import Any

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.settings import EngineSettings
from planner.memory.media.towers import tower_layout
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CrossAttentionLayer
from planner.planning.batches import chunked_prefill
from planner.planning.defaults import prefix_caching
from tests.configs import architecture

WHISPER: dict[str, Any] = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "d_model": 8,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_mel_bins": 5,
    "max_source_positions": 10,
    "max_target_positions": 7,
    "vocab_size": 100,
}
THINKER: dict[str, Any] = {
    "text_config": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 64,
        "tie_word_embeddings": False,
    },
    "audio_config": {
        "d_model": 8,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "encoder_layers": 1,
        "num_mel_bins": 5,
        "max_source_positions": 10,
        "output_dim": 16,
        "downsample_hidden_size": 3,
    },
}
# Norms 2 x 16; query, key, value and out 4 x 64; MLP 128 + 16 and 128 + 8.
LAYER = 32 + 256 + 280
CONVOLUTIONS = 8 * 5 * 3 + 8 + 8 * 8 * 3 + 8


def elements(tower: Tower, ranks: int = 1) -> int:
    """Elements of a tower on one rank."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(t.elements for m in tower.modules for t in m.tensors(layout))


def test_whispers_encoder_is_a_tower_with_biases_everywhere() -> None:
    """A layer of 568 + 4 x 8 of biases, convolutions 328, norm 16, 10 positions."""
    (tower,) = architecture(WHISPER).towers
    assert LAYER + 32 + CONVOLUTIONS + 16 + 10 * 8 == elements(tower)


def test_whispers_layers_keep_two_caches() -> None:
    """One of the text, one of the sounds."""
    (kind,) = architecture(WHISPER).layer_kinds
    assert [AttentionLayer, CrossAttentionLayer] == [type(c) for c in kind.caches]


def test_whispers_vocabulary_is_held_in_full_and_once() -> None:
    """100 words of 8, not padded to 128, on each of two ranks; the head is tied."""
    model = architecture(WHISPER)
    ranks = ParallelLayout(tensor_parallel_size=2)
    words = model.first_stage[0]
    assert [800] == [t.elements for t in words.tensors(ranks)]
    assert ["model.decoder.layer_norm"] == [m.name for m in model.last_stage]


def test_an_encoder_decoder_model_neither_splits_nor_remembers_prompts() -> None:
    """Chunked prefill and prefix caching are off unless asked for."""
    model, silent = architecture(WHISPER), EngineSettings()
    assert not chunked_prefill(silent, model)
    assert not prefix_caching(silent, model)


def test_whisper_refuses_steps_smaller_than_its_length() -> None:
    """7 tokens of text do not fit into 6, even with chunked prefill asked for."""
    plan = planner.plan(
        architecture(WHISPER),
        gpu="H100",
        max_num_batched_tokens=6,
        enable_chunked_prefill=True,
    )
    assert plan.error is not None
    assert plan.error.message.startswith(
        "max_num_batched_tokens (6) is smaller than max_model_len (7)."
    )


def test_whisper_refuses_pipeline_stages() -> None:
    """Its class lacks SupportsPP."""
    plan = planner.plan(architecture(WHISPER), gpu="H100", pipeline_parallel_size=2)
    assert plan.error is not None
    assert plan.error.message.startswith("Pipeline parallelism is not supported")


def test_a_request_to_whisper_takes_the_encoders_blocks() -> None:
    """448 tokens in blocks of 16 are 28; 8,192 tokens of sound are 512 more."""
    model = architecture(WHISPER, max_target_positions=448, d_model=128)
    plan = planner.plan(model, gpu="H100")
    assert 28 + 512 == plan.blocks_per_request


def omni(architecture_name: str, model_type: str, **parts: Any) -> ModelArchitecture:
    """A small omni model."""
    thinker = {**THINKER, **parts}
    return architecture(
        {
            "architectures": [architecture_name],
            "model_type": model_type,
            "thinker_config": thinker,
        }
    )


def test_qwen2_audio_holds_its_tower_in_full_on_every_rank() -> None:
    """Layer with three biases of 8, positions, norm, and a projector to 16."""
    model = architecture(
        {
            "architectures": ["Qwen2AudioForConditionalGeneration"],
            "model_type": "qwen2_audio",
            **THINKER,
        }
    )
    (tower,) = model.towers
    wanted = CONVOLUTIONS + 80 + LAYER + 24 + 16 + (8 * 16 + 16)
    assert wanted == elements(tower) == elements(tower, ranks=2)


def test_qwen2_5_omni_has_a_tower_for_sounds_and_one_for_images() -> None:
    """As above, with two marks of 16 for begin and end."""
    model = omni("Qwen2_5OmniForConditionalGeneration", "qwen2_5_omni")
    audio, vision = model.towers
    assert CONVOLUTIONS + 32 + 80 + LAYER + 24 + 16 + 144 == elements(audio)
    assert ("image", "video") == vision.modalities
    assert not vision.supports_data_parallel


def test_qwen3_omni_holds_its_audio_tower_in_full_where_heads_do_not_divide() -> None:
    """2 heads on 4 ranks."""
    model = omni(
        "Qwen3OmniMoeForConditionalGeneration",
        "qwen3_omni_moe",
        vision_config={"image_size": 32, "depth": 1},
    )
    audio = model.towers[0]
    silent = EngineSettings()
    four = tower_layout(audio, ParallelLayout(tensor_parallel_size=4), silent)
    two = tower_layout(audio, ParallelLayout(tensor_parallel_size=2), silent)
    assert (1, 2) == (four.tensor_parallel_size, two.tensor_parallel_size)
    # Three convolutions of 3 channels, 5 -> 3 -> 2 -> 1 bins, and three projections.
    outer = (27 + 3) + 2 * (81 + 3) + 8 * 3 + 80 + 16 + 72 + 144
    assert outer + LAYER + 32 == elements(audio)


def test_qwen3_asr_has_the_omni_models_ears_and_a_dense_language_model() -> None:
    """The same tower; embeddings are tied where the inner config says so."""
    text = {**THINKER["text_config"], "tie_word_embeddings": True}
    text["max_position_embeddings"] = 64
    model = omni("Qwen3ASRForConditionalGeneration", "qwen3_asr", text_config=text)
    (audio,) = model.towers
    outer = (27 + 3) + 2 * (81 + 3) + 8 * 3 + 80 + 16 + 72 + 144
    assert outer + LAYER + 32 == elements(audio)
    assert model.tied_embeddings
    assert 0 == model.num_experts
