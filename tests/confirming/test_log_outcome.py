"""Whether a logged start came up, and what kept it from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.confirming.log import read_log

LOGS = Path(__file__).parents[1] / "data" / "logs"
NO_ROOM = (
    "To serve at least one request with the models's max seq len (8192), (1.0 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (0.95 GiB). "
    "Based on the available memory, the estimated maximum model length is 7760. Try "
    "increasing `gpu_memory_utilization`."
)
FAILED = f"""
(APIServer pid=1) INFO 07-26 14:53:01 [api_server.py:1896] vLLM API server version 0.11.0
(EngineCore pid=3) INFO 07-26 14:53:54 [gpu_worker.py:424] Available KV cache memory: 0.95 GiB
(EngineCore pid=3) ERROR 07-26 14:53:54 [core.py:1100] EngineCore failed to start.
(EngineCore pid=3) ERROR 07-26 14:53:54 [core.py:1100] Traceback (most recent call last):
(EngineCore pid=3) ERROR 07-26 14:53:54 [core.py:1100] ValueError: {NO_ROOM}
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""  # noqa: E501 - lines of a log
UP = """
(APIServer pid=1) INFO 07-26 14:53:01 [api_server.py:1896] vLLM API server version 0.11.0
(EngineCore pid=3) INFO 07-26 14:53:54 [kv_cache_utils.py:864] GPU KV cache size: 422,672 tokens
(APIServer pid=1) INFO:     Application startup complete.
"""  # noqa: E501 - lines of a log
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has "
    "a total capacity of 79.19 GiB of which 3.33 GiB is free."
)


def test_a_start_that_failed() -> None:
    """The cause, not the error that wraps it; the figures in it are read."""
    said = read_log(FAILED).to_dict()
    assert said["started"] is False
    assert said["error"] == f"ValueError: {NO_ROOM}"
    assert read_log(FAILED).message == NO_ROOM
    assert (1.0, 7760) == (said["needed_kv_gib"], said["estimated_max_len"])
    assert 0.95 == said["available_kv_gib"]


def test_an_error_of_a_request_is_no_failed_start() -> None:
    """It came later; the reading keeps it apart."""
    reading = read_log(f"{UP}(EngineCore pid=3) ERROR 07-26 15:00:00 [core.py:9] {{}}")
    assert (True, None) == (reading.started, reading.later_error)
    reading = read_log(
        f"{UP}(EngineCore pid=3) ERROR 07-26 15:00:00 [core.py:9] {OUT_OF_MEMORY}"
    )
    assert (True, None) == (reading.started, reading.error)
    assert reading.later_error == OUT_OF_MEMORY
    reading = read_log(
        f"{UP}ERROR 07-26 15:00:00 [serving.py:9] ValueError: This model's maximum "
        "context length is 2048 tokens. However, you requested 5418 tokens."
    )
    assert (True, None) == (reading.started, reading.later_error)


def test_an_error_that_vllm_shrugs_off_is_no_failed_start() -> None:
    """A warm-up fails with a warning, and the server comes up all the same."""
    reading = read_log((LOGS / "cpu-0.32.0.log").read_text("utf-8"))
    assert (True, None, None) == (reading.started, reading.error, reading.later_error)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "cpu-0.32.0-no-room.log",
            "ValueError: To serve at least one request with the model's max seq len "
            "(2048), (0.0 GiB KV cache is needed",
        ),
        (
            "cpu-0.32.0-too-long.log",
            "ValueError: User-specified max_model_len (1000000) is greater than the "
            "derived max_model_len (max_position_embeddings=2048.0 or "
            "model_max_length=None in model's config.json). To allow",
        ),
        (
            "cpu-0.32.0-little-memory.log",
            "ValueError: Available memory on node 0 (18.31/21.09 GiB) on kv cache "
            "allocation is less than requested memory for kv (-0.41/0.21 GiB).",
        ),
    ],
)
def test_failures_of_the_cpu_build(name: str, error: str) -> None:
    """Three processes report each of them; the sentence that matters is told."""
    reading = read_log((LOGS / name).read_text("utf-8"))
    assert reading.started is False
    assert (reading.error or "").startswith(error)
    assert "[type=" not in (reading.error or "")


