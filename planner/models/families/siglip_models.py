"""Models of images with a tower like SigLIP's: Bee, R-4B, LFM2-VL, Cohere 2 Vision.

Also Eagle 2.5, Phi-4 with SigLIP 2, Aria, and LLaVA-NeXT for videos.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import (
    LayerKind,
    MediaItem,
    ModelArchitecture,
    Tower,
)
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER, vision_tower
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import (
    Depth,
    idefics_vision,
    siglip_vision,
)
from planner.models.families.towers.facts import RGB
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import Module
from planner.models.passes import Attention, TowerPass, block_pass

_IMAGE = ("image",)
_LFM2_TOKENS = 256
"""Most tokens of an image where a config does not say."""
_KEPT = {27: 26}  # Bagel's checkpoint lacks the last of SigLIP's layers


def _text(facts: Facts, name: str = "text_config") -> Facts:
    model_type = str(facts.mapping(name).get("model_type") or "llama")
    return text_facts(facts, model_type, name=name)


def _linear(name: str, input_size: int, output_size: int, *, bias: bool) -> Module:
    """Return a linear layer of PyTorch's own, which every rank holds in full."""
    shapes = ((output_size, input_size), (output_size,))
    return blocks.replicated(name, *shapes[: 2 if bias else 1])


def read_onevision_like(
    facts: Facts, label: Label, *, widening: int
) -> ModelArchitecture:
    """Return Bee or R-4B: LLaVA-OneVision with a norm before its projector.

    That projector is built beside the tower: each pipeline stage has it, and it stays
    when images are switched off. `widening` is how much wider than the language model
    its middle is.

    Source: vLLM 0.33.0 `models/bee.py`, `models/rvl.py`.
    """
    vision, modules = vision_tower(facts, has_post_norm=False)
    model = read_language_model(_text(facts), label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    own = (
        blocks.norms(f"{PROJECTOR}.pre_norm", size, bias=True),
        _linear(f"{PROJECTOR}.linear_1", size, widening * text_size, bias=True),
        _linear(f"{PROJECTOR}.linear_2", widening * text_size, text_size, bias=True),
        blocks.replicated("image_newline", (text_size,)),
    )
    tower = Tower(modalities=("image", "video"), modules=modules)
    whole = composed(facts, label, model, tower, renames=RENAMES)
    return replace(whole, every_stage=(*whole.every_stage, *own))


def read_llava_next_video(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LLaVA-NeXT for videos.

    Source: vLLM 0.33.0 `models/llava_next_video.py`.
    """
    vision, modules = vision_tower(facts, has_post_norm=False)
    model = read_language_model(_text(facts), label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    bias = facts.flag("multimodal_projector_bias")
    own = (
        _linear(f"{PROJECTOR}.linear_1", size, text_size, bias=bias),
        _linear(f"{PROJECTOR}.linear_2", text_size, text_size, bias=bias),
    )
    tower = Tower(modalities=("video",), modules=(*modules, *own))
    return composed(facts, label, model, tower, renames=RENAMES)


def read_cohere2_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cohere 2 with images. Source: vLLM 0.33.0 `models/cohere2_vision.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    model = read_language_model(_text(facts), label)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    half = facts.integer("alignment_intermediate_size") // 2
    modules = (
        *siglip_vision(vision, TOWER, quant_method=quant_method(facts)),
        blocks.column(f"{PROJECTOR}.linear_1", merged, half, half, bias=True),
        blocks.row(f"{PROJECTOR}.linear_2", half, model.hidden_size, bias=True),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    return composed(facts, label, model, tower, renames=RENAMES)


def read_lfm2_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LFM2-VL. Source: vLLM 0.33.0 `models/lfm2_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    model = read_language_model(_text(facts), label)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    wide, bias = facts.integer("projector_hidden_size"), facts.flag("projector_bias")
    norm = blocks.norms(f"{PROJECTOR}.layer_norm", merged, bias=True)
    modules = (
        *siglip2_vision(vision, TOWER),
        *((norm,) if facts.flag("projector_use_layernorm") else ()),
        _linear(f"{PROJECTOR}.linear_1", merged, wide, bias=bias),
        _linear(f"{PROJECTOR}.linear_2", wide, model.hidden_size, bias=bias),
    )
    tokens = facts.optional_integer("max_image_tokens") or _LFM2_TOKENS
    patches = tokens * facts.integer("downsample_factor") ** 2
    inputs = patches * RGB * vision.integer("patch_size") ** 2
    image = MediaItem(modality="image", tokens=tokens, patches=patches, inputs=inputs)
    tower = Tower(
        modalities=_IMAGE,
        modules=modules,
        items=(image,),
        supports_data_parallel=True,
        forward=_lfm2_pass(vision, patches),
    )
    return composed(facts, label, model, tower, renames=RENAMES)


def _lfm2_pass(vision: Facts, patches: int) -> TowerPass:
    """Return SigLIP 2's widest points, of images whose patches were put together.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2EncoderLayer,
    `models/lfm2_vl.py` image_pixels_to_features, get_image_size_with_most_features.
    """
    size, heads = vision.integer("hidden_size"), vision.integer("num_attention_heads")
    attention = Attention(num_heads=heads, head_size=size // heads, length=patches)
    passed = block_pass(size, vision.integer("intermediate_size"), beside=4)
    return replace(passed, attention=attention, input_copies=2)


def read_eagle2_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Eagle 2.5. Source: vLLM 0.33.0 `models/eagle2_5_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    model = read_language_model(_text(facts), label)
    chosen = facts.value("select_layer")
    layer = -1 if chosen is None else int(chosen)
    count = layer + 1 + (vision.integer("num_hidden_layers") if layer < 0 else 0)
    modules = (
        *siglip_vision(
            vision,
            "vision_model",
            Depth(num_layers=count),
            quant_method=quant_method(facts),
        ),
        *shuffled_mlp(facts, vision, model.hidden_size),
    )
    return composed(facts, label, model, Tower(modalities=_IMAGE, modules=modules))


def shuffled_mlp(facts: Facts, vision: Facts, text_size: int) -> tuple[Module, ...]:
    """Return InternVL's projector: patches joined by four, a norm, two layers."""
    ratio = facts.number("downsample_ratio", default=0.5)
    merged = vision.integer("hidden_size") * int(1 / ratio) ** 2
    return (
        blocks.norms("mlp1.0", merged, bias=True),
        _linear("mlp1.1", merged, text_size, bias=True),
        _linear("mlp1.3", text_size, text_size, bias=True),
    )


def read_phi4_siglip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-4 with SigLIP 2. Source: vLLM 0.33.0 `models/phi4siglip.py`."""
    vision = sub_config(facts, "vision_config", "siglip2_vision_model")
    text = Facts({**facts.config, "architectures": ["Phi3ForCausalLM"]}, "phi3")
    model = read_language_model(text, label)
    size = facts.integer("mm_hidden_size")
    modules = (
        *siglip2_vision(
            vision,
            TOWER,
            num_layers=vision.integer("num_hidden_layers") - 1,
            has_post_norm=False,
        ),
        blocks.column(f"{PROJECTOR}.linear_1", size, model.hidden_size, bias=True),
        blocks.row(
            f"{PROJECTOR}.linear_2", model.hidden_size, model.hidden_size, bias=True
        ),
    )
    return composed(facts, label, model, Tower(modalities=_IMAGE, modules=modules))


def read_aria(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Aria: Llama's attention, experts, and images asked for by queries.

    Source: vLLM 0.33.0 `models/aria.py`.
    """
    vision = sub_config(facts, "vision_config", "idefics3_vision")
    text = text_facts(facts, "aria_text")
    model = _aria_text(text, label)
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    queries = facts.integer("max_value_projector_patch_to_query_dict")
    name = f"{PROJECTOR}.cross_attn"
    square, vector = (size, size), (size,)
    modules = (
        *idefics_vision(vision, TOWER, Depth(has_post_norm=False)),
        blocks.replicated(f"{PROJECTOR}.query", (queries, size)),
        blocks.replicated(name, *(square,) * 8, *(vector,) * 5),
        blocks.norms(f"{name}.norms", size, count=3, bias=True),
        blocks.column(
            f"{PROJECTOR}.feed_forward.linear_in", size, text_size, bias=False
        ),
        blocks.row(
            f"{PROJECTOR}.feed_forward.linear_out", text_size, text_size, bias=False
        ),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    whole = composed(facts, label, model, tower, renames=RENAMES)
    return replace(whole, supports_pp=False)


def _aria_text(facts: Facts, label: Label) -> ModelArchitecture:
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("moe_num_experts"),
            top_k=facts.integer("moe_topk"),
            intermediate_size=width,
            shared_intermediate_size=width * facts.integer("moe_num_shared_experts"),
            shared_bias=facts.flag("mlp_bias"),
        )
    )
    layer = LayerKind(
        caches=(kv_of(shape),), modules=(*attention(shape), norms(size), *sparse)
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=rope, is_tied=False)
    inner = label.of("AriaTextModel")
    return decoder(facts, inner, frame, [layer] * facts.integer("num_hidden_layers"))


def read_bagel(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Bagel's half that understands images: SigLIP and Qwen2.

    Of SigLIP's 27 layers its checkpoint has 26; its table of positions stays on the
    CPU.

    Source: vLLM 0.33.0 `models/bagel.py`.
    """
    text = text_facts(facts, "qwen2", name="llm_config")
    inner = Facts({**text.config, "architectures": ["Qwen2ForCausalLM"]}, "qwen2")
    model = with_mm_prefix(read_language_model(inner, label))
    if not facts.flag("visual_und", default=True):
        raise facts.unsupported("visual_und", "a model that sees is.")
    vision = sub_config(facts, "vit_config", "siglip_vision_model")
    layers = vision.integer("num_hidden_layers")
    seen = Facts(
        {**vision.config, "num_hidden_layers": _KEPT.get(layers, layers)},
        vision.model_type,
    )
    size, text_size = vision.integer("hidden_size"), model.hidden_size
    modules = (
        *siglip_vision(seen, "vit_model", quant_method=quant_method(facts)),
        blocks.column("connector.fc1", size, text_size, bias=True),
        blocks.row("connector.fc2", text_size, text_size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=_IMAGE, modules=modules))


READERS = {
    "BagelForConditionalGeneration": read_bagel,
    "AriaForConditionalGeneration": read_aria,
    "BeeForConditionalGeneration": partial(read_onevision_like, widening=4),
    "RForConditionalGeneration": partial(read_onevision_like, widening=1),
    "Cohere2VisionForConditionalGeneration": read_cohere2_vision,
    "Eagle2_5_VLForConditionalGeneration": read_eagle2_5,
    "Lfm2VlForConditionalGeneration": read_lfm2_vl,
    "LlavaNextVideoForConditionalGeneration": read_llava_next_video,
    "Phi4ForCausalLMV": read_phi4_siglip,
}
