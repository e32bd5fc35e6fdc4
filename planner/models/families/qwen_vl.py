"""Qwen-VL's towers beside a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    MODEL_RENAMES,
    Composite,
    Text,
    Tie,
    composed,
    named,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.conversion import converted
from planner.models.families.decoders import ROWS as DECODERS
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.mixtures import ROWS as MIXTURES
from planner.models.families.qwen3_next import read_qwen3_5_text
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.qwen_vl import (
    merger,
    qwen2_5_vl_tower,
    qwen2_vl_tower,
    qwen3_vl_tower,
    without_input_norm,
)
from planner.models.layers import Module, Part, QKVParallelLinear

# Older checkpoints name their layers as if they were only a language model.
QWEN2_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    *MODEL_RENAMES,
)
FLAT_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "layer_types",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
)


def _qwen2_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen2_vl.py`."""
    return qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))


def _tower_2_5(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/qwen2_5_vl.py`."""
    return qwen2_5_vl_tower(sub_config(facts, "vision_config", "qwen2_5_vl_vision"))


def _qwen2_text(model_type: str) -> Text:
    return Text(model_type, "Qwen2ForCausalLM", tie=Tie.EITHER, flat_keys=FLAT_KEYS)


read_qwen2_vl = Composite(
    _qwen2_tower, text=_qwen2_text("qwen2_vl_text"), renames=QWEN2_RENAMES
)


QWEN3_RENAMES = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)


def _dense(text: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3, whose positions never exceed the tokens, unless videos are pruned.

    Source: vLLM 0.33.0 `models/qwen3_vl.py`.
    """
    style = replace(DECODERS["Qwen3ForCausalLM"], mrope_positions_factor=1)
    return llama.read(text, label.of("Qwen3ForCausalLM"), style=style)


def _sparse(text: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/qwen3_vl_moe.py`."""
    style = replace(MIXTURES["Qwen3MoeForCausalLM"], mrope_positions_factor=1)
    return llama.read(text, label.of("Qwen3MoeForCausalLM"), style=style)


def _qwen3_read(
    facts: Facts, label: Label, *, text: Reader, kind: str
) -> ModelArchitecture:
    """Return a language model whose first layers get features of the tower's blocks."""
    model = text(text_facts(facts, f"{kind}_text"), label)
    vision = sub_config(facts, "vision_config", f"{kind}_vision")
    levels = len(vision.value("deepstack_visual_indexes") or ())
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    language = replace(model, deepstack_layers=levels)
    return composed(facts, label, language, tower, renames=QWEN3_RENAMES)


read_qwen3_vl = partial(_qwen3_read, text=_dense, kind="qwen3_vl")


# Qwen3.5 and Qwen3.6 with images, which have Qwen3-VL's tower, and Intern-S2.
def _qwen3_5_text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, f"{facts.model_type}_text", tie=Tie.INNER)
    return read_qwen3_5_text(text, label)


def _qwen3_5_tower(facts: Facts, _text_size: int) -> Tower:
    """Return the tower, without buffers for deepstack.

    Source: vLLM 0.33.0 `models/qwen3_5.py` Qwen3_5ForConditionalGeneration.
    """
    vision = sub_config(facts, "vision_config", f"{facts.model_type}_vision")
    return qwen3_vl_tower(vision, deepstack_columns=0)


read_qwen3_5 = Composite(_qwen3_5_tower, text=_qwen3_5_text, renames=QWEN3_RENAMES)


def _read_interns2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Intern-S2's preview, which is Qwen3.5-MoE.

    Source: vLLM 0.33.0 `models/interns2_preview.py`.
    """
    model = read_qwen3_5(Facts(facts.config, "qwen3_5_moe"), label)
    return replace(model, model_type=facts.model_type)


# OpenCUA: Qwen2.5-VL's tower, whose pixels the CPU normalises, and Qwen2.
def _opencua_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/opencua.py`, which hands the tower no input_norm."""
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    return replace(without_input_norm(qwen2_5_vl_tower(vision)), modalities=IMAGE)


