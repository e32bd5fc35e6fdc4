"""What a plan makes of arguments and variables: counted, bounded, or a condition."""

import json
import re

import pytest

import planner
from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY, Kind, Memory
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.show.page import plan_html
from planner.show.verdict import CONDITIONAL, verdict
from planner.units import MIB
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture, gpu
from tests.rows import each_row
from tests.tiny_models import written

MODEL = "Qwen/Qwen3-14B"
GIVEN = {
    Kind.SWITCH: True,
    Kind.WHOLE: 2,
    Kind.NUMBER: 0.5,
    Kind.TEXT: "other",
    Kind.TABLE: {"some": "thing"},
    Kind.NAMES: ["x"],
}
UNCERTAIN = [
    argument
    for argument in ARGUMENTS.values()
    if argument.memory in (Memory.UNKNOWN, Memory.BOUNDED)
]


@each_row("argument", UNCERTAIN, ids=lambda one: one.name)
def test_every_argument_is_planned(argument) -> None:
    """No argument of vLLM is an error, whatever is known of its effect."""
    value = argument.choices[-1] if argument.choices else GIVEN[argument.kind]
    plan = planner.plan(MODEL, **{argument.name: value})

    assert plan.ranks
    named = [one for one in plan.conditions if one.startswith(argument.name + "=")]
    assert [] == named or argument.memory is Memory.UNKNOWN


@each_row(
    "argument",
    [one for one in ARGUMENTS.values() if one.name not in PLANNER_ONLY],
    ids=lambda one: one.name,
)
def test_what_has_no_effect_says_where_vllm_shows_it(argument) -> None:
    """Those that were refused once; an effect that is bounded is shown likewise."""
    if argument.memory is Memory.BOUNDED:
        assert argument.source
    if argument.source and argument.memory is Memory.NONE:
        assert argument.source in argument.explained


def test_a_condition_is_part_of_the_verdict() -> None:
    """Fits, if what is not counted fits too; plain without it."""
    plain, plan = planner.plan(MODEL), planner.plan(MODEL, enable_dbo=True)

    assert plan.fits
    assert () == plain.conditions
    assert "Fits" == verdict(plain).headline
    assert CONDITIONAL == verdict(plan).headline
    (condition,) = plan.conditions
    assert condition.startswith("enable_dbo=true: the second micro-batch")
    assert f"Note: Not counted: {condition}." in " ".join(str(plan).split())
    assert f"Not counted: {condition}." in plan_html(plan)
    assert [condition] == plan.to_dict()["conditions"]
    assert plain.ranks == plan.ranks


def test_what_does_not_fit_does_not_depend_on_conditions() -> None:
    """More would be needed still."""
    plan = planner.plan(MODEL, gpu="L4", enable_dbo=True)

    assert not plan.fits
    assert CONDITIONAL != verdict(plan).headline
    assert plan.conditions


@pytest.mark.parametrize(
    ("model", "given", "is_there"),
    [
        (MODEL, {"use_replayssm": True}, False),
        (MODEL, {"enable_return_routed_experts": True}, False),
        ("Qwen/Qwen3-30B-A3B", {"enable_return_routed_experts": True}, True),
        ("Qwen/Qwen3-30B-A3B", {"all2all_backend": "deepep_low_latency"}, False),
        (
            "Qwen/Qwen3-30B-A3B",
            {
                "all2all_backend": "deepep_low_latency",
                "data_parallel_size": 2,
                "enable_expert_parallel": True,
            },
            True,
        ),
        (MODEL, {"distributed_executor_backend": "ray"}, False),
        (MODEL, {"distributed_executor_backend": "my.Executor"}, True),
    ],
)
def test_a_setting_counts_only_where_it_can_matter(model, given, is_there) -> None:
    """A model without states keeps no inputs of Mamba layers."""
    assert is_there == bool(planner.plan(model, **given).conditions)


def test_ray_had_a_channel_of_its_own_between_stages_once() -> None:
    """Before 0.21.0; its workers are those of mp since."""
    given = {"distributed_executor_backend": "ray", "pipeline_parallel_size": 2}
    old, new = (
        planner.plan(MODEL, vllm_version=version, **given)
        for version in ("0.20.2", "0.21.0")
    )
    assert 1 == len(old.conditions)
    assert () == new.conditions