def test_a_chain_of_errors_tells_the_last() -> None:
    """Out of memory in the sampler's warm-up: vLLM's own sentence follows from it."""
    words = (
        "CUDA out of memory occurred when warming up sampler with 1024 dummy requests. "
        "Please try lowering `max_num_seqs` or `gpu_memory_utilization` when "
        "initializing the engine."
    )
    head = "(EngineCore pid=3) ERROR 07-26 14:53:54 [core.py:1100] "
    chain = "The above exception was the direct cause of the following exception:"
    lines = [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        OUT_OF_MEMORY,
        "",
        chain,
        "",
        "Traceback (most recent call last):",
        f"RuntimeError: {words}",
    ]
    text = "\n".join(head + line for line in lines)
    assert read_log(text).error == f"RuntimeError: {words}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
            "CacheConfig\ngpu_memory_utilization\n  Input should be less than or equal "
            "to 1 [type=less_than_equal, input_value=1.5, input_type=float]\n"
            "    For further information visit https://errors.pydantic.dev/2.12/v/le",
            "ValidationError: gpu_memory_utilization: Input should be less than or "
            "equal to 1",
        ),
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
            "SchedulerConfig\n  Assertion failed, no tokens [type=assertion_error, "
            "input_value=1, input_type=int]",
            "AssertionError: no tokens",
        ),
        (
            "vllm serve: error: unrecognized arguments: --gpu-memory 0.9",
            "unrecognized arguments: --gpu-memory 0.9",
        ),
        (
            "(EngineCore pid=3) torch.cuda.OutOfMemoryError: CUDA out of memory.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        ),
        (
            "(EngineCore pid=3) torch.AcceleratorError: CUDA error: out of memory",
            "torch.AcceleratorError: CUDA error: out of memory",
        ),
        (
            "(EngineCore pid=3) RuntimeError: Engine core initialization failed. See "
            "root cause above. Failed core proc(s): {'EngineCore_DP0': -9}",
            "RuntimeError: Engine core initialization failed. See root cause above. "
            "Failed core proc(s): {'EngineCore_DP0': -9}",
        ),
    ],
)
def test_errors_of_other_kinds(text: str, error: str) -> None:
    """Settings that do not validate, a flag that is not there, memory that is not."""
    begin = (
        "(APIServer pid=1) INFO 07-26 14:53:01 [a.py:1] vLLM API server version 0.11"
    )
    reading = read_log(f"{begin}\n{text}")
    assert (False, error) == (reading.started, reading.error)


def test_a_sentence_wrapped_over_lines_is_told_whole() -> None:
    """An issue's page wraps at 80 columns."""
    wrapped = (
        "(EngineCore pid=3) ERROR 07-26 14:53:54 [core.py:1] ValueError: No available\n"
        "memory for the cache blocks. Try increasing `gpu_memory_utilization` when\n"
        "initializing the engine.\n"
    )
    assert read_log(wrapped).error == (
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine."
    )


def test_a_log_that_ends_early_does_not_tell() -> None:
    """It began, and nothing failed yet; an interrupt is no failure either."""
    begun = "\n".join(UP.splitlines()[:3])
    assert read_log(begun).started is None
    assert read_log(f"{begun}\nKeyboardInterrupt: terminated").started is None


def test_a_script_without_a_server_tells_by_its_engine() -> None:
    """The LLM class ends with the engine's own line."""
    reading = read_log(
        "INFO 11-21 15:28:38 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with "
        "config: model='m', dtype=torch.bfloat16\n"
        "(EngineCore_DP0 pid=2) INFO 11-21 15:29:26 [core.py:402] init engine (profile,"
        " create kv cache, warmup model) took 38.86 seconds\n"
    )
    assert (True, 48.0) == (reading.started, reading.seconds)


def test_the_last_start_counts() -> None:
    """A server that is restarted until it fits, and one that is cut off after that."""
    reading = read_log(FAILED + UP)
    assert (2, True, None) == (reading.num_starts, reading.started, reading.error)
    assert "needed_kv_gib" not in reading.figures
    reading = read_log(UP + FAILED)
    assert (2, False) == (reading.num_starts, reading.started)
    begun = UP.splitlines()[1]
    reading = read_log(f"{UP}{FAILED}{begun}\n")
    assert (3, False) == (reading.num_starts, reading.started)
    assert 0.95 == reading.figures["available_kv_gib"]


def test_two_engines_of_one_script_are_two_starts() -> None:
    """The arguments of the second stand before it says that it begins."""
    script = "".join(
        f"INFO 07-26 14:5{minute}:01 [utils.py:233] non-default args: {{'model': "
        f"'{model}'}}\n"
        f"(EngineCore pid={minute}) INFO 07-26 14:5{minute}:02 [core.py:105] "
        f"Initializing a V1 LLM engine (v0.19.1) with config: model='{model}'\n"
        f"(EngineCore pid={minute}) INFO 07-26 14:5{minute}:09 [g.py:1] Model loading "
        f"took {minute}.5 GiB memory and 2.4 seconds\n"
        for minute, model in enumerate(("org/a", "org/b"))
    )
    reading = read_log(script)
    assert (2, "org/b", 1.5) == (
        reading.num_starts,
        reading.model,
        reading.figures["weights_gib"],
    )


def test_engines_of_one_server_are_one_start() -> None:
    """Data parallel: the server and both of its engines say that they begin."""
    engines = "".join(
        f"(EngineCore_DP{rank} pid={rank}) INFO 07-26 14:53:0{rank} [core.py:77] "
        "Initializing a V1 LLM engine (v0.11.0) with config: model='m'\n"
        for rank in range(2)
    )
    begin, rest = UP.strip().split("\n", 1)
    assert 1 == read_log(f"{begin}\n{engines}{rest}").num_starts


def test_a_full_gpu_is_a_failed_start_though_nothing_shows_whose() -> None:
    """PyTorch's sentence alone, as people quote it."""
    words = "CUDA out of memory. Tried to allocate 1.74 GiB. GPU 1 has 605.88 MiB free."

    reading = read_log(f"it says\n{words}\n")

    assert reading.to_dict() == {"started": False, "error": words}
    assert not reading.is_vllm
