"""The `vllm serve` line: vLLM's own parser takes it, and it asks for the same plan."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.arguments import ARGUMENTS as TABLE
from planner.engine.arguments import PLANNER_ONLY, Memory, named
from planner.engine.flags import flags
from planner.engine.releases import NEWEST, Release, came_later, number_of
from planner.engine.settings import EngineSettings, command
from planner.planning.batches import ENTRYPOINTS
from tests.recorded_parser import RELEASES, NotParsed, engine_arguments, recorded

MODEL = "Qwen/Qwen3-8B"

TYPED: dict[str, tuple[Any, ...]] = {
    "dtype": ("auto", "bfloat16", "float16", "half", "float"),
    "quantization": ("fp8",),
    "kv_cache_dtype": ("auto", "fp8", "bfloat16"),
    "max_model_len": (4096, 1, "auto", -1),
    "max_num_seqs": (1, 256),
    "max_num_batched_tokens": (8192, 65536),
    "gpu_memory_utilization": (0.5, 0.92, 1, 1e-05),
    "kv_cache_memory_bytes": (10 * 2**30, "10GiB", "8000000000"),
    "num_gpu_blocks_override": (1000,),
    "block_size": (16, 32),
    "tensor_parallel_size": (1, 2, 8),
    "pipeline_parallel_size": (2,),
    "data_parallel_size": (2,),
    "decode_context_parallel_size": (1,),
    "cudagraph_capture_sizes": ((1, 2, 4), [8], (1,)),
    "max_cudagraph_capture_size": (64, 512),
    "performance_mode": ("balanced", "interactivity", "throughput"),
    "mamba_block_size": (512,),
    "mamba_cache_dtype": ("float32",),
    "mamba_ssm_cache_dtype": ("float32",),
    "gdn_prefill_backend": ("triton",),
    "kv_cache_dtype_skip_layers": (("0", "sliding_window"), ["1"]),
    "attention_backend": ("FLASH_ATTN",),
    "limit_mm_per_prompt": ({"image": 2, "video": 0}, {}),
    "mm_encoder_tp_mode": ("data", "weights"),
    "cpu_offload_gb": (0, 1.5),
    "cpu_offload_params": (("mlp",), ["self_attn", "mlp.down_proj"]),
    "offload_backend": ("auto", "uva"),
    "offload_group_size": (0, 8),
    "offload_num_in_group": (1, 2),
    "offload_prefetch_step": (1, 2),
    "offload_params": (("mlp",),),
    "kv_offloading_size": (0, 10.0),
    "max_loras": (2,),
    "max_lora_rank": (64,),
    "lora_dtype": ("bfloat16",),
    "max_cpu_loras": (4,),
    "runner": ("auto", "generate"),
}
"""Values of every typed argument that is no switch."""

OTHERS: dict[str, tuple[Any, ...]] = {
    "served_model_name": ("mine", ["a", "b/c"], "-leading", 'it\'s "quoted" $(x)', "é"),
    "seed": (0, -1),
    "download_dir": ("/a folder/with spaces", "--odd"),
    "hf_token": (True,),
    "override_generation_config": ({"temperature": 0.5, "nested": {"a": [1, None]}},),
    "default_mm_loras": ({"audio": "/path with space"},),
    "max_logprobs": (-1, 20),
    "revision": ("v1.0", "refs/pr/1"),
    "ignore_patterns": (["original/**/*", "*.bin"],),
    "logits_processors": (["package.module:Class"],),
    "allowed_media_domains": (["example.org", "example.com"],),
    "device_ids": ([0, 1], ["GPU-1"]),
    "long_prefill_token_threshold": (-1, 4096),
    "model_loader_extra_config": ({"a": True}, {}),
    "media_io_kwargs": ({"video": {"num_frames": -1}},),
    "load_format": ("dummy",),
    "custom_histogram_buckets": ({"a": [0.1, 1]},),
    "stream_interval": (1,),
    "numa_bind_cpus": (["0-3", "4-7"],),
    "numa_bind_nodes": ([0, 1],),
    "kv_events_config": ({"enable_kv_cache_events": True},),
}
"""Values of arguments without effect, where their type does not tell one."""


KNOWN = {argument.name for argument in TABLE.values() if not argument.gone}
SWITCHED_OFF = {name: TABLE[name].off for name in named(Memory.UNKNOWN)}


def values(name: str, flag: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a user could give an argument, by the flag of a release."""
    for known in (TYPED, SWITCHED_OFF, OTHERS):
        if name in known:
            return known[name]
    return by_type(flag)


