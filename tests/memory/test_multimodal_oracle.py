"""What vLLM 0.33.0's own code answered for models with encoders, case by case.

`tests/data/multimodal/cases.jsonl`: weights of each pipeline stage, KV cache groups,
blocks and tokens, or its refusal, asked of its code on a machine without a GPU, whose
folders held config.json alone. Of the weights eight bytes for each attention layer are
left out: two scales that the layers keep beside their weights. `budgets.jsonl`: the
encoder's budget and the items of its profile run, with the processors' published
settings beside config.json. A model's `config` stands in a line, or in
`configs.jsonl`, where the catalogue does not have it: sizes as published, but for the
factors of LongRoPE; those of names that begin with "synthetic/" are made up.
"""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE
from planner.memory.estimate import RankMemory
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items
from planner.memory.media.towers import built_towers
from tests.rows import each_row
from tools import configs

DATA = Path(__file__).parents[1] / "data" / "multimodal"

_NOT_REPACKED = "a GPU alone repacks experts of four bits, 0.04 % of the weights"
_EXPERT_MAPS = "maps of experts, 512 bytes in each layer, are not on the GPU's account"
_FP8_SCALES = "scales of FP8 experts and of chunks of attention: 864 bytes of 59 GB"
EXPLAINED = {
    ("moonshotai/Kimi-K2.5", "mm_encoder_tp_mode"): _NOT_REPACKED,
    ("moonshotai/Kimi-K2.6", "language_model_only"): _NOT_REPACKED,
    ("Qwen/Qwen3-VL-30B-A3B-Instruct", "enable_expert_parallel"): _EXPERT_MAPS,
    (
        "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic",
        "language_model_only",
    ): _FP8_SCALES,
}
"""Cases whose weights differ, by model and one of their arguments."""
_INPUT_NORM = 24
"""Scale and shift of pixels: most folders lacked the processor's settings for them."""


def read(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of facts."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def label(case: dict[str, Any]) -> str:
    """Name a case by its model and arguments."""
    given = ",".join(f"{k}={json.dumps(v)}" for k, v in case["engine_args"].items())
    return f"{case['model']}|{given}"


CASES, BUDGETS = read("cases.jsonl"), read("budgets.jsonl")
MENDED = {row["model"]: row["dir"] for row in configs.index() if "mended" in row}
"""Models of which the catalogue has more than the copy that the answers are of."""
CONFIGS = {row["model"]: row["config"] for row in read("configs.jsonl")}


@cache
def folder(config: str, into: Path) -> Path:
    """Write a config.json of a model that the catalogue does not have."""
    place = into / f"model{abs(hash(config))}"
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(config, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where such configs lie."""
    return tmp_path_factory.mktemp("configs")


def planned(case: dict[str, Any], models: Path, **fixed: Any) -> planner.Plan:
    """Plan a case."""
    model = case["model"]
    config = case.get("config") or CONFIGS.get(model)
    if config is not None:
        model = folder(json.dumps(config), models)
    elif model in MENDED:
        model = str(configs.folder(MENDED[model]))
    return planner.plan(
        model,
        gpu="H100",
        entrypoint=case.get("entrypoint", "serve"),
        vllm_version="0.33.0",
        **case["engine_args"],
        **fixed,
    )


def test_there_are_enough() -> None:
    """At least 50 cases of at least 15 models; at most 6 % differ."""
    assert len(CASES) >= 50
    assert len({case["model"] for case in CASES}) >= 15
    assert len(EXPLAINED) <= 0.06 * len(CASES)
    assert len(BUDGETS) >= 40


def _reason(case: dict[str, Any]) -> str | None:
    found = [EXPLAINED.get((case["model"], name)) for name in case["engine_args"]]
    return next((reason for reason in found if reason), None)


@each_row("case", CASES, ids=label)
def test_weights_and_settings(case: dict[str, Any], models: Path) -> None:
    """Every figure to the byte, or vLLM's refusal; explained ones differ."""
    plan, expect = planned(case, models), case["expect"]
    if "refused" in expect:
        assert plan.error is not None
        assert plan.error.kind == "refused"
        assert expect["refused"][:60] in plan.error.message
        return
    resolved = expect["resolved"]
    for name in ("max_model_len", "max_num_batched_tokens", "max_num_seqs", "dtype"):
        assert getattr(plan.resolved, name) == resolved[name]
    assert plan.resolved.block_size == resolved["block_size"]
    sizes = resolved["cudagraph_capture_sizes_n"]
    assert len(plan.resolved.cudagraph_capture_sizes) == sizes
    same = [
        _is_same(plan, rank, (recorded["weights_bytes"], recorded["after_load_bytes"]))
        for rank, recorded in zip(plan.ranks, expect["ranks"], strict=True)
    ]
    # A difference that is explained must still be there: else take it off the list.
    assert all(same) is (_reason(case) is None)


def _is_same(plan: planner.Plan, rank: RankMemory, recorded: tuple[int, int]) -> bool:
    """Whether the weights are those recorded, with or without the norm of pixels.

    MiniCPM-V's resampler brings its positions to the GPU when weights are loaded; the
    recordings loaded none.
    """
    held = rank.weights_bytes
    norm = 0
    if not rank.pp_rank and plan.model is not None:
        for tower in built_towers(plan.model, plan.settings, NEWEST_RELEASE):
            for module in tower.modules:
                if module.name.endswith(".input_norm"):
                    norm += _INPUT_NORM
                if module.name.startswith("resampler.") and "pos_embed" in module.name:
                    tensors = module.tensors(ParallelLayout())
                    held -= sum(t.elements for t in tensors) * 2
    return not {held, held - norm}.isdisjoint(recorded)


@each_row("case", CASES, ids=label)
def test_kv_cache(case: dict[str, Any], models: Path) -> None:
    """Groups, blocks and tokens at two sizes of the KV cache."""
    expect = case["expect"]
    if "refused" in expect:
        assert not expect.get("plans")
        return
    for recorded in expect["plans"]:
        size = recorded["available_kv_bytes"]
        plan = planned(case, models, kv_cache_memory_bytes=size)
        if "error" in recorded:
            assert not plan.fits
            continue
        assert plan.num_gpu_blocks == recorded["num_blocks"]
        assert plan.kv_cache_size_tokens == recorded["kv_cache_tokens"]
    groups = Counter(
        (g["kind"], g["num_layers"], g["block_size"], g["page_size_bytes"])
        for g in expect["kv_groups"]
    )
    assert groups == Counter(
        (g.kind, g.num_layers, g.block_size, g.page_size_bytes) for g in plan.kv_groups
    )


@each_row("case", BUDGETS, ids=label)
def test_encoder_budget(case: dict[str, Any], models: Path) -> None:
    """Budget, modality, items and tokens that MultiModalBudget has, and rows made."""
    expect = case["expect"]
    run = planned(case, models).limiting_rank.profile_run
    assert run is not None
    assert encoder_budget_tokens(run) == expect["encoder_budget_tokens"]
    batch = profiled_items(run)
    if not expect["items"]:
        assert batch is None
        return
    assert batch is not None
    found = (batch.modality, batch.items, batch.tokens_per_item)
    assert found == (expect["modality"], expect["items"], expect["tokens_per_item"])
    if expect["embeddings_per_item"] is not None:
        assert batch.embeddings == batch.items * expect["embeddings_per_item"]
