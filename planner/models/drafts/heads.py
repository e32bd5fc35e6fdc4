"""Layers for multi-token prediction (MTP), which a model's own checkpoint contains.

Each is one more decoder layer of the target's kind, after a projection of the target's
hidden states; it shares the target's word embeddings and head. It is read as the target
would be with one more layer. LongCat-Flash's are of another kind than its own layers.

Source: vLLM 0.33.0, the modules that `head_shapes` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.drafts.head_shapes import SHAPES, HeadShape
from planner.models.drafts.longer import lengthened, with_pattern
from planner.models.drafts.methods import check_modelled, not_modelled, runs
from planner.models.families.assembly import Label
from planner.models.families.decoder import embeddings, gated_mlp, norms
from planner.models.families.facts import Facts, facts_for
from planner.models.families.mla import latent_attention, latent_shape, mla_layer
from planner.models.families.naming import with_names
from planner.models.families.registry import readers
from planner.models.files import ModelFiles
from planner.models.layers import ColumnParallelLinear, Module, prefixed
from planner.models.quantization import quantised

_PLAIN_FP4 = "modelopt_fp4"
"""The quantisation method that leaves the projection unquantised."""

_LEAVES_QWEN_PLAIN = Change(
    since=(0, 20),
    what=(
        "The projection before Qwen3.5's layers for multi-token prediction is not "
        "quantised to NVFP4 by ModelOpt's method."
    ),
)
_LEAVES_PLAIN = Change(
    since=(0, 22),
    what=(
        "The projection before layers for multi-token prediction, other than "
        "Qwen3.5's, is not quantised to NVFP4 by ModelOpt's method."
    ),
)
_SPARSE = "a model of sparse latent attention (index_topk)"
_RUNS_SPARSE = runs(
    "the layers for multi-token prediction of models with sparse latent attention",
    "0.30.0",
)
_ONE_HEAD = ("mimo_v2_mtp",)
_ONE_BY_DEFAULT = ("longcat_flash_mtp",)


def num_heads(kind: str, config: Mapping[str, Any]) -> int | None:
    """Return n_predict: how many layers for prediction the checkpoint says it has."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else config
    if kind == "qwen3_5_mtp":
        name = "mtp_num_hidden_layers"
        found = config.get(name, inner.get(name))
    elif kind == "minimax_m3_mtp":
        found = inner.get("num_mtp_modules", 1)
    elif kind == "glm5_next_mtp":
        found = inner.get("num_nextn_predict_layers")
    elif kind in _ONE_HEAD:
        return 1
    else:
        found = config.get("num_nextn_predict_layers")
        found = 1 if found is None and kind in _ONE_BY_DEFAULT else found
        if found is None and kind == "glm_ocr_mtp":
            found = inner.get("num_nextn_predict_layers")
    return found if isinstance(found, int) else None


def read_heads(
    kind: str, files: ModelFiles, requested_quantization: str | None, release: Release
) -> ModelArchitecture:
    """Return the layers for prediction as a model of their own.

    Raises:
        UnknownArchitecture: naming the family, or the field, that is not modelled.
    """
    shape = SHAPES.get(kind)
    if shape is None:
        raise not_modelled(kind, "layers of this family are not")
    what = f"layers for multi-token prediction ({kind})"
    check_modelled(shape.since, what, release)
    if files.config.get("index_topk") is not None:
        check_modelled(_RUNS_SPARSE, _SPARSE, release)
    count = num_heads(kind, files.config) or 1
    if kind == "nemotron_h_mtp":
        count, config = with_pattern(files.config, count)
        model = _read(files, config)
    elif kind in _REPLACED:
        model = _with_replaced_layers(kind, _read(files, dict(files.config)), files)
    else:
        model = _read(files, lengthened(kind, files.config, count))
    draft = _built(shape, model, files, count, has_plain_fc=False)
    found = quantised(draft, files, requested_quantization)
    leaves_plain = _LEAVES_QWEN_PLAIN if kind == "qwen3_5_mtp" else _LEAVES_PLAIN
    has_plain_fc = found.quantization == _PLAIN_FP4 and release.has(leaves_plain)
    if has_plain_fc:
        draft = _built(shape, model, files, count, has_plain_fc=True)
        found = quantised(draft, files, requested_quantization)
    if _leaves_heads_alone(files.config) and found.quantization is not None:
        raise UnknownArchitecture(
            "quantization_config.dynamic leaves layers for multi-token prediction "
            "alone, which is not modelled."
        )
    return found


