"""Sampling in the profile run, by release, against what logs say."""

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST
from planner.memory.lines.sampler import (
    blas_workspace_bytes,
    sampling,
    uses_flashinfer_sampler,
)
from planner.units import GIB, MIB
from tests.configs import BERT, LLAMA_8B, gpu
from tests.runs import run

_HIDDEN = 4096 * 2


@pytest.mark.parametrize(
    ("version", "v2", "copies"),
    [
        ("0.11.0", False, 2 + 4 + 4 + 8 + 8 + 12),  # PyTorch's sort
        ("0.16.0", False, 38),
        ("0.17.0", False, 2 + 4 + 4 + 4),  # softmax and random numbers
        ("0.21.0", False, 2 + 4 + 4 + 4),  # FlashInfer: masked logits, probabilities
        ("0.25.1", True, 2 + 4),  # drawn once with default parameters
        ("0.32.0", True, 2),
        ("0.33.0", True, 14),
    ],
)
def test_copies_of_the_logits_by_release(version: str, v2: bool, copies: int) -> None:
    """1,024 requests x 128,256 tokens x copies + hidden states of steps and rows."""
    rows = 1024 if v2 else 2 * 1024
    drawn = sampling(run(version=version, uses_v2_runner=v2))
    assert drawn.size_bytes == 1024 * 128256 * copies + (8192 + rows) * _HIDDEN


def test_a_middling_number_of_requests_is_sorted_all_at_once() -> None:
    """2 to 127 rows: 2 + 4 + 4 + 8 + 16 + 4 + 12 = 50 bytes each."""
    some = run(version="0.16.0", uses_v2_runner=False, max_num_seqs=100)
    one = run(version="0.16.0", uses_v2_runner=False, max_num_seqs=1)
    assert sampling(some).size_bytes == 100 * 128256 * 50 + (8192 + 200) * _HIDDEN
    assert sampling(one).size_bytes == 128256 * 38 + (8192 + 2) * _HIDDEN


def test_the_top_k_kernel_keeps_a_row_per_multiprocessor() -> None:
    """132 x 128,256 x 4 bytes on an H100; 8 requests need 8 rows."""
    facts = {"version": "0.19.0", "uses_v2_runner": False}
    assert sampling(run(**facts)).kept_bytes == 132 * 128256 * 4
    assert sampling(run(**facts, max_num_seqs=8)).kept_bytes == 8 * 128256 * 4
    assert sampling(run(version="0.16.0", uses_v2_runner=False)).kept_bytes == 0


def test_the_first_runner_draws_with_flashinfer_and_without() -> None:
    """From 0.21: its kernel's 132 x 128,256 x 4 bytes, or a sort of 7 rows."""
    facts = {"uses_v2_runner": False}
    assert sampling(run(version="0.25.1", **facts)).kept_bytes == 132 * 128256 * 4
    assert sampling(run(version="0.25.1")).kept_bytes == 0
    earlier = run(version="0.20.2", use_flashinfer_sampler=True, **facts)
    assert sampling(earlier).kept_bytes == 0
    few = sampling(run(version="0.25.1", max_num_seqs=7, **facts))
    assert few.size_bytes == 7 * 128256 * 50 + (8192 + 14) * _HIDDEN


def test_a_rank_that_draws_no_tokens_holds_no_logits() -> None:
    """Earlier stages, and encoders."""
    assert sampling(run(is_last_stage=False)).size_bytes == 0
    assert sampling(run(BERT)).size_bytes == 0


def test_flashinfer_draws_where_it_can_and_is_asked() -> None:
    """From 0.21 on, from capability 7.5 on; by hand before."""
    assert uses_flashinfer_sampler(run(version="0.21.0"))
    assert not uses_flashinfer_sampler(run(version="0.20.2"))
    assert uses_flashinfer_sampler(run(version="0.20.2", use_flashinfer_sampler=True))
    assert not uses_flashinfer_sampler(run(use_flashinfer_sampler=False))
    volta = gpu(compute_capability=(7, 0))
    assert not uses_flashinfer_sampler(run(gpu=volta))