# EXAONE 4.5: Qwen2.5-VL's tower, in which several heads share keys.
def _exaone_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/exaone4_5.py`."""
    vision = sub_config(facts, "vision_config", "exaone4_5_vision")
    tower = qwen2_5_vl_tower(vision)
    kv_heads = vision.integer("num_key_value_heads")
    modules = tuple(
        replace(module, num_kv_heads=kv_heads)
        if isinstance(module, QKVParallelLinear)
        else module
        for module in tower.modules
    )
    return replace(tower, modules=modules)


def _exaone_text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(text_facts(facts, "exaone4"), label)


# HyperCLOVA X SEED with Qwen2.5-VL's tower and a linear layer after it.
def _hyperclovax_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/hyperclovax_vision_v2.py`."""
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    tower = without_input_norm(qwen2_5_vl_tower(vision))
    columns = vision.integer("out_hidden_size")
    projector = blocks.linear("mm_projector", columns, text_size, bias=True)
    return replace(tower, modules=(*tower.modules, projector))


# Intern-S1-Pro: Qwen3-VL's tower, and Qwen3-MoE with long tables.
def _interns1_pro_text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "qwen3_moe")
    if (text.mapping("rope_scaling") or text.mapping("rope_parameters")).get(
        "use_fope"
    ):
        raise text.unsupported("rope_scaling", "Fourier position embeddings are not.")
    # Its class has one field for both names, and the later one counts.
    count = text.integer("num_local_experts", "num_experts")
    own = Facts({**text.config, "num_experts": count}, "qwen3_moe")
    return read_language_model(named(own, "Qwen3MoeForCausalLM"), label)


def _interns1_pro_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/interns1_pro.py`."""
    vision = sub_config(facts, "vision_config", "qwen3_vl_vision")
    return qwen3_vl_tower(vision, deepstack_columns=0)


# Kanana-V: Qwen2-VL's tower, a projector of convolutions, and Llama.
def _kanana_modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/kanana_v.py`; timm 1.0.31 `regnet.py` RegStage."""
    vision = qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))
    kept = tuple(m for m in vision.modules if ".merger." not in m.name)
    projector = sub_config(facts, "projector_config", "")
    return (*blocks.unquantised(*kept), *_abstractor(projector))


def _abstractor(facts: Facts) -> Iterator[Module]:
    name, depth = "abstractor", facts.integer("depth")
    seen, size = facts.integers("encoder_hidden_size", "hidden_size")
    output, read = facts.integer("output_hidden_size"), seen
    if facts.flag("pos_emb"):
        positions = facts.integer("pos_emb_size")
        yield blocks.replicated(f"{name}.pos_emb", (positions, seen))
    if depth:
        merged, read = size * facts.integer("merge_size") ** 2, size
        yield from _stage(f"{name}.net.0", depth, seen, size)
        yield from _stage(f"{name}.net.2", depth, merged, size)
    for index in range(facts.integer("mlp_depth")):
        inner = output if index else read
        yield blocks.linear(f"{name}.readout.{index}", inner, output, bias=True)


def _stage(name: str, depth: int, given: int, size: int) -> Iterator[Module]:
    """Yield blocks of three convolutions that a gate of a quarter's width weighs."""
    vector = (size,)
    for index in range(depth):
        before = size if index else given
        quarter = round(before / 4)
        gate = (quarter, size), (quarter,), (size, quarter), vector
        convolutions = (size, before), (size, 9), (size, size)
        beside = ((size, before), vector, vector) if before != size else ()
        norms = (vector,) * 6
        shapes = (*convolutions, *norms, *gate, *beside)
        yield blocks.replicated(f"{name}.b{index + 1}", *shapes)


# LLaVA-OneVision 2: a tower of its own and Qwen3.
def _onevision2_modules(facts: Facts, text_size: int) -> tuple[Module, ...]:
    if facts.mapping("quantization_config"):
        raise facts.unsupported(
            "quantization_config", "which layers it holds for is not known here."
        )
    vision = sub_config(facts, "vision_config", "")
    return blocks.unquantised(*_onevision(vision, text_size))


def _onevision(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/llava_onevision2.py`."""
    sizes, name = blocks.Sizes.of(facts), "visual"
    size, patch = sizes.width, facts.integer("patch_size")
    channels = facts.integer("num_channels", default=3)
    embedding = f"{name}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.layernorm_pre", size, bias=True)
    # Time, height and width share half a head's dimensions as 4 : 6 : 6.
    half = size // sizes.heads // 2
    frequencies = (half * 4 // 16,), (half * 6 // 16,), (half * 6 // 16,)
    yield blocks.replicated(f"{name}.rotary_pos_emb", *frequencies, dtype="float32")
    parts = blocks.Parts(qkv="self_attn.qkv", out="self_attn.proj")
    yield from blocks.layers(f"{name}.encoder.layers", sizes, parts)
    patches = facts.integer("spatial_merge_size") ** 2
    yield from merger(f"{name}.merger", size, patches, text_size, bias=True)


# dots.ocr: Qwen2 with a tower of its own.
_VISION = own_defaults("DotsVisionConfig")


def _dots_tower(facts: Facts, _text_size: int) -> Tower:
    vision = Facts(facts.mapping("vision_config"), "dots_vit", _VISION)
    return Tower(
        IMAGE,
        tuple(_dots_modules(vision, "vision_tower")),
        items=items.dots_items(vision),
        rotates_in_fp32=True,
        supports_data_parallel=True,
    )


def _dots_modules(facts: Facts, name: str) -> Iterator[Module]:
    """Yield the tower, whose merger is never quantised.

    Source: vLLM 0.33.0 `models/dots_ocr.py` DotsVisionTransformer.
    """
    size, heads = facts.integers("embed_dim", "num_attention_heads")
    mlp_size, patch = facts.integers("intermediate_size", "patch_size")
    bias, colours = facts.flag("use_bias"), facts.integer("num_channels")
    patches, pair = f"{name}.patch_embed.patchifier", (mlp_size, mlp_size)
    yield blocks.convolution(f"{patches}.proj", size, colours, patch, patch, bias=True)
    yield blocks.norms(f"{patches}.norm", size, bias=False)
    yield blocks.inverse_frequencies(f"{name}.rotary_pos_emb", size // heads)
    yield from blocks.repeated(
        f"{name}.blocks",
        facts.integer("num_hidden_layers"),
        blocks.qkv("attn.qkv", size, heads, bias=bias),
        blocks.row("attn.proj", size, size, bias=bias),
        blocks.norms("norm", size, count=2, bias=False),
        blocks.column("mlp.fc13", size, *pair, bias=bias, shards=("fc1", "fc3")),
        blocks.row("mlp.fc2", mlp_size, size, bias=bias),
    )
    if facts.flag("post_norm"):
        yield blocks.norms(f"{name}.post_trunk_norm", size, bias=False)
    count = facts.integer("spatial_merge_size") ** 2
    output = facts.integer("hidden_size")
    merged = merger(f"{name}.merger", size, count, output, bias=True)
    yield from blocks.unquantised(*merged)


# Jina's ranker of images: Qwen2-VL with its head, and one of its own.
def _head(size: int) -> Iterator[Module]:
    for layer in (
        blocks.column("score.dense", size, size, bias=True),
        blocks.row("score.out_proj", size, 1, bias=True),
    ):
        yield replace(
            layer, part=Part.CLASSIFIER, dtype="float32", is_quantizable=False
        )


def _jina_read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/jina_vl.py` JinaVLScorer.

    One label is set by `models/config.py` JinaVLForSequenceClassificationConfig.
    """
    model = read_qwen2_vl(facts, label)
    every = (*model.every_stage, *_head(model.hidden_size))
    return replace(model, every_stage=every, is_pooling=True)


