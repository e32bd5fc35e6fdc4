"""What vLLM's modules must not do on a GPU that computes nothing.

Each hook changes a module right after its import. Everything else is vLLM's own code.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HOOKS: dict[str, list[Callable[[Any], None]]] = {}
"""Module name -> functions that change it, in this order."""


def after_import(name: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function to be called with a module after its import."""

    def register(hook: Callable[[Any], None]) -> Callable[[Any], None]:
        HOOKS.setdefault(name, []).append(hook)
        return hook

    return register


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and calls their hooks once they are executed."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        hooks = HOOKS.get(name)
        if hooks is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if spec is None or loader is None:
            return None
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            for hook in hooks:
                hook(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_COMPILER = """#!/bin/sh
# Stands for NVIDIA's compiler: writes the file that is wanted, without code.
last=
for word in "$@"; do
  case "$last" in -o | --output-file) echo "kernel" > "$word" ;; esac
  last="$word"
done
echo "Cuda compilation tools, release 13.0, V13.0.0"
"""


def _replace_compiler(folder: Path) -> None:
    """Let programs that compile kernels (DeepGEMM) find a compiler that does nothing.

    vLLM chooses kernels by what is installed beside it: here all that its image holds.
    """
    program = folder / "toolkit" / "bin" / "nvcc"
    if not program.is_file() or program.read_text(encoding="utf-8") != _COMPILER:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(_COMPILER, encoding="utf-8")
        program.chmod(0o755)
    os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = str(folder / "toolkit")
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # FlashInfer's files: as in vLLM's own image, not looked for in the network.
    os.environ.setdefault("VLLM_HAS_FLASHINFER_CUBIN", "1")


def install() -> None:
    """Register the hooks for modules that are not imported yet."""
    import dry_kernels  # noqa: F401 - registers its hooks in this module

    _replace_compiler(Path(os.environ["PLANNER_GPU_LIBRARIES"]))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


@after_import("vllm.model_executor.layers.quantization.kv_cache")
def _kv_cache_scales(module: Any) -> None:
    """Scales of the KV cache are 1, on the host: vLLM refuses the device's zeros."""
    method = module.BaseKVCacheMethod
    process = method.process_weights_after_loading

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        import torch

        for name in ("q_scale", "k_scale", "v_scale", "prob_scale"):
            scale = getattr(layer, name, None)
            if isinstance(scale, torch.nn.Parameter):
                scale.data = torch.ones(scale.shape)
        process(self, layer)

    method.process_weights_after_loading = process_weights_after_loading


@after_import("vllm.model_executor.layers.quantization.utils.marlin_utils_fp8")
def _repeated_scales(module: Any) -> None:
    """Widths by which Marlin's scales are repeated came from the host.

    Source: vLLM 0.33.0 prepare_fp8_layer_for_marlin.
    """
    import dry_values

    module.prepare_fp8_layer_for_marlin = dry_values.knowing(
        dry_values.KnownValues(), module.prepare_fp8_layer_for_marlin
    )


@after_import("vllm.model_executor.models.registry")
def _registry(module: Any) -> None:
    """Model classes are inspected here: another process would see no GPU."""

    def inspect_model_cls(self: Any) -> Any:
        return module._ModelInfo.from_model_cls(self.load_model_cls())

    module._LazyRegisteredModel.inspect_model_cls = inspect_model_cls


@after_import("vllm.model_executor.warmup.kernel_warmup")
def _warmup(module: Any) -> None:
    """Kernels are not compiled and tuned ahead, after the memory is shared out."""
    module.kernel_warmup = lambda *_args, **_kwargs: None


@after_import("vllm.utils.mem_utils")
def _shared_memory(module: Any) -> None:
    """On a GPU that shares the host's memory, the host's free memory is the GPU's.

    vLLM asks the operating system for it there, which knows this machine's only.

    Source: vLLM 0.33.0 `utils/mem_utils.py` MemorySnapshot.measure,
    release_device_memory_under_pressure; 0.19 asks by compute capability.
    """
    if os.environ.get("PLANNER_GPU_INTEGRATED") == "1":
        module.psutil = _Host()


class _Host:
    """Answers like psutil for a host whose memory is the GPU's."""

    def virtual_memory(self) -> Any:
        """Return the memory of the selected GPU in whole bytes."""
        import torch

        free, total = torch.cuda.mem_get_info()
        return SimpleNamespace(available=free, total=total)


@after_import("vllm.models.deepseek_v41.common.engram")
def _engrams(module: Any) -> None:
    """Tables of n-grams stay as the host gives them, and tokens are not folded.

    The tokenizer made from config.json holds other words than the model's own, and
    gigabytes of tables would be written on this machine.

    Source: vLLM 0.33.0 `models/deepseek_v41/common/engram.py` NgramHashState.
    """
    state, table = module.NgramHashState, module.ParallelEngramEmbedding
    start, build = state.__init__, table.__init__

    def build_map(self: Any, config: Any, layout: Any, *others: Any) -> None:
        module.build_compressed_token_map = lambda tokenizer: (
            [0] * max(len(tokenizer), layout.pad_token_id + 1),
            layout.compressed_vocab_size,
        )
        start(self, config, layout, *others)

    def build_table(self: Any, *sizes: Any, **named: Any) -> None:
        build(self, *sizes, **named)
        for held in (self.weight, self.weight_scale_inv):
            if held.device.type == "cpu":
                held.fill_ = lambda _value, held=held: held

    state.__init__, table.__init__ = build_map, build_table
