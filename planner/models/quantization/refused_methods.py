"""What is said of quantisation methods without a reader for a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from planner.errors import UnknownArchitecture

_WITHOUT_SETTINGS = {
    **{
        name: f"Cannot find the config file for {name}"
        for name in (
            *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin"),
            *("modelopt", "modelopt_fp4", "modelopt_mixed", "moe_wna16", "inc"),
        )
    },
    "compressed-tensors": (
        "CompressedTensorsConfig.__init__() missing 3 required positional arguments: "
        "'target_scheme_map', 'ignore', and 'quant_format'"
    ),
    "quark": (
        "QuarkConfig.__init__() missing 1 required positional argument: 'quant_config'"
    ),
    "torchao": (
        "TorchAOConfig.__init__() missing 1 required positional argument: "
        "'torchao_config'"
    ),
}
"""What vLLM says of a method of checkpoints for one that has no settings of it.

Source: vLLM 0.33.0 `model_loader/weight_utils.py` get_quant_config.
"""
_IN_A_CHECKPOINT = {
    "online": (
        "OnlineQuantizationConfig does not support loading from a checkpoint config. "
        "Use quantization_config or quantization='fp8_per_tensor'/'fp8_per_block' "
        "instead."
    ),
}
"""What vLLM says of a method for loading, where a checkpoint names it."""
_INSTEAD = {
    "humming": (
        "vLLM 0.33.0 fails with it (HummingWeightSchema.__init__() missing 1 required "
        "keyword-only argument: 'b_dtype'); it chooses Humming's kernels itself where "
        "they are fastest, which is modelled: leave quantization out"
    ),
    "online": (
        "its table quantization_config is not modelled: name one of the methods that "
        "vLLM applies while loading"
    ),
}
"""What to do in place of methods that are not modelled."""


def refusal_of(name: str, *, is_in_checkpoint: bool) -> str | None:
    """Return vLLM's words where it refuses a method; None: it does not."""
    table = _IN_A_CHECKPOINT if is_in_checkpoint else _WITHOUT_SETTINGS
    return table.get(name)


def not_modelled(
    name: str, modelled: Iterable[str], *, is_in_checkpoint: bool
) -> UnknownArchitecture:
    """Return the error of a method that is not modelled, which says what to do."""
    where = "quantization_config" if is_in_checkpoint else "quantization"
    instead = _INSTEAD.get(name, "plan a release of the model in another format")
    return UnknownArchitecture(
        f"{where}: the method {name!r} is not modelled; {instead}. "
        f"{', '.join(sorted(modelled))} are modelled."
    )
