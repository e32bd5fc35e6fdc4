"""GPTQ checkpoints.

Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py`,
`layers/quantization/utils/gptq_utils.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change, RefusedSince
from planner.errors import Refused
from planner.models.quantization.experts.wna16 import GPTQExperts
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    flag,
    given_integer,
    required,
)
from planner.models.quantization.packed_ints import (
    in_order,
    is_marlin_group,
    order_of,
    repacked,
)
from planner.models.quantization.padding import Packing
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensors,
)
from planner.values import frozen

_WIDTHS = (4, 8)
_REFUSES_ORDER = Change(
    since=(0, 30),
    what=(
        "GPTQ weights in the order of activations (desc_act) are refused. Before, the "
        "order of the columns (g_idx) was held, needed or not."
    ),
    source=(
        "vLLM 0.25.1 and 0.30.0 `layers/quantization/auto_gptq.py` "
        "AutoGPTQLinearMethod.create_weights"
    ),
)
_NOT_SUPPORTED = "GPTQ group activation ordering (desc_act=True) is no longer supported"


@frozen
class GPTQLinear:
    """Integer weights with a scale for each group of columns.

    Symmetric: the published zero points are unused; only Machete keeps them.
    """

    packing: Packing
    desc_act: bool = False
    """Whether the columns are in the order of their activations."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales, unused zero points and order on a rank."""
        if self.desc_act:
            return in_order(self.packing, on_rank, layout)
        is_held = not layout.release.has(_REFUSES_ORDER)
        order = (order_of(on_rank),) if is_held else ()
        leftovers = (self.packing.zero_points(on_rank), *order)
        return repacked(self.packing, on_rank, layout, leftovers=leftovers)


@frozen
class Weights:
    """How some of a checkpoint's layers are quantised."""

    bits: int
    group_size: int
    is_sym: bool
    desc_act: bool = False
    """Whether the columns of a group are in the order of their activations."""

    def check(self) -> None:
        """Refuse weights that vLLM has no type for.

        Raises:
            Refused: in vLLM's words.
        """
        if self.bits not in _WIDTHS or not self.is_sym:
            raise Refused(
                f"Unsupported quantization config: bits={self.bits}, sym={self.is_sym}"
            )


@frozen
class Rule:
    """An exception of GPTQModel's `dynamic`, by regex of the layer's name."""

    pattern: re.Pattern[str]
    weights: Weights | None
    """None: not quantised."""


@frozen
class GPTQConfig(QuantizationConfig):
    """GPTQ as read from a checkpoint."""

    weights: Weights
    has_quantised_head: bool
    rules: tuple[Rule, ...] = ()
    quantised: tuple[str, ...] = ()
    """Parts of names of the layers that are quantised; empty: all."""
    name: str = "auto_gptq"
    refused_later: RefusedSince | None = None
    """Later releases' refusal of the order of the columns."""

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise the layers that are listed and have no exception."""
        weights = self._weights(place.prefix)
        if weights is None or not self._is_quantised(place):
            return None
        weights.check()
        if not is_marlin_group(weights.group_size):
            raise Refused(
                f"Marlin does not support group_size = {weights.group_size}. Only "
                "group_sizes = [-1, 32, 64, 128] are supported."
            )
        return GPTQLinear(
            packing=Packing(num_bits=weights.bits, group_size=weights.group_size),
            desc_act=weights.desc_act,
        )

    def head(self, place: Place) -> LinearMethod | None:
        """Quantise the LM head only where the checkpoint says so."""
        return self.linear(place) if self.has_quantised_head else None

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts that have no exception."""
        weights = self._weights(place.prefix)
        if weights is None:
            return None
        return GPTQExperts(
            num_bits=weights.bits,
            group_size=weights.group_size,
            desc_act=weights.desc_act,
            has_zero_points=not weights.is_sym,
        )

    def _weights(self, prefix: str) -> Weights | None:
        """Return the settings by the first rule that matches, None for none.

        Source: vLLM 0.33.0 get_dynamic_override.
        """
        for rule in self.rules:
            if rule.pattern.match(prefix):
                return rule.weights
        return self.weights

    def _is_quantised(self, place: Place) -> bool:
        """Whether a layer is quantised; source: vLLM 0.33.0 is_layer_gptq_quantized."""
        if not self.quantised:
            return True
        found = {
            any(name in prefix for name in self.quantised)
            for prefix in place.shard_prefixes
        }
        if len(found) > 1:
            raise Refused(
                f"Detected some but not all shards of {place.prefix} are quantized. "
                "All shards of fused layers to have the same precision."
            )
        return found.pop()


def read_gptq(given: Mapping[str, Any], context: Context) -> GPTQConfig:
    """Read `quantization_config` of a GPTQ checkpoint.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py` AutoGPTQConfig.
    """
    dynamic = given.get("dynamic") or {}
    weights = Weights(
        bits=given_integer(given, "bits"),
        group_size=given_integer(given, "group_size"),
        is_sym=bool(required(given, "sym")),
    )
    desc_act = bool(required(given, "desc_act"))
    weights = replace(weights, desc_act=desc_act and weights.group_size != -1)
    weights.check()
    quantised = given.get("modules_in_block_to_quantize") or []
    flat = [n for p in quantised for n in (p if isinstance(p, list) else [p])]
    return GPTQConfig(
        weights=weights,
        has_quantised_head=flag(given, "lm_head"),
        rules=tuple(
            _rule(pattern, change, weights) for pattern, change in dynamic.items()
        ),
        quantised=context.vllm_names(flat or sorted(context.quantised_layers())),
        refused_later=_refused_order(dynamic, weights.group_size, desc_act=desc_act),
    )


def _rule(pattern: str, change: Mapping[str, Any], weights: Weights) -> Rule:
    """Read a rule; "-:" before a pattern leaves layers out."""
    size = change.get("group_size", weights.group_size)
    changed = replace(
        weights,
        bits=change.get("bits", weights.bits),
        group_size=size,
        is_sym=change.get("sym", weights.is_sym),
        desc_act=bool(change.get("desc_act", weights.desc_act)) and size != -1,
    )
    return Rule(
        pattern=re.compile(pattern.removeprefix("-:").removeprefix("+:")),
        weights=None if pattern.startswith("-:") else changed,
    )


def _refused_order(
    dynamic: Mapping[str, Any], group_size: int, *, desc_act: bool
) -> RefusedSince | None:
    """Return the refusal of columns in the order of their activations.

    None for whole rows, and without such an order.

    Source: vLLM 0.33.0 normalize_and_validate_gptq_desc_act.
    """
    if desc_act and group_size != -1:
        return RefusedSince(
            f"{_NOT_SUPPORTED}. Use a checkpoint with static activation ordering or "
            "desc_act=False.",
            since=_REFUSES_ORDER,
        )
    for pattern, change in dynamic.items():
        if pattern.startswith("-:"):
            continue
        size = change.get("group_size", group_size)
        if change.get("desc_act", desc_act) and size != -1:
            return RefusedSince(
                f"{_NOT_SUPPORTED}, but is enabled by dynamic rule {pattern!r}. Use a "
                "checkpoint with static activation ordering or desc_act=False.",
                since=_REFUSES_ORDER,
            )
    return None
