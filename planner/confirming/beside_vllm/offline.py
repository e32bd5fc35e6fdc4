"""Start vLLM's `LLM` class, read its figures, generate an answer, send it a load.

usage: offline.py TASK.json

Each result is a line of standard output that begins with "@planner ", followed by a
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
"""vLLM's metrics that are read during a load; the usage also by its older name."""


def main(task: dict[str, Any]) -> None:
    """Run the task and report each step."""
    from vllm import LLM  # noqa: PLC0415 - heavy

    llm = LLM(**task["arguments"])
    report(
        "figures",
        workers=llm.collective_rpc("planner_figures"),
        engine=engine_figures(llm.llm_engine.vllm_config),
    )
    if task["prompt"] is not None:
        report("generated", **_generate(llm, task["prompt"], task["max_tokens"]))
    if task["load"] is not None:
        report("load", **_load(llm, **task["load"]))
    report("end")


def report(event: str, **values: object) -> None:
    """Write an event as a line of its own: progress bars leave the cursor in theirs."""
    sys.stdout.write("\n" + MARK + json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def engine_figures(config: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's
    """Return figures from vLLM's configuration, as the engine updated it."""
    figures = {
        "num_gpu_blocks": config.cache_config.num_gpu_blocks,
        "block_size": config.cache_config.block_size,
        "gpu_memory_utilization": config.cache_config.gpu_memory_utilization,
        "max_model_len": config.model_config.max_model_len,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
    }
    for name in ("kv_cache_size_tokens", "kv_cache_max_concurrency"):
        figures[name] = getattr(config.cache_config, name, None)
    return {name: value for name, value in figures.items() if value is not None}


def _generate(llm: Any, prompt: list[int], max_tokens: int) -> dict[str, Any]:  # noqa: ANN401
    from vllm import SamplingParams  # noqa: PLC0415 - heavy

    has_tokenizer = not llm.llm_engine.model_config.skip_tokenizer_init
    sampling = SamplingParams(max_tokens=max_tokens, detokenize=has_tokenizer)
    answer = llm.generate({"prompt_token_ids": prompt}, sampling)[0].outputs[0]
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
    """Send all requests at once and run steps until the last has finished."""
    from vllm import SamplingParams  # noqa: PLC0415 - heavy

    engine = llm.llm_engine
    rng = random.Random(0)
    # Different prefixes: the blocks of a common prefix would be shared. All are made
    # first, so that they arrive together.
    prompts = [
        [rng.randrange(vocab_size) for _ in range(prompt_tokens)]
        for _ in range(num_requests)
    ]
    sampling = SamplingParams(
        max_tokens=output_tokens, ignore_eos=True, detokenize=False
    )
    begin = time.perf_counter()
    for number, tokens in enumerate(prompts):
        engine.add_request(f"load-{number}", {"prompt_token_ids": tokens}, sampling)
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
    counts = {"finished": finished, "readings": readings}
    return {**peaks, **counts, "seconds": time.perf_counter() - begin}


# Workers are spawned, which imports this file again by another name.
if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
