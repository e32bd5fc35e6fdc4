"""More encoders beside language models that other readers know.

LLaVA-OneVision 2, MOSS-Audio, the first Ovis and Ovis 2, OpenVLA, Kanana-V, MiMo-V2
with images, and Decision 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.conversion import converted
from planner.models.families.facts import Facts
from planner.models.families.mimo_v2 import read_mimo_v2
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen_vl import read_qwen3_5
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import siglip_vision
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO, qwen2_vl_tower
from planner.models.families.towers.tiles import ovis_items
from planner.models.layers import Module, Part, QKVParallelLinear
from planner.models.passes import Moment, TowerPass, block_pass

_IMAGE, _AUDIO = ("image",), ("audio",)
_RENAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)
_INDICATORS = 5
"""Words of Ovis for an image's ends, which the tower's head does not predict."""


def _as(text: Facts, architecture: str, model_type: str) -> Facts:
    """Return the inner config as vLLM builds it, whatever it calls itself."""
    return Facts({**text.config, "architectures": [architecture]}, model_type)


def read_llava_onevision2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA-OneVision 2. Source: vLLM 0.33.0 `models/llava_onevision2.py`."""
    if facts.mapping("quantization_config"):
        raise facts.unsupported(
            "quantization_config", "which layers it holds for is not known here."
        )
    text = _as(text_facts(facts, "qwen3"), "Qwen3ForCausalLM", "qwen3")
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "")
    modules = blocks.unquantised(*_onevision(vision, model.hidden_size))
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, renames=_RENAMES)


def _onevision(facts: Facts, text_size: int) -> Iterator[Module]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    name, patch = "visual", facts.integer("patch_size")
    channels = facts.integer("num_channels", default=3)
    embedding = f"{name}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, patch, patch, bias=False)
    yield blocks.norms(f"{name}.layernorm_pre", size, bias=True)
    # Time, height and width share half a head's dimensions as 4 : 6 : 6.
    half = size // heads // 2
    frequencies = (half * 4 // 16,), (half * 6 // 16,), (half * 6 // 16,)
    yield blocks.replicated(f"{name}.rotary_pos_emb", *frequencies, dtype="float32")
    wide = facts.integer("intermediate_size")
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.encoder.layers.{index}"
        yield blocks.norms(f"{block}.layer_norm", size, count=2, bias=True)
        yield blocks.qkv(f"{block}.self_attn.qkv", size, heads, bias=True)
        yield blocks.row(f"{block}.self_attn.proj", size, size, bias=True)
        yield from blocks.plain_mlp(f"{block}.mlp.fc1", f"{block}.mlp.fc2", size, wide)
    merged = size * facts.integer("spatial_merge_size") ** 2
    yield blocks.norms(f"{name}.merger.ln_q", size, bias=True)
    yield blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=True)
    yield blocks.row(f"{name}.merger.mlp.2", merged, text_size, bias=True)