# Decision 3: Qwen3.5, and a score for each code of an answer.
def _d3_read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/d3.py`; `models/config.py`."""
    decision = facts.mapping("decision_config")
    if not decision:
        raise facts.unsupported("decision_config", "decision_config.json is needed.")
    if decision.get("attention_mode", "causal") != "causal":
        raise facts.unsupported("decision_config", "causal attention is.")
    labels = {str(index): code for index, code in enumerate(decision["codes"])}
    own = facts.having(id2label=labels)
    usual = label.of("Qwen3_5ForConditionalGeneration")
    return converted(read_qwen3_5(own, usual), own, label.architecture)


READERS: dict[str, Reader] = {
    "Qwen2VLForConditionalGeneration": read_qwen2_vl,
    "Qwen2_5_VLForConditionalGeneration": Composite(
        _tower_2_5, text=_qwen2_text("qwen2_5_vl_text"), renames=QWEN2_RENAMES
    ),
    "Alpamayo2Super": read_qwen3_vl,
    "Cosmos3ForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLForConditionalGeneration": read_qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": partial(
        _qwen3_read, text=_sparse, kind="qwen3_vl_moe"
    ),
    "Qwen3_5ForConditionalGeneration": read_qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": read_qwen3_5,
    "InternS2PreviewForConditionalGeneration": _read_interns2,
    "OpenCUAForConditionalGeneration": Composite(
        _opencua_tower, text=Text("qwen2", "Qwen2ForCausalLM"), renames=QWEN2_RENAMES
    ),
    "Exaone4_5_ForConditionalGeneration": Composite(
        _exaone_tower, text=_exaone_text, renames=QWEN3_RENAMES
    ),
    "HCXVisionV2ForCausalLM": Composite(
        _hyperclovax_tower,
        text=Text("hyperclovax"),
        renames=(("vision_model.", "visual."),),
    ),
    "InternS1ProForConditionalGeneration": Composite(
        _interns1_pro_tower, text=_interns1_pro_text, renames=QWEN3_RENAMES
    ),
    "KananaVForConditionalGeneration": Composite(
        _kanana_modules, text=Text("llama", "LlamaForCausalLM")
    ),
    "LlavaOnevision2ForConditionalGeneration": Composite(
        _onevision2_modules,
        text=Text("qwen3", "Qwen3ForCausalLM"),
        modalities=IMAGE_AND_VIDEO,
        renames=QWEN2_RENAMES,
    ),
    "DotsOCRForCausalLM": Composite(
        _dots_tower,
        text=Text("qwen2", "Qwen2ForCausalLM", name=""),
        renames=MODEL_RENAMES,
    ),
    "JinaVLForRanking": _jina_read,
    "D3ForSequenceClassification": _d3_read,
}
