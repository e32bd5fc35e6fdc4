"""Which CUDA graphs compilation_config and optimization_level ask for."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.releases import NEWEST, Release, number_of
from planner.engine.settings import settings_from
from planner.errors import PlannerError, Refused
from planner.memory.compilation import Compilation, GraphMode, resolve_compilation
from tests.configs import LLAMA_8B, architecture, gpu
from tests.plans import LLAMA_8B as LLAMA


def compiled(version: str = NEWEST, **asked: Any) -> Compilation:
    """Resolve the arguments for Llama-3.1-8B on an H100."""
    release = Release(number_of(version))
    return resolve_compilation(
        settings_from(asked), architecture(LLAMA_8B), gpu(), release
    )


@pytest.mark.parametrize(
    ("level", "mode", "is_compiled"),
    [
        (0, GraphMode.NONE, False),
        (1, GraphMode.PIECEWISE, True),
        (2, GraphMode.FULL_AND_PIECEWISE, True),
        (3, GraphMode.FULL_AND_PIECEWISE, True),
        (None, GraphMode.FULL_AND_PIECEWISE, True),
    ],
)
def test_a_level_decides_graphs_and_compilation(
    level: int | None, mode: GraphMode, is_compiled: bool
) -> None:
    """-O0 neither compiles nor captures, -O1 captures pieces, -O2 is the default."""
    found = compiled(optimization_level=level)
    assert (mode, is_compiled) == (found.graph_mode, found.is_compiled)


@pytest.mark.parametrize("mode", list(GraphMode))
def test_a_mode_is_taken_in_any_case(mode: GraphMode) -> None:
    """Compiled as by default, every mode stays."""
    config = {"cudagraph_mode": str(mode).lower()}
    assert mode is compiled(compilation_config=config).graph_mode


@pytest.mark.parametrize(
    ("asked", "version", "kept"),
    [
        ("FULL_AND_PIECEWISE", NEWEST, GraphMode.FULL_DECODE_ONLY),
        ("FULL_AND_PIECEWISE", "0.29.0", GraphMode.NONE),
        ("PIECEWISE", NEWEST, GraphMode.NONE),
        ("FULL_DECODE_ONLY", "0.29.0", GraphMode.FULL_DECODE_ONLY),
    ],
)
def test_without_compilation_no_pieces_are_captured(
    asked: str, version: str, kept: GraphMode
) -> None:
    """Whole decode steps stay from 0.30.0 on."""
    config = {"mode": 0, "cudagraph_mode": asked}
    assert kept is compiled(version, compilation_config=config).graph_mode


def test_eager_starts_capture_nothing_whatever_is_asked() -> None:
    """enforce_eager wins."""
    config = {"cudagraph_mode": "FULL"}
    found = compiled(enforce_eager=True, compilation_config=config)
    assert GraphMode.NONE is found.graph_mode


def test_sizes_may_come_with_compilation_config() -> None:
    """Or with arguments of their own, not with both."""
    config = {"cudagraph_capture_sizes": [1, 8]}
    assert (1, 8) == compiled(compilation_config=config).capture_sizes
    with pytest.raises(Refused) as refusal:
        compiled(compilation_config=config, cudagraph_capture_sizes=(1, 2))
    assert (
        "cudagraph_capture_sizes and compilation_config.cudagraph_capture_sizes are "
        "mutually exclusive"
    ) == str(refusal.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"bogus": 1}, "1 validation error for CompilationConfig\nbogus"),
        ({"mode": "fast"}, "Invalid compilation mode: fast. Valid modes are: NONE"),
        ({"mode": 9}, "Input should be 0, 1, 2 or 3"),
        ({"cudagraph_mode": "HALF"}, "'HALF'"),
        ({"cudagraph_mode": 7}, "Input should be 0, 1, 2, (2, 0) or (2, 1)"),
        ({"cudagraph_capture_sizes": "1,2"}, "Input should be a valid list"),
    ],
)
def test_what_vllm_refuses_is_refused_in_its_words(
    config: dict[str, Any], words: str
) -> None:
    """The beginning of its message."""
    with pytest.raises(Refused) as refusal:
        compiled(compilation_config=config)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"pass_config": {"fuse_norm_quant": True}}, []),
        ({"mode": 1}, []),
        ({"custom_ops": ["all"]}, ["compilation_config.custom_ops"]),
        ({"cudagraph_mm_encoder": True}, ["compilation_config.cudagraph_mm_encoder"]),
        ({"cudagraph_mm_encoder": False}, []),
        (
            {"pass_config": {"fi_allreduce_fusion_max_size_mb": 8}},
            ["compilation_config.pass_config.fi_allreduce_fusion_max_size_mb"],
        ),
    ],
)
def test_what_is_not_counted_is_named(config: dict[str, Any], words: list[str]) -> None:
    """Fusion passes keep nothing; what keeps something is a condition of the plan."""
    found = planner.plan(LLAMA, compilation_config=config).conditions
    assert words == [one.partition("=")[0] for one in found]


def test_the_fused_all_reduce_can_be_switched_off() -> None:
    """Its buffers of 514 MiB go with the pass."""
    off = {"pass_config": {"fuse_allreduce_rms": False}}
    with_it, without = (
        planner.plan(LLAMA, tensor_parallel_size=2, **given)
        for given in ({}, {"compilation_config": off})
    )
    assert "fused all-reduce" in with_it.ranks[0].line("non-torch").why
    assert "fused all-reduce" not in without.ranks[0].line("non-torch").why


def test_a_key_that_is_gone_is_refused_as_vllm_does() -> None:
    """use_inductor went with 0.12.0."""
    config = {"use_inductor": False}
    with pytest.raises(Refused, match="Unexpected keyword argument"):
        compiled(compilation_config=config)
    assert compiled("0.11.0", compilation_config=config)


def test_text_is_read_as_json_and_bad_text_is_said_to_be_bad() -> None:
    """As the command line hands it on."""
    text = '{"cudagraph_mode": "PIECEWISE"}'
    assert GraphMode.PIECEWISE is compiled(compilation_config=text).graph_mode
    with pytest.raises(PlannerError, match="is not JSON"):
        compiled(compilation_config="{cudagraph_mode: 1")
    with pytest.raises(PlannerError, match="names and values are needed"):
        compiled(compilation_config=[1])


def graphs_line(**asked: Any) -> str:
    """Return the arithmetic of the graphs of Llama-3.1-8B on an H100."""
    plan = planner.plan(LLAMA, gpu="H100", max_num_seqs=16, **asked)
    return next(x.why for x in plan.ranks[0].lines if x.name == "CUDA graphs")


def test_the_line_counts_the_graphs_of_each_mode() -> None:
    """Sizes 1, 2, 4, 8, 16, 24, 32: seven; decode steps of up to 16 requests: five."""
    assert "7 piecewise graphs" in graphs_line()
    assert "4 full graphs" in graphs_line()  # the first full one is the sample itself
    pieces = {"cudagraph_mode": "PIECEWISE"}
    assert "7 piecewise graphs" in graphs_line(compilation_config=pieces)
    assert "+ 0 full graphs" in graphs_line(compilation_config=pieces)
    whole = {"cudagraph_mode": "FULL_DECODE_ONLY"}
    assert "0 piecewise graphs" in graphs_line(compilation_config=whole)
    assert "4 full graphs" in graphs_line(compilation_config=whole)
    assert "cudagraph_mode NONE" in graphs_line(optimization_level=0)


def test_whole_mixed_batches_are_captured_where_the_kernel_can() -> None:
    """FlashAttention 3 on Hopper can; FlashInfer cannot, and keeps decode steps."""
    config = {"cudagraph_mode": "FULL"}
    taken = planner.plan(LLAMA, gpu="H100", compilation_config=config)
    other = planner.plan(
        LLAMA,
        gpu="H100",
        compilation_config=config,
        attention_backend="FLASHINFER",
    )
    assert taken.resolved is not None
    assert other.resolved is not None
    assert "FULL" == taken.resolved.cudagraph_mode
    assert "FULL_AND_PIECEWISE" == other.resolved.cudagraph_mode