def read_moss_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS-Audio: an encoder of sounds, and Qwen3.

    Source: vLLM 0.33.0 `models/moss_audio.py`.
    """
    text = text_facts(facts, "qwen3", name="language_config")
    model = read_language_model(_as(text, "Qwen3ForCausalLM", "qwen3"), label)
    audio = sub_config(facts, "audio_config", "")
    output = audio.integer("output_dim", default=1280)
    wide = facts.integer("adapter_hidden_size", default=8192)
    captured = audio.value("deepstack_encoder_layer_indexes")
    levels = len([8, 16, 24] if captured is None else captured)
    most = facts.optional_integer("deepstack_num_inject_layers")
    levels = levels if most is None else min(levels, most)
    merger = "deepstack_audio_merger_list"
    adapters = ("audio_adapter", *(f"{merger}.{level}" for level in range(levels)))
    modules = (
        *_moss_encoder(audio, output),
        *(
            module
            for name in adapters
            for module in (
                blocks.column(f"{name}.gate_up_proj", output, wide, wide, bias=False),
                blocks.row(f"{name}.down_proj", wide, model.hidden_size, bias=False),
            )
        ),
    )
    tower = Tower(modalities=_AUDIO, modules=modules)
    model = replace(model, deepstack_layers=levels)
    return composed(facts, label, model, tower)


def _moss_encoder(facts: Facts, output: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moss_audio.py` MossAudioEncoder and its defaults."""
    size = facts.integer("d_model", default=1280)
    heads = facts.integer("encoder_attention_heads", default=20)
    wide = facts.integer("encoder_ffn_dim", default=5120)
    channels = facts.integer("downsample_hidden_size", default=480)
    bands = -(-facts.integer("num_mel_bins", default=128) // 8)
    name = "audio_encoder"
    yield blocks.convolution(f"{name}.conv1", channels, 1, 3, 3, bias=True)
    for index in (2, 3):
        conv = f"{name}.conv{index}"
        yield blocks.convolution(conv, channels, channels, 3, 3, bias=True)
    yield blocks.whole(f"{name}.stem_proj", channels * bands, size, bias=True)
    positions = f"{name}.embed_positions.inv_timescales"
    yield blocks.replicated(positions, (size // 2,), dtype="float32")
    for index in range(facts.integer("encoder_layers", default=32)):
        layer = f"{name}.layers.{index}"
        yield blocks.DividedHeads(name=f"{layer}.self_attn", num_heads=heads)
        for each, has_bias in (("q", True), ("k", False), ("v", True)):
            linear = f"{layer}.self_attn.{each}_proj"
            yield blocks.column(linear, size, size, bias=has_bias)
        yield blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True)
        yield blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True)
        yield from blocks.plain_mlp(f"{layer}.fc1", f"{layer}.fc2", size, wide)
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    if output != size:
        yield blocks.whole(f"{name}.out_proj", size, output, bias=False)


def read_ovis(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the first Ovis or Ovis 2. Source: vLLM 0.33.0 `models/ovis.py`."""
    kind = str(facts.mapping("llm_config").get("model_type") or "")
    model = read_language_model(text_facts(facts, kind, name="llm_config"), label)
    own = sub_config(facts, "visual_tokenizer_config", "")
    vision = sub_config(own, "backbone_config", "")
    name, method = "visual_tokenizer.backbone", quant_method(facts)
    given = vision.value("model_type")
    if given in ("aimv2", "aimv2_vision_model"):
        encoder = tuple(_aimv2(Facts(vision.config, "aimv2_vision_model"), name))
    elif given == "siglip_vision_model":
        known = Facts(vision.config, "siglip_vision_model")
        encoder = siglip_vision(known, name, quant_method=method)
    else:
        raise vision.unsupported("model_type", "AIMv2 and SigLIP are.")
    words = own.integer("vocab_size", default=16384)
    size = Facts(vision.config, str(given)).integer("hidden_size")
    merged = size * own.integer("hidden_stride", default=1) ** 2
    predicted = words - _INDICATORS
    modules = (
        *encoder,
        blocks.replicated("visual_tokenizer.head.0", (predicted, merged)),
        blocks.norms("visual_tokenizer.head.1", predicted, bias=True),
        blocks.replicated("vte", (words, facts.integer("hidden_size"))),
    )
    known = Facts(vision.config, str(given))
    tower = Tower(
        modalities=_IMAGE,
        modules=modules,
        items=ovis_items(own, known),
        forward=_words_pass(own, known, words),
    )
    return composed(facts, label, model, tower, prefix="llm.")


def _words_pass(own: Facts, vision: Facts, words: int) -> TowerPass:
    """Return the tower's pass, widest where each token has a share of every word.

    Merged patches, logits, shares, and shares with those of the indicators.

    Source: vLLM 0.33.0 and 0.19.1 `models/ovis.py` VisualTokenizer.forward.
    """
    size, merge = vision.integer("hidden_size"), own.integer("hidden_stride", default=1)
    values = merge**2 * size + 2 * (words - _INDICATORS) + words
    is_gated = "aimv2" in vision.model_type
    wide = vision.integer("intermediate_size")
    passed = block_pass(size, wide, beside=4, is_gated=is_gated)
    head = Moment(name="words", whole=values // merge**2)
    return replace(passed, moments=(*passed.moments, head))


def _aimv2(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/aimv2.py` AIMv2Model, without its last norm."""
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    patch, wide = facts.integer("patch_size"), facts.integer("intermediate_size")
    has_bias = facts.flag("mlp_bias")
    first, channels = f"{name}.preprocessor", facts.integer("num_channels", default=3)
    convolution = f"{first}.patchifier.proj"
    yield blocks.convolution(convolution, size, channels, patch, patch, bias=True)
    patches = (facts.integer("image_size") // patch) ** 2
    yield blocks.replicated(f"{first}.pos_embed", (size,), (patches, size))
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.trunk.blocks.{index}"
        yield blocks.qkv(f"{block}.attn.qkv", size, heads, bias=facts.flag("qkv_bias"))
        yield blocks.row(f"{block}.attn.proj", size, size, bias=has_bias)
        yield blocks.column(f"{block}.mlp.fc13", size, wide, wide, bias=has_bias)
        yield blocks.row(f"{block}.mlp.fc2", wide, size, bias=has_bias)
        yield blocks.norms(f"{block}.norm", size, count=2, bias=False)


def read_openvla(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OpenVLA: timm's DINOv2 and SigLIP, whole on each rank, and Llama.

    vLLM takes no others.

    Source: vLLM 0.33.0 `models/openvla.py`; timm 1.0.31 `vision_transformer.py`.
    """
    if not facts.flag("use_fused_vision_backbone", default=True):
        raise facts.unsupported("use_fused_vision_backbone", "vLLM has no other.")
    text = _as(text_facts(facts, "llama"), "LlamaForCausalLM", "llama")
    model = read_language_model(text, label)
    dino, siglip, wide = 1024, 1152, model.hidden_size
    name = "vision_backbone"
    seen = dino + siglip
    pooled = ((siglip,), (siglip, siglip), (2 * siglip, siglip), (siglip, siglip))
    biases = ((siglip,), (2 * siglip,), (siglip,))
    layer = *_timm_mlp(siglip, 4304), (siglip,), (siglip,)
    modules = (
        # A class, four registers, a position for each of 16 x 16 patches.
        blocks.replicated(f"{name}.dinov2.embed", (1 + 4 + 256, dino)),
        *_timm(f"{name}.dinov2_featurizer", dino, 24, 4096, scales=2),
        blocks.replicated(f"{name}.siglip.embed", (256, siglip)),
        *_timm(f"{name}.siglip_featurizer", siglip, 27, 4304, scales=0),
        blocks.replicated(f"{name}.attn_pool", *pooled, *biases, *layer),
        blocks.column("projector.fc1", seen, 4 * seen, bias=True),
        blocks.row("projector.fc2", 4 * seen, wide, bias=True),
        blocks.whole("projector.fc3", wide, wide, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=_IMAGE, modules=modules))


def _timm(
    name: str, size: int, depth: int, wide: int, *, scales: int
) -> Iterator[Module]:
    """Return a vision transformer of timm, in patches of 14 x 14."""
    yield blocks.convolution(f"{name}.patch_embed.proj", size, 3, 14, 14, bias=True)
    attention = ((3 * size, size), (3 * size,), (size, size), (size,))
    vectors = ((size,),) * (4 + scales)
    for index in range(depth):
        block = f"{name}.blocks.{index}"
        yield blocks.replicated(block, *attention, *_timm_mlp(size, wide), *vectors)
    yield blocks.norms(f"{name}.norm", size, bias=True)


def _timm_mlp(size: int, wide: int) -> tuple[tuple[int, ...], ...]:
    return (wide, size), (wide,), (size, wide), (size,)


def read_kanana_v(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kanana-V: Qwen2-VL's tower, a projector of convolutions, and Llama.

    Source: vLLM 0.33.0 `models/kanana_v.py`; timm 1.0.31 `regnet.py` RegStage.
    """
    text = _as(text_facts(facts, "llama"), "LlamaForCausalLM", "llama")
    model = read_language_model(text, label)
    vision = qwen2_vl_tower(sub_config(facts, "vision_config", "qwen2_vl_vision"))
    kept = tuple(m for m in vision.modules if ".merger." not in m.name)
    projector = sub_config(facts, "projector_config", "")
    modules = (*blocks.unquantised(*kept), *_abstractor(projector))
    return composed(facts, label, model, Tower(modalities=_IMAGE, modules=modules))


def _abstractor(facts: Facts) -> Iterator[Module]:
    name, depth = "abstractor", facts.integer("depth")
    seen, size = facts.integer("encoder_hidden_size"), facts.integer("hidden_size")
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
        yield blocks.replicated(f"{name}.readout.{index}", (output, inner), (output,))


def _stage(name: str, depth: int, given: int, size: int) -> Iterator[Module]:
    """Return blocks of three convolutions that a gate of a quarter's width weighs."""
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


def read_mimo_v2_omni(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiMo-V2 with images and videos.

    Source: vLLM 0.33.0 `models/mimo_v2_omni.py`.
    """
    if facts.mapping("audio_config"):
        raise facts.unsupported(
            "audio_config", "the tokeniser of sounds has a folder of its own."
        )
    blind = Facts({**facts.config, "vision_config": None}, facts.model_type)
    own = label.of("MiMoV2FlashForCausalLM")
    model = read_mimo_v2(blind, own)
    vision = sub_config(facts, "vision_config", "")
    modules = blocks.unquantised(*_mimo_vision(vision))
    tower = Tower(modalities=IMAGE_AND_VIDEO, modules=modules)
    return composed(facts, label, model, tower, renames=_RENAMES)


def _mimo_vision(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/mimo_v2_omni.py` MiMoVisionTransformer."""
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    keys = facts.integer("qk_channels", default=64)
    values = facts.integer("kv_channels", default=64)
    name, patch = "visual", facts.integer("patch_size")
    times = facts.integer("temporal_patch_size", default=2)
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("in_channels")
    kernel = times, patch, patch
    yield blocks.convolution(embedding, size, channels, *kernel, bias=False)
    yield blocks.rotary_cache(f"{name}.rotary_pos_emb", keys)
    whole = facts.value("fullatt_block_indexes") or ()
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", size, count=2, bias=False)
        yield QKVParallelLinear(
            name=f"{block}.attn.qkv",
            part=Part.TOWERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=facts.integer("num_key_value_heads", default=8),
            head_size=keys,
            head_size_v=values,
            bias=True,
            shards=(),
        )
        yield blocks.row(f"{block}.attn.proj", heads * values, size, bias=True)
        if facts.flag("use_sink") and index not in whole:
            yield blocks.replicated(f"{block}.attn.sinks", (heads,))
        wide = facts.integer("intermediate_size")
        yield from blocks.gated_mlp(f"{block}.mlp", size, wide, bias=True)
    merged = size * facts.integer("spatial_merge_size") ** 2
    output = facts.integer("out_hidden_size")
    yield blocks.norms(f"{name}.merger.ln_q", size, bias=False)
    yield blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=False)
    yield blocks.row(f"{name}.merger.mlp.2", merged, output, bias=False)


def read_decision3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Decision 3: Qwen3.5, and a score for each code of an answer.

    Source: vLLM 0.33.0 `models/d3.py`; `models/config.py` D3ForSequenceClassification.
    """
    decision = facts.mapping("decision_config")
    if not decision:
        raise facts.unsupported("decision_config", "decision_config.json is needed.")
    if decision.get("attention_mode", "causal") != "causal":
        raise facts.unsupported("decision_config", "causal attention is.")
    labels = {str(index): code for index, code in enumerate(decision["codes"])}
    own = Facts({**facts.config, "id2label": labels}, facts.model_type)
    usual = label.of("Qwen3_5ForConditionalGeneration")
    return converted(read_qwen3_5(own, usual), own, label.architecture)


READERS = {
    "LlavaOnevision2ForConditionalGeneration": read_llava_onevision2,
    "MossAudioModel": read_moss_audio,
    "Ovis": read_ovis,
    "OpenVLAForActionPrediction": read_openvla,
    "KananaVForConditionalGeneration": read_kanana_v,
    "MiMoV2OmniForCausalLM": read_mimo_v2_omni,
    "D3ForSequenceClassification": read_decision3,
}
