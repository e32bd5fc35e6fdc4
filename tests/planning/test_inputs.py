"""Planning again: what a plan was given, with something changed."""

import json

import pytest

import planner
from planner import Inputs, PlannerError


def plan(**arguments):
    """Return a small plan."""
    return planner.plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=8192, **arguments)


def test_a_plan_planned_again_is_the_same_plan():
    """Nothing that was given is lost on the way."""
    first = plan(
        entrypoint="llm",
        env={"VLLM_PP_LAYER_PARTITION": "18,18"},
        pipeline_parallel_size=2,
        seed=1,
    )

    assert first == Inputs.of(first).plan()


def test_a_changed_argument_is_planned_as_if_it_had_been_given():
    """A change is no approximation: the whole plan is made again."""
    assert plan(kv_cache_dtype="fp8") == plan().changed(kv_cache_dtype="fp8")


def test_none_leaves_an_argument_to_vllm_again():
    """None takes an argument back."""
    assert plan() == plan(kv_cache_dtype="fp8").changed(kv_cache_dtype=None)


def test_gpu_release_entrypoint_and_model_can_be_changed_too():
    """What is no engine argument changes under its name in `planner.plan`."""
    changed = plan().changed(
        gpu="L4", vllm_version="0.32.0", entrypoint="llm", model="Qwen/Qwen3-4B"
    )

    assert ("Qwen/Qwen3-4B", "L4", "0.32.0", "llm") == (
        changed.name,
        changed.gpu.name,
        changed.vllm_version,
        changed.entrypoint,
    )


def test_a_quantization_that_was_asked_for_can_be_taken_back():
    """A model that was quantised while it was read is read again."""
    asked = plan(quantization="fp8_per_tensor")

    assert plan() == asked.changed(quantization=None)
    assert asked.ranks == plan().changed(quantization="fp8_per_tensor").ranks


def test_a_refused_plan_can_be_changed_into_one_that_starts():
    """A refusal keeps what was given."""
    refused = plan(tensor_parallel_size=3)

    assert not refused.fits
    assert plan(tensor_parallel_size=2) == refused.changed(tensor_parallel_size=2)


def test_an_unknown_argument_is_named():
    """A change is checked like any argument."""
    with pytest.raises(PlannerError, match="kv_dtype"):
        plan().changed(kv_dtype="fp8")


def test_the_low_end_of_concurrency_is_what_the_low_end_of_memory_holds():
    """Blocks at the low end / blocks of one request."""
    planned = plan()
    rank = planned.limiting_rank
    low_blocks = rank.available_kv_cache_low_bytes // rank.bytes_per_block

    assert low_blocks / planned.blocks_per_request == planned.max_concurrency_low
    assert planned.max_concurrency_low <= planned.max_concurrency


def test_an_asked_quantization_is_judged_by_the_checkpoint_s_own_files(tmp_path):
    """Settings that name no method refuse every method, however the plan came about."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 256,
        "max_position_embeddings": 2048,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": ""},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    first = planner.plan(str(tmp_path))

    asked = planner.plan(str(tmp_path), quantization="fp8")

    assert first.fits
    assert "(None) does not match" in asked.error.message
    assert asked.error == first.changed(quantization="fp8").error
