"""Version, model, arguments and times that a log shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.confirming.from_log import measurement_of, plan_arguments
from planner.confirming.log import read_log
from planner.units import GIB
from tests.confirming.test_log import MIDDLE, NEWER

LOGS = Path(__file__).parents[1] / "data" / "logs"
ARGS = (
    "(APIServer pid=1) INFO 08-16 01:40:02 [utils.py:253] non-default args: "
    "{'model_tag': 'org/Some-Model', 'port': 8011, 'api_key': ['secret'], 'model': "
    "'org/Some-Model', 'max_model_len': 32768, 'tensor_parallel_size': 2, "
    "'enable_expert_parallel': True, 'kv_cache_dtype': 'fp8', 'served_model_name': "
    "['it'], 'pooler_config': PoolerConfig(pooling_type='LAST', normalize=True), "
    "'limit_mm_per_prompt': {'image': 2, 'audio': 0}, 'gpu_memory_utilization': 0.8}"
)
CONFIG = (
    "(EngineCore_DP0 pid=2) INFO 08-16 01:40:10 [core.py:77] Initializing a V1 LLM "
    "engine (v0.11.0) with config: model='org/Some-Model', speculative_config=None, "
    "tokenizer='org/Some-Model', revision=None, trust_remote_code=False, "
    "dtype=torch.bfloat16, max_seq_len=32768, download_dir=None, load_format=auto, "
    "tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, "
    "quantization=None, enforce_eager=False, kv_cache_dtype=fp8, device_config=cuda, "
    "seed=0, enable_prefix_caching=True, chunked_prefill_enabled=True, "
    'compilation_config={"level":3,"enforce_eager":true}'
)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("INFO 06-15 14:33:32 [a.py:1] vLLM API server version 0.10.2", "0.10.2"),
        ("INFO 06-15 14:33:32 [a.py:1] ▄▄ ▄█ █  █ ▀▄▀ █  version 0.33.0", "0.33.0"),
        (
            "INFO 06-15 14:33:32 [a.py:1] vLLM API server version "
            "0.11.0rc2.dev98+g393de22d2",
            "0.11.0rc2.dev98+g393de22d2",
        ),
        ("INFO 06-15 [a.py:1] vLLM server version 0.31.0, serving model m", "0.31.0"),
        ("INFO 06-15 Initializing an LLM engine (v0.5.4) with config: m", "0.5.4"),
        ("docker run vllm/vllm-openai:v0.23.0; KV cache size: 1 tokens", "0.23.0"),
        ("Available KV cache memory: 1.0 GiB; V1 LLM engine (v0.24.0)", "0.24.0"),
        ("Available KV cache memory: 1.0 GiB; vLLM 0.20.1", "0.20.1"),
        (
            "vLLM Version                 : 0.18.2rc1.dev73+gdb7a",
            "0.18.2rc1.dev73+gdb7a",
        ),
        ("Available KV cache memory: 1.0 GiB", None),
    ],
)
def test_the_version(line: str, version: str | None) -> None:
    """Each release writes it in its own way."""
    assert version == read_log(line).vllm_version


def test_the_arguments_that_were_given() -> None:
    """What is no literal is left out; the rest is as it was typed."""
    reading = read_log(ARGS)
    assert "org/Some-Model" == reading.model
    assert "pooler_config" not in reading.arguments
    assert {"image": 2, "audio": 0} == reading.arguments["limit_mm_per_prompt"]
    assert 8011 == reading.arguments["port"]


def test_the_arguments_of_a_plan() -> None:
    """Pasted, they plan the same start; what is the server's own is left out."""
    arguments = plan_arguments(read_log(ARGS))
    assert {
        "max_model_len": 32768,
        "tensor_parallel_size": 2,
        "enable_expert_parallel": True,
        "kv_cache_dtype": "fp8",
        "served_model_name": ["it"],
        "limit_mm_per_prompt": {"image": 2, "audio": 0},
        "gpu_memory_utilization": 0.8,
    } == arguments
    plan = planner.plan("Qwen/Qwen3-8B", **{**arguments, "served_model_name": None})
    assert 2 == plan.gpus_total


