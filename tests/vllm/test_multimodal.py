"""A tiny model that listens: weights and encoder budget of vLLM's CPU build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import planner
from planner.confirming.installation import PYTHON_VARIABLE
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items
from tests.vllm.conftest import TINY

ASKED: dict[str, Any] = {
    "dtype": "float32",
    "gpu_memory_utilization": 0.2,
    "enforce_eager": True,
    "max_model_len": 2048,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 2048,
    "limit_mm_per_prompt": {"audio": {"count": 2, "length": 16000}},
}
START = """
import json, sys
from vllm import LLM
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.encoder_budget import MultiModalBudget

llm = LLM(model=sys.argv[1], load_format="dummy", **json.loads(sys.argv[2]))
core = llm.llm_engine.engine_core.engine_core
worker = core.model_executor.driver_worker.worker
model = worker.model_runner.get_model()
budget = MultiModalBudget(llm.llm_engine.vllm_config, MULTIMODAL_REGISTRY)
made = budget.processor.get_dummy_mm_inputs(mm_counts={"audio": 1}, cache=None)
held = {t.data_ptr(): t.nbytes for t in (*model.parameters(), *model.buffers())}
# The CPU build packs the language model's layers and drops the weights themselves.
packed = [m for m in model.modules() if hasattr(m, "output_partition_sizes")
          and m.weight.numel() == 0]
print("ANSWER", json.dumps({
    "weights_bytes": sum(held.values()) + sum(
        4 * m.input_size_per_partition * sum(m.output_partition_sizes)
        for m in packed),
    "rows": [p.get_num_embeds() for p in made["mm_placeholders"]["audio"]],
    "budget": core.scheduler.max_num_encoder_input_tokens,
    "tokens": dict(budget.mm_max_toks_per_item),
    "items": dict(budget.mm_max_items_per_batch),
}))
"""
WORDS = 1000
MARKS = ("<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>", "<|endoftext|>")


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of words and of the marks around sounds."""
    marks = [
        {
            "id": WORDS + number,
            "content": mark,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, mark in enumerate(MARKS)
    ]
    words = {f"word{number}": number for number in range(WORDS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": marks,
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "word0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": "{{ 1 }}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def answer(folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """Start vLLM in a process of its own, and ask it."""
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], "-c", START, str(folder), json.dumps(ASKED)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **env},
    )
    lines = [x for x in done.stdout.splitlines() if x.startswith("ANSWER ")]
    assert lines, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("ANSWER "))
    return found


def test_a_model_that_listens(release, tmp_path) -> None:
    """The same bytes, and sounds of 750 tokens: 30 seconds, as vLLM counts them.

    A step of 2,048 tokens holds 2,048 // 750 = 2 of them.
    """
    shutil.copytree(TINY / "sounds", tmp_path, dirs_exist_ok=True)
    write_tokenizer(tmp_path)
    plan = planner.plan(
        tmp_path, gpu="CPU", vllm_version=release, entrypoint="llm", **ASKED
    )
    env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}

    found = answer(tmp_path, env)

    rank = plan.limiting_rank
    assert rank.profile_run is not None
    assert found["weights_bytes"] == rank.weights_bytes
    assert found["budget"] == encoder_budget_tokens(rank.profile_run) == 2048
    batch = profiled_items(rank.profile_run)
    assert batch is not None
    assert found["tokens"] == {batch.modality: batch.tokens_per_item} == {"audio": 750}
    # A second of sound, padded with silence: 100 steps, halved twice.
    assert found["rows"] == [batch.embeddings // batch.items] == [25]
    assert found["items"] == {"audio": batch.items} == {"audio": 2}
