"""Settings that vLLM refuses before loading anything."""

from dataclasses import replace

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused, UnknownArchitecture
from planner.planning.dtypes import check_kv_cache_dtype, check_quantization
from planner.planning.refusals import (
    check_architecture,
    check_batch,
    check_device_dtype,
    check_mamba_block_size,
    check_parallel,
    check_states,
)
from tests.configs import BERT, LLAMA_8B, QWEN3_MOE, architecture, gpu
from tests.hybrids import QWEN3_NEXT


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"tensor_parallel_size": 3}, r"attention heads \(32\) must be divisible"),
        ({"enable_expert_parallel": True}, "Number of experts in the model"),
        (
            {"tensor_parallel_size": 8, "decode_context_parallel_size": 2},
            r"requires `--tensor-parallel-size` \(8\) to be greater",
        ),
        (
            {"tensor_parallel_size": 16, "decode_context_parallel_size": 4},
            r"exceeds the maximum supported value \(2\)",
        ),
        (
            {"tensor_parallel_size": 4, "decode_context_parallel_size": 3},
            r"tp_size=4 must be divisible by dcp_size=3",
        ),
    ],
)
def test_layouts_that_llama_cannot_take(
    layout: dict[str, object], message: str
) -> None:
    """32 heads, 8 KV heads, no experts."""
    with pytest.raises(Refused, match=message):
        check_parallel(architecture(LLAMA_8B), ParallelLayout(**layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "context", "words"),
    [
        (8, 2, "tensor parallel size 8 must be greater than total num kv heads 8 "),
        (16, 4, "decode context parallel size must less than or equal to "),
    ],
)
def test_older_releases_assert_the_ranks_of_decode_context(
    tensor: int, context: int, words: str
) -> None:
    """Up to 0.26, pydantic reports an assertion of VllmConfig."""
    for release in ((0, 19, 1), (0, 26, 0)):
        layout = ParallelLayout(
            tensor_parallel_size=tensor,
            decode_context_parallel_size=context,
            release=Release(release),
        )
        with pytest.raises(Refused) as refused:
            check_parallel(architecture(LLAMA_8B), layout)
        beginning = "1 validation error for VllmConfig\n  Assertion failed, "
        assert str(refused.value).startswith(beginning + words)


def test_encoders_take_no_pipeline() -> None:
    """vLLM names the interface they lack."""
    with pytest.raises(Refused, match="SupportsPP"):
        check_parallel(architecture(BERT), ParallelLayout(pipeline_parallel_size=2))


def test_layouts_that_fit_pass() -> None:
    """Expert parallel with experts, context parallel with spare ranks."""
    layout = ParallelLayout(
        tensor_parallel_size=8,
        decode_context_parallel_size=2,
        enable_expert_parallel=True,
    )
    assert check_parallel(architecture(QWEN3_MOE), layout) is None


@pytest.mark.parametrize(
    ("kv", "dtype", "choice"),
    [
        ("bfloat16", "float16", "`auto` or `float16`"),
        ("bfloat16", "float32", "`auto`."),
    ],
)
def test_a_16_bit_cache_must_match_the_model(kv: str, dtype: str, choice: str) -> None:
    """The message says which dtype would do."""
    with pytest.raises(Refused, match=choice):
        check_kv_cache_dtype(kv, dtype)


def test_a_step_must_hold_every_sequence() -> None:
    """At least one token each."""
    with pytest.raises(Refused, match=r"max_num_seqs \(1024\)"):
        check_batch(512, 1024, 4096, has_chunked_prefill=True)


def test_without_chunked_prefill_a_step_must_hold_the_longest_request() -> None:
    """4,096 tokens in one step."""
    with pytest.raises(Refused, match=r"smaller than max_model_len \(4096\)"):
        check_batch(2048, 256, 4096, has_chunked_prefill=False)
    assert check_batch(2048, 256, 4096, has_chunked_prefill=True) is None


def test_kept_states_need_prompts_that_can_be_split() -> None:
    """Prefix caching without chunked prefill; either alone is fine."""
    with pytest.raises(Refused, match="Chunked prefill is required for Mamba"):
        check_states(has_prefix_caching=True, has_chunked_prefill=False)
    check_states(has_prefix_caching=True, has_chunked_prefill=True)
    check_states(has_prefix_caching=False, has_chunked_prefill=False)


def test_blocks_of_states_need_prefix_caching() -> None:
    """Unless they are as long as the longest request anyway."""
    with pytest.raises(Refused, match="--mamba-block-size can only be set with"):
        check_mamba_block_size(64, 4096, has_prefix_caching=False)
    check_mamba_block_size(64, 4096, has_prefix_caching=True)
    check_mamba_block_size(4096, 4096, has_prefix_caching=False)
    check_mamba_block_size(None, 4096, has_prefix_caching=False)


