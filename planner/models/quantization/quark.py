"""Checkpoints of AMD's Quark: `quant_method: quark`.

A setting for all layers, or for those that a pattern names: FP8, INT8, INT4, MXFP4,
MXFP8 and NVFP4.

Source: vLLM 0.33.0 `layers/quantization/quark/quark.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from fnmatch import fnmatch
from typing import Any

from planner.errors import Refused
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    listed,
)
from planner.models.quantization.linear_kernels import NvFp4Linear
from planner.models.quantization.matching import should_ignore
from planner.models.quantization.padding import Packing
from planner.models.quantization.quark_schemes import (
    FP8,
    QuarkInt4Linear,
    check_outputs,
    experts_of,
    fp8_linear,
    int8_linear,
    is_list,
    is_nvfp4,
    mx_linear,
    single,
)
from planner.models.tensors import ExpertsMethod, LinearMethod
from planner.values import frozen

_INT4 = ("int4", "uint4")
_PACKED = ("order", "reorder")


@frozen
class QuarkConfig(QuantizationConfig):
    """Quark as read from a checkpoint."""

    whole: Mapping[str, Any]
    """The setting of all layers that no pattern names."""
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    pack_method: str = "reorder"
    model_type: str = ""
    name: str = "quark"
    has_kv_scales: bool = True

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer that the list does not leave out."""
        if should_ignore(place, self.excluded):
            return None
        return self._scheme(self._setting(place))

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts, unless any of them is left out."""
        own = Place(prefix=place.prefix)
        below = f"{place.prefix}."
        if should_ignore(own, self.excluded) or any(
            name.startswith(below) for name in self.excluded
        ):
            return None
        return experts_of(self._setting(own))

    def _setting(self, place: Place) -> Mapping[str, Any]:
        """Return the setting of a layer.

        Raises:
            Refused: in vLLM's words, where packed layers differ.

        Source: vLLM 0.33.0 QuarkConfig._find_matched_config.
        """
        found = [self._named(prefix) for prefix in place.shard_prefixes]
        if any(setting != found[0] for setting in found):
            shards = list(place.shards)
            raise Refused(
                f"Found a different quantization configuration for {shards} in "
                f"{place.prefix}. vLLM requires all to use the same scheme."
            )
        return found[0]

    def _named(self, prefix: str) -> Mapping[str, Any]:
        for pattern, setting in self.patterns.items():
            if fnmatch(prefix, pattern) if "*" in pattern else prefix in pattern:
                return setting
        return self.whole

    def _scheme(self, setting: Mapping[str, Any]) -> LinearMethod:
        """Return how a linear layer is held.

        Raises:
            Refused: in vLLM's words.
            UnknownArchitecture: for what the planner does not model.

        Source: vLLM 0.33.0 QuarkConfig._get_scheme_cls_from_config.
        """
        check_outputs(setting)
        weight, inputs = setting.get("weight"), setting.get("input_tensors")
        if is_list(weight) or is_list(inputs):
            if is_nvfp4(weight, inputs):
                return NvFp4Linear()
            raise Refused(
                "Multi-entry weight or activation quantization configs are only "
                "supported for NVFP4."
            )
        weight, inputs = single(weight), single(inputs)
        made = (
            fp8_linear(weight, inputs, self.model_type)
            or int8_linear(weight, inputs)
            or self._int4(weight, inputs)
            or mx_linear(weight, inputs)
        )
        if made is None:
            raise Refused(
                "No quark compatible scheme was found. Weight config: "
                f"{weight}, Input config: {inputs}"
            )
        return made

    def _int4(
        self, weight: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> LinearMethod | None:
        is_packed = weight.get("dtype") in _INT4 and self.pack_method in _PACKED
        if inputs or not is_packed:
            return None
        size, is_symmetric = weight.get("group_size"), weight.get("symmetric")
        if not isinstance(size, int) or size <= 0:
            raise Refused(
                f"Quark W4A16 weight.group_size must be a positive int, got {size!r}"
            )
        return QuarkInt4Linear(
            packing=Packing(
                num_bits=4, group_size=size, has_zero_points=not is_symmetric
            )
        )


def read_quark(given: Mapping[str, Any], context: Context) -> QuarkConfig:
    """Read `quantization_config` of a Quark checkpoint.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 QuarkConfig.from_config.
    """
    export = given.get("export")
    if not isinstance(export, Mapping):
        raise Refused(
            "The export key should be included in the configurations of Quark "
            "quantized model"
        )
    patterns = {
        context.vllm_name(name): dict(setting)
        for name, setting in (given.get("layer_quant_config") or {}).items()
    }
    groups = export.get("kv_cache_group") or ()
    made = QuarkConfig(
        whole=given.get("global_quant_config") or {},
        patterns=patterns,
        excluded=context.vllm_names(listed(given, "exclude")),
        pack_method=str(export.get("pack_method") or ""),
        model_type=context.text_model_type,
    )
    return _without_cache(made, tuple(groups)) if groups else made


def _without_cache(config: QuarkConfig, groups: tuple[str, ...]) -> QuarkConfig:
    """Check the KV cache's setting, and take it from the layers that carry it.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 QuarkConfig.from_config, QuarkKVCacheMethod.
    """
    patterns = dict(config.patterns)
    found = [
        name
        for name in patterns
        if name in groups or any(fnmatch(name, group) for group in groups)
    ]
    if not found:
        raise Refused(
            "The Quark quantized model has the kv_cache_group parameter setting, but "
            "no kv_cache quantization settings were found in the quantization "
            "configuration."
        )
    cache = patterns[found[0]].get("output_tensors") or {}
    if cache.get("dtype") != FP8:
        raise Refused(
            "Currently supported kv cache quantization is dtype=fp8_e4m3, however "
            f"received {cache.get('dtype')}"
        )
    for name in (*found, *({"*q_proj"} & patterns.keys())):
        patterns[name] = {**patterns[name], "output_tensors": None}
    return replace(config, patterns=patterns)
