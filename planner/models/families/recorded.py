"""Models that are known from a recording: as vLLM built them, module by module.

A tensor's size with one rank and with two tells which part of it is cut; the classes of
its module tell how many ways (KV heads are repeated, experts go to other ranks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.engine.dtypes import ELEMENT_BYTES
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer, CacheLayer, MLALayer
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.facts import facts_for
from planner.models.files import ModelFiles
from planner.models.layers import Module, Part
from planner.models.recordings import Recording
from planner.models.states import RecordedState
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_EXPERTS = ("FusedMoE", "RoutedExperts")
_TWO = 2
_PARTS = (
    (("visual", "vision", "audio", "image", "patch"), Part.TOWERS),
    (("embed", "wte", "wpe"), Part.EMBEDDINGS),
    (("lm_head", "output_layer"), Part.LM_HEAD),
    (("shared_expert",), Part.SHARED_EXPERTS),
    (("experts",), Part.EXPERTS),
    (("router", ".gate."), Part.ROUTER),
    (("norm",), Part.NORMS),
    (("rotary", "cos_sin"), Part.BUFFERS),
    (("mixer", "mamba", "conv", "linear_attn", "ssm"), Part.MIXERS),
    (("attn", "attention", "qkv", "kv_", "q_"), Part.ATTENTION),
)
_PARAMETERS_FIRST = ("embed", "wte", "wpe", "visual", "vision", "audio", "image")


@frozen
class RecordedTensor:
    """A tensor's bytes: a part that every rank holds, and one that is cut."""

    whole_bytes: int
    cut_bytes: int
    dtype: str | None = None
    """None: the model's dtype; else it keeps this one."""


@frozen
class RecordedModule:
    """A module whose tensors were recorded."""

    name: str
    part: Part
    held: tuple[RecordedTensor, ...]
    is_expert: bool = False
    kv_heads: int = 0
    """KV heads among the heads of a merged projection; 0: there are none."""
    num_heads: int = 0
    output_sizes: tuple[int, ...] = ()
    """Outputs of a linear layer that is cut along them: several where it is merged."""
    input_size: int = 0
    """Inputs of a linear layer that is cut along them."""
    recorded_ranks: int = 0
    """Ranks of the only recording; 0: it was recorded with one and with two."""

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return each tensor on a rank.

        Raises:
            UnknownArchitecture: for ranks that were not recorded, where only the
                recorded ones are known.
        """
        ranks = layout.tensor_parallel_size
        if self.recorded_ranks and ranks != self.recorded_ranks:
            raise UnknownArchitecture(
                f"This model is known from a dry run with tensor_parallel_size="
                f"{self.recorded_ranks}, not {ranks}: `planner record` asks vLLM for "
                "all of them."
            )
        if self.is_expert and layout.enable_expert_parallel:
            ranks *= layout.data_parallel_size
        return tuple(self._on_rank(tensor, ranks) for tensor in self.held)

    def _on_rank(self, tensor: RecordedTensor, ranks: int) -> Tensor:
        cut = self._share(tensor.cut_bytes, ranks)
        return _tensor(tensor.whole_bytes + cut, tensor.dtype)

    def _share(self, cut_bytes: int, ranks: int) -> int:
        if self.recorded_ranks:
            return cut_bytes
        if not self.kv_heads or ranks <= self.kv_heads:
            return -(-cut_bytes // ranks)
        # KV heads are repeated where there are fewer of them than ranks.
        rows = self.num_heads + _TWO * self.kv_heads
        held = self.num_heads // ranks + _TWO
        return cut_bytes * held // rows


def _tensor(size_bytes: int, dtype: str | None) -> Tensor:
    element = 1 if dtype is None else ELEMENT_BYTES.get(dtype, 1)
    known = dtype if dtype in ELEMENT_BYTES else "uint8"
    return Tensor(size_bytes // element, known)


def read_recorded(files: ModelFiles, recording: Recording) -> ModelArchitecture:
    """Return the model of a recording.

    Raises:
        UnknownArchitecture: for a cache that the planner does not plan.
    """
    return architecture_of(
        files,
        recording.whole,
        recording.halved,
        source=f"recorded from vLLM {recording.vllm_version}, {recording.date}",
    )


def check_recorded_as(recording: Recording, quantization: str | None) -> None:
    """Check that a recording has the quantisation that is asked for.

    Args:
        recording: of the model.
        quantization: the engine argument; None: as the checkpoint has it.

    Raises:
        UnknownArchitecture: for another one, whose tensors it does not hold.
    """
    held = recording.whole["model"]["quantization"]
    if quantization not in (None, held):
        raise UnknownArchitecture(
            f"quantization={quantization!r} is not modelled for {recording.model}, "
            f"which is known from a recording (quantization={held!r}): leave it out, "
            "or ask vLLM: `planner dry-run`."
        )


def architecture_of(
    files: ModelFiles,
    whole: Mapping[str, Any],
    halved: Mapping[str, Any] | None,
    *,
    source: str,
) -> ModelArchitecture:
    """Return the model that vLLM built, from its modules with one rank and with two.

    With `halved` None only the layout that `whole` was built with can be planned.
    """
    model = whole["model"]
    ranks = 0 if halved is not None else int(model["tensor_parallel_size"])
    cutter = _Cutter(halved, ranks)
    lists = [name for name in whole["layers"] if _has_caches(name, whole)]
    layers, stray = _body(whole, lists, cutter)
    outside = [*whole["outside"], *stray]
    modules = [cutter.module("", entry) for entry in outside if entry["tensors"]]
    first = tuple(one for one in modules if _is_first(one.name))
    last = tuple(one for one in modules if not _is_first(one.name))
    facts = facts_for(dict(_text(files.config)), str(model["model_type"]))
    found = assemble(
        facts,
        Label(name=files.name, architecture=str(model["architecture"])),
        Frame(
            int(model["hidden_size"] or 0),
            vocab_size=int(model["vocab_size"] or 0),
            final_norm=(),
        ),
        layers,
        first_stage=first,
        last_stage=last,
        tied_embeddings=(),
        config_dtype=str(model["dtype"]),
        model_type=str(model["model_type"]),
        quantization=model["quantization"],
        num_experts=int(model["num_experts"] or 0),
        is_pooling=model["runner_type"] == "pooling",
    )
    return replace(
        found,
        source=source,
        is_certain=files.is_certain,
        shape_of=files.shape_of,
    )


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the language model's part of a config.json, where it has parts."""
    for name in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(name), Mapping):
            return {**config, **config[name]}
    return config