def test_vllm_does_not_see_dbrx_experts() -> None:
    """Its 16 experts stand in ffn_config, where vLLM's checks do not look."""
    model = planner.plan("databricks/dbrx-instruct", gpu="H200").model
    assert model is not None
    with pytest.raises(Refused, match="must be greater than 0"):
        check_parallel(model, ParallelLayout(enable_expert_parallel=True))


def test_bfloat16_needs_ampere() -> None:
    """A T4 has compute capability 7.5."""
    old = gpu(compute_capability=(7, 5), device_name="Tesla T4")
    with pytest.raises(Refused, match=r"Your Tesla T4 GPU has compute capability 7\.5"):
        check_device_dtype("bfloat16", old)
    check_device_dtype("float16", old)
    check_device_dtype("bfloat16", gpu())


def test_shared_experts_under_data_and_expert_parallel_are_left_out() -> None:
    """Some of vLLM's classes hold them whole there; a guess would be wrong."""
    layout = {"tensor_parallel_size": 2, "data_parallel_size": 2}
    with pytest.raises(planner.UnknownArchitecture, match="shared experts"):
        planner.plan(
            "deepseek-ai/DeepSeek-V2-Lite",
            gpu="H200",
            enable_expert_parallel=True,
            **layout,
        )
    assert planner.plan("deepseek-ai/DeepSeek-V2-Lite", gpu="H200", **layout).fits


def test_latent_attention_takes_no_plain_nvfp4() -> None:
    """Half a byte a value suits heads of keys and values, not one latent vector."""
    plan = planner.plan("deepseek-ai/DeepSeek-V3", gpu="B200", kv_cache_dtype="nvfp4")
    assert plan.error is not None
    assert plan.error.message.startswith("nvfp4 KV cache is not supported with MLA")
    fine = planner.plan("Qwen/Qwen3-8B", gpu="B200", kv_cache_dtype="nvfp4")
    assert fine.error is None


def test_a_model_of_later_days_is_refused() -> None:
    """Qwen3-Next came with 0.10.2."""
    model = architecture(QWEN3_NEXT)
    with pytest.raises(
        Refused, match=r"^Model architectures \['Qwen3NextForCausalLM'\] are not sup"
    ):
        check_architecture(model, Release((0, 10, 1)))
    check_architecture(model, Release((0, 10, 2)))


def test_a_checkpoint_that_was_still_taken_is_planned() -> None:
    """GPTQ in the order of activations: refused from 0.30.0 on."""
    settings = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 128,
        "desc_act": True,
        "sym": True,
    }
    model = architecture({**LLAMA_8B, "quantization_config": settings})
    with pytest.raises(Refused, match=r"\(desc_act=True\) is no longer supported"):
        check_quantization(model, "bfloat16", gpu())
    check_quantization(model, "bfloat16", gpu(), Release((0, 29, 0)))
    was_not_modelled = replace(model.quantization_limits, was_taken=False)
    other = replace(model, quantization_limits=was_not_modelled)
    with pytest.raises(UnknownArchitecture, match=r"0\.29\.0 still takes"):
        check_quantization(other, "bfloat16", gpu(), Release((0, 29, 0)))


@pytest.mark.parametrize(
    "model",
    [
        "XiaomiMiMo/MiMo-7B-Base",
        "internlm/internlm2-7b",
        "openbmb/MiniCPM4-8B",
        "LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct",
        "allenai/Molmo-7B-D-0924",
    ],
)
def test_models_of_custom_code_start_only_where_it_is_allowed(model: str) -> None:
    """Neither vLLM nor Transformers has a configuration class of their types."""
    refused = planner.plan(model).error
    assert refused is not None
    assert "trust_remote_code=True" in refused.message
    assert planner.plan(model, trust_remote_code=True).fits


@pytest.mark.parametrize(
    ("model", "args", "is_refused"),
    [
        ("poolside/Laguna-M.1", {}, True),  # its config.json says 0
        ("poolside/Laguna-M.1", {"trust_remote_code": True}, False),
        ("google/gemma-4-E2B-it", {"disable_sliding_window": True}, True),
        ("google/gemma-3-4b-it", {"disable_sliding_window": True}, False),
    ],
)
def test_some_configurations_must_have_a_window(
    model: str, args: dict[str, object], is_refused: bool
) -> None:
    """By vLLM's own starts without a GPU, but for the code that was not at hand."""
    plan = planner.plan(
        model, gpu="H200", tensor_parallel_size=8, max_model_len=512, **args
    )
    said = "" if plan.error is None else plan.error.message
    assert is_refused is said.startswith("Validation error for field 'sliding_window'")
