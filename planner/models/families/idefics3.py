"""Idefics' tower for images of any shape: Idefics 3, SmolVLM, Aria, MiniCPM-V."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    Composite,
    Text,
    Tie,
    inner_type,
    known_as,
    named,
    read_language_model,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.styles import Experts, Style
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.audio import whisper_of_transformers
from planner.models.families.towers.blocks import AUDIO, IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import Depth, encoder_pass, idefics_vision
from planner.models.families.towers.tiles import minicpm_v_items
from planner.models.families.windows import no_windows
from planner.models.layers import Module, Part, ReplicatedLinear


def _idefics3_read(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model that vLLM does not split into stages.

    The class builds Llama, whatever name the inner config has for it.

    Source: vLLM 0.33.0 `models/idefics3.py` Idefics3ForConditionalGeneration,
    `models/smolvlm.py`.
    """
    if inner_type(facts, "llama") != "llama":
        raise facts.unsupported("text_config", "Llama is, as in vLLM's class.")
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    model = Text("llama", "LlamaForCausalLM")(facts, label)
    scale = facts.integer("scale_factor")
    connector = ReplicatedLinear(
        "model.connector.modality_projection.proj",
        Part.TOWERS,
        vision.integer("hidden_size") * scale**2,
        (model.hidden_size,),
    )
    tower = Tower(
        IMAGE,
        (*idefics_vision(vision, "model.vision_model"), connector),
        items=tiles.idefics3_items(vision, scale),
        forward=encoder_pass(vision),
    )
    whole = with_towers(model, (tower,), layer_prefix="model.text_model.layers")
    return replace(known_as(whole, facts, label), supports_pp=False)


