"""What vLLM fills in, by GPU, entry point and model."""

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.engine.releases import NEWEST, Release, number_of
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.models.architecture import QuantizationLimits
from planner.planning import batches, defaults
from planner.units import GIB
from tests.configs import BERT, LLAMA_8B, QWEN3_MOE, architecture, gpu
from tests.hybrids import NEMOTRON_H, QWEN3_NEXT

A100 = gpu(device_name="NVIDIA A100-SXM4-80GB", compute_capability=(8, 0))
B200 = gpu(
    device_name="NVIDIA B200",
    compute_capability=(10, 0),
    total_memory_bytes=int(178.35 * GIB),
)
L4 = gpu(
    device_name="NVIDIA L4", compute_capability=(8, 9), total_memory_bytes=22 * GIB
)
GB10 = gpu(
    device_name="NVIDIA GB10", compute_capability=(12, 1), total_memory_bytes=121 * GIB
)


@pytest.mark.parametrize(
    ("device", "entrypoint", "expected"),
    [
        (gpu(), "serve", (8192, 1024)),
        (gpu(), "llm", (16384, 1024)),
        (A100, "serve", (2048, 256)),
        (A100, "llm", (8192, 256)),
        (B200, "serve", (16384, 1024)),
        (L4, "serve", (2048, 256)),
        (GB10, "serve", (2048, 256)),
        (gpu(), "engine", (2048, 128)),
        (B200, "engine", (2048, 128)),
    ],
)
def test_batch_defaults_depend_on_gpu_and_entry_point(
    device: object, entrypoint: str, expected: tuple[int, int]
) -> None:
    """160 GiB, then 70 GiB but no A100 and no GB10, then the rest."""
    assert expected == batches.batch_defaults(device, entrypoint)  # type: ignore[arg-type]


def test_shared_memory_counts_as_small_in_every_release() -> None:
    """NVML tells no total there; logs of GB10 from 0.13 on show 2,048 and 256."""
    for number in ((0, 13, 0), (0, 25, 1), (0, 33, 0)):
        assert (2048, 256) == batches.batch_defaults(GB10, "serve", Release(number))


def test_an_unknown_entry_point_says_which_there_are() -> None:
    """serve or llm."""
    with pytest.raises(PlannerError, match="serve"):
        batches.batch_defaults(gpu(), "batch")


def batch(
    max_model_len: int = 131072,
    version: str = NEWEST,
    config: dict[str, Any] = LLAMA_8B,
    **settings: Any,
) -> tuple[int, int]:
    """Resolve tokens and sequences on an H100 server, by default for Llama."""
    release = Release(number_of(version))
    return batches.resolve_batch(
        EngineSettings(**settings),
        architecture(config),
        batches.batch_defaults(gpu(), "serve", release),
        max_model_len,
        release,
    )


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        ("0.33.0", {}, (2048, 128)),
        ("0.33.0", {"max_num_seqs": 1, "max_model_len": 1000}, (1000, 1)),
        ("0.33.0", {"max_num_batched_tokens": 64}, (64, 64)),
        ("0.33.0", {"performance_mode": "throughput"}, (4096, 256)),
        ("0.11.0", {}, (2048, 128)),
        # The scheduler's configuration filled in what the server left whole.
        ("0.11.0", {"max_num_seqs": 1, "max_model_len": 1000}, (1000, 1)),
        ("0.11.0", {"max_num_batched_tokens": 4096}, (4096, 128)),
    ],
)
def test_the_async_engine_has_the_scheduler_s_own_defaults(version, given, expected):
    """2,048 tokens and 128 requests on an H100, where a server has 8,192 and 1,024."""
    resolved = planner.plan(
        "Qwen/Qwen3-8B", entrypoint="engine", vllm_version=version, **given
    ).resolved

    assert resolved is not None
    assert expected == (resolved.max_num_batched_tokens, resolved.max_num_seqs)


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", {}, 5120),
        ("BAAI/bge-m3", {}, 32768),
        ("BAAI/bge-m3", {"max_num_seqs": 2}, 2 * 8194),
    ],
)
def test_the_older_engine_had_room_for_images_and_for_pooling(model, given, expected):
    """Until 0.11.1; at most what all requests hold."""
    resolved = planner.plan(
        model, entrypoint="engine", vllm_version="0.11.0", **given
    ).resolved

    assert resolved is not None
    assert expected == resolved.max_num_batched_tokens


def test_throughput_mode_doubles_what_is_not_given() -> None:
    """8,192 and 1,024 become 16,384 and 2,048."""
    assert (16384, 2048) == batch(performance_mode="throughput")
    assert (8192, 4096) == batch(
        performance_mode="throughput", max_num_batched_tokens=8192, max_num_seqs=4096
    )


def test_few_short_requests_need_no_large_step() -> None:
    """7 sequences of 1,000 tokens: a step of 7,000 at the most."""
    assert (7000, 7) == batch(1000, max_num_seqs=7)


