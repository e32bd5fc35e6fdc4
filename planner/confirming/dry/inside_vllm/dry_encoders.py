"""What encoders of images and sounds call and a GPU that computes nothing lacks.

Values that they read back (`dry_values`), and what cuDNN and cuFFT would do, which see
no real GPU: as there, the output of a convolution or of a Fourier transform is
allocated, and copies of a convolution's inputs that are not contiguous. Left out are
their workspaces, whose size heuristics choose: the figure is a lower bound there.
"""

from __future__ import annotations

import traceback
from typing import Any

from dry_hooks import after_import

_OF_IMAGES = 4
"""Dimensions of the weights of convolutions over images, or over sounds as such."""
_KEPT: list[Any] = []
"""Registrations end with the object that made them."""
_OF_FILES = ("processor", "feature extractor", "tokenizer", "Processor", "Tokenizer")
"""What the words of an error name where a file of theirs is missing."""


def check(config: Any) -> None:
    """Let vLLM make the largest inputs of a model, with files that were made for it.

    Raises:
        Exception: what its processor raises.
    """
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import MultiModalBudget

    if config.model_config.supports_multimodal_inputs:
        budget = MultiModalBudget(config, MULTIMODAL_REGISTRY, enable_cache=False)
        for modality in budget.mm_max_toks_per_item:
            budget.processor.get_dummy_mm_inputs({modality: 1})


def lacks_files(error: Exception) -> bool:
    """Whether an error is that of a processor or tokenizer without its files."""
    from dry_family import MissingFilesError

    steps = traceback.extract_tb(error.__traceback__)
    return (
        isinstance(error, MissingFilesError)
        or any(word in str(error) for word in _OF_FILES)
        or any("processing" in step.filename for step in steps)
    )


def leave_out(reason: Exception) -> str:
    """Profile a model's text alone, with its encoders built; return what to say of it.

    Source: vLLM 0.33.0 `config/model.py` supports_multimodal_inputs; before 0.30 it is
    in `multimodal/registry.py`.
    """
    from vllm.config import ModelConfig
    from vllm.multimodal.registry import MultiModalRegistry

    places = (
        (ModelConfig, "_cached_supports_multimodal_inputs"),
        (MultiModalRegistry, "supports_multimodal_inputs"),
    )
    for place, name in places:
        if hasattr(place, name):
            setattr(place, name, lambda *_args: False)
    words = str(reason).partition("\n")[0].partition(". ")[0]
    return (
        "The encoders' weights are counted, but not the memory of running them: the "
        f"files of their processor are not at hand ({type(reason).__name__}: {words}). "
        "The peak activation is a lower bound. Give the folder of the downloaded "
        "repository, without its weights, for all of it."
    )


@after_import("vllm.v1.worker.gpu_worker")
def _kernels(_module: Any) -> None:
    """Replace cuDNN's forward convolutions and cuFFT's transform of a spectrogram.

    PyTorch chooses between convolutions as ever.

    Source: PyTorch `aten/src/ATen/native/cudnn/ConvShared.cpp`
    cudnn_convolution_forward, cudnn_convolution_backward_input_forward;
    `aten/src/ATen/native/cuda/SpectralOps.cpp` _fft_r2c_cufft.
    """
    import torch

    library = torch.library.Library("aten", "IMPL")
    library.impl("cudnn_convolution", _convolution, "CUDA")
    library.impl("cudnn_convolution_transpose", _transposed, "CUDA")
    library.impl("_fft_r2c", _fourier, "CUDA")
    _KEPT.append(library)


@after_import("vllm.v1.attention.ops.vit_attn_wrappers")
def _split_by_length(module: Any) -> None:
    """PyTorch's attention of encoders reads lengths where they are known.

    Inside an operator of vLLM's they are not, since PyTorch sees the operator alone.

    Source: vLLM 0.31.0 and 0.33.0 `v1/attention/ops/vit_attn_wrappers.py`
    torch_sdpa_wrapper (before Ampere).
    """
    module.vit_torch_sdpa_wrapper = module.torch_sdpa_wrapper


@after_import("vllm.v1.worker.gpu.mm.encoder_runner")
def _second_runner(module: Any) -> None:
    """Encoders of the second model runner know what came from the host."""
    import dry_values

    runner, values = module.EncoderRunner, dry_values.KnownValues()
    runner.execute_mm_encoder = dry_values.knowing(values, runner.execute_mm_encoder)


@after_import("vllm.v1.worker.gpu_model_runner")
def _first_runner(module: Any) -> None:
    """Encoders of the first model runner know what came from the host."""
    import dry_values

    values, runner = dry_values.KnownValues(), module.GPUModelRunner
    profile = runner.profile_run
    batch = runner._get_mm_dummy_batch
    runner._get_mm_dummy_batch = dry_values.knowing(values, batch)

    def profile_run(self: Any, **kwargs: Any) -> None:
        model = self.model
        if (encode := getattr(model, "embed_multimodal", None)) is not None:
            model.embed_multimodal = dry_values.knowing(values, encode)
        profile(self, **kwargs)
        if encode is not None:
            del model.embed_multimodal

    runner.profile_run = profile_run


def _convolution(
    x: Any,
    weight: Any,
    padding: list[int],
    stride: list[int],
    dilation: list[int],
    *_others: object,
) -> Any:
    size = [x.shape[0], weight.shape[0]]
    for axis, (p, s, d) in enumerate(zip(padding, stride, dilation, strict=True), 2):
        covered = d * (weight.shape[axis] - 1) + 1
        size.append((x.shape[axis] + 2 * p - covered) // s + 1)
    return _output(x, weight, size)


def _transposed(  # noqa: PLR0913 - as PyTorch calls it
    x: Any,
    weight: Any,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    *_others: object,
) -> Any:
    size = [x.shape[0], weight.shape[1] * groups]
    steps = zip(padding, output_padding, stride, dilation, strict=True)
    for axis, (p, extra, s, d) in enumerate(steps, 2):
        covered = d * (weight.shape[axis] - 1) + 1
        size.append((x.shape[axis] - 1) * s - 2 * p + covered + extra)
    return _output(x, weight, size)


def _fourier(x: Any, axes: list[int], _normalization: int, onesided: bool) -> Any:
    size = list(x.shape)
    if onesided:
        size[axes[-1]] = size[axes[-1]] // 2 + 1
    return x.new_empty(size, dtype=x.dtype.to_complex())


def _output(x: Any, weight: Any, size: list[int]) -> Any:
    import torch

    layout = torch.contiguous_format
    if weight.dim() == _OF_IMAGES and any(
        tensor.is_contiguous(memory_format=torch.channels_last)
        and not tensor.is_contiguous()
        for tensor in (x, weight)
    ):
        layout = torch.channels_last
    copies = [tensor.contiguous(memory_format=layout) for tensor in (x, weight)]
    output = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=layout)
    del copies
    return output
