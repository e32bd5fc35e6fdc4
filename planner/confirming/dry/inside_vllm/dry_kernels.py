"""Kernels that are compiled while vLLM runs: here none is, but they allocate the same.

Triton, FlashInfer, Humming and others compile on first use, for minutes. What their
launchers allocate before a launch is part of the peak, and is allocated here too.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable
from typing import Any

from dry_hooks import after_import

# Tokens that a tile of an expert's product holds. Source: FlashInfer 0.7.2
# csrc/trtllm_fused_moe_kernel_launcher.cu, mSupportedTileNums of its launchers.
_TILES = (8, 16, 32, 64, 128)
_FP4_TILES = (8, 16, 32, 64)
_QUANTIZED_FP4_TILES = (8, 16, 32, 64, 128, 192, 256)

# Entries of a plan of latent attention, which vLLM reads. Source: vLLM 0.33.0
# v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py, _PLAN_INFO_LEN.
_MLA_PLAN = 18

_REGISTERED: list[Any] = []
"""Registrations end with the object that made them."""


class Nothing:
    """A compiled module whose functions return nothing, or 0 for a workspace."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _STANDS_FOR:
            return _STANDS_FOR[name]
        return _zero if "workspace_size" in name else Nothing()

    def __call__(self, *_args: object, **_kwargs: object) -> None:
        """Compute nothing."""

    def __getitem__(self, _key: object) -> Nothing:
        return self


def _zero(*_args: object) -> int:
    return 0


