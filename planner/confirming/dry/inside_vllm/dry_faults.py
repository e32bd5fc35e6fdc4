"""Whose error ends a start: vLLM's on any GPU, or that of the GPU that is not there.

What vLLM, Transformers or PyTorch raise about the model and its arguments is an answer.
An error of a program of this folder, of a compiled kernel that was replaced, of CUDA,
or of a file that nobody gave is none: vLLM might start with all of them.
"""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_KERNELS = re.compile(
    r"/(flashinfer|triton|humming|tilelang|cutlass|nvidia_cutlass_dsl|deep_gemm|"
    r"tvm_ffi|cuda|cudnn)/"
)
"""Packages whose kernels are not compiled here."""
_OF_DRIVER = re.compile(r"\b(CUDA|CUDNN|CUBLAS|cuDNN|cuBLAS|NVML|NCCL|NVRTC)", re.A)
_OF_MEMORY = "out of memory"
NO_KERNELS = "CUDA error: no kernel image is available for execution on the device"
"""What a GPU says that is older than those PyTorch was built for."""
_OFFLINE = ("LocalEntryNotFoundError", "OfflineModeIsEnabled")
_FOR_EACH_LAYER = "AmbiguousGlobalPerLayerAttributeError"
_CHECKS = ("raise ", "raise\n", "assert ")


def fault(error: BaseException, *, is_named: bool = False) -> str | None:
    """Say why an error is the dry run's own; None for an answer of vLLM.

    `is_named`: whether only config.json is at hand, and not the checkpoint itself.
    """
    first = _first(error)
    whose = _missing(error) or _raised_by(first)
    if is_named and _is_of_config(first):
        whose = "a field or the code of the published configuration is not at hand"
    return f"{whose} ({type(first).__name__}: {first})" if whose else None


def _missing(error: BaseException) -> str | None:
    """Name what nobody gave, if that is what an error is about."""
    if any(type(one).__name__ in _OFFLINE for one in _chain(error)):
        return "a file that was not given is missing"
    first, configs = _first(error), sys.modules.get("dry_configs")
    of = type(getattr(first, "obj", None))
    is_plain = any(one.__module__ == "dry_configs" for one in of.__mro__)
    is_read = isinstance(first, AttributeError) and vars(configs or object).get(
        "IGNORED"
    )
    if is_plain or is_read or "dry_configs." in str(first):
        return "the code of the model's configuration is not at hand"
    return None


def _is_of_config(error: BaseException) -> bool:
    """Whether a configuration lacks an attribute, or one for all of its layers."""
    of = type(getattr(error, "obj", None)).__mro__
    is_lacking = any(one.__name__.lower() == "pretrainedconfig" for one in of)
    return is_lacking or type(error).__name__ == _FOR_EACH_LAYER


def _raised_by(error: BaseException) -> str | None:
    """Name the part without a GPU that an error comes from, if it is one."""
    steps = traceback.extract_tb(error.__traceback__)
    is_said = any(words in str(error) for words in (_OF_MEMORY, NO_KERNELS))
    if not steps or is_said or isinstance(error, ImportError):
        return None
    last, is_check = steps[-1], (steps[-1].line or "").startswith(_CHECKS)
    if Path(last.filename).parent == _HERE:
        return f"{last.name} of {Path(last.filename).name}"
    if _KERNELS.search(last.filename):
        is_answer = is_check and not isinstance(error, AssertionError)
        return None if is_answer else "a kernel that is not compiled here"
    # What vLLM checks is a ValueError, pydantic's among them, whatever it speaks of.
    is_check |= isinstance(error, ValueError)
    is_driver = not is_check and _OF_DRIVER.search(str(error))
    return "the driver that is not there" if is_driver else None


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that it was raised from, the first one last."""
    found: list[BaseException] = [error]
    while (earlier := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(earlier)
    return found


def _first(error: BaseException) -> Any:
    """Return the error that the others were raised from, or the error itself."""
    causes = error
    while causes.__cause__ is not None:
        causes = causes.__cause__
    return causes
