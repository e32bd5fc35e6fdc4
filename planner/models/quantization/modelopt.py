"""Checkpoints of NVIDIA's ModelOpt: FP8, NVFP4, MXFP8, or one of them layer by layer.

Settings come as hf_quant_config.json has them, under `quantization`, or flat as in
config.json's `quantization_config`.

Source: vLLM 0.33.0 `layers/quantization/modelopt.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.nvfp4 import NvFp4Experts
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    listed,
)
from planner.models.quantization.later import LaterExperts, LaterLinear
from planner.models.quantization.linear_kernels import linear_method
from planner.models.quantization.matching import is_layer_skipped
from planner.models.tensors import ExpertsMethod, LinearMethod
from planner.values import frozen

_ALGORITHMS = (
    "FP8",
    "FP8_PER_CHANNEL_PER_TOKEN",
    "FP8_PB_WO",
    "NVFP4",
    "W4A16_NVFP4",
    "MXFP8",
    "MIXED_PRECISION",
)
_WEIGHT_ONLY = "W4A16_NVFP4"
_BY_METHOD = {
    "modelopt": _ALGORITHMS[:3],
    "modelopt_fp4": _ALGORITHMS[3:5],
    "modelopt_mxfp8": _ALGORITHMS[5:6],
    "modelopt_mixed": _ALGORITHMS[6:],
}
_BLOCK_ALGORITHMS = ("FP8_PB_WO", "FP8_BLOCK_SCALES")
"""Of experts in mixed checkpoints: two names for one algorithm."""
_VISION = ("vision_tower", "vision_model", "vit_large_projector")
_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_KV_DTYPES = {"fp8": "fp8_e4m3"}
_KV_BITS = 8
_MIXES_WEIGHT_ONLY = Change(
    since=(0, 22),
    what=(
        "Mixed checkpoints of ModelOpt may hold layers in W4A16_NVFP4. Before, these "
        "are built in 16 bits, which their weights do not fit."
    ),
    source=(
        "vLLM 0.21.0 and 0.22.1 `layers/quantization/modelopt.py` "
        "ModelOptMixedPrecisionConfig.get_quant_method"
    ),
)


@frozen
class ModelOptConfig(QuantizationConfig):
    """One algorithm for all layers except those left out."""

    algorithm: str
    excluded: tuple[str, ...] = ()
    model_type: str = ""
    """Of the language model."""

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise a linear layer that is not left out."""
        algorithm = self.algorithm_of(place)
        if algorithm is None:
            return None
        return linear_method(algorithm, self.model_type)

    def head(self, place: Place) -> LinearMethod | None:
        """Quantise the LM head like any linear layer."""
        return self.linear(place)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts that are not left out."""
        algorithm = self.algorithm_of(place)
        if algorithm is None:
            return None
        if algorithm in _BLOCK_ALGORITHMS and self.algorithm == "MIXED_PRECISION":
            return Fp8BlockExperts(model_type=self.model_type)
        if algorithm == "MXFP8":
            return Mxfp8Experts()
        if "NVFP4" in algorithm:
            return NvFp4Experts(has_input_scale=algorithm == "NVFP4")
        return Fp8TensorExperts(is_static=True)

    def algorithm_of(self, place: Place) -> str | None:
        """Return a layer's algorithm, None for one that is left out.

        Raises:
            Refused: when some of the packed layers are left out and others not.

        Source: ModelOptQuantConfigBase.get_quant_method.
        """
        if self.is_excluded(place) or any(name in place.prefix for name in _VISION):
            return None
        return self.algorithm

    def is_excluded(self, place: Place) -> bool:
        """Whether a layer is left out, by name, part of a name or wildcard.

        Source: ModelOptQuantConfigBase.is_layer_excluded.
        """
        if not self.excluded:
            return False
        if is_layer_skipped(place, self.excluded):
            return True
        prefix = place.prefix
        plain = prefix.removeprefix("language_model.")
        return any(
            (name != prefix and (name in prefix or name in plain))
            or fnmatchcase(prefix, name)
            for name in self.excluded
        )


@frozen
class ModelOptMixedConfig(ModelOptConfig):
    """An algorithm for each layer that is named; the others are not quantised."""

    algorithms: Mapping[str, str]
    """Names of layers, as vLLM has them, with their algorithms."""
    below: Mapping[str, str]
    """Prefixes of those names, and the algorithm of the first layer under each."""

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise a linear layer as far as the release knows its algorithm."""
        method = ModelOptConfig.linear(self, place)
        if method is None or self.algorithm_of(place) != _WEIGHT_ONLY:
            return method
        return LaterLinear(method=method, since=_MIXES_WEIGHT_ONLY)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts as far as the release knows their algorithm."""
        method = ModelOptConfig.experts(self, place)
        if method is None or self.algorithm_of(place) != _WEIGHT_ONLY:
            return method
        return LaterExperts(method=method, since=_MIXES_WEIGHT_ONLY)

    def algorithm_of(self, place: Place) -> str | None:
        """Return the algorithm under which a layer or its parts are named.

        Raises:
            Refused: in vLLM's words, when packed layers differ.
            UnknownArchitecture: for an algorithm that is not modelled.

        Source: ModelOptMixedPrecisionConfig._resolve_quant_algo.
        """
        if self.is_excluded(place):
            return None
        found = self._named(place)
        known = (*_ALGORITHMS[:-1], *_BLOCK_ALGORITHMS)
        if found is not None and found not in known:
            raise UnknownArchitecture(
                f"quantization_config.quantized_layers: {found} of {place.prefix} is "
                "not modelled."
            )
        return found

    def _named(self, place: Place) -> str | None:
        for prefix in _candidates(place.prefix):
            if prefix in self.algorithms:
                return self.algorithms[prefix]
        shards = place.shards or _FUSED.get(place.prefix.rpartition(".")[2], ())
        if shards:
            return self._of_shards(place.prefix, shards)
        if not place.projections:
            return self._algorithm_below(place.prefix)
        # Experts may be named one by one, or with the block.
        block = place.prefix.removesuffix(".experts")
        return self._algorithm_below(place.prefix) or self._algorithm_below(block)

    def _of_shards(self, prefix: str, shards: tuple[str, ...]) -> str | None:
        names = (
            f"{candidate.rpartition('.')[0]}.{shard}"
            for candidate in _candidates(prefix)
            for shard in shards
        )
        found = {self.algorithms[name] for name in names if name in self.algorithms}
        if len(found) > 1:
            raise Refused(
                f"Mixed quant_algo within fused layer {prefix}: {found}. All shards "
                "must use the same quantization."
            )
        return found.pop() if found else None

    def _algorithm_below(self, prefix: str) -> str | None:
        """Return the algorithm of the first layer named below a prefix."""
        found = (self.below.get(candidate) for candidate in _candidates(prefix))
        return next((algorithm for algorithm in found if algorithm), None)


def _candidates(prefix: str) -> tuple[str, ...]:
    """Return the names under which checkpoints may list a layer."""
    inner, outer = "language_model.model.", "model.language_model."
    if prefix.endswith(".lm_head"):
        return (prefix, "lm_head")
    if prefix.startswith(inner):
        return (prefix, outer + prefix.removeprefix(inner))
    if prefix.startswith(outer):
        return (prefix, inner + prefix.removeprefix(outer))
    return (prefix,)


def read_modelopt(
    name: str, given: Mapping[str, Any], context: Context
) -> ModelOptConfig:
    """Read a ModelOpt checkpoint's settings for the method of that name.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for names that are not a list.

    Source: ModelOptQuantConfigBase.from_config and _from_config of each class.
    """
    details = _details(given, name)
    algorithm = str(details.get("quant_algo") or "").upper()
    if not algorithm:
        raise Refused("Missing 'quant_algo' in quantization config")
    if algorithm not in _ALGORITHMS:
        raise Refused(
            f"ModelOpt currently only supports: {list(_ALGORITHMS)} quantizations in "
            "vLLM. Please check the `hf_quant_config.json` file for your model's quant "
            "configuration."
        )
    _check_owner(name, algorithm)
    if name in ("modelopt_fp4", "modelopt_mxfp8") and "quantization" in given:
        _check_fields(details, algorithm)
    is_nested = details is not given
    key = "exclude_modules" if is_nested or "ignore" not in details else "ignore"
    common: dict[str, Any] = {
        "name": name,
        "algorithm": _weight_only(algorithm, given),
        "excluded": context.vllm_names(_split_stars(listed(details, key))),
        "model_type": context.text_model_type,
        "kv_cache_dtype": kv_cache_dtype(given),
    }
    if name != "modelopt_mixed":
        return ModelOptConfig(**common, has_kv_scales=True)
    layers = details.get("quantized_layers")
    if not isinstance(layers, Mapping) or not layers:
        raise Refused(
            "MIXED_PRECISION quant_algo requires a non-empty 'quantized_layers' "
            "mapping in the quantization config."
        )
    algorithms = {
        context.vllm_name(layer): str(how.get("quant_algo", "")).upper()
        for layer, how in layers.items()
    }
    return ModelOptMixedConfig(
        **common,
        has_kv_scales=common["kv_cache_dtype"] is not None,
        algorithms=algorithms,
        below=_parents(algorithms),
    )


def _parents(algorithms: Mapping[str, str]) -> dict[str, str]:
    below: dict[str, str] = {}
    for name, algorithm in algorithms.items():
        parts = name.split(".")
        for length in range(1, len(parts)):
            below.setdefault(".".join(parts[:length]), algorithm)
    return below


def _details(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    nested = given.get("quantization")
    if isinstance(nested, Mapping):
        return nested
    if name == "modelopt_mxfp8" and not given.get("quant_algo"):
        # MiniMax's own form of the same format.
        ignored = given.get("ignored_layers") or []
        return {"quant_algo": "MXFP8", "exclude_modules": ignored}
    return given


def _check_owner(name: str, algorithm: str) -> None:
    supported = _BY_METHOD[name]
    if algorithm in supported or name not in ("modelopt", "modelopt_fp4"):
        return
    kind, comma = ("FP8", " / ") if name == "modelopt" else ("NVFP4", " / ")
    where = " for vLLM" if name == "modelopt" else ""
    raise Refused(
        f"Unsupported ModelOpt {kind} quant_algo{where}: {algorithm}. "
        f"Supported: {comma.join(supported)}."
    )


def _check_fields(details: Mapping[str, Any], algorithm: str) -> None:
    kind, needed = "MXFP8", ["kv_cache_quant_algo", "exclude_modules"]
    if "NVFP4" in algorithm:
        kind, needed = "NVFP4", ["group_size", *needed]
    missing = [field for field in needed if field not in details]
    if missing:
        raise Refused(
            f"{kind} quantization requires the following fields in "
            f"hf_quant_config.json: {missing}"
        )


def _weight_only(algorithm: str, given: Mapping[str, Any]) -> str:
    """Return W4A16 for a checkpoint that calls itself NVFP4 without input scales."""
    groups = given.get("config_groups")
    if algorithm != "NVFP4" or not isinstance(groups, Mapping) or not groups:
        return algorithm
    is_plain = all(
        isinstance(group, Mapping) and group.get("input_activations") is None
        for group in groups.values()
    )
    return _WEIGHT_ONLY if is_plain else algorithm


def _split_stars(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return "a.b*" as "a.b" and "a.b.*", which is how vLLM renames them.

    Source: ModelOptQuantConfigBase.apply_vllm_mapper.
    """
    split: list[str] = []
    for name in names:
        is_tree = name.endswith("*") and len(name) > 1 and not name.endswith(".*")
        split += [name[:-1], f"{name[:-1]}.*"] if is_tree else [name]
    return tuple(split)


def kv_cache_dtype(given: Mapping[str, Any]) -> str | None:
    """Return the KV cache dtype that the checkpoint sets, None without one.

    Source: vLLM 0.33.0 `utils/torch_utils.py` get_kv_cache_quant_algo_string.
    """
    nested = given.get("quantization")
    inner = nested if isinstance(nested, Mapping) else given
    scheme = (
        inner.get("kv_cache_scheme")
        or given.get("kv_cache_scheme")
        or inner.get("kv_cache_quant_algo")
        or given.get("kv_cache_quant_algo")
    )
    if isinstance(scheme, Mapping):
        is_fp8 = (
            scheme.get("dynamic") is False
            and scheme.get("num_bits") == _KV_BITS
            and scheme.get("type") == "float"
        )
        scheme = "fp8" if is_fp8 else None
    return _KV_DTYPES.get(scheme.lower()) if isinstance(scheme, str) else None