_REPLACED = ("longcat_flash_mtp",)
"""Methods whose layers are of another kind than the target's."""


def _leaves_heads_alone(config: Mapping[str, Any]) -> bool:
    given = config.get("quantization_config")
    dynamic = given.get("dynamic") if isinstance(given, Mapping) else None
    return any(k.startswith("-:") and "mtp" in k for k in dynamic or ())


def _read(files: ModelFiles, config: dict[str, Any]) -> ModelArchitecture:
    """Return the lengthened target as its reader has it, without quantisation."""
    architecture = str(config["architectures"][0])
    label = Label(name=files.name, architecture=architecture, readers=readers())
    facts = facts_for(config, str(config.get("model_type", "")))
    return with_names(label.readers[architecture](facts, label))


def _with_replaced_layers(
    kind: str, target: ModelArchitecture, files: ModelFiles
) -> ModelArchitecture:
    """Return the target with one layer after its own that is of another kind.

    LongCat-Flash adds a layer of DeepSeek's without experts; its own have two
    attentions each.

    Source: vLLM 0.33.0 `models/longcat_flash_mtp.py` LongCatMultiTokenPredictorLayer.
    """
    assert kind in _REPLACED
    facts = Facts(files.config, str(files.config.get("model_type", "")))
    shape = latent_shape(facts)
    columns = facts.integer("ffn_hidden_size", "intermediate_size")
    layer = LayerKind(
        (mla_layer(shape),),
        (
            *latent_attention(shape, name="self_attn"),
            *gated_mlp(shape.hidden_size, columns),
            norms(shape.hidden_size),
        ),
    )
    kinds = (*target.layer_kinds, layer)
    return replace(target, layer_kinds=kinds, layers=(*target.layers, len(kinds) - 1))


def _built(
    shape: HeadShape,
    model: ModelArchitecture,
    files: ModelFiles,
    count: int,
    *,
    has_plain_fc: bool,
) -> ModelArchitecture:
    first = model.num_hidden_layers - count
    size = model.hidden_size
    modules: list[Module] = [
        replace(module, is_quantizable=False)
        if has_plain_fc and isinstance(module, ColumnParallelLinear)
        else module
        for module in shape.once(size)
    ]
    kinds = []
    for index in range(count):
        kind = model.layer_kinds[model.layers[first + index]]
        number = first + index if shape.is_numbered_on else index
        prefix = f"{shape.prefix}.{number}."
        own = tuple(
            _as_quantised(shape, module)
            for module in kind.modules
            if module.part not in shape.without
        )
        modules += prefixed((*shape.around(size), *own), prefix)
        kinds.append(LayerKind(kind.caches, ()))
    return replace(
        model,
        name=files.name,
        first_stage=(embeddings(model.vocab_size, size),)
        if shape.keeps_embeddings
        else (),
        last_stage=(*modules, *_tables(shape, model, first)),
        every_stage=(),
        tied_embeddings=(),
        layer_kinds=tuple(kinds),
        layers=tuple(range(count)),
        towers=(),
        deepstack_layers=0,
    )


def _tables(
    shape: HeadShape, model: ModelArchitecture, num_own: int
) -> tuple[Module, ...]:
    """Return the shared modules, such as tables, that the target does not already hold.

    `num_own` is the number of the target's layers; those that predict follow them.
    """
    kinds = [model.layer_kinds[kind] for kind in model.layers]
    held = {module for kind in kinds[:num_own] for module in kind.shared}
    found = {
        module: None
        for kind in kinds[num_own:]
        for module in kind.shared
        if module not in held
    }
    more = shape.tables(model) if shape.tables is not None else ()
    return (*found, *more)


def _as_quantised(shape: HeadShape, module: Module) -> Module:
    if module.name not in shape.plain:
        return module
    plain: Any = module
    changed: Module = replace(plain, is_quantizable=False)
    return changed
