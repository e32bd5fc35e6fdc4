"""What vLLM is started with: the words, and what is no word of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import planner
from planner import GPU
from planner.confirming import installation, launch
from planner.confirming.devices import Devices
from planner.confirming.options import RunOptions

pytestmark = pytest.mark.usefixtures("vllm_stand_in")


def prepared(folder, scratch, **arguments):
    """Return how vLLM would be started on a processor of 16 GiB."""
    gpu = GPU(name="CPU", total_memory_bytes=16 * 2**30)
    plan = planner.plan(folder, gpu=gpu, dtype="float32", **arguments)
    return launch.prepare(
        plan,
        RunOptions(),
        installation.find(),
        Devices(device_name="CPU"),
        scratch,
        None,
    )


def test_a_token_reaches_vllm_by_its_variable(tiny_folder, tmp_path):
    """Other users of a machine can read the words of a command."""
    start = prepared(tiny_folder, tmp_path, hf_token="hf_x1")

    assert "hf_x1" not in " ".join(start.command)
    assert "hf_x1" == start.environment["HF_TOKEN"]


def test_what_vllm_starts_runs_no_module_of_the_working_folder(tiny_folder, tmp_path):
    """PyTorch's compiler started Pythons that took a torch.py there for their own."""
    start = prepared(tiny_folder, tmp_path)
    (tmp_path / "of_the_folder.py").write_text("print('ran')")
    asked = [sys.executable, "-c", "import of_the_folder"]
    tried = [
        subprocess.run(
            asked, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        for env in (start.environment, os.environ)
    ]

    assert ["", "ran\n"] == [one.stdout for one in tried]
    assert "No module named 'of_the_folder'" in tried[0].stderr


def test_a_switch_without_an_off_is_no_word(tiny_folder, tmp_path):
    """vLLM has no --no-disable-log-stats, and would not start."""
    start = prepared(tiny_folder, tmp_path, aggregate_engine_logging=False)

    assert not any("aggregate-engine-logging" in word for word in start.command)


def on_t4(folder, scratch, **arguments):
    """Return the plan of a T4, and how vLLM would be started on one."""
    plan = planner.plan(folder, gpu="T4", **arguments)
    start = launch.prepare(
        plan,
        RunOptions(),
        installation.find(),
        Devices(device_name="Tesla T4"),
        scratch,
        None,
    )
    return plan, start


def test_a_t4_needs_no_flag_of_its_own(tiny_folder, tmp_path, monkeypatch):
    """vLLM chooses dtype and attention for capability 7.5; caches stay where they are.

    Source: vLLM 0.33.0 `platforms/cuda.py` CudaPlatformBase.supported_dtypes and
    _get_backend_priorities; `v1/attention/backends` supports_compute_capability.
    """
    monkeypatch.setenv("HF_HOME", "/content/huggingface")
    plan, start = on_t4(tiny_folder, tmp_path, max_model_len=64)
    flags = {word for word in start.command if word.startswith("--")}
    ours = {
        *("--load-format", "--worker-extension-cls", "--skip-tokenizer-init"),
        *("--served-model-name", "--host", "--port", "--disable-uvicorn-access-log"),
    }

    assert "float16" == plan.resolved.dtype
    assert {"--max-model-len"} <= flags <= {"--max-model-len", *ours}
    assert "127.0.0.1" == start.command[start.command.index("--host") + 1]
    assert "/content/huggingface" == start.environment["HF_HOME"]


def test_what_a_t4_lacks_is_refused_before_anything_starts(tiny_folder):
    """As vLLM would: bfloat16 below 8.0, and since 0.24 an FP8 KV cache below 8.9."""
    bfloat = planner.plan(tiny_folder, gpu="T4", dtype="bfloat16")
    packed = planner.plan(tiny_folder, gpu="T4", kv_cache_dtype="fp8")

    assert "compute capability of at least 8.0" in bfloat.error.message
    assert "requires SM89+" in packed.error.message
