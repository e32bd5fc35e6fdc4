"""The lines that a profile run decides: buffers, peak, graphs."""

from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.layout import ParallelLayout
from planner.memory.account import Basis
from planner.memory.lines import activations, cudagraphs, persistent
from planner.memory.lines.calibration import graphs
from planner.memory.lines.sampler import sampling
from planner.units import MIB
from tests.configs import BERT, QWEN3_MOE
from tests.runs import run

SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))


def test_sampler_state_is_a_table_of_sequences_by_vocabulary() -> None:
    """1,024 x (128,256 counts + 2 x 4,008 masks + 3,200 + 1,153 + 128) x 4 bytes."""
    assert 1024 * (128256 + 2 * 4008 + 3200 + 1153 + 128) * 4 == (
        persistent.sampler_state_bytes(run())
    )


def test_only_the_second_runners_last_stage_has_sampler_state() -> None:
    """No table elsewhere."""
    assert 0 == persistent.sampler_state_bytes(run(is_last_stage=False))
    assert 0 == persistent.sampler_state_bytes(run(BERT))
    assert 0 == persistent.sampler_state_bytes(run(uses_v2_runner=False))


def test_later_stages_receive_hidden_states_and_residual() -> None:
    """2 x 8,192 x 4,096 x 2 bytes = 128 MiB."""
    assert 128 * MIB == persistent.intermediate_tensors_bytes(run(is_first_stage=False))
    assert 0 == persistent.intermediate_tensors_bytes(run())


def test_the_first_runner_makes_the_hand_over_in_the_profile_run() -> None:
    """So older releases count it in the peak."""
    later = run(version="0.19.0", uses_v2_runner=False, is_first_stage=False)
    assert 128 * MIB == persistent.kept_during(later)["pipeline hand-over"]
    assert 0 == persistent.kept_before(later)["hand-over between stages"]


def test_until_026_buffers_are_counted_nowhere() -> None:
    """The device's loss is charged from 0.27 on."""
    older = persistent.line(run(version="0.26.0"))
    newer = persistent.line(run(version="0.27.0"))
    assert 0 == older.size_bytes
    assert "take 549.8 MiB" in older.why or "take 549.9 MiB" in older.why
    assert newer.size_bytes == sum(
        [
            *persistent.kept_before(run(version="0.27.0")).values(),
            *persistent.kept_during(run(version="0.27.0")).values(),
        ]
    )


def test_the_sampler_sets_the_peak_on_a_large_gpu() -> None:
    """0.33: what the profile run leaves behind is no part of the peak."""
    line = activations.line(run())
    assert sampling(run()).size_bytes == line.size_bytes
    assert line.why.startswith("sampling: 1,024 max_num_seqs x 128,256 tokens")


def test_older_peaks_hold_what_the_run_leaves_behind() -> None:
    """0.19: the top-k buffer and cuBLAS's 32 MiB."""
    start = run(version="0.19.0", uses_v2_runner=False)
    drawn = sampling(start)
    total = drawn.size_bytes + drawn.kept_bytes + 32 * MIB
    assert total == activations.line(start).size_bytes


def test_the_forward_pass_sets_it_with_few_sequences() -> None:
    """16 sequences, of a later start: a first one compiles before it runs."""
    line = activations.line(run(max_num_seqs=16))
    width = 4096 + 2 * 4096 + 3 * 14336
    assert 8192 * 2 * width == line.size_bytes
    assert line.why.startswith("forward pass")
    assert line.low_bytes == 8192 * 2 * width - 8192 * 2 * width * 10 // 100


def test_tensor_parallel_does_not_shrink_the_sampler() -> None:
    """Logits are gathered on every rank."""
    cut = run(layout=ParallelLayout(tensor_parallel_size=8))
    assert activations.line(run()).size_bytes == activations.line(cut).size_bytes


def test_graphs_are_counted_from_capture_sizes() -> None:
    """35 of 51 sizes are at most 256 sequences."""
    assert 51 == len(SIZES)
    assert 35 == cudagraphs.num_full_graphs(SIZES, 256)


def test_the_first_runners_estimate_follows_the_fit() -> None:
    """102 graphs of 32 layers, and the pool of an H100."""
    start = run(version="0.20.0", uses_v2_runner=False, capture_sizes=SIZES)
    fit = graphs("estimated")
    each = fit.bytes_per_layer_and_graph
    line = cudagraphs.line(start, is_charged=True)
    assert line.size_bytes == fit.pool_bytes["Hopper and later"] + int(each * 32 * 102)
    assert line.low_bytes < line.size_bytes < line.high_bytes
    assert Basis.MEASURED == line.basis


