"""What vLLM's modules must not do on a GPU that computes nothing.

Each hook changes a module right after its import. Everything else is vLLM's own code.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any

HOOKS: dict[str, Callable[[Any], None]] = {}
"""Module name -> function that changes it."""


def after_import(name: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function to be called with a module after its import."""

    def register(hook: Callable[[Any], None]) -> Callable[[Any], None]:
        HOOKS[name] = hook
        return hook

    return register


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and calls their hooks once they are executed."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        hook = HOOKS.get(name)
        if hook is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if spec is None or loader is None:
            return None
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            hook(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Register the hooks for modules that are not imported yet."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class Nothing:
    """A compiled module whose functions return nothing."""

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *_args: object, **_kwargs: object) -> None:
        return None

    def __getitem__(self, _key: object) -> Nothing:
        return self


@after_import("triton.runtime.jit")
def _triton(module: Any) -> None:
    """Kernels of Triton are not compiled: nothing would run them."""
    module.JITFunction.run = lambda *_args, **_kwargs: None


@after_import("flashinfer.jit.core")
def _flashinfer(module: Any) -> None:
    """Kernels of FlashInfer are not compiled."""
    module.JitSpec.build_and_load = lambda *_args, **_kwargs: Nothing()
    module.JitSpec.build = lambda *_args, **_kwargs: None


@after_import("vllm.model_executor.models.registry")
def _registry(module: Any) -> None:
    """Model classes are inspected here: another process would see no GPU."""

    def inspect_model_cls(self: Any) -> Any:
        return module._ModelInfo.from_model_cls(self.load_model_cls())

    module._LazyRegisteredModel.inspect_model_cls = inspect_model_cls