def by_type(flag: dict[str, Any]) -> tuple[Any, ...]:
    """Return values of the type that a flag takes."""
    if flag["action"] != "store":
        return (True, False)
    choices = [
        choice for choice in flag.get("choices", ()) if choice not in (None, "None")
    ]
    if flag.get("nargs") == "+":
        return ([choices[0]] if choices else ["one", "two"],)
    kind = flag.get("type", "str").removeprefix("optional:")
    of_kind = {"int": (1, 2**31), "human_readable_int": (4096,), "float": (0.5,)}
    plain = ({},) if "json" in kind else ("word", "two words")
    return tuple(choices) or of_kind.get(kind, plain)


def cases(release: str) -> list[tuple[str, Any]]:
    """Return every argument with each of its values."""
    known = {flag["dest"]: flag for flag in recorded(release)["flags"]}
    return [
        (name, value)
        for name in sorted(KNOWN - {*PLANNER_ONLY})
        for value in values(name, known.get(name, {"action": "boolean"}))
    ]


def as_given(parsed: dict[str, Any]) -> dict[str, Any]:
    """Return parsed arguments under the names of the newest release."""
    given = {name: value for name, value in parsed.items() if value is not None}
    sizes = given.pop("cuda_graph_sizes", None)
    if sizes is not None:
        (given["max_cudagraph_capture_size"],) = sizes
    if "optimization_level" in given:  # a text until vLLM looks it up
        given["optimization_level"] = int(given["optimization_level"])
    compilation = given.pop("compilation_config", None) or {}
    return given | compilation


def figures(plan: planner.Plan) -> tuple[Any, ...]:
    """Return all that a plan says, but the words that were typed."""
    return plan.ranks, plan.kv_groups, plan.resolved, plan.error, plan.outcome


def parsed_again(plan: planner.Plan, release: str = NEWEST) -> planner.Plan:
    """Parse a plan's line as the release does, and plan what comes out."""
    parsed = as_given(engine_arguments(release, shlex.split(plan.command())))
    model = parsed.pop("model_tag")
    return planner.plan(model, gpu=plan.gpu, vllm_version=release, **parsed)


def comes_back(plan: planner.Plan, release: str, name: str, value: Any) -> bool:
    """Return whether a plan with one argument is the one that its line asks for.

    What is given again as it was plans to the same figures: no second plan is made.
    """
    parsed = as_given(engine_arguments(release, shlex.split(plan.command())))
    if repr(parsed) == repr({"model_tag": plan.name, name: value}):
        return True
    return figures(plan) == figures(parsed_again(plan, release))


@pytest.mark.parametrize("release", RELEASES)
def test_each_argument_comes_back_from_each_release_s_own_parser(release):
    """Every argument with each plausible value, as far as the release has it."""
    tried, wrong = 0, []
    for name, value in cases(release):
        if came_later("arguments", name, Release(number_of(release))) and (
            "cudagraph" not in name
        ):
            continue
        try:
            plan = planner.plan(MODEL, vllm_version=release, **{name: value})
        except PlannerError:
            continue  # what this release does not have, or what is not modelled
        tried += 1
        try:
            if not comes_back(plan, release, name, value):
                wrong.append(f"{name}={value!r}: other figures <- {plan.command()}")
        except (NotParsed, PlannerError) as error:
            wrong.append(f"{name}={value!r}: {error} <- {plan.command()}")

    assert [] == wrong
    assert tried > 150


@pytest.mark.parametrize(
    "model",
    [
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "deepseek-ai/DeepSeek-V3",
        "openai/gpt-oss-20b",
    ],
)
def test_other_kinds_of_models_come_back_too(model):
    """Pictures, recurrent layers, latent attention, experts."""
    tried, wrong = 0, []
    for name in TYPED:
        for value in TYPED[name]:
            try:
                plan = planner.plan(model, gpu="H200", **{name: value})
            except PlannerError:
                continue
            tried += 1
            if not comes_back(plan, NEWEST, name, value):
                wrong.append(plan.command())

    assert [] == wrong
    assert tried > 40


def test_every_argument_is_tried_with_some_value():
    """Those alone are left out that the planner takes with no value at all."""
    tried = {name for name, _ in cases(NEWEST)}
    never = {name for name, values in SWITCHED_OFF.items() if not values}

    assert KNOWN - {*PLANNER_ONLY} - never == tried


