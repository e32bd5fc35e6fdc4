"""Models as older releases built them.

Most of these are classes that vLLM had itself before it left their models to
Transformers: they keep a table of cosines, have an LM head of their own making and, in
many cases, build embeddings and head on every pipeline stage.
`registry.BUILT_OTHERWISE` says which releases have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families import deepseek, llama, modernbert
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    learned_positions,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.glm4_1v import read_glm4v
from planner.models.families.gpt import read_gpt_bigcode
from planner.models.families.layered import (
    Frame,
    decoder,
    is_sliding,
    typed_ropes,
)
from planner.models.families.moe import read_olmoe
from planner.models.families.registry import BUILT_OTHERWISE
from planner.models.families.rope import rope_cache
from planner.models.families.styles import LLAMA, STYLES, Style
from planner.models.layers import Module, Part, ReplicatedLinear

_STYLES: dict[str, Style] = {
    "ArceeForCausalLM": STYLES["Arcee"],
    "CwmForCausalLM": LLAMA,
    "GlmForCausalLM": STYLES["Glm"],
    "HunYuanDenseV1ForCausalLM": replace(
        STYLES["HunYuanDense"], qk_norm="use_qk_norm", mlp_bias="mlp_bias"
    ),
    "Jais2ForCausalLM": STYLES["Jais2"],
    "OlmoForCausalLM": replace(STYLES["Olmo"], placement=Placement.EVERYWHERE),
    "Olmo2ForCausalLM": replace(
        STYLES["Olmo2"],
        qkv_bias=False,
        output_bias=False,
        placement=Placement.EVERYWHERE,
    ),
    "SeedOssForCausalLM": replace(
        STYLES["SeedOss"], qkv_bias=True, output_bias=False, mlp_bias=False
    ),
    "Starcoder2ForCausalLM": replace(
        STYLES["Starcoder2"], placement=Placement.EVERYWHERE
    ),
}
"""Decoders like Llama, as the class of their own built them.

Source: vLLM 0.25.1 `models/arcee.py`, `glm.py`, `hunyuan_v1.py`, `jais2.py`, `olmo.py`,
`olmo2.py`, `seed_oss.py`; 0.24.0 `models/starcoder2.py`; 0.31.0 `models/registry.py`
(CwmForCausalLM is LlamaForCausalLM).
"""


def _read_style(facts: Facts, label: Label, *, style: Style) -> ModelArchitecture:
    if style is not LLAMA:
        style = replace(style, is_transformers_backend=False)
    return llama.read(facts, label, style=style)


def _read_olmo3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OLMo 3, whose windows have a table of their own.

    Source: vLLM 0.25.1 `models/olmo2.py` Olmo2Attention; 0.28.0 `models/olmo3.py`.
    """
    style = replace(
        _STYLES["Olmo2ForCausalLM"], has_layer_windows=True, has_local_rope=True
    )
    return _read_style(facts, label, style=style)


def _read_gpt_neox(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GPT-NeoX. Source: vLLM 0.31.0 `models/gpt_neox.py`."""
    has_bias = facts.flag("attention_bias", default=True)
    shape = _heads_alike(facts, qkv_bias=has_bias, output_bias=has_bias)
    modules = (
        *attention(shape),
        *plain_mlp(shape.hidden_size, facts.integer("intermediate_size")),
        norms(shape.hidden_size, bias=True),
    )
    return _on_each_stage(
        facts, label, shape, modules, every_stage=_table(facts, shape)
    )


def _read_phi(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-1 and Phi-2. Source: vLLM 0.31.0 `models/phi.py`."""
    shape = _heads_alike(facts, qkv_bias=True, output_bias=True)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.optional_integer("n_inner") or 4 * size),
        norms(size, count=1, bias=True),
    )
    return _on_each_stage(
        facts,
        label,
        shape,
        modules,
        every_stage=_table(facts, shape),
        lm_head_bias=True,
    )


