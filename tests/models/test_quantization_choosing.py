"""Which quantisation method a model is loaded with, and what vLLM refuses."""

from __future__ import annotations

from typing import Any

import pytest

from planner import plan
from planner.errors import UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.models.quantization import checkpoint_config
from tests.configs import LLAMA_8B, architecture, gpu

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}


def quantised(asked: str | None = None, **settings: Any) -> ModelArchitecture:
    """Llama with `quantization_config`, read with the engine argument."""
    config = {**LLAMA_8B, "quantization_config": settings}
    return read(ModelFiles(name="org/model", config=config), asked)


def message(model: ModelArchitecture, **arguments: Any) -> str:
    """The refusal of a plan, empty without."""
    error = plan(model, gpu(), **arguments).error
    return error.message if error is not None and error.kind == "refused" else ""


def test_a_method_that_is_not_modelled_is_named() -> None:
    """Weights of another width: refused until they are modelled."""
    with pytest.raises(UnknownArchitecture, match=r"quantization_config.*online"):
        quantised(quant_method="online")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("humming", "leave quantization out"),
        ("online", "name one of the methods"),
        ("moe_wna16", "checkpoints of GPTQ and AWQ"),
        ("quark", "in another format"),
    ],
)
def test_what_to_do_instead_is_said(name: str, instead: str) -> None:
    """As an argument, for a checkpoint that is not quantised."""
    with pytest.raises(UnknownArchitecture, match=instead):
        plan("Qwen/Qwen3-8B", gpu(), quantization=name)


def test_a_method_of_older_releases_is_not_refused_there() -> None:
    """HQQ: known up to 0.14, where it is not modelled; refused since."""
    newest = message(architecture(LLAMA_8B), quantization="hqq")
    assert newest.startswith("Unknown quantization method: hqq. Must be one of")
    with pytest.raises(UnknownArchitecture, match=r"vLLM 0\.14\.1 still takes"):
        plan(architecture(LLAMA_8B), gpu(), quantization="hqq", vllm_version="0.14.1")


def test_an_entry_that_names_no_method_counts_as_not_quantised() -> None:
    """vLLM takes the method from quant_method, or from ModelOpt's quant_algo."""
    scheme = {"producer": {"name": "modelopt"}, "quant_algo": "FP8"}
    model = architecture(LLAMA_8B, quantization_config=scheme)
    assert model.quantization is None


def test_modelopt_is_told_by_its_producer_and_algorithm() -> None:
    """Its own file, hf_quant_config.json, counts where config.json is silent."""
    settings = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4"},
    }
    files = ModelFiles(name="x", config=LLAMA_8B, hf_quant_config=settings)
    given = checkpoint_config(files)
    assert given is not None
    assert "modelopt_fp4" == given["quant_method"]


def test_the_language_model_may_hold_the_settings() -> None:
    """Models of images keep them in text_config now and then."""
    config = {"text_config": {"quantization_config": FP8}}
    given = checkpoint_config(ModelFiles(name="x", config=config))
    assert given == FP8


def test_the_checkpoints_method_is_resolved() -> None:
    """`resolved.quantization` has vLLM's name."""
    made = plan(quantised(**FP8), gpu(), kv_cache_memory_bytes=1 << 33)
    assert "fp8" == made.resolved.quantization  # type: ignore[union-attr]


def test_another_method_than_the_checkpoints_is_refused() -> None:
    """In vLLM's words, with both names."""
    model = quantised("fp8_per_channel", **FP8)
    assert message(model).startswith(
        "Quantization method specified in the model config (fp8) does not match the "
        "quantization method specified in the `quantization` argument "
        "(fp8_per_channel)."
    )


def test_a_method_that_vllm_does_not_know_is_refused() -> None:
    """The list of its methods follows."""
    model = read(ModelFiles(name="org/model", config=LLAMA_8B), "fp9")
    assert message(model).startswith("Unknown quantization method: fp9. Must be one")


def test_a_dtype_that_the_method_cannot_take_is_refused() -> None:
    """FP8 weights need 16-bit activations."""
    assert message(quantised(**FP8), dtype="float32") == (
        "torch.float32 is not supported for quantization method fp8. "
        "Supported dtypes: [torch.bfloat16, torch.float16]"
    )


def test_a_gpu_that_the_method_cannot_take_is_refused() -> None:
    """Volta lacks what unpacking needs."""
    volta = gpu(compute_capability=(7, 0), name="V100")
    error = plan(quantised(**FP8), volta, dtype="float16").error
    assert error is not None
    assert error.message == (
        "The quantization method fp8 is not supported for the current GPU. "
        "Minimum capability: 75. Current capability: 70."
    )


def test_scales_of_the_cache_and_e5m2_exclude_each_other() -> None:
    """An FP8 checkpoint's attention layers load scales; e5m2 has none."""
    assert message(quantised(**FP8), kv_cache_dtype="fp8_e5m2") == (
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints."
    )


def test_a_longer_length_is_refused_before_the_settings() -> None:
    """vLLM reads the method's settings last, the argument after the length."""
    broken = quantised(quant_method="fp8", activation_scheme="odd")
    assert message(broken, max_model_len=10**6).startswith("User-specified")
    assert message(broken) == "Unsupported activation scheme odd"
