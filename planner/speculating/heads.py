"""Layers for multi-token prediction, which a model's own checkpoint brings along.

Each is one more decoder layer of the target's kind behind a projection of what the
target saw; word embeddings and head are the target's own. It is read as the target
would be with one more layer.

Source: vLLM 0.33.0 `models/deepseek_mtp.py`, `glm4_moe_mtp.py`, `glm4_moe_lite_mtp.py`,
`qwen3_next_mtp.py`, `qwen3_5_mtp.py`, `mimo_mtp.py`, `nemotron_h_mtp.py`;
`vllm/models/deepseek_v32/nvidia/mtp.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from planner.architectures.assembly import Label
from planner.architectures.decoder import embeddings
from planner.architectures.facts import Facts
from planner.architectures.naming import with_names
from planner.architectures.registry import facts_for, readers
from planner.errors import UnknownArchitecture
from planner.layers import ColumnParallelLinear, Module, Part, Replicated
from planner.model import LayerKind, ModelArchitecture
from planner.model_files import ModelFiles
from planner.quantization import quantised
from planner.releases import Release
from planner.speculating.methods import not_modelled

_PLAIN_FP4 = "modelopt_fp4"
_FULL = "full_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """What surrounds the decoder layer of one family."""

    prefix: str
    """vLLM's name of the list of layers."""
    is_numbered_on: bool
    """Whether its layers are numbered after the target's, not from nothing."""
    around: Callable[[int], tuple[Module, ...]]
    """Norms and projection, each layer its own, by the hidden size."""
    once: Callable[[int], tuple[Module, ...]]
    """The same, once for all layers."""
    keeps_embeddings: bool = True
    """Whether a stage apart from the word embeddings holds them for the draft."""


def _norms(hidden_size: int, count: int) -> Replicated:
    return Replicated(name="norms", part=Part.NORMS, shapes=((hidden_size,),) * count)


