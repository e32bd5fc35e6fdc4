"""What vLLM is started with: the words, and what is no word of them."""

from __future__ import annotations

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


def test_a_switch_without_an_off_is_no_word(tiny_folder, tmp_path):
    """vLLM has no --no-disable-log-stats, and would not start."""
    start = prepared(tiny_folder, tmp_path, aggregate_engine_logging=False)

    assert not any("aggregate-engine-logging" in word for word in start.command)
