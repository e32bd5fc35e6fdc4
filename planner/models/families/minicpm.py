"""MiniCPM3, and MiniCPM-V: SigLIP's tower of any image, a resampler, a language model.

MiniCPM3 has latent projections, but keeps keys and values per head. The releases of
MiniCPM-V differ only in the language model; MiniCPM-o hears as well.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import attention_scales, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import LatentShape, latent_shape
from planner.models.families.multimodal import (
    known_as,
    read_language_model,
    sub_config,
    with_towers,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import AUDIO, whisper_of_transformers
from planner.models.families.towers.clip import idefics_vision
from planner.models.families.towers.tiles import minicpm_v_items
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)

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
    text = Facts({**facts.config, "architectures": [architecture]}, model_type)
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


def read_minicpm3(facts: Facts, label: Label) -> ModelArchitecture:
    """Read MiniCPM3, whose values are padded to the size of its keys.

    Source: vLLM 0.33.0 `models/minicpm3.py`, `models/minicpm.py`.
    """
    shape = latent_shape(facts)
    kept = AttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_heads,
        head_size=shape.qk_head_dim,
    )
    kind = LayerKind(
        caches=(kept,),
        modules=(
            *_projections(shape),
            attention_scales(),
            *gated_mlp(shape.hidden_size, facts.integer("intermediate_size")),
            norms(shape.hidden_size),
        ),
    )
    if facts.value("num_experts"):
        raise facts.unsupported("num_experts", "its experts are not.")
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=rope_cache(
            facts,
            head_size=shape.qk_rope_head_dim,
            max_position=facts.integer("max_position_embeddings"),
        ),
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.alike(kind, facts.integer("num_hidden_layers")),
        head_size=shape.qk_rope_head_dim,
    )


def _projections(shape: LatentShape) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/minicpm3.py` MiniCPM3Attention."""
    if shape.q_lora_rank is None:
        message = "q_lora_rank is needed."
        raise ValueError(message)
    heads = shape.num_heads
    return (
        _replicated("q_a_proj", shape.hidden_size, shape.q_lora_rank),
        _column("q_b_proj", shape.q_lora_rank, heads * shape.qk_head_dim),
        _replicated("kv_a_proj_with_mqa", shape.hidden_size, shape.kept_size),
        _column(
            "kv_b_proj",
            shape.kv_lora_rank,
            heads * (shape.qk_nope_head_dim + shape.v_head_dim),
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=heads * shape.v_head_dim,
            output_size=shape.hidden_size,
        ),
        Replicated(
            name="self_attn.layernorm",
            part=Part.NORMS,
            shapes=((shape.q_lora_rank,), (shape.kv_lora_rank,)),
        ),
    )


def _replicated(name: str, input_size: int, output_size: int) -> ReplicatedLinear:
    return ReplicatedLinear(
        name=f"self_attn.{name}",
        part=Part.ATTENTION,
        input_size=input_size,
        output_sizes=(output_size,),
    )


def _column(name: str, input_size: int, output_size: int) -> ColumnParallelLinear:
    return ColumnParallelLinear(
        name=f"self_attn.{name}",
        part=Part.ATTENTION,
        input_size=input_size,
        output_sizes=(output_size,),
    )


READERS = {
    "MiniCPMO": read_minicpm_o,
    "MiniCPMV": read_minicpm_v,
    "MiniCPM3ForCausalLM": read_minicpm3,
}