def test_a_bound_widens_the_range_and_is_noted() -> None:
    """32 MiB below, on several GPUs only."""
    plain, plan = (
        planner.plan(MODEL, tensor_parallel_size=2, disable_custom_all_reduce=off)
        for off in (False, True)
    )
    lines = [one.ranks[0].line("non-torch") for one in (plain, plan)]

    assert 32 * MIB == lines[0].low_bytes - lines[1].low_bytes
    assert lines[0].size_bytes == lines[1].size_bytes
    assert () == plan.conditions
    assert any(note.startswith("disable_custom_all_reduce=true") for note in plan.notes)
    alone = planner.plan(MODEL, disable_custom_all_reduce=True)
    assert planner.plan(MODEL).notes == alone.notes


def test_variables_are_conditions_and_notes_too() -> None:
    """What vLLM reads without the planner counting it; what it does not read."""
    env = {"VLLM_BATCH_INVARIANT": "1", "VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}
    plan = planner.plan(MODEL, env=env)

    assert ["VLLM_BATCH_INVARIANT=1"] == [c.partition(":")[0] for c in plan.conditions]
    assert (
        f"vLLM {NEWEST} does not read VLLM_ATTENTION_BACKEND any more" in plan.notes[-1]
    )


def test_hf_overrides_change_config_json(tmp_path) -> None:
    """Half the layers keep half the bytes; 4 x dynamic RoPE makes 4 x the length."""
    model = written(tmp_path, LLAMA_8B)
    plain = planner.plan(model, gpu=gpu())
    fewer = planner.plan(model, gpu=gpu(), hf_overrides={"num_hidden_layers": 16})
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 500000.0}
    longer = planner.plan(model, gpu=gpu(), hf_overrides={"rope_parameters": rope})

    assert [32, 16] == [p.kv_groups[0].num_layers for p in (plain, fewer)]
    assert plain.ranks[0].bytes_per_block == 2 * fewer.ranks[0].bytes_per_block
    assert plain.resolved.max_model_len * 4 == longer.resolved.max_model_len
    text = planner.plan(model, gpu=gpu(), hf_overrides='{"num_hidden_layers": 16}')
    assert fewer.ranks == text.ranks


def test_hf_overrides_are_merged_into_a_part_of_the_configuration() -> None:
    """A table for text_config changes what it names; others replace what is there."""
    text = {"num_hidden_layers": 12}
    plan = planner.plan("google/gemma-3-4b-it", hf_overrides={"text_config": text})
    whole = planner.plan("google/gemma-3-4b-it")

    assert 12 == sum(group.num_layers for group in plan.kv_groups)
    assert whole.model.hidden_size == plan.model.hidden_size


def test_hf_overrides_need_a_config_json(tmp_path) -> None:
    """A model made in code has none."""
    with pytest.raises(PlannerError, match=r"comes without a config\.json"):
        planner.plan(architecture(LLAMA_8B), gpu=gpu(), hf_overrides={"a": 1})
    with pytest.raises(PlannerError, match="is not JSON"):
        planner.plan(written(tmp_path, LLAMA_8B), hf_overrides="{a: 1")


def test_without_sliding_windows_every_layer_keeps_all_tokens() -> None:
    """gpt-oss: a window of 128 tokens becomes the longest length."""
    plan = planner.plan("openai/gpt-oss-20b", disable_sliding_window=True)

    assert 128 == plan.resolved.max_model_len
    assert ["FullAttentionSpec"] == [group.kind for group in plan.kv_groups]
    long = planner.plan(
        "openai/gpt-oss-20b", disable_sliding_window=True, max_model_len=4096
    )
    assert "sliding_window=128" in long.error.message


def test_convert_makes_a_pooling_model() -> None:
    """The head of 151,936 x 5,120 two-byte numbers is dropped."""
    plain, embed, none = (
        planner.plan(MODEL, convert=how) for how in ("auto", "embed", "none")
    )
    head = 151_936 * 5_120 * 2
    assert plain.ranks[0].weights_bytes - head == embed.ranks[0].weights_bytes
    assert plain.ranks == none.ranks


