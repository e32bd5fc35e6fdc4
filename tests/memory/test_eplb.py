"""enable_eplb: copies of experts, and what moving experts keeps."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import PlannerError, UnknownArchitecture
from planner.memory.lines.eplb import balancing_bytes
from planner.models.caches import AttentionLayer
from planner.models.experts import FusedMoE
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture, gpu

FACTS = json.loads(
    (Path(__file__).parents[1] / "data" / "eplb.json").read_text(encoding="utf-8")
)
SHARED: dict[str, Any] = {
    "tensor_parallel_size": 4,
    "enable_expert_parallel": True,
    "enable_eplb": True,
}


@pytest.mark.parametrize("fact", FACTS, ids=lambda f: f"{f['model']} {f['redundant']}")
def test_copies_are_weights_like_others(fact: dict[str, Any], tmp_path: Path) -> None:
    """Bytes of a rank of four on an H100, asked of vLLM 0.33.0's own code.

    Its total leaves out where experts lie, 4 bytes for each of a layer's, and counts
    two numbers of an attention layer that lie in CPU memory, 4 bytes each.
    """
    (tmp_path / "config.json").write_text(json.dumps(fact["config"]))
    config = {"num_redundant_experts": fact["redundant"]}
    plan = planner.plan(tmp_path, gpu=gpu(), eplb_config=config, **SHARED)
    kinds = [plan.model.layer_kinds[index] for index in plan.model.layers]
    experts = [
        module.num_experts + fact["redundant"]
        for kind in kinds
        for module in kind.modules
        if isinstance(module, FusedMoE)
    ]
    attention = [c for k in kinds for c in k.caches if isinstance(c, AttentionLayer)]
    in_cpu_memory, maps = 2 * 4 * len(attention), 4 * sum(experts)
    assert plan.ranks[0].weights_bytes == fact["weights_bytes"] + maps - in_cpu_memory


def test_tables_grow_with_experts_and_steps() -> None:
    """128 experts and 16 copies in 2 layers, a window of 10 steps, four ranks.

    Where experts lie: 8 x (144 + 128 x 1,024 + 2 x 128) + 4 x 144 a layer. Loads: 10 x
    2 x 144 x 4. One layer: 36 experts of 3 x 2,048 x 768 values of 2 bytes.
    """
    model = architecture({**QWEN3_MOE, "num_hidden_layers": 2})
    layout = ParallelLayout(
        tensor_parallel_size=4,
        enable_expert_parallel=True,
        enable_eplb=True,
        num_redundant_experts=16,
    )
    parts = tuple(balancing_bytes(model, layout, "bfloat16", 10).values())
    tables = 2 * (8 * (144 + 128 * 1024 + 2 * 128) + 4 * 144)
    assert parts == (tables, 10 * 2 * 144 * 4, 36 * 3 * 2048 * 768 * 2)


def test_without_it_nothing_is_kept() -> None:
    """Expert parallelism alone moves nothing."""
    layout = ParallelLayout(tensor_parallel_size=4, enable_expert_parallel=True)
    assert balancing_bytes(architecture(QWEN3_MOE), layout, "bfloat16", 1000) == {}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"enable_eplb": True}, "enable_expert_parallel must be True to use EPLB."),
        (
            {"enable_eplb": True, "enable_expert_parallel": True},
            "EPLB requires tensor, prefill-context, or data parallelism, but got TP=1",
        ),
        (
            {"eplb_config": {"num_redundant_experts": 4}},
            "num_redundant_experts is set to 4 but EPLB is not enabled.",
        ),
        (
            {**SHARED, "eplb_config": {"num_redundant_experts": 3}},
            "EPLB currently only supports even distribution of experts across ranks. "
            "Got 131 experts and 4 EP ranks.",
        ),
    ],
)
def test_what_vllm_refuses(asked: dict[str, Any], words: str) -> None:
    """In its words."""
    plan = planner.plan(architecture(QWEN3_MOE), gpu=gpu(), **asked)
    assert words in str(plan.error)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"vllm_version": "0.30.0"}, "0.30.0"),
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size"),
        ({"enable_lora": True}, "enable_lora"),
    ],
)
def test_what_is_not_certain_is_named(more: dict[str, Any], name: str) -> None:
    """The message names enable_eplb and the reason."""
    with pytest.raises(UnknownArchitecture, match=f"enable_eplb.*{name}"):
        planner.plan(architecture(QWEN3_MOE), gpu=gpu(), **SHARED, **more)


@pytest.mark.parametrize("config", [{"window_size": 0}, {"windows": 3}])
def test_a_setting_that_cannot_be_is_refused(config: dict[str, Any]) -> None:
    """Numbers from 1, under names that there are."""
    with pytest.raises(PlannerError, match="window"):
        planner.plan(architecture(LLAMA_8B), gpu=gpu(), eplb_config=config)
