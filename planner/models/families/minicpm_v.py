"""MiniCPM-V: SigLIP's tower of any image, a resampler, and a language model.

Its releases differ only in the language model.
"""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    known_as,
    read_language_model,
    sub_config,
    with_towers,
)
from planner.models.families.towers import blocks
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
_VISION = {
    "hidden_size": 1152,
    "image_size": 980,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
"""Where the config has none: as MiniCPM's own configuration class fills it in."""
_POSITIONS = 70
_FRAMES = 36_000
"""Moments for which MiniCPM-V 4.5 has positions."""


def read_minicpm_v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniCPM-V 2.5, 2.6, 4.0 or 4.5.

    Source: vLLM 0.33.0 `models/minicpmv.py` MiniCPMVBaseModel, MiniCPMV.
    """
    version = _version(facts)
    known = _LANGUAGE_MODELS.get(version)
    if known is None:
        raise facts.unsupported("version", "2.5, 2.6, 4.0 and 4.5 are.")
    model_type, architecture = known
    text = Facts({**facts.config, "architectures": [architecture]}, model_type)
    model = read_language_model(text, label.name)
    both = ("image", "video")
    tower = Tower(
        modalities=both if version in _WITH_VIDEOS else ("image",),
        modules=(*_vision(facts), *_resampler(facts, model.hidden_size, version)),
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


def _resampler(facts: Facts, size: int, version: tuple[int, ...]) -> tuple[Module, ...]:
    """Return a layer of cross attention from learned queries to patches.

    Source: vLLM 0.33.0 `layers/resampler.py` BaseResampler; `models/minicpmv.py`
    Resampler2_5, Resampler4_5. Positions are not in the checkpoint.
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
        blocks.replicated(f"{name}.pos_embed", (_POSITIONS, _POSITIONS, size)),
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
    if version == (4, 5):
        modules.append(blocks.replicated(f"{name}.temporal_pos_embed", (_FRAMES, size)))
    return tuple(modules)


READERS = {"MiniCPMV": read_minicpm_v}
