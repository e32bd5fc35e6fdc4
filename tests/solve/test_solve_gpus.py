"""The fewest GPUs, and the layouts that vLLM takes."""

import pytest

import planner
from planner import GPU, Load, PlannerError, solve
from planner.engine.devices import attached
from planner.solve.layouts import Layout, Room, spread
from planner.units import GIB
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LOAD = Load(prompt_tokens=3000, output_tokens=1000, requests=64)


def tensor_sizes(model, **named):
    """The tensor parallel sizes of layouts in one stage."""
    return [
        layout.tensor_parallel_size
        for layout in solve.layouts(model, "H100", **named)
        if layout.pipeline_parallel_size == 1
    ]


def test_tensor_parallel_divides_heads_and_vocabulary():
    """40 heads / 5 passes, and a vocabulary of 151,936 / 5 does not: vLLM refuses."""
    refused = planner.plan("Qwen/Qwen3-14B", tensor_parallel_size=5)

    assert "151936 is not divisible by 5" in refused.error.message
    assert [1, 2, 4, 8] == tensor_sizes("Qwen/Qwen3-14B")


def test_kv_heads_are_divided_or_repeated():
    """12 heads: 3 and 6 divide 3 KV heads or repeat them evenly; 4 does neither."""
    model = architecture(
        LLAMA_8B,
        num_attention_heads=12,
        num_key_value_heads=3,
        hidden_size=1536,
        intermediate_size=12 * 64,
        vocab_size=12 * 64,
    )

    assert [1, 3, 6] == tensor_sizes(model)


def test_blocks_of_an_fp8_checkpoint_stay_whole():
    """2,304 / 4 = 576 = 4.5 blocks of 128: four ranks would cut a block."""
    fp8 = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
    }
    model = architecture(LLAMA_8B, intermediate_size=2304, quantization_config=fp8)

    assert [1, 2] == tensor_sizes(model)


def test_experts_that_cannot_be_cut_are_spread_whole():
    """768 columns of an expert / 5 is refused; 5 ranks of whole experts are not.

    With 40 heads and 5 KV heads all else divides by 5.
    """
    model = architecture(
        QWEN3_MOE,
        num_attention_heads=40,
        num_key_value_heads=5,
        vocab_size=64 * 5 * 10,
        intermediate_size=6400,
    )
    five = [
        layout
        for layout in solve.layouts(model, "H100")
        if layout.tensor_parallel_size == 5
    ]

    assert [Layout(tensor_parallel_size=5, enable_expert_parallel=True)] == five


def test_tensor_parallel_stays_inside_a_machine():
    """Two machines of 4: 8 GPUs are 4 x 2 stages, 2 x 4 or 1 x 8, never 8 x 1."""
    eight = [
        (layout.tensor_parallel_size, layout.pipeline_parallel_size)
        for layout in solve.layouts(LLAMA_70B, "H100", gpus_per_node=4, nodes=2)
        if layout.gpus == 8
    ]

    assert [(4, 2), (2, 4), (1, 8)] == eight


def test_stages_do_not_straddle_machines():
    """3 GPUs a machine hold one stage of 2 each: two machines hold 2 stages, not 3."""
    room = Room(gpus_per_node=3, nodes=2)

    assert [] == [
        layout for layout in spread(6, room) if layout.tensor_parallel_size == 2
    ]
    assert 1 == sum(layout.tensor_parallel_size == 2 for layout in spread(2, room))


def test_layouts_come_with_the_fewest_stages_first():
    """Tensor parallel, then copies, then stages."""
    four = [
        (one.tensor_parallel_size, one.pipeline_parallel_size, one.data_parallel_size)
        for one in spread(4, Room())
    ]

    assert [(4, 1, 1), (2, 1, 2), (1, 1, 4), (2, 2, 1), (1, 2, 2), (1, 4, 1)] == four


def test_the_fewest_gpus_hold_weights_and_requests():
    """131.5 GiB of weights need two H100, and 64 x 4,000 tokens two more.

    A token takes 80 layers x 8 heads x 256 values x 2 bytes = 320 KiB, 64 x 250 blocks
    of 16 take 16,000 x 5 MiB = 78.1 GiB: 209.6 of 3 x 72.9 GiB leave too little.
    """
    found = solve.fewest_gpus(LLAMA_70B, "H100", load=LOAD)

    assert 4 == found.value == found.plan.gpus_total
    assert 4 == found.plan.settings.tensor_parallel_size
    assert 3 == found.next_plan.gpus_total
    assert "64 x 250 + 1 (stays empty) = 16,001 blocks; " in found.why
    assert "With 3: 64 requests of 4,000 tokens need" in found.why


