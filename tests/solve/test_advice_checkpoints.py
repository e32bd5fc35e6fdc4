"""Checkpoints of fewer bits: named where the catalogue has one, else estimated."""

import planner
from planner.solve.advice import makers
from planner.solve.advice.makers.checkpoints import siblings
from planner.solve.advice.situation import Situation

_CHECKPOINTS = (
    *("8-bit checkpoint", "AWQ checkpoint", "GPTQ checkpoint"),
    *("NVFP4 checkpoint", "MXFP4 checkpoint"),
)


def _proposed(name, plan, load=None):
    """Return the changes that one maker proposes, in its order."""
    situation = Situation.of(plan, load)
    return [dict(candidate.changes) for candidate in makers.MAKERS[name](situation)]


def _plan(model="Qwen/Qwen3-8B", **arguments):
    return planner.plan(model, **{"gpu": "H100", **arguments})


def test_published_checkpoints_are_found_by_name_and_format():
    """8 bits before 4, most used first; whoever publishes them, Meta- or not.

    Copies with as many bits (unsloth/Qwen3-8B) are no help.
    """
    assert siblings("meta-llama/Llama-3.1-8B-Instruct") == (
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8",
        "nvidia/Llama-3.1-8B-Instruct-FP8",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
        "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
        "hugging-quants/Meta-Llama-3.1-8B-Instruct-GPTQ-INT4",
        "nvidia/Llama-3.1-8B-Instruct-NVFP4",
    )
    assert siblings("facebook/opt-125m") == ()
    # The FP8 one is offered fewer bits only.
    fp8 = _plan("Qwen/Qwen3-8B-FP8")
    assert _proposed("8-bit checkpoint", fp8) == []
    assert _proposed("AWQ checkpoint", fp8) == [{"model": "Qwen/Qwen3-8B-AWQ"}]


def test_a_checkpoint_with_other_layers_is_not_offered():
    """The name alone is no proof: the layers must be the same."""
    plan = _plan("Qwen/Qwen3-32B")
    names = [change["model"] for change in _proposed("8-bit checkpoint", plan)]
    assert names == [
        "Qwen/Qwen3-32B-FP8",
        "RedHatAI/Qwen3-32B-FP8-dynamic",
        "Qwen/Qwen3-32B-FP8-Static-PerTensor",
    ]
    shape = (plan.model.hidden_size, plan.model.num_hidden_layers)
    for name in names:
        other = plan.changed(model=name).model
        assert (other.hidden_size, other.num_hidden_layers) == shape


def test_checkpoints_of_four_bits_are_named_where_the_catalogue_has_them():
    """GPTQ's kind by their names; a format that nobody published is estimated."""
    plan = _plan("meta-llama/Llama-3.1-8B-Instruct")
    assert _proposed("GPTQ checkpoint", plan) == [
        {"model": "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16"},
        {"model": "hugging-quants/Meta-Llama-3.1-8B-Instruct-GPTQ-INT4"},
    ]
    assert _proposed(
        "AWQ checkpoint", _plan("ibm-granite/granite-3.3-8b-instruct")
    ) == [{"model": "ibm-granite/granite-3.3-8b-instruct~AWQ"}]
    assert _proposed("MXFP4 checkpoint", plan) == []  # no experts to hold so
    mixture = _plan("Qwen/Qwen3-30B-A3B")
    assert _proposed("MXFP4 checkpoint", mixture) == [
        {"model": "Qwen/Qwen3-30B-A3B~MXFP4"}
    ]


def test_an_estimated_checkpoint_says_what_to_search_for_and_adds_no_flag():
    """vLLM cannot load 16-bit weights as NVFP4, so no flag says so."""
    item = next(
        item
        for item in planner.advise(_plan("Qwen/Qwen3.6-27B")).items
        if item.changes.get("model") == "Qwen/Qwen3.6-27B~AWQ"
    )
    assert item.is_estimated
    assert item.flags == ""
    assert "estimated as a usual one" in item.title
    assert item.cost.startswith("Search the Hub for Qwen3.6-27B-AWQ:")
    assert any("No repository has this name" in note for note in item.plan.notes)


def test_a_checkpoint_that_brings_its_own_cache_dtype_says_so():
    """NVIDIA's NVFP4 checkpoints keep the KV cache in FP8."""
    situation = Situation.of(_plan("Qwen/Qwen3-32B"), None)
    (nvidia,) = makers.MAKERS["NVFP4 checkpoint"](situation)
    assert nvidia.changes == {"model": "nvidia/Qwen3-32B-NVFP4"}
    assert nvidia.cost.endswith(" It keeps the KV cache in fp8_e4m3.")


def test_a_quantised_model_is_not_estimated_in_other_bits():
    """Nobody makes AWQ of FP8; nor beside an online method."""
    fp8 = _plan("deepseek-ai/DeepSeek-V3", gpu="B300", tensor_parallel_size=8)
    online = _plan("Qwen/Qwen3-4B", quantization="fp8_per_tensor")
    for name in _CHECKPOINTS:
        proposed = [change["model"] for change in _proposed(name, fp8)]
        assert not any("~" in model for model in proposed)
        assert _proposed(name, online) == []