def test_the_second_runner_charges_a_whole_graph_with_the_least() -> None:
    """51 piecewise graphs, and 50 x 1 MiB; at most what the driver takes."""
    line = cudagraphs.line(run(capture_sizes=SIZES), is_charged=True)
    fit = graphs("estimated")
    each = fit.bytes_per_layer_and_graph * 32
    pieces = fit.pool_bytes["Hopper and later"] + int(each * 51)
    assert line.size_bytes == pieces + 50 * MIB
    assert line.high_bytes == fit.range_of(pieces)[1] + 50 * int(each)
    assert Basis.ASSUMED == line.basis


def test_whole_graphs_may_take_more_than_is_charged_for_them() -> None:
    """At most the driver's share of 50, less the 1 MiB of each."""
    start = run(capture_sizes=SIZES)
    each = int(graphs("actual").bytes_per_layer_and_graph * 32)
    beyond = cudagraphs.beyond_estimate(start)
    assert beyond is not None
    assert beyond[0] == 50 * (each - MIB)
    older = run(version="0.20.0", uses_v2_runner=False, capture_sizes=SIZES)
    assert cudagraphs.beyond_estimate(older) is None


def test_the_second_runner_estimated_nothing_until_028() -> None:
    """0.22 to 0.28: no graph is charged to its models."""
    start = run(version="0.28.0", capture_sizes=SIZES)
    assert 0 == cudagraphs.line(start, is_charged=True).size_bytes


def test_eager_mode_and_a_fixed_cache_pay_no_graphs() -> None:
    """Nothing captured, or nothing charged."""
    assert 0 == cudagraphs.line(run(), is_charged=True).size_bytes
    captured = run(capture_sizes=SIZES)
    assert 0 == cudagraphs.line(captured, is_charged=False).size_bytes
    assert 0 < cudagraphs.actual_bytes(captured)


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(128, 4096),
    st.integers(1, 65536),
)
def test_every_line_lies_in_its_range_and_grows(
    tensor: int, seqs: int, tokens: int
) -> None:
    """low <= size <= high; more sequences or tokens never cost less."""
    layout = ParallelLayout(tensor_parallel_size=tensor)
    small = run(layout=layout, max_num_seqs=seqs, max_num_batched_tokens=tokens)
    large = run(layout=layout, max_num_seqs=seqs + 1, max_num_batched_tokens=tokens + 1)
    for module in (persistent, activations):
        line = module.line(small)
        assert line.low_bytes <= line.size_bytes <= line.high_bytes
        assert line.size_bytes <= module.line(large).size_bytes


def test_experts_widen_the_line_that_holds_them() -> None:
    """What is kept in one line, what is given back in the other; never negative."""
    few = {"max_num_seqs": 8, "max_num_batched_tokens": 65536}
    newer = run(QWEN3_MOE, **few)
    older = run(QWEN3_MOE, version="0.19.0", uses_v2_runner=False, **few)
    assert persistent.line(newer).low_bytes < persistent.line(newer).high_bytes
    assert persistent.line(older).low_bytes == persistent.line(older).high_bytes == 0
    for start in (newer, older):
        line = activations.line(start)
        assert 0 <= line.low_bytes < line.size_bytes < line.high_bytes


def test_a_draft_has_its_buffer_for_images_among_the_weights() -> None:
    """Qwen3.5-9B's, 4,096 wide for 8,192 tokens; without images there is none.

    Before 0.31.0 it is one of the draft's buffers.
    """
    given = {
        "max_num_batched_tokens": 8192,
        "max_model_len": 8192,
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 1},
    }
    without = {"limit_mm_per_prompt": {"image": 0, "video": 0}}
    loaded, textual, older = (
        planner.plan("Qwen/Qwen3.5-9B", vllm_version=version, **given, **more).ranks[0]
        for version, more in (("0.33.0", {}), ("0.33.0", without), ("0.30.0", {}))
    )
    named = f"images for the draft {8192 * 4096 * 2 / MIB:.1f} MiB"
    assert named in loaded.line("weights").why
    assert "images" not in textual.line("weights").why + older.line("weights").why
