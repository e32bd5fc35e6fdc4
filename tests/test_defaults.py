"""What vLLM fills in, by GPU, entry point and model."""

import pytest

import planner
from planner import defaults
from planner.engine import EngineSettings
from planner.environment import Environment
from planner.errors import PlannerError, Refused
from planner.units import GIB
from tests.configs import BERT, LLAMA_8B, architecture, gpu

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
    ],
)
def test_batch_defaults_depend_on_gpu_and_entry_point(
    device: object, entrypoint: str, expected: tuple[int, int]
) -> None:
    """160 GiB, then 70 GiB but no A100 and no GB10, then the rest."""
    assert expected == defaults.batch_defaults(device, entrypoint)  # type: ignore[arg-type]


def test_an_unknown_entry_point_says_which_there_are() -> None:
    """serve or llm."""
    with pytest.raises(PlannerError, match="serve"):
        defaults.batch_defaults(gpu(), "batch")


def batch(max_model_len: int = 131072, **settings: object) -> tuple[int, int]:
    """Resolve tokens and sequences for Llama on an H100 server."""
    return defaults.resolve_batch(
        EngineSettings(**settings),  # type: ignore[arg-type]
        architecture(LLAMA_8B),
        defaults.batch_defaults(gpu(), "serve"),
        max_model_len,
    )


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


def length(
    asked: int | str | None, env: Environment | None = None, **config: object
) -> int:
    """Resolve max_model_len for a changed Llama."""
    model = architecture(LLAMA_8B, **config)
    return defaults.resolve_max_model_len(asked, model, env or Environment())


def test_the_length_comes_from_the_config() -> None:
    """llama3 scaling is in max_position_embeddings already; linear is not."""
    assert 131072 == length(None)
    assert 131072 == length("auto")
    assert 524288 == length(None, rope_scaling={"type": "linear", "factor": 4.0})
    assert 131072 == length(
        None,
        rope_scaling={
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    )


def test_longrope_starts_with_its_short_length() -> None:
    """original_max_position_embeddings unless more is asked for."""
    scaling = {"rope_type": "longrope", "original_max_position_embeddings": 4096}
    facts = {"rope_scaling": scaling, "original_max_position_embeddings": 4096}
    assert 4096 == length(None, **facts)
    assert 65536 == length(65536, **facts)


def test_more_than_the_model_was_made_for_is_refused() -> None:
    """vLLM's sentence, unless its environment variable allows it."""
    with pytest.raises(Refused, match=r"max_model_len \(200000\) is greater than"):
        length(200000)
    assert 200000 == length(200000, Environment(allow_long_max_model_len=True))
    assert 200000 == length(
        200000, model_max_length=200000, max_position_embeddings=8192
    )


def sizes(device: object = None, **settings: object) -> tuple[int, ...]:
    """Capture sizes for a number of sequences and tokens."""
    seqs = settings.pop("seqs", 1024)
    tokens = settings.pop("tokens", 8192)
    return defaults.capture_sizes(
        EngineSettings(**settings),  # type: ignore[arg-type]
        device or gpu(),  # type: ignore[arg-type]
        max_num_seqs=seqs,  # type: ignore[arg-type]
        max_num_batched_tokens=tokens,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("seqs", "tokens", "count", "largest"),
    [
        (1024, 8192, 51, 512),
        (256, 2048, 51, 512),
        (128, 2048, 35, 256),
        (16, 2048, 7, 32),
    ],
)
def test_capture_sizes_follow_sequences(
    seqs: int, tokens: int, count: int, largest: int
) -> None:
    """1, 2, 4, then eights up to 256, then sixteens, twice the sequences at most."""
    captured = sizes(seqs=seqs, tokens=tokens)
    assert (count, largest) == (len(captured), captured[-1])


def test_blackwell_captures_up_to_1024() -> None:
    """83 sizes on capability 10."""
    assert 83 == len(sizes(B200))


def test_eager_mode_captures_nothing() -> None:
    """enforce_eager."""
    assert () == sizes(enforce_eager=True)


def test_given_sizes_are_sorted_and_limited_by_the_step() -> None:
    """Sizes beyond max_num_batched_tokens are dropped."""
    assert (1, 8, 64) == sizes(cudagraph_capture_sizes=(64, 1, 8, 8, 9000), tokens=512)


def test_two_size_arguments_that_disagree_are_refused() -> None:
    """vLLM compares the largest of both."""
    with pytest.raises(Refused, match="should be consistent with"):
        sizes(cudagraph_capture_sizes=(1, 8), max_cudagraph_capture_size=16)


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