# Aria: Llama's attention, experts, and images asked for by queries.
def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/aria.py`."""
    vision = sub_config(facts, "vision_config", "idefics3_vision")
    size = vision.integer("hidden_size")
    queries = facts.integer("max_value_projector_patch_to_query_dict")
    name, mlp = f"{PROJECTOR}.cross_attn", f"{PROJECTOR}.feed_forward"
    square, vector = (size, size), (size,)
    yield from idefics_vision(vision, TOWER, Depth(has_post_norm=False))
    yield blocks.replicated(f"{PROJECTOR}.query", (queries, size))
    yield blocks.replicated(name, *(square,) * 8, *(vector,) * 5)
    yield blocks.norms(f"{name}.norms", size, count=3, bias=True)
    yield blocks.column(f"{mlp}.linear_in", size, text_size, bias=False)
    yield blocks.row(f"{mlp}.linear_out", text_size, text_size, bias=False)


_TEXT = Style(
    fields={
        "num_experts": "moe_num_experts",
        "num_experts_per_tok": "moe_topk",
        "moe_intermediate_size": "intermediate_size",
        "tie_word_embeddings": False,
    },
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    windows=no_windows,
    experts=Experts(shared="moe_num_shared_experts", shared_bias="mlp_bias"),
)


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    text, inner = text_facts(facts, "aria_text"), label.of("AriaTextModel")
    return llama.read(text, inner, style=_TEXT)


# MiniCPM-V: a tower of any image, a resampler, a language model; MiniCPM-o.
_LANGUAGE_MODELS: dict[tuple[int, ...], tuple[str, str]] = {
    (2, 5): ("llama", "LlamaForCausalLM"),
    (2, 6): ("qwen2", "Qwen2ForCausalLM"),
    (4, 0): ("llama", "LlamaForCausalLM"),
    (4, 5): ("qwen3", "Qwen3ForCausalLM"),
}
_WITH_VIDEOS = ((2, 6), (4, 0), (4, 5))
_HEARING = ((2, 6), (4, 5))
_VISION = own_defaults("MiniCPMVVisionConfig")
"""Where the config has none."""


def _minicpmv_text(facts: Facts, label: Label) -> ModelArchitecture:
    known = _LANGUAGE_MODELS.get(_version(facts))
    if known is None:
        raise facts.unsupported("version", "2.5, 2.6, 4.0 and 4.5 are.")
    model_type, architecture = known
    if facts.model_type == "minicpmo":
        model_type = ""  # of no class that would drop a window which the file names
    return read_language_model(named(facts, architecture, model_type), label)


def _version(facts: Facts) -> tuple[int, ...]:
    """Return the release; old configs have none, and are those of 2.0 or 2.5."""
    given = facts.value("version")
    if given is None:
        is_first = facts.integer("hidden_size") == 2304  # noqa: PLR2004
        return (2, 0) if is_first else (2, 5)
    return tuple(int(part) for part in str(given).split("."))


def _minicpmv_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower of MiniCPM-V 2.5, 2.6, 4.0 or 4.5.

    Source: vLLM 0.33.0 `models/minicpmv.py` MiniCPMVBaseModel, MiniCPMV.
    """
    has_videos = _version(facts) in _WITH_VIDEOS
    given = facts.mapping("vision_config") or _VISION
    vision = Facts(given, "siglip_vision_model")
    dropped = int(facts.flag("drop_vision_last_layer", default=True))
    built = {"num_hidden_layers": vision.integer("num_hidden_layers") - dropped}
    encoder = Facts({**given, **built}, vision.model_type)
    width = int(given.get("hidden_size", _VISION["hidden_size"]))
    return Tower(
        IMAGE_AND_VIDEO if has_videos else IMAGE,
        (
            *idefics_vision(encoder, "vpm"),
            *_resampler(facts, width, text_size),
        ),
        items=minicpm_v_items(facts, has_videos=has_videos),
        supports_data_parallel=True,
    )


def _resampler(facts: Facts, width: int, size: int) -> Iterator[Module]:
    """Yield a layer of cross attention from learned queries to patches.

    The positions, which no checkpoint holds, stay on the CPU.

    Source: vLLM 0.33.0 `layers/resampler.py` BaseResampler; `models/minicpmv.py`
    Resampler2_5, Resampler4_5 (_set_2d_pos_cache).
    """
    name, queries = "resampler", facts.integer("query_num", default=64)
    attention = ((3 * size, size), (3 * size,), (size, size), (size,))
    yield blocks.replicated(f"{name}.query", (queries, size))
    yield blocks.replicated(f"{name}.attn", *attention)
    yield blocks.norms(f"{name}.norms", size, count=3, bias=True)
    yield blocks.replicated(f"{name}.proj", (size, size))
    if width != size:
        yield blocks.whole(f"{name}.kv_proj", width, size, bias=False)


_minicpmv_read = Composite(_minicpmv_tower, text=_minicpmv_text, prefix="llm.")


def _read_o(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiniCPM-o 2.6 or 4.5: MiniCPM-V of that release, which hears.

    No budget counts its sounds, as vLLM's class does not say how long they are.

    Source: vLLM 0.33.0 `models/minicpmo.py` MiniCPMO, MiniCPMOBaseModel;
    `models/minicpmv.py` MiniCPMVProcessingInfo get_mm_max_tokens_per_item.
    """
    version = facts.value("version") or 2.6
    whole = Facts({**facts.config, "version": version}, "minicpmo")
    if _version(whole) not in _HEARING:
        raise facts.unsupported("version", "2.6 and 4.5 are.")
    model, audio = (
        _minicpmv_read(whole, label),
        sub_config(facts, "audio_config", "whisper"),
    )
    width, name = audio.integer("encoder_ffn_dim") // 4, "audio_projection_layer"
    projector = blocks.two_layers(name, width, model.hidden_size)
    modules = (*whisper_of_transformers(audio, "apm"), projector)
    tower = Tower(AUDIO, modules)
    return replace(model, towers=(*model.towers, tower))


# MiniCPM-V 4.6 and 4.7: Qwen3.5 with a tower that merges patches twice.
def _merging_text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_qwen3_5_text(text_facts(facts, "qwen3_5_text", tie=Tie.INNER), label)


def _merging_tower(
    facts: Facts, text_size: int, *, drops_layer: bool | None = None
) -> Tower:
    """Return the tower; None: whether its last layer is dropped, the config says.

    Source: vLLM 0.33.0 `models/minicpmv4_6.py`, `models/minicpmv4_7.py`.
    """
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    if drops_layer is None:
        drops_layer = facts.flag("drop_vision_last_layer")
    count = vision.integer("num_hidden_layers") - int(drops_layer)
    wide = 4 * vision.integer("hidden_size")
    return Tower(
        IMAGE,
        (
            *idefics_vision(vision, "vpm", Depth(num_layers=count, has_post_norm=True)),
            *_window_merger(vision),
            blocks.norms("merger.mlp.0.pre_norm", wide, bias=True),
            blocks.two_layers("merger.mlp.0.linear", wide, text_size, between=wide),
        ),
        supports_data_parallel=True,
    )


def _window_merger(facts: Facts) -> Iterator[Module]:
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    wide, middle, name = 4 * size, 4 * facts.integer("intermediate_size"), "vit_merger"
    qkv, shards = f"{name}.self_attn.qkv_proj", blocks.QKV_SHARDS
    yield blocks.qkv(qkv, size, heads, bias=True, shards=shards)
    yield blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True)
    yield blocks.norms(f"{name}.layer_norm1", size, bias=True)
    yield blocks.norms(f"{name}.pre_norm", wide, bias=True)
    yield blocks.two_layers(f"{name}.linear", wide, size, between=middle)


_KEEPING = Composite(partial(_merging_tower, drops_layer=False), text=_merging_text)


READERS: dict[str, Reader] = {
    **dict.fromkeys(
        ("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"),
        _idefics3_read,
    ),
    "AriaForConditionalGeneration": Composite(
        _modules, text=_text, renames=RENAMES, supports_pp=False
    ),
    "MiniCPMV": _minicpmv_read,
    "MiniCPMO": _read_o,
    "MiniCPMV4_6ForConditionalGeneration": Composite(
        _merging_tower, text=_merging_text
    ),
    "MiniCPMOcrForConditionalGeneration": _KEEPING,
    "MiniCPMV4_7ForConditionalGeneration": _KEEPING,
}
