"""Models made from Qwen's with images or sounds: Cosmos 3, OpenCUA, Jina's ranker.

Also Qwen3-ASR's forced aligner, Isaac, HyperCLOVA X with images, and Cosmos 3 Edge,
which is made from Nemotron-H.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.conversion import without_head
from planner.models.families.decoder import (
    attention,
    attention_shape,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.qwen_audio import read_qwen3_asr
from planner.models.families.qwen_vl import (
    QWEN2_RENAMES,
    read_qwen2_vl,
    read_qwen3_vl,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import IMAGE_AND_VIDEO, qwen2_5_vl_tower
from planner.models.families.towers.siglip2 import siglip2_vision
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)


def read_opencua(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OpenCUA: Qwen2.5-VL's tower, whose pixels the CPU normalises.

    Source: vLLM 0.33.0 `models/opencua.py`, which hands the tower no input_norm.
    """
    text = text_facts(facts, "qwen2")
    text = Facts({**text.config, "architectures": ["Qwen2ForCausalLM"]}, "qwen2")
    model = read_language_model(text, label)
    tower = qwen2_5_vl_tower(sub_config(facts, "vision_config", "qwen2_5_vl_vision"))
    images = replace(_without_input_norm(tower), modalities=("image",))
    return composed(facts, label, model, images, renames=QWEN2_RENAMES)


def read_hyperclovax_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return HyperCLOVA X SEED with Qwen2.5-VL's tower and a linear layer after it.

    Source: vLLM 0.33.0 `models/hyperclovax_vision_v2.py`.
    """
    kind = str(facts.mapping("text_config").get("model_type") or "hyperclovax")
    text = text_facts(facts, kind)
    if not text.value("architectures") and kind == "hyperclovax":
        named = {**text.config, "architectures": ["HyperCLOVAXForCausalLM"]}
        text = Facts(named, kind)
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "qwen2_5_vl_vision")
    size, columns = model.hidden_size, vision.integer("out_hidden_size")
    tower = _without_input_norm(qwen2_5_vl_tower(vision))
    projector = blocks.replicated("mm_projector", (size, columns), (size,))
    tower = replace(tower, modules=(*tower.modules, projector))
    return composed(facts, label, model, tower, renames=(("vision_model.", "visual."),))


def _without_input_norm(tower: Tower) -> Tower:
    """Return Qwen's tower in a class that hands it no input_norm."""
    kept = (module for module in tower.modules if module.name != "visual.input_norm")
    return replace(tower, modules=tuple(kept), items=(), reads_raw_pixels_since=None)


def read_isaac(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Isaac: Qwen3 after SigLIP 2, whose neighbouring patches are merged.

    Source: vLLM 0.33.0 `models/isaac.py`.
    """
    text = text_facts(facts, "qwen3") if facts.mapping("text_config") else facts
    rope = text.mapping("rope_parameters") or text.mapping("rope_scaling")
    named = {
        **text.config,
        "architectures": ["Qwen3ForCausalLM"],
        "rope_parameters": {**rope, "mrope_section": _sections(text)},
    }
    model = read_language_model(Facts(named, "qwen3"), label)
    vision = sub_config(facts, "vision_config", "pixel_shuffle_siglip2")
    factor = vision.integer("pixel_shuffle_scale_factor")
    merged = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip2_vision(vision, "vision_embedding.transformer"),
        blocks.column("vision_embedding.1", merged, 4 * merged, bias=False),
        blocks.row("vision_embedding.3", 4 * merged, model.hidden_size, bias=False),
    )
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _sections(facts: Facts) -> list[int]:
    """Return how Isaac's class shares a head among time, height and width."""
    size = facts.integer("head_dim")
    return [size // 4, size // 8, size // 8]


def read_jina_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Jina's ranker of images: Qwen2-VL with its head, and one of its own.

    Source: vLLM 0.33.0 `models/jina_vl.py` JinaVLScorer; `models/config.py`
    JinaVLForSequenceClassificationConfig, which sets one label.
    """
    model = read_qwen2_vl(facts, label)
    size = model.hidden_size
    dense = ColumnParallelLinear(
        name="score.dense",
        part=Part.CLASSIFIER,
        input_size=size,
        output_sizes=(size,),
        bias=True,
        dtype="float32",
        is_quantizable=False,
    )
    out = RowParallelLinear(
        name="score.out_proj",
        part=Part.CLASSIFIER,
        input_size=size,
        output_size=1,
        bias=True,
        dtype="float32",
        is_quantizable=False,
    )
    every = (*model.every_stage, dense, out)
    return replace(model, every_stage=every, is_pooling=True)


def read_forced_aligner(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Qwen3-ASR with a classifier in its head's place.

    Source: vLLM 0.33.0 `models/qwen3_asr_forced_aligner.py`.
    """
    model = read_qwen3_asr(facts, label)
    labels = Facts(facts.mapping("thinker_config"), facts.model_type)
    classifier = Replicated(
        name="classifier",
        part=Part.CLASSIFIER,
        shapes=((labels.integer("classify_num"), model.hidden_size),),
    )
    return replace(
        model,
        every_stage=(*model.every_stage, classifier),
        last_stage=without_head(model.last_stage),
        is_pooling=True,
    )


def read_cosmos3_edge(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cosmos 3 Edge. Source: vLLM 0.33.0 `models/cosmos3_edge.py`."""
    model = _edge_text(text_facts(facts, "cosmos3_edge_text"), label)
    vision = sub_config(facts, "vision_config", "cosmos3_edge_vision")
    modules = (
        *siglip2_vision(vision, "visual.encoder"),
        *_edge_merger(facts, vision, model.hidden_size),
    )
    tower = Tower(
        modalities=IMAGE_AND_VIDEO, modules=modules, supports_data_parallel=True
    )
    return composed(facts, label, model, tower)


def _edge_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the blocks: attention with a norm, then an MLP with a norm."""
    shape = attention_shape(facts)
    size = shape.hidden_size
    mlp = plain_mlp(size, facts.integer("intermediate_size"), bias=False)
    pair = (
        LayerKind(
            caches=(kv_of(shape),), modules=(*attention(shape), norms(size, count=1))
        ),
        LayerKind(caches=(), modules=(*mlp, norms(size, count=1))),
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=rope)
    inner = label.of("Cosmos3EdgeForCausalLM")
    return decoder(facts, inner, frame, pair * facts.integer("num_hidden_layers"))


def _edge_merger(facts: Facts, vision: Facts, columns: int) -> tuple[Module, ...]:
    size, wide = vision.integer("hidden_size"), facts.integer("projector_hidden_size")
    merged = size * vision.integer("spatial_merge_size") ** 2
    name = "visual.projector"
    return (
        blocks.norms(f"{name}.norm", size, bias=True),
        *blocks.unquantised(
            blocks.column(f"{name}.linear_fc1", merged, wide, bias=True),
            blocks.row(f"{name}.linear_fc2", wide, columns, bias=True),
        ),
    )


READERS = {
    "IsaacForConditionalGeneration": read_isaac,
    "HCXVisionV2ForCausalLM": read_hyperclovax_vision,
    "Cosmos3ForConditionalGeneration": read_qwen3_vl,
    "JinaVLForRanking": read_jina_vl,
    "OpenCUAForConditionalGeneration": read_opencua,
    "Qwen3ASRForcedAlignerForTokenClassification": read_forced_aligner,
    "Cosmos3EdgeForConditionalGeneration": read_cosmos3_edge,
}
