"""The libraries of a GPU that is not there: which are replaced, what they report."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.confirming.dry import false_gpu
from planner.confirming.installation import Installation
from planner.engine.gpu import GPU
from planner.errors import PlannerError

LIBRARIES = ("libcudart", "libcublas", "libcublasLt")


def environment(packages: Path, cuda: str, **folders: str) -> Path:
    """Write an environment's packages: a major version of CUDA, libraries of others."""
    (packages / "torch").mkdir(parents=True)
    text = f"from typing import Optional\ncuda: Optional[str] = '{cuda}'\n"
    (packages / "torch" / "version.py").write_text(text)
    for major, folder in folders.items():
        for name in LIBRARIES:
            _library(packages / "nvidia" / folder, f"{name}.so.{major.strip('v')}")
    _library(packages / "nvidia" / "nccl", "libnccl.so.2")
    return packages


def _library(folder: Path, name: str) -> None:
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    (folder / "lib" / name).touch()


def installation(*, is_cpu_build: bool = False) -> Installation:
    """Return a vLLM that nothing asks."""
    return Installation(
        python="python", package="vllm", version="0.19.1", is_cpu_build=is_cpu_build
    )


@pytest.mark.parametrize(
    ("cuda", "expected"), [("12.8", "cuda_runtime"), ("13.0", "cu13")]
)
def test_libraries_are_those_of_the_cuda_that_pytorch_was_built_for(
    tmp_path: Path, cuda: str, expected: str
) -> None:
    """An environment that was upgraded holds CUDA 12's packages beside CUDA 13's."""
    packages = environment(tmp_path, cuda, v12="cuda_runtime", v13="cu13")
    real = false_gpu._real_libraries(installation(), packages)
    assert {expected} == {
        real[source].parts[-3] for source in ("runtime", "blas", "blas_lt")
    }


def test_an_environment_without_cuda_is_refused(tmp_path: Path) -> None:
    """The message says which build a dry run needs."""
    with pytest.raises(PlannerError, match="without CUDA's libraries"):
        false_gpu._real_libraries(installation(), tmp_path)


def test_the_cpu_build_is_refused(tmp_path: Path) -> None:
    """Its PyTorch has no code for NVIDIA GPUs."""
    packages = environment(tmp_path, "13.0", v13="cu13")
    with pytest.raises(PlannerError, match="the CPU build"):
        false_gpu._real_libraries(installation(is_cpu_build=True), packages)


def test_memory_that_others_hold_is_total_less_free() -> None:
    """80 GiB less 70 GiB free: 10 GiB are in use before vLLM starts."""
    gpu = GPU.named("H100", total_memory_bytes=80 << 30, free_memory_bytes=70 << 30)
    facts = false_gpu.variables(gpu, devices=2)
    assert (str(80 << 30), str(10 << 30), "2") == (
        facts["PLANNER_GPU_TOTAL_BYTES"],
        facts["PLANNER_GPU_USED_BYTES"],
        facts["PLANNER_GPU_DEVICES"],
    )


def test_nvml_holds_what_pytorch_looks_for(tmp_path: Path) -> None:
    """PyTorch's library keeps the names side by side, vLLM's binding in quotes."""
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "lib" / "libc10_cuda.so").write_bytes(
        b"\0nvmlInit_v2\0nvmlDeviceGetGpuFabricInfoV\0nvmlInit_v2 failed\0"
    )
    (tmp_path / "pynvml.py").write_text('_function("nvmlShutdown")')
    names = {"nvmlInit_v2", "nvmlDeviceGetGpuFabricInfoV", "nvmlShutdown"}
    assert names == false_gpu._management_names(tmp_path)
