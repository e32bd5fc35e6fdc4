"""The lines that a profile run decides: buffers, peak, graphs, non-torch."""

from hypothesis import given
from hypothesis import strategies as st

from planner.memory import activations, cudagraphs, non_torch, persistent
from planner.memory.profile_run import ProfileRun
from planner.parallel import ParallelLayout
from planner.result import Basis
from planner.units import GIB, MIB
from tests.configs import BERT, LLAMA_8B, architecture, gpu


def run(config: dict[str, object] = LLAMA_8B, **changes: object) -> ProfileRun:
    """Return an H100 server's profile run."""
    facts = {
        "model": architecture(config),
        "gpu": gpu(),
        "layout": ParallelLayout(),
        "dtype": "bfloat16",
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "is_first_stage": True,
        "is_last_stage": True,
        "uses_flashinfer_sampler": True,
        **changes,
    }
    return ProfileRun(**facts)  # type: ignore[arg-type]


def test_sampler_state_is_a_table_of_sequences_by_vocabulary() -> None:
    """1,024 x (128,256 counts + 2 x 4,008 masks + 3,200 + 1,153 + 128) x 4 bytes."""
    assert 1024 * (128256 + 2 * 4008 + 3200 + 1153 + 128) * 4 == (
        persistent.sampler_state_bytes(run())
    )


def test_only_the_last_stage_samples_and_an_encoder_never() -> None:
    """No table elsewhere."""
    assert 0 == persistent.sampler_state_bytes(run(is_last_stage=False))
    assert 0 == persistent.sampler_state_bytes(run(BERT))


def test_later_stages_receive_hidden_states_and_residual() -> None:
    """2 x 8,192 x 4,096 x 2 bytes = 128 MiB."""
    assert 128 * MIB == persistent.intermediate_tensors_bytes(run(is_first_stage=False))
    assert 0 == persistent.intermediate_tensors_bytes(run())


def test_the_sampler_sets_the_peak_on_a_large_gpu() -> None:
    """1,024 x 128,256 x 14 bytes + 9,216 x 4,096 x 2 bytes of hidden states."""
    line = activations.line(run())
    assert 1024 * 128256 * 14 + 9216 * 4096 * 2 == line.size_bytes
    assert line.why.startswith("sampling: 1,024 max_num_seqs x 128,256 tokens")


def test_the_forward_pass_sets_it_with_few_sequences() -> None:
    """16 sequences: 8,192 x 2 bytes x (2 x 4,096 + 2 x 14,336 + 14,336)."""
    line = activations.line(run(max_num_seqs=16))
    assert 8192 * 2 * (2 * 4096 + 3 * 14336) == line.size_bytes
    assert line.why.startswith("forward pass")


def test_tensor_parallel_does_not_shrink_the_sampler() -> None:
    """Logits are gathered on every rank."""
    cut = run(layout=ParallelLayout(tensor_parallel_size=8))
    assert activations.line(run()).size_bytes == activations.line(cut).size_bytes


def test_graphs_are_counted_from_capture_sizes() -> None:
    """35 of 51 sizes are at most 256 sequences."""
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
    assert 51 == len(sizes)
    assert 35 == cudagraphs.num_full_graphs(sizes, 256)


def graphs(sizes: tuple[int, ...], *, is_charged: bool = True) -> int:
    """Bytes of the graphs of a 32-layer model."""
    line = cudagraphs.line(
        sizes, max_num_seqs=1024, num_layers=32, is_pooling=False, is_charged=is_charged
    )
    return line.size_bytes


def test_eager_mode_and_a_fixed_cache_pay_no_graphs() -> None:
    """Nothing captured, or nothing charged."""
    assert 0 == graphs(())
    assert 0 == graphs((1, 2, 4), is_charged=False)
    assert 0 < graphs((1, 2, 4)) < GIB


def test_all_reduce_buffers_come_with_tensor_parallel() -> None:
    """About 1.8 GiB more on Hopper; marked as assumed."""
    one = non_torch.line(ParallelLayout(), gpu(), 0)
    two = non_torch.line(ParallelLayout(tensor_parallel_size=2), gpu(), 0)
    assert one.size_bytes < two.size_bytes
    assert Basis.ASSUMED == one.basis


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4096),
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