def _read_gpt_bigcode(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GPT-BigCode. Source: vLLM 0.24.0 `models/gpt_bigcode.py`."""
    shape = _heads_alike(facts, qkv_bias=True, output_bias=True)
    if facts.flag("multi_query"):
        shape = replace(shape, num_kv_heads=1)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.optional_integer("n_inner") or 4 * size),
        norms(size, bias=True),
    )
    positions = facts.integer("max_position_embeddings", "n_positions")
    words = learned_positions(positions, size, "wpe")
    return _on_each_stage(facts, label, shape, modules, extra_embeddings=(words,))


def _heads_alike(facts: Facts, *, qkv_bias: bool, output_bias: bool) -> AttentionShape:
    """Return attention with as many heads for keys and values as for queries."""
    size = facts.integer("hidden_size", "n_embd")
    num_heads = facts.integer("num_attention_heads", "n_head")
    return AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=size // num_heads,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
    )


def _on_each_stage(
    facts: Facts,
    label: Label,
    shape: AttentionShape,
    modules: tuple[Module, ...],
    **around: Any,  # noqa: ANN401 - further fields of the skeleton
) -> ModelArchitecture:
    """Return a decoder that builds embeddings, norm and head on every stage."""
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(shape.hidden_size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        **around,
    )
    kind = LayerKind(caches=(kv_of(shape),), modules=modules)
    num_layers = facts.integer("num_hidden_layers", "n_layer")
    return assemble(facts, label, skeleton, Body.alike(kind, num_layers))


def _table(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    return rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )


def _read_hunyuan_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Hunyuan's mixture of experts, whose router has the model's dtype.

    Source: vLLM 0.28.0 `models/hunyuan_v1.py` HunYuanSparseMoeBlock.
    """
    if facts.flag("use_cla"):
        raise facts.unsupported("use_cla", "layers that share their keys are not.")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    shape = attention_shape(
        facts,
        qkv_bias=has_bias,
        output_bias=has_bias,
        has_qk_norm=facts.flag("use_qk_norm"),
    )
    layers = (
        LayerKind(
            caches=(kv_of(shape),),
            modules=(
                *attention(shape),
                norms(shape.hidden_size),
                *_hunyuan_experts(facts, layer),
            ),
        )
        for layer in range(facts.integer("num_hidden_layers"))
    )
    frame = Frame(hidden_size=shape.hidden_size, rope=_table(facts, shape))
    return decoder(facts, label, frame, layers)


def _hunyuan_experts(facts: Facts, layer: int) -> tuple[Module, ...]:
    size, width = facts.integer("hidden_size"), facts.integer("intermediate_size")
    top_k = _of_layer(facts, "moe_topk", layer)
    is_mixed = facts.flag("use_mixed_mlp_moe")
    shared = _of_layer(facts, "num_shared_expert", layer) if is_mixed else 0
    return experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=top_k,
            intermediate_size=_of_layer(facts, "moe_intermediate_size", layer) or width,
            shared_intermediate_size=width * shared,
            shared_name="shared_mlp",
            is_renormalized=top_k > 1,
        )
    )


def _of_layer(facts: Facts, field: str, layer: int) -> int:
    """Return a layer's number of a field that is one number or a list; 0 without."""
    given = facts.value(field)
    if isinstance(given, list):
        return int(given[layer])
    return facts.optional_integer(field) or 0


