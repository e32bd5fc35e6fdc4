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
from typing import Any, cast

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families import deepseek_v2, llama, modernbert
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    kv_of,
    norms,
)
from planner.models.families.decoders import LLAMA
from planner.models.families.facts import Facts
from planner.models.families.glm4_1v import read_glm4v
from planner.models.families.gpt2 import GPT2, inner_width
from planner.models.families.mixtures import ROWS as MIXTURES
from planner.models.families.registry import BUILT_OTHERWISE
from planner.models.families.rope import rope_cache, typed_ropes
from planner.models.families.styles import Experts, Style, unless_off
from planner.models.families.transformers import PLAIN, attention_in_full, multi_query
from planner.models.families.transformers import ROWS as LEFT
from planner.models.families.windows import typed_windows
from planner.models.layers import Module, Part, ReplicatedLinear


def _with_types(facts: Facts, shape: AttentionShape) -> AttentionShape:
    if not facts.value("layer_types") or not facts.value("mlp_layer_types"):
        raise facts.unsupported("layer_types", "it and mlp_layer_types are needed.")
    return shape


def _tables_by_type(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    return typed_ropes(
        facts, facts.value("layer_types"), shape.head_size, default_positions=8192
    )


def _own(name: str, **changes: Any) -> Style:  # noqa: ANN401 - fields of a style
    """Return the style of a class of vLLM's own from what Transformers' class has."""
    return replace(LEFT[name], **{"is_transformers_backend": False, **changes})


_OLMO2 = _own(
    "Olmo2ForCausalLM",
    qkv_bias=False,
    output_bias=False,
    placement=Placement.EVERYWHERE,
)
_STYLES: dict[str, Style] = {
    "ArceeForCausalLM": _own("ArceeForCausalLM"),
    "CwmForCausalLM": LLAMA,
    "GlmForCausalLM": _own("GlmForCausalLM"),
    "GPTBigCodeForCausalLM": replace(
        GPT2, fields={**GPT2.fields, "num_key_value_heads": multi_query}
    ),
    "GPTNeoXForCausalLM": _own("GPTNeoXForCausalLM", placement=Placement.EVERYWHERE),
    "HunYuanDenseV1ForCausalLM": _own(
        "HunYuanDenseV1ForCausalLM", qk_norm="use_qk_norm", mlp_bias="mlp_bias"
    ),
    "Jais2ForCausalLM": _own("Jais2ForCausalLM"),
    "MellumForCausalLM": Style(
        heads=_with_types,
        qkv_bias="attention_bias",
        qk_norm=True,
        windows=typed_windows,
        rope=_tables_by_type,
        experts=Experts(is_renormalized=unless_off("norm_topk_prob")),
        is_sparse=lambda facts, layer: (
            facts.value("mlp_layer_types")[layer] == "sparse"
        ),
    ),
    "OlmoForCausalLM": _own("OlmoForCausalLM", placement=Placement.EVERYWHERE),
    "Olmo2ForCausalLM": _OLMO2,
    # Windows have a table of their own.
    "Olmo3ForCausalLM": replace(_OLMO2, has_layer_windows=True, has_local_rope=True),
    "PhiForCausalLM": _own(
        "PhiForCausalLM",
        fields={"num_key_value_heads": None, "intermediate_size": inner_width},
        heads=None,
        lm_head_bias=True,
        placement=Placement.EVERYWHERE,
    ),
    "SeedOssForCausalLM": _own(
        "SeedOssForCausalLM", qkv_bias=True, output_bias=False, mlp_bias=False
    ),
    "Starcoder2ForCausalLM": _own(
        "Starcoder2ForCausalLM", placement=Placement.EVERYWHERE
    ),
}
"""As the class of their own built them.

Source: vLLM 0.25.1 `models/arcee.py`, `glm.py`, `hunyuan_v1.py`, `jais2.py`, `olmo.py`,
`olmo2.py` Olmo2Attention, `seed_oss.py`; 0.24.0 `models/starcoder2.py`,
`gpt_bigcode.py`; 0.28.0 `models/olmo3.py`; 0.31.0 `models/gpt_neox.py`, `phi.py`,
`mellum.py`, `registry.py` (CwmForCausalLM is LlamaForCausalLM).
"""


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
            (kv_of(shape),),
            (
                *attention(shape),
                norms(shape.hidden_size),
                *_hunyuan_experts(facts, layer),
            ),
        )
        for layer in range(facts.integer("num_hidden_layers"))
    )
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(shape.hidden_size, rope)
    return assemble(facts, label, frame, layers)


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


def _read_flex_olmo(facts: Facts, label: Label) -> ModelArchitecture:
    """Return FlexOlmo, whose experts no quantisation reached.

    Source: vLLM 0.28.0 `models/flex_olmo.py` FlexOlmoMoE.
    """

    def plain(module: Module) -> Module:
        if isinstance(module, FusedMoE):
            return replace(module, is_quantizable=False)
        return module

    return _with(plain, llama.read(facts, label, style=MIXTURES["OlmoeForCausalLM"]))


def _read_glm_dsa(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-5 with routers held in float32.

    Source: vLLM 0.25.1 `models/deepseek_v2.py` DeepseekV2MoE (params_dtype); gone in
    0.26.0.
    """

    def wide(module: Module) -> Module:
        if isinstance(module, ReplicatedLinear) and module.part is Part.ROUTER:
            return replace(module, dtype="float32")
        return module

    return _with(wide, _GLM_DSA(facts, label))


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


_READERS: dict[str, Reader] = {
    **{name: partial(llama.read, style=style) for name, style in _STYLES.items()},
    "FlexOlmoForCausalLM": _read_flex_olmo,
    "HunYuanMoEV1ForCausalLM": _read_hunyuan_moe,
}
_MODERNBERT = {
    name: partial(reader, is_divided=False)
    for name, reader in cast("dict[str, Any]", modernbert.READERS).items()
    if "ModernBert" in name
}
_GLM_DSA = deepseek_v2.READERS["GlmMoeDsaForCausalLM"]
OLDER: dict[tuple[str, tuple[int, ...] | None], Reader] = {
    **{(name, (0, 29)): reader for name, reader in _MODERNBERT.items()},
    **{
        (name, BUILT_OTHERWISE[name][0].until): reader
        for name, reader in _READERS.items()
    },
    ("GPTBigCodeForCausalLM", (0, 27)): partial(
        llama.read,
        style=replace(LEFT["GPTBigCodeForCausalLM"], attention=attention_in_full),
    ),
    ("Olmo3ForCausalLM", (0, 26)): _refuse_olmo3,
    ("Olmo3ForCausalLM", (0, 29)): _READERS["Olmo3ForCausalLM"],
    ("Glm4vForConditionalGeneration", (0, 33)): partial(read_glm4v, is_flat_read=True),
    ("Ministral3ForCausalLM", (0, 20)): partial(
        llama.read, style=replace(PLAIN, mlp_bias="mlp_bias", has_layer_windows=True)
    ),
    ("GlmMoeDsaForCausalLM", (0, 25)): _GLM_DSA,
    ("GlmMoeDsaForCausalLM", (0, 26)): _read_glm_dsa,
}
"""By architecture, and the release before which it was built so."""