class _Cutter:
    """Finds which part of a tensor is cut, from the recording with two ranks."""

    def __init__(self, halved: Mapping[str, Any] | None, ranks: int) -> None:
        self._halved = {} if halved is None else dict(_sizes(halved))
        self._ranks = ranks

    def module(self, prefix: str, entry: Mapping[str, Any]) -> RecordedModule:
        name = str(entry["name"])
        sizes = entry.get("sizes", {})
        is_qkv = entry["kind"] == "QKVParallelLinear"
        return RecordedModule(
            name=name,
            part=_part(f"{prefix}.{name}"),
            held=tuple(
                self._tensor(f"{prefix}.{name}", tensor) for tensor in entry["tensors"]
            ),
            is_expert=entry["kind"] in _EXPERTS,
            kv_heads=int(sizes.get("total_num_kv_heads", 0)) if is_qkv else 0,
            num_heads=int(sizes.get("total_num_heads", 0)) if is_qkv else 0,
            output_sizes=_outputs(entry),
            input_size=_inputs(entry),
            recorded_ranks=self._ranks,
        )

    def _tensor(self, path: str, tensor: Sequence[Any]) -> RecordedTensor:
        name, _shape, dtype, size_bytes = tensor
        half = self._halved.get(f"{path}.{name}", size_bytes)
        cut = min(2 * (size_bytes - half), size_bytes)
        return RecordedTensor(
            whole_bytes=size_bytes - cut, cut_bytes=cut, dtype=str(dtype)
        )


