"""Checkpoints of llm-compressor: `quant_method: compressed-tensors`.

Groups of layers, named by their class, their name or a regex, each have a scheme.

Source: vLLM 0.33.0 `layers/quantization/compressed_tensors/compressed_tensors.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.releases.change import Change, RefusedSince
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.compressed_args import Args, Scheme, read_args
from planner.models.quantization.compressed_experts import (
    USUAL_NAMES,
    UsuallyNamedExperts,
    experts_of,
)
from planner.models.quantization.compressed_schemes import (
    Fp8Linear,
    Int8Linear,
    PackedEmbedding,
    PackedLinear,
    W4A8Fp8Linear,
)
from planner.models.quantization.fp8_kernels import BLOCK
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    listed,
)
from planner.models.quantization.linear_kernels import (
    Mxfp4Linear,
    Mxfp8Linear,
    NvFp4Linear,
)
from planner.models.quantization.matching import matched_target, should_ignore
from planner.models.quantization.padding import Packing
from planner.models.tensors import ExpertsMethod, LinearMethod
from planner.values import frozen

_REFUSES_ORDER = Change(
    since=(0, 30),
    what=(
        "Weights of compressed-tensors in the order of activations (actorder group or "
        "dynamic) are refused."
    ),
)
_PACKED = "pack-quantized"
_WIDTHS = range(2, 9)


@frozen
class CompressedTensorsConfig(QuantizationConfig):
    """compressed-tensors as read from a checkpoint."""

    schemes: tuple[tuple[str, Scheme], ...]
    """A target (class, name or regex) and its scheme."""
    ignored: tuple[str, ...]
    model_type: str
    name: str = "compressed-tensors"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise the layers that a target names and the list does not leave out."""
        scheme = self._scheme(place, "Linear")
        if scheme is None:
            return None
        return linear_of(scheme, place.prefix, self.model_type)

    def head(self, place: Place) -> LinearMethod | None:
        """Quantise the LM head where a target names it, which "Linear" does not."""
        try:
            scheme = self._scheme(place, "ParallelLMHead")
        except Refused:
            return None
        if scheme is None:
            return None
        return linear_of(scheme, place.prefix, self.model_type)

    def embedding(self, place: Place) -> LinearMethod | None:
        """Quantise word embeddings where a target names them."""
        scheme = self._scheme(place, "VocabParallelEmbedding")
        if scheme is None:
            return None
        weights = scheme.weights
        if not (weights.is_grouped and weights.is_int):
            raise Refused(
                "compressed-tensors embeddings only support weight-only INT "
                f"group/channel (WNA16) quantization, got: {weights}"
            )
        return PackedEmbedding(packing=_packing(weights))

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts, whose three layers must have one scheme.

        Source: vLLM 0.33.0 CompressedTensorsMoEMethod.get_moe_method.
        """
        scheme = self._scheme_of_experts(place)
        if scheme is not None:
            return experts_of(scheme, self.model_type)
        usual = self._scheme_of_experts(replace(place, projections=USUAL_NAMES))
        if usual is None:
            return None
        return UsuallyNamedExperts(
            method=experts_of(usual, self.model_type), names=place.projections
        )

    def _scheme_of_experts(self, place: Place) -> Scheme | None:
        found = [
            self._scheme(Place(prefix=prefix), "RoutedExperts")
            for prefix in place.projection_prefixes
        ]
        if any(scheme != found[0] for scheme in found):
            raise Refused(
                "All MoE projections need to have same quantization scheme but found "
                "multiple"
            )
        return found[0]

    def _scheme(self, place: Place, class_name: str) -> Scheme | None:
        if should_ignore(place, self.ignored):
            return None
        targets = [target for target, _ in self.schemes]
        target = matched_target(place, class_name, targets)
        if target is None and class_name == "RoutedExperts":
            # A target "Linear" means the layers that experts are made of as well.
            target = "Linear" if "Linear" in targets else None
        return None if target is None else dict(self.schemes)[target]


def read_compressed_tensors(
    given: Mapping[str, Any], context: Context
) -> CompressedTensorsConfig:
    """Read `quantization_config` of a compressed-tensors checkpoint.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for transforms of activations.

    Source: vLLM 0.33.0 CompressedTensorsConfig.from_config.
    """
    _check_transforms(given.get("transform_config"))
    groups = given.get("config_groups") or {}
    schemes: dict[str, Scheme] = {}
    for group in groups.values():
        targets = group["targets"]
        if len(targets) == 1 and targets[0].endswith("Attention"):
            continue  # vLLM quantises only the cache of attention
        scheme = _read_group(group, given.get("format"))
        for target in targets:
            schemes[_vllm_target(target, context)] = scheme
    if (given.get("sparsity_config") or {}).get("targets"):
        raise Refused(
            "Sparsity support has been removed from compressed-tensors. Please use a "
            "model without sparsity configuration."
        )
    cache = given.get("kv_cache_scheme")
    _check_cache(cache)
    return CompressedTensorsConfig(
        schemes=tuple(schemes.items()),
        ignored=tuple(_vllm_target(name, context) for name in listed(given, "ignore")),
        model_type=context.text_model_type,
        kv_cache_dtype="fp8" if cache else None,
        has_kv_scales=bool(cache),
    )


def _check_transforms(given: Mapping[str, Any] | None) -> None:
    """Refuse transforms that are computed while serving; others are in the weights.

    Source: vLLM 0.33.0 `compressed_tensors/transform/linear.py`
    get_linear_transform_schemes; compressed-tensors TransformLocation.is_online.
    """
    groups = ((given or {}).get("config_groups") or {}).values()
    applied = [args for group in groups for args in group.get("apply") or [{}]]
    places = {args.get("location") for args in applied}
    if places - {"weight_input", "weight_output"}:
        raise UnknownArchitecture(
            "quantization_config.transform_config: transforms of activations are not "
            "modelled."
        )


def _vllm_target(target: str, context: Context) -> str:
    """Return vLLM's name; classes and regexes stay as they are.

    Source: vLLM 0.33.0 CompressedTensorsConfig.apply_vllm_mapper.
    """
    is_path = "." in target and not target.startswith("re:")
    return context.vllm_name(target) if is_path else target


def _read_group(group: Mapping[str, Any], whole: str | None) -> Scheme:
    """Read a group; `whole` is the format of the checkpoint.

    Raises:
        Refused: for columns in the order of their activations.
    """
    order = (group.get("weights") or {}).get("actorder")
    if isinstance(order, bool):
        order = "group" if order else None
    if order in ("group", "dynamic"):
        raise RefusedSince(
            "Compressed-tensors group/dynamic activation ordering "
            f"(actorder={order!r}) is no longer supported. Use a checkpoint with "
            "static/weight activation ordering or without activation ordering.",
            since=_REFUSES_ORDER,
        )
    weights = read_args(group.get("weights"))
    if weights is None:
        raise UnknownArchitecture(
            "quantization_config.config_groups: a group without weights."
        )
    return Scheme(
        weights=weights,
        inputs=read_args(group.get("input_activations")),
        outputs=read_args(group.get("output_activations")),
        format=group.get("format") or whole,
    )


def _check_cache(scheme: Mapping[str, Any] | None) -> None:
    """Refuse KV caches other than FP8.

    Source: vLLM 0.33.0 CompressedTensorsKVCacheMethod.validate_kv_cache_scheme.
    """
    if not scheme:
        return
    kind, bits = scheme.get("type"), scheme.get("num_bits")
    if kind != "float" or bits != 8:  # noqa: PLR2004 - bits
        raise Refused(
            "Currently supported kv cache quantization is num_bits=8, type=float, "
            f"however received num_bits={bits}, type={kind}"
        )
    if not scheme.get("symmetric"):
        raise Refused(
            "Only support symmetric scaling factor for compressed-tensors KV cache. "
            f"However found symmetric: {scheme.get('symmetric')}"
        )


def _packing(weights: Args) -> Packing:
    return Packing(
        num_bits=weights.num_bits,
        group_size=-1 if weights.group_size is None else weights.group_size,
        has_zero_points=not weights.is_symmetric,
    )


def linear_of(scheme: Scheme, layer: str, model_type: str) -> LinearMethod:
    """Return how a linear layer of a scheme is held.

    Raises:
        Refused: in vLLM's words, for what it does not know.
        UnknownArchitecture: for what the planner does not.

    Source: vLLM 0.33.0 CompressedTensorsConfig._get_scheme_from_parts.
    """
    return (
        _few_bits(scheme)
        or _ints(scheme, layer)
        or _eight_bits(scheme, model_type)
        or _unsupported(scheme, layer)
    )


def _few_bits(scheme: Scheme) -> LinearMethod | None:
    """Return how floats with scales for few columns are held, None for others."""
    weights, inputs = scheme.weights, scheme.inputs
    if weights.is_nvfp4:
        if inputs is not None and not inputs.is_nvfp4:
            raise Refused(
                "For NVFP4 weights, input quantization must also be NVFP4 format, None "
                "for NVFP4A16"
            )
        return NvFp4Linear(has_input_scale=inputs is not None)
    if weights.is_mxfp4 and (inputs is None or inputs.is_mxfp4):
        return Mxfp4Linear()
    return Mxfp8Linear() if weights.is_mxfp8 else None


def _ints(scheme: Scheme, layer: str) -> LinearMethod | None:
    """Return how packed integers are held, None for anything else."""
    if scheme.is_w4a8_fp8:
        return W4A8Fp8Linear()
    if scheme.is_weight_only_int and scheme.format == _PACKED:
        return _packed(scheme.weights, layer)
    return None


def _packed(weights: Args, layer: str) -> LinearMethod:
    """Source: vLLM 0.33.0 CompressedTensorsWNA16."""
    if weights.group_size is None and weights.strategy != "channel":
        raise Refused(
            "Pack-quantized format requires group quantization or channelwise "
            "quantization, but found no group size and strategy is not channelwise."
        )
    if weights.num_bits not in _WIDTHS:
        raise Refused(
            f"Unsupported num_bits = {weights.num_bits}. Supported num_bits = "
            f"{list(_WIDTHS)}"
        )
    return PackedLinear(packing=_packing(weights), layer=layer)


def _eight_bits(scheme: Scheme, model_type: str) -> LinearMethod | None:
    """Return how FP8 or INT8 weights are held, None for anything else."""
    weights, inputs = scheme.weights, scheme.inputs
    if not scheme.is_activation_format:
        return None
    if scheme.is_w8a8_fp8 or weights.is_fp8:
        if weights.block not in (None, (BLOCK, BLOCK)):
            raise UnknownArchitecture(
                f"quantization_config: block_structure {weights.block} is not "
                "modelled: [128, 128] is."
            )
        return Fp8Linear(
            strategy=weights.strategy,
            is_static=inputs is not None and not inputs.is_dynamic,
            is_weight_only=not scheme.is_w8a8_fp8,
            model_type=model_type,
        )
    if inputs is not None and scheme.is_w8a8_int8:
        return Int8Linear(
            is_channel=weights.strategy == "channel",
            is_static=not inputs.is_dynamic,
            is_symmetric=inputs.is_symmetric,
        )
    return None


def _unsupported(scheme: Scheme, layer: str) -> LinearMethod:
    """Raise for a scheme that the planner, or vLLM too, does not support."""
    weights, inputs = scheme.weights, scheme.inputs
    if weights.is_mxfp4 or (weights.is_int and inputs is not None and inputs.is_int):
        raise UnknownArchitecture(
            f"quantization_config: weights of {weights.num_bits} bits ({weights.kind}) "
            "with activations of fewer than 16 bits are not modelled in this format."
        )
    raise Refused(
        "No compressed-tensors compatible scheme was found for "
        f"layer_name='{layer}', weight_quant={weights}, input_quant={inputs}, "
        f"output_quant={scheme.outputs}, format={scheme.format!r}"
    )
