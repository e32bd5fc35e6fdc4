"""The peak of the profile run: its forward pass."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.memory.lines.activations import cold_compile_bytes, forward
from planner.memory.lines.sampler import blas_workspace_bytes
from planner.units import GIB, MIB
from tests.configs import LLAMA_8B, gpu
from tests.runs import run


def test_a_compiled_layer_holds_attention_and_two_residuals_beside_its_mlp() -> None:
    """8,192 tokens x 2 bytes x (4,096 + 2 x 4,096 + 3 x 14,336)."""
    assert forward(run()).size_bytes == 8192 * 2 * (4096 + 2 * 4096 + 3 * 14336)


def test_tensor_parallel_divides_attention_and_mlp() -> None:
    """Not the residual."""
    cut = run(layout=ParallelLayout(tensor_parallel_size=2))
    assert forward(cut).size_bytes == 8192 * 2 * (2048 + 2 * 4096 + 3 * 7168)


def test_eager_mode_holds_three_hidden_states() -> None:
    """One more where ranks add up their parts."""
    alone = forward(run(enforce_eager=True)).size_bytes
    assert alone == 8192 * 2 * (3 * 4096 + 3 * 14336)
    two = run(enforce_eager=True, layout=ParallelLayout(tensor_parallel_size=2))
    assert forward(two).size_bytes == 8192 * 2 * (4 * 4096 + 3 * 7168)


@pytest.mark.parametrize(
    ("hidden", "inner", "logged_gib"),
    [
        (4096, 11008, 0.77),  # CodeLlama-7B
        (4096, 12800, 0.85),  # Granite-3.3-8B
    ],
)
def test_the_logged_peaks_of_models_with_small_vocabularies(
    hidden: int, inner: int, logged_gib: float
) -> None:
    """Starts of 0.19.0 on an H100, with nothing compiled before."""
    config = {**LLAMA_8B, "hidden_size": hidden, "intermediate_size": inner}
    start = run(config, version="0.19.0", uses_v2_runner=False)
    total = (
        forward(start).size_bytes
        + blas_workspace_bytes(start)
        + cold_compile_bytes(start)
    )
    assert abs(total / GIB - logged_gib) < 0.01


def test_compiling_flushes_a_buffer_as_large_as_the_cache() -> None:
    """50 MiB on an H100; nothing in eager mode or where the size is not known."""
    assert cold_compile_bytes(run()) == 50 * MIB
    assert cold_compile_bytes(run(enforce_eager=True)) == 0
    assert cold_compile_bytes(run(gpu=gpu(compute_capability=(7, 5)))) == 0