def _outputs(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the outputs of a column-parallel layer; gate and up where it is merged."""
    if entry["kind"] != "ColumnParallelLinear":
        return ()
    size = int(entry.get("sizes", {}).get("output_size", 0))
    return (size // _TWO,) * _TWO if "Merged" in entry["class"] else (size,)


def _inputs(entry: Mapping[str, Any]) -> int:
    is_row = entry["kind"] == "RowParallelLinear"
    return int(entry.get("sizes", {}).get("input_size", 0)) if is_row else 0


def _sizes(tree: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the full name of each tensor with its bytes."""
    for entry in tree["outside"]:
        yield from _named("", entry)
    for prefix, one in tree["layers"].items():
        for number, kind in one["layers"].items():
            for entry in one["kinds"][kind]:
                yield from _named(f"{prefix}.{number}", entry)


def _named(prefix: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, _shape, _dtype, size_bytes in entry["tensors"]:
        yield f"{prefix}.{entry['name']}.{name}", int(size_bytes)


def _has_caches(prefix: str, whole: Mapping[str, Any]) -> bool:
    """Whether a list of layers is that of the decoder: its layers keep something."""
    return any(name.startswith(f"{prefix}.") for name in whole["caches"]["layers"])


def _specs(whole: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the KV cache specification of each layer, by its name."""
    kinds = whole["caches"]["kinds"]
    for name, kind in whole["caches"]["layers"].items():
        yield name, kinds[kind]


def _body(
    whole: Mapping[str, Any], lists: Sequence[str], cutter: _Cutter
) -> tuple[list[LayerKind], list[dict[str, Any]]]:
    """Return the decoder's layers, and the entries of all other lists."""
    layers: list[LayerKind] = []
    stray: list[dict[str, Any]] = []
    for prefix, one in whole["layers"].items():
        for number, kind in one["layers"].items():
            path = f"{prefix}.{number}"
            entries = one["kinds"][kind]
            if prefix in lists:
                layers.append(_layer(path, entries, whole, cutter))
            else:
                stray += [{**e, "name": f"{path}.{e['name']}"} for e in entries]
    return layers, stray


def _layer(
    path: str,
    entries: Sequence[Mapping[str, Any]],
    whole: Mapping[str, Any],
    cutter: _Cutter,
) -> LayerKind:
    modules: list[Module] = [cutter.module(path, e) for e in entries if e["tensors"]]
    by_name = {f"{path}.{entry['name']}": entry for entry in entries}
    caches = [
        _cache(by_name.get(name, {}), spec, whole["model"])
        for name, spec in _specs(whole)
        if name.startswith(f"{path}.")
    ]
    return LayerKind(tuple(caches), tuple(modules))


def _cache(
    entry: Mapping[str, Any], spec: Mapping[str, Any], model: Mapping[str, Any]
) -> CacheLayer:
    """Return the cache of a layer, for all ranks together."""
    kind, ranks = spec["kind"], int(model["tensor_parallel_size"])
    attention = entry.get("attention", {})
    if kind == "MambaSpec":
        return _state(spec, ranks)
    if kind == "MLAAttentionSpec" and "kv_lora_rank" in attention:
        sizes = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return MLALayer(
            num_heads=int(attention["num_heads"]) * ranks,
            **{name: int(attention[name]) for name in sizes},  # type: ignore[arg-type]
        )
    if kind in ("FullAttentionSpec", "SlidingWindowSpec"):
        kv_heads = int(model["num_kv_heads"] or spec["num_kv_heads"])
        is_own = int(spec["num_kv_heads"]) * ranks >= kv_heads
        window = spec.get("sliding_window")
        return AttentionLayer(
            num_heads=int(attention.get("num_heads") or spec["num_kv_heads"]) * ranks,
            num_kv_heads=int(spec["num_kv_heads"]) * ranks if is_own else kv_heads,
            head_size=int(spec["head_size"]),
            head_size_v=_other(spec.get("head_size_v"), spec["head_size"]),
            sliding_window=None if window is None else int(window),
            has_sinks=bool(attention.get("has_sink")),
        )
    raise UnknownArchitecture(
        f"vLLM keeps a {kind} in this model, which a recording does not describe. A "
        "dry run answers for each start by itself: `planner dry-run`."
    )


def _other(value: object, head_size: object) -> int | None:
    return None if value in (None, head_size) else int(str(value))


def _state(spec: Mapping[str, Any], ranks: int) -> RecordedState:
    return RecordedState(
        sizes=tuple(int(size) * ranks for size in spec["state_sizes"]),
        recurrent_dtype=str(spec["state_dtypes"][-1]),
    )


def _part(path: str) -> Part:
    name = f"{path.lower()}."
    return next(
        (part for words, part in _PARTS if any(word in name for word in words)),
        Part.MLP,
    )


def _is_first(name: str) -> bool:
    return any(word in name.lower() for word in _PARAMETERS_FIRST)