def test_the_configuration_of_the_engine() -> None:
    """Where no arguments are shown its line tells them, under their own names."""
    reading = read_log(CONFIG)
    assert ("org/Some-Model", "0.11.0") == (reading.model, reading.vllm_version)
    assert "cuda" == reading.setting.device
    assert {
        "model": "org/Some-Model",
        "revision": None,
        "trust_remote_code": False,
        "dtype": "bfloat16",
        "max_model_len": 32768,
        "load_format": "auto",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "quantization": None,
        "enforce_eager": False,
        "kv_cache_dtype": "fp8",
        "enable_prefix_caching": True,
    } == reading.arguments


def test_arguments_that_are_cut_off() -> None:
    """A line that ends in the middle tells what stands before."""
    cut = ARGS[: ARGS.index("'enable_expert")] + "'kv_cache"
    assert 2 == read_log(cut).arguments["tensor_parallel_size"]


@pytest.mark.parametrize(
    ("line", "is_cold"),
    [
        ("Directly load the compiled graph(s) for dynamic shape from the cache", False),
        ("Directly load AOT compilation from path /cache/model", False),
        ("Compiling a graph for dynamic shape takes 33.5 s", True),
        ("[backbone] saved AOT compiled function to /cache/model", True),
        ("Compiling model again due to a load failure from /cache/model", True),
        ("Available KV cache memory: 1.0 GiB", None),
    ],
)
def test_whether_the_compile_cache_was_warm(line: str, is_cold: bool | None) -> None:
    """A cold one takes memory that a warm one does not."""
    text = f"{CONFIG}\n(EngineCore pid=2) INFO 08-16 01:40:10 [a.py:1] {line}"
    assert is_cold is read_log(text).is_compile_cache_cold
    word = {True: "cold", False: "warm", None: None}[is_cold]
    assert word == read_log(text).to_dict().get("compile_cache")


def test_how_long_its_parts_took() -> None:
    """In seconds; of several ranks the longest."""
    times = """
(Worker_TP0 pid=2) INFO 08-16 01:41:00 [l.py:1] Loading weights took 71.10 seconds
(Worker_TP1 pid=3) INFO 08-16 01:41:02 [l.py:1] Loading weights took 73.25 seconds
(Worker_TP0 pid=2) INFO 08-16 01:41:30 [m.py:1] torch.compile takes 25.50 s in total
(EngineCore pid=4) INFO 08-16 01:42:00 [c.py:1] init engine (profile, create kv cache, warmup model) took 61.00 seconds
"""  # noqa: E501 - lines of a log
    reading = read_log(CONFIG + MIDDLE + times)
    assert {
        "loading_weights": 73.25,
        "loading_model": 38.074301,
        "compiling": 25.5,
        "profiling": 17.55,
        "capturing": 4.0,
        "init_engine": 61.0,
    } == reading.setting.seconds


def test_a_start_over_new_years_eve() -> None:
    """Stamps have no year."""
    reading = read_log(
        "INFO 12-31 23:59:30 [a.py:1] vLLM API server version 0.11.0\n"
        "INFO 01-01 00:00:30 [a.py:1] Starting vLLM API server 0 on http://0.0.0.0:8000"
    )
    assert (True, 60.0) == (reading.started, reading.seconds)


@pytest.mark.parametrize(
    ("line", "is_charged"),
    [
        ("CUDA graph memory profiling is enabled (default since v0.21.0).", True),
        ("CUDA graph memory profiling is disabled (VLLM_MEMORY=0).", False),
        ("In v0.19, CUDA graph memory profiling will be enabled by default", False),
        ("Available KV cache memory: 1.0 GiB", None),
    ],
)
def test_whether_the_graphs_estimate_is_charged(
    line: str, is_charged: bool | None
) -> None:
    """The log says so in a sentence."""
    assert is_charged is read_log(f"{CONFIG}\n{line}").setting.is_estimate_charged