def test_the_best_of_several_kinds_has_the_fewest_gpus_then_the_least_memory():
    """One H200 or one H100 hold 8 B parameters; L4 takes three. H100 is smaller."""
    found = solve.fewest_gpus("Qwen/Qwen3-8B", ["L4", "H200", "H100"], load=LOAD)

    kinds = [(option.value, option.plan.gpu.name) for option in found.options]
    assert [(1, "H100"), (1, "H200"), (3, "L4")] == kinds
    assert "H100" == found.plan.gpu.name
    assert found.next_plan is None


def test_a_gpu_of_ones_own_can_be_chosen():
    """It need not be in the catalogue."""
    own = GPU(name="Own", total_memory_bytes=60 * GIB, compute_capability=(9, 0))
    found = solve.fewest_gpus(
        "Qwen/Qwen3-8B", [own, "RTX3080"], load=LOAD, gpus_per_node=2
    )

    assert "Own" == found.plan.gpu.name
    assert [option.is_found for option in found.options] == [True, False]


def test_the_attached_gpu_is_one_like_others(monkeypatch):
    """Its free memory counts: 30 GiB of an H100 hold fewer requests than all of it."""

    class Attached:
        """A survey of a machine with one GPU, of which others hold the rest."""

        def planning_gpu(self):
            """Return it."""
            return GPU.named("H100", free_memory_bytes=30 * GIB)

    monkeypatch.setattr(attached, "survey", Attached)

    found = solve.smallest_utilization("Qwen/Qwen3-8B", "attached", load=LOAD)
    assert found.value is None
    nearest = found.nearest[0]
    assert (nearest.requests, nearest.prompt_tokens) < (64, LOAD.prompt_tokens)
    assert 2 == solve.fewest_gpus("Qwen/Qwen3-8B", "attached", load=LOAD).value


def test_given_sizes_stay():
    """tensor_parallel_size=2 is kept: more GPUs mean stages or copies."""
    found = solve.fewest_gpus(LLAMA_70B, "H100", load=LOAD, tensor_parallel_size=2)

    assert 2 == found.plan.settings.tensor_parallel_size
    assert found.value > 2
    assert 0 == found.value % 2


def test_slices_and_shared_memory_work_alone():
    """A MIG slice cannot exchange data; GB10 is alone in its machine."""
    room = Room(gpus_per_node=8, nodes=2)

    assert 1 == room.within(GPU.named("H100-MIG-3g.40gb")).gpus
    assert 2 == room.within(GPU.named("GB10")).gpus
    assert 16 == room.within(GPU.named("H100")).gpus


def test_the_catalogue_is_searched_when_no_gpu_is_named():
    """Every whole GPU of it is an option; slices are parts of what is there."""
    found = solve.fewest_gpus("Qwen/Qwen3-0.6B", prompt_tokens=1000)

    names = [(option.plan or option.next_plan).gpu.name for option in found.options]
    assert len(names) > 50
    assert not [name for name in names if "MIG" in name]
    totals = [
        option.value * option.plan.gpu.total_memory_bytes
        for option in found.options
        if option.value == 1
    ]
    assert totals == sorted(totals)


def test_a_small_gpu_gets_a_share_that_is_free():
    """A desktop takes 1.6 of 15.67 GiB: vLLM's default, 92 %, is not free."""
    device = planner.GPU.named("RTX4080", free_memory_bytes=round(14.1 * GIB))
    refused = planner.plan("Qwen/Qwen3-8B", gpu=device, tensor_parallel_size=4)
    assert "free_memory" == refused.error.kind

    found = solve.fewest_gpus(
        "Qwen/Qwen3-8B", device, prompt_tokens=3000, tensor_parallel_size=4
    )

    assert found.is_found
    assert found.plan.settings.gpu_memory_utilization < 0.92


def test_an_impossible_load_names_what_the_nearest_gpus_serve():
    """8 x T4 hold the model in float16, but not a thousand long requests."""
    load = Load(prompt_tokens=30_000, output_tokens=2000, requests=1000)
    found = solve.fewest_gpus("Qwen/Qwen3-8B", ["T4", "L4"], load=load)

    assert found.value is None
    assert "Nearest that is served on 8 x L4" in found.why
    fewer, shorter = found.nearest
    assert (32_000, 1000) == (fewer.request_tokens, shorter.requests)
    for possible in found.nearest:
        assert solve.fewest_gpus("Qwen/Qwen3-8B", ["L4"], load=possible).is_found


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"gpus": []}, "at least one GPU"),
        ({"gpus": ["H101"]}, "H100"),
        ({"gpus": [3]}, "holds 3"),
        ({"gpu": "H100"}, "gpus="),
        ({"gpus": "H100", "nodes": 0}, "nodes=0"),
        ({"gpus": "H100", "gpus_per_node": 2.5}, "gpus_per_node=2.5"),
    ],
)
def test_malformed_machines_are_named(named, message):
    """What is allowed stands in the message."""
    with pytest.raises(PlannerError, match=message):
        solve.fewest_gpus("Qwen/Qwen3-8B", **named)