def _projected(hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a plain projection that nobody quantises."""
    return (
        _norms(hidden_size, 3),
        Replicated(
            name="eh_proj", part=Part.MLP, shapes=((hidden_size, 2 * hidden_size),)
        ),
    )


def _joined(name: str, hidden_size: int) -> tuple[Module, ...]:
    """Three norms, and a projection of token and state that ranks share."""
    return (
        _norms(hidden_size, 3),
        ColumnParallelLinear(
            name=name,
            part=Part.MLP,
            input_size=2 * hidden_size,
            output_sizes=(hidden_size,),
        ),
    )


def _nothing(_hidden_size: int) -> tuple[Module, ...]:
    return ()


_NUMBERED = HeadShape(
    prefix="model.layers", is_numbered_on=True, around=_projected, once=_nothing
)
_QWEN = HeadShape(
    prefix="mtp.layers",
    is_numbered_on=False,
    around=_nothing,
    once=partial(_joined, "mtp.fc"),
)
_NEMOTRON = HeadShape(
    prefix="mtp.layers",
    is_numbered_on=False,
    around=_nothing,
    once=partial(_joined, "mtp.layers.0.eh_proj"),
    keeps_embeddings=False,
)
SHAPES: Mapping[str, HeadShape] = {
    "deepseek_mtp": _NUMBERED,
    "glm4_moe_mtp": _NUMBERED,
    "glm4_moe_lite_mtp": _NUMBERED,
    "mimo_mtp": _NUMBERED,
    "qwen3_next_mtp": _QWEN,
    "qwen3_5_mtp": _QWEN,
    "nemotron_h_mtp": _NEMOTRON,
}
_FIRST_MODELLED = (0, 18, 0)


def num_heads(kind: str, config: Mapping[str, Any]) -> int | None:
    """Return n_predict: how many layers for prediction the checkpoint says it has."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else config
    if kind == "qwen3_5_mtp":
        name = "mtp_num_hidden_layers"
        found = config.get(name, inner.get(name))
    else:
        found = config.get("num_nextn_predict_layers")
    return found if isinstance(found, int) else None


def read_heads(
    kind: str, files: ModelFiles, asked_quantization: str | None, release: Release
) -> ModelArchitecture:
    """Return the layers for prediction as a model of their own.

    Raises:
        UnknownArchitecture: naming the family, or the field, that is not modelled.
    """
    shape = SHAPES.get(kind)
    if shape is None:
        raise not_modelled(kind, "layers of this family are not")
    if not release.since(*_FIRST_MODELLED):
        raise UnknownArchitecture(
            "speculative_config with layers for multi-token prediction is not modelled "
            "for vLLM before 0.18.0."
        )
    if files.config.get("index_topk") is not None and not release.since(0, 30):
        raise UnknownArchitecture(
            "speculative_config with a model of sparse latent attention (index_topk) "
            "is not modelled for vLLM before 0.30.0."
        )
    count = num_heads(kind, files.config) or 1
    if kind == "nemotron_h_mtp":
        count, config = _with_pattern(files.config, count)
    else:
        config = _lengthened(kind, files.config, count)
    model = _read(files, config)
    draft = _built(shape, model, files, count, has_plain_fc=False)
    found = quantised(draft, files, asked_quantization)
    has_plain_fc = found.quantization == _PLAIN_FP4 and (
        release.since(0, 20) if kind == "qwen3_5_mtp" else release.since(0, 22)
    )
    if has_plain_fc:
        draft = _built(shape, model, files, count, has_plain_fc=True)
        found = quantised(draft, files, asked_quantization)
    if _leaves_heads_alone(files.config) and found.quantization is not None:
        raise UnknownArchitecture(
            "quantization_config.dynamic leaves layers for multi-token prediction "
            "alone, which is not modelled."
        )
    return found


def _leaves_heads_alone(config: Mapping[str, Any]) -> bool:
    given = config.get("quantization_config")
    dynamic = given.get("dynamic") if isinstance(given, Mapping) else None
    return any(k.startswith("-:") and "mtp" in k for k in dynamic or ())


def _lengthened(kind: str, config: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the config of the target with as many more layers."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        return {**config, "text_config": _lengthened(kind, text, count)}
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise UnknownArchitecture(
            "speculative_config with a model of which some layers have no experts "
            "(decoder_sparse_step, mlp_only_layers) is not modelled yet."
        )
    layers = Facts(config, str(config.get("model_type", ""))).integer(
        "num_hidden_layers"
    )
    changed = {**config, "num_hidden_layers": layers + count}
    types = config.get("layer_types")
    if types is not None:
        changed["layer_types"] = [*types[:layers], *(_FULL,) * count]
    elif kind in ("qwen3_next_mtp", "qwen3_5_mtp"):
        step = config.get("full_attention_interval") or 4
        types = [
            "linear_attention" if (layer + 1) % step else _FULL
            for layer in range(layers)
        ]
        changed["layer_types"] = [*types, *(_FULL,) * count]
    return changed


def _with_pattern(config: Mapping[str, Any], count: int) -> tuple[int, dict[str, Any]]:
    """Return Nemotron-H with the layers that its pattern for prediction names.

    Source: vLLM 0.33.0 `models/nemotron_h_mtp.py` NemotronHMultiTokenPredictor.
    """
    own = config.get("mtp_hybrid_override_pattern")
    pattern = config.get("hybrid_override_pattern")
    is_known = isinstance(own, str) and own and set(own) <= set("*E") and count == 1
    if not (is_known and isinstance(pattern, str) and not config.get("layer_types")):
        raise UnknownArchitecture(
            "speculative_config with mtp_hybrid_override_pattern="
            f"{own!r} is not modelled: one head of attention and experts is."
        )
    assert isinstance(own, str)
    return len(own), {**config, "hybrid_override_pattern": pattern + own}


def _read(files: ModelFiles, config: dict[str, Any]) -> ModelArchitecture:
    """Return the lengthened target as its reader has it, without quantisation."""
    architecture = str(config["architectures"][0])
    reader = readers()[architecture]
    model_type = str(config.get("model_type", ""))
    label = Label(name=files.name, architecture=architecture)
    return with_names(reader(facts_for(config, model_type), label))


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
        prefix = f"{shape.prefix}.{number}"
        modules += _renamed((*shape.around(size), *kind.modules), prefix)
        kinds.append(LayerKind(caches=kind.caches, modules=()))
    return replace(
        model,
        name=files.name,
        first_stage=(embeddings(model.vocab_size, size),)
        if shape.keeps_embeddings
        else (),
        last_stage=tuple(modules),
        every_stage=(),
        tied_embeddings=(),
        layer_kinds=tuple(kinds),
        layers=tuple(range(count)),
        towers=(),
        deepstack_layers=0,
    )


def _renamed(modules: tuple[Module, ...], prefix: str) -> tuple[Module, ...]:
    found = []
    for module in modules:
        named: Any = module
        renamed: Module = replace(named, name=f"{prefix}.{module.name}")
        found.append(renamed)
    return tuple(found)