def test_a_measurement_of_a_log() -> None:
    """The CPU build's: 3.54 GiB for the KV cache, compiled anew, ready after 73 s."""
    measured = measurement_of((LOGS / "cpu-0.32.0.log").read_text("utf-8"))
    assert round(3.54 * GIB) == measured.available_kv_cache_bytes
    assert (3709568, 1811.31) == (
        measured.kv_cache_size_tokens,
        measured.max_concurrency,
    )
    assert ("0.32.0", True, True) == (
        measured.vllm_version,
        measured.is_started,
        measured.is_compile_cache_cold,
    )
    assert (73.0, True) == (measured.seconds, measured.is_dummy)
    assert (2048, 0.2) == (
        measured.engine.max_model_len,
        measured.engine.gpu_memory_utilization,
    )


def test_the_peak_of_a_newer_release_without_the_graphs_in_it() -> None:
    """0.31: 1.44 GiB with the estimate of 1.24 GiB, 0.20 GiB of them activations."""
    assert 1.44 == read_log(NEWER).figures["activation_gib"]
    assert 0.2 == read_log(NEWER).peak_activation_gib
    assert 0.2 == measurement_of(NEWER).log.figures["activation_gib"]
    disabled = f"{NEWER}CUDA graph memory profiling is disabled (VLLM_MEMORY=0)."
    assert 1.44 == read_log(disabled).peak_activation_gib
    assert 0.77 == read_log(MIDDLE).peak_activation_gib


def test_a_measurement_of_a_log_that_failed() -> None:
    """Its error is vLLM's sentence."""
    text = (LOGS / "cpu-0.32.0-no-room.log").read_text("utf-8")
    measured = measurement_of(text)
    assert measured.is_started is False
    assert "To serve at least one request" in (measured.error or "")


def test_a_measurement_of_something_else() -> None:
    """Nothing is measured, and the reading says that it is no log of vLLM."""
    measured = measurement_of("a shopping list")
    assert (None, False) == (measured.is_started, measured.log.is_vllm)


@pytest.mark.parametrize(
    ("line", "sampler"),
    [
        ("Using FlashInfer for top-p & top-k sampling.", "flashinfer"),
        ("FlashInfer is not available. Falling back to the PyTorch-native", "pytorch"),
        ("FlashInfer is available, but it is not enabled. Falling back", "pytorch"),
        ("FlashInfer version >= 0.2.3 required. Falling back", "pytorch"),
        ("Starting vLLM API server", None),
    ],
)
def test_which_code_samples(line: str, sampler: str | None) -> None:
    """A plan of old releases depends on it, and no argument shows it."""
    text = f"{CONFIG}\nINFO 11-01 10:00:10 [topk_topp_sampler.py:36] {line}"

    assert sampler == read_log(text).sampler


def test_a_log_is_planned_with_the_sampler_that_it_names() -> None:
    """0.10.2 with FlashInfer: 14 instead of 38 bytes of each logit."""
    head = (
        "INFO 11-01 10:00:00 [core.py:75] Initializing a V1 LLM engine (v0.10.2) with "
        "config: model='Qwen/Qwen2.5-7B-Instruct', max_seq_len=32768\n"
    )
    line = "INFO 11-01 10:00:10 [topk_topp_sampler.py:36] Using FlashInfer for top-p "
    silent, said = planner.read(head), planner.read(f"{head}{line}& top-k sampling.\n")

    assert said.plan("L4").settings.sampler == "flashinfer"
    assert silent.plan("L4").settings.sampler is None
    saved = silent.plan("L4").ranks[0].line("peak activation").size_bytes
    saved -= said.plan("L4").ranks[0].line("peak activation").size_bytes
    assert saved > 0.8 * GIB
