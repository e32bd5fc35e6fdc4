"""What a release refuses of a quantization method and of the KV cache's dtype."""

import pytest

import planner
from planner.engine.releases import Release
from planner.planning.dtypes import check_kv_cache_dtype, least_capability

QWEN = "Qwen/Qwen3-8B"


def says(model, **arguments):
    """Return vLLM's refusal; empty where it starts or lacks memory."""
    error = planner.plan(model, **arguments).error
    return error.message if error is not None and error.kind == "refused" else ""


@pytest.mark.parametrize(
    ("version", "is_refused"), [("0.32.0", False), ("0.33.0", True)]
)
def test_a_16_bit_cache_may_differ_until_0_33(version, is_refused):
    """0.33.0 brought the check of `config/vllm.py`."""
    said = says(
        "facebook/opt-125m",
        gpu="H100",
        dtype="float16",
        kv_cache_dtype="bfloat16",
        vllm_version=version,
    )

    assert is_refused == ("is incompatible with dtype" in said)
    check_kv_cache_dtype("bfloat16", "float16", Release((0, 32, 0)))


@pytest.mark.parametrize(
    ("gpu", "version", "is_refused"),
    [
        ("H100", "0.31.0", True),
        ("H100", "0.32.0", False),
        ("A100", "0.25.1", True),
        ("B200", "0.25.1", False),
    ],
)
def test_an_nvfp4_cache_came_to_other_gpus_with_0_32(gpu, version, is_refused):
    """Before, only the kernels of Blackwell's data centre GPUs read it."""
    said = says(QWEN, gpu=gpu, kv_cache_dtype="nvfp4", vllm_version=version)

    assert is_refused == ("No valid attention backend found" in said)
    tried = planner.advise(
        planner.plan(QWEN, gpu="L4", vllm_version="0.31.0", max_model_len=40_960)
    )
    assert not [i for i in tried.items if i.changes.get("kv_cache_dtype") == "nvfp4"]


@pytest.mark.parametrize(
    ("version", "is_refused"), [("0.30.0", True), ("0.31.0", False)]
)
def test_online_fp8_takes_an_e5m2_cache_since_0_31(version, is_refused):
    """As long as it was the method of FP8 checkpoints, it loaded scales."""
    said = says(
        QWEN,
        gpu="L40S",
        quantization="fp8",
        kv_cache_dtype="fp8_e5m2",
        vllm_version=version,
    )

    assert is_refused == ("not supported with fp8 checkpoints" in said)


@pytest.mark.parametrize(
    ("method", "newest", "release", "least"),
    [
        ("modelopt", 80, (0, 26, 0), 89),
        ("modelopt", 80, (0, 27, 0), 80),
        ("modelopt_mixed", 75, (0, 23, 0), 89),
        ("modelopt_mixed", 75, (0, 24, 0), 75),
        ("modelopt_mxfp8", 80, (0, 19, 1), 100),
        ("auto_gptq", 60, (0, 21, 0), 75),
        ("fp8", 75, (0, 9, 2), 75),
        (None, 0, (0, 9, 2), 0),
    ],
)
def test_methods_came_to_older_gpus(method, newest, release, least):
    """get_min_capability of each class, release by release."""
    assert least == least_capability(method, newest, Release(release))
