"""GGUF files: weights in ggml's blocks, a type for each tensor.

vLLM held the method itself up to 0.23; since then it comes with the package
vllm-gguf-plugin, whose weights are the same.

Source: vLLM 0.23.0 `layers/quantization/gguf.py` and `model_loader/gguf_loader.py`;
vllm-gguf-plugin 0.0.5 `quantization/` and `weights_adapter/default.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts.serving import served
from planner.models.quantization.interface import Context, Place, QuantizationConfig
from planner.models.sources.gguf import TYPES, Shapes, row_bytes
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsMethod,
    ExpertsOnRank,
    LinearMethod,
    LinearOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen

_PLAIN = ("F32", "F16", "BF16")
_NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}
_SUPPORTED = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_M", "IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
    *("IQ4_XS", "IQ4_NL"),
)
"""Source: vLLM 0.23.0 DEQUANT_TYPES."""

_LAYER = re.compile(r"(?:model\.)?layers\.(\d+)\.(.+)")
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
"""Names of a layer's modules, and GGUF's; source: gguf 0.19.0 `tensor_mapping.py`."""
_EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")


@frozen
class GGUFLinear:
    """Blocks of a type for each merged part, whose rows are padded to the longest.

    Types of IQ are unpacked before many tokens are multiplied by them.

    Source: vLLM 0.23.0 GGUFLinearMethod._create_padded_weight_param,
    _fused_mul_mat_gguf; `layers/vocab_parallel_embedding.py` weight_loader.
    """

    types: tuple[str, ...]

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return the weight, and the types of its parts, on a rank."""
        ranks = layout.tensor_parallel_size if on_rank.is_row_parallel else 1
        longest = max(row_bytes(kind, on_rank.input_size) for kind in self.types)
        rows = on_rank.output_partition_sizes
        unpacked = [
            count * on_rank.input_size_per_partition
            for kind, count in zip(self.types, rows, strict=False)
            if kind.startswith("IQ")
        ]
        size_bytes = sum(rows) * (longest // ranks)
        return (
            Tensor(size_bytes, "uint8", unpacked=max(unpacked, default=0)),
            Tensor(len(rows), "uint8"),
        )


@frozen
class GGUFExperts:
    """Blocks of a type for gate and up, and one for down.

    Source: vLLM 0.23.0 GGUFMoEMethod; `layers/fused_moe/layer.py` weight_loader.
    """

    gate: str
    down: str

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return w13, w2 and their types on a rank."""
        ranks = layout.experts_tensor_parallel_size
        w13 = on_rank.w13_rows * row_bytes(self.gate, on_rank.hidden_size)
        columns = row_bytes(self.down, on_rank.intermediate_size) // ranks
        return (
            *on_rank.each(w13, on_rank.hidden_size * columns, dtype="uint8"),
            *(Tensor(1, "uint8"),) * 2,
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        return served(on_rank, layout, ExpertsKernel.TRITON, workspace=None)


@frozen
class GGUFConfig(QuantizationConfig):
    """The types of a file's tensors."""

    tensors: Shapes = field(default_factory=dict)
    name: str = "gguf"

    def linear(self, place: Place) -> LinearMethod | None:
        """Hold a layer as the file does; floats in the model's dtype."""
        names = [_name(prefix) for prefix in place.shard_prefixes]
        merged = _name(place.prefix)
        if names[0] not in self.tensors and merged in self.tensors:
            names = [merged]
        return self._held(tuple(self._type(name, place) for name in names), place)

    def head(self, place: Place) -> LinearMethod | None:
        """Hold the LM head as the file does."""
        return self._held((self._type("output.weight", place),), place)

    def embedding(self, place: Place) -> LinearMethod | None:
        """Hold word embeddings as the file does."""
        return self._held((self._type("token_embd.weight", place),), place)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Hold routed experts as the file does.

        Raises:
            UnknownArchitecture: for gate and up of different types, or plain floats.
        """
        layer = _LAYER.match(place.prefix)
        number = layer[1] if layer else "?"
        gate, up, down = (
            self._type(f"blk.{number}.{name}.weight", place) for name in _EXPERTS
        )
        if gate != up or gate in _PLAIN or down in _PLAIN:
            raise UnknownArchitecture(
                f"{place.prefix}: experts of the types {gate}, {up} and {down} are not "
                "modelled: gate and up of one quantised type are."
            )
        _check_types((gate, down), place)
        return GGUFExperts(gate=gate, down=down)

    def _type(self, name: str, place: Place) -> str:
        if name not in self.tensors:
            raise UnknownArchitecture(
                f"{place.prefix} is not modelled in GGUF files: the file has no tensor "
                f"{name!r}."
            )
        return self.tensors[name][0]

    @staticmethod
    def _held(types: tuple[str, ...], place: Place) -> LinearMethod | None:
        plain = {kind in _PLAIN for kind in types}
        if plain == {True}:
            return None
        if len(plain) > 1:
            raise Refused(
                f"Detected some but not all shards of {place.prefix} are quantized. "
                "All shards of fused layers to have the same precision."
            )
        _check_types(types, place)
        return GGUFLinear(types=types)


def _check_types(types: tuple[str, ...], place: Place) -> None:
    """Refuse types that vLLM has no kernel for.

    Raises:
        Refused: in vLLM's words.
    """
    for kind in types:
        if kind not in _SUPPORTED:
            raise Refused(
                f"Unsupported GGUF quantization type {_NUMBERS[kind]} in layer "
                f"{place.prefix}."
            )


def _name(prefix: str) -> str:
    """Return the file's name of a layer's weight; the prefix where it has none."""
    layer = _LAYER.fullmatch(prefix)
    if layer is None or layer[2] not in _NAMES:
        return prefix
    return f"blk.{layer[1]}.{_NAMES[layer[2]]}.weight"


def read_gguf(given: Mapping[str, Any], context: Context) -> GGUFConfig:
    """Return the method of a GGUF file.

    Raises:
        UnknownArchitecture: for a model that is not read from one.
    """
    tensors = {} if context.files is None else context.files.gguf_tensors
    if not tensors:
        raise UnknownArchitecture(
            "quantization='gguf' needs a GGUF file: give its path, owner/name:Q4_K_M, "
            "or owner/name/file.gguf as the model."
        )
    return GGUFConfig(tensors=tensors)
