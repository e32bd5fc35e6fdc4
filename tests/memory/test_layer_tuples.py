"""DeepSeek-V4's KV cache in 0.20 to 0.28, as those releases' own code answered."""

import pytest

import planner
from planner.memory.estimate import RankMemory
from planner.units import GIB
from tools.configs import named

LENGTH = 121_344
SPLIT = ((62, 256, 1_002_240), (22, 64, 823_680), (21, 64, 786_240))
PADDED = (*SPLIT, (42, 4, 967_680), (20, 8, 748_800))
PLAIN = (*SPLIT, (42, 4, 870_912), (20, 8, 656_640))


@pytest.mark.parametrize(
    ("version", "groups", "blocks", "concurrency", "needed_gib"),
    [
        ("0.20.0", PADDED, 8_167, 2.3720592506535, "3.75"),
        ("0.22.1", PADDED, 8_167, 2.3720592506535, "3.75"),
        ("0.23.0", PADDED, 8_262, 2.3996514667441184, "3.75"),
        ("0.26.0", PADDED, 8_262, 1.2927554373337506, "7.01"),
        ("0.28.0", PLAIN, 8_570, 1.1975964225824483, "7.01"),
    ],
)
def test_blocks_are_those_of_the_releases_own_code(
    version: str,
    groups: tuple[tuple[int, int, int], ...],
    blocks: int,
    concurrency: float,
    needed_gib: str,
) -> None:
    """8 GiB for one request of 121,344 tokens, in batches of 8,192.

    A published start of 0.26.0 with 7.7 GiB said 150 thousand tokens.
    """

    def start(size_bytes: int) -> planner.Plan:
        return planner.plan(
            named("deepseek-ai--DeepSeek-V4-Flash"),
            "H200",
            vllm_version=version,
            tensor_parallel_size=4,
            kv_cache_dtype="fp8",
            max_model_len=LENGTH,
            max_num_batched_tokens=8192,
            kv_cache_memory_bytes=size_bytes,
        )

    made = start(8 * GIB)
    found = [(g.num_layers, g.block_size, g.page_size_bytes) for g in made.kv_groups]
    assert tuple(found) == groups
    assert (made.num_gpu_blocks, made.max_concurrency) == (blocks, concurrency)
    (condition,) = made.conditions
    assert condition.startswith(f"vllm_version={version}: ")
    small = start(GIB)
    assert small.error is not None
    assert f"({needed_gib} GiB KV cache is needed" in small.error.message


def test_what_only_those_releases_allocate_is_in_the_range() -> None:
    """A published start of 0.26.0 on two H20 had 7.7 GiB, 1.3 less than planned."""

    def rank(version: str) -> RankMemory:
        made = planner.plan(
            named("deepseek-ai--DeepSeek-V4-Flash"),
            "H20",
            vllm_version=version,
            tensor_parallel_size=2,
            kv_cache_dtype="fp8",
            max_model_len=LENGTH,
            max_num_batched_tokens=8192,
            max_num_seqs=32,
        )
        return made.ranks[0]

    earlier, later = rank("0.26.0"), rank("0.29.0")
    assert earlier.available_kv_cache_low_bytes < 7.7 * GIB
    assert 7.7 * GIB < earlier.available_kv_cache_high_bytes
    width = later.available_kv_cache_high_bytes - later.available_kv_cache_low_bytes
    assert width < GIB