def test_prompts_as_vectors_need_a_buffer() -> None:
    """8,192 tokens x 5,120 numbers of 2 bytes."""
    plain, plan = (
        planner.plan(
            MODEL,
            max_num_batched_tokens=8192,
            max_num_seqs=64,
            enable_prompt_embeds=on,
        )
        for on in (False, True)
    )
    sizes = [
        one.ranks[0].line("persistent buffers").size_bytes for one in (plain, plan)
    ]
    assert 8192 * 5120 * 2 == sizes[1] - sizes[0]


def test_the_backend_in_a_table_is_the_argument() -> None:
    """attention_config.backend, as a mapping or as JSON."""
    named = planner.plan(MODEL, attention_backend="TRITON_ATTN")
    table = {"backend": "TRITON_ATTN", "flash_attn_version": 3}
    for given in (table, json.dumps(table)):
        plan = planner.plan(MODEL, attention_config=given)
        assert named.ranks == plan.ranks
        assert () == plan.conditions
    both = planner.plan(MODEL, attention_backend="FLASH_ATTN", attention_config=table)
    assert "mutually exclusive" in both.error.message


def test_a_key_of_a_table_that_vllm_does_not_have_is_refused() -> None:
    """use_fp4_indexer_cache went with 0.30.0."""
    table = {"use_fp4_indexer_cache": "True"}
    new, old = (
        planner.plan(MODEL, attention_config=table, vllm_version=version)
        for version in (NEWEST, "0.29.0")
    )
    assert "refused" == new.error.kind
    assert "Unexpected keyword argument" in new.error.message
    assert "attention_config.use_fp4_indexer_cache=True" in old.conditions[0]


@pytest.mark.parametrize("given", ["argument", "table"])
def test_the_kernel_of_experts_can_be_chosen(given) -> None:
    """Marlin holds FP8 scales row by row; what the planner has not is a condition."""

    def plan(kernel):
        asked = {"moe_backend": kernel}
        if given == "table":
            asked = {"kernel_config": asked}
        return planner.plan("Qwen/Qwen3-30B-A3B-FP8", **asked)

    plain, marlin, other = plan("auto"), plan("marlin"), plan("flashinfer_cutedsl")
    assert marlin.ranks[0].weights_bytes > plain.ranks[0].weights_bytes
    assert () == marlin.conditions
    assert plain.ranks[0].weights_bytes == other.ranks[0].weights_bytes
    assert other.conditions[0].startswith("moe_backend=flashinfer_cutedsl: the padding")


def test_a_kernel_that_vllm_chooses_anyway_changes_nothing() -> None:
    """Triton computes unquantised experts on an H100."""
    model = architecture(QWEN3_MOE)
    plain, plan = (
        planner.plan(model, gpu="A100", moe_backend=kernel)
        for kernel in ("auto", "triton")
    )
    assert plain.ranks == plan.ranks
    assert () == plan.conditions


def test_the_length_that_vllm_names_is_given() -> None:
    """Where one request does not fit: the number in its message."""
    given = {"kv_cache_memory_bytes": "1GiB", "max_model_len": 40960}
    plan = planner.plan(MODEL, **given)
    found = re.search(r"estimated maximum model length is (\d+)", plan.error.message)

    assert found is not None
    assert int(found[1]) == plan.estimated_max_model_len
    assert plan.estimated_max_model_len == plan.max_model_len_that_fits
    assert plan.estimated_max_model_len == plan.to_dict()["estimated_max_model_len"]
    assert planner.plan(MODEL).estimated_max_model_len is None


def test_a_draft_that_the_hub_does_not_give_is_a_condition() -> None:
    """Without the Hub the target is planned; what does not exist is an error."""
    draft = {"model": "nobody/eagle3-head", "method": "eagle3"}
    plan = planner.plan(
        "Qwen/Qwen3-8B",
        gpu="H100",
        speculative_config={**draft, "num_speculative_tokens": 3},
    )
    [told] = plan.conditions
    assert told.startswith("speculative_config: the draft: its weights, its KV cache")
    assert "'nobody/eagle3-head'" in told
    with pytest.raises(planner.ModelNotFound):
        plan.changed(
            speculative_config={
                **draft,
                "model": "/no/such",
                "num_speculative_tokens": 3,
            }
        )


def test_overrides_that_no_config_json_can_hold_are_named() -> None:
    """Bytes are no value of JSON."""
    with pytest.raises(PlannerError, match="hf_overrides holds what no"):
        planner.plan("Qwen/Qwen3-8B", gpu="H100", hf_overrides={"x": b"y"})