def _read_mellum(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Mellum: Qwen3's mixture of experts with windows on some layers.

    Source: vLLM 0.31.0 `models/mellum.py`.
    """
    shape = attention_shape(
        facts, qkv_bias=facts.flag("attention_bias"), has_qk_norm=True
    )
    size, types = shape.hidden_size, facts.value("layer_types")
    mlps = facts.value("mlp_layer_types")
    if not types or not mlps:
        raise facts.unsupported("layer_types", "it and mlp_layer_types are needed.")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            is_renormalized=facts.flag("norm_topk_prob", default=True),
        )
    )
    dense = gated_mlp(size, facts.optional_integer("intermediate_size") or 0)
    window = facts.optional_integer("sliding_window")
    layers = (
        LayerKind(
            caches=(replace(kv_of(shape), sliding_window=window if has else None),),
            modules=(
                *attention(shape),
                norms(size),
                *(sparse if mlp == "sparse" else dense),
            ),
        )
        for has, mlp in zip(is_sliding(facts), mlps, strict=False)
    )
    tables = typed_ropes(
        facts,
        types,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    return decoder(facts, label, Frame(hidden_size=size, rope=tables), layers)


def _read_flex_olmo(facts: Facts, label: Label) -> ModelArchitecture:
    """Return FlexOlmo, whose experts no quantisation reached.

    Source: vLLM 0.28.0 `models/flex_olmo.py` FlexOlmoMoE.
    """

    def plain(module: Module) -> Module:
        if isinstance(module, FusedMoE):
            return replace(module, is_quantizable=False)
        return module

    return _with(plain, read_olmoe(facts, label))


def _read_glm_dsa(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-5 with routers held in float32.

    Source: vLLM 0.25.1 `models/deepseek_v2.py` DeepseekV2MoE (params_dtype); gone in
    0.26.0.
    """

    def wide(module: Module) -> Module:
        if isinstance(module, ReplicatedLinear) and module.part is Part.ROUTER:
            return replace(module, dtype="float32")
        return module

    return _with(wide, deepseek.READERS["GlmMoeDsaForCausalLM"](facts, label))


def _with(
    change: Callable[[Module], Module], model: ModelArchitecture
) -> ModelArchitecture:
    """Return a model with the modules of its layers changed."""
    kinds = tuple(
        replace(kind, modules=tuple(map(change, kind.modules)))
        for kind in model.layer_kinds
    )
    return replace(model, layer_kinds=kinds)


def _refuse_olmo3(_facts: Facts, _label: Label) -> ModelArchitecture:
    """Refuse OLMo 3 with the Transformers of the release's day.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.25.1 `models/olmo2.py` Olmo2Attention; Transformers 5.13.0
    Olmo3Config, which keeps rope parameters by kind of layer.
    """
    raise Refused(
        "KeyError: 'rope_theta' (this release does not find it where Transformers "
        "5.13 and later keep it for OLMo 3; vLLM 0.26.0 does)"
    )


_READERS: dict[str, Callable[[Facts, Label], ModelArchitecture]] = {
    **{name: partial(_read_style, style=style) for name, style in _STYLES.items()},
    "FlexOlmoForCausalLM": _read_flex_olmo,
    "GPTBigCodeForCausalLM": _read_gpt_bigcode,
    "GPTNeoXForCausalLM": _read_gpt_neox,
    "HunYuanMoEV1ForCausalLM": _read_hunyuan_moe,
    "MellumForCausalLM": _read_mellum,
    "Olmo3ForCausalLM": _read_olmo3,
    "PhiForCausalLM": _read_phi,
}
_ENCODERS: dict[str, Any] = {**modernbert.READERS}
_MODERNBERT = tuple(name for name in _ENCODERS if "ModernBert" in name)
OLDER: dict[tuple[str, tuple[int, ...] | None], Callable[..., ModelArchitecture]] = {
    **{
        (name, (0, 29)): partial(_ENCODERS[name], is_divided=False)
        for name in _MODERNBERT
    },
    **{
        (name, BUILT_OTHERWISE[name][0].until): reader
        for name, reader in _READERS.items()
    },
    ("GPTBigCodeForCausalLM", (0, 27)): partial(read_gpt_bigcode, is_divided=False),
    ("Olmo3ForCausalLM", (0, 26)): _refuse_olmo3,
    ("Olmo3ForCausalLM", (0, 29)): _read_olmo3,
    ("Glm4vForConditionalGeneration", (0, 33)): partial(read_glm4v, is_flat_read=True),
    ("Ministral3ForCausalLM", (0, 20)): partial(
        llama.read, style=replace(LLAMA, is_transformers_backend=True)
    ),
    ("GlmMoeDsaForCausalLM", (0, 25)): deepseek.READERS["GlmMoeDsaForCausalLM"],
    ("GlmMoeDsaForCausalLM", (0, 26)): _read_glm_dsa,
}
"""By architecture, and the release before which it was built so."""
