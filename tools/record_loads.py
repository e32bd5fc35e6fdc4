"""Record how many requests vLLM's scheduler runs at once, in KV caches of a known size.

    PYTHON -m tools.record_loads tests/data/loads.json

PYTHON is one that has vLLM; no GPU is needed, and no model: see
`tools/record_scheduler.py`. There are three kinds of cases:

- "at once": all requests arrive together, are prefilled in one step and end together;
- "one by one": their prompts are prefilled in chunks, one after the other;
- "varied": many requests of different lengths, of which at most `requests` run at once,
  and the next starts when one ends.

The cache has about as many blocks as such a load needs, some more or fewer. Written are
the most requests that ran in a step, the most blocks that were in use, how often a
request was preempted, and of varied loads the mean of the blocks in use while as many
requests ran as may. An answer is a token longer than the load says: vLLM never stores
its last one. `tests/planning/test_recorded_loads.py` holds the planner to the same.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import vllm

from tools.record_scheduler import scheduler_of, step

_CASES = {"at once": 100, "one by one": 40, "varied": 60}
_BLOCK = 16
_LONGEST = 8192
_WINDOW = 256
_ENOUGH = 1 << 16
_FULL = {"kind": "full", "block_size": _BLOCK}
_VARIED_REQUESTS = 150


def main() -> None:
    """Record all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    drawn = random.Random(39)

    found = []
    for kind, count in _CASES.items():
        found += [recorded(case(drawn, kind, number)) for number in range(count)]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in found)
    text = f'{{"vllm": "{vllm.__version__}", "cases": [\n{lines}\n]}}\n'
    options.output.write_text(text, encoding="utf-8")


def case(drawn: random.Random, kind: str, number: int) -> dict[str, Any]:
    """Draw a case of a kind; some have windows, others no prefix caching."""
    requests = drawn.randint(2, 20)
    prompt, answer = drawn.randint(40, 3000), drawn.randint(20, 300)
    shared = drawn.choice((0, prompt // 3, prompt * 9 // 10, prompt))
    has_windows, is_caching = number % 4 == 0, number % 5 > 0
    is_shared = is_caching and not has_windows
    lengths = [(prompt, answer)] * requests
    if kind == "varied":
        lengths = [
            (
                drawn.randint(max(shared, prompt // 4, 1), prompt),
                max(1, min(answer, round(drawn.expovariate(3 / answer)))),
            )
            for _ in range(_VARIED_REQUESTS)
        ]
    units = min(shared, prompt - 1) // _BLOCK if is_shared else 0
    each = fmean(one + min(other, answer / 2) for one, other in lengths) / _BLOCK
    if kind != "varied":
        each = -(-(prompt + answer) // _BLOCK)
    whole = units + requests * (each - units)
    blocks = round(
        whole * drawn.choice((0.7, 0.9, 1, 1, 1.1, 1.3)) + drawn.randint(-1, 1)
    )
    blocks = max(blocks, -(-(prompt + answer) // _BLOCK))
    window = {"kind": "window", "block_size": _BLOCK, "kept": _WINDOW}
    return {
        "kind": kind,
        "requests": requests,
        "prompt": prompt,
        "answer": answer,
        "shared": shared,
        "window": _WINDOW if has_windows else 0,
        "caching": is_caching,
        "blocks": blocks * 2 if has_windows else blocks,
        "batched": _ENOUGH if kind == "at once" else drawn.choice((512, 2048)),
        "lengths": lengths,
        "groups": [window, _FULL] if has_windows else [_FULL],
    }


def recorded(drawn: dict[str, Any]) -> dict[str, Any]:
    """Run a case to its end; return it with what was seen."""
    lengths, groups = drawn.pop("lengths"), drawn.pop("groups")
    scheduler, requests = scheduler_of(
        {
            "groups": groups,
            "blocks": drawn["blocks"],
            "batched": drawn["batched"],
            "seqs": drawn["requests"],
            "caching": drawn["caching"],
            "longest": _LONGEST,
            "requests": [
                {
                    "name": str(place),
                    "prompt": prompt,
                    "answer": answer + 1,
                    "shared": min(drawn["shared"], prompt),
                }
                for place, (prompt, answer) in enumerate(lengths)
            ],
        }
    )
    for one in requests.values():
        scheduler.add_request(one)
    pool = scheduler.kv_cache_manager.block_pool
    running, used = [], []

    def see() -> None:
        running.append(len(scheduler.running))
        used.append(drawn["blocks"] - pool.get_num_free_blocks())

    while not all(one.is_finished() for one in requests.values()):
        step(scheduler, see)
    full = [
        n
        for n, at_once in zip(used, running, strict=True)
        if at_once == drawn["requests"]
    ]
    return {
        **drawn,
        "mean_prompt": round(fmean(prompt for prompt, _ in lengths)),
        "mean_answer": round(fmean(answer for _, answer in lengths)),
        "ran_at_once": max(running),
        "most_blocks": max(used),
        "mean_blocks": round(fmean(full or used), 1),
        "preemptions": sum(one.num_preemptions for one in requests.values()),
        "ended": len(requests),
    }


if __name__ == "__main__":
    main()
