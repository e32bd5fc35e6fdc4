"""Memory that PyTorch does not know of."""

from dataclasses import replace

import pytest

from planner.engine.layout import ParallelLayout
from planner.memory.lines.calibration import Fitted
from planner.memory.lines.non_torch import (
    combined,
    fused_all_reduce_bytes,
    line,
    part_names,
)
from planner.units import GIB, MIB
from tests.configs import gpu
from tests.runs import run

_TWO = ParallelLayout(tensor_parallel_size=2)


def test_the_parts_of_a_start() -> None:
    """One GPU: modules; where the estimate of graphs is counted, its residue."""
    assert part_names(run()) == ("modules, hopper",)
    older = run(version="0.19.0", uses_v2_runner=False, capture_sizes=(1,))
    assert part_names(older) == ("modules, hopper", "graph profiling")
    runner = part_names(run(version="0.23.0", uses_v2_runner=True, capture_sizes=(1,)))
    assert runner == ("modules, hopper",)
    ada = gpu(compute_capability=(8, 9))
    assert part_names(run(version="0.26.0", gpu=ada)) == ("modules, other",)
    newer = part_names(run(version="0.27.0", gpu=ada))
    assert newer == ("modules, other, 0.27 and later",)


def test_what_one_card_holds_outside_pytorch_is_what_logs_of_027_say() -> None:
    """RTX 4090: 12.78 GiB consumed, 12.49 of weights and 0.17 of buffers."""
    ada = line(run(version="0.27.1", gpu=gpu(compute_capability=(8, 9))))
    assert abs(ada.size_bytes / GIB - 0.12) < 0.03
    assert ada.high_bytes - ada.low_bytes < 0.3 * GIB


def test_several_ranks_hold_nccl_and_older_releases_its_start() -> None:
    """Up to 0.10 NCCL started after vLLM's first look at the memory."""
    assert "NCCL, NVSwitch, two ranks" in part_names(run(layout=_TWO))
    # Two and four ranks were measured in later releases, eight in these.
    older = part_names(run(version="0.10.2", layout=_TWO))
    assert "start of NCCL beside the budget" in older
    eight = ParallelLayout(tensor_parallel_size=8)
    eight_then = run(version="0.10.2", layout=eight)
    assert "start of NCCL, NVSwitch" in part_names(eight_then)
    two_then = run(version="0.10.2", layout=_TWO)
    assert line(two_then).size_bytes < line(eight_then).size_bytes - GIB // 2
    ampere = run(layout=_TWO, gpu=gpu(compute_capability=(8, 6)))
    assert "NCCL, other" in part_names(ampere)


def test_unified_memory_counts_others() -> None:
    """GB10: host memory of the start counts, and a model with encoders has more."""
    device = gpu(compute_capability=(12, 1))
    spark = run(gpu=device, uses_v2_runner=False)
    assert "unified memory, text only" in part_names(spark)
    assert line(spark).high_bytes - line(spark).low_bytes > GIB
    images = replace(spark, towers=((object(), spark.layout),))
    assert "unified memory, with encoders" in part_names(images)
    assert line(images).size_bytes > line(spark).size_bytes + 2 * GIB


@pytest.mark.parametrize(
    ("version", "ranks", "expected"),
    [
        # Each of three buffers takes 512 MiB or a multiple.
        ("0.19.0", 2, 3 * 512 * MIB),
        ("0.19.0", 4, 3 * 512 * MIB),
        ("0.24.0", 2, 3 * 512 * MIB),
        # Multicast's workspace, and TRT-LLM's for quantised patterns.
        ("0.25.1", 2, (1 + 3) * 512 * MIB),
        # Three slots of two stages of 64 MiB are 384 MiB, in blocks of 512 MiB.
        ("0.26.0", 2, 512 * MIB),
        ("0.33.0", 2, 512 * MIB),
        ("0.33.0", 4, 512 * MIB),
        ("0.16.0", 2, 0),
        ("0.33.0", 3, 0),
    ],
)
def test_buffers_of_the_fused_all_reduce(
    version: str, ranks: int, expected: int
) -> None:
    """Hopper: messages up to 64, 2 and 0.5 MiB at two, four and eight ranks."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    assert fused_all_reduce_bytes(run(version=version, layout=layout)) == expected


@pytest.mark.parametrize(
    ("version", "capability", "expected"),
    [
        # 3 x 2 x 128 MiB, the messages of an all-reduce without a norm.
        ("0.33.0", (10, 0), 1024 * MIB),
        ("0.32.0", (10, 0), 512 * MIB),
        # 3 x 2 x 64 MiB, and from 0.33 on 3 x 2 x 128 MiB.
        ("0.29.0", (10, 3), 512 * MIB),
        ("0.33.0", (10, 3), 1024 * MIB),
    ],
)
def test_all_reduce_without_a_norm_widens_the_workspace(
    version: str, capability: tuple[int, int], expected: int
) -> None:
    """Eight ranks of B200 and B300."""
    layout = ParallelLayout(tensor_parallel_size=8)
    eight = run(version=version, layout=layout, gpu=gpu(compute_capability=capability))
    assert fused_all_reduce_bytes(eight) == expected


def test_eager_mode_and_other_generations_do_not_fuse() -> None:
    """No buffers."""
    assert fused_all_reduce_bytes(run(layout=_TWO, enforce_eager=True)) == 0
    ada = run(layout=_TWO, gpu=gpu(compute_capability=(8, 9)))
    assert fused_all_reduce_bytes(ada) == 0


def test_two_ranks_of_019_on_hopper_take_what_their_logs_say() -> None:
    """2.07 to 2.11 GiB, 0.25 with one rank."""
    one = run(version="0.19.0", uses_v2_runner=False)
    two = run(version="0.19.0", uses_v2_runner=False, layout=_TWO)
    assert abs(line(one).size_bytes / GIB - 0.25) < 0.02
    assert abs(line(two).size_bytes / GIB - 2.09) < 0.03


def test_independent_parts_add_their_ranges_in_squares() -> None:
    """3 and 4 above make 5."""
    part = {"size_bytes": 10, "low_bytes": 10, "starts": 7}
    total = combined([Fitted(**part, high_bytes=13), Fitted(**part, high_bytes=14)], 1)
    assert (total.size_bytes, total.low_bytes, total.high_bytes) == (21, 21, 26)