@pytest.mark.parametrize(
    ("vocabulary", "hidden", "version", "logged_gib"),
    [
        (151936, 1024, "0.11.0", 5.56),  # Qwen3-0.6B
        (151936, 5120, "0.11.0", 5.64),  # Qwen3-32B
        (128256, 4096, "0.11.0", 4.76),  # Llama-3.1-8B
        (151936, 4096, "0.19.0", 2.21),  # Qwen3-8B
        (256000, 2304, "0.19.0", 3.62),  # Gemma-2-2B
        (100352, 5120, "0.19.0", 1.52),  # Phi-4
    ],
)
def test_the_logged_peaks_of_dense_models(
    vocabulary: int, hidden: int, version: str, logged_gib: float
) -> None:
    """Starts on an H100: sampling, the kernel's buffer and cuBLAS's workspace."""
    config = {**LLAMA_8B, "vocab_size": vocabulary, "hidden_size": hidden}
    start = run(config, version=version, uses_v2_runner=False)
    drawn = sampling(start)
    total = drawn.size_bytes + drawn.kept_bytes + blas_workspace_bytes(start)
    assert abs(total / GIB - logged_gib) < 0.01


def test_cublas_takes_its_workspace_before_the_first_look_from_033_on() -> None:
    """32 MiB on Hopper, 8.125 MiB on Ampere, until then."""
    assert blas_workspace_bytes(run(version="0.32.0")) == 32 * MIB
    ampere = run(version="0.32.0", gpu=gpu(compute_capability=(8, 0)))
    assert blas_workspace_bytes(ampere) == 8 * MIB + 128 * 1024
    assert blas_workspace_bytes(run(version="0.33.0")) == 0


@pytest.mark.parametrize("capability", [(10, 0), (10, 3), (12, 0), (12, 1)])
def test_blackwell_has_hoppers_workspace_since_pytorch_2_13(
    capability: tuple[int, int],
) -> None:
    """Which vLLM has needed since 0.27; Thor's generation is not among them."""
    blackwell = gpu(compute_capability=capability)
    before = run(version="0.26.0", gpu=blackwell, uses_v2_runner=False)
    assert blas_workspace_bytes(before) == 8 * MIB + 128 * 1024
    assert blas_workspace_bytes(run(version="0.27.0", gpu=blackwell)) == 32 * MIB
    thor = run(version="0.27.0", gpu=gpu(compute_capability=(11, 0)))
    assert blas_workspace_bytes(thor) == 8 * MIB + 128 * 1024


@pytest.mark.parametrize(
    ("version", "ranks", "per_logit"),
    [
        # One rank's part, those of all, and the rows that are made of them.
        ("0.29.0", 2, 1 + 2 + 2),
        ("0.29.0", 4, 0.5 + 2 + 2),
        ("0.25.1", 2, 2 + 4),
        (NEWEST, 2, 14),
    ],
)
def test_ranks_gather_the_logits(version: str, ranks: int, per_logit: float) -> None:
    """Which takes more than sampling where that needs no copies."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    drawn = sampling(run(version=version, layout=layout))
    assert drawn.size_bytes == 1024 * 128256 * per_logit + (8192 + 1024) * _HIDDEN
    assert ("gathered" in drawn.why) is (version == "0.29.0")


def test_whispers_head_is_whole_on_each_rank_and_gathered_as_if_it_were_not() -> None:
    """Two ranks: 2 x 2 bytes of logits and 12 of copies; a dry start has 0.88 GiB."""
    made = planner.plan(
        "openai/whisper-large-v3-turbo",
        gpu="B200",
        vllm_version="0.33.0",
        tensor_parallel_size=2,
        max_model_len=448,
        enforce_eager=True,
    )
    peak = made.ranks[0].line("peak activation").size_bytes
    hidden, audio = (16384 + 1024) * 1280 * 2, 38 * MIB  # 36.6 in tensors
    assert peak == 1024 * 51866 * (2 * 2 + 3 * 4) + hidden + audio
