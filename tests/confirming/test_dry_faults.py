"""Errors of the false GPU itself, told from those that vLLM raises on any GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import planner.confirming.dry
from planner.show.dry_run import sheet
from tests.confirming.test_dry_result import dry

INSIDE_VLLM = Path(planner.confirming.dry.__file__).parent / "inside_vllm"


@pytest.fixture
def faults() -> Iterator[ModuleType]:
    """Import what runs in vLLM's Python; it needs the standard library alone."""
    sys.path.insert(0, str(INSIDE_VLLM))
    try:
        yield import_module("dry_faults")
    finally:
        sys.path.remove(str(INSIDE_VLLM))
        del sys.modules["dry_faults"]


def written(file: Path, code: str) -> Path:
    """Return a file with this content: a traceback shows its line."""
    file.parent.mkdir(parents=True)
    file.write_text(code)
    return file


def raised(code: str, file: Path) -> Exception:
    """Return what a program raises that would be in this file."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any type
        exec(compile(code, str(file), "exec"), {})
    return caught.value


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ("raise ValueError('FP8 is not supported')", "vllm/config/model.py"),
        ("assert 1 > 2, 'heads'", "vllm/models/llama.py"),
        ("raise RuntimeError('CUDA graphs need tokens')", "vllm/v1/worker.py"),
        ("raise ValueError('head_dim 80')", "flashinfer/decode.py"),
        ("None + 1", "vllm/models/llama.py"),
        # A validated class raises in its library, not where the check is written.
        ("int('positions cause a CUDA error')", "pydantic/_dataclasses.py"),
    ],
)
def test_checks_are_answers_of_vllm(
    faults: ModuleType, tmp_path: Path, code: str, file: str
) -> None:
    """Of arguments and shapes, in vLLM and in the libraries of kernels."""
    assert faults.fault(raised(code, written(tmp_path / file, code))) is None


@pytest.mark.parametrize(
    ("code", "file", "why"),
    [
        ("assert None, 'no plan'", "flashinfer/decode.py", "kernel"),
        ("None.shape", "deep_gemm/jit.py", "kernel"),
        (
            "class OfflineModeIsEnabled(Exception): pass\nraise OfflineModeIsEnabled",
            "vllm/config/model.py",
            "a file that was not given",
        ),
    ],
)
def test_what_only_a_gpu_or_a_file_answers_is_the_runs_own(
    faults: ModuleType, tmp_path: Path, code: str, file: str, why: str
) -> None:
    """Kernels that are not compiled, files that nobody gave."""
    assert why in faults.fault(raised(code, written(tmp_path / file, code)))


@pytest.mark.parametrize(
    "code",
    [
        "class PreTrainedConfig: pass\n"
        "class HYV3Config(PreTrainedConfig): pass\n"
        "HYV3Config().route_norm",
        "class AmbiguousGlobalPerLayerAttributeError(RuntimeError): pass\n"
        "raise AmbiguousGlobalPerLayerAttributeError('num_attention_heads')",
    ],
)
def test_a_config_without_its_own_files_may_lack_a_field(
    faults: ModuleType, tmp_path: Path, code: str
) -> None:
    """Of Hy3 and Step-3.7 by name; of a checkpoint's folder it is an answer."""
    error = raised(code, written(tmp_path / "vllm/models/hy_v3.py", code))
    assert "published configuration" in faults.fault(error, is_named=True)
    assert faults.fault(error) is None


def test_an_error_inside_the_false_gpu_is_its_own(faults: ModuleType) -> None:
    """Whatever it was raised for first counts."""
    own = raised("raise RuntimeError('reads values')", INSIDE_VLLM / "dry_some.py")
    outer = RuntimeError("Engine core initialization failed")
    outer.__cause__ = own
    assert faults.fault(outer).startswith("<module> of dry_some.py")


def test_a_run_that_failed_says_nothing_of_vllm() -> None:
    """Neither that it starts nor that it refuses."""
    run = dry(fault="a kernel that is not compiled here (AssertionError: no plan)")
    text = str(sheet(run))
    assert "no answer of vLLM" in text
    assert "vLLM said" not in text