def test_sequences_are_limited_by_the_step() -> None:
    """512 tokens a step leave room for 512 sequences."""
    assert (512, 512) == batch(max_num_batched_tokens=512)


def test_few_short_requests_once_had_a_large_step() -> None:
    """7 sequences of 1,000 tokens: 8,192 before 0.11.1, then 7,000."""
    assert (8192, 7) == batch(1000, "0.11.0", max_num_seqs=7)
    assert (7000, 7) == batch(1000, "0.11.1", max_num_seqs=7)


def test_sequences_were_not_limited_by_the_step() -> None:
    """512 tokens a step and 1,024 sequences, until 0.10.1."""
    assert (512, 1024) == batch(version="0.10.0", max_num_batched_tokens=512)
    assert (512, 512) == batch(version="0.10.1", max_num_batched_tokens=512)


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [
        ("0.10.0", None, (512, 1024)),
        ("0.10.0", 4096, (512, 1024)),
        ("0.10.1", None, (512, 512)),
        ("0.10.1", 4096, (4096, 1024)),
        ("0.11.1", None, (8192, 1024)),
    ],
)
def test_a_step_of_whole_prompts_grew(
    version: str, asked: int | None, expected: tuple[int, int]
) -> None:
    """BERT's prompts of 512 tokens are not split: a step once held one of them."""
    found = batch(512, version, BERT, max_num_batched_tokens=asked)
    assert expected == found


def test_splitting_prompts_could_not_be_switched_off() -> None:
    """enable_chunked_prefill=False is heeded from 0.11.1 on."""
    settings = EngineSettings(enable_chunked_prefill=False)
    found = [
        batches.chunked_prefill(settings, architecture(LLAMA_8B), Release(number))
        for number in ((0, 11, 0), (0, 11, 1))
    ]
    assert [True, False] == found


@pytest.mark.parametrize(
    ("number", "asked", "expected"),
    [
        ((0, 11, 0), True, False),
        ((0, 11, 1), None, False),
        ((0, 14, 1), True, False),
        ((0, 15, 0), True, True),
        ((0, 27, 1), None, False),
        ((0, 28, 0), None, True),
    ],
)
def test_prefix_caching_of_hybrids_came_in_steps(
    number: tuple[int, int, int], asked: bool | None, expected: bool
) -> None:
    """Forbidden, without effect, for those who ask, at last by default."""
    settings = EngineSettings(enable_prefix_caching=asked)
    model = architecture(QWEN3_NEXT)
    assert expected is defaults.prefix_caching(settings, model, Release(number))


def test_states_kept_for_every_block_are_not_modelled() -> None:
    """Mamba layers from 0.11.1 to 0.27.1, where the user asks for it."""
    settings = EngineSettings(enable_prefix_caching=True)
    model = architecture(NEMOTRON_H)
    with pytest.raises(UnknownArchitecture, match="enable_prefix_caching"):
        defaults.prefix_caching(settings, model, Release((0, 20, 0)))
    assert defaults.prefix_caching(settings, model, Release((0, 28, 0)))


def test_embeddings_that_see_both_ways_keep_no_prefixes() -> None:
    """Nor are their prompts split: every token is needed for each."""
    model = planner.plan("Alibaba-NLP/gte-Qwen2-7B-instruct", gpu="H100").model
    assert model is not None
    assert not defaults.prefix_caching(EngineSettings(), model)
    assert not batches.chunked_prefill(EngineSettings(), model)


@pytest.mark.parametrize(
    ("number", "stages", "expected"),
    [
        ((0, 13, 0), 1, False),
        ((0, 14, 0), 1, True),
        ((0, 14, 0), 2, False),
        ((0, 15, 0), 2, True),
    ],
)
def test_batches_are_prepared_ahead_since_they_can_be(
    number: tuple[int, int, int], stages: int, expected: bool
) -> None:
    """0.14.0 for one stage, 0.15.0 for several."""
    found = defaults.async_scheduling(
        EngineSettings(),
        architecture(LLAMA_8B),
        Release(number),
        pipeline_parallel_size=stages,
    )
    assert expected is found


def test_pooling_models_were_prepared_ahead_for_a_while() -> None:
    """From 0.14.0 to 0.19.1."""
    found = [
        defaults.async_scheduling(EngineSettings(), architecture(BERT), Release(number))
        for number in ((0, 13, 0), (0, 19, 1), (0, 20, 0))
    ]
    assert [False, True, False] == found


def test_the_first_runner_keeps_no_batch_beside_the_stages() -> None:
    """Two stages: two batches for experts in 0.28.0, three from 0.29.0 on."""
    found = []
    for version in ("0.28.0", "0.29.0"):
        plan = planner.plan(
            architecture(QWEN3_MOE), vllm_version=version, pipeline_parallel_size=2
        )
        assert plan.resolved is not None
        found.append(plan.resolved.max_concurrent_batches)
    assert [2, 3] == found


