"""Which quantisation method a model is loaded with, and what vLLM refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.models.quantization import checkpoint_config
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.mxfp4 import read_fp_quant
from planner.models.tensors import LinearOnRank, Tensor
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
    """vLLM chooses it itself; a checkpoint that names it is not planned."""
    with pytest.raises(UnknownArchitecture, match=r"quantization_config.*humming"):
        quantised(quant_method="humming")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("inc", "Cannot find the config file for inc"),
        ("gptq", "Cannot find the config file for gptq"),
        ("moe_wna16", "Cannot find the config file for moe_wna16"),
        ("quark", "QuarkConfig.__init__() missing 1 required positional argument"),
        ("torchao", "TorchAOConfig.__init__() missing 1 required positional"),
        ("compressed-tensors", "CompressedTensorsConfig.__init__() missing 3"),
    ],
)
def test_a_method_of_checkpoints_needs_settings(name: str, words: str) -> None:
    """As vLLM 0.33.0 says it of a checkpoint that is not quantised."""
    assert message(architecture(LLAMA_8B), quantization=name).startswith(words)


def test_a_method_for_loading_is_none_of_a_checkpoint() -> None:
    """Its table belongs to the command line."""
    words = "OnlineQuantizationConfig does not support loading from a checkpoint config"
    assert message(quantised(quant_method="online")).startswith(words)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("humming", "leave quantization out"),
        ("online", "name one of the methods"),
        ("mxfp4", "in another format"),
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


def test_a_quantised_checkpoint_is_not_quantised_again_while_loading() -> None:
    """0.33.0 says so of ModelOpt's; before, such a method left its layers alone."""
    name, asked = "nvidia/Qwen3-14B-FP8", {"quantization": "fp8_per_tensor"}
    words = "ModelOpt weight dequantization is only supported for MXFP8."
    refused = plan(name, gpu(), **asked)
    assert refused.error is not None
    assert words == refused.error.message
    assert plan(name, gpu(), **asked, vllm_version="0.31.0").fits


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


FBGEMM: dict[str, Any] = {
    "quant_method": "fbgemm_fp8",
    "activation_scale_ub": 1200.0,
    "modules_to_not_convert": [],
}
FP_QUANT: dict[str, Any] = {
    "quant_method": "fp_quant",
    "forward_dtype": "mxfp4",
    "forward_method": "abs_max",
    "hadamard_group_size": 32,
    "modules_to_not_convert": ["v_proj"],
}


def test_deprecated_methods_need_their_argument_since_0_14() -> None:
    """fbgemm_fp8: in vLLM's words, which it raises unformatted."""
    model = quantised(**FBGEMM)
    assert message(model) == (
        "('The quantization method %s is deprecated and will be removed in future "
        "versions of vLLM. To bypass, set `--allow-deprecated-quantization`.', "
        "'fbgemm_fp8')"
    )
    assert not message(model, allow_deprecated_quantization=True)
    assert not message(model, vllm_version="0.13.0")
    assert "deprecated" in message(model, vllm_version="0.14.0")


def test_a_deprecation_may_end() -> None:
    """experts_int8 was deprecated from 0.14 to 0.19."""
    model = architecture(LLAMA_8B)
    assert "deprecated" in message(
        model, quantization="experts_int8", vllm_version="0.19.1"
    )
    assert not message(model, quantization="experts_int8", vllm_version="0.20.0")


def test_methods_of_checkpoints_cannot_be_applied_while_loading() -> None:
    """vLLM looks for their settings in vain, even where the argument is given."""
    refusal = message(
        architecture(LLAMA_8B),
        quantization="fbgemm_fp8",
        allow_deprecated_quantization=True,
    )
    assert "this one is not" in refusal


def test_fp_quant_packs_two_weights_in_a_byte() -> None:
    """4,096 x 1,024 with groups of 32, two factors, and a 32 x 32 matrix."""
    method = read_fp_quant(FP_QUANT, Context()).method
    layer = LinearOnRank(
        name="layer",
        input_size=1024,
        output_size=4096,
        input_size_per_partition=1024,
        output_partition_sizes=(4096,),
    )
    assert method.tensors(layer, ParallelLayout()) == (
        Tensor(4096 * 512, "uint8"),
        Tensor(4096 * 32, "uint8"),
        Tensor(1, "float32"),
        Tensor(1, "float32"),
        Tensor(1024),
    )
    cut = replace(layer, input_size_per_partition=1040)
    with pytest.raises(Refused, match="not aligned with the quantized weight shape"):
        method.tensors(cut, ParallelLayout())


def test_fp_quant_compares_the_ends_of_vllms_own_names() -> None:
    """A "v_proj" leaves out qkv_proj; names of the layers packed in it do not count."""
    config = read_fp_quant(FP_QUANT, Context())
    attention = "model.layers.0.self_attn."
    packed = ("q_proj", "k_proj", "v_proj")
    assert config.linear(Place(prefix=attention + "qkv_proj", shards=packed)) is None
    assert config.linear(Place(prefix=attention + "o_proj")) is not None


def test_fp_quant_starts_on_blackwell_only() -> None:
    """Its least compute capability is 100."""
    refusal = message(quantised(**FP_QUANT), allow_deprecated_quantization=True)
    assert "Minimum capability: 100" in refusal
