"""For which batch sizes CUDA graphs are captured."""

from dataclasses import replace
from typing import Any

import pytest

from planner.engine.releases import NEWEST, Release, number_of
from planner.engine.settings import EngineSettings
from planner.errors import Refused
from planner.planning.capture_sizes import capture_sizes
from planner.units import GIB
from tests.configs import LLAMA_8B, architecture, gpu

B200 = gpu(
    device_name="NVIDIA B200",
    compute_capability=(10, 0),
    total_memory_bytes=int(178.35 * GIB),
)


def sizes(
    device: object = None,
    version: str = NEWEST,
    config: dict[str, Any] = LLAMA_8B,
    **settings: Any,
) -> tuple[int, ...]:
    """Capture sizes for a number of sequences and tokens."""
    seqs = settings.pop("seqs", 1024)
    tokens = settings.pop("tokens", 8192)
    return capture_sizes(
        EngineSettings(**settings),
        architecture(config),
        device or gpu(),  # type: ignore[arg-type]
        (tokens, seqs),
        Release(number_of(version)),
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


def test_blackwell_captured_no_more_than_others_before() -> None:
    """51 sizes, and 1,024 sequences are no size of their own."""
    assert 51 == len(sizes(B200, "0.27.1"))


def test_all_requests_at_once_are_a_size_of_their_own() -> None:
    """100 sequences: 3 + 25 sizes to 200, and 100 from 0.31.0 on."""
    assert 28 == len(sizes(version="0.30.0", seqs=100))
    assert 100 not in sizes(version="0.30.0", seqs=100)
    assert 100 in sizes(version="0.31.0", seqs=100)


def test_the_largest_step_is_a_size_of_its_own() -> None:
    """A step of 100 tokens, from 0.20.1 on."""
    assert 96 == sizes(version="0.20.0", tokens=100)[-1]
    assert 100 == sizes(version="0.20.1", tokens=100)[-1]


@pytest.mark.parametrize(
    ("version", "seqs", "count", "largest"),
    [
        ("0.9.2", 16, 67, 512),
        ("0.10.0", 256, 67, 512),
        ("0.10.0", 16, 7, 32),
        ("0.11.0", 1, 3, 4),
        ("0.11.1", 1, 2, 2),
        ("0.11.1", 256, 51, 512),
    ],
)
def test_older_releases_captured_in_eights(
    version: str, seqs: int, count: int, largest: int
) -> None:
    """1, 2, 4 and eights up to 512: 3 + 64 sizes; 0.9.2 for any number."""
    captured = sizes(version=version, seqs=seqs)
    assert (count, largest) == (len(captured), captured[-1])


@pytest.mark.parametrize(
    ("version", "count", "largest"),
    [
        ("0.10.1", 83, 1024),
        ("0.11.0", 81, 992),
        ("0.11.1", 83, 1024),
        (NEWEST, 83, 1024),
    ],
)
def test_gpt_oss_captures_more_than_others(
    version: str, count: int, largest: int
) -> None:
    """3 + 31 eights + 49 sixteens, whatever the number of sequences."""
    model = replace(architecture(LLAMA_8B), architecture="GptOssForCausalLM")
    captured = capture_sizes(
        EngineSettings(), model, gpu(), (8192, 100), Release(number_of(version))
    )
    assert (count, largest) == (len(captured), captured[-1])


def test_given_sizes_were_once_taken_as_they_are() -> None:
    """Whatever the step, until 0.11.0; a largest size is reached in eights."""
    given = sizes(version="0.11.0", cudagraph_capture_sizes=(64, 9000))
    assert (64, 9000) == given
    largest = sizes(version="0.11.0", max_cudagraph_capture_size=20)
    assert (1, 2, 4, 8, 16) == largest


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