def test_every_argument_is_one_of_vllm_s():
    """No name of ours that the newest release does not know, but the planner's own."""
    assert {*PLANNER_ONLY} == KNOWN - set(recorded(NEWEST)["engine_arguments"])


ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from(TYPED[name])
        for name in sorted(TYPED)
        if name not in ("max_cudagraph_capture_size", "quantization", "dtype")
    }
    | {
        "enforce_eager": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "enable_lora": st.booleans(),
        "async_scheduling": st.booleans(),
        "disable_log_stats": st.booleans(),
        "served_model_name": st.text(min_size=1).filter(str.isprintable),
        "seed": st.integers(-(2**31), 2**31),
    },
)


@given(ARGUMENTS, st.sampled_from(["H100", "L4", "H200"]), st.sampled_from(ENTRYPOINTS))
def test_any_line_asks_for_the_same_plan(arguments, gpu, entrypoint):
    """Parsed again, the line plans to the same figures, for the LLM class as well."""
    try:
        plan = planner.plan(MODEL, gpu=gpu, entrypoint=entrypoint, **arguments)
    except PlannerError:
        return

    assert figures(plan) == figures(parsed_again(plan))


@given(st.text(min_size=1).filter(str.isprintable))
def test_any_model_name_stays_one_word(name):
    """A folder may be called like anything, a flag included."""
    words = shlex.split(command(name, EngineSettings()))
    parsed = engine_arguments(NEWEST, words)["model_tag"]

    assert name == (parsed.removeprefix("./") if name.startswith("-") else parsed)


def test_a_plan_for_the_llm_class_says_what_a_server_would_do_otherwise():
    """On an L4 the class batches 8,192 tokens, a server 2,048."""
    plan = planner.plan(MODEL, gpu="L4", max_model_len=4096, entrypoint="llm")
    serve = planner.plan(MODEL, gpu="L4", max_model_len=4096)

    assert f"{serve.command()} --max-num-batched-tokens 8192" == plan.command()


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (NEWEST, ["--cudagraph-capture-sizes", "1", "2"]),
        ("0.11.1", ["--cudagraph-capture-sizes", "1", "2"]),
        ("0.11.0", ["--compilation-config", '{"cudagraph_capture_sizes": [1, 2]}']),
    ],
)
def test_capture_sizes_are_written_as_the_release_has_them(release, words):
    """Before 0.11.1 they were part of compilation_config."""
    given_sizes = {"cudagraph_capture_sizes": (1, 2)}

    assert words == flags(given_sizes, Release(number_of(release)))


def test_the_largest_capture_size_had_another_name():
    """--cuda-graph-sizes with one number, before 0.11.1."""
    largest = {"max_cudagraph_capture_size": 64}

    assert ["--cuda-graph-sizes", "64"] == flags(largest, Release((0, 11, 0)))
    assert ["--max-cudagraph-capture-size", "64"] == flags(largest)


def test_a_size_in_words_is_written_in_bytes():
    """vLLM reads 10G, not 10GiB: 10 x 1,024^3 bytes."""
    assert ["--kv-cache-memory-bytes", "10737418240"] == flags(
        {"kv_cache_memory_bytes": "10GiB"}
    )


def test_a_token_is_not_written_down():
    """A line lies in logs and files; vLLM reads HF_TOKEN as well."""
    assert [] == flags({"hf_token": "hf_secret"})
    assert ["--hf-token"] == flags({"hf_token": True})


def test_a_switch_without_an_off_is_left_out_when_off():
    """--no-disable-log-stats is no flag of vLLM."""
    assert [] == flags({"disable_log_stats": False})
    with pytest.raises(NotParsed):
        engine_arguments(NEWEST, ["vllm", "serve", "m", "--no-disable-log-stats"])


def test_a_value_that_looks_like_a_flag_stays_a_value():
    """vLLM reads a word that begins with a dash and holds a dot as part of a table."""
    assert ["--served-model-name=-a.b"] == flags({"served_model_name": "-a.b"})
    with pytest.raises(NotParsed):
        engine_arguments(NEWEST, ["vllm", "serve", "m", "--seed", "-a.b"])


def test_the_rebuilt_parser_refuses_what_vllm_refuses():
    """An unknown flag, a word too many, a choice that is none, text for a number."""
    for line in (
        "vllm serve m --max-modle-len 4096",
        "vllm serve m stray",
        "vllm serve m --dtype float9",
        "vllm serve m --max-num-seqs many",
        "vllm serve m --cudagraph-capture-sizes",
        "vllm serve m --kv-cache-memory-bytes 10GiB",
    ):
        with pytest.raises(NotParsed):
            engine_arguments(NEWEST, line.split())
