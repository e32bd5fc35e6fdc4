"""What encoders of images and sounds call and a GPU that computes nothing lacks.

Values that they read back: `dry_values`. Convolutions that cuDNN would do: it sees no real GPU. As there, their output is
allocated, and copies of inputs that are not contiguous. Left out is cuDNN's workspace,
for its heuristics choose the algorithm: the figure is a lower bound there.
"""

from __future__ import annotations

from typing import Any

from dry_hooks import after_import

_OF_IMAGES = 4
"""Dimensions of the weights of convolutions over images, or over sounds as such."""
_KEPT: list[Any] = []
"""Registrations end with the object that made them."""


@after_import("vllm.v1.worker.gpu_worker")
def _convolutions(_module: Any) -> None:  # noqa: ANN401
    """Replace cuDNN's forward convolutions; PyTorch chooses between them as ever.

    Source: PyTorch 2.14 `aten/src/ATen/native/cudnn/ConvShared.cpp`
    cudnn_convolution_forward, cudnn_convolution_backward_input_forward.
    """
    import torch  # noqa: PLC0415 - vLLM's Python has it

    library = torch.library.Library("aten", "IMPL")
    library.impl("cudnn_convolution", _convolution, "CUDA")
    library.impl("cudnn_convolution_transpose", _transposed, "CUDA")
    _KEPT.append(library)


@after_import("vllm.v1.worker.gpu.mm.encoder_runner")
def _runner(module: Any) -> None:
    """Encoders of the second model runner know what came from the host."""
    import dry_values

    values = dry_values.KnownValues()
    encode = module.EncoderRunner.execute_mm_encoder

    def execute_mm_encoder(self: Any, *args: Any, **kwargs: Any) -> Any:
        with dry_values.FromLists(), values:
            return encode(self, *args, **kwargs)

    module.EncoderRunner.execute_mm_encoder = execute_mm_encoder


def _convolution(
    x: Any,  # noqa: ANN401 - tensors
    weight: Any,  # noqa: ANN401
    padding: list[int],
    stride: list[int],
    dilation: list[int],
    *_others: object,
) -> Any:  # noqa: ANN401
    size = [x.shape[0], weight.shape[0]]
    for axis, (p, s, d) in enumerate(zip(padding, stride, dilation, strict=True), 2):
        covered = d * (weight.shape[axis] - 1) + 1
        size.append((x.shape[axis] + 2 * p - covered) // s + 1)
    return _output(x, weight, size)


def _transposed(  # noqa: PLR0913 - as PyTorch calls it
    x: Any,  # noqa: ANN401 - tensors
    weight: Any,  # noqa: ANN401
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    *_others: object,
) -> Any:  # noqa: ANN401
    size = [x.shape[0], weight.shape[1] * groups]
    steps = zip(padding, output_padding, stride, dilation, strict=True)
    for axis, (p, extra, s, d) in enumerate(steps, 2):
        covered = d * (weight.shape[axis] - 1) + 1
        size.append((x.shape[axis] - 1) * s - 2 * p + covered + extra)
    return _output(x, weight, size)


def _output(x: Any, weight: Any, size: list[int]) -> Any:  # noqa: ANN401
    import torch  # noqa: PLC0415

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
