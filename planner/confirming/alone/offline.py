"""The `LLM` class: start it, read its figures, let it answer, send it a load.

usage: offline.py TASK.json

Everything it finds out is a line of standard output that begins with "@planner ", a
JSON object with a key "event"; other lines are vLLM's log.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

MARK = "@planner "
METRICS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "usage",
    "vllm:gpu_cache_usage_perc": "usage",
    "vllm:num_preemptions": "preemptions",
}
"""Metrics of vLLM that a load is watched by; of the usage, the older name too."""


def main(task: dict[str, Any]) -> None:
    """Do what the task says, and tell of each step."""
    from vllm import LLM  # noqa: PLC0415 - heavy

    llm = LLM(**task["arguments"])
    _tell("figures", workers=llm.collective_rpc("planner_figures"), engine=_engine(llm))
    if task["prompt"] is not None:
        _tell("generated", **_generate(llm, task["prompt"], task["max_tokens"]))
    if task["load"] is not None:
        _tell("load", **_load(llm, **task["load"]))
    _tell("end")


def _tell(event: str, **values: object) -> None:
    # A line of its own: progress bars leave the cursor behind theirs.
    sys.stdout.write("\n" + MARK + json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def _engine(llm: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    """Return what the client's configuration holds, which the engine wrote back."""
    config = llm.llm_engine.vllm_config
    told = {
        "num_gpu_blocks": config.cache_config.num_gpu_blocks,
        "block_size": config.cache_config.block_size,
        "gpu_memory_utilization": config.cache_config.gpu_memory_utilization,
        "max_model_len": config.model_config.max_model_len,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
    }
    for name in ("kv_cache_size_tokens", "kv_cache_max_concurrency"):
        told[name] = getattr(config.cache_config, name, None)
    return {name: value for name, value in told.items() if value is not None}


def _generate(llm: Any, prompt: list[int], max_tokens: int) -> dict[str, Any]:  # noqa: ANN401
    from vllm import SamplingParams  # noqa: PLC0415 - heavy

    has_tokenizer = not llm.llm_engine.model_config.skip_tokenizer_init
    asked = SamplingParams(max_tokens=max_tokens, detokenize=has_tokenizer)
    answer = llm.generate({"prompt_token_ids": prompt}, asked)[0].outputs[0]
    return {
        "tokens": list(answer.token_ids),
        "text": answer.text if has_tokenizer else "",
    }


def _load(
    llm: Any,  # noqa: ANN401 - vLLM's
    num_requests: int,
    prompt_tokens: int,
    output_tokens: int,
    vocab_size: int,
) -> dict[str, Any]:
    """Send all requests at once and step until the last has ended."""
    from vllm import SamplingParams  # noqa: PLC0415 - heavy

    engine = llm.llm_engine
    draw = random.Random(0)
    begin = time.time()
    for number in range(num_requests):
        # Different beginnings: blocks of a common one would be shared.
        tokens = [draw.randrange(vocab_size) for _ in range(prompt_tokens)]
        asked = SamplingParams(
            max_tokens=output_tokens, ignore_eos=True, detokenize=False
        )
        engine.add_request(f"load-{number}", {"prompt_token_ids": tokens}, asked)
    finished = 0
    readings = 0
    peaks: dict[str, float] = dict.fromkeys(METRICS.values(), 0.0)
    while engine.has_unfinished_requests():
        finished += sum(1 for output in engine.step() if output.finished)
        readings += 1
        for metric in llm.get_metrics():
            name = METRICS.get(metric.name)
            if name is not None:
                peaks[name] = max(peaks[name], float(metric.value))
    told = {"finished": finished, "readings": readings}
    return {**peaks, **told, "seconds": time.time() - begin}


# Workers are spawned, which imports this file again under another name.
if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
