"""MiniCPM-V: SigLIP's tower of any image, a resampler, a language model; MiniCPM-o."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    named,
    read_language_model,
    sub_config,
    with_towers,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import whisper_of_transformers
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.clip import idefics_vision
from planner.models.families.towers.tiles import minicpm_v_items
from planner.models.layers import Module, Part, ReplicatedLinear

_LANGUAGE_MODELS: dict[tuple[int, ...], tuple[str, str]] = {
    (2, 5): ("llama", "LlamaForCausalLM"),
    (2, 6): ("qwen2", "Qwen2ForCausalLM"),
    (4, 0): ("llama", "LlamaForCausalLM"),
    (4, 5): ("qwen3", "Qwen3ForCausalLM"),
}

_WITH_VIDEOS = ((2, 6), (4, 0), (4, 5))

_HEARING = ((2, 6), (4, 5))

_VISION = {
    "hidden_size": 1152,
    "image_size": 980,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
"""Where the config has none: as MiniCPM's own configuration class fills it in."""


def read_minicpm_v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniCPM-V 2.5, 2.6, 4.0 or 4.5.

    Source: vLLM 0.33.0 `models/minicpmv.py` MiniCPMVBaseModel, MiniCPMV.
    """
    version = _version(facts)
    known = _LANGUAGE_MODELS.get(version)
    if known is None:
        raise facts.unsupported("version", "2.5, 2.6, 4.0 and 4.5 are.")
    model_type, architecture = known
    if facts.model_type == "minicpmo":
        model_type = ""  # of no class that would drop a window which the file names
    text = named(facts, architecture, model_type)
    model = read_language_model(text, label)
    both = ("image", "video")
    tower = Tower(
        modalities=both if version in _WITH_VIDEOS else ("image",),
        modules=(*_vision(facts), *_resampler(facts, model.hidden_size)),
        items=minicpm_v_items(facts, has_videos=version in _WITH_VIDEOS),
        supports_data_parallel=True,
    )
    whole = with_towers(
        model, (tower,), layer_prefix="llm.model.layers", head_prefix="llm."
    )
    return known_as(whole, facts, label)


def _version(facts: Facts) -> tuple[int, ...]:
    """Return the release; old configs have none, and are those of 2.0 or 2.5."""
    given = facts.value("version")
    if given is None:
        is_first = facts.integer("hidden_size") == 2304  # noqa: PLR2004
        return (2, 0) if is_first else (2, 5)
    return tuple(int(part) for part in str(given).split("."))


def _vision(facts: Facts) -> tuple[Module, ...]:
    given = facts.mapping("vision_config") or _VISION
    vision = sub_config(
        Facts({**facts.config, "vision_config": {**given}}, facts.model_type),
        "vision_config",
        "siglip_vision_model",
    )
    if facts.flag("drop_vision_last_layer", default=True):
        layers = vision.integer("num_hidden_layers") - 1
        vision = Facts(
            {**vision.config, "num_hidden_layers": layers}, vision.model_type
        )
    return idefics_vision(vision, "vpm")


def _resampler(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return a layer of cross attention from learned queries to patches.

    The positions, which no checkpoint holds, stay on the CPU.

    Source: vLLM 0.33.0 `layers/resampler.py` BaseResampler; `models/minicpmv.py`
    Resampler2_5, Resampler4_5 (_set_2d_pos_cache).
    """
    given = facts.mapping("vision_config") or _VISION
    width = int(given.get("hidden_size", _VISION["hidden_size"]))
    queries = facts.integer("query_num", default=64)
    name = "resampler"
    modules: list[Module] = [
        blocks.replicated(f"{name}.query", (queries, size)),
        blocks.replicated(
            f"{name}.attn",
            (3 * size, size),
            (3 * size,),
            (size, size),
            (size,),
        ),
        blocks.norms(f"{name}.norms", size, count=3, bias=True),
        blocks.replicated(f"{name}.proj", (size, size)),
    ]
    if width != size:
        modules.append(
            ReplicatedLinear(
                name=f"{name}.kv_proj",
                part=Part.TOWERS,
                input_size=width,
                output_sizes=(size,),
            )
        )
    return tuple(modules)


def read_minicpm_o(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniCPM-o 2.6 or 4.5: MiniCPM-V of that release, which hears.

    No budget counts its sounds, as vLLM's class does not say how long they are.

    Source: vLLM 0.33.0 `models/minicpmo.py` MiniCPMO, MiniCPMOBaseModel;
    `models/minicpmv.py` MiniCPMVProcessingInfo get_mm_max_tokens_per_item.
    """
    version = (2, 6) if facts.value("version") is None else _version(facts)
    if version not in _HEARING:
        raise facts.unsupported("version", "2.6 and 4.5 are.")
    whole = Facts(
        {**facts.config, "version": facts.value("version") or 2.6}, "minicpmo"
    )
    model = read_minicpm_v(whole, label)
    audio = sub_config(facts, "audio_config", "whisper")
    width, name = audio.integer("encoder_ffn_dim") // 4, "audio_projection_layer"
    size = model.hidden_size
    tower = Tower(
        modalities=AUDIO,
        modules=(
            *whisper_of_transformers(audio, "apm"),
            blocks.replicated(name, (size, width), (size,), (size, size), (size,)),
        ),
    )
    return replace(model, towers=(*model.towers, tower))


READERS = {
    "MiniCPMV": read_minicpm_v,
    "MiniCPMO": read_minicpm_o,
}