class _Cutlass(Nothing):
    """FlashInfer's kernels by CUTLASS: allocate a workspace, compute nothing."""

    def run_moe(self, *_args: object) -> None:
        """Hold what a run needs beside its output, until it returns.

        Source: FlashInfer 0.7.2 cutlass_fused_moe_kernels.cuh,
        getWorkspaceDeviceBufferSizes: inputs and outputs of both products overlap.
        """
        at = sys._getframe(1).f_locals
        tokens, columns = at["input"].shape
        rows = tokens * at["token_selected_experts"].size(1)
        experts, hidden = at["fc2_expert_weights"].shape[:2]
        halves, inner = _inner(at["fc1_expert_weights"], at["activation_type"])
        element = at["input"].element_size() * columns / hidden  # FP4: two in a byte
        first, second = 2 * rows * halves * inner, 2 * rows * hidden
        inputs = max(second, int(rows * max(hidden, inner) * element))
        if at["use_deepseek_fp8_block_scale"]:
            sizes = [inputs, first, _block_copy(rows, max(hidden, inner), experts)]
        else:
            sizes = [inputs, max(first, second)]
        if element < 1:
            sizes.append(rows * max(hidden, inner) // 16)
        _hold(at["input"], [sum(sizes)])

    def get_workspace_size(self, rows: int, columns: int, inner: int) -> int:
        """Return what a product with scales for blocks needs beside its output.

        Source: FlashInfer 0.7.2 csrc/fp8_blockscale_gemm_sm90_binding.cu.
        """
        scales = -(-columns // 128) * -(-inner // 128) * 4
        return _block_copy(rows, inner, 1) + columns * inner + scales

    def get_gemm1_tactic_count(self) -> int:
        """Return how many ways there are to run the first product."""
        return 1

    get_gemm2_tactic_count = get_gemm1_tactic_count


def _inner(weights: Any, activation: Any) -> tuple[int, int]:
    """Return the outputs of the first product and their width, from its weights."""
    halves = 2 if "glu" in getattr(activation, "name", str(activation)).lower() else 1
    return halves, int(weights.shape[1]) // halves


def _block_copy(rows: int, columns: int, experts: int) -> int:
    """Return the bytes of a product's input in FP8, with a scale for each block.

    Source: FlashInfer 0.7.2 fp8_blockscale_gemm.cu, getWorkspaceSizeBase.
    """
    padded = (rows + 31 * experts) // 32 * 32
    return -(-rows // 4) * 4 * columns + padded * -(-columns // 128) * 4


def _bf16(_at: dict[str, Any], inner: int) -> tuple[tuple[int, ...], int]:
    return _TILES, 2 * inner


def _fp8(_at: dict[str, Any], inner: int) -> tuple[tuple[int, ...], int]:
    """Per tensor: both halves of the gated product, and their scales."""
    return _TILES, 2 * inner + 4 * (2 * inner // 128)


def _fp8_blocks(at: dict[str, Any], inner: int) -> tuple[tuple[int, ...], int]:
    """DeepSeek's blocks: the activation is a step of its own; MXFP8: it is not."""
    if at["hidden_states_scale"].element_size() == 1:
        return (*_TILES, 256), inner + inner // 32
    return _TILES, 3 * inner + 4 * (3 * inner // 128)


def _fp4(at: dict[str, Any], inner: int) -> tuple[tuple[int, ...], int]:
    states = at["hidden_states"]
    if states.dtype == at["output"].dtype:
        return _FP4_TILES, 2 * inner
    if states.shape[-1] * 2 == at["output"].shape[-1]:
        return _QUANTIZED_FP4_TILES, inner // 2 + inner // 16
    return _QUANTIZED_FP4_TILES, inner + inner // 32


def _experts(kind: Any) -> Any:
    """Return a stand-in for one of FlashInfer's TensorRT-LLM expert functions."""

    def run(*_args: object) -> Any:
        """Hold both products' padded outputs, until it returns; or return them.

        Source: FlashInfer 0.7.2 csrc/trtllm_fused_moe_kernel_launcher.cu, prepare_moe
        of each launcher; the caller's variables have the names of the arguments.
        """
        at = sys._getframe(1).f_locals
        has_adapters = at.get("gemm1_lora_delta") is not None
        # With adapters there may be no output of the kernel's own.
        tokens, hidden = at["hidden_states" if has_adapters else "output"].shape
        inner = at["intermediate_size"]
        tiles, bytes_per_row = kind(at, inner)
        local = at.get("local_num_experts", at.get("num_local_experts"))
        tile = _tile(tiles, tokens * at["top_k"] / local)
        rows = _padded_rows(tokens * at["top_k"], at["num_experts"], tile)
        if has_adapters:
            return _unfinished(at, rows, tokens * at["top_k"])
        _hold(at["output"], [rows * bytes_per_row, rows * hidden * 2, rows * 4])
        return None

    return run


def _unfinished(at: dict[str, Any], rows: int, chosen: int) -> list[Any]:
    """Return what adapters need of both products.

    Source: FlashInfer 0.7.2 fused_moe/shared/inputs.py unpack_trtllm_moe_output.
    """
    states = at["hidden_states"]
    first = states.new_empty((rows, at["intermediate_size"]))
    places = states.new_empty(chosen, dtype=_torch().int32)
    if at["do_finalize"]:
        return [at["output"], places, first]
    second = states.new_empty(rows, states.shape[-1])
    weights = states.new_empty(chosen // at["top_k"], at["top_k"])
    return [second, weights, places, first]


def _torch() -> Any:
    return importlib.import_module("torch")


def _tile(tiles: tuple[int, ...], average: float) -> int:
    """Return the tile without tuning: below the first that holds the average."""
    above = next((i for i, tile in enumerate(tiles) if tile >= average), len(tiles) - 1)
    return tiles[max(0, above - 1)]


def _padded_rows(rows: int, experts: int, tile: int) -> int:
    """Return the rows that experts may need, each padded to whole tiles.

    Source: FlashInfer 0.7.2 trtllm/fused_moe/runner.h, getMaxNumCtasInBatchDim.
    """
    filled = min(experts, rows)
    return (filled + (rows - filled) // tile) * tile


def _hold(beside: Any, sizes: Iterable[float]) -> None:
    """Allocate buffers on a tensor's device, and free them on return."""
    import torch

    buffers = [
        torch.empty(math.ceil(size), dtype=torch.uint8, device=beside.device)
        for size in sizes
    ]
    buffers.clear()


_STANDS_FOR: dict[str, Any] = {
    "init": lambda *_args: _Cutlass(),
    "plan": lambda *_args: [],  # FlashInfer refuses to run what is not planned
    "plan_with_staged_workspace_bytes": lambda *_args: ([0] * _MLA_PLAN, 0),
    "trtllm_bf16_moe": _experts(_bf16),
    "trtllm_fp8_per_tensor_scale_moe": _experts(_fp8),
    "trtllm_fp8_per_tensor_scale_routed_moe": _experts(_fp8),
    "trtllm_fp8_block_scale_moe": _experts(_fp8_blocks),
    "trtllm_fp4_block_scale_moe": _experts(_fp4),
    "trtllm_mxint4_block_scale_moe": _experts(_bf16),
}


@after_import("triton.runtime.jit")
def _triton(module: Any) -> None:
    """Kernels of Triton are not compiled: nothing would run them."""
    module.JITFunction.run = lambda *_args, **_kwargs: None


@after_import("flashinfer.jit.core")
def _flashinfer(module: Any) -> None:
    """Kernels of FlashInfer are not compiled."""
    module.JitSpec.build_and_load = lambda *_args, **_kwargs: Nothing()
    module.JitSpec.build = lambda *_args, **_kwargs: None


@after_import("vllm.v1.attention.backends.flashinfer")
def _lengths_beside_guesses(module: Any) -> None:
    """FlashInfer's plan takes the requests' lengths that the host knows.

    With guesses vLLM reads them back from the GPU, where nothing has written them. The
    host's bound is exact for the requests of a start, which are made up.

    Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py`
    FlashInferMetadataBuilder.build (seq_lens_cpu).
    """
    builder = module.FlashInferMetadataBuilder
    made = builder.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        made(self, *args, **kwargs)
        self._num_speculative_tokens = 0

    builder.__init__ = __init__


@after_import("flashinfer.jit.cubin_loader")
def _flashinfer_files(module: Any) -> None:
    """Files that FlashInfer downloads to compile kernels are not needed."""
    module.get_artifact = module.get_cubin = lambda *_args, **_kwargs: b"none"
    module.get_meta_hash = lambda *_args, **_kwargs: ""
    for name in ("ensure_symlink", "verify_symlinked_headers", "setup_cubin_loader"):
        if hasattr(module, name):
            setattr(module, name, lambda *_args, **_kwargs: None)


@after_import("flashinfer.jit.trtllm_gen_metainfo")
def _flashinfer_kernel_list(module: Any) -> None:
    """The list of downloadable kernels is not written: there is none."""
    module.write_filtered_metainfo = lambda *_args, **_kwargs: None


@after_import("cutlass.base_dsl.dsl")
def _cute(module: Any) -> None:
    """Kernels in CUTLASS's Python language are not compiled: they allocate nothing."""
    module.BaseDSL._func = lambda *_args, **_kwargs: Nothing()


@after_import("tilelang.jit")
def _tilelang(module: Any) -> None:
    """Kernels of TileLang are not compiled: vLLM gives them their buffers."""
    module.JITImpl.__call__ = lambda *_args, **_kwargs: Nothing()


@after_import("humming.jit.runtime")
def _humming_kernels(module: Any) -> None:
    """Kernels of Humming are not compiled."""

    def prepare(self: Any) -> None:
        self.kernel_filename = self.kernel_name = self.name

    runtime = module.KernelRuntime
    runtime.prepare = prepare
    runtime.load_cubin = lambda _self: module.cbd.CUfunction(1)


@after_import("humming.kernel.process_input")
def _humming_inputs(module: Any) -> None:
    """The steps that quantize inputs for Humming are not compiled."""

    def prepare_kernels(_config: object, intervals: Any, *_args: object) -> Any:
        importlib.import_module("humming.ops.utils").init_humming_launcher()
        return module.torch.empty(len(intervals) * 4, dtype=module.torch.int64)

    module.ProcessInputKernel.prepare_kernels = staticmethod(prepare_kernels)


@after_import("humming.ops.utils")
def _humming_launcher(module: Any) -> None:
    """What quantizes inputs for Humming is not launched: it allocates nothing."""
    load = module.init_humming_launcher

    def init_humming_launcher() -> None:
        load()
        if not any(library.ns == "humming" for library in _REGISTERED):
            library = module.torch.library.Library("humming", "IMPL")
            for form in ("launch_process_input", "launch_process_input.inplace"):
                library.impl(form, lambda *_args: None, "CUDA")
            _REGISTERED.append(library)

    module.init_humming_launcher = init_humming_launcher


@after_import("humming.ops.gemm")
def _humming_product(module: Any) -> None:
    """A product of Humming allocates its output: its launcher needs a kernel."""

    def humming_gemm(*, inputs: Any, layer_config: str, **given: Any) -> Any:
        if given.get("outputs") is not None:
            return given["outputs"]
        columns, dtype, is_indexed = module._get_humming_gemm_output_meta(
            layer_config, given.get("compute_config")
        )
        rows = inputs.size(0) * (given.get("top_k", 1) if is_indexed else 1)
        return inputs.new_empty((rows, columns), dtype=dtype)

    module.humming_gemm = humming_gemm


@after_import("humming.schema.base")
def _humming_scales(module: Any) -> None:
    """Stacked weights share their global scale, as those of published models do."""
    schema = module.BaseWeightSchema
    process = schema._may_process_global_scale

    def shared(self: Any, scale: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("force_repeat"):
            return process(self, scale, *args, **kwargs)
        return scale.view(kwargs.get("num_experts") or 1, -1)[:, 0]

    schema._may_process_global_scale = shared