def test_the_published_dtype_is_kept_and_float32_is_not() -> None:
    """float32 weights are served in bfloat16, pooling models in float16."""
    assert "bfloat16" == defaults.resolve_dtype("auto", architecture(LLAMA_8B), gpu())
    full = architecture(LLAMA_8B, torch_dtype="float32")
    assert "bfloat16" == defaults.resolve_dtype(None, full, gpu())
    assert "float16" == defaults.resolve_dtype(None, architecture(BERT), gpu())


def test_a_gpu_without_bfloat16_falls_back_to_float16() -> None:
    """Capability 7.5 has no bfloat16."""
    turing = gpu(compute_capability=(7, 5))
    assert "float16" == defaults.resolve_dtype("auto", architecture(LLAMA_8B), turing)


def test_glm4_refuses_float16_in_vllms_words() -> None:
    """Numerical instability."""
    model = architecture(
        {**LLAMA_8B, "architectures": ["Glm4ForCausalLM"], "model_type": "glm4"},
        rope_scaling=None,
    )
    with pytest.raises(Refused, match="'glm4' does not support float16"):
        defaults.resolve_dtype("float16", model, gpu())


def test_a_kv_cache_size_may_be_written_with_its_unit() -> None:
    """20GiB or bytes."""
    assert 20 * GIB == defaults.kv_cache_bytes("20GiB")
    assert 5 == defaults.kv_cache_bytes(5)
    with pytest.raises(PlannerError, match="whole bytes"):
        defaults.kv_cache_bytes(1.5)  # type: ignore[arg-type]


def test_no_kv_cache_size_is_too_small_to_ask_for() -> None:
    """vLLM takes 0 for nothing said, and has no room in less."""
    assert defaults.kv_cache_bytes(0) is None
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", kv_cache_memory_bytes=-1)
    assert plan.error is not None
    assert "no_kv" == plan.error.kind


def kv_dtype(method: str, chosen: str, asked: str | None, *release: int) -> str:
    """What becomes of kv_cache_dtype where a checkpoint has chosen one."""
    limits = QuantizationLimits(kv_cache_dtype=chosen)
    model = replace(
        architecture(LLAMA_8B), quantization=method, quantization_limits=limits
    )
    return defaults.resolve_kv_cache_dtype(asked, model, Release(release))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "chosen", "before", "since"),
    [
        ("modelopt", "fp8", (0, 13, 0), (0, 14, 0)),
        ("modelopt_fp4", "nvfp4", (0, 19, 1), (0, 20, 0)),
        ("compressed-tensors", "fp8", (0, 14, 1), (0, 15, 0)),
    ],
)
def test_what_a_checkpoint_says_of_the_kv_cache_was_read_late(
    method: str, chosen: str, before: tuple[int, ...], since: tuple[int, ...]
) -> None:
    """It was kept in the model's dtype before."""
    assert "auto" == kv_dtype(method, chosen, None, *before)
    assert chosen == kv_dtype(method, chosen, "auto", *since)
    assert "bfloat16" == kv_dtype(method, chosen, "bfloat16", 0, 22, 0)


def test_compressed_tensors_once_won_over_the_user() -> None:
    """From 0.15.0 to 0.21.0."""
    asked = ("compressed-tensors", "fp8", "bfloat16")
    assert "fp8" == kv_dtype(*asked, 0, 21, 0)
    assert "bfloat16" == kv_dtype("modelopt", "fp8", "bfloat16", 0, 21, 0)


@pytest.mark.parametrize(
    ("release", "asked", "expected"),
    [
        ((0, 11, 0), "auto", "fp8_ds_mla"),
        ((0, 11, 1), "auto", "auto"),
        ((0, 17, 1), "fp8", "fp8_ds_mla"),
        ((0, 18, 0), "fp8", "fp8"),
        ((0, 11, 0), "bfloat16", "auto"),
    ],
)
def test_deepseeks_sparse_attention_was_packed_otherwise(
    release: tuple[int, int, int], asked: str, expected: str
) -> None:
    """By default in 0.11.0, for every fp8 until 0.17.1."""
    model = replace(architecture(LLAMA_8B), architecture="DeepseekV32ForCausalLM")
    found = defaults.model_kv_cache_dtype(asked, model, gpu(), Release(release))
    assert expected == found


def test_glms_sparse_attention_keeps_fp8_on_blackwell_since_late() -> None:
    """From 0.32.0 on."""
    model = replace(architecture(LLAMA_8B), architecture="GlmMoeDsaForCausalLM")
    found = [
        defaults.model_kv_cache_dtype("auto", model, B200, Release(release))
        for release in ((0, 31, 0), (0, 32, 0))
    ]
    assert ["auto", "fp8_e4m3"] == found
