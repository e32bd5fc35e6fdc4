"""Flags as vLLM's own parser reads them, in place."""

from __future__ import annotations

from typing import Any

import pytest

import planner


def args(flags: str) -> dict[str, Any]:
    """Return the engine arguments of a command."""
    return dict(planner.read(f"vllm serve org/m {flags}").engine_args)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("-tp 2 -pp=2", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}),
        ("--max-model-len 8k", {"max_model_len": 8000}),
        ("--max_model_len=8K", {"max_model_len": 8192}),
        ("--max-model-len auto", {"max_model_len": "auto"}),
        ("--gpu-memory-utilization .9", {"gpu_memory_utilization": 0.9}),
        (
            "--enforce-eager --max-num-seqs 4",
            {"enforce_eager": True, "max_num_seqs": 4},
        ),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--enforce-eager true", {"enforce_eager": True}),
        ("-O3", {"optimization_level": 3}),
        ("-O 1", {"optimization_level": 1}),
        ("-O=0", {"optimization_level": 0}),
        ("-O.cudagraph_mode=NONE", {"compilation_config": {"cudagraph_mode": "NONE"}}),
        ("-cc '{\"mode\": 3}'", {"compilation_config": {"mode": 3}}),
        (
            "-cc '{\"mode\": 3}' -cc.cudagraph_mode FULL",
            {"compilation_config": {"mode": 3, "cudagraph_mode": "FULL"}},
        ),
        (
            "--compilation-config.pass_config.fuse_norm_quant True",
            {"compilation_config": {"pass_config": {"fuse_norm_quant": True}}},
        ),
        (
            "--compilation-config.cudagraph_capture_sizes+ 1 "
            "--compilation-config.cudagraph_capture_sizes+ 2",
            {"compilation_config": {"cudagraph_capture_sizes": [1, 2]}},
        ),
        ("--cudagraph-capture-sizes 1 2 4", {"cudagraph_capture_sizes": [1, 2, 4]}),
        ("--max-num-seqs 8 --max-num-seqs 16", {"max_num_seqs": 16}),
        ("--max-lora-rank 32", {"max_lora_rank": 32}),
        ("--kv-cache-memory-bytes 8G", {"kv_cache_memory_bytes": 8 << 30}),
    ],
)
def test_a_flag_is_typed_as_vllm_types_it(flags: str, expected: dict[str, Any]) -> None:
    """Suffixes, switches, lists, tables and their parts."""
    assert args(flags) == expected


def test_what_stands_before_vllm_is_passed_over() -> None:
    """Launchers of all kinds."""
    for before in ("sudo nohup", "uv run", "CUDA_VISIBLE_DEVICES=0 exec", "/opt/bin/"):
        found = planner.read(f"{before} vllm serve org/m".replace("/ vllm", "/vllm"))
        assert found.model == "org/m", before


def test_a_name_that_no_release_knows_is_named_with_the_nearest() -> None:
    """And refused only when it is planned."""
    found = planner.read("vllm serve org/m --max-modle-len 5")

    assert found.unknown == ("--max-modle-len",)
    assert any("--max-model-len" in note for note in found.notes)
    with pytest.raises(planner.PlannerError, match="--max-modle-len"):
        found.plan(gpu="H100")


def test_a_flag_that_is_gone_is_left_out_and_said() -> None:
    """`--swap-space` went with 0.18: the newest release plans without it."""
    found = planner.read("vllm serve Qwen/Qwen3-8B --swap-space 8")

    assert found.plan(gpu="H100").fits
    assert any("--swap-space" in note for note in found.notes)


def test_the_servers_flags_are_kept_in_the_plans_command() -> None:
    """They have no effect on memory, and come back."""
    text = "vllm serve Qwen/Qwen3-8B --port 9000 --enable-auto-tool-choice"
    plan = planner.read(text).plan(gpu="H100")

    assert plan.command() == text
    assert plan.ranks == planner.plan("Qwen/Qwen3-8B", gpu="H100").ranks


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("-tp 2", {"tensor_parallel_size": 4}, "-tp 4"),
        ("--max-model-len=8k", {"max_model_len": 4096}, "--max-model-len=4096"),
        ("--enforce-eager -tp 2", {"enforce_eager": None}, "-tp 2"),
        ("--enforce-eager", {"enforce_eager": False}, "--no-enforce-eager"),
        (
            "--no-enable-prefix-caching",
            {"enable_prefix_caching": True},
            "--enable-prefix-caching",
        ),
        ("-tp 2", {"kv_cache_dtype": "fp8"}, "-tp 2 --kv-cache-dtype fp8"),
        (
            "--cudagraph-capture-sizes 1 2 4 -tp 2",
            {"cudagraph_capture_sizes": [1]},
            "--cudagraph-capture-sizes 1 -tp 2",
        ),
        (
            "--cudagraph-capture-sizes 1 -tp 2",
            {"cudagraph_capture_sizes": [1, 2]},
            "--cudagraph-capture-sizes 1 2 -tp 2",
        ),
        (
            "-cc.mode 3 -tp 2",
            {"compilation_config": {"mode": 0}},
            "-tp 2 --compilation-config '{\"mode\": 0}'",
        ),
    ],
)
def test_a_change_is_written_where_it_belongs(
    text: str, changes: dict[str, Any], expected: str
) -> None:
    """In the form that the text has."""
    found = planner.read(f"vllm serve org/m {text}")

    assert found.text(**changes) == f"vllm serve org/m {expected}"


def test_a_new_flag_gets_a_line_where_flags_have_lines() -> None:
    """With the same indentation."""
    text = "vllm serve org/m \\\n    -tp 2 \\\n    --port 1\n"

    assert planner.read(text).text(max_model_len=4096) == (
        "vllm serve org/m \\\n    -tp 2 \\\n    --port 1 \\\n    --max-model-len 4096\n"
    )
