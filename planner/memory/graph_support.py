"""Which CUDA graphs the attention kernels of a model let vLLM capture."""

from __future__ import annotations

from planner.compilation import Compilation, GraphMode
from planner.gpu import GPU
from planner.memory.kernels import Kernels
from planner.parallel import HOPPER

_ANY_BATCH = ("TRITON_ATTN", "TRITON_ATTN_DIFFKV", "FLEX_ATTENTION")
_FLASH = ("FLASH_ATTN", "FLASH_ATTN_DIFFKV")


def runner_mode(compilation: Compilation, kernels: Kernels, gpu: GPU) -> GraphMode:
    """Return the graphs as they are captured: whole mixed batches not by all kernels.

    Source: vLLM 0.33.0 `config/compilation.py` resolve_cudagraph_mode_and_sizes;
    `v1/attention/backends/` get_cudagraph_support of each.
    """
    if compilation.graph_mode is not GraphMode.FULL:
        return compilation.graph_mode
    names = {held.backend.name for held in kernels.layers.caches if held.backend}
    has_states = any(spec.is_state for _, spec in kernels.specs)
    is_flash_3 = gpu.compute_capability[0] >= HOPPER
    taking = (*_ANY_BATCH, *(_FLASH if is_flash_3 else ()))
    if names and names <= set(taking) and not has_states:
        return GraphMode.FULL
    if compilation.is_compiled:
        return GraphMode.FULL_AND_PIECEWISE
    return GraphMode.FULL_DECODE_ONLY
